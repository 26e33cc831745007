//! Snapshots: what is opened from one equals what a replay finds; whatever is wrong with one, an older one or the
//! history takes its place. (Crashes in taking one are among the scripted crashes.)

use std::io::ErrorKind;

use ostler_ledger::storage::{Call, Fault, FaultKind, Folder, SimulatedDisk, SimulatedStorage};
use ostler_ledger::{
    DroppedSnapshot, Entry, Fold, Ledger, Options, Position, Record, Recovery, SnapshotError, VerifyOptions, verify,
};

use crate::support::*;

type Opened = (Ledger<SimulatedStorage>, Recovery);

fn small(boot: &str) -> Options {
    Options { segment_bytes: 3_000, snapshot_tail_bytes: 1, ..options(boot) }
}

fn open_from(disk: &SimulatedDisk, fold: &mut Texts) -> Opened {
    Ledger::open_from(disk.storage(), small(BOOT), fold).unwrap()
}

fn replayed(disk: &SimulatedDisk) -> (Ledger<SimulatedStorage>, Vec<String>) {
    let mut fold = Texts::default();
    let (ledger, recovery) =
        Ledger::open_folding(disk.storage(), small(BOOT), &mut |record| fold.add(&record)).unwrap();
    assert_eq!((recovery.snapshot, recovery.folded), (None, recovery.records));
    (ledger, fold.texts)
}

fn write(ledger: &mut Ledger<SimulatedStorage>, fold: &mut Texts, turns: std::ops::Range<u32>) {
    for number in turns {
        let sid = ["a", "b", "c"][usize::try_from(number % 3).unwrap()];
        let batch = [entry(Some(sid), &format!("{number} {}", "p".repeat(300))), entry(None, &format!("{number}+"))];
        turn(ledger, &batch);
        for entry in &batch {
            fold.texts.push(entry.members.get("body").unwrap()["text"].as_str().unwrap().to_owned());
        }
    }
}

/// A ledger of several segments with two snapshots and a tail behind the newer.
fn sample() -> (SimulatedDisk, [Position; 2], Vec<String>) {
    let disk = SimulatedDisk::new();
    let (mut ledger, recovery) = open(&disk);
    assert!(recovery.owed.is_empty());
    drop(ledger);
    let mut fold = Texts::default();
    ledger = open_from(&disk, &mut fold).0;
    let mut taken = Vec::new();
    for end in [8, 16] {
        write(&mut ledger, &mut fold, end - 8..end);
        taken.push(ledger.snapshot(&fold.payload(), FOLD).unwrap());
    }
    write(&mut ledger, &mut fold, 16..21);
    drop(ledger);
    let copy = disk_of(&segments(&disk));
    (copy, taken.try_into().unwrap(), fold.texts)
}

fn file_of(position: Position) -> String {
    format!("snapshot-{:020}", position.seq)
}

fn clauses(dropped: &[DroppedSnapshot]) -> Vec<&str> {
    dropped.iter().map(|dropped| dropped.why.as_str()).collect()
}

/// Opens from snapshots and by a replay, and compares everything that can be told apart.
fn check(disk: &SimulatedDisk, texts: &[String], context: &str) -> Recovery {
    let (ledger, plain) = replayed(disk);
    assert_eq!(plain, texts, "{context}");
    let (head, next) = (ledger.head(), ledger.next_seq());
    drop(ledger);
    let mut fold = Texts::default();
    let (mut ledger, recovery) = open_from(disk, &mut fold);
    assert_eq!(fold.texts, texts, "{context}");
    assert_eq!((ledger.head(), ledger.next_seq()), (head, next), "{context}");
    assert_eq!((recovery.problems.len(), recovery.owed.len()), (0, 0), "{context}");
    assert_eq!((recovery.tail.as_ref(), recovery.degraded.len()), (None, 0), "{context}");
    // The chains go on as they would have.
    turn(&mut ledger, &[entry(Some("a"), "on"), entry(Some("new"), "on")]);
    let report = verify(&disk.storage(), &VerifyOptions::default()).unwrap();
    assert!(report.ok() && report.records == recovery.records + 2 + (next - head.seq - 1), "{context}: {report:?}");
    recovery
}

