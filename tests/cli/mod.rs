//! The command line from outside: what it prints, what it exits with, what it does with bad input.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

/// How messages are to reach a session.
mod adapters;
/// Several sessions at a time.
mod batch;
/// Layers, and what is wrong with them.
mod config;
/// One operation's story.
mod explain;
/// Copies of sessions.
mod forks;
/// Processes that are stopped.
mod frozen;
/// What refusals tell to type next, and what tables show.
mod hints;
/// Keys that are old, and outcomes that are no longer in memory.
mod keys;
/// The ledger without a broker.
mod ledger;
/// Which files its commands write to and read from.
mod ledger_files;
mod ledger_trust;
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

/// Ledgers that were spoilt.
mod bad_ledgers;
/// Bytes in, the same bytes out, up to every limit.
mod bytes;
/// Doctor: doubts, and its repairs.
mod doctor;
/// Every good path against the shapes of the contract.
mod documents;
/// What a session gets from who asked for it.
mod environment;
/// No room at any write.
mod full_disk;
/// Heads and digests as proofs, without the broker.
mod receipts;
/// Bad input: the error, and that nothing is lost by it.
pub(crate) mod refused;
/// The beginning of the ledger leaves it.
mod retirement;
/// Roots that cannot serve.
mod roots;
/// The schema, and documents under it.
mod schema;
/// The notation of the contract's documents.
pub(crate) mod shape;
/// Starts from a snapshot.
mod snapshots;
/// Configuration, completions, manual page, doctor.
mod tools;
/// Lists that go on.
mod watched;
/// Hostile and clumsy clients at the socket.
pub(crate) mod wire;

/// A text in a document.
#[track_caller]
fn text(value: &serde_json::Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}
