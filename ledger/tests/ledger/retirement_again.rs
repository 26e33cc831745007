//! Retirements whose syncs failed: what such a sync forgot is done again, by the next opening or by the next retirement.

use ostler_ledger::Ledger;
use ostler_ledger::storage::{Call, Crash, Fault, FaultKind, SimulatedDisk, Stop};
use std::io::ErrorKind;

use crate::retirement::{Files, check, jsonl, open_small, retire, sample, small, whole};
use crate::support::*;

/// A failed sync is forgotten: the next one succeeds, and what was done before is not on the disk. Each sync of a folder fails
/// once, the next opening ends what was begun, or comes so far, and the machine loses power.
#[test]
fn what_a_failed_sync_of_a_folder_forgot_is_done_again() {
    for keep in [true, false] {
        let mut failed = 0;
        while stopped_by_a_sync(keep, failed).is_some() {
            for call in (0..24).chain([100]) {
                let context = format!("keep {keep}, sync {failed}, then call {call}");
                let (disk, before) = stopped_by_a_sync(keep, failed).unwrap();
                disk.stop_at(Stop::Before(call));
                drop(Ledger::open(disk.storage(), small(BOOT)));
                disk.crash(Crash::PowerLoss, call);
                whole(&disk, &before, keep, &context);
                drop(Ledger::open(disk.storage(), small(OTHER_BOOT)).unwrap());
                disk.crash(Crash::PowerLoss, call);
                whole(&disk, &before, keep, &context);
            }
            failed += 1;
        }
        assert!(failed >= 4, "{failed}");
    }
}

/// A retirement in which that sync of a folder fails, if there are so many; its process is gone. What there was before.
fn stopped_by_a_sync(keep: bool, after: u64) -> Option<(SimulatedDisk, Files)> {
    let (disk, mut ledger) = sample();
    let before = jsonl(&disk);
    disk.inject(Fault { call: Call::SyncFolder, after, kind: FaultKind::Error(ErrorKind::Other) });
    drop(retire(&mut ledger, 3, keep));
    drop(ledger);
    let failed = disk.faults_left() == 0;
    disk.crash(Crash::Kill, after);
    failed.then_some((disk, before))
}

/// A name whose removal a failed sync forgot must not come back once the file behind it has gone; nor is what makes sure of
/// that taken for a segment if it is cut short.
#[test]
fn the_next_retirement_makes_sure_that_the_one_before_is_over() {
    let mut finished = 0;
    for (keep, after) in [true, false].into_iter().flat_map(|keep| (0..12).map(move |after| (keep, after))) {
        // Every third call, each time another third.
        for call in (after % 3..).step_by(3) {
            let Some((disk, _before)) = stopped_by_a_sync(keep, after) else { break };
            let mut ledger = open_small(&disk, BOOT);
            while ledger.sealed().len() < 2 {
                turn(&mut ledger, &[entry(Some("a"), "on")]);
            }
            disk.stop_at(Stop::After(call));
            let done = retire(&mut ledger, 1, keep).is_ok_and(|done| done.left.is_none());
            drop(ledger);
            let killed = call % 2 == 0 && !done;
            let (crash, boot) = if killed { (Crash::Kill, BOOT) } else { (Crash::PowerLoss, OTHER_BOOT) };
            disk.crash(crash, call);
            drop(open_small(&disk, boot));
            assert!(check(&disk).ok(), "keep {keep}, after {after}, call {call}");
            finished += usize::from(done);
            if done {
                break;
            }
        }
    }
    assert!(finished >= 8, "{finished}");
}
