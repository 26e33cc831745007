//! Retirement: the oldest segments go, the chain stays provable, and no crash between leaves anything else.

use ostler_ledger::storage::{
    Call, Crash, Disk, Fault, FaultKind, Folder, Name, SimulatedDisk, SimulatedStorage, Stop,
};
use ostler_ledger::{
    AppendError, Class, Entry, EntryFault, Fold, Ledger, Options, ProveError, Records, RetireError, Retired,
    VerifyOptions, VerifyReport, prove,
};
use serde_json::json;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::history::forge;
use crate::judges::Judges;
use crate::support::*;

pub(crate) type Files = Vec<(String, Vec<u8>)>;
type Harm<'a> = &'a dyn Fn(&mut Vec<u8>);

pub(crate) fn small(boot: &str) -> Options {
    Options { segment_bytes: 1500, ..options(boot) }
}

pub(crate) fn open_small(disk: &SimulatedDisk, boot: &str) -> Ledger<SimulatedStorage> {
    let (ledger, recovery) = Ledger::open(disk.storage(), small(boot)).unwrap();
    assert_eq!((recovery.problems, recovery.degraded, recovery.loss), (Vec::new(), Vec::new(), false));
    ledger
}

/// Six segments; one session lives, one has ended, one was silent since the first segment.
pub(crate) fn sample() -> (SimulatedDisk, Ledger<SimulatedStorage>) {
    let disk = SimulatedDisk::new();
    let mut ledger = open_small(&disk, BOOT);
    turn(&mut ledger, &[entry(Some("silent"), "once"), last_entry("gone", "and away")]);
    while segments(&disk).len() < 6 {
        let number = ledger.head().seq;
        turn(&mut ledger, &[entry(Some("a"), &format!("a {number}")), entry(None, "none")]);
    }
    (disk, ledger)
}

fn carry() -> Vec<Entry> {
    let again = |sid| Entry { sid: Some(sid), ..Entry::new("carry", members(json!({"body": {"text": "state"}}))) };
    vec![again("silent".to_owned()), again("a".to_owned())]
}

pub(crate) fn retire(
    ledger: &mut Ledger<SimulatedStorage>,
    segments: usize,
    keep: bool,
) -> Result<Retired, RetireError> {
    ledger.retire(segments, &carry(), None, &STAMP, keep)
}

/// As both judges say.
pub(crate) fn check(disk: &SimulatedDisk) -> VerifyReport {
    let options = VerifyOptions { boot: None, since: None };
    Judges::new().report(&jsonl(disk), &options, &|| "what is retired".to_owned())
}

pub(crate) fn jsonl(disk: &SimulatedDisk) -> Vec<(String, Vec<u8>)> {
    segments(disk).into_iter().filter(|(file, _bytes)| file.ends_with(".jsonl")).collect()
}

fn archived(disk: &SimulatedDisk) -> Vec<(String, Vec<u8>)> {
    let content = |file: String| {
        let bytes = disk.contents(Name { folder: Folder::Archive, file: &file }).unwrap();
        (file, bytes)
    };
    disk.names(Folder::Archive).into_iter().map(content).collect()
}

#[test]
fn the_oldest_segments_go_and_the_chain_goes_on() {
    for keep in [true, false] {
        let (disk, mut ledger) = sample();
        let before = jsonl(&disk);
        let done = retire(&mut ledger, 3, keep).unwrap();
        assert!(done.left.is_none());
        let bytes: usize = before[..3].iter().map(|(_file, bytes)| bytes.len()).sum();
        assert_eq!(done.bytes, u64::try_from(bytes).unwrap());
        assert_eq!(archived(&disk), if keep { before[..3].to_vec() } else { Vec::new() });
        let first: u64 = before[3].0[..20].parse().unwrap();
        assert_eq!(done.records, first - 1);
        let report = check(&disk);
        assert!(report.ok(), "{report:?}");
        assert_eq!((report.head, report.records), (ledger.head(), ledger.head().seq - first + 1));
        // Each session goes on where it was, the silent one too, and so after an opening.
        for boot in [BOOT, OTHER_BOOT] {
            turn(
                &mut ledger,
                &[entry(Some("silent"), "speaks"), entry(Some("a"), "goes on"), entry(Some("gone"), "new")],
            );
            drop(ledger);
            assert!(check(&disk).ok());
            ledger = open_small(&disk, boot);
        }
        assert_eq!(ledger.record(first - 1).unwrap(), None);
        assert!(matches!(prove(&disk.storage(), first - 1, None), Err(ProveError::Missing(_))));
        prove(&disk.storage(), first, None).unwrap();
        // And again, down to the segment that is written to.
        let (sealed, active) = (ledger.sealed_segments(), jsonl(&disk).pop().unwrap().0);
        retire(&mut ledger, sealed, keep).unwrap();
        assert_eq!(jsonl(&disk)[0].0, active);
        drop(ledger);
        assert!(check(&disk).ok());
        open_small(&disk, BOOT);
    }
}

