//! What is to be expected of one alteration of a sound ledger, from the positions of its records alone: written from
//! `JUDGING.md`, sharing nothing with either judge.

use std::collections::BTreeSet;

use ostler_ledger::storage::SimulatedDisk;
use ostler_ledger::{Class, Ledger, Options, Record};

use crate::judges::Files;
use crate::support::*;

/// A record's place in the files.
pub(crate) struct Placed {
    pub(crate) segment: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) record: Record,
}

impl Placed {
    pub(crate) fn seq(&self) -> u64 {
        self.record.header.seq
    }

    fn sid(&self) -> Option<&String> {
        self.record.header.sid.as_ref()
    }
}

/// A problem but for its sentence.
pub(crate) type Finding = (Class, String, u64, u64, u64, BTreeSet<String>);

/// What both judges have to say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Class, segment, sequence number, missing, offset, sessions.
    pub(crate) problems: Vec<Finding>,
    /// Where a torn tail begins, and how long it is.
    pub(crate) torn: Option<(String, u64, u64)>,
    /// The last record that counts.
    pub(crate) head: u64,
}

/// How a stretch of bytes looks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looks {
    /// So many bytes that are no records, with the LF of the last line or without.
    Bad { bytes: usize, piece: bool },
    /// No line stands there.
    Gone,
}

/// A sound ledger and where everything in it stands.
pub(crate) struct Sample {
    pub(crate) files: Files,
    pub(crate) placed: Vec<Placed>,
    pub(crate) other_boot: bool,
}

impl Sample {
    /// Twenty-four records or a few more in three segments: five sessions, one of which falls silent early and one of
    /// which ends, and records of no session.
    pub(crate) fn new(other_boot: bool) -> Sample {
        Sample::of("test-ledger", other_boot)
    }

    /// As [`Sample::new`], of a ledger with this id.
    pub(crate) fn of(ledger_id: &str, other_boot: bool) -> Sample {
        let disk = SimulatedDisk::new();
        let small = Options { segment_bytes: 3000, new_ledger_id: ledger_id.to_owned(), ..options(BOOT) };
        let (mut ledger, _recovery) = Ledger::open(disk.storage(), small).unwrap();
        let sessions = [Some("early"), Some("a"), None, Some("b"), Some("a"), Some("c"), Some("b"), None];
        let mut number = 0;
        while ledger.head().seq < 24 {
            let note = |number: usize, text: &str| match number {
                4 => entry(Some("done"), text),
                10 => last_entry("done", text),
                16 => entry(Some("a"), text),
                _ => entry(sessions[number % 8], text),
            };
            let batch: Vec<_> =
                (0..1 + number % 2).map(|more| note(number + more, &format!("\u{1f600} n{number}+{more}"))).collect();
            number += batch.len();
            turn(&mut ledger, &batch);
        }
        let files = segments(&disk);
        let mut read = records(&ledger).into_iter();
        let mut placed = Vec::new();
        for (segment, (_file, bytes)) in files.iter().enumerate() {
            for ends in line_starts(bytes).windows(2) {
                placed.push(Placed { segment, start: ends[0], end: ends[1], record: read.next().unwrap() });
            }
        }
        assert_eq!((files.len(), read.next()), (3, None));
        assert!((24..=28).contains(&placed.len()), "{}", placed.len());
        Sample { files, placed, other_boot }
    }

    pub(crate) fn is_last_of_file(&self, index: usize) -> bool {
        self.placed.get(index + 1).is_none_or(|next| next.segment != self.placed[index].segment)
    }

    /// The highest sequence number that the records but for these prove to be synced.
    fn durable_without(&self, gone: &[usize]) -> u64 {
        let left = self.placed.iter().enumerate().filter(|(index, _placed)| !gone.contains(index));
        left.map(|(_index, placed)| placed.record.header.dur).max().unwrap_or(0)
    }

    /// The index behind the last whole turn of those before `index`.
    fn whole_before(&self, index: usize) -> usize {
        let whole = self.placed[..index].iter().rposition(|placed| placed.record.header.end);
        whole.map_or(0, |last| last + 1)
    }

