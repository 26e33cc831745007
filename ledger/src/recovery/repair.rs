//! Makes the files agree with what the survey accepted, before anything is acknowledged.
//!
//! Promises: only bytes that were never acknowledged are cut, after a copy was set aside; what may be clean in the cache
//! and missing on the disk (a sync that failed before) is written again in place and synced; a crash at any point
//! leaves a state that the next start repairs the same way.

use std::io;

use super::table::Class;
use super::{Survey, TailReport, recovered_entry, wide};
use crate::digest::Digest;
use crate::entry::Entry;
use crate::limits::QUARANTINE_BYTES_MAX;
use crate::segment::in_ledger;
use crate::storage::{Access, Folder, Name, Storage, read_from, write_all};

const PREFIX: &str = "ledger-tail-";
/// A segment being replaced; what a crash leaves under this name is used again and never read.
const REPLACEMENT: &str = "segment.new";

/// What setting aside came to.
#[derive(Debug, Default)]
pub(crate) struct SetAside {
    /// `recovered` records to write.
    pub(crate) owed: Vec<Entry>,
    /// Why a copy could not be kept, if so.
    pub(crate) failure: Option<String>,
}

/// A step of the repair failed; the next start begins it again.
#[derive(Debug)]
pub(crate) enum RepairError {
    Write(io::Error),
    Sync(io::Error),
}

/// Copies every piece of the tail into the quarantine ring. Never acknowledged bytes may be lost: a full quarantine
/// degrades, it does not stop.
pub(crate) fn set_aside<S: Storage>(storage: &S, survey: &Survey) -> io::Result<SetAside> {
    let mut done = SetAside::default();
    if let Some(tail) = &survey.tail {
        for (piece, bytes) in pieces(storage, survey, tail)? {
            let file = quarantine_name(&piece, &bytes);
            if let Err(error) = keep(storage, &file, &bytes) {
                done.failure = Some(format!("a tail of {} bytes could not be kept: {error}", bytes.len()));
                done.owed.push(recovered_entry(&piece, Digest::of_bytes(&bytes).to_string(), None));
            }
        }
    }
    match unstated(storage, survey) {
        Ok(entries) => done.owed.extend(entries),
        Err(error) => done.failure = Some(format!("the quarantine cannot be read: {error}")),
    }
    Ok(done)
}

/// The tail's bytes, segment by segment.
fn pieces<S: Storage>(storage: &S, survey: &Survey, tail: &TailReport) -> io::Result<Vec<(TailReport, Vec<u8>)>> {
    let settled = survey.walk.settled;
    let mut pieces = Vec::new();
    for (index, segment) in survey.segments.iter().enumerate().skip(settled.segment) {
        let offset = if index == settled.segment { settled.offset } else { 0 };
        if segment.content > offset {
            let file = storage.open(in_ledger(&segment.file()), Access::Read)?;
            let mut bytes = read_from(storage, &file, offset)?;
            bytes.truncate(narrow(segment.content - offset)?);
            let piece = TailReport { segment: segment.file(), offset, bytes: wide(bytes.len()), ..tail.clone() };
            pieces.push((piece, bytes));
        }
    }
    Ok(pieces)
}

/// Sorts by age, and says everything that the `recovered` record needs.
fn quarantine_name(piece: &TailReport, bytes: &[u8]) -> String {
    let segment = piece.segment.trim_end_matches(".jsonl");
    let digest = Digest::of_bytes(bytes).to_string();
    format!("{PREFIX}{segment}-{:012}-{}-{}", piece.offset, piece.class.name(), &digest[..16])
}

fn keep<S: Storage>(storage: &S, file: &str, bytes: &[u8]) -> io::Result<()> {
    let bytes = &bytes[..bytes.len().min(narrow(QUARANTINE_BYTES_MAX)?)];
    make_room(storage, wide(bytes.len()))?;
    let name = Name { folder: Folder::Quarantine, file };
    let kept = create_empty(storage, name)?;
    let written = write_all(storage, &kept, 0, bytes).and_then(|()| storage.sync_data(&kept));
    if let Err(error) = written {
        storage.unlink(name)?;
        return Err(error);
    }
    storage.sync_folder(Folder::Quarantine)
}

