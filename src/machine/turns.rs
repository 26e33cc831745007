//! Session turns: what a session's program works at, one at a time. Two literal tables: what a host's word does, and (below) where a turn opens.
//!
//! A turn is named by a number that only grows within an episode. Where the host sees turns, by the program's prompt, 0 is what the program does
//! before it first takes a message, and each later one is the token of the attempt that brought its message; a session that tells its turns itself
//! (`session.turn`) counts as it likes. So word of an older turn is known as such whenever it comes, and twice is once
//! (requirements S4 and S5: the guard is episode and turn).
//!
//! What opens a turn needs no record of its own: the record that the start was proven, or that the message was taken, says it. What ends one
//! has a record, because the next message depends on it.

use super::apply::{At, Illegal};
use super::decide::{Asked, Decision, refused};
use super::event::{Event, Plan, SessionChange};
use super::id::{MessageId, Scope};
use super::message::{Message, MessageState};
use super::operation::{Gained, Kind, Turned};
use super::refusal::Refusal;
use super::session::{Session, Status};
use super::state::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a program works at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Its number.
    pub number: u64,
    /// The message that it began with, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
}

/// What a word does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// It changes nothing.
    Late,
    /// This turn runs.
    Open,
    /// This turn is over, and each before it.
    Close,
}

/// How the turn that a word names stands to those that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// It is over, or a later one runs.
    Older,
    /// It runs.
    Current,
    /// Nothing is known of it.
    Newer,
}

/// Rows: status. Columns: "it runs" of an older, the current, a newer turn; "it is over" of an older, the current, a newer one. The end of a
/// newer one may come before the word that its message was taken, and of the first one before the word of the start: both count.
pub(super) const WORDS: [(Status, [Course; 6]); 10] = {
    use Course::{Close, Late, Open};
    [
        (Status::Starting, [Late, Late, Late, Late, Late, Close]),
        (Status::Unready, [Late, Late, Late, Late, Late, Close]),
        (Status::Ready, [Late, Late, Open, Late, Late, Close]),
        (Status::Running, [Late, Late, Open, Late, Close, Close]),
        (Status::Stopping, [Late, Late, Late, Late, Late, Late]),
        (Status::Stopped, [Late, Late, Late, Late, Late, Late]),
        (Status::Exited, [Late, Late, Late, Late, Late, Late]),
        (Status::Failed, [Late, Late, Late, Late, Late, Late]),
        (Status::Interrupted, [Late, Late, Late, Late, Late, Late]),
        (Status::Deleted, [Late, Late, Late, Late, Late, Late]),
    ]
};

pub(super) fn course(status: Status, relation: Relation, runs: bool) -> Course {
    let row = WORDS.iter().find(|(of, _)| *of == status).expect("the table has a row for each status");
    let column = match relation {
        Relation::Older => 0,
        Relation::Current => 1,
        Relation::Newer => 2,
    };
    row.1[column + if runs { 0 } else { 3 }]
}

pub(super) fn relation(session: &Session, number: u64) -> Relation {
    let is_over = session.turn_over.is_some_and(|over| number <= over);
    match session.turn {
        _ if is_over => Relation::Older,
        Some(turn) if number < turn.number => Relation::Older,
        Some(turn) if number == turn.number => Relation::Current,
        Some(_) | None => Relation::Newer,
    }
}

/// The word of the host that is linked, and so is the one that is meant. It counts while the session's truth is uncertain too: it is said once, often
/// before the word that ends the doubt, and releases nothing by itself.
pub(super) fn observed(session: &Session, number: u64, runs: bool) -> Vec<Event> {
    if !session.adapter.has_turns() {
        return Vec::new();
    }
    let body = match course(session.status, relation(session, number), runs) {
        Course::Late => return Vec::new(),
        Course::Open => SessionChange::TurnBegan { turn: number },
        Course::Close => SessionChange::TurnEnded { turn: number },
    };
    vec![Event::Session { sid: session.id.clone(), ep: session.episode, body }]
}

