//! Every way to cut, flip, delete, double, swap and lose what stands in a small ledger, one at a time: both judges say
//! what the oracle expects of the place.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ostler_ledger::{Class, Position, VerifyOptions, VerifyReport};

use crate::judges::{Files, Judges};
use crate::openings::{Case, Written};
use crate::oracle::{Expected, Finding, Looks, Sample};
use crate::support::*;

/// A sample, both judges, how often each class was seen, and how many openings refused.
struct Court {
    sample: Sample,
    written: Written,
    judges: Judges,
    seen: BTreeMap<Option<Class>, u32>,
    refused: u32,
}

impl Court {
    fn new(other_boot: bool) -> Court {
        let sample = Sample::new(other_boot);
        let written = Written::of(&sample.files);
        Court { sample, written, judges: Judges::new(), seen: BTreeMap::new(), refused: 0 }
    }

    /// Both judges say of these files what is expected, and an opening keeps what was acknowledged.
    fn check(&mut self, files: &Files, expected: &Expected, what: &dyn Fn() -> String) {
        let boot = if self.sample.other_boot { OTHER_BOOT } else { BOOT };
        let options = VerifyOptions { boot: Some(boot.to_owned()), since: None };
        let report = self.judges.report(files, &options, what);
        assert_eq!(found(&report), *expected, "{}", what());
        let case = Case { written: &self.written, files, boot: Some(boot), report: &report, jumbled: false, what };
        self.refused += u32::from(!case.open(&mut self.judges));
        let class = expected.problems.first().map(|problem| problem.0);
        *self.seen.entry(class.or(expected.torn.as_ref().map(|_torn| Class::TornTail))).or_insert(0) += 1;
    }

    /// The files with `bytes` in the place of `range` of one of them.
    fn with(&self, file: usize, range: Range<usize>, bytes: &[u8]) -> Files {
        let mut files = self.sample.files.clone();
        files[file].1.splice(range, bytes.iter().copied());
        files
    }

    /// Each of these classes was seen, and that many openings refused.
    #[expect(clippy::print_stdout, reason = "how many there were, for who asks with --nocapture")]
    fn saw(&self, classes: &[Option<Class>], refused: u32) {
        println!(
            "{} cases, {} refused; first findings: {:?}",
            self.seen.values().sum::<u32>(),
            self.refused,
            self.seen
        );
        assert!(classes.iter().all(|class| self.seen.contains_key(class)), "{:?}", self.seen);
        assert_eq!(self.refused, refused);
    }

    /// The record to which the byte belongs.
    fn record_at(&self, file: usize, at: usize) -> usize {
        self.sample.placed.iter().position(|placed| placed.segment == file && placed.end > at).unwrap()
    }
}

fn found(report: &VerifyReport) -> Expected {
    let finding = |problem: &ostler_ledger::Problem| -> Finding {
        let sessions = problem.sessions.iter().cloned().collect();
        (problem.class, problem.segment.clone(), problem.seq.unwrap_or(0), problem.missing, problem.offset, sessions)
    };
    let torn = report.tail.as_ref().map(|tail| (tail.segment.clone(), tail.offset, tail.bytes));
    Expected { problems: report.problems.iter().map(finding).collect(), torn, head: report.head.seq }
}

#[test]
fn every_truncation_of_every_segment_is_judged_by_its_place() {
    let mut court = Court::new(false);
    for file in 0..court.sample.files.len() {
        for length in 0..court.sample.files[file].1.len() {
            let (index, placed) = (court.record_at(file, length), &court.sample.placed);
            let behind = placed.iter().filter(|other| other.segment == file && other.end > length).count();
            let left = length - placed[index].start;
            let looks = if left == 0 { Looks::Gone } else { Looks::Bad { bytes: left, piece: true } };
            let is_last = file + 1 == court.sample.files.len();
            let expected = court.sample.without(index, behind, looks, is_last);
            let files = court.with(file, length..court.sample.files[file].1.len(), &[]);
            court.check(&files, &expected, &|| format!("{file} cut at {length}"));
        }
    }
    court.saw(&[None, Some(Class::TornTail), Some(Class::Damage), Some(Class::Loss)], 0);
}