/// Without its record, beyond it, or with another beginning, it is a loss as ever.
#[test]
fn a_missing_beginning_is_whole_only_if_it_was_retired() {
    let (disk, mut ledger) = sample();
    let files = jsonl(&disk);
    assert_eq!(check(&disk_of(&files[1..])).problems[0].class, Class::Loss);
    retire(&mut ledger, 2, false).unwrap();
    drop(ledger);
    let files = jsonl(&disk);
    assert!(check(&disk_of(&files)).ok());
    let beyond = check(&disk_of(&files[1..]));
    assert_eq!(beyond.problems[0].class, Class::Loss, "{beyond:?}");
    let (_ledger, recovery) = Ledger::open(disk_of(&files[1..]).storage(), small(BOOT)).unwrap();
    assert!(recovery.loss);
    // The retirement of another ledger says nothing of this one.
    let (other, mut ledger) = sample();
    turn(&mut ledger, &[entry(None, "another history")]);
    retire(&mut ledger, 2, false).unwrap();
    let foreign = jsonl(&other).pop().unwrap();
    let mixed = [&files[..files.len() - 1], &[foreign]].concat();
    assert!(!check(&disk_of(&mixed)).ok());
}

#[test]
fn what_cannot_go_is_refused_and_nothing_is_touched() {
    let (disk, mut ledger) = sample();
    let before = jsonl(&disk);
    let sealed = ledger.sealed_segments();
    assert_eq!(sealed, 5);
    for wrong in [0, sealed + 1] {
        assert!(matches!(retire(&mut ledger, wrong, true), Err(RetireError::NotSealed { .. })));
    }
    let one = &carry()[1..];
    let refused = ledger.retire(1, one, None, &STAMP, true);
    assert!(matches!(&refused, Err(RetireError::NotCarried(sid)) if sid == "silent"), "{refused:?}");
    let own = Entry::new("retire", members(json!({"body": {}})));
    let refused = ledger.append(&[own], &STAMP);
    assert!(matches!(refused, Err(AppendError::Entry { fault: EntryFault::Type(_), .. })));
    assert_eq!(jsonl(&disk), before);
    ledger.append(&[entry(None, "not synced")], &STAMP).unwrap();
    assert!(matches!(retire(&mut ledger, 1, true), Err(RetireError::Unsynced)));
    drop(ledger);

    // Damage stays as evidence.
    let mut files = before;
    files[1].1[300] ^= 1;
    let disk = disk_of(&files);
    let (mut ledger, _recovery) = Ledger::open(disk.storage(), small(BOOT)).unwrap();
    assert!(matches!(retire(&mut ledger, 2, true), Err(RetireError::Unprovable(_))));
    assert!(retire(&mut ledger, 1, true).is_ok());
}

/// Also damage that came after the opening, or that an opening from a snapshot does not read.
#[test]
fn field_f15_damage_that_nobody_has_seen_yet_stays_as_evidence() {
    // The seal of the segment before stands in the second line.
    let swap = |bytes: &mut Vec<u8>| {
        let mut lines: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        lines.swap(2, 3);
        *bytes = lines.concat();
    };
    let harm: [Harm<'_>; 4] = [
        &|bytes| *bytes.iter_mut().rev().nth(100).unwrap() ^= 1,
        &|bytes| bytes.truncate(bytes.len() - 10),
        &|bytes| bytes.extend(b"{}\n"),
        &swap,
    ];
    for harm in harm {
        let (disk, mut ledger) = sample();
        let (file, mut bytes) = jsonl(&disk)[1].clone();
        harm(&mut bytes);
        disk.tamper(segment(&file), &bytes);
        let before = jsonl(&disk);
        for keep in [true, false] {
            let refused = retire(&mut ledger, 2, keep);
            assert!(matches!(&refused, Err(RetireError::Unprovable(of)) if *of == file), "{refused:?}");
            assert_eq!((jsonl(&disk), archived(&disk)), (before.clone(), Vec::new()));
        }
        assert!(ledger.may_retire(2).is_err() && retire(&mut ledger, 1, true).is_ok());
    }
}

