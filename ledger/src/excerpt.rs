//! Lines that were handed out: one session's history, or a stretch of the ledger. They are verified alone, without the ledger and without
//! trusting whoever hands them out, by the session's own chain or by the global one.
//!
//! Promises: bounded memory, however long the lines or the excerpt; what is missing at the beginning or behind the last line
//! cannot be told from the lines, so the report says where they begin and end, and whether the session's chain ended.

use std::io::{self, BufRead};

use serde::Serialize;

use crate::digest::Position;
use crate::limits::LINE_BYTES_MAX;
use crate::record::{Judged, judge};
use crate::recovery::Problem;
use crate::recovery::table::Class;
use crate::slice::Sliced;

/// So many findings are kept; an excerpt with more is none.
const PROBLEMS_MAX: usize = 1_000;

/// What an excerpt is worth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExcerptReport {
    /// Lines that verify in themselves.
    pub records: u64,
    /// The session whose chain the lines were held to; absent if they are not all of one, and were held to the global chain.
    #[serde(rename = "session_id")]
    pub session: Option<String>,
    /// The first and the last record.
    pub first: Option<Position>,
    /// See `first`.
    pub last: Option<Position>,
    /// The session's own numbers of both; absent without a session.
    pub own: Option<OwnNumbers>,
    /// Whether the session's chain ends with the last record, so that none can be missing behind it.
    pub ended: bool,
    /// Everything that is wrong.
    pub problems: Vec<Problem>,
}

/// A session's own sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OwnNumbers {
    /// Of the first record.
    pub first: u64,
    /// Of the last one.
    pub last: u64,
}

