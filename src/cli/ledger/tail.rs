//! `ostler ledger tail [-f]`: the newest records, and the next ones as they come.

use std::collections::VecDeque;
use std::time::Duration;

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

/// So long the next record is waited for behind one that has come: a busy broker writes many a second, and each look costs a walk.
const BREATH: Duration = Duration::from_millis(100);

pub(super) fn run(args: &Args, source: &Source, context: &Context) -> Result<Exit, Failure> {
    let look = source.look("read the end of the ledger", context)?;
    let selection = args.filter.resolve(&look)?;
    let watch = args.follow.then(|| FolderWatch::of(look.folder()));
    let mut stream = context.output.stream();
    // Numbers first, records then: so many lines as are asked for need not fit into memory.
    let mut newest = VecDeque::new();
    let mut seen = 0;
    for found in look.records() {
        let found = found?;
        seen = found.header.seq;
        if args.lines > 0 && selection.holds(&found) {
            if newest.len() == args.lines {
                newest.pop_front();
            }
            newest.push_back(seen);
        }
    }
    if let Some(first) = newest.front() {
        print_from(*first, &selection, &look, &mut stream)?;
    }
    stream.flush()?;
    if let Some(watch) = watch {
        let deadline = context.unlimited();
        let mut breath = Pauses::new(BREATH, BREATH);
        loop {
            let head = ostler_ledger::head(&look.storage).map_err(|error| look.unreadable(&error))?.head;
            if head.seq > seen {
                seen = print_from(seen + 1, &selection, &look, &mut stream)?.max(seen);
                stream.flush()?;
                breath.pause(deadline);
            }
            if !watch.wait(deadline) {
                break;
            }
        }
    }
    stream.finish()?;
    Ok(Exit::Done)
}

/// Prints what is meant of the records from `first` on, and returns the number of the last one seen. The walk begins at the first record, because
/// only a walk of the whole chain knows which records are sound.
fn print_from(first: u64, selection: &Selection, look: &Look, stream: &mut Stream) -> Result<u64, Failure> {
    let mut last = 0;
    for found in look.records() {
        let found = found?;
        last = found.header.seq;
        if last >= first && selection.holds(&found) {
            record::print(&found, stream)?;
        }
    }
    Ok(last)
}
