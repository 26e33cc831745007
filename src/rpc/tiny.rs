//! The smallest service there is, for tests of what stands in front of it: a broker that knows no sessions.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::error::{ErrorCode, WireError};
use super::hello::is_same_token;
use super::method::Method;
use super::record::Record;
use super::service::{Caller, Service};
use super::wire::{Broker, Identity, Limits, Role, RootId, Timestamp};
use crate::os::clock;

/// A service that answers for the broker of a record.
#[derive(Debug)]
pub struct Tiny {
    record: Record,
    /// Calls that wait for ever and have not been dropped.
    pub waiting: AtomicUsize,
    /// Calls that were begun.
    pub begun: AtomicUsize,
}

/// Counts a call that waits until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Tiny {
    /// A service for the broker of this record.
    pub fn new(record: Record) -> Tiny {
        Tiny { record, waiting: AtomicUsize::new(0), begun: AtomicUsize::new(0) }
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

    /// `session.wait` waits for ever, `session.read` answers `bytes` bytes, `session.spawn` echoes its key, the rest
    /// echoes its parameters.
    async fn call(&self, caller: Caller, method: Method, params: Value) -> Result<Value, WireError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        if method == Method::SessionWait {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let _waiting = Waiting(&self.waiting);
            std::future::pending::<()>().await;
        }
        if method == Method::SessionRead {
            let bytes = params["bytes"].as_u64().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
            return Ok(json!({ "text": "x".repeat(bytes) }));
        }
        if method == Method::SessionSpawn {
            return Ok(json!({ "key": params["key"], "incarnation": self.record.broker.incarnation }));
        }
        Ok(json!({ "method": method, "params": params, "connection": caller.connection, "pid": caller.peer.pid }))
    }
}
