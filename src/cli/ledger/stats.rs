//! `ostler ledger stats`: how large the ledger is and what it is made of, counted from the records in one pass. What is not in them (how often
//! was synced, what was replayed) is not told.

use std::collections::{BTreeMap, HashMap};

use ostler_ledger::Record;
use serde::Serialize;

use super::super::context::Context;
use super::super::duration;
use super::super::exit::Exit;
use super::super::failure::Failure;
use super::super::text::{self, Table};
use super::filter::Filter;
use super::record;
use super::source::Source;
use super::words::counted;
use crate::rpc::wire::Timestamp;

/// What to count.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name so many of the sessions with the most records
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    #[command(flatten)]
    filter: Filter,
}

/// What was counted. Counts are of the records that are meant; segments are the whole ledger's.
#[derive(Debug, Default, Serialize)]
struct Stats {
    records: u64,
    /// Of their lines.
    bytes: u64,
    turns: u64,
    segments: u64,
    /// Segments that a record closes for good.
    sealed: u64,
    segment_bytes: u64,
    first: Option<End>,
    last: Option<End>,
    /// Between their times, which are advisory.
    span_ms: u64,
    /// Brokers that began.
    generations: u64,
    /// Boots of the machine in which records were written.
    boots: u64,
    types: BTreeMap<String, Share>,
    operations: BTreeMap<String, BTreeMap<String, u64>>,
    /// Sessions that have a record.
    sessions: u64,
    /// Those with the most records, most first.
    top_sessions: Vec<Busy>,
}

