//! The host as a process of its own: gate, life lock, exit record, output, endpoint.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod bed;

/// What the command gets, and starts that fail.
mod start;

/// Exit codes, signals, stops, and what is left of an episode.
mod end;

/// Evidence after crashes, and what is done about it.
mod crash;

/// Output and input, whole or with honest gaps.
mod output;

/// Messages for the command, and what is known of them after a crash.
mod delivery;

/// Session turns, and signals for one of them.
mod turns;

/// A disk without room.
mod disk;

/// The broker's connection, and the transcripts of the host wire.
mod wire;
