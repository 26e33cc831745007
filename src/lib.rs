//! ostler, a session broker for one machine. This file is the map of the crate.
#![cfg_attr(not(test), warn(missing_docs))]

/// The broker: the lock, the turn, the doors.
pub mod broker;
/// The command line.
pub mod cli;
/// The client: finds or starts the broker and calls it.
pub mod client;
/// The host: the small process that owns one run of a session, and how it is started and judged.
pub mod host;
/// The pure core: no clock, file, process, thread, randomness, environment or async (law 2).
pub mod machine;
/// The one door to the system.
pub mod os;
/// The broker's protocol: documents, errors, frames, connections.
pub mod rpc;