/// A record that was not written about the files that are there takes none of them: not those of another history, and never the
/// last one, whatever it says.
#[test]
fn a_retire_record_takes_only_the_files_that_it_was_written_about() {
    let (disk, mut ledger) = sample();
    let before = jsonl(&disk);
    retire(&mut ledger, 2, false).unwrap();
    drop(ledger);
    let other = SimulatedDisk::new();
    turn(&mut open_small(&other, BOOT), &[entry(None, "another history")]);
    let mut foreign = [&before[..2], &jsonl(&disk)[..]].concat();
    foreign[0].1 = jsonl(&other)[0].1.clone();
    let disk = disk_of(&foreign);
    let opened = Ledger::open(disk.storage(), small(BOOT));
    assert_eq!(jsonl(&disk)[..2], foreign[..2], "{:?}", opened.err());

    let records: Vec<_> = Records::new(&disk_of(&before).storage()).map(Result::unwrap).collect();
    let head = u64::try_from(records.len()).unwrap();
    for last in [head, head - 1, head + 1, (1 << 53) - 1] {
        let lie = json!({
            "bytes": 1, "carry": head, "count": 1, "first": 1, "first_digest": "a".repeat(64), "from": 1, "kept": false,
            "last": last, "last_digest": "b".repeat(64), "root": "c".repeat(64), "to": 1,
        });
        let forged = forge(&records, |r| {
            if r["seq"] == json!(head) {
                r.extend(members(json!({"t": "retire", "body": lie})));
            }
        });
        let disk = disk_of(&forged);
        let (_ledger, recovery) = Ledger::open(disk.storage(), small(BOOT)).unwrap();
        assert!(recovery.degraded.iter().any(|text| text.contains("retire record")), "{recovery:?}");
        assert_eq!(jsonl(&disk)[..5], forged[..5], "{last}");
        assert_eq!(jsonl(&disk).len(), 6, "{last}");
    }
}

/// Where the archive lies is the operator's business, also while the writer lives.
#[test]
fn an_archive_that_was_moved_elsewhere_is_made_anew() {
    let root = tempfile::tempdir().unwrap();
    let (folder, elsewhere) = (root.path().join("ledger"), root.path().join("elsewhere"));
    let disk = Disk::new(&folder, root.path().join("quarantine"));
    let (mut ledger, _) = Ledger::open(disk, small(BOOT)).unwrap();
    let names = |folder: &Path| fs::read_dir(folder).unwrap().count();
    while ledger.sealed_segments() < 2 {
        ledger.append(&[entry(None, "one of many")], &STAMP).unwrap();
        ledger.sync().unwrap();
    }
    ledger.retire(1, &[], None, &STAMP, true).unwrap();
    fs::rename(folder.join("archive"), &elsewhere).unwrap();
    assert!(ledger.retire(1, &[], None, &STAMP, true).unwrap().left.is_none());
    assert_eq!((names(&elsewhere), names(&folder.join("archive"))), (1, 1));
}

/// What is kept is never written over: another file in the archive is somebody's.
#[test]
fn another_file_in_the_archive_is_left_alone() {
    let (disk, mut ledger) = sample();
    let before = jsonl(&disk);
    let taken = Name { folder: Folder::Archive, file: &before[1].0 };
    disk.tamper(taken, b"precious");
    assert!(matches!(retire(&mut ledger, 2, true), Err(RetireError::Archive(_))));
    assert_eq!((jsonl(&disk), disk.contents(taken)), (before.clone(), Some(b"precious".to_vec())));
    retire(&mut ledger, 1, true).unwrap();
    // The same file may be there already.
    disk.tamper(taken, &before[1].1);
    retire(&mut ledger, 1, true).unwrap();
    assert_eq!(archived(&disk), before[..2]);
}

/// The archive may lie on another file system: then nothing is recorded.
#[test]
fn an_archive_that_takes_no_files_is_refused_before_anything_is_written() {
    let (disk, mut ledger) = sample();
    let before = jsonl(&disk);
    for kind in [ErrorKind::CrossesDevices, ErrorKind::PermissionDenied] {
        disk.inject(Fault { call: Call::Link, after: 0, kind: FaultKind::Error(kind) });
        assert!(matches!(retire(&mut ledger, 2, true), Err(RetireError::Archive(_))));
        assert_eq!((jsonl(&disk), archived(&disk).len()), (before.clone(), 0));
    }
    retire(&mut ledger, 2, true).unwrap();
    assert_eq!(archived(&disk), before[..2]);
}

