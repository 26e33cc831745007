//! When a broker that has nothing to do leaves by itself.
//!
//! Promises: it leaves only if for the whole time nobody was connected, no session lived, nothing was owed or in doubt and the ledger took
//! records; and it stops listening in the very moment in which it decides, so that whoever knocks is either served or turned away
//! unheard, and then starts the next one. Looking at this costs no wake-up: it is done when the watch looks anyway.

use super::front::{Door, Front};
use crate::machine::{self, Message, MessageState, Outcome, State};
use crate::os::clock;
use crate::rpc::listener::Server;
use std::time::Duration;

/// What a broker stays for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// Somebody is connected, or was since the last look.
    Clients,
    /// A session may have a process.
    Sessions,
    /// An operation was accepted and is not settled.
    Operations,
    /// A message waits for a session that somebody will resume.
    Messages,
    /// Something is owed to the world: files to be removed, say.
    Owed,
    /// A session is fenced, or an operation uncertain: somebody will come and ask.
    Doubts,
    /// The ledger takes no records; a successor might not come up.
    Ledger,
}

/// Counts the time in which there was nothing to do.
#[derive(Debug)]
pub struct Idle {
    within_us: Option<u64>,
    since_us: u64,
    let_in: u64,
}

impl Idle {
    /// Leaves after so long; never without a time.
    pub fn new(within: Option<Duration>) -> Idle {
        let within_us = within.map(|within| u64::try_from(within.as_micros()).unwrap_or(u64::MAX));
        Idle { within_us, since_us: clock::boot_us(), let_in: 0 }
    }

    /// Whether it is time to leave. The caller stops listening before it does anything else.
    pub(super) fn is_over(&mut self, front: &Front, server: &Server<Door>) -> bool {
        if self.within_us.is_none() {
            return false;
        }
        let now_us = clock::boot_us();
        let let_in = server.let_in();
        let clients = server.connections() > 0 || let_in != std::mem::replace(&mut self.let_in, let_in);
        let state = front.view.read();
        let quick = if clients { Some(Busy::Clients) } else { busy(&state) };
        let ledger = || front.degraded.borrow().is_some().then_some(Busy::Ledger);
        self.is_due(now_us, quick.or_else(ledger), || doubtful(&state))
    }

    /// `quick` is asked each time, `slow` only when it would be time.
    fn is_due(&mut self, now_us: u64, quick: Option<Busy>, slow: impl FnOnce() -> Option<Busy>) -> bool {
        let Some(within_us) = self.within_us else { return false };
        if quick.is_some() {
            self.since_us = now_us;
            return false;
        }
        if now_us.saturating_sub(self.since_us) < within_us {
            return false;
        }
        let kept = slow();
        if let Some(busy) = kept {
            tracing::debug!(?busy, "idle, and stays");
            self.since_us = now_us;
        }
        kept.is_none()
    }
}

/// What can be told without a search.
fn busy(state: &State) -> Option<Busy> {
    if state.live > 0 {
        Some(Busy::Sessions)
    } else if state.open > 0 {
        Some(Busy::Operations)
    } else {
        state.removals.iter().next().map(|_| Busy::Owed)
    }
}

/// What takes a search through all that is known.
fn doubtful(state: &State) -> Option<Busy> {
    let fenced = state.sessions.values().any(|session| session.fence.is_some());
    let uncertain = || state.operations.values().any(|operation| operation.state == Outcome::Uncertain);
    if fenced || uncertain() {
        return Some(Busy::Doubts);
    }
    // A notice is for whoever resumes its session, and nobody waits for that.
    let queued = |message: &Message| message.state == MessageState::Queued && message.notice.is_none();
    if state.messages.values().any(|message| queued(message)) {
        return Some(Busy::Messages);
    }
    machine::outstanding(state).first().map(|_| Busy::Owed)
}

#[cfg(test)]
mod tests {
    use super::{Busy, Idle};
    use std::time::Duration;

    const SECOND: u64 = 1_000_000;

    fn idle(seconds: Option<u64>) -> Idle {
        Idle { within_us: seconds.map(|seconds| seconds * SECOND), since_us: 0, let_in: 0 }
    }

    #[test]
    fn each_reason_begins_the_time_anew() {
        for busy in
            [Busy::Clients, Busy::Sessions, Busy::Operations, Busy::Messages, Busy::Owed, Busy::Doubts, Busy::Ledger]
        {
            let mut idle = idle(Some(10));
            assert!(!idle.is_due(9 * SECOND, None, || None));
            assert!(!idle.is_due(10 * SECOND, Some(busy), || None), "{busy:?}");
            assert!(!idle.is_due(19 * SECOND, None, || None), "{busy:?}");
            assert!(!idle.is_due(20 * SECOND, None, || Some(busy)), "{busy:?}");
            assert!(!idle.is_due(29 * SECOND, None, || None), "{busy:?}");
            assert!(idle.is_due(30 * SECOND, None, || None), "{busy:?}");
        }
    }

    #[test]
    fn the_search_is_made_only_when_it_is_time() {
        let mut idle = idle(Some(10));
        for second in 0..10 {
            assert!(!idle.is_due(second * SECOND, None, || unreachable!("it is not time yet")));
        }
        assert!(idle.is_due(10 * SECOND, None, || None));
    }

    #[test]
    fn without_a_time_it_stays() {
        assert!(!idle(None).is_due(u64::MAX, None, || None));
        assert_eq!(Idle::new(Some(Duration::MAX)).within_us, Some(u64::MAX));
    }
}
