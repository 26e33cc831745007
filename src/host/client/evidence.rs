//! What can be seen of an episode without speaking to its host: its kernel lock, its records, and whether the host that
//! they name still runs. It looks only: a missing `life.lock` is never made, and the lock is tested shared. What stands in its place and
//! is no file, or is another file than the host has locked, tells as little as nothing there: it counts as absent.

use std::fs::{self, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::libc;

use crate::host::files::{self, Document, FileError, HOST_JSON, LIFE_LOCK};
use crate::host::wire::{ExitRecord, FileIdentity, HostRecord};
use crate::os::identity::Liveness;
use crate::os::signal::{Handle, Opened};

/// A host that is being torn down by the kernel lets go of its lock an instant before it counts as dead.
const TEARDOWN_MS: u64 = 1_000;

/// All that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Whether a host holds the episode's lock.
    pub lock: LockState,
    /// Which file that lock is, where it is there.
    pub lock_identity: Option<FileIdentity>,
    /// Which folder the episode's is, where it is there.
    pub folder_identity: Option<FileIdentity>,
    /// The host's record.
    pub host: HostFile,
    /// The exit record, once complete.
    pub exit: Option<ExitRecord>,
}

/// State of `life.lock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockState {
    /// There, and nobody holds it.
    Free,
    /// There, and held.
    Held,
    /// Not there, or something is that is no file and so was never locked.
    Absent,
}

/// State of `host.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostFile {
    /// Not there.
    Absent,
    /// Not readable as what was written; says why.
    Damaged(String),
    /// There.
    Present {
        /// What it says.
        record: Box<HostRecord>,
        /// Whether the host that it names runs; `Foreign`: another boot or PID namespace.
        liveness: Liveness,
    },
}

impl Evidence {
    /// Whether a file that nobody holds stands in the place of the one that this folder's own host has locked. In a copy of the folder it is
    /// the folder that is another.
    fn has_another_lock(&self) -> bool {
        let HostFile::Present { record, .. } = &self.host else { return false };
        self.lock == LockState::Free
            && self.lock_identity != Some(record.lock)
            && self.folder_identity == Some(record.folder)
    }

    /// Whether a host is still at work in the episode's folder. Where the lock cannot say it, its identity does.
    #[must_use]
    pub fn has_host(&self) -> bool {
        match (self.lock, &self.host) {
            (LockState::Held, _) => true,
            (LockState::Absent, HostFile::Present { record, liveness: Liveness::Alive }) => {
                self.folder_identity == Some(record.folder)
            }
            (LockState::Absent | LockState::Free, _) => false,
        }
    }
}

/// Whether a host is still at work in an episode's folder, as [`Evidence::has_host`] says it. Where the lock is free and is the one that a host's
/// record names nothing else is looked at.
///
/// # Errors
/// As [`gather`].
pub fn has_host(root: &Path, session: &str, episode: u32) -> Result<bool, FileError> {
    let folder = files::episode_folder(root, session, episode);
    let (lock, identity) = test_lock(&folder.join(LIFE_LOCK))?;
    // Without its record a host may be coming up: it locks first and writes it then. And it may have locked another file than stands there.
    let is_of_its_record = || match files::read_json::<HostRecord>(&folder.join(HOST_JSON)) {
        Document::Present(record) => identity == Some(record.lock),
        Document::Absent | Document::Damaged(_) => false,
    };
    match lock {
        LockState::Held => Ok(true),
        LockState::Free if is_of_its_record() => Ok(false),
        LockState::Free | LockState::Absent => Ok(gather(root, session, episode)?.has_host()),
    }
}

/// Gathers the evidence. Waits only for a host in the last instant of its life, and then at most a second.
///
/// # Errors
/// If the system does not let us look; nothing may be concluded then.
pub fn gather(root: &Path, session: &str, episode: u32) -> Result<Evidence, FileError> {
    let folder = files::episode_folder(root, session, episode);
    let (mut lock, lock_identity) = test_lock(&folder.join(LIFE_LOCK))?;
    let mut host = read_host(&folder.join(HOST_JSON));
    if lock == LockState::Free
        && let HostFile::Present { record, liveness: liveness @ Liveness::Alive } = &mut host
        && lock_identity == Some(record.lock)
    {
        *liveness = wait_teardown(record);
    }
    // A host may have come up between the two looks. Its record is only written under the lock, so look again.
    if lock == LockState::Free && host == HostFile::Absent {
        (lock, _) = test_lock(&folder.join(LIFE_LOCK))?;
        host = read_host(&folder.join(HOST_JSON));
    }
    // Read last: a host completes it before it lets go of the lock.
    let exit = files::read_exit(&folder)?;
    let folder_identity = match files::identity_at(&folder) {
        Ok(identity) => Some(identity),
        Err(error) if files::is_absent(&error) => None,
        Err(error) => return Err(FileError::at("look at", &folder)(error)),
    };
    let seen = Evidence { lock, lock_identity, folder_identity, host, exit };
    Ok(if seen.has_another_lock() { Evidence { lock: LockState::Absent, lock_identity: None, ..seen } } else { seen })
}

/// Tests the lock, shared, without making the file.
fn test_lock(path: &Path) -> Result<(LockState, Option<FileIdentity>), FileError> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if files::is_absent(&error) || is_no_file(path) => {
            return Ok((LockState::Absent, None));
        }
        Err(error) => return Err(FileError::at("open", path)(error)),
    };
    let metadata = file.metadata().map_err(FileError::at("look at", path))?;
    if !metadata.is_file() {
        return Ok((LockState::Absent, None));
    }
    let identity = Some(files::identity_of(&metadata));
    // Closing lets go of it; an explicit unlock never happens here.
    match file.try_lock_shared() {
        Ok(()) => Ok((LockState::Free, identity)),
        Err(TryLockError::WouldBlock) => Ok((LockState::Held, identity)),
        Err(TryLockError::Error(error)) => Err(FileError::at("test", path)(error)),
    }
}

/// Whether something stands there that no host has ever locked: a link, a folder, a socket.
fn is_no_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file())
}

fn read_host(path: &Path) -> HostFile {
    match files::read_json::<Box<HostRecord>>(path) {
        Document::Absent => HostFile::Absent,
        Document::Damaged(reason) => HostFile::Damaged(reason),
        Document::Present(record) => {
            let liveness = record.host.liveness();
            HostFile::Present { record, liveness }
        }
    }
}

fn wait_teardown(record: &HostRecord) -> Liveness {
    match Handle::open(&record.host) {
        Ok(Opened::Process(handle)) => match handle.wait_end(TEARDOWN_MS) {
            Ok(true) => Liveness::Dead,
            Ok(false) | Err(_) => record.host.liveness(),
        },
        Ok(Opened::Gone) => Liveness::Dead,
        Ok(Opened::Foreign) => Liveness::Foreign,
        Err(_) => Liveness::Unknown,
    }
}
