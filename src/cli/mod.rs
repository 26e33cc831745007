//! The command line: arguments in, documents and text out, one exit code. Each command is one file; what they share stands beside them.
//! Promises (contract section 1): with `--json` every outcome, failures included, is a document on standard output; exit codes are those of
//! `exit`; a reader that goes away ends the program quietly.

mod args;
mod batch;
mod broker;
mod completions;
mod config;
mod connect;
mod context;
mod delete;
mod doctor;
mod duration;
mod ensure;
mod exit;
mod failure;
mod fork;
mod frozen;
mod inbox;
mod interrupt;
mod ledger;
mod list;
mod logs;
mod man;
mod message;
mod operation;
mod output;
mod pieces;
mod progress;
mod prune;
mod reconcile;
mod report;
mod request;
mod resume;
mod run;
mod schema;
mod send;
mod sessions;
mod settings;
mod show;
mod shutdown;
mod spawn;
mod status;
mod stop;
mod text;
mod upgrade;
mod usage;
mod wait;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use self::args::{Cli, Command};
use self::context::Context;
use self::exit::Exit;
use self::failure::Failure;
use crate::host;
use crate::os::environment::Environment;

/// Does what the command line says and tells how it ended.
///
/// `ostler host` goes before everything else: one such process runs for each live session, so it must stay small.
pub fn run(arguments: &[OsString]) -> ExitCode {
    if arguments.get(1).is_some_and(|command| command == "host") {
        // Only a broker has what a host needs, so nobody who could read an explanation gets here.
        return ExitCode::from(host::server::run(&arguments[2..]).unwrap_or(Exit::Usage.code()));
    }
    let arguments = usage::with_help(arguments);
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(usage::refuse(&error, &arguments)),
    };
    let context = Context::new(cli.globals, Environment::process().clone());
    ExitCode::from(finish(dispatch(cli.command, &context), &context))
}

/// The number of an outcome; a failure is shown first.
fn finish(outcome: Result<u8, Failure>, context: &Context) -> u8 {
    match outcome {
        Ok(code) => code,
        Err(Failure::OutputClosed) => exit::OUTPUT_CLOSED,
        Err(Failure::Error(report)) => match context.output.error(&report) {
            Ok(()) => report.exit().code(),
            Err(_) => exit::OUTPUT_CLOSED,
        },
    }
}

/// Whether a command refuses to work under a configuration that is not valid. Those that look, that end a broker and that are about the
/// program itself have to work then too.
fn needs_configuration(command: &Command) -> bool {
    match command {
        Command::Ensure(_)
        | Command::Spawn(_)
        | Command::List(_)
        | Command::Show(_)
        | Command::Logs(_)
        | Command::Wait(_)
        | Command::Send(_)
        | Command::Message(_)
        | Command::Inbox(_)
        | Command::Report(_)
        | Command::Interrupt(_)
        | Command::Stop(_)
        | Command::Resume(_)
        | Command::Fork(_)
        | Command::Delete(_)
        | Command::Prune(_)
        | Command::Reconcile(_)
        | Command::Operation(_)
        | Command::Connect(_) => true,
        // It has exit codes of its own and looks itself.
        Command::Run(_)
        | Command::Broker(_)
        | Command::Status(_)
        | Command::Shutdown(_)
        | Command::Upgrade(_)
        | Command::Doctor(_)
        | Command::Ledger(_)
        | Command::Config(_)
        | Command::Schema(_)
        | Command::Completions(_)
        | Command::Man(_) => false,
    }
}

fn dispatch(command: Command, context: &Context) -> Result<u8, Failure> {
    if needs_configuration(&command) {
        context.settings()?;
    }
    let exit: Result<Exit, Failure> = match command {
        Command::Run(args) => return run::run(&args, context),
        Command::Broker(args) => return broker::run(&args, context),
        Command::Ensure(args) => ensure::run(&args, context),
        Command::Spawn(args) => spawn::run(&args, context),
        Command::List(args) => list::run(args, context),
        Command::Show(args) => show::run(&args, context),
        Command::Logs(args) => logs::run(&args, context),
        Command::Wait(args) => wait::run(&args, context),
        Command::Send(args) => send::run(args, context),
        Command::Message(args) => message::run(args, context),
        Command::Inbox(args) => inbox::run(args, context),
        Command::Report(args) => report::run(args, context),
        Command::Interrupt(args) => interrupt::run(args, context),
        Command::Stop(args) => stop::run(&args, context),
        Command::Resume(args) => resume::run(&args, context),
        Command::Fork(args) => fork::run(&args, context),
        Command::Delete(args) => delete::run(&args, context),
        Command::Prune(args) => prune::run(args, context),
        Command::Reconcile(args) => reconcile::run(args, context),
        Command::Operation(args) => operation::run(args, context),
        Command::Status(args) => status::run(&args, context),
        Command::Shutdown(args) => shutdown::run(&args, context),
        Command::Upgrade(args) => upgrade::run(&args, context),
        Command::Connect(args) => connect::run(&args, context),
        Command::Doctor(args) => doctor::run(&args, context),
        Command::Ledger(args) => ledger::run(&args, context),
        Command::Config(args) => config::run(&args, context),
        Command::Schema(args) => schema::run(&args, context),
        Command::Completions(args) => completions::run(&args, context),
        Command::Man(args) => man::run(&args, context),
    };
    exit.map(Exit::code)
}
