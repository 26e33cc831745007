//! Records as subscribers read them: a page at a time, from a position on, out of the ledger itself. What was read is kept for a while, so that
//! many who follow the head read it once.
//!
//! Promises: a page has no hole in it, and only records that are durable; where one is missing, that is told and not stepped over. Whoever is
//! slow costs nothing while he is; one page is read at a time, whoever asks.

use crate::rpc::convert::storage_code;
use crate::rpc::error::{ErrorCode, Retry, WireError};
use ostler_ledger::storage::Disk;
use ostler_ledger::{Onward, ReadError, Record, Records};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;

/// A page ends with the record that reaches so many bytes.
const PAGE_BYTES: usize = 64 * 1024;
/// So much is read at once, and kept of one stretch.
const STRETCH_BYTES: usize = 1024 * 1024;
/// Stretches that are kept: the head's, and some of those who are behind.
const STRETCHES: usize = 4;

/// The ledger, for those who follow it.
#[derive(Debug)]
pub(super) struct Feed {
    folder: PathBuf,
    /// The one that was read last is the last.
    kept: Mutex<VecDeque<Stretch>>,
    reading: Semaphore,
}

/// Records without a hole between them.
#[derive(Debug, Default)]
struct Stretch {
    first: u64,
    bytes: usize,
    records: VecDeque<Arc<Record>>,
}

impl Stretch {
    /// The record that comes next.
    fn next(&self) -> u64 {
        self.first + u64::try_from(self.records.len()).unwrap_or(u64::MAX)
    }

    /// The page behind a position, if it begins in here.
    fn behind(&self, seq: u64) -> Option<Vec<Arc<Record>>> {
        let begin = usize::try_from((seq + 1).checked_sub(self.first)?).ok()?;
        let mut bytes = 0;
        let fits = |record: &&Arc<Record>| {
            let before = bytes;
            bytes += record.raw().len();
            before < PAGE_BYTES
        };
        let page: Vec<_> = self.records.iter().skip(begin).take_while(fits).cloned().collect();
        (!page.is_empty()).then_some(page)
    }

    /// Adds what comes next, and lets go of what is old.
    fn extend(&mut self, records: Vec<Record>) {
        let from = self.next();
        self.bytes += records.iter().map(|record| record.raw().len()).sum::<usize>();
        self.records.extend(records.into_iter().map(Arc::new));
        while self.bytes > STRETCH_BYTES && self.first < from {
            let old = self.records.pop_front();
            self.bytes -= old.map_or(0, |record| record.raw().len());
            self.first += 1;
        }
    }
}

impl Feed {
    /// Of the ledger in this folder.
    pub(super) fn new(folder: PathBuf) -> Feed {
        Feed { folder, kept: Mutex::default(), reading: Semaphore::new(1) }
    }

    /// The records behind a position that lies before `head`, which is durable: one at least.
    ///
    /// # Errors
    /// `expired_cursor` if the next one was retired, `integrity` if it cannot be read, or what keeps the ledger from being read.
    pub(super) async fn behind(&self, seq: u64, head: u64) -> Result<Vec<Arc<Record>>, WireError> {
        if let Some(page) = self.find(seq) {
            return Ok(page);
        }
        // It is never closed.
        let _one = self.reading.acquire().await;
        // Another may have read it meanwhile.
        if let Some(page) = self.find(seq) {
            return Ok(page);
        }
        let folder = self.folder.clone();
        let read = tokio::task::spawn_blocking(move || read(&folder, seq, head)).await;
        let records = read.map_err(|error| WireError::new(ErrorCode::Internal, error.to_string()))??;
        Ok(self.keep(seq, records))
    }

    /// Lets go of all that is kept.
    pub(super) fn forget(&self) {
        self.kept().clear();
    }

    fn find(&self, seq: u64) -> Option<Vec<Arc<Record>>> {
        self.kept().iter().rev().find_map(|stretch| stretch.behind(seq))
    }

