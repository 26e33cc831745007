//! Readiness: when a session that says so itself, or whose output says so, counts as ready. One literal table says what that word does.
//!
//! ```text
//! starting --started--> unready --ready--> ready, running          (told before the word of the start: at once)
//!                          | not in time           | its command ends
//!                          v                       v
//!                       stopping, then failed    failed            (the start has failed; its reason is `ready`)
//! ```
//! Promise: the time counts from the record that the command executes, on the boot clock, so it is the same for whoever folds the ledger and
//! no step of the wall clock matters. It counts only while the session's host has answered the present broker: what became ready while no broker was there
//! is heard first. Whoever waits for the start is told how it came out in every case.

use super::apply::{At, Illegal};
use super::decide::{Asked, Decision, refused};
use super::ending::{Halt, arm, begin, disarm};
use super::event::{Event, Plan, SessionChange};
use super::id::{OperationId, Scope, SessionId};
use super::limits;
use super::observe::{Settled, failure, finish};
use super::operation::{Failure, Gained, Kind, Outcome, Readied};
use super::refusal::Refusal;
use super::session::{Exit, ExitError, Phase, Session, Status};
use super::state::State;
use super::table::Table;
use super::time::Time;
use serde::{Deserialize, Serialize};

/// When a session counts as ready, where it is not as soon as its command executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Readiness {
    /// Who says so.
    pub sign: Sign,
    /// How long that may take, in milliseconds.
    pub within_ms: u64,
}

/// Who says that a session is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sign {
    /// It does (`session.ready`).
    Notify,
    /// Its host, which saw it in its output.
    Output,
}

/// What the word that a session is ready does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// It changes nothing.
    Late,
    /// It is kept until the word of the start comes.
    Early,
    /// The session is ready.
    Up,
}

/// Rows: status.
pub(super) const WORDS: [(Status, Course); 10] = [
    (Status::Starting, Course::Early),
    (Status::Unready, Course::Up),
    (Status::Ready, Course::Late),
    (Status::Running, Course::Late),
    (Status::Stopping, Course::Late),
    (Status::Stopped, Course::Late),
    (Status::Exited, Course::Late),
    (Status::Failed, Course::Late),
    (Status::Interrupted, Course::Late),
    (Status::Deleted, Course::Late),
];

/// What it does to this session, if `sign` says it.
fn course(session: &Session, sign: Sign) -> Course {
    let is_asked = session.readiness.is_some_and(|of| of.sign == sign) && !session.is_ready;
    let row = WORDS.iter().find(|(of, _)| *of == session.status).expect("the table has a row for each status");
    if is_asked { row.1 } else { Course::Late }
}

/// Whether the start of this episode has reached its goal once its command executes.
pub(super) fn is_up(session: &Session) -> bool {
    session.readiness.is_none() || session.is_ready
}

/// Whether it is being ended because it did not become ready.
pub(super) fn is_given_up(session: &Session) -> bool {
    session.status == Status::Stopping && session.stop.as_ref().is_some_and(|halt| halt.reason.as_deref() == Some(LATE))
}

/// Why such a session ends.
const LATE: &str = "not_ready";

/// The host saw the sign in the output. It counts while the session is fenced, too: a host says it once to whom it is new, and that comes before the word
/// that lifts the fence. It releases nothing by itself.
pub(super) fn observed(state: &State, session: &Session) -> Vec<Event> {
    told(state, session, Sign::Output)
}

/// What follows from the word: the session is ready, and so is whoever waits for its start.
fn told(state: &State, session: &Session, sign: Sign) -> Vec<Event> {
    let course = course(session, sign);
    if course == Course::Late {
        return Vec::new();
    }
    let mut events = vec![Event::Session { sid: session.id.clone(), ep: session.episode, body: SessionChange::Ready }];
    if course == Course::Up {
        let status = Some(super::turns::at_start(session));
        let gained = Settled::Done(Gained { status, ..super::decide::gained(session) });
        events.extend(settle(state, session, &gained));
    }
    events
}

fn settle(state: &State, session: &Session, settled: &Settled) -> Vec<Event> {
    let finish = |id: &OperationId| finish(state, *id, Some(&session.id), settled);
    session.starts.iter().filter_map(finish).collect()
}

/// A stop was asked for while the session was not ready: whoever waits for the start is told at once.
pub(super) fn cancelled(state: &State, session: &Session) -> Vec<Event> {
    if session.status != Status::Unready {
        return Vec::new();
    }
    let cancelled = failure("spawn_failed", "cancelled", "the session was stopped before it was ready");
    settle(state, session, &Settled::Not(Outcome::Failed, cancelled))
}

impl Asked<'_> {
    /// A session's own word that it is ready. Said again, or where nobody asked for it, it is no error: a program need not know how it was started.
    pub(super) fn ready(&self, episode: u32) -> Decision {
        let Scope::Session(caller) = &self.request.scope else { return refused(Refusal::SessionOnly) };
        let Some(session) = self.state.sessions.get(caller) else {
            return refused(Refusal::NoSession { given: caller.to_string() });
        };
        if let Some(fence) = &session.fence {
            return refused(Refusal::Fenced { session: caller.clone(), fence: fence.clone() });
        }
        let sid = Some(caller);
        let told = if session.episode == episode { told(self.state, session, Sign::Notify) } else { Vec::new() };
        let readied = if told.is_empty() { Readied::Unchanged } else { Readied::Ready };
        let mut events = vec![self.accept(Kind::Ready, sid, Some(session.episode), Plan::Nothing)];
        events.extend(told);
        events.push(self.done(Kind::Ready, sid, Gained { readied: Some(readied), ..Gained::default() }));
        self.answered(events)
    }
}

