//! `ostler interrupt`: tell a session's command to leave what it does, as Ctrl-C would.

use super::args;
use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::sessions;
use crate::rpc::method::Method;
use crate::rpc::wire::{InterruptParams, SpawnResult};

/// Interrupt what a session's command does, as Ctrl-C would
///
/// INT is sent to the command and its process group. A command that does not handle it ends.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Id, name, or unique prefix of the id (at least 3 characters)
    session: String,
    #[command(flatten)]
    key: args::Key,
}

pub(crate) fn run(args: Args, context: &Context) -> Result<Exit, Failure> {
    let Args { session, key } = args;
    let mut broker = context.broker(format!("interrupt {session}"))?.about(&session);
    let key = key.key.unwrap_or_else(|| broker.fresh_key());
    let params = InterruptParams { key, session };
    let result: SpawnResult = broker.change(Method::SessionInterrupt, &params.key, &params)?;
    context.output.either(&result, |result| sessions::line(&result.session))?;
    Ok(Exit::Done)
}
