//! One pass over the segments that admits every record that belongs, and notes every place where the chain breaks.
//!
//! Invariants: a record is admitted at most once and in order; records reach the sink in whole turns only; what lies
//! behind a hole reaches it only once a later `dur` says that the hole had been synced; nothing here changes a file.
//! A record is cut where it lies, in the segment's buffer: whoever wants to keep one makes a copy in the sink.

mod ends;

use std::collections::{BTreeSet, VecDeque};

use super::hole::{Hole, Place, charge};
use super::lines::{Line, Lines, Rest, Segment, contains, content_len};
use super::past::{Footing, Past, SegmentFile, Stated};
use super::settled::{Held, Settled};
use super::table::Shape;
use crate::chain::{Heads, SessionHead};
use crate::digest::{Digest, Position};
use crate::limits::{LINE_BYTES_MIN, VERSION};
use crate::record::{Judged, Record, judge};
use crate::seal::{SEAL_TYPE, STRAY_SEAL, Says, Sealing};
use crate::segment::{SEGMENT_TYPE, SegmentBody};
use crate::slice::Sliced;

/// How often a break is searched for the line that goes on: enough for any fault, and bounded for any attack.
const SEARCHES_MAX: u32 = 64;

/// The walk so far.
#[derive(Debug)]
pub(crate) struct Walk {
    /// The segment being walked: what its name promises, and the offset from which on it was read.
    here: (u64, u64),
    /// The end of the last record admitted: the first sequence number of its segment, and the offset.
    last_end: Option<(u64, u64)>,
    pub(crate) heads: Heads,
    pub(crate) holes: Vec<Hole>,
    /// The end of the last whole turn that was handed on, in the files and in the chain.
    pub(crate) settled: Place,
    settled_last: Position,
    /// Records handed on.
    pub(crate) records: u64,
    /// Highest sequence number known synced, and the end of that record.
    pub(crate) durable: u64,
    pub(crate) durable_place: Place,
    /// The body of every `segment` record that was admitted as the first of its file, with the segment's index.
    pub(crate) segments: Vec<(usize, SegmentBody)>,
    /// The last segments up to the last whole turn, as far as their seals depend on them.
    pub(crate) sealing: Sealing,
    /// The segments that a seal in a whole turn closes, by their first sequence numbers.
    pub(crate) sealed: BTreeSet<u64>,
    pub(crate) newer: Option<(Place, u64)>,
    pub(crate) pending: VecDeque<Pending>,
    /// The hole that the next admitted record closes.
    pub(crate) open: Option<Hole>,
    /// Ends of admitted records above `durable`.
    ends: VecDeque<(u64, Place)>,
    /// The first file is not that of record 1: the record it is named by, and that one's `prev` if it is known.
    pub(crate) begins: Option<(u64, Option<Digest>)>,
    /// Something happened since the last settling that can free what waits in the middle of a turn.
    stirred: bool,
    searches: u32,
    /// Whoever takes the records wants copies of their own: each is made when its line is cut, so that it is cut once.
    makes: bool,
}

/// An admitted record whose turn is not known to be whole, or that stands behind a hole that may be a tail.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Its segment, by the first sequence number.
    segment: u64,
    position: Position,
    ends_turn: bool,
    says: Says,
    end: Place,
    line: Held,
    /// What its session's head was before, if it has one.
    before: Option<SessionHead>,
    /// Holes that its session's jump was charged to, as they were before.
    charged: Vec<(usize, Hole)>,
    made: Option<Box<Record>>,
}

impl Walk {
    pub(crate) fn new() -> Walk {
        let start = Place { segment: 0, offset: 0 };
        Walk {
            here: (0, 0),
            last_end: None,
            heads: Heads::new(),
            holes: Vec::new(),
            settled: start,
            settled_last: Position::START,
            records: 0,
            durable: 0,
            durable_place: start,
            segments: Vec::new(),
            sealing: Sealing::default(),
            sealed: BTreeSet::new(),
            newer: None,
            pending: VecDeque::new(),
            open: None,
            ends: VecDeque::new(),
            begins: None,
            stirred: false,
            searches: SEARCHES_MAX,
            makes: false,
        }
    }