#[derive(Debug, Clone, Serialize)]
struct End {
    seq: u64,
    at: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Share {
    records: u64,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct Busy {
    session_id: String,
    #[serde(flatten)]
    share: Share,
}

pub(super) fn run(args: &Args, source: &Source, context: &Context) -> Result<Exit, Failure> {
    let look = source.look("count the ledger", context)?;
    let selection = args.filter.resolve(&look)?;
    let mut count = Count { top: args.top, ..Count::default() };
    for found in look.records() {
        let found = found?;
        count.stats.sealed += u64::from(found.header.t == "seal");
        if selection.holds(&found) {
            count.note(&found);
        }
    }
    let files = ostler_ledger::head(&look.storage).map_err(|error| look.unreadable(&error))?;
    (count.stats.segments, count.stats.segment_bytes) = (files.segments, files.bytes);
    let stats = count.end();
    context.output.either(&stats, shown)?;
    Ok(Exit::Done)
}

/// The counting so far.
#[derive(Debug, Default)]
struct Count {
    stats: Stats,
    /// Those whose chain goes on.
    sessions: HashMap<Box<str>, Share>,
    /// The others: how many, and those with the most records.
    ended: u64,
    busiest: Vec<(Box<str>, Share)>,
    top: usize,
    boot: Option<String>,
}

impl Count {
    fn note(&mut self, found: &Record) {
        let (header, stats) = (&found.header, &mut self.stats);
        let bytes = record::line_bytes(found);
        let end = End { seq: header.seq, at: header.at.clone() };
        stats.records += 1;
        stats.bytes += bytes;
        stats.turns += u64::from(header.end);
        stats.generations += u64::from(header.t == "generation");
        stats.first.get_or_insert_with(|| end.clone());
        stats.last = Some(end);
        match stats.types.get_mut(&header.t) {
            Some(share) => share.add(bytes),
            None => drop(stats.types.insert(header.t.clone(), Share { records: 1, bytes })),
        }
        let step = match header.t.as_str() {
            "accept" => Some("accepted"),
            "finish" => header.st.as_deref(),
            _ => None,
        };
        if let (Some(step), Some(kind)) = (step, &header.kind) {
            *stats.operations.entry(kind.clone()).or_default().entry(step.to_owned()).or_default() += 1;
        }
        if header.t == "segment" {
            let boot = record::document(found)["body"]["boot"].as_str().map(str::to_owned);
            stats.boots += u64::from(boot != self.boot);
            self.boot = boot;
        }
        if let Some(sid) = header.sid.as_deref() {
            self.note_session(sid, bytes, header.fin);
        }
    }

    fn note_session(&mut self, sid: &str, bytes: u64, is_last: bool) {
        match self.sessions.get_mut(sid) {
            Some(share) => share.add(bytes),
            None => drop(self.sessions.insert(sid.into(), Share { records: 1, bytes })),
        }
        if is_last {
            // No later record speaks of it, so it need not be remembered unless it is one of the busiest.
            self.busiest.extend(self.sessions.remove_entry(sid));
            self.ended += 1;
            self.prune();
        }
    }

    /// Forgets ended sessions that cannot be among those that are named.
    fn prune(&mut self) {
        if self.busiest.len() > self.top.saturating_mul(2) {
            self.busiest.sort_by(most_first);
            self.busiest.truncate(self.top);
        }
    }

    fn end(self) -> Stats {
        let mut stats = self.stats;
        let us = |end: &Option<End>| end.as_ref().and_then(|end| end.at.parse().ok()).map_or(0, Timestamp::us);
        stats.span_ms = us(&stats.last).saturating_sub(us(&stats.first)) / 1000;
        stats.sessions = self.ended + u64::try_from(self.sessions.len()).unwrap_or(u64::MAX);
        let mut busy: Vec<(Box<str>, Share)> = self.busiest.into_iter().chain(self.sessions).collect();
        busy.sort_by(most_first);
        let named = busy.into_iter().take(self.top);
        stats.top_sessions = named.map(|(id, share)| Busy { session_id: id.into(), share }).collect();
        stats
    }
}

fn most_first((id, share): &(Box<str>, Share), (other_id, other): &(Box<str>, Share)) -> std::cmp::Ordering {
    other.cmp(share).then_with(|| id.cmp(other_id))
}

impl Share {
    fn add(&mut self, bytes: u64) {
        self.records += 1;
        self.bytes += bytes;
    }
}

fn shown(stats: &Stats) -> String {
    let count = |number: u64, of: &str| counted(usize::try_from(number).unwrap_or(usize::MAX), of);
    let mut shown = format!(
        "{}, {} bytes, in {}\n{} ({} sealed), {} bytes\n{}, {}\n",
        count(stats.records, "record"),
        stats.bytes,
        count(stats.turns, "turn"),
        count(stats.segments, "segment"),
        stats.sealed,
        stats.segment_bytes,
        count(stats.generations, "broker"),
        count(stats.boots, "boot"),
    );
    if let (Some(first), Some(last)) = (&stats.first, &stats.last) {
        let span = duration::show(std::time::Duration::from_millis(stats.span_ms));
        shown.push_str(&format!(
            "from {} (record {}) to {} (record {}), {span}\n",
            text::plain(&first.at),
            first.seq,
            text::plain(&last.at),
            last.seq
        ));
    }
    let mut types = Table::new(["TYPE", "RECORDS", "BYTES"]);
    for (name, share) in &stats.types {
        types.row([text::plain(name), share.records.to_string(), share.bytes.to_string()]);
    }
    shown.push_str(&format!("\n{}", types.render()));
    if !stats.operations.is_empty() {
        let mut operations = Table::new(["OPERATION", "ACCEPTED", "SUCCEEDED", "FAILED", "ABORTED", "UNCERTAIN"]);
        for (kind, steps) in &stats.operations {
            let cell = |step: &str| steps.get(step).copied().unwrap_or_default().to_string();
            let [accepted, succeeded, failed] = ["accepted", "succeeded", "failed"].map(cell);
            operations.row([text::plain(kind), accepted, succeeded, failed, cell("aborted"), cell("uncertain")]);
        }
        shown.push_str(&format!("\n{}", operations.render()));
    }
    if !stats.top_sessions.is_empty() {
        let mut sessions = Table::new(["SESSION", "RECORDS", "BYTES"]);
        for busy in &stats.top_sessions {
            let Busy { session_id, share } = busy;
            sessions.row([text::plain(session_id), share.records.to_string(), share.bytes.to_string()]);
        }
        let more = stats.sessions.saturating_sub(u64::try_from(stats.top_sessions.len()).unwrap_or(u64::MAX));
        shown.push_str(&format!("\n{}", sessions.render()));
        if more > 0 {
            shown.push_str(&format!("and {} with fewer\n", count(more, "session")));
        }
    }
    shown
}
