//! The machine's bounds, in one place (law 9). Each is a number a user can meet, so each has a unit and an error.

/// Longest idempotency key, in bytes. Beyond: `invalid_input`.
pub const KEY_BYTES: usize = 128;
/// Most labels of one session. Beyond: `invalid_input`.
pub const LABELS: usize = 32;
/// Longest label key, in bytes.
pub const LABEL_KEY_BYTES: usize = 63;
/// Longest label value, in bytes.
pub const LABEL_VALUE_BYTES: usize = 255;
/// Most sessions with a process at one time. Beyond: `capacity`.
pub const LIVE_SESSIONS: usize = 10_000;
/// Longest stop grace, in milliseconds. Beyond: `invalid_input`.
pub const STOP_GRACE_MS_MAX: u64 = 120_000;
/// After a stop's grace has passed, how long the host may take to prove the end, in milliseconds.
pub const STOP_PROOF_MS: u64 = 10_000;
/// A start that has not opened its gate by then is given up when it is found after a restart, in milliseconds.
pub const START_WITHIN_MS: u64 = 30_000;
/// Most sessions that one prune forgets; the answer says whether more are left.
pub const PRUNE_SESSIONS: usize = 200;
/// Ended sessions kept before the oldest are forgotten by themselves.
pub const ENDED_SESSIONS_KEPT: usize = 1_000;
/// Most sessions one beat record names, so that its line stays far below the ledger's 64 KiB.
pub const BEAT_SESSIONS: usize = 1_000;
/// Most sessions one beat input names, so that its records fit one append of the ledger.
pub const BEAT_INPUT: usize = 4_000;
/// Most survivors a stop names in its answer.
pub const SURVIVORS: usize = 32;
/// Longest free text that an observation may bring into the ledger, in bytes.
pub const REASON_BYTES: usize = 1_024;
/// Most operations that wait for one session's start, end or removal. Beyond: `session_busy`.
pub const WAITING_OPERATIONS: usize = 64;
