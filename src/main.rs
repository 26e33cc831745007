//! Parse, run, exit code.
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|command| command == "host") {
        let rest: Vec<_> = arguments.collect();
        return ostler::host::server::run(&rest).map_or(ExitCode::from(2), ExitCode::from);
    }
    ExitCode::from(2)
}
