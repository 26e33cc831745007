//! Removes a session's files: resumable at every step, never through a link, never outside the session's folder but for the sockets of its own
//! dead hosts.

use std::fs;
use std::io;
use std::path::Path;

use super::prepare::{PrepareError, check_id};
use crate::host::files::{self, FileError};
use crate::os::fail::{Point, pass};

/// Deepest nesting in a session's folder that is removed; ours is three.
const DEPTH_MAX: usize = 16;

/// Removes `sessions/ID` and everything in it, durably, and the sockets that its hosts left. None of them lives any more. What is gone already is no
/// error.
///
/// # Errors
/// [`PrepareError::SessionId`], or the first file that cannot be removed; what was removed stays removed.
pub fn remove_session_files(root: &Path, session: &str) -> Result<(), PrepareError> {
    check_id(session)?;
    super::finish::remove_endpoints(root, session);
    let folder = files::session_folder(root, session);
    remove_tree(&folder, DEPTH_MAX)?;
    match files::sync_folder(&files::sessions_folder(root), Point::RemoveSynced) {
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(()),
        other => Ok(other?),
    }
}

fn remove_tree(path: &Path, depth: usize) -> Result<(), FileError> {
    let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if gone(&error) => return Ok(()),
        Err(error) => return Err(FileError::at("look at", path)(error)),
    };
    if !metadata.is_dir() {
        // A link is removed, not what it leads to.
        return match fs::remove_file(path) {
            Err(error) if !gone(&error) => Err(FileError::at("remove", path)(error)),
            Ok(()) | Err(_) => Ok(()),
        };
    }
    if depth == 0 {
        return Err(FileError::at("remove", path)(io::Error::other("nested too deep to be ours")));
    }
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if gone(&error) => return Ok(()),
        Err(error) => return Err(FileError::at("list", path)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(FileError::at("list", path))?;
        remove_tree(&entry.path(), depth - 1)?;
        pass(Point::RemoveBegun);
    }
    match fs::remove_dir(path) {
        Err(error) if !gone(&error) => Err(FileError::at("remove the folder", path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::remove_session_files;

    #[test]
    fn it_removes_links_and_not_what_they_lead_to_and_can_be_repeated() {
        let root = tempfile::tempdir().unwrap();
        let outside = root.path().join("outside");
        fs::create_dir_all(outside.join("kept")).unwrap();
        let folder = root.path().join("sessions/abc");
        fs::create_dir_all(folder.join("1/output")).unwrap();
        fs::write(folder.join("1/output/0"), "x").unwrap();
        fs::write(folder.join("spec.json"), "{}").unwrap();
        symlink(&outside, folder.join("link")).unwrap();
        symlink("nowhere", folder.join("1/dangling")).unwrap();
        fs::create_dir_all(root.path().join("sessions/other")).unwrap();
        for _ in 0..2 {
            remove_session_files(root.path(), "abc").unwrap();
            assert!(!folder.exists());
            assert!(outside.join("kept").exists() && root.path().join("sessions/other").exists());
        }
        assert!(remove_session_files(root.path(), "../outside").is_err());
        assert!(remove_session_files(&root.path().join("absent"), "abc").is_ok());
    }

    #[test]
    fn a_session_folder_that_is_a_link_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("outside/kept")).unwrap();
        fs::create_dir_all(root.path().join("sessions")).unwrap();
        symlink(root.path().join("outside"), root.path().join("sessions/abc")).unwrap();
        remove_session_files(root.path(), "abc").unwrap();
        assert!(root.path().join("outside/kept").exists());
        assert!(fs::symlink_metadata(root.path().join("sessions/abc")).is_err());
    }
}
