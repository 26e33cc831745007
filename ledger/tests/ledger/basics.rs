//! Append, sync, read back, open again; limits, faults and the writer lock.

use std::io::ErrorKind;

use ostler_ledger::limits::BATCH_BYTES_MAX;
use ostler_ledger::storage::{Call, Fault, FaultKind, LockError, SimulatedDisk, SimulatedStorage};
use ostler_ledger::{AppendError, Entry, EntryFault, Ledger, OpenError, Position, SyncError, VerifyOptions, verify};

use crate::support::*;

#[test]
fn a_turn_is_read_back_as_it_was_written_and_survives_reopening() {
    let disk = SimulatedDisk::new();
    let (mut ledger, recovery) = open(&disk);
    assert_eq!((recovery.records, recovery.degraded.len(), ledger.head()), (0, 0, Position::START));
    assert_eq!(ledger.next_seq(), 2, "the segment record comes first");
    let first = turn(&mut ledger, &[entry(Some("a"), "one"), entry(None, "two")]);
    assert_eq!((first[0].seq, first[1].seq, ledger.next_seq()), (2, 3, 4));
    turn(&mut ledger, &[entry(Some("a"), "drei é😀")]);
    assert_eq!(ledger.sync_count(), 2);

    let read = records(&ledger);
    let chain: Vec<_> = read.iter().map(|record| (record.header.seq, record.header.sn, record.header.end)).collect();
    assert_eq!(chain, [(1, None, false), (2, Some(1), false), (3, None, true), (4, Some(2), true)]);
    assert_eq!(read[3].header.prev, Some(read[2].digest));
    assert_eq!(read[3].header.sp, Some(read[1].digest));
    assert_eq!(read.iter().map(|record| record.header.dur).collect::<Vec<_>>(), [0, 0, 0, 3]);
    let head = ledger.head();
    drop(ledger);

    let mut folded = Vec::new();
    let (ledger, recovery) =
        Ledger::open_folding(disk.storage(), options(BOOT), &mut |record| folded.push(record)).unwrap();
    assert_eq!((ledger.head(), recovery.records, recovery.tail), (head, 4, None));
    assert_eq!(folded, read);
    assert_eq!(records(&ledger), read);
    assert_eq!(texts(&ledger), ["one", "two", "drei é😀"]);
}

#[test]
fn an_entry_beyond_a_limit_changes_nothing() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    turn(&mut ledger, &[entry(None, "before")]);
    let (head, bytes) = (ledger.head(), segments(&disk));
    let own = Entry { t: "segment".to_owned(), ..entry(None, "") };
    let long = entry(None, &"x".repeat(65 * 1024));
    for (bad, index) in [(own, 0), (long, 1)] {
        let batch = if index == 0 { vec![bad] } else { vec![entry(Some("s"), "fine"), bad] };
        let error = ledger.append(&batch, &STAMP).unwrap_err();
        assert!(
            matches!(&error, AppendError::Entry { index: at, fault: EntryFault::Type(_) | EntryFault::LineTooLong { .. } } if *at == index),
            "{error}"
        );
    }
    let half = entry(None, &"x".repeat(60 * 1024));
    let batch = vec![half; 5];
    assert!(
        matches!(ledger.append(&batch, &STAMP), Err(AppendError::BatchTooLarge { bytes }) if bytes > BATCH_BYTES_MAX)
    );
    assert_eq!((ledger.head(), segments(&disk)), (head, bytes));
    turn(&mut ledger, &[entry(None, "after")]);
    assert_eq!(texts(&ledger), ["before", "after"]);
}

#[test]
fn more_than_a_batch_is_never_left_unsynced() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    let batch = vec![entry(None, &"x".repeat(50 * 1024)); 4];
    ledger.append(&batch, &STAMP).unwrap();
    assert!(matches!(ledger.append(&batch, &STAMP), Err(AppendError::SyncFirst { .. })));
    ledger.sync().unwrap();
    ledger.append(&batch, &STAMP).unwrap();
}

