//! Corners of the judgement: what decides where two readings of the same bytes are possible.

use std::collections::BTreeSet;

use ostler_ledger::storage::{Folder, SimulatedDisk};
use ostler_ledger::{Class, Ledger, OpenError, Options, Record, VerifyOptions, verify};
use serde_json::{Value, json};

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

fn classes(files: &[(String, Vec<u8>)]) -> Vec<Class> {
    let report = verify(&disk_of(files).storage(), &VerifyOptions::default()).unwrap();
    report.problems.iter().map(|problem| problem.class).collect()
}

/// Four segments, each with at least ten records.
fn four_segments() -> Vec<(String, Vec<u8>)> {
    let disk = SimulatedDisk::new();
    let small = Options { segment_bytes: 3000, ..options(BOOT) };
    let (mut ledger, _recovery) = Ledger::open(disk.storage(), small).unwrap();
    while segments(&disk).len() < 4 || segments(&disk)[3].1.len() < 2800 {
        turn(&mut ledger, &[entry(Some("a"), "text")]);
    }
    segments(&disk)
}

#[test]
fn records_that_no_file_has_room_for_are_lost_and_not_only_damaged() {
    let files = four_segments();
    let starts = line_starts(&files[1].1);
    let last = starts[starts.len() - 2];
    let mut cut = files.clone();
    cut[1].1.truncate(last);
    assert_eq!(classes(&cut), [Class::Loss], "the end of a segment");
    let mut damaged = files.clone();
    damaged[1].1[last + 80] ^= 1;
    assert_eq!(classes(&damaged), [Class::Damage], "its last line");
    damaged.remove(2);
    assert_eq!(classes(&damaged), [Class::Loss], "its last line and the whole segment behind");
    let mut torn = files.clone();
    torn[1].1.truncate(last + 80);
    assert_eq!(classes(&torn), [Class::Damage], "a part of its last line");
    torn[1].1.truncate(starts[1] + 80);
    assert_eq!(classes(&torn), [Class::Loss], "more than the part of a line that is left can have held");
    let mut inside = files.clone();
    inside[1].1[starts[2] + 80] ^= 1;
    inside[1].1.drain(starts[3]..last);
    assert_eq!(classes(&inside), [Class::ChainBroken], "a damaged line, and lines behind it taken away");
}

/// Files that changed places are a broken chain first of all, and nothing that was acknowledged is cut because of them.
#[test]
fn field_f_own_segments_that_changed_places_are_no_tail() {
    let files = four_segments();
    for (left, right) in [(0, 1), (1, 2), (0, 3), (2, 3)] {
        let mut swapped = files.clone();
        swapped[left].1.clone_from(&files[right].1);
        swapped[right].1.clone_from(&files[left].1);
        assert_eq!(classes(&swapped).first(), Some(&Class::ChainBroken), "{left} {right}");
    }
    // More than a batch stands behind what follows: a whole segment of another place.
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) =
        Ledger::open(disk.storage(), Options { segment_bytes: 350_000, ..options(BOOT) }).unwrap();
    while segments(&disk).len() < 3 {
        turn(&mut ledger, &[entry(Some("a"), &"x".repeat(60_000))]);
    }
    drop(ledger);
    let mut swapped = segments(&disk);
    let first = swapped[0].1.clone();
    swapped[0].1 = swapped[2].1.clone();
    swapped[2].1 = first;
    let disk = disk_of(&swapped);
    let opened = Ledger::open(disk.storage(), options(BOOT)).map(drop);
    let last = swapped[1].0.clone();
    assert!(
        matches!(&opened, Err(OpenError::Unexplained { segment, offset: 0, .. }) if *segment == last),
        "{opened:?}"
    );
    assert_eq!((segments(&disk), disk.names(Folder::Quarantine)), (swapped, Vec::<String>::new()));
}

