//! The command line from outside: what it prints, what it exits with, what it does with bad input.

/// Several sessions at a time.
mod batch;
/// Layers, and what is wrong with them.
mod config;
/// What refusals tell to type next, and what tables show.
mod hints;
/// The ledger without a broker.
mod ledger;
/// From spawn to prune, as documents.
mod lifecycle;
/// Output, whole and in part.
mod logs;
/// Status, doctor and shutdown in every state of a broker.
mod looking;
/// Sessions in the foreground.
mod run;
/// Usage errors, help, and what is printed about the program itself.
mod usage;
