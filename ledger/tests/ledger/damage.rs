//! Bit flips, and lines and segments that were taken away, doubled, swapped or slipped in. What is expected comes from
//! the positions of the records alone, never from the code under test.

use std::collections::BTreeSet;

use ostler_ledger::storage::SimulatedDisk;
use ostler_ledger::{Class, Ledger, Problem, Record, VerifyOptions, VerifyReport, verify};
use serde_json::Value;

use crate::support::*;

/// A record's place in the files.
struct Placed {
    segment: usize,
    start: usize,
    end: usize,
    record: Record,
}

struct Sample {
    files: Vec<(String, Vec<u8>)>,
    placed: Vec<Placed>,
}

/// Twenty-four records in three segments, five sessions, one of which falls silent early and one of which ends, and
/// records of no session.
fn sample() -> Sample {
    let disk = SimulatedDisk::new();
    let mut small = options(BOOT);
    small.segment_bytes = 3000;
    let (mut ledger, _recovery) = Ledger::open(disk.storage(), small).unwrap();
    let sessions = [Some("early"), Some("a"), None, Some("b"), Some("a"), Some("c"), Some("b"), None];
    let mut number = 0;
    while ledger.head().seq < 24 {
        let sid = |number: usize| if number > 8 && number.is_multiple_of(8) { Some("a") } else { sessions[number % 8] };
        let note = |number: usize, text: &str| match number {
            4 => entry(Some("done"), text),
            10 => last_entry("done", text),
            _ => entry(sid(number), text),
        };
        let batch: Vec<_> = (0..1 + number % 2).map(|more| note(number + more, &format!("n{number}+{more}"))).collect();
        number += batch.len();
        turn(&mut ledger, &batch);
    }
    let mut placed = Vec::new();
    let files = segments(&disk);
    let mut read = records(&ledger).into_iter();
    for (segment, (_file, bytes)) in files.iter().enumerate() {
        let mut start = 0;
        while start < bytes.len() {
            let record = read.next().unwrap();
            let end = start + record.line().len();
            assert_eq!(record.line().as_bytes(), &bytes[start..end]);
            placed.push(Placed { segment, start, end, record });
            start = end;
        }
    }
    assert_eq!((files.len(), read.next()), (3, None));
    assert!((24..=26).contains(&placed.len()), "{}", placed.len());
    Sample { files, placed }
}

impl Sample {
    /// The highest sequence number that the records without these prove to be synced.
    fn durable_without(&self, gone: &[u64]) -> u64 {
        let left = self.placed.iter().filter(|placed| !gone.contains(&placed.record.header.seq));
        left.map(|placed| placed.record.header.dur).max().unwrap()
    }

    /// Who could own the missing record: its session if a later record of it shows the jump, else every session that
    /// is silent from there on and has not ended, if nothing else accounts for it.
    fn possible_owners(&self, gone: &[u64]) -> BTreeSet<String> {
        let last = gone.iter().max().unwrap();
        let left =
            || self.placed.iter().map(|placed| &placed.record.header).filter(|header| !gone.contains(&header.seq));
        let later: BTreeSet<&String> =
            left().filter(|header| header.seq > *last).filter_map(|header| header.sid.as_ref()).collect();
        let lost = self.placed.iter().map(|placed| &placed.record.header).filter(|header| gone.contains(&header.seq));
        let lost: Vec<Option<&String>> = lost.map(|header| header.sid.as_ref()).collect();
        let mut owners: BTreeSet<String> =
            lost.iter().flatten().filter(|sid| later.contains(*sid)).map(|sid| (*sid).clone()).collect();
        if lost.iter().any(|sid| sid.is_none_or(|sid| !later.contains(sid))) {
            let earlier = left().filter(|header| header.seq < *last).filter_map(|header| header.sid.as_ref());
            let ended: BTreeSet<&String> =
                left().filter(|header| header.fin).filter_map(|header| header.sid.as_ref()).collect();
            owners.extend(earlier.filter(|sid| !later.contains(sid) && !ended.contains(sid)).cloned());
        }
        owners
    }

    fn seqs(&self) -> Vec<u64> {
        self.placed.iter().map(|placed| placed.record.header.seq).collect()
    }
}

fn check(disk: &SimulatedDisk) -> VerifyReport {
    let options = VerifyOptions { boot: Some(BOOT.to_owned()), since: None };
    verify(&disk.storage(), &options).unwrap()
}

