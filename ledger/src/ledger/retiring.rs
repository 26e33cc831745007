//! Retirement from the owner's side.

use std::collections::BTreeSet;
use std::io;

use super::{AppendError, Ledger, SyncError};
use crate::digest::Position;
use crate::entry::{Entry, Stamp, turns_of};
use crate::recovery::repair::RepairError;
use crate::retire::{Undescribed, describe, finish};
use crate::segment::{file_name, in_ledger};
use crate::snapshot::snapshots;
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
        self.past.segments.iter().take_while(|segment| segment.closed).count()
    }

    /// Retires the oldest `segments` segments. `carry` states again what the caller's fold needs of them, in records that
    /// the caller understands; each session whose chain is open and that has no later record has to be among them.
    /// Then files are archived (`keep`) or removed, and snapshots, which rest on them, are.
    ///
    /// # Errors
    /// See [`RetireError`].
    pub fn retire(
        &mut self,
        segments: usize,
        carry: &[Entry],
        stamp: &Stamp,
        keep: bool,
    ) -> Result<Retired, RetireError> {
        if self.unsynced_bytes > 0 {
            return Err(RetireError::Unsynced);
        }
        match finish(&self.storage, &mut self.past) {
            Ok(()) => {}
            Err(RepairError::Write(error)) => return Err(error.into()),
            Err(RepairError::Sync(error)) => return Err(self.poison(error).into()),
        }
        let sealed = self.sealed_segments();
        if segments == 0 || segments > sealed {
            return Err(RetireError::NotSealed { asked: segments, sealed });
        }
        let mut retirement =
            describe(&self.storage, &self.past.segments, segments, keep).map_err(|error| match error {
                Undescribed::Io(error) => RetireError::Storage(error),
                Undescribed::Unsealed(first_seq) => RetireError::Unprovable(file_name(first_seq)),
            })?;
        let last = retirement.last;
        if let Some(hole) = self.past.holes.iter().find(|hole| hole.after_seq < last) {
            return Err(RetireError::Unprovable(file_name(hole.segment)));
        }
        let carried: BTreeSet<&str> = carry.iter().filter_map(|entry| entry.sid.as_deref()).collect();
        let mut open = self.past.heads.sessions.iter().filter(|(_sid, head)| head.seq <= last);
        if let Some((sid, _head)) = open.find(|(sid, _head)| !carried.contains(sid.as_str())) {
            return Err(RetireError::NotCarried(sid.clone()));
        }
        let mut first_carried = None;
        for turn in turns_of(carry) {
            let positions = self.append(turn, stamp)?;
            self.sync()?;
            first_carried = first_carried.or(positions.first().map(|position| position.seq));
        }
        retirement.carry = first_carried.unwrap_or_else(|| self.next_seq());
        let written = self.append_own(&retirement.entry(), stamp);
        let record = written?;
        self.sync()?;
        let left = match finish(&self.storage, &mut self.past) {
            Ok(()) => None,
            Err(RepairError::Write(error)) => Some(error),
            Err(RepairError::Sync(error)) => return Err(self.poison(error).into()),
        };
        self.drop_snapshots();
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

    /// They list segments that are gone. They are caches: what cannot be removed now, the next opening drops.
    fn drop_snapshots(&mut self) {
        for file in snapshots(&self.storage).unwrap_or_default() {
            let _stays = self.storage.unlink(in_ledger(&file));
        }
        self.behind_snapshot = self.past.bytes();
    }
}
