//! The host's bounds, in one place (law 9). All times in milliseconds of the clock that counts suspended time.

/// Readers at one time; more are refused. A broker always gets in.
pub(super) const READERS_MAX: usize = 64;
/// Connections that have not said hello; for one more the oldest of them is cut.
pub(super) const STRANGERS_MAX: usize = 16;
/// Time in which a connection says hello.
pub(super) const HELLO_WITHIN_MS: u64 = 5_000;
/// Answers and pushes that may wait for a slow peer, in bytes; beyond it the peer is cut off.
pub(super) const TO_SEND_BYTES_MAX: usize = 512 * 1024;
/// Requests of one connection that may wait for the delivery under way.
pub(super) const DELIVERY_WAITERS_MAX: usize = 16;
/// Most bytes of frames in one answer to `read`.
pub(super) const READ_BYTES_MAX: usize = 256 * 1024;
/// Between TERM and KILL where nobody said otherwise.
pub(super) const GRACE_MS: u64 = 10_000;
/// The longest grace that may be asked for.
pub(super) const GRACE_MS_MAX: u64 = 120_000;
/// How long the kernel gets to take down what was killed, before it counts as a survivor.
pub(super) const KILL_WITHIN_MS: u64 = 5_000;
/// How long peers get to take what is for them once the episode has ended.
pub(super) const FLUSH_WITHIN_MS: u64 = 2_000;
/// Bytes that are still read from each pipe once everything has ended.
pub(super) const DRAIN_BYTES_MAX: usize = 1024 * 1024;
/// How long a full spool waits for a follower that was announced and has not come.
pub(super) const FOLLOWER_WITHIN_MS: u64 = 30_000;
/// Between two tries to write output to a full disk, while a follower makes the command wait.
pub(super) const DISK_RETRY_MS: u64 = 200;
/// Least time between two beats.
pub(super) const BEAT_MS: u64 = 60_000;
/// First and longest pause between two looks at what is still to end.
pub(super) const CHECK_MS: (u64, u64) = (2, 200);
