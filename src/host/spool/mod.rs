//! An episode's output on disk: one bounded spool for both streams, in the order in which the host read them.
//!
//! Positions are byte offsets in the episode's output, both streams together, and never go back. The spool is a folder
//! of segments, each named by the position of its first byte; the oldest are unlinked whole, which costs nothing, and a
//! reader that has one open can still finish it. Where bytes were lost (a full disk) the next segment starts at a later
//! position, so every gap shows by itself. Nothing is synced: output that a machine crash takes was never acknowledged.

/// How a piece of output is stored and sent.
pub mod frame;
/// Reading segments, live or afterwards.
pub mod reader;
/// Writing them.
pub mod writer;

/// Most bytes that a spool keeps (contract section 4).
pub const SPOOL_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Bytes after which a segment is full.
pub const SEGMENT_BYTES_MAX: u64 = 1024 * 1024;
/// Most segments; they are many only where a disk filled again and again.
pub const SEGMENTS_MAX: usize = 64;

const _: () = assert!(SPOOL_BYTES_MAX >= 4 * SEGMENT_BYTES_MAX, "a follower needs room to lag in");

/// A segment's file name: its first position, so that names sort as positions do.
fn segment_name(start: u64) -> String {
    format!("{start:020}")
}

/// The first position of a segment by its file name.
fn segment_start(name: &std::ffi::OsStr) -> Option<u64> {
    let name = name.to_str()?;
    if name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit()) { name.parse().ok() } else { None }
}
