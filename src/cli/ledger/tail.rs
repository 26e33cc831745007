//! `ostler ledger tail [-f]`: the newest records, and the next ones as they come.

use std::collections::VecDeque;
use std::time::Duration;

use ostler_ledger::Record;

use super::super::context::Context;
use super::super::exit::Exit;
use super::super::failure::Failure;
use super::super::output::Stream;
use super::filter::{Filter, Selection};
use super::record;
use super::source::{Look, Source};
use crate::os::deadline::Pauses;
use crate::os::watch::FolderWatch;

/// What to print.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// So many
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 10)]
    lines: usize,
    /// Go on as records come
    #[arg(short = 'f', long)]
    follow: bool,
    #[command(flatten)]
    filter: Filter,
}

/// How far printing has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Come {
    /// No record was there.
    Nowhere,
    /// There was one at least, and later ones may be meant.
    On,
    /// The last record that can be meant is behind.
    ToTheEnd,
}

/// So long more is waited for behind what has come: a busy broker writes many records a second.
const BREATH: Duration = Duration::from_millis(20);

pub(super) fn run(args: &Args, source: &Source, context: &Context) -> Result<Exit, Failure> {
    let look = source.look("read the end of the ledger", context)?;
    let selection = args.filter.resolve(&look)?;
    if args.follow && selection.until.is_some() {
        let message = "with --until nothing says when to end: a clock that is set back makes a later record match";
        let failure = Failure::invalid(look.attempt.clone(), "follow", message);
        return Err(failure.with("remedy", "the same command without -f, or with --to SEQ in place of --until"));
    }
    let watch = args.follow.then(|| FolderWatch::of(look.folder()));
    let mut stream = context.output.stream();
    let head = ostler_ledger::head(&look.storage).map_err(|error| look.unreadable(&error))?.head.seq;
    let first = first(args.lines, head, &selection, &look)?;
    let mut records = look.records_behind(first.saturating_sub(1));
    let come = print_all(&mut records, &selection, &mut stream)?;
    if let Some(watch) = watch.filter(|_| come != Come::ToTheEnd && head < selection.to) {
        let deadline = context.unlimited();
        let mut breath = Pauses::new(BREATH, BREATH);
        while watch.wait(deadline) {
            match print_all(&mut records, &selection, &mut stream)? {
                Come::Nowhere => {}
                Come::On => {
                    breath.pause(deadline);
                }
                Come::ToTheEnd => break,
            }
        }
    }
    stream.finish()?;
    Ok(Exit::Done)
}

/// The number of the first record to print: so many that are meant follow, it included, or it is the next to come.
fn first(lines: usize, head: u64, selection: &Selection, look: &Look) -> Result<u64, Failure> {
    let lines_wide = u64::try_from(lines).unwrap_or(u64::MAX);
    if lines == 0 || selection.is_range() {
        return Ok((head + 1).saturating_sub(lines_wide).max(selection.from));
    }
    // Numbers first, records then: so many lines as are asked for need not fit into memory.
    let mut newest = VecDeque::new();
    for found in selection.records(look) {
        if newest.len() == lines {
            newest.pop_front();
        }
        newest.push_back(found?.header.seq);
    }
    Ok(newest.front().copied().unwrap_or(head + 1))
}

/// Prints what is meant of the records that are there, and says how far that has come.
fn print_all(
    records: &mut impl Iterator<Item = Result<Record, Failure>>,
    selection: &Selection,
    stream: &mut Stream,
) -> Result<Come, Failure> {
    let mut come = Come::Nowhere;
    for found in records {
        let found = found?;
        if selection.holds(&found) {
            record::print(&found, stream)?;
        }
        come = Come::On;
        if found.header.seq >= selection.to {
            come = Come::ToTheEnd;
            break;
        }
    }
    stream.flush()?;
    Ok(come)
}
