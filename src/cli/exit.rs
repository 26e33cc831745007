//! Exit codes of the command line: a closed set, and the one place that maps error codes to them. Scripts rely on both (contract section 1),
//! so a new error code must be placed here before anything compiles.

use crate::rpc::error::ErrorCode;

/// How the program ends, other than with the code of a command that `run` ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    Done,
    Failed,
    Usage,
    NotFound,
    Conflict,
    Broker,
    Time,
    Rights,
    Integrity,
    Capacity,
    Protocol,
}

/// `run` could not do its work (as `env` and `timeout` say it).
pub(crate) const RUN_FAILED: u8 = 125;
/// `run`: the command was found and cannot be executed.
pub(crate) const RUN_CANNOT_EXECUTE: u8 = 126;
/// `run`: there is no such command.
pub(crate) const RUN_NOT_FOUND: u8 = 127;
/// `run`: the command was ended by signal n: this and n.
pub(crate) const RUN_SIGNAL_BASE: u8 = 128;
/// Standard output is gone: the code that a shell shows for a program that SIGPIPE ended.
pub(crate) const OUTPUT_CLOSED: u8 = 128 + 13;

impl Exit {
    /// The number.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::NotFound => 3,
            Exit::Conflict => 4,
            Exit::Broker => 5,
            Exit::Time => 6,
            Exit::Rights => 7,
            Exit::Integrity => 8,
            Exit::Capacity => 9,
            Exit::Protocol => 10,
        }
    }

    /// The class of an error code.
    pub(crate) const fn of(code: ErrorCode) -> Exit {
        match code {
            ErrorCode::SpawnFailed | ErrorCode::Internal | ErrorCode::Uncertain | ErrorCode::StorageFailed => {
                Exit::Failed
            }
            ErrorCode::InvalidInput | ErrorCode::TooLarge => Exit::Usage,
            ErrorCode::NotFound => Exit::NotFound,
            ErrorCode::KeyConflict
            | ErrorCode::KeyExpired
            | ErrorCode::SessionExists
            | ErrorCode::SessionLive
            | ErrorCode::SessionBusy
            | ErrorCode::SessionTerminal
            | ErrorCode::SessionStopping
            | ErrorCode::SessionFenced
            | ErrorCode::EndpointStale
            | ErrorCode::TooLate
            | ErrorCode::CapabilityMissing
            | ErrorCode::ExpiredCursor => Exit::Conflict,
            ErrorCode::BrokerUnreachable | ErrorCode::BrokerBlocked | ErrorCode::Draining => Exit::Broker,
            ErrorCode::Timeout => Exit::Time,
            ErrorCode::Denied | ErrorCode::Unauthenticated => Exit::Rights,
            ErrorCode::Integrity => Exit::Integrity,
            ErrorCode::Capacity | ErrorCode::Busy | ErrorCode::QueueFull | ErrorCode::StorageFull => Exit::Capacity,
            ErrorCode::ProtocolMismatch | ErrorCode::UnknownMethod => Exit::Protocol,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of docs/CONTRACT.md, as it stands there.
    const CONTRACT: [(u8, &str); 10] = [
        (1, "spawn_failed internal uncertain storage_failed"),
        (2, "invalid_input too_large"),
        (3, "not_found"),
        (
            4,
            "key_conflict key_expired session_exists session_live session_busy session_terminal session_stopping \
             session_fenced endpoint_stale too_late capability_missing expired_cursor",
        ),
        (5, "broker_unreachable broker_blocked draining"),
        (6, "timeout"),
        (7, "denied unauthenticated"),
        (8, "integrity"),
        (9, "capacity busy queue_full storage_full"),
        (10, "protocol_mismatch unknown_method"),
    ];

    #[test]
    fn every_error_code_has_the_exit_code_of_the_contract() {
        let mut placed = 0;
        for (exit, names) in CONTRACT {
            for name in names.split_whitespace() {
                let code = ErrorCode::from_name(name).expect(name);
                assert_eq!(Exit::of(code).code(), exit, "{name}");
                placed += 1;
            }
        }
        assert_eq!(placed, ErrorCode::ALL.len(), "no code is missing in the table");
        assert_eq!(Exit::Done.code(), 0);
    }

    #[test]
    fn the_worst_of_a_batch_is_the_highest_code() {
        assert!(CONTRACT.iter().map(|(code, _)| code).is_sorted());
        assert_eq!(Exit::NotFound.max(Exit::Failed), Exit::NotFound);
    }
}
