//! Retirement: the oldest sealed segments leave the ledger, and a `retire` record says what they were, so that the chain
//! stays provable from it on.
//!
//! Promises: nothing is touched before the record is durable; a kept file is in the archive, durably, before its name goes;
//! only segments go of which every record is there, oldest first, each durably before the next; what a crash leaves to do, the next
//! opening does, if the files are those of the record.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::digest::Digest;
use crate::entry::Entry;
use crate::limits::LINE_BYTES_MAX;
use crate::merkle::Tree;
use crate::record::{Judged, judge};
use crate::recovery::lines::{Lines, read_content};
use crate::recovery::past::{Past, SegmentFile};
use crate::recovery::repair::{RepairError, create_empty};
use crate::seal::SealBody;
use crate::segment::{file_name, first_seq, in_ledger};
use crate::snapshot::snapshots;
use crate::storage::{Access, Folder, Name, Storage, read_from, read_part};

/// The type of the record that retires segments.
pub(crate) const RETIRE_TYPE: &str = "retire";

/// The `body` of a `retire` record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Retirement {
    /// Length of the files, without fill.
    pub(crate) bytes: u64,
    /// The first record of those that state again what is still needed.
    pub(crate) carry: u64,
    /// How many records there were.
    pub(crate) count: u64,
    pub(crate) first: u64,
    pub(crate) first_digest: Digest,
    /// The first segment's number.
    pub(crate) from: u64,
    /// Whether the files go to the archive.
    pub(crate) kept: bool,
    pub(crate) last: u64,
    pub(crate) last_digest: Digest,
    /// Over the roots in the seals of these segments.
    pub(crate) root: Digest,
    /// The last segment's number.
    pub(crate) to: u64,
}

impl Retirement {
    /// `act`: who asked for it.
    pub(crate) fn entry(&self, act: Option<&Value>) -> Entry {
        let body = serde_json::to_value(self).expect("strings and numbers always serialise");
        let act = act.map(|act| ("act".to_owned(), act.clone()));
        let members: Map<String, Value> = [("body".to_owned(), body)].into_iter().chain(act).collect();
        Entry::new(RETIRE_TYPE, members)
    }

    /// Whether this segment is among those that leave.
    pub(crate) fn has(&self, segment: &str) -> bool {
        first_seq(segment).is_some_and(|first_seq| first_seq <= self.last)
    }

    /// Whether a ledger that begins with record `first`, whose `prev` this is if it is known, is whole: what stood before
    /// was retired. Where some of the retired files are still there, nobody knows the digest before the first of them.
    pub(crate) fn covers(&self, first: u64, prev: Option<Digest>) -> bool {
        first <= self.last
            || first.checked_sub(1) == Some(self.last) && prev.is_none_or(|prev| prev == self.last_digest)
    }
}

/// Why segments cannot be described.
#[derive(Debug)]
pub(crate) enum Undescribed {
    Io(io::Error),
    /// The segment with this first sequence number has no root, or does not say what its seal says.
    Unsealed(u64),
}

impl From<io::Error> for Undescribed {
    fn from(error: io::Error) -> Undescribed {
        Undescribed::Io(error)
    }
}

/// What a `retire` record says of the first `count` segments; `carry` is still to be told. Each of them is read whole: what
/// leaves is what its seal says, or it stays as evidence.
pub(crate) fn describe<S: Storage>(
    storage: &S,
    segments: &[SegmentFile],
    count: usize,
    kept: bool,
) -> Result<Retirement, Undescribed> {
    let (mut roots, mut records, mut bytes) = (Tree::default(), 0, 0);
    let (mut from, mut last): (Option<u64>, Option<(u64, u64, Digest)>) = (None, None);
    for pair in segments.windows(2).take(count) {
        let [closed, next] = pair else { continue };
        let unsealed = || Undescribed::Unsealed(closed.first_seq);
        let body = line(storage, next, 1, SealBody::of)?.ok_or_else(unsealed)?;
        let (Some(held), Some(root)) = (body.count, body.root) else { return Err(unsealed()) };
        if closed.first_seq.checked_add(held) != Some(next.first_seq) {
            return Err(unsealed());
        }
        bytes += whole(storage, closed, &body)?.ok_or_else(unsealed)?;
        roots.push(&root);
        records += held;
        from.get_or_insert(body.number);
        last = Some((body.number, next.first_seq - 1, body.last));
    }
    let first = segments.first().ok_or(Undescribed::Unsealed(0))?;
    let unsealed = || Undescribed::Unsealed(first.first_seq);
    let first_digest = line(storage, first, 0, |record| (record.seq == first.first_seq).then_some(record.digest))?;
    let (first_digest, root) = (first_digest.ok_or_else(unsealed)?, roots.root().ok_or_else(unsealed)?);
    let ((to, last, last_digest), from) = (last.ok_or_else(unsealed)?, from.ok_or_else(unsealed)?);
    let first = first.first_seq;
    Ok(Retirement { bytes, carry: 0, count: records, first, first_digest, from, kept, last, last_digest, root, to })
}

