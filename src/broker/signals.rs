//! TERM and INT ask a broker to leave in order; its sessions go on in their hosts. A hang-up is no matter.

use tokio::signal::unix::{Signal, SignalKind};

/// The signals that a broker answers.
#[derive(Debug)]
pub(super) struct Signals {
    term: Signal,
    int: Signal,
    hangup: Signal,
}

impl Signals {
    /// Takes them from now on.
    pub(super) fn new() -> std::io::Result<Self> {
        let of = |kind| tokio::signal::unix::signal(kind);
        Ok(Self {
            term: of(SignalKind::terminate())?,
            int: of(SignalKind::interrupt())?,
            hangup: of(SignalKind::hangup())?,
        })
    }

    /// Returns when one of them asks it to leave.
    pub(super) async fn leave(&mut self) {
        loop {
            tokio::select! {
                _ = self.term.recv() => return,
                _ = self.int.recv() => return,
                _ = self.hangup.recv() => {}
            }
        }
    }
}
