//! A folder held by its descriptor. Everything in it is reached relative to the descriptor and without following links,
//! so that nobody can move another folder or a planted link between a check and the use that relies on it.
//!
//! Promises: what is made here is 0600 or 0700 whatever the umask says, and close-on-exec; replacing a file is atomic.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{FileStat, Mode, SFlag};
use nix::unistd::UnlinkatFlags;

use super::durable::{self, Point};
use super::replacement::Replacement;

const FILE_MODE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);
const FOLDER_MODE: Mode = Mode::S_IRWXU;

/// A folder, held open.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

/// What stands at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A socket.
    Socket,
    /// A FIFO or a device.
    Other,
}

/// What the system says about a name, not following links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What it is.
    pub kind: Kind,
    /// Whose it is.
    pub uid: u32,
    /// Permission bits.
    pub mode: u32,
    /// Device number of its file system.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Size, bytes.
    pub bytes: u64,
    /// Last change of its content, seconds since 1970.
    pub modified_s: i64,
}

impl Standing {
    /// Whether both are the same inode.
    pub fn is_same(&self, other: &Standing) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Whether it is this user's and nobody else may touch it.
    pub fn is_private(&self) -> bool {
        self.uid == user() && self.mode & 0o077 == 0
    }

    fn of(stat: &FileStat) -> Standing {
        let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
        let kind = match kind {
            SFlag::S_IFREG => Kind::File,
            SFlag::S_IFDIR => Kind::Folder,
            SFlag::S_IFLNK => Kind::Link,
            SFlag::S_IFSOCK => Kind::Socket,
            _ => Kind::Other,
        };
        Standing {
            kind,
            uid: stat.st_uid,
            mode: number(stat.st_mode & 0o7777),
            device: number(stat.st_dev),
            inode: number(stat.st_ino),
            bytes: number(stat.st_size),
            modified_s: stat.st_mtime,
        }
    }
}

/// The kernel's numbers have other widths on other systems.
fn number<N: TryInto<M>, M: Default>(value: N) -> M {
    value.try_into().unwrap_or_default()
}

/// The effective user.
pub fn user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

