//! Parse, run, exit code: all in `ostler::cli`.

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    ostler::cli::run(&arguments)
}
