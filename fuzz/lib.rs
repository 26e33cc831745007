//! Fuzz targets as plain functions: every parser that meets bytes from outside, with what must hold for any bytes at all. A
//! target fails by panicking; what it returns says whether the bytes were understood.
//!
//! `cargo test -p ostler-fuzz` replays the committed seeds (`corpora/TARGET/`) and fixed-seed mutations of them; the wrappers in
//! `fuzz_targets/` hand the same functions to libFuzzer. How to use them: docs/TESTING.md.

mod broker;
mod frame;
mod host;
mod ledger;
mod machine;
mod mutate;
#[cfg(test)]
mod replay;
mod wire;

pub use broker::{discovery_record, owner_record, start_report};
pub use frame::frame;
pub use host::{exit_record, host_record, host_wire, spec};
pub use ledger::{ledger_line, ledger_segment, ledger_slice};
pub use machine::stored_events;
pub use wire::{argument, wire_error, wire_parameters, wire_results};

/// One target with the name of its corpus.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The function's name, and its folder under `corpora/`.
    pub name: &'static str,
    /// Takes any bytes; panics if something does not hold. True if they were understood.
    pub run: fn(&[u8]) -> bool,
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target { name: "argument", run: argument },
    Target { name: "discovery_record", run: discovery_record },
    Target { name: "exit_record", run: exit_record },
    Target { name: "frame", run: frame },
    Target { name: "host_record", run: host_record },
    Target { name: "host_wire", run: host_wire },
    Target { name: "ledger_line", run: ledger_line },
    Target { name: "ledger_segment", run: ledger_segment },
    Target { name: "ledger_slice", run: ledger_slice },
    Target { name: "owner_record", run: owner_record },
    Target { name: "spec", run: spec },
    Target { name: "start_report", run: start_report },
    Target { name: "stored_events", run: stored_events },
    Target { name: "wire_error", run: wire_error },
    Target { name: "wire_parameters", run: wire_parameters },
    Target { name: "wire_results", run: wire_results },
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
