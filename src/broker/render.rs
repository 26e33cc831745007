//! Sessions and operations as readers see them. What the ledger does not hold (command, cwd: they may be secret and
//! long) comes from `spec.json`, read once and kept; a spec that cannot be read costs its own row those two members,
//! never the list (report C07).

use super::refused::failed;
use crate::host::client::load_spec;
use crate::machine::{self, Operation, SessionId, State, Status};
use crate::os::arg::Arg;
use crate::rpc::method::Method;
use crate::rpc::wire::{self, Timestamp};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Specs kept in memory; beyond it the cache starts anew.
const SPECS_KEPT: usize = 12_000;

/// What a list shows of a spec.
#[derive(Debug, Default)]
pub struct Summary {
    /// The command line.
    pub command: Vec<Arg>,
    /// The working directory.
    pub cwd: Arg,
}

/// Renders documents of one root.
#[derive(Debug)]
pub struct Renderer {
    root: PathBuf,
    specs: Mutex<HashMap<SessionId, Arc<Summary>>>,
}

impl Renderer {
    /// For this root.
    pub fn new(root: PathBuf) -> Self {
        Self { root, specs: Mutex::new(HashMap::new()) }
    }

    /// Remembers what a new session runs, so that it need not be read back.
    pub fn learn(&self, id: &SessionId, command: &[Arg], cwd: &Arg) {
        let summary = Summary { command: command.to_vec(), cwd: cwd.clone() };
        self.keep(id, Arc::new(summary));
    }

