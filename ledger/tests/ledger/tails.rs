//! What a crash can leave behind the last whole turn, and what it cannot.

use ostler_ledger::storage::{Folder, SimulatedDisk};
use ostler_ledger::{Class, VerifyOptions, verify};

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
