//! Takes the broker lock, looks for another living owner, leaves; over and over.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use ostler::broker::lock::{Outcome, acquire};
use ostler::os::deadline::Deadline;
use ostler::os::folder::Folder;
use ostler::os::identity::{Liveness, ProcessIdentity};
use ostler::os::paths::StateRoot;

/// Exit code of one that met another owner.
const OVERLAP: u8 = 3;

/// `rounds` rounds on the lock of `root`. While it is held, the file `witness` names the holder; only a holder that
/// was killed leaves it behind, so that whoever comes next finds nobody alive in it.
pub(crate) fn run(root: &Path, rounds: &str, witness: &Path) -> ExitCode {
    let rounds: u32 = rounds.parse().expect("a number of rounds");
    let me = ProcessIdentity::current().expect("/proc is there");
    let root = StateRoot::open_or_create(root).expect("the root can be used");
    let deadline = Deadline::after(Duration::from_secs(120));
    for round in 0..rounds {
        let taken = acquire(&root, deadline, || try_writer_lock(root.folder()), || None::<()>);
        let mut acquired = match taken {
            Ok(Outcome::Acquired(acquired)) => acquired,
            other @ (Ok(Outcome::Lost(()) | Outcome::Held) | Err(_)) => {
                eprintln!("contender: round {round}: {other:?}");
                return ExitCode::from(4);
            }
        };
        let other =
            std::fs::read(witness).ok().and_then(|bytes| serde_json::from_slice::<ProcessIdentity>(&bytes).ok());
        if other.as_ref().is_some_and(|other| other.liveness() == Liveness::Alive) {
            eprintln!("contender: round {round}: {other:?} has the lock too");
            return ExitCode::from(OVERLAP);
        }
        std::fs::write(witness, serde_json::to_vec(&me).expect("plain data")).expect("the witness can be written");
        std::thread::yield_now();
        std::fs::remove_file(witness).expect("nobody else removes it");
        // Every other round leaves in order; the rest leaves as the dead do.
        if round % 2 == 0 {
            acquired.release_mark().expect("the mark can be written");
        }
    }
    ExitCode::SUCCESS
}

/// What stands for the ledger's writer lock here: a lock of its own beside.
pub(crate) fn try_writer_lock(folder: &Folder) -> std::io::Result<Option<std::fs::File>> {
    let file = folder.open_or_create("writer.lock")?;
    match fs4::FileExt::try_lock(&file) {
        Ok(()) => Ok(Some(file)),
        Err(fs4::TryLockError::WouldBlock) => Ok(None),
        Err(fs4::TryLockError::Error(error)) => Err(error),
    }
}
