//! Records from a place in the middle on, without reading what lies before it, and further ones as they come.
//!
//! Promises: each record follows from the one before it, and turns are whole. Where what stands there does not follow
//! (damage, or a write in the moment of reading) the walk over all records decides, as it does for [`Records`].

use std::collections::VecDeque;
use std::io;

use crate::digest::Position;
use crate::lookup::end_of;
use crate::reader::{ReadError, Records};
use crate::record::{Judged, Record, judge};
use crate::recovery::lines::Lines;
use crate::recovery::segment_names;
use crate::segment::{file_name, in_ledger};
use crate::storage::{Access, Storage, read_part};

/// What is read at once. No turn is as long, with the records of the ledger's own before it.
const READ_BYTES: usize = 1024 * 1024;

/// The records behind one, in order. After `None` it can be asked again: more may have come.
#[derive(Debug)]
pub struct Onward<'a, S: Storage> {
    storage: &'a S,
    /// The last one that was handed on, or the one to begin behind.
    seq: u64,
    way: Way<'a, S>,
    queue: VecDeque<Record>,
}

#[derive(Debug)]
enum Way<'a, S: Storage> {
    /// Where the last record stands is to be found.
    Lost,
    /// Behind the last record: the segment by its first sequence number, the offset in it, and the record.
    Here(u64, u64, Position),
    /// From the first record on.
    Walking(Box<Records<'a, S>>),
    /// After an error.
    Failed,
}

/// What stands behind the last record.
enum Found {
    Records,
    Nothing,
    /// Something that does not follow from it.
    Astray,
}

impl<'a, S: Storage> Onward<'a, S> {
    /// Behind the record with this number; 0 is before the first.
    pub fn behind(storage: &'a S, seq: u64) -> Onward<'a, S> {
        Onward { storage, seq, way: Way::Lost, queue: VecDeque::new() }
    }

    fn walk(&mut self) {
        self.way = Way::Walking(Box::new(Records::new(self.storage)));
    }

    fn advance(&mut self) -> Result<Option<Record>, ReadError> {
        loop {
            if let Some(record) = self.queue.pop_front() {
                self.seq = record.header.seq;
                return Ok(Some(record));
            }
            match &mut self.way {
                Way::Failed => return Ok(None),
                Way::Lost => match end_of(self.storage, self.seq)? {
                    Some((segment, offset, last)) => self.way = Way::Here(segment, offset, last),
                    None => self.walk(),
                },
                Way::Here(..) => match self.read()? {
                    Found::Records => {}
                    Found::Nothing => return Ok(None),
                    Found::Astray => self.walk(),
                },
                Way::Walking(records) => {
                    let seq = self.seq;
                    match records.find(|found| found.as_ref().map_or(true, |found| found.header.seq > seq)) {
                        Some(found) => self.queue.push_back(found?),
                        None => {
                            self.way = Way::Lost;
                            return Ok(None);
                        }
                    }
                }
            }
        }
    }

    /// Reads the next whole turns into the queue.
    fn read(&mut self) -> Result<Found, ReadError> {
        let Way::Here(segment, offset, last) = &mut self.way else { return Ok(Found::Astray) };
        let name = file_name(*segment);
        let file = match self.storage.open(in_ledger(&name), Access::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Astray),
            file => file?,
        };
        let bytes = read_part(self.storage, &file, *offset, READ_BYTES)?;
        let (start, mut newest) = (*offset, *last);
        let mut turn = Vec::new();
        for line in Lines::new(&bytes, 0).filter(|line| !line.bytes.is_empty()) {
            let sliced = match judge(line.bytes) {
                Judged::Record(sliced) if line.is_whole() => sliced,
                Judged::Newer(version) if line.is_whole() => return Err(ReadError::TooNew { segment: name, version }),
                // A line that is being written is no reason to doubt what stands before it.
                Judged::Record(_) | Judged::Newer(_) | Judged::Bad(_) if !line.is_whole() => break,
                Judged::Record(_) | Judged::Newer(_) | Judged::Bad(_) => {
                    return Ok(if self.queue.is_empty() { Found::Astray } else { Found::Records });
                }
            };
            if sliced.seq != newest.seq + 1 || sliced.prev != Some(newest.digest) {
                return Ok(if self.queue.is_empty() { Found::Astray } else { Found::Records });
            }
            newest = sliced.position();
            turn.push(Record::of(&sliced));
            if sliced.end {
                self.queue.extend(turn.drain(..));
                *last = newest;
                *offset = start + u64::try_from(line.end).expect("a length fits 64 bits");
            }
        }
        if !self.queue.is_empty() {
            return Ok(Found::Records);
        }
        let (is_full, next) = (bytes.len() == READ_BYTES, last.seq + 1);
        let names = segment_names(self.storage)?;
        match names.iter().find(|(_file, first_seq)| *first_seq > *segment) {
            None if is_full => Ok(Found::Astray),
            None => Ok(Found::Nothing),
            Some((_file, first_seq)) if *first_seq == next && turn.is_empty() && !is_full => {
                (*segment, *offset) = (next, 0);
                Ok(Found::Records)
            }
            Some(_) => Ok(Found::Astray),
        }
    }
}

impl<S: Storage> Iterator for Onward<'_, S> {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.advance();
        if found.is_err() {
            self.way = Way::Failed;
        }
        found.transpose()
    }
}