#[test]
fn a_failed_write_heals_without_a_restart() {
    let kinds = [
        FaultKind::Error(ErrorKind::StorageFull),
        FaultKind::Error(ErrorKind::Other),
        FaultKind::Partial(100, ErrorKind::QuotaExceeded),
        FaultKind::Partial(1000, ErrorKind::Other),
    ];
    for kind in kinds {
        for turns_before in 0..2 {
            let disk = SimulatedDisk::new();
            let (mut ledger, _recovery) = open(&disk);
            let before: Vec<String> = (0..turns_before).map(|turn| format!("before {turn}")).collect();
            before.iter().for_each(|text| drop(turn(&mut ledger, &[entry(Some("s"), text)])));
            let head = ledger.head();
            disk.inject(Fault { call: Call::Write, after: 0, kind });
            let error =
                ledger.append(&[entry(Some("s"), "refused"), entry(None, &"y".repeat(2000))], &STAMP).unwrap_err();
            let full = matches!(kind, FaultKind::Error(kind) | FaultKind::Partial(_, kind) if kind != ErrorKind::Other);
            assert_eq!(full, matches!(error, AppendError::StorageFull(_)), "{error}");
            assert_eq!(full, !matches!(error, AppendError::StorageFailed(_)), "{error}");
            assert_eq!(ledger.head(), head);
            turn(&mut ledger, &[entry(Some("s"), "after")]);
            let expected: Vec<String> = before.into_iter().chain(["after".to_owned()]).collect();
            assert_eq!(texts(&ledger), expected);
            drop(ledger);
            let (ledger, recovery) = open(&disk);
            assert_eq!((recovery.tail, recovery.degraded.len()), (None, 0));
            assert_eq!(texts(&ledger), expected);
        }
    }
}

#[test]
fn a_failed_write_that_cannot_be_cut_back_is_cut_before_the_next() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    turn(&mut ledger, &[entry(None, "before")]);
    disk.inject(Fault { call: Call::Write, after: 0, kind: FaultKind::Partial(900, ErrorKind::Other) });
    disk.inject(Fault { call: Call::Truncate, after: 0, kind: FaultKind::Error(ErrorKind::Other) });
    disk.inject(Fault { call: Call::Truncate, after: 1, kind: FaultKind::Error(ErrorKind::Other) });
    let long = entry(None, &"z".repeat(2000));
    assert!(matches!(ledger.append(std::slice::from_ref(&long), &STAMP), Err(AppendError::StorageFailed(_))));
    assert!(matches!(ledger.append(&[entry(None, "still")], &STAMP), Err(AppendError::StorageFailed(_))));
    turn(&mut ledger, &[entry(None, "short")]);
    assert_eq!(disk.faults_left(), 0);
    drop(ledger);
    let (ledger, recovery) = open(&disk);
    assert_eq!((texts(&ledger), recovery.tail), (vec!["before".to_owned(), "short".to_owned()], None));
}

#[test]
fn a_short_write_is_continued_and_a_full_disk_is_told_as_such() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    disk.inject(Fault { call: Call::Write, after: 0, kind: FaultKind::Short(10) });
    disk.inject(Fault { call: Call::Write, after: 1, kind: FaultKind::Error(ErrorKind::Interrupted) });
    turn(&mut ledger, &[entry(None, "in pieces")]);
    let used = u64::try_from(segments(&disk)[0].1.len()).unwrap();
    disk.set_capacity(Some(used + 50));
    assert!(matches!(ledger.append(&[entry(None, "no room")], &STAMP), Err(AppendError::StorageFull(_))));
    assert_eq!(segments(&disk)[0].1.len(), usize::try_from(used).unwrap(), "cut back");
    disk.set_capacity(None);
    turn(&mut ledger, &[entry(None, "room")]);
    assert_eq!(texts(&ledger), ["in pieces", "room"]);
}

#[test]
fn field_f_own_a_failed_sync_is_final_even_if_the_next_would_succeed() {
    for call in [Call::SyncData, Call::SyncFolder] {
        let disk = SimulatedDisk::new();
        let (mut ledger, _recovery) = open(&disk);
        ledger.append(&[entry(None, "lost?")], &STAMP).unwrap();
        disk.inject(Fault { call, after: 0, kind: FaultKind::Error(ErrorKind::Other) });
        assert!(matches!(ledger.sync(), Err(SyncError::Failed(_))));
        assert!(matches!(ledger.sync(), Err(SyncError::Poisoned)));
        assert!(matches!(ledger.append(&[entry(None, "no")], &STAMP), Err(AppendError::Poisoned)));
    }
}

