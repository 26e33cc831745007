//! The state: the fold of the ledger (law 1). All of it lies in journaled tables, so that a turn can be published to
//! the view or undone at the cost of what it touched.

use super::id::{Key, MessageId, Name, OperationId, ReportId, Scope, SessionId};
use super::lane::Lane;
use super::limits::Retention;
use super::message::Message;
use super::operation::Operation;
use super::past::Past;
use super::report::Report;
use super::session::Session;
use super::table::Table;
use std::sync::Arc;

/// Everything the broker knows, as of one ledger position.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The current broker generation; 0 before the first.
    pub generation: u64,
    /// The boot that the current generation runs in: its clock is the one that deadlines are measured on.
    pub boot: String,
    /// How many sessions may have a process.
    pub live: usize,
    /// How many of them are children of this session; without those of which none is.
    pub children: Table<SessionId, usize>,
    /// How many operations are accepted and not settled.
    pub open: usize,
    /// Sessions that are not tombstones.
    pub sessions: Table<SessionId, Arc<Session>>,
    /// Names in use.
    pub names: Table<Name, SessionId>,
    /// Sessions by the position of their creation: the order of lists.
    pub ages: Table<u64, SessionId>,
    /// Sessions that left the list and whose files are owed a removal.
    pub removals: Table<SessionId, u32>,
    /// Stops whose end must be proven by then; boot clock, microseconds.
    pub deadlines: Table<(u64, SessionId), u32>,
    /// Operations that are kept in full.
    pub operations: Table<OperationId, Arc<Operation>>,
    /// Their keys, where they bind.
    pub keys: Table<(Scope, Key), OperationId>,
    /// Messages: those to which something is still to come, and receipts of the others.
    pub messages: Table<MessageId, Arc<Message>>,
    /// They, by session.
    pub lanes: Table<SessionId, Arc<Lane>>,
    /// Messages that wait and expire; wall clock, microseconds.
    pub expiries: Table<(u64, MessageId), ()>,
    /// Messages that interrupt a session turn, by when it has to be over; boot clock, microseconds.
    pub alarms: Table<(u64, MessageId), ()>,
    /// Messages that came to their end, in that order, by the position of their last record.
    pub receipts: Table<(u64, MessageId), ()>,
    /// Reports.
    pub reports: Table<ReportId, Arc<Report>>,
    /// They, by session, oldest first.
    pub reported: Table<SessionId, Arc<Vec<ReportId>>>,
    /// Those that were let go.
    pub past: Arc<Past>,
    /// How many keys were ever settled.
    pub settled: u64,
    /// How many free-form keys are known.
    pub free_form: usize,
    /// What is kept, and how long.
    pub retention: Retention,
    /// The latest operations are those from this position on.
    pub(super) recent_from: u64,
    /// How many they are.
    pub(super) recent: usize,
    /// Operations that lost what held them, until the turn is closed.
    pub(super) loose: Vec<OperationId>,
}

impl State {
    /// An empty one that keeps so much.
    pub fn keeping(retention: Retention) -> Self {
        Self { retention, ..Self::default() }
    }

    /// Copies what this turn touched to the view.
    pub fn publish(&mut self, view: &mut Self) {
        view.generation = self.generation;
        view.boot.clone_from(&self.boot);
        (view.live, view.open) = (self.live, self.open);
        self.children.publish(&mut view.children);
        self.sessions.publish(&mut view.sessions);
        self.names.publish(&mut view.names);
        self.ages.publish(&mut view.ages);
        self.removals.publish(&mut view.removals);
        self.deadlines.publish(&mut view.deadlines);
        self.operations.publish(&mut view.operations);
        self.keys.publish(&mut view.keys);
        self.messages.publish(&mut view.messages);
        self.lanes.publish(&mut view.lanes);
        self.expiries.publish(&mut view.expiries);
        self.alarms.publish(&mut view.alarms);
        self.receipts.publish(&mut view.receipts);
        self.reports.publish(&mut view.reports);
        self.reported.publish(&mut view.reported);
        view.past = Arc::clone(&self.past);
        (view.settled, view.free_form, view.retention) = (self.settled, self.free_form, self.retention);
        (view.recent_from, view.recent) = (self.recent_from, self.recent);
    }

    /// Puts back what this turn touched, from the view: the write failed and nothing of it happened.
    pub fn revert(&mut self, view: &Self) {
        self.generation = view.generation;
        self.boot.clone_from(&view.boot);
        (self.live, self.open) = (view.live, view.open);
        self.children.revert(&view.children);
        self.sessions.revert(&view.sessions);
        self.names.revert(&view.names);
        self.ages.revert(&view.ages);
        self.removals.revert(&view.removals);
        self.deadlines.revert(&view.deadlines);
        self.operations.revert(&view.operations);
        self.keys.revert(&view.keys);
        self.messages.revert(&view.messages);
        self.lanes.revert(&view.lanes);
        self.expiries.revert(&view.expiries);
        self.alarms.revert(&view.alarms);
        self.receipts.revert(&view.receipts);
        self.reports.revert(&view.reports);
        self.reported.revert(&view.reported);
        self.past = Arc::clone(&view.past);
        (self.settled, self.free_form, self.retention) = (view.settled, view.free_form, view.retention);
        (self.recent_from, self.recent) = (view.recent_from, view.recent);
        self.loose.clear();
    }

    /// Fills in the digest of an operation's latest record, once the ledger has formed it.
    pub fn stamp(&mut self, event: &super::event::Event, digest: super::id::Digest) {
        use super::event::Event;
        let id = match event {
            Event::Accept { op, .. } | Event::Finish { op, .. } => *op,
            Event::Operator { body, .. } => body.operation,
            Event::Generation { .. }
            | Event::Host { .. }
            | Event::Session { .. }
            | Event::Fence { .. }
            | Event::Message { .. }
            | Event::Queue { .. }
            | Event::Notice { .. }
            | Event::Beat { .. }
            | Event::Conflict { .. } => return,
        };
        if let Some(operation) = self.operations.get_mut(&id) {
            Arc::make_mut(operation).digest = digest;
        }
    }

    /// The operation that is kept in full and has this key in this scope.
    pub fn operation_by_key(&self, scope: &Scope, key: &Key) -> Option<&Arc<Operation>> {
        self.operations.get(self.keys.get(&(scope.clone(), key.clone()))?)
    }
}