    fn keep(&self, seq: u64, records: Vec<Record>) -> Vec<Arc<Record>> {
        let mut kept = self.kept();
        let goes_on = kept.iter().position(|stretch| stretch.next() == seq + 1);
        let before = goes_on.and_then(|at| kept.remove(at));
        let mut stretch = before.unwrap_or(Stretch { first: seq + 1, ..Stretch::default() });
        stretch.extend(records);
        let page = stretch.behind(seq).unwrap_or_default();
        kept.push_back(stretch);
        if kept.len() > STRETCHES {
            kept.pop_front();
        }
        page
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Stretch>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads on behind a position, up to the head at most.
fn read(folder: &Path, seq: u64, head: u64) -> Result<Vec<Record>, WireError> {
    let ledger = Disk::reading(folder);
    let mut found = read_once(&ledger, seq, head)?;
    if found.is_err() {
        // A segment that went away in the moment of reading looks like a hole.
        found = read_once(&ledger, seq, head)?;
    }
    match found {
        Ok(records) => Ok(records),
        Err(next) => Err(hole(&ledger, seq, next)?),
    }
}

/// The records, or the next one there is.
fn read_once(ledger: &Disk, seq: u64, head: u64) -> Result<Result<Vec<Record>, u64>, WireError> {
    let (mut records, mut bytes) = (Vec::new(), 0);
    for (wanted, found) in (seq + 1..=head).zip(Onward::behind(ledger, seq)) {
        let found = found.map_err(|error| unreadable(&error))?;
        if found.header.seq != wanted {
            let next = found.header.seq;
            return Ok(if records.is_empty() { Err(next) } else { Ok(records) });
        }
        bytes += found.raw().len();
        records.push(found);
        if bytes >= STRETCH_BYTES {
            break;
        }
    }
    Ok(if records.is_empty() { Err(head + 1) } else { Ok(records) })
}

/// What to say of a record that is not there.
fn hole(ledger: &Disk, seq: u64, next: u64) -> Result<WireError, WireError> {
    let first = Records::new(ledger).next().transpose().map_err(|error| unreadable(&error))?;
    let first = first.map_or(next, |record| record.header.seq);
    if first > seq + 1 {
        return Ok(expired(seq, first));
    }
    let message = format!(
        "the ledger's records {} to {} cannot be read, so what they tell is not known here; `ostler ledger verify` says more. Behind them it \
         goes on with `after` {}",
        seq + 1,
        next - 1,
        next - 1
    );
    Ok(WireError::new(ErrorCode::Integrity, message).reason("ledger").with("after", next - 1))
}

fn expired(seq: u64, first: u64) -> WireError {
    let message = format!(
        "the records behind {seq} were retired; the first that is there is {first}. What is so now `session.list` tells; subscribe without `after`, \
         then list"
    );
    WireError::new(ErrorCode::ExpiredCursor, message).reason("retired").with("first", first)
}

fn unreadable(error: &ReadError) -> WireError {
    let (code, retry) = match error {
        ReadError::Io(source) => (storage_code(source), Retry::Later),
        ReadError::TooNew { .. } => (ErrorCode::ProtocolMismatch, Retry::Never),
    };
    WireError::new(code, error.to_string()).reason("ledger").retry(retry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_ledger::storage::SimulatedDisk;
    use ostler_ledger::{Entry, Ledger, Options, Stamp, Storage};

    const STAMP: Stamp = Stamp { at_us: 1_767_225_600_000_000, mono_us: 5, bg: 1 };

    fn open<S: Storage>(storage: S) -> Ledger<S> {
        let (mut ledger, recovery) = Ledger::open(storage, Options::new("id", "boot")).unwrap();
        ledger.append(&recovery.owed, &STAMP).unwrap();
        ledger.sync().unwrap();
        ledger
    }

    fn append<S: Storage>(ledger: &mut Ledger<S>) {
        let members = serde_json::Map::from_iter([("key".to_owned(), "k".repeat(128).into())]);
        let entry = Entry { t: "note".into(), sid: None, ep: None, fin: false, members: members.into() };
        ledger.append(&[entry], &STAMP).unwrap();
    }

    fn records(count: usize) -> Vec<Record> {
        let mut ledger = open(SimulatedDisk::new().storage());
        for _ in 0..count {
            append(&mut ledger);
            ledger.sync().unwrap();
        }
        ledger.records().map(Result::unwrap).collect()
    }

    #[test]
    fn nothing_is_read_that_is_not_durable_however_whole_it_stands_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let mut ledger = open(Disk::new(&path, folder.path().join("quarantine")));
        append(&mut ledger);
        ledger.sync().unwrap();
        let head = ledger.head().seq;
        append(&mut ledger);
        assert_eq!(ledger.records().count(), usize::try_from(head).unwrap() + 1, "it stands there");
        let read = read(&path, 0, head).unwrap();
        assert!(read.iter().map(|record| record.header.seq).eq(1..=head));
    }

    fn seqs(page: &[Arc<Record>]) -> Vec<u64> {
        page.iter().map(|record| record.header.seq).collect()
    }

    #[test]
    fn what_is_kept_is_pages_without_a_hole_and_a_bounded_piece() {
        let all = records(4_000);
        let feed = Feed::new(PathBuf::from("/nowhere"));
        let first = all[0].header.seq;
        // As somebody reads who follows the head.
        for few in all.chunks(7) {
            let seq = few[0].header.seq - 1;
            let page = feed.keep(seq, few.to_vec());
            assert_eq!(seqs(&page), few.iter().map(|record| record.header.seq).collect::<Vec<_>>());
        }
        let kept = feed.kept();
        let stretch = kept.back().unwrap();
        assert!(kept.len() == 1 && stretch.bytes <= STRETCH_BYTES, "{} bytes", stretch.bytes);
        assert_eq!(stretch.bytes, stretch.records.iter().map(|record| record.raw().len()).sum::<usize>());
        let (begin, last) = (stretch.first, all.last().unwrap().header.seq);
        drop(kept);
        assert!(begin > first && feed.find(begin - 2).is_none() && feed.find(last).is_none());
        let (mut seq, mut pages) = (begin - 1, 0);
        while let Some(page) = feed.find(seq) {
            assert!(seqs(&page).into_iter().eq(seq + 1..=seq + u64::try_from(page.len()).unwrap()));
            seq += u64::try_from(page.len()).unwrap();
            pages += 1;
        }
        assert!(seq == last && pages >= STRETCH_BYTES / PAGE_BYTES / 2, "{seq} in {pages}");
        // Those who are behind do not push out more than there are places.
        for far in all.chunks(100).take(2 * STRETCHES) {
            feed.keep(far[0].header.seq - 1, far[..50].to_vec());
        }
        assert_eq!(feed.kept().len(), STRETCHES);
    }
}
