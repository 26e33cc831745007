//! `ostler ledger verify`: every digest and all chains, of the ledger, of one session's exported history, or of a proof. Exit 8 if anything is wrong, with each
//! finding's place and the sessions that it may concern.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use ostler_ledger::{
    ExcerptReport, Position, Problem, TailReport, VerifyOptions, Watched, verify_excerpt, verify_watching,
};
use serde_json::json;

use super::super::context::Context;
use super::super::exit::Exit;
use super::super::failure::Failure;
use super::super::output::Tone;
use super::super::progress::Progress;
use super::super::text;
use super::proof;
use super::source::Source;
use super::words::counted;
use crate::os::clock;
use crate::rpc::error::{ErrorCode, WireError};

/// What to verify.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A head kept elsewhere: it must be part of the history
    #[arg(long, value_name = "SEQ:DIGEST")]
    since: Option<Position>,
    /// Verify this file instead: one session's history, or other lines that were exported; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "folder")]
    history: Option<PathBuf>,
    /// Verify this proof instead, by itself; `-` is standard input
    #[arg(long, value_name = "FILE", requires = "head", conflicts_with_all = ["folder", "history", "since"])]
    proof: Option<PathBuf>,
    /// The head that was kept elsewhere and that the proof has to lead to
    #[arg(long, value_name = "SEQ:DIGEST", requires = "proof")]
    head: Option<Position>,
    /// Tell how far it has come, also where standard error is no terminal
    #[arg(long)]
    progress: bool,
}

pub(super) fn run(args: &Args, source: &Source, context: &Context) -> Result<Exit, Failure> {
    match (&args.history, &args.proof, &args.head) {
        (Some(path), _, _) => history(path, args.since, context),
        (None, Some(path), Some(head)) => proof::verify(path, head, context),
        (None, _, _) => ledger(args, source, context),
    }
}

fn ledger(args: &Args, source: &Source, context: &Context) -> Result<Exit, Failure> {
    // Against a head that was kept an emptied ledger is a loss, which is more than that nothing is there.
    let look = match args.since {
        Some(_) => source.look_even_at_nothing("verify the ledger", context)?,
        None => source.look("verify the ledger", context)?,
    };
    let began_us = clock::boot_us();
    let options = VerifyOptions { boot: look.boot(), since: args.since };
    let total = ostler_ledger::head(&look.storage).map_err(|error| look.unreadable(&error))?.bytes;
    let mut progress = Progress::of(total, args.progress, context);
    let report = verify_watching(&look.storage, &options, &mut |watched| match watched {
        Watched::Begins => progress.restart(),
        Watched::Record(seen) => progress.add(seen.bytes(), context),
    });
    progress.finish(context);
    let report = report.map_err(|error| look.unreadable(&error))?;
    let elapsed_ms = clock::boot_us().saturating_sub(began_us) / 1000;
    let document = json!({
        "ok": report.ok(), "records": report.records, "head": report.head, "problems": report.problems,
        "accepted": report.accepted, "tail": report.tail, "since_retired": report.since_retired, "elapsed_ms": elapsed_ms,
    });
    context.output.either(&document, |_| {
        let verdict = verdict(report.ok(), context);
        let since = report
            .since_retired
            .then_some("the record of the head that was kept is retired: its number fits what was\n");
        problems(&report.problems, context)
            + &accepted(&report.accepted)
            + &tail(report.tail.as_ref())
            + since.unwrap_or_default()
            + &format!("{verdict}  {} records  head {}\n", report.records, report.head)
    })?;
    Ok(if report.ok() { Exit::Done } else { Exit::Integrity })
}

/// Lines that were handed out, by themselves.
fn history(path: &Path, since: Option<Position>, context: &Context) -> Result<Exit, Failure> {
    let unreadable = |error: io::Error| unreadable(path, &error, "verify the lines of a file", "history");
    let began_us = clock::boot_us();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = reader(path).and_then(Bounded::new).map_err(unreadable)?;
    let report = verify_excerpt(BufReader::with_capacity(256 * 1024, file), &name, since).map_err(unreadable)?;
    let elapsed_ms = clock::boot_us().saturating_sub(began_us) / 1000;
    let document = json!({
        "ok": report.ok(), "records": report.records, "session_id": report.session, "first": report.first,
        "last": report.last, "own": report.own, "ended": report.ended, "problems": report.problems,
        "elapsed_ms": elapsed_ms,
    });
    context.output.either(&document, |_| problems(&report.problems, context) + &of_excerpt(&report, context))?;
    Ok(if report.ok() { Exit::Done } else { Exit::Integrity })
}

/// A regular file, or for `-` the standard input. A pipe or device under a name is refused: reading it may wait, or go on, for ever.
pub(super) fn reader(path: &Path) -> io::Result<File> {
    if path == Path::new("-") {
        return Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?));
    }
    // Not to wait for the writer of a pipe; for a regular file it means nothing.
    let file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// Lines that were handed out are at most this many bytes, more than any ledger that is kept: without a limit standard input might never end.
