//! `ostler reconcile`: settle a session that is fenced or uncertain, by asking the world again: its host, its records, its life lock.

use super::args;
use super::context::{Context, READY};
use super::exit::Exit;
use super::failure::Failure;
use super::sessions;
use crate::rpc::method::Method;
use crate::rpc::wire::{ReconcileParams, SpawnResult};

/// Settle an uncertain or fenced session by evidence
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Id, name, or unique prefix of the id
    session: String,
    #[command(flatten)]
    key: args::Key,
}

pub(crate) fn run(args: Args, context: &Context) -> Result<Exit, Failure> {
    let attempt = format!("reconcile {}", args.session);
    let mut broker = context.broker_until(attempt, context.deadline(READY)?)?.about(&args.session);
    let key = args.key.key.unwrap_or_else(|| broker.fresh_key());
    let params = ReconcileParams { key, session: args.session };
    let result: SpawnResult = broker.change(Method::SessionReconcile, &params.key, &params)?;
    context.output.either(&result, |result| sessions::line(&result.session))?;
    Ok(Exit::Done)
}