fn seqs_read(disk: &SimulatedDisk) -> Vec<u64> {
    let (ledger, _recovery) = open(disk);
    records(&ledger).iter().map(|record| record.header.seq).collect()
}

fn sessions(problem: &Problem) -> BTreeSet<String> {
    problem.sessions.iter().cloned().collect()
}

#[test]
fn every_flipped_bit_is_damage_with_its_owner_or_a_tail() {
    let sample = sample();
    let mut seen = BTreeSet::new();
    for (index, placed) in sample.placed.iter().enumerate() {
        for at in placed.start..placed.end {
            // One bit a byte, each bit often enough; the last byte of a line in every way.
            let bits = if at + 1 == placed.end { 0..8 } else { (at * 7) % 8..(at * 7) % 8 + 1 };
            for bit in bits {
                let mut files = sample.files.clone();
                files[placed.segment].1[at] ^= 1 << bit;
                let is_last = sample.placed.get(index + 1).is_none_or(|next| next.segment != placed.segment);
                let mut gone = vec![placed.record.header.seq];
                if at + 1 == placed.end && !is_last {
                    gone.push(gone[0] + 1);
                }
                let report = check(&disk_of(&files));
                let expected =
                    if gone[0] <= sample.durable_without(&gone) { Class::Damage } else { Class::SuspiciousTail };
                let torn = expected == Class::SuspiciousTail && at + 1 == placed.end && is_last;
                if torn {
                    assert_eq!(report.tail.as_ref().map(|tail| tail.class), Some(Class::TornTail), "{gone:?} {at}");
                    seen.insert(Class::TornTail);
                    continue;
                }
                let classes: Vec<Class> = report.problems.iter().map(|problem| problem.class).collect();
                assert_eq!(classes, [expected], "record {gone:?}, byte {at}, bit {bit}");
                seen.insert(expected);
                let problem = &report.problems[0];
                if expected == Class::Damage {
                    assert_eq!(sessions(problem), sample.possible_owners(&gone), "record {gone:?}");
                    assert_eq!(problem.segment, sample.files[placed.segment].0);
                    assert_eq!((problem.seq, problem.offset), (Some(gone[0]), u64::try_from(placed.start).unwrap()));
                }
            }
        }
    }
    assert_eq!(seen, BTreeSet::from([Class::TornTail, Class::SuspiciousTail, Class::Damage]));
}

#[test]
fn field_f07_damage_is_never_rewritten_stated_once_and_the_rest_works() {
    let sample = sample();
    let victim = &sample.placed[9];
    let seq = victim.record.header.seq;
    let mut files = sample.files.clone();
    files[victim.segment].1[victim.start + 100] ^= 1;
    let disk = disk_of(&files);
    let (mut ledger, recovery) = open(&disk);
    assert_eq!(recovery.problems.len(), 1);
    assert_eq!(recovery.damaged_sessions, sample.possible_owners(&[seq]).into_iter().collect::<Vec<_>>());
    assert!(!recovery.damaged_sessions.is_empty() && !recovery.degraded.is_empty() && !recovery.loss);
    assert_eq!(recovery.owed.iter().map(|entry| entry.t.as_str()).collect::<Vec<_>>(), ["gap"]);
    assert_eq!(segments(&disk)[victim.segment].1, files[victim.segment].1, "not a byte is touched");
    let expected: Vec<u64> = sample.seqs().into_iter().filter(|read| *read != seq).collect();
    assert_eq!(records(&ledger).iter().map(|record| record.header.seq).collect::<Vec<_>>(), expected);
    turn(&mut ledger, &recovery.owed);
    turn(&mut ledger, &[entry(Some("a"), "goes on")]);
    drop(ledger);
    let (_ledger, again) = open(&disk);
    assert_eq!(
        (again.owed.len(), again.damaged_sessions, again.problems),
        (0, recovery.damaged_sessions, recovery.problems)
    );
}

/// A session whose lost record was its last is fenced for good, even if something is written for it later.
#[test]
fn what_a_gap_record_names_stays_concerned() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    turn(&mut ledger, &[entry(Some("silent"), "1")]);
    turn(&mut ledger, &[entry(Some("silent"), "2")]);
    turn(&mut ledger, &[entry(Some("loud"), "1")]);
    turn(&mut ledger, &[entry(Some("loud"), "2")]);
    drop(ledger);
    let mut files = segments(&disk);
    let second = line_starts(&files[0].1)[2];
    files[0].1[second + 90] ^= 4;
    let disk = disk_of(&files);
    let (mut ledger, recovery) = open(&disk);
    assert_eq!(recovery.damaged_sessions, ["silent"]);
    turn(&mut ledger, &recovery.owed);
    turn(&mut ledger, &[entry(Some("silent"), "a fence")]);
    drop(ledger);
    let (_ledger, recovery) = open(&disk);
    assert_eq!((recovery.damaged_sessions, recovery.owed.len()), (vec!["silent".to_owned()], 0));
}