#[test]
fn what_could_go_and_what_it_needs_is_told_before() {
    let (disk, mut ledger) = sample();
    let files = jsonl(&disk);
    let sealed = ledger.sealed();
    let told: Vec<(String, u64)> = sealed.iter().map(|segment| (segment.file.clone(), segment.bytes)).collect();
    let there: Vec<_> = files.iter().map(|(file, bytes)| (file.clone(), u64::try_from(bytes.len()).unwrap())).collect();
    assert_eq!(told, there[..5]);
    assert!(sealed[0].first == 1 && sealed.windows(2).all(|pair| pair[0].last + 1 == pair[1].first));
    assert_eq!((ledger.open_chains(1), ledger.open_chains(5)), (vec!["silent".to_owned()], vec!["silent".to_owned()]));
    assert!(ledger.may_retire(5).is_ok() && ledger.may_retire(6).is_err() && ledger.may_retire(0).is_err());
    assert_eq!(jsonl(&disk), files);
    let act = json!({"uid": 7});
    let done = ledger.retire(2, &carry(), Some(&act), &STAMP, true).unwrap();
    let record = ledger.record(done.record.seq).unwrap().unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(record.act().unwrap()).unwrap(), act);
    assert_eq!(ledger.sealed()[..3], sealed[2..]);
    assert!(ledger.open_chains(1).is_empty(), "what was carried goes on");
    assert!(check(&disk).ok());
}

/// An opening may come between the record and the end of the files: what it began with is of no use any more.
#[test]
fn an_opening_that_ends_a_retirement_owes_a_snapshot() {
    let (disk, mut ledger) = sample();
    drop(ledger);
    let due = Options { snapshot_tail_bytes: 3000, ..small(BOOT) };
    (ledger, _) = Ledger::open(disk.storage(), due.clone()).unwrap();
    ledger.snapshot(b"state", "fold").unwrap();
    let fourth = jsonl(&disk)[3].0.clone();
    disk.inject(Fault { call: Call::Unlink, after: 1, kind: FaultKind::Error(ErrorKind::Other) });
    assert!(retire(&mut ledger, 3, true).unwrap().left.is_some());
    assert!(!ledger.sealed().iter().any(|segment| segment.first == 1), "what is retired is not offered again");
    drop(ledger);
    struct State(bool);
    impl Fold for State {
        type State = ();
        fn name(&self) -> &str {
            "fold"
        }
        fn read(&mut self, _payload: &[u8]) -> Result<(), String> {
            Ok(())
        }
        fn restore(&mut self, (): ()) {
            self.0 = true;
        }
        fn record(&mut self, _record: ostler_ledger::Record) {}
    }
    let mut state = State(false);
    let (mut ledger, recovery) = Ledger::open_from(disk.storage(), due, &mut state).unwrap();
    assert!(state.0 && recovery.snapshot.is_some() && recovery.degraded.is_empty(), "{recovery:?}");
    assert_eq!(Some(&jsonl(&disk)[0].0), Some(&fourth));
    assert!(ledger.snapshot_due(), "{}", ledger.behind_snapshot());
    ledger.snapshot(b"state", "fold").unwrap();
    drop(ledger);
    let (_ledger, recovery) = Ledger::open_from(disk.storage(), small(BOOT), &mut State(false)).unwrap();
    assert!(recovery.snapshot.is_some(), "{recovery:?}");
}

/// A reader has read the names, and the owner retires files before it comes to them.
#[test]
fn a_reader_goes_on_where_the_ledger_begins_now() {
    let (disk, mut ledger) = sample();
    let storage = disk.storage();
    let all: Vec<u64> = Records::new(&storage).map(|record| record.unwrap().header.seq).collect();
    let mut records = Records::new(&storage);
    let first = records.next().unwrap().unwrap().header.seq;
    retire(&mut ledger, 4, true).unwrap();
    let begins: u64 = jsonl(&disk)[0].0[..20].parse().unwrap();
    let rest: Vec<u64> = records.map(|record| record.unwrap().header.seq).collect();
    assert_eq!(first, 1);
    assert!(rest.contains(&begins) && rest.is_sorted(), "{rest:?}");
    let behind: Vec<u64> = rest.into_iter().filter(|seq| *seq >= begins).collect();
    let there: Vec<u64> = all.into_iter().filter(|seq| *seq >= begins).collect();
    assert_eq!(behind, there, "nothing behind is left out");
}

