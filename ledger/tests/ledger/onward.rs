//! Reading on from a record in the middle: the same as reading everything and skipping, also as the ledger grows, and beside damage.

use ostler_ledger::storage::{Folder, Name, SimulatedDisk, SimulatedStorage};
use ostler_ledger::{Ledger, Onward, Options, Record, Records};

use crate::support::*;

/// Some segments, with turns of one and of several records.
fn sample() -> (SimulatedDisk, Ledger<SimulatedStorage>) {
    let disk = SimulatedDisk::new();
    let small = Options { segment_bytes: 4_000, ..options(BOOT) };
    let (mut ledger, _recovery) = Ledger::open(disk.storage(), small).unwrap();
    for number in 0..40 {
        let batch: Vec<_> = (0..=number % 3).map(|part| entry(Some("a"), &format!("{number}.{part}"))).collect();
        turn(&mut ledger, &batch);
    }
    (disk, ledger)
}

fn all(disk: &SimulatedDisk) -> Vec<Record> {
    Records::new(&disk.storage()).map(Result::unwrap).collect()
}

fn behind(disk: &SimulatedDisk, seq: u64) -> Vec<Record> {
    Onward::behind(&disk.storage(), seq).map(Result::unwrap).collect()
}

fn numbers(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.header.seq).collect()
}

#[test]
fn from_any_record_on_it_is_the_rest_of_all() {
    let (disk, ledger) = sample();
    let records = all(&disk);
    assert!(segments(&disk).len() > 3);
    for seq in 0..=ledger.head().seq + 1 {
        let rest = usize::try_from(seq).unwrap().min(records.len());
        assert_eq!(behind(&disk, seq), records[rest..], "{seq}");
    }
    assert_eq!(behind(&SimulatedDisk::new(), 0), []);
    assert_eq!(behind(&SimulatedDisk::new(), 7), []);
}

#[test]
fn what_lies_before_is_not_read() {
    let (disk, _ledger) = sample();
    let (first, bytes) = segments(&disk).remove(0);
    let last = segments(&disk).last().unwrap().0.clone();
    let from = last.trim_end_matches(".jsonl").parse::<u64>().unwrap();
    let rest = behind(&disk, from);
    disk.tamper(Name { folder: Folder::Ledger, file: &first }, &vec![b'#'; bytes.len()]);
    assert_eq!(behind(&disk, from), rest);
    assert!(!rest.is_empty());
}

#[test]
fn what_comes_later_is_read_when_it_is_there() {
    for begin in [0, 5] {
        let (disk, mut ledger) = sample();
        let storage = disk.storage();
        let mut onward = Onward::behind(&storage, begin);
        let mut seen: Vec<Record> = onward.by_ref().map(Result::unwrap).collect();
        assert!(onward.next().is_none());
        // Within a segment and over many ends of them.
        for number in 0..30 {
            turn(&mut ledger, &[entry(Some("b"), &format!("later {number}")), entry(None, "x")]);
            let more: Vec<Record> = onward.by_ref().map(Result::unwrap).collect();
            assert!(more.len() >= 2, "{number}");
            seen.extend(more);
        }
        // Another boot begins a segment, and leaves fill behind the last.
        drop(ledger);
        let (file, mut bytes) = segments(&disk).pop().unwrap();
        bytes.extend_from_slice(b"\n\n\n");
        disk.tamper(Name { folder: Folder::Ledger, file: &file }, &bytes);
        assert!(onward.next().is_none());
        let (mut ledger, _recovery) = Ledger::open(disk.storage(), options(OTHER_BOOT)).unwrap();
        turn(&mut ledger, &[entry(None, "after")]);
        seen.extend(onward.by_ref().map(Result::unwrap));
        assert_eq!(seen, all(&disk)[usize::try_from(begin).unwrap()..], "{begin}");
    }
}

#[test]
fn half_turns_and_half_lines_wait_for_their_end() {
    let (disk, _ledger) = sample();
    let (file, whole) = segments(&disk).pop().unwrap();
    let records = all(&disk);
    let lines: Vec<usize> =
        whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    let first = records.len() - lines.len();
    let name = Name { folder: Folder::Ledger, file: &file };
    let storage = disk.storage();
    for begin in [0, records[first].header.seq] {
        disk.tamper(name, &whole[..lines[0]]);
        let mut onward = Onward::behind(&storage, begin);
        let mut seen: Vec<Record> = onward.by_ref().map(Result::unwrap).collect();
        for cut in 1..=whole.len() - lines[0] {
            disk.tamper(name, &whole[..lines[0] + cut]);
            let more: Vec<Record> = onward.by_ref().map(Result::unwrap).collect();
            assert!(more.last().is_none_or(|last| last.header.end), "{cut}");
            seen.extend(more);
        }
        assert_eq!(numbers(&seen), numbers(&records[usize::try_from(begin).unwrap()..]));
    }
}

#[test]
fn where_it_does_not_follow_the_walk_over_all_decides() {
    let (disk, ledger) = sample();
    let head = ledger.head().seq;
    drop(ledger);
    for (index, (file, bytes)) in segments(&disk).into_iter().enumerate() {
        let name = Name { folder: Folder::Ledger, file: &file };
        let mut damaged = bytes.clone();
        let at = bytes.len() / 2;
        damaged[at..at + 3].fill(b'#');
        disk.tamper(name, &damaged);
        let rest = all(&disk);
        for seq in (0..=head).step_by(3) {
            let expected: Vec<u64> = numbers(&rest).into_iter().filter(|number| *number > seq).collect();
            assert_eq!(numbers(&behind(&disk, seq)), expected, "segment {index} behind {seq}");
        }
        disk.tamper(name, &bytes);
    }
}