#[test]
fn a_line_taken_away_doubled_or_swapped_breaks_the_chain() {
    let sample = sample();
    for (index, placed) in sample.placed.iter().enumerate() {
        let seq = placed.record.header.seq;
        let line = sample.files[placed.segment].1[placed.start..placed.end].to_vec();
        let edits: [(&str, Vec<u8>); 3] = [
            ("deleted", Vec::new()),
            ("doubled", [line.clone(), line.clone()].concat()),
            (
                "swapped",
                match sample.placed.get(index + 1).filter(|next| next.segment == placed.segment) {
                    Some(next) => [&sample.files[next.segment].1[next.start..next.end], &line].concat(),
                    None => continue,
                },
            ),
        ];
        for (what, bytes) in edits {
            let mut files = sample.files.clone();
            let end = if what == "swapped" { sample.placed[index + 1].end } else { placed.end };
            files[placed.segment].1.splice(placed.start..end, bytes);
            let disk = disk_of(&files);
            let report = check(&disk);
            let gone = if what == "deleted" { vec![seq] } else { Vec::new() };
            let durable = sample.durable_without(&gone);
            if what == "deleted" && seq == *sample.seqs().last().unwrap() {
                // The newest record, seen by nobody, can be taken away without a trace: the threat statement says so.
                assert!(report.ok());
                continue;
            }
            assert!(!report.ok(), "record {seq} {what}");
            let first = report.problems.first().unwrap().class;
            let at_boundary =
                what == "deleted" && placed.start == 0 || placed.end == sample.files[placed.segment].1.len();
            let expected: &[Class] = match () {
                // The second of two stands where the next record should.
                () if seq + u64::from(what == "doubled") > durable => &[Class::SuspiciousTail],
                () if what == "deleted" && at_boundary => &[Class::ChainBroken, Class::Loss],
                () => &[Class::ChainBroken],
            };
            assert!(expected.contains(&first), "record {seq} {what}: {:?}", report.problems);
            let read = seqs_read(&disk);
            let missing = sample.seqs().iter().filter(|seq| **seq <= durable && !read.contains(seq)).count();
            if seq + u64::from(what == "doubled") <= durable {
                let allowed = usize::from(what != "doubled");
                assert!(missing <= allowed, "record {seq} {what}: {missing} others are gone");
            }
        }
    }
}

#[test]
fn records_and_segments_of_another_ledger_do_not_pass() {
    let sample = sample();
    let other = SimulatedDisk::new();
    let mut foreign = options(BOOT);
    foreign.new_ledger_id = "another".to_owned();
    let (mut ledger, _recovery) = Ledger::open(other.storage(), foreign).unwrap();
    for number in 0..40 {
        turn(&mut ledger, &[entry(Some("a"), &format!("foreign {number}"))]);
    }
    let strange = segments(&other)[0].1.clone();
    let starts = line_starts(&strange);
    for at in 0..sample.placed.len() {
        let placed = &sample.placed[at];
        // One line, three lines, and a line of the same number in place of ours.
        for (from, lines, replace) in [(5, 1, false), (30, 3, false), (placed.record.header.seq, 1, true)] {
            let from = usize::try_from(from).unwrap() - 1;
            let splice = strange[starts[from]..starts[from + lines]].to_vec();
            let mut files = sample.files.clone();
            let range = placed.start..if replace { placed.end } else { placed.start };
            files[placed.segment].1.splice(range, splice);
            let disk = disk_of(&files);
            assert!(!check(&disk).ok(), "at record {}", placed.record.header.seq);
            if placed.record.header.seq <= sample.durable_without(&[placed.record.header.seq]) && placed.start > 0 {
                let (ledger, _recovery) = open(&disk);
                let read: Vec<Record> = records(&ledger);
                assert!(read.iter().all(|record| !record.raw().contains("foreign")));
                let missing = sample.placed.iter().filter(|placed| !read.contains(&placed.record)).count();
                assert_eq!(missing, usize::from(replace), "at record {}", placed.record.header.seq);
            }
        }
    }
    let mut files = sample.files.clone();
    files[1].1.clone_from(&strange);
    let report = check(&disk_of(&files));
    assert!(report.problems.iter().any(|problem| problem.class == Class::ChainBroken), "{report:?}");
}