/// Flips these bits of every byte.
fn flip(court: &mut Court, bits: impl Fn(usize) -> Range<u32>) {
    for index in 0..court.sample.placed.len() {
        let (file, start, end) = {
            let placed = &court.sample.placed[index];
            (placed.segment, placed.start, placed.end)
        };
        for at in start..end {
            let ends_line = at + 1 == end;
            let bits = if ends_line { 0..8 } else { bits(at) };
            for bit in bits {
                let ends_file = court.sample.is_last_of_file(index);
                // Without its LF a line runs into the next.
                let count = if ends_line && !ends_file { 2 } else { 1 };
                let bytes: usize =
                    court.sample.placed[index..index + count].iter().map(|placed| placed.end - placed.start).sum();
                let looks = Looks::Bad { bytes, piece: ends_line && ends_file };
                let expected = court.sample.without(index, count, looks, false);
                let flipped = court.sample.files[file].1[at] ^ (1 << bit);
                let files = court.with(file, at..at + 1, &[flipped]);
                court.check(&files, &expected, &|| format!("record {}, byte {at}, bit {bit}", index + 1));
            }
        }
    }
}

#[test]
fn field_f11_a_flipped_bit_in_every_byte_is_judged_by_its_place() {
    for other_boot in [false, true] {
        let mut court = Court::new(other_boot);
        flip(&mut court, |at| {
            let bit = u32::try_from(at * 7 % 8).unwrap();
            // The boot matters to the tail alone.
            if other_boot && at % 5 > 0 { 0..0 } else { bit..bit + 1 }
        });
        court.saw(&[Some(Class::TornTail), Some(Class::Damage)], 0);
        assert_eq!(court.seen.contains_key(&Some(Class::SuspiciousTail)), !other_boot);
    }
}

#[test]
#[ignore = "each of eighty thousand bits, twice"]
fn long_damages_flip_every_bit() {
    for other_boot in [false, true] {
        let mut court = Court::new(other_boot);
        flip(&mut court, |_at| 0..8);
        court.saw(&[Some(Class::TornTail), Some(Class::Damage)], 0);
    }
}

/// What a disk does to whole sectors: they read as zeros, or are not there.
#[test]
fn a_sector_zeroed_or_lost_is_judged_by_its_place() {
    for other_boot in [false, true] {
        let mut court = Court::new(other_boot);
        for file in 0..court.sample.files.len() {
            let length = court.sample.files[file].1.len();
            for start in (0..length).step_by(512) {
                let end = length.min(start + 512);
                zeroed(&mut court, file, start..end);
                lost(&mut court, file, start..end);
            }
        }
        court.saw(&[Some(Class::TornTail), Some(Class::Damage)], 0);
    }
}

fn zeroed(court: &mut Court, file: usize, range: Range<usize>) {
    let first = court.record_at(file, range.start);
    let ends_file = range.end == court.sample.files[file].1.len();
    // A line whose LF is gone runs into the next.
    let last = court.record_at(file, if ends_file { range.end - 1 } else { range.end });
    let bytes = court.sample.placed[last].end - court.sample.placed[first].start;
    let looks = Looks::Bad { bytes, piece: ends_file };
    let expected = court.sample.without(first, last + 1 - first, looks, false);
    let files = court.with(file, range.clone(), &vec![0; range.len()]);
    court.check(&files, &expected, &|| format!("{range:?} of {file} zeroed"));
}

fn lost(court: &mut Court, file: usize, range: Range<usize>) {
    let first = court.record_at(file, range.start);
    let before = range.start - court.sample.placed[first].start;
    let ends_file = range.end == court.sample.files[file].1.len();
    let (count, behind) = if ends_file {
        (court.record_at(file, range.end - 1) + 1 - first, 0)
    } else {
        let last = court.record_at(file, range.end);
        match court.sample.placed[last].end - range.end {
            // Nothing of it is lost, nor is it glued to anything.
            _ if before == 0 && range.end == court.sample.placed[last].start => (last - first, 0),
            // An LF alone at the end of a file is fill.
            1 if before == 0 && court.sample.is_last_of_file(last) => (last + 1 - first, 0),
            behind => (last + 1 - first, behind),
        }
    };
    let bytes = before + behind;
    let looks = if bytes == 0 { Looks::Gone } else { Looks::Bad { bytes, piece: behind == 0 } };
    let to_the_end = ends_file && file + 1 == court.sample.files.len();
    let expected = court.sample.without(first, count, looks, to_the_end);
    let files = court.with(file, range.clone(), &[]);
    court.check(&files, &expected, &|| format!("{range:?} of {file} lost"));
}

