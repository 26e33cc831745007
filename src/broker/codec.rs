//! The seam between the machine's events and the ledger's records. The event is the stored form; the ledger adds
//! position, chains and clocks. Records of the ledger's own (segments, marks, recoveries) carry no event.

use super::stored::read;
use crate::machine::{At, Event, SessionId, Time};
use crate::rpc::wire::Timestamp;
use ostler_ledger::{Entry, Record};
use serde_json::Value;
use std::collections::BTreeSet;

/// Record types that tell no event: those that the ledger writes for itself, and the state stated again, which the fold takes
/// by another way.
const NO_EVENT: [&str; 8] = ["segment", "mark", "gap", "recovered", "carry", "retire", "seal", "accepted"];

/// A record that this build cannot read. Unknown events stop a start: guessing would be worse.
#[derive(Debug, thiserror::Error)]
#[error("record {seq} of type {kind:?} cannot be read by this version: {why}")]
pub struct Unreadable {
    /// Its ledger position.
    pub seq: u64,
    /// Its type.
    pub kind: String,
    /// What is wrong with it.
    pub why: String,
}

/// What the ledger adds to an entry at the most, in bytes: digests, chains, clocks, names.
pub(super) const ADDED_BYTES: usize = 700;

/// The event as the ledger takes it, and about how many bytes its line will have at the most.
pub fn entry(event: &Event) -> (Entry, usize) {
    let stored = serde_json::to_value(event).expect("an event has string keys and no floats");
    let bytes = bytes_at_most(&stored) + ADDED_BYTES;
    let Value::Object(mut members) = stored else { unreachable!("an event is stored as an object") };
    let text = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
    let t = text(members.remove("t")).expect("an event names its type");
    let sid = text(members.remove("sid"));
    let ep = members.remove("ep").and_then(|value| value.as_u64()).and_then(|ep| u32::try_from(ep).ok());
    (Entry { t, sid, ep, fin: false, members }, bytes)
}

/// The event that a record holds, or none if it tells none.
///
/// # Errors
/// [`Unreadable`] for a type or a form that this build does not know.
pub fn event(record: &Record) -> Result<Option<(Event, At)>, Unreadable> {
    if NO_EVENT.contains(&record.header.t.as_str()) {
        return Ok(None);
    }
    let unreadable = |why: String| Unreadable { seq: record.header.seq, kind: record.header.t.clone(), why };
    let event = read(record).map_err(unreadable)?;
    let time = time(record).ok_or_else(|| unreadable("its time is not a time".to_owned()))?;
    Ok(Some((event, At { seq: record.header.seq, time })))
}

/// When a record was written.
pub(super) fn time(record: &Record) -> Option<Time> {
    let at: Timestamp = record.header.at.parse().ok()?;
    Some(Time { wall_us: at.us(), boot_us: record.header.mono })
}

/// The session in whose chain the event stands.
pub fn session_of(event: &Event) -> Option<&SessionId> {
    match event {
        Event::Accept { sid, .. } | Event::Finish { sid, .. } => sid.as_ref(),
        Event::Host { sid, .. } | Event::Session { sid, .. } | Event::Fence { sid, .. } => Some(sid),
        Event::Generation { .. } | Event::Beat { .. } | Event::Conflict { .. } | Event::Operator { .. } => None,
    }
}

/// The sessions that these events speak of.
pub fn touched(events: &[Event]) -> BTreeSet<SessionId> {
    events.iter().filter_map(session_of).cloned().collect()
}

/// How long a value's text is at the most.
fn bytes_at_most(value: &Value) -> usize {
    let text =
        |text: &str| 2 + text.len() + 5 * text.bytes().filter(|byte| matches!(byte, ..0x20 | b'"' | b'\\')).count();
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 20,
        Value::String(value) => text(value),
        Value::Array(items) => 2 + items.iter().map(|item| 1 + bytes_at_most(item)).sum::<usize>(),
        Value::Object(members) => {
            2 + members.iter().map(|(name, value)| 2 + text(name) + bytes_at_most(value)).sum::<usize>()
        }
    }
}