/// The length of a segment without fill, if every line of it verifies and they are what its seal says.
fn whole<S: Storage>(storage: &S, segment: &SegmentFile, seal: &SealBody) -> io::Result<Option<u64>> {
    let bytes = read_content(storage, &segment.file())?;
    let (mut tree, mut last) = (Tree::default(), None);
    for line in Lines::new(&bytes, 0) {
        match judge(line.bytes) {
            Judged::Record(record) if line.is_whole() && record.seq == segment.first_seq + tree.count() => {
                tree.push(&record.digest);
                last = Some(record.digest);
            }
            Judged::Record(_) | Judged::Newer(_) | Judged::Bad(_) => return Ok(None),
        }
    }
    let is_sealed = (Some(tree.count()), tree.root(), last) == (seal.count, seal.root, Some(seal.last));
    Ok(is_sealed.then_some(u64::try_from(bytes.len()).unwrap_or(u64::MAX)))
}

/// Whether the first `count` segments are the rest of those that this record retires. Only then may they go: whatever else it
/// says, it was not written about these.
fn are_meant<S: Storage>(
    storage: &S,
    segments: &[SegmentFile],
    count: usize,
    retired: &Retirement,
) -> io::Result<bool> {
    // The last segment never goes.
    let Some(next) = segments.get(count) else { return Ok(false) };
    let mut ends = false;
    for (index, pair) in segments.windows(2).take(count).enumerate() {
        let [closed, next] = pair else { continue };
        let Some(seal) = line(storage, next, 1, SealBody::of)? else { return Ok(false) };
        // An empty first one was made by `remove_again`, before a crash.
        let is_emptied = index == 0 && closed.content == 0;
        if !is_emptied && whole(storage, closed, &seal)?.is_none() {
            return Ok(false);
        }
        ends = (seal.last, seal.number) == (retired.last_digest, retired.to);
    }
    Ok(ends && next.first_seq.checked_sub(1) == Some(retired.last))
}

