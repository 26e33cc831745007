//! The disk behind the storage port (Unix).
//!
//! Promises: folders 0700 and files 0600 (0400 once they are sealed), ours alone; everything is opened relative to a held folder descriptor and
//! never through a link; what is somebody else's is refused with owner and mode in the message and never repaired.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, fstatat, lstat, mkdirat};
use nix::unistd::{UnlinkatFlags, fsync, geteuid, linkat, unlinkat};
#[cfg(target_os = "linux")]
use nix::{
    fcntl::{FallocateFlags, fallocate},
    libc,
};

use super::lock::{WriterLock, lock};
use super::{Access, Folder, LockError, Name, Seen, Storage};

const OPEN: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);
const SEALED: Mode = Mode::S_IRUSR;
/// In the ledger's folder.
const ARCHIVE: &str = "archive";

/// A ledger folder, and the folder for what is set aside.
#[derive(Debug)]
pub struct Disk {
    ledger: Place,
    quarantine: Place,
    read_only: bool,
}

#[derive(Debug)]
struct Place {
    path: PathBuf,
    held: OnceLock<Arc<HeldFolder>>,
}

/// A folder by descriptor, so that no later change of a path can lead elsewhere.
#[derive(Debug)]
pub(super) struct HeldFolder {
    descriptor: OwnedFd,
    path: PathBuf,
    strict: bool,
}

impl Disk {
    /// For the writer. The folders are made when first needed; what is there already has to be ours.
    pub fn new(ledger: impl Into<PathBuf>, quarantine: impl Into<PathBuf>) -> Disk {
        let ledger = Place::at(ledger.into());
        Disk { ledger, quarantine: Place::at(quarantine.into()), read_only: false }
    }

    /// For readers of any copy, whoever owns it: nothing is made or changed.
    pub fn reading(ledger: impl Into<PathBuf>) -> Disk {
        let ledger = Place::at(ledger.into());
        Disk { quarantine: Place::at(ledger.path.join("quarantine")), ledger, read_only: true }
    }

    fn held(&self, folder: Folder) -> io::Result<Arc<HeldFolder>> {
        let open = |path: &Path| if self.read_only { HeldFolder::at(path, false) } else { HeldFolder::make(path) };
        match folder {
            Folder::Ledger => self.ledger.held_or(open),
            Folder::Quarantine => self.quarantine.held_or(open),
            Folder::Archive => self.archive(!self.read_only),
        }
    }

    /// As [`Disk::held`], but makes nothing.
    fn existing(&self, folder: Folder) -> io::Result<Arc<HeldFolder>> {
        let open = |path: &Path| HeldFolder::at(path, !self.read_only);
        match folder {
            Folder::Ledger => self.ledger.held_or(open),
            Folder::Quarantine => self.quarantine.held_or(open),
            Folder::Archive => self.archive(false),
        }
    }

