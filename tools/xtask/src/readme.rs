//! README's first command, run exactly as it is written there: a reader's first impression is a check of ours.

use std::path::Path;
use std::process::{Command, Stdio};

/// The first line of the first shell block.
fn first_command(readme: &str) -> Option<&str> {
    readme.split_once("```sh\n").and_then(|(_, block)| block.lines().next())
}

/// Runs it in a root of its own; `program` ends the broker that it started.
///
/// # Errors
/// One sentence, if it does not do what README says: a greeting from a session, and the command's own exit code.
pub(crate) fn run(top: &Path, program: &str) -> Result<(), String> {
    let readme =
        std::fs::read_to_string(top.join("README.md")).map_err(|error| format!("cannot read README.md: {error}"))?;
    let command = first_command(&readme).ok_or("README.md has no shell block")?;
    let root = std::env::temp_dir().join(format!("ostler-readme-{}", std::process::id()));
    let said = Command::new("sh")
        .args(["-c", command])
        .current_dir(top)
        .env("OSTLER_ROOT", &root)
        .stdin(Stdio::null())
        .output();
    let left = Command::new(program)
        .args(["shutdown", "--stop-sessions"])
        .env("OSTLER_ROOT", &root)
        .stdout(Stdio::null())
        .status();
    let said = said.map_err(|error| format!("cannot run sh: {error}"))?;
    let (text, code) = (String::from_utf8_lossy(&said.stdout).into_owned(), said.status.code());
    let errors = String::from_utf8_lossy(&said.stderr).into_owned();
    if !text.starts_with("hello from ") || code != Some(3) {
        return Err(format!(
            "failed: README's first command `{command}` said {text:?} and ended with {code:?}\n{errors}"
        ));
    }
    if !left.is_ok_and(|status| status.success()) {
        return Err("failed: the broker that README's first command started does not leave".to_owned());
    }
    std::fs::remove_dir_all(&root).map_err(|error| format!("cannot remove {}: {error}", root.display()))
}

#[cfg(test)]
mod tests {
    use super::first_command;

    #[test]
    fn the_first_line_of_the_first_shell_block_is_the_first_command() {
        assert_eq!(first_command("text\n```text\nno\n```\n```sh\ncargo run\nmore\n```\n"), Some("cargo run"));
        assert_eq!(first_command("no block"), None);
    }
}
