//! The way out of doubt: what was seen of a session's processes decides what becomes of it. One literal table says what
//! the evidence means; everything else follows from the tables that word of a host meets.
//!
//! Promise: what lives, or may live, is never called dead, and no outcome that was settled changes. A refusal changes
//! nothing and says which process lives, or what could not be seen.

use super::decide::{Answer, Decision, gained, refused};
use super::event::{Event, FenceChange, Plan};
use super::id::SessionId;
use super::input::Word;
use super::observe::{Seen, Settled, failure, finish, run_of, unproven};
use super::operation::{Gained, Kind, Operation, Outcome};
use super::ready::{is_up, why};
use super::refusal::Refusal;
use super::session::{Exit, Run, Session, Status, Survivor};
use super::state::State;
use super::time::Time;
use std::sync::Arc;

/// A life lock, in any episode of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// It is there and nobody holds it.
    Free,
    /// Somebody holds one of them.
    Held,
    /// The current episode's is not there, or something is that was never locked.
    Absent,
    /// It could not be looked at.
    Hidden,
}

/// A process that the ledger or a host's record names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// It runs.
    Lives,
    /// It has ended.
    Gone,
    /// It was of an earlier boot of the machine.
    BeforeBoot,
    /// It is of another PID namespace, into which nobody sees from here.
    OtherNamespace,
    /// The system does not say.
    Hidden,
    /// Nothing names one.
    Unrecorded,
}

/// Processes that carry the mark of an episode of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// There are some.
    Found,
    /// There are none.
    Absent,
    /// The process table could not be read.
    Hidden,
}

/// What was seen of a session, whatever its host says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The session as it was when the look began: of another state of it the evidence says nothing.
    pub of: Arc<Session>,
    /// Its life locks.
    pub lock: Lock,
    /// Its host.
    pub host: Trace,
    /// Its command.
    pub command: Trace,
    /// What carries its mark.
    pub marks: Marks,
    /// Its current episode's host answered hello and is the one that is meant.
    pub answers: Option<Run>,
    /// The exit record of its current episode, where it is complete.
    pub exit: Option<Ended>,
    /// The processes that live, as far as they are known.
    pub living: Vec<Survivor>,
    /// Its records are of a host of another state root: this one is a copy, or was moved while it ran.
    pub is_elsewhere: bool,
}

/// How an episode ended, as its host wrote it down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The facts of the episode, if its command ran and they can be read.
    pub run: Option<Run>,
    /// How.
    pub exit: Exit,
    /// When; wall clock, microseconds.
    pub at_us: u64,
}

/// What keeps a session from being settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Its host, or whoever holds its life lock.
    Host,
    /// Its command.
    Command,
    /// A process that it started.
    Marked,
    /// The file itself.
    Lock,
}

impl Part {
    /// The word in `data.reason`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Command => "command",
            Self::Marked => "marked",
            Self::Lock => "life_lock",
        }
    }
}

/// What the evidence means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// This lives.
    Lives(Part),
    /// Whether this lives cannot be seen.
    Hidden(Part),
    /// Nothing lives, and how it ended is written down.
    Ended,
    /// Nothing lives, and how it ended is not known.
    Lost,
    /// It went with the machine, or with its container.
    Interrupted,
}

/// The table. What lives goes before what is hidden, and that before what is gone; the first row that fits decides.
/// With a free lock the host is dead unless the system plainly shows it alive (law 10).
pub(super) fn finding(lock: Lock, host: Trace, command: Trace, marks: Marks, has_exit: bool) -> Finding {
    use Trace::{BeforeBoot, Gone, Hidden, Lives, OtherNamespace, Unrecorded};
    match (lock, host, command, marks, has_exit) {
        // life.lock, host, command, marks, exit record
        (Lock::Held, _, _, _, _) | (_, Lives, _, _, _) => Finding::Lives(Part::Host),
        (_, _, Lives, _, _) => Finding::Lives(Part::Command),
        (_, _, _, Marks::Found, _) => Finding::Lives(Part::Marked),
        (Lock::Hidden, _, _, _, _) => Finding::Hidden(Part::Lock),
        (Lock::Absent, Hidden | OtherNamespace, _, _, _) => Finding::Hidden(Part::Host),
        (_, _, Hidden, _, _) => Finding::Hidden(Part::Command),
        (_, _, _, Marks::Hidden, _) => Finding::Hidden(Part::Marked),
        (Lock::Free | Lock::Absent, _, _, Marks::Absent, true) => Finding::Ended,
        (_, BeforeBoot | OtherNamespace, _, Marks::Absent, false) => Finding::Interrupted,
        (_, Gone | Hidden | Unrecorded, _, Marks::Absent, false) => Finding::Lost,
    }
}

impl Evidence {
    /// Whether it was gathered of the session as it is now. What lives may have died since, and what is dead stays so:
    /// while it is fenced nothing is started in it.
    fn is_of(&self, session: &Session) -> bool {
        let of = &self.of;
        of.id == session.id
            && of.episode == session.episode
            && of.status == session.status
            && of.fence == session.fence
            && of.run == session.run
    }

