//! A retry of a start gets its stored result only while the endpoint it names is the one that answers now (design 4).

use super::operation::{Kind, Operation};
use super::state::State;

/// Why a stored start is not the present truth. The stored result travels with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stale {
    /// A newer episode has another endpoint.
    Replaced,
    /// The episode is over.
    Ended,
    /// No endpoint was recorded.
    Unproven,
}

impl Stale {
    /// The word in `data.reason`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Replaced => "replaced",
            Self::Ended => "ended",
            Self::Unproven => "unproven",
        }
    }
}

/// Whether a succeeded operation may be replayed as it stands.
///
/// # Errors
/// [`Stale`] for a start whose endpoint is gone or another.
pub fn replayable(state: &State, operation: &Operation) -> Result<(), Stale> {
    match operation.kind {
        Kind::Spawn | Kind::Fork | Kind::Resume => {}
        Kind::Stop
        | Kind::Delete
        | Kind::Prune
        | Kind::Reconcile
        | Kind::Resolve
        | Kind::Send
        | Kind::Cancel
        | Kind::ResolveMessage
        | Kind::Interrupt
        | Kind::Turn
        | Kind::Ready
        | Kind::Acknowledge
        | Kind::Report => return Ok(()),
    }
    let Some(stored) = operation.gained.incarnation else { return Err(Stale::Unproven) };
    let session = operation.session.as_ref().and_then(|id| state.sessions.get(id)).ok_or(Stale::Ended)?;
    if operation.gained.episode != Some(session.episode) {
        return Err(Stale::Replaced);
    }
    if !session.status.is_live() {
        return Err(Stale::Ended);
    }
    match session.run.as_ref().map(|run| run.incarnation) {
        Some(current) if current == stored => Ok(()),
        Some(_) => Err(Stale::Replaced),
        None => Err(Stale::Unproven),
    }
}
