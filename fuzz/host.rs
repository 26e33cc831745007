//! The host's side: its wire, spoken by older and newer versions for weeks, and the files of an episode, torn by whatever tore them.

use crate::round_trip;
use ostler::host::spec::Spec;
use ostler::host::wire::{ExitRecord, HostRecord, Line, Report, RequestLine};

/// A line to a host, a line from it, and its report to its starter.
pub fn host_wire(bytes: &[u8]) -> bool {
    round_trip::<RequestLine>(bytes).is_some()
        | round_trip::<Line>(bytes).is_some()
        | round_trip::<Report>(bytes).is_some()
}

/// `spec.json`: what can be read is judged without a panic, and one that passes keeps to the limits that exec has.
pub fn spec(bytes: &[u8]) -> bool {
    let Some(spec) = round_trip::<Spec>(bytes) else { return false };
    let passes = spec.check().is_ok();
    if passes {
        assert!(!spec.command.is_empty() && spec.cwd.as_path().is_absolute());
        let strings = spec.command.iter().chain(spec.env.iter().flat_map(|variable| [&variable.name, &variable.value]));
        assert!(!strings.chain([&spec.cwd]).any(|text| text.has_nul()), "exec takes no NUL byte");
    }
    passes
}

/// `host.json`. Its secret is in no debug output.
pub fn host_record(bytes: &[u8]) -> bool {
    let Some(record) = round_trip::<HostRecord>(bytes) else { return false };
    let without = HostRecord { secret: String::new(), ..record.clone() };
    assert_eq!(format!("{record:?}"), format!("{without:?}"), "the secret is shown");
    true
}

/// `exit.json`.
pub fn exit_record(bytes: &[u8]) -> bool {
    round_trip::<ExitRecord>(bytes).is_some()
}
