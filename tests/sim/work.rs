//! The effects that the broker's hands are at, each between two of its steps.

use ostler::machine::{MessageId, OperationId};

/// One of them.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// The spawner takes the life lock.
    TakeLock,
    /// It starts the host.
    Fork,
    /// It waits for the report of the host with this pid.
    Await(u32),
    /// The evidence is asked.
    Look { answers: bool, since_us: u64 },
    /// The host is asked to end its command.
    Stop { deadline_us: u64, since_us: u64 },
    /// The files go, once no lock is held.
    Remove,
    /// A message and its token go to the host.
    Deliver((MessageId, u64)),
    /// The journal of a host that is no more is asked about them.
    Probe((MessageId, u64)),
    /// The host is asked to signal its command, in this turn only if one is named.
    Interrupt(OperationId, Option<u64>),
}

impl What {
    /// How the trace calls it.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::TakeLock | Self::Fork | Self::Await(_) => "launch",
            Self::Look { answers: true, .. } => "judge",
            Self::Look { answers: false, .. } => "look",
            Self::Stop { .. } => "stop",
            Self::Remove => "remove",
            Self::Deliver(_) => "deliver",
            Self::Probe(_) => "probe",
            Self::Interrupt(..) => "interrupt",
        }
    }
}
