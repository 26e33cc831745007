//! Word of the world meets the state: one literal table of status and word, and one function for each move.
//! Word of another episode, or of a session that is gone, is late: it changes nothing (law 7, reports E11 and G11).

use super::decide::gained;
use super::event::{Event, FenceChange, HostChange, SessionChange};
use super::id::{OperationId, SessionId};
use super::input::{Observation, Word};
use super::limits;
use super::operation::{Failure, Gained, Outcome};
use super::ready::is_up;
use super::session::{Exit, ExitError, Fence, Obstacle, Phase, Run, Session, Status, Survivor};
use super::state::State;
use super::time::Time;

/// What a word does in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// It changes nothing.
    Late,
    /// The start succeeded.
    Begin,
    /// The start succeeded, though a stop was asked for meanwhile.
    BeginEnding,
    /// The host lives on.
    Adopt,
    /// Proven that nothing ran.
    Abort,
    /// The start may be issued again, or is too old for that.
    Again,
    /// The process ended.
    End,
    /// The host, or the machine, was lost.
    Lose,
    /// Nothing may be touched.
    Guard,
    /// The files are gone.
    Bury,
}

/// Columns of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Started,
    LaunchFailed,
    NeverOpened,
    Exited,
    HostLost,
    MachineLost,
    Adopted,
    Foreign,
    Removed,
}

impl Column {
    #[cfg(test)]
    pub(super) const ALL: [Self; 9] = [
        Self::Started,
        Self::LaunchFailed,
        Self::NeverOpened,
        Self::Exited,
        Self::HostLost,
        Self::MachineLost,
        Self::Adopted,
        Self::Foreign,
        Self::Removed,
    ];

    fn of(word: &Word) -> Self {
        match word {
            Word::Started(_) => Self::Started,
            Word::LaunchFailed { .. } => Self::LaunchFailed,
            Word::NeverOpened => Self::NeverOpened,
            Word::Exited { .. } => Self::Exited,
            Word::HostLost => Self::HostLost,
            Word::MachineLost => Self::MachineLost,
            Word::Adopted(_) => Self::Adopted,
            Word::Foreign { .. } => Self::Foreign,
            // What is said of messages, session turns and readiness is none of this table's.
            Word::Removed | Word::Mail { .. } | Word::Interrupted { .. } | Word::Turn { .. } | Word::Ready => {
                Self::Removed
            }
        }
    }

    fn index(self) -> usize {
        match self {
            Self::Started => 0,
            Self::LaunchFailed => 1,
            Self::NeverOpened => 2,
            Self::Exited => 3,
            Self::HostLost => 4,
            Self::MachineLost => 5,
            Self::Adopted => 6,
            Self::Foreign => 7,
            Self::Removed => 8,
        }
    }
}

/// Rows: status. Columns: started, launch failed, never opened, exited, host lost, machine lost, adopted, foreign,
/// removed. A launch's own answer is the only one that may say "failed" or "never opened" of a start; of a session
/// whose command ran they can only mean that its host's records are gone, which is a lost host.
pub(super) const WORDS: [(Status, [Course; 9]); 10] = {
    use Course::{Abort, Adopt, Again, Begin, BeginEnding, Bury, End, Guard, Late, Lose};
    [
        (Status::Starting, [Begin, Abort, Again, End, Lose, Lose, Begin, Guard, Late]),
        (Status::Unready, [Late, Late, Lose, End, Lose, Lose, Adopt, Guard, Late]),
        (Status::Ready, [Late, Late, Lose, End, Lose, Lose, Adopt, Guard, Late]),
        (Status::Running, [Late, Late, Lose, End, Lose, Lose, Adopt, Guard, Late]),
        (Status::Stopping, [BeginEnding, Abort, Abort, End, Lose, Lose, BeginEnding, Guard, Late]),
        (Status::Stopped, [Late, Late, Late, Late, Late, Late, Late, Guard, Late]),
        (Status::Exited, [Late, Late, Late, Late, Late, Late, Late, Guard, Late]),
        (Status::Failed, [Late, Late, Late, Late, Late, Late, Late, Guard, Late]),
        (Status::Interrupted, [Late, Late, Late, Late, Late, Late, Late, Guard, Late]),
        (Status::Deleted, [Late, Late, Late, Late, Late, Late, Late, Late, Bury]),
    ]
};

