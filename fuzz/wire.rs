//! The broker's protocol: parameters from strangers, results and errors from a broker of another version, arguments as bytes.

use crate::round_trip;
use ostler::os::arg::Arg;
use ostler::rpc::error::WireError;
use ostler::rpc::method::Method;
use ostler::rpc::wire::{self, Key, Timestamp};
use serde_json::Value;
use std::str::FromStr;

/// Reads the bytes as each of the documents named; true if they are one of them.
macro_rules! any_of {
    ($bytes:ident: $($document:ty),* $(,)?) => { false $(| round_trip::<$document>($bytes).is_some())* };
}

/// The parameters of every method.
pub fn wire_parameters(bytes: &[u8]) -> bool {
    let document = any_of!(bytes:
        wire::HelloParams, wire::BrokerStatusParams, wire::ShutdownParams, wire::SpawnParams, wire::ResumeParams,
        wire::StopParams, wire::DeleteParams, wire::PruneParams, wire::ReconcileParams, wire::GetParams, wire::ListParams,
        wire::WaitParams, wire::ReadParams, wire::EndpointParams, wire::OperationGetParams, wire::OperationListParams,
        wire::OperationResolveParams, wire::LedgerRetireParams,
    );
    document | words(&String::from_utf8_lossy(bytes))
}

/// The words that stand alone: methods, keys, times.
fn words(text: &str) -> bool {
    let method = Method::from_name(text);
    assert!(method.is_none_or(|method| method.name() == text));
    if let Ok(key) = Key::from_str(text) {
        assert!(key.as_str() == text && (1..=wire::KEY_BYTES_MAX).contains(&text.len()));
    }
    let time = Timestamp::from_str(text);
    if let Ok(time) = time {
        assert_eq!(Timestamp::from_str(&time.to_string()), Ok(time));
    }
    method.is_some() || time.is_ok()
}

/// The results of every method, as a client reads them.
pub fn wire_results(bytes: &[u8]) -> bool {
    any_of!(bytes:
        wire::HelloResult, wire::BrokerStatusResult, wire::ShutdownResult, wire::SpawnResult, wire::SessionResult,
        wire::EndedResult, wire::PruneResult, wire::ListResult, wire::ReadResult, wire::EndpointResult,
        wire::OperationGetResult, wire::OperationListResult, wire::OperationResolveResult, wire::Broker, wire::Session,
        wire::OwnerRecord,
    )
}

/// An error object: whatever a broker says, the client makes a typed error of it that it can pass on.
pub fn wire_error(bytes: &[u8]) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return false };
    let error = WireError::from_rpc(&value);
    let again = WireError::from_rpc(&error.to_rpc());
    assert_eq!(error.code, again.code);
    assert_eq!(error.message, again.message);
    true
}

/// An argument: any bytes in, the same bytes out, through JSON too; and any JSON either is one or is refused.
pub fn argument(bytes: &[u8]) -> bool {
    let argument = Arg::from_bytes(bytes.to_vec());
    let written = serde_json::to_vec(&argument).expect("every argument has a form in JSON");
    let again: Arg = serde_json::from_slice(&written).expect("and is read from it");
    assert_eq!(again.as_bytes(), bytes);
    round_trip::<Arg>(bytes).is_some()
}
