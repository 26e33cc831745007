//! What is asked of messages, and what hosts say of them: events, or a refusal. As everywhere a miss has a name of its own, so that it
//! cannot be read as success (requirement R2).

use super::decide::{Answer, Asked, Decision, refused};
use super::event::{Event, MessageChange, Plan, SessionChange};
use super::id::{MessageId, Scope, SessionId};
use super::input::{Action, Carried, Target};
use super::lane::{event, is_releasable, queued};
use super::limits;
use super::message::{Body, Message, MessageState, Mode, Sender};
use super::operation::{Gained, Kind, Withdrawal};
use super::refusal::Refusal;
use super::report::Post;
use super::session::{Session, Status};
use super::state::State;
use std::sync::Arc;

/// A message that somebody wants to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// To whom.
    pub target: Target,
    /// Where in the queue it goes.
    pub mode: Mode,
    /// Where its text lies, durably; none if the shell saw a known key and wrote nothing.
    pub body: Option<Body>,
    /// How long its text is, in bytes.
    pub bytes: u64,
    /// Whether its text is more than one line.
    pub is_long: bool,
    /// How long it is wanted while it waits, in milliseconds.
    pub expires_in_ms: Option<u64>,
    /// How long the session turn that it interrupts may take to end, in milliseconds.
    pub interrupt_within_ms: u64,
    /// Whether a session that has ended is started for it.
    pub resume: bool,
    /// The episode whose folder the shell prepared for that.
    pub prepared: Option<u32>,
}

