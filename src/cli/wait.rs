//! `ostler wait`: return when a session is where the caller wants it: 0 when reached, whatever the command's own code; 6 on time-out.

use super::context::Context;
use super::duration;
use super::exit::Exit;
use super::failure::Failure;
use super::sessions;
use crate::rpc::error::ErrorCode;
use crate::rpc::method::Method;
use crate::rpc::wire::{SessionResult, WaitFor, WaitParams};

/// Wait until a session has ended, is ready, or is idle
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Id, name, or unique prefix of the id (at least 3 characters)
    session: String,
    /// What to wait for
    #[arg(long = "for", value_name = "WHAT", default_value = "ended")]
    until: Until,
}

/// What can be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Until {
    /// Its command has ended
    Ended,
    /// It has come up
    Ready,
    /// No session turn runs and none is queued. Without `--prompt` none is seen: then it is idle when no message waits for it or is on its way
    Idle,
}

impl From<Until> for WaitFor {
    fn from(until: Until) -> WaitFor {
        match until {
            Until::Ended => WaitFor::Ended,
            Until::Ready => WaitFor::Ready,
            Until::Idle => WaitFor::Idle,
        }
    }
}

/// A time-out, told in the words of the command line instead of what was left of its deadline.
fn in_words(mut failure: Failure, args: &Args, context: &Context) -> Failure {
    if let (Failure::Error(report), Some(timeout)) = (&mut failure, context.globals.timeout)
        && report.error.code == ErrorCode::Timeout
    {
        let what = match args.until {
            Until::Ended => "did not end",
            Until::Ready => "was not ready",
            Until::Idle => "was not idle",
        };
        report.error.message = format!("it {what} within {}; it goes on", duration::show(timeout));
    }
    failure
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let deadline = context.unlimited();
    let mut broker = context.broker_until(format!("wait for {}", args.session), deadline)?.about(&args.session);
    let timeout_ms = context.globals.timeout.map(|_| duration::millis(deadline.remaining()));
    let params = WaitParams { session: args.session.clone(), until: args.until.into(), timeout_ms };
    let waited = broker.call::<SessionResult>(Method::SessionWait, &params);
    let result = waited.map_err(|failure| in_words(failure, args, context))?;
    context.output.either(&result, |result| sessions::line(&result.session))?;
    Ok(Exit::Done)
}
