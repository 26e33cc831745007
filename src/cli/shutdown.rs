//! `ostler shutdown`: ask the broker to leave, and return when a successor could start. Live sessions go on in their hosts. Where no broker
//! runs it is done. `--force` ends an owner that does not answer, after its identity has been checked against the lock table; who allows less
//! time than an answer may take ends nobody.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde::Serialize;

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::status;
use crate::broker::holder;
use crate::broker::lock::LOCK_NAME;
use crate::host::client::gather;
use crate::os::deadline::{Deadline, Pauses};
use crate::os::identity::ProcessIdentity;
use crate::os::locks::lock_holder;
use crate::os::paths::{PathError, StateRoot};
use crate::os::signal::{Handle, Opened};
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::method::Method;
use crate::rpc::wire::{
    Broker, BrokerStatusResult, ListParams, ListResult, OwnerRecord, RunState, SessionStatus, ShutdownParams,
    ShutdownResult,
};

/// Ask the broker to leave; live sessions go on
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Stop all sessions first
    #[arg(long)]
    stop_sessions: bool,
    /// End a broker that does not answer, after checking that it is the owner of the lock
    #[arg(long)]
    force: bool,
}

/// What is asked of a broker that is to leave.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    /// Stop all sessions first.
    pub(super) stop_sessions: bool,
    /// End it if it does not answer, or does not leave.
    pub(super) force: bool,
}

#[derive(Serialize)]
pub(super) struct Document {
    /// The broker that left; null where none ran or none answered.
    pub(super) broker: Option<Broker>,
    /// Whether a process was ended by force.
    pub(super) forced: bool,
    /// Sessions that were to be stopped and were not.
    not_stopped: Vec<NotStopped>,
}

/// A session that nobody may touch, or whose end was not seen.
#[derive(Serialize)]
struct NotStopped {
    session_id: String,
    /// Why.
    reason: String,
    #[serde(skip)]
    is_fenced: bool,
}

/// A session that may have a process.
struct Live {
    id: String,
    episode: u32,
    fence: Option<String>,
}

const ATTEMPT: &str = "shut the broker down";
/// How long an orderly end may take.
const ORDERLY: Duration = Duration::from_secs(30);
/// The same where sessions are stopped first: the longest grace of a stop, and the time to end what is left.
const WITH_SESSIONS: Duration = Duration::from_secs(180);
/// How long a broker may take to come up or, once it has closed its door, to be gone.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a silent owner has between TERM and KILL, and after KILL.
const SILENT_GRACE_MS: u64 = 3_000;
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LAST_LOOK: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let needed = if args.stop_sessions { WITH_SESSIONS } else { ORDERLY };
    let deadline = context.bounded(needed);
    let path = context.root_path(ATTEMPT)?;
    let blocked = |error: &PathError| {
        let wire = WireError::new(ErrorCode::BrokerBlocked, error.to_string()).reason("root");
        let remedy = error.remedy().unwrap_or_else(|| "ostler doctor".to_owned());
        Failure::new(ATTEMPT, wire.with("remedy", remedy))
    };
    let document = match StateRoot::open(&path).map_err(|error| blocked(&error))? {
        None => Document::nobody(),
        Some(root) => {
            let wish = Wish { stop_sessions: args.stop_sessions, force: args.force };
            end(&root, wish, context, deadline).map_err(|error| Failure::new(ATTEMPT, error))?
        }
    };
    for NotStopped { session_id, reason, is_fenced } in &document.not_stopped {
        let why = match is_fenced {
            true => format!("it is fenced ({reason}); `ostler reconcile {session_id}` settles it"),
            false => format!("{reason}; `ostler stop {session_id}` asks for it again"),
        };
        context.output.progress(&format!("ostler: session {session_id} was not stopped: {why}"));
    }
    context.output.either(&document, |document| match (&document.broker, document.forced) {
        (Some(broker), _) => format!("pid {} has left\n", broker.pid),
        (None, true) => "the silent owner was ended\n".to_owned(),
        (None, false) => "no broker runs\n".to_owned(),
    })?;
    Ok(Exit::Done)
}

impl Document {
    fn nobody() -> Document {
        Document { broker: None, forced: false, not_stopped: Vec::new() }
    }
}

