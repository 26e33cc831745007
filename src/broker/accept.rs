//! Findings of the ledger that an operator accepts: recorded with who and why, by the broker or, where none runs, under the writer
//! lock. They stop being problems; fences stay, because no record comes back.

use super::desk::now;
use super::front::Front;
use super::inbox::Post;
use super::start::bare_ledger;
use crate::machine::{Scope, limits};
use crate::os::paths::StateRoot;
use crate::rpc::convert::storage_code;
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::service::Caller;
use crate::rpc::wire::{Encoded, LedgerAcceptParams, LedgerAcceptResult, LedgerHead, decode, encode};
use ostler_ledger::{
    AppendError, Finding, Ledger, Position, Problem, Recovery, Stamp, SyncError, VerifyOptions, VerifyReport, accepted,
    turns_of, verify,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use tokio::sync::oneshot;

/// So many findings are accepted at once; a ledger with more is another case.
const FINDINGS_MAX: usize = 10_000;

/// One line of what is degraded from the start on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    text: String,
    /// The finding that it tells of, if it is one. A tail's record came later, so its number is not known.
    finding: Option<Finding>,
}

impl Standing {
    /// Of something that is no finding of the ledger.
    pub fn of(text: String) -> Standing {
        Standing { text, finding: None }
    }

    /// What a recovery found that stays degraded.
    pub fn found(recovery: &Recovery) -> impl Iterator<Item = Standing> {
        let problems = recovery.problems.iter().map(Standing::from);
        let tail = recovery.tail.iter().map(|tail| {
            let (class, offset, segment) = (tail.class, tail.offset, tail.segment.clone());
            Standing { text: tail.line(), finding: Some(Finding { class, first: None, missing: 0, offset, segment }) }
        });
        let known: Vec<Standing> = problems.chain(tail).collect();
        recovery.degraded.iter().map(move |text| {
            let known = known.iter().find(|known| known.text == *text);
            known.cloned().unwrap_or_else(|| Standing::of(text.clone()))
        })
    }

    /// `retired`: the last record that left the ledger, with what was said of its segment.
    fn is_settled_by(&self, accepted: &BTreeSet<Finding>, retired: u64) -> bool {
        self.finding.as_ref().is_some_and(|own| {
            let first_seq = own.segment.get(..20).and_then(|digits| digits.parse::<u64>().ok());
            first_seq.is_some_and(|first_seq| first_seq <= retired)
                || accepted.iter().any(|other| {
                    let first = own.first.or(other.first);
                    Finding { first, ..own.clone() } == *other
                })
        })
    }
}

impl From<&Problem> for Standing {
    fn from(problem: &Problem) -> Standing {
        Standing { text: problem.line(), finding: Some(Finding::from(problem)) }
    }
}

impl Front {
    /// Records that an operator accepts findings. They are the ones that the operator saw: a new one is not among them.
    pub(super) async fn accept(&self, caller: &Caller, params: Value) -> Result<Encoded, WireError> {
        let params: LedgerAcceptParams = decode(params)?;
        if self.scope(caller) != Scope::Owner {
            return Err(super::refused::refused(&crate::machine::Refusal::OwnerOnly));
        }
        check_reason(&params.reason)?;
        let invalid = |message| WireError::new(ErrorCode::InvalidInput, message).reason("findings");
        if params.findings.len() > FINDINGS_MAX {
            return Err(invalid(format!("at most {FINDINGS_MAX} findings can be accepted at once")));
        }
        let findings = serde_json::to_value(&params.findings).and_then(serde_json::from_value::<Vec<Finding>>);
        let findings = findings.map_err(|error| invalid(format!("a finding cannot be read: {error}")))?;
        let act = json!({ "pid": caller.peer.pid, "session": null, "uid": caller.peer.uid });
        let entries = accepted(&findings, &act, &params.reason);
        let head = if entries.is_empty() { self.view.head() } else { self.record(entries).await? };
        let accepted = u64::try_from(findings.len()).unwrap_or(u64::MAX);
        self.accepted.lock().expect("nobody panics over it").extend(findings);
        let ledger = LedgerHead { seq: head.seq, digest: head.digest.to_string() };
        Ok(encode(&LedgerAcceptResult { accepted, ledger }))
    }