#[test]
fn a_line_deleted_doubled_or_swapped_is_judged_by_its_place() {
    for other_boot in [false, true] {
        let mut court = Court::new(other_boot);
        for index in 0..court.sample.placed.len() {
            let is_last = index + 1 == court.sample.placed.len();
            let ends_file = court.sample.is_last_of_file(index);
            let placed = &court.sample.placed[index];
            let (file, start, end) = (placed.segment, placed.start, placed.end);
            let line = placed.record.line().into_bytes();
            let sid = placed.record.header.sid.clone();

            let expected = court.sample.without(index, 1, Looks::Gone, is_last);
            let files = court.with(file, start..end, &[]);
            court.check(&files, &expected, &|| format!("record {} deleted", index + 1));

            let expected = court.sample.with_strays(index + 1, (file, end), &[sid.as_deref()]);
            let files = court.with(file, end..end, &line);
            court.check(&files, &expected, &|| format!("record {} doubled", index + 1));

            if !ends_file {
                let next = &court.sample.placed[index + 1];
                let swapped = [next.record.line().into_bytes(), line].concat();
                let expected = court.sample.swapped(index);
                let files = court.with(file, start..next.end, &swapped);
                court.check(&files, &expected, &|| format!("records {} and {} swapped", index + 1, index + 2));
            }
        }
        court
            .saw(&[Some(Class::TornTail), Some(Class::SuspiciousTail), Some(Class::ChainBroken), Some(Class::Loss)], 0);
    }
}

#[test]
fn field_f11_a_segment_that_is_missing_is_judged_by_its_place() {
    let mut court = Court::new(false);
    for file in 0..court.sample.files.len() {
        let mut files = court.sample.files.clone();
        files.remove(file);
        let first = court.sample.placed.iter().position(|placed| placed.segment == file).unwrap();
        let count = court.sample.placed.iter().filter(|placed| placed.segment == file).count();
        let is_last = file + 1 == court.sample.files.len();
        let expected = court.sample.without(first, count, Looks::Gone, is_last);
        court.check(&files, &expected, &|| format!("without segment {file}"));
    }
    court.saw(&[None, Some(Class::Loss)], 0);
}

/// Bytes of other kinds between the lines: what a crash, an editor or a broken copy leaves.
#[test]
fn what_is_slipped_in_between_lines_is_judged_by_its_place() {
    let mut court = Court::new(false);
    let theirs = Sample::of("another", false);
    for index in 0..court.sample.placed.len() {
        let placed = &court.sample.placed[index];
        let (file, start) = (placed.segment, placed.start);
        let bad: [&[u8]; 5] = [
            b"\n",
            b"{}\n",
            b"not a record \xc3\xa9\n",
            b"cut in \xc3\n",
            &[b"\0".repeat(200).as_slice(), b"\n"].concat(),
        ];
        for piece in bad {
            let expected = court.sample.with_garbage(index, (file, start));
            let files = court.with(file, start..start, piece);
            court.check(&files, &expected, &|| format!("{piece:?} before record {}", index + 1));
        }
        // Lines of another ledger, one and three, that do not tell at once that all of the file is of another.
        for (from, many) in [(1, 1), (4, 1), (4, 3), (20, 3)] {
            let strays = &theirs.placed[from..from + many];
            let sids: Vec<Option<&str>> = strays.iter().map(|stray| stray.record.header.sid.as_deref()).collect();
            let lines: Vec<u8> = strays.iter().flat_map(|stray| stray.record.line().into_bytes()).collect();
            let expected = court.sample.with_strays(index, (file, start), &sids);
            let files = court.with(file, start..start, &lines);
            court.check(&files, &expected, &|| format!("{many} of theirs from {from} before record {}", index + 1));
        }
    }
    court.saw(&[Some(Class::Damage), Some(Class::ChainBroken), Some(Class::SuspiciousTail)], 0);
}

