//! `ostler broker`: the broker itself. Clients start it; nobody types it.

use super::context::Context;
use super::failure::Failure;
use super::settings::Settings;
use crate::broker::run::{self, Config};

/// Be the broker of a state root; clients start it by themselves
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, context: &Context) -> Result<u8, Failure> {
    let root = context.root_path("be the broker")?;
    // Whoever asked for it was told of a wrong configuration; it keeps no broker from starting.
    let settings = context.settings().unwrap_or_else(|_| Settings::built_in());
    let config = Config {
        idle_exit: settings.idle_exit(),
        live_children: settings.live_children(),
        family_depth: settings.family_depth(),
    };
    Ok(run::run(&root, config).code())
}
