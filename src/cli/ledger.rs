//! `ostler ledger ...`: looks at the ledger without a broker, without a lock, and without changing anything; also at a copy, and while a
//! broker writes.

mod follow;
mod history;
pub(super) mod record;

use std::path::PathBuf;

use clap::Subcommand;
use ostler_ledger::storage::Disk;
use ostler_ledger::{Position, ReadError, Records, VerifyOptions, VerifyReport};
use serde_json::json;

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::output::Tone;
use super::text;
use crate::os::clock;
use crate::os::paths::StateRoot;
use crate::os::process::boot_id;
use crate::rpc::error::{ErrorCode, WireError};

/// Look at the ledger and verify it, without a broker
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the newest record's position; kept elsewhere, it proves later that nothing before it was changed
    Head,
    /// Verify every digest and all chains; exit 8 if anything is wrong
    Verify {
        /// A head kept elsewhere: it must be part of the history
        #[arg(long, value_name = "SEQ:DIGEST")]
        since: Option<Position>,
    },
    /// Print one record
    Show {
        /// Its sequence number
        seq: u64,
    },
    /// Tell what happened to one session, a deleted one too
    History {
        /// The session's id, its name (the newest session that was spawned with it) or a unique prefix of its id
        #[arg(value_name = "ID")]
        session: String,
    },
    /// Print the newest records
    Tail {
        /// So many
        #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 10)]
        lines: usize,
        /// Go on as records come
        #[arg(short = 'f', long)]
        follow: bool,
    },
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.command {
        Command::Head => head(context),
        Command::Verify { since } => verify(*since, context),
        Command::Show { seq } => show(*seq, context),
        Command::History { session } => history::run(session, context),
        Command::Tail { lines, follow } => follow::run(*lines, *follow, context),
    }
}

/// The folder of the ledger, which must be there.
///
/// # Errors
/// `not_found` if there is none, and what keeps the root from being named.
pub(crate) fn folder(context: &Context, attempt: &str) -> Result<PathBuf, Failure> {
    let folder = context.root_path(attempt)?.join("ledger");
    if folder.is_dir() {
        return Ok(folder);
    }
    // A root that is refused has no ledger for a reason that says more.
    if let Err(error) = StateRoot::open(&context.root_path(attempt)?) {
        return Err(Failure::new(attempt, WireError::from(&error)));
    }
    let message = format!("there is no ledger at {}", folder.display());
    Err(Failure::new(
        attempt,
        WireError::new(ErrorCode::NotFound, message).reason("ledger").with("remedy", "another --root"),
    ))
}

/// What keeps the ledger from being read, as an error of the contract.
pub(crate) fn unreadable(attempt: &str, error: &ReadError) -> Failure {
    let code = match error {
        ReadError::Io(_) => ErrorCode::StorageFailed,
        ReadError::TooNew { .. } => ErrorCode::ProtocolMismatch,
    };
    Failure::new(attempt, WireError::new(code, error.to_string()).reason("ledger"))
}

fn head(context: &Context) -> Result<Exit, Failure> {
    const ATTEMPT: &str = "read the head of the ledger";
    let storage = Disk::reading(folder(context, ATTEMPT)?);
    let report = ostler_ledger::head(&storage).map_err(|error| unreadable(ATTEMPT, &error))?;
    let document = json!({
        "seq": report.head.seq, "digest": report.head.digest, "segments": report.segments, "bytes": report.bytes,
    });
    context.output.either(&document, |_| format!("{}\n", report.head))?;
    Ok(Exit::Done)
}

fn verify(since: Option<Position>, context: &Context) -> Result<Exit, Failure> {
    const ATTEMPT: &str = "verify the ledger";
    let folder = folder(context, ATTEMPT)?;
    let began_us = clock::boot_us();
    let options = VerifyOptions { boot: boot_id().ok(), since };
    let report = ostler_ledger::verify_folder(&folder, &options).map_err(|error| unreadable(ATTEMPT, &error))?;
    let elapsed_ms = clock::boot_us().saturating_sub(began_us) / 1000;
    let document = json!({
        "ok": report.ok(), "records": report.records, "head": report.head, "problems": report.problems,
        "tail": report.tail, "elapsed_ms": elapsed_ms,
    });
    context.output.either(&document, |_| verdict(&report, context))?;
    Ok(if report.ok() { Exit::Done } else { Exit::Integrity })
}

fn verdict(report: &VerifyReport, context: &Context) -> String {
    let mut shown = String::new();
    for problem in &report.problems {
        let seq = problem.seq.map_or_else(|| "-".to_owned(), |seq| seq.to_string());
        shown.push_str(&format!(
            "{}  {}  record {seq}  offset {}  {}{}\n",
            context.output.tone(Tone::Bad, problem.class.name()),
            text::plain(&problem.segment),
            problem.offset,
            text::plain(&problem.detail),
            problem.sessions.iter().map(|session| format!("  session {}", text::plain(session))).collect::<String>(),
        ));
    }
    if let Some(tail) = &report.tail {
        shown.push_str(&format!("behind the head: {} bytes, {}\n", tail.bytes, text::plain(&tail.detail)));
    }
    let (tone, word) = if report.ok() { (Tone::Good, "ok") } else { (Tone::Bad, "not ok") };
    let word = context.output.tone(tone, word);
    shown + &format!("{word}  {} records  head {}\n", report.records, report.head)
}

fn show(seq: u64, context: &Context) -> Result<Exit, Failure> {
    let attempt = format!("show record {seq}");
    let storage = Disk::reading(folder(context, &attempt)?);
    for found in Records::new(&storage) {
        let found = found.map_err(|error| unreadable(&attempt, &error))?;
        if found.header.seq == seq {
            context.output.either(&json!({ "record": record::document(&found) }), |_| record::whole(&found))?;
            return Ok(Exit::Done);
        }
    }
    let message = "no sound record has this number".to_owned();
    let error = WireError::new(ErrorCode::NotFound, message).reason("record").with("remedy", "ostler ledger verify");
    Err(Failure::new(attempt, error))
}
