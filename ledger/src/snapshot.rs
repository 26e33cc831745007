//! A snapshot: the caller's folded state at a place, with all that an opening needs to go on from there.
//!
//! Promises: a cache and nothing else. What it says is believed only if its own bytes verify, it was taken of this
//! ledger, by this fold, and the segments that it lists and the record that it ends with stand where it says; anything
//! else is a reason to look at the one before it, and at last to read the history. Nothing here changes a file.

use std::io;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::canonical::write_value;
use crate::digest::{Digest, Position};
use crate::limits::{LINE_BYTES_MAX, SNAPSHOT_BYTES_MAX};
use crate::record::{Judged, judge};
use crate::recovery::past::{Footing, Past, SegmentFile};
use crate::recovery::segment_names;
use crate::segment::{SegmentBody, in_ledger};
use crate::slice::Sliced;
use crate::storage::{Access, Folder, Storage, read_from, read_part};

/// Another meaning of any member, [`Past`] included, is another version here.
const FRAME: &[u8] = b"ledger-snapshot-v1\n";
const PREFIX: &[u8] = b"{\"d\":\"";
const MIDDLE: &[u8] = b"\",\"r\":";
const NAME: &str = "snapshot-";

/// A snapshot being written. What a crash leaves under this name is removed by the next opening.
pub(crate) const UNFINISHED: &str = "snapshot.new";

/// R of the first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    /// Length of the payload.
    bytes: u64,
    /// Name and version of the fold.
    fold: String,
    /// The ledger's id.
    ledger: String,
    /// The place: its last record is the one that the payload ends with.
    past: Past,
    /// SHA-256 of the payload.
    sum: Digest,
}

/// A snapshot whose first line is sound, and of this fold. Whether it can be used is still to be seen from its payload and from the ledger.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) claim: Claim,
    pub(crate) payload: Payload,
}

/// What the first line says of the rest.
#[derive(Debug)]
pub(crate) struct Claim(Described);

/// What stands behind the first line.
#[derive(Debug)]
pub(crate) struct Payload {
    file: Vec<u8>,
    from: usize,
}

impl Payload {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.file[self.from..]
    }
}

impl Claim {
    /// Whether this is the payload that was written.
    pub(crate) fn covers(&self, payload: &Payload) -> Result<(), Unusable> {
        let payload = payload.bytes();
        let whole = u64::try_from(payload.len()) == Ok(self.0.bytes);
        if whole && Digest::of_bytes(payload) == self.0.sum { Ok(()) } else { Err(Unusable::Payload) }
    }

    /// Where a walk goes on, if the ledger holds what was there.
    pub(crate) fn footing<S: Storage>(self, storage: &S) -> Result<Footing, Unusable> {
        let opened = stands(storage, &self.0)?;
        Ok(Footing { past: self.0.past, opened })
    }
}

/// Why a snapshot is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("it is longer than {SNAPSHOT_BYTES_MAX} bytes")]
    Length,
    #[error("its first line does not verify")]
    Frame,
    #[error("its first line has another form than this program writes")]
    Form,
    #[error("its payload does not match its first line")]
    Payload,
    #[error("its name does not fit its content")]
    Name,
    #[error("it was taken by \"{0}\"")]
    Fold(String),
    #[error("it belongs to another ledger")]
    Ledger,
    #[error("the segments before its place are not those that it lists")]
    Segments,
    #[error("its last record does not stand at its place")]
    Record,
    #[error("its payload cannot be used: {0}")]
    Refused(String),
}

/// The file name of a snapshot that ends with this record.
pub(crate) fn snapshot_name(seq: u64) -> String {
    format!("{NAME}{seq:020}")
}