impl ExcerptReport {
    /// Whether nothing is wrong.
    pub fn ok(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Verifies lines as they are stored. `name` names them in the findings; `since` has to be among them if it is given.
///
/// # Errors
/// What reading answers.
pub fn verify_excerpt(mut lines: impl BufRead, name: &str, since: Option<Position>) -> io::Result<ExcerptReport> {
    let mut judging = Judging { name: name.to_owned(), since, ..Judging::default() };
    let mut line = Vec::new();
    loop {
        let start = judging.offset;
        if !judging.next_line(&mut lines, &mut line)? {
            return Ok(judging.report());
        }
        if line != b"\n" {
            judging.line(&line, start);
        }
    }
}

/// A chain as far as it was followed.
#[derive(Debug, Default)]
struct Chain {
    last: Option<Position>,
    problems: Vec<Problem>,
}

#[derive(Debug, Default)]
struct Judging {
    name: String,
    since: Option<Position>,
    found: Option<Position>,
    offset: u64,
    records: u64,
    /// Of the first record; the rest has to be of the same for the session's chain to count.
    session: Option<String>,
    is_mixed: bool,
    first: Option<Position>,
    last: Option<Position>,
    first_own: u64,
    ended: bool,
    /// The session's chain, and that of all records: which one counts is known at the end.
    own: Chain,
    global: Chain,
    /// Lines that are none.
    bad: Vec<Problem>,
}

impl Judging {
    /// Reads a line with its LF; a longer one than any is read past and kept only so far that it cannot pass.
    fn next_line(&mut self, lines: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        loop {
            let available = match lines.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                available => available?,
            };
            let (used, is_whole) = match memchr::memchr(b'\n', available) {
                Some(end) => (end + 1, true),
                None => (available.len(), available.is_empty()),
            };
            let room = (LINE_BYTES_MAX + 1).saturating_sub(line.len());
            line.extend_from_slice(&available[..used.min(room)]);
            lines.consume(used);
            self.offset += u64::try_from(used).expect("a buffer's length fits 64 bits");
            if is_whole {
                return Ok(!line.is_empty());
            }
        }
    }

    fn line(&mut self, line: &[u8], start: u64) {
        let whole = line.strip_suffix(b"\n");
        match whole.map(judge) {
            Some(Judged::Record(record)) => self.record(&record, start),
            Some(Judged::Newer(version)) => {
                let detail = format!("format version {version} was written by a later program");
                self.bad(Class::TooNew, start, detail);
            }
            Some(Judged::Bad(fault)) => self.bad(Class::Damage, start, fault.to_string()),
            None => self.bad(Class::Damage, start, "a line without its end".to_owned()),
        }
    }

    fn bad(&mut self, class: Class, offset: u64, detail: String) {
        let seq = self.last.map(|last| last.seq + 1);
        let problem = self.problem(class, seq, offset, detail);
        push(&mut self.bad, problem);
    }

    fn problem(&self, class: Class, seq: Option<u64>, offset: u64, detail: String) -> Problem {
        let sessions = self.session.iter().filter(|_| !self.is_mixed).cloned().collect();
        Problem { class, segment: self.name.clone(), seq, missing: 0, offset, sessions, detail }
    }

    fn record(&mut self, record: &Sliced<'_>, start: u64) {
        let position = record.position();
        let session = record.session();
        self.records += 1;
        match &self.first {
            None => {
                self.first = Some(position);
                self.first_own = session.as_ref().map_or(0, |(_sid, own)| *own);
                self.session = session.as_ref().map(|(sid, _own)| sid.to_string());
            }
            Some(_) => self.is_mixed |= session.as_ref().map(|(sid, _own)| &**sid) != self.session.as_deref(),
        }
        if Some(position.seq) == self.since.map(|since| since.seq) {
            self.found = Some(position);
        }
        if let Some((_sid, own)) = session.filter(|_| !self.is_mixed) {
            let own = Position { seq: own, digest: position.digest };
            let is_next =
                follows(self.own.last, own.seq, record.sp) && self.last.is_none_or(|last| position.seq > last.seq);
            if self.ended || !is_next {
                let what = if self.ended {
                    "comes behind the end of its session's chain"
                } else {
                    "does not follow from the one before it in its session"
                };
                let problem = self.problem(
                    Class::ChainBroken,
                    Some(position.seq),
                    start,
                    format!("record {} {what}", position.seq),
                );
                push(&mut self.own.problems, problem);
            }
            self.own.last = Some(own);
        }
        if !follows(self.global.last, position.seq, record.prev) {
            let detail = format!("record {} does not follow from the one before it", position.seq);
            let problem = self.problem(Class::ChainBroken, Some(position.seq), start, detail);
            push(&mut self.global.problems, problem);
        }
        self.global.last = Some(position);
        self.last = Some(position);
        self.ended = record.fin;
    }

    fn report(self) -> ExcerptReport {
        let since = self.since.and_then(|kept| self.rollback(kept));
        let is_own = self.session.is_some() && !self.is_mixed;
        let chain = if is_own { self.own } else { self.global };
        let mut problems: Vec<Problem> = self.bad.into_iter().chain(chain.problems).collect();
        problems.sort_by_key(|problem| problem.offset);
        problems.extend(since);
        let own = chain.last.filter(|_| is_own).map(|last| OwnNumbers { first: self.first_own, last: last.seq });
        ExcerptReport {
            records: self.records,
            session: self.session.filter(|_| is_own),
            first: self.first,
            last: self.last,
            own,
            ended: is_own && self.ended,
            problems,
        }
    }

    /// A record kept elsewhere that is not among them.
    fn rollback(&self, kept: Position) -> Option<Problem> {
        let (class, detail) = match self.found {
            Some(found) if found == kept => return None,
            Some(_) => (Class::ChainBroken, format!("record {} is not the one whose digest was kept", kept.seq)),
            None => (Class::Loss, format!("record {} is missing", kept.seq)),
        };
        Some(self.problem(class, Some(kept.seq), self.offset, detail))
    }
}

/// Whether a record follows from the one before it; the first may stand anywhere.
fn follows(last: Option<Position>, number: u64, link: Option<crate::digest::Digest>) -> bool {
    last.is_none_or(|last| number == last.seq + 1 && link == Some(last.digest))
}

fn push(problems: &mut Vec<Problem>, problem: Problem) {
    if problems.len() < PROBLEMS_MAX {
        problems.push(problem);
    }
}
