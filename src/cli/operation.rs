//! `ostler operation show|list|resolve`: what became of a request, and an operator's decision where nobody can know.

use clap::Subcommand;
use serde_json::{Map, Value};

use super::args;
use super::context::{Broker, Context};
use super::exit::Exit;
use super::failure::Failure;
use super::sessions;
use super::text::{self, Table};
use crate::rpc::method::Method;
use crate::rpc::wire::{
    Operation, OperationGetParams, OperationGetResult, OperationListParams, OperationListResult,
    OperationResolveParams, OperationResolveResult, OperationState, Resolution, Session, Survivor,
};

/// Show operations and their outcomes
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show one operation with its stored result
    Show {
        /// The key it was asked for under, or its id
        #[arg(value_name = "KEY|OP")]
        operation: String,
    },
    /// List operations, newest first
    List {
        /// Only those about this session
        session: Option<String>,
        /// At most so many, up to 1000 [default: 100]
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
        /// Go on where the page before ended
        #[arg(long, value_name = "C")]
        cursor: Option<String>,
    },
    /// Decide about an uncertain operation; the reason goes into the ledger
    Resolve {
        /// Its id, or the key it was asked for under
        #[arg(value_name = "OP")]
        operation: String,
        /// What is known
        outcome: Outcome,
        /// How it is known
        #[arg(long, value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        key: args::Key,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Outcome {
    /// It took effect
    Succeeded,
    /// It did not
    Failed,
}

pub(crate) fn run(args: Args, context: &Context) -> Result<Exit, Failure> {
    match args.command {
        Command::Show { operation } => show(operation, context),
        Command::List { session, limit, cursor } => list(OperationListParams { session, limit, cursor }, context),
        Command::Resolve { operation, outcome, reason, key } => {
            let outcome = match outcome {
                Outcome::Succeeded => Resolution::Succeeded,
                Outcome::Failed => Resolution::Failed,
            };
            let mut broker = context.broker(format!("resolve operation {operation}"))?;
            let key = key.key.unwrap_or_else(|| broker.fresh_key());
            resolve(&mut broker, &OperationResolveParams { key, operation, outcome, reason }, context)
        }
    }
}

fn show(operation: String, context: &Context) -> Result<Exit, Failure> {
    let mut broker = context.broker(format!("show operation {operation}"))?;
    let found: OperationGetResult = broker.call(Method::OperationGet, &OperationGetParams { operation })?;
    context.output.either(&found, |found| {
        let mut shown = table(std::slice::from_ref(&found.operation)) + &asked(&found.operation);
        if let Some(error) = &found.operation.error {
            shown.push_str(&format!("error: {} ({})\n", text::plain(&error.message), error.code));
        }
        shown + &found.result.as_ref().map(result).unwrap_or_default()
    })?;
    Ok(Exit::Done)
}

/// Who asked, when, and why.
fn asked(operation: &Operation) -> String {
    let Some(at) = operation.asked_at else { return String::new() };
    let why = operation.reason.as_ref().map(|reason| format!(": {}", text::plain(reason))).unwrap_or_default();
    format!("asked by {} at {}{why}\n", text::plain(&operation.by), sessions::time(at))
}

/// What an operation left behind, in the words of the other commands. Members that a later broker may add are for programs.
fn result(result: &Map<String, Value>) -> String {
    let member = |name: &str| result.get(name).cloned().unwrap_or_default();
    let session = serde_json::from_value::<Session>(member("session")).ok();
    let survivors = serde_json::from_value::<Vec<Survivor>>(member("survivors")).unwrap_or_default();
    let left = session.map(|session| format!("left the session as  {}", sessions::line(&session))).unwrap_or_default();
    left + &sessions::left_running(&survivors)
}

fn list(params: OperationListParams, context: &Context) -> Result<Exit, Failure> {
    let session = params.session.clone();
    let mut broker = context.broker("list operations")?;
    if let Some(session) = session {
        broker = broker.about(&session);
    }
    let page: OperationListResult = broker.call(Method::OperationList, &params)?;
    context.output.either(&page, |page| {
        let mut shown = table(&page.operations);
        shown.extend(page.next.as_ref().map(|next| format!("more: --cursor {}\n", text::shell_str(next))));
        shown
    })?;
    Ok(Exit::Done)
}

fn resolve(broker: &mut Broker, params: &OperationResolveParams, context: &Context) -> Result<Exit, Failure> {
    let result: OperationResolveResult = broker.change(Method::OperationResolve, &params.key, params)?;
    context.output.either(&result, |result| table(std::slice::from_ref(&result.resolved)))?;
    Ok(Exit::Done)
}

fn state_name(state: OperationState) -> &'static str {
    match state {
        OperationState::Accepted => "accepted",
        OperationState::Succeeded => "succeeded",
        OperationState::Failed => "failed",
        OperationState::Aborted => "aborted",
        OperationState::Uncertain => "uncertain",
    }
}

/// The table of `operation list` and of `show`.
pub(crate) fn table(operations: &[Operation]) -> String {
    let mut table = Table::new(["SEQ", "OPERATION", "KIND", "STATE", "SESSION", "KEY"]);
    for operation in operations {
        table.row([
            operation.seq.to_string(),
            text::plain(&operation.id),
            operation.kind.to_string(),
            state_name(operation.state).to_owned(),
            operation.session_id.clone().unwrap_or_else(|| "-".to_owned()),
            text::plain(operation.key.as_str()),
        ]);
    }
    table.render()
}
