//! `ostler doctor`: looks at everything that an operator would look at, and changes nothing. Each check says ok, warn, fail or skip, on which
//! evidence, and what to do.
//! Promise: no lock is taken, no broker is started, nothing is written; one bad answer hides no other check.

mod broker;
mod ledger;
mod root;
mod sessions;

use serde::Serialize;

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::output::{Output, Tone};
use super::text;
use crate::os::paths::StateRoot;

/// Look for trouble; changes nothing. Exit 1 if a check fails
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    /// As it should be.
    Ok,
    /// It works, but somebody should know.
    Warn,
    /// Something does not work.
    Fail,
    /// It could not be looked at.
    Skip,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Check {
    check: &'static str,
    status: Status,
    evidence: String,
    remedy: Option<String>,
}

#[derive(Debug, Serialize)]
struct Document {
    ok: bool,
    checks: Vec<Check>,
}

impl Check {
    fn ok(check: &'static str, evidence: impl Into<String>) -> Check {
        Check { check, status: Status::Ok, evidence: evidence.into(), remedy: None }
    }

    fn skip(check: &'static str, evidence: impl Into<String>) -> Check {
        Check { check, status: Status::Skip, evidence: evidence.into(), remedy: None }
    }

    fn warn(check: &'static str, evidence: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { check, status: Status::Warn, evidence: evidence.into(), remedy: Some(remedy.into()) }
    }

    fn fail(check: &'static str, evidence: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { check, status: Status::Fail, evidence: evidence.into(), remedy: Some(remedy.into()) }
    }
}

pub(crate) fn run(_: &Args, context: &Context) -> Result<Exit, Failure> {
    let mut checks = vec![configuration(context)];
    let (found, root) = root::check(context);
    checks.extend(found);
    if let Some(root) = root {
        checks.extend(inside(&root, context));
    }
    let document = Document { ok: checks.iter().all(|check| check.status != Status::Fail), checks };
    context
        .output
        .either(&document, |document| document.checks.iter().map(|check| line(check, &context.output)).collect())?;
    Ok(if document.ok { Exit::Done } else { Exit::Failed })
}

/// Everything that needs the root to be there and ours.
fn inside(root: &StateRoot, context: &Context) -> Vec<Check> {
    let mut checks = root::modes(root);
    checks.extend(root::quarantine(root));
    checks.extend(broker::check(root, context));
    checks.push(ledger::check(root));
    checks.push(sessions::strays(root));
    checks
}

fn configuration(context: &Context) -> Check {
    const CHECK: &str = "configuration";
    match context.settings() {
        Ok(_) => Check::ok(CHECK, "all files and variables are valid"),
        Err(Failure::Error(report)) => Check::fail(CHECK, report.error.message.clone(), "ostler config validate"),
        Err(Failure::OutputClosed) => Check::skip(CHECK, "not looked at"),
    }
}

fn line(check: &Check, output: &Output) -> String {
    let (tone, word) = match check.status {
        Status::Ok => (Tone::Good, "ok  "),
        Status::Warn => (Tone::Notable, "warn"),
        Status::Fail => (Tone::Bad, "fail"),
        Status::Skip => (Tone::Faint, "skip"),
    };
    let mut shown = format!("{}  {:<13}  {}\n", output.tone(tone, word), check.check, text::plain(&check.evidence));
    if let Some(remedy) = &check.remedy {
        shown.push_str(&format!("                     -> {}\n", text::plain(remedy)));
    }
    shown
}