    /// Never held: an operator moves it elsewhere, or mounts one, while the writer lives.
    fn archive(&self, make: bool) -> io::Result<Arc<HeldFolder>> {
        let ledger = self.held(Folder::Ledger)?;
        if make {
            match mkdirat(ledger.descriptor(), ARCHIVE, Mode::from_bits_truncate(0o700)) {
                Ok(()) => fsync(ledger.descriptor())?,
                Err(Errno::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let strict = !self.read_only;
        let descriptor = openat(ledger.descriptor(), ARCHIVE, HeldFolder::flags(strict), Mode::empty())?;
        HeldFolder::of(descriptor, &ledger.path.join(ARCHIVE), strict).map(Arc::new)
    }

    fn open_at(&self, name: Name<'_>, flags: OFlag) -> io::Result<File> {
        let folder = self.held(name.folder)?;
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = File::from(openat(folder.descriptor(), name.file, flags, OPEN)?);
        folder.check_file(&file, name.file)?;
        Ok(file)
    }

    /// `fsync`, for `fdatasync` may leave the mode.
    fn set_mode(&self, name: Name<'_>, mode: Mode) -> io::Result<()> {
        let file = self.open(name, Access::Read)?;
        fchmod(&file, mode)?;
        file.sync_all()
    }
}

impl Place {
    fn at(path: PathBuf) -> Place {
        Place { path, held: OnceLock::new() }
    }

    fn held_or(&self, open: impl FnOnce(&Path) -> io::Result<HeldFolder>) -> io::Result<Arc<HeldFolder>> {
        match self.held.get() {
            Some(held) => Ok(Arc::clone(held)),
            None => open(&self.path).map(|held| Arc::clone(self.held.get_or_init(|| Arc::new(held)))),
        }
    }
}

impl HeldFolder {
    /// Opens the folder, making it (and only it) if there is none. It has to be ours alone.
    pub(super) fn make(path: &Path) -> io::Result<HeldFolder> {
        match nix::unistd::mkdir(path, Mode::from_bits_truncate(0o700)) {
            Ok(()) => sync_parent(path)?,
            Err(Errno::EEXIST) => {}
            Err(error) => return Err(error.into()),
        }
        HeldFolder::at(path, true)
    }

    /// Opens a folder that is there; `strict` demands that it is ours alone.
    fn at(path: &Path, strict: bool) -> io::Result<HeldFolder> {
        HeldFolder::of(open(path, HeldFolder::flags(strict), Mode::empty())?, path, strict)
    }

    fn flags(strict: bool) -> OFlag {
        let link = if strict { OFlag::O_NOFOLLOW } else { OFlag::empty() };
        OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | link
    }

    fn of(descriptor: OwnedFd, path: &Path, strict: bool) -> io::Result<HeldFolder> {
        if strict {
            check_owner(&fstat(&descriptor)?, path)?;
        }
        Ok(HeldFolder { descriptor, path: path.to_owned(), strict })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// A file of the folder has to be a regular file and, for the writer, ours alone.
    pub(super) fn check_file(&self, file: &File, name: &str) -> io::Result<()> {
        self.check(&fstat(file)?, name)
    }

    fn check(&self, stat: &FileStat, name: &str) -> io::Result<()> {
        let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
        if kind != SFlag::S_IFREG {
            return Err(io::Error::other(format!("{} is not a regular file", self.path.join(name).display())));
        }
        if self.strict { check_owner(stat, &self.path.join(name)) } else { Ok(()) }
    }
}

fn is_sealed(stat: &FileStat) -> bool {
    stat.st_mode & 0o200 == 0
}

fn check_owner(stat: &FileStat, path: &Path) -> io::Result<()> {
    let mode = stat.st_mode & 0o7777;
    if stat.st_uid == geteuid().as_raw() && mode & 0o077 == 0 {
        return Ok(());
    }
    let text = format!(
        "{} belongs to uid {} with mode {mode:04o}; it has to be yours and closed to others",
        path.display(),
        stat.st_uid
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(fsync(open(parent, flags, Mode::empty())?)?)
}

impl Storage for Disk {
    type File = File;
    type Lock = WriterLock;

    fn lock(&self, wait: Duration) -> Result<WriterLock, LockError> {
        lock(&*self.held(Folder::Ledger)?, wait)
    }

    fn create(&self, name: Name<'_>) -> io::Result<File> {
        self.open_at(name, OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL)
    }

    fn open(&self, name: Name<'_>, access: Access) -> io::Result<File> {
        let flags = match access {
            Access::Read => OFlag::O_RDONLY | OFlag::O_NONBLOCK,
            Access::Write => OFlag::O_RDWR,
        };
        self.open_at(name, flags)
    }

    fn len(&self, file: &File) -> io::Result<u64> {
        Ok(file.metadata()?.len())
    }

    fn read_at(&self, file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        FileExt::read_at(file, buffer, offset)
    }

    fn write_at(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        FileExt::write_at(file, bytes, offset)
    }

    #[cfg(target_os = "linux")]
    fn allocate(&self, file: &File, offset: u64, len: u64) -> io::Result<bool> {
        let wide = |bytes: u64| libc::off_t::try_from(bytes).map_err(|_wide| io::ErrorKind::FileTooLarge);
        let (offset, len) = (wide(offset)?, wide(len)?);
        loop {
            match fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, offset, len) {
                Ok(()) => return Ok(true),
                Err(Errno::EINTR) => {}
                Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn allocate(&self, _file: &File, _offset: u64, _len: u64) -> io::Result<bool> {
        Ok(false)
    }

    fn truncate(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    fn sync_data(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn sync_folder(&self, folder: Folder) -> io::Result<()> {
        Ok(fsync(self.held(folder)?.descriptor())?)
    }

    fn seal(&self, name: Name<'_>) -> io::Result<()> {
        self.set_mode(name, SEALED)
    }

    fn unseal(&self, name: Name<'_>) -> io::Result<()> {
        self.set_mode(name, OPEN)
    }

    fn is_sealed(&self, file: &File) -> io::Result<bool> {
        Ok(is_sealed(&fstat(file)?))
    }

    fn look(&self, name: Name<'_>) -> io::Result<Seen> {
        let folder = self.held(name.folder)?;
        let stat = fstatat(folder.descriptor(), name.file, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        folder.check(&stat, name.file)?;
        let len = u64::try_from(stat.st_size).map_err(|_negative| io::ErrorKind::InvalidData)?;
        Ok(Seen { len, sealed: is_sealed(&stat) })
    }

    fn length_at(&self, name: Name<'_>, file: &File) -> io::Result<Option<u64>> {
        // By the path: the held folder itself may have been moved away.
        let there = match lstat(&self.held(name.folder)?.path.join(name.file)) {
            Ok(there) => there,
            Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let ours = fstat(file)?;
        let len = u64::try_from(ours.st_size).map_err(|_negative| io::ErrorKind::InvalidData)?;
        Ok(((there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)).then_some(len))
    }

    fn rename(&self, folder: Folder, from: &str, to: &str) -> io::Result<()> {
        let held = self.held(folder)?;
        let folder = held.descriptor();
        Ok(renameat(folder, from, folder, to)?)
    }

    fn link(&self, file: &str, from: Folder, to: Folder) -> io::Result<()> {
        let (from, to) = (self.held(from)?, self.held(to)?);
        let (from, to) = (from.descriptor(), to.descriptor());
        Ok(linkat(from, file, to, file, AtFlags::empty())?)
    }

    fn unlink(&self, name: Name<'_>) -> io::Result<()> {
        let held = self.held(name.folder)?;
        let folder = held.descriptor();
        Ok(unlinkat(folder, name.file, UnlinkatFlags::NoRemoveDir)?)
    }

    fn list(&self, folder: Folder) -> io::Result<Vec<String>> {
        let held = match self.existing(folder) {
            Ok(held) => held,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut names = Vec::new();
        for entry in Dir::openat(held.descriptor(), ".", flags, Mode::empty())? {
            // Names that are not text are none of ours.
            if let Ok(name) = entry?.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }
}
