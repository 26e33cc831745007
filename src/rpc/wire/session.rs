//! Sessions: the document, and the parameters and results of the methods about one or many.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Arg, Key, Operation, Timestamp};

/// One session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// 12 base32 characters, never used again.
    pub id: String,
    /// Its name, where it has one.
    pub name: Option<String>,
    /// How it is.
    pub status: SessionStatus,
    /// Why it is so, where there is something to say.
    pub reason: Option<String>,
    /// Which run of the command this is: 1, 2, 3 ...
    pub episode: u32,
    /// Process id of the command, while it lives; for humans.
    pub pid: Option<u32>,
    /// Process id of the host, while it lives; for humans.
    pub host_pid: Option<u32>,
    /// The command line.
    pub command: Vec<Arg>,
    /// The working directory.
    pub cwd: Arg,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Id of the session that started it.
    pub parent: Option<String>,
    /// The session that it was made as a copy of, if it was; that one may be gone.
    #[serde(default)]
    pub forked_from: Option<String>,
    /// How messages reach it.
    pub adapter: Adapter,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When this episode's command started.
    pub started_at: Option<Timestamp>,
    /// When this episode's command ended.
    pub ended_at: Option<Timestamp>,
    /// When its host was last heard of.
    pub last_seen_at: Option<Timestamp>,
    /// How the last episode ended.
    pub exit: Option<Exit>,
    /// Where its host answers.
    pub endpoint: Option<Endpoint>,
    /// What waits for it.
    pub queue: Queue,
    /// Set while it is fenced.
    pub fence: Option<Fence>,
    /// Who wanted the current or last episode to end, if anybody did.
    #[serde(default)]
    pub stop: Option<Stop>,
}

/// The first wish that an episode should end: what `show` tells, and what a program that pulls its messages is told while it is stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stop {
    /// The operation; null where a session turn did not heed its interrupt.
    pub operation: Option<String>,
    /// Who asked: `owner`, a session's id, or `broker`.
    pub by: String,
    /// Why, if whoever asked said so.
    pub reason: Option<String>,
    /// When it was asked for.
    pub asked_at: Timestamp,
    /// How long the command may take to end by itself.
    pub grace_ms: u64,
    /// When that is over, by the wall clock as it was at `asked_at`; the first stop's, whatever others ask.
    pub deadline: Timestamp,
    /// The session turn that ran then and was cut, where turns are seen.
    pub turn: Option<u64>,
}

/// Status of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// Its host is being started.
    Starting,
    /// Alive, in no session turn that is seen.
    Ready,
    /// In a session turn.
    Running,
    /// Its turn or its machine was interrupted.
    Interrupted,
    /// No process; a message resumes it.
    Idle,
    /// Being stopped.
    Stopping,
    /// Ended on request.
    Stopped,
    /// Ended by itself with code 0.
    Exited,
    /// Ended otherwise, or never came up.
    Failed,
    /// Removed; its id is never used again.
    Deleted,
}

/// How messages reach a session's program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Adapter {
    /// It pulls them.
    #[default]
    Inbox,
    /// They are written to its standard input, a line each.
    Lines,
    /// It speaks the Agent Client Protocol.
    Acp,
}

/// How an episode ended: `{"code":n}`, `{"signal":"SIGKILL"}` or `{"error":{...}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// The command's exit code.
    Code(i32),
    /// The signal that ended it, by name.
    Signal(String),
    /// It never came up, or its host died.
    Error(StartFailure),
}

/// Why an episode never came up, or was lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StartFailure {
    /// Where.
    pub phase: StartPhase,
    /// Why, for a human.
    pub reason: String,
}

/// Where a start failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StartPhase {
    /// The command could not be executed.
    Exec,
    /// The working directory could not be entered.
    Cwd,
    /// A limit could not be set, or was reached.
    Limit,
    /// The host failed.
    Host,
    /// It did not become ready in time.
    Ready,
}

/// Where a session's host answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Endpoint {
    /// `unix:/path` or `pipe:NAME`.
    pub address: String,
    /// The episode it serves.
    pub generation: u64,
    /// 64 hex digits that name this one endpoint.
    pub incarnation: String,
}

/// What waits for a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Queue {
    /// How many messages.
    pub messages: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Messages of which nobody can tell whether they were delivered; they do not wait.
    #[serde(default)]
    pub uncertain: u64,
}

/// A refusal that protects a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fence {
    /// The uncertain operation, where it is one.
    pub operation: Option<String>,
    /// Why.
    pub reason: String,
}

/// Parameters of `session.get`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetParams {
    /// Exact id, exact name, or unique prefix of the id, tried in this order.
    pub session: String,
}

/// Result of `session.get` and `session.wait`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionResult {
    /// The session.
    pub session: Session,
}

