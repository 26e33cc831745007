//! The two chains: one over all records, one over each session's own. Heads of both, and how entries are linked to them.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::digest::Position;
use crate::entry::{Entry, EntryFault, Link, Stamp, rfc3339, write_line};

/// The ends of the global chain and of every session's open chain: one that a `fin` has ended is forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Heads {
    pub(crate) last: Position,
    /// Looked up for every record. Nothing depends on its order; a snapshot sorts it.
    pub(crate) sessions: HashMap<String, SessionHead>,
}

/// The end of one session's chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionHead {
    /// The session's own sequence number and digest of its last record.
    pub(crate) link: Position,
    /// That record's global sequence number.
    pub(crate) seq: u64,
}

impl SessionHead {
    pub(crate) const START: SessionHead = SessionHead { link: Position::START, seq: 0 };
}

impl Heads {
    pub(crate) fn new() -> Heads {
        Heads { last: Position::START, sessions: HashMap::new() }
    }

    pub(crate) fn session(&self, sid: &str) -> SessionHead {
        self.sessions.get(sid).copied().unwrap_or(SessionHead::START)
    }

    /// Moves a session to its record `link.seq`, which is the ledger's `seq`, or forgets it if `fin` says that its chain
    /// ends there; what its head was before comes back.
    pub(crate) fn advance(&mut self, sid: &str, link: Position, seq: u64, fin: bool) -> SessionHead {
        let head = SessionHead { link, seq };
        match self.sessions.get_mut(sid) {
            Some(known) if !fin => std::mem::replace(known, head),
            Some(_) => self.sessions.remove(sid).unwrap_or(SessionHead::START),
            None => {
                self.set(sid, (!fin).then_some(head));
                SessionHead::START
            }
        }
    }

    /// Moves to the end of a batch that was written.
    pub(crate) fn follow(&mut self, written: &Drafted) {
        self.last = written.last;
        written.sessions.iter().for_each(|(sid, head)| self.set(sid, *head));
    }

    /// Takes back an [`Heads::advance`] of a session, latest first.
    pub(crate) fn restore(&mut self, sid: &str, before: SessionHead) {
        self.set(sid, (before != SessionHead::START).then_some(before));
    }

    fn set(&mut self, sid: &str, head: Option<SessionHead>) {
        match head {
            Some(head) => self.sessions.insert(sid.to_owned(), head),
            None => self.sessions.remove(sid),
        };
    }
}

/// A batch being formed on top of the heads, which do not change until it is written.
pub(crate) struct Draft<'a> {
    heads: &'a Heads,
    stamp: &'a Stamp,
    /// The stamp's wall time as text: one for all records of the batch.
    at: Option<[u8; 27]>,
    /// Highest sequence number known synced.
    durable: u64,
    last: Position,
    sessions: BTreeMap<String, Option<SessionHead>>,
    positions: Vec<Position>,
}

impl<'a> Draft<'a> {
    pub(crate) fn on(heads: &'a Heads, stamp: &'a Stamp, durable: u64) -> Draft<'a> {
        let (at, last, sessions, positions) = (rfc3339(stamp.at_us), heads.last, BTreeMap::new(), Vec::new());
        Draft { heads, stamp, at, durable, last, sessions, positions }
    }

    /// Forms the next record and appends its line to `out`.
    pub(crate) fn push(&mut self, out: &mut Vec<u8>, entry: &Entry, end: bool) -> Result<Position, EntryFault> {
        let session = match &entry.sid {
            Some(sid) => match self.sessions.get(sid) {
                Some(head) => head.ok_or_else(|| EntryFault::Finished(sid.clone()))?,
                None => self.heads.session(sid),
            },
            None => SessionHead::START,
        };
        let (at, stamp, durable) = (self.at.as_ref(), self.stamp, self.durable);
        let link = Link { previous: self.last, session: session.link, durable, end, stamp, at };
        let position = write_line(out, entry, &link)?;
        self.last = position;
        self.positions.push(position);
        if let Some(sid) = &entry.sid {
            let link = Position { seq: session.link.seq + 1, digest: position.digest };
            let head = SessionHead { link, seq: position.seq };
            let head = (!entry.fin).then_some(head);
            match self.sessions.get_mut(sid) {
                Some(known) => *known = head,
                None => drop(self.sessions.insert(sid.clone(), head)),
            }
        }
        Ok(position)
    }

    /// The batch is formed.
    pub(crate) fn finish(self) -> Drafted {
        Drafted { last: self.last, sessions: self.sessions, positions: self.positions }
    }
}

/// What the heads become once a batch is written, and the positions of its records.
pub(crate) struct Drafted {
    last: Position,
    sessions: BTreeMap<String, Option<SessionHead>>,
    pub(crate) positions: Vec<Position>,
}
