//! The shell around the pure core: the lock that makes a broker the broker, the one turn thread, and the doors.
//! The machine decides; this room asks, writes, starts, answers.

/// Events and records.
pub mod codec;
/// The turn's thread.
pub mod desk;
/// Publishing the discovery record.
pub mod discovery;
/// The broker lock as seen from outside.
pub mod holder;
/// The way into the turn.
pub mod inbox;
/// The broker lock.
pub mod lock;
/// The broker's log file.
pub mod log;
/// Which effect may leave now.
pub mod outbox;
/// The owner record in the lock.
pub mod owner;
/// Stale-lock quarantine.
pub mod quarantine;
/// The broker's end of the report pipe.
pub mod report;
/// The single writer.
pub mod turn;
#[cfg(test)]
mod turn_tests;
/// What readers see.
pub mod view;
/// The publication watch.
pub mod watch;