pub(super) fn course(status: Status, column: Column) -> Course {
    let row = WORDS.iter().find(|(of, _)| *of == status).expect("the table has a row for each status");
    row.1[column.index()]
}

/// Decides one observation.
pub(super) fn observe(state: &State, now: Time, observation: &Observation) -> Vec<Event> {
    if let Word::Mail { message, attempt, carried } = &observation.word {
        return super::mail::carried(state, &observation.session, (*message, *attempt), carried);
    }
    let Some(session) = state.sessions.get(&observation.session) else {
        return bury_forgotten(state, observation);
    };
    if observation.episode != session.episode {
        return Vec::new();
    }
    let seen = Seen { state, session, now };
    let word = &observation.word;
    if let Word::Interrupted { operation, sent } = word {
        return seen.interrupted(*operation, *sent);
    }
    if let Word::Turn { number, runs } = word {
        return super::turns::observed(session, *number, *runs);
    }
    if matches!(word, Word::Ready) {
        return super::ready::observed(state, session);
    }
    let course = course(session.status, Column::of(word));
    if session.fence.is_none() || matches!(course, Course::Late | Course::Guard | Course::Bury) {
        return seen.follow(word);
    }
    // From here the session's truth is known again, and with it what was asked of it.
    let mut events = vec![seen.fence(None)];
    events.extend(seen.follow(word));
    let after = seen.after(&events);
    events.extend(seen.settle(word, &after));
    events
}

fn bury_forgotten(state: &State, observation: &Observation) -> Vec<Event> {
    match (state.removals.get(&observation.session), &observation.word) {
        (Some(episode), Word::Removed) => {
            vec![Event::Session { sid: observation.session.clone(), ep: *episode, body: SessionChange::Removed }]
        }
        _ => Vec::new(),
    }
}

pub(super) fn run_of(word: &Word) -> Option<&Run> {
    match word {
        Word::Started(run) | Word::Adopted(run) => Some(run),
        Word::Exited { run, .. } => run.as_ref(),
        Word::LaunchFailed { .. }
        | Word::NeverOpened
        | Word::HostLost
        | Word::MachineLost
        | Word::Foreign { .. }
        | Word::Mail { .. }
        | Word::Interrupted { .. }
        | Word::Turn { .. }
        | Word::Ready
        | Word::Removed => None,
    }
}

pub(super) struct Seen<'a> {
    pub(super) state: &'a State,
    pub(super) session: &'a Session,
    pub(super) now: Time,
}

