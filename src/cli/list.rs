//! `ostler list`: sessions, a page at a time. `--watch` prints the page again each time it differs.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::args;
use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::sessions;
use crate::os::deadline::Pauses;
use crate::rpc::method::Method;
use crate::rpc::wire::{ListParams, ListResult, SessionStatus};

/// List sessions that are not deleted; without --all only those that did not end more than a day ago
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Those that ended long ago, too
    #[arg(long)]
    all: bool,
    /// Only those with this status; may be repeated
    #[arg(long, value_parser = PossibleValuesParser::new(sessions::STATUSES.map(|(name, _)| name)).map(sessions::status))]
    status: Vec<SessionStatus>,
    /// Only those with this label; may be repeated
    #[arg(long = "label", value_name = "K=V", value_parser = args::parse_label)]
    labels: Vec<(String, String)>,
    /// At most so many, up to 1000 [default: 100]
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Go on where the page before ended
    #[arg(long, value_name = "C")]
    cursor: Option<String>,
    /// Print the list again whenever it changes, until interrupted
    #[arg(long, conflicts_with = "cursor")]
    watch: bool,
}

const ATTEMPT: &str = "list sessions";
/// How often `--watch` looks.
const WATCH_EVERY: Duration = Duration::from_secs(1);

pub(crate) fn run(args: Args, context: &Context) -> Result<Exit, Failure> {
    let labels = args::label_map(&args.labels).map_err(|error| Failure::new(ATTEMPT, error))?;
    let params = ListParams { all: args.all, status: args.status, labels, limit: args.limit, cursor: args.cursor };
    if !args.watch {
        let page: ListResult = context.broker(ATTEMPT)?.call(Method::SessionList, &params)?;
        context.output.either(&page, |page| sessions::table(page, &context.output))?;
        return Ok(Exit::Done);
    }
    watch(&params, context)
}

/// Prints the list whenever it differs from what was printed last, until the deadline.
fn watch(params: &ListParams, context: &Context) -> Result<Exit, Failure> {
    let deadline = context.unlimited();
    let mut broker = context.broker_until(ATTEMPT, deadline)?;
    let mut pauses = Pauses::new(WATCH_EVERY, WATCH_EVERY);
    let mut shown: Option<ListResult> = None;
    loop {
        let page: ListResult = broker.call(Method::SessionList, params)?;
        if shown.as_ref() != Some(&page) {
            context.output.either(&page, |page| sessions::table(page, &context.output))?;
            shown = Some(page);
        }
        if !pauses.pause(deadline) {
            return Ok(Exit::Done);
        }
    }
}