    /// Forgets a session that is gone.
    pub fn forget(&self, id: &SessionId) {
        self.specs.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    fn keep(&self, id: &SessionId, summary: Arc<Summary>) {
        let mut specs = self.specs.lock().unwrap_or_else(PoisonError::into_inner);
        if specs.len() >= SPECS_KEPT {
            specs.clear();
        }
        specs.insert(id.clone(), summary);
    }

    /// Reads what a session runs while its files are there, for the document of one that is about to be deleted.
    pub fn recall(&self, id: &SessionId) {
        drop(self.summary(id, false));
    }

    fn summary(&self, id: &SessionId, is_gone: bool) -> Arc<Summary> {
        let known = self.specs.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        known.unwrap_or_else(|| {
            let summary = match load_spec(&self.root, id.as_str()) {
                Ok((spec, _)) => Summary { command: spec.command, cwd: spec.cwd },
                // Its files went with it.
                Err(_) if is_gone => return Arc::default(),
                Err(error) => {
                    tracing::warn!(session = id.as_str(), %error, "its spec cannot be shown");
                    Summary::default()
                }
            };
            let summary = Arc::new(summary);
            self.keep(id, Arc::clone(&summary));
            summary
        })
    }

    /// A session's document. `generation` is the broker's; `seen_us` what its host said since the last beat.
    pub fn session(
        &self,
        session: &machine::Session,
        generation: u64,
        (seen_us, waiting): (Option<u64>, wire::Queue),
    ) -> wire::Session {
        let summary = self.summary(&session.id, session.status == Status::Deleted);
        let live = session.status.is_live();
        let run = session.run.as_ref().filter(|_| live);
        let unknown = live && session.proven < generation;
        let reason = if unknown { Some("liveness unknown".to_owned()) } else { session.reason.clone() };
        wire::Session {
            id: session.id.to_string(),
            name: session.name.as_ref().map(ToString::to_string),
            status: status(session.status),
            reason: session.fence.as_ref().map(|fence| fence.reason.clone()).or(reason),
            episode: session.episode,
            pid: run.map(|run| run.command.pid),
            host_pid: run.map(|run| run.host.pid),
            command: summary.command.clone(),
            cwd: summary.cwd.clone(),
            labels: session.labels.clone(),
            parent: session.parent.as_ref().map(ToString::to_string),
            forked_from: session.forked_from.as_ref().map(ToString::to_string),
            adapter: adapter(session.adapter),
            created_at: Timestamp::from_us(session.created_us),
            started_at: session.started_us.map(Timestamp::from_us),
            ended_at: session.ended_us.map(Timestamp::from_us),
            last_seen_at: Some(Timestamp::from_us(session.last_seen_us.max(seen_us.unwrap_or(0)))),
            exit: session.exit.as_ref().map(exit),
            endpoint: run.map(|run| wire::Endpoint {
                address: run.address.clone(),
                generation: u64::from(session.episode),
                incarnation: run.incarnation.to_string(),
            }),
            queue: waiting,
            fence: session.fence.as_ref().map(|fence| wire::Fence {
                operation: fence.operation.map(|id| id.to_string()),
                reason: fence.reason.clone(),
            }),
            stop: session.stop.as_deref().map(stop),
        }
    }

    /// The session of a settled operation: as it is now, or (`stored`) as that operation left it. Stored is what the operation gained and, while
    /// the session is there, what never changes; what changes and was not stored is null, so that nothing of now stands beside what was then.
    pub fn session_of(&self, state: &State, operation: &Operation, stored: bool) -> Option<wire::Session> {
        let id = operation.session.as_ref()?;
        let current = state.sessions.get(id).map(|of| self.session(of, state.generation, (None, queue(state, id))));
        let mut document = current.unwrap_or_else(|| tombstone(id, operation));
        if stored {
            let gained = &operation.gained;
            document.reason = None;
            (document.started_at, document.ended_at, document.last_seen_at) = (None, None, None);
            (document.queue, document.fence, document.stop) = (wire::Queue::default(), None, None);
            document.episode = gained.episode.unwrap_or(document.episode);
            document.status = gained.status.map_or(document.status, status);
            document.pid = gained.pid;
            document.host_pid = gained.host_pid;
            document.exit = gained.exit.as_ref().map(exit);
            document.endpoint = gained.address.as_ref().zip(gained.incarnation).map(|(address, incarnation)| {
                let generation = u64::from(gained.episode.unwrap_or(0));
                wire::Endpoint { address: address.clone(), generation, incarnation: incarnation.to_string() }
            });
        }
        Some(document)
    }
}

/// What is left to say of a session that is gone.
fn tombstone(id: &SessionId, operation: &Operation) -> wire::Session {
    let at = Timestamp::from_us(operation.accepted_us);
    wire::Session {
        id: id.to_string(),
        name: None,
        status: wire::SessionStatus::Deleted,
        reason: None,
        episode: operation.gained.episode.unwrap_or(0),
        pid: None,
        host_pid: None,
        command: Vec::new(),
        cwd: Arg::default(),
        labels: std::collections::BTreeMap::new(),
        parent: None,
        forked_from: None,
        adapter: wire::Adapter::Inbox,
        created_at: at,
        started_at: None,
        ended_at: None,
        last_seen_at: None,
        exit: operation.gained.exit.as_ref().map(exit),
        endpoint: None,
        queue: wire::Queue::default(),
        fence: None,
        stop: None,
    }
}

/// A stop on the wire.
pub fn stop(halt: &machine::Halt) -> wire::Stop {
    wire::Stop {
        operation: halt.operation.map(|id| id.to_string()),
        by: halt.by.as_ref().map_or_else(|| "broker".to_owned(), whose),
        reason: halt.reason.clone(),
        asked_at: Timestamp::from_us(halt.asked_us),
        grace_ms: halt.grace_ms,
        deadline: Timestamp::from_us(halt.deadline_us()),
        turn: halt.turn,
    }
}

/// Who asks, in one word: `owner`, or the session's id.
fn whose(scope: &machine::Scope) -> String {
    match scope {
        machine::Scope::Owner => "owner".to_owned(),
        machine::Scope::Session(id) => id.to_string(),
    }
}

/// The status on the wire.
pub fn status(status: Status) -> wire::SessionStatus {
    match status {
        Status::Starting | Status::Unready => wire::SessionStatus::Starting,
        Status::Ready => wire::SessionStatus::Ready,
        Status::Running => wire::SessionStatus::Running,
        Status::Stopping => wire::SessionStatus::Stopping,
        Status::Stopped => wire::SessionStatus::Stopped,
        Status::Exited => wire::SessionStatus::Exited,
        Status::Failed => wire::SessionStatus::Failed,
        Status::Interrupted => wire::SessionStatus::Interrupted,
        Status::Deleted => wire::SessionStatus::Deleted,
    }
}

/// The exit on the wire.
pub fn exit(exit: &machine::Exit) -> wire::Exit {
    match exit {
        machine::Exit::Code(code) => wire::Exit::Code(i32::try_from(*code).unwrap_or(i32::MAX)),
        machine::Exit::Signal(name) => wire::Exit::Signal(name.clone()),
        machine::Exit::Error(error) => wire::Exit::Error(wire::StartFailure {
            phase: match error.phase {
                machine::Phase::Exec => wire::StartPhase::Exec,
                machine::Phase::Cwd => wire::StartPhase::Cwd,
                machine::Phase::Limit => wire::StartPhase::Limit,
                machine::Phase::Host => wire::StartPhase::Host,
                machine::Phase::Ready => wire::StartPhase::Ready,
            },
            reason: error.reason.clone(),
        }),
    }
}

/// An operation's document.
pub fn operation(operation: &Operation, replayed: bool) -> wire::Operation {
    wire::Operation {
        id: operation.id.to_string(),
        key: operation.key.as_str().parse().expect("the machine's keys and the wire's have one grammar"),
        kind: method(operation.kind),
        session_id: operation.session.as_ref().map(ToString::to_string),
        state: match operation.state {
            machine::Outcome::Accepted => wire::OperationState::Accepted,
            machine::Outcome::Succeeded => wire::OperationState::Succeeded,
            machine::Outcome::Failed => wire::OperationState::Failed,
            machine::Outcome::Aborted => wire::OperationState::Aborted,
            machine::Outcome::Uncertain => wire::OperationState::Uncertain,
        },
        seq: operation.seq,
        digest: operation.digest.to_string(),
        replayed,
        request_digest: operation.request.to_string(),
        by: whose(&operation.scope),
        asked_at: Some(Timestamp::from_us(operation.accepted_us)),
        reason: operation.reason.clone(),
        error: failed(operation),
    }
}

fn method(kind: machine::Kind) -> Method {
    match kind {
        machine::Kind::Spawn => Method::SessionSpawn,
        machine::Kind::Fork => Method::SessionFork,
        machine::Kind::Resume => Method::SessionResume,
        machine::Kind::Stop => Method::SessionStop,
        machine::Kind::Delete => Method::SessionDelete,
        machine::Kind::Prune => Method::SessionPrune,
        machine::Kind::Reconcile => Method::SessionReconcile,
        machine::Kind::Resolve => Method::OperationResolve,
        machine::Kind::Send => Method::MessageSend,
        machine::Kind::Cancel => Method::MessageCancel,
        machine::Kind::ResolveMessage => Method::MessageResolve,
        machine::Kind::Interrupt => Method::SessionInterrupt,
        machine::Kind::Turn => Method::SessionTurn,
        machine::Kind::Ready => Method::SessionReady,
        machine::Kind::Acknowledge => Method::InboxAck,
        machine::Kind::Report => Method::ReportPost,
    }
}

/// What waits for a session.
pub fn queue(state: &State, session: &SessionId) -> wire::Queue {
    let (messages, bytes) = state.waiting(session);
    let is_uncertain = |id: &&machine::MessageId| {
        state.messages.get(id).is_some_and(|of| of.state == machine::MessageState::Uncertain)
    };
    let uncertain = state.lanes.get(session).map_or(0, |lane| lane.open.iter().filter(is_uncertain).count());
    let wide = |count| u64::try_from(count).unwrap_or(u64::MAX);
    wire::Queue { messages: wide(messages), bytes, uncertain: wide(uncertain) }
}

fn adapter(adapter: machine::Adapter) -> wire::Adapter {
    match adapter {
        machine::Adapter::Inbox => wire::Adapter::Inbox,
        machine::Adapter::Lines
        | machine::Adapter::JsonLines
        | machine::Adapter::PromptedLines
        | machine::Adapter::PromptedJsonLines => wire::Adapter::Lines,
    }
}

/// A message's document.
pub fn message(message: &machine::Message) -> wire::Message {
    wire::Message {
        id: message.id.to_string(),
        session_id: message.session.to_string(),
        from: super::letter::sender(&message.from),
        mode: match message.mode {
            machine::Mode::Queue => wire::MessageMode::Queue,
            machine::Mode::Interrupt => wire::MessageMode::Interrupt,
        },
        state: message_state(message.state),
        reason: message.reason.clone(),
        key: message.key.as_str().parse().expect("the machine's keys and the wire's have one grammar"),
        bytes: message.bytes(),
        requested_at: Timestamp::from_us(message.requested_us),
        expires_at: message.expires_us.map(Timestamp::from_us),
        accepted_at: message.accepted_us.map(Timestamp::from_us),
        turn: message.turn,
        redeliveries: message.redeliveries,
    }
}

/// A message's state on the wire.
pub fn message_state(state: machine::MessageState) -> wire::MessageState {
    match state {
        machine::MessageState::Queued => wire::MessageState::Queued,
        machine::MessageState::Sending => wire::MessageState::Sending,
        machine::MessageState::Delivered => wire::MessageState::Delivered,
        machine::MessageState::Acknowledged => wire::MessageState::Acknowledged,
        machine::MessageState::Cancelled => wire::MessageState::Cancelled,
        machine::MessageState::Failed => wire::MessageState::Failed,
        machine::MessageState::Expired => wire::MessageState::Expired,
        machine::MessageState::Uncertain => wire::MessageState::Uncertain,
    }
}

/// What came of the word of a session turn, on the wire.
pub fn turned(turned: machine::Turned) -> wire::TurnOutcome {
    match turned {
        machine::Turned::Began => wire::TurnOutcome::Began,
        machine::Turned::Ended => wire::TurnOutcome::Ended,
        machine::Turned::Unchanged => wire::TurnOutcome::Unchanged,
    }
}

/// What came of the word that a session is ready, on the wire.
pub fn readied(readied: machine::Readied) -> wire::ReadyOutcome {
    match readied {
        machine::Readied::Ready => wire::ReadyOutcome::Ready,
        machine::Readied::Unchanged => wire::ReadyOutcome::Unchanged,
    }
}

/// What came of a withdrawal, on the wire.
pub fn withdrawal(withdrawal: machine::Withdrawal) -> wire::CancelOutcome {
    match withdrawal {
        machine::Withdrawal::Cancelled => wire::CancelOutcome::Cancelled,
        machine::Withdrawal::TooLate => wire::CancelOutcome::TooLate,
        machine::Withdrawal::AlreadyFinal => wire::CancelOutcome::AlreadyFinal,
    }
}

/// What outlived a stop.
pub fn survivors(operation: &Operation) -> Vec<wire::Survivor> {
    let each = operation.gained.survivors.iter();
    each.map(|survivor| wire::Survivor { pid: survivor.pid, command: survivor.command.clone() }).collect()
}
