//! The shell around the pure core: the lock that makes a broker the broker, the one turn thread, and the doors.

/// Publishing the discovery record.
pub mod discovery;
/// The broker lock as seen from outside.
pub mod holder;
/// The broker lock.
pub mod lock;
/// The broker's log file.
pub mod log;
/// The owner record in the lock.
pub mod owner;
/// Stale-lock quarantine.
pub mod quarantine;
/// The broker's end of the report pipe.
pub mod report;
/// The publication watch.
pub mod watch;
