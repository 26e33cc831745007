//! Usage errors and `help`. What the parser refuses is told as every other error is: what was wrong, that nothing was done, what to type
//! next; with `--json` as the error document. A command that only lacks its subcommand gets its help instead, on standard error. Promises: the fact itself is in the message, a command of a later version is called so, and what
//! removes or ends something is never proposed for a word that only looks like it.

use std::error::Error as _;
use std::ffi::OsString;
use std::num::ParseIntError;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::args::{Cli, Globals};
use super::context::Context;
use super::exit::{self, Exit};
use super::failure::Failure;
use crate::os::environment::Environment;
use crate::rpc::error::{ErrorCode, WireError};

/// Commands of later versions (docs/CONTRACT.md, "Planned").
const PLANNED: [&str; 1] = ["mcp"];
/// Options of later versions.
const PLANNED_OPTIONS: [&str; 1] = ["--restart"];
/// Words that people know from elsewhere, and what they mean here.
const MEANT: [(&str, &str); 5] = [
    ("exec", "ostler run -- CMD"),
    ("kill", "ostler stop SESSION"),
    ("restart", "ostler stop SESSION, then ostler resume SESSION"),
    ("start", "ostler spawn -- CMD for a new session, ostler resume SESSION for one that has ended"),
    ("version", "ostler --version"),
];
/// Commands that nobody is led to by a resemblance.
const HARMFUL: [&str; 5] = ["delete", "prune", "rm", "shutdown", "stop"];
/// How alike a word and the command that was meant are, at least: 0 to 1.
const NEAR: f64 = 0.6;
/// What is missing where a session's command follows its options directly.
const DASHES: &str = "put -- before the command, as in `ostler spawn -- CMD ARG`";

/// `help [COMMAND...]` as the flag that it stands for.
pub(super) fn with_help(arguments: &[OsString]) -> Vec<OsString> {
    let mut arguments = arguments.to_vec();
    if let Some(at) = command_at(&arguments).filter(|at| arguments[*at] == "help") {
        arguments.remove(at);
        arguments.push("--help".into());
    }
    arguments
}

/// Shows what the parser says: help and version on standard output, anything else as the usage error that it is.
pub(super) fn refuse(error: &clap::Error, arguments: &[OsString]) -> u8 {
    if !error.use_stderr() {
        return if error.print().is_ok() { Exit::Done.code() } else { exit::OUTPUT_CLOSED };
    }
    // Every other code of `run` is its command's, and no command was started.
    let is_run = command_at(arguments).is_some_and(|at| arguments[at] == "run");
    let code = if is_run { exit::RUN_FAILED } else { Exit::Usage.code() };
    let globals = Globals { json: asks_for_json(arguments), ..Globals::default() };
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand && !globals.json {
        // On standard error: whoever reads standard output gets nothing that was not asked for.
        return if error.print().is_ok() { code } else { exit::OUTPUT_CLOSED };
    }
    let context = Context::new(globals, Environment::process().clone());
    let failure = Failure::new("understand the command line", wire_error(error, arguments));
    match super::finish(Err(failure), &context) {
        exit::OUTPUT_CLOSED => exit::OUTPUT_CLOSED,
        _ => code,
    }
}

fn wire_error(error: &clap::Error, arguments: &[OsString]) -> WireError {
    let usage = words(error, ContextKind::Usage).join(" ").trim_start_matches("Usage: ").trim().to_owned();
    let help = help_of(arguments);
    let (message, next) = if error.kind() == ErrorKind::InvalidSubcommand {
        unknown_command(&words(error, ContextKind::InvalidSubcommand).join(" "), &help, arguments)
    } else {
        (message(error, arguments), None)
    };
    let planned = is_planned(error);
    // Nor is the usage told that the parser has made of its guess.
    let usage = if planned { String::new() } else { usage };
    let suggested = words(error, ContextKind::SuggestedArg).first().map(|argument| format!("{argument}, or {help}"));
    let suggested = suggested.filter(|_| !planned);
    let next = next.or_else(|| lacks_dashes(arguments).then(|| DASHES.to_owned())).or(suggested).unwrap_or(help);
    let error = WireError::new(ErrorCode::InvalidInput, message).reason("usage").with("remedy", next);
    if usage.is_empty() { error } else { error.with("usage", usage) }
}

