//! One request that changes something, until it is answered: under the same key over every break, as any caller does who wants to
//! know. And what an answer says of its operation.

use std::collections::BTreeMap;
use std::fmt;

use ostler::client::Client;
use ostler::os::deadline::Deadline;
use ostler::rpc::error::{ErrorCode, Retry, WireError};
use ostler::rpc::method::Method;
use serde_json::{Value, json};

use crate::support::{SOON, poll};

/// A request as it goes over the wire, its key included: sent again it is the same one.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) params: Value,
}

/// What an operation came to, as its caller was told.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) operation: String,
    pub(super) state: String,
    pub(super) replayed: bool,
    /// The session's document, where there is one.
    pub(super) session: Value,
    pub(super) survivors: Value,
}

impl Told {
    /// Errors are refusals: they bind nothing.
    pub(super) fn of(answer: Result<Value, WireError>) -> Result<Told, WireError> {
        let error = match answer {
            Ok(document) => return Ok(Told::of_document(&document)),
            Err(error) => error,
        };
        let member = |name: &str| error.data.get(name).cloned().unwrap_or_default();
        match (member("operation"), member("state")) {
            (Value::String(operation), Value::String(state)) => {
                let session = member("result")["session"].clone();
                Ok(Told { operation, state, replayed: member("replayed") == true, session, survivors: json!([]) })
            }
            _ => Err(error),
        }
    }

    fn of_document(document: &Value) -> Told {
        let of = &document["operation"];
        let text = |name: &str| of[name].as_str().unwrap_or_else(|| panic!("no operation: {document}")).to_owned();
        let (operation, state) = (text("id"), text("state"));
        let (session, survivors) = (document["session"].clone(), document["survivors"].clone());
        Told { operation, state, replayed: of["replayed"] == true, session, survivors }
    }

    /// Whether both tell the same of the same operation.
    pub(super) fn agrees(&self, other: &Told) -> bool {
        self.operation == other.operation && self.state == other.state
    }
}

/// How often each thing happened.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally(BTreeMap<String, u64>);

impl Tally {
    pub(super) fn add(&mut self, what: &str) {
        *self.0.entry(what.to_owned()).or_default() += 1;
    }

    pub(super) fn merge(&mut self, other: &Tally) {
        other.0.iter().for_each(|(what, times)| *self.0.entry(what.clone()).or_default() += times);
    }

    pub(super) fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each: Vec<String> = self.0.iter().map(|(what, times)| format!("{times} {what}")).collect();
        f.write_str(&if each.is_empty() { "none".to_owned() } else { each.join(", ") })
    }
}

/// Asks until there is an answer that will not change. What is uncertain is settled by evidence first.
pub(super) fn insist(client: &mut Client, ask: &Ask, troubles: &mut Tally) -> Result<Told, WireError> {
    let mut last = None;
    let answer = poll(SOON * 6, || {
        client.set_deadline(Deadline::after(SOON * 2));
        match Told::of(client.call(ask.method, ask.params.clone())) {
            Ok(told) if told.state == "uncertain" => {
                troubles.add(&format!("answers `uncertain` to {}", ask.method));
                reconcile(client, &told, troubles);
                last = Some(format!("{told:?}"));
                None
            }
            Ok(told) => Some(Ok(told)),
            Err(error) if error.code == ErrorCode::SessionFenced => {
                troubles.add("refusals because of a fence");
                let session = error.data.get("session_id").cloned().unwrap_or_default();
                settle(client, &session, troubles);
                last = Some(format!("{error:?}"));
                None
            }
            Err(error) if error.retry == Retry::Never => Some(Err(error)),
            Err(error) => {
                troubles.add(&format!("errors `{}`, asked again", error.code));
                last = Some(format!("{error:?}"));
                None
            }
        }
    });
    answer.unwrap_or_else(|| panic!("no answer to {ask:?}; the last: {last:?}"))
}

/// Settles the session of an operation whose outcome is not known.
fn reconcile(client: &mut Client, told: &Told, troubles: &mut Tally) {
    if let Ok(found) = client.call(Method::OperationGet, json!({"operation": told.operation})) {
        settle(client, &found["operation"]["session_id"], troubles);
    }
}

fn settle(client: &mut Client, session: &Value, troubles: &mut Tally) {
    match client.call(Method::SessionReconcile, json!({ "session": session })) {
        Ok(document) => {
            troubles.add(&format!("doubts settled by reconcile: the session is {}", document["session"]["status"]));
        }
        Err(error) => troubles.add(&format!("reconciles refused with `{}`", error.code)),
    }
}
