//! `ostler ledger ...`: looks at the ledger without a broker, without a lock, and without changing anything; also at a copy, and while a
//! broker writes.

mod explain;
mod export;
mod filter;
mod history;
pub(super) mod record;
mod resolve;
mod source;
mod stats;
mod tail;
mod words;

use clap::Subcommand;
use ostler_ledger::{Position, VerifyOptions, VerifyReport};
use serde_json::json;

use self::source::Source;
use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::output::Tone;
use super::text;
use crate::os::clock;

/// Look at the ledger and verify it, without a broker
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
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
    History(history::Args),
    /// Tell what became of one operation, in plain words
    Explain(explain::Args),
    /// Print the newest records
    Tail(tail::Args),
    /// Write records as they are stored, to be kept or verified elsewhere
    Export(export::Args),
    /// Count records, bytes, operations and sessions
    Stats(stats::Args),
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let source = &args.source;
    match &args.command {
        Command::Head => head(source, context),
        Command::Verify { since } => verify(*since, source, context),
        Command::Show { seq } => show(*seq, source, context),
        Command::History(args) => history::run(args, source, context),
        Command::Explain(args) => explain::run(args, source, context),
        Command::Tail(args) => tail::run(args, source, context),
        Command::Export(args) => export::run(args, source, context),
        Command::Stats(args) => stats::run(args, source, context),
    }
}

fn head(source: &Source, context: &Context) -> Result<Exit, Failure> {
    let look = source.look("read the head of the ledger", context)?;
    let report = ostler_ledger::head(&look.storage).map_err(|error| look.unreadable(&error))?;
    let document = json!({
        "seq": report.head.seq, "digest": report.head.digest, "segments": report.segments, "bytes": report.bytes,
    });
    context.output.either(&document, |_| format!("{}\n", report.head))?;
    Ok(Exit::Done)
}

fn verify(since: Option<Position>, source: &Source, context: &Context) -> Result<Exit, Failure> {
    let look = source.look("verify the ledger", context)?;
    let began_us = clock::boot_us();
    let options = VerifyOptions { boot: look.boot(), since };
    let report = ostler_ledger::verify_folder(look.folder(), &options).map_err(|error| look.unreadable(&error))?;
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

fn show(seq: u64, source: &Source, context: &Context) -> Result<Exit, Failure> {
    let look = source.look(format!("show record {seq}"), context)?;
    if let Some(found) = look.record(seq)? {
        context.output.either(&json!({ "record": record::document(&found) }), |_| record::whole(&found))?;
        return Ok(Exit::Done);
    }
    Err(look.missing("record", "no sound record has this number", "ostler ledger verify"))
}
