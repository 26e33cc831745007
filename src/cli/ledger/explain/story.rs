//! One operation's story as data: the record that accepted it, what happened until it was settled, and what its key met afterwards.
//!
//! Until an operation is settled everything that concerns its session belongs to its story; from then on only what names it. Time is measured on
//! the boot clock within one boot of the machine, else on the wall clock, and said to be so.

use ostler_ledger::Header;
use serde_json::{Value, json};

use super::super::words;
use super::steps;
use crate::rpc::wire::Timestamp;

/// So many steps are told; what else a key met is counted.
const STEPS_MAX: usize = 500;

/// Where and when a record was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct At {
    pub(super) seq: u64,
    digest: String,
    pub(super) at: String,
    mono_us: u64,
    boot: String,
}

/// How long something took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Took {
    pub(super) ms: u64,
    /// Measured within one boot of the machine; else by the wall clock, which may have been set meanwhile.
    pub(super) is_measured: bool,
}

/// One thing that happened.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) at: At,
    pub(super) took: Took,
    pub(super) words: String,
}

/// A message, whose story goes on when the operation that sent it is settled.
#[derive(Debug)]
pub(super) struct Mail {
    pub(super) id: String,
    /// The last word about it.
    pub(super) last: Option<String>,
    pub(super) is_uncertain: bool,
    /// Nothing of it had left when the queue was closed.
    waits: bool,
}

/// One operation.
#[derive(Debug)]
pub(super) struct Story {
    accept: Value,
    pub(super) accepted: At,
    pub(super) name: Option<String>,
    /// `accepted`, `succeeded`, `failed`, `aborted` or `uncertain`.
    pub(super) state: String,
    /// The record that settled it.
    pub(super) settled: Option<At>,
    pub(super) error: Option<Value>,
    pub(super) steps: Vec<Step>,
    pub(super) omitted: u64,
    /// The first record that was formed when it was known that the acceptance is on disk.
    pub(super) durable_since: Option<u64>,
    /// So many records of its session are not there.
    pub(super) missing: u64,
    /// So often its key came with another request.
    pub(super) conflicts: u64,
    /// The message that it sent, as far as its records tell.
    pub(super) mail: Option<Mail>,
    /// A fence that names it is up.
    is_fencing: bool,
    own: u64,
    generation: u64,
    records: Vec<Value>,
}

impl At {
    /// Of a record in the form of the contract, written in this boot.
    pub(super) fn of(record: &Value, boot: &str) -> At {
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| record[name].as_u64().unwrap_or_default();
        At {
            seq: number("seq"),
            digest: text("digest"),
            at: text("at"),
            mono_us: number("mono"),
            boot: boot.to_owned(),
        }
    }

    /// How long after `begin` it is.
    pub(super) fn since(&self, begin: &At) -> Took {
        if self.boot == begin.boot {
            return Took { ms: self.mono_us.saturating_sub(begin.mono_us) / 1000, is_measured: true };
        }
        let us = |at: &At| at.at.parse().map_or(0, Timestamp::us);
        Took { ms: us(self).saturating_sub(us(begin)) / 1000, is_measured: false }
    }

    fn document(&self) -> Value {
        json!({ "seq": self.seq, "digest": self.digest, "at": self.at })
    }
}

impl Took {
    fn clock(self) -> &'static str {
        if self.is_measured { "boot" } else { "wall" }
    }
}

impl Story {
    /// The record that accepts it; `name` is its session's.
    pub(super) fn begin(accept: Value, at: At, name: Option<String>) -> Story {
        let number = |name: &str| accept[name].as_u64().unwrap_or_default();
        let (own, generation) = (number("sn"), number("bg"));
        let took = Took { ms: 0, is_measured: true };
        let first = Step { at: at.clone(), took, words: steps::accepted(&accept) };
        Story {
            accepted: at,
            name,
            state: "accepted".to_owned(),
            settled: None,
            error: None,
            steps: vec![first],
            omitted: 0,
            durable_since: None,
            missing: 0,
            conflicts: 0,
            mail: words::message_of(&accept).map(|id| Mail { id, last: None, is_uncertain: false, waits: true }),
            is_fencing: false,
            own,
            generation,
            records: vec![accept.clone()],
            accept,
        }
    }

    /// A member of the record that accepted it, as text.
    pub(super) fn text(&self, member: &str) -> &str {
        self.accept[member].as_str().unwrap_or("?")
    }

    /// That record.
    pub(super) fn accept(&self) -> &Value {
        &self.accept
    }

    fn is_open(&self) -> bool {
        self.state == "accepted" || self.state == "uncertain"
    }

    fn is_about(&self, sid: Option<&str>) -> bool {
        sid.is_some() && sid == self.accept["sid"].as_str()
    }

    /// Whether a record may have something to say of it, as far as its header tells.
    pub(super) fn listens(&self, header: &Header) -> bool {
        match header.t.as_str() {
            "conflict" | "operator" | "fence" => true,
            "generation" => self.is_open(),
            "message" | "queue" if self.mail.is_some() => self.is_about(header.sid.as_deref()),
            _ => {
                self.is_open()
                    && (self.is_about(header.sid.as_deref()) || header.op.as_deref() == self.accept["op"].as_str())
            }
        }
    }

