//! What the records up to a place mean for those behind it: where the chains stand, what is wrong, what was said about
//! it. A walk begins on one and ends with one; the writer keeps it; a snapshot stores it.
//!
//! Promise: a walk that begins on the past of a place finds behind it what a walk from the first record finds there.
//! Whatever a walk has to know of earlier records therefore stands here and nowhere else.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::hole::Hole;
use super::settled::Settled;
use super::table::Class;
use super::{GAP_TYPE, Problem, RECOVERED_TYPE};
use crate::accept::{ACCEPTED_TYPE, Finding, findings};
use crate::chain::Heads;
use crate::digest::{Digest, Position};
use crate::retire::{RETIRE_TYPE, Retirement};
use crate::seal::Sealing;
use crate::segment::{SegmentBody, file_name};

/// All that later records depend on. Another shape of this is another version of the snapshot format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Past {
    /// The ends of the chains: the place itself is the last record in here.
    pub(crate) heads: Heads,
    /// Holes in what had been synced, as they were walked over: a later record may still show whose they are.
    pub(crate) holes: Vec<Hole>,
    /// How many records there are.
    pub(crate) records: u64,
    /// The segments, oldest first, up to the place.
    pub(crate) segments: Vec<SegmentFile>,
    pub(crate) stated: Stated,
    /// The last segments, as far as their seals depend on them.
    pub(crate) sealing: Sealing,
}

/// A segment by what its name promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SegmentFile {
    /// The first sequence number.
    pub(crate) first_seq: u64,
    /// Length without trailing fill.
    pub(crate) content: u64,
    /// Whether a seal closes it.
    pub(crate) closed: bool,
}

impl Past {
    /// The length of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.content).sum()
    }
}

impl SegmentFile {
    pub(crate) fn file(&self) -> String {
        file_name(self.first_seq)
    }
}

/// Where a walk goes on: behind all of this past, in its last segment.
#[derive(Clone, Debug)]
pub(crate) struct Footing {
    pub(crate) past: Past,
    /// What the record that opens the last segment says.
    pub(crate) opened: SegmentBody,
}

/// What earlier starts recorded about the ledger itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stated {
    /// Holes by their place as text, for two can have the same first sequence number; each with the sessions named.
    gaps: BTreeMap<String, BTreeSet<String>>,
    /// Names under which tails were set aside.
    pub(crate) tails: BTreeSet<String>,
    /// Tails among them that no crash explains.
    suspicious: Vec<Suspicious>,
    /// Findings that an operator has accepted.
    accepted: BTreeSet<Finding>,
    /// The newest retirement.
    pub(crate) retired: Option<Retirement>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Suspicious {
    /// The record that states it.
    seq: u64,
    segment: String,
    offset: u64,
}

impl Stated {
    /// Notes what a record of the ledger's own says.
    pub(crate) fn note_record(&mut self, settled: Settled<'_>) {
        if Stated::concerns(settled.t())
            && let Some(Ok(body)) = settled.sliced().body.map(serde_json::from_slice::<Value>)
        {
            self.note(settled.t(), settled.position, &body);
        }
    }

    /// Whether a record of this type says something about the ledger itself.
    pub(crate) fn concerns(t: &str) -> bool {
        t == GAP_TYPE || t == RECOVERED_TYPE || t == ACCEPTED_TYPE || t == RETIRE_TYPE
    }

    /// As [`Stated::note_record`], of a record just written.
    pub(crate) fn note(&mut self, t: &str, position: Position, body: &Value) {
        if t == ACCEPTED_TYPE {
            self.accepted.extend(findings(body));
        } else if t == RETIRE_TYPE {
            self.retired = Retirement::deserialize(body).ok().or(self.retired.take());
            self.forget();
        } else if t == RECOVERED_TYPE {
            self.tails.extend(body["quarantine"].as_str().map(str::to_owned));
            if body["class"] == Class::SuspiciousTail.name() {
                let segment = body["segment"].as_str().unwrap_or_default().to_owned();
                let offset = body["offset"].as_u64().unwrap_or_default();
                self.suspicious.push(Suspicious { seq: position.seq, segment, offset });
            }
        } else if t == GAP_TYPE
            && let Some(first) = body["first"].as_u64()
        {
            let segment = body["segment"].as_str().unwrap_or_default();
            let place = place(first, segment, body["offset"].as_u64().unwrap_or_default());
            let sessions = body["sessions"].as_array().into_iter().flatten().filter_map(Value::as_str);
            self.gaps.entry(place).or_default().extend(sessions.map(str::to_owned));
        }
    }

    /// Whether a `gap` record states this problem.
    pub(crate) fn states(&self, problem: &Problem) -> bool {
        self.named(problem).is_some()
    }

    /// The sessions that the `gap` records of this problem name, if there are any.
    fn named(&self, problem: &Problem) -> Option<&BTreeSet<String>> {
        self.gaps.get(&place(problem.seq?, &problem.segment, problem.offset))
    }

    /// What was said of retired segments means nothing any more: nobody could read it once they are gone.
    fn forget(&mut self) {
        let Some(last) = self.retired.as_ref().map(|retired| retired.last) else { return };
        self.suspicious.retain(|tail| tail.seq > last);
        self.accepted.retain(|finding| !self.retired.as_ref().is_some_and(|retired| retired.has(&finding.segment)));
    }

    /// Whether this segment was retired.
    pub(crate) fn is_retired(&self, segment: &str) -> bool {
        self.retired.as_ref().is_some_and(|retired| retired.has(segment))
    }

    /// Whether nothing is missing before the first file, which begins with this record.
    pub(crate) fn covers(&self, first: u64, prev: Option<Digest>) -> bool {
        self.retired.as_ref().is_some_and(|retired| retired.covers(first, prev))
    }

    /// A hole keeps concerning the sessions that its `gap` record names, whatever was written since; and a suspicious
    /// tail that was set aside stays a problem until an operator accepts it. Returns what was accepted. What a later program
    /// wrote cannot be: nobody here knows what it is.
    pub(crate) fn add_to(&self, problems: &mut Vec<Problem>) -> Vec<Problem> {
        for problem in problems.iter_mut() {
            let named = self.named(problem).into_iter().flatten().cloned();
            let all: BTreeSet<String> = named.chain(problem.sessions.drain(..)).collect();
            problem.sessions = all.into_iter().collect();
        }
        problems.extend(self.suspicious.iter().map(|tail| Problem {
            class: Class::SuspiciousTail,
            segment: tail.segment.clone(),
            seq: Some(tail.seq),
            missing: 0,
            offset: tail.offset,
            sessions: Vec::new(),
            detail: "a tail that no crash explains was set aside".to_owned(),
        }));
        let is_accepted =
            |problem: &mut Problem| problem.class != Class::TooNew && self.accepted.contains(&Finding::from(&*problem));
        problems.extract_if(.., is_accepted).collect()
    }
}

fn place(first: u64, segment: &str, offset: u64) -> String {
    format!("{first} {segment} {offset}")
}
