//! `ledger retire`, asked by an operator: over the wire, or where no broker runs, under the writer lock. What goes and what holds
//! the rest is the turn's to say (`retiring`); here it is put into words.

use super::desk::now;
use super::front::Front;
use super::inbox::Post;
use super::retiring::{Held, HeldBy, Order, Retirement};
use super::start::{self, open_ledger};
use super::turn::Fatal;
use crate::machine::{Scope, limits::Retention};
use crate::os::paths::StateRoot;
use crate::rpc::convert::storage_code;
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::service::Caller;
use crate::rpc::wire::{
    Encoded, HeldFor, LedgerHead, LedgerHeld, LedgerRetireParams, LedgerRetireResult, decode, encode,
};
use ostler_ledger::{AppendError, Ledger, RetireError, Storage};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use tokio::sync::oneshot;

/// Microseconds of a day.
const DAY_US: u64 = 24 * 3_600 * 1_000_000;

impl Front {
    /// Retires what can go.
    pub(super) async fn retire(&self, caller: &Caller, params: Value) -> Result<Encoded, WireError> {
        let LedgerRetireParams { remove, dry_run } = decode(params)?;
        if self.scope(caller) != Scope::Owner {
            return Err(super::refused::refused(&crate::machine::Refusal::OwnerOnly));
        }
        let act = json!({ "pid": caller.peer.pid, "session": null, "uid": caller.peer.uid });
        let (done, retired) = oneshot::channel();
        self.inbox.post(Post::Retire(Order { keep: !remove, dry_run, act }, done)).await;
        let retired = retired.await.map_err(|_| unanswered())?.map_err(|error| unretired(&error))?;
        if !dry_run && let Some(last) = retired.segments.last() {
            self.retired.fetch_max(last.last, Ordering::Relaxed);
            self.events.forget();
        }
        let head = self.view.head();
        Ok(encode(&result(retired, LedgerHead { seq: head.seq, digest: head.digest.to_string() })))
    }
}

/// The turn ended first.
fn unanswered() -> WireError {
    let message = "the broker left before it answered; asking again does no harm";
    WireError::new(ErrorCode::Draining, message).reason("unsettled").with("changed", "not known")
}

/// Opens the ledger as a start does and retires what can go, or tells what would. Nobody else can write meanwhile.
///
/// # Errors
/// `broker_blocked` if another process writes, and what keeps the ledger from being opened, read or written.
pub fn without_broker(root: &StateRoot, order: &Order) -> Result<LedgerRetireResult, WireError> {
    let (mut turn, recovery) = open_ledger(root, &start::boot()?)?;
    if turn.view().head().seq == 0 {
        let message = "the ledger has no records; nothing was written";
        return Err(WireError::new(ErrorCode::NotFound, message).reason("ledger"));
    }
    let time = now();
    if !order.dry_run {
        let recorded = turn.record(time, &recovery.owed).map_err(|error| unsynced(&error))?;
        recorded.map_err(|error| unretired(&RetireError::Append(error)))?;
    }
    let retired = turn.retire(time, order).map_err(|error| unsynced(&error))?.map_err(|error| unretired(&error))?;
    // A start need not read all that is left.
    if let Some(snapshot) = turn.snapshot(true).filter(|_| !order.dry_run)
        && let Err(error) = snapshot.write(&super::disk::disk(root.path()))
    {
        tracing::warn!(%error, "no snapshot was taken");
    }
    Ok(result(retired, head_of(&turn.into_ledger())))
}

fn head_of<S: Storage>(ledger: &Ledger<S>) -> LedgerHead {
    let head = ledger.head();
    LedgerHead { seq: head.seq, digest: head.digest.to_string() }
}

