//! The smallest service there is, for tests of what stands in front of it: a broker that knows no sessions.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use tokio::sync::Notify;

use super::envelope;
use super::error::{ErrorCode, WireError};
use super::hello::is_same_token;
use super::method::Method;
use super::record::Record;
use super::service::{Caller, Service};
use super::wire::{Broker, Encoded, Identity, Limits, Role, RootId, Timestamp, encode};
use crate::os::clock;

/// A service that answers for the broker of a record.
#[derive(Debug)]
pub struct Tiny {
    record: Record,
    /// It is so old that it knows no method.
    pub knows_nothing: bool,
    /// Calls that wait for ever and have not been dropped.
    pub waiting: AtomicUsize,
    /// Calls that were begun.
    pub begun: AtomicUsize,
    /// Lets one `session.stop` go on.
    pub go_on: Notify,
    /// Calls of `session.stop` that came to their end.
    pub stopped: AtomicUsize,
}

/// Counts a call that waits until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn bytes(params: &Value) -> usize {
    params["bytes"].as_u64().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0)
}

impl Tiny {
    /// A service for the broker of this record.
    pub fn new(record: Record) -> Tiny {
        let none = || AtomicUsize::new(0);
        Tiny { record, knows_nothing: false, waiting: none(), begun: none(), go_on: Notify::new(), stopped: none() }
    }
}

impl Service for Tiny {
    fn broker(&self) -> Broker {
        self.record.broker.clone()
    }

    fn root_id(&self) -> RootId {
        self.record.root_id.clone()
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_us(clock::wall_us())
    }

    fn capabilities(&self) -> Vec<String> {
        Vec::new()
    }

    fn limits(&self) -> Limits {
        Limits {
            frame_bytes: 4 * 1024 * 1024,
            in_flight: 64,
            page: 1000,
            command_bytes: 512 * 1024,
            message_bytes: 256 * 1024,
            report_bytes: 1024 * 1024,
        }
    }

    fn authenticate(&self, token: &str, role: Role) -> Result<Identity, WireError> {
        match role {
            Role::Owner if is_same_token(token, &self.record.token) => Ok(Identity::Owner),
            Role::Owner => Err(WireError::new(ErrorCode::Unauthenticated, "the token is not the owner's")),
            Role::Session => Err(WireError::new(ErrorCode::Unauthenticated, "no session has this token")),
        }
    }

    /// `session.wait` waits for ever, `session.stop` until it may go on, `session.read` answers `bytes` bytes, `events.subscribe` tells notices of `bytes`
    /// bytes without end, `session.spawn` echoes its key, the rest echoes its parameters.
    async fn call(&self, caller: Caller, method: Method, params: Value) -> Result<Encoded, WireError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        if self.knows_nothing {
            return Err(WireError::new(ErrorCode::UnknownMethod, format!("there is no {}", method.name())));
        }
        if method == Method::SessionWait {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let _waiting = Waiting(&self.waiting);
            std::future::pending::<()>().await;
        }
        if method == Method::SessionStop {
            self.go_on.notified().await;
            self.stopped.fetch_add(1, Ordering::SeqCst);
        }
        if method == Method::EventsSubscribe {
            let (notices, bytes) = (caller.notices, bytes(&params));
            drop(tokio::spawn(async move {
                let line = envelope::notification("event", &json!({ "text": "x".repeat(bytes) }));
                while notices.send(line.clone()).await.is_ok() {}
            }));
            return Ok(encode(&json!({})));
        }
        if method == Method::SessionRead {
            return Ok(encode(&json!({ "text": "x".repeat(bytes(&params)) })));
        }
        if method == Method::SessionSpawn {
            return Ok(encode(&json!({ "key": params["key"], "incarnation": self.record.broker.incarnation })));
        }
        Ok(encode(
            &json!({ "method": method, "params": params, "connection": caller.connection, "pid": caller.peer.pid }),
        ))
    }
}