impl Seen<'_> {
    /// What follows from a word by the table, but for fences.
    pub(super) fn follow(&self, word: &Word) -> Vec<Event> {
        match course(self.session.status, Column::of(word)) {
            Course::Late => Vec::new(),
            Course::Begin => self.begin(run_of(word)),
            Course::BeginEnding => self.begin_ending(run_of(word)),
            Course::Adopt => self.adopt(run_of(word)),
            // Its command ran, so a missing host record means a lost host.
            Course::Abort if self.session.run.is_some() => self.lose(word),
            Course::Abort => self.abort(word),
            Course::Again => self.again(),
            Course::End => self.end(word),
            Course::Lose => self.lose(word),
            Course::Guard => self.guard(word),
            Course::Bury => self.bury(),
        }
    }

    /// What an operation gains whose goal these events reach.
    pub(super) fn after(&self, events: &[Event]) -> Gained {
        let gained = gained(self.session);
        let ended = events.iter().find_map(|event| {
            let Event::Session { body: SessionChange::Ended { status, exit, .. }, .. } = event else { return None };
            Some((*status, exit.clone()))
        });
        match ended {
            Some((status, exit)) => Gained { status: Some(status), exit: Some(exit), ..gained },
            None => gained,
        }
    }

    /// The host has sent the signal, or has nobody left to send it to.
    fn interrupted(&self, operation: OperationId, sent: bool) -> Vec<Event> {
        let settled =
            if sent { Settled::Done(gained(self.session)) } else { Settled::Not(Outcome::Failed, too_late()) };
        let waits = self.session.interrupts.contains(&operation);
        if !waits {
            return super::interrupts::asked(self.state, self.session, operation).into_iter().collect();
        }
        finish(self.state, operation, Some(&self.session.id), &settled).into_iter().collect()
    }

    fn host(&self, body: HostChange) -> Event {
        Event::Host { sid: self.session.id.clone(), ep: self.session.episode, body }
    }

    fn change(&self, body: SessionChange) -> Event {
        Event::Session { sid: self.session.id.clone(), ep: self.session.episode, body }
    }

    fn fence(&self, fence: Option<Fence>) -> Event {
        Event::Fence { sid: self.session.id.clone(), ep: self.session.episode, body: FenceChange { fence } }
    }

    pub(super) fn started(&self, run: &Run) -> Gained {
        Gained {
            episode: Some(self.session.episode),
            address: Some(run.address.clone()),
            incarnation: Some(run.incarnation),
            pid: Some(run.command.pid),
            host_pid: Some(run.host.pid),
            status: Some(super::turns::at_start(self.session)),
            ..Gained::default()
        }
    }

    fn begin(&self, run: Option<&Run>) -> Vec<Event> {
        let Some(run) = run else { return Vec::new() };
        let mut events = vec![self.host(HostChange::Started(run.clone()))];
        if is_up(self.session) {
            events.extend(self.finish_all(&self.session.starts, &Settled::Done(self.started(run))));
        }
        events
    }

    /// Too late to prevent the start; the stop that came meanwhile is owed now, and the start's callers learn of it.
    fn begin_ending(&self, run: Option<&Run>) -> Vec<Event> {
        let Some(run) = run else { return Vec::new() };
        let change = if self.session.run.is_some() { HostChange::Adopted } else { HostChange::Started };
        let mut events = vec![self.host(change(run.clone()))];
        // Of one that did not become ready the end is waited for.
        if super::ready::is_given_up(self.session) {
            return events;
        }
        let cancelled = failure("spawn_failed", "cancelled", "the session was stopped while it started");
        events.extend(self.finish_all(&self.session.starts, &Settled::Not(Outcome::Failed, cancelled)));
        events
    }

    fn adopt(&self, run: Option<&Run>) -> Vec<Event> {
        let Some(run) = run else { return Vec::new() };
        vec![self.host(HostChange::Adopted(run.clone()))]
    }

    /// Nothing ran: a spawned session is gone, a resumed one is what it was; keys and name are free (design 4).
    fn abort(&self, word: &Word) -> Vec<Event> {
        let failure = match word {
            Word::LaunchFailed { phase, reason, obstacle } => not_started(*phase, reason, obstacle.as_ref()),
            Word::Started(_)
            | Word::NeverOpened
            | Word::Exited { .. }
            | Word::HostLost
            | Word::MachineLost
            | Word::Adopted(_)
            | Word::Foreign { .. }
            | Word::Mail { .. }
            | Word::Interrupted { .. }
            | Word::Turn { .. }
            | Word::Ready
            | Word::Removed => failure("spawn_failed", "cancelled", "the session was stopped before it started"),
        };
        self.aborted(failure)
    }

    fn aborted(&self, failure: Failure) -> Vec<Event> {
        let mut events = vec![self.change(SessionChange::Aborted)];
        events.extend(self.finish_all(&self.session.starts, &Settled::Not(Outcome::Aborted, failure)));
        events.extend(self.finish_all(&self.session.interrupts, &Settled::Not(Outcome::Aborted, too_late())));
        let nothing_runs = Settled::Done(Gained { episode: Some(self.session.episode), ..Gained::default() });
        events.extend(self.finish_all(&self.session.stops, &nothing_runs));
        match (&self.session.prior, self.session.deletes.is_empty()) {
            // The session is what it was before, its episode included, and that is what is deleted.
            (Some(prior), false) => {
                let (sid, ep) = (self.session.id.clone(), prior.episode);
                events.push(Event::Session { sid, ep, body: SessionChange::Deleting });
            }
            (Some(_), true) => {}
            (None, _) => events.extend(self.finish_all(&self.session.deletes, &nothing_runs)),
        }
        events
    }

    /// The gate never opened: "re-issue the start within its deadline, else aborted" (design 3.3).
    fn again(&self) -> Vec<Event> {
        // Nothing starts by itself out of a doubt: who asked was told that it is not known.
        if self.session.fence.is_none() && self.now.boot_us <= self.session.deadline_boot_us {
            return vec![self.host(HostChange::Unopened)];
        }
        self.aborted(failure("spawn_failed", "expired", "its start was not issued before its deadline"))
    }

    fn end(&self, word: &Word) -> Vec<Event> {
        let Word::Exited { run, exit, at_us, survivors } = word else { return Vec::new() };
        if let Exit::Error(error) = exit
            && self.session.run.is_none()
            && run.is_none()
        {
            return self.aborted(not_started(error.phase, &error.reason, error.obstacle.as_ref()));
        }
        let mut events = match (run, self.session.run.is_none()) {
            (Some(run), true) => self.begin(Some(run)),
            (Some(_) | None, _) => Vec::new(),
        };
        let (exit, status, reason) = self.after_exit(exit);
        let ended = SessionChange::Ended { exit, status, reason, at_us: *at_us };
        let starts_are_open = events.is_empty() || !is_up(self.session);
        events.extend(self.ended(ended, survivors, starts_are_open));
        events
    }

    fn lose(&self, word: &Word) -> Vec<Event> {
        let machine = matches!(word, Word::MachineLost);
        let reason = if machine { "lost with the machine" } else { "its host died" };
        let exit = Exit::Error(ExitError { phase: Phase::Host, reason: reason.to_owned(), obstacle: None });
        let is_asked_for = self.session.status == Status::Stopping && !super::ready::is_given_up(self.session);
        let status = match (is_asked_for, machine) {
            (true, _) => Status::Stopped,
            (false, true) => Status::Interrupted,
            (false, false) => Status::Failed,
        };
        let reason = Some(reason.to_owned());
        self.ended(SessionChange::Ended { exit, status, reason, at_us: self.now.wall_us }, &[], true)
    }

    /// The session ended: starts that were not proven before have failed, stops are done, deletes go on.
    fn ended(&self, ended: SessionChange, survivors: &[Survivor], starts_are_open: bool) -> Vec<Event> {
        let SessionChange::Ended { exit, status, .. } = &ended else { return Vec::new() };
        let mut survivors = survivors.to_vec();
        survivors.truncate(limits::SURVIVORS);
        let gained = Gained { status: Some(*status), exit: Some(exit.clone()), survivors, ..gained(self.session) };
        let is_known = self.session.run.is_some() || !matches!(exit, Exit::Error(_));
        let why =
            if is_known && !is_up(self.session) { super::ready::why(self.session, Some(exit)) } else { unproven() };
        let mut events = vec![self.change(ended)];
        if starts_are_open {
            events.extend(self.finish_all(&self.session.starts, &Settled::Not(Outcome::Failed, why)));
        }
        events.extend(self.finish_all(&self.session.stops, &Settled::Done(gained)));
        events.extend(self.finish_all(&self.session.interrupts, &Settled::Not(Outcome::Failed, too_late())));
        if !self.session.deletes.is_empty() {
            events.push(self.change(SessionChange::Deleting));
        }
        events
    }

    /// How it counts as ended, what it is then, and a word or two beside that.
    fn after_exit(&self, exit: &Exit) -> (Exit, Status, Option<String>) {
        let is_asked_for = self.session.status == Status::Stopping && !super::ready::is_given_up(self.session);
        if !is_asked_for && !is_up(self.session) {
            let (exit, reason) = super::ready::ended(self.session, exit);
            return (exit, Status::Failed, Some(clip(&reason)));
        }
        let (status, reason) = self.status_after(exit);
        (exit.clone(), status, reason)
    }

    fn status_after(&self, exit: &Exit) -> (Status, Option<String>) {
        if self.session.status == Status::Stopping {
            return (Status::Stopped, self.session.reason.clone());
        }
        match exit {
            Exit::Code(0) => (Status::Exited, None),
            Exit::Code(code) => (Status::Failed, Some(format!("exit code {code}"))),
            Exit::Signal(name) => (Status::Failed, Some(format!("ended by {name}"))),
            Exit::Error(error) => (Status::Failed, Some(clip(&error.reason))),
        }
    }

    /// Foreign: fence, signal and adopt nothing. What waits cannot be known (law 7).
    fn guard(&self, word: &Word) -> Vec<Event> {
        let Word::Foreign { reason } = word else { return Vec::new() };
        let reason = clip(reason);
        let waiting: Vec<_> = self.session.waiting().collect();
        let operation = waiting.first().copied().or(self.session.fence.as_ref().and_then(|fence| fence.operation));
        let mut events = vec![self.fence(Some(Fence { operation, reason: reason.clone() }))];
        let unknown = failure("uncertain", "foreign", &reason);
        events.extend(self.finish_all(&waiting, &Settled::Not(Outcome::Uncertain, unknown)));
        events
    }

    fn bury(&self) -> Vec<Event> {
        let gained = Gained { status: Some(Status::Deleted), ..gained(self.session) };
        let mut events = vec![self.change(SessionChange::Removed)];
        events.extend(self.finish_all(&self.session.deletes, &Settled::Done(gained)));
        events
    }

    fn finish_all(&self, operations: &[OperationId], settled: &Settled) -> Vec<Event> {
        operations.iter().filter_map(|id| finish(self.state, *id, Some(&self.session.id), settled)).collect()
    }
}

