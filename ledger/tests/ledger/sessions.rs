//! The chains of sessions and their ends: who is forgotten, and what no chain allows.

use ostler_ledger::storage::SimulatedDisk;
use ostler_ledger::{AppendError, Class, EntryFault, VerifyOptions, verify};
use serde_json::json;

use crate::support::*;

#[test]
fn a_finished_session_is_forgotten_by_writer_and_recovery() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    turn(&mut ledger, &[entry(Some("gone"), "1"), last_entry("gone", "2")]);
    turn(&mut ledger, &[entry(Some("silent"), "1")]);
    turn(&mut ledger, &[entry(None, "lost")]);
    turn(&mut ledger, &[entry(None, "later")]);
    let flags: Vec<bool> = records(&ledger).iter().map(|record| record.header.fin).collect();
    assert_eq!(flags, [false, false, true, false, false, false]);
    drop(ledger);

    // The lost record could be of the silent session, never of the finished one.
    let mut files = segments(&disk);
    let lost = line_starts(&files[0].1)[4];
    files[0].1[lost + 90] ^= 4;
    let damaged = disk_of(&files);
    let (_ledger, recovery) = open(&damaged);
    assert_eq!(recovery.damaged_sessions, ["silent"]);
    assert_eq!(recovery.problems[0].class, Class::Damage);

    // The chain of a new session begins at 1: nothing of the old one is kept.
    let (mut ledger, _recovery) = open(&disk);
    turn(&mut ledger, &[entry(Some("gone"), "an id that was used again")]);
    let last = records(&ledger).pop().unwrap();
    assert_eq!((last.header.sn, last.header.sp), (Some(1), None));
}

#[test]
fn nothing_follows_the_end_of_a_chain_in_its_batch() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    turn(&mut ledger, &[entry(Some("s"), "1")]);
    let head = ledger.head();
    let batch = [entry(None, "other"), last_entry("s", "2"), entry(Some("s"), "3")];
    let refused = ledger.append(&batch, &STAMP).unwrap_err();
    assert!(
        matches!(&refused, AppendError::Entry { index: 2, fault: EntryFault::Finished(sid) } if sid == "s"),
        "{refused}"
    );
    assert_eq!(ledger.head(), head);
    turn(&mut ledger, &batch[..2]);
    assert_eq!(records(&ledger).pop().unwrap().header.sn, Some(2), "a refused end has ended nothing");
}

/// An end whose turn did not become whole has ended nothing.
#[test]
fn an_end_that_was_cut_is_taken_back() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    turn(&mut ledger, &[entry(Some("s"), "1")]);
    turn(&mut ledger, &[last_entry("s", "2"), entry(None, "torn")]);
    drop(ledger);
    let (file, bytes) = segments(&disk).remove(0);
    let disk = disk_of(&[(file, bytes[..bytes.len() - 10].to_vec())]);
    let (mut ledger, recovery) = open(&disk);
    assert!(recovery.tail.is_some());
    turn(&mut ledger, &[entry(Some("s"), "goes on")]);
    assert_eq!(records(&ledger).pop().unwrap().header.sn, Some(2));
    drop(ledger);
    assert!(verify(&disk.storage(), &VerifyOptions::default()).unwrap().ok());
}

#[test]
fn a_record_behind_the_end_of_its_chain_breaks_it() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    turn(&mut ledger, &[entry(Some("s"), "1")]);
    turn(&mut ledger, &[last_entry("s", "2")]);
    let last = records(&ledger).pop().unwrap();
    let behind = forged(
        &last,
        json!({"fin": null, "prev": last.digest, "seq": last.header.seq + 1, "sn": 3, "sp": last.digest, "dur": 3}),
    );
    let after = forged(
        &last,
        json!({
            "fin": null, "prev": digest_of(&behind), "seq": last.header.seq + 2, "dur": 4,
            "sid": null, "sn": null, "sp": null,
        }),
    );
    drop(ledger);
    let (file, bytes) = segments(&disk).remove(0);
    let disk = disk_of(&[(file, [&bytes, behind.as_bytes(), after.as_bytes()].concat())]);
    let report = verify(&disk.storage(), &VerifyOptions::default()).unwrap();
    let found: Vec<_> = report.problems.iter().map(|problem| (problem.class, problem.sessions.clone())).collect();
    assert_eq!(found, [(Class::ChainBroken, vec!["s".to_owned()])]);
}
