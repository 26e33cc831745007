//! Errors as callers see them: one closed set of codes, whether a retry can help, and free detail.
//!
//! Promise: a code keeps its name and its meaning; finer distinctions go into `data.reason`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The JSON-RPC code of every error that has an [`ErrorCode`] and came from a well-formed request.
pub const APPLICATION_ERROR: i64 = -32000;
/// JSON-RPC: the line is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// JSON-RPC: the line is JSON but not a request (a batch, a missing method, another version).
pub const INVALID_REQUEST: i64 = -32600;

macro_rules! error_codes {
    ($($variant:ident $name:literal $retry:ident $doc:literal,)*) => {
        /// The closed set of error codes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum ErrorCode { $(#[doc = $doc] $variant,)* }

        impl ErrorCode {
            /// All codes, in the order of the exit classes.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$variant,)*];

            /// The code's name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(ErrorCode::$variant => $name,)* }
            }

            /// Whether a retry helps, where the error itself does not say otherwise.
            pub const fn retry(self) -> Retry {
                match self { $(ErrorCode::$variant => Retry::$retry,)* }
            }

            /// The code with this name.
            pub fn from_name(name: &str) -> Option<ErrorCode> {
                match name { $($name => Some(ErrorCode::$variant),)* _ => None }
            }
        }
    };
}

error_codes! {
    SpawnFailed "spawn_failed" Never "The command did not come up; `data` says phase and reason.",
    Internal "internal" Never "A fault of ostler.",
    Uncertain "uncertain" SameKey "It cannot be known whether the operation took effect; the same key finds out.",
    StorageFailed "storage_failed" SameKey "The state root cannot be written; nothing changed.",
    InvalidInput "invalid_input" Never "A parameter is missing, unknown or malformed.",
    TooLarge "too_large" Never "A frame, body or command line is beyond its limit.",
    NotFound "not_found" Never "No session, operation or message of that name.",
    KeyConflict "key_conflict" Never "The key belongs to another request.",
    KeyExpired "key_expired" Never "The key is older than the window in which keys are remembered.",
    SessionExists "session_exists" Never "The name is taken by a session that is not deleted.",
    SessionLive "session_live" Never "The session has a live process.",
    SessionBusy "session_busy" Later "Another operation on the session is under way.",
    SessionTerminal "session_terminal" Never "The session has ended for good.",
    SessionStopping "session_stopping" Later "The session is being stopped.",
    SessionFenced "session_fenced" Never "The session is fenced until evidence or an operator settles it.",
    EndpointStale "endpoint_stale" Never "What the caller means has been replaced or has ended; `data.reason` says which.",
    TooLate "too_late" Never "The message was already handed over.",
    CapabilityMissing "capability_missing" Never "The session's adapter, or the caller's system, cannot do this.",
    ExpiredCursor "expired_cursor" Never "The cursor is no longer known; list from the start.",
    BrokerUnreachable "broker_unreachable" SameKey "No broker answered.",
    BrokerBlocked "broker_blocked" Never "A broker cannot be had: its lock or its root stands in the way.",
    Draining "draining" Later "The broker is leaving.",
    Timeout "timeout" SameKey "The deadline passed first.",
    Denied "denied" Never "This caller may not do this.",
    Unauthenticated "unauthenticated" Never "No or a wrong token.",
    Integrity "integrity" Never "The ledger does not verify.",
    Capacity "capacity" Later "A limit of the whole broker is reached.",
    Busy "busy" Later "Too much is in flight; nothing was done.",
    QueueFull "queue_full" Later "The session's queue is full.",
    StorageFull "storage_full" SameKey "The disk is full; nothing changed.",
    ProtocolMismatch "protocol_mismatch" Never "No common protocol version, or the peer does not speak this protocol.",
    UnknownMethod "unknown_method" Never "This broker has no such method.",
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether repeating the request can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// The same request fails again.
    Never,
    /// Repeat under the same key: at most one effect comes of it.
    SameKey,
    /// Nothing was done; later it may work, under any key.
    Later,
}

