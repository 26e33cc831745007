//! Both sides of `hello`: what a broker answers, and what a client checks before it believes.

use std::time::Duration;

use serde_json::Value;

use super::error::{ErrorCode, WireError};
use super::record::Record;
use super::service::Service;
use super::wire::{Encoded, HelloParams, HelloResult, Identity, ProtocolRange, decode, encode};

/// How long hello may take: from accept to the client's request, and from that to the answer (contract section 4).
pub const WITHIN: Duration = Duration::from_secs(5);

/// Answers a hello.
///
/// # Errors
/// `invalid_input`, `protocol_mismatch`, and what the service says of the token. Each ends the connection.
pub fn answer<S: Service>(service: &S, params: Value) -> Result<(Encoded, Identity), WireError> {
    let params: HelloParams = decode(params)?;
    let (ours, theirs) = (ProtocolRange::of_build(), params.protocol);
    let Some(protocol) = ours.common(theirs) else {
        let message = format!("this broker speaks protocol {ours}, the client {theirs}");
        return Err(WireError::new(ErrorCode::ProtocolMismatch, message).with("min", ours.min).with("max", ours.max));
    };
    let identity = service.authenticate(&params.token, params.role)?;
    let result = HelloResult {
        protocol,
        broker: service.broker(),
        time: service.time(),
        identity: identity.document(),
        capabilities: service.capabilities(),
        limits: service.limits(),
        root_id: service.root_id(),
    };
    Ok((encode(&result), identity))
}

/// Compares two tokens in a time that depends on their length only.
pub fn is_same_token(one: &str, other: &str) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let difference = one.bytes().zip(other.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    std::hint::black_box(difference) == 0
}

/// What does not fit between a hello and the record that led to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// Another run of a broker answers there.
    #[error("another broker answers there than the record names")]
    Incarnation,
    /// The broker answers for another state root: the record was copied with its root.
    #[error("the broker that answers there is of another state root")]
    Root,
    /// The versions do not meet.
    #[error("the broker chose a protocol version that was not offered")]
    Protocol,
}

/// Checks a hello against the record that led to it and the root that was meant.
///
/// # Errors
/// [`Mismatch`]: then nothing it says is of use.
pub fn check(hello: &HelloResult, record: &Record) -> Result<(), Mismatch> {
    if hello.root_id != record.root_id {
        return Err(Mismatch::Root);
    }
    let (said, recorded) = (&hello.broker, &record.broker);
    if (&said.incarnation, said.generation) != (&recorded.incarnation, recorded.generation) {
        return Err(Mismatch::Incarnation);
    }
    if !ProtocolRange::of_build().holds(hello.protocol) {
        return Err(Mismatch::Protocol);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_compared_whole() {
        assert!(is_same_token("abc", "abc"));
        for other in ["abd", "bbc", "ab", "abcd", ""] {
            assert!(!is_same_token("abc", other));
        }
        assert!(is_same_token("", ""));
    }
}
