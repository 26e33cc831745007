//! Which records are meant: the flags that `history`, `tail` and `export` share, and what each means for a record. All that are given must
//! hold at once; a flag that may be repeated holds if any of its values does.

use std::collections::BTreeSet;
use std::time::Duration;

use ostler_ledger::Record;
use serde_json::Value;

use super::super::duration;
use super::super::failure::Failure;
use super::record;
use super::resolve::{self, Meant, Names};
use super::source::Look;
use crate::os::clock;
use crate::rpc::wire::{Key, Timestamp};

/// Which records, of one session or of all.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Which records")]
pub(crate) struct Narrow {
    /// Those that speak of this operation
    #[arg(long, value_name = "OP", value_parser = operation)]
    operation: Option<String>,
    /// Those that speak of an operation that was asked for under this key
    #[arg(long, value_name = "KEY")]
    key: Option<Key>,
    /// Those of this type, `accept` or `finish` for instance; may be repeated
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Those of this time and later: RFC 3339, a day (UTC), or so long ago (10m)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Moment>,
    /// Those before this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Moment>,
    /// Those from this sequence number on
    #[arg(long, value_name = "SEQ")]
    from: Option<u64>,
    /// Those up to this sequence number
    #[arg(long, value_name = "SEQ")]
    to: Option<u64>,
}

/// Which records, of whatever session.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Which records")]
pub(crate) struct Filter {
    /// Those of this session: its id, its name (the newest session that was spawned with it) or a unique prefix of its id
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    #[command(flatten)]
    narrow: Narrow,
}

/// A point in time, as people give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    At(Timestamp),
    Ago(Duration),
}

/// Which records, with all names resolved.
#[derive(Debug, Clone, Default)]
pub(super) struct Selection {
    pub(super) session: Option<String>,
    operations: Option<BTreeSet<String>>,
    types: Vec<String>,
    /// As records write it, so that they compare as text.
    since: Option<String>,
    pub(super) until: Option<String>,
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Filter {
    /// Resolves the names.
    ///
    /// # Errors
    /// As [`resolve::resolve`], and `invalid_input` for a range that cannot hold anything.
    pub(super) fn resolve(&self, look: &Look) -> Result<Selection, Failure> {
        self.narrow.resolve(self.session.as_deref(), look)
    }
}

impl Narrow {
    /// As [`Filter::resolve`], for this session.
    pub(super) fn resolve(&self, session: Option<&str>, look: &Look) -> Result<Selection, Failure> {
        let now_us = clock::wall_us();
        let (since, until) = (self.since.map(|at| at.text(now_us)), self.until.map(|at| at.text(now_us)));
        let (from, to) = (self.from.unwrap_or(1), self.to.unwrap_or(u64::MAX));
        if from > to || matches!((&since, &until), (Some(since), Some(until)) if since >= until) {
            return Err(Failure::invalid(
                look.attempt.clone(),
                "range",
                "no record can be in this range: it ends before it begins",
            ));
        }
        let names = Names { session, operation: self.operation.as_deref(), key: self.key.as_ref().map(Key::as_str) };
        let Meant { session, operations } = resolve::resolve(names, look)?;
        Ok(Selection { session, operations, types: self.types.clone(), since, until, from, to })
    }
}

impl Selection {
    /// The records that it holds, in order.
    ///
    /// # Errors
    /// What keeps the ledger from being read.
    pub(super) fn records<'a>(&'a self, look: &'a Look) -> impl Iterator<Item = Result<Record, Failure>> + 'a {
        let within = |found: &Result<Record, Failure>| found.as_ref().map_or(true, |found| found.header.seq <= self.to);
        let records: Box<dyn Iterator<Item = _>> =
            if self.from > 1 { Box::new(look.records_behind(self.from - 1)) } else { Box::new(look.records()) };
        records.take_while(within).filter(|found| found.as_ref().map_or(true, |found| self.holds(found)))
    }

