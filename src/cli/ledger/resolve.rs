//! Whom the caller means, as the ledger knows it: a session, also one that is deleted, and the operations of a key. Only the ledger still
//! knows these names once the session or the key is gone, so each costs one pass over the records. An operation's id is a record's number and
//! costs nothing.

use std::collections::BTreeSet;

use ostler_ledger::Record;

use super::super::failure::Failure;
use super::super::text;
use super::record;
use super::source::Look;

/// Shortest prefix of an id that names a session, as everywhere on the command line.
const PREFIX_MIN: usize = 3;
/// So many of the sessions that an ambiguous prefix fits are named.
const NAMED_MAX: usize = 5;
/// So many of them are counted.
const COUNTED_MAX: usize = 1_000;

/// What is asked for, in the caller's words.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Names<'a> {
    pub(super) session: Option<&'a str>,
    pub(super) operation: Option<&'a str>,
    pub(super) key: Option<&'a str>,
}

/// What it means.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Meant {
    pub(super) session: Option<String>,
    /// The operations of the id or the key, if one was asked for: one key can have had several, of different callers or after an abort.
    pub(super) operations: Option<BTreeSet<String>>,
}

/// Reads the records for it, if anything is asked for.
///
/// # Errors
/// `not_found` if no record knows it, `invalid_input` for a prefix that fits several sessions, and what keeps the ledger from being read.
pub(super) fn resolve(names: Names<'_>, look: &Look) -> Result<Meant, Failure> {
    let mut seen = Seen::default();
    if names.session.is_some() || names.key.is_some() {
        for found in look.records() {
            seen.note(&found?, names);
        }
    } else if let Some(asked) = names.operation {
        let seq = asked.trim_start_matches("op-").parse().unwrap_or_default();
        seen.operations.extend(look.record(seq)?.and_then(|found| found.header.op).filter(|op| op == asked));
    }
    let session = names.session.map(|given| seen.session(given, look)).transpose()?;
    let asked = names.operation.or(names.key);
    if let Some(asked) = asked.filter(|_| seen.operations.is_empty()) {
        let message = match names.operation {
            Some(_) => format!("no record accepts an operation {asked}"),
            None => format!("no record accepts an operation under the key `{asked}`"),
        };
        return Err(look.missing("operation", message, "ostler ledger tail --type accept"));
    }
    Ok(Meant { session, operations: asked.map(|_| seen.operations) })
}

/// What one pass has found.
#[derive(Debug, Default)]
struct Seen {
    /// The newest session that was spawned with the name.
    named: Option<String>,
    /// Sessions whose id begins so.
    fits: BTreeSet<String>,
    is_id: bool,
    operations: BTreeSet<String>,
}

impl Seen {
    fn note(&mut self, found: &Record, names: Names<'_>) {
        let header = &found.header;
        if let (Some(given), Some(sid)) = (names.session, &header.sid) {
            self.is_id |= sid == given;
            let is_prefix = given.len() >= PREFIX_MIN && sid.starts_with(given);
            if is_prefix && self.fits.len() < COUNTED_MAX && !self.fits.contains(sid) {
                self.fits.insert(sid.clone());
            }
            if record::spawned_name(found).as_deref() == Some(given) {
                self.named = Some(sid.clone());
            }
        }
        if let (true, Some(op)) = (header.t == "accept", &header.op) {
            let is_asked = match (names.operation, names.key) {
                (None, None) => false,
                (operation, key) => {
                    operation.is_none_or(|asked| asked == op)
                        && key.is_none_or(|key| header.key.as_deref() == Some(key))
                }
            };
            if is_asked {
                self.operations.insert(op.clone());
            }
        }
    }

    /// By exact id, else the newest that was spawned with this name, else by unique prefix.
    fn session(&self, given: &str, look: &Look) -> Result<String, Failure> {
        if self.is_id {
            return Ok(given.to_owned());
        }
        match (&self.named, self.fits.len(), self.fits.first()) {
            (Some(id), _, _) => Ok(id.clone()),
            (None, 1, Some(id)) => Ok(id.clone()),
            (None, 0, _) | (None, _, None) => {
                let message = format!("no record names a session with the id or name `{given}`");
                Err(look.missing("session", message, "ostler list --all, or ostler ledger tail"))
            }
            (None, count, Some(_)) => {
                let ids: Vec<&str> = self.fits.iter().take(NAMED_MAX).map(String::as_str).collect();
                let more = if count > ids.len() { " and more" } else { "" };
                let message = format!("the ids of {count} sessions begin so ({}{more})", text::plain(&ids.join(", ")));
                Err(Failure::invalid(look.attempt.clone(), "ambiguous", message))
            }
        }
    }
}