/// The next segment would be begun under the name of the file that holds the last records, and empty it.
#[test]
fn a_segment_named_for_records_to_come_is_not_opened() {
    let files = four_segments();
    let sound = disk_of(&files);
    let (ledger, _recovery) = open(&sound);
    let last = ledger.head().seq;
    drop(ledger);
    for next in [last + 1, last + 2, 2 * last] {
        for from in [0, files.len() - 1] {
            let mut renamed = files[from..].to_vec();
            renamed.last_mut().unwrap().0 = format!("{next:020}.jsonl");
            let disk = disk_of(&renamed);
            // Another boot begins a new segment with its first turn.
            let opened = Ledger::open(disk.storage(), options(OTHER_BOOT)).map(drop);
            let expected = match &opened {
                Err(OpenError::Misnamed { segment, last: end }) => {
                    *segment == renamed.last().unwrap().0 && *end == last
                }
                // Alone it is where the ledger begins, and what is in it comes before that.
                Err(OpenError::Unexplained { segment, .. }) => from > 0 && *segment == renamed[0].0,
                _ => false,
            };
            assert!(expected, "{next} from {from}: {opened:?}");
            assert_eq!((segments(&disk), disk.names(Folder::Quarantine)), (renamed, Vec::<String>::new()));
        }
    }
    // A name of records that are there takes no place: the problem is told, and the ledger goes on.
    let mut renamed = files.clone();
    renamed.last_mut().unwrap().0 = format!("{last:020}.jsonl");
    assert_eq!(classes(&renamed), [Class::ChainBroken]);
    let disk = disk_of(&renamed);
    let (mut ledger, recovery) = Ledger::open(disk.storage(), options(OTHER_BOOT)).unwrap();
    turn(&mut ledger, &[recovery.owed, vec![entry(None, "goes on")]].concat());
    assert_eq!(segments(&disk)[..renamed.len()], renamed);
}

#[test]
fn what_a_segment_record_says_is_checked() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) =
        Ledger::open(disk.storage(), Options { segment_bytes: 400, ..options(BOOT) }).unwrap();
    turn(&mut ledger, &[entry(None, "one"), entry(None, "two")]);
    turn(&mut ledger, &[entry(None, "three")]);
    let all = records(&ledger);
    let files = segments(&disk);
    let (opening, last) = (&all[3], &all[4]);
    let body = |changes: Value| {
        let mut body: Value = serde_json::from_str(opening.body().unwrap()).unwrap();
        body.as_object_mut().unwrap().extend(members(changes));
        body.as_object_mut().unwrap().retain(|_name, value| !value.is_null());
        body
    };
    let check = |forgery: &str| {
        let end = forged(last, json!({"prev": digest_of(forgery)}));
        classes(&[files[0].clone(), (files[1].0.clone(), [forgery, &end].concat().into_bytes())])
    };
    assert_eq!(check(&forged(opening, json!({}))), []);
    for changes in [
        json!({"number": 3}),
        json!({"number": 1}),
        json!({"previous": all[1].digest.to_string()}),
        json!({"previous": null}),
        json!({"more": 1}),
        json!({"boot": null}),
    ] {
        let forgery = forged(opening, json!({"body": body(changes.clone())}));
        assert_eq!(check(&forgery), [Class::SuspiciousTail], "{changes}");
    }
    // Absent is not null.
    let mut body: Value = serde_json::from_str(all[0].body().unwrap()).unwrap();
    body["previous"] = Value::Null;
    let alone = |line: String| classes(&[(files[0].0.clone(), line.into_bytes())]);
    assert_eq!(alone(forged(&all[0], json!({}))), []);
    assert_eq!(alone(forged(&all[0], json!({"body": body}))), [Class::SuspiciousTail]);
    // A second segment record in a segment.
    let inside = forged(opening, json!({"prev": digest_of(&all[2].line())}));
    let glued = [files[0].1.as_slice(), inside.as_bytes(), files[1].1.split_at(inside.len()).1].concat();
    assert_eq!(classes(&[(files[0].0.clone(), glued)]), [Class::SuspiciousTail]);
}

