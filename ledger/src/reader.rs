//! Reading without the writer lock, also while a broker writes: whole turns only, and no judgement on a moving end.

use std::collections::VecDeque;
use std::io;

use crate::record::Record;
use crate::recovery::segment_names;
use crate::recovery::walk::Walk;
use crate::segment::in_ledger;
use crate::storage::{Access, Storage, read_from};

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
    segments: Option<VecDeque<(String, u64)>>,
    index: usize,
    queue: VecDeque<Record>,
}

impl<'a, S: Storage> Records<'a, S> {
    /// From the first record on.
    pub fn new(storage: &'a S) -> Records<'a, S> {
        Records { storage, walk: Walk::new(), segments: None, index: 0, queue: VecDeque::new() }
    }

    /// Reads the next segment into the queue; `false` at the end.
    fn fill(&mut self) -> Result<bool, ReadError> {
        let segments = match &mut self.segments {
            Some(segments) => segments,
            None => self.segments.insert(segment_names(self.storage)?.into()),
        };
        let Some((segment, first_seq)) = segments.pop_front() else { return Ok(false) };
        let file = self.storage.open(in_ledger(&segment), Access::Read)?;
        let bytes = read_from(self.storage, &file, 0)?;
        let queue = &mut self.queue;
        self.walk.segment(self.index, first_seq, &bytes, &mut |record| queue.push_back(record));
        self.index += 1;
        match self.walk.newer {
            Some((_place, version)) => Err(ReadError::TooNew { segment, version }),
            None => Ok(true),
        }
    }
}

impl<S: Storage> Iterator for Records<'_, S> {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.queue.pop_front() {
                return Some(Ok(record));
            }
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.segments = Some(VecDeque::new());
                    return Some(Err(error));
                }
            }
        }
    }
}
