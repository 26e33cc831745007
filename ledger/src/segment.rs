//! Segments: one file each, named by its first sequence number, opened by a `segment` record that says where it belongs.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;
use crate::entry::Entry;
use crate::slice::Sliced;
use crate::storage::{Folder, Name};

/// The type of the record that opens a segment.
pub(crate) const SEGMENT_TYPE: &str = "segment";

/// The `body` of a `segment` record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SegmentBody {
    /// The boot in which every record of this segment was written.
    pub(crate) boot: String,
    /// The ledger's id.
    pub(crate) ledger: String,
    /// 1 for the first.
    pub(crate) number: u64,
    /// The last digest of the segment before; absent in the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) previous: Option<Digest>,
}

impl SegmentBody {
    /// The body of a record, if it is a `segment` record with a body that can be. A segment has at least one record, so
    /// its number is not above the first one's; and a number that can be counted on from needs no other limit.
    pub(crate) fn of(record: &Sliced<'_>) -> Option<SegmentBody> {
        body_of(record, SEGMENT_TYPE).filter(|body: &SegmentBody| (1..=record.seq).contains(&body.number))
    }

    pub(crate) fn entry(&self) -> Entry {
        let body = serde_json::to_value(self).expect("strings and numbers always serialise");
        own_entry(SEGMENT_TYPE, body)
    }
}

/// The typed body of a record, if it has this type and a body that says that and nothing else. What is absent is not
/// `null`.
pub(crate) fn body_of<T: DeserializeOwned + Serialize>(record: &Sliced<'_>, t: &str) -> Option<T> {
    if record.t != t {
        return None;
    }
    let stored = record.body?;
    let body = serde_json::from_slice(stored).ok()?;
    (serde_json::to_vec(&body).ok()? == stored).then_some(body)
}

/// An entry of the ledger's own making, without a session.
pub(crate) fn own_entry(t: &str, body: Value) -> Entry {
    Entry::new(t, [("body".to_owned(), body)])
}

/// The file name of the segment whose first record has this sequence number.
pub(crate) fn file_name(first_seq: u64) -> String {
    format!("{first_seq:020}.jsonl")
}

/// Whether a file of this name in a ledger's folder is one of its segments.
pub fn is_segment(file: &str) -> bool {
    first_seq(file).is_some()
}

/// The first sequence number that a name promises, if it is a segment's name.
pub(crate) fn first_seq(file: &str) -> Option<u64> {
    let digits = file.strip_suffix(".jsonl")?;
    let plain = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

pub(crate) fn in_ledger(file: &str) -> Name<'_> {
    Name { folder: Folder::Ledger, file }
}
