//! What readers see: the state as of the last durable turn. Readers never enter the turn; they hold the view for one
//! page at a time, and wait for its version to change.

use crate::machine::State;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use tokio::sync::watch;

/// The head of the ledger as of the view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Position of the newest durable record.
    pub seq: u64,
    /// Its digest.
    pub digest: crate::machine::Digest,
}

/// The readers' side of the state.
#[derive(Debug)]
pub struct View {
    state: RwLock<State>,
    head: watch::Sender<Head>,
}

impl Default for View {
    fn default() -> Self {
        Self { state: RwLock::default(), head: watch::Sender::new(Head::default()) }
    }
}

impl View {
    /// Reads the state. Hold the guard for one page, never over an await.
    pub fn read(&self) -> RwLockReadGuard<'_, State> {
        // A writer copies rows and cannot panic half-way in a way that matters to readers.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ledger's head; that of the state for who holds [`View::read`].
    pub fn head(&self) -> Head {
        *self.head.borrow()
    }

    /// Wakes whenever a turn became durable.
    pub fn changes(&self) -> watch::Receiver<Head> {
        self.head.subscribe()
    }

    /// How many wait for a change, or may.
    #[cfg(test)]
    pub(super) fn watchers(&self) -> usize {
        self.head.receiver_count()
    }

    /// Makes what this turn touched visible. Called by the turn alone, after its sync.
    pub(super) fn publish(&self, work: &mut State, head: Head) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        work.publish(&mut state);
        // Before a reader can have the state: who holds it has its head.
        self.head.send_replace(head);
    }

    /// Undoes what this turn touched. Called by the turn alone, after a failed write.
    pub(super) fn undo(&self, work: &mut State) {
        work.revert(&self.read());
    }
}