#[test]
fn an_opening_begins_with_the_newest_snapshot_and_reads_only_what_lies_behind() {
    let (disk, taken, texts) = sample();
    let recovery = check(&disk, &texts, "sound");
    assert_eq!((recovery.snapshot, recovery.dropped_snapshots), (Some(taken[1]), Vec::new()));
    let head = recovery.records;
    assert_eq!(recovery.folded, head - taken[1].seq);
    // Damage of what lies before: of the same length, so only a reading would see it.
    let (disk, taken, texts) = sample();
    let (file, mut bytes) = segments(&disk).remove(0);
    bytes[100] ^= 1;
    disk.tamper(segment(&file), &bytes);
    let mut fold = Texts::default();
    let (_ledger, recovery) = open_from(&disk, &mut fold);
    assert_eq!((fold.texts, recovery.snapshot, recovery.problems), (texts, Some(taken[1]), Vec::new()));
    assert_eq!(verify(&disk.storage(), &VerifyOptions::default()).unwrap().problems.len(), 1);
}

/// The fold runs beside the walk, some thousand records behind it at the most.
#[test]
fn what_lies_behind_a_snapshot_is_folded_in_order_however_much_it_is() {
    let disk = SimulatedDisk::new();
    let large = Options { snapshot_tail_bytes: 1, ..options(BOOT) };
    let mut fold = Texts::default();
    let (mut ledger, _recovery) = Ledger::open_from(disk.storage(), large.clone(), &mut fold).unwrap();
    write(&mut ledger, &mut fold, 0..1);
    let taken = ledger.snapshot(&fold.payload(), FOLD).unwrap();
    for number in 0..10 {
        let batch: Vec<Entry> = (0..500).map(|each| entry(None, &format!("{number} {each}"))).collect();
        turn(&mut ledger, &batch);
        fold.texts.extend((0..500).map(|each| format!("{number} {each}")));
    }
    drop(ledger);
    let mut found = Texts::default();
    let (_ledger, recovery) = Ledger::open_from(disk.storage(), large, &mut found).unwrap();
    assert_eq!((recovery.snapshot, recovery.folded), (Some(taken), 5_000));
    assert!(found.texts == fold.texts);
}

/// A fold that fails as a program fails.
struct Panics;

impl Fold for Panics {
    type State = ();

    fn name(&self) -> &str {
        FOLD
    }

    fn read(&mut self, _payload: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn restore(&mut self, (): ()) {}

    fn record(&mut self, record: Record) {
        panic!("at {}", record.header.seq)
    }
}

#[test]
fn a_panic_of_the_fold_is_the_callers() {
    let (disk, taken, _texts) = sample();
    let opening = || drop(Ledger::open_from(disk.storage(), small(BOOT), &mut Panics));
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(opening)).unwrap_err();
    assert_eq!(*panic.downcast::<String>().unwrap(), format!("at {}", taken[1].seq + 1));
}

#[test]
fn every_damaged_byte_of_a_snapshot_is_seen_and_the_older_one_is_used() {
    let (sound, taken, texts) = sample();
    let files = segments(&sound);
    let file = file_of(taken[1]);
    let bytes = sound.contents(segment(&file)).unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let disk = disk_of(&files);
        disk.tamper(segment(&file), &damaged);
        let mut fold = Texts::default();
        let (_ledger, recovery) = open_from(&disk, &mut fold);
        assert_eq!((recovery.snapshot, &fold.texts), (Some(taken[0]), &texts), "byte {at}");
        assert_eq!(recovery.dropped_snapshots.len(), 1, "byte {at}");
        assert!(disk.contents(segment(&file)).is_none(), "a useless one is removed");
    }
}

#[test]
fn every_length_of_a_snapshot_but_its_own_is_seen_and_the_history_is_read() {
    let (sound, taken, texts) = sample();
    sound.remove(segment(&file_of(taken[0])));
    let files = segments(&sound);
    let file = file_of(taken[1]);
    let bytes = sound.contents(segment(&file)).unwrap();
    let longer = [&bytes[..], b"\n"].concat();
    for len in (0..bytes.len()).chain([longer.len()]) {
        let disk = disk_of(&files);
        disk.tamper(segment(&file), &longer[..len]);
        let mut fold = Texts::default();
        let (_ledger, recovery) = open_from(&disk, &mut fold);
        assert_eq!((recovery.snapshot, recovery.folded), (None, recovery.records), "{len}");
        assert_eq!((recovery.dropped_snapshots.len(), &fold.texts), (1, &texts), "{len}");
    }
}

