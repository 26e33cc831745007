//! `ostler inbox read|ack`: a session pulls its messages. Inside a session the command line acts with the session's credential, and nobody
//! else has an inbox.

use std::time::Duration;

use clap::Subcommand;

use super::args;
use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::{duration, message, sessions, text};
use crate::rpc::method::Method;
use crate::rpc::wire::{InboxAckParams, InboxAckResult, InboxReadParams, InboxReadResult, Letter, Stop};

/// Inside a session: read the messages that wait for it, and acknowledge them
///
/// It acts with the credential of the session that it runs in. To write to a session use `ostler send`; to see what became of it, as the owner,
/// `ostler message list SESSION`. A session with `--adapter lines` gets its messages on standard input and has no inbox.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read the messages that wait, oldest first; they are read again until they are acknowledged
    Read {
        /// At most so many, up to 100 [default: 100]
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
        /// Only those behind this message: `next` of the page before; with --wait, for a program that acknowledges later
        #[arg(long, value_name = "C")]
        cursor: Option<String>,
        /// If there is none that it has not acknowledged, wait so long for one; a stop is told at once, to a program that outlives TERM
        #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
        wait: Option<Duration>,
    },
    /// Say that messages were read, so that they are not read again
    Ack {
        /// Their ids
        #[arg(value_name = "MESSAGE", required = true)]
        messages: Vec<String>,
        #[command(flatten)]
        key: args::Key,
    },
}

pub(crate) fn run(args: Args, context: &Context) -> Result<Exit, Failure> {
    match args.command {
        Command::Read { limit, cursor, wait } => read(limit, cursor, wait, context),
        Command::Ack { messages, key } => ack(messages, key, context),
    }
}

fn read(
    limit: Option<u32>,
    cursor: Option<String>,
    wait: Option<Duration>,
    context: &Context,
) -> Result<Exit, Failure> {
    let deadline = if wait.is_some() { context.unlimited() } else { context.deadline(super::context::CALL)? };
    let mut broker = context.broker_until("read the inbox", deadline)?;
    let wait_ms = wait.map(|wait| duration::millis(wait.min(deadline.remaining())));
    let page: InboxReadResult = broker.call(Method::InboxRead, &InboxReadParams { limit, cursor, wait_ms })?;
    context.output.either(&page, |page| {
        let mut shown = page.stop.as_ref().map(notice).unwrap_or_default();
        shown.extend(page.messages.iter().map(letter));
        shown.extend(page.next.as_ref().map(|next| format!("more: --cursor {}\n", text::shell_str(next))));
        shown
    })?;
    Ok(Exit::Done)
}

/// That the session is to end, before all else.
fn notice(stop: &Stop) -> String {
    let (asked, deadline) = (sessions::stop(stop), sessions::time(stop.deadline));
    format!("this session is being stopped, asked {asked}; what has not ended by {deadline} is killed\n")
}

/// A message for eyes: who, and what, every line marked as text.
fn letter(letter: &Letter) -> String {
    let head = format!("{} from {}\n", text::plain(&letter.message.id), text::plain(&letter.message.from));
    let body: String = match &letter.lost {
        Some(why) => format!("  ({})\n", text::plain(why)),
        None => letter.text.lines().map(|line| format!("  {}\n", text::plain(line))).collect(),
    };
    head + &body
}

fn ack(messages: Vec<String>, key: args::Key, context: &Context) -> Result<Exit, Failure> {
    let mut broker = context.broker("acknowledge messages")?;
    let key = key.key.unwrap_or_else(|| broker.fresh_key());
    let params = InboxAckParams { key, messages };
    let result: InboxAckResult = broker.change(Method::InboxAck, &params.key, &params)?;
    context.output.either(&result, |result| {
        result.messages.iter().map(|of| format!("{}  {}\n", of.id, message::state(of))).collect::<String>()
    })?;
    Ok(Exit::Done)
}
