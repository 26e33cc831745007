//! What the system gives: descriptors, and a clock that agrees with what is written.

use ostler_ledger::record_at;
use ostler_ledger::storage::Disk;

use super::Check;
use crate::os::paths::StateRoot;
use crate::os::{clock, limits};
use crate::rpc::wire::{BrokerStatusResult, Timestamp};

/// Fewer than this and a broker cannot serve all its connections.
const DESCRIPTORS_MIN: u64 = 1_024;
/// A broker that uses more of a hundred of its own will soon have none.
const USED_PERCENT_MAX: u64 = 80;
/// Clocks may differ by this much without a word.
const AHEAD_US: u64 = 1_000_000;

/// How many descriptors a broker may have, and has.
pub(super) fn descriptors(status: Option<&BrokerStatusResult>) -> Check {
    const CHECK: &str = "descriptors";
    let broker = status.and_then(|status| status.broker.as_ref());
    if let Some(broker) = broker {
        return match limits::descriptors(broker.pid) {
            Ok((used, limit)) => of_broker(used, limit),
            Err(error) => Check::skip(CHECK, format!("those of the broker cannot be counted: {error}")),
        };
    }
    match limits::descriptors_max() {
        Ok(max) if max >= DESCRIPTORS_MIN => Check::ok(CHECK, format!("a broker may have {max}")),
        Ok(max) => Check::warn(CHECK, format!("a broker may have {max} only"), "raise the hard limit: ulimit -Hn"),
        Err(error) => Check::skip(CHECK, error.to_string()),
    }
}

fn of_broker(used: u64, limit: u64) -> Check {
    const CHECK: &str = "descriptors";
    let evidence = format!("the broker has {used} of {limit}");
    let is_near = used.saturating_mul(100) > limit.saturating_mul(USED_PERCENT_MAX);
    if is_near || limit < DESCRIPTORS_MIN {
        return Check::warn(CHECK, evidence, "raise the hard limit (ulimit -Hn), then ostler shutdown and any command");
    }
    Check::ok(CHECK, evidence)
}

/// Whether the newest record lies in the future: then the clock was set back, and the age of keys is counted wrongly.
pub(super) fn clock(root: &StateRoot) -> Check {
    const CHECK: &str = "clock";
    let storage = Disk::reading(root.path().join("ledger"));
    let head = match ostler_ledger::head(&storage) {
        Ok(head) if head.head.seq > 0 => head.head.seq,
        Ok(_) => return Check::skip(CHECK, "there is no record to compare it with"),
        Err(error) => return Check::skip(CHECK, error.to_string()),
    };
    let written = record_at(&storage, head).ok().flatten();
    match written.and_then(|record| record.header.at.parse::<Timestamp>().ok()) {
        Some(at) => compared(at.us(), clock::wall_us()),
        None => Check::skip(CHECK, "the newest record tells no time"),
    }
}

fn compared(written_us: u64, now_us: u64) -> Check {
    const CHECK: &str = "clock";
    let ahead_us = written_us.saturating_sub(now_us);
    if ahead_us <= AHEAD_US {
        return Check::ok(CHECK, "it is not behind the newest record");
    }
    let evidence = format!("the newest record was written {} s in its future: it was set back", ahead_us / 1_000_000);
    Check::warn(CHECK, evidence, "set the clock right; the order of records does not depend on it")
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_is_told() {
        assert_eq!(compared(5_000_000, 4_500_000).status, Status::Ok);
        assert_eq!(compared(5_000_000, 90_000_000).status, Status::Ok);
        let told = compared(90_000_000, 5_000_000);
        assert!(told.status == Status::Warn && told.evidence.contains("85 s"), "{told:?}");
    }

    #[test]
    fn a_broker_that_runs_out_of_descriptors_is_told() {
        assert_eq!(of_broker(100, 4_096).status, Status::Ok);
        assert_eq!(of_broker(4_000, 4_096).status, Status::Warn);
        assert_eq!(of_broker(10, 256).status, Status::Warn);
    }
}
