//! Accepted findings: they stay, with the reason, and are no problem any more; whatever else goes wrong is one.

use ostler_ledger::storage::SimulatedDisk;
use ostler_ledger::{Class, Finding, Ledger, Recovery, VerifyOptions, VerifyReport, accepted, turns_of};
use serde_json::json;

use crate::judges::Judges;
use crate::support::*;

fn check(disk: &SimulatedDisk) -> VerifyReport {
    let options = VerifyOptions { boot: Some(BOOT.to_owned()), since: None };
    Judges::new().report(&segments(disk), &options, &|| "what is accepted".to_owned())
}

/// Ten records of three sessions, one a turn, the last of them known to be synced; the byte at which each begins.
fn sample() -> (SimulatedDisk, Vec<usize>) {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    for number in 0..10 {
        turn(&mut ledger, &[entry(Some(["a", "b", "c"][number % 3]), &format!("record {number}"))]);
    }
    drop(ledger);
    let starts = line_starts(&segments(&disk)[0].1);
    (disk, starts)
}

fn flip(disk: &SimulatedDisk, at: usize) {
    let (file, mut bytes) = segments(disk).remove(0);
    bytes[at] ^= 1;
    disk.tamper(segment(&file), &bytes);
}

/// Opens, writes what is owed, and accepts everything that is found then.
fn accept_all(disk: &SimulatedDisk) -> Recovery {
    let (mut ledger, recovery) = open(disk);
    turns_of(&recovery.owed).into_iter().for_each(|owed| drop(turn(&mut ledger, owed)));
    let findings: Vec<Finding> = check(disk).problems.iter().map(Finding::from).collect();
    let entries = accepted(&findings, &json!({"uid": 1000}), "the disk was replaced");
    turns_of(&entries).into_iter().for_each(|entries| drop(turn(&mut ledger, entries)));
    recovery
}

#[test]
fn what_is_accepted_is_no_problem_any_more_and_stays_visible() {
    let (disk, starts) = sample();
    flip(&disk, starts[4] + 100);
    let before = check(&disk);
    assert_eq!(before.problems.len(), 1);
    let recovery = accept_all(&disk);
    assert!(!recovery.degraded.is_empty());
    let after = check(&disk);
    assert_eq!((after.ok(), &after.accepted), (true, &before.problems));
    let (_ledger, again) = open(&disk);
    assert_eq!((again.problems, again.degraded, again.owed), (Vec::new(), Vec::new(), Vec::new()));
    assert_eq!(again.accepted, before.problems);
    assert_eq!(again.damaged_sessions, recovery.damaged_sessions, "no fence is lifted");
    let stored = String::from_utf8(segments(&disk)[0].1.clone()).unwrap();
    assert!(stored.contains("\"act\":{\"uid\":1000}") && stored.contains("the disk was replaced"));
}

/// Elsewhere, and at the very place that was accepted: the record behind it, and the bytes before it.
#[test]
fn a_new_finding_is_a_problem() {
    for other in [2, 3, 5, 7] {
        let (disk, starts) = sample();
        flip(&disk, starts[4] + 100);
        accept_all(&disk);
        flip(&disk, starts[other] + 100);
        let report = check(&disk);
        assert!(!report.ok(), "record {}", other + 1);
        let (_ledger, recovery) = open(&disk);
        assert_eq!(recovery.problems, report.problems);
        assert!(!recovery.degraded.is_empty());
    }
}

