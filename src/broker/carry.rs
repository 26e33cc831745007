//! The state stated again: what stays known when the records that told it are retired. A block of `carry` records holds it as
//! text, in pieces that fit a line; it is part of the history as any record is.
//!
//! Promise: every later version reads what this one wrote, or refuses to start. So the form has a name that is not the
//! product's version, and whoever changes the form gives it another name and keeps reading this one; a golden file notices.

use super::codec;
use super::snapshot::Payload;
use crate::machine::limits::Retention;
use crate::machine::{SessionId, State, Stored, Time};
use ostler_ledger::{Entry, Record};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The type of its records.
pub(super) const CARRY: &str = "carry";
/// The form of the state in them.
pub(super) const FORM: &str = "ostler-state-1";
/// So much text stands in one record: escaped, in the ledger's line, it may become twice as long.
const PIECE_BYTES: usize = 24 * 1024;
/// Types of records that the ledger may write between two records of one block.
const BETWEEN: [&str; 2] = ["segment", "seal"];

/// The `body` of a record that holds a piece.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Piece {
    /// The form of the state.
    fold: String,
    /// How many pieces the block has.
    of: u64,
    /// The number of this one, from 1.
    part: u64,
    /// The text.
    state: String,
}

/// The state between two turns, in the records of a block.
pub(super) fn entries(state: &State, doubtful: &BTreeSet<SessionId>) -> Vec<Entry> {
    let payload = Payload { doubtful: doubtful.clone(), state: state.stored() };
    let text = serde_json::to_string(&payload).expect("a state has string keys and no floats");
    let pieces = pieces(&text);
    let of = u64::try_from(pieces.len()).unwrap_or(u64::MAX);
    let each = (1..).zip(pieces).map(|(part, state)| {
        let piece = Piece { fold: FORM.to_owned(), of, part, state: state.to_owned() };
        let body = serde_json::to_value(piece).expect("strings and numbers always serialise");
        Entry::new(CARRY, [("body".to_owned(), body)])
    });
    each.collect()
}

/// A record that goes on with a session's chain, and says nothing else.
pub(super) fn of_session(sid: String) -> Entry {
    Entry { sid: Some(sid), ..Entry::new(CARRY, serde_json::Map::new()) }
}

fn pieces(text: &str) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

/// A block on its way through the fold.
#[derive(Debug, Default)]
pub(super) struct Carrying(Option<Block>);

/// The pieces of one block, as far as they have come.
#[derive(Debug)]
pub(super) struct Block {
    fold: String,
    of: u64,
    parts: u64,
    text: String,
    time: Time,
}

impl Carrying {
    /// Takes the next record; gives the block that is whole with it. One that a crash left unfinished has another record behind
    /// it, or a new beginning, and comes to nothing.
    pub(super) fn take(&mut self, record: &Record) -> Option<Block> {
        let header = &record.header;
        if header.t != CARRY {
            self.0 = self.0.take().filter(|_| BETWEEN.contains(&header.t.as_str()));
            return None;
        }
        if header.sid.is_some() {
            return None;
        }
        let block = self.0.take();
        let piece: Piece = serde_json::from_str(record.body()?).ok()?;
        let time = codec::time(record)?;
        let begun = Block { fold: piece.fold.clone(), of: piece.of, parts: 0, text: String::new(), time };
        let mut block = if piece.part == 1 { begun } else { block? };
        if (&piece.fold, piece.of, piece.part) != (&block.fold, block.of, block.parts + 1) {
            return None;
        }
        block.text.push_str(&piece.state);
        block.parts += 1;
        if block.parts == block.of {
            return Some(block);
        }
        self.0 = Some(block);
        None
    }
}

impl Block {
    /// The state and the doubtful sessions in it, to go on with.
    ///
    /// # Errors
    /// Why this version cannot read it.
    pub(super) fn state(&self, retention: Retention) -> Result<(State, BTreeSet<SessionId>), String> {
        let Payload { doubtful, state } = self.payload()?;
        Ok((state.state_on(retention, self.time), doubtful))
    }

    /// Whether it holds another state than this one; also where they cannot be compared, it does not.
    pub(super) fn differs(&self, from: &State) -> bool {
        let state = self.payload().ok().and_then(|payload| payload.state.state(from.retention));
        state.is_some_and(|state| state != *from)
    }

    fn payload(&self) -> Result<Payload<Stored>, String> {
        if self.fold != FORM {
            return Err(format!("it has the form {:?}, and this version reads {FORM:?}", self.fold));
        }
        serde_json::from_str(&self.text).map_err(|error| error.to_string())
    }
}
