//! `ostler broker`: the broker itself. Clients start it; nobody types it.

use super::context::Context;
use super::failure::Failure;

/// Be the broker of a state root; clients start it by themselves
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, context: &Context) -> Result<u8, Failure> {
    let root = context.root_path("be the broker")?;
    Ok(crate::broker::run::run(&root).code())
}
