//! The one event enum. It is also the stored form: what stands here is what stands in the ledger, member for member,
//! frozen by golden files. The ledger adds position, chains, clocks and the turn's end. An unknown `t` stops a start.

use super::id::{Digest, Key, MessageId, Name, OperationId, Process, ReportId, Scope, SessionId};
use super::interrupts::Interrupts;
use super::message::{Adapter, Body, Mode};
use super::notice::Notice;
use super::operation::{Actor, Failure, Gained, Kind, Outcome};
use super::ready::Readiness;
use super::report::Verdict;
use super::session::{Exit, Fence, Run, Status};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A fact, in the order of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum Event {
    /// A broker won the lock.
    Generation {
        /// Who it is.
        body: Generation,
    },
    /// A request is accepted: from here it has exactly one outcome.
    Accept {
        /// The session it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sid: Option<SessionId>,
        /// The episode it makes or ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ep: Option<u32>,
        /// The operation: this record's own position.
        op: OperationId,
        /// The method.
        kind: Kind,
        /// The caller's key.
        key: Key,
        /// The request's digest.
        req: Digest,
        /// Who asked.
        act: Actor,
        /// What will be done.
        body: Plan,
    },
    /// An operation is settled.
    Finish {
        /// The session it was about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sid: Option<SessionId>,
        /// The operation.
        op: OperationId,
        /// The method.
        kind: Kind,
        /// The outcome.
        st: Outcome,
        /// The error's code, when it did not succeed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        err: Option<String>,
        /// What it gained.
        res: Gained,
        /// The error's reason and message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<Failure>,
    },
    /// Word of an episode's host.
    Host {
        /// The session.
        sid: SessionId,
        /// The episode.
        ep: u32,
        /// What is known.
        body: HostChange,
    },
    /// A session changed otherwise.
    Session {
        /// The session.
        sid: SessionId,
        /// Its current episode.
        ep: u32,
        /// What changed.
        body: SessionChange,
    },
    /// A fence went up or came down.
    Fence {
        /// The session.
        sid: SessionId,
        /// Its current episode.
        ep: u32,
        /// The fence, or none.
        body: FenceChange,
    },
    /// A message changed.
    Message {
        /// Whom it is for.
        sid: SessionId,
        /// The session's current episode.
        ep: u32,
        /// Which, and how.
        body: MessageEvent,
    },
    /// All that waits for a session changed.
    Queue {
        /// The session.
        sid: SessionId,
        /// Its current episode.
        ep: u32,
        /// How.
        body: QueueChange,
    },
    /// The broker tells a session something, as a message whose id is the position of this record.
    Notice {
        /// Whom.
        sid: SessionId,
        /// Its current episode.
        ep: u32,
        /// What.
        body: Notice,
    },
    /// Last-seen times of sessions: the heartbeat checkpoint. Names no session's chain: it is about all of them.
    Beat {
        /// The times.
        body: Beat,
    },
    /// A key came with another request. Binds nothing; an operator may want to know.
    Conflict {
        /// What was compared.
        body: Conflict,
    },
    /// An operator decided an uncertain operation.
    Operator {
        /// Who decided.
        act: Actor,
        /// What and why.
        body: Decided,
    },
}

/// A broker that won the lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    /// Its number: one more than the last.
    pub number: u64,
    /// The process.
    pub process: Process,
    /// The broker incarnation.
    pub incarnation: Digest,
    /// Its product version.
    pub version: String,
    /// Inode of `broker.lock`.
    pub lock_inode: u64,
    /// The dead owner whose lock it reclaimed, if the last one left no clean mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaimed: Option<Reclaimed>,
}

/// The record of a dead owner, set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reclaimed {
    /// File name of the quarantined record.
    pub record: String,
    /// The dead owner's identity, if its record could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
}

/// What an accepted request will do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plan {
    /// Make a session and start its first episode.
    Spawn {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<Name>,
        /// The caller's labels.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        labels: BTreeMap<String, String>,
        /// Salted digest of `spec.json`.
        spec: Digest,
        /// Until when the start may be issued.
        deadline_boot_us: u64,
        /// How messages reach it.
        #[serde(default, skip_serializing_if = "Adapter::is_inbox")]
        adapter: Adapter,
        /// When it counts as ready, if not as soon as its command executes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        readiness: Option<Readiness>,
        /// The session that it is a copy of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<SessionId>,
    },
    /// Deliver a message.
    Send {
        /// Where in the queue it goes.
        #[serde(default, skip_serializing_if = "Mode::is_queue")]
        mode: Mode,
        /// Where its text lies.
        body: Body,
        /// When it is no longer wanted, if it still waits then; wall clock, microseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_us: Option<u64>,
        /// The session turn that it interrupts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interrupts: Option<Interrupts>,
    },
    /// Keep a report of the session.
    Report {
        /// What it says became of the work.
        verdict: Verdict,
        /// Where its title and its short parts lie.
        head: Body,
        /// Where its text lies.
        text: Body,
        /// The report that it takes the place of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        supersedes: Option<ReportId>,
    },
    /// Start a new episode.
    Launch {
        /// Until when the start may be issued.
        deadline_boot_us: u64,
    },
    /// End the process.
    End {
        /// How long it may take to end by itself.
        grace_ms: u64,
        /// When that is over.
        deadline_boot_us: u64,
        /// Whether the session is removed afterwards.
        delete: bool,
        /// Why, in the caller's words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Signal the command to leave what it does.
    Interrupt,
    /// Remove the files of an ended session.
    Remove,
    /// Wait for what is under way: for the start, the end or the removal, by kind.
    Join,
    /// The same, for the end or the removal.
    JoinFor {
        /// Why, in the caller's words.
        reason: String,
    },
    /// Nothing is left to do.
    Nothing,
    /// End a doubt by the evidence that was seen; what follows from it stands behind this record. What damage before it
    /// may mean for the session is settled with it.
    Settle,
    /// Forget ended sessions; a `session` record each follows.
    Prune {
        /// Those that ended before this long ago.
        older_ms: u64,
    },
}

