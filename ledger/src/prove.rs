//! Makes a proof from the files, as any reader: no lock, and a broker may write meanwhile.
//!
//! Promise: what is returned verifies; where the files do not give a proof, the error says which of them and why. Only
//! the record's own segment, the last one, and the first two lines of those between are read.

use std::io;

use crate::digest::{Digest, Position};
use crate::limits::{LINE_BYTES_MAX, PROOF_BYTES_MAX, VERSION};
use crate::merkle;
use crate::proof::{Proof, ProofError};
use crate::record::{Judged, judge};
use crate::recovery::lines::{Lines, read_content};
use crate::recovery::segment_names;
use crate::seal::{SEAL_TYPE, SealBody};
use crate::segment::{SegmentBody, in_ledger};
use crate::storage::{Access, Storage, read_part};

/// There is no proof.
#[derive(Debug, thiserror::Error)]
pub enum ProveError {
    /// The segments cannot be read.
    #[error("the ledger cannot be read: {0}")]
    Io(#[from] io::Error),
    /// No whole turn has such a record, or the history up to the head that was asked for has none.
    #[error("there is no record {0} in the history up to that head")]
    Missing(u64),
    /// The head that was asked for is no record of this ledger, or opens a segment and ends no turn.
    #[error("{0} is no head of this ledger")]
    Head(Position),
    /// The record's segment, or one after it, has no seal that names its root: it was written before there were seals,
    /// or its writer found damage in it.
    #[error("{0}: the segment was closed without a root over its records, so nothing proves what stands in it")]
    Unsealed(String),
    /// What stands there does not verify.
    #[error("{segment}: what a proof needs does not verify: {why}")]
    Damaged {
        /// The segment's file name.
        segment: String,
        /// What is wrong.
        why: ProofError,
    },
    /// The document would be longer than [`PROOF_BYTES_MAX`].
    #[error("the proof would be longer than {PROOF_BYTES_MAX} bytes")]
    Length,
}

/// Proves that record `seq` belongs to the history that ends with `head`; without one, with the last whole turn.
///
/// # Errors
/// See [`ProveError`]. Nothing is ever changed.
pub fn prove<S: Storage>(storage: &S, seq: u64, head: Option<Position>) -> Result<Proof, ProveError> {
    let files = Files { storage, names: segment_names(storage)? };
    let end = match head {
        Some(head) => files.with(head)?,
        None => files.last()?.ok_or(ProveError::Missing(seq))?,
    };
    let own = files.index(seq).filter(|_| seq <= end.head.seq).ok_or(ProveError::Missing(seq))?;
    let (record, sealed) = if own == end.index { (end.line(seq), None) } else { files.sealed(own, seq, end.index)? };
    let record = record.ok_or(ProveError::Missing(seq))?;
    let from = if sealed.is_some() { end.first_seq + 2 } else { seq };
    let tail = end.lines.iter().filter(|(position, _)| position.seq >= from).map(|(_, line)| line.clone()).collect();
    let Sealed { segment, index, count, path, seals } = sealed.unwrap_or_default();
    if head.is_some() && segment.is_some() && end.head.seq == end.first_seq {
        return Err(ProveError::Head(end.head));
    }
    let proof =
        Proof { v: VERSION, ledger: end.ledger, seq, record, segment, index, count, path, seals, tail, head: end.head };
    if proof.document().len() > PROOF_BYTES_MAX {
        return Err(ProveError::Length);
    }
    let verified = proof.verify(&end.head);
    verified.map_err(|why| ProveError::Damaged { segment: files.names[own].0.clone(), why })?;
    Ok(proof)
}

struct Files<'a, S: Storage> {
    storage: &'a S,
    names: Vec<(String, u64)>,
}

/// The segment in which the head stands, up to the head.
struct End {
    index: usize,
    first_seq: u64,
    ledger: String,
    lines: Vec<(Position, String)>,
    head: Position,
}

/// What binds a record to the seal of its segment, and that to the last one.
#[derive(Default)]
struct Sealed {
    segment: Option<u64>,
    index: Option<u64>,
    count: Option<u64>,
    path: Vec<Digest>,
    seals: Vec<String>,
}

impl End {
    fn line(&self, seq: u64) -> Option<String> {
        self.lines.iter().find(|(position, _line)| position.seq == seq).map(|(_position, line)| line.clone())
    }
}

