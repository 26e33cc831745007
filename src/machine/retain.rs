//! What the state keeps of operations, so that it is bounded by what is going on and not by what has ever been
//! (law 9). An operation is kept in full while it is not settled, among the latest of all, or among the latest of its
//! session. Then it is let go: its footprint stays for the window, by which its records are found in the ledger.
//!
//! ```text
//! accepted -> kept in full -> let go: a footprint -> out of the window: forgotten
//! ```
//! All of it follows from the records and their times, never from a reader's clock, so that a fold comes to the same.

use super::footprint::{Footprint, Runs, fingerprint};
use super::id::{Key, OperationId, Scope, SessionId};
use super::limits;
use super::operation::{Operation, Outcome};
use super::session::Session;
use super::state::State;
use super::time::Time;
use std::sync::Arc;

/// What is known of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known<'a> {
    /// It belongs to this operation.
    Here(&'a Arc<Operation>),
    /// It may belong to one of these, whose records tell.
    Perhaps(Vec<Footprint>),
    /// It belongs to none.
    Nowhere,
}

/// The last instant of the millisecond in which a key says that it was made, wall clock in microseconds.
pub(super) fn made_us(key: &Key) -> Option<u64> {
    Some(key.made_ms()?.saturating_mul(1_000).saturating_add(999))
}

/// The same for a key whose time can be believed at `at_us`: not one that claims to be made long after it.
pub(super) fn believed_us(key: &Key, at_us: u64) -> Option<u64> {
    made_us(key).filter(|made_us| *made_us <= at_us.saturating_add(limits::KEY_AHEAD_US))
}

/// What still leads to a record of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Needed {
    /// A listed session was created by it.
    Session(SessionId),
    /// An operation that is kept in full.
    Operation(OperationId),
    /// The key of an operation that was let go, which is within the window.
    Key(OperationId),
    /// The same, which is known as long as this session is listed.
    KeyOf(SessionId),
}

