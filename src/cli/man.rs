//! `ostler man`: the manual page, with every command and its options, as roff for `man -l -`.

use clap::CommandFactory;

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::output::write_failed;
use super::settings::keys::KEYS;

/// Print the manual page
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, context: &Context) -> Result<Exit, Failure> {
    context.output.bytes(&page().map_err(write_failed)?)?;
    Ok(Exit::Done)
}

/// One page: the overview, then a section for each command.
fn page() -> std::io::Result<Vec<u8>> {
    let mut command = super::args::Cli::command();
    command.build();
    let mut roff = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut roff)?;
    roff.extend(environment().into_bytes());
    for part in command.get_subcommands().filter(|part| !part.is_hide_set()) {
        render_part(part, &mut roff)?;
    }
    Ok(roff)
}

/// The variables that commands read, and those that a session's command gets.
fn environment() -> String {
    let keys = KEYS.iter().map(|key| (key.variable, format!("{} (configuration: {})", key.help, key.name)));
    let read = [
        ("OSTLER_ROOT", "the state root, if --root is not given; else $XDG_STATE_HOME/ostler or ~/.local/state/ostler"),
        (
            "XDG_RUNTIME_DIR, TMPDIR",
            "where sockets lie, if the folder is ours alone; a client reads from broker.json where the broker's is",
        ),
        ("XDG_CONFIG_HOME", "where the user's configuration file lies, ostler/config.toml; else ~/.config"),
        ("NO_COLOR, TERM", "no colours where NO_COLOR is set or TERM is dumb"),
    ];
    let session = [
        ("OSTLER_SESSION, OSTLER_EPISODE", "inside a session: its id, and which run of its command this is"),
        (
            "OSTLER_CREDENTIAL",
            "inside a session: the file with its credential; with it every command acts as the session",
        ),
        ("OSTLER_MARK", "inside a session: by which processes of its episode are found; opaque"),
    ];
    let texts = |pairs: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
        pairs.iter().map(|(name, text)| (*name, (*text).to_owned())).collect()
    };
    let all = texts(&read).into_iter().chain(keys).chain(texts(&session));
    let shown = all.map(|(name, text)| format!(".TP\n\\fB{name}\\fR\n{}\n", text.replace('-', "\\-")));
    format!(".SH ENVIRONMENT\n{}", shown.collect::<String>())
}

fn render_part(part: &clap::Command, roff: &mut Vec<u8>) -> std::io::Result<()> {
    let title = part.get_bin_name().unwrap_or(part.get_name()).to_uppercase();
    roff.extend(format!(".SH \"{title}\"\n").into_bytes());
    let man = clap_mangen::Man::new(part.clone());
    man.render_description_section(roff)?;
    man.render_synopsis_section(roff)?;
    man.render_options_section(roff)?;
    for below in part.get_subcommands() {
        render_part(below, roff)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_command_and_none_that_is_hidden() {
        let page = String::from_utf8(page().unwrap()).unwrap();
        for heading in ["OSTLER SPAWN", "OSTLER LEDGER VERIFY", "OSTLER CONFIG SHOW"] {
            assert!(page.contains(&format!(".SH \"{heading}\"")), "{heading}");
        }
        assert!(!page.contains("OSTLER BROKER"));
        for key in &KEYS {
            assert!(page.contains(&format!("\\fB{}\\fR", key.variable)), "{}", key.variable);
        }
        for variable in ["OSTLER_ROOT", "OSTLER_SESSION", "OSTLER_CREDENTIAL"] {
            assert!(page.contains(variable), "{variable}");
        }
    }
}
