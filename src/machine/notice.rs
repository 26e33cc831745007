//! Notices: what the broker itself tells a session that its messages and its children came to, as messages of its own in that session's lane.
//!
//! | what happens | who is told |
//! | --- | --- |
//! | a child's episode ends, and its parent did not ask for that | the parent |
//! | a child posts a report | the parent |
//! | a message cannot be told from delivered and not delivered, or is after all | its sender |
//! | a message expires, fails, or is cancelled by somebody else | its sender |
//! | a session takes what waits for it no more | each sender, once for all of it |
//!
//! Promises: a notice is recorded in the turn of what it tells of, so that there is one, and exactly one, whoever is killed (requirements R43,
//! R58, R60, R61). It holds facts of the broker's and no word of a session's; a session's own words are added where it is read, as data. Notices
//! beget no notices, start nobody, and are no reason to refuse a message. The owner gets none: it has eyes of its own (`events.subscribe`).

use super::apply::{At, Illegal};
use super::event::{Event, MessageChange, Plan, QueueChange, SessionChange};
use super::id::{Key, MessageId, Name, ReportId, Scope, SessionId};
use super::lane::is_closed_with;
use super::limits;
use super::message::{Message, MessageState, Mode, Sender};
use super::session::{Exit, Session, Status};
use super::state::State;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the broker tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    /// A child's episode ended.
    Ended {
        /// Which child.
        session: SessionId,
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<Name>,
        /// Which episode.
        episode: u32,
        /// The status after it.
        status: Status,
        /// How it ended.
        exit: Exit,
        /// The last report that it posted in that episode, if it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        report: Option<ReportId>,
    },
    /// A child posted a report.
    Reported {
        /// Which child.
        session: SessionId,
        /// The report.
        report: ReportId,
    },
    /// A message of the recipient's is where it did not ask for.
    Message {
        /// Which message.
        message: MessageId,
        /// Whom it was for.
        session: SessionId,
        /// Where it stands.
        state: MessageState,
        /// Why, where there is something to say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// What the recipient had sent to a session, and that waited there, is taken no more.
    Queue {
        /// Whom it was for.
        session: SessionId,
        /// Why.
        reason: String,
        /// How many messages.
        count: u64,
        /// The first of them.
        messages: Vec<MessageId>,
    },
}

impl Notice {
    /// One for each thing to tell: the same for the same.
    fn key(&self) -> Key {
        let text = match self {
            Self::Ended { session, episode, .. } => format!("notice:{session}:ended:{episode}"),
            Self::Reported { report, .. } => format!("notice:{report}"),
            Self::Message { message, state, .. } => format!("notice:{message}:{}", state.word()),
            Self::Queue { session, messages, .. } => {
                format!("notice:{session}:queue:{}", messages.first().map_or(0, |id| id.0))
            }
        };
        Key::parse(&text).expect("words and numbers are a key")
    }
}

/// What an event means for others than whom it is about, by the state before it. `by`: who asked for it; whoever did need not be told.
pub fn news(state: &State, event: &Event, by: Option<&Scope>) -> Vec<Event> {
    match event {
        Event::Session { sid, body: SessionChange::Ended { status, exit, .. }, .. } => {
            state.sessions.get(sid).and_then(|session| ended(state, session, *status, exit)).into_iter().collect()
        }
        Event::Accept { sid: Some(sid), op, body: Plan::Report { .. }, .. } => {
            let parent = state.sessions.get(sid).and_then(|session| session.parent.as_ref());
            let notice = Notice::Reported { session: sid.clone(), report: ReportId(op.0) };
            parent.and_then(|parent| to(state, parent, notice)).into_iter().collect()
        }
        Event::Message { body, .. } => {
            let message = state.messages.get(&body.message);
            message.and_then(|message| changed(state, message, &body.change, by)).into_iter().collect()
        }
        Event::Queue { sid, body: QueueChange::Closed { reason }, .. } => closed(state, sid, reason),
        Event::Session { .. }
        | Event::Accept { .. }
        | Event::Generation { .. }
        | Event::Finish { .. }
        | Event::Host { .. }
        | Event::Fence { .. }
        | Event::Notice { .. }
        | Event::Beat { .. }
        | Event::Conflict { .. }
        | Event::Operator { .. } => Vec::new(),
    }
}

