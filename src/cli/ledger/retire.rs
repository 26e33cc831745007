//! `ostler ledger retire`: the oldest sealed segments leave the ledger, to its folder `archive` or for good. Only what nothing known leads to any
//! more can go; a `retire` record keeps the chain provable. The broker does it; where none runs, this process does under the writer lock.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::context::Context;
use super::super::exit::Exit;
use super::super::failure::Failure;
use super::super::text;
use super::source::{Look, Source};
use super::words::counted;
use super::writer::{self, Writer};
use crate::broker::retire::without_broker;
use crate::broker::retiring::Order;
use crate::os::folder;
use crate::os::paths::StateRoot;
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::method::Method;
use crate::rpc::wire::{LedgerRetireParams, LedgerRetireResult};

/// What to do with the files.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Remove the files; else they go to the folder `archive` in the ledger's
    #[arg(long)]
    remove: bool,
    /// Only tell what would go, and what holds the rest
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do it: without this nothing is written
    #[arg(long)]
    yes: bool,
}

const ATTEMPT: &str = "retire the oldest segments of the ledger";
/// The state may be long, and files are linked and removed one by one.
const DONE_WITHIN: Duration = Duration::from_secs(120);

pub(super) fn run(args: &Args, source: &Source, context: &Context) -> Result<Exit, Failure> {
    if source.is_copy() {
        let message = "a copy is only looked at; the ledger of a state root can be retired";
        return Err(Failure::invalid(ATTEMPT, "ledger", message));
    }
    let look = source.look(ATTEMPT, context)?;
    if !args.yes && !args.dry_run {
        let error = WireError::new(ErrorCode::InvalidInput, "--yes is missing; nothing was written").reason("yes");
        let remedy = "ostler ledger retire --dry-run shows what would go; the same command with --yes does it";
        return Err(look.failure(error.with("remedy", remedy)));
    }
    let (root, writer) = writer::of(&look, context)?;
    let done = match writer {
        Writer::Broker => ask(&root, args, &look, context)?,
        Writer::This => {
            let act = json!({ "pid": std::process::id(), "session": null, "uid": folder::user() });
            let order = Order { keep: !args.remove, dry_run: args.dry_run, act };
            without_broker(&root, &order).map_err(|error| look.failure(error))?
        }
    };
    let by_broker = writer == Writer::Broker;
    context.output.either(&document(&done, args, by_broker), |_| shown(&done, args))?;
    Ok(if done.left.is_some() { Exit::Failed } else { Exit::Done })
}

fn ask(root: &StateRoot, args: &Args, look: &Look, context: &Context) -> Result<LedgerRetireResult, Failure> {
    let params = LedgerRetireParams { remove: args.remove, dry_run: args.dry_run };
    let asked = context.ask::<_, LedgerRetireResult>(root, Method::LedgerRetire, &params, context.bounded(DONE_WITHIN));
    asked.map_err(|error| {
        let lost = matches!(error.code, ErrorCode::Timeout | ErrorCode::BrokerUnreachable);
        let remedy = "ostler ledger tail --type retire tells; asking again does no harm";
        let told = if lost { error.with("changed", "not known").with("remedy", remedy) } else { error };
        look.failure(told)
    })
}

fn document(done: &LedgerRetireResult, args: &Args, by_broker: bool) -> Value {
    json!({
        "dry_run": args.dry_run, "remove": args.remove, "by_broker": by_broker, "segments": done.segments,
        "records": done.records, "bytes": done.bytes, "first": done.first, "last": done.last,
        "carried_bytes": done.carried_bytes, "held": done.held, "left": done.left, "head": done.ledger,
    })
}

fn shown(done: &LedgerRetireResult, args: &Args) -> String {
    let count = |number: u64, of: &str| counted(usize::try_from(number).unwrap_or(usize::MAX), of);
    let mut shown = String::new();
    match done.first.zip(done.last) {
        Some((first, last)) => {
            let verb = if args.dry_run { "would be retired" } else { "retired" };
            let to = if args.remove { "removed" } else { "to ledger/archive" };
            let (segments, bytes, carried) = (count(done.segments, "segment"), done.bytes, done.carried_bytes);
            shown.push_str(&format!("{segments} {verb}: records {first} to {last}, {bytes} bytes, {to}\n"));
            shown.push_str(&format!("what is still known of them is stated again in about {carried} bytes\n"));
        }
        None if done.held.is_none() => shown.push_str("nothing to retire: no segment is sealed yet\n"),
        None => shown.push_str("nothing to retire\n"),
    }
    if let Some(held) = &done.held {
        let (segments, verb) =
            (count(held.segments, "sealed segment"), if held.segments == 1 { "stays" } else { "stay" });
        shown.push_str(&format!("{segments} {verb}, because of record {}: {}\n", held.seq, text::plain(&held.text)));
    }
    if let Some(left) = &done.left {
        let why = text::plain(left);
        shown.push_str(&format!(
            "some of the files are still there: {why}; the next start, or the same command, takes them away\n"
        ));
    }
    shown.push_str(&format!("head {}:{}\n", done.ledger.seq, text::plain(&done.ledger.digest)));
    shown
}
