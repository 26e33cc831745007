//! The files of sessions and episodes: their names, how they get durable, how they are read with suspicion.
//!
//! A small document is replaced whole (temporary file, sync, rename, sync of the folder). `exit.json` alone is written
//! in place, because its blocks must exist before a disk can fill. Nothing here follows a link.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::libc;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::wire::{Exit, ExitRecord, FileIdentity, version};
use crate::os::durable::{self, Point};
use crate::os::entropy;

/// The kernel lock that a living host holds.
pub const LIFE_LOCK: &str = "life.lock";
/// The host's record.
pub const HOST_JSON: &str = "host.json";
/// The exit record.
pub const EXIT_JSON: &str = "exit.json";
/// What became of messages for the command's standard input.
pub const JOURNAL: &str = "journal";
/// The session's spec.
pub const SPEC_JSON: &str = "spec.json";
/// The session's credential.
pub const CREDENTIAL: &str = "credential";
/// The folder of the spool.
pub const OUTPUT: &str = "output";

/// Size of `exit.json`, always: a page, so that completing it changes one block in place.
const EXIT_FILE_BYTES: usize = 4096;
/// Longest document that is read, far above any that is written.
const DOCUMENT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// `ROOT/sessions`.
#[must_use]
pub fn sessions_folder(root: &Path) -> PathBuf {
    root.join("sessions")
}

/// `ROOT/sessions/ID`.
#[must_use]
pub fn session_folder(root: &Path, session: &str) -> PathBuf {
    sessions_folder(root).join(session)
}

/// `ROOT/sessions/ID/EPISODE`.
#[must_use]
pub fn episode_folder(root: &Path, session: &str, episode: u32) -> PathBuf {
    session_folder(root, session).join(episode.to_string())
}

/// Whether this can be a folder of a session: the root is not to be left through a name.
#[must_use]
pub fn is_session_id(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// A file operation that failed, with what it was about.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {path}: {source}")]
pub struct FileError {
    /// What was tried.
    pub operation: &'static str,
    /// On what.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl FileError {
    /// For `map_err`.
    pub fn at(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self { operation, path, source }
    }
}

/// Makes a 0700 folder if it is not there; its parent is synced, so it stays.
///
/// # Errors
/// If it cannot be made, or something else has that name.
pub fn make_folder(path: &Path, point: Point) -> Result<(), FileError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_folder(path) => {}
        Err(error) => return Err(FileError::at("make the folder", path)(error)),
    }
    // Synced even if it was there: whoever made it may have died before its sync.
    match path.parent() {
        Some(parent) => sync_folder(parent, point),
        None => Ok(()),
    }
}

/// Makes a folder's entries durable.
///
/// # Errors
/// If the sync fails.
pub fn sync_folder(path: &Path, point: Point) -> Result<(), FileError> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let folder = OpenOptions::new().read(true).custom_flags(flags).open(path);
    folder.and_then(|folder| durable::sync(folder, point)).map_err(FileError::at("sync the folder", path))
}

fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// Replaces a document whole and durably, 0600; the points stand behind the syncs of content and name.
///
/// # Errors
/// If any step fails; the old document then stands.
pub fn replace(path: &Path, bytes: &[u8], [content, name]: [Point; 2]) -> Result<(), FileError> {
    replace_but_name(path, bytes, content)?;
    sync_folder(path.parent().unwrap_or(Path::new("/")), name)
}

/// As [`replace`], but the caller makes the name durable by a later [`sync_folder`].
///
/// # Errors
/// If any step fails; the old document then stands.
pub fn replace_but_name(path: &Path, bytes: &[u8], point: Point) -> Result<(), FileError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = folder.join(format!(".{name}.{}", entropy::hex::<8>()));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(bytes)?;
        durable::sync(&file, point)?;
        fs::rename(&temporary, path)
    })();
    if let Err(error) = written {
        // What cannot be removed either is left to the removal of the whole session.
        drop(fs::remove_file(&temporary));
        return Err(FileError::at("write", path)(error));
    }
    Ok(())
}

/// Replaces a JSON document whole and durably, 0600.
///
/// # Errors
/// If any step fails; the old document then stands.
pub fn replace_json<T: Serialize>(path: &Path, document: &T, points: [Point; 2]) -> Result<(), FileError> {
    replace(path, &to_line(document), points)
}