/// The ledger is not the one that the snapshot was taken of.
#[test]
fn a_snapshot_is_not_used_on_segments_that_are_not_those_it_lists() {
    let gone = "the segments before its place are not those that it lists";
    let moved = "its last record does not stand at its place";
    type Change = (&'static str, fn(&SimulatedDisk, [Position; 2]), [&'static str; 2]);
    let changes: [Change; 5] = [
        ("a segment is missing", |disk, _| disk.remove(segment(&segments(disk)[1].0)), [gone, gone]),
        (
            "a segment is shorter",
            |disk, _| {
                let (file, bytes) = segments(disk).swap_remove(1);
                disk.tamper(segment(&file), &bytes[..bytes.len() - 1]);
            },
            [gone, gone],
        ),
        (
            "a segment is longer",
            |disk, _| {
                let (file, bytes) = segments(disk).swap_remove(1);
                disk.tamper(segment(&file), &[&bytes[..], b"x"].concat());
            },
            [gone, gone],
        ),
        (
            "an unlisted segment stands between",
            |disk, _| disk.tamper(segment("00000000000000000002.jsonl"), b""),
            [gone, gone],
        ),
        (
            "the last record of the newer one is another",
            |disk, [_, newer]| {
                let mut files: Vec<_> =
                    segments(disk).into_iter().filter(|(file, _)| file.ends_with(".jsonl")).collect();
                files.retain(|(file, _)| file[..20].parse::<u64>().unwrap() <= newer.seq);
                let (file, bytes) = files.pop().unwrap();
                let text = String::from_utf8(bytes).unwrap();
                let other = text.replace(&newer.digest.to_string(), &"0".repeat(64));
                assert_ne!(text, other);
                disk.tamper(segment(&file), other.as_bytes());
            },
            [moved, ""],
        ),
    ];
    for (what, change, expected) in changes {
        let (disk, taken, _texts) = sample();
        change(&disk, taken);
        let mut fold = Texts::default();
        let (ledger, recovery) = open_from(&disk, &mut fold);
        let expected: Vec<&str> = expected.into_iter().filter(|why| !why.is_empty()).collect();
        assert_eq!(clauses(&recovery.dropped_snapshots), expected, "{what}");
        assert_eq!(recovery.snapshot, if expected.len() == 2 { None } else { Some(taken[0]) }, "{what}");
        assert_eq!(fold.texts, texts(&ledger), "{what}");
    }
}

#[test]
fn line_feeds_behind_a_segment_are_fill_and_no_reason_to_drop_a_snapshot() {
    let (disk, taken, texts) = sample();
    let (file, bytes) = segments(&disk).remove(0);
    disk.tamper(segment(&file), &[&bytes[..], b"\n\n\n"].concat());
    let mut fold = Texts::default();
    let (_ledger, recovery) = open_from(&disk, &mut fold);
    assert_eq!((recovery.snapshot, fold.texts), (Some(taken[1]), texts));
}

#[test]
fn a_snapshot_of_another_ledger_another_fold_or_a_later_time_is_not_used() {
    // Another ledger, alike in everything but its id.
    let (disk, taken, texts) = sample();
    let other = SimulatedDisk::new();
    let other_options = Options { new_ledger_id: "best-ledger".to_owned(), ..small(BOOT) };
    let mut fold = Texts::default();
    let (mut ledger, _recovery) = Ledger::open_from(other.storage(), other_options, &mut fold).unwrap();
    write(&mut ledger, &mut fold, 0..16);
    assert_eq!(ledger.snapshot(&fold.payload(), FOLD).unwrap().seq, taken[1].seq);
    let (file, bytes) = segments(&other).pop().unwrap();
    disk.tamper(segment(&file), &bytes);
    let recovery = check(&disk, &texts, "of another ledger");
    assert_eq!(clauses(&recovery.dropped_snapshots), ["it belongs to another ledger"]);
    assert_eq!(recovery.snapshot, Some(taken[0]));

    // Another fold.
    let (disk, _taken, texts) = sample();
    let mut fold = Texts { name: "texts 2".to_owned(), ..Texts::default() };
    let (_ledger, recovery) = open_from(&disk, &mut fold);
    assert_eq!(clauses(&recovery.dropped_snapshots), ["it was taken by \"texts 1\"", "it was taken by \"texts 1\""]);
    assert_eq!(fold.texts, texts);

    // A ledger that was rolled back to before the newer snapshot.
    let (disk, taken, texts) = sample();
    let files: Vec<_> = segments(&disk).into_iter().filter(|(file, _)| file.ends_with(".jsonl")).collect();
    let rest = files.iter().filter(|(file, _)| file[..20].parse::<u64>().unwrap() > taken[0].seq);
    rest.for_each(|(file, _)| disk.remove(segment(file)));
    let mut fold = Texts::default();
    let (_ledger, recovery) = open_from(&disk, &mut fold);
    assert_eq!((recovery.snapshot, recovery.dropped_snapshots.len()), (Some(taken[0]), 1));
    assert!(texts.starts_with(&fold.texts));

    // A name that does not fit.
    let (disk, taken, texts) = sample();
    let bytes = disk.contents(segment(&file_of(taken[1]))).unwrap();
    disk.tamper(segment("snapshot-00000000000000000099"), &bytes);
    let recovery = check(&disk, &texts, "misnamed");
    assert_eq!(
        (recovery.dropped_snapshots[0].why.as_str(), recovery.snapshot),
        ("its name does not fit its content", Some(taken[1]))
    );
}