/// The sequence number in a snapshot's name.
fn seq_of(file: &str) -> Option<u64> {
    let digits = file.strip_prefix(NAME)?;
    let plain = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// The names of the snapshots, newest first.
pub(crate) fn snapshots<S: Storage>(storage: &S) -> io::Result<Vec<String>> {
    let mut files = storage.list(Folder::Ledger)?;
    files.retain(|file| seq_of(file).is_some());
    files.reverse();
    Ok(files)
}

/// The first line.
pub(crate) fn frame(ledger: &str, fold: &str, past: &Past, payload: &[u8]) -> Vec<u8> {
    let bytes = u64::try_from(payload.len()).expect("a length fits 64 bits");
    let (fold, ledger, past) = (fold.to_owned(), ledger.to_owned(), past.clone());
    let described = Described { bytes, fold, ledger, past, sum: Digest::of_bytes(payload) };
    let described = serde_json::to_value(described).expect("strings and numbers always serialise");
    let mut line = [PREFIX, &[b'0'; 64], MIDDLE].concat();
    let start = line.len();
    write_value(&mut line, &described, 1).expect("flat, and its numbers come from the ledger");
    let digest = digest_of(&line[start..]);
    line[PREFIX.len()..PREFIX.len() + 64].copy_from_slice(&digest.hex());
    line.extend_from_slice(b"}\n");
    line
}

fn digest_of(r: &[u8]) -> Digest {
    Digest(Sha256::new().chain_update(FRAME).chain_update(r).finalize().into())
}

/// Reads a snapshot and tests its first line.
pub(crate) fn read<S: Storage>(storage: &S, file: &str, fold: &str) -> Result<Found, Unusable> {
    let opened = storage.open(in_ledger(file), Access::Read)?;
    if storage.len(&opened)? > SNAPSHOT_BYTES_MAX {
        return Err(Unusable::Length);
    }
    let bytes = read_from(storage, &opened, 0)?;
    let (described, from) = describe(&bytes)?;
    if described.fold != fold {
        return Err(Unusable::Fold(described.fold));
    }
    if seq_of(file) != Some(described.past.heads.last.seq) {
        return Err(Unusable::Name);
    }
    Ok(Found { claim: Claim(described), payload: Payload { file: bytes, from } })
}

/// The first line's R, and where the payload begins.
fn describe(bytes: &[u8]) -> Result<(Described, usize), Unusable> {
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or(Unusable::Frame)?;
    let line = bytes[..end].strip_prefix(PREFIX).and_then(|rest| rest.split_at_checked(64));
    let (digest, rest) = line.ok_or(Unusable::Frame)?;
    let r = rest.strip_prefix(MIDDLE).and_then(|rest| rest.strip_suffix(b"}")).ok_or(Unusable::Frame)?;
    if Digest::from_hex(digest) != Some(digest_of(r)) {
        return Err(Unusable::Frame);
    }
    let described: Described = serde_json::from_slice(r).map_err(|_form| Unusable::Form)?;
    Ok((described, end + 1))
}

/// Whether the ledger holds what the past says, as far as lengths and the last record tell; the record that opens the
/// last segment.
fn stands<S: Storage>(storage: &S, described: &Described) -> Result<SegmentBody, Unusable> {
    let past = &described.past;
    let names = segment_names(storage)?;
    let listed = past.segments.iter().map(|segment| segment.first_seq);
    if past.segments.len() > names.len() || !listed.eq(names.iter().map(|(_file, seq)| *seq).take(past.segments.len()))
    {
        return Err(Unusable::Segments);
    }
    let (last, before) = past.segments.split_last().ok_or(Unusable::Segments)?;
    for segment in before {
        let file = segment.file();
        let longer = storage.look(in_ledger(&file))?.len.checked_sub(segment.content).ok_or(Unusable::Segments)?;
        // Only line feeds may stand behind the content.
        let behind = || read_from(storage, &storage.open(in_ledger(&file), Access::Read)?, segment.content);
        if longer > 0 && behind()?.iter().any(|byte| *byte != b'\n') {
            return Err(Unusable::Segments);
        }
    }
    let file = storage.open(in_ledger(&last.file()), Access::Read)?;
    let opened = opening(storage, &file, last.first_seq)?.ok_or(Unusable::Segments)?;
    if opened.ledger != described.ledger {
        return Err(Unusable::Ledger);
    }
    match last_record(storage, &file, *last)? {
        Some(position) if position == past.heads.last => Ok(opened),
        Some(_) | None => Err(Unusable::Record),
    }
}

/// The body of the record that opens a segment, if it is the one that the segment's name promises.
fn opening<S: Storage>(storage: &S, file: &S::File, first_seq: u64) -> io::Result<Option<SegmentBody>> {
    let bytes = read_part(storage, file, 0, LINE_BYTES_MAX)?;
    let first = bytes.split(|byte| *byte == b'\n').next().and_then(sound);
    Ok(first.filter(|record| record.seq == first_seq).and_then(|record| SegmentBody::of(&record)))
}

/// The record whose line ends the segment's content.
fn last_record<S: Storage>(storage: &S, file: &S::File, segment: SegmentFile) -> io::Result<Option<Position>> {
    let longest = u64::try_from(LINE_BYTES_MAX).expect("a limit fits 64 bits");
    // One byte more, so that the end of the line before is seen.
    let from = segment.content.saturating_sub(longest + 1);
    let len = usize::try_from(segment.content - from).map_err(|_wide| io::ErrorKind::FileTooLarge)?;
    let bytes = read_part(storage, file, from, len)?;
    let whole = bytes.len() == len;
    let line =
        bytes.strip_suffix(b"\n").filter(|_line| whole).and_then(|lines| lines.rsplit(|byte| *byte == b'\n').next());
    Ok(line.and_then(sound).map(|record| record.position()))
}

fn sound(line: &[u8]) -> Option<Sliced<'_>> {
    match judge(line) {
        Judged::Record(record) => Some(record),
        Judged::Newer(_) | Judged::Bad(_) => None,
    }
}
