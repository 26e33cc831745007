//! `ostler schema`: JSON Schema of the whole protocol, from the types that this program itself reads and writes.

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use crate::rpc::wire;

/// Print the JSON Schema of the protocol
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, context: &Context) -> Result<Exit, Failure> {
    let schema = wire::schema();
    context.output.either(&schema, |schema| format!("{schema:#}\n"))?;
    Ok(Exit::Done)
}