/// What was set aside of a retired segment is neither stated again nor a problem; a head of what was retired is no loss.
#[test]
fn what_was_said_of_retired_segments_is_over() {
    let disk = SimulatedDisk::new();
    let mut ledger = open_small(&disk, BOOT);
    let kept = turn(&mut ledger, &[entry(Some("silent"), "once")])[0];
    drop(ledger);
    let (file, mut bytes) = jsonl(&disk).remove(0);
    bytes.extend(b"{\"d\":\"no record\"}\n");
    disk.tamper(segment(&file), &bytes);
    let (mut ledger, recovery) = Ledger::open(disk.storage(), small(BOOT)).unwrap();
    turn(&mut ledger, &recovery.owed);
    while jsonl(&disk).len() < 4 {
        turn(&mut ledger, &[entry(Some("a"), "and on")]);
    }
    assert_eq!(check(&disk).problems[0].class, Class::SuspiciousTail);
    retire(&mut ledger, 2, true).unwrap();
    drop(ledger);
    assert!(check(&disk).ok());
    let (_ledger, recovery) = Ledger::open(disk.storage(), small(BOOT)).unwrap();
    assert_eq!((recovery.owed, recovery.degraded), (Vec::new(), Vec::new()));
    let first: u64 = jsonl(&disk)[0].0[..20].parse().unwrap();
    let before = ostler_ledger::Position { seq: first - 1, digest: kept.digest };
    for (since, ok) in [(kept, true), (before, false)] {
        let options = VerifyOptions { boot: None, since: Some(since) };
        let report = Judges::new().report(&jsonl(&disk), &options, &|| "a retired head".to_owned());
        assert_eq!(report.ok(), ok, "{report:?}");
    }
}

/// The process or the machine stops before and after every call of a retirement, and of the opening that finishes it.
#[test]
fn a_crash_at_any_call_leaves_the_old_or_the_new() {
    let mut finished = 0;
    for keep in [true, false] {
        for (stop, crash) in
            [(true, Crash::Kill), (false, Crash::Kill), (true, Crash::PowerLoss), (false, Crash::PowerLoss)]
        {
            for call in 0.. {
                let at = |call| if stop { Stop::Before(call) } else { Stop::After(call) };
                let (disk, mut ledger) = sample();
                let before = jsonl(&disk);
                disk.stop_at(at(call));
                let done = retire(&mut ledger, 3, keep);
                drop(ledger);
                disk.crash(crash, call);
                let context = format!("keep {keep}, {stop}, {crash:?}, call {call}");
                whole(&disk, &before, keep, &context);
                let done = done.is_ok_and(|done| done.left.is_none());
                for again in 0..if done { 0 } else { 40 } {
                    let boot = format!("boot {again}");
                    disk.stop_at(at(again));
                    let opened = Ledger::open(disk.storage(), small(&boot)).is_ok();
                    disk.crash(crash, again + 1000 * call);
                    whole(&disk, &before, keep, &format!("{context}, then call {again} of an opening"));
                    if opened {
                        break;
                    }
                }
                let ledger = open_small(&disk, "boot last");
                drop(ledger);
                let left = whole(&disk, &before, keep, &context);
                assert!(left == 0 || left == 3, "{context}: {left} are gone");
                finished += usize::from(left == 3);
                if done {
                    break;
                }
            }
        }
    }
    assert!(finished > 20, "{finished}");
}

/// Verifies, and nothing that is to be kept is gone; how many segments are.
pub(crate) fn whole(disk: &SimulatedDisk, before: &[(String, Vec<u8>)], keep: bool, context: &str) -> usize {
    // What a power loss tears is told from forgery by the boot that follows.
    let options = VerifyOptions { boot: Some("the boot behind it".to_owned()), since: None };
    let report = ostler_ledger::verify(&disk.storage(), &options).unwrap();
    assert!(report.ok(), "{context}: {report:?}");
    let files = jsonl(disk);
    let gone = before.iter().take_while(|old| !files.iter().any(|(file, _bytes)| *file == old.0)).count();
    assert_eq!(files[0].0, before[gone].0, "{context}: the oldest go first");
    if keep {
        assert_eq!(archived(disk)[..gone], before[..gone], "{context}");
    }
    gone
}
