//! The broker lock: one permanent inode, `broker.lock`, under flock(2). Who holds it is the broker of this state root.
//!
//! ```text
//!            look at the name
//!   free or our file |     | a folder, link, socket ... of ours      | a stranger's, or open to others
//!          open, try-lock  | ledger's writer lock, second look,      | refuse, with owner and mode
//!   refused |   | granted  | rename aside, start over
//!      Held |   name still leads to this inode? -- no --> start over
//!           |   old record: none, or released in order --> keep silent
//!           |               anything else             --> copy aside, name the dead owner
//!           |   write our record, sync: Acquired
//! ```
//!
//! Promises: the file is never renamed, unlinked or truncated before the lock is had; it is closed, never unlocked (an
//! unlock on one duplicate of the descriptor would free it for all); a refused try means only that somebody holds it now;
//! nobody is signalled, and no pid decides anything.

use std::fs::File;
use std::io::{self, Read, Seek, Write};

use crate::os::build::build;
use crate::os::deadline::{Deadline, Pauses};
use crate::os::durable::{self, Point};
use crate::os::fail::pass;
use crate::os::folder::{Folder, Kind, Standing, standing};
use crate::os::identity::{Liveness, ProcessIdentity};
use crate::os::locks::lock_holder;
use crate::os::paths::{PathError, StateRoot, check_private};
use crate::os::{clock, entropy};
use crate::rpc::convert::{lack_or, storage_code};
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::wire::Timestamp;

use super::owner::{Left, Owner, RECORD_BYTES_MAX};
use super::quarantine::{self, QuarantineError, Swept};

pub use crate::os::paths::LOCK_NAME;

/// Pauses between two tries: the holder may be a dying owner, or a fork on its way to exec.
const FIRST_PAUSE: std::time::Duration = std::time::Duration::from_millis(5);
const LONGEST_PAUSE: std::time::Duration = std::time::Duration::from_millis(200);

/// The lock, held. Dropping it closes the file, which is what frees it.
#[derive(Debug)]
pub struct Acquired {
    file: File,
    standing: Standing,
    owner: Owner,
    /// The owner that died with it, if one did: the reclaim belongs into the ledger.
    pub reclaimed: Option<DeadOwner>,
    /// What the retention of quarantined records did; for the one log line of this start.
    pub swept: io::Result<Swept>,
}

/// An owner that did not leave in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadOwner {
    /// Its record, where it can be read.
    pub record: Option<Owner>,
    /// What the system says of the process in it. Evidence only: the kernel had already let go of its lock.
    pub liveness: Option<Liveness>,
    /// Name of the copy in the state root.
    pub set_aside_as: String,
    /// SHA-256 of the record, 64 hex digits.
    pub digest: String,
}

/// How a try for the lock ended.
#[derive(Debug)]
pub enum Outcome<W> {
    /// It is ours.
    Acquired(Box<Acquired>),
    /// Somebody else has it and answers: the winner.
    Lost(W),
    /// Somebody has it and nobody answered until the deadline.
    Held,
}