impl<S: Storage> Files<'_, S> {
    /// The segment that has the record, if any has.
    fn index(&self, seq: u64) -> Option<usize> {
        self.names.partition_point(|(_file, first_seq)| *first_seq <= seq).checked_sub(1)
    }

    /// The last segment with a whole turn, up to the end of that.
    fn last(&self) -> Result<Option<End>, ProveError> {
        for index in (0..self.names.len()).rev() {
            if let Some(end) = self.end(index, |_position, ends_turn| ends_turn)? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// The segment that has this record, up to it.
    fn with(&self, head: Position) -> Result<End, ProveError> {
        let index = self.index(head.seq).ok_or(ProveError::Head(head))?;
        self.end(index, |position, _ends_turn| position == head)?.ok_or(ProveError::Head(head))
    }

    fn end(&self, index: usize, is_head: impl Fn(Position, bool) -> bool) -> Result<Option<End>, ProveError> {
        let (file, first_seq) = &self.names[index];
        let bytes = self.read(index)?;
        let (mut lines, mut ledger, mut head) = (Vec::new(), String::new(), None);
        for line in Lines::new(&bytes, 0) {
            // What does not verify is told by the check of the whole.
            let Judged::Record(record) = judge(line.bytes) else { continue };
            ledger = SegmentBody::of(&record).map_or(ledger, |body| body.ledger);
            let position = record.position();
            lines.push((position, text(line.bytes, file)?));
            if is_head(position, record.end) {
                head = Some((position, lines.len()));
            }
        }
        Ok(head.map(|(head, count)| {
            lines.truncate(count);
            End { index, first_seq: *first_seq, ledger, lines, head }
        }))
    }

    /// The record in a closed segment, its way to the root, and the seals from there to that in segment `end`.
    fn sealed(&self, own: usize, seq: u64, end: usize) -> Result<(Option<String>, Option<Sealed>), ProveError> {
        let mut seals = Vec::new();
        for index in own + 1..=end {
            seals.push(self.seal(index)?);
        }
        let (file, first_seq) = &self.names[own];
        let (_line, body) = &seals[0];
        let (Some(count), Some(_root)) = (body.count, body.root) else {
            return Err(ProveError::Unsealed(file.clone()));
        };
        let bytes = self.read(own)?;
        let lines: Vec<&[u8]> = Lines::new(&bytes, 0).map(|line| line.bytes).collect();
        // Whether these digests are those of the lines does not matter: the root tells whether they are the sealed ones.
        let digests: Vec<Digest> = lines.iter().map_while(|line| line.get(6..70).and_then(Digest::from_hex)).collect();
        let index = seq - first_seq;
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        let damaged = || ProveError::Damaged { segment: file.clone(), why: ProofError::Root };
        if u64::try_from(digests.len()) != Ok(count) {
            return Err(damaged());
        }
        let path = merkle::path(&digests, at).ok_or_else(damaged)?;
        let record = lines.get(at).map(|line| text(line, file)).transpose()?;
        let (segment, index, count) = (Some(body.number), Some(index), Some(count));
        let seals = seals.into_iter().map(|(line, _body)| line).collect();
        Ok((record, Some(Sealed { segment, index, count, path, seals })))
    }

    /// The second line of a segment, which closes the one before it.
    fn seal(&self, index: usize) -> Result<(String, SealBody), ProveError> {
        let unsealed = || ProveError::Unsealed(self.names[index - 1].0.clone());
        let (file, _first_seq) = &self.names[index];
        let opened = self.storage.open(in_ledger(file), Access::Read)?;
        let bytes = read_part(self.storage, &opened, 0, 2 * LINE_BYTES_MAX)?;
        let line = Lines::new(&bytes, 0).nth(1).ok_or_else(unsealed)?;
        match judge(line.bytes) {
            Judged::Record(record) if record.t == SEAL_TYPE => {
                let body = SealBody::of(&record).ok_or_else(unsealed)?;
                Ok((text(line.bytes, file)?, body))
            }
            Judged::Record(_) => Err(unsealed()),
            Judged::Newer(_) | Judged::Bad(_) => {
                let why = ProofError::Line { member: "seals", index: 0 };
                Err(ProveError::Damaged { segment: file.clone(), why })
            }
        }
    }

    fn read(&self, index: usize) -> Result<Vec<u8>, ProveError> {
        Ok(read_content(self.storage, &self.names[index].0)?)
    }
}

/// A line as text.
fn text(line: &[u8], file: &str) -> Result<String, ProveError> {
    let why = ProofError::Line { member: "record", index: 0 };
    std::str::from_utf8(line).map(str::to_owned).map_err(|_| ProveError::Damaged { segment: file.to_owned(), why })
}