    /// What was found at the start or by the scrub, and no operator has accepted.
    pub(super) fn standing(&self) -> Vec<String> {
        let accepted = self.accepted.lock().expect("nobody panics over it");
        let scrubbed = self.scrubbed.borrow();
        let retired = self.retired.load(Ordering::Relaxed);
        let all = self.standing.iter().chain(scrubbed.iter());
        let standing = all.filter(|line| !line.is_settled_by(&accepted, retired));
        standing.map(|line| line.text.clone()).collect()
    }

    async fn record(&self, entries: Vec<ostler_ledger::Entry>) -> Result<super::view::Head, WireError> {
        let (done, written) = oneshot::channel();
        self.inbox.post(Post::Own(entries, done)).await;
        match written.await {
            Ok(Ok(_position)) => Ok(self.view.head()),
            Ok(Err(error)) => Err(unappended(&error)),
            Err(_) => Err(super::inbox::leaving()),
        }
    }
}

/// Why the operator accepts it: some words, and not too many for a record.
///
/// # Errors
/// `invalid_input`.
pub fn check_reason(reason: &str) -> Result<(), WireError> {
    if (1..=limits::REASON_BYTES).contains(&reason.trim().len()) && reason.len() <= limits::REASON_BYTES {
        return Ok(());
    }
    let message = format!("a reason has 1 to {} bytes", limits::REASON_BYTES);
    Err(WireError::new(ErrorCode::InvalidInput, message).reason("reason"))
}

/// What accepting without a broker came to.
#[derive(Debug)]
pub struct Accepted {
    /// What was found before, and is accepted.
    pub before: VerifyReport,
    /// The newest durable record.
    pub head: Position,
}

/// Recovers the ledger as a start does, and accepts everything that is found then. Nobody else can write meanwhile.
///
/// # Errors
/// `broker_blocked` if another process writes, and what keeps the ledger from being opened or written.
pub fn without_broker(root: &StateRoot, act: &Value, reason: &str) -> Result<Accepted, WireError> {
    check_reason(reason)?;
    let (mut ledger, recovery) = bare_ledger(root)?;
    let last = ledger.record(ledger.head().seq).map_err(|error| unread(&error))?;
    let Some(last) = last else {
        let message = "the ledger has no records; nothing was written";
        return Err(WireError::new(ErrorCode::NotFound, message).reason("ledger"));
    };
    let time = now();
    let stamp = Stamp { at_us: time.wall_us, mono_us: time.boot_us, bg: last.header.bg };
    write(&mut ledger, &recovery.owed, &stamp)?;
    let before = verify(ledger.storage(), &VerifyOptions::default()).map_err(|error| unread(&error))?;
    let findings: Vec<Finding> = before.problems.iter().map(Finding::from).collect();
    write(&mut ledger, &accepted(&findings, act, reason), &stamp)?;
    Ok(Accepted { before, head: ledger.head() })
}

fn write<S: ostler_ledger::Storage>(
    ledger: &mut Ledger<S>,
    entries: &[ostler_ledger::Entry],
    stamp: &Stamp,
) -> Result<(), WireError> {
    for turn in turns_of(entries) {
        ledger.append(turn, stamp).map_err(|error| unappended(&error))?;
        ledger.sync().map_err(|error| unsynced(&error))?;
    }
    Ok(())
}

fn unappended(error: &AppendError) -> WireError {
    let code = match error {
        AppendError::StorageFull(_) => ErrorCode::StorageFull,
        // What the record cannot hold came with the findings.
        AppendError::Entry { .. } | AppendError::BatchTooLarge { .. } => ErrorCode::InvalidInput,
        AppendError::SyncFirst { .. } | AppendError::StorageFailed(_) | AppendError::Poisoned => {
            ErrorCode::StorageFailed
        }
    };
    WireError::new(code, format!("{error}; not all of it is accepted, and asking again does no harm")).reason("ledger")
}

fn unsynced(error: &SyncError) -> WireError {
    WireError::new(ErrorCode::StorageFailed, format!("{error}; whether it is accepted, ledger verify tells"))
}

fn unread(error: &ostler_ledger::ReadError) -> WireError {
    let code = match error {
        ostler_ledger::ReadError::Io(source) => storage_code(source),
        ostler_ledger::ReadError::TooNew { .. } => ErrorCode::Integrity,
    };
    WireError::new(code, error.to_string())
}