/// The live sessions. Where a broker does not tell, nothing is said: the shutdown goes on.
fn living(root: &StateRoot, context: &Context, deadline: Deadline) -> Vec<Live> {
    let status = vec![SessionStatus::Starting, SessionStatus::Ready, SessionStatus::Running, SessionStatus::Stopping];
    let mut params = ListParams { status, limit: Some(1_000), ..ListParams::default() };
    let mut found = Vec::new();
    while let Ok(page) = context.ask::<_, ListResult>(root, Method::SessionList, &params, deadline) {
        found.extend(page.sessions.into_iter().map(|session| Live {
            id: session.id,
            episode: session.episode,
            fence: session.fence.map(|fence| fence.reason),
        }));
        if page.next.is_none() {
            break;
        }
        params.cursor = page.next;
    }
    found
}

/// Those of them that go on: nobody may touch them, or their host is there and has told no end.
fn not_stopped(root: &StateRoot, living: Vec<Live>) -> Vec<NotStopped> {
    let goes_on = |live: &Live| {
        gather(root.path(), &live.id, live.episode).is_ok_and(|seen| seen.has_host() && seen.exit.is_none())
    };
    let told = living.into_iter().filter_map(|live| {
        let is_fenced = live.fence.is_some();
        let unseen = || goes_on(&live).then(|| "its end was not seen in time".to_owned());
        let reason = live.fence.clone().or_else(unseen)?;
        Some(NotStopped { session_id: live.id, reason, is_fenced })
    });
    told.collect()
}

/// Makes the broker leave, and returns when a successor could start.
///
/// # Errors
/// What it answers, and what keeps it.
pub(super) fn end(root: &StateRoot, wish: Wish, context: &Context, deadline: Deadline) -> Result<Document, WireError> {
    let patience = deadline.at_most(PATIENCE).at_most(deadline.remaining() / 2);
    let mut pauses = Pauses::new(FIRST_LOOK, LAST_LOOK);
    loop {
        // The other half is for what follows.
        let found = status::look(root, context, deadline.at_most(deadline.remaining() / 2))?;
        match found.state {
            RunState::Absent => return Ok(Document::nobody()),
            RunState::Running | RunState::Draining if found.broker.is_some() => {
                match ask(root, &found, wish, context, deadline) {
                    // It left between look and question: somebody else had asked it.
                    Err(error) if error.code == ErrorCode::BrokerUnreachable && pauses.pause(deadline) => {}
                    asked => return asked,
                }
            }
            RunState::Starting | RunState::Unresponsive | RunState::Draining if wish.force => {
                signal_owner(root, &found, &FORCED)?;
                await_successor(root, found.lock.owner.as_ref(), deadline)?;
                return Ok(Document { forced: true, ..Document::nobody() });
            }
            // On its way up, or out: soon it answers, or is gone.
            RunState::Starting | RunState::Unresponsive | RunState::Draining | RunState::Running
                if pauses.pause(patience) => {}
            RunState::Starting
            | RunState::Unresponsive
            | RunState::Draining
            | RunState::Running
            | RunState::Blocked => return Err(refuse(&found)),
        }
    }
}

