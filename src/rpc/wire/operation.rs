//! Operations: one mutating request each, with exactly one outcome.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::super::error::WireError;
use super::super::method::Method;
use super::{Key, Timestamp};

/// One operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    /// Its id.
    pub id: String,
    /// The caller's key.
    pub key: Key,
    /// Which method it is.
    pub kind: Method,
    /// The session it is about, where it is about one.
    pub session_id: Option<String>,
    /// How far it is.
    pub state: OperationState,
    /// Ledger position of its newest record.
    pub seq: u64,
    /// Digest of that record, 64 hex digits.
    pub digest: String,
    /// Whether this answer repeats an outcome of an earlier request with the same key.
    pub replayed: bool,
    /// Keyed digest of the request, 64 hex digits.
    pub request_digest: String,
    /// Who asked: `owner`, or a session's id.
    #[serde(default)]
    pub by: String,
    /// When it was accepted.
    #[serde(default)]
    pub asked_at: Option<Timestamp>,
    /// Why, where the caller said so.
    #[serde(default)]
    pub reason: Option<String>,
    /// Why it failed, where it did.
    pub error: Option<WireError>,
}

/// States of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperationState {
    /// Recorded; its outcome is open.
    Accepted,
    /// Done.
    Succeeded,
    /// Failed after it had taken effect in part.
    Failed,
    /// Proven that nothing happened; key and name are free again.
    Aborted,
    /// It cannot be known whether it took effect.
    Uncertain,
}

/// Parameters of `operation.get`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationGetParams {
    /// An operation id, or a key of the caller.
    pub operation: String,
}

/// Result of `operation.get`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationGetResult {
    /// The operation.
    pub operation: Operation,
    /// Its stored result.
    pub result: Option<Map<String, Value>>,
}

/// Parameters of `operation.list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationListParams {
    /// Only those about this session: id, name, or unique prefix of the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Entries a page: 100 if absent, at most 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Where to go on: `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Result of `operation.list`, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationListResult {
    /// This page.
    pub operations: Vec<Operation>,
    /// The next page's cursor.
    pub next: Option<String>,
}

/// Parameters of `operation.resolve`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationResolveParams {
    /// Key of this decision.
    pub key: Key,
    /// The uncertain operation: its id, or a key of the caller.
    pub operation: String,
    /// What the operator knows.
    pub outcome: Resolution,
    /// How the operator knows it; goes into the ledger.
    pub reason: String,
}

/// An operator's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// It took effect.
    Succeeded,
    /// It did not.
    Failed,
}

/// Result of `operation.resolve`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationResolveResult {
    /// The decision, itself an operation.
    pub operation: Operation,
    /// The operation that was decided about, as it is now.
    pub resolved: Operation,
}
