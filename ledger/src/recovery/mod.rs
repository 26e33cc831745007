//! What the files say: a survey of all segments, classified by the literal table. Nothing here changes a file.

pub(crate) mod hole;
pub(crate) mod lines;
pub(crate) mod past;
pub(crate) mod repair;
pub(crate) mod settled;
pub(crate) mod table;
pub(crate) mod walk;

use std::io;

use serde::Serialize;
use serde_json::{Value, json};

use crate::digest::Position;
use crate::entry::Entry;
use crate::limits::{LINE_BYTES_MAX, TAIL_BYTES_MAX};
use crate::segment::{file_name, first_seq, in_ledger, own_entry};
use crate::storage::{Access, Folder, Storage, read_into};
use hole::{Hole, Place};
use lines::{Segment, content_len};
use past::{Footing, Past, SegmentFile, Stated};
use settled::Settled;
use table::{Boot, Class, Extent, Shape, Zone, classify};
use walk::Walk;

/// The record that states a hole.
pub(crate) const GAP_TYPE: &str = "gap";
/// The record that states what a start set aside.
pub(crate) const RECOVERED_TYPE: &str = "recovered";
/// How many sessions one `gap` record names; more go into further records.
const GAP_SESSIONS_MAX: usize = 1_000;

/// One finding, in the form in which `ledger verify` reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// What it is.
    pub class: Class,
    /// The segment's file name.
    pub segment: String,
    /// The first sequence number concerned, where one is known.
    pub seq: Option<u64>,
    /// How many sequence numbers are missing there.
    pub missing: u64,
    /// Byte offset in the segment.
    pub offset: u64,
    /// The sessions that own, or could own, what is wrong there.
    pub sessions: Vec<String>,
    /// One sentence.
    pub detail: String,
}

impl Problem {
    /// The finding in one line, as it stands among what is degraded.
    pub fn line(&self) -> String {
        line_of(self.class, &self.segment, self.offset, &self.detail)
    }
}

impl TailReport {
    /// As [`Problem::line`].
    pub fn line(&self) -> String {
        line_of(self.class, &self.segment, self.offset, &self.detail)
    }
}

fn line_of(class: Class, segment: &str, offset: u64, detail: &str) -> String {
    format!("ledger: {} in {segment} at {offset}: {detail}", class.name())
}

/// The end of the ledger that is not a whole, well-linked turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TailReport {
    /// Torn, suspicious, or a broken chain: more than a crash leaves.
    pub class: Class,
    /// The segment in which it begins.
    pub segment: String,
    /// Where it begins, byte offset in that segment.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// One sentence.
    pub detail: String,
}

/// All segments, read once.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) walk: Walk,
    pub(crate) segments: Vec<SegmentFile>,
    /// The last record of the last whole turn.
    pub(crate) head: Position,
    /// The end that the writer goes on from lies behind a hole: records that are lost came last.
    pub(crate) behind_hole: bool,
    pub(crate) tail: Option<TailReport>,
    /// Holes in what had been synced, and what earlier starts recorded; but for what an operator has accepted.
    pub(crate) problems: Vec<Problem>,
    pub(crate) accepted: Vec<Problem>,
    /// For each hole that no `gap` record states yet: the record to write.
    pub(crate) gaps_owed: Vec<Entry>,
    /// What earlier starts recorded.
    pub(crate) stated: Stated,
}

impl Survey {
    /// Whether this position left the ledger with retired records. Only of the last of them the digest is known.
    pub(crate) fn is_retired(&self, position: Position) -> bool {
        let retired =
            self.stated.retired.as_ref().filter(|_| self.walk.begins.is_some_and(|(first, _)| position.seq < first));
        retired.is_some_and(|retired| {
            let known = position.seq == retired.last;
            position.seq <= retired.last && (!known || position.digest == retired.last_digest)
        })
    }

    /// The segments that stay when the tail is cut.
    pub(crate) fn kept(&self) -> &[SegmentFile] {
        let settled = self.walk.settled;
        let kept = if settled.offset == 0 { settled.segment } else { settled.segment + 1 };
        &self.segments[..kept.min(self.segments.len())]
    }

    /// What the writer goes on from, once the files were repaired.
    pub(crate) fn into_past(self) -> Past {
        let kept = self.kept().len();
        let Survey { walk, mut segments, stated, .. } = self;
        let settled = walk.settled;
        segments.truncate(kept);
        if let Some(last) = segments.get_mut(settled.segment) {
            last.content = settled.offset;
        }
        let Walk { heads, holes, records, sealing, .. } = walk;
        Past { heads, holes, records, segments, stated, sealing }
    }
}

