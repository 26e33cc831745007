//! What a session is, and what each request finds in each of its states: one literal table.
//!
//! ```text
//!                 spawn                    stop
//!  (no session) --------> starting --------------------+
//!                   ^        | started                 v
//!            resume |        v            stop      stopping
//!                   | ready <-> running ---------------> |
//!                   |        | exit, host lost           | exit proven
//!                   |        v                           v
//!        exited | failed | interrupted               stopped
//!                            | delete                    |
//!                            +--------> deleted <--------+ ----> (tombstone)
//! ```
//! Between `starting` and `ready` stands `unready` where more than the start of the command is asked for ([`super::ready`]); callers read it as `starting`.
//! `ready` and `running` follow each other as session turns begin and end. `starting`, `unready`, they and `stopping` may have a process ("live"); the others have none, proven.

use super::ending::Halt;
use super::footprint::Runs;
use super::id::{Digest, Name, OperationId, Process, SessionId};
use super::message::Adapter;
use super::ready::Readiness;
use super::turns::Turn;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A session's status, in the words of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Its start is accepted and not proven.
    Starting,
    /// Its command runs, and it has yet to become ready.
    Unready,
    /// Its command runs.
    Ready,
    /// Its command runs, in a session turn.
    Running,
    /// Its end is asked for and not proven.
    Stopping,
    /// Ended on request.
    Stopped,
    /// Ended by itself with code 0.
    Exited,
    /// Ended otherwise, or its host was lost.
    Failed,
    /// Lost with the machine or container; nothing starts by itself.
    Interrupted,
    /// Being removed; it never comes back.
    Deleted,
}

impl Status {
    /// Every status, in the order of the tables below.
    pub const ALL: [Self; 10] = [
        Self::Starting,
        Self::Unready,
        Self::Ready,
        Self::Running,
        Self::Stopping,
        Self::Stopped,
        Self::Exited,
        Self::Failed,
        Self::Interrupted,
        Self::Deleted,
    ];

    /// Whether a process may exist.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Starting | Self::Unready | Self::Ready | Self::Running | Self::Stopping)
    }

    /// The word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Starting | Self::Unready => "starting",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Exited => "exited",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Deleted => "deleted",
        }
    }
}

/// What a caller may ask of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Run it again.
    Resume,
    /// End its process.
    Stop,
    /// Remove it; refused while it lives.
    Delete,
    /// End its process, then remove it.
    DeleteStop,
}

/// What a request does in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Nothing is left to do: it succeeds in the same turn.
    Done,
    /// What it asks for is under way already: it waits for that.
    Join,
    /// A new episode.
    Launch,
    /// Begin to end the process.
    End,
    /// Begin to remove the files.
    Remove,
    /// Refused: the session lives.
    Live,
    /// Refused: the session is being stopped.
    Busy,
    /// Refused: the session is being removed.
    Gone,
}

/// Rows: status. Columns: resume, stop, delete, delete with stop.
/// "Resume of a live session returns it", "stop in every state", "delete wins" (design 4).
pub const REQUESTS: [(Status, [Move; 4]); 10] = {
    use Move::{Busy, Done, End, Gone, Join, Launch, Live, Remove};
    [
        (Status::Starting, [Join, End, Live, End]),
        (Status::Unready, [Join, End, Live, End]),
        (Status::Ready, [Done, End, Live, End]),
        (Status::Running, [Done, End, Live, End]),
        (Status::Stopping, [Busy, Join, Live, Join]),
        (Status::Stopped, [Launch, Done, Remove, Remove]),
        (Status::Exited, [Launch, Done, Remove, Remove]),
        (Status::Failed, [Launch, Done, Remove, Remove]),
        (Status::Interrupted, [Launch, Done, Remove, Remove]),
        (Status::Deleted, [Gone, Done, Join, Join]),
    ]
};

/// Looks the table up.
pub fn on_request(status: Status, ask: Ask) -> Move {
    let column = match ask {
        Ask::Resume => 0,
        Ask::Stop => 1,
        Ask::Delete => 2,
        Ask::DeleteStop => 3,
    };
    let row = REQUESTS.iter().find(|(of, _)| *of == status).expect("the table has a row for each status");
    row.1[column]
}

/// How an episode ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// The command's own code.
    Code(u32),
    /// The signal's name, `SIGKILL`.
    Signal(String),
    /// It never ran, or nobody saw it end.
    Error(ExitError),
}

/// Why there is neither code nor signal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitError {
    /// Which step failed.
    pub phase: Phase,
    /// Why, for a person.
    pub reason: String,
    /// What the system said, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<Obstacle>,
}

/// What the system said of a start that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Obstacle {
    /// What kind it is.
    pub cause: Cause,
    /// The name of its error: `ENOENT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<String>,
}

/// What kept a command from coming up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// There is none of that name.
    NotFound,
    /// It may not be executed, or entered.
    Denied,
    /// Anything else.
    Other,
}

impl Cause {
    /// The word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Denied => "denied",
            Self::Other => "other",
        }
    }
}

