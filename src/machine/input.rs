//! What comes into the machine: requests of callers, observations of the world, the passing of time. Data only.

use super::family::Family;
use super::id::{Digest, Key, MessageId, Name, OperationId, Scope, SessionId};
use super::mail::Parcel;
use super::operation::{Actor, Operation};
use super::reconcile::Evidence;
use super::refusal::Refusal;
use super::report::Post;
use super::session::{Exit, Obstacle, Phase, Run, Survivor};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One input of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A caller asks for a change.
    Request(Request),
    /// The world answered an effect, or spoke by itself.
    Observation(Observation),
    /// A session pulls messages that wait for it.
    Pull {
        /// Which session.
        session: SessionId,
        /// Which messages; at most [`super::limits::MESSAGES_AT_ONCE`] of them.
        messages: Vec<MessageId>,
    },
    /// Last-seen times to be checkpointed.
    Beat {
        /// By session; wall clock, microseconds. At most [`super::limits::BEAT_INPUT`] of them.
        seen: BTreeMap<SessionId, u64>,
        /// Recorded whole, even if nothing in it is new: the checkpoint of a start.
        whole: bool,
    },
    /// A deadline of `next_deadline` passed.
    Tick,
    /// A broker won the lock; always the first input of a generation.
    Generation(super::event::Generation),
}

/// A caller's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whose key.
    pub scope: Scope,
    /// Who asked.
    pub actor: Actor,
    /// The idempotency key.
    pub key: Key,
    /// The request's digest: method, target and what was named explicitly.
    pub digest: Digest,
    /// Ledger position from which on requests were digested under the same secret as this one. Digests of operations before it were made
    /// under a secret that is lost, and equal nothing.
    pub digests_since: u64,
    /// What a family may grow to.
    pub family: Family,
    /// What is asked.
    pub action: Action,
    /// What the ledger says of the operations that may have its key ([`super::Answer::Recall`]); empty at first.
    pub recalled: Vec<Recalled>,
}

/// An operation that was let go, as the ledger has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recalled {
    /// Its records were read back.
    Read(Arc<Operation>),
    /// They cannot be read.
    Unreadable(OperationId),
}

impl Recalled {
    /// Which operation.
    pub fn id(&self) -> OperationId {
        match self {
            Self::Read(operation) => operation.id,
            Self::Unreadable(id) => *id,
        }
    }

    /// The operation, if it could be read.
    pub fn operation(&self) -> Option<&Arc<Operation>> {
        match self {
            Self::Read(operation) => Some(operation),
            Self::Unreadable(_) => None,
        }
    }
}