/// How a survey judges.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Judgement<'a> {
    /// The boot that the machine is in. Without it every tail is held to the stricter standard, the same boot's.
    pub(crate) boot: Option<&'a str>,
    /// Judges the files as they will be.
    pub(crate) repaired: Option<Repaired<'a>>,
    /// Planted bug: takes the sound records of half a turn for a turn.
    pub(crate) accept_half_turn: bool,
    /// Whoever takes the records wants a copy of each.
    pub(crate) makes_records: bool,
}

/// The ledger as an opening leaves it, with one turn behind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repaired<'a> {
    /// Where the tail is cut.
    pub(crate) end: Place,
    /// The first sequence number of the turn.
    pub(crate) first_seq: u64,
    /// Whether the turn begins a new segment.
    pub(crate) rotates: bool,
    pub(crate) turn: &'a [u8],
}

/// Reads all segments. Records go to `sink` in order, whole turns only.
pub(crate) fn survey<S: Storage>(
    storage: &S,
    judgement: Judgement<'_>,
    sink: &mut impl FnMut(Settled<'_>),
) -> io::Result<Survey> {
    survey_from(storage, judgement, None, sink)
}

/// As [`survey`], reading only what lies behind the footing.
pub(crate) fn survey_from<S: Storage>(
    storage: &S,
    judgement: Judgement<'_>,
    footing: Option<Footing>,
    sink: &mut impl FnMut(Settled<'_>),
) -> io::Result<Survey> {
    let names = segment_names(storage)?;
    let (walk, mut segments, mut stated) = match footing {
        None => (Walk::new(), Vec::new(), Stated::default()),
        Some(footing) => Walk::on(footing),
    };
    let mut walk = walk.making(judgement.makes_records);
    let begin = walk.settled;
    let mut segment = Segment::default();
    for index in begin.segment..names.len() {
        let from = if index == begin.segment { begin.offset } else { 0 };
        read_segment(storage, &names, index, from, &mut segment)?;
        if judgement.repaired.is_some_and(|repaired| !segment.repair(index, repaired)) {
            break;
        }
        walk.segment(index, &segment, &mut |settled| {
            stated.note_record(settled);
            sink(settled);
        });
        let content = from + wide(content_len(&segment.bytes));
        segments.push(SegmentFile { first_seq: segment.first_seq, content, closed: false });
    }
    if let Some(Repaired { first_seq, rotates: true, turn, .. }) = judgement.repaired {
        let new = Segment { first_seq, from: 0, bytes: turn.to_vec(), next: Vec::new() };
        walk.segment(segments.len(), &new, sink);
        segments.push(SegmentFile { first_seq, content: wide(turn.len()), closed: false });
    }
    if judgement.accept_half_turn {
        walk.settle_half_turn(sink);
    }
    for segment in &mut segments {
        segment.closed |= walk.sealed.contains(&segment.first_seq);
    }
    Ok(conclude(walk, segments, stated, judgement))
}

/// File names and first sequence numbers of the segments, in order.
pub(crate) fn segment_names<S: Storage>(storage: &S) -> io::Result<Vec<(String, u64)>> {
    let files = storage.list(Folder::Ledger)?;
    Ok(files.into_iter().filter_map(|file| first_seq(&file).map(|seq| (file, seq))).collect())
}

/// Reads a segment from an offset on, and the beginning of the next, into the buffers of another.
pub(crate) fn read_segment<S: Storage>(
    storage: &S,
    names: &[(String, u64)],
    index: usize,
    from: u64,
    segment: &mut Segment,
) -> io::Result<()> {
    let (file, first_seq) = &names[index];
    (segment.first_seq, segment.from) = (*first_seq, from);
    let open = |file: &str| storage.open(in_ledger(file), Access::Read);
    read_into(storage, &open(file)?, from, u64::MAX, &mut segment.bytes)?;
    match names.get(index + 1) {
        None => segment.next.clear(),
        Some((file, _first_seq)) => {
            read_into(storage, &open(file)?, 0, wide(LINE_BYTES_MAX), &mut segment.next)?;
        }
    }
    Ok(())
}

fn conclude(mut walk: Walk, segments: Vec<SegmentFile>, stated: Stated, judgement: Judgement<'_>) -> Survey {
    let file_of = |place: Place| segments.get(place.segment).map(SegmentFile::file).unwrap_or_default();
    let boot = match (walk.segments.last(), judgement.boot) {
        (Some((_index, body)), Some(boot)) if body.boot == boot => Boot::Same,
        (Some(_), None) => Boot::Same,
        (Some(_), Some(_)) | (None, _) => Boot::Other,
    };
    let synced = walk.holes.partition_point(|hole| hole.first_seq() <= walk.durable);
    let unsynced: Vec<Hole> = walk.holes.split_off(synced).into_iter().chain(walk.open.take()).collect();
    let head = walk.head();
    let behind_hole = walk.pass_synced_holes(&segments);
    let tail = tail_of(&walk, &segments, &unsynced, boot);
    walk.retreat();
    if let Some((first_seq, prev)) = walk.begins
        && stated.covers(first_seq, prev)
    {
        // The first hole is the beginning; later ones may have the same number, but not this place.
        walk.holes.retain(|hole| hole.after_seq != 0 || hole.missing != first_seq - 1);
    }

    let (mut problems, mut gaps_owed) = (Vec::new(), Vec::new());
    for hole in &walk.holes {
        // The walk's own stays open: a record still to come may show whose it is.
        let mut hole = hole.clone();
        hole.close(&walk.heads);
        let class = classify(Zone::Synced, hole.shape, boot, Extent::WithinBatch);
        let sessions = hole.sessions.iter().chain(&hole.suspects).cloned().collect();
        let seq = Some(hole.first_seq());
        let Hole { missing, offset, ref detail, .. } = hole;
        let (segment, detail) = (file_name(hole.segment), detail.clone());
        let problem = Problem { class, segment, seq, missing, offset, sessions, detail };
        if !stated.states(&problem) {
            gaps_owed.extend(gap_entries(&problem));
        }
        problems.push(problem);
    }
    if let Some((place, version)) = walk.newer {
        let detail = format!("format version {version} was written by a later program");
        let (class, segment) = (Class::TooNew, file_of(place));
        let sessions = Vec::new();
        problems.push(Problem { class, segment, seq: None, missing: 0, offset: place.offset, sessions, detail });
    }
    let accepted = stated.add_to(&mut problems);
    Survey { walk, segments, head, behind_hole, tail, problems, accepted, gaps_owed, stated }
}

fn tail_of(walk: &Walk, segments: &[SegmentFile], unsynced: &[Hole], boot: Boot) -> Option<TailReport> {
    let settled = walk.settled;
    let behind: u64 = segments.iter().skip(settled.segment).map(|segment| segment.content).sum();
    let bytes = behind.saturating_sub(settled.offset);
    if bytes == 0 {
        return None;
    }
    let worst = unsynced.iter().max_by_key(|hole| hole.shape);
    let shape = worst.map_or(Shape::HalfTurn, |hole| hole.shape);
    let begins = segments.iter().enumerate().skip(settled.segment).find(|(index, segment)| {
        let from = if *index == settled.segment { settled.offset } else { 0 };
        segment.content > from
    });
    let (index, segment) = begins?;
    let offset = if index == settled.segment { settled.offset } else { 0 };
    // Nothing can be written behind a beginning that is lost.
    let alone = segment.content - offset == bytes && (walk.records > 0 || walk.holes.is_empty());
    let precious = unsynced.iter().any(|hole| hole.precious);
    let extent = if alone && !precious && bytes <= TAIL_BYTES_MAX { Extent::WithinBatch } else { Extent::Beyond };
    let detail = worst.map_or_else(|| "records without the end of their turn".to_owned(), |hole| hole.detail.clone());
    let class = classify(Zone::Tail, shape, boot, extent);
    Some(TailReport { class, segment: segment.file(), offset, bytes, detail })
}

fn gap_entries(problem: &Problem) -> Vec<Entry> {
    let entry = |sessions: &[String]| {
        own_entry(
            GAP_TYPE,
            json!({
                "class": problem.class.name(),
                "first": problem.seq,
                "missing": problem.missing,
                "offset": problem.offset,
                "segment": problem.segment,
                "sessions": sessions,
            }),
        )
    };
    let chunks = problem.sessions.chunks(GAP_SESSIONS_MAX);
    if problem.sessions.is_empty() { vec![entry(&[])] } else { chunks.map(entry).collect() }
}

/// The record that states a tail that was set aside.
pub(crate) fn recovered_entry(tail: &TailReport, digest: String, quarantine: Option<&str>) -> Entry {
    let mut body = json!({
        "bytes": tail.bytes,
        "class": tail.class.name(),
        "digest": digest,
        "offset": tail.offset,
        "segment": tail.segment,
    });
    if let (Some(file), Value::Object(members)) = (quarantine, &mut body) {
        members.insert("quarantine".to_owned(), Value::from(file));
    }
    own_entry(RECOVERED_TYPE, body)
}

pub(crate) fn wide(len: usize) -> u64 {
    u64::try_from(len).expect("a length fits 64 bits")
}
