//! Retirement from the owner's side.

use std::collections::BTreeSet;
use std::io;

use serde_json::Value;

use super::{AppendError, Ledger, SyncError};
use crate::digest::Position;
use crate::entry::{Entry, Stamp, turns_of};
use crate::recovery::past::SegmentFile;
use crate::recovery::repair::RepairError;
use crate::retire::{Retirement, Undescribed, describe, finish, take_away, try_archive};
use crate::segment::file_name;
use crate::storage::Storage;

/// The segments are retired, durably.
#[derive(Debug)]
pub struct Retired {
    /// The `retire` record.
    pub record: Position,
    /// How many records and bytes left the ledger.
    pub records: u64,
    /// See `records`.
    pub bytes: u64,
    /// Why some of the files are still there; the next opening, or the next call, takes them away.
    pub left: Option<io::Error>,
}

/// A segment that a seal closes, and that is not retired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedSegment {
    /// Its file name.
    pub file: String,
    /// Its first record.
    pub first: u64,
    /// Its last record.
    pub last: u64,
    /// The length of its file, without fill.
    pub bytes: u64,
}

/// Nothing is retired. Carried records that were written before the error stay, and mean what they say.
#[derive(Debug, thiserror::Error)]
pub enum RetireError {
    /// Only whole sealed segments can go, and the last one never.
    #[error("{asked} segments cannot be retired: {sealed} are sealed")]
    NotSealed {
        /// How many were to go.
        asked: usize,
        /// How many could.
        sealed: usize,
    },
    /// The segment was closed without a root, is damaged, or is older than seals: it stays as evidence.
    #[error("{0} is damaged or has no root in its seal, so nothing could prove what it was")]
    Unprovable(String),
    /// The session's chain is open and would end with what is retired.
    #[error("no carried record goes on with the open chain of session {0}")]
    NotCarried(String),
    /// The archive does not take the files: it may lie on another file system, or on one that gives no file two names.
    #[error("the archive folder does not take them: {0}")]
    Archive(#[source] io::Error),
    /// Something is not synced yet.
    #[error("records are not synced yet")]
    Unsynced,
    /// A record was not written.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// A sync failed: the ledger has ended for this process.
    #[error(transparent)]
    Sync(#[from] SyncError),
    /// The segments cannot be read, or what an earlier retirement left cannot be taken away.
    #[error("the segments cannot be read or taken away: {0}")]
    Storage(#[from] io::Error),
}

impl<S: Storage> Ledger<S> {
    /// How many segments are sealed, and could be retired.
    pub fn sealed_segments(&self) -> usize {
        self.sealed().len()
    }

    /// The same, one by one, the oldest first.
    pub fn sealed(&self) -> Vec<SealedSegment> {
        let here = self.unretired();
        let pairs = here.windows(2).take_while(|pair| pair[0].closed);
        let each = pairs.map(|pair| SealedSegment {
            file: pair[0].file(),
            first: pair[0].first_seq,
            last: pair[1].first_seq - 1,
            bytes: pair[0].content,
        });
        each.collect()
    }

    /// The sessions whose chain is open and would end with what is retired: [`Ledger::retire`] wants a record of each.
    pub fn open_chains(&self, segments: usize) -> Vec<String> {
        let Some(next) = self.unretired().get(segments) else { return Vec::new() };
        let open = self.past.heads.sessions.iter().filter(|(_sid, head)| head.seq < next.first_seq);
        let mut open: Vec<String> = open.map(|(sid, _head)| sid.clone()).collect();
        open.sort();
        open
    }

    /// Whether the oldest `segments` segments could be retired, as far as it depends on them. Nothing is changed.
    ///
    /// # Errors
    /// As [`Ledger::retire`].
    pub fn may_retire(&self, segments: usize) -> Result<(), RetireError> {
        self.describe(segments, false).map(|_described| ())
    }

    /// Takes the files away that an earlier retirement left.
    ///
    /// # Errors
    /// [`RetireError::Storage`] if they cannot be taken away now, and [`RetireError::Sync`].
    pub fn finish_retirement(&mut self) -> Result<(), RetireError> {
        match finish(&self.storage, &mut self.past) {
            Ok(()) => Ok(()),
            Err(RepairError::Write(error)) => Err(error.into()),
            Err(RepairError::Sync(error)) => Err(self.poison(error).into()),
        }
    }

    /// Retires the oldest `segments` segments. `carry` states again what the caller's fold needs of them, in records that
    /// the caller understands; each session whose chain is open and that has no later record has to be among them.
    /// Then files are archived (`keep`) or removed, and snapshots, which rest on them, are. `act` says who asked for it.
    ///
    /// # Errors
    /// See [`RetireError`].
    pub fn retire(
        &mut self,
        segments: usize,
        carry: &[Entry],
        act: Option<&Value>,
        stamp: &Stamp,
        keep: bool,
    ) -> Result<Retired, RetireError> {
        if self.unsynced_bytes > 0 {
            return Err(RetireError::Unsynced);
        }
        self.finish_retirement()?;
        let mut retirement = self.describe(segments, keep)?;
        let carried: BTreeSet<&str> = carry.iter().filter_map(|entry| entry.sid.as_deref()).collect();
        if let Some(sid) = self.open_chains(segments).into_iter().find(|sid| !carried.contains(sid.as_str())) {
            return Err(RetireError::NotCarried(sid));
        }
        if keep {
            let leaving: Vec<String> = self.unretired().iter().take(segments).map(SegmentFile::file).collect();
            try_archive(&self.storage, &leaving).map_err(RetireError::Archive)?;
        }
        let mut first_carried = None;
        for turn in turns_of(carry) {
            let positions = self.append(turn, stamp)?;
            self.sync()?;
            first_carried = first_carried.or(positions.first().map(|position| position.seq));
        }
        retirement.carry = first_carried.unwrap_or_else(|| self.next_seq());
        let written = self.append_own(&retirement.entry(act), stamp);
        let record = written?;
        self.sync()?;
        // They have just been read.
        let left = match take_away(&self.storage, &mut self.past, segments, &retirement) {
            Ok(()) => None,
            Err(RepairError::Write(error)) => Some(error),
            Err(RepairError::Sync(error)) => return Err(self.poison(error).into()),
        };
        self.behind_snapshot = self.past.bytes();
        Ok(Retired { record, records: retirement.count, bytes: retirement.bytes, left })
    }

    fn append_own(&mut self, entry: &Entry, stamp: &Stamp) -> Result<Position, AppendError> {
        self.retires = true;
        let written = self.append(std::slice::from_ref(entry), stamp);
        self.retires = false;
        written.map(|positions| positions[0])
    }

    fn poison(&mut self, error: io::Error) -> SyncError {
        self.poisoned = true;
        SyncError::Failed(error)
    }

    /// The segments but for those that are retired and could not be taken away yet.
    fn unretired(&self) -> &[SegmentFile] {
        let last = self.past.stated.retired.as_ref().map_or(0, |retired| retired.last);
        let left = self.past.segments.partition_point(|segment| segment.first_seq <= last);
        &self.past.segments[left..]
    }

    fn describe(&self, segments: usize, keep: bool) -> Result<Retirement, RetireError> {
        let sealed = self.sealed_segments();
        if segments == 0 || segments > sealed {
            return Err(RetireError::NotSealed { asked: segments, sealed });
        }
        let described = describe(&self.storage, self.unretired(), segments, keep).map_err(|error| match error {
            Undescribed::Io(error) => RetireError::Storage(error),
            Undescribed::Unsealed(first_seq) => RetireError::Unprovable(file_name(first_seq)),
        })?;
        match self.past.holes.iter().find(|hole| hole.after_seq < described.last) {
            Some(hole) => Err(RetireError::Unprovable(file_name(hole.segment))),
            None => Ok(described),
        }
    }
}
