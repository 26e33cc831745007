//! The runtime folder: where the sockets of one state root live. Short paths, private, chosen anew at each start; others
//! learn an address from a record, never by computing it.

use std::io;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::environment::Environment;
use super::folder::{Folder, Kind};
use super::paths::{PathError, StateRoot, check_private};
use super::socket::is_deserted;

/// Longest name of a socket in the runtime folder, bytes.
pub const SOCKET_NAME_BYTES_MAX: usize = 32;

/// Longest path of a socket, bytes: `sun_path` without its closing NUL.
#[cfg(target_os = "linux")]
pub const SOCKET_PATH_BYTES_MAX: usize = 107;
/// Longest path of a socket, bytes: `sun_path` without its closing NUL.
#[cfg(not(target_os = "linux"))]
pub const SOCKET_PATH_BYTES_MAX: usize = 103;

/// The runtime folder, held open.
#[derive(Debug)]
pub struct RuntimeFolder {
    folder: Folder,
}

impl RuntimeFolder {
    /// Finds or makes the runtime folder of a root: below `XDG_RUNTIME_DIR` if that is ours and private, else `run` in
    /// the root, else in a private folder of this user in the temporary folder; the first whose paths are short enough.
    ///
    /// # Errors
    /// The reason of the last place, if none will do.
    pub fn open_or_create(root: &StateRoot, environment: &Environment) -> Result<RuntimeFolder, PathError> {
        let mut refusal = None;
        for place in places(root, environment) {
            match check_length(&place.path()).and_then(|()| place.open_or_create()) {
                Ok(folder) => return Ok(RuntimeFolder { folder }),
                Err(error) => refusal = Some(error),
            }
        }
        Err(refusal.expect("the temporary folder is always one of the places"))
    }

    /// Opens a runtime folder where it is known to be.
    ///
    /// # Errors
    /// If it is gone, not ours, or open to others.
    pub fn open(path: &Path) -> Result<RuntimeFolder, PathError> {
        Ok(RuntimeFolder { folder: open_private(path)? })
    }

    /// The folder itself.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The path of the socket `name`, checked for its length and for being text.
    ///
    /// # Errors
    /// [`PathError::SocketPath`], [`PathError::NotText`].
    pub fn socket_path(&self, name: &str) -> Result<String, PathError> {
        socket_path(self.path(), name)
    }

    /// Removes the folder unless somebody's socket is in it. Only for the owner of the root's lock: whoever comes next makes it again.
    ///
    /// # Errors
    /// What the system answers; `DirectoryNotEmpty` where a session's host still listens.
    pub fn remove_if_empty(&self) -> io::Result<()> {
        std::fs::remove_dir(self.path())
    }

    /// Removes the sockets whose names start with `prefix`, but `keep`. Only for the owner of what the prefix names.
    ///
    /// # Errors
    /// What the system answers.
    pub fn clear_sockets(&self, prefix: &str, keep: &str) -> io::Result<()> {
        for name in self.sockets(prefix)?.iter().filter(|name| *name != keep) {
            self.folder.remove_file(name)?;
        }
        Ok(())
    }

    /// Removes the sockets whose names start with `prefix` and at which nobody listens any more: those of hosts that were killed. One that a
    /// living host loses by this, because it had bound and did not listen yet, it makes again when it is asked.
    ///
    /// # Errors
    /// What the system answers.
    pub fn clear_deserted(&self, prefix: &str) -> io::Result<()> {
        for name in self.sockets(prefix)?.iter().filter(|name| is_deserted(&self.path().join(name))) {
            self.folder.remove_file(name)?;
        }
        Ok(())
    }

    fn sockets(&self, prefix: &str) -> io::Result<Vec<String>> {
        let mut names = self.folder.names()?;
        let is_socket = |name: &str| matches!(self.folder.look(name), Ok(Some(there)) if there.kind == Kind::Socket);
        names.retain(|name| name.starts_with(prefix) && is_socket(name));
        Ok(names)
    }
}

/// The path of a socket in a folder, checked before anybody binds it.
///
/// # Errors
/// [`PathError::SocketPath`], [`PathError::NotText`].
pub fn socket_path(folder: &Path, name: &str) -> Result<String, PathError> {
    let path = folder.join(name);
    let bytes = path.as_os_str().len();
    if bytes > SOCKET_PATH_BYTES_MAX {
        return Err(PathError::SocketPath { path: folder.to_owned(), bytes, bytes_max: SOCKET_PATH_BYTES_MAX });
    }
    path.into_os_string().into_string().map_err(|path| PathError::NotText { path: path.into() })
}

