//! The host: the small process that owns one episode. It is parent of the command, owner of its pipes and keeper of its
//! exit status, so that a live session outlives every broker (law 11).
//!
//! ```text
//! client  what a broker does with hosts: prepare folders, start, judge evidence, dial, end what is left
//! read    output for readers, live through the endpoint and afterwards from the files
//! spec    what to run            wire    what host and broker say to each other, host.json, exit.json
//! server  the process itself     spool   its output on disk      marker  finding an episode's processes
//! journal messages for its input, on disk        prompt  where a session turn ends
//! ```

/// What kept a command from coming up.
pub mod cause;
/// What a broker does with hosts.
pub mod client;
/// Names and durable writes of an episode's files.
pub mod files;
/// The endpoint incarnation.
pub mod incarnation;
/// What became of messages, on disk.
pub mod journal;
/// Looks that many share.
mod look;
/// Finds an episode's processes.
pub mod marker;
/// Where a session turn ends.
pub mod prompt;
/// Output for readers.
pub mod read;
/// The process itself.
pub mod server;
/// When a program is ready, by its output.
pub mod sign;
/// What a session runs.
pub mod spec;
/// The command's output on disk.
pub mod spool;
/// Documents and messages of host and broker.
pub mod wire;
/// The forms that other versions rely on.
#[cfg(test)]
mod wire_tests;
