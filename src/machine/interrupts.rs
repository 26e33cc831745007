//! Messages that interrupt: what they overtake, which session turn they name, and what follows when that turn does not end.
//!
//! ```text
//! sent, while turn t runs --> INT asked for, for t --> t is over --> it goes, before all that wait in the usual way
//!                                            `-- not within its time --> cancelled, and the session is stopped (R27 to R32)
//! ```
//! The time is that of the turn: once it is over, however it ended, the message only waits for its place (R28). It is measured on the boot clock
//! from the moment in which the message was recorded, so neither a restart of the broker nor a clock that is set changes it; after a reboot no
//! turn is left that it could be of.
//!
//! Promise: at most one message of a session runs out of time at once, and nothing is cancelled for a turn of which this broker's host has not spoken.

use super::apply::{At, Illegal};
use super::ending::Halt;
use super::event::{Event, MessageChange, SessionChange};
use super::id::{MessageId, OperationId, SessionId};
use super::lane::{event, on_its_way};
use super::limits;
use super::message::{Message, MessageState, Mode};
use super::session::{Session, Status, is_not};
use super::state::State;
use super::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The session turn that a message interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interrupts {
    /// Its number.
    pub turn: u64,
    /// When it has to be over; boot clock, microseconds.
    pub deadline_boot_us: u64,
    /// Whether its host has been asked for it.
    #[serde(default, skip_serializing_if = "is_not")]
    pub asked: bool,
}

/// Which turn a message interrupts that is sent now: the one that runs, or that begins with what is on its way. What a program does before it first
/// takes a message is no turn of anybody's: a signal would end a program that does not handle it yet.
pub(super) fn named(state: &State, now: Time, session: &Session, mode: Mode, within_ms: u64) -> Option<Interrupts> {
    let runs = session.turn.map(|turn| turn.number).filter(|number| *number > 0);
    let begins = || {
        let message = on_its_way(state, state.lanes.get(&session.id)?)?;
        (session.status == Status::Ready && message.episode == session.episode).then_some(message.attempt)
    };
    let turn = runs.or_else(begins).filter(|_| mode == Mode::Interrupt)?;
    Some(Interrupts { turn, deadline_boot_us: now.boot_after_ms(within_ms), asked: false })
}

/// When a message runs out of time, if it can.
pub(super) fn alarm(message: &Message) -> Option<(u64, MessageId)> {
    let of = message.interrupts.filter(|_| message.state == MessageState::Queued)?;
    Some((of.deadline_boot_us, message.id))
}

/// The messages of a session that wait and name a turn, oldest first.
fn waiting<'a>(state: &'a State, session: &SessionId) -> impl Iterator<Item = (&'a Arc<Message>, Interrupts)> {
    // Most of the time there is none, and a lane may be long.
    let lane = if state.alarms.is_empty() { None } else { state.lanes.get(session) };
    let open = lane.into_iter().flat_map(|lane| &lane.open).filter_map(|id| state.messages.get(id));
    open.filter(|message| message.state == MessageState::Queued).filter_map(|of| Some((of, of.interrupts?)))
}

/// For whom the running turn is to be interrupted, and which turn that is: once for each, whoever waits for it.
pub(super) fn owed(state: &State, session: &Session) -> Option<(OperationId, u64)> {
    let runs = session.turn.filter(|_| session.status == Status::Running)?.number;
    let of_it: Vec<_> = waiting(state, &session.id).filter(|(_, of)| of.turn == runs).collect();
    let is_asked = of_it.iter().any(|(_, of)| of.asked);
    of_it.first().filter(|_| !is_asked).map(|(message, _)| (OperationId(message.id.0), runs))
}

/// Its host has sent the signal, or found that the turn is over.
pub(super) fn asked(state: &State, session: &Session, operation: OperationId) -> Option<Event> {
    let message = state.messages.get(&MessageId(operation.0)).filter(|message| message.session == session.id)?;
    let waits = message.state == MessageState::Queued && message.interrupts.is_some_and(|of| !of.asked);
    waits.then(|| event(session, message.id, MessageChange::InterruptSent))
}

/// The same as a record.
pub(super) fn sent(message: &mut Message) -> Result<(), Illegal> {
    match &mut message.interrupts {
        Some(of) if message.state == MessageState::Queued => of.asked = true,
        Some(_) | None => return Err(Illegal("an interrupt for a message that names no turn")),
    }
    Ok(())
}

