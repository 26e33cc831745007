//! Whole brokers on real files and sockets.

/// Where contenders meet.
mod arena;
/// State roots that cannot serve, and left-overs.
mod bad_roots;
/// Calls over a connection that breaks, and the bridge.
mod calls;
/// More connections than descriptors.
mod crowd;
/// The example client of docs/PROTOCOL.md.
mod example;
/// Find-or-start.
mod find_or_start;
/// The broker lock among real processes.
mod lock_storm;
/// Many clients in the same instant.
mod stampede;
