//! What every opening of altered files keeps to: it refuses and changes nothing; or it keeps whatever can be seen to have
//! been acknowledged, can be gone on from, and leaves nothing for the next opening to find.

use std::collections::{BTreeSet, HashMap};

use ostler_ledger::storage::Folder;
use ostler_ledger::{Class, Ledger, OpenError, Options, Position, Problem, VerifyOptions, VerifyReport};
use serde_json::Value;

use crate::judges::{Files, Judges};
use crate::support::*;

/// The lines that were written, each with its `seq` and `dur`.
pub(crate) struct Written(HashMap<Vec<u8>, (u64, u64)>);

impl Written {
    pub(crate) fn of(files: &Files) -> Written {
        Written(lines(files).map(|line| (line.to_vec(), seq_and_dur(line))).collect())
    }

    /// Which records still stand whole in the files, and up to which of them they say themselves that it was synced.
    fn standing(&self, files: &Files) -> (BTreeSet<u64>, u64) {
        let found = || lines(files).filter_map(|line| self.0.get(line));
        (found().map(|(seq, _dur)| *seq).collect(), found().map(|(_seq, dur)| *dur).max().unwrap_or(0))
    }
}

fn lines(files: &Files) -> impl Iterator<Item = &[u8]> {
    files.iter().flat_map(|(_name, bytes)| bytes.split_inclusive(|byte| *byte == b'\n'))
}

fn seq_and_dur(line: &[u8]) -> (u64, u64) {
    let line: Value = serde_json::from_slice(line).unwrap();
    (line["r"]["seq"].as_u64().unwrap(), line["r"]["dur"].as_u64().unwrap())
}

/// Files as they were altered, and how both judges took them.
pub(crate) struct Case<'a> {
    pub(crate) written: &'a Written,
    pub(crate) files: &'a Files,
    /// The boot of the judges, and of the opening if there is one.
    pub(crate) boot: Option<&'a str>,
    pub(crate) report: &'a VerifyReport,
    /// Lines were moved about, more than one: what one that does not count says of those behind it is not believed.
    pub(crate) jumbled: bool,
    pub(crate) what: &'a dyn Fn() -> String,
}

impl Case<'_> {
    fn options(&self) -> Options {
        Options { segment_bytes: 6000, ..options(self.boot.unwrap_or(BOOT)) }
    }

    /// Opens the files, goes on, opens them again. `false` if they were refused.
    pub(crate) fn open(&self, judges: &mut Judges) -> bool {
        let what = |when: &str| format!("{}, {when}", (self.what)());
        let disk = disk_of(self.files);
        let (mut ledger, recovery) = match Ledger::open(disk.storage(), self.options()) {
            Ok(opened) => opened,
            Err(OpenError::Unexplained { .. } | OpenError::Misnamed { .. }) => {
                let left = (&segments(&disk), disk.names(Folder::Quarantine).len());
                assert_eq!(left, (self.files, 0), "{}", what("refused"));
                return false;
            }
            Err(error) => panic!("{}: {error}", what("opening")),
        };
        assert_eq!(recovery.records, self.report.records, "{}", what("opened"));
        let read = records(&ledger);
        for after in segments(&disk) {
            let before =
                self.files.iter().find(|(name, _bytes)| *name == after.0).expect("an opening makes no segment");
            assert!(before.1.starts_with(&after.1), "{}: {} was rewritten", what("opened"), after.0);
        }
        turn(&mut ledger, &[recovery.owed, vec![entry(Some("a"), "goes on")]].concat());
        assert!(records(&ledger).starts_with(&read), "{}", what("gone on"));
        drop(ledger);

        let left = segments(&disk);
        let (before, said) = self.written.standing(self.files);
        let counting = read.iter().map(|record| record.header.dur).max().unwrap_or(0);
        let synced = if self.jumbled { counting } else { said };
        let (kept, _said) = self.written.standing(&left);
        let lost: Vec<&u64> = before.difference(&kept).filter(|seq| **seq <= synced).collect();
        assert!(lost.is_empty(), "{}: records {lost:?} were acknowledged", what("cut"));
        let judgement = VerifyOptions { boot: self.boot.map(str::to_owned), since: None };
        let again = judges.report(&left, &judgement, &|| what("after the opening"));
        assert_eq!(
            essences(&again.problems, self.report),
            essences(&recovery.problems, self.report),
            "{}",
            what("left")
        );
        let second = Ledger::open(disk.storage(), self.options()).map(|(_ledger, second)| second);
        let second = second.unwrap_or_else(|error| panic!("{}: {error}", what("opened again")));
        assert_eq!((second.tail, second.owed.len()), (None, 0), "{}", what("opened again"));
        true
    }
}

type Essence = (Option<Class>, String, u64, Option<u64>, u64, Vec<String>);

/// Where the problems are and what they are, but for tails that were set aside; the sentence is for people. What is
/// missing behind the head can become the end of a segment, so that another class fits.
fn essences(problems: &[Problem], before: &VerifyReport) -> Vec<Essence> {
    let Position { seq: head, .. } = before.head;
    let essence = |problem: &Problem| {
        let Problem { class, segment, seq, missing, offset, sessions, .. } = problem.clone();
        (Some(class).filter(|_class| seq.is_some_and(|seq| seq <= head)), segment, offset, seq, missing, sessions)
    };
    problems.iter().filter(|problem| problem.class != Class::SuspiciousTail).map(essence).collect()
}
