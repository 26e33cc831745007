//! `ostler ledger accept`: an operator has looked at what `verify` finds and goes on with it. The findings stay in the report, under `accepted`;
//! a new one is a problem again. The broker records it; where none runs, this process does under the writer lock.

use ostler_ledger::{Finding, Problem, VerifyOptions, verify};
use serde_json::json;

use super::super::context::Context;
use super::super::exit::Exit;
use super::super::failure::Failure;
use super::super::status;
use super::source::{Look, Source};
use super::verify::{problems, verdict};
use super::words::counted;
use super::writer::{self, Writer};
use crate::broker::accept::{check_reason, without_broker};
use crate::os::folder;
use crate::os::paths::StateRoot;
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::method::Method;
use crate::rpc::wire::{LedgerAcceptParams, LedgerAcceptResult, LedgerFinding};

/// What to accept, and why.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Why it is accepted; it goes into the ledger
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Do it: without this nothing is written
    #[arg(long)]
    yes: bool,
}

const ATTEMPT: &str = "accept what is wrong with the ledger";

pub(super) fn run(args: &Args, source: &Source, context: &Context) -> Result<Exit, Failure> {
    if source.is_copy() {
        return Err(Failure::invalid(
            ATTEMPT,
            "ledger",
            "a copy is only looked at; the ledger of a state root can be accepted",
        ));
    }
    check_reason(&args.reason).map_err(|error| Failure::new(ATTEMPT, error))?;
    let look = source.look(ATTEMPT, context)?;
    let found = found(&look)?;
    if !args.yes {
        let count = counted(found.len(), "finding");
        let error = WireError::new(ErrorCode::InvalidInput, format!("{count} would be accepted; nothing was written"));
        let remedy = "ostler ledger verify shows them; the same command with --yes accepts them";
        return Err(Failure::new(ATTEMPT, error.reason("yes").with("remedy", remedy)));
    }
    let (root, writer) = writer::of(&look, context)?;
    let (accepted, by_broker) = match writer {
        Writer::Broker => (ask(&root, found, args, context)?, true),
        Writer::This => {
            let act = json!({ "pid": std::process::id(), "session": null, "uid": folder::user() });
            let done = without_broker(&root, &act, &args.reason).map_err(|error| Failure::new(ATTEMPT, error))?;
            (done.before.problems, false)
        }
    };
    let report = verify(&look.storage, &options(&look)).map_err(|error| look.unreadable(&error))?;
    let document = json!({
        "ok": report.ok(), "accepted": accepted, "head": report.head, "by_broker": by_broker, "problems": report.problems,
    });
    context.output.either(&document, |_| {
        let count = counted(accepted.len(), "finding");
        let verdict = verdict(report.ok(), context);
        problems(&report.problems, context) + &format!("{count} accepted\n{verdict}  head {}\n", report.head)
    })?;
    Ok(if report.ok() { Exit::Done } else { Exit::Integrity })
}

fn options(look: &Look) -> VerifyOptions {
    VerifyOptions { boot: look.boot(), since: None }
}

fn found(look: &Look) -> Result<Vec<Problem>, Failure> {
    Ok(verify(&look.storage, &options(look)).map_err(|error| look.unreadable(&error))?.problems)
}

fn ask(root: &StateRoot, found: Vec<Problem>, args: &Args, context: &Context) -> Result<Vec<Problem>, Failure> {
    let findings = found.iter().map(|problem| {
        let Finding { class, first, missing, offset, segment } = Finding::from(problem);
        LedgerFinding { class: class.name().to_owned(), first, missing, offset, segment }
    });
    let params = LedgerAcceptParams { reason: args.reason.clone(), findings: findings.collect() };
    let deadline = context.bounded(status::ANSWER_WITHIN);
    let result = context.ask::<_, LedgerAcceptResult>(root, Method::LedgerAccept, &params, deadline);
    result.map(|_recorded| found).map_err(|error| Failure::new(ATTEMPT, error))
}
