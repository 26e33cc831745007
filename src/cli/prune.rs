//! `ostler prune`: forget ended sessions, with their files and output.

use std::time::Duration;

use super::args;
use super::context::Context;
use super::duration;
use super::exit::Exit;
use super::failure::Failure;
use crate::rpc::method::Method;
use crate::rpc::wire::{PruneParams, PruneResult};

/// Forget sessions that have ended: each with its files and output, as `delete` does
///
/// What lives, is fenced or uncertain stays. Their history stays in the ledger (`ostler ledger history`).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only those that ended at least so long ago [default: 7d, which is how long they are kept anyway]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    older: Option<Duration>,
    /// Only say which
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    key: args::Key,
}

pub(crate) fn run(args: Args, context: &Context) -> Result<Exit, Failure> {
    let mut broker = context.broker("prune sessions")?;
    let key = args.key.key.unwrap_or_else(|| broker.fresh_key());
    let params = PruneParams { key, older_ms: args.older.map(duration::millis), dry_run: args.dry_run };
    let result: PruneResult = if args.dry_run {
        broker.call(Method::SessionPrune, &params)?
    } else {
        broker.change(Method::SessionPrune, &params.key, &params)?
    };
    context.output.either(&result, |result| {
        let what = if args.dry_run { "would be forgotten" } else { "forgotten" };
        let ids: String = result.sessions.iter().map(|id| format!("{id}\n")).collect();
        format!("{ids}{} {what}\n", result.sessions.len())
    })?;
    Ok(Exit::Done)
}
