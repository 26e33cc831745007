//! The broker itself: what it is, how it is, and how it is asked to leave.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Arg, ProtocolRange, Timestamp};

/// One broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Broker {
    /// Its process id, for humans; nothing is decided by it.
    pub pid: u32,
    /// Its number among the brokers of this state root.
    pub generation: u64,
    /// 64 hex digits that name this one run.
    pub incarnation: String,
    /// Product version.
    pub version: String,
    /// Protocol versions it speaks.
    pub protocol: ProtocolRange,
    /// Where it listens: `unix:/path` or `pipe:NAME`.
    pub endpoint: String,
    /// Its state root, canonical.
    pub root: Arg,
    /// When it started.
    pub started_at: Timestamp,
}

/// Parameters of `broker.status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BrokerStatusParams {}

/// Result of `broker.status`, and of `ostler status` where no broker answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BrokerStatusResult {
    /// How the broker of this root is.
    pub state: RunState,
    /// The broker, where one answers.
    pub broker: Option<Broker>,
    /// Its lock.
    pub lock: LockState,
    /// The newest durable record.
    pub ledger: Option<LedgerHead>,
    /// How many sessions there are.
    pub sessions: Option<SessionCounts>,
    /// What does not work as it should, one sentence each.
    pub degraded: Vec<String>,
}

/// States of a broker as seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It answers.
    Running,
    /// There is none.
    Absent,
    /// It holds the lock and has not published itself yet.
    Starting,
    /// It answers and is leaving.
    Draining,
    /// The lock is held, hello stays unanswered.
    Unresponsive,
    /// The lock cannot be had or judged.
    Blocked,
}

/// The broker lock as seen from outside, without taking it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LockState {
    /// Whether somebody holds it; null where the system does not tell.
    pub held: Option<bool>,
    /// The owner record in it, readable or not at all.
    pub owner: Option<OwnerRecord>,
    /// Whether the process of that record lives; null where it cannot be known (another boot, another namespace).
    pub owner_lives: Option<bool>,
}

/// The owner record of the broker lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnerRecord {
    /// Process id in its PID namespace.
    pub pid: u32,
    /// Boot id of the kernel it ran under.
    pub boot: String,
    /// Inode of its PID namespace.
    pub ns: u64,
    /// Kernel start time of the process, clock ticks since boot.
    pub start: u64,
    /// Product version.
    pub version: String,
    /// When it got the lock.
    pub acquired_at: Timestamp,
    /// Whether it said that it left in order.
    pub released: bool,
}

/// A position of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerHead {
    /// Sequence number.
    pub seq: u64,
    /// Digest of the record, 64 hex digits.
    pub digest: String,
}

/// How many sessions there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionCounts {
    /// With a live process.
    pub live: u64,
    /// Not deleted.
    pub total: u64,
}

/// Parameters of `broker.shutdown`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShutdownParams {
    /// Which broker is meant; another one refuses with `endpoint_stale`. Absent: whoever answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<String>,
    /// Stop all sessions first.
    #[serde(default)]
    pub stop_sessions: bool,
}

/// Result of `broker.shutdown`: the broker is draining. It is gone when the connection ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShutdownResult {
    /// The broker that leaves.
    pub broker: Broker,
}
