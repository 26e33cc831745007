//! The state root: where it is, that it is ours, and who it is. Resolved once, at the entry of every run.
//!
//! Promises: two spellings of one root are one root (canonical path, device and inode); a root that cannot be resolved is
//! an error, never another place; what is not ours or open to others is refused with owner and mode, never repaired.

use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::environment::Environment;
use super::folder::{Folder, Standing, user};

/// Name of the broker lock in the state root.
pub const LOCK_NAME: &str = "broker.lock";

/// The state root, held open.
#[derive(Debug)]
pub struct StateRoot {
    folder: Folder,
    device: u64,
    inode: u64,
}

/// Why a path cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// No variable says where the state root is.
    #[error(
        "there is no place for the state root: none of OSTLER_ROOT, XDG_STATE_HOME and HOME is set; set OSTLER_ROOT or give --root"
    )]
    NoPlace,
    /// Something else stands there.
    #[error("{} is not a folder; name another one, or move it away", path.display())]
    NotAFolder {
        /// Where.
        path: PathBuf,
    },
    /// It belongs to somebody else.
    #[error("{} belongs to uid {owner} (mode {mode:04o}) and this is uid {user}; run as its owner, or name a root of your own", path.display())]
    NotOurs {
        /// Where.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Its permission bits.
        mode: u32,
        /// Who asks.
        user: u32,
    },
    /// Others may look into it or write to it.
    #[error("{} (owner uid {owner}) has mode {mode:04o} and is open to others; `chmod {} {}` closes it", path.display(), remedy_mode(*mode), path.display())]
    OpenToOthers {
        /// Where.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Its permission bits.
        mode: u32,
    },
    /// Its file system may be shared between machines, whose locks and processes cannot be judged from here.
    #[error("{} is on a network file system ({kind}), where a lock proves nothing; name a root on a local disk", path.display())]
    Network {
        /// Where.
        path: PathBuf,
        /// Which kind.
        kind: &'static str,
    },
    /// No place for sockets has a path short enough.
    #[error("a socket in {} would need a path of {bytes} bytes and the system takes {bytes_max}; name a shorter root, or set XDG_RUNTIME_DIR to a short private folder", path.display())]
    SocketPath {
        /// The last place tried.
        path: PathBuf,
        /// What would be needed.
        bytes: usize,
        /// What the system takes.
        bytes_max: usize,
    },
    /// The path, or what it names, is not text, which an endpoint's address has to be.
    #[error("{} is not valid UTF-8, which the address of a socket has to be; set XDG_RUNTIME_DIR to a private folder", path.display())]
    NotText {
        /// Where.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot {doing} {}: {source}{}", path.display(), hint(source))]
    Io {
        /// What was tried.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
}

impl PathError {
    /// The command that closes what is open to others, for a POSIX shell; none where only a person can know.
    pub fn remedy(&self) -> Option<String> {
        let PathError::OpenToOthers { path, mode, .. } = self else { return None };
        let path = path.to_str()?;
        let is_plain = path.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-".contains(letter));
        let quoted = if is_plain { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) };
        Some(format!("chmod {} {quoted}", remedy_mode(*mode)))
    }
}

fn remedy_mode(mode: u32) -> &'static str {
    if mode & 0o100 == 0 { "600" } else { "700" }
}

fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EROFS) => "; its file system is mounted read-only",
        Some(Errno::ENOSPC | Errno::EDQUOT) => "; there is no space left for it",
        _ => "",
    }
}

impl PathError {
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> PathError {
        PathError::Io { doing, path: path.into(), source: source.into() }
    }
}

/// Where the state root is: what was asked for, else `OSTLER_ROOT`, else `ostler` in `XDG_STATE_HOME`, else in
/// `~/.local/state`.
///
/// # Errors
/// [`PathError::NoPlace`] if nothing says.
pub fn root_path(asked: Option<&Path>, environment: &Environment) -> Result<PathBuf, PathError> {
    let absolute = |name: &str| environment.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(path) = asked.filter(|path| !path.as_os_str().is_empty()) {
        return Ok(path.to_owned());
    }
    if let Some(path) = environment.get("OSTLER_ROOT") {
        return Ok(path.into());
    }
    // The XDG specification has relative values ignored.
    if let Some(path) = absolute("XDG_STATE_HOME") {
        return Ok(path.join("ostler"));
    }
    absolute("HOME").map(|home| home.join(".local/state/ostler")).ok_or(PathError::NoPlace)
}