    /// What a host would say if it could, or what keeps the session from being settled.
    fn word(&self, session: &Session) -> Result<Word, Refusal> {
        if let Some(run) = self.answers.as_ref().filter(|_| session.status.is_live()) {
            return Ok(Word::Adopted(run.clone()));
        }
        let id = || session.id.clone();
        match finding(self.lock, self.host, self.command, self.marks, self.exit.is_some()) {
            Finding::Lives(part) => {
                let (living, is_elsewhere) = (self.living.clone(), self.is_elsewhere);
                Err(Refusal::Lives { session: id(), part, living, is_elsewhere })
            }
            Finding::Hidden(part) => Err(Refusal::Hidden { session: id(), part }),
            Finding::Interrupted => Ok(Word::MachineLost),
            Finding::Lost => Ok(Word::HostLost),
            Finding::Ended => Ok(match &self.exit {
                Some(Ended { run, exit, at_us }) => {
                    Word::Exited { run: run.clone(), exit: exit.clone(), at_us: *at_us, survivors: Vec::new() }
                }
                None => Word::HostLost,
            }),
        }
    }
}

/// Whether there is anything to find out about this session.
fn is_in_doubt(state: &State, session: &Session) -> bool {
    session.fence.is_some()
        || session.status.is_live() && session.proven < state.generation
        || uncertain(state, &session.id).next().is_some()
}

/// The operations about this session whose outcome is not known.
pub(super) fn uncertain<'a>(state: &'a State, id: &'a SessionId) -> impl Iterator<Item = &'a Operation> {
    let operations = state.operations.values().map(AsRef::as_ref);
    operations.filter(move |of| of.state == Outcome::Uncertain && of.session.as_ref() == Some(id))
}

/// Decides a request for `session`. `accept` and `done` make the request's own records.
pub(super) fn reconcile(
    (state, now): (&State, Time),
    session: &Session,
    evidence: Option<&Evidence>,
    accept: impl FnOnce(Plan) -> Event,
    done: impl FnOnce(Gained) -> Event,
) -> Result<Vec<Event>, Decision> {
    if session.status == Status::Deleted {
        return Err(refused(Refusal::Gone { session: session.id.clone() }));
    }
    if !is_in_doubt(state, session) {
        return Ok(vec![accept(Plan::Nothing), done(gained(session))]);
    }
    let Some(evidence) = evidence.filter(|evidence| evidence.is_of(session)) else {
        return Err(Decision { events: Vec::new(), answer: Answer::Look { session: session.id.clone() } });
    };
    let word = evidence.word(session).map_err(refused)?;
    let mut events = vec![accept(Plan::Settle)];
    if session.fence.is_some() {
        let (sid, ep) = (session.id.clone(), session.episode);
        events.push(Event::Fence { sid, ep, body: FenceChange { fence: None } });
    }
    let seen = Seen { state, session, now };
    events.extend(seen.follow(&word));
    let after = seen.after(&events);
    events.extend(seen.settle(&word, &after));
    events.push(done(after));
    Ok(events)
}

/// Whether a start whose outcome is not known was the current episode's: the first that waits is the one that made it.
pub(super) fn is_of_current_episode(session: &Session, start: &Operation) -> bool {
    let fenced_by = session.fence.as_ref().and_then(|fence| fence.operation);
    session.episode == 1 || fenced_by.is_some_and(|first| start.id >= first)
}

/// Whether this kind of request starts an episode.
pub(super) fn is_start(kind: Kind) -> bool {
    matches!(kind, Kind::Spawn | Kind::Fork | Kind::Resume)
}

impl Seen<'_> {
    /// What this word settles of the operations whose outcome is not known. `after`: what one gains that wanted the end.
    pub(super) fn settle(&self, word: &Word, after: &Gained) -> Vec<Event> {
        let lives = matches!(word, Word::Started(_) | Word::Adopted(_));
        let known = uncertain(self.state, &self.session.id).filter_map(|operation| {
            let settled = match operation.kind {
                kind if is_start(kind) && !is_of_current_episode(self.session, operation) => return None,
                // It lives, and whether it becomes ready is to be seen.
                Kind::Spawn | Kind::Fork | Kind::Resume if lives && !is_up(self.session) => return None,
                Kind::Spawn | Kind::Fork | Kind::Resume if self.session.run.is_some() && !is_up(self.session) => {
                    Settled::Not(Outcome::Failed, why(self.session, after.exit.as_ref()))
                }
                Kind::Spawn | Kind::Fork | Kind::Resume => match run_of(word).or(self.session.run.as_ref()) {
                    Some(run) => Settled::Done(self.started(run)),
                    None if matches!(word, Word::NeverOpened | Word::LaunchFailed { .. }) => {
                        let never = failure("spawn_failed", "host", "its command never ran");
                        Settled::Not(Outcome::Failed, never)
                    }
                    None => Settled::Not(Outcome::Failed, unproven()),
                },
                Kind::Stop | Kind::Delete if lives => {
                    let lives = failure("timeout", "still_alive", "it lives; ask again to end it");
                    Settled::Not(Outcome::Failed, lives)
                }
                Kind::Stop => Settled::Done(after.clone()),
                Kind::Delete => {
                    let kept = failure(
                        "session_busy",
                        "not_removed",
                        "its process is gone and its files are there; ask again to remove them",
                    );
                    Settled::Not(Outcome::Failed, kept)
                }
                Kind::Prune
                | Kind::Reconcile
                | Kind::Resolve
                | Kind::Send
                | Kind::Cancel
                | Kind::ResolveMessage
                | Kind::Interrupt
                | Kind::Turn
                | Kind::Ready
                | Kind::Acknowledge
                | Kind::Report => return None,
            };
            finish(self.state, operation.id, Some(&self.session.id), &settled)
        });
        known.collect()
    }
}
