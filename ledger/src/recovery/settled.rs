//! Records on their way from the walk to whoever takes them: verified, and still where they were read.

use std::cell::RefCell;
use std::ops::Range;

use crate::digest::Position;
use crate::record::{Record, r_of};
use crate::slice::{Sliced, slice};

/// Where the bytes of an admitted line are.
#[derive(Debug)]
pub(crate) enum Held {
    /// In the segment that is being walked.
    Here(Range<usize>),
    /// In a copy: that segment is behind us.
    Copied(Box<[u8]>),
}

impl Held {
    pub(crate) fn bytes<'a>(&'a self, segment: &'a [u8]) -> &'a [u8] {
        match self {
            Held::Here(range) => &segment[range.clone()],
            Held::Copied(bytes) => bytes,
        }
    }

    /// Makes it outlive its segment.
    pub(crate) fn copy(&mut self, segment: &[u8]) {
        *self = Held::Copied(self.bytes(segment).into());
    }
}

/// A record as the walk hands it on: verified, and still where it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled<'a> {
    pub(crate) position: Position,
    line: &'a [u8],
    /// A copy of its own, if one was made when its line was cut: for the first who asks.
    made: Option<&'a RefCell<Option<Box<Record>>>>,
}

impl<'a> Settled<'a> {
    /// Of a line that was judged sound.
    pub(crate) fn at(position: Position, line: &'a [u8]) -> Settled<'a> {
        Settled { position, line, made: None }
    }

    /// With a copy that was made before.
    pub(crate) fn made(self, made: &'a RefCell<Option<Box<Record>>>) -> Settled<'a> {
        Settled { made: Some(made), ..self }
    }

    /// The record's type: R ends in `"t":"TYPE","v":1}`, and the line in one brace more.
    pub(crate) fn t(&self) -> &'a str {
        let named = &self.line[..self.line.len() - TYPE_TAIL.len()];
        let quote = memchr::memrchr(b'"', named).map_or(0, |quote| quote + 1);
        std::str::from_utf8(&named[quote..]).unwrap_or_default()
    }

    /// Its members, cut once more.
    pub(crate) fn sliced(&self) -> Sliced<'a> {
        slice(self.position.digest, r_of(self.line)).expect("the line was judged sound")
    }

    /// The length of its line, LF included.
    pub(crate) fn bytes(&self) -> u64 {
        u64::try_from(self.line.len() + 1).expect("a length fits 64 bits")
    }

    /// Where its line is, for later: in the segment that is being walked, or copied if it stands elsewhere.
    pub(crate) fn held(&self, segment: &[u8]) -> Held {
        let start = self.line.as_ptr().addr().wrapping_sub(segment.as_ptr().addr());
        match segment.get(start..start.saturating_add(self.line.len())) {
            Some(here) if here.as_ptr() == self.line.as_ptr() => Held::Here(start..start + self.line.len()),
            Some(_) | None => Held::Copied(self.line.into()),
        }
    }

    /// A copy of its own.
    pub(crate) fn record(&self) -> Record {
        let made = self.made.and_then(RefCell::take);
        made.map_or_else(|| Record::of(&self.sliced()), |made| *made)
    }
}

const TYPE_TAIL: &[u8] = b"\",\"v\":1}}";