/// The command whose help fits, as far as the line names one.
fn help_of(arguments: &[OsString]) -> String {
    let mut path = vec!["ostler"];
    let mut command = Cli::command();
    let words = command_at(arguments).map(|at| &arguments[at..]).unwrap_or_default();
    for word in words.iter().filter_map(|word| word.to_str()) {
        let Some(below) = command.find_subcommand(word).cloned() else { break };
        path.push(word);
        command = below;
    }
    format!("{} --help", path.join(" "))
}

/// Whether an option of a later version is what was not understood.
fn is_planned(error: &clap::Error) -> bool {
    let option = words(error, ContextKind::InvalidArg).join(" ");
    error.kind() == ErrorKind::UnknownArgument
        && PLANNED_OPTIONS.contains(&option.split('=').next().unwrap_or_default())
}

/// What is wrong, in one line.
fn message(error: &clap::Error, arguments: &[OsString]) -> String {
    let text = |kind| words(error, kind).join(" ");
    if is_planned(error) {
        return format!("`{}` is planned, and not in this version", text(ContextKind::InvalidArg));
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let command = inner(arguments).unwrap_or_else(Cli::command);
        let known: Vec<&str> =
            command.get_subcommands().filter(|below| !below.is_hide_set()).map(clap::Command::get_name).collect();
        return format!("it names no command; there are {}", known.join(", "));
    }
    if error.source().is_some_and(|source| source.is::<ParseIntError>()) {
        let (value, argument) = (text(ContextKind::InvalidValue), text(ContextKind::InvalidArg));
        return format!("invalid value '{value}' for '{argument}': it is no whole number");
    }
    if error.kind() == ErrorKind::MissingSubcommand {
        let tree = Cli::command();
        let is_shown = |name: &String| tree.find_subcommand(name).is_none_or(|command| !command.is_hide_set());
        let known: Vec<String> = words(error, ContextKind::ValidSubcommand).into_iter().filter(is_shown).collect();
        return format!("it names no command; there are {}", known.join(", "));
    }
    // The parser's own words: all of the first paragraph, of which the fact itself may be the last line.
    let said = error.to_string();
    let lines = said.lines().take_while(|line| !line.trim().is_empty()).map(str::trim);
    lines.collect::<Vec<_>>().join(" ").trim_start_matches("error: ").to_owned()
}

/// What to say of a command that there is not, and what was meant by it.
fn unknown_command(word: &str, help: &str, arguments: &[OsString]) -> (String, Option<String>) {
    let is_first = command_at(arguments).is_some_and(|at| arguments[at] == word);
    if is_first && PLANNED.contains(&word) {
        return (format!("`{word}` is planned, and not in this version"), None);
    }
    let message = format!("there is no command `{word}`");
    let meant = MEANT.iter().find(|(known, _)| is_first && *known == word).map(|(_, meant)| (*meant).to_owned());
    let near = || {
        let command = if is_first { Cli::command() } else { inner(arguments)? };
        near(&command, word).map(|near| help.replace(" --help", &format!(" {near}")))
    };
    (message, meant.or_else(near))
}

/// The command that has commands of its own, if one is named first.
fn inner(arguments: &[OsString]) -> Option<clap::Command> {
    let first = arguments.get(command_at(arguments)?)?.to_str()?;
    Cli::command().find_subcommand(first).cloned()
}

/// The command that most resembles a word.
fn near(command: &clap::Command, word: &str) -> Option<String> {
    let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
    let names = shown.flat_map(|below| std::iter::once(below.get_name()).chain(below.get_visible_aliases()));
    let alike = names
        .filter(|name| !HARMFUL.contains(name))
        .map(|name| (strsim::normalized_damerau_levenshtein(word, name), name));
    let best = alike.max_by(|one, other| one.0.total_cmp(&other.0)).filter(|(alike, _)| *alike >= NEAR);
    best.map(|(_, name)| name.to_owned())
}

/// The texts that the parser keeps of an error under this kind.
fn words(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(word)) => vec![word.clone()],
        Some(ContextValue::Strings(words)) => words.clone(),
        Some(ContextValue::StyledStr(text)) => vec![text.to_string()],
        Some(ContextValue::StyledStrs(texts)) => texts.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    }
}