/// The kernel shows bytes that the disk never got. The next process must not believe them unwritten.
#[test]
fn what_a_failed_sync_dropped_is_written_again_by_the_next_opening() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    turn(&mut ledger, &[entry(None, "kept")]);
    ledger.append(&[entry(None, "dropped by the disk")], &STAMP).unwrap();
    disk.inject(Fault { call: Call::SyncData, after: 0, kind: FaultKind::Error(ErrorKind::StorageFull) });
    ledger.sync().unwrap_err();
    drop(ledger);
    let (ledger, recovery) = open(&disk);
    assert!(recovery.rewritten_bytes > 0);
    let seen = texts(&ledger);
    drop(ledger);
    disk.crash(ostler_ledger::storage::Crash::PowerLoss, 1);
    let (ledger, _recovery) = open(&disk);
    assert_eq!(texts(&ledger), seen, "what was shown once stays");
}

/// The opening that finds such a segment has no room for a copy of it, and only a copy would get a name.
#[test]
fn a_name_that_a_failed_sync_forgot_loses_nothing_on_a_full_disk() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    ledger.append(&[entry(None, "never acknowledged")], &STAMP).unwrap();
    disk.inject(Fault { call: Call::SyncFolder, after: 0, kind: FaultKind::Error(ErrorKind::Other) });
    ledger.sync().unwrap_err();
    drop(ledger);
    disk.inject(Fault { call: Call::Create, after: 0, kind: FaultKind::Error(ErrorKind::StorageFull) });
    let (mut ledger, _recovery) = match Ledger::open(disk.storage(), options(BOOT)) {
        Ok(opened) => opened,
        Err(_no_room) => open(&disk),
    };
    let opened = ledger
        .append(&[entry(None, "acknowledged")], &STAMP)
        .or_else(|_no_room| ledger.append(&[entry(None, "acknowledged")], &STAMP));
    opened.unwrap();
    ledger.sync().unwrap();
    drop(ledger);
    disk.crash(ostler_ledger::storage::Crash::PowerLoss, 1);
    let (ledger, _recovery) = open(&disk);
    assert_eq!(texts(&ledger).last().map(String::as_str), Some("acknowledged"));
}

#[test]
fn one_writer_at_a_time() {
    let disk = SimulatedDisk::new();
    let (ledger, _recovery) = open(&disk);
    let second = Ledger::open(disk.storage(), options(BOOT));
    assert!(matches!(second, Err(OpenError::Lock(LockError::Held))));
    drop(ledger);
    open(&disk);
}

#[test]
fn segments_rotate_and_the_chain_goes_on() {
    let disk = SimulatedDisk::new();
    let mut small = options(BOOT);
    small.segment_bytes = 1000;
    let (mut ledger, _recovery) = Ledger::open(disk.storage(), small).unwrap();
    let mut expected = Vec::new();
    for number in 0..12 {
        let next = ledger.next_seq();
        let text = number.to_string();
        assert_eq!(turn(&mut ledger, &[entry(Some("s"), &text)])[0].seq, next);
        expected.push(text);
    }
    let files = segments(&disk);
    assert!(files.len() > 3);
    assert_eq!(texts(&ledger), expected);
    let numbers: Vec<u64> = files.iter().map(|(file, _bytes)| file[..20].parse().unwrap()).collect();
    let opening: Vec<u64> =
        records(&ledger).iter().filter(|record| record.header.t == "segment").map(|record| record.header.seq).collect();
    assert_eq!(numbers, opening);
    assert_eq!(ledger.sync_count(), 12);
    drop(ledger);
    let (ledger, recovery) = open(&disk);
    assert_eq!((texts(&ledger), recovery.degraded.len()), (expected, 0));
    assert!(verify(&disk.storage(), &VerifyOptions::default()).unwrap().ok());
}

#[test]
fn another_boot_begins_another_segment() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    turn(&mut ledger, &[entry(None, "a")]);
    drop(ledger);
    let (mut ledger, _recovery) = Ledger::open(disk.storage(), options(OTHER_BOOT)).unwrap();
    let next = ledger.next_seq();
    assert_eq!(turn(&mut ledger, &[entry(None, "b")])[0].seq, next);
    assert_eq!((segments(&disk).len(), next), (2, 5), "behind the records `segment` and `seal`");
    let _: &Ledger<SimulatedStorage> = &ledger;
    assert_eq!(texts(&ledger), ["a", "b"]);
}
