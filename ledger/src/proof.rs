//! A proof: one document that shows that a record belongs to the history that ends with a given head. Whoever kept the
//! head elsewhere needs nothing else: no ledger, no lock, no trust in whoever hands the document out.
//!
//! Promises: a document of any bytes is read in bounded memory and refused for the first thing that is wrong with it;
//! what passes binds every member to the head but `ledger`, which only says where to look.

use serde::{Deserialize, Serialize};

use crate::digest::{Digest, Position};
use crate::limits::{PROOF_BYTES_MAX, VERSION};
use crate::merkle::root_by;
use crate::record::{Judged, Record, judge};
use crate::seal::SealBody;
use crate::slice::Sliced;

/// That record `seq` belongs to the history that ends with `head`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// The format version, of proof and records.
    pub v: u64,
    /// The ledger's id. A hint where to look: nothing else in here depends on it.
    pub ledger: String,
    /// The record's sequence number.
    pub seq: u64,
    /// Its line as it is stored, without LF.
    pub record: String,
    /// The number of its segment if that is sealed. What is `null` has to be there nevertheless.
    #[serde(deserialize_with = "Option::deserialize")]
    pub segment: Option<u64>,
    /// The record's place in that segment, from 0.
    #[serde(deserialize_with = "Option::deserialize")]
    pub index: Option<u64>,
    /// How many records that segment has.
    #[serde(deserialize_with = "Option::deserialize")]
    pub count: Option<u64>,
    /// From the record's leaf to the root of its segment.
    pub path: Vec<Digest>,
    /// The `seal` record that closes its segment, and every later one, oldest first: lines without LF.
    pub seals: Vec<String>,
    /// The records behind the last seal, or in an unsealed segment those from this record on, up to the head.
    pub tail: Vec<String>,
    /// The end of the history that the record is shown to belong to.
    pub head: Position,
}

/// The document proves nothing.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// Longer than [`PROOF_BYTES_MAX`].
    #[error("the document is longer than {PROOF_BYTES_MAX} bytes")]
    Length,
    /// Not the document that this version writes.
    #[error("the document cannot be read: {0}")]
    Form(#[source] serde_json::Error),
    /// Of another version, so most likely written by a later program.
    #[error("the document has version {0}; this program knows {VERSION}")]
    Version(u64),
    /// It ends with another head than the one that was kept.
    #[error("the document leads to the head {0}, which is not the one that was kept")]
    Head(Position),
    /// A line is no sound record.
    #[error("line {index} of `{member}` is no sound record")]
    Line {
        /// `record`, `seals` or `tail`.
        member: &'static str,
        /// Which of its lines, from 0.
        index: usize,
    },
    /// The record is another one than the document says.
    #[error("`record` has another sequence number than `seq`, or is not the first of `tail`")]
    Record,
    /// `segment`, `index` and `count` are neither all there nor all absent, or do not fit path and seals.
    #[error("`segment`, `index`, `count`, `path` and `seals` do not fit one another")]
    Place,
    /// The path does not lead from the record to the root in the seal.
    #[error("the path does not lead to the root of the segment")]
    Root,
    /// A seal is none, or does not follow from the one before.
    #[error("seal {0} does not follow from the one before it, or is none")]
    Seal(usize),
    /// A record of the tail does not follow from the one before, or the last one is not the head.
    #[error("record {0} of the tail does not follow")]
    Link(usize),
}

impl Proof {
    /// Reads a document. Nothing in it is believed yet.
    ///
    /// # Errors
    /// [`ProofError::Length`], [`ProofError::Version`], [`ProofError::Form`].
    pub fn parse(document: &[u8]) -> Result<Proof, ProofError> {
        /// The version alone, whatever else a later program may have put beside it.
        #[derive(Deserialize)]
        struct Versioned {
            v: u64,
        }
        if document.len() > PROOF_BYTES_MAX {
            return Err(ProofError::Length);
        }
        serde_json::from_slice(document).map_err(|error| match serde_json::from_slice::<Versioned>(document) {
            Ok(other) if other.v != VERSION => ProofError::Version(other.v),
            Ok(_) | Err(_) => ProofError::Form(error),
        })
    }

