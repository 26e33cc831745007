//! The writer lock: `flock` on `writer.lock` in the ledger folder, a permanent file that is never renamed or removed.
//!
//! Promises: bounded waiting; a granted lock is on the file that the name leads to; never an explicit unlock (a child
//! between fork and exec shares the lock): closing the descriptor releases it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use fs4::{FileExt, TryLockError};
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, fstat, fstatat};

use super::LockError;
use super::disk::HeldFolder;

const FILE: &str = "writer.lock";
const POLL: Duration = Duration::from_millis(10);

/// Holds the writer lock until it is dropped.
#[derive(Debug)]
pub struct WriterLock {
    _file: File,
}

/// Takes the writer lock of a ledger folder if it is free, for work that must not run beside a writer. `None` means
/// that somebody holds it. Makes the folder and the lock file if there are none.
pub fn try_writer_lock(folder: &Path) -> io::Result<Option<WriterLock>> {
    try_lock(&HeldFolder::make(folder)?)
}

/// As [`try_writer_lock`], waiting at most this long.
pub(super) fn lock(folder: &HeldFolder, wait: Duration) -> Result<WriterLock, LockError> {
    let deadline = now() + wait;
    loop {
        if let Some(lock) = try_lock(folder)? {
            return Ok(lock);
        }
        if now() >= deadline {
            return Err(LockError::Held);
        }
        pause();
    }
}

fn try_lock(folder: &HeldFolder) -> io::Result<Option<WriterLock>> {
    loop {
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = File::from(openat(folder.descriptor(), FILE, flags, Mode::from_bits_truncate(0o600))?);
        folder.check_file(&file, FILE)?;
        match FileExt::try_lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let held = fstat(&file)?;
        match fstatat(folder.descriptor(), FILE, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(named) if (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino) => {
                return Ok(Some(WriterLock { _file: file }));
            }
            // The name leads elsewhere by now: the lock on this file keeps nobody out.
            Ok(_) | Err(nix::errno::Errno::ENOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the wait for the lock is bounded by a clock; nothing is recorded")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "flock has no wait with a deadline; the lock is polled until one")]
fn pause() {
    std::thread::sleep(POLL);
}
