//! Parse, run, exit code.
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match arguments.first().and_then(|command| command.to_str()) {
        Some("host") => ostler::host::server::run(&arguments[1..]).map_or(ExitCode::from(2), ExitCode::from),
        // `broker --root ROOT`, as a starting client says it.
        Some("broker") => match arguments.get(2) {
            Some(root) => ExitCode::from(ostler::broker::run::run(root.as_ref()).code()),
            None => ExitCode::from(2),
        },
        Some(_) | None => ExitCode::from(2),
    }
}
