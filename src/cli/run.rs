//! `ostler run`: a session in the foreground. Starts it, passes its output through as it comes, waits, and ends as its command did.
//!
//! Promises: no byte of output is lost (while this follows, a full spool makes the command wait), the exit code is that of the command even
//! where it ended before anybody followed; INT, TERM and HUP stop the session; a `run` that is killed leaves it running. Once the session
//! runs no broker is needed any more, so none is started to follow it: a `shutdown` stays one. What somebody else did to the session or to
//! the broker is told on standard error.

mod ending;
mod input;
mod stopping;
mod story;
mod watching;

use std::io;
use std::path::Path;
use std::time::Duration;

use self::stopping::Wishes;
use super::context::Context;
use super::duration;
use super::exit;
use super::failure::{Failure, Report};
use super::output::write_failed;
use super::request::Attachment;
use super::spawn;
use crate::host::files;
use crate::host::read::{Follower, Piece, ReadError, Stream};
use crate::os::deadline::Deadline;
use crate::os::interruption::Interruptions;
use crate::os::stdio::RawOutput;
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::wire;

/// Run a command as a session in the foreground, and exit with its code
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit: the command's code, 128+n for signal n, 125 ostler failed, 126 cannot execute, 127 not found."
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) options: spawn::Options,
    /// Pass standard input on to the command
    #[arg(short = 'i', long)]
    pub(crate) interactive: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<u8, Failure> {
    match foreground(args, context) {
        Ok(code) => Ok(code),
        Err(closed @ Failure::OutputClosed) => Err(closed),
        Err(Failure::Error(report)) => {
            context.output.error(&report)?;
            Ok(code_of_failure(&report))
        }
    }
}

/// What a failed `run` exits with. Whether a command is missing or cannot be executed is what its host met.
fn code_of_failure(report: &Report) -> u8 {
    let said = |member: &str| report.error.data.get(member).and_then(serde_json::Value::as_str);
    match (report.error.code, said("reason"), said("cause")) {
        (ErrorCode::SpawnFailed, Some("exec"), Some("not_found")) => exit::RUN_NOT_FOUND,
        (ErrorCode::SpawnFailed, Some("exec"), _) => exit::RUN_CANNOT_EXECUTE,
        _ => exit::RUN_FAILED,
    }
}

fn foreground(args: &Args, context: &Context) -> Result<u8, Failure> {
    const ATTEMPT: &str = "run a session";
    let system = |error: io::Error| Failure::new(ATTEMPT, WireError::new(ErrorCode::Internal, error.to_string()));
    context.settings()?;
    if args.options.ready != wire::Ready::Exec {
        let message = "run follows its command from the start to the end, and waits for no word in between";
        return Err(Failure::invalid(ATTEMPT, "ready", message)
            .with("remedy", "ostler spawn with the same options, then ostler logs -f"));
    }
    // Before anything is started, so that no signal ends this between the start of the session and its being followed.
    let interruptions = Interruptions::take().map_err(system)?;
    let stdin = if args.interactive { wire::Stdin::Client } else { wire::Stdin::Empty };
    let (result, mut broker) = spawn::start(&args.options, Attachment { stdin, follow: true }, context)?;
    let session = result.session;
    broker.begin(format!("follow {}", session.id), &session.id, Deadline::after(Duration::MAX));
    let root = broker.client.hello().broker.root.as_path().to_owned();
    let folder = files::episode_folder(&root, &session.id, session.episode);
    let (wishes, stopper) = stopping::begin(&session.id, &folder, interruptions, context).map_err(system)?;
    let watching = watching::begin(&session.id, broker, context.output).map_err(system)?;
    if args.interactive {
        input::forward(&folder);
    }
    let failure = |error| Failure::new(format!("follow {}", session.id), error).about(&session.id);
    let passed = pass(&folder, &wishes).or_else(|stop| match stop {
        Stop::Output(unwritten) => {
            let changed =
                format!("session {0} was started, and stopped because its output could not be written", session.id);
            let remedy =
                format!("make room where standard output goes; ostler logs {} has what is kept of it", session.id);
            Err(unwritten.with("changed", &changed).with("remedy", &remedy))
        }
        // A session that was deleted takes its output with it.
        Stop::Read(_) if !folder.exists() => Ok(()),
        Stop::Read(error) => Err(failure(WireError::new(ErrorCode::StorageFailed, error.to_string()).reason("output"))),
    });
    let code = ending::code(&session, &root, &watching, context.output).map_err(failure);
    drop(wishes);
    let in_time = stopper.end();
    passed?;
    if !in_time {
        let allowed = context.globals.timeout.map_or_else(|| "it may".to_owned(), duration::show);
        let error = WireError::new(ErrorCode::Timeout, format!("the command ran longer than {allowed}"))
            .with("changed", format!("session {} was stopped after {allowed}", session.id));
        return Err(failure(error));
    }
    code
}

/// Why the output is not passed on.
enum Stop {
    Output(Failure),
    Read(ReadError),
}

impl From<ReadError> for Stop {
    fn from(error: ReadError) -> Stop {
        Stop::Read(error)
    }
}

/// Passes the output on to its end. Where it cannot be written any more the session is stopped, and what it still says is read and dropped,
/// so that the command is not kept waiting.
fn pass(folder: &Path, wishes: &Wishes) -> Result<(), Stop> {
    let open = |output: io::Result<RawOutput>| output.map_err(|error| Stop::Output(write_failed(error)));
    let (mut stdout, mut stderr) = (open(RawOutput::stdout())?, open(RawOutput::stderr())?);
    let mut follower = Follower::open(folder, 0, true)?;
    let mut refused = None;
    while let Some(piece) = follower.next_piece()? {
        let written = match piece {
            Piece::Output { .. } if refused.is_some() => Ok(()),
            Piece::Output { stream: Stream::Stdout, bytes, .. } => stdout.write_all(&bytes),
            Piece::Output { stream: Stream::Stderr, bytes, .. } => unless_closed(stderr.write_all(&bytes)),
            Piece::Gap { from, to } => {
                let lost = format!("ostler: {} bytes were gone before anybody followed\n", to - from);
                unless_closed(stderr.write_all(lost.as_bytes()))
            }
        };
        if let Err(error) = written {
            refused = Some(write_failed(error));
            wishes.stop();
        }
    }
    refused.map_or(Ok(()), |failure| Err(Stop::Output(failure)))
}

/// Whoever closed standard error does not want to read it, and the command goes on.
fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    written.or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}
