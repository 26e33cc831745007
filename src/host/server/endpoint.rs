//! The host's socket: named by the episode's marker, so that debris of a dead host of the same episode is replaced and
//! another root's is never touched.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use nix::unistd::geteuid;
use sha2::{Digest, Sha256};

use crate::host::files;
use crate::host::wire::FileIdentity;

/// A bound socket.
#[derive(Debug)]
pub(super) struct Endpoint {
    /// Accepts, without blocking.
    pub(super) listener: UnixListener,
    path: PathBuf,
    identity: FileIdentity,
}

impl Endpoint {
    /// Binds in the runtime folder, else in `ROOT/run` (made if they are not there).
    ///
    /// # Errors
    /// What the second place says, with what the first said.
    pub(super) fn bind(runtime: &Path, root: &Path, marker: &str) -> io::Result<Self> {
        let name = format!("h-{}", HEXLOWER.encode(&Sha256::digest(marker.as_bytes())[..8]));
        Self::bind_in(runtime, &name).or_else(|first| {
            Self::bind_in(&root.join("run"), &name)
                .map_err(|second| io::Error::new(second.kind(), format!("{}: {first}; {second}", runtime.display())))
        })
    }

    fn bind_in(folder: &Path, name: &str) -> io::Result<Self> {
        private_folder(folder)?;
        let path = folder.join(name);
        // Only a dead host of this very episode can have left one: we hold its life lock.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        let identity = files::identity_at(&path)?;
        Ok(Self { listener, path, identity })
    }

    /// As clients find it.
    pub(super) fn address(&self) -> String {
        format!("unix:{}", self.path.display())
    }

    /// Whether the socket still stands under its name.
    pub(super) fn stands(&self) -> bool {
        files::identity_at(&self.path).is_ok_and(|identity| identity == self.identity)
    }

    /// Removes the socket if it is still ours.
    pub(super) fn remove(&self) {
        if self.stands() {
            // Debris otherwise; nobody is harmed by it.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Makes the folder if it is not there and refuses one that others could write to.
fn private_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).recursive(true).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let metadata = fs::symlink_metadata(folder)?;
    let ours = metadata.is_dir() && metadata.uid() == geteuid().as_raw() && metadata.mode() & 0o077 == 0;
    if ours {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "{} is not a folder of ours alone (owner {}, mode {:o})",
            folder.display(),
            metadata.uid(),
            metadata.mode()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::Endpoint;

    #[test]
    fn it_binds_over_debris_and_falls_back_to_the_root() {
        let root = tempfile::tempdir().unwrap();
        let runtime = root.path().join("runtime");
        let first = Endpoint::bind(&runtime, root.path(), "m").unwrap();
        let second = Endpoint::bind(&runtime, root.path(), "m").unwrap();
        assert_eq!(first.address(), second.address());
        assert!(second.stands() && !first.stands());
        first.remove();
        assert!(second.stands(), "only its own socket is removed");
        second.remove();
        assert!(!second.stands());

        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o777)).unwrap();
        let third = Endpoint::bind(&runtime, root.path(), "m").unwrap();
        assert!(third.address().contains("/run/h-"), "{}", third.address());
        fs::write(root.path().join("file"), "").unwrap();
        let error = Endpoint::bind(&root.path().join("file"), &root.path().join("file"), "m").unwrap_err();
        assert!(error.to_string().contains("file"), "{error}");
    }
}