/// The ring: the oldest tails go until the new one fits.
fn make_room<S: Storage>(storage: &S, needed: u64) -> io::Result<()> {
    let mut kept = Vec::new();
    let mut total = needed;
    for file in tails(storage)? {
        let name = Name { folder: Folder::Quarantine, file: &file };
        let bytes = storage.len(&storage.open(name, Access::Read)?)?;
        total += bytes;
        kept.push((file, bytes));
    }
    for (file, bytes) in kept {
        if total <= QUARANTINE_BYTES_MAX {
            break;
        }
        storage.unlink(Name { folder: Folder::Quarantine, file: &file })?;
        total -= bytes;
    }
    Ok(())
}

fn tails<S: Storage>(storage: &S) -> io::Result<Vec<String>> {
    let files = storage.list(Folder::Quarantine)?;
    Ok(files.into_iter().filter(|file| file.starts_with(PREFIX)).collect())
}

/// `recovered` records for every kept tail that the ledger does not state: this start's, and those of a start that
/// crashed before its first turn. Of a tail of a retired segment the record may have left the ledger: it was stated.
fn unstated<S: Storage>(storage: &S, survey: &Survey) -> io::Result<Vec<Entry>> {
    let mut owed = Vec::new();
    for file in tails(storage)?.into_iter().filter(|file| !survey.stated.tails.contains(file)) {
        let Some(mut tail) = parse_name(&file).filter(|tail| !survey.stated.is_retired(&tail.segment)) else {
            continue;
        };
        let kept = storage.open(Name { folder: Folder::Quarantine, file: &file }, Access::Read)?;
        let bytes = read_from(storage, &kept, 0)?;
        tail.bytes = wide(bytes.len());
        owed.push(recovered_entry(&tail, Digest::of_bytes(&bytes).to_string(), Some(&file)));
    }
    Ok(owed)
}

fn parse_name(file: &str) -> Option<TailReport> {
    let mut parts = file.strip_prefix(PREFIX)?.split('-');
    let (segment, offset, class) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
    let class = [Class::TornTail, Class::SuspiciousTail].into_iter().find(|known| known.name() == class)?;
    Some(TailReport { class, segment: format!("{segment}.jsonl"), offset, bytes: 0, detail: String::new() })
}

/// Cuts the tail and writes again what no `dur` proves to be on the disk. Returns how many bytes were written again.
pub(crate) fn repair<S: Storage>(storage: &S, survey: &Survey) -> Result<u64, RepairError> {
    let (settled, durable) = (survey.walk.settled, survey.walk.durable_place);
    let kept = survey.kept().len();
    // From the last to the first: a crash between leaves no hole.
    for segment in survey.segments.iter().skip(kept).rev() {
        storage.unlink(in_ledger(&segment.file())).map_err(RepairError::Write)?;
    }
    let mut rewritten = 0;
    for (index, segment) in survey.segments.iter().enumerate().take(kept).skip(durable.segment) {
        let to = if index == settled.segment { settled.offset } else { segment.content };
        if index < settled.segment && index == durable.segment && durable.offset >= to {
            continue;
        }
        rewritten += if index == durable.segment && durable.offset > 0 {
            rewrite(storage, &segment.file(), durable.offset, to)?
        } else {
            match replace(storage, &segment.file(), to) {
                // No room for a second copy: write it in place. The attempt has changed the folder, so its sync has
                // something to do as well. After any other failure the next opening tries again: a name that a failed
                // sync forgot comes back with the copy alone. (Whoever saw that sync fail removed the file, unless it
                // was killed on the way or could not: on a full disk such a name can still be lost.)
                Err(RepairError::Write(error)) if is_lack_of_room(&error) => {
                    let _left_over = storage.unlink(in_ledger(REPLACEMENT));
                    rewrite(storage, &segment.file(), 0, to)?
                }
                replaced => replaced?,
            }
        };
    }
    if !survey.segments.is_empty() {
        storage.sync_folder(Folder::Ledger).map_err(RepairError::Sync)?;
    }
    Ok(rewritten)
}