/// A place for a runtime folder: a folder that must be there and private (or is made), and folders to make in it.
#[derive(Debug)]
struct Place {
    base: PathBuf,
    /// Whether `base` is a shared folder, in which only what we make has to be private.
    shared: bool,
    steps: Vec<String>,
}

impl Place {
    fn path(&self) -> PathBuf {
        self.steps.iter().fold(self.base.clone(), |path, step| path.join(step))
    }

    fn open_or_create(&self) -> Result<Folder, PathError> {
        let base = Folder::open(&self.base).map_err(|error| PathError::io("open", &self.base, error))?;
        if !self.shared {
            let standing = base.standing().map_err(|error| PathError::io("look at", &self.base, error))?;
            check_private(&self.base, &standing)?;
        }
        self.steps.iter().try_fold(base, |folder, step| step_into(&folder, step))
    }
}

fn step_into(folder: &Folder, name: &str) -> Result<Folder, PathError> {
    let path = folder.path().join(name);
    match folder.create_folder(name) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(PathError::io("make", path, error)),
    }
    let inner = match folder.open_folder(name) {
        Ok(inner) => inner,
        Err(error) => {
            // A link or a file of somebody who was here first: owner and mode say more than the error.
            return Err(match folder.look(name) {
                Ok(Some(found)) if found.kind != Kind::Folder => PathError::NotAFolder { path },
                Ok(Some(found)) => check_private(&path, &found).err().unwrap_or(PathError::io("open", path, error)),
                Ok(None) | Err(_) => PathError::io("open", path, error),
            });
        }
    };
    let standing = inner.standing().map_err(|error| PathError::io("look at", &path, error))?;
    check_private(&path, &standing)?;
    Ok(inner)
}

fn open_private(path: &Path) -> Result<Folder, PathError> {
    let folder = Folder::open(path).map_err(|error| PathError::io("open", path, error))?;
    let standing = folder.standing().map_err(|error| PathError::io("look at", path, error))?;
    check_private(path, &standing)?;
    Ok(folder)
}

fn places(root: &StateRoot, environment: &Environment) -> Vec<Place> {
    let hash = root_hash(root);
    let mut places = Vec::new();
    let absolute = |name: &str| environment.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(base) = absolute("XDG_RUNTIME_DIR") {
        places.push(Place { base, shared: false, steps: vec!["ostler".to_owned(), hash.clone()] });
    }
    places.push(Place { base: root.path().to_owned(), shared: false, steps: vec!["run".to_owned()] });
    let user = format!("ostler-{}", super::folder::user());
    let temporary = absolute("TMPDIR").filter(|path| check_length(&path.join(&user).join(&hash)).is_ok());
    let base = temporary.unwrap_or_else(|| PathBuf::from("/tmp"));
    // The temporary folder itself may be a link (it is on macOS); what is made in it may not.
    let base = std::fs::canonicalize(&base).unwrap_or(base);
    places.push(Place { base, shared: true, steps: vec![user, hash] });
    places
}

fn check_length(folder: &Path) -> Result<(), PathError> {
    socket_path(folder, &"s".repeat(SOCKET_NAME_BYTES_MAX)).map(drop)
}

