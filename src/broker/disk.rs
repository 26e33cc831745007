//! The disk that a broker's ledger lies on. In a test build each call that changes it passes a point; in a release build it is the ledger's
//! own disk and nothing else. Tidy refuses another disk for writing in this crate.

use ostler_ledger::storage::Disk;
use std::path::Path;

/// The storage of a broker's ledger.
#[cfg(not(feature = "testing"))]
pub type LedgerDisk = Disk;
/// The storage of a broker's ledger.
#[cfg(feature = "testing")]
pub type LedgerDisk = pointed::Pointed;

/// The folders of the ledger of the state root that lies here.
pub(super) fn disk(root: &Path) -> LedgerDisk {
    let disk = Disk::new(root.join("ledger"), root.join("quarantine"));
    #[cfg(feature = "testing")]
    let disk = pointed::Pointed::on(disk);
    disk
}

#[cfg(feature = "testing")]
mod pointed {
    use crate::os::fail::{Point, point};
    use ostler_ledger::Storage;
    use ostler_ledger::storage::{Access, Disk, Folder, LockError, Name, Seen, WriterLock};
    use std::fs;
    use std::io;
    use std::time::Duration;

    /// The disk with a point behind each change.
    #[derive(Debug)]
    pub struct Pointed(Disk);

    impl Pointed {
        pub(super) fn on(disk: Disk) -> Pointed {
            Pointed(disk)
        }
    }

    /// An open file, and what it is.
    #[derive(Debug)]
    pub struct File {
        file: fs::File,
        role: Role,
    }

    /// What a file of the ledger is, by its name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Role {
        Segment,
        Replacement,
        Snapshot,
        SetAside,
        Retired,
    }

    impl Role {
        fn of(name: Name<'_>) -> Role {
            match (name.folder, name.file) {
                (Folder::Quarantine, _) => Role::SetAside,
                (Folder::Archive, _) => Role::Retired,
                (Folder::Ledger, "segment.new") => Role::Replacement,
                (Folder::Ledger, file) if file.starts_with("snapshot") => Role::Snapshot,
                (Folder::Ledger, _) => Role::Segment,
            }
        }

        fn created(self) -> Option<Point> {
            match self {
                Role::Segment => Some(Point::SegmentCreated),
                Role::Replacement => Some(Point::ReplacementCreated),
                Role::Snapshot => Some(Point::SnapshotCreated),
                Role::SetAside => Some(Point::QuarantineCreated),
                Role::Retired => None,
            }
        }

        fn written(self) -> Option<Point> {
            match self {
                Role::Segment => Some(Point::SegmentWritten),
                Role::Replacement => Some(Point::ReplacementWritten),
                Role::Snapshot => Some(Point::SnapshotWritten),
                Role::SetAside => Some(Point::QuarantineWritten),
                Role::Retired => None,
            }
        }

        fn synced(self) -> Option<Point> {
            match self {
                Role::Segment => Some(Point::SegmentSynced),
                Role::Replacement => Some(Point::ReplacementSynced),
                Role::Snapshot => Some(Point::SnapshotSynced),
                Role::SetAside => Some(Point::QuarantineSynced),
                Role::Retired => None,
            }
        }

        /// Where a cut, an unlink or a reserve is part of a step that has a point, or of tidying up, there is none.
        fn only_segment(self, at: Point) -> Option<Point> {
            (self == Role::Segment).then_some(at)
        }
    }

    fn passed<T>(done: T, at: Option<Point>) -> io::Result<T> {
        at.map_or(Ok(()), point)?;
        Ok(done)
    }

    impl Storage for Pointed {
        type File = File;
        type Lock = WriterLock;

        fn lock(&self, wait: Duration) -> Result<WriterLock, LockError> {
            let lock = self.0.lock(wait)?;
            point(Point::LedgerLocked)?;
            Ok(lock)
        }

        fn create(&self, name: Name<'_>) -> io::Result<File> {
            let role = Role::of(name);
            passed(File { file: self.0.create(name)?, role }, role.created())
        }

        fn open(&self, name: Name<'_>, access: Access) -> io::Result<File> {
            Ok(File { file: self.0.open(name, access)?, role: Role::of(name) })
        }

        fn len(&self, file: &File) -> io::Result<u64> {
            self.0.len(&file.file)
        }

        fn read_at(&self, file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read_at(&file.file, offset, buffer)
        }

        fn write_at(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
            passed(self.0.write_at(&file.file, offset, bytes)?, file.role.written())
        }

        fn allocate(&self, file: &File, offset: u64, len: u64) -> io::Result<bool> {
            passed(self.0.allocate(&file.file, offset, len)?, file.role.only_segment(Point::SegmentReserved))
        }

        fn truncate(&self, file: &File, len: u64) -> io::Result<()> {
            self.0.truncate(&file.file, len)?;
            passed((), file.role.only_segment(Point::SegmentCut))
        }

        fn sync_data(&self, file: &File) -> io::Result<()> {
            self.0.sync_data(&file.file)?;
            passed((), file.role.synced())
        }

        fn sync_folder(&self, folder: Folder) -> io::Result<()> {
            self.0.sync_folder(folder)?;
            point(match folder {
                Folder::Ledger => Point::LedgerFolder,
                Folder::Quarantine => Point::QuarantineFolder,
                Folder::Archive => Point::ArchiveFolder,
            })
        }

        fn seal(&self, name: Name<'_>) -> io::Result<()> {
            self.0.seal(name)?;
            point(Point::SegmentSealed)
        }

        fn unseal(&self, name: Name<'_>) -> io::Result<()> {
            self.0.unseal(name)?;
            point(Point::SegmentUnsealed)
        }

        fn is_sealed(&self, file: &File) -> io::Result<bool> {
            self.0.is_sealed(&file.file)
        }

        fn look(&self, name: Name<'_>) -> io::Result<Seen> {
            self.0.look(name)
        }

        fn length_at(&self, name: Name<'_>, file: &File) -> io::Result<Option<u64>> {
            self.0.length_at(name, &file.file)
        }

        fn rename(&self, folder: Folder, from: &str, to: &str) -> io::Result<()> {
            self.0.rename(folder, from, to)?;
            point(match Role::of(Name { folder, file: to }) {
                Role::Snapshot => Point::SnapshotNamed,
                Role::Segment | Role::Replacement | Role::SetAside | Role::Retired => Point::ReplacementNamed,
            })
        }

        fn link(&self, file: &str, from: Folder, to: Folder) -> io::Result<()> {
            self.0.link(file, from, to)?;
            point(Point::ArchiveLinked)
        }

        fn unlink(&self, name: Name<'_>) -> io::Result<()> {
            self.0.unlink(name)?;
            let at = match Role::of(name) {
                Role::Segment => Some(Point::SegmentRemoved),
                Role::Snapshot => Some(Point::SnapshotRemoved),
                Role::Replacement | Role::SetAside | Role::Retired => None,
            };
            passed((), at)
        }

        fn list(&self, folder: Folder) -> io::Result<Vec<String>> {
            self.0.list(folder)
        }
    }
}
