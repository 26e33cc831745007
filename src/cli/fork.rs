//! `ostler fork`: a new session as a copy of another one: the same command, directory, environment and labels, with its own id, queue and history.

use super::args;
use super::context::{Context, READY};
use super::exit::Exit;
use super::failure::Failure;
use super::sessions;
use crate::rpc::method::Method;
use crate::rpc::wire::{ForkParams, SpawnResult};

/// Start a session as a copy of another one
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Session, by id, name or unique prefix of the id (at least 3 characters)
    session: String,
    /// Name of the copy, unique among sessions that are not deleted
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    key: args::Key,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let mut broker = context.broker_until("fork a session", context.deadline(READY)?)?.about(&args.session);
    let key = args.key.key.clone().unwrap_or_else(|| broker.fresh_key());
    let params = ForkParams { key, session: args.session.clone(), name: args.name.clone() };
    let forked: SpawnResult = broker.change(Method::SessionFork, &params.key, &params)?;
    context.output.either(&forked, |forked| sessions::line(&forked.session))?;
    Ok(Exit::Done)
}
