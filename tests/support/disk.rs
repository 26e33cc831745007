//! State roots on file systems of their own: small ones that can be filled to the last page, and read-only ones.
//!
//! Only root can mount. Elsewhere a test says so aloud and checks nothing; the gate runs as root.

use super::root::Root;
use super::{SOON, wait_until};
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::ops::Deref;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// A root that is a file system of its own, in memory.
pub(crate) struct DiskRoot {
    // In this order: the root shuts its broker down before the file system goes.
    root: Root,
    disk: Disk,
}

struct Disk {
    folder: PathBuf,
    options: String,
}

impl DiskRoot {
    /// A new root of so many KiB; `None` if we may not mount.
    pub(crate) fn new(kib: u32) -> Option<DiskRoot> {
        let root = Root::new();
        let disk = Disk { folder: root.path(), options: format!("size={kib}k,mode=700") };
        fs::create_dir(&disk.folder).expect("the folder is new");
        if let Err(error) = disk.mount(MsFlags::empty()) {
            eprintln!("NOT CHECKED: a file system cannot be mounted here: {error}");
            fs::remove_dir(&disk.folder).expect("it is empty");
            std::mem::forget(disk);
            return None;
        }
        Some(DiskRoot { root, disk })
    }

    /// Writes until nothing fits, and gives `spare` bytes back.
    pub(crate) fn fill_but(&self, spare: u64) {
        let mut options = OpenOptions::new();
        let mut filler: File =
            options.append(true).create(true).mode(0o600).open(self.filler()).expect("it was not full yet");
        let page = vec![1; 4096];
        let refused = loop {
            if let Err(error) = filler.write_all(&page) {
                break error;
            }
        };
        assert_eq!(refused.kind(), ErrorKind::StorageFull);
        let length = filler.metadata().expect("it is open").len();
        filler.set_len(length.saturating_sub(spare)).expect("it is open for writing");
    }

    /// There is room again.
    pub(crate) fn free(&self) {
        fs::remove_file(self.filler()).expect("it was filled");
    }

    /// From now on nothing can be written, or again it can.
    pub(crate) fn set_read_only(&self, read_only: bool) {
        let flags = if read_only { MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY } else { MsFlags::MS_REMOUNT };
        // Who was shut down says so a moment before its last file is closed.
        wait_until(SOON, "the last writer to leave", || match self.disk.mount(flags) {
            Err(Errno::EBUSY) => false,
            mounted => mounted.map(|()| true).expect("it was mounted"),
        });
    }

    fn filler(&self) -> PathBuf {
        self.disk.folder.join("filler")
    }
}

impl Deref for DiskRoot {
    type Target = Root;

    fn deref(&self) -> &Root {
        &self.root
    }
}

impl Disk {
    fn mount(&self, flags: MsFlags) -> nix::Result<()> {
        mount(Some("tmpfs"), &self.folder, Some("tmpfs"), flags, Some(self.options.as_str()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A test that failed may have left processes in it.
        let _ = umount2(&self.folder, MntFlags::MNT_DETACH);
        // The root could not be removed with the rest of its test's folder.
        drop(fs::remove_dir(&self.folder));
        drop(self.folder.parent().map(fs::remove_dir));
    }
}
