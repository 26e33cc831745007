//! The system's lock table: who holds the lock of a file, without taking it, not for an instant. A prober that held a
//! lock would make a starter lose.

use std::io;
use std::path::Path;

use super::folder::{Folder, Standing};

/// Who holds the lock of a file, as far as the system's lock table tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Whether somebody does.
    pub is_held: bool,
    /// The process that took it. It may have died and left the descriptor to a child.
    pub pid: Option<u32>,
}

/// Looks the lock of `name` up in the system's lock table. None if the table cannot tell.
///
/// # Errors
/// If the name cannot be looked at.
pub fn lock_holder(folder: &Folder, name: &str) -> io::Result<Option<Holder>> {
    let Some(standing) = folder.look(name)? else {
        return Ok(Some(Holder { is_held: false, pid: None }));
    };
    let table = std::fs::read_to_string(Path::new("/proc/locks"));
    let mounts = || std::fs::read_to_string(Path::new("/proc/self/mountinfo")).unwrap_or_default();
    Ok(table.ok().and_then(|table| find(&table, mounts, &standing)))
}

/// A line of the table: `1: FLOCK  ADVISORY  WRITE 1234 08:01:131 0 EOF`, device numbers in hexadecimal; a waiter's has
/// `->` after the number.
fn find(table: &str, mounts: impl FnOnce() -> String, standing: &Standing) -> Option<Holder> {
    let (major, minor) = device_parts(standing.device);
    let mut is_unsure = false;
    for line in table.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", pid, place, ..] = words.as_slice() else {
            continue;
        };
        let mut place = place.split(':');
        let hex = |text: Option<&str>| text.and_then(|text| u64::from_str_radix(text, 16).ok());
        let device = (hex(place.next()), hex(place.next()));
        let inode = place.next().and_then(|inode| inode.parse::<u64>().ok());
        if inode != Some(standing.inode) {
            continue;
        }
        if device == (Some(major), Some(minor)) {
            return Some(Holder { is_held: true, pid: pid.parse().ok() });
        }
        is_unsure = true;
    }
    // The same inode number elsewhere is usually another file. But some file systems (btrfs, overlays) show another device
    // number to stat than in the table; theirs is not among the mounts, whose numbers are the table's.
    let is_certain = !is_unsure || is_mounted(&mounts(), major, minor);
    is_certain.then_some(Holder { is_held: false, pid: None })
}

/// Whether a file system with this device number is mounted: `36 35 98:0 /mnt1 /mnt2 rw ...`.
fn is_mounted(mounts: &str, major: u64, minor: u64) -> bool {
    let device = format!("{major}:{minor}");
    mounts.lines().any(|line| line.split(' ').nth(2) == Some(&device))
}

#[cfg(target_os = "linux")]
fn device_parts(device: u64) -> (u64, u64) {
    (nix::sys::stat::major(device), nix::sys::stat::minor(device))
}

#[cfg(not(target_os = "linux"))]
fn device_parts(device: u64) -> (u64, u64) {
    (device >> 24, device & 0xff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::folder::Kind;

    const LOCK_NAME: &str = "a.lock";

    const TABLE: &str = "1: FLOCK  ADVISORY  WRITE 1234 08:01:131 0 EOF\n\
                         1: -> FLOCK  ADVISORY  WRITE 99 08:01:131 0 EOF\n\
                         2: POSIX  ADVISORY  WRITE 7 08:01:132 0 EOF\n\
                         3: FLOCK  ADVISORY  READ 8 08:01:133 0 EOF\n\
                         4: FLOCK  ADVISORY  WRITE 9 00:2f:134 0 EOF\n";

    #[test]
    fn the_table_is_read_by_device_and_inode() {
        let at =
            |inode| Standing { kind: Kind::File, uid: 0, mode: 0o600, device: 0x801, inode, bytes: 0, modified_s: 0 };
        let free = Some(Holder { is_held: false, pid: None });
        let find = |inode, mounts: &str| super::find(TABLE, || mounts.to_owned(), &at(inode));
        assert_eq!(find(131, ""), Some(Holder { is_held: true, pid: Some(1234) }));
        assert_eq!(find(132, ""), free, "another kind of lock");
        assert_eq!(find(133, ""), free, "a shared lock is no owner");
        assert_eq!(find(135, ""), free);
        let here = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 1 0:47 / /tmp rw - tmpfs tmpfs rw\n";
        assert_eq!(find(134, here), free, "the table knows files here by this device, so that is another file");
        let elsewhere = "22 1 0:30 / / rw - btrfs /dev/sda1 rw\n";
        assert_eq!(find(134, elsewhere), None, "the table may know files here by another device");
    }

    #[test]
    fn the_real_table_shows_a_held_lock_and_looking_leaves_it_alone() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::open(home.path()).unwrap();
        assert_eq!(lock_holder(&folder, LOCK_NAME).unwrap(), Some(Holder { is_held: false, pid: None }));
        let file = folder.open_or_create(LOCK_NAME).unwrap();
        fs4::FileExt::try_lock(&file).unwrap();
        let holder = lock_holder(&folder, LOCK_NAME).unwrap();
        assert_eq!(holder, Some(Holder { is_held: true, pid: Some(std::process::id()) }));
        drop(file);
        assert_eq!(lock_holder(&folder, LOCK_NAME).unwrap(), Some(Holder { is_held: false, pid: None }));
    }
}
