//! The first question of every request: was its key used before (law 5)? Then there is an outcome, or a conflict. What is
//! not known may be executed only if it cannot have been forgotten, and if it can be remembered.
//!
//! | key | and | answer |
//! | --- | --- | --- |
//! | known | same request | its one operation |
//! | known | another request | `key_conflict` |
//! | known | digested under a secret that is lost | `uncertain` |
//! | may belong to an operation that was let go | its records are not read back | read them and ask again |
//! | | they cannot be read | `uncertain`: never executed |
//! | unknown | tells a time before the window | `key_expired`: never executed |
//! | unknown | no room to remember it | `capacity` |
//! | unknown | else | it is new |

use super::decide::{Answer, Decision, refused};
use super::event::{Conflict, Event};
use super::id::{Digest, Key, Scope};
use super::input::{Action, Recalled, Request};
use super::limits;
use super::operation::{Operation, Outcome};
use super::refusal::Refusal;
use super::retain::{Known, believed_us, made_us};
use super::state::State;
use super::time::Time;
use std::sync::Arc;

/// The decision of a request whose key is not new; none if it is.
pub(super) fn asked_before(state: &State, now: Time, request: &Request) -> Option<Decision> {
    let rows = match state.known(&request.scope, &request.key) {
        Known::Here(operation) => {
            return Some(again(request, operation, Answer::Operation { id: operation.id, replayed: true }));
        }
        Known::Perhaps(rows) => rows,
        Known::Nowhere => Vec::new(),
    };
    // A fingerprint decides nothing: scope and key are compared in full. What was read back for this call holds, even if it was forgotten
    // while the call was on its way.
    let is_meant = |operation: &&Arc<Operation>| {
        operation.scope == request.scope && operation.key == request.key && operation.state != Outcome::Aborted
    };
    if let Some(operation) = request.recalled.iter().filter_map(Recalled::operation).find(is_meant) {
        return Some(again(request, operation, Answer::Recalled(Arc::clone(operation))));
    }
    let mut unreadable = None;
    for row in &rows {
        match request.recalled.iter().find(|recalled| recalled.id() == row.operation()) {
            Some(Recalled::Read(_)) => {}
            Some(Recalled::Unreadable(id)) => unreadable = Some(*id),
            None => return Some(Decision { events: Vec::new(), answer: Answer::Recall(rows) }),
        }
    }
    let refusal = unreadable.map(|operation| Refusal::Unreadable { operation });
    refusal.or_else(|| unknown(state, now, request)).map(refused)
}

/// Whether this operation is what a request with this key comes to, and settled. Then nobody need ask the turn for it: the view holds
/// nothing that is not durable, and a settled outcome never changes (laws 6 and 7).
pub fn is_settled_by(operation: &Operation, (scope, key): (&Scope, &Key), digest: Digest) -> bool {
    let settled = matches!(operation.state, Outcome::Succeeded | Outcome::Failed);
    settled && operation.scope == *scope && operation.key == *key && operation.request == digest
}

fn again(request: &Request, known: &Operation, answer: Answer) -> Decision {
    if known.request == request.digest {
        return Decision { events: Vec::new(), answer };
    }
    let (operation, given) = (known.id, request.digest);
    if operation.0 < request.digests_since {
        return refused(Refusal::Incomparable { operation, state: known.state });
    }
    let body = Conflict { scope: request.scope.clone(), key: request.key.clone(), operation, given };
    let refusal = Refusal::KeyConflict { operation, stored: known.request, given };
    Decision { events: vec![Event::Conflict { body }], answer: Answer::Refused(refusal) }
}

/// Why a key that is not known is not taken, if so.
fn unknown(state: &State, now: Time, request: &Request) -> Option<Refusal> {
    let capacity = |what, limit| Some(Refusal::Capacity { what, limit });
    let until_us = now.wall_us.saturating_sub(state.retention.window_us).max(state.past.expired_us());
    // Also of a time that is not believed: the clock may have been right when the key was used first.
    if made_us(&request.key).is_some_and(|made_us| made_us <= until_us) {
        return Some(Refusal::KeyExpired { until_us });
    }
    let free_form = believed_us(&request.key, now.wall_us).is_none();
    if free_form && state.free_form >= state.retention.free_form {
        return capacity("free-form keys", state.retention.free_form);
    }
    let starts = matches!(request.action, Action::Spawn { .. } | Action::Resume { .. });
    let known = state.retention.known + if starts { 0 } else { limits::OPERATIONS_IN_RESERVE };
    if state.known_operations() >= known {
        return capacity("known operations", known);
    }
    if starts && state.operations.len() >= limits::OPERATIONS_IN_FULL {
        return capacity("unsettled operations", limits::OPERATIONS_IN_FULL);
    }
    None
}
