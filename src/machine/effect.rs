//! Work owed to the world, as a function of the state (law 4). Nothing here is remembered beside the state: a restart
//! derives the same list, asks the world about each, and does what is left.

use super::id::{OperationId, SessionId};
use super::session::{Session, Status};
use super::state::State;

/// One piece of owed work. A session owes at most one at a time.
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
}

impl Effect {
    /// The session it is about.
    pub fn session(&self) -> &SessionId {
        match self {
            Self::Judge { session, .. }
            | Self::Launch { session, .. }
            | Self::Stop { session, .. }
            | Self::Remove { session } => session,
        }
    }
}

/// What is owed for this session id now.
pub fn owed(state: &State, id: &SessionId) -> Option<Effect> {
    match state.sessions.get(id) {
        Some(session) => owed_of(session, state.generation),
        None => state.removals.get(id).map(|_| Effect::Remove { session: id.clone() }),
    }
}

/// All that is owed, in the order of session ids.
pub fn outstanding(state: &State) -> Vec<Effect> {
    let sessions = state.sessions.values().filter_map(|session| owed_of(session, state.generation));
    let removals = state.removals.iter().map(|(id, _)| Effect::Remove { session: id.clone() });
    sessions.chain(removals).collect()
}

fn owed_of(session: &Session, generation: u64) -> Option<Effect> {
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
        Status::Deleted => Some(Effect::Remove { session: id }),
        Status::Ready | Status::Stopped | Status::Exited | Status::Failed | Status::Interrupted => None,
    }
}

/// Operations that are accepted and not settled, with the session each waits for.
pub fn open_operations(state: &State) -> impl Iterator<Item = (OperationId, &SessionId)> {
    state.sessions.iter().flat_map(|(id, session)| session.waiting().map(move |operation| (operation, id)))
}