/// The step of a start that failed, or `host` for a host that died under its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The command could not be executed.
    Exec,
    /// Its working directory could not be entered.
    Cwd,
    /// A limit could not be set, or was reached.
    Limit,
    /// The host could not start, or died.
    Host,
    /// It did not become ready in time.
    Ready,
}

/// The facts of one episode that its host has proven.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The host process.
    pub host: Process,
    /// The command's process.
    pub command: Process,
    /// The host's endpoint, `unix:/path`.
    pub address: String,
    /// The endpoint incarnation.
    pub incarnation: Digest,
    /// When the host started the command, Unix microseconds by the host's clock: a broker may learn of it much later.
    pub started_us: u64,
}

/// A refusal that protects one session (law 8).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// The operation whose outcome is uncertain, if one is.
    pub operation: Option<OperationId>,
    /// Why, for a person.
    pub reason: String,
}

/// A process that outlived its session's stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivor {
    /// Its pid when it was seen.
    pub pid: u32,
    /// Its program's name; never its arguments, which may hold a secret.
    pub command: String,
}

/// A session, as the fold of the ledger knows it. The command itself stands in `spec.json`, by salted digest:
/// it may hold secrets and may be longer than a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// Its identity.
    pub id: SessionId,
    /// Its name, if it has one.
    pub name: Option<Name>,
    /// The session that spawned it, set by the broker from the caller's credential.
    pub parent: Option<SessionId>,
    /// How deep it stands in its family: 1 for a session of the owner, one more than its parent for any other.
    #[serde(default = "top", skip_serializing_if = "is_top")]
    pub depth: u32,
    /// The caller's labels.
    pub labels: BTreeMap<String, String>,
    /// Salted digest of `spec.json`.
    pub spec: Digest,
    /// How messages reach it.
    #[serde(default, skip_serializing_if = "Adapter::is_inbox")]
    pub adapter: Adapter,
    /// When it counts as ready, if not as soon as its command executes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readiness: Option<Readiness>,
    /// Whether that was said of the current or last episode.
    #[serde(default, skip_serializing_if = "is_not")]
    pub is_ready: bool,
    /// The session that it was made as a copy of, which may be gone by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<SessionId>,
    /// Ledger position of its creation; lists are in this order.
    pub created_seq: u64,
    /// When it was created.
    pub created_us: u64,
    /// Its status.
    pub status: Status,
    /// A word or two beside the status.
    pub reason: Option<String>,
    /// The current or last episode.
    pub episode: u32,
    /// The number the next episode gets; numbers of aborted starts are not used again.
    pub next_episode: u32,
    /// The current or last episode's facts, once its host has proven them.
    pub run: Option<Run>,
    /// When the current or last episode started.
    pub started_us: Option<u64>,
    /// When it ended.
    pub ended_us: Option<u64>,
    /// How it ended.
    pub exit: Option<Exit>,
    /// The last sign of life that a beat or a record brought.
    pub last_seen_us: u64,
    /// The generation that last had word of its process. Older than the broker's own: liveness is unknown and
    /// nothing is released to it.
    pub proven: u64,
    /// Boot-clock instant until which a start may be issued, or a stop waits before it kills.
    pub deadline_boot_us: u64,
    /// The stop's grace in milliseconds, as the first stop asked.
    pub grace_ms: u64,
    /// Who wanted the current or last episode to end, if anybody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Arc<Halt>>,
    /// Until when a session that is not ready yet has to be, or when a stop's callers are answered even if no end is proven; on the boot clock.
    pub due_boot_us: Option<u64>,
    /// Protects it while its truth is uncertain.
    pub fence: Option<Fence>,
    /// Ledger position of the last doubt that evidence ended: damage before it says nothing about this session any more.
    /// 0 if there was none; then the stored form does not name it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub settled_seq: u64,
    /// What it was before a resume that is not proven yet; an aborted resume puts it back.
    pub prior: Option<Arc<Session>>,
    /// Operations that wait for its start.
    pub starts: Vec<OperationId>,
    /// Operations that wait for its end.
    pub stops: Vec<OperationId>,
    /// Operations that wait for its removal.
    pub deletes: Vec<OperationId>,
    /// Operations that wait for their signal to be sent, one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<OperationId>,
    /// The session turn that runs, where they are seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turn>,
    /// The last turn of this episode that is known to be over, and with it each before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_over: Option<u64>,
    /// Its latest operations, which are kept in full.
    pub latest: Vec<OperationId>,
    /// Its operations with free-form keys that were let go: known as long as it is there.
    pub held: Runs,
}

fn top() -> u32 {
    1
}

fn is_top(depth: &u32) -> bool {
    *depth == top()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
pub(super) fn is_not(is_so: &bool) -> bool {
    !*is_so
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Session {
    /// All operations that wait for something of this session.
    pub fn waiting(&self) -> impl Iterator<Item = OperationId> {
        self.starts.iter().chain(&self.stops).chain(&self.deletes).chain(&self.interrupts).copied()
    }
}