/// 16 hex digits that name a root: not secret, only short and the same for every spelling.
fn root_hash(root: &StateRoot) -> String {
    let mut hash = Sha256::new();
    hash.update(root.device().to_le_bytes());
    hash.update(root.inode().to_le_bytes());
    hash.update(root.path().as_os_str().as_encoded_bytes());
    HEXLOWER.encode(&hash.finalize()[..8])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    struct Home {
        _folder: tempfile::TempDir,
        path: PathBuf,
    }

    impl Home {
        fn new() -> Home {
            let folder = tempfile::Builder::new().prefix("r").tempdir_in("/tmp").unwrap();
            let path = folder.path().canonicalize().unwrap();
            Home { _folder: folder, path }
        }

        fn root(&self, name: &str) -> StateRoot {
            StateRoot::open_or_create(&self.path.join(name)).unwrap()
        }

        fn private(&self, name: &str) -> PathBuf {
            StateRoot::open_or_create(&self.path.join(name)).unwrap().path().to_owned()
        }
    }

    fn chosen(root: &StateRoot, environment: &[(&str, &Path)]) -> Result<PathBuf, PathError> {
        let environment = Environment::of(environment.iter().map(|(name, path)| (*name, path.as_os_str())));
        RuntimeFolder::open_or_create(root, &environment).map(|folder| folder.path().to_owned())
    }

    #[test]
    fn the_runtime_folder_of_the_user_is_preferred_if_it_is_private() {
        let home = Home::new();
        let (root, runtime) = (home.root("root"), home.private("runtime"));
        let hash = root_hash(&root);
        let environment = [("XDG_RUNTIME_DIR", runtime.as_path())];
        assert_eq!(chosen(&root, &environment).unwrap(), runtime.join("ostler").join(&hash));
        assert_eq!(chosen(&root, &environment).unwrap(), runtime.join("ostler").join(&hash), "the second time too");
        std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(chosen(&root, &environment).unwrap(), root.path().join("run"));
        assert_eq!(chosen(&root, &[]).unwrap(), root.path().join("run"));
    }

    #[test]
    fn every_length_of_a_root_gets_a_path_that_can_be_bound() {
        let home = Home::new();
        let temporary = home.private("t");
        let mut seen = std::collections::BTreeSet::new();
        for length in 1..=150 {
            let root = home.root(&"ü".repeat(length / 2 + 1));
            let folder = chosen(&root, &[("TMPDIR", &temporary)]).unwrap();
            let path = socket_path(&folder, &"s".repeat(SOCKET_NAME_BYTES_MAX)).unwrap();
            std::os::unix::net::UnixListener::bind(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            seen.insert(folder.starts_with(&temporary));
        }
        assert_eq!(seen.len(), 2, "short roots hold their sockets, long ones do not");
    }

    #[test]
    fn a_planted_folder_or_link_in_the_temporary_folder_is_refused() {
        let home = Home::new();
        let root = home.root(&"x".repeat(100));
        let user = format!("ostler-{}", crate::os::folder::user());
        let case = |name: &str, plant: &dyn Fn(&Path)| {
            let temporary = home.private(name);
            plant(&temporary.join(&user));
            chosen(&root, &[("TMPDIR", &temporary)]).unwrap_err()
        };
        let open = case("open", &|path| {
            std::fs::create_dir(path).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        });
        assert!(matches!(open, PathError::OpenToOthers { mode: 0o777, .. }), "{open}");
        let link = case("link", &|path| symlink("/", path).unwrap());
        assert!(matches!(link, PathError::NotAFolder { .. }), "{link}");
        let file = case("file", &|path| std::fs::write(path, "").unwrap());
        assert!(matches!(file, PathError::NotAFolder { .. }), "{file}");
    }

    #[test]
    fn a_path_that_is_too_long_is_said_with_length_and_limit() {
        let error = socket_path(Path::new(&format!("/{}", "x".repeat(120))), "b").unwrap_err().to_string();
        assert!(error.contains("123 bytes") && error.contains(&SOCKET_PATH_BYTES_MAX.to_string()), "{error}");
    }

    #[test]
    fn only_sockets_of_the_prefix_are_cleared() {
        let home = Home::new();
        let runtime = RuntimeFolder { folder: Folder::open(&home.private("runtime")).unwrap() };
        for name in ["b-old-1", "b-new-2", "s-1"] {
            std::os::unix::net::UnixListener::bind(runtime.socket_path(name).unwrap()).unwrap();
        }
        std::fs::write(runtime.path().join("b-file"), "").unwrap();
        runtime.clear_sockets("b-", "b-new-2").unwrap();
        let mut left = runtime.folder().names().unwrap();
        left.sort();
        assert_eq!(left, ["b-file", "b-new-2", "s-1"]);
        let _listens = std::os::unix::net::UnixListener::bind(runtime.socket_path("s-2").unwrap()).unwrap();
        runtime.clear_deserted("s-").unwrap();
        let mut left = runtime.folder().names().unwrap();
        left.sort();
        assert_eq!(left, ["b-file", "b-new-2", "s-2"]);
    }
}