#[test]
fn a_suspicious_tail_and_a_loss_can_be_accepted() {
    let (disk, _starts) = sample();
    let (file, mut bytes) = segments(&disk).remove(0);
    bytes.extend(b"{\"d\":\"no record\"}\n");
    disk.tamper(segment(&file), &bytes);
    let recovery = accept_all(&disk);
    assert_eq!(recovery.tail.map(|tail| tail.class), Some(Class::SuspiciousTail));
    let report = check(&disk);
    assert_eq!((report.ok(), report.accepted.len(), report.accepted[0].class), (true, 1, Class::SuspiciousTail));

    let disk = SimulatedDisk::new();
    let small = || ostler_ledger::Options { segment_bytes: 1000, ..options(BOOT) };
    let (mut ledger, _recovery) = Ledger::open(disk.storage(), small()).unwrap();
    (0..20).for_each(|number| drop(turn(&mut ledger, &[entry(Some("a"), &format!("record {number}"))])));
    drop(ledger);
    let mut files = segments(&disk);
    files.remove(1);
    let disk = disk_of(&files);
    let recovery = accept_all(&disk);
    assert!(recovery.loss);
    let report = check(&disk);
    assert!(report.ok() && !report.accepted.is_empty(), "{report:?}");
    let (_ledger, again) = open(&disk);
    assert!(again.loss && again.degraded.is_empty(), "keys that were lost stay uncertain");
    drop(_ledger);
    files.remove(1);
    assert!(!check(&disk_of(&[files.as_slice(), &segments(&disk)[files.len()..]].concat())).ok());
}

/// An opening that begins with a snapshot knows what was accepted before it.
#[test]
fn what_was_accepted_before_a_snapshot_stays_accepted() {
    let (disk, starts) = sample();
    flip(&disk, starts[4] + 100);
    accept_all(&disk);
    let options = || ostler_ledger::Options { snapshot_tail_bytes: 1, ..options(BOOT) };
    let mut fold = Texts::default();
    let (mut ledger, _recovery) = Ledger::open_from(disk.storage(), options(), &mut fold).unwrap();
    turn(&mut ledger, &[entry(None, "more")]);
    ledger.snapshot(&fold.payload(), FOLD).unwrap();
    drop(ledger);
    let (_ledger, recovery) = Ledger::open_from(disk.storage(), options(), &mut Texts::default()).unwrap();
    assert!(recovery.snapshot.is_some());
    assert_eq!((recovery.problems.len(), recovery.accepted.len(), recovery.degraded.len()), (0, 1, 0));
}

/// Nobody accepts beforehand, in general, or what a later program wrote.
#[test]
fn only_what_is_named_exactly_is_accepted() {
    let (disk, starts) = sample();
    flip(&disk, starts[4] + 100);
    drop(open(&disk));
    let finding = Finding::from(&check(&disk).problems[0]);
    let others = [
        Finding { class: Class::ChainBroken, ..finding.clone() },
        Finding { first: None, ..finding.clone() },
        Finding { first: finding.first.map(|first| first + 1), ..finding.clone() },
        Finding { missing: finding.missing + 1, ..finding.clone() },
        Finding { offset: finding.offset + 1, ..finding.clone() },
        Finding { segment: "00000000000000000002.jsonl".to_owned(), ..finding.clone() },
    ];
    let (mut ledger, recovery) = open(&disk);
    turns_of(&recovery.owed).into_iter().for_each(|owed| drop(turn(&mut ledger, owed)));
    turn(&mut ledger, &accepted(&others, &json!(null), "none of them"));
    let mut unread = accepted(std::slice::from_ref(&finding), &json!(null), "not a finding").remove(0);
    let mut body = unread.members.get("body").unwrap().into_owned();
    body["problems"][0]["more"] = json!(1);
    unread.members = [("body".to_owned(), body)].into();
    turn(&mut ledger, &[unread]);
    assert_eq!(check(&disk).problems.len(), 1);
    turn(&mut ledger, &accepted(&[finding], &json!(null), "this one"));
    assert!(check(&disk).ok());
}

#[test]
fn many_findings_go_into_several_records() {
    let finding = Finding {
        class: Class::SuspiciousTail,
        first: Some(u64::MAX >> 11),
        missing: u64::MAX >> 11,
        offset: u64::MAX >> 11,
        segment: format!("{}.jsonl", "9".repeat(20)),
    };
    let (mut ledger, _recovery) = open(&SimulatedDisk::new());
    let entries =
        accepted(&vec![finding; 2_000], &json!({"uid": 1000, "pid": 1, "session": null}), &"\u{1}".repeat(1024));
    assert_eq!(entries.len(), 10);
    turns_of(&entries).into_iter().for_each(|entries| drop(turn(&mut ledger, entries)));
}
