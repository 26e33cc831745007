//! The seam between the machine's events and the ledger's records. The event is the stored form; the ledger adds
//! position, chains and clocks. Records of the ledger's own (segments, marks, recoveries) carry no event.

use super::stored::read;
use crate::machine::{At, Event, SessionId, Time};
use crate::rpc::wire::Timestamp;
use ostler_ledger::{Entry, Record};
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
    let entry = Entry::of(event).expect("an event is an object of the format, without floats");
    let bytes = entry.members.bytes() + ADDED_BYTES;
    (entry, bytes)
}

/// Whether a record of this type tells an event.
pub fn tells_event(kind: &str) -> bool {
    !NO_EVENT.contains(&kind)
}

/// The event that a record holds, or none if it tells none.
///
/// # Errors
/// [`Unreadable`] for a type or a form that this build does not know.
pub fn event(record: &Record) -> Result<Option<(Event, At)>, Unreadable> {
    if !tells_event(&record.header.t) {
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
        Event::Host { sid, .. }
        | Event::Session { sid, .. }
        | Event::Fence { sid, .. }
        | Event::Message { sid, .. }
        | Event::Queue { sid, .. }
        | Event::Notice { sid, .. } => Some(sid),
        Event::Generation { .. } | Event::Beat { .. } | Event::Conflict { .. } | Event::Operator { .. } => None,
    }
}

/// The sessions that these events speak of.
pub fn touched(events: &[Event]) -> BTreeSet<SessionId> {
    events.iter().filter_map(session_of).cloned().collect()
}
