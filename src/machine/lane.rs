//! The lane of a session: its messages in their order, and what each status of the session means for them (delivery.md 1.4): one literal
//! table. Every path that may release, cancel or recover a message comes through [`follow`], in the turn that changed the session or the
//! lane: there is no second one, and no moment between a change and what follows from it (requirements R15 to R20).
//!
//! Promise: after [`follow`] there is nothing left to follow, so that a restart finds each lane as it has to be.

use super::event::{Event, MessageChange, MessageEvent, QueueChange};
use super::id::{MessageId, SessionId};
use super::message::{Message, MessageState, Mode};
use super::session::{Session, Status};
use super::state::State;
use super::time::Time;
use std::sync::Arc;

/// A session's messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// Those to which something is still to come, oldest first.
    pub open: Vec<MessageId>,
    /// Those that came to their end, as far as they are kept, oldest first.
    pub receipts: Vec<MessageId>,
    /// How long the texts of the open ones are, in bytes.
    pub bytes: u64,
    /// How many of the open ones are notices of the broker's.
    pub notices: usize,
}

/// What a status means for the messages that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// They wait.
    Hold,
    /// The next one goes, if none is on its way.
    Release,
    /// Nobody will take them any more.
    Close,
}

/// Rows: status.
pub(super) const RULES: [(Status, Rule); 10] = [
    (Status::Starting, Rule::Hold),
    (Status::Unready, Rule::Hold),
    (Status::Ready, Rule::Release),
    // The end of the session turn is the boundary.
    (Status::Running, Rule::Hold),
    (Status::Stopping, Rule::Hold),
    (Status::Stopped, Rule::Close),
    (Status::Exited, Rule::Close),
    (Status::Failed, Rule::Close),
    // Lost with the machine: nothing starts by itself, and the queue is kept for whoever resumes it.
    (Status::Interrupted, Rule::Hold),
    (Status::Deleted, Rule::Close),
];

pub(super) fn rule(status: Status) -> Rule {
    RULES.iter().find(|(of, _)| *of == status).expect("the table has a row for each status").1
}

/// What follows for a session's messages from the state as it is now.
pub fn follow(state: &State, now: Time, sid: &SessionId) -> Vec<Event> {
    let (Some(lane), Some(session)) = (state.lanes.get(sid), state.sessions.get(sid)) else { return Vec::new() };
    match rule(session.status) {
        Rule::Hold => Vec::new(),
        Rule::Release => release(state, now, session, lane),
        Rule::Close => close(state, session),
    }
}

fn release(state: &State, now: Time, session: &Session, lane: &Lane) -> Vec<Event> {
    if !is_releasable(state, session, lane) {
        return Vec::new();
    }
    let mut events = Vec::new();
    for message in queued(state, lane) {
        if message.expires_us.is_some_and(|at_us| at_us <= now.wall_us) {
            events.push(event(session, message.id, MessageChange::Expired));
        } else {
            events.push(event(session, message.id, MessageChange::Sending));
            break;
        }
    }
    events
}

fn close(state: &State, session: &Session) -> Vec<Event> {
    let gone = session.status == Status::Deleted;
    if !state.open_messages(&session.id).any(|message| is_closed_with(message, gone)) {
        return Vec::new();
    }
    let reason = if gone { "session_deleted" } else { "session_ended" };
    let body = QueueChange::Closed { reason: reason.to_owned() };
    vec![Event::Queue { sid: session.id.clone(), ep: session.episode, body }]
}

/// Whether the end of its session, or its removal, is the end of this open message.
pub(super) fn is_closed_with(message: &Message, gone: bool) -> bool {
    match message.state {
        MessageState::Queued | MessageState::Delivered => true,
        MessageState::Uncertain => gone,
        // What is on its way is asked for first.
        MessageState::Sending => false,
        MessageState::Acknowledged | MessageState::Cancelled | MessageState::Failed | MessageState::Expired => false,
    }
}

/// Whether the next message may go now: its session takes them, is known to live, and none is on its way.
pub(super) fn is_releasable(state: &State, session: &Session, lane: &Lane) -> bool {
    rule(session.status) == Rule::Release
        && session.adapter.pushes()
        && session.fence.is_none()
        && session.proven >= state.generation
        && on_its_way(state, lane).is_none()
}

