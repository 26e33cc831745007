//! The fold: the state as the ledger tells it (law 1). Turn by turn, as they were written, because a turn ends with what is
//! let go and forgotten.

use super::codec::{self, Unreadable, touched};
use crate::machine::limits::Retention;
use crate::machine::{At, Digest, Illegal, SessionId, State, apply};
use ostler_ledger::{Ledger, ReadError, Recovery, Storage};
use std::collections::BTreeSet;

/// Why the ledger could not be folded.
#[derive(Debug, thiserror::Error)]
pub enum FoldError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A record is of a kind that this build does not know.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// A record says the impossible.
    #[error("record {seq} cannot follow what stands before it: {}", .why.0)]
    Illegal {
        /// Its ledger position.
        seq: u64,
        /// The rule it breaks.
        why: Illegal,
    },
}

/// What a fold comes to.
#[derive(Debug)]
pub struct Folded {
    /// The state.
    pub state: State,
    /// Sessions whose records are damaged or missing.
    pub doubtful: BTreeSet<SessionId>,
}

/// Folds all records of a ledger.
///
/// # Errors
/// [`FoldError`] when a record cannot be read or believed.
pub fn fold<S: Storage>(ledger: &Ledger<S>, recovery: &Recovery, retention: Retention) -> Result<Folded, FoldError> {
    let mut state = State::keeping(retention);
    let damaged = !recovery.problems.is_empty();
    let named = recovery.damaged_sessions.iter().filter_map(|id| SessionId::parse(id).ok());
    let mut doubtful: BTreeSet<SessionId> = named.collect();
    let mut turn: Option<At> = None;
    for record in ledger.records() {
        let record = record?;
        if let Some((event, at)) = codec::event(&record)? {
            match apply(&mut state, &event, at) {
                Ok(()) => state.stamp(&event, Digest(record.digest.0)),
                // Beside a hole a record may meet a state that lacks its cause: its session is in doubt, no other.
                Err(_) if damaged => doubtful.extend(touched(std::slice::from_ref(&event))),
                Err(why) => return Err(FoldError::Illegal { seq: at.seq, why }),
            }
            turn = Some(at);
        }
        // A turn of the ledger's own records ends nothing here.
        if record.header.end
            && let Some(at) = turn.take()
        {
            state.close(at.time);
        }
    }
    Ok(Folded { state, doubtful })
}
