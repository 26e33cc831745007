//! Space that is reserved ahead on the disk, so that what settles can still be written when nothing else can.
//!
//! The active segment keeps blocks allocated behind its end. An ordinary batch is written only if the reserve is still
//! whole behind it; a batch that settles may go into the reserve and leaves as much of it as its caller says. Reserved
//! blocks are no content: the file's length does not change.
//!
//! Where the file system cannot reserve (or the system: only Linux can) nothing is promised, and every batch is written
//! as long as it fits.

use std::io;

use super::{Active, AppendError, Ledger, append_error};
use crate::digest::Position;
use crate::entry::{Entry, Stamp};
use crate::storage::Storage;

/// Blocks are reserved in steps of this many bytes, so that few batches need a call for it.
const STEP_BYTES: u64 = 1024 * 1024;

/// How far blocks are known to be reserved, where they cannot be: no need to ask again.
const CANNOT: u64 = u64::MAX;

impl<S: Storage> Ledger<S> {
    /// From now on every ordinary [`Ledger::append`] leaves this many bytes reserved behind it, or fails as
    /// [`AppendError::StorageFull`]. Reserves them now if a segment is open. More and less are both fine at any time;
    /// what is not needed any more stays reserved until the segment ends.
    ///
    /// # Errors
    /// The disk has no room for them now. Ordinary batches are refused until it has.
    pub fn reserve(&mut self, bytes: u64) -> Result<(), AppendError> {
        self.reserve = bytes;
        let provided = self.active.as_mut().map(|active| active.provide(&self.storage, 0, bytes));
        provided.unwrap_or(Ok(())).map_err(append_error)
    }

    /// As [`Ledger::append`], for records that settle what was begun: it may use the reserve, and leaves at least `keep`
    /// bytes of it. A full disk refuses it only when the reserve is used up as well.
    ///
    /// # Errors
    /// As [`Ledger::append`]. After an [`AppendError::StorageFull`] ask [`Ledger::next_seq`] again before the next
    /// attempt: a new segment, for which there was no room, does not begin then.
    pub fn append_keeping(&mut self, batch: &[Entry], stamp: &Stamp, keep: u64) -> Result<Vec<Position>, AppendError> {
        self.append_leaving(batch, stamp, keep)
    }

    /// What an opening can do for the reserve: the cut of the tail gave it back. Whether it succeeded shows with the
    /// first ordinary batch.
    pub(super) fn reserve_again(&mut self) {
        if let Some(active) = &mut self.active {
            let _shows_later = active.provide(&self.storage, 0, self.reserve);
        }
    }

    /// Gives back what a segment that has ended still has reserved: a cut at its end, which changes nothing else.
    pub(super) fn give_back(&self, ended: &Active<S::File>) {
        if self.reserve > 0 {
            // Blocks that stay are lost to others, and that is all.
            let _stays = self.storage.truncate(&ended.file, ended.end);
        }
    }
}

impl<F> Active<F> {
    /// Makes sure that `bytes` can be written at the end, and `keep` more behind them.
    pub(super) fn provide<S: Storage<File = F>>(&mut self, storage: &S, bytes: u64, keep: u64) -> io::Result<()> {
        provide(storage, &self.file, self.end, &mut self.reserved, bytes, keep)
    }

    /// Cuts what a failed write left behind the end, which gives the reserve back as well, and reserves again.
    pub(super) fn trim<S: Storage<File = F>>(&mut self, storage: &S, keep: u64) -> io::Result<()> {
        storage.truncate(&self.file, self.end)?;
        if self.reserved != CANNOT {
            self.reserved = self.end;
        }
        // The next batch tells if there is no room for it.
        let _shows_later = self.provide(storage, 0, keep);
        Ok(())
    }
}

/// As [`Active::provide`], for a file whose reserve ends at `reserved`.
pub(super) fn provide<S: Storage>(
    storage: &S,
    file: &S::File,
    end: u64,
    reserved: &mut u64,
    bytes: u64,
    keep: u64,
) -> io::Result<()> {
    let needed = end + bytes + keep;
    // Without anything to keep the write itself tells whether there is room.
    if keep == 0 || needed <= *reserved {
        return Ok(());
    }
    let from = end.max(*reserved);
    let mut allocated = storage.allocate(file, from, needed + STEP_BYTES - from);
    let mut until = needed + STEP_BYTES;
    if allocated.is_err() {
        allocated = storage.allocate(file, from, needed - from);
        until = needed;
    }
    *reserved = if allocated? { until } else { CANNOT };
    Ok(())
}
