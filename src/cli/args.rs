//! The argument tree: global flags, and the list of commands. Each command's own arguments stand in its file.
//! Promises: whatever belongs to a session's command or environment is taken as bytes, UTF-8 or not; a command that this build cannot do is
//! not offered.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

use super::duration;
use crate::os::build::build;
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::wire;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "ostler",
    version = build().version,
    about = "A session broker for one machine: starts itself, runs each session exactly once, proves it in a ledger",
    after_help = "`ostler help COMMAND` tells of one command.\nA SESSION is named by its exact id, its exact name, or a unique prefix of its id of at least \
                  3\ncharacters.\nExit codes: 0 done, 1 failed, \
                  2 usage, 3 no such thing, 4 conflict, 5 broker, 6 time, 7 rights, 8 integrity, 9 capacity, 10 protocol.",
    disable_help_subcommand = true,
    subcommand_required = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every command takes, anywhere before `--`.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Globals {
    /// The state root [default: $OSTLER_ROOT, else the usual place of this system]
    #[arg(long, global = true, value_name = "DIR", display_order = 900)]
    pub(crate) root: Option<PathBuf>,
    /// JSON on standard output, one document a line
    #[arg(long, global = true, display_order = 901)]
    pub(crate) json: bool,
    /// Do not start a broker
    #[arg(long, global = true, display_order = 902)]
    pub(crate) no_start: bool,
    /// The one deadline of the command: 500ms, 10s, 2m
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration::parse, display_order = 903)]
    pub(crate) timeout: Option<Duration>,
}

/// The key of a mutating command.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Key {
    /// Idempotency key, 1 to 128 printable ASCII characters: a repeated key gets the first outcome and no second effect [default: a new one]
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<wire::Key>,
}

/// One of several sessions: by name, or by label.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Selection {
    /// Sessions, by id, name or unique prefix of the id (at least 3 characters)
    #[arg(value_name = "SESSION", required_unless_present = "labels")]
    pub(crate) sessions: Vec<String>,
    /// All sessions that have this label; several must all be there
    #[arg(long = "label", value_name = "K=V", value_parser = parse_label, conflicts_with = "sessions")]
    pub(crate) labels: Vec<(String, String)>,
}

/// What ostler can be asked for.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Ensure(super::ensure::Args),
    Run(super::run::Args),
    Spawn(super::spawn::Args),
    #[command(visible_aliases = ["ls", "ps"])]
    List(super::list::Args),
    Show(super::show::Args),
    Logs(super::logs::Args),
    Wait(super::wait::Args),
    Send(super::send::Args),
    Message(super::message::Args),
    Inbox(super::inbox::Args),
    Report(super::report::Args),
    Interrupt(super::interrupt::Args),
    Stop(super::stop::Args),
    Resume(super::resume::Args),
    Fork(super::fork::Args),
    #[command(visible_alias = "rm")]
    Delete(super::delete::Args),
    Prune(super::prune::Args),
    Reconcile(super::reconcile::Args),
    Operation(super::operation::Args),
    Status(super::status::Args),
    Shutdown(super::shutdown::Args),
    Upgrade(super::upgrade::Args),
    Connect(super::connect::Args),
    Doctor(super::doctor::Args),
    Ledger(super::ledger::Args),
    Config(super::config::Args),
    Schema(super::schema::Args),
    Completions(super::completions::Args),
    Man(super::man::Args),
    #[command(hide = true)]
    Broker(super::broker::Args),
}

/// Reads `K=V`; the limits of both are the broker's to check.
///
/// # Errors
/// A sentence that says what is wrong.
pub(crate) fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err(format!("`{text}` is not K=V")),
    }
}

/// Puts labels into the form of the wire.
///
/// # Errors
/// `invalid_input` if one key stands there twice: then nobody can say which value was meant.
pub(crate) fn label_map(labels: &[(String, String)]) -> Result<BTreeMap<String, String>, WireError> {
    let mut map = BTreeMap::new();
    for (key, value) in labels {
        if map.insert(key.clone(), value.clone()).is_some() {
            let message = format!("the label `{key}` is given twice");
            return Err(WireError::new(ErrorCode::InvalidInput, message).reason("label"));
        }
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_tree_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_commands_are_those_of_the_contract_that_this_build_can_do() {
        let names: Vec<String> = Cli::command()
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(|command| command.get_name().to_owned())
            .collect();
        assert_eq!(
            names.join(" "),
            "ensure run spawn list show logs wait send message inbox report interrupt stop resume fork delete prune reconcile operation status shutdown upgrade connect doctor \
             ledger config schema completions man"
        );
    }

    #[test]
    fn every_command_and_option_says_what_it_is() {
        fn check(command: &clap::Command, path: &str) {
            assert!(command.get_about().is_some(), "{path} has no description");
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{path} {} has no help", argument.get_id());
            }
            for below in command.get_subcommands() {
                check(below, &format!("{path} {}", below.get_name()));
            }
        }
        let mut command = Cli::command();
        command.build();
        check(&command, "ostler");
        let about = command.get_about().unwrap().to_string();
        assert!(about.starts_with("A session broker"), "a flattened group has replaced the description: {about}");
    }

    #[test]
    fn global_flags_stand_anywhere_before_the_dashes_and_nowhere_after() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' ')).map_err(|error| error.to_string());
        let before = parse("ostler --json --timeout 5s run --root /r -- true --no-start").unwrap();
        let Command::Run(run) = before.command else { panic!("not run") };
        assert!(before.globals.json && !before.globals.no_start);
        assert_eq!((before.globals.root, before.globals.timeout), (Some("/r".into()), Some(Duration::from_secs(5))));
        assert_eq!(run.options.command, ["true", "--no-start"]);
        assert!(parse("ostler run true").unwrap_err().contains("--"));
        assert!(parse("ostler run --").is_err());
        assert!(parse("ostler spawn --key ü -- true").unwrap_err().contains("printable ASCII"));
        assert!(parse("ostler stop").is_err());
        assert!(parse("ostler stop a --label k=v").is_err());
        assert!(parse("ostler ls").is_ok() && parse("ostler ps").is_ok() && parse("ostler rm x").is_ok());
    }

    #[test]
    fn what_later_versions_will_do_is_not_offered() {
        for line in [
            "mcp serve",
            "doctor --fix lock",
            "doctor --fix modes",
            "spawn --adapter acp -- x",
            "send a b --mode steer",
        ] {
            Cli::try_parse_from(std::iter::once("ostler").chain(line.split(' '))).expect_err(line);
        }
    }

    #[test]
    fn a_label_stands_once() {
        let pair = |value: &str| ("k".to_owned(), value.to_owned());
        assert_eq!(label_map(&[pair("a")]).unwrap().len(), 1);
        assert_eq!(label_map(&[pair("a"), pair("b")]).unwrap_err().code, ErrorCode::InvalidInput);
        assert_eq!(parse_label("k=a=b"), Ok(("k".into(), "a=b".into())));
        assert!(parse_label("k").is_err() && parse_label("=v").is_err());
    }
}
