//! `ostler ledger verify`: every digest and all chains, of the ledger, of one session's exported history, or of a proof. Exit 8 if anything is wrong, with each
//! finding's place and the sessions that it may concern.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

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
    let look = source.look("verify the ledger", context)?;
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
    let unreadable = |error: std::io::Error| unreadable(path, &error, "verify the lines of a file", "history");
    let began_us = clock::boot_us();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = reader(path).map_err(unreadable)?;
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

/// A file, or for `-` the standard input.
pub(super) fn reader(path: &Path) -> std::io::Result<Box<dyn Read>> {
    Ok(if path == Path::new("-") { Box::new(std::io::stdin().lock()) } else { Box::new(File::open(path)?) })
}

/// A file that cannot be read, as an error of the contract; `reason` names what it was to hold.
pub(super) fn unreadable(path: &Path, error: &std::io::Error, attempt: &'static str, reason: &'static str) -> Failure {
    let is_missing = matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory);
    let code = if is_missing { ErrorCode::NotFound } else { ErrorCode::StorageFailed };
    let error = WireError::new(code, format!("{} cannot be read: {error}", path.display())).reason(reason);
    Failure::new(attempt, error.with("remedy", "the same command with another FILE"))
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
