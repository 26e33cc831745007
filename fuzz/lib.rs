//! Fuzz targets as plain functions: every parser that meets bytes from outside, with what must hold for any bytes at all. A
//! target fails by panicking; what it returns says whether the bytes were understood.
//!
//! `cargo test -p ostler-fuzz` replays the committed seeds (`corpora/TARGET/`) and fixed-seed mutations of them; the wrappers in
//! `fuzz_targets/` hand the same functions to libFuzzer. How to use them: docs/TESTING.md.

mod broker;
mod frame;
mod host;
mod key;
mod ledger;
mod machine;
mod mutate;
mod proof;
#[cfg(test)]
mod replay;
mod snapshot;
mod structure;
#[cfg(test)]
mod timed;
mod wire;

pub use broker::{discovery_record, owner_record, start_report};
pub use frame::frame;
pub use host::{exit_record, host_record, host_wire, spec};
pub use key::key;
use ledger::{chained, sealed};
pub use ledger::{ledger_line, ledger_segment, ledger_slice};
pub use machine::stored_events;
pub use proof::ledger_proof;
pub use snapshot::ledger_snapshot;
pub use wire::{argument, wire_error, wire_parameters, wire_results};

/// One target with the name of its corpus.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The function's name, and its folder under `corpora/`.
    pub name: &'static str,
    /// Takes any bytes; panics if something does not hold. True if they were understood.
    pub run: fn(&[u8]) -> bool,
    /// Makes right in changed bytes what every change breaks, so that what stands behind a digest is reached.
    pub mend: Option<Mend>,
}

/// Bytes to bytes.
pub type Mend = fn(&[u8]) -> Vec<u8>;

const fn target(name: &'static str, run: fn(&[u8]) -> bool) -> Target {
    Target { name, run, mend: None }
}

/// Every target.
pub const TARGETS: &[Target] = &[
    target("argument", argument),
    target("discovery_record", discovery_record),
    target("exit_record", exit_record),
    target("frame", frame),
    target("host_record", host_record),
    target("host_wire", host_wire),
    target("key", key),
    Target { mend: Some(chained), ..target("ledger_line", ledger_line) },
    Target { mend: Some(sealed), ..target("ledger_segment", ledger_segment) },
    target("ledger_proof", ledger_proof),
    target("ledger_slice", ledger_slice),
    target("ledger_snapshot", ledger_snapshot),
    target("owner_record", owner_record),
    target("spec", spec),
    target("start_report", start_report),
    target("stored_events", stored_events),
    target("wire_error", wire_error),
    target("wire_parameters", wire_parameters),
    target("wire_results", wire_results),
];

/// Reads `bytes` as a JSON document of type `D`. If it is one, then what is written of it is read again and written the same,
/// so that what one process stores the next one understands.
fn round_trip<D: serde::Serialize + serde::de::DeserializeOwned>(bytes: &[u8]) -> Option<D> {
    let document: D = serde_json::from_slice(bytes).ok()?;
    let written = serde_json::to_vec(&document).expect("what was read can be written");
    match serde_json::from_slice::<D>(&written) {
        Err(error) => panic!("written as {} and then not read: {error}", written.escape_ascii()),
        Ok(again) => {
            let twice = serde_json::to_vec(&again).expect("what was read can be written");
            assert!(written == twice, "{} becomes {}", written.escape_ascii(), twice.escape_ascii());
        }
    }
    Some(document)
}
