//! Retirement from the turn's side: which of the oldest segments nothing known leads to any more, the state stated again, and
//! only then the files. Between two turns, on the turn's own thread.
//!
//! Promise: every key that is known still gets its outcome afterwards, because no record that it leads to is among those that
//! go. So what is known decides what goes, and whoever asks is told what holds the rest.

use super::carry;
use super::turn::{Fatal, Turn, head_of};
use crate::machine::limits::Retention;
use crate::machine::{Needed, OperationId, Outcome, SessionId, Time};
use ostler_ledger::{Entry, RetireError, SealedSegment, Stamp, Storage};
use serde_json::Value;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Order {
    /// The files go to the archive; else they are removed.
    pub keep: bool,
    /// Only tell.
    pub dry_run: bool,
    /// Who asks.
    pub act: Value,
}

/// What was retired, or would be.
#[derive(Debug)]
pub struct Retirement {
    /// The segments, oldest first.
    pub segments: Vec<SealedSegment>,
    /// About how many bytes of ledger state again what they told.
    pub carried_bytes: u64,
    /// What the oldest record that has to stay is needed for, if one of the rest could go otherwise.
    pub held: Option<Held>,
    /// The segments are retired, and why some of their files are still there.
    pub left: Option<String>,
}

/// Sealed segments that stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The first record that has to stay.
    pub seq: u64,
    /// How many sealed segments stay with it.
    pub segments: usize,
    /// For whom.
    pub by: HeldBy,
}

/// What keeps a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldBy {
    /// A session that is listed, or an operation of it that is shown, or a key that is known as long as it is.
    Session(SessionId),
    /// An operation that is not settled, or is among the latest.
    Operation {
        /// Which.
        id: OperationId,
        /// It has no outcome yet.
        open: bool,
    },
    /// A key within the window.
    Key(Retention),
    /// The segment of this name is damaged or has no proof.
    Damage(String),
}

impl<S: Storage, T> Turn<S, T> {
    /// Retires what can go, or tells what would. What the ledger refuses is not retired.
    ///
    /// # Errors
    /// [`Fatal`]: nothing may leave any more and the process must end.
    pub fn retire(&mut self, now: Time, order: &Order) -> Result<Result<Retirement, RetireError>, Fatal> {
        if !order.dry_run {
            match self.ledger.finish_retirement() {
                Ok(()) => {}
                Err(RetireError::Sync(error)) => return Err(error.into()),
                Err(error) => return Ok(Err(error)),
            }
        }
        let (segments, held) = match self.retirable() {
            Ok(retirable) => retirable,
            Err(error) => return Ok(Err(error)),
        };
        let count = segments.len();
        let carry = if count > 0 { self.carry(count) } else { Vec::new() };
        let carried_bytes = carry.iter().map(bytes).sum();
        let mut retirement = Retirement { segments, carried_bytes, held, left: None };
        if order.dry_run || count == 0 {
            return Ok(Ok(retirement));
        }
        let stamp = Stamp { at_us: now.wall_us, mono_us: now.boot_us, bg: self.state.generation };
        let retired = self.ledger.retire(count, &carry, Some(&order.act), &stamp, order.keep);
        if let Err(RetireError::Sync(error)) = retired {
            return Err(error.into());
        }
        // Also what was written before it failed is durable.
        self.view.publish(&mut self.state, head_of(&self.ledger));
        self.keep_room();
        Ok(retired.map(|retired| {
            retirement.left = retired.left.map(|error| error.to_string());
            retirement
        }))
    }

    /// The oldest segments that can go, and what holds the rest.
    fn retirable(&self) -> Result<(Vec<SealedSegment>, Option<Held>), RetireError> {
        let mut sealed = self.ledger.sealed();
        let needed = self.state.oldest_needed();
        let floor = needed.as_ref().map_or(u64::MAX, |(seq, _)| *seq);
        let mut count = sealed.iter().take_while(|segment| segment.last < floor).count();
        let mut by = needed.map(|(seq, needed)| (seq, self.held_by(needed)));
        while count > 0 {
            match self.ledger.may_retire(count) {
                Ok(()) => break,
                Err(RetireError::Unprovable(file)) => {
                    count = sealed.iter().take_while(|segment| segment.file < file).count().min(count - 1);
                    by = Some((sealed[count].first, HeldBy::Damage(file)));
                }
                Err(error) => return Err(error),
            }
        }
        let rest = sealed.split_off(count).len();
        let held = by.filter(|_| rest > 0).map(|(seq, by)| Held { seq, segments: rest, by });
        Ok((sealed, held))
    }

    fn held_by(&self, needed: Needed) -> HeldBy {
        match needed {
            Needed::Session(session) | Needed::KeyOf(session) => HeldBy::Session(session),
            Needed::Key(_) => HeldBy::Key(self.state.retention),
            Needed::Operation(id) => {
                let operation = self.state.operations.get(&id);
                let open = operation
                    .is_some_and(|operation| matches!(operation.state, Outcome::Accepted | Outcome::Uncertain));
                let session = operation.and_then(|operation| operation.session.clone());
                let listed = session.filter(|session| !open && self.state.sessions.get(session).is_some());
                listed.map_or(HeldBy::Operation { id, open }, HeldBy::Session)
            }
        }
    }

    /// The state, and a record for each session whose chain would end with the first segments.
    fn carry(&self, segments: usize) -> Vec<Entry> {
        #[cfg(feature = "testing")]
        let state = &self.planted.carried(self.state.clone());
        #[cfg(not(feature = "testing"))]
        let state = &self.state;
        let mut entries = carry::entries(state, &self.doubtful);
        entries.extend(self.ledger.open_chains(segments).into_iter().map(carry::of_session));
        entries
    }
}

/// About how long its line is.
fn bytes(entry: &Entry) -> u64 {
    u64::try_from(entry.members.bytes() + super::codec::ADDED_BYTES).unwrap_or(u64::MAX)
}
