//! Snapshots from the owner's side: which one an opening begins with, and how one is taken.
//!
//! Promises: taking one changes nothing but the cache, whatever fails in it; it is taken only of what is synced; a
//! crash at any point leaves the snapshots of before, or them and the new one, whole.

use std::sync::mpsc::{self, SyncSender};
use std::{io, panic, thread};

use super::{Ledger, Options};
use crate::digest::Position;
use crate::limits::{SNAPSHOT_BYTES_MAX, SNAPSHOTS_KEPT};
use crate::record::Record;
use crate::recovery::past::{Footing, Past};
use crate::recovery::repair::create_empty;
use crate::recovery::{Judgement, Survey, survey_from};
use crate::segment::in_ledger;
use crate::snapshot::{Found, UNFINISHED, Unusable, frame, read, snapshot_name, snapshots};
use crate::storage::{Folder, Storage, write_all};

/// The walk hands on so many records at a time, and is so many times ahead of the fold at the most.
const PART: usize = 64;
const PARTS_AHEAD: usize = 64;

/// What the caller folds from the records, and can store.
pub trait Fold {
    /// What is stored of it.
    type State;

    /// Name and version of the fold and of its stored form. A snapshot that was taken under another text is not used.
    fn name(&self) -> &str;

    /// Reads the state that a payload holds, and changes nothing. Whether it is the payload that was written is seen beside this: any bytes
    /// may come, and what they hold is not believed yet.
    ///
    /// # Errors
    /// Why it cannot be used.
    fn read(&mut self, payload: &[u8]) -> Result<Self::State, String>;

    /// Begins with a state that was read. Called once at most, and before any record.
    fn restore(&mut self, state: Self::State);

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

/// The ledger as an opening found it.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) found: Survey,
    /// Where the snapshot ends that it began with.
    pub(super) snapshot: Option<Position>,
    /// How many records and bytes lie before there.
    pub(super) before: (u64, u64),
    pub(super) dropped: Vec<DroppedSnapshot>,
}

impl Begun {
    /// With the first record.
    pub(super) fn first(found: Survey) -> Begun {
        Begun { found, snapshot: None, before: (0, 0), dropped: Vec::new() }
    }
}

/// Reads and folds what lies behind the newest usable snapshot, or everything; tells why newer ones are not usable. Nothing is changed.
pub(super) fn begin<S: Storage>(storage: &S, options: &Options, fold: &mut (impl Fold + Send)) -> io::Result<Begun> {
    let judgement = Judgement { makes_records: true, ..options.judgement() };
    let mut dropped = Vec::new();
    for file in snapshots(storage)? {
        if options.replay {
            dropped.push(DroppedSnapshot { file, why: "a replay was asked for".to_owned() });
            continue;
        }
        match read(storage, &file, fold.name()).and_then(|snapshot| beside(storage, judgement, snapshot, fold)) {
            Ok(begun) => return Ok(Begun { dropped, ..begun? }),
            Err(why) => dropped.push(DroppedSnapshot { file, why: why.to_string() }),
        }
    }
    let found = survey_from(storage, judgement, None, &mut |settled| fold.record(settled.record()))?;
    Ok(Begun { dropped, ..Begun::first(found) })
}

/// Reads a snapshot's state and folds the records behind it, on a thread of its own; beside it the snapshot is tested, and these records are
/// read and verified, which does not depend on the state. So a start that has a state to read is hardly slower than one that has none. The
/// state is believed only once the test has passed. The inner error is the walk's.
fn beside<S: Storage>(
    storage: &S,
    judgement: Judgement<'_>,
    snapshot: Found,
    fold: &mut (impl Fold + Send),
) -> Result<io::Result<Begun>, Unusable> {
    let Found { claim, payload } = snapshot;
    let payload = &payload;
    let (sender, parts) = mpsc::sync_channel::<Vec<Record>>(PARTS_AHEAD);
    let folding = move || -> Result<(), Unusable> {
        let state = fold.read(payload.bytes()).map_err(Unusable::Refused)?;
        let mut parts = parts.into_iter().peekable();
        // Without any part it is not to be used.
        if parts.peek().is_some() {
            fold.restore(state);
            parts.flatten().for_each(|record| fold.record(record));
        }
        Ok(())
    };
    thread::scope(|scope| {
        let folding = thread::Builder::new().name("fold".to_owned()).spawn_scoped(scope, folding)?;
        let walked = claim.covers(payload).and_then(|()| claim.footing(storage)).map(|footing| {
            // The state may be believed now.
            let _taken = sender.send(Vec::new());
            walk(storage, judgement, footing, &sender)
        });
        drop(sender);
        let folded = folding.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        walked.and_then(|begun| folded.map(|()| begun))
    })
}

/// Hands the records behind a footing to the fold.
fn walk<S: Storage>(
    storage: &S,
    judgement: Judgement<'_>,
    footing: Footing,
    fold: &SyncSender<Vec<Record>>,
) -> io::Result<Begun> {
    let (place, before) = (footing.past.heads.last, (footing.past.records, footing.past.bytes()));
    // Where nobody takes it any more, the fold tells why.
    let hand_on = |part: &mut Vec<Record>| drop(fold.send(std::mem::take(part)));
    let mut part = Vec::new();
    let found = survey_from(storage, judgement, Some(footing), &mut |settled| {
        part.push(settled.record());
        if part.len() == PART {
            hand_on(&mut part);
        }
    });
    hand_on(&mut part);
    Ok(Begun { found: found?, snapshot: Some(place), before, dropped: Vec::new() })
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
