//! The ledger as its single owner sees it: open, append a turn, sync.
//!
//! Invariants: a batch is one write, and counts only after a sync; the heads change only with a write that succeeded;
//! a failed write leaves the range to be filled again; a failed sync ends the ledger for this process.

mod opening;
mod rehearsal;
mod reserve;
mod retiring;
mod snapshots;
mod standing;

use std::io;

pub use opening::{OpenError, Options, Recovery};
pub use retiring::{RetireError, Retired, SealedSegment};
pub use snapshots::{DroppedSnapshot, Fold, SnapshotDraft, SnapshotError};

use crate::chain::{Draft, Drafted, Heads};
use crate::digest::Position;
use crate::entry::{Entry, EntryFault, Stamp};
use crate::limits::{BATCH_BYTES_MAX, TAIL_BYTES_MAX};
use crate::lookup::record_in;
use crate::reader::{ReadError, Records};
use crate::record::Record;
use crate::recovery::past::{Past, SegmentFile, Stated};
use crate::recovery::repair::{create_empty, is_lack_of_room};
use crate::retire::RETIRE_TYPE;
use crate::seal::{SEAL_TYPE, Says, SealBody, Sealing};
use crate::segment::{SEGMENT_TYPE, SegmentBody, file_name, in_ledger};
use crate::storage::{Folder, Storage, write_all};

/// An open ledger: the one writer of its folder.
#[derive(Debug)]
pub struct Ledger<S: Storage> {
    storage: S,
    _lock: S::Lock,
    options: Options,
    id: String,
    /// What the records say so far, the unsynced ones included.
    past: Past,
    active: Option<Active<S::File>>,
    /// Highest sequence number known synced.
    durable: u64,
    unsynced_bytes: usize,
    /// How much of the ledger lies behind the newest snapshot that can be used.
    behind_snapshot: u64,
    folder_unsynced: bool,
    /// What an ordinary batch leaves reserved on the disk, in bytes.
    reserve: u64,
    /// There was no room for a new segment: the last one goes on until the next sync.
    no_room: bool,
    /// The file of a new segment that could not be written was removed, durably.
    name_is_gone: bool,
    /// A segment that the next sync leaves behind for good, by its first sequence number.
    unsealed: Option<u64>,
    poisoned: bool,
    /// A `retire` record is being written.
    retires: bool,
    buffer: Vec<u8>,
    sync_count: u64,
}

/// The segment that is written to.
#[derive(Debug)]
struct Active<F> {
    file: F,
    number: u64,
    boot: String,
    /// The end of the last batch: the next one is written here.
    end: u64,
    /// A failed write may have left bytes beyond `end`, which have to go before the next.
    untrimmed: bool,
    /// The disk may still hold such bytes: not before the next sync is the segment whole.
    trim_unsynced: bool,
    /// Up to here blocks are known to be reserved.
    reserved: u64,
}

