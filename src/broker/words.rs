//! What hosts say, in the machine's words.

use crate::host::wire::{self, HostRecord};
use crate::machine::{self, Digest, Word};
use crate::os::{clock, errors};

/// Nothing may be touched, and why.
pub(super) fn foreign(reason: &str) -> Word {
    Word::Foreign { reason: reason.to_owned() }
}

/// A host's record in the machine's terms.
pub(super) fn run_of(record: &HostRecord) -> Option<machine::Run> {
    let process = |identity: &crate::os::identity::ProcessIdentity| machine::Process {
        boot: identity.boot.clone(),
        ns: identity.ns,
        pid: identity.pid,
        start: identity.start,
    };
    Some(machine::Run {
        host: process(&record.host),
        command: process(&record.command),
        address: record.endpoint.address.clone(),
        incarnation: Digest::parse(&record.endpoint.incarnation).ok()?,
        started_us: record.started_us,
    })
}

/// How an episode ended.
pub(super) fn exited(
    run: Option<machine::Run>,
    exit: Option<wire::Exit>,
    ended_us: Option<u64>,
    survivors: &[wire::Survivor],
) -> Word {
    let exit = match exit {
        Some(wire::Exit::Code(code)) => machine::Exit::Code(u32::try_from(code).unwrap_or(255)),
        Some(wire::Exit::Signal(name)) => machine::Exit::Signal(name),
        Some(wire::Exit::Error(failure)) => {
            let obstacle = obstacle(&failure);
            machine::Exit::Error(machine::ExitError { phase: phase(failure.phase), reason: failure.reason, obstacle })
        }
        None => machine::Exit::Error(machine::ExitError {
            phase: machine::Phase::Host,
            reason: "its host did not say how it ended".to_owned(),
            obstacle: None,
        }),
    };
    let survivors = survivors.iter();
    Word::Exited {
        run,
        exit,
        at_us: ended_us.unwrap_or_else(clock::wall_us),
        survivors: survivors
            .map(|survivor| machine::Survivor { pid: survivor.pid, command: survivor.command.clone() })
            .collect(),
    }
}

/// What the system said of a start that failed.
pub(super) fn obstacle(failure: &wire::StartFailure) -> Option<machine::Obstacle> {
    let errno = failure.errno.and_then(|number| errors::name(&std::io::Error::from_raw_os_error(number)));
    let cause = match failure.cause {
        Some(wire::Cause::NotFound) => machine::Cause::NotFound,
        Some(wire::Cause::Denied) => machine::Cause::Denied,
        Some(wire::Cause::Other) => machine::Cause::Other,
        None if errno.is_some() => machine::Cause::Other,
        None => return None,
    };
    Some(machine::Obstacle { cause, errno })
}

/// The step of a start that failed.
pub(super) fn phase(phase: wire::StartPhase) -> machine::Phase {
    match phase {
        wire::StartPhase::Exec => machine::Phase::Exec,
        wire::StartPhase::Cwd => machine::Phase::Cwd,
        wire::StartPhase::Limit => machine::Phase::Limit,
        wire::StartPhase::Host => machine::Phase::Host,
    }
}
