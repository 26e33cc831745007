//! `ostler man`: the manual page, with every command and its options, as roff for `man -l -`.

use clap::CommandFactory;

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::output::write_failed;

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
    for part in command.get_subcommands().filter(|part| !part.is_hide_set()) {
        render_part(part, &mut roff)?;
    }
    Ok(roff)
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
    }
}
