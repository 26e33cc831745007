//! Before an opening changes a ledger that is no crash's work alone, it judges what it would leave as the next opening
//! would find it.
//!
//! Promise: what this opening hands on and what is appended to it stays, whatever somebody has done to the files before.
//! Lines that were moved or forged can be judged by what stands behind them; where that changes with the cut, the
//! opening refuses. What a crash or a bad disk leaves never gets there: a test damages every place of a ledger.

use std::io;

use super::{Opening, Options};
use crate::chain::Draft;
use crate::entry::{Entry, Stamp};
use crate::recovery::table::Class;
use crate::recovery::{Judgement, Repaired, Survey, survey};
use crate::storage::Storage;

/// The type of the record that is rehearsed. It is never written.
const REHEARSED_TYPE: &str = "mark";
const STAMP: Stamp = Stamp { at_us: 0, mono_us: 0, bg: 0 };

/// Where the next turn goes.
pub(super) struct Next {
    /// The number of the segment that is written to; 0 if there is none.
    pub(super) number: u64,
    /// The next turn begins a new one.
    pub(super) rotates: bool,
}

/// Whether the next opening finds what this one found, and the turn behind it.
pub(super) fn holds<S: Storage>(
    storage: &S,
    options: &Options,
    found: &Survey,
    id: &str,
    next: &Next,
) -> io::Result<bool> {
    let heads = &found.walk.heads;
    let durable = heads.last.seq;
    let mut turn = Vec::new();
    let mut draft = Draft::on(heads, &STAMP, durable);
    let mut push = |entry: &Entry, end| draft.push(&mut turn, entry, end).map_err(io::Error::other);
    if next.rotates {
        let opening = Opening::behind(heads, &found.walk.sealing, next.number, &options.boot, id);
        opening.entries().iter().try_for_each(|own| push(own, false).map(drop))?;
    }
    let last = push(&Entry::new(REHEARSED_TYPE, serde_json::Map::new()), true)?;
    let appended = last.seq - durable;
    let (end, first_seq) = (found.walk.settled, durable + 1);
    let repaired = Some(Repaired { end, first_seq, rotates: next.rotates, turn: &turn });
    let rest = survey(storage, Judgement { repaired, ..options.judgement() }, &mut |_settled| {})?;
    Ok(rest.tail.is_none() && rest.head == last && rest.walk.records == found.walk.records + appended)
}

/// Whether there is anything to rehearse: a plain torn tail behind a chain without a hole has nothing to say about it.
pub(super) fn is_due(found: &Survey) -> bool {
    found.tail.as_ref().is_some_and(|tail| tail.class != Class::TornTail || !found.walk.holes.is_empty())
}
