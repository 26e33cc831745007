//! The bytes of a segment as lines.
//!
//! Promises: every byte belongs to exactly one line; trailing LF fill is no content.

use std::io;

use super::Repaired;
use super::hole::Place;
use crate::segment::in_ledger;
use crate::storage::{Access, Storage, read_from};

/// A segment as it was read.
#[derive(Debug, Default)]
pub(crate) struct Segment {
    /// What its name promises.
    pub(crate) first_seq: u64,
    /// The offset of `bytes` in the file: the end of a line, or 0.
    pub(crate) from: u64,
    pub(crate) bytes: Vec<u8>,
    /// The beginning of the segment after it, with its first line; empty if there is none.
    pub(crate) next: Vec<u8>,
}

impl Segment {
    /// Makes segment `index` what a repair will make of it. `false` if nothing is left of it.
    pub(crate) fn repair(&mut self, index: usize, repaired: Repaired<'_>) -> bool {
        let Repaired { end, rotates, turn, .. } = repaired;
        let start_of = |segment| Place { segment, offset: 0 };
        if start_of(index) >= end {
            return false;
        }
        let last = start_of(index + 1) >= end;
        if last {
            self.next.clear();
        }
        if index == end.segment {
            let left = usize::try_from(end.offset.saturating_sub(self.from));
            self.bytes.truncate(left.unwrap_or(usize::MAX));
        }
        match last {
            true if rotates => self.next.extend_from_slice(turn),
            true => self.bytes.extend_from_slice(turn),
            false => {}
        }
        true
    }
}

/// What follows a line.
#[derive(Clone, Copy)]
pub(crate) struct Rest<'a> {
    pub(crate) here: &'a [u8],
    pub(crate) next: &'a [u8],
}

impl<'a> Rest<'a> {
    /// The lines of this segment, then the first of the next.
    pub(crate) fn lines(self) -> impl Iterator<Item = Line<'a>> {
        Lines::new(self.here, 0).chain(Lines::new(self.next, 0).take(1))
    }
}

/// A line in its segment.
pub(crate) struct Line<'a> {
    /// Without LF.
    pub(crate) bytes: &'a [u8],
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Line<'_> {
    /// Whether its line feed is there.
    pub(crate) fn is_whole(&self) -> bool {
        self.end - self.start > self.bytes.len()
    }
}

/// The length without trailing LF fill: up to and with the LF of the last line.
pub(crate) fn content_len(bytes: &[u8]) -> usize {
    match bytes.iter().rposition(|byte| *byte != b'\n') {
        None => 0,
        Some(last) => bytes.len().min(last + 2),
    }
}

/// What stands in a segment's file, without trailing LF fill.
pub(crate) fn read_content<S: Storage>(storage: &S, file: &str) -> io::Result<Vec<u8>> {
    let opened = storage.open(in_ledger(file), Access::Read)?;
    let mut bytes = read_from(storage, &opened, 0)?;
    bytes.truncate(content_len(&bytes));
    Ok(bytes)
}

/// The lines of some bytes, from an offset on.
pub(crate) struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Lines<'a> {
        Lines { bytes, at }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        let start = self.at;
        let rest = &self.bytes[start..];
        if rest.is_empty() {
            return None;
        }
        let len = memchr::memchr(b'\n', rest);
        let (len, end) = len.map_or((rest.len(), self.bytes.len()), |len| (len, start + len + 1));
        self.at = end;
        Some(Line { bytes: &rest[..len], start, end })
    }
}

pub(crate) fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}
