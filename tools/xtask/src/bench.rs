//! `cargo xtask bench`: builds the product and the benchmark as they ship, and runs it. The table goes to the terminal and
//! into the document.

use crate::stage::cargo;
use std::path::Path;
use std::process::Command;

/// Where the data goes: the file system of the build is the one that is measured.
const FOLDER: &str = "target/bench-data";

/// Runs the benchmark that `words` begin with, with the rest of them as its options.
///
/// # Errors
/// What cannot be built, or the benchmark's own failure.
pub(crate) fn run(top: &Path, words: &[&str]) -> Result<(), String> {
    step(&mut cargo(top, &["build", "--locked", "--release", "--package", "ostler"]))?;
    match words {
        ["ledger", ..] => ledger(top, words),
        ["storm", ..] => storm(top, words),
        ["messages", ..] => messages(top, words),
        _ => Err("bench ledger, bench storm, or bench messages".to_owned()),
    }
}

fn ledger(top: &Path, words: &[&str]) -> Result<(), String> {
    // The program has a workspace of its own; it is measured with the product's dependencies as they are locked.
    let lock = top.join("tools/bench/sqlite/Cargo.lock");
    std::fs::copy(top.join("Cargo.lock"), lock).map_err(|error| format!("cannot copy Cargo.lock: {error}"))?;
    let manifest = "tools/bench/sqlite/Cargo.toml";
    let build = ["build", "--release", "--manifest-path", manifest, "--target-dir", "target"];
    step(&mut cargo(top, &build))?;
    step(&mut program(top, "ostler-bench", words, "docs/LEDGER.md"))
}

fn storm(top: &Path, words: &[&str]) -> Result<(), String> {
    let build = ["build", "--locked", "--release", "--package", "ostler-bench", "--bin", "ostler-storm"];
    step(&mut cargo(top, &build))?;
    step(&mut program(top, "ostler-storm", words, "docs/PERFORMANCE.md"))
}

fn messages(top: &Path, words: &[&str]) -> Result<(), String> {
    let build = ["build", "--locked", "--release", "--package", "ostler-bench", "--bin", "ostler-messages"];
    step(&mut cargo(top, &build))?;
    step(&mut program(top, "ostler-messages", words, "docs/PERFORMANCE.md"))
}

/// A benchmark's program, told what to measure, where, and which document its table belongs into.
fn program(top: &Path, name: &str, words: &[&str], document: &str) -> Command {
    let mut command = Command::new(top.join("target/release").join(name));
    command.current_dir(top).args(words);
    command.arg("--program").arg(top.join("target/release/ostler"));
    command.arg("--folder").arg(top.join(FOLDER)).args(["--document", document]);
    command
}

fn step(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("cannot run {program}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("failed: {program}: {status}")) }
}