    /// Who owns or could own these records: who has a later record, which shows the jump; and if that does not account
    /// for all of them, every session with an open chain that has no later record.
    pub(crate) fn owners(&self, gone: &[usize]) -> BTreeSet<String> {
        let (first, last) = (gone[0], *gone.last().unwrap());
        let sids = |range: &[Placed]| range.iter().filter_map(Placed::sid).cloned().collect::<BTreeSet<String>>();
        let (earlier, later) = (sids(&self.placed[..first]), sids(&self.placed[last + 1..]));
        let ended = |sid: &String| {
            self.placed[..first].iter().any(|placed| placed.sid() == Some(sid) && placed.record.header.fin)
        };
        let lost: Vec<Option<&String>> = gone.iter().map(|index| self.placed[*index].sid()).collect();
        let jumps: BTreeSet<String> =
            lost.iter().flatten().filter(|sid| later.contains(**sid)).map(|sid| (*sid).clone()).collect();
        let accounted = lost.iter().all(|sid| sid.is_some_and(|sid| later.contains(sid)));
        let silent = earlier.into_iter().filter(|sid| !later.contains(sid) && !ended(sid) && !accounted);
        jumps.into_iter().chain(silent).collect()
    }

    fn file(&self, segment: usize) -> String {
        self.files[segment].0.clone()
    }

    /// The end of the record before this one, as it stands in the files.
    fn end_before(&self, index: usize) -> (String, usize) {
        match index.checked_sub(1) {
            Some(before) => (self.file(self.placed[before].segment), self.placed[before].end),
            None => (self.file(0), 0),
        }
    }

    /// `count` records from `first` on are gone, and in their place stands `looks`; all behind stands as before, or
    /// (`to_the_end`) nothing does.
    pub(crate) fn without(&self, first: usize, count: usize, looks: Looks, to_the_end: bool) -> Expected {
        let gone: Vec<usize> = (first..first + count).collect();
        let (seq, at) = (self.placed[first].seq(), &self.placed[first]);
        if to_the_end || seq > self.durable_without(&gone) {
            return self.tail(first, count, looks, to_the_end);
        }
        let missing = u64::try_from(count).unwrap();
        let ends_file = self.is_last_of_file(first + count - 1);
        let (room, (segment, offset)) = match looks {
            Looks::Bad { bytes, .. } => (u64::try_from(bytes).unwrap() / 150 + 1, (self.file(at.segment), at.start)),
            Looks::Gone => (0, self.end_before(first)),
        };
        let class = match (missing <= room, ends_file) {
            (true, _) => Class::Damage,
            (false, true) => Class::Loss,
            (false, false) => Class::ChainBroken,
        };
        // The first file that is not empty tells that all before it is gone.
        let begins_late = looks == Looks::Gone && first == 0 && ends_file;
        let (segment, offset) = if begins_late { (self.file(1), 0) } else { (segment, offset) };
        let offset = u64::try_from(offset).unwrap();
        let problems = vec![(class, segment, seq, missing, offset, self.owners(&gone))];
        Expected { problems, torn: None, head: self.placed.last().unwrap().seq() }
    }

    /// Nothing proves that these had been synced: what stands behind the last whole turn before them is the tail.
    fn tail(&self, first: usize, count: usize, looks: Looks, to_the_end: bool) -> Expected {
        let begins = self.whole_before(first);
        let head = begins.checked_sub(1).map_or(0, |last| self.placed[last].seq());
        let last_file = self.placed.last().unwrap().segment;
        let offset = if self.placed[begins].segment == last_file { self.placed[begins].start } else { 0 };
        let lines = |range: std::ops::Range<usize>| -> usize {
            self.placed[range].iter().map(|placed| placed.end - placed.start).sum()
        };
        let bad = if let Looks::Bad { bytes, .. } = looks { bytes } else { 0 };
        let behind = if to_the_end { 0 } else { lines(first + count..self.placed.len()) };
        let bytes = lines(begins..first) + bad + behind;
        if bytes == 0 {
            return Expected { problems: Vec::new(), torn: None, head };
        }
        let torn = match looks {
            Looks::Bad { piece: true, .. } => behind == 0 || self.other_boot,
            Looks::Bad { piece: false, .. } => self.other_boot,
            Looks::Gone => behind == 0,
        };
        let (segment, offset) = (self.file(last_file), u64::try_from(offset).unwrap());
        if torn {
            let torn = Some((segment, offset, u64::try_from(bytes).unwrap()));
            return Expected { problems: Vec::new(), torn, head };
        }
        let problems = vec![(Class::SuspiciousTail, segment, head + 1, 0, offset, BTreeSet::new())];
        Expected { problems, torn: None, head }
    }

