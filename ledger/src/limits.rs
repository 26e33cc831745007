//! Every bound of the ledger, each named once. They bound what is written and, with that, what recovery has to believe.

/// A line, LF included, is at most this long. What is larger goes beside the ledger, by digest.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// Nesting of objects and arrays in a line; the line's own object is the first level, R the second.
pub const DEPTH_MAX: usize = 16;

/// Integers stay exactly representable in every JSON reader: below 2^53 in either direction.
pub const INTEGER_MAX: u64 = (1 << 53) - 1;

/// A ledger that ends beyond this is not opened for writing: what remains is for a process that has it open.
pub const SEQ_LAST: u64 = INTEGER_MAX - (1 << 32);

/// The lines of one turn together. The caller splits what is larger into several turns, each appended and synced.
pub const BATCH_BYTES_MAX: usize = 256 * 1024;

/// The most that can be written and not yet synced: a batch, and the `segment` and `seal` records before it. A tail that is
/// longer than this was not made by a crash.
pub const TAIL_BYTES_MAX: u64 = 320 * 1024;

/// A segment that has reached this size is followed by a new one.
pub const SEGMENT_BYTES: u64 = 8 * 1024 * 1024;

/// Tails that were never acknowledged, kept in the quarantine folder: the oldest age out.
pub const QUARANTINE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A snapshot is due once this many bytes of ledger lie behind the last one; so a smaller ledger is verified from its
/// first record at each opening.
pub const SNAPSHOT_TAIL_BYTES: u64 = 1024 * 1024;

/// Snapshots that are kept: the newest, and one to fall back on.
pub const SNAPSHOTS_KEPT: usize = 2;

/// A snapshot file is at most this long. A longer one is not read.
pub const SNAPSHOT_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// A proof is at most this long as a document. A full segment with every quote escaped has a quarter of it, and each sealed
/// segment between record and head adds about 600 bytes.
pub const PROOF_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The length of a type name.
pub const TYPE_BYTES_MAX: usize = 32;

/// The length of a session id.
pub const SESSION_ID_BYTES_MAX: usize = 64;

/// The version that this crate writes, and the newest that it reads.
pub const VERSION: u64 = 1;

/// No line of a valid ledger is shorter: the frame, and an R with only the members that every record has.
pub const LINE_BYTES_MIN: u64 = 150;
