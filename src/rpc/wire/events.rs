//! Events: what is told of the ledger's records as they come.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::error::WireError;
use super::{Encoded, Timestamp};

/// Parameters of `events.subscribe`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsSubscribeParams {
    /// Events behind this ledger position are told, those that are there already first; without it, those that come.
    pub after: Option<u64>,
    /// Only those of these sessions, by id, name or prefix, at most 100; without any, of all.
    #[serde(default)]
    pub sessions: Vec<String>,
    /// Only records of these types, `session` or `message` for instance; without any, of all.
    #[serde(default)]
    pub types: Vec<String>,
}

/// Result of `events.subscribe`. Events come behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventsSubscribeResult {
    /// Its number; no other subscription of this broker has it.
    pub subscription: u64,
    /// The ledger position behind which events are told.
    pub seq: u64,
}

/// Parameters of `events.unsubscribe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsUnsubscribeParams {
    /// One of this connection.
    pub subscription: u64,
}

/// Result of `events.unsubscribe`. No event of it comes behind this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventsUnsubscribeResult {
    /// All up to this ledger position was told: another subscription goes on from here.
    pub seq: u64,
}

/// Parameters of the notification `event`: a record of the ledger, or the end of a subscription.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Event {
    /// Whose event it is.
    pub subscription: u64,
    /// The record's ledger position; of an end, that up to which all was told.
    pub seq: u64,
    /// When it was recorded; of an end, now.
    pub at: Timestamp,
    /// The session that the record is about, if it is about one.
    pub session_id: Option<String>,
    /// The record's type, or `end`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The record: its stored members and `digest`. Null at the end.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub record: Option<Encoded>,
    /// Why the subscription has ended. Null but at the end.
    pub error: Option<WireError>,
}
