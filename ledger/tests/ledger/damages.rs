//! Random damages of a larger ledger, one to five at once: both judges say the same of it, an opening changes nothing but
//! the tail and can be gone on from, and both judges say the same of what it left.

use std::collections::BTreeMap;

use ostler_ledger::storage::SimulatedDisk;
use ostler_ledger::{Class, Ledger, Options, Position, VerifyOptions, VerifyReport};

use crate::judges::{Files, Judges};
use crate::openings::{Case, Written};
use crate::support::*;

/// A ledger of some two hundred records in many segments, with sessions that end and sessions that fall silent.
fn larger(ledger_id: &str) -> Files {
    let disk = SimulatedDisk::new();
    let small = Options { segment_bytes: 6000, new_ledger_id: ledger_id.to_owned(), ..options(BOOT) };
    let (mut ledger, _recovery) = Ledger::open(disk.storage(), small).unwrap();
    for number in 0..110_usize {
        let batch: Vec<_> = (0..1 + number % 3)
            .map(|more| {
                let text = format!("n{number}+{more} \u{fc}\u{1f600}");
                match (number + more) % 9 {
                    0 | 4 => entry(None, &text),
                    1 if number < 20 => entry(Some("early"), &text),
                    2 | 3 => entry(Some("a"), &text),
                    6 if number % 9 == 6 => last_entry(&format!("e{}", number / 9), &text),
                    5 | 6 => entry(Some(&format!("e{}", number / 9)), &text),
                    _ => entry(Some(&format!("s{}", number / 9)), &text),
                }
            })
            .collect();
        turn(&mut ledger, &batch);
    }
    segments(&disk)
}

/// One kind of damage to a file.
type Damage = fn(&mut Vandal, &mut Files, usize);

/// Damages the files at random. What it did comes back as text.
struct Vandal {
    random: Random,
    theirs: Files,
    done: Vec<String>,
}

impl Vandal {
    fn damage(&mut self, files: &mut Files) {
        let kinds: [(&str, Damage); 16] = [
            ("flip", Vandal::flip),
            ("truncate", Vandal::truncate),
            ("delete", Vandal::delete),
            ("double", Vandal::double),
            ("swap", Vandal::swap),
            ("splice", Vandal::splice),
            ("replace", Vandal::replace),
            ("lose the file", |_vandal, files, file| drop(files.remove(file))),
            ("exchange files", Vandal::exchange),
            ("foreign file", Vandal::foreign),
            ("zeros", Vandal::zeros),
            ("garbage", Vandal::garbage),
            ("copy elsewhere", Vandal::copy),
            ("rename", Vandal::rename),
            ("empty", |_vandal, files, file| files[file].1.clear()),
            ("glue", Vandal::glue),
        ];
        if files.is_empty() {
            return;
        }
        // The end of a ledger is where most happens.
        let file = if self.random.pick(3) == 0 { files.len() - 1 } else { self.random.pick(files.len()) };
        if files[file].1.is_empty() {
            return;
        }
        let (name, kind) = kinds[self.random.pick(kinds.len())];
        self.done.push(format!("{name} in {file}"));
        kind(self, files, file);
        files.sort();
    }

    /// Changes the lines of a file; `at` is one of them.
    fn edit(&mut self, files: &mut Files, file: usize, change: impl FnOnce(&mut Vandal, &mut Vec<Vec<u8>>, usize)) {
        let mut lines: Vec<Vec<u8>> =
            files[file].1.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        let at = self.random.pick(lines.len());
        change(self, &mut lines, at);
        files[file].1 = lines.concat();
    }

    fn flip(&mut self, files: &mut Files, file: usize) {
        let at = self.random.pick(files[file].1.len());
        files[file].1[at] ^= 1 << self.random.below(8);
    }

    fn truncate(&mut self, files: &mut Files, file: usize) {
        let length = self.random.pick(files[file].1.len());
        files[file].1.truncate(length);
    }

    fn delete(&mut self, files: &mut Files, file: usize) {
        self.edit(files, file, |vandal, lines, at| {
            let end = lines.len().min(at + 1 + vandal.random.pick(3));
            lines.drain(at..end);
        });
    }

    fn double(&mut self, files: &mut Files, file: usize) {
        self.edit(files, file, |_vandal, lines, at| lines.insert(at, lines[at].clone()));
    }

    fn swap(&mut self, files: &mut Files, file: usize) {
        self.edit(files, file, |vandal, lines, at| {
            let other = vandal.random.pick(lines.len());
            lines.swap(at, other);
        });
    }

    fn some_of(&mut self, files: &Files) -> Vec<Vec<u8>> {
        let file = &files[self.random.pick(files.len())].1;
        let lines: Vec<Vec<u8>> = file.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        let from = self.random.pick(lines.len().max(1));
        let many = 1 + self.random.pick(3);
        lines.into_iter().skip(from).take(many).collect()
    }