/// A later `dur` says that a turn was synced whose end does not stand in the ledger. What there is of it is kept, and
/// what comes next, in a new segment if the boot is another, is not taken for a tail.
#[test]
fn a_ledger_goes_on_in_a_new_segment_behind_half_a_turn() {
    for boot in [BOOT, "another boot"] {
        let disk = SimulatedDisk::new();
        let (mut ledger, _recovery) = Ledger::open(disk.storage(), options(BOOT)).unwrap();
        turn(&mut ledger, &[entry(None, "begun"), entry(None, "lost")]);
        turn(&mut ledger, &[entry(None, "gone")]);
        let all = records(&ledger);
        drop(ledger);
        let files = segments(&disk);
        let starts = line_starts(&files[0].1);
        let stranger = forged(&all[3], json!({"seq": 9, "dur": 2}));
        let cut = [&files[0].1[..starts[2]], stranger.as_bytes()].concat();
        let disk = disk_of(&[(files[0].0.clone(), cut)]);
        let mut kept = Vec::new();
        let (mut ledger, recovery) =
            Ledger::open_folding(disk.storage(), options(boot), &mut |record| kept.extend(text(&record))).unwrap();
        assert_eq!(kept, ["begun"], "{boot}");
        turn(&mut ledger, &[recovery.owed, vec![entry(None, "acknowledged")]].concat());
        drop(ledger);
        let (ledger, again) = Ledger::open(disk.storage(), options(boot)).unwrap();
        assert_eq!((again.owed.len(), again.tail), (0, None), "{boot}");
        assert_eq!(texts(&ledger), ["begun", "acknowledged"], "{boot}");
    }
}

/// Lines that were put elsewhere: which of them belong is seen by what stands behind, in what would be cut.
#[test]
fn a_tail_that_says_what_the_lines_before_it_mean_is_not_cut() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = Ledger::open(disk.storage(), options(BOOT)).unwrap();
    turn(&mut ledger, &[entry(None, "two")]);
    turn(&mut ledger, &[entry(None, "three"), entry(None, "four")]);
    let lines: Vec<String> = records(&ledger).iter().map(Record::line).collect();
    let [one, two, three, four] = lines.try_into().unwrap();
    let damaged = four.replace("four", "f\u{fc}nf");
    let moved = [&one, &three, &four, &damaged, &three, &two, &three].map(String::as_str).concat();
    let file = segments(&disk)[0].0.clone();
    let disk = disk_of(&[(file, moved.clone().into_bytes())]);
    let opened = Ledger::open(disk.storage(), options(BOOT));
    assert!(matches!(&opened, Err(OpenError::Unexplained { .. })), "{opened:?}");
    assert_eq!(segments(&disk)[0].1, moved.into_bytes(), "nothing was changed");
}

/// The last record that was synced is damaged, and behind it a crash has left a turn that is not whole.
#[test]
fn damage_right_before_a_torn_tail_is_not_cut_with_it() {
    for boundary in [false, true] {
        let disk = SimulatedDisk::new();
        let small = Options { segment_bytes: if boundary { 600 } else { 1 << 20 }, ..options(BOOT) };
        let (mut ledger, _recovery) = Ledger::open(disk.storage(), small).unwrap();
        turn(&mut ledger, &[entry(Some("a"), "kept")]);
        turn(&mut ledger, &[entry(Some("a"), "damaged")]);
        let whole: u64 = segments(&disk).iter().map(|(_file, bytes)| u64::try_from(bytes.len()).unwrap()).sum();
        turn(&mut ledger, &[entry(Some("b"), "torn"), entry(Some("a"), "torn")]);
        drop(ledger);
        let mut files = segments(&disk);
        assert_eq!(files.len(), if boundary { 2 } else { 1 });
        files.last_mut().unwrap().1.pop();
        let at = files[0].1.windows(7).position(|window| window == b"damaged").unwrap();
        files[0].1[at] ^= 1;
        let disk = disk_of(&files);
        let before = verify(&disk.storage(), &VerifyOptions::default()).unwrap();
        assert_eq!(
            before.problems.iter().map(|problem| (problem.class, problem.seq)).collect::<Vec<_>>(),
            [(Class::Damage, Some(3))]
        );
        assert_eq!((before.head.seq, before.tail.as_ref().map(|tail| tail.class)), (2, Some(Class::TornTail)));
        let (mut ledger, recovery) = Ledger::open(disk.storage(), options(BOOT)).unwrap();
        let left: u64 = segments(&disk).iter().map(|(_file, bytes)| u64::try_from(bytes.len()).unwrap()).sum();
        assert_eq!((recovery.problems.clone(), left), (before.problems.clone(), whole), "the damage stays where it is");
        turn(&mut ledger, &[recovery.owed, vec![entry(Some("a"), "goes on")]].concat());
        assert!(ledger.head().seq > 4, "no number is used again");
        drop(ledger);
        let (ledger, again) = Ledger::open(disk.storage(), options(BOOT)).unwrap();
        assert_eq!((again.problems, again.owed.len(), again.tail), (before.problems, 0, None));
        assert_eq!(texts(&ledger), ["kept", "goes on"]);
    }
}
