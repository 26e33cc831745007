//! `ostler status`: the broker, its lock, the ledger's head, and how many sessions there are. Never starts a broker and never takes a lock:
//! it asks by hello, and where nobody answers it reads the system's lock table and the files.

use std::time::Duration;

use ostler_ledger::storage::Disk;

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::output::{Output, Tone};
use super::{sessions, text};
use crate::broker::discovery::{self, Found};
use crate::broker::holder;
use crate::broker::lock::LOCK_NAME;
use crate::client::{HELLO_WITHIN, is_hurried};
use crate::os::deadline::Deadline;
use crate::os::folder::Kind;
use crate::os::paths::{StateRoot, check_private};
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::method::Method;
use crate::rpc::wire::{BrokerStatusParams, BrokerStatusResult, LedgerHead, LockState, OwnerRecord, RunState};

/// Show how the broker is; never starts one
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// How long a broker may take to answer before it counts as unresponsive (contract section 4: hello 5 s).
pub(super) const ANSWER_WITHIN: Duration = HELLO_WITHIN;

pub(crate) fn run(_: &Args, context: &Context) -> Result<Exit, Failure> {
    let path = context.root_path("look at the broker")?;
    let status = match StateRoot::open(&path) {
        Ok(Some(root)) => look(&root, context, context.bounded(ANSWER_WITHIN))
            .map_err(|error| Failure::new("look at the broker", error))?,
        Ok(None) => without_broker(RunState::Absent, LockState { held: Some(false), ..unknown_lock() }, Vec::new()),
        Err(error) => without_broker(RunState::Blocked, unknown_lock(), vec![error.to_string()]),
    };
    let path = std::path::absolute(&path).unwrap_or(path);
    context.output.either(&status, |status| screen(status, &path.to_string_lossy(), &context.output))?;
    Ok(Exit::Done)
}

/// How the broker of this root is: as it answers within the deadline (and its own), else as the files and the lock table tell.
///
/// # Errors
/// `timeout` where nobody answered and the caller allows less time than hello may take: then nobody can be called unresponsive.
pub(super) fn look(root: &StateRoot, context: &Context, deadline: Deadline) -> Result<BrokerStatusResult, WireError> {
    let deadline = deadline.at_most(ANSWER_WITHIN);
    let hurried = is_hurried(context.globals.timeout.unwrap_or(ANSWER_WITHIN), deadline);
    let status = look_once(root, context, deadline, hurried)?;
    // It may have published itself between the question and the look; whoever is silent has had its time.
    if status.state == RunState::Unresponsive && !deadline.remaining().is_zero() {
        return look_once(root, context, deadline, hurried);
    }
    Ok(status)
}

fn look_once(
    root: &StateRoot,
    context: &Context,
    deadline: Deadline,
    hurried: bool,
) -> Result<BrokerStatusResult, WireError> {
    let mut degraded = Vec::new();
    let mut answered = false;
    match context.ask(root, Method::BrokerStatus, &BrokerStatusParams {}, deadline) {
        Ok(status) => return Ok(status),
        Err(error) if error.code == ErrorCode::Timeout && hurried => return Err(error),
        // It answered, if only that it is full: it is there, and works for others.
        Err(error) if matches!(error.code, ErrorCode::Capacity | ErrorCode::Busy) => {
            answered = true;
            degraded.push(error.message);
        }
        // So is one with which this version shares no protocol, or not this call: what there is to know stands in files that all versions write.
        Err(error) if is_other_version(&error) => {
            answered = true;
            degraded.push(error.message);
        }
        // Nobody there is no trouble; anything else may explain the state below.
        Err(error) if error.code == ErrorCode::BrokerUnreachable => {}
        Err(error) => degraded.push(error.message),
    }
    let (lock, leaving) = match holder::look(root) {
        Ok(looked) => looked,
        Err(error) => {
            degraded.push(format!("the lock cannot be looked at: {error}"));
            return Ok(without_broker(RunState::Blocked, unknown_lock(), degraded));
        }
    };
    let obstacle = obstacle(root);
    let evidence = Evidence {
        obstructed: obstacle.is_some(),
        held: lock.held,
        owner_lives: lock.owner_lives,
        // Who holds it now has not written its own record yet: the dead one's says nothing of it.
        published: lock.owner_lives != Some(false) && is_published(root, lock.owner.as_ref()),
        leaving,
    };
    degraded.extend(obstacle);
    degraded.extend(discovery::obstacle(root));
    let mut status = without_broker(judge(evidence), lock, degraded);
    status.ledger = ledger_head(root);
    if answered {
        status.state = RunState::Running;
        status.broker = discovery::read(root.folder()).ok().and_then(Found::record).map(|record| record.broker);
    }
    Ok(status)
}

/// Whether a broker said that it shares no version of the protocol with this program, or does not know what was asked.
pub(super) fn is_other_version(error: &WireError) -> bool {
    error.code == ErrorCode::UnknownMethod
        || error.code == ErrorCode::ProtocolMismatch && error.data.contains_key("max")
}

/// What is known about a root whose broker does not answer.
#[derive(Debug, Clone, Copy)]
struct Evidence {
    /// Something stands where the lock belongs that no start may touch.
    obstructed: bool,
    held: Option<bool>,
    owner_lives: Option<bool>,
    /// The discovery record is that of the lock's owner.
    published: bool,
    /// The living owner has said that it is on its way out.
    leaving: bool,
}

