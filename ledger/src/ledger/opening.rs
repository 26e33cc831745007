//! How a ledger is opened: the writer lock, recovery by the literal table, and what it tells the caller.
//!
//! Promises: nothing is changed before the whole ledger was read and judged; a crash in an opening is repaired by the
//! next one; only after the repair is there a [`Ledger`] to append to.

use std::io;
use std::time::Duration;

use super::rehearsal::{self, Next};
use super::snapshots::{Begun, DroppedSnapshot, Fold, begin, clear};
use super::{Active, Ledger};
use crate::digest::Position;
use crate::entry::Entry;
use crate::limits::{SEGMENT_BYTES, SEQ_LAST, SNAPSHOT_TAIL_BYTES};
use crate::record::Record;
use crate::recovery::repair::{RepairError, open_for_writing, repair, seal_closed, set_aside};
use crate::recovery::table::Class;
use crate::recovery::{Judgement, Problem, Survey, TailReport, survey, wide};
use crate::retire::finish;
use crate::storage::{LockError, Storage};

/// How to open a ledger.
#[derive(Clone, Debug)]
pub struct Options {
    /// The id of the ledger if it is new: random text of the caller's. An existing ledger keeps its own.
    pub new_ledger_id: String,
    /// The id of the boot that the machine is in: every segment belongs to one boot.
    pub boot: String,
    /// How long to wait for the writer lock.
    pub lock_wait: Duration,
    /// A segment that has reached this many bytes is followed by a new one.
    pub segment_bytes: u64,
    /// A snapshot is due once this many bytes of ledger lie behind the last one.
    pub snapshot_tail_bytes: u64,
    /// Drop every snapshot and read the whole history.
    pub replay: bool,
    /// What [`Ledger::reserve`] begins with, in bytes.
    pub reserve_bytes: u64,
    /// Planted bug: recovery takes the sound records of half a turn for a turn.
    #[cfg(feature = "testing")]
    pub accept_half_turn: bool,
}

impl Options {
    /// The usual options: segments of about 8 MiB, five seconds for the writer lock.
    pub fn new(new_ledger_id: impl Into<String>, boot: impl Into<String>) -> Options {
        Options {
            new_ledger_id: new_ledger_id.into(),
            boot: boot.into(),
            lock_wait: Duration::from_secs(5),
            segment_bytes: SEGMENT_BYTES,
            snapshot_tail_bytes: SNAPSHOT_TAIL_BYTES,
            replay: false,
            reserve_bytes: 0,
            #[cfg(feature = "testing")]
            accept_half_turn: false,
        }
    }

    pub(super) fn judgement(&self) -> Judgement<'_> {
        #[cfg(feature = "testing")]
        let accept_half_turn = self.accept_half_turn;
        #[cfg(not(feature = "testing"))]
        let accept_half_turn = false;
        Judgement { boot: Some(&self.boot), accept_half_turn, ..Judgement::default() }
    }
}

/// What opening found and did.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovery {
    /// Records in the ledger, after the cut.
    pub records: u64,
    /// What was cut, if anything. It was never acknowledged.
    pub tail: Option<TailReport>,
    /// What is wrong with synced records, and suspicious tails of earlier starts. Nothing of it was rewritten.
    pub problems: Vec<Problem>,
    /// What of it an operator has accepted: it degrades nothing any more.
    pub accepted: Vec<Problem>,
    /// Sessions that own or could own damaged or missing records: fence them; the rest works.
    pub damaged_sessions: Vec<String>,
    /// Whether records are gone as a whole: keys that may have been among them are uncertain.
    pub loss: bool,
    /// Why the ledger is degraded; empty if it is not.
    pub degraded: Vec<String>,
    /// Records about all this that the caller appends before anything else: with its first turn, or, if they are too
    /// many for one, in the turns of [`turns_of`](crate::turns_of).
    pub owed: Vec<Entry>,
    /// Where the snapshot that the opening began with ends. Nothing before it was read.
    pub snapshot: Option<Position>,
    /// Newer snapshots, which could not be used and were removed.
    pub dropped_snapshots: Vec<DroppedSnapshot>,
    /// Records that were read and handed to the fold: those behind the snapshot, or all.
    pub folded: u64,
    /// Bytes that no `dur` proved to be on the disk, written again and synced.
    pub rewritten_bytes: u64,
}

