//! Reading without the writer lock, also while a broker writes: whole turns only, and no judgement on a moving end.

use std::collections::VecDeque;
use std::io;

use crate::digest::Position;
use crate::record::Record;
use crate::recovery::lines::Segment;
use crate::recovery::settled::{Held, Settled};
use crate::recovery::walk::Walk;
use crate::recovery::{read_segment, segment_names};
use crate::storage::Storage;

/// The ledger cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The storage.
    #[error("the ledger cannot be read: {0}")]
    Io(#[from] io::Error),
    /// A later version wrote here.
    #[error("{segment}: format version {version} was written by a later program")]
    TooNew {
        /// The segment's file name.
        segment: String,
        /// The version found.
        version: u64,
    },
}

/// The records of a ledger in order, whole turns only, holes skipped. One segment is held at a time.
#[derive(Debug)]
pub struct Records<'a, S: Storage> {
    storage: &'a S,
    walk: Walk,
    segments: Option<Vec<(String, u64)>>,
    index: usize,
    segment: Segment,
    half_turns: bool,
    /// Records of that segment, and what settled with them, that were not handed out yet: a record is made when it is asked
    /// for, so that there is only one at a time.
    queue: VecDeque<(Position, Held)>,
}

impl<'a, S: Storage> Records<'a, S> {
    /// From the first record on.
    pub fn new(storage: &'a S) -> Records<'a, S> {
        Records::judging(storage, false)
    }

    /// With the planted bug, if asked for: half a turn at the end is taken for a turn.
    pub(crate) fn judging(storage: &'a S, half_turns: bool) -> Records<'a, S> {
        let (walk, segment, queue) = (Walk::new(), Segment::default(), VecDeque::new());
        Records { storage, walk, segments: None, index: 0, segment, half_turns, queue }
    }

    /// Reads the next segment into the queue; `false` at the end.
    fn fill(&mut self) -> Result<bool, ReadError> {
        let segments = match &self.segments {
            Some(segments) => segments,
            None => self.segments.insert(segment_names(self.storage)?),
        };
        let Some((file, _first_seq)) = segments.get(self.index).cloned() else {
            if self.half_turns {
                self.walk.settle_half_turn(&mut |settled| self.queue.push_back((settled.position, settled.held(&[]))));
            }
            return Ok(!self.queue.is_empty());
        };
        match read_segment(self.storage, segments, self.index, 0, &mut self.segment) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.skip_retired()? => return Ok(true),
            read => read?,
        }
        let (queue, bytes) = (&mut self.queue, &self.segment.bytes);
        self.walk.segment(self.index, &self.segment, &mut |settled| {
            queue.push_back((settled.position, settled.held(bytes)));
        });
        self.index += 1;
        match self.walk.newer {
            Some((_place, version)) => Err(ReadError::TooNew { segment: file, version }),
            None => Ok(true),
        }
    }

    /// Leaves out segments that were retired since their names were read; whether there are such.
    fn skip_retired(&mut self) -> io::Result<bool> {
        let Some(segments) = &mut self.segments else { return Ok(false) };
        let here = segment_names(self.storage)?;
        let before = segments.len();
        let behind = segments.split_off(self.index);
        segments.extend(behind.into_iter().filter(|named| here.contains(named)));
        Ok(segments.len() < before)
    }
}

impl<S: Storage> Iterator for Records<'_, S> {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((position, held)) = self.queue.pop_front() {
                return Some(Ok(Settled::at(position, held.bytes(&self.segment.bytes)).record()));
            }
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.segments = Some(Vec::new());
                    return Some(Err(error));
                }
            }
        }
    }
}
