//! Seals: what they say, when a file is closed for good, and that a wrong one does not pass, however sound its chain is.

use std::io::ErrorKind;

use ostler_ledger::storage::{Call, Crash, Fault, FaultKind, Folder, SimulatedDisk, SimulatedStorage};
use ostler_ledger::{
    AppendError, Class, Entry, EntryFault, Ledger, Options, Record, VerifyOptions, VerifyReport, verify,
};
use serde_json::{Map, Value, json};

use crate::history::{forge, tree};
use crate::support::*;

fn small(boot: &str) -> Options {
    Options { segment_bytes: 2000, ..options(boot) }
}

fn open_small(disk: &SimulatedDisk) -> (Ledger<SimulatedStorage>, ostler_ledger::Recovery) {
    Ledger::open(disk.storage(), small(BOOT)).unwrap()
}

/// Four segments; the last is not full.
fn sample() -> (SimulatedDisk, Vec<Record>) {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open_small(&disk);
    while segments(&disk).len() < 4 {
        let number = ledger.head().seq;
        turn(&mut ledger, &[entry(Some("a"), &format!("a {number}")), entry(None, &format!("none {number}"))]);
    }
    turn(&mut ledger, &[entry(None, "so that the last seal is known to be synced")]);
    let records = records(&ledger);
    (disk, records)
}

fn body(record: &Record) -> Value {
    serde_json::from_str(record.body().unwrap()).unwrap()
}

fn check(disk: &SimulatedDisk) -> VerifyReport {
    verify(&disk.storage(), &VerifyOptions { boot: Some(BOOT.to_owned()), since: None }).unwrap()
}

#[test]
fn a_seal_closes_the_segment_before_its_own() {
    let (disk, records) = sample();
    let files = segments(&disk);
    let mut prior: Option<String> = None;
    for (index, (file, _bytes)) in files.iter().enumerate() {
        let first: u64 = file[..20].parse().unwrap();
        let at = |seq: u64| &records[usize::try_from(seq).unwrap() - 1];
        assert_eq!(at(first).header.t, "segment");
        assert_eq!(at(first + 1).header.t == "seal", index > 0);
        let Some((before, _bytes)) = index.checked_sub(1).map(|before| &files[before]) else { continue };
        let closed: Vec<String> =
            (before[..20].parse().unwrap()..first).map(|seq| at(seq).digest.to_string()).collect();
        let mut expected =
            json!({"count": closed.len(), "last": closed.last(), "number": index, "root": tree(&closed)});
        if let Some(prior) = &prior {
            expected["prior"] = json!(prior);
        }
        let seal = at(first + 1);
        assert_eq!((body(seal), seal.header.end), (expected, false));
        prior = Some(seal.digest.to_string());
    }
    assert!(check(&disk).ok());
    // The forger below writes the same, so what it changes is all that is wrong with what it forges.
    assert_eq!(forge(&records, |_r| {}), files);
}

/// Not a moment earlier than the next segment is on the disk.
#[test]
fn a_file_is_closed_once_the_next_one_is_durable() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open_small(&disk);
    turn(&mut ledger, &[entry(None, &"x".repeat(2000))]);
    let sealed = |disk: &SimulatedDisk| {
        segments(disk).iter().map(|(file, _bytes)| disk.is_sealed(segment(file))).collect::<Vec<bool>>()
    };
    ledger.append(&[entry(None, "in the next")], &STAMP).unwrap();
    assert_eq!(sealed(&disk), [false, false]);
    ledger.sync().unwrap();
    assert_eq!(sealed(&disk), [true, false]);
    let calls = disk.calls();
    turn(&mut ledger, &[entry(None, "and on")]);
    assert_eq!(disk.calls() - calls, 2, "one write and one sync");
}

#[test]
fn what_keeps_a_file_from_being_closed_stops_nothing_and_is_done_later() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open_small(&disk);
    turn(&mut ledger, &[entry(None, &"x".repeat(2000))]);
    let refuse = |after| disk.inject(Fault { call: Call::Seal, after, kind: FaultKind::Error(ErrorKind::Other) });
    refuse(0);
    turn(&mut ledger, &[entry(None, "in the next")]);
    drop(ledger);
    let first = segments(&disk)[0].0.clone();
    assert!(!disk.is_sealed(segment(&first)));
    refuse(0);
    let (_ledger, recovery) = open_small(&disk);
    assert!(recovery.problems.is_empty());
    assert!(matches!(recovery.degraded.as_slice(), [text] if text.contains(&first)), "{:?}", recovery.degraded);
    drop(_ledger);
    let (_ledger, recovery) = open_small(&disk);
    assert_eq!((recovery.degraded, disk.is_sealed(segment(&first))), (Vec::new(), true));
}

