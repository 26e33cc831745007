//! What the broker can see of a simulated episode, in the product's own terms: the evidence goes through the product's
//! literal table, so that the simulation and the broker cannot disagree about what it means.

use super::computer::{Computer, Record, Run};
use ostler::broker::doubt::weigh;
use ostler::host::client::evidence::{Evidence, HostFile, LockState};
use ostler::host::client::{Verdict, judge, judge_without_lock};
use ostler::host::wire::{Exit, ExitRecord, HostRecord, StartPhase};
use ostler::machine::{self, Digest, ExitError, Phase, Session, Word};
use ostler::os::identity::ProcessIdentity;
use std::collections::BTreeSet;
use std::sync::Arc;

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

/// What is seen of a session in doubt, weighed as the product does.
pub(super) fn doubt(of: &Arc<Session>, computer: &Computer) -> machine::Evidence {
    let folder = computer.folders.get(&of.id);
    let mut episodes: BTreeSet<u32> = folder.into_iter().flat_map(|folder| folder.episodes.keys().copied()).collect();
    episodes.insert(of.episode);
    let seen: Vec<_> =
        episodes.into_iter().map(|episode| (episode, Some(gather(computer, &(of.id.clone(), episode))))).collect();
    let of_session = |run: &Run| run.0 == of.id;
    let marked =
        computer.commands.values().any(of_session) || computer.hosts.values().any(|host| of_session(&host.run));
    weigh(Arc::clone(of), &seen, &computer.boot(), |identity| computer.life(identity), Some(marked))
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
    Word::Exited { run, exit: exit(&record.exit), at_us: record.ended_us, survivors: Vec::new() }
}

/// How a command ended, in the machine's words.
pub(super) fn exit(exit: &Exit) -> machine::Exit {
    match exit {
        Exit::Code(code) => machine::Exit::Code(u32::try_from(*code).unwrap_or(255)),
        Exit::Signal(name) => machine::Exit::Signal(name.clone()),
        Exit::Error(failure) => machine::Exit::Error(ExitError {
            phase: phase(failure.phase),
            reason: failure.reason.clone(),
            obstacle: None,
        }),
    }
}

pub(super) fn phase(phase: StartPhase) -> Phase {
    match phase {
        StartPhase::Exec => Phase::Exec,
        StartPhase::Cwd => Phase::Cwd,
        StartPhase::Limit => Phase::Limit,
        StartPhase::Host => Phase::Host,
    }
}
