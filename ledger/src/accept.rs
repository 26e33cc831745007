//! What an operator has looked at and accepted: the finding stays, with the record that accepts it and the reason, but it
//! is no problem any more. Anything else that is found is one as before.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::entry::Entry;
use crate::recovery::Problem;
use crate::recovery::table::Class;
use crate::segment::own_entry;

/// The type of the record that accepts findings.
pub(crate) const ACCEPTED_TYPE: &str = "accepted";
/// How many findings one record accepts; more go into further records.
const FINDINGS_MAX: usize = 200;

/// What makes a finding the same one whenever the ledger is read. If more goes wrong at its place it is another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// What it is.
    pub class: Class,
    /// The first sequence number concerned, where one is known.
    #[serde(deserialize_with = "Option::deserialize")]
    pub first: Option<u64>,
    /// How many sequence numbers are missing there.
    pub missing: u64,
    /// Byte offset in the segment.
    pub offset: u64,
    /// The segment's file name.
    pub segment: String,
}

impl From<&Problem> for Finding {
    fn from(problem: &Problem) -> Finding {
        let Problem { class, seq: first, missing, offset, ref segment, .. } = *problem;
        Finding { class, first, missing, offset, segment: segment.clone() }
    }
}

/// The `body` of an `accepted` record.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AcceptedBody {
    #[serde(rename = "act")]
    _act: Value,
    problems: Vec<Finding>,
    #[serde(rename = "reason")]
    _reason: String,
}

/// The records to append so that these findings are accepted; `act` says who accepts them. They are none of a session's, lift no
/// fence, and have to be split into turns as any others.
pub fn accepted(findings: &[Finding], act: &Value, reason: &str) -> Vec<Entry> {
    let chunks = findings.chunks(FINDINGS_MAX);
    chunks
        .map(|problems| own_entry(ACCEPTED_TYPE, json!({ "act": act, "problems": problems, "reason": reason })))
        .collect()
}

/// The findings that the body of an `accepted` record names; none if it cannot be read.
pub(crate) fn findings(body: &Value) -> Vec<Finding> {
    AcceptedBody::deserialize(body).map(|body| body.problems).unwrap_or_default()
}