impl Folder {
    /// Opens the folder at `path`, whose last component must not be a link.
    ///
    /// # Errors
    /// What the system answers.
    pub fn open(path: &Path) -> io::Result<Folder> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let fd = nix::fcntl::open(path, flags, Mode::empty())?;
        Ok(Folder { fd, path: path.to_owned() })
    }

    /// Opens the folder `name` in this one.
    ///
    /// # Errors
    /// What the system answers.
    pub fn open_folder(&self, name: &str) -> io::Result<Folder> {
        let fd = self.open_at(name, OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty())?;
        Ok(Folder { fd, path: self.path.join(name) })
    }

    /// The path under which it was opened; for messages and for those who need one, like sockets.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the system says about the folder itself.
    ///
    /// # Errors
    /// What the system answers.
    pub fn standing(&self) -> io::Result<Standing> {
        Ok(Standing::of(&nix::sys::stat::fstat(&self.fd)?))
    }

    /// What stands at `name`; none if nothing does.
    ///
    /// # Errors
    /// What the system answers.
    pub fn look(&self, name: &str) -> io::Result<Option<Standing>> {
        match nix::sys::stat::fstatat(&self.fd, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Standing::of(&stat))),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens a file to read and write; makes it, empty, if nothing stands there.
    ///
    /// # Errors
    /// What the system answers; a link is `ELOOP`.
    pub fn open_or_create(&self, name: &str) -> io::Result<File> {
        Ok(self.open_at(name, OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NONBLOCK, FILE_MODE)?.into())
    }

    /// Opens a file to read.
    ///
    /// # Errors
    /// What the system answers; a link is `ELOOP`.
    pub fn open_file(&self, name: &str) -> io::Result<File> {
        Ok(self.open_at(name, OFlag::O_RDONLY | OFlag::O_NONBLOCK, Mode::empty())?.into())
    }

    /// Opens a file to append; makes it if nothing stands there.
    ///
    /// # Errors
    /// What the system answers; a link is `ELOOP`.
    pub fn append_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT | OFlag::O_NONBLOCK;
        Ok(self.open_at(name, flags, FILE_MODE)?.into())
    }

    /// Makes a file that must not exist yet.
    ///
    /// # Errors
    /// What the system answers; `EEXIST` if anything stands there.
    pub fn create_file(&self, name: &str) -> io::Result<File> {
        Ok(self.open_at(name, OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL, FILE_MODE)?.into())
    }

    /// Makes a folder that must not exist yet.
    ///
    /// # Errors
    /// What the system answers; `EEXIST` if anything stands there.
    pub fn create_folder(&self, name: &str) -> io::Result<()> {
        Ok(nix::sys::stat::mkdirat(&self.fd, name, FOLDER_MODE)?)
    }

    /// Reads a whole file of at most `bytes_max` bytes; none if nothing stands there.
    ///
    /// # Errors
    /// What the system answers; `FileTooLarge` beyond the limit; `InvalidInput` if it is not a regular file.
    pub fn read(&self, name: &str, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        let file = match self.open_file(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        // One more than there is, so that one read takes it all and the next one finds the end.
        let room = metadata.len().min(bytes_max).saturating_add(1);
        let mut bytes = Vec::with_capacity(usize::try_from(room).unwrap_or(0));
        file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if length > bytes_max { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(Some(bytes)) }
    }

    /// Replaces the content of `name` at once: readers see the old or the new content, a crash leaves one of them. The points stand behind
    /// the syncs of content and name.
    ///
    /// # Errors
    /// What the system answers; the old content is untouched then.
    pub fn replace(&self, name: &str, content: &[u8], points: [Point; 2]) -> io::Result<()> {
        let mut new = Replacement::begin(self, name)?;
        new.write_all(content)?;
        new.commit(points)
    }

    /// Removes temporary files that a crash left between the two steps of [`Folder::replace`]. Only for the one writer
    /// of `name`.
    ///
    /// # Errors
    /// What the system answers.
    pub fn clear_temporary(&self, name: &str) -> io::Result<()> {
        let prefix = temporary_prefix(name);
        for entry in self.names()? {
            if entry.strip_prefix(&prefix).is_some_and(|rest| rest.len() == 16) {
                self.remove_file(&entry)?;
            }
        }
        Ok(())
    }

    /// Gives `from` the name `to`, replacing what stands there.
    ///
    /// # Errors
    /// What the system answers.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(nix::fcntl::renameat(&self.fd, from, &self.fd, to)?)
    }

    /// Gives `from` the name `to` if nothing stands there.
    ///
    /// # Errors
    /// What the system answers; `EEXIST` if anything stands there.
    pub fn rename_to_free(&self, from: &str, to: &str) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            use nix::fcntl::{RenameFlags, renameat2};
            match renameat2(&self.fd, from, &self.fd, to, RenameFlags::RENAME_NOREPLACE) {
                // File systems without the flag: look first; `to` carries 64 random bits.
                Err(Errno::EINVAL | Errno::ENOSYS) => {}
                done => return Ok(done?),
            }
        }
        if self.look(to)?.is_some() {
            return Err(Errno::EEXIST.into());
        }
        self.rename(from, to)
    }

    /// Removes a file, link or socket.
    ///
    /// # Errors
    /// What the system answers.
    pub fn remove_file(&self, name: &str) -> io::Result<()> {
        Ok(nix::unistd::unlinkat(&self.fd, name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Removes whatever stands at `name`, a folder with everything in it. Follows no link.
    ///
    /// # Errors
    /// What the system answers.
    pub fn remove_all(&self, name: &str) -> io::Result<()> {
        match self.remove_file(name) {
            Err(error) if matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::EISDIR | Errno::EPERM)) => {}
            done => return done,
        }
        let inner = self.open_folder(name)?;
        for entry in inner.names()? {
            inner.remove_all(&entry)?;
        }
        Ok(nix::unistd::unlinkat(&self.fd, name, UnlinkatFlags::RemoveDir)?)
    }

    /// Marks `name` as changed now. Follows no link.
    ///
    /// # Errors
    /// What the system answers.
    pub fn touch(&self, name: &str) -> io::Result<()> {
        use nix::sys::stat::{UtimensatFlags, utimensat};
        use nix::sys::time::TimeSpec;
        let now = TimeSpec::UTIME_NOW;
        Ok(utimensat(&self.fd, name, &now, &now, UtimensatFlags::NoFollowSymlink)?)
    }

    /// The names in it that are UTF-8, in no order.
    ///
    /// # Errors
    /// What the system answers.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut listing = Dir::openat(&self.fd, ".", flags, Mode::empty())?;
        let mut names = Vec::new();
        for entry in listing.iter() {
            match entry?.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => names.push(name.to_owned()),
            }
        }
        Ok(names)
    }

    /// Makes names given and taken in it durable.
    ///
    /// # Errors
    /// What the system answers.
    pub fn sync(&self, point: Point) -> io::Result<()> {
        durable::sync(&self.fd, point)
    }

    fn open_at(&self, name: &str, flags: OFlag, mode: Mode) -> io::Result<OwnedFd> {
        Ok(nix::fcntl::openat(&self.fd, name, flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, mode)?)
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What stands at a path, whose last component is not followed; none if nothing does. Needs no descriptor.
///
/// # Errors
/// What the system answers.
pub fn look_at(path: &Path) -> io::Result<Option<Standing>> {
    match nix::sys::stat::lstat(path) {
        Ok(stat) => Ok(Some(Standing::of(&stat))),
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// What the system says about an open file.
///
/// # Errors
/// What the system answers.
pub fn standing(file: &File) -> io::Result<Standing> {
    Ok(Standing::of(&nix::sys::stat::fstat(file)?))
}

pub(super) fn temporary_prefix(name: &str) -> String {
    format!(".{}.tmp-", name.trim_start_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const POINTS: [Point; 2] = [Point::PublishContent, Point::PublishNamed];

    fn folder() -> (tempfile::TempDir, Folder) {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::open(home.path()).unwrap();
        (home, folder)
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left() {
        let (_home, folder) = folder();
        folder.replace("a.json", b"old", POINTS).unwrap();
        folder.replace("a.json", b"new", POINTS).unwrap();
        assert_eq!(folder.read("a.json", 3).unwrap().unwrap(), b"new");
        assert_eq!(folder.names().unwrap(), ["a.json"]);
        assert_eq!(folder.look("a.json").unwrap().unwrap().mode, 0o600);
        assert_eq!(folder.read("a.json", 2).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert!(folder.read("b.json", 2).unwrap().is_none());
    }

    #[test]
    fn only_its_own_temporary_files_are_cleared() {
        let (_home, folder) = folder();
        for name in [".a.json.tmp-0123456789abcdef", ".b.json.tmp-0123456789abcdef", ".a.json.tmp-mine", "a.json"] {
            folder.create_file(name).unwrap();
        }
        folder.clear_temporary("a.json").unwrap();
        let mut names = folder.names().unwrap();
        names.sort();
        assert_eq!(names, [".a.json.tmp-mine", ".b.json.tmp-0123456789abcdef", "a.json"]);
    }

    #[test]
    fn links_are_never_followed() {
        let (home, folder) = folder();
        let victim = home.path().join("victim");
        std::fs::write(&victim, "precious").unwrap();
        symlink(&victim, home.path().join("link")).unwrap();
        assert_eq!(folder.look("link").unwrap().unwrap().kind, Kind::Link);
        let loops = |result: io::Result<File>| result.unwrap_err().raw_os_error() == Some(nix::libc::ELOOP);
        assert!(loops(folder.open_or_create("link")));
        assert!(loops(folder.open_file("link")));
        assert!(loops(folder.append_file("link")));
        assert_eq!(folder.create_file("link").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        folder.replace("link", b"x", POINTS).unwrap();
        folder.remove_all("link").unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    }

    #[test]
    fn a_rename_to_a_taken_name_is_refused() {
        let (_home, folder) = folder();
        folder.create_file("a").unwrap();
        folder.create_file("b").unwrap();
        assert_eq!(folder.rename_to_free("a", "b").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        folder.rename_to_free("a", "c").unwrap();
        assert!(folder.look("a").unwrap().is_none());
    }

    #[test]
    fn removing_everything_stays_inside() {
        let (home, folder) = folder();
        std::fs::create_dir_all(home.path().join("d/e")).unwrap();
        std::fs::write(home.path().join("kept"), "x").unwrap();
        symlink(home.path(), home.path().join("d/e/up")).unwrap();
        folder.remove_all("d").unwrap();
        assert_eq!(folder.names().unwrap(), ["kept"]);
    }
}