/// Compact JSON and LF.
///
/// # Panics
/// Never: our documents have string keys only.
pub fn to_line<T: Serialize>(document: &T) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(document).expect("documents have string keys only");
    bytes.push(b'\n');
    bytes
}

/// A regular file's content, or `None` if there is no such file.
///
/// # Errors
/// If it is no regular file, too large, or cannot be read.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    // Non-blocking: a pipe planted at that name must not stop us.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(FileError::at("open", path)(error)),
    };
    let mut bytes = Vec::new();
    let read = file.metadata().and_then(|metadata| {
        if !metadata.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        // One more than there is, so that one read takes it all and the next one finds the end.
        let room = metadata.len().min(DOCUMENT_BYTES_MAX) + 1;
        bytes.reserve_exact(usize::try_from(room).unwrap_or(0));
        (&file).take(DOCUMENT_BYTES_MAX + 1).read_to_end(&mut bytes)
    });
    match read {
        Ok(length) if u64::try_from(length).is_ok_and(|length| length <= DOCUMENT_BYTES_MAX) => Ok(Some(bytes)),
        Ok(_) => Err(FileError::at("read", path)(io::Error::other("too large"))),
        Err(error) => Err(FileError::at("read", path)(error)),
    }
}

/// What a document's file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document<T> {
    /// There is no such file.
    Absent,
    /// It is not what was written; the text says why.
    Damaged(String),
    /// The document.
    Present(T),
}

/// Reads a JSON document.
#[must_use]
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Document<T> {
    match read(path) {
        Ok(None) => Document::Absent,
        Ok(Some(bytes)) => match serde_json::from_slice(&bytes) {
            Ok(document) => Document::Present(document),
            Err(error) => Document::Damaged(format!("{}: {error}", path.display())),
        },
        Err(error) => Document::Damaged(error.to_string()),
    }
}

/// Whether an error says that there is no such file: no such name, or no folder where its folder should be.
#[must_use]
pub fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Device and inode of what stands at a path, links not followed.
///
/// # Errors
/// If nothing stands there.
pub fn identity_at(path: &Path) -> io::Result<FileIdentity> {
    Ok(identity_of(&fs::symlink_metadata(path)?))
}

/// Device and inode.
#[must_use]
pub fn identity_of(metadata: &fs::Metadata) -> FileIdentity {
    FileIdentity { device: metadata.dev(), inode: metadata.ino() }
}

/// `exit.json`, made before the command runs and completed in place.
#[derive(Debug)]
pub struct ExitFile {
    file: File,
    path: PathBuf,
}

impl ExitFile {
    /// Writes it at its full size, not complete; its name gets durable with that of `host.json`, before the command
    /// runs. Made again from scratch if it is there: only a host that holds the life lock calls this.
    ///
    /// # Errors
    /// If there is no room; then nothing was started.
    pub fn prepare(folder: &Path) -> Result<Self, FileError> {
        let path = folder.join(EXIT_JSON);
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let opened =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).custom_flags(flags).open(&path);
        let written = opened.and_then(|file| {
            file.write_all_at(&padded(&serde_json::json!({ "complete": false })), 0)?;
            durable::sync(&file, Point::HostExitPrepared)?;
            Ok(file)
        });
        let file = written.map_err(FileError::at("write", &path))?;
        Ok(Self { file, path })
    }

    /// Completes it durably, in place.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn complete(&self, record: &ExitRecord) -> Result<(), FileError> {
        let written = self.file.write_all_at(&complete_page(record), 0);
        let written = written.and_then(|()| durable::sync_data(&self.file, Point::HostExitCompleted));
        written.map_err(FileError::at("complete", &self.path))
    }
}