impl State {
    /// What is known of this key in this scope.
    pub fn known(&self, scope: &Scope, key: &Key) -> Known<'_> {
        if let Some(operation) = self.operation_by_key(scope, key) {
            return Known::Here(operation);
        }
        let mut rows: Vec<_> = self.past.with(fingerprint(scope, key)).filter(Footprint::binds).collect();
        rows.sort_unstable_by_key(Footprint::operation);
        // One whose session ended stands there twice for a while.
        rows.dedup_by_key(|row| row.operation());
        if rows.is_empty() { Known::Nowhere } else { Known::Perhaps(rows) }
    }

    /// The footprint of an operation that was let go and had this key.
    pub fn footprint(&self, id: OperationId, scope: &Scope, key: &Key) -> Option<Footprint> {
        self.past.with(fingerprint(scope, key)).find(|row| row.operation() == id)
    }

    /// How many operations are known, in full or as footprints.
    pub fn known_operations(&self) -> usize {
        self.operations.len() + self.past.len()
    }

    /// A new operation takes its place among the latest.
    pub(super) fn hold(&mut self, id: OperationId, sid: Option<&SessionId>) {
        self.recent += 1;
        self.loosen_recent();
        let session = sid.and_then(|sid| self.sessions.get_mut(sid));
        if let Some(session) = session {
            let latest = &mut Arc::make_mut(session).latest;
            latest.push(id);
            if latest.len() > self.retention.of_session {
                self.loose.push(latest.remove(0));
            }
        }
    }

    /// The oldest of the latest loses its place while they are too many.
    fn loosen_recent(&mut self) {
        while self.recent > self.retention.recent
            && let Some((oldest, _)) = self.operations.from(&OperationId(self.recent_from)).next()
        {
            let oldest = *oldest;
            (self.recent, self.recent_from) = (self.recent - 1, oldest.0 + 1);
            self.loose.push(oldest);
        }
    }

    /// Keeps so much from here on.
    pub(super) fn keep_on(&mut self, retention: limits::Retention, now: Time) {
        self.retention = retention;
        self.loosen_recent();
        let too_many = self.sessions.iter().filter(|(_, session)| session.latest.len() > retention.of_session);
        let too_many: Vec<SessionId> = too_many.map(|(sid, _)| sid.clone()).collect();
        for sid in too_many {
            if let Some(session) = self.sessions.get_mut(&sid) {
                let latest = &mut Arc::make_mut(session).latest;
                let more = latest.len() - retention.of_session;
                self.loose.extend(latest.drain(..more));
            }
        }
        self.close(now);
    }

    /// The oldest record that something known still leads to: the records from it on have to stay in the ledger.
    pub fn oldest_needed(&self) -> Option<(u64, Needed)> {
        let session = self.ages.iter().next().map(|(seq, sid)| (*seq, Needed::Session(sid.clone())));
        let operation = self.operations.iter().next().map(|(id, _)| (id.0, Needed::Operation(*id)));
        // Sessions keep no footprint that does not stand here as well.
        let row = self.past.iter().min_by_key(Footprint::operation);
        let tied = |row: Footprint| row.tie().and_then(|created| self.ages.get(&created)).cloned();
        let key = row.map(|row| (row.operation().0, tied(row).map_or(Needed::Key(row.operation()), Needed::KeyOf)));
        [session, operation, key].into_iter().flatten().min_by_key(|(seq, _)| *seq)
    }

    /// A session leaves: nothing keeps its operations in full any more, and its free-form keys count from here.
    pub(super) fn release(&mut self, session: &Session, now_us: u64) {
        self.loose.extend(&session.latest);
        for row in session.held.iter() {
            self.past_mut(|past, settled, retention| past.push(row.untied(), now_us, settled, retention));
        }
    }

    /// The end of a turn whose records are durable: lets go what nothing holds any more, and forgets what is out of
    /// the window. Called once after the events of each turn, with that turn's time.
    pub fn close(&mut self, now: Time) {
        for id in std::mem::take(&mut self.loose) {
            if !self.is_held(id) {
                self.let_go(id, now.wall_us);
            }
        }
        self.forget_receipts(now);
        while self.past.is_overdue(now.wall_us, self.settled, &self.retention) {
            self.forget(now.wall_us);
        }
    }

    /// Whether something keeps this operation in full.
    pub(super) fn is_held(&self, id: OperationId) -> bool {
        self.operations.get(&id).is_some_and(|operation| {
            let open = matches!(operation.state, Outcome::Accepted | Outcome::Uncertain);
            let session = operation.session.as_ref().and_then(|sid| self.sessions.get(sid));
            open || id.0 >= self.recent_from || session.is_some_and(|session| session.latest.contains(&id))
        })
    }

    fn let_go(&mut self, id: OperationId, now_us: u64) {
        let Some(operation) = self.operations.remove(&id) else { return };
        let key = (operation.scope.clone(), operation.key.clone());
        if self.keys.get(&key) == Some(&id) {
            self.keys.remove(&key);
        }
        let untied = Footprint::of(&operation, 0);
        let session = operation.session.as_ref().and_then(|sid| self.sessions.get_mut(sid));
        let row = match session.filter(|_| untied.is_counted()) {
            Some(session) => {
                let row = Footprint::of(&operation, session.created_seq);
                Arc::make_mut(session).held.push(row);
                row
            }
            None => untied,
        };
        let until_us = now_us.max(believed_us(&operation.key, operation.accepted_us).unwrap_or(0));
        self.past_mut(|past, settled, retention| past.push(row, until_us, settled, retention));
    }

    /// Forgets the oldest batch, but for keys that their sessions keep known.
    fn forget(&mut self, now_us: u64) {
        let rows = Arc::make_mut(&mut self.past).forget();
        for row in rows.into_iter().flatten() {
            match row.tie() {
                Some(session) if self.ages.get(&session).is_some() => {
                    self.past_mut(|past, settled, retention| past.push(row, now_us, settled, retention));
                }
                // Its session left, and it stands there once more, from then on.
                Some(_) => {}
                None if row.is_counted() => self.free_form = self.free_form.saturating_sub(1),
                None => {}
            }
        }
    }

    fn past_mut(&mut self, change: impl FnOnce(&mut super::past::Past, u64, &limits::Retention)) {
        change(Arc::make_mut(&mut self.past), self.settled, &self.retention);
    }

    /// What must hold of all this, for [`super::violations`].
    pub(super) fn retained_wrongly(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut claim = |holds: bool, what: String| found.extend((!holds).then_some(what));
        claim(self.loose.is_empty(), format!("the turn was not closed: {:?}", self.loose));
        let recent = self.operations.from(&OperationId(self.recent_from)).count();
        claim(recent == self.recent && recent <= self.retention.recent, format!("{recent} recent operations"));
        let mut free_form = 0;
        for (id, operation) in self.operations.iter() {
            claim(self.is_held(*id), format!("{id} is kept in full for no reason"));
            let binds = operation.state != Outcome::Aborted;
            free_form += usize::from(binds && operation.is_free_form());
            let key = (operation.scope.clone(), operation.key.clone());
            claim(!binds || self.keys.get(&key) == Some(id), format!("{id} has lost its key"));
        }
        let is_kept = |row: &Footprint| row.tie().is_none_or(|session| self.ages.get(&session).is_some());
        let rows: Vec<_> = self.past.iter().collect();
        free_form += rows.iter().filter(|row| row.is_counted() && is_kept(row)).count();
        claim(free_form == self.free_form, format!("{} free-form keys counted, {free_form} there", self.free_form));
        claim(rows.len() == self.past.len(), format!("{} footprints counted, {} there", self.past.len(), rows.len()));
        for (sid, session) in self.sessions.iter() {
            claim(session.latest.len() <= self.retention.of_session, format!("{sid} keeps too many operations"));
            for id in &session.latest {
                let of = self.operations.get(id).and_then(|operation| operation.session.as_ref());
                claim(of == Some(sid), format!("{sid} keeps {id}, which is not its own"));
            }
            let held: Runs = session.held.clone();
            claim(held.iter().all(|row| row.tie() == Some(session.created_seq)), format!("{sid} keeps another's key"));
        }
        found
    }
}