#[test]
fn what_the_fold_refuses_is_dropped_and_a_replay_can_be_asked_for() {
    let (disk, taken, texts) = sample();
    let mut fold = Texts { refuse: 1, ..Texts::default() };
    let (ledger, recovery) = open_from(&disk, &mut fold);
    assert_eq!(clauses(&recovery.dropped_snapshots), ["its payload cannot be used: refused"]);
    assert_eq!((recovery.snapshot, &fold.texts), (Some(taken[0]), &texts));
    drop(ledger);
    let mut fold = Texts::default();
    let replay = Options { replay: true, ..small(BOOT) };
    let (_ledger, recovery) = Ledger::open_from(disk.storage(), replay, &mut fold).unwrap();
    assert_eq!((recovery.snapshot, recovery.folded, fold.texts), (None, recovery.records, texts));
    assert_eq!(clauses(&recovery.dropped_snapshots), ["a replay was asked for"]);
    assert!(!disk.names(Folder::Ledger).iter().any(|file| file.starts_with("snapshot")));
}

/// Holes, statements and sessions from before the snapshot still count behind it.
#[test]
fn what_was_wrong_before_a_snapshot_is_still_known_behind_it() {
    let (disk, _taken, _texts) = sample();
    let (file, mut bytes) = segments(&disk).remove(0);
    let at = bytes.windows(8).position(|window| window == b"\"text\":\"").unwrap();
    bytes[at + 9] ^= 1;
    disk.tamper(segment(&file), &bytes);
    let mut fold = Texts::default();
    let replay = Options { replay: true, ..small(BOOT) };
    let (mut ledger, recovery) = Ledger::open_from(disk.storage(), replay, &mut fold).unwrap();
    assert!(!recovery.owed.is_empty() && !recovery.damaged_sessions.is_empty());
    turn(&mut ledger, &recovery.owed);
    ledger.snapshot(&fold.payload(), FOLD).unwrap();
    write(&mut ledger, &mut fold, 30..32);
    drop(ledger);
    let mut again = Texts::default();
    let (_ledger, found) = open_from(&disk, &mut again);
    assert!(found.snapshot.is_some() && found.owed.is_empty());
    assert_eq!(
        (&found.problems, &found.damaged_sessions, &found.degraded),
        (&recovery.problems, &recovery.damaged_sessions, &recovery.degraded)
    );
    assert_eq!(again.texts, fold.texts);
}

#[test]
fn two_are_kept_and_an_unfinished_one_is_removed() {
    let (disk, taken, _texts) = sample();
    disk.tamper(segment("snapshot.new"), b"half of on");
    let mut fold = Texts::default();
    let (mut ledger, _recovery) = open_from(&disk, &mut fold);
    assert!(disk.contents(segment("snapshot.new")).is_none());
    let third = ledger.snapshot(&fold.payload(), FOLD).unwrap();
    let names: Vec<String> =
        disk.names(Folder::Ledger).into_iter().filter(|file| file.starts_with("snapshot")).collect();
    assert_eq!(names, [file_of(taken[1]), file_of(third)]);
}

