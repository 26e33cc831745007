//! `ostler resume`: the next episode of sessions that have no process. A live one is shown as it is.

use super::args;
use super::batch::Batch;
use super::context::{Broker, Context, READY};
use super::exit::Exit;
use super::failure::Failure;
use super::sessions;
use crate::rpc::method::Method;
use crate::rpc::wire::{ResumeParams, SpawnResult};

/// Start the next episode of sessions
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Sessions, by id, name or unique prefix of the id (at least 3 characters)
    #[arg(value_name = "SESSION", required = true)]
    sessions: Vec<String>,
    #[command(flatten)]
    key: args::Key,
}

const ATTEMPT: &str = "resume sessions";

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let broker = context.broker(ATTEMPT)?;
    let resume = |broker: &mut Broker, session: &str, key| -> Result<SpawnResult, Failure> {
        broker.begin(format!("resume {session}"), session, context.deadline(READY)?);
        let params = ResumeParams { key, session: session.to_owned() };
        broker.change(Method::SessionResume, &params.key, &params)
    };
    let asked_at = broker.client.time();
    let show = |result: &SpawnResult| sessions::resumed(&result.session, asked_at);
    let (sessions, key) = (args.sessions.as_slice(), args.key.key.as_ref());
    Batch { context, attempt: ATTEMPT, sessions, key, one: resume, show }.run(broker)
}
