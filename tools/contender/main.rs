//! The stand-in for brokers and clients in tests of what decides between them: lock, report pipe, discovery, watch,
//! find-or-start. A contender knows no sessions, and misbehaves on request.
//!
//! ```text
//! contender broker --root ROOT        a broker without sessions; see `Order` for what can be ordered of it
//! contender ensure ROOT               finds or starts one (itself), prints the report
//! contender bridge ROOT               `ostler connect` with a contender as broker
//! contender lock ROOT ROUNDS WITNESS  takes and leaves the lock; exits 3 if it ever meets another owner
//! ```
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its output is what tests read")]

mod broker;
mod lock;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ostler::client::{ClientOptions, EnsureReport, Program, bridge, ensure};
use ostler::os::deadline::Deadline;
use ostler::rpc::error::WireError;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    match words.as_slice() {
        ["broker", "--root", root] => broker::run(&PathBuf::from(root)),
        ["ensure", root] => print(ensure(options(root, Deadline::after(Duration::from_secs(60))))),
        ["bridge", root] => {
            let done =
                bridge::bridge(options(root, Deadline::after(Duration::MAX)), std::io::stdin(), std::io::stdout());
            match done {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => fail(&error),
            }
        }
        ["lock", root, rounds, witness] => lock::run(&PathBuf::from(root), rounds, &PathBuf::from(witness)),
        _ => {
            eprintln!("contender: what is {words:?}?");
            ExitCode::from(2)
        }
    }
}

fn options(root: &str, deadline: Deadline) -> ClientOptions {
    let program = Program::Own;
    ClientOptions { program, ensure_within: Duration::from_secs(60), ..ClientOptions::new(root.into(), deadline) }
}

fn print(report: Result<EnsureReport, WireError>) -> ExitCode {
    match report {
        Ok(EnsureReport { started, broker }) => {
            println!("{}", serde_json::json!({"started": started, "broker": broker}));
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    }
}

fn fail(error: &WireError) -> ExitCode {
    println!("{}", serde_json::json!({ "error": error }));
    ExitCode::from(1)
}