impl StateRoot {
    /// Opens the root at `path` and makes it first, 0700, with the folders above it, if it is not there.
    ///
    /// # Errors
    /// Everything of [`PathError`] but what concerns sockets.
    pub fn open_or_create(path: &Path) -> Result<StateRoot, PathError> {
        if let Some(root) = StateRoot::open(path)? {
            return Ok(root);
        }
        create_private(path).map_err(|error| PathError::io("make", path, error))?;
        StateRoot::open(path)?.ok_or_else(|| PathError::io("open", path, Errno::ENOENT))
    }

    /// Opens the root at `path`; none if nothing is there.
    ///
    /// # Errors
    /// As [`StateRoot::open_or_create`].
    pub fn open(path: &Path) -> Result<Option<StateRoot>, PathError> {
        let Some(canonical) = resolve(path, |path| std::fs::canonicalize(path))? else {
            return Ok(None);
        };
        let folder = match Folder::open(&canonical) {
            Ok(folder) => folder,
            Err(error) => return Err(refuse_unopened(&canonical, error)),
        };
        let standing = folder.standing().map_err(|error| PathError::io("look at", &canonical, error))?;
        check_private(&canonical, &standing)?;
        check_local(&folder)?;
        Ok(Some(StateRoot { folder, device: standing.device, inode: standing.inode }))
    }

    /// The canonical path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder itself.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Its device number: with the inode, its identity.
    pub fn device(&self) -> u64 {
        self.device
    }

    /// Its inode number: with the device, its identity.
    pub fn inode(&self) -> u64 {
        self.inode
    }
}

/// The canonical path; none if nothing is there. Of many clients at once another one may make the folder between two looks, so what is there
/// although it was not found is looked for once more: only a link that leads nowhere is still not found then.
fn resolve(path: &Path, mut find: impl FnMut(&Path) -> io::Result<PathBuf>) -> Result<Option<PathBuf>, PathError> {
    let found = match find(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match path.symlink_metadata() {
            Ok(_) => find(path),
            Err(_) => return Ok(None),
        },
        found => found,
    };
    match found {
        Ok(canonical) => Ok(Some(canonical)),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            Err(PathError::NotAFolder { path: path.to_owned() })
        }
        Err(error) => Err(PathError::io("resolve", path, error)),
    }
}

/// What to say of a root that could not be opened as a folder: owner and mode explain more than `EACCES`.
fn refuse_unopened(path: &Path, error: io::Error) -> PathError {
    use std::os::unix::fs::MetadataExt;
    match path.symlink_metadata() {
        Ok(found) if !found.is_dir() => PathError::NotAFolder { path: path.to_owned() },
        Ok(found) if found.uid() != user() => {
            PathError::NotOurs { path: path.to_owned(), owner: found.uid(), mode: found.mode() & 0o7777, user: user() }
        }
        _ => PathError::io("open", path, error),
    }
}

/// Refuses what is not ours or is open to others.
///
/// # Errors
/// [`PathError::NotOurs`], [`PathError::OpenToOthers`].
pub fn check_private(path: &Path, standing: &Standing) -> Result<(), PathError> {
    let (path, owner, mode) = (path.to_owned(), standing.uid, standing.mode);
    if owner != user() {
        return Err(PathError::NotOurs { path, owner, mode, user: user() });
    }
    if mode & 0o077 != 0 {
        return Err(PathError::OpenToOthers { path, owner, mode });
    }
    Ok(())
}

/// Makes the folder and those above it, each 0700.
fn create_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// File systems that several machines may see at once.
#[cfg(target_os = "linux")]
const NETWORK_FILE_SYSTEMS: &[(i64, &str)] = &[
    (0x6969, "nfs"),
    (0x517b, "smb"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x5346_414f, "afs"),
    (0x6b41_4653, "afs"),
    (0x7375_7245, "coda"),
    (0x564c, "ncp"),
    (0x00c3_6400, "ceph"),
    (0x0bd0_0bd0, "lustre"),
    (0x0116_1970, "gfs2"),
    (0x7461_636f, "ocfs2"),
    (0x4750_4653, "gpfs"),
    (0x2003_0528, "orangefs"),
];

#[cfg(target_os = "linux")]
fn check_local(folder: &Folder) -> Result<(), PathError> {
    let found = nix::sys::statfs::fstatfs(folder).map_err(|error| PathError::io("look at", folder.path(), error))?;
    match network_kind(found.filesystem_type().0) {
        Some(kind) => Err(PathError::Network { path: folder.path().to_owned(), kind }),
        None => Ok(()),
    }
}

#[cfg(target_os = "linux")]
fn network_kind(magic: i64) -> Option<&'static str> {
    NETWORK_FILE_SYSTEMS.iter().find(|(known, _)| *known == magic).map(|(_, kind)| *kind)
}

