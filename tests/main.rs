//! The one test binary of the root crate. Each folder below is one kind of test; `tests/support` is what all of them stand on.
//!
//! Every file in here is reached by a `mod` line (`cargo xtask tidy` checks it), so no test lies there unrun.
#![expect(clippy::print_stderr, reason = "a failing test says what it left behind")]

mod support;

/// Laws 1 to 12 of docs/ARCHITECTURE.md, each under its number.
mod laws;

/// The pure machine with simulated storage, hosts and clients; a seed is the whole run.
mod sim;

/// The host process and its endpoint.
mod host;

/// Brokers as processes: start, lock, recovery, fences, shutdown.
mod broker;

/// The command line: documents, exit codes, bad input.
mod cli;

/// Programs of everyday life as sessions.
mod programs;

/// Messages to sessions, from the sender to the program.
mod mail;

/// Everyday work under fire, for seconds and for an hour.
mod soak;

/// Kills at every named point.
mod kill;

/// Failures that people reported of programs like this one, each under its id.
mod field;