/// A notice for a session that can take it: one that has ended is told nothing, and one that takes plain lines would take it for its program's
/// own input.
fn to(state: &State, recipient: &SessionId, notice: Notice) -> Option<Event> {
    let session = state.sessions.get(recipient)?;
    let lives = session.status == Status::Interrupted || session.status.is_live() && session.status != Status::Stopping;
    let waiting = state.lanes.get(recipient).map_or(0, |lane| lane.notices);
    let takes = lives && !session.adapter.is_plain() && waiting < limits::NOTICES;
    takes.then(|| Event::Notice { sid: session.id.clone(), ep: session.episode, body: notice })
}

fn ended(state: &State, session: &Session, status: Status, exit: &Exit) -> Option<Event> {
    let parent = session.parent.as_ref()?;
    let asked = session.stops.iter().chain(&session.deletes).filter_map(|id| state.operations.get(id));
    let is_by_parent = asked.into_iter().any(|operation| operation.scope == Scope::Session(parent.clone()));
    let (id, name, episode, exit) = (session.id.clone(), session.name.clone(), session.episode, exit.clone());
    let mut posted = state.reports_of(&session.id).filter(|report| report.episode == episode);
    let report = posted.next_back().map(|report| report.id);
    let notice = || Notice::Ended { session: id, name, episode, status, exit, report };
    if is_by_parent { None } else { to(state, parent, notice()) }
}

fn changed(state: &State, message: &Message, change: &MessageChange, by: Option<&Scope>) -> Option<Event> {
    let Sender::Session(sender) = &message.from else { return None };
    let is_asked_for = by == Some(&Scope::Session(sender.clone()));
    let was_in_doubt = message.state == MessageState::Uncertain;
    let (to_tell, reason) = match change {
        MessageChange::Uncertain { reason } => (MessageState::Uncertain, Some(reason.clone())),
        MessageChange::Expired if !is_asked_for => (MessageState::Expired, None),
        MessageChange::Failed { reason } if !is_asked_for => (MessageState::Failed, Some(reason.clone())),
        MessageChange::Cancelled { reason } if !is_asked_for => (MessageState::Cancelled, Some(reason.clone())),
        MessageChange::Delivered { .. } if was_in_doubt => (MessageState::Delivered, None),
        MessageChange::Acknowledged if was_in_doubt => (MessageState::Acknowledged, None),
        MessageChange::Expired
        | MessageChange::Failed { .. }
        | MessageChange::Cancelled { .. }
        | MessageChange::Delivered { .. }
        | MessageChange::Acknowledged
        | MessageChange::Sending
        | MessageChange::Pulled
        | MessageChange::InterruptSent
        | MessageChange::Returned { .. } => return None,
    };
    let (id, session) = (message.id, message.session.clone());
    to(state, sender, Notice::Message { message: id, session, state: to_tell, reason })
}

/// Each sender is told once of all that it had sent and that is lost with the queue.
fn closed(state: &State, sid: &SessionId, reason: &str) -> Vec<Event> {
    let gone = state.sessions.get(sid).is_some_and(|session| session.status == Status::Deleted);
    // One that was pulled was delivered.
    let lost = state.open_messages(sid).filter(|of| of.state != MessageState::Delivered && is_closed_with(of, gone));
    let mut by_sender: BTreeMap<&SessionId, Vec<MessageId>> = BTreeMap::new();
    for message in lost {
        if let Sender::Session(sender) = &message.from {
            by_sender.entry(sender).or_default().push(message.id);
        }
    }
    let notices = by_sender.into_iter().filter_map(|(sender, mut messages)| {
        let count = u64::try_from(messages.len()).unwrap_or(u64::MAX);
        messages.truncate(limits::NOTICE_MESSAGES);
        to(state, sender, Notice::Queue { session: sid.clone(), reason: reason.to_owned(), count, messages })
    });
    notices.collect()
}

/// A notice takes its place in its session's lane.
pub(super) fn told(state: &mut State, sid: &SessionId, notice: &Notice, at: At) -> Result<(), Illegal> {
    if state.sessions.get(sid).is_none_or(|session| session.status == Status::Deleted) {
        return Err(Illegal("a notice to a session that is gone"));
    }
    let message = Message {
        id: MessageId(at.seq),
        session: sid.clone(),
        from: Sender::Broker,
        key: notice.key(),
        mode: Mode::Queue,
        state: MessageState::Queued,
        reason: None,
        body: None,
        notice: Some(Arc::new(notice.clone())),
        requested_us: at.time.wall_us,
        expires_us: None,
        accepted_us: None,
        attempt: 0,
        episode: 0,
        redeliveries: 0,
        interrupts: None,
        turn: None,
        seq: at.seq,
        settled_us: None,
    };
    state.enlist(Arc::new(message));
    Ok(())
}
