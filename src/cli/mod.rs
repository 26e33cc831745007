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
mod ledger;
mod list;
mod logs;
mod man;
mod operation;
mod output;
mod output_tail;
mod pieces;
mod prune;
mod request;
mod resume;
mod run;
mod schema;
mod sessions;
mod settings;
mod show;
mod shutdown;
mod spawn;
mod status;
mod stop;
mod text;
mod wait;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use self::args::{Cli, Command, Globals};
use self::context::Context;
use self::exit::Exit;
use self::failure::Failure;
use crate::host;
use crate::os::environment::Environment;
use crate::rpc::error::{ErrorCode, WireError};

/// Does what the command line says and tells how it ended.
///
/// `ostler host` goes before everything else: one such process runs for each live session, so it must stay small.
pub fn run(arguments: &[OsString]) -> ExitCode {
    if arguments.get(1).is_some_and(|command| command == "host") {
        // Only a broker has what a host needs, so nobody who could read an explanation gets here.
        return ExitCode::from(host::server::run(&arguments[2..]).unwrap_or(Exit::Usage.code()));
    }
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(refuse(&error, arguments)),
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
        | Command::Stop(_)
        | Command::Resume(_)
        | Command::Delete(_)
        | Command::Prune(_)
        | Command::Operation(_)
        | Command::Connect(_) => true,
        // It has exit codes of its own and looks itself.
        Command::Run(_)
        | Command::Broker(_)
        | Command::Status(_)
        | Command::Shutdown(_)
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
        Command::Stop(args) => stop::run(&args, context),
        Command::Resume(args) => resume::run(&args, context),
        Command::Delete(args) => delete::run(&args, context),
        Command::Prune(args) => prune::run(args, context),
        Command::Operation(args) => operation::run(args, context),
        Command::Status(args) => status::run(&args, context),
        Command::Shutdown(args) => shutdown::run(&args, context),
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

/// Shows what the parser says: help and version on standard output, anything else as the usage error that it is.
fn refuse(error: &clap::Error, arguments: &[OsString]) -> u8 {
    if !error.use_stderr() {
        return if error.print().is_ok() { Exit::Done.code() } else { exit::OUTPUT_CLOSED };
    }
    // Every other code of `run` is its command's, and no command was started.
    let code = if is_run(arguments) { exit::RUN_FAILED } else { Exit::Usage.code() };
    let globals = Globals { json: asks_for_json(arguments), ..Globals::default() };
    let context = Context::new(globals, Environment::process().clone());
    if !context.output.json {
        // Whoever closed standard error does not want to read it.
        drop(error.print());
        if lacks_dashes(arguments) {
            drop(writeln!(io::stderr(), "\n  tip: {DASHES}"));
        }
        context.output.progress("Nothing was done.");
        return code;
    }
    let text = error.to_string();
    let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let error = WireError::new(ErrorCode::InvalidInput, message).reason("usage").with("usage", text.trim_end());
    let error = if lacks_dashes(arguments) { error.with("remedy", DASHES) } else { error };
    match finish(Err(Failure::new("understand the command line", error)), &context) {
        exit::OUTPUT_CLOSED => exit::OUTPUT_CLOSED,
        _ => code,
    }
}

/// Whether the command is `run`, as far as a command line that cannot be parsed tells.
fn is_run(arguments: &[OsString]) -> bool {
    let mut words = arguments.iter().skip(1);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--root" | "--timeout") => drop(words.next()),
            Some(flag) if flag.starts_with('-') => {}
            command => return command == Some("run"),
        }
    }
    false
}

/// What is missing where a session's command follows its options directly.
const DASHES: &str = "put -- before the command, as in `ostler spawn -- CMD ARG`";

/// Whether a session is to be started and nothing says where its command begins.
fn lacks_dashes(arguments: &[OsString]) -> bool {
    let mut rest = arguments.iter().skip(1);
    rest.any(|argument| argument == "spawn" || argument == "run") && rest.all(|argument| argument != "--")
}

/// Whether documents are wanted, as far as a command line that cannot be parsed tells.
fn asks_for_json(arguments: &[OsString]) -> bool {
    arguments.iter().skip(1).take_while(|argument| *argument != "--").any(|argument| argument == "--json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_wanted_only_before_the_dashes() {
        let asks = |line: &str| asks_for_json(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(asks("ostler frobnicate --json"));
        assert!(!asks("ostler run -- x --json"));
    }

    #[test]
    fn only_a_start_without_dashes_lacks_them() {
        let lacks = |line: &str| lacks_dashes(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(lacks("ostler --json spawn --name x sleep 1"));
        assert!(lacks("ostler run true"));
        assert!(!lacks("ostler spawn --frob -- sleep 1"));
        assert!(!lacks("ostler list --frob"));
    }

    #[test]
    fn run_is_known_by_the_first_word_that_is_no_flag() {
        let run = |line: &str| is_run(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(run("ostler run --nosuch -- true") && run("ostler --root run --json run -- true"));
        assert!(!run("ostler spawn --name run") && !run("ostler --root run") && !run("ostler"));
    }
}
