//! Whole brokers on real files and sockets.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

/// Where contenders meet.
mod arena;
/// State roots that cannot serve, and left-overs.
mod bad_roots;
/// The beat before the publication.
mod beat;
/// Calls over a connection that breaks, and the bridge.
mod calls;
/// What a session may do.
mod credentials;
/// More connections than descriptors.
mod crowd;
/// Where lists go on.
mod cursors;
/// What subscribers are told.
mod events;
/// The example client of docs/PROTOCOL.md.
mod example;
/// Starts that have not happened.
mod failed_spawn;
/// Find-or-start.
mod families;
mod find_or_start;
/// What an idle broker does.
mod idle;
/// What keeps a broker, and what it leaves for.
mod idle_exit;
/// An orderly end.
mod leaving;
/// What the dead left.
mod leftovers;
/// The broker lock among real processes.
mod lock_storm;
/// Files of the ledger that go while it is written to.
mod lost_files;
/// Under a service manager.
mod managed;
/// To be found, and to be fenced.
mod publication;
/// Requests that meet.
mod races;
/// What is told to nobody.
mod secrets;
/// Many clients in the same instant.
mod stampede;
/// Starts that fail or die.
mod starts;
/// One who is told of events.
pub(crate) mod subscriber;
/// One broker in place of another.
mod upgrade;
/// Programs of several versions at one root.
mod versions;