const HISTORY_BYTES_MAX: u64 = 16 * 1024 * 1024 * 1024;

/// A file that is refused once it turns out to be too long, a regular one before it is read.
struct Bounded {
    file: File,
    left: u64,
}

impl Bounded {
    fn new(file: File) -> io::Result<Bounded> {
        if file.metadata()?.len() > HISTORY_BYTES_MAX {
            return Err(too_long());
        }
        Ok(Bounded { file, left: HISTORY_BYTES_MAX })
    }
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        let wide = u64::try_from(read).unwrap_or(u64::MAX);
        self.left = self.left.checked_sub(wide).ok_or_else(too_long)?;
        Ok(read)
    }
}

fn too_long() -> io::Error {
    io::Error::new(ErrorKind::FileTooLarge, format!("it is longer than {HISTORY_BYTES_MAX} bytes"))
}

/// A file that cannot be read, as an error of the contract; `reason` names what it was to hold.
pub(super) fn unreadable(path: &Path, error: &io::Error, attempt: &'static str, reason: &'static str) -> Failure {
    let kind = error.kind();
    let another = "the same command with another FILE".to_owned();
    let (code, remedy) = if matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory) {
        (ErrorCode::NotFound, another)
    } else if kind == ErrorKind::FileTooLarge {
        (ErrorCode::TooLarge, "parts of it, each exported with --from SEQ and --to SEQ".to_owned())
    } else if kind == ErrorKind::InvalidInput && path.is_dir() {
        (ErrorCode::InvalidInput, another)
    } else if kind == ErrorKind::InvalidInput {
        let path = text::shell_str(&path.display().to_string());
        (ErrorCode::InvalidInput, format!("the same command with - in place of {path}, and < {path} behind it"))
    } else {
        (ErrorCode::StorageFailed, another)
    };
    let error = WireError::new(code, format!("{} cannot be read: {error}", path.display())).reason(reason);
    Failure::new(attempt, error.with("remedy", remedy))
}

pub(super) fn verdict(ok: bool, context: &Context) -> String {
    let (tone, word) = if ok { (Tone::Good, "ok") } else { (Tone::Bad, "not ok") };
    context.output.tone(tone, word)
}

/// Each finding in a line.
pub(super) fn problems(problems: &[Problem], context: &Context) -> String {
    let mut shown = String::new();
    for problem in problems {
        let seq = problem.seq.map_or_else(|| "-".to_owned(), |seq| seq.to_string());
        shown.push_str(&format!(
            "{}  {}  record {seq}  offset {}  {}{}\n",
            context.output.tone(Tone::Bad, problem.class.name()),
            text::plain(&problem.segment),
            problem.offset,
            text::plain(&problem.detail),
            problem.sessions.iter().map(|session| format!("  session {}", text::plain(session))).collect::<String>(),
        ));
    }
    shown
}

fn accepted(problems: &[Problem]) -> String {
    let each = problems.iter().map(|problem| format!("accepted: {}\n", text::plain(&problem.line())));
    each.collect()
}

fn tail(tail: Option<&TailReport>) -> String {
    tail.map(|tail| format!("behind the head: {} bytes, {}\n", tail.bytes, text::plain(&tail.detail)))
        .unwrap_or_default()
}

/// What the lines are, and what they cannot tell.
fn of_excerpt(report: &ExcerptReport, context: &Context) -> String {
    let records = counted(usize::try_from(report.records).unwrap_or(usize::MAX), "record");
    let mut shown = format!("{}  {records}", verdict(report.ok(), context));
    match (&report.session, report.own) {
        (Some(session), Some(own)) => {
            shown.push_str(&format!("  session {}, its records {} to {}", text::plain(session), own.first, own.last));
            shown.push_str(if report.ended {
                ", the last one is its end"
            } else {
                ", and later ones if there are any"
            });
            if own.first > 1 {
                shown.push_str(&format!("; the {} before them are not here", own.first - 1));
            }
        }
        (_, _) => {
            let ends = report.first.zip(report.last);
            shown.extend(ends.map(|(first, last)| format!("  of the ledger, {} to {}", first.seq, last.seq)));
        }
    }
    shown.extend(report.last.map(|last| format!("  last {last}")));
    shown.push('\n');
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_end_is_refused_where_the_limit_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("four");
        std::fs::write(&path, "four").unwrap();
        let read = |left| {
            let mut bytes = Vec::new();
            Bounded { file: reader(&path).unwrap(), left }.read_to_end(&mut bytes).map_err(|error| error.kind())
        };
        assert_eq!((read(4), read(3)), (Ok(4), Err(ErrorKind::FileTooLarge)));
    }
}