    /// A record that has nothing to say of it.
    pub(super) fn pass(&mut self, header: &Header) {
        if self.durable_since.is_none() && header.dur >= self.accepted.seq {
            self.durable_since = Some(header.seq);
        }
        if self.is_about(header.sid.as_deref()) {
            self.own = header.sn.unwrap_or(self.own);
        }
    }

    /// The next record that may concern it.
    pub(super) fn hear(&mut self, record: &Value, at: &At) {
        if self.durable_since.is_none() && record["dur"].as_u64().is_some_and(|dur| dur >= self.accepted.seq) {
            self.durable_since = Some(at.seq);
        }
        let is_own_session = self.is_about(record["sid"].as_str());
        if let Some(own) = record["sn"].as_u64().filter(|_| is_own_session) {
            if self.is_open() {
                self.missing += own.saturating_sub(self.own + 1);
            }
            self.own = own;
        }
        if self.concerns(record, is_own_session) {
            self.settle(record, at);
            let words = steps::words(record, self.text("op"), self.generation);
            self.generation = self.generation.max(record["bg"].as_u64().unwrap_or_default());
            self.step(record, at, words);
        }
    }

    fn concerns(&mut self, record: &Value, is_own_session: bool) -> bool {
        let op = self.accept["op"].as_str();
        let body = &record["body"];
        match record["t"].as_str().unwrap_or_default() {
            "conflict" => {
                let is_ours = body["operation"].as_str() == op;
                self.conflicts += u64::from(is_ours);
                is_ours
            }
            "operator" => body["operation"].as_str() == op,
            "fence" if !is_own_session => false,
            "fence" => {
                let was_fencing = self.is_fencing;
                self.is_fencing = body["fence"]["operation"].as_str() == op;
                was_fencing || self.is_fencing || self.is_open()
            }
            "generation" => self.is_open(),
            "message" | "queue" if self.mail.is_some() => is_own_session && self.hears_of_its_message(record),
            _ => record["op"].as_str() == op || self.is_open() && is_own_session,
        }
    }

    /// Whether a record says what became of the message that was sent.
    fn hears_of_its_message(&mut self, record: &Value) -> bool {
        let Some(mail) = &mut self.mail else { return false };
        let body = &record["body"];
        let is_meant = if record["t"] == "queue" { mail.waits } else { body["message"] == mail.id.as_str() };
        if is_meant {
            mail.is_uncertain = body["change"]["uncertain"].is_object();
            mail.waits = body["change"]["returned"].is_object();
            mail.last = Some(words::words(record));
        }
        is_meant
    }

    /// Whether the record settles it, and how.
    fn settle(&mut self, record: &Value, at: &At) {
        let outcome = match record["t"].as_str() {
            Some("finish") if record["op"] == self.accept["op"] => record["st"].as_str(),
            Some("operator") => record["body"]["outcome"].as_str(),
            _ => None,
        };
        let Some(outcome) = outcome else { return };
        outcome.clone_into(&mut self.state);
        self.settled = (outcome != "uncertain").then(|| at.clone());
        self.error = record["err"].as_str().map(|code| {
            let message = record["body"]["message"].as_str().unwrap_or_default();
            json!({ "code": code, "message": message })
        });
    }

    fn step(&mut self, record: &Value, at: &At, words: String) {
        if self.steps.len() >= STEPS_MAX {
            self.omitted += 1;
            return;
        }
        self.steps.push(Step { at: at.clone(), took: at.since(&self.accepted), words });
        self.records.push(record.clone());
    }

    /// How long it took, once it is settled.
    pub(super) fn took(&self) -> Option<Took> {
        self.settled.as_ref().map(|settled| settled.since(&self.accepted))
    }

    /// As a document of the contract.
    pub(super) fn document(&self) -> Value {
        let accept = &self.accept;
        let step = |step: &Step| {
            json!({
                "seq": step.at.seq, "at": step.at.at, "elapsed_ms": step.took.ms, "clock": step.took.clock(),
                "text": step.words,
            })
        };
        json!({
            "id": accept["op"], "key": accept["key"], "kind": accept["kind"], "session_id": accept["sid"],
            "session_name": self.name, "state": self.state,
            "actor": {"uid": accept["act"]["uid"], "pid": accept["act"]["pid"], "session_id": accept["act"]["sid"]},
            "generation": accept["bg"], "request_digest": accept["req"],
            "accepted": self.accepted.document(), "settled": self.settled.as_ref().map(At::document),
            "elapsed_ms": self.took().map(|took| took.ms), "clock": self.took().map(Took::clock),
            "durable_since": self.durable_since, "error": self.error, "conflicts": self.conflicts,
            "missing": self.missing, "replay": steps::replay(self), "next": steps::next(self),
            "steps": self.steps.iter().map(step).collect::<Vec<_>>(), "omitted": self.omitted,
            "records": self.records,
        })
    }
}
