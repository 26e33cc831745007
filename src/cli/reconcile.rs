//! `ostler reconcile`: the way out where nobody knows what became of a session. What can be seen decides; what lives is left alone and named.

use super::args;
use super::context::{Broker, Context, READY};
use super::exit::Exit;
use super::failure::Failure;
use super::{frozen, sessions};
use crate::rpc::method::Method;
use crate::rpc::wire::{EndedResult, ReconcileParams};

/// Settle an uncertain or fenced session by evidence; refused while its process lives
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A session, by id, name or unique prefix of the id (at least 3 characters)
    #[arg(value_name = "SESSION")]
    session: String,
    #[command(flatten)]
    key: args::Key,
}

pub(crate) fn run(args: Args, context: &Context) -> Result<Exit, Failure> {
    let Args { session, key } = args;
    let mut broker: Broker = context.broker(format!("reconcile {session}"))?;
    broker.begin(format!("reconcile {session}"), &session, context.deadline(READY)?);
    let key = key.key.unwrap_or_else(|| broker.fresh_key());
    let params = ReconcileParams { key, session };
    let result: EndedResult = broker.change(Method::SessionReconcile, &params.key, &params)?;
    let frozen = frozen::of(&context.root_path("reconcile")?, &result.session);
    context.output.either(&result, |result| {
        let stopped = frozen.map(|frozen| format!("  {}\n", frozen.told())).unwrap_or_default();
        sessions::line(&result.session) + &stopped
    })?;
    Ok(Exit::Done)
}