    /// Whether the session's chain is open when record `index` comes.
    pub(crate) fn is_open(&self, sid: &str, index: usize) -> bool {
        let mut before = self.placed[..index].iter().rev();
        before.find(|placed| placed.sid().is_some_and(|own| own == sid)).is_some_and(|last| !last.record.header.fin)
    }

    /// A tail that no crash explains, of whole turns behind which something of no place stands before record `index`.
    fn suspicious(&self, index: usize, offset: usize) -> Finding {
        let begins = self.whole_before(index);
        let offset = if begins < index { self.placed[begins].start } else { offset };
        let last = self.files.len() - 1;
        let seq = self.placed[begins - 1].seq() + 1;
        (Class::SuspiciousTail, self.file(last), seq, 0, u64::try_from(offset).unwrap(), BTreeSet::new())
    }

    /// Something stands before record `index` that is not taken, and nothing is missing.
    fn with(
        &self,
        index: usize,
        class: Class,
        (segment, offset): (usize, usize),
        sessions: BTreeSet<String>,
    ) -> Expected {
        let last = self.placed.last().unwrap().seq();
        let seq = self.placed.get(index).map_or(last + 1, Placed::seq);
        let (problem, head) = if seq > self.durable_without(&[]) {
            let tail = self.suspicious(index, offset);
            let head = tail.2 - 1;
            (tail, head)
        } else {
            ((class, self.file(segment), seq, 0, u64::try_from(offset).unwrap(), sessions), last)
        };
        Expected { problems: vec![problem], torn: None, head }
    }

    /// Sound lines of these sessions stand before record `index` (behind all if there is none) and belong elsewhere.
    pub(crate) fn with_strays(&self, index: usize, place: (usize, usize), sids: &[Option<&str>]) -> Expected {
        let open = sids.iter().flatten().filter(|sid| self.is_open(sid, index));
        self.with(index, Class::ChainBroken, place, open.map(|sid| (*sid).to_owned()).collect())
    }

    /// A line that is no record stands before record `index`. Before the first of a file it also takes its place.
    pub(crate) fn with_garbage(&self, index: usize, place: (usize, usize)) -> Expected {
        let class = if place.1 == 0 { Class::ChainBroken } else { Class::Damage };
        self.with(index, class, place, BTreeSet::new())
    }

    /// Record `index` and the next have changed places: the one that comes too early is not taken, and missing later.
    pub(crate) fn swapped(&self, index: usize) -> Expected {
        let (first, early) = (&self.placed[index], &self.placed[index + 1]);
        let durable = self.durable_without(&[index + 1]);
        if first.seq() > durable {
            let tail = self.suspicious(index, first.start);
            let head = tail.2 - 1;
            return Expected { problems: vec![tail], torn: None, head };
        }
        let sid = early.sid().filter(|sid| self.is_open(sid, index));
        let (file, start) = (self.file(first.segment), u64::try_from(first.start).unwrap());
        let mut problems =
            vec![(Class::ChainBroken, file.clone(), first.seq(), 0, start, sid.cloned().into_iter().collect())];
        if early.seq() > durable {
            problems.push(self.suspicious(index + 1, early.end));
            return Expected { problems, torn: None, head: first.seq() };
        }
        let class = if self.is_last_of_file(index + 1) { Class::Loss } else { Class::ChainBroken };
        let end = u64::try_from(early.end).unwrap();
        problems.push((class, file, early.seq(), 1, end, self.owners(&[index + 1])));
        Expected { problems, torn: None, head: self.placed.last().unwrap().seq() }
    }
}