impl Plan {
    /// Why, where the caller said so.
    pub fn reason(&self) -> Option<&String> {
        match self {
            Self::End { reason, .. } => reason.as_ref(),
            Self::JoinFor { reason } => Some(reason),
            Self::Spawn { .. }
            | Self::Send { .. }
            | Self::Report { .. }
            | Self::Launch { .. }
            | Self::Interrupt
            | Self::Remove
            | Self::Join
            | Self::Nothing
            | Self::Settle
            | Self::Prune { .. } => None,
        }
    }
}

/// Word of an episode's host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostChange {
    /// The gate opened and the command executes.
    Started(Run),
    /// It answered hello after a restart of the broker.
    Adopted(Run),
    /// The gate never opened; the start is issued again.
    Unopened,
}

/// Another change of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionChange {
    /// Its process ended, proven.
    Ended {
        /// How.
        exit: Exit,
        /// The status it has now.
        status: Status,
        /// A word or two beside it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// When its host saw it end; wall clock, microseconds.
        at_us: u64,
    },
    /// It starts again, because a message wants it: the episode of this record.
    Woken {
        /// Until when the start may be issued.
        deadline_boot_us: u64,
    },
    /// Its host says that this session turn runs, of which no message tells.
    TurnBegan {
        /// Its number.
        turn: u64,
    },
    /// This session turn is over, and each before it.
    TurnEnded {
        /// Its number.
        turn: u64,
    },
    /// It is to end, because a turn that was interrupted did not.
    Overdue {
        /// How long it may take to end by itself.
        grace_ms: u64,
        /// When that is over.
        deadline_boot_us: u64,
    },
    /// It says, or its output does, that it is ready.
    Ready,
    /// It is to end, because it did not become ready in its time.
    Unready {
        /// How long it may take to end by itself.
        grace_ms: u64,
        /// When that is over.
        deadline_boot_us: u64,
    },
    /// Its start was aborted: a spawned session is gone, a resumed one is what it was.
    Aborted,
    /// Its removal began.
    Deleting,
    /// It left the list; its files are owed a removal.
    Forgotten,
    /// Its files are gone: the tombstone.
    Removed,
}

/// A change of one message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageEvent {
    /// Which.
    pub message: MessageId,
    /// How.
    pub change: MessageChange,
}

/// How a message changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageChange {
    /// It is on its way to the episode of this record; the record's position is the attempt's token.
    Sending,
    /// The adapter took all of it.
    Delivered {
        /// When; wall clock, microseconds.
        at_us: u64,
    },
    /// Its session has pulled it.
    Pulled,
    /// Its session said that it has it.
    Acknowledged,
    /// The session turn that it interrupts has got its signal, or was over by then.
    InterruptSent,
    /// It was not taken and waits again, or somebody wants it sent again.
    Returned {
        /// Which of the two.
        reason: String,
    },
    /// It may have been delivered; nobody can tell.
    Uncertain {
        /// Why.
        reason: String,
    },
    /// It was withdrawn.
    Cancelled {
        /// Why.
        reason: String,
    },
    /// Its time was over.
    Expired,
    /// It can never be delivered, or was given up.
    Failed {
        /// Why.
        reason: String,
    },
}

/// How all that waits for a session changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueChange {
    /// Nobody will take it any more.
    Closed {
        /// Why.
        reason: String,
    },
}

/// A fence that went up, or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FenceChange {
    /// The fence; none means it came down.
    pub fence: Option<Fence>,
}

/// Last-seen times, wall clock in microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    /// By session.
    pub seen: BTreeMap<SessionId, u64>,
}

/// A key that came with another request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// Whose key.
    pub scope: Scope,
    /// The key.
    pub key: Key,
    /// The operation that has it.
    pub operation: OperationId,
    /// The digest that was given.
    pub given: Digest,
}

/// An operator's decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// The operation that was uncertain.
    pub operation: OperationId,
    /// What it is now.
    pub outcome: Outcome,
    /// Why, in the operator's words.
    pub reason: String,
}