/// The batch was not written. Heads and sequence are as before; after a storage error the same range is filled again.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// An entry breaks a limit of the format.
    #[error("entry {index}: {fault}")]
    Entry {
        /// Which entry of the batch.
        index: usize,
        /// What is wrong with it.
        fault: EntryFault,
    },
    /// The lines together exceed [`BATCH_BYTES_MAX`]: split the turn.
    #[error("the batch has {bytes} bytes, {BATCH_BYTES_MAX} are allowed")]
    BatchTooLarge {
        /// The length of its lines.
        bytes: usize,
    },
    /// More than a batch would be unsynced: sync first.
    #[error("{bytes} bytes would be unsynced, {TAIL_BYTES_MAX} are allowed: sync first")]
    SyncFirst {
        /// The unsynced bytes there would be.
        bytes: usize,
    },
    /// The disk, a quota or a size limit is full.
    #[error("the ledger's storage is full: {0}")]
    StorageFull(#[source] io::Error),
    /// The write failed otherwise.
    #[error("the ledger cannot be written: {0}")]
    StorageFailed(#[source] io::Error),
    /// A sync failed before. Only a new process may go on.
    #[error("a sync of the ledger failed before; nothing is written any more")]
    Poisoned,
}

/// The sync failed, and with it the ledger: nothing appended since the last good one may be acknowledged.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// This sync.
    #[error("the ledger cannot be synced: {0}")]
    Failed(#[source] io::Error),
    /// An earlier one.
    #[error("a sync of the ledger failed before; nothing is synced any more")]
    Poisoned,
}

/// The records of its own that the ledger begins a segment with.
#[derive(Debug)]
struct Opening {
    segment: SegmentBody,
    /// Closes the segment before.
    seal: Option<SealBody>,
}

impl Opening {
    /// Of the segment behind these heads, in the ledger `id` and this boot; `before` is the number of the one that it closes.
    fn behind(heads: &Heads, sealing: &Sealing, before: u64, boot: &str, id: &str) -> Opening {
        let last = heads.last;
        let previous = (last.seq > 0).then_some(last.digest);
        let (boot, ledger, number) = (boot.to_owned(), id.to_owned(), before + 1);
        Opening { segment: SegmentBody { boot, ledger, number, previous }, seal: sealing.seal(before) }
    }

    fn entries(&self) -> Vec<Entry> {
        [self.segment.entry()].into_iter().chain(self.seal.as_ref().map(SealBody::entry)).collect()
    }

    fn says(&self) -> Vec<Says> {
        [Says::Segment(self.segment.number)].into_iter().chain(self.seal.as_ref().map(|_seal| Says::Seal)).collect()
    }
}

impl<S: Storage> Ledger<S> {
    /// The ledger's id, fixed with its first record.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The last appended record; [`Position::START`] in an empty ledger.
    pub fn head(&self) -> Position {
        self.past.heads.last
    }

    /// The sequence number that the first entry of the next [`Ledger::append`] gets. A `segment` and a `seal` record
    /// may come before it, so it can be three after the head; a [`Ledger::sync`] in between may change it.
    pub fn next_seq(&self) -> u64 {
        let own = if self.must_rotate() { 1 + u64::from(self.active.is_some()) } else { 0 };
        self.past.heads.last.seq + 1 + own
    }

    /// Highest sequence number known to be on the disk.
    pub fn durable_seq(&self) -> u64 {
        self.durable
    }

    /// Data syncs since the opening: one for each [`Ledger::sync`] that had something to sync. (A new segment costs
    /// one sync of the folder in addition, and sealing the one before it one of that file.)
    pub fn sync_count(&self) -> u64 {
        self.sync_count
    }

    /// The storage that it was opened on.
    pub fn storage(&self) -> &S {
        &self.storage
    }

    /// Writes a turn with one write; the last record carries `end`. Durable only after [`Ledger::sync`]. An empty
    /// batch writes nothing.
    pub fn append(&mut self, batch: &[Entry], stamp: &Stamp) -> Result<Vec<Position>, AppendError> {
        self.append_leaving(batch, stamp, self.reserve)
    }

    fn append_leaving(&mut self, batch: &[Entry], stamp: &Stamp, keep: u64) -> Result<Vec<Position>, AppendError> {
        if self.poisoned {
            return Err(AppendError::Poisoned);
        }
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.stands()?;
        let opening = self.must_rotate().then(|| self.opening());
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let written = self.form(&mut buffer, batch, stamp, opening.as_ref()).and_then(|drafted| {
            self.write(&buffer, opening.as_ref(), keep)?;
            Ok(drafted)
        });
        let bytes = buffer.len();
        self.buffer = buffer;
        let written = written?;
        self.unsynced_bytes += bytes;
        self.behind_snapshot += wide(bytes);
        Ok(self.became(written, opening.as_ref(), batch))
    }

    /// The batch is written: it is part of the past now. Returns the positions of the caller's own records.
    fn became(&mut self, written: Drafted, opening: Option<&Opening>, batch: &[Entry]) -> Vec<Position> {
        let past = &mut self.past;
        if opening.is_some() {
            self.unsealed = past.segments.last_mut().map(|before| {
                before.closed = true;
                before.first_seq
            });
            past.segments.push(SegmentFile { first_seq: past.heads.last.seq + 1, content: 0, closed: false });
        }
        let first_seq = past.segments.last().expect("the first batch opens a segment").first_seq;
        let own = opening.map(Opening::says).unwrap_or_default();
        let says = own.iter().copied().chain(std::iter::repeat(Says::Nothing));
        for (position, says) in written.positions.iter().zip(says) {
            past.sealing.admit(first_seq, *position, says);
        }
        if let (Some(segment), Some(active)) = (past.segments.last_mut(), &self.active) {
            segment.content = active.end;
        }
        past.heads.follow(&written);
        past.records += wide(written.positions.len());
        let mut positions = written.positions;
        positions.drain(..own.len());
        for (entry, position) in batch.iter().zip(&positions).filter(|(entry, _)| Stated::concerns(&entry.t)) {
            past.stated.note(&entry.t, *position, &entry.members.get("body").unwrap_or_default());
        }
        positions
    }

    /// Makes everything appended durable. After an error every later call fails: bytes that a failed sync dropped are
    /// reported once and then forgotten by the kernel, so only a new process, which writes them again, may go on.
    pub fn sync(&mut self) -> Result<(), SyncError> {
        if self.poisoned {
            return Err(SyncError::Poisoned);
        }
        if self.unsynced_bytes == 0 {
            return Ok(());
        }
        let synced = self.sync_files();
        self.poisoned = synced.is_err();
        synced.map_err(SyncError::Failed)
    }

    /// The durable record with this sequence number; none if there is none or it does not verify. Reads about a dozen
    /// pages, however long the ledger is.
    ///
    /// # Errors
    /// As [`record_at`](crate::record_at).
    pub fn record(&self, seq: u64) -> Result<Option<Record>, ReadError> {
        let segments = &self.past.segments;
        let behind = segments.partition_point(|segment| segment.first_seq <= seq);
        match segments[..behind].last() {
            Some(segment) if seq <= self.durable => record_in(&self.storage, &segment.file(), seq),
            Some(_) | None => Ok(None),
        }
    }

    /// Every record in order, whole turns only.
    pub fn records(&self) -> Records<'_, S> {
        Records::judging(&self.storage, self.options.judgement().accept_half_turn)
    }

    fn sync_files(&mut self) -> io::Result<()> {
        let active = self.active.as_mut().expect("unsynced bytes are in the active segment");
        self.storage.sync_data(&active.file)?;
        active.trim_unsynced = active.untrimmed;
        self.sync_count += 1;
        if self.folder_unsynced {
            self.name_segment()?;
        }
        self.unsynced_bytes = 0;
        self.no_room = false;
        self.durable = self.past.heads.last.seq;
        if let Some(first_seq) = self.unsealed.take() {
            // It protects what is durable already, so nothing depends on it; the next opening tries again and tells.
            let _unsealed = self.storage.seal(in_ledger(&file_name(first_seq)));
        }
        Ok(())
    }

    /// Makes the name of the new segment durable. A name that a failed sync forgot would never reach the disk, although the file is seen until the
    /// power goes; so the file, of which nothing was acknowledged, is removed, and the next opening makes another. If it
    /// cannot be removed, that opening replaces it, for which it needs the room of a copy.
    fn name_segment(&mut self) -> io::Result<()> {
        let named = self.storage.sync_folder(Folder::Ledger);
        if named.is_ok() {
            self.folder_unsynced = false;
        } else if let Some(segment) = self.past.segments.last() {
            let _replaced_later = self.storage.unlink(in_ledger(&segment.file()));
        }
        named
    }

    /// A new segment begins only when all before it is durable and nothing else is behind it, so that a crash can tear the last one alone; and with
    /// every boot, so that a tail's segment tells the boot it was written in.
    fn must_rotate(&self) -> bool {
        match &self.active {
            None => true,
            Some(active) => {
                let full = active.end >= self.options.segment_bytes && !self.no_room;
                let over = full || active.boot != self.options.boot;
                over && self.unsynced_bytes == 0 && !active.trim_unsynced
            }
        }
    }

    fn form(
        &self,
        buffer: &mut Vec<u8>,
        batch: &[Entry],
        stamp: &Stamp,
        opening: Option<&Opening>,
    ) -> Result<Drafted, AppendError> {
        let mut draft = Draft::on(&self.past.heads, stamp, self.durable);
        for own in opening.map(Opening::entries).unwrap_or_default() {
            let pushed = draft.push(buffer, &own, false);
            pushed.map_err(|fault| AppendError::Entry { index: 0, fault })?;
        }
        let opening_bytes = buffer.len();
        for (index, entry) in batch.iter().enumerate() {
            let fault = |fault| AppendError::Entry { index, fault };
            if entry.t == SEGMENT_TYPE || entry.t == SEAL_TYPE || entry.t == RETIRE_TYPE && !self.retires {
                return Err(fault(EntryFault::Type(entry.t.clone())));
            }
            let end = index + 1 == batch.len();
            draft.push(buffer, entry, end).map_err(fault)?;
        }
        let bytes = buffer.len() - opening_bytes;
        if bytes > BATCH_BYTES_MAX {
            return Err(AppendError::BatchTooLarge { bytes });
        }
        let bytes = buffer.len() + self.unsynced_bytes;
        if u64::try_from(bytes).is_ok_and(|bytes| bytes > TAIL_BYTES_MAX) {
            return Err(AppendError::SyncFirst { bytes });
        }
        Ok(draft.finish())
    }

    /// What the next segment begins with.
    fn opening(&self) -> Opening {
        let before = self.active.as_ref().map_or(0, |active| active.number);
        Opening::behind(&self.past.heads, &self.past.sealing, before, &self.options.boot, &self.id)
    }

    fn write(&mut self, bytes: &[u8], opening: Option<&Opening>, keep: u64) -> Result<(), AppendError> {
        let written = match opening {
            Some(opening) => self.write_segment(bytes, &opening.segment, keep),
            None => self.write_on(bytes, keep),
        };
        written.map_err(append_error).inspect_err(|error| {
            self.no_room |= opening.is_some() && self.name_is_gone && matches!(error, AppendError::StorageFull(_));
        })
    }

    /// Writes behind the last batch. On an error the file is cut back, now or before the next attempt.
    fn write_on(&mut self, bytes: &[u8], keep: u64) -> io::Result<()> {
        let active = self.active.as_mut().expect("the first batch opens a segment");
        if active.untrimmed {
            active.trim(&self.storage, self.reserve)?;
            active.untrimmed = false;
        }
        active.provide(&self.storage, wide(bytes.len()), keep)?;
        if let Err(error) = write_all(&self.storage, &active.file, active.end, bytes) {
            active.trim_unsynced = true;
            active.untrimmed = active.trim(&self.storage, self.reserve).is_err();
            return Err(error);
        }
        active.end += wide(bytes.len());
        Ok(())
    }

    /// Writes the first batch of a new segment. On an error the file goes again; if even that fails, it is emptied
    /// before the next attempt, and a crash finds a tail in it.
    fn write_segment(&mut self, bytes: &[u8], opened: &SegmentBody, keep: u64) -> io::Result<()> {
        let file_name = file_name(self.past.heads.last.seq + 1);
        let name = in_ledger(&file_name);
        self.name_is_gone = false;
        let file = create_empty(&self.storage, name)?;
        let mut reserved = 0;
        let provided = reserve::provide(&self.storage, &file, 0, &mut reserved, wide(bytes.len()), keep);
        if let Err(error) = provided.and_then(|()| write_all(&self.storage, &file, 0, bytes)) {
            // What stays is emptied before the next attempt; the first error is the one to report. Only where the name
            // is gone for good may the last segment go on beyond it.
            let removed = self.storage.truncate(&file, 0).and_then(|()| self.storage.unlink(name));
            self.name_is_gone = removed.and_then(|()| self.storage.sync_folder(Folder::Ledger)).is_ok();
            return Err(error);
        }
        let end = wide(bytes.len());
        let (number, boot) = (opened.number, opened.boot.clone());
        let active = Active { file, number, boot, end, untrimmed: false, trim_unsynced: false, reserved };
        if let Some(ended) = self.active.replace(active) {
            self.give_back(&ended);
        }
        self.folder_unsynced = true;
        Ok(())
    }
}

fn append_error(error: io::Error) -> AppendError {
    if is_lack_of_room(&error) { AppendError::StorageFull(error) } else { AppendError::StorageFailed(error) }
}

fn wide(len: usize) -> u64 {
    u64::try_from(len).expect("a length fits 64 bits")
}
