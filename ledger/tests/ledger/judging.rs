//! Corners of the judgement: what decides where two readings of the same bytes are possible.

use std::collections::BTreeSet;

use ostler_ledger::storage::SimulatedDisk;
use ostler_ledger::{Class, Ledger, VerifyOptions, verify};

use crate::support::*;

fn names(sessions: &[String]) -> BTreeSet<&str> {
    sessions.iter().map(String::as_str).collect()
}

/// A session whose next record shows the jump owns the hole; but not if that record is itself cut off.
#[test]
fn a_record_in_the_tail_explains_no_hole() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    turn(&mut ledger, &[entry(Some("a"), "1"), entry(Some("b"), "1")]);
    turn(&mut ledger, &[entry(Some("a"), "damaged")]);
    turn(&mut ledger, &[entry(None, "proves that it was synced")]);
    turn(&mut ledger, &[entry(Some("a"), "jumps"), entry(Some("c"), "torn")]);
    drop(ledger);
    let (file, mut bytes) = segments(&disk).remove(0);
    let at = bytes.windows(7).position(|window| window == b"damaged").unwrap();
    bytes[at] ^= 1;
    let whole = disk_of(&[(file.clone(), bytes.clone())]);
    let report = verify(&whole.storage(), &VerifyOptions::default()).unwrap();
    assert_eq!(names(&report.problems[0].sessions), BTreeSet::from(["a"]));

    bytes.pop();
    let disk = disk_of(&[(file, bytes)]);
    let report = verify(&disk.storage(), &VerifyOptions::default()).unwrap();
    assert_eq!(report.tail.map(|tail| tail.class), Some(Class::TornTail));
    assert_eq!(names(&report.problems[0].sessions), BTreeSet::from(["a", "b"]));
    let (ledger, recovery) = open(&disk);
    assert_eq!(names(&recovery.damaged_sessions), BTreeSet::from(["a", "b"]));
    drop(ledger);
    let (_ledger, again) = Ledger::open(disk.storage(), options(BOOT)).unwrap();
    assert_eq!((again.problems, again.owed.len()), (recovery.problems, 2));
}
