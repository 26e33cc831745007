//! `ostler doctor`: looks at everything that an operator would look at, and changes nothing. Each check says ok, warn, fail or skip, on which
//! evidence, and what to do.
//! Promise: no lock is taken, no broker is started, nothing is written, but for the one repair that `--fix` names; one bad answer hides no
//! other check.

mod broker;
mod doubts;
mod fix;
mod ledger;
mod root;
mod sessions;
mod system;

use serde::Serialize;

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::output::{Output, Tone};
use super::text;
use crate::os::paths::StateRoot;

/// Look for trouble, with or without a broker, and say what to do; changes nothing without --fix. Exit 1 if a check fails
///
/// Each line is a check: ok, warn (it works, but somebody should know), fail (something does not work) or skip (it could not be looked at).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Before the checks, do the one repair that a check names; refused while a broker runs
    #[arg(long, value_name = "CHECK")]
    fix: Option<fix::Repair>,
}

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
    /// The repairs that were done, by the check that each is named after.
    fixed: Vec<Fixed>,
    checks: Vec<Check>,
}

/// One repair.
#[derive(Debug, Serialize)]
struct Fixed {
    check: &'static str,
    evidence: String,
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

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let fixed = args.fix.map(|repair| fix::run(repair, context)).transpose()?;
    let fixed = fixed.into_iter().map(|(check, evidence)| Fixed { check, evidence }).collect();
    let mut checks = vec![configuration(context)];
    let (found, root) = root::check(context);
    checks.extend(found);
    if let Some(root) = root {
        checks.extend(inside(&root, context));
    }
    let document = Document { ok: checks.iter().all(|check| check.status != Status::Fail), fixed, checks };
    context.output.either(&document, |document| {
        let fixed =
            document.fixed.iter().map(|one| format!("fixed {:<13}  {}\n", one.check, text::plain(&one.evidence)));
        fixed.chain(document.checks.iter().map(|check| line(check, &context.output))).collect()
    })?;
    Ok(if document.ok { Exit::Done } else { Exit::Failed })
}

/// Everything that needs the root to be there and ours.
fn inside(root: &StateRoot, context: &Context) -> Vec<Check> {
    let mut checks = root::modes(root);
    checks.extend(root::places(root));
    checks.extend(root::quarantine(root));
    let (found, status) = broker::check(root, context);
    checks.extend(found);
    checks.push(system::descriptors(status.as_ref()));
    checks.push(ledger::check(root));
    checks.push(system::clock(root));
    checks.extend(doubts::check(root, status.as_ref(), context));
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
