//! Holes: places where the chain does not go on as written, and whose records may be missing there.
//!
//! A session's own sequence (`sn`) tells how many of its records a hole swallowed. Where the sessions that show a jump
//! do not account for the whole hole, every session that has no record after it could own the rest.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::table::Shape;
use crate::chain::{Heads, SessionHead};

/// A place in the ledger's files: index of the segment, and offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) segment: usize,
    pub(crate) offset: u64,
}

/// Between two admitted records, something is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hole {
    /// The last sound sequence number before it.
    pub(crate) after_seq: u64,
    /// How many sequence numbers are missing.
    pub(crate) missing: u64,
    /// Where it begins: the first sequence number that the segment's name promises. Not its index: that changes when
    /// segments before it go.
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    /// Bytes that do not verify.
    pub(crate) bad_bytes: u64,
    pub(crate) shape: Shape,
    pub(crate) detail: String,
    /// Sessions known to be concerned.
    pub(crate) sessions: BTreeSet<String>,
    /// Sessions that could be.
    pub(crate) suspects: BTreeSet<String>,
    /// A sound line in it may be a record that is missing, or says that such a one was synced; or all of it is a file of
    /// another ledger. No crash leaves that, so as a tail it is not cut.
    pub(crate) precious: bool,
    /// How many of the missing records a jump in some `sn` accounts for.
    explained: u64,
}

impl Hole {
    pub(crate) fn new(after_seq: u64, (segment, offset): (u64, u64), shape: Shape, detail: String) -> Hole {
        Hole {
            after_seq,
            missing: 0,
            segment,
            offset,
            bad_bytes: 0,
            shape,
            detail,
            sessions: BTreeSet::new(),
            suspects: BTreeSet::new(),
            precious: false,
            explained: 0,
        }
    }

    /// The first sequence number that is missing, or at which something else stood.
    pub(crate) fn first_seq(&self) -> u64 {
        self.after_seq + 1
    }

    /// Where it is, in the files and in the chain.
    pub(crate) fn place(&self) -> (u64, u64, u64) {
        (self.segment, self.offset, self.after_seq)
    }

    /// Another finding at the same place: what a crash explains least decides.
    pub(crate) fn worsen(&mut self, shape: Shape, detail: &str) {
        if shape > self.shape {
            self.shape = shape;
            detail.clone_into(&mut self.detail);
        }
    }

    /// Names every session that could own what no jump accounts for: the silent ones whose chain has not ended.
    pub(crate) fn close(&mut self, heads: &Heads) {
        if self.explained < self.missing {
            let silent = heads.sessions.iter().filter(|(_sid, head)| head.seq <= self.after_seq);
            self.suspects.extend(silent.map(|(sid, _head)| sid.clone()));
        }
        self.suspects.retain(|sid| !self.sessions.contains(sid));
    }
}

/// Charges a session's jump to the holes between its last record and this one. Returns these holes as they were
/// before, by index, for undoing; `None` if they cannot hold so many.
pub(crate) fn charge(holes: &mut [Hole], head: SessionHead, sid: &str, sn: u64) -> Option<Vec<(usize, Hole)>> {
    let jump = sn.saturating_sub(head.link.seq + 1);
    let begin = holes.partition_point(|hole| hole.after_seq < head.seq);
    let between = (begin..holes.len()).filter(|index| holes[*index].missing > 0);
    let before: Vec<(usize, Hole)> = between.map(|index| (index, holes[index].clone())).collect();
    let alone = before.len() == 1;
    let room: u64 = before.iter().map(|(_index, hole)| hole.missing - if alone { hole.explained } else { 0 }).sum();
    if jump > room {
        return None;
    }
    for (index, _hole) in &before {
        let hole = &mut holes[*index];
        if alone {
            hole.sessions.insert(sid.to_owned());
            hole.explained += jump;
        } else {
            // Which of them swallowed how many cannot be told apart.
            hole.suspects.insert(sid.to_owned());
        }
    }
    Some(before)
}
