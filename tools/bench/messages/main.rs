//! `ostler-messages`, the program of `cargo xtask bench messages`. It needs nothing but the benchmark's library.

#![expect(clippy::print_stderr, reason = "a tool for people")]

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match ostler_bench::messages::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