fn ask(
    root: &StateRoot,
    found: &BrokerStatusResult,
    wish: Wish,
    context: &Context,
    deadline: Deadline,
) -> Result<Document, WireError> {
    let meant = found.broker.as_ref().map(|broker| broker.incarnation.clone());
    let params = ShutdownParams { incarnation: meant, stop_sessions: wish.stop_sessions };
    let living = if wish.stop_sessions { living(root, context, deadline) } else { Vec::new() };
    match context.ask::<_, ShutdownResult>(root, Method::BrokerShutdown, &params, deadline) {
        Ok(left) => {
            await_successor(root, found.lock.owner.as_ref(), deadline)?;
            Ok(Document { broker: Some(left.broker), forced: false, not_stopped: not_stopped(root, living) })
        }
        // Its successor answers: the one that was meant has left.
        Err(error) if error.code == ErrorCode::EndpointStale => {
            Ok(Document { broker: found.broker.clone(), ..Document::nobody() })
        }
        // It is of a version that does not know this call, or whose protocol this one does not speak. TERM says the same in every version.
        Err(error) if status::is_other_version(&error) && !wish.stop_sessions && context.is_owner() => {
            let patience = Ending { signal: Signal::SIGTERM, ms: millis(deadline.remaining() / 2) };
            let endings = if wish.force { [&[patience], &FORCED[1..]].concat() } else { vec![patience] };
            let forced = signal_owner(root, found, &endings)?;
            await_successor(root, found.lock.owner.as_ref(), deadline)?;
            Ok(Document { broker: found.broker.clone(), forced, ..Document::nobody() })
        }
        Err(error) => Err(error),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns when the lock is free, or somebody else has it: then a successor could start, or has.
fn await_successor(root: &StateRoot, owner: Option<&OwnerRecord>, deadline: Deadline) -> Result<(), WireError> {
    let mut pauses = Pauses::new(FIRST_LOOK, LAST_LOOK);
    loop {
        let lock = holder::lock_state(root).map_err(|error| {
            WireError::new(ErrorCode::BrokerBlocked, format!("the lock cannot be looked at: {error}"))
        })?;
        let is_same_owner = lock.owner.as_ref().map(identity) == owner.map(identity);
        let is_gone = match lock.held {
            Some(held) => !held,
            // The lock table does not tell: the owner's own end, or its mark that it left, is what there is.
            None => lock.owner_lives == Some(false) || lock.owner.as_ref().is_some_and(|owner| owner.released),
        };
        if is_gone || (owner.is_some() && !is_same_owner) {
            return Ok(());
        }
        if !pauses.pause(deadline) {
            let message = "the broker was asked to leave and still holds its lock";
            let error = WireError::new(ErrorCode::Timeout, message).reason("leaving");
            return Err(error.with("changed", "it takes no new work").with("remedy", "ostler status"));
        }
    }
}

fn identity(owner: &OwnerRecord) -> ProcessIdentity {
    ProcessIdentity { boot: owner.boot.clone(), ns: owner.ns, pid: owner.pid, start: owner.start }
}

/// One signal, and how long its effect may take, in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Ending {
    signal: Signal,
    ms: u64,
}

/// What ends an owner that does not answer.
const FORCED: [Ending; 2] =
    [Ending { signal: Signal::SIGTERM, ms: SILENT_GRACE_MS }, Ending { signal: Signal::SIGKILL, ms: SILENT_GRACE_MS }];

/// Ends the owner of the lock, signal by signal, each through a handle whose identity was read again after it was had. Says whether it took more
/// than the first.
fn signal_owner(root: &StateRoot, found: &BrokerStatusResult, endings: &[Ending]) -> Result<bool, WireError> {
    let denied = |message: String| WireError::new(ErrorCode::Denied, message).reason("identity");
    let Some(owner) = &found.lock.owner else {
        return Err(denied("the lock is held and its record cannot be read, so nobody can be ended safely".to_owned()));
    };
    let holder = lock_holder(root.folder(), LOCK_NAME).ok().flatten().and_then(|holder| holder.pid);
    if holder.is_some_and(|holder| holder != owner.pid) {
        let message =
            format!("process {} owns the record, but another one holds the lock; it is not touched", owner.pid);
        return Err(denied(message));
    }
    let failed = |error: std::io::Error| denied(format!("process {} cannot be ended: {error}", owner.pid));
    let handle = match Handle::open(&identity(owner)).map_err(failed)? {
        Opened::Process(handle) => handle,
        Opened::Gone => return Ok(false),
        Opened::Foreign => {
            return Err(denied(
                "the owner belongs to another boot or container and cannot be judged from here".to_owned(),
            ));
        }
    };
    for (index, Ending { signal, ms }) in endings.iter().enumerate() {
        handle.send(*signal).map_err(failed)?;
        if handle.wait_end(*ms).map_err(failed)? {
            return Ok(index > 0);
        }
    }
    let last = endings.last().map_or("nothing", |ending| ending.signal.as_str());
    let message = format!("process {} holds the lock and has not ended after {last}", owner.pid);
    Err(WireError::new(ErrorCode::Timeout, message).reason("leaving").with("remedy", "ostler shutdown --force"))
}

fn refuse(found: &BrokerStatusResult) -> WireError {
    let (state, _) = status::state_name(found.state);
    let more: String = found.degraded.iter().map(|trouble| format!("; {trouble}")).collect();
    let message = format!("it is {state} ({}){more}", status::lock_line(&found.lock));
    let error = WireError::new(ErrorCode::BrokerBlocked, message).reason(state);
    match found.state {
        RunState::Blocked => error.with("remedy", "ostler doctor"),
        RunState::Starting | RunState::Unresponsive | RunState::Running | RunState::Absent | RunState::Draining => {
            error.with("remedy", "ostler shutdown --force")
        }
    }
}