/// Why the lock cannot be had or judged. Without it there is no broker.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The file, or what stands in its place, is not usable.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The file system has no working locks.
    #[error("{} cannot be locked: {source}; name a root on a local file system", path.display())]
    Unlockable {
        /// The lock file.
        path: std::path::PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// A dead owner's record cannot be set aside.
    #[error(transparent)]
    Quarantine(#[from] QuarantineError),
    /// Something of ours stands in its place, and the ledger's writer lock, which guards its removal, cannot be tried.
    #[error("something stands in place of {} and the ledger cannot be locked to move it: {source}", path.display())]
    WriterLock {
        /// The lock file.
        path: std::path::PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// This process cannot say who it is.
    #[error("the identity of this process cannot be read: {0}")]
    Identity(io::Error),
}

impl From<&LockError> for WireError {
    fn from(error: &LockError) -> WireError {
        let blocked = |reason| WireError::new(ErrorCode::BrokerBlocked, error.to_string()).reason(reason);
        let unless_lacking = |source: &io::Error, reason| {
            WireError::new(lack_or(source, ErrorCode::BrokerBlocked), error.to_string()).reason(reason)
        };
        match error {
            LockError::Path(error) => error.into(),
            LockError::Unlockable { source, .. } => unless_lacking(source, "unlockable"),
            LockError::Quarantine(QuarantineError::Io(source)) => {
                WireError::new(storage_code(source), error.to_string()).reason("quarantine")
            }
            LockError::Quarantine(QuarantineError::NoFreeName | QuarantineError::Exchanged) => blocked("quarantine"),
            LockError::WriterLock { source, .. } => unless_lacking(source, "writer_lock"),
            LockError::Identity(source) => unless_lacking(source, "identity"),
        }
    }
}

/// Takes the lock, or says who has it. While it is refused, `answering` asks the holder for its hello, without waiting
/// for long; it is given up at the deadline.
///
/// `try_writer_lock` tries the ledger's writer lock and returns a guard, or none if it is held; it makes the ledger's
/// folder if it has to. It is called only when something that is no file stands in the lock's place.
///
/// # Errors
/// Everything of [`LockError`]; each is final, trying again does not help.
pub fn acquire<G, W>(
    root: &StateRoot,
    deadline: Deadline,
    try_writer_lock: impl Fn() -> io::Result<Option<G>>,
    mut answering: impl FnMut() -> Option<W>,
) -> Result<Outcome<W>, LockError> {
    let identity = ProcessIdentity::current().map_err(LockError::Identity)?;
    let mut pauses = Pauses::new(FIRST_PAUSE, LONGEST_PAUSE);
    loop {
        match attempt(root, &identity, &try_writer_lock)? {
            Attempt::Acquired(acquired) => return Ok(Outcome::Acquired(acquired)),
            Attempt::Held => {
                if let Some(winner) = answering() {
                    return Ok(Outcome::Lost(winner));
                }
            }
            Attempt::Moved => {}
        }
        if !pauses.pause(deadline) {
            return Ok(Outcome::Held);
        }
    }
}

/// How one attempt ended.
enum Attempt {
    Acquired(Box<Acquired>),
    Held,
    /// The name led elsewhere meanwhile, or something was moved out of its way: start over.
    Moved,
}

fn attempt<G>(
    root: &StateRoot,
    identity: &ProcessIdentity,
    try_writer_lock: &impl Fn() -> io::Result<Option<G>>,
) -> Result<Attempt, LockError> {
    let folder = root.folder();
    let path = || root.path().join(LOCK_NAME);
    let look = || folder.look(LOCK_NAME).map_err(|error| PathError::io("look at", path(), error));
    match look()? {
        None => {}
        Some(there) => {
            check_private_unless_link(root, &there)?;
            if there.kind != Kind::File {
                return clear_the_way(root, &there, try_writer_lock);
            }
        }
    }
    let file = match folder.open_or_create(LOCK_NAME) {
        Ok(file) => file,
        // No longer what was looked at: a link or a folder came, or a socket.
        Err(_) if !look()?.is_none_or(|there| there.kind == Kind::File) => return Ok(Attempt::Moved),
        Err(error) => return Err(PathError::io("open", path(), error).into()),
    };
    let ours = standing(&file).map_err(|error| PathError::io("look at", path(), error))?;
    if ours.kind != Kind::File {
        return Ok(Attempt::Moved);
    }
    check_private(&path(), &ours)?;
    #[cfg(test)]
    tests::between_open_and_lock();
    match fs4::FileExt::try_lock(&file) {
        Ok(()) => {}
        Err(fs4::TryLockError::WouldBlock) => return Ok(Attempt::Held),
        Err(fs4::TryLockError::Error(source)) => return Err(LockError::Unlockable { path: path(), source }),
    }
    if !look()?.is_some_and(|there| there.is_same(&ours)) {
        return Ok(Attempt::Moved);
    }
    take_over(root, file, ours, identity).map(|acquired| Attempt::Acquired(Box::new(acquired)))
}

/// A link has mode 0777 by nature; only its owner counts.
fn check_private_unless_link(root: &StateRoot, there: &Standing) -> Result<(), PathError> {
    let mode = if there.kind == Kind::Link { 0o700 } else { there.mode };
    // What is no file is only moved away: its mode is of no account, its owner is.
    let mode = if there.kind == Kind::File { mode } else { mode & 0o700 };
    check_private(&root.path().join(LOCK_NAME), &Standing { mode, ..*there })
}

/// Moves what is no file out of the lock's way. Two starters that both did this by looking alone could each rename the
/// other's fresh lock away; the ledger's writer lock makes it one at a time, and the second look makes it the same thing.
fn clear_the_way<G>(
    root: &StateRoot,
    seen: &Standing,
    try_writer_lock: &impl Fn() -> io::Result<Option<G>>,
) -> Result<Attempt, LockError> {
    let path = || root.path().join(LOCK_NAME);
    let guard = try_writer_lock().map_err(|source| LockError::WriterLock { path: path(), source })?;
    let Some(_guard) = guard else {
        return Ok(Attempt::Held);
    };
    let again = root.folder().look(LOCK_NAME).map_err(|error| PathError::io("look at", path(), error))?;
    if !again.is_some_and(|again| again.is_same(seen) && again.kind == seen.kind) {
        return Ok(Attempt::Moved);
    }
    match quarantine::take_away(root.folder(), LOCK_NAME, seen, &mut entropy::hex::<8>) {
        Ok(_) | Err(QuarantineError::Exchanged) => Ok(Attempt::Moved),
        Err(error) => Err(error.into()),
    }
}

/// The lock is had: set the old record aside, write ours.
fn take_over(
    root: &StateRoot,
    mut file: File,
    standing: Standing,
    identity: &ProcessIdentity,
) -> Result<Acquired, LockError> {
    let path = || root.path().join(LOCK_NAME);
    pass(Point::LockHad);
    let reclaimed = match read_from(&mut file) {
        Ok(bytes) => reclaim(root.folder(), &bytes)?,
        // A record that cannot be read is judged by the kernel lock alone, and that is ours.
        Err(_) => None,
    };
    let now_us = clock::wall_us();
    let nonce = entropy::hex::<32>();
    let owner = Owner::new(identity.clone(), nonce, build().version, Timestamp::from_us(now_us));
    write_record(&mut file, &owner, Point::LockRecorded)
        .and_then(|()| root.folder().sync(Point::LockNamed))
        .map_err(|error| PathError::io("write", path(), error))?;
    let now_s = i64::try_from(now_us / 1_000_000).unwrap_or(i64::MAX);
    let swept = quarantine::sweep(root.folder(), now_s);
    Ok(Acquired { file, standing, owner, reclaimed, swept })
}

fn reclaim(folder: &Folder, bytes: &[u8]) -> Result<Option<DeadOwner>, QuarantineError> {
    let record = match Left::read(bytes) {
        Left::Nothing | Left::InOrder(_) => return Ok(None),
        Left::Dead(owner) => Some(owner),
        Left::Unreadable => None,
    };
    let set_aside = quarantine::copy(folder, bytes, &mut entropy::hex::<8>)?;
    let liveness = record.as_ref().map(|owner| owner.identity.liveness());
    Ok(Some(DeadOwner { record, liveness, set_aside_as: set_aside.name, digest: set_aside.digest }))
}

/// Reads the old record from the very file whose lock is held.
fn read_from(file: &mut File) -> io::Result<Vec<u8>> {
    file.rewind()?;
    let mut bytes = Vec::new();
    let length = file.take(RECORD_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    let length = u64::try_from(length).unwrap_or(u64::MAX);
    if length > RECORD_BYTES_MAX { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

/// New content first, the old rest cut off after: a crash in between leaves what is unreadable, never what is wrong.
fn write_record(file: &mut File, owner: &Owner, point: Point) -> io::Result<()> {
    let bytes = owner.to_bytes();
    file.rewind()?;
    file.write_all(&bytes)?;
    file.set_len(u64::try_from(bytes.len()).unwrap_or(u64::MAX))?;
    durable::sync(file, point)
}

impl Acquired {
    /// Our own record.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Device and inode of the lock.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Writes the mark of one that is on its way out, for those who look from outside.
    ///
    /// # Errors
    /// What the system answers; then it looks from outside as if it were starting.
    pub fn leaving_mark(&mut self) -> io::Result<()> {
        self.owner.leaving = true;
        write_record(&mut self.file, &self.owner, Point::ShutdownMarked)
    }

    /// Writes the clean-release mark. The last step but closing: whoever comes next has nothing to reclaim.
    ///
    /// # Errors
    /// What the system answers; then the next owner reclaims, which costs one quarantined record.
    pub fn release_mark(&mut self) -> io::Result<()> {
        self.owner.released = true;
        write_record(&mut self.file, &self.owner, Point::ShutdownReleased)
    }
}

/// The error of a start that found the lock held and its holder silent until the deadline.
pub fn held(root: &StateRoot) -> WireError {
    let holder = lock_holder(root.folder(), LOCK_NAME).ok().flatten().and_then(|holder| holder.pid);
    let by = holder.map_or_else(String::new, |pid| format!(" by process {pid}"));
    let message = format!(
        "{} is held{by} and no broker answers; `ostler status` shows it, `ostler shutdown --force` ends it after checking \
         its identity",
        root.path().join(LOCK_NAME).display()
    );
    WireError::new(ErrorCode::BrokerUnreachable, message).reason("unresponsive")
}

/// The broker incarnation: SHA-256 over the canonical JSON of ledger id, process identity and lock nonce; 64 hex digits.
pub fn incarnation(ledger_id: &str, owner: &Owner) -> String {
    use sha2::{Digest, Sha256};
    // Members in sorted order without white space: the canonical form of RFC 8785 for text and small integers.
    let text = |value: &str| serde_json::Value::from(value).to_string();
    let ProcessIdentity { boot, ns, pid, start } = &owner.identity;
    let canonical = format!(
        r#"{{"identity":{{"boot":{},"ns":{ns},"pid":{pid},"start":{start}}},"ledger":{},"nonce":{}}}"#,
        text(boot),
        text(ledger_id),
        text(&owner.nonce)
    );
    data_encoding::HEXLOWER.encode(&Sha256::digest(canonical))
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
