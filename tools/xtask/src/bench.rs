//! `cargo xtask bench`: builds the product and the benchmark as they ship, and runs it. The table goes to the terminal and
//! into the document.

use crate::stage::cargo;
use std::path::Path;
use std::process::Command;

/// Where the data goes: the file system of the build is the one that is measured.
const FOLDER: &str = "target/bench-data";

/// Runs the benchmark with `words` handed on: `ledger` and its options.
///
/// # Errors
/// What cannot be built, or the benchmark's own failure.
pub(crate) fn run(top: &Path, words: &[&str]) -> Result<(), String> {
    step(&mut cargo(top, &["build", "--locked", "--release", "--package", "ostler"]))?;
    // The program has a workspace of its own; it is measured with the product's dependencies as they are locked.
    let lock = top.join("tools/bench/sqlite/Cargo.lock");
    std::fs::copy(top.join("Cargo.lock"), lock).map_err(|error| format!("cannot copy Cargo.lock: {error}"))?;
    let manifest = "tools/bench/sqlite/Cargo.toml";
    let build = ["build", "--release", "--manifest-path", manifest, "--target-dir", "target"];
    step(&mut cargo(top, &build))?;
    let mut command = Command::new(top.join("target/release/ostler-bench"));
    command.current_dir(top).args(words);
    let folder = top.join(FOLDER);
    step(
        command
            .arg("--program")
            .arg(top.join("target/release/ostler"))
            .arg("--folder")
            .arg(folder)
            .args(["--document", "docs/LEDGER.md"]),
    )
}

fn step(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("cannot run {program}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("failed: {program}: {status}")) }
}