/// These turns are over: nobody runs out of time for them.
pub(super) fn void(state: &mut State, session: &SessionId, through: u64) {
    let over = waiting(state, session).filter(|(_, of)| of.turn <= through).map(|(message, _)| Arc::clone(message));
    for was in over.collect::<Vec<_>>() {
        state.relist(&was, Message { interrupts: None, ..Message::clone(&was) });
    }
}

/// After a change of a session: whoever named a turn that is over by now, or will not end as turns do, has nothing to run out of.
pub(super) fn renew(state: &mut State, session: &SessionId) {
    if state.alarms.is_empty() {
        return;
    }
    let Some(of) = state.sessions.get(session) else { return };
    let runs = matches!(of.status, Status::Ready | Status::Running) && of.fence.is_none();
    let before = of.turn.and_then(|turn| turn.number.checked_sub(1));
    let through = if runs { of.turn_over.max(before) } else { Some(u64::MAX) };
    through.into_iter().for_each(|through| void(state, session, through));
}

/// Whether a message's time counts now: its host has answered this broker, and nothing else is known against it.
fn counts(state: &State, session: &Session) -> bool {
    let runs = matches!(session.status, Status::Ready | Status::Running);
    runs && session.fence.is_none() && session.proven >= state.generation
}

/// The next instant at which a message runs out of time.
pub(super) fn next_deadline(state: &State) -> Option<u64> {
    let counts = |id: &MessageId| {
        let session = state.messages.get(id).and_then(|message| state.sessions.get(&message.session));
        session.is_some_and(|session| counts(state, session))
    };
    state.alarms.iter().find(|((_, id), ())| counts(id)).map(|((due, _), ())| *due)
}

/// What has run out of time: the message is cancelled and its session stopped, in this order and in one turn (R29).
pub(super) fn overdue(state: &State, now: Time) -> Vec<Event> {
    let due = state.alarms.iter().take_while(|((due, _), ())| *due <= now.boot_us);
    let (mut events, mut stopped) = (Vec::new(), BTreeSet::new());
    for ((_, id), ()) in due {
        let session = state.messages.get(id).and_then(|message| state.sessions.get(&message.session));
        let is_wanted = state.messages.get(id).is_some_and(|of| of.expires_us.is_none_or(|at_us| at_us > now.wall_us));
        let Some(session) = session.filter(|of| is_wanted && counts(state, of) && stopped.insert(&of.id)) else {
            continue;
        };
        events.push(event(session, *id, MessageChange::Cancelled { reason: TIMEOUT.to_owned() }));
        let deadline_boot_us = now.boot_after_ms(limits::INTERRUPT_GRACE_MS);
        let body = SessionChange::Overdue { grace_ms: limits::INTERRUPT_GRACE_MS, deadline_boot_us };
        events.push(Event::Session { sid: session.id.clone(), ep: session.episode, body });
    }
    events
}

/// What must hold of all this, for [`super::violations`].
pub(super) fn wrong(state: &State) -> Vec<String> {
    let mut found = Vec::new();
    for ((due, id), ()) in state.alarms.iter() {
        let message = state.messages.get(id);
        let session = message.and_then(|message| state.sessions.get(&message.session));
        let is_sound = message.and_then(|message| alarm(message)) == Some((*due, *id))
            && session.is_some_and(|session| {
                let named = message.and_then(|message| message.interrupts).map(|of| of.turn);
                matches!(session.status, Status::Ready | Status::Running) && session.turn_over < named
            });
        found.extend((!is_sound).then(|| format!("{id} runs out of time for nothing")));
    }
    let alarms = state.messages.values().filter(|message| alarm(message).is_some()).count();
    found.extend(
        (alarms != state.alarms.len())
            .then(|| format!("{alarms} messages interrupt, {} are listed", state.alarms.len())),
    );
    found
}

/// Why a message was cancelled and its session stopped.
const TIMEOUT: &str = "interrupt_timeout";

/// A session is to end because its turn did not.
pub(super) fn stop(session: &mut Session, grace_ms: u64, deadline_boot_us: u64, at: At) -> Result<(), Illegal> {
    if !matches!(session.status, Status::Ready | Status::Running) {
        return Err(Illegal("an interrupt of what does not run"));
    }
    let (reason, asked_us) = (Some(TIMEOUT.to_owned()), at.time.wall_us);
    let halt = Halt { operation: None, by: None, reason, asked_us, grace_ms, turn: None };
    super::ending::begin(session, halt, deadline_boot_us);
    session.reason = Some(TIMEOUT.to_owned());
    Ok(())
}