/// Something of one of the first two lines of a segment.
fn line<S: Storage, T>(
    storage: &S,
    segment: &SegmentFile,
    index: usize,
    of: impl FnOnce(&crate::slice::Sliced<'_>) -> Option<T>,
) -> io::Result<Option<T>> {
    let file = storage.open(in_ledger(&segment.file()), Access::Read)?;
    let bytes = read_part(storage, &file, 0, 2 * LINE_BYTES_MAX)?;
    let found = Lines::new(&bytes, 0).nth(index).and_then(|line| match judge(line.bytes) {
        Judged::Record(record) => of(&record),
        Judged::Newer(_) | Judged::Bad(_) => None,
    });
    Ok(found)
}

/// Whether the archive takes files: asked before anything is recorded, because it may lie on another file system, and not
/// every one knows a second name; and another file of the same name is not ours to replace.
pub(crate) fn try_archive<S: Storage>(storage: &S, files: &[String]) -> io::Result<()> {
    for file in files {
        match storage.open(Name { folder: Folder::Archive, file }, Access::Read) {
            Ok(_) => is_archived(storage, file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let Some(file) = files.first() else { return Ok(()) };
    match storage.link(file, Folder::Ledger, Folder::Archive) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked.and_then(|()| storage.unlink(Name { folder: Folder::Archive, file })),
    }
}

/// Refuses a name of the archive under which something else stands than in the ledger.
fn is_archived<S: Storage>(storage: &S, file: &str) -> io::Result<()> {
    let read = |folder| {
        let opened = storage.open(Name { folder, file }, Access::Read)?;
        read_from(storage, &opened, 0)
    };
    if read(Folder::Archive)? == read(Folder::Ledger)? {
        return Ok(());
    }
    let message = format!("another file stands in the archive under the name {file}");
    Err(io::Error::new(io::ErrorKind::AlreadyExists, message))
}

/// Puts a file into the archive. A name that is there already may be what a failed sync of the folder forgot: it is made again,
/// so that the next sync has something to do.
fn link_anew<S: Storage>(storage: &S, file: &str) -> io::Result<()> {
    let link = || storage.link(file, Folder::Ledger, Folder::Archive);
    match link() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            is_archived(storage, file)?;
            storage.unlink(Name { folder: Folder::Archive, file })?;
            link()
        }
        linked => linked,
    }
}

/// The file before the first that is left may be gone from the folder only as it is seen: a sync that failed ended the process,
/// and forgot it. It would come back after the next ones went, and what lies between would be a loss. So its name is made and
/// removed again, durably. The next file's seal tells it.
fn remove_again<S: Storage>(storage: &S, first: &SegmentFile) -> Result<(), RepairError> {
    let count = line(storage, first, 1, SealBody::of).map_err(RepairError::Write)?.and_then(|seal| seal.count);
    // An empty one was made here, before a crash: all before it are gone.
    let Some(before) = count.and_then(|count| first.first_seq.checked_sub(count)) else { return Ok(()) };
    let file = file_name(before);
    let made = create_empty(storage, in_ledger(&file)).and_then(|_file| storage.unlink(in_ledger(&file)));
    made.map_err(RepairError::Write)?;
    storage.sync_folder(Folder::Ledger).map_err(RepairError::Sync)
}

/// Takes away the files that the newest `retire` record covers, if any are left and they are the ones that it means.
pub(crate) fn finish<S: Storage>(storage: &S, past: &mut Past) -> Result<(), RepairError> {
    let Some(retired) = past.stated.retired.clone() else { return Ok(()) };
    let left = past.segments.partition_point(|segment| segment.first_seq <= retired.last);
    if left == 0 {
        return Ok(());
    }
    if are_meant(storage, &past.segments, left, &retired).map_err(RepairError::Write)? {
        return take_away(storage, past, left, &retired);
    }
    let message = "the newest retire record was not written about these segments";
    Err(RepairError::Write(io::Error::other(message)))
}

/// Takes away the first `left` files, which this record was written about, and with them the snapshots, which list them. Those
/// are caches: what cannot be removed now, the next opening drops.
pub(crate) fn take_away<S: Storage>(
    storage: &S,
    past: &mut Past,
    left: usize,
    retired: &Retirement,
) -> Result<(), RepairError> {
    let files: Vec<String> = past.segments[..left].iter().map(SegmentFile::file).collect();
    if retired.kept {
        // An empty one was made by `remove_again`, before a crash; the archive has it whole.
        for segment in past.segments[..left].iter().filter(|segment| segment.content > 0) {
            link_anew(storage, &segment.file()).map_err(RepairError::Write)?;
        }
        storage.sync_folder(Folder::Archive).map_err(RepairError::Write)?;
    }
    remove_again(storage, &past.segments[0])?;
    for file in &files {
        storage.unlink(in_ledger(file)).map_err(RepairError::Write)?;
        storage.sync_folder(Folder::Ledger).map_err(RepairError::Sync)?;
        let gone = past.segments.remove(0);
        let next = past.segments.first().map_or(retired.last + 1, |segment| segment.first_seq);
        past.records = past.records.saturating_sub(next - gone.first_seq);
    }
    for file in snapshots(storage).unwrap_or_default() {
        let _stays = storage.unlink(in_ledger(&file));
    }
    Ok(())
}