impl Asked<'_> {
    /// A session's own word of its turns, with numbers of its own; by the same table as a host's. Where the host sees them there would be two
    /// that count.
    pub(super) fn turn(&self, number: u64, episode: u32, begins: bool) -> Decision {
        let Scope::Session(caller) = &self.request.scope else { return refused(Refusal::SessionOnly) };
        let Some(session) = self.state.sessions.get(caller) else {
            return refused(Refusal::NoSession { given: caller.to_string() });
        };
        if let Some(fence) = &session.fence {
            return refused(Refusal::Fenced { session: caller.clone(), fence: fence.clone() });
        }
        if session.adapter.has_turns() {
            return refused(Refusal::Incapable { what: "turns told by a session whose prompt tells them" });
        }
        let course = match (session.episode == episode, session.status) {
            // Its program may be faster than the word that it was started.
            (true, Status::Starting) => return refused(Refusal::Unproven { session: caller.clone() }),
            (true, status) => course(status, relation(session, number), begins),
            (false, _) => Course::Late,
        };
        let sid = Some(caller);
        let mut events = vec![self.accept(Kind::Turn, sid, Some(session.episode), Plan::Nothing)];
        let (turned, body) = match course {
            Course::Late => (Turned::Unchanged, None),
            Course::Open => (Turned::Began, Some(SessionChange::TurnBegan { turn: number })),
            Course::Close => (Turned::Ended, Some(SessionChange::TurnEnded { turn: number })),
        };
        events.extend(body.map(|body| Event::Session { sid: caller.clone(), ep: session.episode, body }));
        events.push(self.done(Kind::Turn, sid, Gained { turned: Some(turned), ..Gained::default() }));
        self.answered(events)
    }
}

/// The status of a session whose command executes now: it works until its prompt is there first.
pub(super) fn at_start(session: &Session) -> Status {
    if session.adapter.has_turns() && session.turn_over.is_none() { Status::Running } else { Status::Ready }
}

/// The command executes.
pub(super) fn started(session: &mut Session) {
    session.status = at_start(session);
    session.turn = (session.status == Status::Running).then_some(Turn { number: 0, message: None });
}

/// A turn began or ended, or is to be the last, as a record says; none if it is about something else.
pub(super) fn changed(session: &mut Session, change: &SessionChange, at: At) -> Option<Result<(), Illegal>> {
    match change {
        SessionChange::TurnBegan { turn } => Some(told(session, *turn, true)),
        SessionChange::TurnEnded { turn } => Some(told(session, *turn, false)),
        SessionChange::Overdue { grace_ms, deadline_boot_us } => {
            Some(super::interrupts::stop(session, *grace_ms, *deadline_boot_us, at))
        }
        SessionChange::Ended { .. }
        | SessionChange::Ready
        | SessionChange::Unready { .. }
        | SessionChange::Woken { .. }
        | SessionChange::Aborted
        | SessionChange::Deleting
        | SessionChange::Forgotten
        | SessionChange::Removed => None,
    }
}

fn told(session: &mut Session, number: u64, runs: bool) -> Result<(), Illegal> {
    match course(session.status, relation(session, number), runs) {
        Course::Late => return Err(Illegal("word of a turn that is over")),
        Course::Open => open(session, Turn { number, message: None }),
        Course::Close => {
            session.turn_over = Some(number);
            session.turn = None;
            if session.status == Status::Running {
                session.status = Status::Ready;
            }
        }
    }
    Ok(())
}

fn open(session: &mut Session, turn: Turn) {
    session.turn = Some(turn);
    session.status = Status::Running;
}

/// A session that is neither ready nor running has no turn.
pub(super) fn left(session: &mut Session) {
    session.turn = None;
}

/// A message was taken: where turns are seen it began one, unless that is over by now or belongs to an episode that is.
pub(super) fn taken(state: &mut State, was: &Message, is: &mut Message) {
    let Some(session) = state.sessions.get(&is.session).filter(|session| session.adapter.has_turns()) else { return };
    is.turn = Some(is.attempt);
    let lives = session.episode == is.episode && matches!(session.status, Status::Ready | Status::Running);
    if !lives || was.state != MessageState::Sending || relation(session, is.attempt) == Relation::Older {
        return;
    }
    let turn = Turn { number: is.attempt, message: Some(is.id) };
    if let Some(session) = state.sessions.get_mut(&is.session) {
        open(Arc::make_mut(session), turn);
    }
}
