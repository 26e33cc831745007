//! What `run` exits with: the code of the command, as its host wrote it down, or as broker and ledger tell where the host could not. What
//! somebody else did to end it is told on the way.

use std::path::Path;
use std::time::Duration;

use super::super::exit;
use super::super::output::Output;
use super::story;
use super::watching::{Watching, Word};
use crate::host::{files, wire as host};
use crate::os::signal;
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::wire::{Exit, Session, SessionStatus};

/// How long the broker may take to know of an end that the host has written down: whoever asks next finds the session ended.
const SETTLES_WITHIN: Duration = Duration::from_secs(5);
/// How long it may take to judge an episode whose host left no exit: it ends what that one left first.
const JUDGED_WITHIN: Duration = Duration::from_secs(30);

/// The exit code of the episode that `session` shows. Its host has the first word: that is there even if no broker is, and belongs to this
/// episode even if the session has gone on meanwhile.
///
/// # Errors
/// If the episode never came up, or was lost with its host.
pub(super) fn code(session: &Session, root: &Path, watching: &Watching, output: Output) -> Result<u8, WireError> {
    let folder = files::episode_folder(root, &session.id, session.episode);
    let known = files::read_exit(&folder).ok().flatten();
    let word = watching.word(if known.is_some() { SETTLES_WITHIN } else { JUDGED_WITHIN });
    let word = word.filter(|word| !matches!(word, Word::Ended(ended) if ended.episode != session.episode));
    let told = if ended_by_itself(word.as_ref()) { None } else { story::read(root, session) };
    if let Some(by) = told.as_ref().and_then(|told| told.by_another(std::process::id())) {
        output.progress(&format!("ostler: session {} was {by}", session.id));
    }
    // It may have been completed meanwhile.
    if let Some(record) = known.or_else(|| files::read_exit(&folder).ok().flatten()) {
        return of_host(&record.exit);
    }
    let exit = match word {
        Some(Word::Ended(ended)) => ended.exit,
        Some(Word::Refused(error)) if told.is_none() => return Err(error),
        Some(Word::Refused(_) | Word::Without) | None => None,
    };
    match exit.or_else(|| told.and_then(|told| told.exit)) {
        Some(exit) => of_broker(&exit),
        None => Err(lost("its host is gone and left no exit status")),
    }
}

/// Whether the broker says so: then nobody else had a part in it.
fn ended_by_itself(word: Option<&Word>) -> bool {
    use SessionStatus::{Exited, Failed, Interrupted};
    matches!(word, Some(Word::Ended(ended)) if matches!(ended.status, Exited | Failed | Interrupted))
}

fn of_host(ended: &host::Exit) -> Result<u8, WireError> {
    match ended {
        host::Exit::Code(code) => Ok(of_code(*code)),
        host::Exit::Signal(name) => Ok(of_signal(name)),
        host::Exit::Error(failure) => Err(lost(&failure.reason)),
    }
}

fn of_broker(ended: &Exit) -> Result<u8, WireError> {
    match ended {
        Exit::Code(code) => Ok(of_code(*code)),
        Exit::Signal(name) => Ok(of_signal(name)),
        Exit::Error(failure) => Err(lost(&failure.reason)),
    }
}

fn lost(why: &str) -> WireError {
    let error = WireError::new(ErrorCode::SpawnFailed, why).reason("host");
    error.with("remedy", "ostler list --all shows what became of it")
}

/// A code beyond the eight bits that a program can have is no program's.
fn of_code(code: i32) -> u8 {
    u8::try_from(code).unwrap_or(exit::RUN_FAILED)
}

fn of_signal(name: &str) -> u8 {
    let number = signal::number(name).and_then(|number| u8::try_from(number).ok());
    number.and_then(|number| exit::RUN_SIGNAL_BASE.checked_add(number)).unwrap_or(exit::RUN_FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_signals_become_exit_codes() {
        assert_eq!((of_code(0), of_code(255), of_code(256), of_code(-1)), (0, 255, 125, 125));
        for (name, code) in [("SIGTERM", 143), ("SIGKILL", 137), ("SIG64", 192), ("SIGNONE", 125)] {
            assert_eq!(of_signal(name), code, "{name}");
        }
    }
}
