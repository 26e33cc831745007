//! Operations that were let go, read back from the ledger: the accepting record and the last one, nothing else. Reading
//! takes no lock and never enters the turn. What cannot be read is logged and said to be so, never guessed.

use super::codec;
use crate::machine::{At, Digest, Event, Footprint, Operation, OperationId, Recalled, recalled};
use ostler_ledger::{ReadError, Record, Storage, record_at};
use std::sync::Arc;

/// Single records, by position: the ledger, or what stands in for it in a test.
pub trait Lookup {
    /// The durable record at this position; none if it is not there or does not verify.
    ///
    /// # Errors
    /// [`ReadError`] when the ledger cannot be read.
    fn record(&self, seq: u64) -> Result<Option<Record>, ReadError>;
}

impl<S: Storage> Lookup for S {
    fn record(&self, seq: u64) -> Result<Option<Record>, ReadError> {
        record_at(self, seq)
    }
}

/// Reads one operation back.
pub fn recall(ledger: &dyn Lookup, footprint: &Footprint) -> Recalled {
    let id = footprint.operation();
    let read = || -> Option<Operation> {
        let (first, at, _) = event(ledger, id.0)?;
        let (last, last_at, digest) = event(ledger, footprint.last())?;
        recalled((&first, at), (&last, last_at, digest))
    };
    match read() {
        Some(operation) => Recalled::Read(Arc::new(operation)),
        None => Recalled::Unreadable(id),
    }
}

/// The record that accepted an operation, if that is what stands there. Whoever asks for any number may ask for one that was
/// retired.
pub fn accepting(ledger: &dyn Lookup, id: OperationId) -> Option<Event> {
    let is_there = ledger.record(id.0).is_ok_and(|record| record.is_some());
    let found = if is_there { event(ledger, id.0) } else { None };
    found.map(|(event, ..)| event).filter(|event| matches!(event, Event::Accept { .. }))
}

fn event(ledger: &dyn Lookup, seq: u64) -> Option<(Event, At, Digest)> {
    let read = || -> Result<_, String> {
        let record = ledger.record(seq).map_err(|error| error.to_string())?;
        let record = record.ok_or("it is not there, or does not verify")?;
        let event = codec::event(&record).map_err(|error| error.to_string())?;
        Ok(event.map(|(event, at)| (event, at, Digest(record.digest.0))))
    };
    read().unwrap_or_else(|why| {
        tracing::error!(seq, why, "a record cannot be read back");
        None
    })
}