    /// Whether the record belongs to the history that ends with `head`, which was kept elsewhere; the record.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn verify(&self, head: &Position) -> Result<Record, ProofError> {
        if self.v != VERSION {
            return Err(ProofError::Version(self.v));
        }
        if self.head != *head {
            return Err(ProofError::Head(self.head));
        }
        let record = Record::read(self.record.as_bytes()).ok_or(ProofError::Line { member: "record", index: 0 })?;
        self.check(&record)?;
        Ok(record)
    }

    /// The document, without a line feed behind it.
    pub fn document(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers always serialise")
    }

    fn check(&self, record: &Record) -> Result<(), ProofError> {
        if record.header.seq != self.seq {
            return Err(ProofError::Record);
        }
        match (self.segment, self.index, self.count) {
            (Some(segment), Some(index), Some(count)) => {
                let last = self.sealed(record, segment, (index, count))?;
                self.links(Some(last), 0)
            }
            (None, None, None) if self.path.is_empty() && self.seals.is_empty() => {
                if self.tail.first() != Some(&self.record) {
                    return Err(ProofError::Record);
                }
                // The record itself is sound already.
                self.links(Some(record.position()), 1)
            }
            (_, _, _) => Err(ProofError::Place),
        }
    }

    /// From the record through the root of its segment to the last seal.
    fn sealed(&self, record: &Record, segment: u64, (index, count): (u64, u64)) -> Result<Position, ProofError> {
        let mut before: Option<Position> = None;
        for (at, line) in self.seals.iter().enumerate() {
            let Judged::Record(seal) = judge(line.as_bytes()) else {
                return Err(ProofError::Line { member: "seals", index: at });
            };
            let body = SealBody::of(&seal).ok_or(ProofError::Seal(at))?;
            match before {
                None => first(record, &seal, &body, (segment, index, count), &self.path)?,
                Some(before) => {
                    let numbered = u64::try_from(at).is_ok_and(|at| segment.checked_add(at) == Some(body.number));
                    if body.prior != Some(before.digest) || seal.seq <= before.seq || !numbered {
                        return Err(ProofError::Seal(at));
                    }
                }
            }
            before = Some(seal.position());
        }
        before.ok_or(ProofError::Place)
    }

    /// From a record through the tail, from this line of it on, to the head.
    fn links(&self, mut last: Option<Position>, from: usize) -> Result<(), ProofError> {
        for (index, line) in self.tail.iter().enumerate().skip(from) {
            let Judged::Record(record) = judge(line.as_bytes()) else {
                return Err(ProofError::Line { member: "tail", index });
            };
            if !last.is_some_and(|last| record.prev == Some(last.digest) && record.seq == last.seq + 1) {
                return Err(ProofError::Link(index));
            }
            last = Some(record.position());
        }
        if last == Some(self.head) { Ok(()) } else { Err(ProofError::Link(self.tail.len())) }
    }
}

/// The seal that closes the record's own segment: place, count and root.
fn first(
    record: &Record,
    seal: &Sliced<'_>,
    body: &SealBody,
    (segment, index, count): (u64, u64, u64),
    path: &[Digest],
) -> Result<(), ProofError> {
    // The seal stands behind the segment's records and the record that opens the next one.
    let begins = seal.seq.checked_sub(1).and_then(|opens| opens.checked_sub(count));
    let stands = begins.and_then(|begins| begins.checked_add(index)) == Some(record.header.seq);
    if body.number != segment || body.count != Some(count) || !stands {
        return Err(ProofError::Place);
    }
    let root = root_by(&record.digest, index, count, path);
    if root.is_some() && root == body.root { Ok(()) } else { Err(ProofError::Root) }
}

/// Reads a document and verifies it against a head kept elsewhere; the record that it proves.
///
/// # Errors
/// The first thing that is wrong.
pub fn verify_proof(document: &[u8], head: &Position) -> Result<Record, ProofError> {
    Proof::parse(document)?.verify(head)
}
