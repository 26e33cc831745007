//! `ostler completions SHELL`: the completion script of a shell, for its own folder of such scripts.

use clap::CommandFactory;

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;

/// Print the completion script of a shell
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::args::Cli::command(), "ostler", &mut script);
    context.output.bytes(&script)?;
    Ok(Exit::Done)
}