/// The command executes: the session is ready, or its time begins.
pub(super) fn started(session: &mut Session, deadlines: &mut Table<(u64, SessionId), u32>, at: At) {
    match session.readiness.filter(|_| !session.is_ready) {
        None => super::turns::started(session),
        Some(readiness) => {
            session.status = Status::Unready;
            let due = at.time.boot_after_ms(readiness.within_ms);
            session.due_boot_us = Some(due);
            deadlines.insert((due, session.id.clone()), session.episode);
        }
    }
}

/// The session is ready, or did not become so, as a record says; none if it is about something else.
pub(super) fn changed(
    session: &mut Session,
    deadlines: &mut Table<(u64, SessionId), u32>,
    change: &SessionChange,
    at: At,
) -> Option<Result<(), Illegal>> {
    match change {
        SessionChange::Ready => Some(risen(session, deadlines)),
        SessionChange::Unready { grace_ms, deadline_boot_us } => {
            Some(given_up(session, deadlines, (*grace_ms, *deadline_boot_us), at))
        }
        SessionChange::Ended { .. }
        | SessionChange::Woken { .. }
        | SessionChange::Aborted
        | SessionChange::Deleting
        | SessionChange::Forgotten
        | SessionChange::TurnBegan { .. }
        | SessionChange::TurnEnded { .. }
        | SessionChange::Overdue { .. }
        | SessionChange::Removed => None,
    }
}

fn risen(session: &mut Session, deadlines: &mut Table<(u64, SessionId), u32>) -> Result<(), Illegal> {
    match (session.status, is_up(session)) {
        (_, true) => return Err(Illegal("a session that was ready becomes so")),
        (Status::Starting, false) => {}
        (Status::Unready, false) => {
            disarm(deadlines, session);
            super::turns::started(session);
        }
        (_, false) => return Err(Illegal("ready, without a process")),
    }
    session.is_ready = true;
    Ok(())
}

fn given_up(
    session: &mut Session,
    deadlines: &mut Table<(u64, SessionId), u32>,
    (grace_ms, deadline_boot_us): (u64, u64),
    at: At,
) -> Result<(), Illegal> {
    if session.status != Status::Unready {
        return Err(Illegal("the time to become ready is over, and nobody waited"));
    }
    let (reason, asked_us) = (Some(LATE.to_owned()), at.time.wall_us);
    disarm(deadlines, session);
    begin(session, Halt { operation: None, by: None, reason, asked_us, grace_ms, turn: None }, deadline_boot_us);
    // Where nobody waits for the start there is nobody to be answered.
    if !session.starts.is_empty() {
        arm(deadlines, session, deadline_boot_us);
    }
    Ok(())
}

/// Whether this session's time is over when its deadline is there, or it is about something else.
pub(super) fn counts(state: &State, session: &Session) -> bool {
    session.status != Status::Unready || session.fence.is_none() && session.proven >= state.generation
}

/// Its time is over: it is ended, and when that is proven its start has failed. None if its deadline is about something else.
pub(super) fn overdue(now: Time, session: &Session) -> Option<Event> {
    let (sid, ep) = (session.id.clone(), session.episode);
    let (grace_ms, deadline_boot_us) = (limits::UNREADY_GRACE_MS, now.boot_after_ms(limits::UNREADY_GRACE_MS));
    let body = SessionChange::Unready { grace_ms, deadline_boot_us };
    (session.status == Status::Unready).then_some(Event::Session { sid, ep, body })
}

/// Why the start has failed of a session whose command executed and that did not become ready; `exit`: how it ended, if it did.
pub(super) fn why(session: &Session, exit: Option<&Exit>) -> Failure {
    let message = match exit.filter(|_| !is_given_up(session)) {
        Some(exit) => format!("its command ended before it was ready: {}", words(exit)),
        None => late(session),
    };
    failure("spawn_failed", "ready", &message)
}

fn late(session: &Session) -> String {
    let within_ms = session.readiness.map_or(0, |of| of.within_ms);
    format!("it was not ready within {within_ms} ms and was ended")
}

fn words(exit: &Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(name) => format!("ended by {name}"),
        Exit::Error(error) => error.reason.clone(),
    }
}

/// What a session is that ended before it was ready: its exit, and a word beside it.
pub(super) fn ended(session: &Session, exit: &Exit) -> (Exit, String) {
    if is_given_up(session) {
        let reason = late(session);
        return (Exit::Error(ExitError { phase: Phase::Ready, reason: reason.clone(), obstacle: None }), reason);
    }
    (exit.clone(), format!("never ready: {}", words(exit)))
}

/// What must hold of all this, for [`super::violations`].
pub(super) fn wrong(state: &State) -> impl Iterator<Item = String> {
    let waits = state.sessions.values().filter(|session| session.status == Status::Unready);
    waits.filter_map(|session| {
        let deadline = session.due_boot_us.and_then(|due| state.deadlines.get(&(due, session.id.clone())));
        let is_sound = !is_up(session) && deadline == Some(&session.episode);
        (!is_sound).then(|| format!("{}: waits for a word that it has, or for ever", session.id))
    })
}
