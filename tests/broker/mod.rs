//! Whole brokers on real files and sockets.

/// Where contenders meet.
mod arena;
/// Calls over a connection that breaks, and the bridge.
mod calls;
/// The example client of docs/PROTOCOL.md.
mod example;
/// Find-or-start.
mod find_or_start;
/// The broker lock among real processes.
mod lock_storm;
