//! `ostler ledger tail [-f]`: the newest records, and the next ones as they come.

use std::collections::VecDeque;
use std::time::Duration;

use ostler_ledger::storage::Disk;
use ostler_ledger::{Record, Records};
use serde_json::json;

use super::super::context::Context;
use super::super::exit::Exit;
use super::super::failure::Failure;
use super::{folder, record, unreadable};
use crate::os::deadline::Pauses;

const ATTEMPT: &str = "read the end of the ledger";

/// How often `-f` looks whether the ledger has grown. Nothing tells a reader, which has no part in the broker's work.
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(super) fn run(lines: usize, follow: bool, context: &Context) -> Result<Exit, Failure> {
    let storage = Disk::reading(folder(context, ATTEMPT)?);
    let mut newest = VecDeque::with_capacity(lines.min(1024));
    let mut shown = 0;
    for found in Records::new(&storage) {
        let found = found.map_err(|error| unreadable(ATTEMPT, &error))?;
        shown = found.header.seq;
        if newest.len() == lines {
            newest.pop_front();
        }
        if lines > 0 {
            newest.push_back(found);
        }
    }
    for found in &newest {
        print(found, context)?;
    }
    let deadline = context.unlimited();
    let mut pauses = Pauses::new(LOOK_EVERY, LOOK_EVERY);
    while follow && pauses.pause(deadline) {
        shown = print_after(shown, &storage, context)?;
    }
    Ok(Exit::Done)
}

/// Prints what came after the record `shown`, and returns the number of the last one printed. The walk begins at the first record, because
/// only a walk of the whole chain knows which records are sound; it is made only when the head has moved.
fn print_after(shown: u64, storage: &Disk, context: &Context) -> Result<u64, Failure> {
    let head = ostler_ledger::head(storage).map_err(|error| unreadable(ATTEMPT, &error))?;
    if head.head.seq <= shown {
        return Ok(shown);
    }
    let mut last = shown;
    for found in Records::new(storage) {
        let found = found.map_err(|error| unreadable(ATTEMPT, &error))?;
        if found.header.seq > shown {
            print(&found, context)?;
            last = found.header.seq;
        }
    }
    Ok(last)
}

fn print(found: &Record, context: &Context) -> Result<(), Failure> {
    context.output.either(&json!({ "record": record::document(found) }), |_| record::line(found))
}