/// Files of another ledger in the place of ours, or behind them; and one of ours under a second name.
#[test]
fn a_segment_spliced_in_is_judged_by_its_place() {
    let mut court = Court::new(false);
    let theirs = Sample::of("another", false);
    let names: Vec<String> = court.sample.files.iter().map(|(name, _bytes)| name.clone()).collect();
    let of_file = |sample: &Sample, file: usize| -> Vec<usize> {
        (0..sample.placed.len()).filter(|index| sample.placed[*index].segment == file).collect()
    };
    let head = court.sample.placed.last().unwrap().seq();
    let broken = |name: &str, seq: u64, missing: u64, sessions: BTreeSet<String>| {
        (Class::ChainBroken, name.to_owned(), seq, missing, 0, sessions)
    };
    let expect = |problem: Finding, head: u64| Expected { problems: vec![problem], torn: None, head };
    let replaced = |court: &Court, file: usize| {
        let mut files = court.sample.files.clone();
        files[file].1.clone_from(&theirs.files[file].1);
        files
    };

    // In the middle: what it replaced is missing.
    let gone = of_file(&court.sample, 1);
    let seq = court.sample.placed[gone[0]].seq();
    let problem = broken(&names[1], seq, u64::try_from(gone.len()).unwrap(), court.sample.owners(&gone));
    court.check(&replaced(&court, 1), &expect(problem, head), &|| "their second in place of ours".to_owned());
    court.saw(&[], 0);
    // The first says whose ledger it is, so ours are foreign then; a last one is cut by no opening.
    let last = theirs.placed[*of_file(&theirs, 0).last().unwrap()].seq();
    let problem = broken(&names[1], last + 1, 0, BTreeSet::new());
    court.check(&replaced(&court, 0), &expect(problem, last), &|| "their first in place of ours".to_owned());
    let before = court.sample.placed[of_file(&court.sample, 2)[0]].seq() - 1;
    let problem = broken(&names[2], before + 1, 0, BTreeSet::new());
    court.check(&replaced(&court, 2), &expect(problem, before), &|| "their last in place of ours".to_owned());
    let mut files = court.sample.files.clone();
    files.push((format!("{:020}.jsonl", head + 5), theirs.files[2].1.clone()));
    let problem = broken(&files[3].0, head + 1, 0, BTreeSet::new());
    court.check(&files, &expect(problem, head), &|| "their last behind ours".to_owned());
    court.saw(&[], 3);

    // A copy of ours between two others is not taken.
    let mut files = court.sample.files.clone();
    let third = court.sample.placed[of_file(&court.sample, 2)[0]].seq();
    files.insert(2, (format!("{:020}.jsonl", third - 1), files[1].1.clone()));
    let at = usize::try_from(third).unwrap() - 1;
    let placed = gone.iter().map(|index| &court.sample.placed[*index]);
    let sids = placed.filter_map(|placed| placed.record.header.sid.clone());
    let open = sids.filter(|sid| court.sample.is_open(sid, at)).collect();
    let problem = broken(&files[2].0, third, 0, open);
    court.check(&files, &expect(problem, head), &|| "our second once more".to_owned());
    court.saw(&[Some(Class::ChainBroken)], 3);
}

/// The folder as it was once, or gone on from there in another way: only a head that was kept elsewhere tells.
#[test]
fn a_folder_rolled_back_is_told_by_a_head_kept_elsewhere() {
    let sample = Sample::new(false);
    let mut judges = Judges::new();
    let head = sample.placed.last().unwrap().record.position();
    let since = |since: Position| VerifyOptions { boot: Some(BOOT.to_owned()), since: Some(since) };
    let problem =
        |class: Class, files: &Files| vec![(class, files.last().unwrap().0.clone(), head.seq, 0, 0, BTreeSet::new())];
    let mut forks = 0;
    for placed in sample.placed.iter().filter(|placed| placed.record.header.end) {
        let mut files = sample.files[..=placed.segment].to_vec();
        files.last_mut().unwrap().1.truncate(placed.end);
        let what = || format!("rolled back to {}", placed.seq());
        let own = placed.record.position();
        for kept in [own, Position::START] {
            let report = judges.report(&files, &since(kept), &what);
            assert_eq!(found(&report), Expected { problems: Vec::new(), torn: None, head: own.seq }, "{}", what());
        }
        if own == head {
            continue;
        }
        let report = judges.report(&files, &since(head), &what);
        let problems = problem(Class::Loss, &files);
        assert_eq!(found(&report), Expected { problems, torn: None, head: own.seq }, "{}", what());

        let disk = disk_of(&files);
        let (mut ledger, _recovery) = open(&disk);
        while ledger.head().seq < head.seq {
            turn(&mut ledger, &[entry(Some("a"), "another history")]);
        }
        let now = ledger.head().seq;
        let files = segments(&disk);
        let report = judges.report(&files, &since(head), &what);
        let problems = problem(Class::ChainBroken, &files);
        assert_eq!(found(&report), Expected { problems, torn: None, head: now }, "{}", what());
        forks += 1;
    }
    assert!(forks > 8, "{forks}");
}