    fn splice(&mut self, files: &mut Files, file: usize) {
        let theirs = self.theirs.clone();
        let lines_of_theirs = self.some_of(&theirs);
        self.edit(files, file, |_vandal, lines, at| drop(lines.splice(at..at, lines_of_theirs)));
    }

    fn replace(&mut self, files: &mut Files, file: usize) {
        let theirs = self.theirs.clone();
        let lines_of_theirs = self.some_of(&theirs);
        self.edit(files, file, |_vandal, lines, at| {
            let end = lines.len().min(at + lines_of_theirs.len());
            lines.splice(at..end, lines_of_theirs);
        });
    }

    fn exchange(&mut self, files: &mut Files, file: usize) {
        let other = self.random.pick(files.len());
        let bytes = std::mem::take(&mut files[file].1);
        let bytes = std::mem::replace(&mut files[other].1, bytes);
        files[file].1 = bytes;
    }

    fn foreign(&mut self, files: &mut Files, file: usize) {
        let other = self.random.pick(self.theirs.len());
        files[file].1.clone_from(&self.theirs[other].1);
    }

    fn zeros(&mut self, files: &mut Files, file: usize) {
        let (one, other) = (self.random.pick(files[file].1.len()), self.random.pick(files[file].1.len()));
        files[file].1[one.min(other)..one.max(other).min(one.min(other) + 700)].fill(0);
    }

    fn garbage(&mut self, files: &mut Files, file: usize) {
        let pieces: [&[u8]; 5] = [b"garbage\n", b"\n", b"{\"d\":\"", b"{}\n", &[0; 100]];
        let piece = pieces[self.random.pick(pieces.len())].to_vec();
        self.edit(files, file, |_vandal, lines, at| lines.insert(at, piece));
    }

    fn copy(&mut self, files: &mut Files, file: usize) {
        let all = files.clone();
        let ours = self.some_of(&all);
        self.edit(files, file, |_vandal, lines, at| drop(lines.splice(at..at, ours)));
    }

    fn rename(&mut self, files: &mut Files, file: usize) {
        let name = format!("{:020}.jsonl", self.random.below(300));
        if files.iter().all(|(other, _bytes)| *other != name) {
            files[file].0 = name;
        }
    }

    fn glue(&mut self, files: &mut Files, file: usize) {
        self.edit(files, file, |_vandal, lines, at| {
            lines[at].pop();
        });
    }
}

fn one_case(seed: u64, ours: &Files, theirs: &Files, written: &Written, judges: &mut Judges) -> (VerifyReport, bool) {
    let mut vandal = Vandal { random: Random(seed), theirs: theirs.clone(), done: Vec::new() };
    let mut files = ours.clone();
    for _ in 0..1 + vandal.random.pick(5) {
        vandal.damage(&mut files);
    }
    let boot = [None, Some(BOOT), Some(OTHER_BOOT)][vandal.random.pick(3)];
    let since = match vandal.random.pick(4) {
        0 => Some(Position { seq: vandal.random.below(250), ..Position::START }),
        _ => None,
    };
    let done = vandal.done;
    let what = || format!("seed {seed}, {done:?}, boot {boot:?}");
    let report = judges.report(&files, &VerifyOptions { boot: boot.map(str::to_owned), since }, &what);
    let opened = Case { written, files: &files, boot, report: &report, jumbled: true, what: &what }.open(judges);
    (report, opened)
}

#[expect(clippy::print_stdout, reason = "how many there were, for who asks with --nocapture")]
fn damages(seeds: std::ops::Range<u64>) {
    let (ours, theirs) = (larger("test-ledger"), larger("another"));
    assert!(ours.len() > 6, "{}", ours.len());
    let written = Written::of(&ours);
    let (mut judges, mut seen, mut refused) = (Judges::new(), BTreeMap::new(), 0);
    for seed in seeds.clone() {
        let (report, opened) = one_case(seed, &ours, &theirs, &written, &mut judges);
        report.problems.iter().for_each(|problem| *seen.entry(problem.class).or_insert(0) += 1);
        refused += u64::from(!opened);
    }
    println!("{} damages, {refused} refused; findings: {seen:?}", seeds.end - seeds.start);
    let every = [Class::SuspiciousTail, Class::Damage, Class::ChainBroken, Class::Loss];
    assert!(every.iter().all(|class| seen.get(class) > Some(&10)), "{seen:?}");
}

#[test]
fn both_judges_say_the_same_of_random_damages() {
    damages(0..400);
}

#[test]
#[ignore = "ten thousand damages take minutes"]
fn long_damages() {
    damages(1_000..11_000);
}
