//! `ostler ledger ...`: looks at the ledger without a broker, without a lock, and without changing anything; also at a copy, and while a
//! broker writes. `accept` and `retire` alone write.

mod accept;
mod destination;
mod explain;
mod export;
mod filter;
mod history;
mod proof;
pub(super) mod record;
mod resolve;
mod retire;
pub(super) mod source;
mod stats;
mod tail;
mod verify;
mod words;
mod writer;

use clap::Subcommand;
use serde_json::json;

use self::source::Source;
use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;

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
    Verify(verify::Args),
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
    /// Prove that a record belongs to the history that ends with a head
    Prove(proof::Args),
    /// Accept what verify finds and go on; needs --yes, and the reason goes into the ledger
    Accept(accept::Args),
    /// Let the oldest sealed segments leave the ledger, as far as nothing known leads to them; needs --yes
    Retire(retire::Args),
    /// Count records, bytes, operations and sessions
    Stats(stats::Args),
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let source = &args.source;
    match &args.command {
        Command::Head => head(source, context),
        Command::Verify(args) => verify::run(args, source, context),
        Command::Show { seq } => show(*seq, source, context),
        Command::History(args) => history::run(args, source, context),
        Command::Explain(args) => explain::run(args, source, context),
        Command::Tail(args) => tail::run(args, source, context),
        Command::Export(args) => export::run(args, source, context),
        Command::Accept(args) => accept::run(args, source, context),
        Command::Retire(args) => retire::run(args, source, context),
        Command::Prove(args) => proof::run(args, source, context),
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

fn show(seq: u64, source: &Source, context: &Context) -> Result<Exit, Failure> {
    let look = source.look(format!("show record {seq}"), context)?;
    if let Some(found) = look.record(seq)? {
        context.output.either(&json!({ "record": record::document(&found) }), |_| record::whole(&found))?;
        return Ok(Exit::Done);
    }
    Err(look.missing("record", "no sound record has this number", "ostler ledger verify"))
}
