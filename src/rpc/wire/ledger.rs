//! The ledger, as far as the broker is asked about it: reading it needs no broker.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LedgerHead;

/// Parameters of `ledger.accept`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LedgerAcceptParams {
    /// Why they are accepted, 1 to 1,024 bytes. It goes into the ledger.
    pub reason: String,
    /// What is accepted: findings as `ostler ledger verify` reports them, at most 10,000.
    pub findings: Vec<LedgerFinding>,
}

/// A finding by what makes it the same one whenever the ledger is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LedgerFinding {
    /// What it is, by the name in `ledger verify`.
    pub class: String,
    /// The first sequence number concerned, where one is known; `seq` in `ledger verify`.
    pub first: Option<u64>,
    /// How many records are missing there.
    pub missing: u64,
    /// Byte offset in the segment.
    pub offset: u64,
    /// The segment's file name.
    pub segment: String,
}

/// Result of `ledger.accept`: it is recorded and durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerAcceptResult {
    /// How many findings the records name.
    pub accepted: u64,
    /// The newest durable record.
    pub ledger: LedgerHead,
}

/// Parameters of `ledger.retire`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LedgerRetireParams {
    /// The files are removed; else they go to the folder `archive` in the ledger's.
    #[serde(default)]
    pub remove: bool,
    /// Nothing is changed, only told.
    #[serde(default)]
    pub dry_run: bool,
}

/// Result of `ledger.retire`: what is retired, durably, or would be. Nothing is a result as well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerRetireResult {
    /// How many segments.
    pub segments: u64,
    /// How many records.
    pub records: u64,
    /// The length of their files.
    pub bytes: u64,
    /// The first record of them.
    pub first: Option<u64>,
    /// The last record of them.
    pub last: Option<u64>,
    /// About how many bytes of ledger state again what is still known.
    pub carried_bytes: u64,
    /// What holds the other sealed segments, if there are any.
    pub held: Option<LedgerHeld>,
    /// Why some of the files are still there: the next start takes them away.
    pub left: Option<String>,
    /// The newest durable record.
    pub ledger: LedgerHead,
}

/// Sealed segments that stay, because a record in them is still needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerHeld {
    /// The first such record.
    pub seq: u64,
    /// How many sealed segments stay.
    pub segments: u64,
    /// What needs it.
    pub by: HeldFor,
    /// The session, if it is one.
    pub session_id: Option<String>,
    /// The operation, if it is one.
    pub operation: Option<String>,
    /// The same for a person, with what to type.
    pub text: String,
}

/// What needs a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HeldFor {
    /// A listed session.
    Session,
    /// An operation that is kept in full.
    Operation,
    /// A key that is still known.
    Key,
    /// Damage, which stays as evidence.
    Damage,
}
