//! `hello`: the first call of every connection. Its shape never changes within the life of the product.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Broker, ProtocolRange, Timestamp};

/// Parameters of `hello`.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HelloParams {
    /// Protocol versions the client speaks.
    pub protocol: ProtocolRange,
    /// Which program calls.
    pub client: ClientInfo,
    /// Bearer token: the owner's from `broker.json`, a session's from its credential file.
    pub token: String,
    /// In which role.
    #[serde(rename = "as")]
    pub role: Role,
}

/// The token stays out of logs.
impl fmt::Debug for HelloParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HelloParams")
            .field("protocol", &self.protocol)
            .field("client", &self.client)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

/// The calling program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// In which role a client calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The owner of the state root: everything is allowed.
    Owner,
    /// One session: only what sessions may do.
    Session,
}

/// Result of `hello`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HelloResult {
    /// The version both will speak.
    pub protocol: u32,
    /// The broker that answered.
    pub broker: Broker,
    /// Wall time of the broker: clients make their UUIDv7 keys from it.
    pub time: Timestamp,
    /// Who the caller is, for the broker.
    pub identity: IdentityDoc,
    /// What this broker can do beyond the smallest set.
    pub capabilities: Vec<String>,
    /// The limits in force.
    pub limits: Limits,
    /// Device and inode of the state root.
    pub root_id: RootId,
}

/// Device and inode of a folder, as one opaque text to compare: `DEVICE:INODE` in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct RootId(pub String);

impl RootId {
    /// The text for a device and an inode number.
    pub fn new(device: u64, inode: u64) -> RootId {
        RootId(format!("{device:x}:{inode:x}"))
    }
}

/// Who calls: the scope of operation keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// The owner of the state root.
    Owner,
    /// The session with this id.
    Session(String),
}

impl Identity {
    /// The identity as hello shows it.
    pub fn document(&self) -> IdentityDoc {
        match self {
            Identity::Owner => IdentityDoc { kind: IdentityKind::Owner, session_id: None },
            Identity::Session(id) => IdentityDoc { kind: IdentityKind::Session, session_id: Some(id.clone()) },
        }
    }
}

/// An identity as hello shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IdentityDoc {
    /// Which kind of caller.
    pub kind: IdentityKind,
    /// The session, where it is one.
    pub session_id: Option<String>,
}

/// Kinds of callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IdentityKind {
    /// The owner of the state root.
    Owner,
    /// One session.
    Session,
}

/// Limits that a client has to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// Longest line, bytes, the newline included.
    pub frame_bytes: u64,
    /// Requests in flight on one connection.
    pub in_flight: u32,
    /// Largest page of a list, entries.
    pub page: u32,
    /// Command line and environment together, bytes.
    pub command_bytes: u64,
    /// Body of a message, bytes.
    pub message_bytes: u64,
    /// Body of a report, bytes.
    pub report_bytes: u64,
}