/// How an operation is settled.
pub(super) enum Settled {
    Done(Gained),
    Not(Outcome, Failure),
}

/// The record that settles an operation; none if it is settled already, for that never changes.
pub(super) fn finish(state: &State, id: OperationId, sid: Option<&SessionId>, settled: &Settled) -> Option<Event> {
    let operation = state.operations.get(&id)?;
    let (st, res, body) = match settled {
        Settled::Done(gained) => (Outcome::Succeeded, gained.clone(), None),
        Settled::Not(outcome, failure) => (*outcome, Gained::default(), Some(failure.clone())),
    };
    if !operation.state.may_become(st) {
        return None;
    }
    let err = body.as_ref().map(|failure| failure.code.clone());
    Some(Event::Finish { sid: sid.cloned(), op: id, kind: operation.kind, st, err, res, body })
}

pub(super) fn failure(code: &str, reason: &str, message: &str) -> Failure {
    Failure { code: code.to_owned(), reason: reason.to_owned(), message: clip(message), obstacle: None }
}

fn too_late() -> Failure {
    failure("session_terminal", "ended", "its command ended before it was interrupted")
}

pub(super) fn unproven() -> Failure {
    failure("spawn_failed", "host", "its host was lost before the start was proven")
}

fn not_started(phase: Phase, reason: &str, obstacle: Option<&Obstacle>) -> Failure {
    Failure { obstacle: obstacle.cloned(), ..failure("spawn_failed", phase_word(phase), reason) }
}

fn phase_word(phase: Phase) -> &'static str {
    match phase {
        Phase::Exec => "exec",
        Phase::Cwd => "cwd",
        Phase::Limit => "limit",
        Phase::Host => "host",
        Phase::Ready => "ready",
    }
}

/// Cuts a text from outside to its limit, at a character boundary.
fn clip(text: &str) -> String {
    let end =
        text.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= limits::REASON_BYTES).last();
    text[..end.unwrap_or(0)].to_owned()
}