/// The state that the evidence shows. Where the lock table is silent a living owner counts as a holder, and without one nobody can say.
fn judge(evidence: Evidence) -> RunState {
    let holder = match (evidence.held, evidence.owner_lives) {
        (Some(held), _) => Some(held),
        (None, Some(true)) => Some(true),
        (None, Some(false) | None) => None,
    };
    match (evidence.obstructed, holder, evidence.leaving, evidence.published) {
        (true, _, _, _) | (false, None, _, _) => RunState::Blocked,
        (false, Some(false), _, _) => RunState::Absent,
        (false, Some(true), true, _) => RunState::Draining,
        (false, Some(true), false, true) => RunState::Unresponsive,
        (false, Some(true), false, false) => RunState::Starting,
    }
}

/// Whether the owner of the lock has published itself, so that it ought to answer.
fn is_published(root: &StateRoot, owner: Option<&OwnerRecord>) -> bool {
    let record = discovery::read(root.folder()).ok().and_then(Found::record);
    match (record, owner) {
        (Some(record), Some(owner)) => record.broker.pid == owner.pid && record.broker.started_at >= owner.acquired_at,
        (Some(_) | None, _) => false,
    }
}

/// What keeps every start from having the lock.
fn obstacle(root: &StateRoot) -> Option<String> {
    let path = root.path().join(LOCK_NAME);
    match root.folder().look(LOCK_NAME) {
        Ok(Some(there)) if there.kind == Kind::File => {
            check_private(&path, &there).err().map(|error| error.to_string())
        }
        Ok(Some(_) | None) => None,
        Err(error) => Some(format!("cannot look at {}: {error}", path.display())),
    }
}

fn ledger_head(root: &StateRoot) -> Option<LedgerHead> {
    let report = ostler_ledger::head(&Disk::reading(root.path().join("ledger"))).ok()?;
    (report.head.seq > 0).then(|| LedgerHead { seq: report.head.seq, digest: report.head.digest.to_string() })
}

fn unknown_lock() -> LockState {
    LockState { held: None, owner: None, owner_lives: None }
}

fn without_broker(state: RunState, lock: LockState, degraded: Vec<String>) -> BrokerStatusResult {
    BrokerStatusResult { state, broker: None, lock, ledger: None, sessions: None, degraded }
}

/// The name of a state and what its colour means.
pub(super) fn state_name(state: RunState) -> (&'static str, Tone) {
    match state {
        RunState::Running => ("running", Tone::Good),
        RunState::Absent => ("absent", Tone::Faint),
        RunState::Starting => ("starting", Tone::Notable),
        RunState::Draining => ("draining", Tone::Notable),
        RunState::Unresponsive => ("unresponsive", Tone::Bad),
        RunState::Blocked => ("blocked", Tone::Bad),
    }
}

fn screen(status: &BrokerStatusResult, root: &str, output: &Output) -> String {
    let (name, tone) = state_name(status.state);
    let mut fields = vec![("state", output.tone(tone, name)), ("root", text::plain(root))];
    if let Some(broker) = &status.broker {
        let since = sessions::time(broker.started_at);
        fields.push(("broker", format!("pid {}  generation {}  since {since}", broker.pid, broker.generation)));
        fields.push(("version", text::plain(&broker.version)));
        fields.push(("endpoint", text::plain(&broker.endpoint)));
        fields.push(("incarnation", text::plain(&broker.incarnation)));
    }
    fields.push(("lock", lock_line(&status.lock)));
    fields.extend(status.ledger.as_ref().map(|head| ("ledger", format!("{}:{}", head.seq, text::plain(&head.digest)))));
    fields.extend(status.sessions.map(|count| ("sessions", format!("{} live of {}", count.live, count.total))));
    if status.sessions.is_none() && status.ledger.is_some() {
        fields.push(("sessions", "not counted without a broker; live ones go on in their hosts".to_owned()));
    }
    fields.extend(status.degraded.iter().map(|trouble| ("trouble", output.tone(Tone::Bad, &text::plain(trouble)))));
    fields.iter().map(|(name, value)| format!("{name:<12} {value}\n")).collect()
}

pub(super) fn lock_line(lock: &LockState) -> String {
    let held = match lock.held {
        Some(true) => "held",
        Some(false) => "free",
        None => "not known",
    };
    let Some(owner) = &lock.owner else { return held.to_owned() };
    let lives = match (owner.released, lock.owner_lives) {
        (true, _) => "left in order",
        (false, Some(true)) => "lives",
        (false, Some(false)) => "is dead",
        (false, None) => "cannot be judged from here",
    };
    format!("{held}; owner pid {} {lives}", owner.pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_evidence_has_its_state() {
        let mut lines = Vec::new();
        for obstructed in [false, true] {
            for held in [Some(true), Some(false), None] {
                for owner_lives in [Some(true), Some(false), None] {
                    for (published, leaving) in [(false, false), (false, true), (true, false), (true, true)] {
                        let state = judge(Evidence { obstructed, held, owner_lives, published, leaving });
                        let is_held = held == Some(true) || (held.is_none() && owner_lives == Some(true));
                        let expected = match (obstructed, held, is_held, leaving, published) {
                            (true, _, _, _, _) => RunState::Blocked,
                            (_, Some(false), _, _, _) => RunState::Absent,
                            (_, _, false, _, _) => RunState::Blocked,
                            (_, _, true, true, _) => RunState::Draining,
                            (_, _, true, false, true) => RunState::Unresponsive,
                            (_, _, true, false, false) => RunState::Starting,
                        };
                        assert_eq!(state, expected);
                        lines.push(state_name(state).0);
                    }
                }
            }
        }
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines, ["absent", "blocked", "draining", "starting", "unresponsive"], "running needs an answer");
    }
}
