//! `ostler send`: a message to a session. What was recorded is never told as an error; what may have been recorded is told as `unknown`, with
//! the key that finds out (requirements R51, R52).

use std::io::Read;
use std::time::Duration;

use serde::Serialize;

use super::args;
use super::context::{CALL, Context};
use super::exit::Exit;
use super::failure::Failure;
use super::{duration, message};
use crate::rpc::error::{ErrorCode, Retry, WireError};
use crate::rpc::method::Method;
use crate::rpc::wire::{
    Delivery, Key, MESSAGE_BYTES_MAX, MessageMode, MessageSendParams, MessageSendResult, MessageState, Patience,
};

/// Send a message to a session
///
/// It waits in the session's queue until the session takes it. To one that has ended it is sent only with --resume, which starts the session
/// again.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Id, name, or unique prefix of the id (at least 3 characters)
    session: String,
    /// The text, at most 256 KiB of UTF-8; `-` reads it from standard input, without one line feed at its end
    text: String,
    /// Where in the queue it goes
    #[arg(long, value_name = "MODE", default_value = "queue")]
    mode: Mode,
    /// How long it is wanted while it waits; then it is `expired`
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    expires_in: Option<Duration>,
    /// Start a session that has ended for it
    #[arg(long)]
    resume: bool,
    /// What to wait for
    #[arg(long, value_name = "WHAT", default_value = "commit")]
    wait_for: WaitFor,
    #[command(flatten)]
    key: args::Key,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// Behind those that are there
    Queue,
    /// Before them, once the running session turn was interrupted
    Interrupt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum WaitFor {
    /// That it is recorded
    Commit,
    /// That the session's adapter took it, or the session pulled it
    Delivered,
    /// That the session said that it has it
    Acknowledged,
}

/// What is printed where nobody knows whether the message was recorded.
#[derive(Serialize)]
struct Unknown<'a> {
    message: Option<()>,
    delivery: Delivery,
    position: Option<u64>,
    replayed: bool,
    key: &'a Key,
}

pub(crate) fn run(args: Args, context: &Context) -> Result<Exit, Failure> {
    let attempt = format!("send a message to {}", args.session);
    let text = text_of(args.text, &attempt, MESSAGE_BYTES_MAX)?;
    let wait_for = match args.wait_for {
        WaitFor::Commit => Patience::Commit,
        WaitFor::Delivered => Patience::Delivered,
        WaitFor::Acknowledged => Patience::Acknowledged,
    };
    let waits = wait_for != Patience::Commit;
    let deadline = if waits { context.unlimited() } else { context.deadline(CALL)? };
    let mut broker = context.broker_until(attempt, deadline)?.about(&args.session);
    let key = args.key.key.unwrap_or_else(|| broker.fresh_key());
    let params = MessageSendParams {
        key: key.clone(),
        session: args.session,
        text,
        mode: match args.mode {
            Mode::Queue => MessageMode::Queue,
            Mode::Interrupt => MessageMode::Interrupt,
        },
        expires_in_ms: args.expires_in.map(duration::millis),
        resume: args.resume,
        wait_for,
        wait_ms: context.globals.timeout.filter(|_| waits).map(|_| duration::millis(deadline.remaining())),
    };
    match broker.change::<MessageSendResult>(Method::MessageSend, &key, &params) {
        Ok(result) => {
            context.output.either(&result, sent)?;
            Ok(if is_there(result.message.state, wait_for) { Exit::Done } else { Exit::Failed })
        }
        Err(Failure::Error(report)) if is_unknown(&report.error) => {
            let unknown =
                Unknown { message: None, delivery: Delivery::Unknown, position: None, replayed: false, key: &key };
            context.output.either(&unknown, |unknown| {
                let key = super::text::shell_str(unknown.key.as_str());
                format!("unknown: the broker went before it answered. The same with --key {key} finds out and sends nothing twice\n")
            })?;
            Ok(Exit::Failed)
        }
        Err(Failure::Error(report)) if report.error.code == ErrorCode::SessionTerminal => {
            let remedy = format!("the same command with --resume, which starts {} again for it", params.session);
            Err(Failure::Error(report).with("remedy", &remedy))
        }
        Err(failure) => Err(failure),
    }
}

/// The text that is meant: what was given, or standard input for `-`, of which no more is read than could be sent.
///
/// # Errors
/// `invalid_input` for what cannot be read, or is no UTF-8.
pub(crate) fn text_of(given: String, attempt: &str, most: u64) -> Result<String, Failure> {
    if given != "-" {
        return Ok(given);
    }
    let invalid = |why: String| Failure::new(attempt, WireError::new(ErrorCode::InvalidInput, why).reason("text"));
    let mut bytes = Vec::new();
    // One byte more than the limit and the line feed, so that the broker says what it is.
    let most = most + 2;
    std::io::stdin().take(most).read_to_end(&mut bytes).map_err(|error| invalid(format!("standard input: {error}")))?;
    // As a shell's $(...): `echo x | ostler send ID -` sends `x`.
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    String::from_utf8(bytes).map_err(|_| invalid("the text is not UTF-8; nothing was done".to_owned()))
}

/// The connection ended between question and answer.
fn is_unknown(error: &WireError) -> bool {
    let lost = matches!(error.code, ErrorCode::BrokerUnreachable | ErrorCode::Draining | ErrorCode::Uncertain);
    lost && error.retry == Retry::SameKey && !error.data.contains_key("operation")
}

/// Whether a message is as far as its sender wanted to wait for.
fn is_there(state: MessageState, wanted: Patience) -> bool {
    match wanted {
        Patience::Commit => true,
        Patience::Delivered | Patience::Acknowledged => {
            matches!(state, MessageState::Delivered | MessageState::Acknowledged)
        }
    }
}

fn sent(result: &MessageSendResult) -> String {
    let again = if result.replayed { " (sent before)" } else { "" };
    // Whoever waited for more is told what it came to: it has no place any more.
    let waits = result.message.state == MessageState::Queued;
    let place = result.position.filter(|_| waits).map(|position| format!(", number {position} in the queue"));
    let place = place.unwrap_or_default();
    format!("{}  {}{place}{again}\n", result.message.id, message::state(&result.message))
}
