//! The evidence by which a doubt about a session is ended: its locks, its records, the processes that the ledger and its
//! files name, and those that carry its mark. It looks only; what it means is the machine's.

use super::hosts::{Dialled, Hosts};
use super::words::{exited, run_of};
use crate::host::client::evidence::{Evidence, HostFile, LockState};
use crate::host::client::{Verdict, gather, judge, judge_without_lock};
use crate::host::wire::HostRecord;
use crate::host::{files, marker};
use crate::machine::{self, Ended, Lock, Marks, Process, Run, Session, Survivor, Trace, Word, limits};
use crate::os::identity::{Liveness, ProcessIdentity};
use crate::os::process::boot_id;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks at a host that was asked to state its record again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How often it is looked for.
const STATED_AGAIN_LOOKS: usize = 25;

/// What was seen of one episode; none if it could not be looked at.
pub type Seen = (u32, Option<Evidence>);

impl Hosts {
    /// Looks at everything that tells whether a session lives. A host of its current episode that is plainly its own is
    /// asked, and listened to from then on if it answers.
    pub(super) async fn evidence(self: &Arc<Self>, of: Arc<Session>) -> machine::Evidence {
        let (id, episode) = (of.id.clone(), of.episode);
        let Some(mut looked) = self.looked(&of).await else { return blind(of) };
        if let (true, Some(run)) = (looked.lacks_record && of.status.is_live(), &of.run) {
            // Only its own host can state again what stood there; the ledger knows which process that is.
            super::files::ask_to_bind(&identity(&run.host));
            for _ in 0..STATED_AGAIN_LOOKS {
                tokio::time::sleep(LOOK_AGAIN).await;
                match self.looked(&of).await {
                    Some(again) => looked = again,
                    None => return blind(of),
                }
                if !looked.lacks_record {
                    break;
                }
            }
        }
        let Looked { mut evidence, host, .. } = looked;
        let Some(record) = host.filter(|_| of.status.is_live()) else { return evidence };
        if self.link(&id, episode).is_some()
            || matches!(self.attach(&id, episode, &record).await, Ok(Dialled::Listening))
        {
            evidence.answers = run_of(&record);
        }
        evidence
    }

    /// One look. A host that is silent afterwards keeps nobody else from looking.
    async fn looked(&self, of: &Arc<Session>) -> Option<Looked> {
        let _permit = self.looks.acquire().await.expect("the semaphore is never closed");
        let (root, session) = (self.root.clone(), Arc::clone(of));
        tokio::task::spawn_blocking(move || look(&root, session)).await.ok()
    }
}

/// What one look has found.
struct Looked {
    evidence: machine::Evidence,
    /// The host that is to be asked, if there is one.
    host: Option<Box<HostRecord>>,
    /// A host is at work in the current episode, and its record is gone or cannot be read.
    lacks_record: bool,
}

/// Nothing could be seen.
fn blind(of: Arc<Session>) -> machine::Evidence {
    machine::Evidence {
        of,
        lock: Lock::Hidden,
        host: Trace::Hidden,
        command: Trace::Hidden,
        marks: Marks::Hidden,
        answers: None,
        exit: None,
        living: Vec::new(),
        is_elsewhere: false,
    }
}

/// One look. Blocking.
fn look(root: &Path, of: Arc<Session>) -> Looked {
    let id = of.id.as_str();
    let mut episodes: BTreeSet<u32> = std::fs::read_dir(files::session_folder(root, id))
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    episodes.insert(of.episode);
    let seen: Vec<Seen> = episodes.into_iter().map(|episode| (episode, gather(root, id, episode).ok())).collect();
    let carriers = marker::of_session(id).ok();
    let host = match own(&of, &seen) {
        Some(Verdict::Alive(record)) => Some(record),
        Some(_) | None => None,
    };
    let lacks_record = current(&of, &seen).is_some_and(|now| now.lock == LockState::Held && record_of(now).is_none());
    let liveness = ProcessIdentity::liveness;
    let boot = boot_id().unwrap_or_default();
    let mut evidence = weigh(of, &seen, &boot, liveness, carriers.as_ref().map(|carriers| !carriers.is_empty()));
    for pid in carriers.into_iter().flatten() {
        if evidence.living.iter().all(|known| known.pid != pid) {
            evidence.living.push(Survivor { pid, command: String::new() });
        }
    }
    evidence.living.truncate(limits::SURVIVORS);
    for living in &mut evidence.living {
        living.command = marker::survivor(living.pid).command;
    }
    Looked { evidence, host, lacks_record }
}

/// What the table of the life lock says of the current episode.
fn own(of: &Session, seen: &[Seen]) -> Option<Verdict> {
    let evidence = current(of, seen)?;
    let verdict = judge(evidence);
    Some(if verdict == Verdict::MissingLock { judge_without_lock(evidence) } else { verdict })
}

