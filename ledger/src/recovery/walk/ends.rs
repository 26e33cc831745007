//! Where the history ends: which of the records that were walked over count, and what is taken back because it does not.

use std::cell::RefCell;

use super::super::hole::{Hole, Place};
use super::super::past::SegmentFile;
use super::super::settled::Settled;
use super::{Walk, wide};
use crate::digest::Position;
use crate::seal::Says;

impl Walk {
    /// Hands on every whole turn that no possible tail precedes. `segment` is the one being walked.
    pub(super) fn settle(&mut self, segment: &[u8], sink: &mut impl FnMut(Settled<'_>)) {
        // In the middle of a turn there is nothing to do, however long the turn is.
        let ended = self.pending.back().is_some_and(|newest| newest.ends_turn);
        if !std::mem::take(&mut self.stirred) && !ended {
            return;
        }
        let blocked = self.open.is_some() || self.holes.last().is_some_and(|hole| hole.first_seq() > self.durable);
        let durable = self.durable;
        let last =
            self.pending.iter().rposition(|pending| pending.position.seq <= durable || pending.ends_turn && !blocked);
        for _ in 0..last.map_or(0, |index| index + 1) {
            self.settle_first(segment, sink);
        }
    }

    fn settle_first(&mut self, segment: &[u8], sink: &mut impl FnMut(Settled<'_>)) {
        let Some(pending) = self.pending.pop_front() else { return };
        self.sealing.admit(pending.segment, pending.position, pending.says);
        if pending.says == Says::Seal {
            self.sealed.extend(self.sealing.closed());
        }
        self.settled = pending.end;
        self.settled_last = pending.position;
        self.records = self.records.saturating_add(1);
        sink(Settled::at(pending.position, pending.line.bytes(segment)).made(&RefCell::new(pending.made)));
    }

    /// Planted bug: hands on the sound records of a turn that has no end.
    pub(crate) fn settle_half_turn(&mut self, sink: &mut impl FnMut(Settled<'_>)) {
        let holes = &self.holes;
        let first_hole = holes.iter().map(Hole::first_seq).find(|seq| *seq > self.durable).unwrap_or(u64::MAX);
        while self.pending.front().is_some_and(|pending| pending.position.seq < first_hole) {
            self.settle_first(&[], sink);
        }
    }

    /// The last record of the last whole turn.
    pub(crate) fn head(&self) -> Position {
        self.settled_last
    }

    /// Records that had been synced and are lost may be the last of all, with nothing but a tail behind them. Their
    /// place is not cut with the tail: what comes next follows the last of them, whose digest the tail tells. `true`
    /// if it is so. To be called when only synced holes are left.
    pub(crate) fn pass_synced_holes(&mut self, segments: &[SegmentFile]) -> bool {
        let lost = self.holes.last().is_some_and(|hole| hole.first_seq() > self.settled_last.seq);
        let Some(next) = self.pending.front().filter(|_next| lost) else { return false };
        let line = next.line.bytes(&[]);
        let Some(digest) = Settled::at(next.position, line).sliced().prev else { return false };
        self.settled_last = Position { seq: next.position.seq - 1, digest };
        let start = Place { offset: next.end.offset - wide(line.len() + 1), ..next.end };
        self.settled = match start {
            Place { segment, offset: 0 } if segment > 0 => {
                Place { segment: segment - 1, offset: segments[segment - 1].content }
            }
            start => start,
        };
        true
    }

    /// Takes everything back that was admitted and not handed on: the heads are those at the last whole turn, and a
    /// record that is cut explains no hole.
    pub(crate) fn retreat(&mut self) {
        while let Some(pending) = self.pending.pop_back() {
            for (index, hole) in pending.charged {
                if let Some(charged) = self.holes.get_mut(index) {
                    *charged = hole;
                }
            }
            let record = Settled::at(pending.position, pending.line.bytes(&[])).sliced();
            if let (Some((sid, _sn)), Some(before)) = (record.session(), pending.before) {
                self.heads.restore(&sid, before);
            }
        }
        self.heads.last = self.settled_last;
        let settled = self.settled.segment;
        self.segments.retain(|(index, _body)| *index <= settled);
    }
}
