//! The machine's bounds, in one place (law 9). Each is a number a user can meet, so each has a unit and an error.

use serde::{Deserialize, Serialize};

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
/// Most children of one session with a process at one time. Beyond: `capacity`, reason `spawn_limit` (requirement R68).
pub const LIVE_CHILDREN: usize = 64;
/// Deepest place in a family tree; a session of the owner stands at 1. Beyond: `capacity`, reason `depth_limit` (requirement R68).
pub const FAMILY_DEPTH: u32 = 8;
/// Longest stop grace, in milliseconds. Beyond: `invalid_input`.
pub const STOP_GRACE_MS_MAX: u64 = 120_000;
/// Longest reason of a stop, in bytes. Beyond: `invalid_input`.
pub const STOP_REASON_BYTES: usize = 256;
/// After a stop's grace has passed, how long the host may take to prove the end, in milliseconds.
pub const STOP_PROOF_MS: u64 = 10_000;
/// A start that has not opened its gate by then is given up when it is found after a restart, in milliseconds.
pub const START_WITHIN_MS: u64 = 30_000;
/// Longest time that a session may have to become ready, in milliseconds: an hour. Beyond: `invalid_input`.
pub const READY_WITHIN_MS_MAX: u64 = 3_600_000;
/// And the shortest.
pub const READY_WITHIN_MS_MIN: u64 = 1;
/// So long one has to end by itself that did not become ready, in milliseconds.
pub const UNREADY_GRACE_MS: u64 = 10_000;
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
/// A settled key is known this long at least, in microseconds: 7 days (ledger rule 3). A UUIDv7 key that is older and not
/// known is refused as `key_expired`.
pub const KEY_WINDOW_US: u64 = 7 * 24 * 3_600 * 1_000_000;
/// And so many of the last settled keys are known at least, however old they are.
pub const KEYS_SETTLED: u64 = 100_000;
/// Most free-form keys that are known at one time. Beyond: a new one is refused as `capacity`; a UUIDv7 key is taken.
pub const KEYS_FREE_FORM: usize = 100_000;
/// A UUIDv7 key that claims to be made more than this after the broker's clock, in microseconds, counts as free-form.
pub const KEY_AHEAD_US: u64 = 24 * 3_600 * 1_000_000;
/// Most operations that are known, in full or as footprints (at most 32 bytes each). Beyond: what starts something is refused as
/// `capacity`.
pub const OPERATIONS_KNOWN: usize = 8_000_000;
/// So many more may stop, delete, prune and resolve.
pub const OPERATIONS_IN_RESERVE: usize = 1_000_000;
/// Most operations that are kept in full before what starts something is refused as `capacity`: only those that are not
/// settled can be so many.
pub const OPERATIONS_IN_FULL: usize = 100_000;
/// The latest operations that are kept in full: what a list shows of those that are settled.
pub const OPERATIONS_RECENT: usize = 250;
/// The latest operations of one session that are kept in full.
pub const OPERATIONS_OF_SESSION: usize = 4;
/// Footprints that are forgotten together: a power of two.
pub const FOOTPRINTS_IN_BATCH: usize = 16_384;
/// Most operations that wait for one session's start, end or removal. Beyond: `session_busy`.
pub const WAITING_OPERATIONS: usize = 64;

/// Most messages of one session to which something is still to come. Beyond: `queue_full`.
pub const QUEUE_MESSAGES: usize = 1_000;
/// Longest texts of them together, in bytes. Beyond: `queue_full`.
pub const QUEUE_BYTES: u64 = 16 * 1024 * 1024;
/// So long a session turn may take to end once a message interrupts it, in milliseconds, counted from that message (requirement R28).
pub const INTERRUPT_WITHIN_MS: u64 = 30_000;
/// And so long its command then has to end by itself, in milliseconds.
pub const INTERRUPT_GRACE_MS: u64 = 10_000;
/// How often a message goes back to the queue because it was not taken, before it has failed.
pub const REDELIVERIES: u32 = 3;
/// A receipt is kept so long after the message's end, in microseconds: 7 days, as long as its key is known.
pub const RECEIPTS_US: u64 = 7 * 24 * 3_600 * 1_000_000;
/// Most receipts that are kept, of all sessions together; the oldest go first.
pub const RECEIPTS: usize = 50_000;
/// Messages that expire in one turn at the most; more in the next.
pub const EXPIRIES_PER_TICK: usize = 100;
/// A message that expires is looked after this often at least, in milliseconds, because wall clocks are set.
pub const EXPIRY_LOOK_MS: u64 = 30_000;
/// Messages that one call acknowledges, or pulls, at the most. Beyond: `invalid_input`.
pub const MESSAGES_AT_ONCE: usize = 100;

/// Notices that wait for one session at the most, beside its messages; of what comes then it is not told.
pub const NOTICES: usize = 1_000;
/// Messages that one notice names at the most; it says how many there are.
pub const NOTICE_MESSAGES: usize = 16;
/// Reports of one session that are kept; of more the oldest are forgotten.
pub const REPORTS: usize = 100;
/// Longest texts of them together, in bytes; of longer ones the oldest are forgotten, but never the last.
pub const REPORTS_BYTES: u64 = 16 * 1024 * 1024;

/// How much of what is settled is known, and how long. The product keeps what the constants above say; a test keeps
/// less, so that it gets there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// [`OPERATIONS_RECENT`].
    pub recent: usize,
    /// [`OPERATIONS_OF_SESSION`].
    pub of_session: usize,
    /// [`FOOTPRINTS_IN_BATCH`].
    pub batch: usize,
    /// [`KEY_WINDOW_US`].
    pub window_us: u64,
    /// [`KEYS_SETTLED`].
    pub settled: u64,
    /// [`KEYS_FREE_FORM`].
    pub free_form: usize,
    /// [`OPERATIONS_KNOWN`].
    pub known: usize,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            recent: OPERATIONS_RECENT,
            of_session: OPERATIONS_OF_SESSION,
            batch: FOOTPRINTS_IN_BATCH,
            window_us: KEY_WINDOW_US,
            settled: KEYS_SETTLED,
            free_form: KEYS_FREE_FORM,
            known: OPERATIONS_KNOWN,
        }
    }
}
