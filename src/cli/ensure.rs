//! `ostler ensure`: find the broker of the state root or start it, and print where it is. SDKs run this; it is the one implementation.

use serde::Serialize;

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::text;
use crate::rpc::wire::Broker;

/// Find or start the broker, and print where it is
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

#[derive(Serialize)]
struct Document {
    started: bool,
    broker: Broker,
}

pub(crate) fn run(_: &Args, context: &Context) -> Result<Exit, Failure> {
    let found = context.broker("find or start the broker")?;
    let document = Document { started: found.client.started(), broker: found.client.hello().broker.clone() };
    context.output.either(&document, |document| {
        let how = if document.started { "started" } else { "running" };
        let broker = &document.broker;
        format!("{how}  pid {}  generation {}  {}\n", broker.pid, broker.generation, text::plain(&broker.endpoint))
    })?;
    Ok(Exit::Done)
}
