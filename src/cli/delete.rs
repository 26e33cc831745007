//! `ostler delete`: remove sessions and their files for good. A live session is refused, unless it is to be stopped first.

use std::time::Duration;

use super::args;
use super::batch::{self, Batch};
use super::context::{Broker, Context};
use super::exit::Exit;
use super::failure::Failure;
use super::{duration, sessions, stop};
use crate::rpc::method::Method;
use crate::rpc::wire::{DeleteParams, EndedResult, SessionStatus};

/// Delete sessions and their files
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    selection: args::Selection,
    /// Stop live ones first; without this a live session is refused
    #[arg(long)]
    stop: bool,
    /// With --stop: how long to wait after TERM before KILL, at most 2m [default: stop_grace of the configuration, 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_grace, requires = "stop")]
    grace: Option<Duration>,
    /// With --stop: why, 1 to 256 bytes, told to the program, if it pulls its messages
    #[arg(long, value_name = "TEXT", requires = "stop")]
    reason: Option<String>,
    #[command(flatten)]
    key: args::Key,
}

const ATTEMPT: &str = "delete sessions";

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let grace = args.grace.map_or_else(|| context.settings().map(|settings| settings.stop_grace()), Ok)?;
    let mut broker = context.broker(ATTEMPT)?;
    let ids = batch::select(&mut broker, &args.selection, |session| session.status != SessionStatus::Deleted)?;
    let delete = |broker: &mut Broker, session: &str, key| -> Result<EndedResult, Failure> {
        broker.begin(format!("delete {session}"), session, context.deadline(grace + stop::SLACK)?);
        let grace_ms = args.stop.then(|| duration::millis(grace));
        let reason = args.reason.clone();
        let params = DeleteParams { key, session: session.to_owned(), stop: args.stop, grace_ms, reason };
        let deleted = broker.change(Method::SessionDelete, &params.key, &params);
        if args.stop { deleted.map_err(|failure| stop::with_grace(failure, grace)) } else { deleted }
    };
    let (key, asked_at) = (args.key.key.as_ref(), broker.client.time());
    let show = |result: &EndedResult| sessions::ended(result, asked_at);
    Batch { context, attempt: ATTEMPT, sessions: &ids, key, one: delete, show }.run(broker)
}
