//! `ostler spawn`: start a session and return when it is ready, which it is when its command has been executed, or when it or its output says so.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::args;
use super::context::{Broker, Context, READY};
use super::exit::Exit;
use super::failure::Failure;
use super::request::{self, Attachment};
use super::{duration, sessions, text};
use crate::rpc::method::Method;
use crate::rpc::wire::{Arg, Ready, SpawnResult, Stdin};

/// Start a session and return when it is ready
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) options: Options,
}

/// What a new session is made of; `run` takes the same.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Name, unique among sessions that are not deleted
    #[arg(long)]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) key: args::Key,
    /// Working directory [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// A variable of the command's environment; may be repeated
    #[arg(long, value_name = "K=V", value_parser = clap::builder::OsStringValueParser::new())]
    pub(crate) env: Vec<OsString>,
    /// What else the command's environment holds: all that the calling client has, or only the minimum [default: caller]
    #[arg(long, value_name = "WHAT")]
    pub(crate) inherit_env: Option<InheritEnv>,
    /// When the session counts as ready: `exec` (its command has been executed), `notify` (it says so, with `session.ready`) or `output:RE` (a line of
    /// its output matches this regular expression)
    #[arg(long, value_name = "WHEN", default_value = "exec")]
    pub(crate) ready: Ready,
    /// How long that may take, with `notify` or `output:RE`; one that is not ready by then is ended, and the start has failed [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) ready_within: Option<Duration>,
    /// How messages reach the command
    #[arg(long, value_name = "HOW", default_value = "inbox")]
    pub(crate) adapter: Adapter,
    /// What a message is on standard input, with `--adapter lines` [default: line]
    #[arg(long, value_name = "FORM")]
    pub(crate) frame: Option<Frame>,
    /// What the command's prompt matches, a regular expression, with `--adapter lines`: messages then wait for it, one for each prompt
    #[arg(long, value_name = "RE")]
    pub(crate) prompt: Option<String>,
    /// A label; may be repeated
    #[arg(long = "label", value_name = "K=V", value_parser = args::parse_label)]
    pub(crate) labels: Vec<(String, String)>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD", value_parser = clap::builder::OsStringValueParser::new())]
    pub(crate) command: Vec<OsString>,
}

/// How messages reach a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Adapter {
    /// It asks for them; its standard input is empty
    Inbox,
    /// They are written to its standard input, a line each
    Lines,
}

/// What a message is on standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Frame {
    /// Its text, which must be one line
    Line,
    /// A JSON document on one line
    Json,
}

/// The two kinds of environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum InheritEnv {
    /// The environment of the calling client
    Caller,
    /// The minimum that programs need
    Minimal,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let attachment = Attachment { stdin: Stdin::Empty, follow: false };
    let (result, _) = start(&args.options, attachment, context)?;
    context.output.either(&result, |result| sessions::line(&result.session))?;
    Ok(Exit::Done)
}

/// Asks for the session, and returns it with the way to the broker that started it.
///
/// # Errors
/// What the options, the configuration or the broker refuse.
pub(crate) fn start(
    options: &Options,
    attachment: Attachment,
    context: &Context,
) -> Result<(SpawnResult, Broker), Failure> {
    let shown = options
        .command
        .first()
        .map_or_else(String::new, |program| text::shell(Arg::from(program.as_os_str()).as_bytes()));
    let attempt = format!("start {shown}");
    let inherit = match options.inherit_env {
        Some(inherit) => inherit,
        None if context.settings()?.inherits_caller() => InheritEnv::Caller,
        None => InheritEnv::Minimal,
    };
    // What is waited for has its time, and the start of a broker before it.
    let needed = READY.saturating_add(options.ready_within.unwrap_or_default());
    let mut broker = context.broker_until(attempt, context.deadline(needed)?)?;
    let key = options.key.key.clone().unwrap_or_else(|| broker.fresh_key());
    let params = request::build(options, key, inherit, &context.environment, attachment)
        .map_err(|error| broker.failure(error))?;
    let result = broker.change(Method::SessionSpawn, &params.key, &params)?;
    Ok((result, broker))
}
