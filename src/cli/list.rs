//! `ostler list`: sessions. For programs a page at a time, in the broker's order: as they were created, so that a cursor stays true while
//! sessions come and go. For eyes all of them, those that live first, each part newest first: what somebody looks for stands at the top and
//! is never on a page that was not asked for. `--watch` prints the list again each time it differs: it subscribes to what changes sessions, so nothing is asked while
//! nothing changes.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::args;
use super::context::{Broker, Context};
use super::exit::Exit;
use super::failure::Failure;
use super::sessions;
use crate::client::Told;
use crate::os::deadline::{Deadline, Pauses};
use crate::rpc::error::ErrorCode;
use crate::rpc::method::Method;
use crate::rpc::wire::{EventsSubscribeParams, EventsSubscribeResult, ListParams, ListResult, Session, SessionStatus};

/// List sessions that are not deleted; without --all only those that did not end more than a day ago
///
/// The table shows all of them: those that live first, each part newest first. With --json or --cursor it is one page, in the order in which
/// they were created.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Those that ended long ago, too
    #[arg(long)]
    all: bool,
    /// Only those with this status; may be repeated
    #[arg(long, value_parser = PossibleValuesParser::new(sessions::STATUSES.map(|(name, _)| name)).map(sessions::status))]
    status: Vec<SessionStatus>,
    /// Only those with this label; may be repeated
    #[arg(long = "label", value_name = "K=V", value_parser = args::parse_label)]
    labels: Vec<(String, String)>,
    /// At most so many, up to 1000 [default: all in the table, 100 on a page]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: Option<u32>,
    /// The page that follows the one whose `next` this is
    #[arg(long, value_name = "C")]
    cursor: Option<String>,
    /// Print the list again whenever it changes, until interrupted
    #[arg(long, conflicts_with = "cursor")]
    watch: bool,
}

const ATTEMPT: &str = "list sessions";
/// Largest page, so that a whole list needs few calls.
const PAGE: u32 = 1000;
/// How often a whole list begins again because others made so many lists meanwhile that its cursor was let go.
const RESTARTS: u32 = 3;
/// Records that change what a list shows.
const TYPES: [&str; 8] = ["accept", "finish", "host", "session", "fence", "message", "queue", "notice"];
/// Between two looks of `--watch` where much changes.
const WATCH_PAUSE: Duration = Duration::from_millis(100);
/// Between two looks where the broker does not tell of changes.
const WATCH_EVERY: Duration = Duration::from_secs(1);

pub(crate) fn run(args: Args, context: &Context) -> Result<Exit, Failure> {
    let labels = args::label_map(&args.labels).map_err(|error| Failure::new(ATTEMPT, error))?;
    let params = ListParams { all: args.all, status: args.status, labels, limit: args.limit, cursor: args.cursor };
    let look = Look { for_eyes: !context.output.json && params.cursor.is_none(), params };
    if !args.watch {
        let listed = look.look(&mut context.broker(ATTEMPT)?)?;
        show(&listed, context)?;
        return Ok(Exit::Done);
    }
    watch(&look, context)
}

/// What is asked for.
struct Look {
    params: ListParams,
    /// All of it, in the order for eyes; else a page.
    for_eyes: bool,
}

/// What is shown.
#[derive(PartialEq)]
struct Listed {
    page: ListResult,
    /// Sessions beyond `--limit`.
    left_out: usize,
}

impl Look {
    fn look(&self, broker: &mut Broker) -> Result<Listed, Failure> {
        if !self.for_eyes {
            return Ok(Listed { page: broker.call(Method::SessionList, &self.params)?, left_out: 0 });
        }
        let mut sessions = whole(broker, &self.params)?;
        sort_for_eyes(&mut sessions);
        let most = self.params.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let left_out = sessions.len().saturating_sub(most);
        sessions.truncate(most);
        Ok(Listed { page: ListResult { sessions, next: None }, left_out })
    }
}

/// From the order of their creation to that for eyes.
fn sort_for_eyes(sessions: &mut [Session]) {
    sessions.reverse();
    sessions.sort_by_key(|session| !sessions::is_live(session.status));
}

/// All sessions that these filters let through, in the order of their creation, page by page.
///
/// # Errors
/// What the list answers.
pub(crate) fn whole(broker: &mut Broker, filters: &ListParams) -> Result<Vec<Session>, Failure> {
    let mut params = ListParams { limit: Some(PAGE), cursor: None, ..filters.clone() };
    let mut restarts = 0;
    let mut all = Vec::new();
    loop {
        match broker.call::<ListResult>(Method::SessionList, &params) {
            Ok(page) => {
                all.extend(page.sessions);
                match page.next {
                    Some(next) => params.cursor = Some(next),
                    None => return Ok(all),
                }
            }
            Err(Failure::Error(report)) if report.error.code == ErrorCode::ExpiredCursor && restarts < RESTARTS => {
                restarts += 1;
                params.cursor = None;
                all.clear();
            }
            Err(failure) => return Err(failure),
        }
    }
}

fn show(listed: &Listed, context: &Context) -> Result<(), Failure> {
    context.output.either(&listed.page, |page| {
        let more = match listed.left_out {
            0 => String::new(),
            count => format!("{count} more: without --limit all are shown\n"),
        };
        sessions::table(page, &context.output) + &more
    })
}

/// Prints the list whenever it differs from what was printed last, until the deadline. What happens between the subscription and the look is told, so
/// nothing is missed; a subscription that ended, with its connection or by itself, is asked for anew before the next look.
fn watch(look: &Look, context: &Context) -> Result<Exit, Failure> {
    let deadline = context.unlimited();
    let mut broker = context.broker_until(ATTEMPT, deadline)?;
    let mut shown: Option<Listed> = None;
    let mut is_told = false;
    loop {
        if !is_told {
            is_told = subscribe(&mut broker)?;
        }
        let listed = look.look(&mut broker)?;
        if shown.as_ref() != Some(&listed) {
            show(&listed, context)?;
            shown = Some(listed);
        }
        let pause = if is_told { WATCH_PAUSE } else { WATCH_EVERY };
        if !Pauses::new(pause, pause).pause(deadline) {
            return Ok(Exit::Done);
        }
        if is_told {
            match broker.client.told(deadline) {
                Told { ended: true, .. } => is_told = false,
                Told { event: true, .. } => {}
                Told { event: false, ended: false } => return Ok(Exit::Done),
            }
        }
    }
}

/// Whether changes are told from now on. If not, the look that follows finds out why, or mends the connection; a broker of another version, or one with too
/// many subscribers, is looked at now and then.
fn subscribe(broker: &mut Broker) -> Result<bool, Failure> {
    let types = TYPES.map(str::to_owned).to_vec();
    let params = EventsSubscribeParams { types, ..EventsSubscribeParams::default() };
    // What is known so far is about the connection before this one.
    broker.client.told(Deadline::after(Duration::ZERO));
    match broker.call::<EventsSubscribeResult>(Method::EventsSubscribe, &params) {
        Ok(_) => Ok(true),
        Err(Failure::Error(report)) if may_pass(report.error.code) => Ok(false),
        Err(failure) => Err(failure),
    }
}

fn may_pass(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::BrokerUnreachable
            | ErrorCode::Draining
            | ErrorCode::Busy
            | ErrorCode::Capacity
            | ErrorCode::UnknownMethod
            | ErrorCode::Timeout
    )
}