impl Asked<'_> {
    pub(super) fn send(&self, parcel: &Parcel) -> Decision {
        let session = match self.recipient(&parcel.target) {
            Ok(session) => session,
            Err(refusal) => return refused(refusal),
        };
        let wake = match self.takes(session, parcel) {
            Ok(wake) => wake,
            Err(refusal) => return refused(refusal),
        };
        if wake && parcel.prepared != Some(session.next_episode) {
            let (session, episode) = (Some(session.id.clone()), session.next_episode);
            return Decision { events: Vec::new(), answer: Answer::Prepare { session, episode } };
        }
        let Some(body) = &parcel.body else {
            return Decision { events: Vec::new(), answer: Answer::Store { session: session.id.clone() } };
        };
        let expires_us = parcel.expires_in_ms.map(|ms| self.now.wall_us.saturating_add(ms.saturating_mul(1_000)));
        let interrupts =
            super::interrupts::named(self.state, self.now, session, parcel.mode, parcel.interrupt_within_ms);
        let plan = Plan::Send { mode: parcel.mode, body: body.clone(), expires_us, interrupts };
        let sid = Some(&session.id);
        let mut events = vec![self.accept(Kind::Send, sid, Some(session.episode), plan)];
        if wake {
            let deadline_boot_us = self.now.boot_after_ms(limits::START_WITHIN_MS);
            let body = SessionChange::Woken { deadline_boot_us };
            events.push(Event::Session { sid: session.id.clone(), ep: session.next_episode, body });
        }
        let position = self.place(session, parcel.mode);
        events.push(self.done(Kind::Send, sid, Gained { position, ..Gained::default() }));
        self.answered(events)
    }

    /// A signal to the command: each is asked for by one operation, and sent once.
    pub(super) fn interrupt(&self, target: &Target) -> Decision {
        let session = match self.found(target) {
            Ok(session) => session,
            Err(refusal) => return refused(refusal),
        };
        let id = || session.id.clone();
        let refusal = match session.status {
            Status::Starting | Status::Unready | Status::Ready | Status::Running => None,
            Status::Stopping => Some(Refusal::Stopping { session: id() }),
            Status::Stopped | Status::Exited | Status::Failed | Status::Interrupted => {
                Some(Refusal::HasEnded { session: id(), status: session.status })
            }
            Status::Deleted => Some(Refusal::Gone { session: id() }),
        };
        if session.waiting().count() >= limits::WAITING_OPERATIONS {
            return refused(refusal.unwrap_or(Refusal::Crowded { session: id() }));
        }
        let accept = || self.accept(Kind::Interrupt, Some(&session.id), Some(session.episode), Plan::Interrupt);
        refusal.map_or_else(|| self.answered(vec![accept()]), refused)
    }

    /// Where the message will stand in the queue; none if it goes at once.
    fn place(&self, session: &Session, mode: Mode) -> Option<u64> {
        let lane = self.state.lanes.get(&session.id).cloned().unwrap_or_default();
        let before = queued(self.state, &lane).filter(|message| mode == Mode::Queue || message.mode == mode).count();
        let goes = before == 0 && is_releasable(self.state, session, &lane);
        if goes { None } else { u64::try_from(before + 1).ok() }
    }

    /// The owner may write to each session, a session to its children and its parent (requirement R66).
    fn recipient(&self, target: &Target) -> Result<&Session, Refusal> {
        let id = target.clone()?;
        let caller = match &self.request.scope {
            Scope::Owner => None,
            Scope::Session(caller) => Some(caller),
        };
        let is_parent =
            caller.and_then(|caller| self.state.sessions.get(caller)).is_some_and(|of| of.parent.as_ref() == Some(&id));
        match self.state.sessions.get(&id) {
            Some(session) if caller.is_none_or(|caller| session.parent.as_ref() == Some(caller)) || is_parent => {
                Ok(session)
            }
            Some(_) | None => Err(Refusal::NoSession { given: id.to_string() }),
        }
    }

    /// Whether the session takes the message, and whether it has to be started for it.
    fn takes(&self, session: &Session, parcel: &Parcel) -> Result<bool, Refusal> {
        let id = || session.id.clone();
        if let Some(fence) = &session.fence {
            return Err(Refusal::Fenced { session: id(), fence: fence.clone() });
        }
        let wake = match session.status {
            Status::Starting | Status::Unready | Status::Ready | Status::Running => false,
            Status::Interrupted => parcel.resume,
            Status::Stopped | Status::Exited | Status::Failed if parcel.resume => true,
            Status::Stopped | Status::Exited | Status::Failed => {
                return Err(Refusal::HasEnded { session: id(), status: session.status });
            }
            Status::Stopping => return Err(Refusal::Stopping { session: id() }),
            Status::Deleted => return Err(Refusal::Gone { session: id() }),
        };
        if parcel.mode == Mode::Interrupt && !session.adapter.has_turns() {
            return Err(Refusal::Incapable { what: "mode interrupt" });
        }
        if parcel.mode == Mode::Interrupt && session.status.is_live() && session.proven < self.state.generation {
            return Err(Refusal::Unproven { session: id() });
        }
        let is_child =
            session.parent.as_ref().map(|parent| Scope::Session(parent.clone())) != Some(self.request.scope.clone());
        if session.adapter.is_plain() && self.request.scope != Scope::Owner && is_child {
            return Err(Refusal::Incapable { what: "place for a child's words" });
        }
        if session.adapter.is_plain() && parcel.is_long {
            return Err(Refusal::Framing { session: id() });
        }
        if wake {
            self.may_rise(session)?;
        }
        let (rows, bytes) =
            self.state.lanes.get(&session.id).map_or((0, 0), |lane| (lane.open.len() - lane.notices, lane.bytes));
        if rows >= limits::QUEUE_MESSAGES || bytes.saturating_add(parcel.bytes) > limits::QUEUE_BYTES {
            return Err(Refusal::QueueFull { session: id(), rows, bytes });
        }
        Ok(wake)
    }

    pub(super) fn cancel(&self, found: &Result<MessageId, Refusal>) -> Decision {
        let (message, session) = match self.message(found) {
            Ok(found) => found,
            Err(refusal) => return refused(refusal),
        };
        let outcome = match message.state {
            MessageState::Queued => Withdrawal::Cancelled,
            MessageState::Sending | MessageState::Uncertain | MessageState::Delivered if message.is_open() => {
                Withdrawal::TooLate
            }
            MessageState::Sending
            | MessageState::Uncertain
            | MessageState::Delivered
            | MessageState::Acknowledged
            | MessageState::Cancelled
            | MessageState::Failed
            | MessageState::Expired => Withdrawal::AlreadyFinal,
        };
        let sid = Some(&session.id);
        let mut events = vec![self.accept(Kind::Cancel, sid, None, Plan::Nothing)];
        if outcome == Withdrawal::Cancelled {
            let reason = "withdrawn".to_owned();
            events.push(event(session, message.id, MessageChange::Cancelled { reason }));
        }
        let gained = Gained { message: Some(message.id), withdrawal: Some(outcome), ..Gained::default() };
        events.push(self.done(Kind::Cancel, sid, gained));
        self.answered(events)
    }

    /// Whoever sent it, or the owner, decides about what nobody can tell.
    pub(super) fn settle_message(&self, found: &Result<MessageId, Refusal>, again: bool) -> Decision {
        let (message, session) = match self.message(found) {
            Ok(found) => found,
            Err(refusal) => return refused(refusal),
        };
        if message.state != MessageState::Uncertain {
            return refused(Refusal::MessageSettled { message: message.id, state: message.state });
        }
        let change = match (again, session.status) {
            (false, _) => MessageChange::Failed { reason: "given_up".to_owned() },
            (true, Status::Starting | Status::Unready | Status::Ready | Status::Running | Status::Interrupted) => {
                MessageChange::Returned { reason: "sent_again".to_owned() }
            }
            (true, Status::Stopping) => return refused(Refusal::Stopping { session: session.id.clone() }),
            (true, Status::Stopped | Status::Exited | Status::Failed | Status::Deleted) => {
                return refused(Refusal::HasEnded { session: session.id.clone(), status: session.status });
            }
        };
        let sid = Some(&session.id);
        let mut events = vec![self.accept(Kind::ResolveMessage, sid, None, Plan::Nothing)];
        events.push(event(session, message.id, change));
        let gained = Gained { message: Some(message.id), ..Gained::default() };
        events.push(self.done(Kind::ResolveMessage, sid, gained));
        self.answered(events)
    }

    /// The session says that it has these. Those that are not its own, or that it has not pulled, are nobody's (requirement R72).
    pub(super) fn acknowledge(&self, messages: &[MessageId]) -> Decision {
        let Scope::Session(caller) = &self.request.scope else { return refused(Refusal::SessionOnly) };
        let Some(session) = self.state.sessions.get(caller) else {
            return refused(Refusal::NoSession { given: caller.to_string() });
        };
        let mut events = vec![self.accept(Kind::Acknowledge, Some(caller), None, Plan::Nothing)];
        for id in messages {
            let found = self.state.messages.get(id).filter(|message| message.session == *caller);
            match found.map(|message| message.state) {
                // Also of what was on its way or in doubt: there is no better evidence than its own word.
                Some(MessageState::Delivered | MessageState::Sending | MessageState::Uncertain) => {
                    let change = event(session, *id, MessageChange::Acknowledged);
                    if !events.contains(&change) {
                        events.push(change);
                    }
                }
                Some(MessageState::Acknowledged) => {}
                Some(MessageState::Queued | MessageState::Cancelled | MessageState::Failed | MessageState::Expired)
                | None => return refused(Refusal::NoMessage { given: id.to_string() }),
            }
        }
        events.push(self.done(Kind::Acknowledge, Some(caller), Gained::default()));
        self.answered(events)
    }

    fn message(&self, found: &Result<MessageId, Refusal>) -> Result<(&Arc<Message>, &Session), Refusal> {
        let id = found.clone()?;
        let nothing = || Refusal::NoMessage { given: id.to_string() };
        let message =
            self.state.messages.get(&id).filter(|message| may_decide(self.state, &self.request.scope, message));
        let message = message.ok_or_else(nothing)?;
        let session = self.state.sessions.get(&message.session).ok_or_else(nothing)?;
        Ok((message, session))
    }
}

