//! `ostler stop`: end the processes of sessions: TERM, the grace, KILL. A session that has ended already is done.

use std::time::Duration;

use super::args;
use super::batch::{self, Batch};
use super::context::{Broker, Context};
use super::exit::Exit;
use super::failure::Failure;
use super::{duration, sessions};
use crate::rpc::error::ErrorCode;
use crate::rpc::method::Method;
use crate::rpc::wire::{EndedResult, StopParams};

/// Stop sessions: TERM, wait, KILL
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    selection: args::Selection,
    /// How long to wait after TERM before KILL, at most 2m [default: stop_grace of the configuration, 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_grace)]
    grace: Option<Duration>,
    /// Why, 1 to 256 bytes: told to the program, if it pulls its messages, and to who asks later
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    key: args::Key,
}

/// What a stop needs beyond its grace: the broker's own steps and a busy machine.
pub(crate) const SLACK: Duration = Duration::from_secs(20);

const ATTEMPT: &str = "stop sessions";

/// A time-out is told with the grace that it may have fallen into.
pub(crate) fn with_grace(mut failure: Failure, grace: Duration) -> Failure {
    if let Failure::Error(report) = &mut failure
        && report.error.code == ErrorCode::Timeout
    {
        let grace = duration::show(grace);
        report.error.message.push_str(&format!(" (between TERM and KILL it has a grace of {grace})"));
    }
    failure
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let grace = args.grace.map_or_else(|| context.settings().map(|settings| settings.stop_grace()), Ok)?;
    let mut broker = context.broker(ATTEMPT)?;
    let ids = batch::select(&mut broker, &args.selection, |session| sessions::is_live(session.status))?;
    let stop = |broker: &mut Broker, session: &str, key| -> Result<EndedResult, Failure> {
        broker.begin(format!("stop {session}"), session, context.deadline(grace + SLACK)?);
        let (grace_ms, reason) = (Some(duration::millis(grace)), args.reason.clone());
        let params = StopParams { key, session: session.to_owned(), grace_ms, reason };
        broker.change(Method::SessionStop, &params.key, &params).map_err(|failure| with_grace(failure, grace))
    };
    let (key, asked_at) = (args.key.key.as_ref(), broker.client.time());
    let show = |result: &EndedResult| sessions::ended(result, asked_at);
    Batch { context, attempt: ATTEMPT, sessions: &ids, key, one: stop, show }.run(broker)
}