#[test]
fn a_missing_segment_is_loss() {
    let sample = sample();
    for gone in 0..2 {
        let mut files = sample.files.clone();
        files.remove(gone);
        let disk = disk_of(&files);
        let report = check(&disk);
        assert_eq!(report.problems.iter().map(|problem| problem.class).collect::<Vec<_>>(), [Class::Loss]);
        let (_ledger, recovery) = open(&disk);
        assert!(recovery.loss && !recovery.degraded.is_empty());
        let lost = sample.placed.iter().filter(|placed| placed.segment == gone);
        let lost: BTreeSet<&String> = lost.filter_map(|placed| placed.record.header.sid.as_ref()).collect();
        let left = sample.placed.iter().filter(|placed| placed.segment != gone);
        let left: BTreeSet<&String> = left.filter_map(|placed| placed.record.header.sid.as_ref()).collect();
        let named: BTreeSet<&String> = recovery.damaged_sessions.iter().collect();
        assert!(lost.intersection(&left).all(|sid| named.contains(*sid)), "{named:?}");
    }
}

#[test]
fn a_head_kept_elsewhere_unmasks_a_rollback_and_a_rewrite() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    turn(&mut ledger, &[entry(None, "old")]);
    let before = segments(&disk);
    turn(&mut ledger, &[entry(None, "new")]);
    let kept = ledger.head();
    let with = |since| VerifyOptions { boot: None, since: Some(since) };
    assert!(verify(&disk.storage(), &with(kept)).unwrap().ok());
    drop(ledger);

    let rolled_back = disk_of(&before);
    let report = verify(&rolled_back.storage(), &with(kept)).unwrap();
    assert_eq!(report.problems[0].class, Class::Loss);
    let (mut ledger, _recovery) = open(&rolled_back);
    turn(&mut ledger, &[entry(None, "another history")]);
    let report = verify(&rolled_back.storage(), &with(kept)).unwrap();
    assert_eq!(report.problems[0].class, Class::ChainBroken);
}

#[test]
fn a_suspicious_tail_is_set_aside_and_stays_a_problem() {
    let sample = sample();
    let mut files = sample.files.clone();
    let last = sample.placed.last().unwrap();
    files[last.segment].1[last.start + 80] ^= 1;
    let disk = disk_of(&files);
    assert_eq!(check(&disk).problems[0].class, Class::SuspiciousTail);
    let (ledger, recovery) = open(&disk);
    assert_eq!(recovery.tail.as_ref().map(|tail| tail.class), Some(Class::SuspiciousTail));
    assert!(!recovery.degraded.is_empty());
    drop(ledger);
    // A start that crashes before its first turn: the next one still owes the record.
    let (mut ledger, again) = open(&disk);
    assert_eq!((again.tail, &again.owed), (None, &recovery.owed));
    turn(&mut ledger, &again.owed);
    drop(ledger);
    let (_ledger, third) = open(&disk);
    assert_eq!((third.owed.len(), third.problems[0].class), (0, Class::SuspiciousTail));
    assert!(!third.degraded.is_empty());
    assert_eq!(check(&disk).problems[0].class, Class::SuspiciousTail);

    // After a reboot the same bytes are what a power loss leaves.
    let (_ledger, rebooted) = Ledger::open(disk_of(&files).storage(), options(OTHER_BOOT)).unwrap();
    assert_eq!(rebooted.tail.map(|tail| tail.class), Some(Class::TornTail));
    assert_eq!(rebooted.degraded, Vec::<String>::new());
}

/// The independent check of one session's history, from its records alone.
#[test]
fn a_sessions_own_chain_verifies_alone() {
    let sample = sample();
    for sid in ["a", "b", "c", "early", "done"] {
        let lines: Vec<String> = sample
            .placed
            .iter()
            .filter(|placed| placed.record.header.sid.as_deref() == Some(sid))
            .map(|placed| placed.record.line())
            .collect();
        let mut previous: Option<String> = None;
        for (index, line) in lines.iter().enumerate() {
            let value: Value = serde_json::from_str(line).unwrap();
            assert_eq!(value["r"]["sn"].as_u64(), u64::try_from(index + 1).ok());
            assert_eq!(value["r"]["sp"].as_str(), previous.as_deref());
            previous = value["d"].as_str().map(str::to_owned);
        }
        assert!(!lines.is_empty());
    }
}