/// Whether somebody may withdraw a message or decide about it: the owner, who sent it, and the recipient's parent.
fn may_decide(state: &State, scope: &Scope, message: &Message) -> bool {
    let Scope::Session(caller) = scope else { return true };
    let parent = state.sessions.get(&message.session).and_then(|session| session.parent.as_ref());
    message.from == Sender::Session(caller.clone()) || parent == Some(caller)
}

/// Whether somebody may know of a message: who may decide about it, and whom it is for.
pub fn may_know(state: &State, scope: &Scope, message: &Message) -> bool {
    may_decide(state, scope, message) || matches!(scope, Scope::Session(caller) if message.session == *caller)
}

/// A session pulls its messages: those that it has not had yet are delivered by that, durably before it reads them. To one that is being
/// stopped nothing is delivered any more.
pub(super) fn pull(state: &State, sid: &SessionId, messages: &[MessageId]) -> Vec<Event> {
    let takes = |session: &&Arc<Session>| session.status.is_live() && session.status != Status::Stopping;
    let Some(session) = state.sessions.get(sid).filter(takes) else { return Vec::new() };
    let waiting = messages.iter().filter_map(|id| state.messages.get(id));
    let waiting = waiting.filter(|message| message.session == *sid && message.state == MessageState::Queued);
    waiting.map(|message| event(session, message.id, MessageChange::Pulled)).collect()
}

