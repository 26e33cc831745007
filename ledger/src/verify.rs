//! Verification without the writer lock: the same survey that recovery makes, and nothing is ever changed.
//!
//! While a broker writes, one read can mix bytes of two moments. So a finding counts only once two readings in a row
//! agree on all of it; a tail that is merely not whole yet is no finding at all.

use std::io;
#[cfg(unix)]
use std::path::Path;

use serde::Serialize;

use crate::digest::{Digest, Position};
use crate::reader::ReadError;
use crate::record::{Judged, Record, judge};
use crate::recovery::lines::Lines;
use crate::recovery::past::SegmentFile;
use crate::recovery::settled::Settled;
use crate::recovery::table::Class;
use crate::recovery::{Judgement, Problem, TailReport, segment_names, survey};
use crate::segment::in_ledger;
use crate::storage::{Access, Storage, read_from};

/// Readings in a row before findings that never settle are reported as they are.
const READINGS_MAX: u32 = 16;

/// How to verify.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// The boot that the machine is in, if the ledger is this machine's: a tail left by a power loss before this boot
    /// is then told from one that nothing explains. Without it the stricter reading holds.
    pub boot: Option<String>,
    /// A head kept elsewhere: it has to be part of the history.
    pub since: Option<Position>,
}

/// What verification found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// Records that verify, in whole turns.
    pub records: u64,
    /// The last of them.
    pub head: Position,
    /// Everything that is wrong, and no operator has accepted.
    pub problems: Vec<Problem>,
    /// What an operator has accepted.
    pub accepted: Vec<Problem>,
    /// What lies behind the head and is no whole turn: a write in progress, or what a crash left. No problem.
    pub tail: Option<TailReport>,
    /// The head that was kept elsewhere was retired with its record: only of the last one that was its digest is known and was
    /// compared.
    #[serde(skip)]
    pub since_retired: bool,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    pub fn ok(&self) -> bool {
        self.problems.is_empty()
    }
}

/// The end of a ledger, read without walking its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HeadReport {
    /// The last record of the last whole turn.
    pub head: Position,
    /// How many segments there are.
    pub segments: u64,
    /// Their length in bytes together.
    pub bytes: u64,
}

/// What [`verify_watching`] comes by.
#[derive(Clone, Copy, Debug)]
pub enum Watched<'a> {
    /// It reads from the beginning. What was seen before counts no more: a broker wrote meanwhile.
    Begins,
    /// The next record, verified.
    Record(Seen<'a>),
}

/// A record that verification comes by.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a>(Settled<'a>);

impl Seen<'_> {
    /// The length of its line.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// The record itself.
    pub fn record(&self) -> Record {
        self.0.record()
    }
}

/// Verifies every digest and both chains.
pub fn verify<S: Storage>(storage: &S, options: &VerifyOptions) -> Result<VerifyReport, ReadError> {
    verify_watching(storage, options, &mut |_watched| {})
}

/// As [`verify`], and tells `watch` what it comes by.
pub fn verify_watching<S: Storage>(
    storage: &S,
    options: &VerifyOptions,
    watch: &mut impl FnMut(Watched<'_>),
) -> Result<VerifyReport, ReadError> {
    let mut before: Option<VerifyReport> = None;
    for reading_left in (0..READINGS_MAX).rev() {
        let report = match reading(storage, options, watch) {
            // A segment was retired since the names were read.
            Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound && reading_left > 0 => continue,
            report => report?,
        };
        let settled = before.as_ref().is_some_and(|before| before.problems == report.problems);
        if report.ok() || settled || reading_left == 0 {
            return Ok(report);
        }
        before = Some(report);
    }
    unreachable!("the last reading returns")
}

/// As [`verify`], of a folder.
#[cfg(unix)]
pub fn verify_folder(folder: &Path, options: &VerifyOptions) -> Result<VerifyReport, ReadError> {
    verify(&crate::storage::Disk::reading(folder), options)
}

fn reading<S: Storage>(
    storage: &S,
    options: &VerifyOptions,
    watch: &mut impl FnMut(Watched<'_>),
) -> Result<VerifyReport, ReadError> {
    watch(Watched::Begins);
    let judgement = Judgement { boot: options.boot.as_deref(), ..Judgement::default() };
    let mut since: Option<Digest> = None;
    let wanted = options.since.map(|since| since.seq);
    let found = survey(storage, judgement, &mut |settled| {
        if Some(settled.position.seq) == wanted {
            since = Some(settled.position.digest);
        }
        watch(Watched::Record(Seen(settled)));
    })?;
    let head = found.head;
    let retired = options.since.is_some_and(|kept| found.is_retired(kept));
    let (mut problems, mut tail) = (found.problems, found.tail);
    let problem = |tail: &TailReport| tail.class.degrades();
    if let Some(TailReport { class, segment, offset, detail, .. }) = tail.take_if(|tail| problem(tail)) {
        let seq = Some(head.seq + 1);
        problems.push(Problem { class, segment, seq, missing: 0, offset, sessions: Vec::new(), detail });
    }
    if let Some(kept) = options.since.filter(|_kept| !retired) {
        problems.extend(rollback(kept, head, since, found.segments.last().map(SegmentFile::file)));
    }
    Ok(VerifyReport {
        records: found.walk.records,
        head,
        problems,
        accepted: found.accepted,
        tail,
        since_retired: retired,
    })
}

/// A head kept elsewhere that the history does not contain.
fn rollback(kept: Position, head: Position, found: Option<Digest>, segment: Option<String>) -> Option<Problem> {
    let (class, detail) = match found {
        Some(digest) if digest == kept.digest => return None,
        _ if kept == Position::START => return None,
        Some(_) => (Class::ChainBroken, format!("record {} is not the one whose digest was kept", kept.seq)),
        None if kept.seq > head.seq => (Class::Loss, format!("the history ends at {}, before the kept head", head.seq)),
        None => (Class::Loss, format!("record {} is missing", kept.seq)),
    };
    let segment = segment.unwrap_or_default();
    Some(Problem { class, segment, seq: Some(kept.seq), missing: 0, offset: 0, sessions: Vec::new(), detail })
}

/// Reads the head from the last segments alone. It says where the ledger ends, not that it is sound.
pub fn head<S: Storage>(storage: &S) -> Result<HeadReport, ReadError> {
    let names = segment_names(storage)?;
    let mut bytes = 0;
    let mut segments = 0;
    for (file, _first_seq) in &names {
        match storage.open(in_ledger(file), Access::Read) {
            // It was retired since the names were read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => (bytes, segments) = (bytes + storage.len(&opened?)?, segments + 1),
        }
    }
    for (file, _first_seq) in names.iter().rev() {
        let content = read_from(storage, &storage.open(in_ledger(file), Access::Read)?, 0)?;
        let ends = Lines::new(&content, 0).filter_map(|line| match judge(line.bytes) {
            Judged::Record(record) if record.end => Some(record.position()),
            Judged::Record(_) | Judged::Newer(_) | Judged::Bad(_) => None,
        });
        if let Some(head) = ends.last() {
            return Ok(HeadReport { head, segments, bytes });
        }
    }
    Ok(HeadReport { head: Position::START, segments, bytes })
}
