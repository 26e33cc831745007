//! One record by its sequence number, at bounded cost and without an index: the segments' names tell the file, and in
//! the file the lines are in order, so the place is found by halving.
//!
//! Promises: what is returned verifies and its turn happened; lines that do not verify are passed over, so damage costs
//! time and hides nothing but itself. It says nothing of the chain: `verify` does.

use std::io;
use std::ops::Range;

use crate::digest::Position;
use crate::limits::{LINE_BYTES_MAX, TAIL_BYTES_MAX};
use crate::reader::ReadError;
use crate::record::{Judged, Record, judge};
use crate::recovery::segment_names;
use crate::segment::in_ledger;
use crate::storage::{Access, Storage, read_part};

/// What is read first at a place: some lines of the usual length. What is read next is longer.
const READ_BYTES: usize = 4 * 1024;
/// When so little is left, its lines are read one after the other.
const SCAN_BYTES: u64 = 8 * 1024;

/// The record with this sequence number, for readers; none if the ledger has none, it does not verify, or its turn is
/// not whole. Reads about a dozen pages, however long the ledger is.
///
/// # Errors
/// [`ReadError::Io`]; [`ReadError::TooNew`] if a later version wrote the line.
pub fn record_at<S: Storage>(storage: &S, seq: u64) -> Result<Option<Record>, ReadError> {
    Ok(sought(storage, seq)?.map(|(_first_seq, record, _end)| record))
}

/// The record, the first sequence number of its segment, and the end of its line.
fn sought<S: Storage>(storage: &S, seq: u64) -> Result<Option<(u64, Record, u64)>, ReadError> {
    let names = segment_names(storage)?;
    let behind = names.partition_point(|(_file, first_seq)| *first_seq <= seq);
    let Some((file, first_seq)) = names[..behind].last() else { return Ok(None) };
    let opened = match storage.open(in_ledger(file), Access::Read) {
        // It went away since the names were read.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let segment = OpenSegment { storage, file: &opened, name: file, len: storage.len(&opened)? };
    let Some((record, end)) = segment.find(seq)? else { return Ok(None) };
    // A later segment begins only when all before it is synced.
    let happened = behind < names.len() || record.header.end || segment.turn_ends(end, seq)?;
    Ok(happened.then_some((*first_seq, record, end)))
}

/// Where reading on behind a record begins: its segment by the first sequence number, the end of its line, and its
/// position; none if [`record_at`] has none.
pub(crate) fn end_of<S: Storage>(storage: &S, seq: u64) -> Result<Option<(u64, u64, Position)>, ReadError> {
    Ok(sought(storage, seq)?.map(|(first_seq, record, end)| (first_seq, end, record.position())))
}

/// As [`record_at`] in the segment that has it, of a ledger that holds whole turns only.
pub(crate) fn record_in<S: Storage>(storage: &S, name: &str, seq: u64) -> Result<Option<Record>, ReadError> {
    let file = storage.open(in_ledger(name), Access::Read)?;
    let segment = OpenSegment { storage, file: &file, name, len: storage.len(&file)? };
    Ok(segment.find(seq)?.map(|(record, _end)| record))
}

struct OpenSegment<'a, S: Storage> {
    storage: &'a S,
    file: &'a S::File,
    name: &'a str,
    len: u64,
}

impl<S: Storage> OpenSegment<'_, S> {
    /// The record and the end of its line.
    fn find(&self, seq: u64) -> Result<Option<(Record, u64)>, ReadError> {
        // If it is here, its line starts at `low` or behind, and before `high`. At `low` a line starts.
        let (mut low, mut high) = (0, self.len);
        while high - low > SCAN_BYTES {
            let middle = low + (high - low) / 2;
            match self.first_from(middle, high)? {
                Some((start, record)) if record.header.seq <= seq => low = start,
                Some(_) | None => high = middle,
            }
        }
        let mut lines = self.lines(low);
        while let Some((start, end)) = lines.next()?
            && start < high
        {
            if let Some(record) = self.judged(lines.line())?
                && record.header.seq == seq
            {
                return Ok(Some((record, end)));
            }
        }
        Ok(None)
    }

    /// The first sound record whose line starts at `from` or behind, and before `to`, and where it starts.
    fn first_from(&self, from: u64, to: u64) -> Result<Option<(u64, Record)>, ReadError> {
        // What precedes the first line feed belongs to a line that starts before, unless it is the line feed's own.
        let mut lines = self.lines(from - 1);
        lines.next()?;
        while let Some((start, _end)) = lines.next()?
            && start < to
        {
            if let Some(record) = self.judged(lines.line())? {
                return Ok(Some((start, record)));
            }
        }
        Ok(None)
    }

    /// Whether the turn of the record that ends here happened: its last record follows, or a later one says that this
    /// one is synced.
    fn turn_ends(&self, from: u64, seq: u64) -> Result<bool, ReadError> {
        let (mut lines, mut gap) = (self.lines(from), false);
        while let Some((start, _end)) = lines.next()?
            && start < from + 2 * TAIL_BYTES_MAX
        {
            match self.judged(lines.line())? {
                Some(record) if record.header.dur >= seq || record.header.end && !gap => return Ok(true),
                Some(_) => {}
                None => gap = true,
            }
        }
        Ok(false)
    }

    fn lines(&self, from: u64) -> LinesFrom<'_, S> {
        LinesFrom {
            storage: self.storage,
            file: self.file,
            offset: from,
            buffer: Vec::new(),
            line: 0..0,
            used: 0,
            read: READ_BYTES,
        }
    }

    fn judged(&self, line: &[u8]) -> Result<Option<Record>, ReadError> {
        match judge(line) {
            Judged::Record(record) => Ok(Some(Record::of(&record))),
            Judged::Bad(_) => Ok(None),
            Judged::Newer(version) => Err(ReadError::TooNew { segment: self.name.to_owned(), version }),
        }
    }
}

/// The lines from an offset on, each with its line feed; what follows the last one is none.
struct LinesFrom<'a, S: Storage> {
    storage: &'a S,
    file: &'a S::File,
    /// Of the buffer in the file.
    offset: u64,
    buffer: Vec<u8>,
    line: Range<usize>,
    /// How much of the buffer lies behind us.
    used: usize,
    /// How much is read next.
    read: usize,
}

impl<S: Storage> LinesFrom<'_, S> {
    /// Moves to the next line: where it starts, and where the one after it does.
    fn next(&mut self) -> io::Result<Option<(u64, u64)>> {
        let mut searched = self.used;
        loop {
            if let Some(end) = self.buffer[searched..].iter().position(|byte| *byte == b'\n') {
                self.line = self.used..searched + end;
                self.used = self.line.end + 1;
                return Ok(Some((self.offset + wide(self.line.start), self.offset + wide(self.used))));
            }
            self.buffer.drain(..self.used);
            self.offset += wide(self.used);
            (self.used, searched) = (0, self.buffer.len());
            let more = read_part(self.storage, self.file, self.offset + wide(searched), self.read)?;
            if more.is_empty() {
                return Ok(None);
            }
            self.buffer.extend(more);
            self.read = (self.read * 4).min(LINE_BYTES_MAX);
        }
    }

    /// The line, without its line feed.
    fn line(&self) -> &[u8] {
        &self.buffer[self.line.clone()]
    }
}

fn wide(len: usize) -> u64 {
    u64::try_from(len).expect("a length fits 64 bits")
}
