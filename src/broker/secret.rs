//! `request.secret`: the root's secret under which requests are digested, and from which ledger position on it is the one.
//!
//! Promise: it is durable before it is used, because a digest that a later broker cannot repeat tells nothing any more. Where it was lost
//! all the same, a new one knows which operations it cannot speak of: those before its position (law 7).

use crate::machine::State;
use crate::os::durable::{self, Point};
use crate::os::entropy;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The file's name in the state root.
pub const FILE_NAME: &str = "request.secret";
const SECRET_BYTES: usize = 32;
const SINCE_BYTES: usize = 8;

/// The secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secret {
    /// The key of the digests.
    pub key: [u8; SECRET_BYTES],
    /// Ledger position of the first operation that it can have digested.
    pub since: u64,
}

impl Secret {
    /// Reads the root's secret; makes it, for operations from `next` on, if there is none.
    ///
    /// # Errors
    /// What the system says, or `InvalidData` for a file that is not one of ours.
    pub fn open(root: &Path, next: u64) -> io::Result<Secret> {
        match read(&root.join(FILE_NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        let secret = Secret { key: entropy::bytes::<SECRET_BYTES>(), since: next };
        secret.write(root)?;
        Ok(secret)
    }

    /// Secret first, position after, in the order of the least byte first.
    fn write(&self, root: &Path) -> io::Result<()> {
        let draft = root.join(format!("{FILE_NAME}.new"));
        // One that a crash left, or whatever else stands there: a pipe would hold the start up for ever.
        match std::fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(&self.key)?;
        file.write_all(&self.since.to_le_bytes())?;
        durable::sync(&file, Point::SecretContent)?;
        std::fs::rename(&draft, root.join(FILE_NAME))?;
        durable::sync(std::fs::File::open(root)?, Point::SecretNamed)
    }

    /// What is to be said while a key binds an operation that was digested under a secret that is lost.
    pub fn notice(&self, state: &State) -> Option<String> {
        let lost = state.keys.iter().filter(|(_, operation)| operation.0 < self.since).count();
        (lost > 0).then(|| {
            format!(
                "{FILE_NAME} was lost and made anew: {lost} earlier requests cannot be compared with a retry any more. A retry of one is \
                 refused as uncertain, and nothing is done twice"
            )
        })
    }
}

/// Whether a start could read it, or would make it.
///
/// # Errors
/// What a start would say.
pub fn look(root: &Path) -> io::Result<()> {
    match read(&root.join(FILE_NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map(drop),
    }
}

fn read(path: &Path) -> io::Result<Secret> {
    // Without O_NONBLOCK a pipe in its place would hold the start up for ever.
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{} {what}", path.display()));
    if !file.metadata()?.is_file() {
        return Err(invalid("is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(64).read_to_end(&mut bytes)?;
    let parts = bytes.split_first_chunk::<SECRET_BYTES>();
    let whole = parts.and_then(|(key, rest)| Some((*key, <[u8; SINCE_BYTES]>::try_from(rest).ok()?)));
    let (key, since) = whole.ok_or_else(|| invalid("has another length than its 40 bytes"))?;
    Ok(Secret { key, since: u64::from_le_bytes(since) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_once_and_read_as_it_was_made() {
        let root = tempfile::tempdir().unwrap();
        let made = Secret::open(root.path(), 7).unwrap();
        assert_eq!(made.since, 7);
        assert_eq!(Secret::open(root.path(), 9).unwrap(), made);
        std::fs::remove_file(root.path().join(FILE_NAME)).unwrap();
        let again = Secret::open(root.path(), 9).unwrap();
        assert!(again.since == 9 && again.key != made.key);
    }

    #[test]
    fn what_is_no_secret_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        for length in [0, 32, 39, 41, 100] {
            std::fs::write(root.path().join(FILE_NAME), vec![1; length]).unwrap();
            assert_eq!(Secret::open(root.path(), 1).unwrap_err().kind(), io::ErrorKind::InvalidData, "{length}");
        }
        std::fs::remove_file(root.path().join(FILE_NAME)).unwrap();
        std::fs::create_dir(root.path().join(FILE_NAME)).unwrap();
        assert!(Secret::open(root.path(), 1).unwrap_err().to_string().contains("is no regular file"));
    }
}