/// Parameters of `session.list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListParams {
    /// Deleted ones, and those that ended more than a day ago, too.
    #[serde(default)]
    pub all: bool,
    /// Only these; empty means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<SessionStatus>,
    /// Only those with all of these labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Entries a page: 100 if absent, at most 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Where to go on: `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Result of `session.list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListResult {
    /// This page.
    pub sessions: Vec<Session>,
    /// The next page's cursor.
    pub next: Option<String>,
}

/// Parameters of `session.wait`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitParams {
    /// Exact id, exact name, or unique prefix of the id.
    pub session: String,
    /// What to wait for.
    #[serde(rename = "for", default)]
    pub until: WaitFor,
    /// How long at most; absent: as long as the connection lives. Passed: `timeout`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// What to wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitFor {
    /// Its episode is over.
    #[default]
    Ended,
    /// It is ready.
    Ready,
    /// No session turn runs and none is queued.
    Idle,
}

/// Parameters of `session.interrupt`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InterruptParams {
    /// Key of this request.
    pub key: Key,
    /// Which session: id, name, or unique prefix of the id.
    pub session: String,
}

/// Parameters of `session.turn`; for a session, about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TurnParams {
    /// Key of this request.
    pub key: Key,
    /// Whether it begins or ends.
    pub event: TurnEvent,
    /// Which session turn: a number of the session's own, which grows within an episode.
    pub turn: u64,
    /// The episode that it is of (`OSTLER_EPISODE`).
    pub episode: u32,
}

/// What happened to a session turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnEvent {
    /// The program works at something.
    Begin,
    /// It has done so.
    End,
}

/// Result of `session.turn`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TurnResult {
    /// The session, as it is now.
    pub session: Session,
    /// What came of it.
    pub outcome: TurnOutcome,
    /// The operation.
    pub operation: Operation,
}

/// What came of the word of a session turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnOutcome {
    /// The turn runs from here on.
    Began,
    /// The turn is over from here on, and each before it.
    Ended,
    /// Nothing: it was known, is over, or is of an episode that is.
    Unchanged,
}

/// Parameters of `session.ready`; for a session, about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadyParams {
    /// Key of this request.
    pub key: Key,
    /// The episode that is ready (`OSTLER_EPISODE`).
    pub episode: u32,
}

/// Result of `session.ready`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReadyResult {
    /// The session, as it is now.
    pub session: Session,
    /// What came of it.
    pub outcome: ReadyOutcome,
    /// The operation.
    pub operation: Operation,
}

/// What came of the word that a session is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadyOutcome {
    /// It counts as ready from here on.
    Ready,
    /// Nothing: it was ready, nobody waits for that word, or it is of an episode that is over.
    Unchanged,
}

/// Parameters of `session.resume`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeParams {
    /// Key of this request.
    pub key: Key,
    /// Exact id, exact name, or unique prefix of the id.
    pub session: String,
}

/// Parameters of `session.fork`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkParams {
    /// Key of this request.
    pub key: Key,
    /// The session to copy: exact id, exact name, or unique prefix of the id.
    pub session: String,
    /// The copy's name; it has none if none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Parameters of `session.stop`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopParams {
    /// Key of this request.
    pub key: Key,
    /// Exact id, exact name, or unique prefix of the id.
    pub session: String,
    /// Time between TERM and KILL: 10 s if absent, at most 120 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// Why: 1 to 256 bytes without control characters. Its program and whoever looks are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Parameters of `session.delete`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteParams {
    /// Key of this request.
    pub key: Key,
    /// Exact id, exact name, or unique prefix of the id.
    pub session: String,
    /// Stop it first; without this a live session is refused as `session_live`.
    #[serde(default)]
    pub stop: bool,
    /// As for `session.stop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// As for `session.stop`; only with `stop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Parameters of `session.reconcile`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReconcileParams {
    /// Key of this request.
    pub key: Key,
    /// Exact id, exact name, or unique prefix of the id.
    pub session: String,
}

/// Result of `session.stop`, `session.delete` and `session.reconcile`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EndedResult {
    /// The session as it is now.
    pub session: Session,
    /// What was done.
    pub operation: Operation,
    /// Processes that are left and are not ostler's to end.
    #[serde(default)]
    pub survivors: Vec<Survivor>,
}

/// A process that outlived its session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Survivor {
    /// Its process id.
    pub pid: u32,
    /// Its command line, shortened.
    pub command: String,
}

/// Parameters of `session.prune`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PruneParams {
    /// Key of this request.
    pub key: Key,
    /// Only sessions that ended at least this long ago; absent: the retention in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_ms: Option<u64>,
    /// Only say which.
    #[serde(default)]
    pub dry_run: bool,
}

/// Result of `session.prune`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PruneResult {
    /// Ids of the sessions forgotten, or to be forgotten.
    pub sessions: Vec<String>,
    /// What was done; null for a dry run.
    pub operation: Option<Operation>,
}
