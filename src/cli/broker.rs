//! `ostler broker`: the broker itself. Clients start it; nobody types it.

use super::context::Context;
use super::failure::Failure;
use super::settings::keys;

/// Be the broker of a state root; clients start it by themselves
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, context: &Context) -> Result<u8, Failure> {
    let root = context.root_path("be the broker")?;
    // Whoever asked for it was told of a wrong configuration; it keeps no broker from starting.
    let idle_exit = context.settings().map_or(keys::IDLE_EXIT_DEFAULT, |settings| settings.idle_exit());
    Ok(crate::broker::run::run(&root, idle_exit).code())
}
