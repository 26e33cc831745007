//! What a crash can leave behind the last whole turn, and what it cannot.

use std::io::ErrorKind;

use ostler_ledger::storage::{Call, Crash, Fault, FaultKind, Folder, SimulatedDisk};
use ostler_ledger::{Class, Ledger, VerifyOptions, verify};

use crate::support::*;

/// Three turns of two records each; the offsets of the ends of the turns.
fn three_turns() -> (Vec<(String, Vec<u8>)>, Vec<usize>) {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    let mut ends = vec![0];
    for number in 0..3 {
        turn(&mut ledger, &[entry(Some("a"), &format!("{number}")), entry(Some("b"), &format!("{number} end"))]);
        ends.push(segments(&disk)[0].1.len());
    }
    (segments(&disk), ends)
}

#[test]
fn every_truncation_is_cut_to_the_last_whole_turn() {
    let (files, ends) = three_turns();
    let (file, bytes) = &files[0];
    for length in 0..bytes.len() {
        let disk = disk_of(&[(file.clone(), bytes[..length].to_vec())]);
        let whole = ends.iter().filter(|end| **end <= length).count() - 1;
        let report = verify(&disk.storage(), &VerifyOptions::default()).unwrap();
        assert!(report.ok(), "a crash is no tampering: {report:?}");

        let (mut ledger, recovery) = open(&disk);
        assert_eq!(texts(&ledger).len(), 2 * whole, "cut at {length}");
        assert_eq!(recovery.degraded, Vec::<String>::new());
        let torn = length - ends[whole];
        assert_eq!(recovery.tail.as_ref().map_or(0, |tail| tail.bytes), u64::try_from(torn).unwrap());
        assert!(recovery.tail.iter().all(|tail| tail.class == Class::TornTail));
        assert_eq!(recovery.owed.len(), usize::from(torn > 0));
        let kept = disk.names(Folder::Quarantine);
        assert_eq!(kept.len(), usize::from(torn > 0));
        if let [kept] = kept.as_slice() {
            let name = ostler_ledger::storage::Name { folder: Folder::Quarantine, file: kept };
            assert_eq!(disk.contents(name).unwrap(), &bytes[ends[whole]..length]);
        }
        let batch: Vec<_> = recovery.owed.into_iter().chain([entry(Some("a"), "after")]).collect();
        turn(&mut ledger, &batch);
        drop(ledger);
        let (ledger, recovery) = open(&disk);
        assert_eq!((texts(&ledger).len(), recovery.owed.len(), recovery.tail), (2 * whole + 1, 0, None));
    }
}

/// A recovery cuts a torn tail, its sync fails, and the next recovery no longer sees what the disk still holds. Behind
/// the next segment it would be damage to records that were never acknowledged.
#[test]
fn a_cut_that_a_failed_sync_forgot_is_made_again() {
    let mut torn = 0;
    for seed in 0..40 {
        let disk = SimulatedDisk::new();
        let (mut ledger, _recovery) = open(&disk);
        turn(&mut ledger, &[entry(Some("s1"), "first")]);
        turn(&mut ledger, &[entry(Some("s1"), "kept")]);
        let whole = segments(&disk)[0].1.len();
        ledger.append(&[entry(Some("s1"), "torn"), entry(Some("s2"), "torn")], &STAMP).unwrap();
        disk.crash(Crash::PowerLoss, seed);
        torn += u64::from(segments(&disk)[0].1.len() > whole);
        disk.inject(Fault { call: Call::SyncData, after: 1, kind: FaultKind::Error(ErrorKind::Other) });
        let opened = Ledger::open(disk.storage(), options(OTHER_BOOT)).map(drop);
        disk.crash(Crash::Kill, seed);
        let (mut ledger, _recovery) = Ledger::open(disk.storage(), options(OTHER_BOOT)).unwrap();
        turn(&mut ledger, &[entry(Some("s1"), "next")]);
        turn(&mut ledger, &[entry(Some("s1"), "last")]);
        drop(ledger);
        disk.crash(Crash::PowerLoss, seed);
        let (ledger, recovery) = Ledger::open(disk.storage(), options("boot-c")).unwrap();
        assert_eq!(recovery.problems, [], "seed {seed}, after {opened:?}");
        assert_eq!(texts(&ledger).last().map(String::as_str), Some("last"), "seed {seed}");
    }
    assert!(torn > 5, "{torn} tails were torn");
}
