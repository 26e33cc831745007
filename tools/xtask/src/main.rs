//! The project's checks, as one command, the same at home and in CI: `cargo xtask ci`.
//!
//! Promises: checking never writes outside `target/`, needs no network once the dependencies are fetched, and stops at the first stage
//! that fails. No dependencies, so that it builds in a moment on a bare machine.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool for people, and for the log of a check")]

mod bench;
mod ci;
mod long;
mod readme;
mod stage;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask ci                     everything that the gate runs, each stage with its time
cargo xtask bench ledger [--rounds N] [--records N] [--only NAME] [--brief]
                                   every figure of the ledger beside its floor, into docs/LEDGER.md
cargo xtask bench messages [--rounds N] [--brief]
                                   messages to programs beside the least that their path demands, into docs/PERFORMANCE.md
cargo xtask bench storm [--rounds N] [--clients N,N...] [--only NAME,NAME...]
                                   find-or-start under many clients beside tmux, watchman, pueue, into docs/PERFORMANCE.md
cargo xtask tidy [FOLDER]          the repository's own rules alone, on this or another checkout
cargo xtask long [JOB]... [--list] [--seeds N] [--seed N] [--rounds N] [--seconds N] [--target NAME]
                                   what takes longer than the gate allows";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["ci"] => ci::run(&top()),
        ["tidy"] => tidy::run(&top()),
        ["tidy", folder] => tidy::run(Path::new(folder)),
        ["bench", rest @ ..] => bench::run(&top(), rest),
        ["long", rest @ ..] => long::run(&top(), rest),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

/// The repository that this tool is run in: cargo says so when it runs something. What it was built in may be another checkout,
/// for a copied `target` brings a tool along that counts as built.
#[expect(
    clippy::disallowed_methods,
    reason = "it is cargo's word to the tool that it runs, not the user's environment"
)]
fn top() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR");
    PathBuf::from(package.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into())).join("../..")
}
