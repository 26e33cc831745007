//! The state in the form in which a snapshot stores it. It holds what cannot be told from the rest and nothing else, so that
//! no two parts of it can differ: names, ages, deadlines, keys and counts are made anew.
//!
//! There are two forms of it: the text of the ledger's own records, and that of a snapshot, whose footprints stand apart as bytes. A
//! start reads the second one, so it has a count as well that would have to be made of every footprint.
//!
//! Promise: what was stored comes back equal. Whoever changes the form or the meaning of a member, here or in any type that
//! stands in here, changes the version that the snapshot carries (`broker::snapshot`); a golden file notices.

use super::footprint::Footprint;
use super::id::{Malformed, SessionId};
use super::limits::Retention;
use super::message::Message;
use super::operation::{Operation, Outcome};
use super::past::{Apart, Past};
use super::report::Report;
use super::session::Session;
use super::state::State;
use super::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A state between two turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored<P = Past> {
    boot: String,
    generation: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    messages: Vec<Arc<Message>>,
    operations: Vec<Arc<Operation>>,
    past: P,
    recent_from: u64,
    removals: BTreeMap<SessionId, u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    reports: Vec<Arc<Report>>,
    retention: Retention,
    sessions: Vec<Arc<Session>>,
    settled: u64,
}

/// What a snapshot has in the place of the past.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    /// How many free-form keys are known by their footprints.
    free_form: usize,
    past: Apart,
}

impl State {
    /// What has to be stored of it, after the end of a turn.
    pub fn stored(&self) -> Stored {
        self.stored_with((*self.past).clone())
    }

    /// The same, and its footprints behind what stands in `bytes`.
    pub fn stored_apart(&self, bytes: &mut Vec<u8>) -> Stored<Counted> {
        let in_full = self.operations.values().filter(|operation| counts(operation)).count();
        self.stored_with(Counted { free_form: self.free_form - in_full, past: self.past.apart(bytes) })
    }

    fn stored_with<P>(&self, past: P) -> Stored<P> {
        Stored {
            boot: self.boot.clone(),
            generation: self.generation,
            messages: self.messages.values().map(Arc::clone).collect(),
            operations: self.operations.values().map(Arc::clone).collect(),
            past,
            recent_from: self.recent_from,
            removals: self.removals.iter().map(|(id, episode)| (id.clone(), *episode)).collect(),
            reports: self.reports.values().map(Arc::clone).collect(),
            retention: self.retention,
            sessions: self.sessions.values().map(Arc::clone).collect(),
            settled: self.settled,
        }
    }
}

impl Stored {
    /// The state that was stored; none if it kept more or less than is to be kept now.
    pub fn state(self, retention: Retention) -> Option<State> {
        (self.retention == retention).then(|| self.restored())
    }

    /// The state that was stored, which goes on with what is to be kept now: for one that nothing can be replayed in the
    /// place of. `now` is when it was stored.
    pub fn state_on(self, retention: Retention, now: Time) -> State {
        let same = self.retention == retention;
        let mut state = self.restored();
        if !same {
            state.keep_on(retention, now);
        }
        state
    }

    fn restored(self) -> State {
        let (mut state, past) = self.without_past();
        let is_known = |row: &Footprint| row.tie().is_none_or(|session| state.ages.get(&session).is_some());
        state.free_form += past.iter().filter(|row| row.is_counted() && is_known(row)).count();
        state.past = Arc::new(past);
        state
    }
}

impl Stored<Counted> {
    /// The state that was stored with these footprints; none if it kept more or less than is to be kept now.
    ///
    /// # Errors
    /// [`Malformed`]: more or fewer bytes than it had.
    pub fn state(self, retention: Retention, bytes: &[u8]) -> Result<Option<State>, Malformed> {
        if self.retention != retention {
            return Ok(None);
        }
        let (mut state, Counted { free_form, past }) = self.without_past();
        state.free_form = state.free_form.saturating_add(free_form);
        state.past = Arc::new(past.with(bytes)?);
        Ok(Some(state))
    }
}

impl<P> Stored<P> {
    /// The state but for its footprints, and what is stored of those.
    fn without_past(self) -> (State, P) {
        let mut state = State::keeping(self.retention);
        (state.boot, state.generation, state.settled) = (self.boot, self.generation, self.settled);
        for session in self.sessions {
            let id = session.id.clone();
            if session.status.is_live() {
                super::family::rose((&mut state.live, &mut state.children), &session);
            }
            state.ages.insert(session.created_seq, id.clone());
            if let Some(name) = &session.name {
                state.names.insert(name.clone(), id.clone());
            }
            if let Some(due_us) = session.due_boot_us {
                state.deadlines.insert((due_us, id.clone()), session.episode);
            }
            state.sessions.insert(id, session);
        }
        self.messages.into_iter().for_each(|message| state.enlist(message));
        self.reports.into_iter().for_each(|report| state.file(report));
        self.removals.into_iter().for_each(|(id, episode)| state.removals.insert(id, episode));
        state.recent_from = self.recent_from;
        for operation in self.operations {
            let id = operation.id;
            state.open += usize::from(operation.state == Outcome::Accepted);
            state.recent += usize::from(id.0 >= state.recent_from);
            state.free_form += usize::from(counts(&operation));
            if operation.state != Outcome::Aborted {
                state.keys.insert((operation.scope.clone(), operation.key.clone()), id);
            }
            state.operations.insert(id, operation);
        }
        (state, self.past)
    }
}

/// Whether an operation that is kept in full counts among the free-form keys that are known.
fn counts(operation: &Operation) -> bool {
    operation.state != Outcome::Aborted && operation.is_free_form()
}