/// The disk, a quota or a size limit is full.
pub(crate) fn is_lack_of_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

/// Cuts a segment at `to` and writes `from..to` again, so that the sync has something to do. A cut that an earlier sync
/// failed to make durable is not seen any more while the disk still holds what was cut, so it is always made again:
/// the file grows by a byte and is cut. A crash between leaves that byte as a tail.
fn rewrite<S: Storage>(storage: &S, segment: &str, from: u64, to: u64) -> Result<u64, RepairError> {
    let file = open_for_writing(storage, segment).map_err(RepairError::Write)?;
    let longer = storage.len(&file).map_err(RepairError::Write)? > to;
    if from >= to && !longer {
        return Ok(0);
    }
    if !longer {
        storage.truncate(&file, to + 1).map_err(RepairError::Write)?;
    }
    storage.truncate(&file, to).map_err(RepairError::Write)?;
    let bytes = read_from(storage, &file, from).map_err(RepairError::Write)?;
    write_all(storage, &file, from, &bytes).map_err(RepairError::Write)?;
    storage.sync_data(&file).map_err(RepairError::Sync)?;
    Ok(wide(bytes.len()))
}

/// Opens a segment that goes on, although it may be sealed: the one behind it is gone, or somebody protects a copy.
pub(crate) fn open_for_writing<S: Storage>(storage: &S, segment: &str) -> io::Result<S::File> {
    let name = in_ledger(segment);
    if storage.is_sealed(&storage.open(name, Access::Read)?)? {
        storage.unseal(name)?;
    }
    storage.open(name, Access::Write)
}

/// Seals what the records say is sealed: a crash, or an error that stopped nobody, may have come between. Returns why a
/// segment could not be.
pub(crate) fn seal_closed<S: Storage>(storage: &S, survey: &Survey) -> Option<String> {
    let mut failure = None;
    for segment in survey.segments.iter().filter(|segment| segment.closed) {
        let file = segment.file();
        let seen = storage.look(in_ledger(&file));
        let done = seen.and_then(|seen| if seen.sealed { Ok(()) } else { storage.seal(in_ledger(&file)) });
        failure = failure.or(done.err().map(|error| format!("ledger: {file} cannot be sealed: {error}")));
    }
    failure
}

/// Puts a new file in the place of a segment of which nothing is proven durable, not even its name: a failed sync of
/// the folder is forgotten as one of a file is. Such a segment holds at most what one sync covers, so it is small.
fn replace<S: Storage>(storage: &S, segment: &str, to: u64) -> Result<u64, RepairError> {
    let old = storage.open(in_ledger(segment), Access::Read).map_err(RepairError::Write)?;
    let mut bytes = read_from(storage, &old, 0).map_err(RepairError::Write)?;
    bytes.truncate(narrow(to).map_err(RepairError::Write)?);
    let new = create_empty(storage, in_ledger(REPLACEMENT)).map_err(RepairError::Write)?;
    write_all(storage, &new, 0, &bytes).map_err(RepairError::Write)?;
    storage.sync_data(&new).map_err(RepairError::Sync)?;
    storage.rename(Folder::Ledger, REPLACEMENT, segment).map_err(RepairError::Sync)?;
    Ok(wide(bytes.len()))
}

/// A new file, or one that an earlier start left behind, emptied.
pub(crate) fn create_empty<S: Storage>(storage: &S, name: Name<'_>) -> io::Result<S::File> {
    match storage.create(name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let file = storage.open(name, Access::Write)?;
            storage.truncate(&file, 0)?;
            Ok(file)
        }
        created => created,
    }
}

fn narrow(bytes: u64) -> io::Result<usize> {
    usize::try_from(bytes).map_err(|_wide| io::ErrorKind::FileTooLarge.into())
}