    /// Whether it says no more than from where to where.
    pub(super) fn is_range(&self) -> bool {
        let Selection { session, operations, types, since, until, from: _, to } = self;
        let is_narrow = session.is_some() || operations.is_some() || since.is_some() || until.is_some();
        !is_narrow && types.is_empty() && *to == u64::MAX
    }

    /// Whether a record is meant.
    pub(super) fn holds(&self, found: &Record) -> bool {
        let header = &found.header;
        (self.from..=self.to).contains(&header.seq)
            && self.since.as_ref().is_none_or(|since| header.at >= *since)
            && self.until.as_ref().is_none_or(|until| header.at < *until)
            && (self.types.is_empty() || self.types.contains(&header.t))
            && self.session.as_ref().is_none_or(|session| header.sid.as_ref() == Some(session))
            && self.operations.as_ref().is_none_or(|operations| speaks_of(found, operations))
    }
}

/// Whether the record asks for, settles, decides, refuses or fences for one of these operations.
fn speaks_of(found: &Record, operations: &BTreeSet<String>) -> bool {
    if let Some(op) = &found.header.op {
        return operations.contains(op);
    }
    if !matches!(found.header.t.as_str(), "conflict" | "operator" | "fence") {
        return false;
    }
    let document = record::document(found);
    let body = &document["body"];
    [&body["operation"], &body["fence"]["operation"]]
        .into_iter()
        .filter_map(Value::as_str)
        .any(|operation| operations.contains(operation))
}

/// Reads `op-N`.
pub(super) fn operation(text: &str) -> Result<String, String> {
    let digits = text.strip_prefix("op-").filter(|digits| !digits.is_empty() && !digits.starts_with('0'));
    match digits {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Ok(text.to_owned()),
        Some(_) | None => Err(format!("`{text}` is not the id of an operation, like op-417")),
    }
}

/// Reads a time, a day, or a duration before now.
fn moment(text: &str) -> Result<Moment, String> {
    let day = || format!("{text}T00:00:00Z").parse().ok();
    let at: Option<Timestamp> = text.parse().ok().or_else(day);
    if let Some(at) = at {
        return Ok(Moment::At(at));
    }
    let ago = duration::parse(text).map(Moment::Ago);
    ago.map_err(|_| {
        format!(
            "`{text}` is not a time like 2026-05-04T03:02:01Z, a day like 2026-05-04, or a duration before now like 10m"
        )
    })
}

impl Moment {
    /// In the form of a record's `at`.
    fn text(self, now_us: u64) -> String {
        match self {
            Moment::At(at) => at.to_string(),
            Moment::Ago(ago) => {
                let ago_us = u64::try_from(ago.as_micros()).unwrap_or(u64::MAX);
                Timestamp::from_us(now_us.saturating_sub(ago_us)).to_string()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_give_them() {
        let at = |text: &str| moment(text).map(|moment| moment.text(1_767_225_600_000_000));
        assert_eq!(at("2026-05-04T03:02:01+01:00").as_deref(), Ok("2026-05-04T02:02:01.000000Z"));
        assert_eq!(at("2026-05-04").as_deref(), Ok("2026-05-04T00:00:00.000000Z"));
        assert_eq!(at("10m").as_deref(), Ok("2025-12-31T23:50:00.000000Z"));
        assert_eq!(at("99years").as_deref(), Ok("1970-01-01T00:00:00.000000Z"));
        for wrong in ["", "yesterday", "2026-02-30", "12:00"] {
            assert!(moment(wrong).unwrap_err().contains("is not a time"), "{wrong}");
        }
    }

    #[test]
    fn an_operation_s_id_is_read_as_records_write_it() {
        assert_eq!(operation("op-417").as_deref(), Ok("op-417"));
        for wrong in ["", "417", "op-", "op-0", "op-07", "op-4x", "OP-4"] {
            assert!(operation(wrong).is_err(), "{wrong}");
        }
    }
}