#[test]
fn a_snapshot_is_taken_only_of_what_is_synced_and_only_when_enough_lies_behind_the_last() {
    let disk = SimulatedDisk::new();
    let options = Options { snapshot_tail_bytes: 4_000, ..options(BOOT) };
    let (mut ledger, _recovery) = Ledger::open_from(disk.storage(), options.clone(), &mut Texts::default()).unwrap();
    assert!(matches!(ledger.snapshot(b"", FOLD), Err(SnapshotError::NotDue)));
    let long = entry(None, &"x".repeat(5_000));
    ledger.append(std::slice::from_ref(&long), &STAMP).unwrap();
    assert!(!ledger.snapshot_due() && matches!(ledger.snapshot(b"", FOLD), Err(SnapshotError::Unsynced)));
    ledger.sync().unwrap();
    assert!(ledger.snapshot_due());
    ledger.snapshot(b"", FOLD).unwrap();
    assert!(!ledger.snapshot_due());
    turn(&mut ledger, &[entry(None, "short")]);
    assert!(matches!(ledger.snapshot(b"", FOLD), Err(SnapshotError::NotDue)));
    drop(ledger);
    // An opening knows how much lies behind the one that it used, and without one how long the history is.
    let (ledger, _recovery) = Ledger::open_from(disk.storage(), options.clone(), &mut Texts::default()).unwrap();
    assert!(!ledger.snapshot_due());
    drop(ledger);
    let replay = Options { replay: true, ..options };
    let (mut ledger, _recovery) = Ledger::open_from(disk.storage(), replay, &mut Texts::default()).unwrap();
    assert!(ledger.snapshot_due());
    disk.inject(Fault { call: Call::SyncData, after: 0, kind: FaultKind::Error(ErrorKind::Other) });
    ledger.append(&[entry(None, "lost")], &STAMP).unwrap();
    assert!(ledger.sync().is_err());
    assert!(!ledger.snapshot_due() && matches!(ledger.snapshot(b"", FOLD), Err(SnapshotError::Poisoned)));
}

/// A snapshot that fails at any call is none, and the ledger goes on as if nobody had tried.
#[test]
fn a_failure_of_any_call_costs_the_snapshot_and_nothing_else() {
    let errors = [ErrorKind::StorageFull, ErrorKind::Other];
    let calls = [Call::Create, Call::Write, Call::SyncData, Call::Rename, Call::SyncFolder];
    for (call, error) in calls.into_iter().flat_map(|call| errors.map(|error| (call, error))) {
        let (disk, taken, texts) = sample();
        let mut fold = Texts::default();
        let (mut ledger, _recovery) = open_from(&disk, &mut fold);
        disk.inject(Fault { call, after: 0, kind: FaultKind::Error(error) });
        let failed = ledger.snapshot(&fold.payload(), FOLD);
        assert!(matches!(failed, Err(SnapshotError::Storage(ref why)) if why.kind() == error), "{call:?}: {failed:?}");
        assert_eq!(disk.faults_left(), 0);
        assert!(disk.contents(segment("snapshot.new")).is_none(), "{call:?}");
        assert!(ledger.snapshot_due(), "{call:?}: it is tried again");
        turn(&mut ledger, &[entry(Some("a"), "goes on")]);
        let again = ledger.snapshot(&[&fold.payload()[..], b"\ngoes on"].concat(), FOLD).unwrap();
        drop(ledger);
        let texts = [texts, vec!["goes on".to_owned()]].concat();
        let recovery = check(&disk, &texts, &format!("{call:?}"));
        assert_eq!(recovery.snapshot, Some(again));
        assert!(again.seq > taken[1].seq);
    }
}

/// Entries of a batch that failed are no part of what a snapshot says.
#[test]
fn a_failed_append_leaves_no_trace_in_a_snapshot() {
    let (disk, _taken, _texts) = sample();
    let mut fold = Texts::default();
    let (mut ledger, _recovery) = open_from(&disk, &mut fold);
    disk.inject(Fault { call: Call::Write, after: 0, kind: FaultKind::Error(ErrorKind::StorageFull) });
    let gap = Entry::new("gap", members(serde_json::json!({"body": {"first": 1, "sessions": ["a"]}})));
    assert!(ledger.append(&[entry(Some("a"), "no"), gap], &STAMP).is_err());
    ledger.snapshot(&fold.payload(), FOLD).unwrap();
    drop(ledger);
    let recovery = check(&disk, &fold.texts, "after a failed append");
    assert_eq!(recovery.folded, 0);
}