/// Where the command's name stands, as far as a command line that need not parse tells.
fn command_at(arguments: &[OsString]) -> Option<usize> {
    let mut is_value = false;
    arguments.iter().enumerate().skip(1).find_map(|(at, word)| {
        let was_value = std::mem::replace(&mut is_value, word == "--root" || word == "--timeout");
        (!was_value && !word.to_string_lossy().starts_with('-')).then_some(at)
    })
}

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
    use clap::Parser;

    use super::*;

    fn line(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    /// What is said of a command line, and what to type next.
    #[track_caller]
    fn told(text: &str) -> (String, String) {
        let error = Cli::try_parse_from(with_help(&line(text))).expect_err(text);
        let error = wire_error(&error, &line(text));
        let next = error.data["remedy"].as_str().expect("a text").to_owned();
        (error.message, next)
    }

    #[test]
    fn the_fact_is_in_the_message() {
        assert!(told("ostler stop").0.ends_with("not provided: <SESSION>..."), "{:?}", told("ostler stop"));
        let (message, next) = told("ostler --json");
        assert!(message.contains("ensure, run, spawn") && !message.contains("broker"), "{message}");
        assert_eq!(next, "ostler --help");
        let (message, next) = told("ostler logs a --tail x");
        assert!(message.contains("'x' for '--tail <N>': it is no whole number"), "{message}");
        assert_eq!(next, "ostler logs --help");
        assert!(told("ostler list --limit 0").0.contains("1..=1000"));
        assert!(told("ostler list --status happy").0.contains("possible values: starting"));
        assert!(told("ostler list --al").1.starts_with("--all"), "{:?}", told("ostler list --al"));
        assert!(told("ostler spawn true").1.contains("put --"));
    }

    #[test]
    fn a_word_that_is_no_command_leads_to_the_one_that_was_meant() {
        for (word, next) in [
            ("kill", "ostler stop SESSION"),
            ("rn", "ostler run"),
            ("lst", "ostler list"),
            ("ledger verfy", "ostler ledger verify"),
            ("frobnicate", "ostler --help"),
            // Nobody who mistypes is led to what cannot be taken back.
            ("purne", "ostler --help"),
            ("delte", "ostler --help"),
        ] {
            assert_eq!(told(&format!("ostler {word}")).1, next, "{word}");
        }
        assert!(told("ostler start").1.contains("ostler resume"));
        for word in PLANNED {
            let (message, next) = told(&format!("ostler {word} x"));
            assert!(message.contains("planned") && next == "ostler --help", "{message}: {next}");
        }
    }

    #[test]
    fn what_is_planned_is_called_so_and_leads_nowhere_else() {
        for line in ["ostler spawn --restart never -- x", "ostler run --restart=never -- x"] {
            let (message, next) = told(line);
            assert!(message.contains("`--restart` is planned"), "{message}");
            assert!(next.ends_with(" --help") && !next.contains("--no-start"), "{next}");
        }
    }

    #[test]
    fn a_command_without_its_own_command_names_those() {
        let (message, next) = told("ostler --json message");
        assert_eq!(
            (message.as_str(), next.as_str()),
            ("it names no command; there are show, list, cancel, resolve", "ostler message --help")
        );
    }

    #[test]
    fn help_is_a_command_too() {
        let asked = |text: &str| with_help(&line(text)).join(std::ffi::OsStr::new(" ")).into_string().unwrap();
        assert_eq!(asked("ostler help"), "ostler --help");
        assert_eq!(asked("ostler --json help ledger verify"), "ostler --json ledger verify --help");
        assert_eq!(asked("ostler run -- help"), "ostler run -- help");
        assert_eq!(asked("ostler show help"), "ostler show help");
    }

    #[test]
    fn documents_are_wanted_only_before_the_dashes() {
        assert!(asks_for_json(&line("ostler frobnicate --json")));
        assert!(!asks_for_json(&line("ostler run -- x --json")));
    }

    #[test]
    fn only_a_start_without_dashes_lacks_them() {
        assert!(lacks_dashes(&line("ostler --json spawn --name x sleep 1")));
        assert!(lacks_dashes(&line("ostler run true")));
        assert!(!lacks_dashes(&line("ostler spawn --frob -- sleep 1")));
        assert!(!lacks_dashes(&line("ostler list --frob")));
    }

    #[test]
    fn the_command_is_the_first_word_that_is_no_flag() {
        let command = |text: &str| command_at(&line(text)).map(|at| line(text)[at].clone().into_string().unwrap());
        assert_eq!(command("ostler --root run --json list -- true").as_deref(), Some("list"));
        assert_eq!(command("ostler spawn --name run").as_deref(), Some("spawn"));
        assert_eq!((command("ostler --root run"), command("ostler")), (None, None));
    }
}