fn result(retired: Retirement, ledger: LedgerHead) -> LedgerRetireResult {
    let Retirement { segments, carried_bytes, held, left } = retired;
    let (first, last) = (segments.first().map(|segment| segment.first), segments.last().map(|segment| segment.last));
    LedgerRetireResult {
        segments: wide(segments.len()),
        records: first.zip(last).map_or(0, |(first, last)| last - first + 1),
        bytes: segments.iter().map(|segment| segment.bytes).sum(),
        first,
        last,
        carried_bytes,
        held: held.map(told),
        left,
        ledger,
    }
}

fn told(held: Held) -> LedgerHeld {
    let Held { seq, segments, by } = held;
    let ((kind, text), mut session_id, mut operation) = (words(&by), None, None);
    match by {
        HeldBy::Session(id) => session_id = Some(id.to_string()),
        HeldBy::Operation { id, .. } => operation = Some(id.to_string()),
        HeldBy::Key(_) | HeldBy::Damage(_) => {}
    }
    LedgerHeld { seq, segments: wide(segments), by: kind, session_id, operation, text }
}

/// Why it stays, and what lets it go.
fn words(by: &HeldBy) -> (HeldFor, String) {
    match by {
        HeldBy::Session(id) => (
            HeldFor::Session,
            format!("session {id} is listed; `ostler delete {id}` or `ostler prune` takes it off the list"),
        ),
        HeldBy::Operation { id, open: true } => {
            (HeldFor::Operation, format!("{id} has no certain outcome yet; `ostler operation show {id}` tells more"))
        }
        HeldBy::Operation { id, open: false } => {
            (HeldFor::Operation, format!("{id} is among the latest operations, which are kept in full"))
        }
        HeldBy::Key(Retention { window_us, settled, .. }) => {
            let days = window_us / DAY_US;
            let text =
                format!("its key is known for {days} days, and as one of the last {settled} at least, by its records");
            (HeldFor::Key, text)
        }
        HeldBy::Damage(file) => {
            let text =
                format!("{file} is damaged or has no proof, and stays as evidence; `ostler ledger verify` tells more");
            (HeldFor::Damage, text)
        }
    }
}

fn unretired(error: &RetireError) -> WireError {
    let (code, reason) = match error {
        RetireError::Append(AppendError::StorageFull(_)) => (ErrorCode::StorageFull, "ledger"),
        RetireError::Archive(_) => (ErrorCode::StorageFailed, "archive"),
        RetireError::Storage(source) => (storage_code(source), "ledger"),
        RetireError::Unprovable(_) => (ErrorCode::Integrity, "ledger"),
        RetireError::Append(_) | RetireError::Sync(_) => (ErrorCode::StorageFailed, "ledger"),
        RetireError::NotSealed { .. } | RetireError::NotCarried(_) | RetireError::Unsynced => {
            (ErrorCode::Internal, "ledger")
        }
    };
    let wire = WireError::new(code, format!("{error}; nothing was retired")).reason(reason);
    match error {
        RetireError::Archive(_) => {
            let remedy = "ostler ledger export -o FILE for a copy elsewhere, then ostler ledger retire --remove --yes";
            wire.with("remedy", remedy)
        }
        RetireError::Append(AppendError::StorageFull(_)) => {
            let changed = "nothing that counts: the state has to be stated again before anything goes, and what of it was written means nothing";
            let remedy =
                "make room for the bytes that ostler ledger retire --dry-run tells, and the same command again";
            wire.with("changed", changed).with("remedy", remedy)
        }
        RetireError::Append(_)
        | RetireError::NotSealed { .. }
        | RetireError::Unprovable(_)
        | RetireError::NotCarried(_)
        | RetireError::Unsynced
        | RetireError::Sync(_)
        | RetireError::Storage(_) => wire,
    }
}

fn unsynced(Fatal::Sync(error): &Fatal) -> WireError {
    let message = format!("{error}; whether anything is retired, `ostler ledger tail --type retire` tells");
    WireError::new(ErrorCode::StorageFailed, message).with("changed", "not known")
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