fn current<'a>(of: &Session, seen: &'a [Seen]) -> Option<&'a Evidence> {
    seen.iter().find(|(episode, _)| *episode == of.episode)?.1.as_ref()
}

/// What was seen, in the machine's terms. `marked`: whether a process carries the session's mark, if that could be told.
pub fn weigh(
    of: Arc<Session>,
    seen: &[Seen],
    boot: &str,
    liveness: impl Fn(&ProcessIdentity) -> Liveness,
    marked: Option<bool>,
) -> machine::Evidence {
    let trace = |identity: &ProcessIdentity| match liveness(identity) {
        Liveness::Alive => Trace::Lives,
        Liveness::Dead => Trace::Gone,
        Liveness::Foreign if identity.boot == boot => Trace::OtherNamespace,
        Liveness::Foreign => Trace::BeforeBoot,
        Liveness::Unknown => Trace::Hidden,
    };
    let now = current(&of, seen);
    let run = of.run.as_ref();
    let record = now.and_then(record_of);
    // What a record says and what the ledger says; of other episodes only what lives.
    let hosts = record.map(|record| record.host.clone()).into_iter().chain(run.map(|run| identity(&run.host)));
    let commands = record.map(|record| record.command.clone()).into_iter().chain(run.map(|run| identity(&run.command)));
    let others = seen.iter().filter(|(episode, _)| *episode != of.episode).filter_map(|(_, seen)| seen.as_ref());
    let others: Vec<_> = others.filter_map(record_of).collect();
    let (hosts, commands): (Vec<_>, Vec<_>) = (hosts.collect(), commands.collect());
    let lives = |identity: &ProcessIdentity| trace(identity) == Trace::Lives;
    let living: BTreeSet<u32> = hosts
        .iter()
        .chain(&commands)
        .chain(others.iter().flat_map(|record| [&record.host, &record.command]))
        .filter(|identity| lives(identity))
        .map(|identity| identity.pid)
        .collect();
    let (host, command) = if others.iter().any(|record| lives(&record.host)) {
        (Trace::Lives, worst(commands.iter().map(trace)))
    } else if others.iter().any(|record| lives(&record.command)) {
        (worst(hosts.iter().map(trace)), Trace::Lives)
    } else {
        (worst(hosts.iter().map(trace)), worst(commands.iter().map(trace)))
    };
    machine::Evidence {
        lock: lock(now, seen),
        host,
        command,
        marks: marked.map_or(Marks::Hidden, |found| if found { Marks::Found } else { Marks::Absent }),
        answers: None,
        exit: now.and_then(ended),
        living: living.into_iter().map(|pid| Survivor { pid, command: String::new() }).collect(),
        is_elsewhere: now
            .is_some_and(|now| record_of(now).is_some_and(|record| now.folder_identity != Some(record.folder))),
        of,
    }
}

fn record_of(evidence: &Evidence) -> Option<&HostRecord> {
    match &evidence.host {
        HostFile::Present { record, .. } => Some(record),
        HostFile::Absent | HostFile::Damaged(_) => None,
    }
}

/// A process of the ledger, as the system knows it.
pub(super) fn identity(process: &Process) -> ProcessIdentity {
    ProcessIdentity { boot: process.boot.clone(), ns: process.ns, pid: process.pid, start: process.start }
}

/// The one of them that says least of a death.
fn worst(traces: impl Iterator<Item = Trace>) -> Trace {
    let rank = |trace: &Trace| match trace {
        Trace::Unrecorded => 0,
        Trace::Gone => 1,
        Trace::BeforeBoot => 2,
        Trace::OtherNamespace => 3,
        Trace::Hidden => 4,
        Trace::Lives => 5,
    };
    traces.max_by_key(rank).unwrap_or(Trace::Unrecorded)
}

fn lock(now: Option<&Evidence>, seen: &[Seen]) -> Lock {
    let is = |of: &Option<Evidence>, state| of.as_ref().is_some_and(|of| of.lock == state);
    if seen.iter().any(|(_, seen)| is(seen, LockState::Held)) {
        return Lock::Held;
    }
    if seen.iter().any(|(_, seen)| seen.is_none()) {
        return Lock::Hidden;
    }
    match now.map(|now| now.lock) {
        Some(LockState::Free) => Lock::Free,
        Some(LockState::Held) => Lock::Held,
        Some(LockState::Absent) => Lock::Absent,
        None => Lock::Hidden,
    }
}

fn ended(evidence: &Evidence) -> Option<Ended> {
    let record = evidence.exit.as_ref()?;
    let is_failure = matches!(record.exit, crate::host::wire::Exit::Error(_));
    let run: Option<Run> = record_of(evidence).filter(|_| !is_failure).and_then(run_of);
    let Word::Exited { exit, at_us, .. } = exited(None, Some(record.exit.clone()), Some(record.ended_us), &[]) else {
        return None;
    };
    Some(Ended { run, exit, at_us })
}
