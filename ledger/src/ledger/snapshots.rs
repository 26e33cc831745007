//! Snapshots from the owner's side: which one an opening begins with, and how one is taken.
//!
//! Promises: taking one changes nothing but the cache, whatever fails in it; it is taken only of what is synced; a
//! crash at any point leaves the snapshots of before, or them and the new one, whole.

use std::io;

use super::Ledger;
use crate::digest::Position;
use crate::limits::{SNAPSHOT_BYTES_MAX, SNAPSHOTS_KEPT};
use crate::record::Record;
use crate::recovery::past::{Footing, Past};
use crate::recovery::repair::create_empty;
use crate::segment::in_ledger;
use crate::snapshot::{UNFINISHED, Unusable, frame, read, snapshot_name, snapshots};
use crate::storage::{Folder, Storage, write_all};

/// What the caller folds from the records, and can store.
pub trait Fold {
    /// Name and version of the fold and of its stored form. A snapshot that was taken under another text is not used.
    fn name(&self) -> &str;

    /// Begins with the state that this payload holds. Called at most once with success, and before any record.
    ///
    /// # Errors
    /// Why the payload cannot be used; the state has to be the one before the first record then.
    fn restore(&mut self, payload: &[u8]) -> Result<(), String>;

    /// Folds the next record.
    fn record(&mut self, record: Record);
}

/// A snapshot that was not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedSnapshot {
    /// Its file name.
    pub file: String,
    /// Why, as one clause.
    pub why: String,
}

/// The snapshot was not taken. The ledger is as it was, and so are the snapshots of before.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Not enough has been written since the last one: see [`Ledger::snapshot_due`].
    #[error("no snapshot is due")]
    NotDue,
    /// It ends with what is synced, so everything has to be.
    #[error("records are not synced yet")]
    Unsynced,
    /// A sync of the ledger failed before.
    #[error("a sync of the ledger failed before; nothing is written any more")]
    Poisoned,
    /// Longer than [`SNAPSHOT_BYTES_MAX`].
    #[error("the snapshot would have {bytes} bytes, {SNAPSHOT_BYTES_MAX} are allowed")]
    TooLong {
        /// The length it would have had.
        bytes: u64,
    },
    /// The storage.
    #[error("the snapshot cannot be written: {0}")]
    Storage(#[from] io::Error),
}

/// What an opening begins with.
#[derive(Debug, Default)]
pub(super) struct Choice {
    pub(super) footing: Option<Footing>,
    pub(super) dropped: Vec<DroppedSnapshot>,
}

/// The newest usable snapshot, restored, and why newer ones are not. Nothing is changed.
pub(super) fn choose<S: Storage>(storage: &S, replay: bool, fold: &mut impl Fold) -> io::Result<Choice> {
    let mut choice = Choice::default();
    for file in snapshots(storage)? {
        if replay {
            choice.dropped.push(DroppedSnapshot { file, why: "a replay was asked for".to_owned() });
            continue;
        }
        let usable = read(storage, &file, fold.name()).and_then(|usable| {
            fold.restore(usable.payload()).map_err(Unusable::Refused)?;
            Ok(usable)
        });
        match usable {
            Ok(usable) => {
                choice.footing = Some(usable.footing);
                break;
            }
            Err(why) => choice.dropped.push(DroppedSnapshot { file, why: why.to_string() }),
        }
    }
    Ok(choice)
}

/// Removes what is of no use. It is a cache, so what cannot be removed stays.
pub(super) fn clear<S: Storage>(storage: &S, dropped: &[DroppedSnapshot]) {
    let files = dropped.iter().map(|dropped| dropped.file.as_str());
    for file in files.chain([UNFINISHED]) {
        let _stays = storage.unlink(in_ledger(file));
    }
}

/// A snapshot that is still to be written: all but the caller's state. Whoever has the time writes it, on any thread, while
/// the ledger goes on. Only one at a time, and not after its ledger was closed.
#[derive(Debug)]
pub struct SnapshotDraft {
    ledger: String,
    fold: String,
    past: Past,
}

impl SnapshotDraft {
    /// The record that it ends with.
    pub fn position(&self) -> Position {
        self.past.heads.last
    }