/// The session a request names. Resolving a name may fail; a replay needs no resolving, so the failure waits here.
pub type Target = Result<SessionId, Refusal>;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A new session. Its files were prepared by the shell under an id drawn from entropy.
    Spawn {
        /// The prepared id, or none if the shell saw a known key and prepared nothing.
        prepared: Option<PreparedSession>,
        /// The wanted name.
        name: Option<Name>,
        /// The caller's labels.
        labels: BTreeMap<String, String>,
        /// How messages reach it.
        adapter: super::message::Adapter,
        /// When it counts as ready, if not as soon as its command executes.
        readiness: Option<super::ready::Readiness>,
        /// The session that it is a copy of, if it is one: it has to be there still.
        source: Option<Target>,
    },
    /// A message to a session.
    Send(Box<Parcel>),
    /// The withdrawal of a message.
    Cancel {
        /// Which. Finding it may fail; a replay needs none, so the failure waits here.
        message: Result<MessageId, Refusal>,
    },
    /// A decision about an uncertain message.
    ResolveMessage {
        /// Which.
        message: Result<MessageId, Refusal>,
        /// Whether it is sent again, although it may then be there twice; else it is given up.
        again: bool,
    },
    /// The calling session has these messages.
    Acknowledge {
        /// At most [`super::limits::MESSAGES_AT_ONCE`] of them.
        messages: Vec<MessageId>,
    },
    /// A report of the calling session.
    Report(Box<Post>),
    /// A new episode of an ended session.
    Resume {
        /// Which.
        target: Target,
        /// The episode whose folder the shell prepared.
        prepared: Option<u32>,
    },
    /// The end of a session's process.
    Stop {
        /// Which.
        target: Target,
        /// How long it may take to end by itself.
        grace_ms: u64,
        /// Why, in the caller's words; at most [`super::limits::STOP_REASON_BYTES`].
        reason: Option<String>,
    },
    /// The calling session's word of a session turn.
    Turn {
        /// Its number, which grows within an episode.
        number: u64,
        /// The episode it speaks of.
        episode: u32,
        /// Whether it begins; if not, it is over.
        begins: bool,
    },
    /// The calling session's word that it is ready.
    Ready {
        /// The episode it speaks of.
        episode: u32,
    },
    /// A signal to a session's command that it should leave what it does.
    Interrupt {
        /// Which session.
        target: Target,
    },
    /// The removal of a session.
    Delete {
        /// Which.
        target: Target,
        /// Whether to end its process first; without it a live session is refused.
        stop: bool,
        /// How long that may take.
        grace_ms: u64,
        /// Why, as of a stop.
        reason: Option<String>,
    },
    /// The removal of ended sessions.
    Prune {
        /// Those that ended before this long ago.
        older_ms: u64,
    },
    /// The end of a doubt about a session, by evidence.
    Reconcile {
        /// Which.
        target: Target,
        /// What the shell has seen of it; none at first.
        evidence: Option<Box<Evidence>>,
    },
    /// An operator's decision about an uncertain operation.
    Resolve {
        /// Which. Finding it may fail; a replay needs none, so the failure waits here.
        operation: Result<OperationId, Refusal>,
        /// Whether it succeeded.
        succeeded: bool,
        /// Why, in the operator's words.
        reason: String,
    },
}

/// A session whose folder, spec and first episode are on disk, synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedSession {
    /// Its id.
    pub id: SessionId,
    /// Salted digest of its spec.
    pub spec: Digest,
}

/// What the world answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The session.
    pub session: SessionId,
    /// The episode it speaks about; word of another episode is late and changes nothing.
    pub episode: u32,
    /// What is known.
    pub word: Word,
}

/// Word of an episode. The columns of the table in `observe`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// The host reported that the command executes.
    Started(Run),
    /// Proven that the command never executed.
    LaunchFailed {
        /// Which step failed.
        phase: Phase,
        /// Why.
        reason: String,
        /// What the system said, where it did.
        obstacle: Option<Obstacle>,
    },
    /// The life lock is free and there is no host record: the gate never opened.
    NeverOpened,
    /// The command ended; its host saw it.
    Exited {
        /// The facts of the episode, if the broker may not know them yet.
        run: Option<Run>,
        /// How it ended.
        exit: Exit,
        /// When; wall clock, microseconds.
        at_us: u64,
        /// What outlived a stop.
        survivors: Vec<Survivor>,
    },
    /// The host died; its command is proven to be gone.
    HostLost,
    /// Lost with the machine or container.
    MachineLost,
    /// The host answered hello.
    Adopted(Run),
    /// The episode belongs to another root or boot: nothing may be touched.
    Foreign {
        /// What gave it away.
        reason: String,
    },
    /// The session's files are gone.
    Removed,
    /// What became of an interrupt.
    Interrupted {
        /// Which.
        operation: OperationId,
        /// Whether there was a command to signal; if not, it has ended.
        sent: bool,
    },
    /// The host's word of a session turn.
    Turn {
        /// Its number.
        number: u64,
        /// Whether it runs; if not, it is over.
        runs: bool,
    },
    /// Its host saw in its output that it is ready.
    Ready,
    /// What became of a message's attempt.
    Mail {
        /// The message.
        message: MessageId,
        /// The attempt's token.
        attempt: u64,
        /// What became of it.
        carried: Carried,
    },
}

/// What became of an attempt to deliver a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    /// The adapter took all of it.
    Taken {
        /// When; wall clock, microseconds.
        at_us: u64,
    },
    /// Proven that nothing of it was taken.
    NotTaken,
    /// Nothing of it was taken, and nothing ever will be.
    Refused {
        /// Why.
        reason: String,
    },
    /// It may have been taken, in part or whole.
    Unknown {
        /// Why.
        reason: String,
    },
}