/// A copy in which everything is protected, and one whose last segment was taken away: the last one goes on.
#[test]
fn a_closed_file_that_is_the_last_is_opened_again() {
    let (whole, _records) = sample();
    for taken in 0..2 {
        let mut files = segments(&whole);
        files.truncate(files.len() - taken);
        let disk = disk_of(&files);
        files.iter().for_each(|(file, _bytes)| ostler_ledger::Storage::seal(&disk.storage(), segment(file)).unwrap());
        let (mut ledger, recovery) = open_small(&disk);
        assert_eq!((recovery.problems, recovery.degraded), (Vec::new(), Vec::new()));
        turn(&mut ledger, &[entry(Some("a"), "goes on")]);
        drop(ledger);
        assert!(check(&disk).ok());
        let names = disk.names(Folder::Ledger);
        let (last, closed) = names.split_last().unwrap();
        assert!(closed.iter().all(|file| disk.is_sealed(segment(file))) && !disk.is_sealed(segment(last)));
    }
}

/// Not even the newest bytes of a closed file are written again: its records are proven durable.
#[test]
fn an_opening_writes_to_no_closed_file() {
    let (disk, _records) = sample();
    let files = segments(&disk);
    disk.crash(Crash::Kill, 0);
    let (_ledger, _recovery) = open_small(&disk);
    assert_eq!(segments(&disk), files);
    assert!(files[..3].iter().all(|(file, _bytes)| disk.is_sealed(segment(file))));
}

#[test]
fn a_wrong_seal_breaks_the_chain_however_sound_it_is() {
    let (_disk, records) = sample();
    let seals: Vec<u64> =
        records.iter().filter(|record| record.header.t == "seal").map(|record| record.header.seq).collect();
    assert_eq!(seals.len(), 3);
    let other = "5a".repeat(32);
    let wrong = [
        json!({"count": 3}),
        json!({"count": null}),
        json!({"root": other}),
        json!({"root": null}),
        json!({"last": other}),
        json!({"number": 9}),
        json!({"prior": other}),
        json!({"surprise": 1}),
    ];
    for (seal, change) in seals.iter().flat_map(|seal| wrong.iter().map(move |change| (seal, change))) {
        let files = forge(&records, |r| {
            if r["seq"] == json!(seal) {
                let body = r["body"].as_object_mut().unwrap();
                body.extend(members(change.clone()));
                body.retain(|_name, value| !value.is_null());
            }
        });
        broken_at(&files, *seal, &format!("seal {seal}: {change}"));
    }
    for seal in &seals[1..] {
        let files = forge(&records, |r| {
            if r["seq"] == json!(seal) {
                r["body"].as_object_mut().unwrap().remove("prior");
            }
        });
        broken_at(&files, *seal, "a seal that leaves out the one before");
        let files = forge(&records, |r| {
            if r["seq"] == json!(seal) {
                r.insert("t".to_owned(), json!("note"));
            }
        });
        broken_at(&files, *seal, "no seal where the ledger seals");
    }
}

#[test]
fn a_segment_record_that_does_not_fit_breaks_the_chain_however_sound_it_is() {
    let (_disk, records) = sample();
    let opening: Vec<u64> =
        records.iter().filter(|record| record.header.t == "segment").map(|record| record.header.seq).collect();
    for (seq, change) in [
        (opening[0], json!({"number": 2})),
        (opening[1], json!({"number": 3})),
        (opening[3], json!({"number": 3})),
        (opening[2], json!({"previous": "5a".repeat(32)})),
        (opening[2], json!({"previous": null})),
        (opening[0], json!({"previous": "5a".repeat(32)})),
    ] {
        let files = forge(&records, |r| {
            if r["seq"] == json!(seq) {
                let body = r["body"].as_object_mut().unwrap();
                body.extend(members(change.clone()));
                body.retain(|_name, value| !value.is_null());
            }
        });
        let report = check(&disk_of(&files));
        let first = report.problems.first().map(|problem| (problem.class, problem.seq));
        assert_eq!(first, Some((Class::ChainBroken, Some(seq))), "{change}: {report:?}");
    }
    // A seal anywhere else is none.
    let files = forge(&records, |r| {
        if r["seq"] == json!(4) {
            let body = json!({"count": 1, "last": "5a".repeat(32), "number": 1, "root": "5a".repeat(32)});
            r.extend(Map::from_iter([("t".to_owned(), json!("seal")), ("body".to_owned(), body)]));
        }
    });
    broken_at(&files, 4, "a seal inside");
}

/// That, and nothing else, and the ledger goes on.
fn broken_at(files: &[(String, Vec<u8>)], seq: u64, context: &str) {
    let disk = disk_of(files);
    let report = check(&disk);
    let found: Vec<_> = report.problems.iter().map(|problem| (problem.class, problem.seq)).collect();
    assert_eq!(found, [(Class::ChainBroken, Some(seq))], "{context}: {report:?}");
    assert_eq!((report.problems[0].missing, report.problems[0].sessions.len()), (0, 0), "{context}");
    let (mut ledger, recovery) = open_small(&disk);
    assert!(!recovery.degraded.is_empty() && recovery.damaged_sessions.is_empty(), "{context}");
    assert_eq!(records(&ledger).len(), usize::try_from(report.records).unwrap(), "{context}: no record is lost");
    turn(&mut ledger, &[recovery.owed, vec![entry(Some("a"), "goes on")]].concat());
    drop(ledger);
    assert_eq!(check(&disk).problems.len(), 1, "{context}");
}

