//! `ostler message show|list|cancel|resolve`: what became of a message, and who decides where nobody can tell.

use clap::Subcommand;

use super::args;
use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::text::{self, Table};
use crate::rpc::error::ErrorCode;
use crate::rpc::method::Method;
use crate::rpc::wire::{
    CancelOutcome, Message, MessageCancelParams, MessageCancelResult, MessageDecision, MessageGetParams,
    MessageListParams, MessageListResult, MessageResolveParams, MessageResult,
};

/// Show, withdraw and settle messages
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what became of a message
    Show {
        /// Its id
        message: String,
    },
    /// List a session's messages, newest first
    List {
        /// Id, name, or unique prefix of the id (at least 3 characters)
        session: String,
        /// At most so many, up to 1000 [default: 100]
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
        /// Go on where the page before ended
        #[arg(long, value_name = "C")]
        cursor: Option<String>,
    },
    /// Withdraw a message of which nothing has left yet
    Cancel {
        /// Its id
        message: String,
        #[command(flatten)]
        key: args::Key,
    },
    /// Decide about a message of which nobody can tell whether it was delivered
    Resolve {
        /// Its id
        message: String,
        /// What is to become of it
        decision: Decision,
        #[command(flatten)]
        key: args::Key,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Decision {
    /// Send it again, although the session may then have it twice
    Retry,
    /// Give it up
    GiveUp,
}

pub(crate) fn run(args: Args, context: &Context) -> Result<Exit, Failure> {
    match args.command {
        Command::Show { message } => show(message, context),
        Command::List { session, limit, cursor } => list(&MessageListParams { session, limit, cursor }, context),
        Command::Cancel { message, key } => cancel(message, key, context),
        Command::Resolve { message, decision, key } => resolve(message, decision, key, context),
    }
}

fn show(message: String, context: &Context) -> Result<Exit, Failure> {
    let mut broker = context.broker(format!("show message {message}"))?;
    let result: MessageResult = broker.call(Method::MessageGet, &MessageGetParams { message })?;
    context.output.either(&result, |result| table(std::slice::from_ref(&result.message)))?;
    Ok(Exit::Done)
}

fn list(params: &MessageListParams, context: &Context) -> Result<Exit, Failure> {
    let mut broker = context.broker(format!("list the messages of {}", params.session))?.about(&params.session);
    let page: MessageListResult = broker.call(Method::MessageList, params)?;
    context.output.either(&page, |page| {
        let mut shown = table(&page.messages);
        shown.extend(page.next.as_ref().map(|next| format!("more: --cursor {}\n", text::shell_str(next))));
        shown
    })?;
    Ok(Exit::Done)
}

fn cancel(message: String, key: args::Key, context: &Context) -> Result<Exit, Failure> {
    let mut broker = context.broker(format!("withdraw message {message}"))?;
    let key = key.key.unwrap_or_else(|| broker.fresh_key());
    let params = MessageCancelParams { key, message };
    let result: MessageCancelResult = broker.change(Method::MessageCancel, &params.key, &params)?;
    context.output.either(&result, |result| {
        let outcome = match result.outcome {
            CancelOutcome::Cancelled => "cancelled",
            CancelOutcome::TooLate => "too late",
            CancelOutcome::AlreadyFinal => "already final",
        };
        format!("{outcome}: {}  {}\n", result.message.id, state(&result.message))
    })?;
    Ok(if result.outcome == CancelOutcome::TooLate { Exit::Conflict } else { Exit::Done })
}

fn resolve(message: String, decision: Decision, key: args::Key, context: &Context) -> Result<Exit, Failure> {
    let mut broker = context.broker(format!("settle message {message}"))?;
    let key = key.key.unwrap_or_else(|| broker.fresh_key());
    let decision = match decision {
        Decision::Retry => MessageDecision::Retry,
        Decision::GiveUp => MessageDecision::GiveUp,
    };
    let params = MessageResolveParams { key, message, decision };
    let resolved = broker.change(Method::MessageResolve, &params.key, &params);
    let result: MessageResult = resolved.map_err(|failure| of_ended(failure, &params.message))?;
    context.output.either(&result, |result| table(std::slice::from_ref(&result.message)))?;
    Ok(Exit::Done)
}

/// Nothing is sent again to a session that has ended: what to type then.
fn of_ended(failure: Failure, message: &str) -> Failure {
    let session = match &failure {
        Failure::Error(report) if report.error.code == ErrorCode::SessionTerminal => {
            report.error.data.get("session_id").and_then(serde_json::Value::as_str).map(str::to_owned)
        }
        Failure::Error(_) | Failure::OutputClosed => None,
    };
    match session {
        Some(session) => {
            let give_up = format!("ostler message resolve {} give-up", text::shell_str(message));
            failure.with("remedy", &format!("ostler resume {session}, then the same command; or {give_up}"))
        }
        None => failure,
    }
}

/// A message's state with its reason, for eyes.
pub(crate) fn state(message: &Message) -> String {
    let word = message.state.word();
    match &message.reason {
        Some(reason) => format!("{word} ({})", text::plain(reason)),
        None => word.to_owned(),
    }
}

/// The table of `message list` and of `show`.
fn table(messages: &[Message]) -> String {
    let mut table = Table::new(["MESSAGE", "SESSION", "FROM", "STATE", "SENT", "BYTES", "KEY"]);
    for message in messages {
        table.row([
            text::plain(&message.id),
            message.session_id.clone(),
            text::plain(&message.from),
            state(message),
            message.requested_at.to_string(),
            message.bytes.to_string(),
            text::plain(message.key.as_str()),
        ]);
    }
    table.render()
}
