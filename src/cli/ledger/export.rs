//! `ostler ledger export`: records as they are stored, byte for byte, so that whoever gets them can verify them without the ledger: a whole
//! ledger by its chain, one session's records by the session's own. With `--output` a file that is there whole or not at all.

use std::path::{Path, PathBuf};

use ostler_ledger::{Position, Record};
use serde_json::json;

use super::super::context::Context;
use super::super::exit::Exit;
use super::super::failure::Failure;
use super::destination::{self, Destination};
use super::filter::{Filter, Selection};
use super::record;
use super::source::{Look, Source};
use super::words::counted;
use crate::os::arg::Arg;

/// What to export.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write them to this file, which is replaced at once when all is written; `-` is standard output [default: -]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    filter: Filter,
}

pub(super) fn run(args: &Args, source: &Source, context: &Context) -> Result<Exit, Failure> {
    let look = source.look("export the ledger", context)?;
    let selection = args.filter.resolve(&look)?;
    to(args.output.as_deref(), "output", &selection, &look, context)
}

/// Writes the records that are meant to where the flag says: a file, or standard output.
///
/// # Errors
/// What keeps the ledger from being read or the file from being written.
pub(super) fn to(
    named: Option<&Path>,
    flag: &'static str,
    selection: &Selection,
    look: &Look,
    context: &Context,
) -> Result<Exit, Failure> {
    match destination::file(named) {
        Some(path) => to_file(&Destination { path, flag, look }, selection, context),
        None => to_output(selection, look, context),
    }
}

/// Stored lines; with `--json` documents, like every stream.
fn to_output(selection: &Selection, look: &Look, context: &Context) -> Result<Exit, Failure> {
    let mut stream = context.output.stream();
    for found in selection.records(look) {
        let found = found?;
        if stream.json {
            record::print(&found, &mut stream)?;
        } else {
            stream.bytes(found.line().as_bytes())?;
        }
    }
    stream.finish()?;
    Ok(Exit::Done)
}

/// What was written.
#[derive(Debug, Default)]
struct Written {
    records: u64,
    bytes: u64,
    first: Option<Position>,
    last: Option<Position>,
}

impl Written {
    fn note(&mut self, found: &Record, line: &str) {
        self.records += 1;
        self.bytes += u64::try_from(line.len()).unwrap_or(u64::MAX);
        self.first.get_or_insert(found.position());
        self.last = Some(found.position());
    }
}

/// To a file; says what it holds.
fn to_file(destination: &Destination<'_>, selection: &Selection, context: &Context) -> Result<Exit, Failure> {
    let path = destination.path;
    let mut written = Written::default();
    destination.fill(|sink| {
        for found in selection.records(destination.look) {
            let found = found?;
            let line = found.line();
            sink.put(line.as_bytes())?;
            written.note(&found, &line);
        }
        Ok(())
    })?;
    let Written { records, bytes, first, last } = written;
    let document = json!({ "output": Arg::from(path.as_os_str()), "records": records, "bytes": bytes, "first": first, "last": last });
    context.output.either(&document, |_| {
        let ends = first.zip(last).map(|(first, last)| format!(", {} to {last}", first.seq)).unwrap_or_default();
        let records = counted(usize::try_from(records).unwrap_or(usize::MAX), "record");
        format!("{}: {records}, {bytes} bytes{ends}\n", super::super::text::plain(&path.display().to_string()))
    })?;
    Ok(Exit::Done)
}