#[cfg(not(target_os = "linux"))]
fn check_local(folder: &Folder) -> Result<(), PathError> {
    use nix::mount::MntFlags;
    let found = nix::sys::statfs::fstatfs(folder).map_err(|error| PathError::io("look at", folder.path(), error))?;
    if found.flags().contains(MntFlags::MNT_LOCAL) {
        return Ok(());
    }
    Err(PathError::Network { path: folder.path().to_owned(), kind: "not local" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn chmod(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_place_is_the_first_that_is_named() {
        let all = [("OSTLER_ROOT", "/o"), ("XDG_STATE_HOME", "/x"), ("HOME", "/h")];
        let place = |asked: Option<&str>, from: usize| {
            root_path(asked.map(Path::new), &Environment::of(all[from..].iter().copied()))
        };
        assert_eq!(place(Some("/a"), 0).unwrap(), Path::new("/a"));
        assert_eq!(place(None, 0).unwrap(), Path::new("/o"));
        assert_eq!(place(None, 1).unwrap(), Path::new("/x/ostler"));
        assert_eq!(place(None, 2).unwrap(), Path::new("/h/.local/state/ostler"));
        assert!(matches!(place(None, 3), Err(PathError::NoPlace)));
        let relative = Environment::of([("XDG_STATE_HOME", "x"), ("HOME", "h")]);
        assert!(matches!(root_path(None, &relative), Err(PathError::NoPlace)));
    }

    #[test]
    fn a_root_is_made_private_and_its_spellings_are_one() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a/b/root");
        assert!(StateRoot::open(&path).unwrap().is_none());
        let root = StateRoot::open_or_create(&path).unwrap();
        symlink(&path, home.path().join("link")).unwrap();
        for spelling in ["link", "a//b/root/", "a/b/../b/./root"] {
            let other = StateRoot::open_or_create(&home.path().join(spelling)).unwrap();
            assert_eq!((other.device(), other.inode(), other.path()), (root.device(), root.inode(), root.path()));
        }
        assert_eq!(root.folder().standing().unwrap().mode, 0o700);
    }

    #[test]
    fn a_root_that_another_client_makes_between_two_looks_is_found() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("root");
        let made_by_another = |path: &Path| {
            let found = std::fs::canonicalize(path);
            if found.is_err() {
                std::fs::create_dir(path).unwrap();
            }
            found
        };
        assert_eq!(resolve(&path, made_by_another).unwrap(), Some(std::fs::canonicalize(&path).unwrap()));
    }

    #[test]
    fn what_is_not_ours_alone_is_refused_with_its_facts() {
        let home = tempfile::tempdir().unwrap();
        let open = home.path().join("open");
        std::fs::create_dir(&open).unwrap();
        chmod(&open, 0o755);
        let text = StateRoot::open(&open).unwrap_err().to_string();
        assert!(text.contains("mode 0755") && text.contains("chmod 700"), "{text}");

        let file = home.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(matches!(StateRoot::open_or_create(&file), Err(PathError::NotAFolder { .. })));
        assert!(matches!(StateRoot::open_or_create(&file.join("in")), Err(PathError::NotAFolder { .. })));

        let nowhere = home.path().join("nowhere");
        symlink(home.path().join("gone"), &nowhere).unwrap();
        assert!(matches!(StateRoot::open_or_create(&nowhere), Err(PathError::Io { .. })));
    }

    #[test]
    fn another_users_root_is_refused_with_both_users() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("theirs");
        StateRoot::open_or_create(&path).unwrap();
        if std::os::unix::fs::chown(&path, Some(4242), None).is_err() {
            // Only root can give a folder away; the refusal is the same the other way round.
            let text = StateRoot::open(Path::new("/")).unwrap_err().to_string();
            assert!(text.contains("uid 0"), "{text}");
            return;
        }
        let text = StateRoot::open(&path).unwrap_err().to_string();
        assert!(text.contains("uid 4242") && text.contains("mode 0700"), "{text}");
    }

    #[test]
    fn a_root_that_cannot_be_made_names_path_and_reason() {
        let text = StateRoot::open_or_create(Path::new("/proc/ostler/root")).unwrap_err().to_string();
        assert!(text.contains("/proc/ostler/root") && text.contains("cannot make"), "{text}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn network_file_systems_are_known_by_their_magic() {
        assert_eq!(network_kind(0x6969), Some("nfs"));
        assert_eq!(network_kind(0xff53_4d42), Some("cifs"));
        assert_eq!(network_kind(0xef53), None);
        assert_eq!(network_kind(0x0102_1994), None);
    }
}
