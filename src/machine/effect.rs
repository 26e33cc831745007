//! Work owed to the world, as a function of the state (law 4). Nothing here is remembered beside the state: a restart
//! derives the same list, asks the world about each, and does what is left.

use super::id::{MessageId, OperationId, SessionId};
use super::lane::on_its_way;
use super::session::{Session, Status};
use super::state::State;

/// Which of a session's kinds of work: none waits for another, and of each at most one piece is owed at a time. A message that a
/// program does not read must not hold up its stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hand {
    /// Its process and its files.
    Life,
    /// Its messages.
    Mail,
    /// Signals to its command.
    Signal,
}

impl Hand {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Life, Self::Mail, Self::Signal];
}

/// One piece of owed work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask the world what became of a live episode: lock test, records, hello. Owed first after each restart.
    Judge {
        /// The session.
        session: SessionId,
        /// The episode.
        episode: u32,
    },
    /// Start the episode's host.
    Launch {
        /// The session.
        session: SessionId,
        /// The episode.
        episode: u32,
        /// Boot-clock instant until which it may be issued.
        deadline_boot_us: u64,
    },
    /// Ask the host to end the command.
    Stop {
        /// The session.
        session: SessionId,
        /// The episode.
        episode: u32,
        /// When grace is over, on the boot clock. The first stop's deadline wins.
        deadline_boot_us: u64,
    },
    /// Remove the session's files.
    Remove {
        /// The session.
        session: SessionId,
    },
    /// Hand a message to the episode's host. Asked twice with one token, the host hands it over once and says the same twice.
    Deliver {
        /// The session.
        session: SessionId,
        /// The episode.
        episode: u32,
        /// The message.
        message: MessageId,
        /// The attempt's token.
        attempt: u64,
    },
    /// Signal the episode's command. Asked twice for one operation, the host signals once.
    Interrupt {
        /// The session.
        session: SessionId,
        /// The episode.
        episode: u32,
        /// The operation.
        operation: OperationId,
        /// Only in this session turn, if one is named.
        turn: Option<u64>,
    },
    /// Read what a host that is no more wrote down about a message.
    Probe {
        /// The session.
        session: SessionId,
        /// The episode to which the message went.
        episode: u32,
        /// The message.
        message: MessageId,
        /// The attempt's token.
        attempt: u64,
    },
}

impl Effect {
    /// The session it is about.
    pub fn session(&self) -> &SessionId {
        match self {
            Self::Judge { session, .. }
            | Self::Launch { session, .. }
            | Self::Stop { session, .. }
            | Self::Remove { session }
            | Self::Deliver { session, .. }
            | Self::Interrupt { session, .. }
            | Self::Probe { session, .. } => session,
        }
    }

    /// Which kind of work it is.
    pub fn hand(&self) -> Hand {
        match self {
            Self::Judge { .. } | Self::Launch { .. } | Self::Stop { .. } | Self::Remove { .. } => Hand::Life,
            Self::Deliver { .. } | Self::Probe { .. } => Hand::Mail,
            Self::Interrupt { .. } => Hand::Signal,
        }
    }
}

/// What is owed for this session id now, of this kind.
pub fn owed(state: &State, id: &SessionId, hand: Hand) -> Option<Effect> {
    match (state.sessions.get(id), hand) {
        (Some(session), Hand::Life) => owed_of(state, session),
        (Some(session), Hand::Mail) => mail_of(state, session),
        (Some(session), Hand::Signal) => signal_of(state, session),
        (None, Hand::Life) => state.removals.get(id).map(|_| Effect::Remove { session: id.clone() }),
        (None, Hand::Mail | Hand::Signal) => None,
    }
}

/// All that is owed, in the order of session ids; signals and messages after everything else.
pub fn outstanding(state: &State) -> Vec<Effect> {
    let sessions = state.sessions.values().filter_map(|session| owed_of(state, session));
    let removals = state.removals.iter().map(|(id, _)| Effect::Remove { session: id.clone() });
    let lanes = state.lanes.iter().filter_map(|(id, _)| state.sessions.get(id));
    let signals = state.sessions.values().filter_map(|session| signal_of(state, session));
    sessions.chain(removals).chain(signals).chain(lanes.filter_map(|session| mail_of(state, session))).collect()
}

fn owed_of(state: &State, session: &Session) -> Option<Effect> {
    let generation = state.generation;
    let (id, episode, deadline_boot_us) = (session.id.clone(), session.episode, session.deadline_boot_us);
    // Also of a fenced one: each start of a broker asks the evidence again.
    if session.status.is_live() && session.proven < generation {
        return Some(Effect::Judge { session: id, episode });
    }
    if session.fence.is_some() {
        return None;
    }
    match session.status {
        Status::Starting => Some(Effect::Launch { session: id, episode, deadline_boot_us }),
        Status::Stopping if session.run.is_some() => Some(Effect::Stop { session: id, episode, deadline_boot_us }),
        // A start that is under way answers first; one that was never issued is found not to have opened.
        Status::Stopping => Some(Effect::Judge { session: id, episode }),
        // What its host wrote down of a message goes with the files.
        Status::Deleted if mail_of(state, session).is_some() => None,
        Status::Deleted => Some(Effect::Remove { session: id }),
        Status::Unready
        | Status::Ready
        | Status::Running
        | Status::Stopped
        | Status::Exited
        | Status::Failed
        | Status::Interrupted => None,
    }
}

fn mail_of(state: &State, session: &Session) -> Option<Effect> {
    let message = on_its_way(state, state.lanes.get(&session.id)?)?;
    let (id, episode, attempt) = (session.id.clone(), message.episode, message.attempt);
    let (session, message, of) = (id, message.id, session);
    if !of.status.is_live() || of.episode != episode {
        return Some(Effect::Probe { session, episode, message, attempt });
    }
    is_reached(state, of).then_some(Effect::Deliver { session, episode, message, attempt })
}

fn signal_of(state: &State, session: &Session) -> Option<Effect> {
    let asked = session.interrupts.first().map(|operation| (*operation, None));
    let of_message = super::interrupts::owed(state, session).map(|(operation, turn)| (operation, Some(turn)));
    let (operation, turn) = asked.into_iter().chain(of_message).min()?;
    let (id, episode) = (session.id.clone(), session.episode);
    is_reached(state, session).then_some(Effect::Interrupt { session: id, episode, operation, turn })
}

/// Until its host has answered, nothing is released to a session.
fn is_reached(state: &State, session: &Session) -> bool {
    session.fence.is_none() && session.proven >= state.generation && session.run.is_some()
}

/// Operations that are accepted and not settled, with the session each waits for.
pub fn open_operations(state: &State) -> impl Iterator<Item = (OperationId, &SessionId)> {
    state.sessions.iter().flat_map(|(id, session)| session.waiting().map(move |operation| (operation, id)))
}
