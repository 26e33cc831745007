//! Single records by sequence number: the same as reading everything, at any place, beside damage, and at bounded cost.

use ostler_ledger::storage::{Folder, SimulatedDisk, SimulatedStorage};
use ostler_ledger::{Ledger, Options, ReadError, Record, Records, Storage, record_at};

use crate::support::*;

/// Lines of very different lengths in segments of some 100 kB, so that finding one takes several probes.
fn sample() -> (SimulatedDisk, Ledger<SimulatedStorage>) {
    let disk = SimulatedDisk::new();
    let small = Options { segment_bytes: 100_000, ..options(BOOT) };
    let (mut ledger, _recovery) = Ledger::open(disk.storage(), small).unwrap();
    for number in 0_usize..260 {
        let long = [0, 40, 900, 7_000, 0, 60_000][number % 6];
        let mut batch = vec![entry(Some(["a", "b"][number % 2]), &format!("{number} {}", "x".repeat(long)))];
        if number.is_multiple_of(3) {
            batch.push(entry(None, &format!("{number}+")));
        }
        turn(&mut ledger, &batch);
    }
    (disk, ledger)
}

fn all<S: Storage>(storage: &S) -> Vec<Record> {
    Records::new(storage).map(|record| record.unwrap()).collect()
}

fn at(disk: &SimulatedDisk, seq: u64) -> Option<Record> {
    record_at(&disk.storage(), seq).unwrap()
}

#[test]
fn every_record_is_found_by_its_number_and_no_other() {
    let (disk, ledger) = sample();
    let records = all(&disk.storage());
    assert!(segments(&disk).len() > 10 && records.len() > 300);
    for record in &records {
        let seq = record.header.seq;
        assert_eq!(at(&disk, seq).as_ref(), Some(record), "{seq}");
        assert_eq!(ledger.record(seq).unwrap().as_ref(), Some(record), "{seq}");
    }
    for seq in [0, ledger.head().seq + 1, u64::MAX] {
        assert_eq!((at(&disk, seq), ledger.record(seq).unwrap()), (None, None), "{seq}");
    }
    assert_eq!(at(&SimulatedDisk::new(), 1), None);
}

#[test]
fn damage_hides_nothing_but_itself() {
    let (sound, _ledger) = sample();
    let files = segments(&sound);
    let records = all(&sound.storage());
    for (index, (_file, bytes)) in files.iter().enumerate().take(4) {
        // One damaged byte, a long stretch without any line feed, and the beginning.
        for (from, to) in [(bytes.len() / 2, bytes.len() / 2 + 1), (bytes.len() / 4, bytes.len() * 3 / 4), (0, 2)] {
            let mut files = files.clone();
            files[index].1[from..to].fill(b'#');
            let disk = disk_of(&files);
            let mut rest = records.iter();
            for (_file, bytes) in &files {
                let mut start = 0;
                while start < bytes.len() {
                    let record = rest.next().unwrap();
                    let line = record.line();
                    let found = at(&disk, record.header.seq);
                    let whole = bytes[start..].starts_with(line.as_bytes());
                    assert_eq!(found.as_ref(), Some(record).filter(|_| whole), "{index} {from}..{to} {start}");
                    start += line.len();
                }
            }
        }
    }
}

#[test]
fn what_did_not_happen_is_not_found() {
    let (disk, mut ledger) = sample();
    let head = ledger.head().seq;
    // Appended and not synced: readers see it, as they see everything that is written; the owner does not.
    ledger.append(&[entry(None, "new"), entry(None, "newer")], &STAMP).unwrap();
    assert_eq!(ledger.record(head + 1).unwrap(), None);
    assert!(at(&disk, head + 1).is_some());
    ledger.sync().unwrap();
    assert!(ledger.record(head + 1).unwrap().is_some());
    // Half a turn.
    let (file, bytes) = segments(&disk).pop().unwrap();
    let cut = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    disk.tamper(segment(&file), &bytes[..cut]);
    assert_eq!((at(&disk, head + 1), at(&disk, head).is_some()), (None, true));
    disk.tamper(segment(&file), &bytes[..bytes.len() - 1]);
    assert_eq!((at(&disk, head + 1), at(&disk, head + 2)), (None, None));
}

/// A record whose turn lost its end still happened if a later record says that it was synced.
#[test]
fn a_damaged_end_of_a_turn_does_not_hide_the_rest_of_it() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    turn(&mut ledger, &[entry(Some("a"), "first"), entry(Some("a"), "last of the turn")]);
    turn(&mut ledger, &[entry(Some("b"), "later")]);
    let (file, bytes) = segments(&disk).pop().unwrap();
    let text = String::from_utf8(bytes).unwrap().replace("last of the turn", "lost of the turn");
    disk.tamper(segment(&file), text.as_bytes());
    assert!(at(&disk, 2).is_some() && at(&disk, 3).is_none() && at(&disk, 4).is_some());
}

#[test]
fn a_line_of_a_later_version_is_said_to_be_one() {
    let disk = SimulatedDisk::new();
    disk.tamper(segment("00000000000000000001.jsonl"), &newer_line());
    assert!(matches!(record_at(&disk.storage(), 1), Err(ReadError::TooNew { version: 2, .. })));
}

/// A line of version 2, as a later program would write it.
fn newer_line() -> Vec<u8> {
    use sha2::Digest as _;
    let r = "{\"at\":\"x\",\"future\":true,\"v\":2}";
    let digest = sha2::Sha256::digest(format!("ledger-record-v2\n{r}"));
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{{\"d\":\"{digest}\",\"r\":{r}}}\n").into_bytes()
}

/// Halving: the pages read grow with the logarithm of a segment's length, and not with the ledger's.
#[test]
fn a_lookup_reads_a_few_pages() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    for _turn in 0..150 {
        let batch: Vec<_> = (0..400).map(|number| entry(Some("a"), &format!("{number}"))).collect();
        turn(&mut ledger, &batch);
    }
    let bytes: usize = disk.names(Folder::Ledger).iter().map(|file| disk.contents(segment(file)).unwrap().len()).sum();
    assert!(bytes > 16_000_000, "{bytes}");
    for seq in [1, 2, 777, 30_000, 59_999, ledger.head().seq] {
        let before = disk.calls();
        assert!(ledger.record(seq).unwrap().is_some());
        assert!(disk.calls() - before <= 24, "{}", disk.calls() - before);
    }
}
