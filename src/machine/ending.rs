//! The end that somebody wants of an episode: who, when and why (requirement R47), and until when it has to be proven.
//!
//! Promise: what stands here follows from the record of the stop and goes with its episode. So the notice to the program is no record and no
//! message of its own: whoever comes back finds it, and a late one brings nothing to life (R44 to R46).

use super::id::{OperationId, Scope, SessionId};
use super::limits;
use super::session::{Session, Status};
use super::table::Table;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The first wish that an episode should end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Halt {
    /// The operation that asked for it; none where a session turn did not heed its interrupt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationId>,
    /// Who asked; none where it was the broker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Scope>,
    /// Why, in the words of whoever asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When; wall clock, microseconds.
    pub asked_us: u64,
    /// How long the command may take to end by itself, in milliseconds.
    pub grace_ms: u64,
    /// The session turn that ran then, where turns are seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
}

impl Halt {
    /// When the grace is over, by the wall clock as it was when the stop was asked for; microseconds.
    pub fn deadline_us(&self) -> u64 {
        self.asked_us.saturating_add(self.grace_ms.saturating_mul(1_000))
    }
}

impl Session {
    /// What its program is told: the stop that is under way, as long as it is.
    pub fn notice(&self) -> Option<&Arc<Halt>> {
        self.stop.as_ref().filter(|_| self.status == Status::Stopping)
    }
}

/// The session is to end. `halt` leaves out the turn that is cut by it.
pub(super) fn begin(session: &mut Session, halt: Halt, deadline_boot_us: u64) {
    let turn = session.turn.map(|turn| turn.number);
    session.status = Status::Stopping;
    super::turns::left(session);
    (session.grace_ms, session.deadline_boot_us) = (halt.grace_ms, deadline_boot_us);
    session.stop = Some(Arc::new(Halt { turn, ..halt }));
}

/// Sets when the callers of a stop are answered at the latest: some time after its deadline.
pub(super) fn arm(deadlines: &mut Table<(u64, SessionId), u32>, session: &mut Session, deadline_boot_us: u64) {
    let due = deadline_boot_us.saturating_add(limits::STOP_PROOF_MS.saturating_mul(1_000));
    session.due_boot_us = Some(due);
    deadlines.insert((due, session.id.clone()), session.episode);
}

/// Whether something waits for its deadline: that it becomes ready, or for its end.
pub(super) fn is_awaited(session: &Session) -> bool {
    let is_given_up = super::ready::is_given_up(session) && !session.starts.is_empty();
    let ends = !session.stops.is_empty() || !session.deletes.is_empty();
    ends || is_given_up || session.status == Status::Unready
}

/// Nobody waits for its deadline any more.
pub(super) fn disarm(deadlines: &mut Table<(u64, SessionId), u32>, session: &mut Session) {
    if let Some(due) = session.due_boot_us.take() {
        deadlines.remove(&(due, session.id.clone()));
    }
}
