//! `ostler logs`: a session's output, byte for byte as its command wrote it, from the files and, with `-f`, from the living host as it comes.
//! The broker only says where; the bytes do not pass through it.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};

use data_encoding::BASE64;
use serde_json::json;

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::output::write_failed;
use super::pieces;
use crate::host::read::{Follower, Piece, ReadError, Stream, read_spool};
use crate::os::deadline::Deadline;
use crate::os::stdio::RawOutput;
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::method::Method;
use crate::rpc::wire::{self, Chunk, EndpointParams, EndpointResult, Timestamp};

/// Print a session's output as its command wrote it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Id, name, or unique prefix of the id (at least 3 characters)
    session: String,
    /// That of this episode [default: the last]
    #[arg(long, value_name = "N")]
    episode: Option<u32>,
    /// Begin with the last N lines
    #[arg(long, value_name = "N")]
    tail: Option<usize>,
    /// Only this stream
    #[arg(long)]
    stream: Option<StreamName>,
    /// Go on as output comes, to the end of the episode
    #[arg(short = 'f', long)]
    follow: bool,
}

/// A stream by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum StreamName {
    /// Standard output
    Stdout,
    /// Standard error
    Stderr,
}

/// How many pieces may wait for a slow reader.
const WAITING_MAX: usize = 16;

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let attempt = format!("read the output of {}", args.session);
    let mut broker = context.broker(attempt)?.about(&args.session);
    let params = EndpointParams { session: args.session.clone(), episode: args.episode };
    let place: EndpointResult = broker.call(Method::SessionEndpoint, &params)?;
    let wanted = args.stream.map(|name| match name {
        StreamName::Stdout => Stream::Stdout,
        StreamName::Stderr => Stream::Stderr,
    });
    let printer = Printer { raw: RawOutput::stdout().map_err(write_failed)?, wanted, context };
    print(args, place.folder.as_path(), printer).map_err(|stop| match stop {
        Stop::Output(failure) => failure,
        Stop::Read(error) => {
            broker.failure(WireError::new(ErrorCode::StorageFailed, error.to_string()).reason("output"))
        }
        Stop::Late => broker.failure(WireError::new(ErrorCode::Timeout, "the session's output goes on")),
    })?;
    Ok(Exit::Done)
}

/// Why nothing more is printed.
enum Stop {
    Output(Failure),
    Read(ReadError),
    Late,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Output(failure)
    }
}

impl From<ReadError> for Stop {
    fn from(error: ReadError) -> Stop {
        Stop::Read(error)
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Stop {
        Stop::Read(error.into())
    }
}

fn print(args: &Args, folder: &Path, mut printer: Printer<'_>) -> Result<(), Stop> {
    let mut from = 0;
    if args.tail.is_some() || !args.follow {
        let mut reader = read_spool(folder, 0);
        let mut kept = Vec::new();
        while let Some(piece) = reader.next_piece()? {
            // What is to be printed whole is not kept.
            if args.tail.is_some() { kept.push(piece) } else { printer.print(&piece)? }
        }
        for piece in pieces::last_lines(kept, printer.wanted, args.tail.unwrap_or_default()) {
            printer.print(&piece)?;
        }
        from = reader.position();
    }
    if !args.follow {
        return Ok(());
    }
    let deadline = printer.context.globals.timeout.map(|_| printer.context.unlimited());
    match Follower::open(folder, from, false) {
        Ok(follower) => follow(follower, deadline, &mut printer),
        // Its command never ran, so there is no output to come.
        Err(ReadError::NotStarted(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Prints what comes. The host is read on a thread of its own, so that a deadline ends the wait.
fn follow(mut follower: Follower, deadline: Option<Deadline>, printer: &mut Printer<'_>) -> Result<(), Stop> {
    let (sender, pieces) = mpsc::sync_channel(WAITING_MAX);
    let reader = std::thread::Builder::new().name("follow".to_owned()).spawn(move || {
        while let Some(piece) = follower.next_piece().transpose() {
            let is_last = piece.is_err();
            if sender.send(piece).is_err() || is_last {
                return;
            }
        }
    });
    // The handle is let go: the thread ends with the output, or with this process.
    drop(reader?);
    while let Some(piece) = next(&pieces, deadline)? {
        printer.print(&piece?)?;
    }
    Ok(())
}

type Read = Result<Piece, ReadError>;

fn next(pieces: &Receiver<Read>, deadline: Option<Deadline>) -> Result<Option<Read>, Stop> {
    let Some(deadline) = deadline else { return Ok(pieces.recv().ok()) };
    match pieces.recv_timeout(deadline.remaining()) {
        Ok(piece) => Ok(Some(piece)),
        Err(RecvTimeoutError::Disconnected) => Ok(None),
        Err(RecvTimeoutError::Timeout) => Err(Stop::Late),
    }
}

struct Printer<'a> {
    raw: RawOutput,
    wanted: Option<Stream>,
    context: &'a Context,
}

impl Printer<'_> {
    fn print(&mut self, piece: &Piece) -> Result<(), Failure> {
        match piece {
            Piece::Output { position, stream, at_us, bytes } => {
                if self.wanted.is_some_and(|wanted| wanted != *stream) {
                    return Ok(());
                }
                if !self.context.output.json {
                    return self.raw.write_all(bytes).map_err(write_failed);
                }
                let stream = match stream {
                    Stream::Stdout => wire::Stream::Stdout,
                    Stream::Stderr => wire::Stream::Stderr,
                };
                let (position, at) = (*position, Timestamp::from_us(*at_us));
                self.context.output.document(&Chunk { position, stream, at, b64: BASE64.encode(bytes) })
            }
            Piece::Gap { from, to } if self.context.output.json => {
                self.context.output.document(&json!({ "lost": { "from": from, "to": to } }))
            }
            Piece::Gap { from, to } => {
                self.context.output.progress(&format!("ostler: {} bytes have aged out here", to - from));
                Ok(())
            }
        }
    }
}
