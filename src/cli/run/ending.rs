//! What `run` exits with: the code of the command, as its host wrote it down, or as the broker tells where the host could not.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::context::Broker;
use super::super::exit;
use super::super::failure::Failure;
use super::super::spawn::Options;
use crate::host::{files, wire as host};
use crate::os::arg::Arg;
use crate::os::deadline::Deadline;
use crate::os::environment::Environment;
use crate::os::signal;
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::method::Method;
use crate::rpc::wire::{Exit, Session, SessionResult, WaitFor, WaitParams};

/// How long the broker may take to know of an end that the host has written down.
const SETTLES_WITHIN: Duration = Duration::from_secs(5);

/// The exit code of the episode that `session` shows. Its host has the first word: that is there even if no broker is, and belongs to this
/// episode even if the session has gone on meanwhile. The broker is given a moment to know of the end too, so that whoever asks next finds
/// the session ended.
///
/// # Errors
/// If the episode never came up or was lost with its host, and what the broker answers.
pub(super) fn code(session: &Session, folder: &Path, broker: &mut Broker) -> Result<u8, Failure> {
    let known = files::read_exit(folder).ok().flatten();
    if known.is_some() {
        broker.client.set_deadline(Deadline::after(SETTLES_WITHIN));
    }
    let params = WaitParams { session: session.id.clone(), until: WaitFor::Ended, timeout_ms: None };
    let waited = broker.call::<SessionResult>(Method::SessionWait, &params);
    if let Some(record) = known {
        return of_host(&record.exit, broker);
    }
    let ended = waited?.session;
    match (ended.exit, files::read_exit(folder)) {
        (_, Ok(Some(record))) => of_host(&record.exit, broker),
        (Some(exit), _) if ended.episode == session.episode => of_broker(&exit, broker),
        (_, _) => Err(lost(broker, "its exit status is not known: the session has gone on without it")),
    }
}

fn of_host(ended: &host::Exit, broker: &Broker) -> Result<u8, Failure> {
    match ended {
        host::Exit::Code(code) => Ok(of_code(*code)),
        host::Exit::Signal(name) => Ok(of_signal(name)),
        host::Exit::Error(failure) => Err(lost(broker, &failure.reason)),
    }
}

fn of_broker(ended: &Exit, broker: &Broker) -> Result<u8, Failure> {
    match ended {
        Exit::Code(code) => Ok(of_code(*code)),
        Exit::Signal(name) => Ok(of_signal(name)),
        Exit::Error(failure) => Err(lost(broker, &failure.reason)),
    }
}

fn lost(broker: &Broker, why: &str) -> Failure {
    broker.failure(WireError::new(ErrorCode::SpawnFailed, why).reason("host"))
}

/// A code beyond the eight bits that a program can have is no program's.
fn of_code(code: i32) -> u8 {
    u8::try_from(code).unwrap_or(exit::RUN_FAILED)
}

fn of_signal(name: &str) -> u8 {
    let number = signal::number(name).and_then(|number| u8::try_from(number).ok());
    number.and_then(|number| exit::RUN_SIGNAL_BASE.checked_add(number)).unwrap_or(exit::RUN_FAILED)
}

/// The code for a command that the system would not execute: there is none of this name, or there is.
pub(super) fn code_of_unexecuted(options: &Options, environment: &Environment) -> u8 {
    let Some(program) = options.command.first() else { return exit::RUN_NOT_FOUND };
    let folder = options.cwd.clone().unwrap_or_default();
    let named = options.env.iter().rev().find_map(|text| {
        let text = Arg::from(text.as_os_str());
        text.as_bytes().strip_prefix(b"PATH=").map(|path| Arg::from_bytes(path.to_vec()))
    });
    let path = named.as_ref().map(Arg::as_os_str).or_else(|| environment.get("PATH"));
    if is_there(program, &folder, path) { exit::RUN_CANNOT_EXECUTE } else { exit::RUN_NOT_FOUND }
}

/// Whether anything stands where the command would be found.
fn is_there(program: &OsStr, folder: &Path, path: Option<&OsStr>) -> bool {
    if Path::new(program).components().count() > 1 || Path::new(program).is_absolute() {
        return folder.join(program).symlink_metadata().is_ok();
    }
    let places: Vec<PathBuf> = path.map(|path| std::env::split_paths(path).collect()).unwrap_or_default();
    !program.is_empty() && places.iter().any(|place| folder.join(place).join(program).symlink_metadata().is_ok())
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

    #[test]
    fn a_missing_command_is_told_from_one_that_cannot_run() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("bin")).unwrap();
        std::fs::write(home.path().join("bin/plain"), "").unwrap();
        let there = |program: &str, path: &str| is_there(program.as_ref(), home.path(), Some(path.as_ref()));
        assert!(there("plain", "/nowhere:bin"));
        assert!(!there("plain", "/nowhere"));
        assert!(there("./bin/plain", ""));
        assert!(!there("./bin/other", "bin"));
        assert!(!there("", "bin"));
    }
}
