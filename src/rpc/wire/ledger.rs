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
