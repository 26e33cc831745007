//! Starting a broker and following its report, under the deadline of whoever asked.
//!
//! Promises: the starter is never signalled and its pipe is let go on every path; why a start came to nothing is said
//! with its stage, exit status, last log lines and what to type.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use super::{ClientOptions, Program};
use crate::os::deadline::Deadline;
use crate::os::detach::{Detached, Reading, Started, own_image};
use crate::os::fail::{Point, pass};
use crate::os::paths::StateRoot;
use crate::rpc::convert::no_process_or;
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::frame::Lines;
use crate::rpc::report::{Failure, Line, Stage};
use crate::rpc::wire::Broker;

/// Name of the broker's log in the state root.
const LOG_NAME: &str = "broker.log";
/// How much of it an error shows.
const LOG_LINES_MAX: usize = 10;
const LOG_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Longest line of a report, bytes.
const REPORT_LINE_BYTES_MAX: usize = 64 * 1024;
/// How long a process whose pipe has ended may take to be gone.
const END_WITHIN: Duration = Duration::from_secs(1);

/// What became of a start.
#[derive(Debug)]
pub(super) enum Told {
    /// It is published and answers.
    Ready(Box<Broker>),
    /// Another one is the broker.
    Lost,
    /// It gave up.
    Failed(Box<Failure>),
    /// It ended without a last line.
    Died(Option<ExitStatus>, Option<Stage>),
    /// It is still at it.
    Late(Option<Stage>),
}

/// Starts a broker and follows its report to the last line.
pub(super) fn start(options: &ClientOptions, root: &StateRoot, deadline: Deadline) -> Result<Told, WireError> {
    let program = program(&options.program)?;
    let args: [OsString; 3] = ["broker".into(), "--root".into(), root.path().into()];
    let detached = Detached {
        program: &program,
        args: &args,
        cwd: root.path(),
        stderr: root.folder().append_file(LOG_NAME).ok(),
        environment: &options.environment,
        // It says why it gives up before its starter does.
        budget: deadline.remaining() * 9 / 10,
    };
    pass(Point::EnsureStart);
    let started = detached.start().map_err(|error| {
        let message = format!("the broker cannot be started from {}: {error}", program.display());
        WireError::new(no_process_or(&error, ErrorCode::BrokerUnreachable), message).reason("not_started")
    })?;
    pass(Point::EnsureStarted);
    follow(started, deadline)
}

fn program(program: &Program) -> Result<PathBuf, WireError> {
    match program {
        Program::File(path) => Ok(path.clone()),
        Program::Own => own_image().map_err(|error| {
            WireError::new(ErrorCode::BrokerUnreachable, format!("this executable has no path: {error}"))
        }),
    }
}

fn follow(mut started: Started, deadline: Deadline) -> Result<Told, WireError> {
    let mut lines = Lines::default();
    let mut buffer = [0; 4096];
    let mut stage = None;
    let told = loop {
        match next_line(&mut lines) {
            Some(Line::Stage(reached)) => stage = Some(reached),
            Some(Line::Ready(broker)) => break Told::Ready(broker),
            Some(Line::Lost(_)) => break Told::Lost,
            Some(Line::Failed(failure)) => break Told::Failed(failure),
            None => match started.read(&mut buffer, deadline) {
                Ok(Reading::Bytes(bytes)) => lines.push(&buffer[..bytes]),
                Ok(Reading::End) => {
                    let status = started.ended(Deadline::after(END_WITHIN));
                    break Told::Died(status, stage);
                }
                Ok(Reading::Late) => break Told::Late(stage),
                Err(error) => {
                    let message = format!("the report of the starting broker cannot be read: {error}");
                    return Err(WireError::new(ErrorCode::Internal, message));
                }
            },
        }
    };
    started.let_go();
    Ok(told)
}

/// The next line that this version understands.
fn next_line(lines: &mut Lines) -> Option<Line> {
    while let Ok(Some(line)) = lines.next_line(REPORT_LINE_BYTES_MAX) {
        if let Some(line) = Line::read(line) {
            return Some(line);
        }
    }
    None
}

/// The error of a start that gave up.
pub(super) fn failed(root: &StateRoot, failure: Failure) -> WireError {
    let Failure { stage, error } = failure;
    let message = format!("the broker gave up at stage `{stage}`: {}", error.message);
    let error = WireError { message, ..error }.with("stage", stage.name());
    with_log(root, error)
}

/// The error of a start that died.
pub(super) fn died(root: &StateRoot, status: Option<ExitStatus>, stage: Option<Stage>) -> WireError {
    let status = status.map_or_else(|| "its exit status is not known".to_owned(), |status| status.to_string());
    let at = stage.map_or_else(String::new, |stage| format!(" at stage `{stage}`"));
    let message = format!(
        "the broker died while it started{at} ({status}); `ostler doctor` looks for the cause, {} has its log",
        root.path().join(LOG_NAME).display()
    );
    let error = WireError::new(ErrorCode::BrokerUnreachable, message).reason("died").with("exit_status", status);
    with_log(root, with_stage(error, stage))
}

/// The error of a start that takes too long.
pub(super) fn late(root: &StateRoot, stage: Option<Stage>) -> WireError {
    let at = stage.map_or_else(String::new, |stage| format!(" (stage `{stage}`)"));
    let message = format!("the broker is still starting{at}; it goes on, `ostler status` shows how far it is");
    let error = WireError::new(ErrorCode::Timeout, message).reason("starting");
    with_log(root, with_stage(error, stage))
}

fn with_stage(error: WireError, stage: Option<Stage>) -> WireError {
    match stage {
        Some(stage) => error.with("stage", stage.name()),
        None => error,
    }
}

/// The last lines of the log, as far as they can be had.
fn with_log(root: &StateRoot, error: WireError) -> WireError {
    let Ok(Some(bytes)) = root.folder().read(LOG_NAME, LOG_BYTES_MAX) else {
        return error;
    };
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(LOG_LINES_MAX)..];
    if last.is_empty() { error } else { error.with("log", last.to_vec()) }
}