/// Word of an attempt: one literal table of the message's state and what is said. Word of another attempt is late and changes nothing.
pub(super) fn carried(state: &State, sid: &SessionId, (id, attempt): (MessageId, u64), word: &Carried) -> Vec<Event> {
    let message = state.messages.get(&id).filter(|message| message.session == *sid && message.attempt == attempt);
    let (Some(message), Some(session)) = (message, state.sessions.get(sid)) else { return Vec::new() };
    let change = match (message.state, word) {
        (MessageState::Sending | MessageState::Uncertain, Carried::Taken { at_us }) => {
            MessageChange::Delivered { at_us: *at_us }
        }
        (MessageState::Sending | MessageState::Uncertain, Carried::NotTaken) => {
            if message.redeliveries >= limits::REDELIVERIES {
                MessageChange::Failed { reason: "redelivery_limit".to_owned() }
            } else {
                MessageChange::Returned { reason: "not_taken".to_owned() }
            }
        }
        (MessageState::Sending, Carried::Refused { reason }) => MessageChange::Failed { reason: reason.clone() },
        (MessageState::Sending, Carried::Unknown { reason }) => MessageChange::Uncertain { reason: reason.clone() },
        (MessageState::Uncertain, Carried::Refused { .. } | Carried::Unknown { .. })
        | (
            MessageState::Queued
            | MessageState::Delivered
            | MessageState::Acknowledged
            | MessageState::Cancelled
            | MessageState::Failed
            | MessageState::Expired,
            _,
        ) => return Vec::new(),
    };
    vec![event(session, id, change)]
}

/// The action with its texts on disk: of a message one, of a report its head and its text.
pub fn stored(action: Action, mut bodies: impl Iterator<Item = Body>) -> Action {
    match action {
        Action::Send(parcel) => Action::Send(Box::new(Parcel { body: bodies.next(), ..*parcel })),
        Action::Report(post) => Action::Report(Box::new(Post { bodies: bodies.next().zip(bodies.next()), ..*post })),
        Action::Spawn { .. }
        | Action::Resume { .. }
        | Action::Stop { .. }
        | Action::Delete { .. }
        | Action::Prune { .. }
        | Action::Reconcile { .. }
        | Action::Resolve { .. }
        | Action::Cancel { .. }
        | Action::ResolveMessage { .. }
        | Action::Interrupt { .. }
        | Action::Turn { .. }
        | Action::Ready { .. }
        | Action::Acknowledge { .. } => action,
    }
}