    /// Stores it with the caller's state as of [`SnapshotDraft::position`]. The newest two are kept. `storage` is a door of
    /// its own to the ledger's folders: then an error of its syncs is told to the ledger as well, where it concerns it.
    ///
    /// # Errors
    /// [`SnapshotError`]. None of them is a reason to stop: a snapshot is a cache.
    pub fn write<S: Storage>(&self, storage: &S, payload: &[u8]) -> Result<(), SnapshotError> {
        let frame = frame(&self.ledger, &self.fold, &self.past, payload);
        let bytes = u64::try_from(frame.len() + payload.len()).expect("a length fits 64 bits");
        if bytes > SNAPSHOT_BYTES_MAX {
            return Err(SnapshotError::TooLong { bytes });
        }
        if let Err(error) = store(storage, &frame, payload, &snapshot_name(self.position().seq)) {
            let _gone_or_cleared_by_the_next_opening = storage.unlink(in_ledger(UNFINISHED));
            return Err(error.into());
        }
        keep_newest(storage);
        Ok(())
    }
}

impl<S: Storage> Ledger<S> {
    /// Whether [`Ledger::snapshot`] would take one: everything is synced, and enough was written since the last one
    /// ([`Options::snapshot_tail_bytes`](super::Options::snapshot_tail_bytes)).
    pub fn snapshot_due(&self) -> bool {
        // In a segment whose first record is damaged nobody could go on.
        let whole = self.active.as_ref().is_some_and(|active| !active.boot.is_empty());
        let synced = self.unsynced_bytes == 0 && !self.poisoned;
        whole && synced && self.behind_snapshot >= self.options.snapshot_tail_bytes
    }

    /// How many bytes of ledger lie behind the newest snapshot that can be used, or behind the last draft of one.
    pub fn behind_snapshot(&self) -> u64 {
        self.behind_snapshot
    }

    /// Stores the caller's state as of [`Ledger::head`], so that the next [`Ledger::open_from`] need not read what lies
    /// before it. `fold` is the [`Fold::name`] under which it can be used. The newest two are kept.
    ///
    /// # Errors
    /// [`SnapshotError`]. None of them is a reason to stop: a snapshot is a cache.
    pub fn snapshot(&mut self, payload: &[u8], fold: &str) -> Result<Position, SnapshotError> {
        let behind = self.behind_snapshot;
        let draft = self.draft_snapshot(fold)?;
        let written = draft.write(&self.storage, payload);
        if written.is_err() {
            self.behind_snapshot = behind;
        }
        written.map(|()| draft.position())
    }

    /// As [`Ledger::snapshot`], but only drafts it. The next one is due as if it had been written.
    ///
    /// # Errors
    /// [`SnapshotError::Poisoned`], [`SnapshotError::Unsynced`] or [`SnapshotError::NotDue`].
    pub fn draft_snapshot(&mut self, fold: &str) -> Result<SnapshotDraft, SnapshotError> {
        if self.poisoned {
            return Err(SnapshotError::Poisoned);
        }
        if self.unsynced_bytes > 0 {
            return Err(SnapshotError::Unsynced);
        }
        if !self.snapshot_due() {
            return Err(SnapshotError::NotDue);
        }
        self.behind_snapshot = 0;
        Ok(SnapshotDraft { ledger: self.id.clone(), fold: fold.to_owned(), past: self.past.clone() })
    }
}

/// Its own sync may fail without harm: no acknowledged byte is in it. That of the folder may run beside the ledger's own, for
/// the name of a new segment: the kernel tells an error of it to each descriptor that was open before.
fn store<S: Storage>(storage: &S, frame: &[u8], payload: &[u8], name: &str) -> io::Result<()> {
    let file = create_empty(storage, in_ledger(UNFINISHED))?;
    write_all(storage, &file, 0, frame)?;
    let behind = u64::try_from(frame.len()).expect("a length fits 64 bits");
    write_all(storage, &file, behind, payload)?;
    storage.sync_data(&file)?;
    storage.rename(Folder::Ledger, UNFINISHED, name)?;
    storage.sync_folder(Folder::Ledger)
}

/// Old snapshots that cannot be listed or removed now are removed with the next one.
fn keep_newest<S: Storage>(storage: &S) {
    let old = snapshots(storage).unwrap_or_default();
    for file in old.into_iter().skip(SNAPSHOTS_KEPT) {
        let _stays = storage.unlink(in_ledger(&file));
    }
}