/// Reads `exit.json`: `None` while it is absent or not complete. A torn one is not complete either, nor is what no host has written: something
/// that is no file, or is too large for one.
///
/// # Errors
/// If it is there and cannot be read.
pub fn read_exit(folder: &Path) -> Result<Option<ExitRecord>, FileError> {
    let path = folder.join(EXIT_JSON);
    let is_no_record = |there: fs::Metadata| !there.is_file() || there.len() > DOCUMENT_BYTES_MAX;
    let bytes = match read(&path) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(None),
        Err(_) if fs::symlink_metadata(&path).is_ok_and(is_no_record) => return Ok(None),
        Err(error) => return Err(error),
    };
    match serde_json::from_slice::<StoredExit>(&bytes) {
        Ok(stored) if stored.complete => Ok(stored.record),
        Ok(_) | Err(_) => Ok(None),
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
struct StoredExit {
    complete: bool,
    #[serde(flatten)]
    record: Option<ExitRecord>,
}

fn complete_page(record: &ExitRecord) -> Vec<u8> {
    let mut record = record.clone();
    assert_eq!(record.version, version(), "this program writes its own version");
    loop {
        let page = padded(&StoredExit { complete: true, record: Some(record.clone()) });
        if page.len() == EXIT_FILE_BYTES {
            return page;
        }
        // Only the reason of a failed start can be that long.
        match &mut record.exit {
            Exit::Error(failure) => shorten(&mut failure.reason),
            Exit::Code(_) | Exit::Signal(_) => panic!("a code or a signal's name fits a page"),
        }
    }
}

/// Takes half of a text away, at a character's boundary.
fn shorten(text: &mut String) {
    let mut half = text.len() / 2;
    while !text.is_char_boundary(half) {
        half -= 1;
    }
    text.truncate(half);
}

/// JSON, spaces up to the size of the file, LF; longer if it does not fit.
fn padded<T: Serialize>(document: &T) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(document).expect("documents have string keys only");
    if bytes.len() < EXIT_FILE_BYTES {
        bytes.resize(EXIT_FILE_BYTES - 1, b' ');
    }
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Document, EXIT_FILE_BYTES, EXIT_JSON, ExitFile, read_exit, read_json, replace, replace_json};
    use crate::host::wire::{Exit, ExitRecord, StartFailure, StartPhase};
    use crate::os::durable::Point;

    const POINTS: [Point; 2] = [Point::HostRecordContent, Point::HostRecordNamed];

    fn record(exit: Exit) -> ExitRecord {
        ExitRecord { version: 1, exit, ended_us: 5, was_ready: false }
    }

    fn failure(reason: String) -> Exit {
        Exit::Error(StartFailure { phase: StartPhase::Exec, reason, errno: Some(2), cause: None })
    }

    #[test]
    fn the_exit_file_keeps_its_size_whatever_the_exit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(EXIT_JSON);
        assert_eq!(read_exit(folder.path()).unwrap(), None);
        let file = ExitFile::prepare(folder.path()).unwrap();
        assert_eq!(read_exit(folder.path()).unwrap(), None);
        for exit in [Exit::Code(-1), Exit::Signal("SIGKILL".into()), failure("no \u{1}".into())] {
            file.complete(&record(exit.clone())).unwrap();
            assert_eq!(fs::read(&path).unwrap().len(), EXIT_FILE_BYTES);
            assert_eq!(read_exit(folder.path()).unwrap(), Some(record(exit)));
        }
        file.complete(&record(failure("\u{1}é".repeat(10_000)))).unwrap();
        assert_eq!(fs::read(&path).unwrap().len(), EXIT_FILE_BYTES);
        let Some(ExitRecord { exit: Exit::Error(failure), .. }) = read_exit(folder.path()).unwrap() else {
            panic!("it is complete")
        };
        assert!(failure.reason.starts_with("\u{1}é"));
        assert_eq!(failure.errno, Some(2));
    }

    #[test]
    fn a_torn_exit_file_is_not_complete() {
        let folder = tempfile::tempdir().unwrap();
        ExitFile::prepare(folder.path()).unwrap().complete(&record(Exit::Code(0))).unwrap();
        let whole = fs::read(folder.path().join(EXIT_JSON)).unwrap();
        for cut in [0, 1, 20, 512] {
            let mut torn = vec![0; EXIT_FILE_BYTES];
            torn[..cut].copy_from_slice(&whole[..cut]);
            fs::write(folder.path().join(EXIT_JSON), torn).unwrap();
            assert_eq!(read_exit(folder.path()).unwrap(), None, "cut at {cut}");
        }
    }

    #[test]
    fn a_document_is_replaced_whole_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        assert_eq!(read_json::<u32>(&path), Document::Absent);
        replace_json(&path, &1, POINTS).unwrap();
        replace_json(&path, &2, POINTS).unwrap();
        assert_eq!(read_json::<u32>(&path), Document::Present(2));
        replace(&path, b"{", POINTS).unwrap();
        assert!(matches!(read_json::<u32>(&path), Document::Damaged(_)));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn links_and_pipes_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
        assert!(matches!(read_json::<u32>(&link), Document::Damaged(_)));
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(matches!(read_json::<u32>(&pipe), Document::Damaged(_)));
    }
}