/// The message that is on its way.
pub(super) fn on_its_way<'a>(state: &'a State, lane: &Lane) -> Option<&'a Arc<Message>> {
    let mut open = lane.open.iter().filter_map(|id| state.messages.get(id));
    open.find(|message| message.state == MessageState::Sending)
}

/// Those that wait, in the order in which they go: an interrupt overtakes, and like keeps behind like.
pub(super) fn queued<'a>(state: &'a State, lane: &'a Lane) -> impl Iterator<Item = &'a Arc<Message>> {
    let waiting = |mode: Mode| {
        let open = lane.open.iter().filter_map(|id| state.messages.get(id));
        open.filter(move |message| message.state == MessageState::Queued && message.mode == mode)
    };
    waiting(Mode::Interrupt).chain(waiting(Mode::Queue))
}

/// A change of one message.
pub(super) fn event(session: &Session, message: MessageId, change: MessageChange) -> Event {
    Event::Message { sid: session.id.clone(), ep: session.episode, body: MessageEvent { message, change } }
}

impl State {
    /// A session's messages that are open, oldest first.
    pub fn open_messages(&self, session: &SessionId) -> impl Iterator<Item = &Arc<Message>> {
        self.lanes.get(session).into_iter().flat_map(|lane| &lane.open).filter_map(|id| self.messages.get(id))
    }

    /// How many messages wait for a session, and how long their texts are in bytes.
    pub fn waiting(&self, sid: &SessionId) -> (usize, u64) {
        let Some(lane) = self.lanes.get(sid) else { return (0, 0) };
        queued(self, lane).fold((0, 0), |(count, bytes), message| (count + 1, bytes.saturating_add(message.bytes())))
    }

    /// Where a message stands among those that wait for its session: 1 is the next.
    pub fn position(&self, message: &Message) -> Option<usize> {
        let lane = self.lanes.get(&message.session)?;
        queued(self, lane).position(|waiting| waiting.id == message.id).map(|before| before + 1)
    }

    /// What must hold of all this, for [`super::violations`].
    pub(super) fn mail_wrong(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut claim = |holds: bool, what: String| found.extend((!holds).then_some(what));
        let mut known = 0;
        for (sid, lane) in self.lanes.iter() {
            claim(self.sessions.get(sid).is_some(), format!("{sid}: a lane without its session"));
            let open: Vec<_> = lane.open.iter().filter_map(|id| self.messages.get(id)).collect();
            known += lane.open.len() + lane.receipts.len();
            claim(
                open.len() == lane.open.len() && open.is_sorted_by_key(|message| message.id),
                format!("{sid}: its lane"),
            );
            claim(open.iter().all(|message| message.is_open() && message.session == *sid), format!("{sid}: not open"));
            let sending = open.iter().filter(|message| message.state == MessageState::Sending).count();
            claim(sending <= 1, format!("{sid}: {sending} messages are on their way at once"));
            let bytes = open.iter().fold(0_u64, |bytes, message| bytes.saturating_add(message.bytes()));
            claim(bytes == lane.bytes, format!("{sid}: {} bytes counted, {bytes} there", lane.bytes));
            let notices = open.iter().filter(|message| message.notice.is_some()).count();
            claim(notices == lane.notices, format!("{sid}: {} notices counted, {notices} there", lane.notices));
            let ended = |id: &MessageId| self.messages.get(id).is_some_and(|message| !message.is_open());
            claim(lane.receipts.iter().all(ended), format!("{sid}: a receipt that is open"));
        }
        claim(known == self.messages.len(), format!("{known} messages in lanes, {} there", self.messages.len()));
        let ended: Vec<_> = self.messages.values().filter(|message| !message.is_open()).collect();
        let listed = ended.iter().all(|message| self.receipts.get(&(message.seq, message.id)).is_some());
        claim(listed && ended.len() == self.receipts.len(), "the receipts' order is another".to_owned());
        let is_due = |message: &Message| message.state == MessageState::Queued && message.expires_us.is_some();
        let due = self.messages.values().filter(|message| is_due(message)).count();
        claim(due == self.expiries.len(), format!("{due} messages expire, {} are listed", self.expiries.len()));
        found.extend(super::interrupts::wrong(self));
        found
    }
}
