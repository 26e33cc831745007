//! What the broker can see of a simulated episode, in the product's own terms: the evidence goes through the product's
//! literal table, so that the simulation and the broker cannot disagree about what it means.

use super::computer::{Computer, Record, Run};
use ostler::host::client::evidence::{Evidence, HostFile, LockState};
use ostler::host::client::{Verdict, judge, judge_without_lock};
use ostler::host::wire::{Exit, ExitRecord, HostRecord, StartPhase};
use ostler::machine::{self, Digest, ExitError, Phase, Word};
use ostler::os::identity::ProcessIdentity;

/// The product's verdict about an episode.
pub(super) fn verdict(computer: &Computer, run: &Run) -> Verdict {
    let evidence = gather(computer, run);
    let verdict = judge(&evidence);
    if verdict == Verdict::MissingLock { judge_without_lock(&evidence) } else { verdict }
}

fn gather(computer: &Computer, run: &Run) -> Evidence {
    let Some(episode) = computer.episode(run) else {
        let (lock_identity, folder_identity) = (None, None);
        return Evidence {
            lock: LockState::Absent,
            lock_identity,
            folder_identity,
            host: HostFile::Absent,
            exit: None,
        };
    };
    let lock = match (&episode.lock, &episode.holder) {
        (None, _) => LockState::Absent,
        (Some(_), None) => LockState::Free,
        (Some(_), Some(_)) => LockState::Held,
    };
    let host = match &episode.record {
        Record::Absent => HostFile::Absent,
        Record::Damaged => HostFile::Damaged("it is no JSON".to_owned()),
        Record::Present(record) => {
            HostFile::Present { record: record.clone(), liveness: computer.liveness(&record.host) }
        }
    };
    let folder_identity = Some(episode.folder);
    Evidence { lock, lock_identity: episode.lock, folder_identity, host, exit: episode.exit.clone() }
}

/// The facts of an episode, as its record has them.
pub(super) fn facts(record: &HostRecord) -> machine::Run {
    let process = |identity: &ProcessIdentity| machine::Process {
        boot: identity.boot.clone(),
        ns: identity.ns,
        pid: identity.pid,
        start: identity.start,
    };
    machine::Run {
        host: process(&record.host),
        command: process(&record.command),
        address: record.endpoint.address.clone(),
        incarnation: Digest::parse(&record.endpoint.incarnation).expect("the simulated host writes digests"),
        started_us: record.started_us,
    }
}

/// The facts of an episode that was found ended; none if its command never executed or its record is gone.
pub(super) fn facts_at_end(computer: &Computer, run: &Run, exit: &ExitRecord) -> Option<machine::Run> {
    if matches!(exit.exit, Exit::Error(_)) {
        return None;
    }
    match &computer.episode(run)?.record {
        Record::Present(record) => Some(facts(record)),
        Record::Absent | Record::Damaged => None,
    }
}

/// Word of an end.
pub(super) fn exited(run: Option<machine::Run>, record: &ExitRecord) -> Word {
    let exit = match &record.exit {
        Exit::Code(code) => machine::Exit::Code(u32::try_from(*code).unwrap_or(255)),
        Exit::Signal(name) => machine::Exit::Signal(name.clone()),
        Exit::Error(failure) => machine::Exit::Error(ExitError {
            phase: phase(failure.phase),
            reason: failure.reason.clone(),
            obstacle: None,
        }),
    };
    Word::Exited { run, exit, at_us: record.ended_us, survivors: Vec::new() }
}

pub(super) fn phase(phase: StartPhase) -> Phase {
    match phase {
        StartPhase::Exec => Phase::Exec,
        StartPhase::Cwd => Phase::Cwd,
        StartPhase::Limit => Phase::Limit,
        StartPhase::Host => Phase::Host,
    }
}
