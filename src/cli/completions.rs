//! `ostler completions SHELL`: the completion script of a shell, for its own folder of such scripts.

use clap::CommandFactory;

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use crate::os::build::build;

/// Print the completion script of a shell
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut offered(), "ostler", &mut script);
    context.output.bytes(&script)?;
    Ok(Exit::Done)
}

/// The tree without what is hidden: the generators do not look whether a command is.
fn offered() -> clap::Command {
    let whole = super::args::Cli::command();
    clap::Command::new("ostler")
        .version(build().version)
        .about(whole.get_about().cloned().unwrap_or_default())
        .disable_help_subcommand(true)
        .args(whole.get_arguments().cloned())
        .subcommands(whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned())
}
