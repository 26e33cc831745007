//! What leaves a turn: answers for callers, and what sessions owe.

use crate::machine::{Effect, Footprint, Hand, Operation, Refusal, Session, SessionId};
use std::sync::Arc;

/// What a caller is told. It leaves after the sync of everything it speaks of.
#[derive(Clone, Debug)]
pub enum Told {
    /// Refused; nothing changed.
    Refused(Refusal),
    /// The operation is settled or uncertain.
    Settled {
        /// Its outcome.
        operation: Arc<Operation>,
        /// Whether the key was known before.
        replayed: bool,
        /// The session as it was last, if it left the list in this turn.
        gone: Option<Arc<Session>>,
    },
    /// Put the episode's files on disk and ask again.
    Prepare {
        /// The session, or none for a new one.
        session: Option<SessionId>,
        /// The episode.
        episode: u32,
    },
    /// The key may belong to one of these operations: read their records back and ask again.
    Recall(Vec<Footprint>),
    /// Look at this session's processes and files and ask again.
    Look {
        /// Which.
        session: SessionId,
    },
    /// Put the message's text for this session on disk and ask again.
    Store {
        /// Which.
        session: SessionId,
    },
    /// What was pulled is delivered, durably.
    Pulled,
    /// The disk would not take the record; nothing changed.
    Storage {
        /// Whether it is full.
        full: bool,
        /// What the system said.
        message: String,
    },
}

/// What leaves a turn.
#[derive(Debug)]
pub enum Release<T> {
    /// An answer for the holder of this ticket.
    Answer(T, Told),
    /// What this session owes now, of this kind, has been derived anew.
    Owed(SessionId, Hand, Option<Effect>),
}
