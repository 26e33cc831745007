//! What kind of file system a folder is on, and how much room there is. Looks only.

use std::io;

use super::folder::Folder;

/// How long what is written there lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    /// As long as the disk.
    BeyondReboot,
    /// Until the machine restarts: the file system is in memory.
    UntilReboot,
}

/// Whether the folder's file system outlives a restart of the machine.
///
/// # Errors
/// What the system answers.
#[cfg(target_os = "linux")]
pub fn lasts(folder: &Folder) -> io::Result<Lasts> {
    use nix::sys::statfs::{FsType, TMPFS_MAGIC, fstatfs};
    const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);
    let kind = fstatfs(folder)?.filesystem_type();
    Ok(if kind == TMPFS_MAGIC || kind == RAMFS_MAGIC { Lasts::UntilReboot } else { Lasts::BeyondReboot })
}

/// Whether the folder's file system outlives a restart of the machine. Here no usual one is in memory.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn lasts(_: &Folder) -> io::Result<Lasts> {
    Ok(Lasts::BeyondReboot)
}

/// Bytes that this user can still write there.
///
/// # Errors
/// What the system answers.
#[cfg_attr(target_os = "linux", expect(clippy::useless_conversion, reason = "the counts have other widths elsewhere"))]
pub fn free_bytes(folder: &Folder) -> io::Result<u64> {
    let room = nix::sys::statvfs::fstatvfs(folder)?;
    Ok(u64::from(room.blocks_available()).saturating_mul(u64::from(room.fragment_size())))
}

/// Whether this user may make files in the folder: not where its file system is mounted read-only, whatever the modes say.
///
/// # Errors
/// What the system answers; `EROFS` for a read-only file system.
pub fn writable(folder: &Folder) -> io::Result<()> {
    use nix::fcntl::AtFlags;
    use nix::unistd::{AccessFlags, faccessat};
    Ok(faccessat(folder, ".", AccessFlags::W_OK | AccessFlags::X_OK, AtFlags::AT_EACCESS)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn every_mounted_file_system_is_judged_by_its_kind() {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        // The last one mounted at a place is the one that shows.
        let places: std::collections::BTreeMap<&str, &str> = mounts
            .lines()
            .filter_map(|line| {
                let mut words = line.split(' ').skip(1);
                Some((words.next()?, words.next()?))
            })
            .collect();
        let mut judged = 0;
        for (place, kind) in places {
            let expected = match kind {
                "tmpfs" | "ramfs" => Lasts::UntilReboot,
                "ext4" | "xfs" | "btrfs" | "overlay" => Lasts::BeyondReboot,
                _ => continue,
            };
            if let Ok(folder) = Folder::open(std::path::Path::new(place)) {
                assert_eq!(lasts(&folder).unwrap(), expected, "{place} ({kind})");
                judged += 1;
            }
        }
        assert!(judged > 0, "no known file system is mounted");
    }

    #[test]
    fn room_is_told_in_bytes() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::open(home.path()).unwrap();
        assert!(free_bytes(&folder).unwrap() > 0);
        writable(&folder).unwrap();
    }
}