/// The ledger cannot be opened. Nothing was changed unless it says so.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The writer lock.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A later version wrote here. Nothing was changed.
    #[error("{segment}: format version {version} was written by a later program; nothing was changed")]
    TooNew {
        /// The segment's file name.
        segment: String,
        /// The version found.
        version: u64,
    },
    /// Behind the last whole turn stands more than a crash leaves: files in a wrong place, or of something else, or
    /// lines that change what those before them mean. It may have been acknowledged, so it is not cut. Nothing was
    /// changed.
    #[error(
        "{segment}: the {bytes} bytes from {offset} on do not follow, and are more than a crash leaves; nothing was \
         changed. Put the files of the ledger back as they were, or move this one away"
    )]
    Unexplained {
        /// The segment's file name.
        segment: String,
        /// Where in it they begin.
        offset: u64,
        /// How many there are, in this and later segments.
        bytes: u64,
    },
    /// A segment is named for records that are still to come: the next segment would take its place, and what is in it
    /// would be lost. Nothing was changed.
    #[error(
        "{segment}: the ledger ends with record {last}, so this file has not its own name; nothing was changed. Give it \
         back the name that its first record tells (`seq`, in 20 digits)"
    )]
    Misnamed {
        /// The segment's file name.
        segment: String,
        /// The last record of the ledger.
        last: u64,
    },
    /// The sequence numbers are used up, or nearly so. Nobody writes that many records: a line was forged. Nothing was
    /// changed.
    #[error("the ledger ends with record {last}, and no more can be counted; nothing was changed. Begin a new ledger")]
    Exhausted {
        /// The last record of the ledger.
        last: u64,
    },
    /// The segments cannot be read.
    #[error("the ledger cannot be read: {0}")]
    Read(#[source] io::Error),
    /// A never acknowledged tail could not be cut or written again; the next start does it.
    #[error("the ledger's tail cannot be repaired: {0}")]
    Repair(#[source] io::Error),
    /// The repair could not be made durable.
    #[error("the ledger cannot be synced: {0}")]
    Sync(#[source] io::Error),
}

impl<S: Storage> Ledger<S> {
    /// Takes the writer lock, recovers by the literal table, and is ready to append.
    ///
    /// The caller appends [`Recovery::owed`] first. A clock and a generation are not known here, so they are not
    /// written by the opening; a crash before that turn only makes the next opening owe them again.
    pub fn open(storage: S, options: Options) -> Result<(Ledger<S>, Recovery), OpenError> {
        let lock = storage.lock(options.lock_wait)?;
        let found = survey(&storage, options.judgement(), &mut |_settled| {}).map_err(OpenError::Read)?;
        Ledger::open_at(storage, lock, options, Begun::first(found))
    }

    /// As [`Ledger::open`], and hands every record that the ledger holds after recovery to `fold`, in order and in the
    /// same single pass. After an error what was folded means nothing.
    pub fn open_folding(
        storage: S,
        options: Options,
        fold: &mut impl FnMut(Record),
    ) -> Result<(Ledger<S>, Recovery), OpenError> {
        let lock = storage.lock(options.lock_wait)?;
        let judgement = Judgement { makes_records: true, ..options.judgement() };
        let found = survey(&storage, judgement, &mut |settled| fold(settled.record())).map_err(OpenError::Read)?;
        Ledger::open_at(storage, lock, options, Begun::first(found))
    }

    /// As [`Ledger::open_folding`], but begins with the newest snapshot that is sound, stands on the ledger as it is,
    /// and that `fold` can restore: only the records behind it are read, verified and folded. Without one the history
    /// is. [`Recovery`] says which, and why newer ones were dropped. With a snapshot the fold runs on a thread of its own, which
    /// has ended when this returns.
    ///
    /// If what was folded turns out wrong, drop the ledger and open it again with [`Options::replay`].
    pub fn open_from(
        storage: S,
        options: Options,
        fold: &mut (impl Fold + Send),
    ) -> Result<(Ledger<S>, Recovery), OpenError> {
        let lock = storage.lock(options.lock_wait)?;
        let begun = begin(&storage, &options, fold).map_err(OpenError::Read)?;
        Ledger::open_at(storage, lock, options, begun)
    }

    fn open_at(storage: S, lock: S::Lock, options: Options, begun: Begun) -> Result<(Ledger<S>, Recovery), OpenError> {
        let Begun { found, snapshot, before, dropped } = begun;
        if let Some((place, version)) = found.walk.newer {
            let segment = found.segments[place.segment].file();
            return Err(OpenError::TooNew { segment, version });
        }
        let id = found.walk.segments.last().map_or(&options.new_ledger_id, |(_, body)| &body.ledger).clone();
        if let Some(TailReport { segment, offset, bytes, .. }) = found.tail.clone()
            && !may_cut(&storage, &options, &found, &id).map_err(OpenError::Read)?
        {
            return Err(OpenError::Unexplained { segment, offset, bytes });
        }
        let last = found.walk.heads.last.seq;
        if last > SEQ_LAST {
            return Err(OpenError::Exhausted { last });
        }
        if let Some(segment) = found.kept().last().filter(|segment| segment.first_seq > last) {
            return Err(OpenError::Misnamed { segment: segment.file(), last });
        }
        let aside = set_aside(&storage, &found).map_err(OpenError::Read)?;
        let rewritten_bytes = repair(&storage, &found).map_err(|error| match error {
            RepairError::Write(error) => OpenError::Repair(error),
            RepairError::Sync(error) => OpenError::Sync(error),
        })?;
        let active = reopen(&storage, &found).map_err(OpenError::Read)?;
        let unsealed = seal_closed(&storage, &found);
        clear(&storage, &dropped);
        let mut recovery = report(&found, aside.owed, aside.failure);
        recovery.rewritten_bytes = rewritten_bytes;
        recovery.degraded.extend(unsealed);
        recovery.folded = recovery.records - before.0;
        (recovery.snapshot, recovery.dropped_snapshots) = (snapshot, dropped);
        let durable = found.walk.heads.last.seq;
        let mut past = found.into_past();
        let segments = past.segments.len();
        match finish(&storage, &mut past) {
            Ok(()) => {}
            Err(RepairError::Write(error)) => {
                recovery.degraded.push(format!("ledger: retired segments cannot be taken away yet: {error}"));
            }
            Err(RepairError::Sync(error)) => return Err(OpenError::Sync(error)),
        }
        // With retired files the snapshots go.
        let before_bytes = if past.segments.len() < segments { 0 } else { before.1 };
        let mut ledger = Ledger {
            reserve: options.reserve_bytes,
            no_room: false,
            name_is_gone: false,
            storage,
            _lock: lock,
            options,
            id,
            behind_snapshot: past.bytes().saturating_sub(before_bytes),
            past,
            active,
            durable,
            unsynced_bytes: 0,
            folder_unsynced: false,
            unsealed: None,
            poisoned: false,
            retires: false,
            buffer: Vec::new(),
            sync_count: 0,
        };
        ledger.reserve_again();
        Ok((ledger, recovery))
    }
}

/// Whether what stands behind the last whole turn can be cut: a crash leaves no more, and nothing else depends on it.
fn may_cut<S: Storage>(storage: &S, options: &Options, found: &Survey, id: &str) -> io::Result<bool> {
    if found.tail.as_ref().is_some_and(|tail| tail.class == Class::ChainBroken) {
        return Ok(false);
    }
    if !rehearsal::is_due(found) {
        return Ok(true);
    }
    let settled = found.walk.settled;
    let (number, boot) = if settled.offset == 0 { (0, String::new()) } else { numbered(found) };
    let rotates = settled.offset == 0 || boot != options.boot || settled.offset >= options.segment_bytes;
    rehearsal::holds(storage, options, found, id, &Next { number, rotates })
}

/// Number and boot of the segment that is gone on with.
fn numbered(found: &Survey) -> (u64, String) {
    let settled = found.walk.settled;
    let first_seq = found.segments.get(settled.segment).map_or(0, |segment| segment.first_seq);
    match found.walk.segments.last() {
        // A segment that ends in damage is not gone on with, even if its last line has no end.
        Some((index, body)) if *index == settled.segment && !found.behind_hole => (body.number, body.boot.clone()),
        // Its first line is damaged: no boot is known, so the next batch begins a new segment. The seal in there tells the
        // number that is known, else the one that follows if no file is missing or in a wrong place.
        last => {
            let following =
                last.map_or(1 + wide(settled.segment), |(index, body)| body.number + wide(settled.segment - index));
            (found.walk.sealing.number(first_seq).unwrap_or(following), String::new())
        }
    }
}

fn reopen<S: Storage>(storage: &S, found: &Survey) -> io::Result<Option<Active<S::File>>> {
    let settled = found.walk.settled;
    if settled.offset == 0 {
        return Ok(None);
    }
    let file = open_for_writing(storage, &found.segments[settled.segment].file())?;
    let (number, boot) = numbered(found);
    Ok(Some(Active { file, number, boot, end: settled.offset, untrimmed: false, trim_unsynced: false, reserved: 0 }))
}

fn report(found: &Survey, mut owed: Vec<Entry>, failure: Option<String>) -> Recovery {
    owed.extend(found.gaps_owed.iter().cloned());
    // Accepting a finding brings no record back: what it means for sessions and keys stays.
    let all = || found.problems.iter().chain(&found.accepted);
    let mut damaged_sessions: Vec<String> = all().flat_map(|problem| problem.sessions.clone()).collect();
    damaged_sessions.sort();
    damaged_sessions.dedup();
    let texts = found.problems.iter().map(Problem::line);
    let tail = found.tail.iter().filter(|tail| tail.class.degrades()).map(TailReport::line);
    Recovery {
        records: found.walk.records,
        tail: found.tail.clone(),
        loss: all().any(|problem| problem.class == Class::Loss),
        degraded: texts.chain(tail).chain(failure).collect(),
        problems: found.problems.clone(),
        accepted: found.accepted.clone(),
        damaged_sessions,
        owed,
        snapshot: None,
        dropped_snapshots: Vec::new(),
        folded: found.walk.records,
        rewritten_bytes: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Stamp;
    use crate::recovery::past::{Footing, Past};
    use crate::recovery::survey_from;
    use crate::segment::{SegmentBody, in_ledger};
    use crate::storage::{Folder, Name, SimulatedDisk};
    use serde_json::{Map, Value, json};

    const STAMP: Stamp = Stamp { at_us: 1_769_862_896_000_001, mono_us: 77_000_000, bg: 1 };

    fn entry(t: &str, sid: Option<&str>, body: Value) -> Entry {
        let members = Map::from_iter([("body".to_owned(), body)]);
        Entry { sid: sid.map(str::to_owned), ..Entry::new(t, members) }
    }

    fn options() -> Options {
        Options { segment_bytes: 3_000, ..Options::new("test", "boot") }
    }

    /// Turns of one to three records in several segments; the past of the writer after each.
    fn written(disk: &SimulatedDisk) -> Vec<Past> {
        let (mut ledger, recovery) = Ledger::open(disk.storage(), options()).unwrap();
        let mut pasts = Vec::new();
        for number in 0..24_u64 {
            let sid = ["a", "b", "c", "d"][usize::try_from(number % 4).unwrap()];
            let mut batch = recovery.owed.clone();
            batch.push(entry("note", Some(sid), json!({"text": number})));
            if number % 3 == 0 {
                batch.push(entry("note", None, json!({"text": "of none"})));
            }
            if number == 5 {
                batch.push(entry("gap", None, json!({"first": 3, "sessions": ["a", "gone"]})));
                let body = json!({"class": "suspicious_tail", "segment": "s", "offset": 7, "quarantine": "kept"});
                batch.push(entry("recovered", None, body));
            }
            ledger.append(&batch, &STAMP).unwrap();
            ledger.sync().unwrap();
            pasts.push(ledger.past.clone());
        }
        pasts
    }

    fn files(disk: &SimulatedDisk) -> Vec<(String, Vec<u8>)> {
        let content = |file: &String| disk.contents(in_ledger(file)).unwrap();
        disk.names(Folder::Ledger).into_iter().map(|file| (file.clone(), content(&file))).collect()
    }

    fn disk_of(files: &[(String, Vec<u8>)]) -> SimulatedDisk {
        let disk = SimulatedDisk::new();
        files.iter().for_each(|(file, bytes)| disk.tamper(Name { folder: Folder::Ledger, file }, bytes));
        disk
    }

    /// The files as they were when the past ended.
    fn cut(files: &[(String, Vec<u8>)], past: &Past) -> Vec<(String, Vec<u8>)> {
        let mut cut = files[..past.segments.len()].to_vec();
        let last = past.segments.last().unwrap();
        cut.last_mut().unwrap().1.truncate(usize::try_from(last.content).unwrap());
        cut
    }

    fn opened(disk: &SimulatedDisk, past: &Past) -> SegmentBody {
        let mut bodies = Vec::new();
        survey(&disk.storage(), Judgement::default(), &mut |record| bodies.extend(SegmentBody::of(&record.sliced())))
            .unwrap();
        bodies[past.segments.len() - 1].clone()
    }

    #[test]
    fn the_writer_keeps_the_past_that_an_opening_finds() {
        let disk = SimulatedDisk::new();
        let pasts = written(&disk);
        let files = files(&disk);
        assert!(files.len() > 3);
        for past in &pasts {
            let (ledger, _recovery) = Ledger::open(disk_of(&cut(&files, past)).storage(), options()).unwrap();
            assert_eq!(&ledger.past, past, "after record {}", past.heads.last.seq);
        }
    }

    /// Whatever is wrong behind a place, and with what stands before it: from the past of the place it is found as
    /// from the first record.
    #[test]
    fn a_walk_from_the_past_of_a_place_finds_what_a_walk_from_the_first_record_finds() {
        let sound = SimulatedDisk::new();
        let pasts = written(&sound);
        let sound = files(&sound);
        let mut compared = 0;
        for damaged in 0..sound.len() {
            for at in (90..sound[damaged].1.len()).step_by(211) {
                let mut files = sound.clone();
                files[damaged].1[at] ^= 1;
                let disk = disk_of(&files);
                let mut all = Vec::new();
                let whole =
                    survey(&disk.storage(), Judgement::default(), &mut |settled| all.push(settled.record())).unwrap();
                for place in &pasts {
                    let before = disk_of(&cut(&files, place));
                    let past = survey(&before.storage(), Judgement::default(), &mut |_| {}).unwrap().into_past();
                    // A place whose turn is damaged, or not known to be synced, is none at which a past is taken.
                    if past.heads.last != place.heads.last || past.heads.last.seq > whole.walk.heads.last.seq {
                        continue;
                    }
                    let stored: Past = serde_json::from_str(&serde_json::to_string(&past).unwrap()).unwrap();
                    assert_eq!(stored, past);
                    let footing = Footing { past: stored, opened: opened(&disk_of(&sound), &past) };
                    let mut behind = Vec::new();
                    let found = survey_from(&disk.storage(), Judgement::default(), Some(footing), &mut |settled| {
                        behind.push(settled.record());
                    });
                    let found = found.unwrap();
                    let context = format!("byte {at} of segment {damaged}, from record {}", past.heads.last.seq);
                    assert_eq!(found.problems, whole.problems, "{context}");
                    assert_eq!((&found.tail, &found.gaps_owed), (&whole.tail, &whole.gaps_owed), "{context}");
                    let first = all.iter().position(|record| record.header.seq > past.heads.last.seq);
                    assert_eq!(behind, all[first.unwrap_or(all.len())..], "{context}");
                    assert_eq!(found.into_past(), survey_again(&disk), "{context}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 300, "{compared}");
    }

    fn survey_again(disk: &SimulatedDisk) -> Past {
        survey(&disk.storage(), Judgement::default(), &mut |_| {}).unwrap().into_past()
    }
}