/// Damage that an opening finds in the segment that it goes on with: nobody knows all digests of it any more.
#[test]
fn a_segment_with_damage_is_closed_without_a_root() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open_small(&disk);
    (0..4).for_each(|number| drop(turn(&mut ledger, &[entry(Some("a"), &format!("{number}"))])));
    drop(ledger);
    let (file, bytes) = segments(&disk).remove(0);
    let mut damaged = bytes.clone();
    damaged[line_starts(&bytes)[2] + 90] ^= 1;
    let disk = disk_of(&[(file.clone(), damaged)]);
    let (mut ledger, recovery) = open_small(&disk);
    turn(&mut ledger, &recovery.owed);
    while segments(&disk).len() < 3 {
        turn(&mut ledger, &[entry(Some("a"), "more")]);
    }
    let seals: Vec<Value> = records(&ledger).iter().filter(|record| record.header.t == "seal").map(body).collect();
    assert_eq!((&seals[0]["count"], &seals[0]["root"]), (&Value::Null, &Value::Null));
    assert!(seals[0]["last"].is_string() && seals[1]["root"].is_string() && seals[1]["prior"].is_string());
    let found: Vec<Class> = check(&disk).problems.iter().map(|problem| problem.class).collect();
    assert_eq!(found, [Class::Damage]);

    // The damaged line is restored from a copy: nothing is wrong any more.
    let mut files = segments(&disk);
    files[0].1[..bytes.len()].copy_from_slice(&bytes);
    assert!(check(&disk_of(&files)).ok());
}

/// The record that tells the last segment's number is not its first line, and the files before it are gone.
#[test]
fn a_segment_whose_number_cannot_be_counted_is_closed_under_its_own() {
    let (disk, _records) = sample();
    let mut files = segments(&disk);
    files.drain(1..3);
    files[1].1.splice(0..0, *b"garbage\n");
    let disk = disk_of(&files);
    let (mut ledger, recovery) = open_small(&disk);
    let problems = recovery.problems;
    turn(&mut ledger, &[recovery.owed, vec![entry(Some("a"), "acknowledged")]].concat());
    drop(ledger);
    let (ledger, again) = open_small(&disk);
    assert_eq!((again.problems, again.tail, again.owed.len()), (problems, None, 0));
    assert_eq!(texts(&ledger).last().map(String::as_str), Some("acknowledged"));
}

/// Damage after a segment was closed is damage, and its seal says nothing more.
#[test]
fn damage_beside_a_seal_is_damage_alone() {
    let (disk, records) = sample();
    let files = segments(&disk);
    let mut seen = 0;
    for (index, (_file, bytes)) in files[..3].iter().enumerate() {
        for start in line_starts(bytes).into_iter().filter(|start| *start < bytes.len()) {
            let mut files = files.clone();
            files[index].1[start + 100] ^= 1;
            let classes: Vec<Class> = check(&disk_of(&files)).problems.iter().map(|problem| problem.class).collect();
            assert_eq!(classes, [Class::Damage], "segment {index}, line at {start}");
            seen += 1;
        }
    }
    assert!(seen > 10 && seen < records.len());
}

/// The golden ledger of before: it stays as it is, and what is closed from now on is sealed.
#[test]
fn a_ledger_of_before_is_sealed_from_here_on() {
    let folder = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1");
    let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap())
        .map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap()))
        .collect();
    files.sort();
    let disk = disk_of(&files);
    let (mut ledger, recovery) = Ledger::open(disk.storage(), small(BOOT)).unwrap();
    assert_eq!((recovery.problems, recovery.degraded), (Vec::new(), Vec::new()));
    while segments(&disk).len() < 4 {
        turn(&mut ledger, &[entry(Some("a"), "more")]);
    }
    let seals: Vec<Value> = records(&ledger).iter().filter(|record| record.header.t == "seal").map(body).collect();
    assert_eq!((&seals[0]["number"], &seals[0]["prior"]), (&json!(2), &Value::Null));
    assert!(seals[1]["prior"].is_string());
    assert!(check(&disk).ok());
    let sealed: Vec<bool> = disk.names(Folder::Ledger).iter().map(|file| disk.is_sealed(segment(file))).collect();
    assert_eq!(sealed, [false, true, true, false]);
    drop(ledger);
    assert!(open_small(&disk).1.degraded.is_empty());
}

#[test]
fn a_caller_writes_no_seal() {
    let (mut ledger, _recovery) = open(&SimulatedDisk::new());
    let error = ledger.append(&[Entry::new("seal", Map::new())], &STAMP).unwrap_err();
    assert!(matches!(error, AppendError::Entry { index: 0, fault: EntryFault::Type(_) }), "{error}");
}
