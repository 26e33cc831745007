//! `ostler ledger export`: records as they are stored, byte for byte, so that whoever gets them can verify them without the ledger: a whole
//! ledger by its chain, one session's records by the session's own. With `--output` a file that is there whole or not at all.

use std::io::Write;
use std::path::{Path, PathBuf};

use ostler_ledger::{Position, Record};
use serde_json::json;

use super::super::context::Context;
use super::super::exit::Exit;
use super::super::failure::Failure;
use super::filter::{Filter, Selection};
use super::record;
use super::source::{Look, Source};
use super::words::counted;
use crate::os::arg::Arg;
use crate::os::folder::Folder;
use crate::os::replacement::Replacement;
use crate::rpc::error::{ErrorCode, WireError};

/// What to export.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write them to this file, which is replaced at once when all is written [default: standard output]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    filter: Filter,
}

pub(super) fn run(args: &Args, source: &Source, context: &Context) -> Result<Exit, Failure> {
    let look = source.look("export the ledger", context)?;
    let selection = args.filter.resolve(&look)?;
    match &args.output {
        Some(path) => to_file(path, &selection, &look, context),
        None => to_output(&selection, &look, context),
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

/// Writes the records that are meant to a file, and says what it holds.
///
/// # Errors
/// What keeps the ledger from being read or the file from being written; what stood at its path is untouched then.
pub(super) fn to_file(path: &Path, selection: &Selection, look: &Look, context: &Context) -> Result<Exit, Failure> {
    let unwritten = |error: &std::io::Error| unwritten(path, error, "output", look);
    let (folder, name) = place(path).map_err(|error| unwritten(&error))?;
    let mut file = Replacement::begin(&folder, &name).map_err(|error| unwritten(&error))?;
    let mut written = Written::default();
    for found in selection.records(look) {
        let found = found?;
        let line = found.line();
        file.write_all(line.as_bytes()).map_err(|error| unwritten(&error))?;
        written.note(&found, &line);
    }
    file.commit().map_err(|error| unwritten(&error))?;
    let Written { records, bytes, first, last } = written;
    let document = json!({ "output": Arg::from(path.as_os_str()), "records": records, "bytes": bytes, "first": first, "last": last });
    context.output.either(&document, |_| {
        let ends = first.zip(last).map(|(first, last)| format!(", {} to {last}", first.seq)).unwrap_or_default();
        let records = counted(usize::try_from(records).unwrap_or(usize::MAX), "record");
        format!("{}: {records}, {bytes} bytes{ends}\n", super::super::text::plain(&path.display().to_string()))
    })?;
    Ok(Exit::Done)
}

/// The folder of a path, which may be a link, and the name in it, which is replaced even if it is one.
pub(super) fn place(path: &Path) -> std::io::Result<(Folder, String)> {
    let name = path.file_name().and_then(std::ffi::OsStr::to_str);
    let name = name.ok_or_else(|| {
        std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is not the name of a file in UTF-8")
    })?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((Folder::open(&std::fs::canonicalize(parent)?)?, name.to_owned()))
}

/// A file that cannot be written, as an error of the contract; `flag` named it.
pub(super) fn unwritten(path: &Path, error: &std::io::Error, flag: &str, look: &Look) -> Failure {
    use std::io::ErrorKind::{self, IsADirectory, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    let is_full = |kind| matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    let is_elsewhere = |kind| {
        matches!(
            kind,
            NotFound | NotADirectory | IsADirectory | PermissionDenied | ReadOnlyFilesystem | ErrorKind::InvalidInput
        )
    };
    let code = match error.kind() {
        kind if is_full(kind) => ErrorCode::StorageFull,
        kind if is_elsewhere(kind) => ErrorCode::InvalidInput,
        _ => ErrorCode::StorageFailed,
    };
    let message = format!("{} cannot be written: {error}", path.display());
    let error = WireError::new(code, message).reason("output");
    look.failure(error.with("remedy", format!("the same command with another --{flag} FILE")))
}