/// An error as every document shows it: `{"code","message","retry","data":{}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct WireError {
    /// What went wrong, from the closed set.
    pub code: ErrorCode,
    /// What went wrong, why, and what did not change, for a human.
    pub message: String,
    /// Whether repeating helps.
    pub retry: Retry,
    /// Detail: `reason` and what belongs to it.
    #[serde(default)]
    pub data: Map<String, Value>,
}

impl WireError {
    /// An error with the code's usual retry advice and no detail.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> WireError {
        WireError { code, message: message.into(), retry: code.retry(), data: Map::new() }
    }

    /// The same error with `data.reason`.
    #[must_use]
    pub fn reason(self, reason: &str) -> WireError {
        self.with("reason", reason)
    }

    /// The same error with one more member of `data`. `code` and `retry` are the error's own and cannot be set so.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> WireError {
        assert!(name != "code" && name != "retry", "data.{name} is the error's own");
        self.data.insert(name.to_owned(), value.into());
        self
    }

    /// The same error with another retry advice.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> WireError {
        self.retry = retry;
        self
    }

    /// The `error` member of a JSON-RPC response: `{code:-32000, message, data:{code, retry, ...}}`.
    pub fn to_rpc(&self) -> Value {
        self.to_rpc_as(APPLICATION_ERROR)
    }

    /// As [`WireError::to_rpc`] under a standard JSON-RPC code, for lines that are no request at all.
    pub fn to_rpc_as(&self, rpc_code: i64) -> Value {
        let mut data = self.data.clone();
        data.insert("code".to_owned(), json!(self.code));
        data.insert("retry".to_owned(), json!(self.retry));
        json!({ "code": rpc_code, "message": self.message, "data": data })
    }

    /// Reads the `error` member of a response. Never fails: what is not of our form becomes `protocol_mismatch`, and a
    /// code from a later version `internal`, with the code's name as `data.reason`.
    pub fn from_rpc(error: &Value) -> WireError {
        let message = error.get("message").and_then(Value::as_str).unwrap_or("an error without a message");
        let Some(Value::Object(data)) = error.get("data") else {
            return WireError::new(ErrorCode::ProtocolMismatch, message)
                .with("rpc_code", error.get("code").cloned().unwrap_or_default());
        };
        let mut data = data.clone();
        let name = data.remove("code");
        let name = name.as_ref().and_then(Value::as_str).unwrap_or_default();
        let code = ErrorCode::from_name(name).unwrap_or(ErrorCode::Internal);
        let retry = data.remove("retry").and_then(|value| serde_json::from_value(value).ok());
        if code.name() != name {
            data.entry("reason").or_insert_with(|| json!(name));
        }
        WireError { code, message: message.to_owned(), retry: retry.unwrap_or(code.retry()), data }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_named_once_and_serde_agrees() {
        let mut names: Vec<_> = ErrorCode::ALL.iter().map(|code| code.name()).collect();
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), json!(code.name()));
            assert_eq!(ErrorCode::from_name(code.name()), Some(*code));
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ErrorCode::ALL.len());
        assert_eq!(names.len(), 32, "the set is closed");
    }

    #[test]
    fn an_error_survives_the_wire() {
        let error = WireError::new(ErrorCode::EndpointStale, "replaced").reason("replaced").with("episode", 3);
        let rpc = error.to_rpc();
        assert_eq!(
            rpc,
            json!({"code": -32000, "message": "replaced",
                   "data": {"code": "endpoint_stale", "retry": "never", "reason": "replaced", "episode": 3}})
        );
        assert_eq!(WireError::from_rpc(&rpc), error);
    }

    #[test]
    fn foreign_errors_are_read_too() {
        let later =
            WireError::from_rpc(&json!({"code": -32000, "message": "m", "data": {"code": "new", "retry": "later"}}));
        assert_eq!((later.code, later.retry), (ErrorCode::Internal, Retry::Later));
        assert_eq!(later.data["reason"], "new");
        let other = WireError::from_rpc(&json!({"code": -32601, "message": "Method not found"}));
        assert_eq!(other.code, ErrorCode::ProtocolMismatch);
        assert_eq!(other.data["rpc_code"], -32601);
    }
}