    /// Makes copies of the records, or does not.
    pub(crate) fn making(self, makes: bool) -> Walk {
        Walk { makes, ..self }
    }

    /// A walk that goes on behind a whole turn, all of which is synced.
    pub(crate) fn on(footing: Footing) -> (Walk, Vec<SegmentFile>, Stated) {
        let Footing { past, opened } = footing;
        let Past { heads, holes, records, mut segments, stated, sealing } = past;
        let last = heads.last;
        let index = segments.len().saturating_sub(1);
        let end = Place { segment: index, offset: segments.last().map_or(0, |segment| segment.content) };
        segments.truncate(index);
        let walk = Walk {
            heads,
            holes,
            settled: end,
            settled_last: last,
            records,
            durable: last.seq,
            durable_place: end,
            segments: vec![(index, opened)],
            sealing,
            ..Walk::new()
        };
        (walk, segments, stated)
    }

    /// Walks the next segment. Whole turns go to `sink` as they are complete.
    pub(crate) fn segment(&mut self, index: usize, segment: &Segment, sink: &mut impl FnMut(Settled<'_>)) {
        let (first_seq, bytes) = (segment.first_seq, segment.bytes.as_slice());
        self.here = (first_seq, segment.from);
        let content = content_len(bytes);
        let mut first = segment.from == 0;
        if !first {
            self.last_end = Some((first_seq, segment.from));
        }
        if first && content > 0 && first_seq > 1 && self.heads.last == Position::START && self.open.is_none() {
            self.begin_late(first_seq);
        }
        let misled = self.open.as_ref().is_some_and(|hole| hole.shape >= Shape::BrokenChain);
        if first && content > 0 && !misled && first_seq > self.next_seq() + self.room() {
            let detail = format!("no file holds records {} to {}", self.next_seq(), first_seq - 1);
            self.note_missing(0, Shape::MissingSegment, &detail);
        }
        for line in Lines::new(&bytes[..content], 0) {
            if first && self.is_foreign(&line) {
                self.note(0, Shape::BrokenChain, "a segment of another ledger stands here").precious = true;
                return;
            }
            let rest = Rest { here: &bytes[line.end..content], next: &segment.next };
            self.line(index, first, &line, rest);
            first = false;
            self.settle(bytes, sink);
        }
        for pending in &mut self.pending {
            pending.line.copy(bytes);
            // What waits longer than its segment may be all of the history: its line is enough.
            pending.made = None;
        }
    }

    /// The first file is not that of record 1. What stands before was on the disk when this file began.
    fn begin_late(&mut self, first_seq: u64) {
        let detail = format!("no file holds records 1 to {}", first_seq - 1);
        let mut hole = Hole::new(0, (first_seq, 0), Shape::MissingSegment, detail);
        hole.missing = first_seq - 1;
        self.holes.push(hole);
        self.heads.last = Position { seq: first_seq - 1, ..Position::START };
        self.begins = Some((first_seq, None));
        self.raise_durable(first_seq - 1);
    }

    /// Whether it is known which record comes before the next: not at the beginning, be it that of record 1 or later.
    fn is_known(&self) -> bool {
        self.heads.last.digest != Position::START.digest
    }

    fn next_seq(&self) -> u64 {
        self.heads.last.seq + 1
    }

    /// Whether this record is missing somewhere before.
    fn misses(&self, seq: u64) -> bool {
        let before = self.holes.partition_point(|hole| hole.after_seq < seq);
        let hole = self.holes[..before].iter().rev().find(|hole| hole.missing > 0);
        hole.is_some_and(|hole| seq - hole.after_seq <= hole.missing)
    }

    /// A first line that says that the whole file belongs to another ledger.
    fn is_foreign(&self, line: &Line<'_>) -> bool {
        let Some((_index, ours)) = self.segments.last() else { return false };
        let Judged::Record(record) = judge(line.bytes) else { return false };
        SegmentBody::of(&record).is_some_and(|body| body.ledger != ours.ledger)
    }

    fn line(&mut self, segment: usize, first: bool, line: &Line<'_>, rest: Rest<'_>) {
        let whole = line.is_whole();
        match judge(line.bytes) {
            Judged::Newer(version) => {
                let place = Place { segment, offset: self.offset(line.start) };
                self.newer.get_or_insert((place, version));
                let detail = format!("format version {version}; this program knows {VERSION}");
                self.note(line.start, Shape::Newer, &detail);
            }
            Judged::Record(record) if whole => self.record(&record, segment, first, line, rest),
            Judged::Record(_) => {
                self.note(line.start, Shape::Fragment, "a line without its end");
                self.bad(line);
            }
            Judged::Bad(fault) => {
                let shape = if whole { Shape::BadLine } else { Shape::Fragment };
                self.note(line.start, shape, &fault.to_string());
                self.bad(line);
            }
        }
    }

    fn record(&mut self, record: &Sliced<'_>, segment: usize, first: bool, line: &Line<'_>, rest: Rest<'_>) {
        let sid = || record.session().map(|(sid, _sn)| sid.into_owned());
        if !self.belongs(record, rest) {
            let seq = record.seq;
            let detail = format!("record {seq} does not follow from record {}", self.heads.last.seq);
            // It may be ours, so what it says to be synced is not cut as a tail; about itself it proves nothing.
            self.raise_durable(record.dur.min(self.heads.last.seq));
            let ours = sid().filter(|sid| self.heads.sessions.contains_key(sid));
            let precious = record.dur >= self.next_seq() || self.misses(seq);
            let hole = self.note(line.start, Shape::BrokenChain, &detail);
            hole.sessions.extend(ours);
            hole.precious |= precious;
            return;
        }
        let missing = record.seq - self.next_seq();
        if missing > self.room() {
            let detail = format!("records {} to {} are missing", self.next_seq(), record.seq - 1);
            self.note_missing(line.start, Shape::BrokenChain, &detail);
        } else if missing == 0 && !self.links(record) {
            let detail = format!("record {} does not follow from the one before", record.seq);
            let before = self.heads.sessions.iter().find(|(_sid, head)| head.seq == self.heads.last.seq);
            let before = before.map(|(sid, _head)| sid.clone());
            let hole = self.note(line.start, Shape::BrokenChain, &detail);
            hole.sessions.extend(before.into_iter().chain(sid()));
        }
        let body = SegmentBody::of(record);
        if let Some(detail) = self.misplaced(record, body.as_ref(), segment, first) {
            self.note(line.start, Shape::BrokenChain, detail);
        }
        if let Some(fault) = self.seal_fault(record) {
            self.note(line.start, Shape::WrongSeal, fault);
        }
        if let Some(body) = body.filter(|_body| first) {
            self.segments.push((segment, body));
        }
        let end = Place { segment, offset: self.offset(line.end) };
        let held = Held::Here(line.start..line.start + line.bytes.len());
        self.admit(record, missing, line.start, end, held);
    }

    /// What is wrong with a record at the beginning of a segment, as far as the segment before tells; or with a seal.
    fn seal_fault(&self, record: &Sliced<'_>) -> Option<&'static str> {
        // Only a record that can be the second one is compared with all that waits: a forged file may be full of seals.
        match record.t == SEAL_TYPE {
            true if record.seq != self.second_here() => return Some(STRAY_SEAL),
            false if record.seq != self.here.0 + 1 => return None,
            true | false => {}
        }
        let mut sealing = self.sealing.clone();
        for pending in &self.pending {
            sealing.admit(pending.segment, pending.position, pending.says);
        }
        sealing.fault(self.here.0, record)
    }

    /// The sequence number at which the seal of this segment stands.
    fn second_here(&self) -> u64 {
        let first = || self.pending.iter().find(|pending| pending.segment == self.here.0);
        self.sealing.second(self.here.0).unwrap_or_else(|| match first() {
            Some(Pending { says: Says::Segment(_), position, .. }) => position.seq + 1,
            Some(_) | None => self.here.0 + 1,
        })
    }

    /// What is wrong with a `segment` record, or with another record in its place. It may stand inside a turn: an
    /// opening keeps what was synced of a turn whose rest is lost, and goes on behind it.
    fn misplaced(
        &self,
        record: &Sliced<'_>,
        body: Option<&SegmentBody>,
        segment: usize,
        first: bool,
    ) -> Option<&'static str> {
        let Some(body) = body.filter(|_body| first) else {
            let misplaced = first || record.t == SEGMENT_TYPE;
            return misplaced.then_some("a segment does not begin here with its record, or begins elsewhere");
        };
        let before = self.segments.last().filter(|(index, _body)| index + 1 == segment);
        let number = before.map(|(_index, body)| body.number + 1).or((self.here.0 == 1).then_some(1));
        match () {
            () if record.seq != self.here.0 => Some("the file has another name than its first record"),
            () if record.prev != body.previous => Some("`previous` of the segment is another record"),
            () if number.is_some_and(|number| number != body.number) => Some("the segment has another number"),
            () => None,
        }
    }

    /// How many records the bytes that do not verify can have held.
    fn room(&self) -> u64 {
        let bad_bytes = self.open.as_ref().map_or(0, |hole| hole.bad_bytes);
        if bad_bytes == 0 { 0 } else { bad_bytes / LINE_BYTES_MIN + 1 }
    }

    /// Whether a sound record has its place here, be it behind a hole.
    fn belongs(&mut self, record: &Sliced<'_>, rest: Rest<'_>) -> bool {
        let next_seq = self.next_seq();
        if record.seq < next_seq {
            return false;
        }
        if self.links(record) {
            return true;
        }
        let (missing, room) = (record.seq - next_seq, self.room());
        if 0 < missing && missing <= room {
            return true;
        }
        if room == 0 && self.goes_on_later(rest) {
            return false;
        }
        match rest.lines().next().map(|line| judge(line.bytes)) {
            Some(Judged::Record(next)) => next.seq == record.seq + 1 && next.prev == Some(record.digest),
            Some(Judged::Bad(_) | Judged::Newer(_)) => missing > 0 && room > 0,
            None => missing > 0 && record.dur >= next_seq,
        }
    }

    fn links(&self, record: &Sliced<'_>) -> bool {
        let last = self.heads.last;
        record.seq == last.seq + 1 && (!self.is_known() || record.prev == Some(last.digest))
    }

    /// Whether a line further on in this segment, or the first of the next, follows from the last admitted record, so that what stands between
    /// was put there.
    fn goes_on_later(&mut self, rest: Rest<'_>) -> bool {
        if self.searches == 0 {
            return false;
        }
        self.searches -= 1;
        let needle = if self.is_known() {
            format!("\"prev\":\"{}\"", self.heads.last.digest)
        } else {
            format!("\"seq\":{},", self.next_seq())
        };
        let mut lines = rest.lines().filter(|line| contains(line.bytes, needle.as_bytes()));
        lines.any(|line| matches!(judge(line.bytes), Judged::Record(record) if self.links(&record)))
    }

    fn admit(&mut self, record: &Sliced<'_>, missing: u64, start: usize, end: Place, line: Held) {
        if let Some(mut hole) = self.open.take() {
            hole.missing = missing;
            if missing == 0 {
                // Nothing is lost after all.
                hole.shape = hole.shape.min(Shape::BrokenChain);
            }
            self.holes.push(hole);
            self.stirred = true;
        }
        self.last_end = Some((self.here.0, end.offset));
        self.ends.push_back((record.seq, end));
        self.raise_durable(record.dur);
        if let Some((first_seq, prev @ None)) = &mut self.begins
            && record.seq == *first_seq
        {
            *prev = record.prev;
        }
        let position = record.position();
        self.heads.last = position;
        let (mut before, mut charged) = (None, Vec::new());
        if let Some((sid, sn)) = record.session() {
            let head = self.heads.advance(&sid, Position { seq: sn, digest: record.digest }, record.seq, record.fin);
            charged = self.check_session(record, (&sid, sn), head, start);
            before = Some(head);
        }
        let (segment, ends_turn, says) = (self.here.0, record.end, Says::of(record));
        let made = self.makes.then(|| Box::new(Record::of(record)));
        self.pending.push_back(Pending { segment, position, ends_turn, says, end, line, before, charged, made });
    }

    fn raise_durable(&mut self, durable: u64) {
        if durable > self.durable {
            self.durable = durable;
            self.stirred = true;
        }
        while let Some((_seq, place)) = self.ends.pop_front_if(|(seq, _place)| *seq <= self.durable) {
            self.durable_place = place;
        }
    }

    /// The session's own chain: its jumps from `head` on are explained by holes, or are breaks themselves. A session
    /// without an open chain is a new one. Returns what [`charge`] changed.
    fn check_session(
        &mut self,
        record: &Sliced<'_>,
        (sid, sn): (&str, u64),
        head: SessionHead,
        start: usize,
    ) -> Vec<(usize, Hole)> {
        let previous = (head.link.seq > 0).then_some(head.link.digest);
        let charged = match sn.checked_sub(head.link.seq + 1) {
            Some(0) => (record.sp == previous).then(Vec::new),
            Some(_jump) => charge(&mut self.holes, head, sid, sn),
            None => None,
        };
        charged.unwrap_or_else(|| {
            let detail = format!("record {} breaks the chain of session {sid}", record.seq);
            let at = (self.here.0, self.offset(start));
            let mut hole = Hole::new(record.seq - 1, at, Shape::BrokenChain, detail);
            hole.sessions.insert(sid.to_owned());
            match self.holes.last_mut().filter(|last| last.place() == hole.place()) {
                Some(same) => {
                    same.worsen(hole.shape, &hole.detail);
                    same.sessions.append(&mut hole.sessions);
                }
                None => self.holes.push(hole),
            }
            Vec::new()
        })
    }

    /// Opens a hole here, or adds to the one that is open.
    fn note(&mut self, at: usize, shape: Shape, detail: &str) -> &mut Hole {
        self.note_at((self.here.0, self.offset(at)), shape, detail)
    }

    /// As [`Walk::note`], of a hole without lines: it is where the last record ends, whatever file comes next.
    fn note_missing(&mut self, at: usize, shape: Shape, detail: &str) {
        self.note_at(self.last_end.unwrap_or((self.here.0, self.offset(at))), shape, detail);
    }

    fn note_at(&mut self, at: (u64, u64), shape: Shape, detail: &str) -> &mut Hole {
        let after_seq = self.heads.last.seq;
        let hole = self.open.get_or_insert_with(|| Hole::new(after_seq, at, shape, detail.to_owned()));
        hole.worsen(shape, detail);
        hole
    }

    /// The offset in the segment's file of a byte that was read.
    fn offset(&self, read: usize) -> u64 {
        self.here.1 + wide(read)
    }

    fn bad(&mut self, line: &Line<'_>) {
        if let Some(hole) = &mut self.open {
            hole.bad_bytes += wide(line.end - line.start);
        }
    }
}

fn wide(len: usize) -> u64 {
    u64::try_from(len).expect("a length fits 64 bits")
}
