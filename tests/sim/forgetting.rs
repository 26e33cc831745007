//! What a broker may forget of what it promised: only what is out of the window, by the ledger's own times. The ledger is
//! read for it record by record; nothing here asks the machine what it thinks.

use super::history;
use super::oracle::Oracle;
use super::trace::{Broken, Checked, Trace, claim};
use ostler::broker::codec;
use ostler::broker::recall::{Lookup, recall};
use ostler::machine::limits::Retention;
use ostler::machine::{
    At, Digest, Event, Operation, OperationId, Outcome, Recalled, SessionChange, SessionId, State, recalled,
};
use ostler_ledger::storage::SimulatedDisk;
use ostler_ledger::{ReadError, Record, Records};
use std::collections::BTreeMap;
use std::sync::Arc;

/// All records, read once, those that were retired as well.
pub(super) struct Shelf {
    records: BTreeMap<u64, Record>,
    /// Where the ledger begins now.
    begins: u64,
}

impl Shelf {
    pub(super) fn of(disk: &SimulatedDisk) -> Checked<Self> {
        let unread = |error| Broken(format!("the ledger cannot be read: {error}"));
        let (whole, here) = (history::whole(disk).storage(), history::copy(disk).storage());
        let begins = Records::new(&here).next().transpose().map_err(unread)?.map_or(1, |record| record.header.seq);
        let records = Records::new(&whole).map(|record| record.map(|record| (record.header.seq, record)));
        let records = records.collect::<Result<_, _>>().map_err(unread)?;
        Ok(Self { records, begins })
    }

    /// An operation as the record that accepted it has it, and its outcome where it has one.
    pub(super) fn operation(&self, id: OperationId) -> Option<Operation> {
        let (first, at) = codec::event(self.records.get(&id.0)?).ok()??;
        let mut outcomes = self.records.range(id.0..).rev().filter_map(|(_, record)| {
            let (last, last_at) = codec::event(record).ok()??;
            recalled((&first, at), (&last, last_at, Digest(record.digest.0)))
        });
        outcomes.next()
    }

    /// An operation that the state has let go, by its footprint: as the broker reads it back, from what is not retired.
    pub(super) fn let_go(&self, then: &Operation, state: &State) -> Option<Arc<Operation>> {
        let footprint = state.footprint(then.id, &then.scope, &then.key)?;
        match recall(self, &footprint) {
            Recalled::Read(operation) => Some(operation),
            Recalled::Unreadable(_) => None,
        }
    }

    /// Everything after this position that the machine knows.
    fn after(&self, seq: u64) -> impl Iterator<Item = (Event, At)> {
        let events = self.records.range(seq + 1..).map(|(_, record)| codec::event(record));
        events.filter_map(|event| event.ok().flatten())
    }
}

impl Lookup for Shelf {
    fn record(&self, seq: u64) -> Result<Option<Record>, ReadError> {
        Ok(self.records.get(&seq).filter(|_| seq >= self.begins).cloned())
    }
}

impl Oracle {
    /// Notes what the broker has let go and forgotten; the latter must be allowed.
    pub(super) fn forget(&mut self, state: &State, disk: &SimulatedDisk, trace: &Trace) -> Checked {
        let gone = self.told.values().filter(|told| {
            !self.forgotten.contains(&told.id)
                && state.operations.get(&told.id).is_none()
                && (!self.let_go.contains(&told.id) || state.footprint(told.id, &told.scope, &told.key).is_none())
        });
        let gone: Vec<Arc<Operation>> = gone.cloned().collect();
        let mut shelf = None;
        for told in gone {
            if state.footprint(told.id, &told.scope, &told.key).is_some() {
                self.let_go.insert(told.id);
                continue;
            }
            let shelf = match &shelf {
                Some(shelf) => shelf,
                None => shelf.insert(Shelf::of(disk)?),
            };
            may_be_forgotten(&told, shelf, state.retention, u64::MAX)?;
            trace.line(format!("    forgotten: {}", told.id));
            trace.mark("forgotten".to_owned());
            self.forgotten.insert(told.id);
            self.bound.retain(|_, id| *id != told.id);
        }
        Ok(())
    }

    pub(super) fn is_let_go(&self, id: OperationId) -> bool {
        self.let_go.contains(&id)
    }
}

/// Whether the window lets the broker forget an operation before the record at `until`.
pub(super) fn may_be_forgotten(told: &Operation, shelf: &Shelf, retention: Retention, until: u64) -> Checked {
    let id = told.id;
    let outcome = |event: &Event| {
        matches!(event, Event::Finish { op, .. } if *op == id)
            || matches!(event, Event::Operator { body, .. } if body.operation == id)
    };
    let after = |seq: u64| shelf.after(seq).take_while(move |(_, at)| at.seq < until);
    let last = after(id.0).filter(|(event, _)| outcome(event)).last();
    let (_, last) = last.ok_or_else(|| Broken(format!("law 6: {id} is forgotten and was never settled")))?;
    let settled =
        after(last.seq).filter(|(event, _)| matches!(event, Event::Finish { st, .. } if *st != Outcome::Aborted));
    let settled = u64::try_from(settled.count()).unwrap_or(u64::MAX);
    claim(settled >= retention.settled, || format!("law 5: {id} is forgotten, and {settled} keys were settled since"))?;
    // The clock may have been set back after it was settled: the window is measured by what it said from then on.
    let out = |since: u64| {
        let times = || after(since - 1).map(|(_, at)| at.time.wall_us);
        times().max().zip(times().min()).is_some_and(|(newest, oldest)| newest - oldest > retention.window_us)
    };
    claim(out(last.seq), || format!("law 5: {id} is forgotten within the window"))?;
    let Some(session) = told.session.as_ref().filter(|_| told.is_free_form() && told.state != Outcome::Aborted) else {
        return Ok(());
    };
    let left = after(id.0).find(|(event, _)| leaves(event, session));
    let (_, left) = left.ok_or_else(|| Broken(format!("law 5: {id} is forgotten before its session")))?;
    claim(out(left.seq), || format!("law 5: {id} is forgotten too soon after its session"))
}

/// Whether a session may have left the list here. A resume that came to nothing looks alike; the claim is then weaker.
fn leaves(event: &Event, session: &SessionId) -> bool {
    let Event::Session { sid, body, .. } = event else { return false };
    sid == session && matches!(body, SessionChange::Aborted | SessionChange::Forgotten | SessionChange::Removed)
}
