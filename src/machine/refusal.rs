//! Why a request is refused. A refusal binds nothing: it leaves no operation, and the same key may be used again.

use super::id::{Digest, MessageId, Name, OperationId, ReportId, SessionId};
use super::message::MessageState;
use super::operation::Outcome;
use super::reconcile::Part;
use super::session::{Fence, Status, Survivor};

/// A typed refusal; the shell maps each to a code of the contract and a text for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The key belongs to another request.
    KeyConflict {
        /// The operation that has the key.
        operation: OperationId,
        /// Its request digest.
        stored: Digest,
        /// The digest that came now.
        given: Digest,
    },
    /// The key is bound, and whether to this request cannot be known: its digest was made under a secret that is lost.
    Incomparable {
        /// The operation that has the key.
        operation: OperationId,
        /// What became of it.
        state: Outcome,
    },
    /// The key tells a time from before the window in which keys are known; whether it was used cannot be told.
    KeyExpired {
        /// Keys made up to this time may have been forgotten; wall clock, microseconds.
        until_us: u64,
    },
    /// The key may belong to an operation whose records cannot be read.
    Unreadable {
        /// Which.
        operation: OperationId,
    },
    /// No such session, or none that the caller may know of; the two read alike.
    NoSession {
        /// The name that was given.
        given: String,
    },
    /// No such operation.
    NoOperation {
        /// What was given.
        given: String,
    },
    /// A prefix fits more than one session.
    Ambiguous {
        /// The prefix.
        given: String,
        /// How many it fits.
        fits: usize,
        /// The first of them.
        some: Vec<SessionId>,
    },
    /// The name is taken.
    NameTaken {
        /// The name.
        name: Name,
        /// By whom.
        by: SessionId,
    },
    /// The session lives; a delete needs `stop`.
    Live {
        /// Which.
        session: SessionId,
    },
    /// The session is being stopped.
    Stopping {
        /// Which.
        session: SessionId,
    },
    /// The session is being removed.
    Gone {
        /// Which.
        session: SessionId,
    },
    /// The session is fenced.
    Fenced {
        /// Which.
        session: SessionId,
        /// By what.
        fence: Fence,
    },
    /// What lives is not settled.
    Lives {
        /// Which session.
        session: SessionId,
        /// What of it.
        part: Part,
        /// The processes, as far as they are known.
        living: Vec<Survivor>,
        /// They are of another state root.
        is_elsewhere: bool,
    },
    /// Whether it lives cannot be seen.
    Hidden {
        /// Which session.
        session: SessionId,
        /// What of it.
        part: Part,
    },
    /// Too many operations wait for this session already.
    Crowded {
        /// Which.
        session: SessionId,
    },
    /// A limit is reached.
    Capacity {
        /// Of what.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// As many children of one session live as may.
    Children {
        /// Of which; none if the caller may not know.
        of: Option<SessionId>,
        /// Whether that is who asked.
        is_caller: bool,
        /// The limit.
        limit: usize,
    },
    /// The caller stands as deep in its family as anybody may.
    Depth {
        /// The limit.
        limit: u32,
    },
    /// Only an uncertain operation can be resolved.
    NotUncertain {
        /// Which.
        operation: OperationId,
        /// What it is.
        state: Outcome,
    },
    /// Only the owner may ask this.
    OwnerOnly,
    /// Only a session may ask this, of itself.
    SessionOnly,
    /// No such message, or none that the caller may know of; the two read alike.
    NoMessage {
        /// What was given.
        given: String,
    },
    /// The session has ended and takes no message, unless it is to be started for it.
    HasEnded {
        /// Which.
        session: SessionId,
        /// How.
        status: Status,
    },
    /// Too much waits for the session already.
    QueueFull {
        /// Which.
        session: SessionId,
        /// How many messages.
        rows: usize,
        /// How long they are together, in bytes.
        bytes: u64,
    },
    /// The session's adapter takes one line, and the text is more.
    Framing {
        /// Which session.
        session: SessionId,
    },
    /// The session's host has not answered this broker yet, so nobody knows what there is to interrupt.
    Unproven {
        /// Which session.
        session: SessionId,
    },
    /// The session's adapter, or this version, cannot do that.
    Incapable {
        /// What.
        what: &'static str,
    },
    /// No such report, or none that the caller may know of; the two read alike.
    NoReport {
        /// What was given.
        given: String,
    },
    /// A report that another has taken the place of is amended no more.
    Superseded {
        /// Which.
        report: ReportId,
        /// The last one of its line.
        head: ReportId,
    },
    /// Only an uncertain message can be decided about.
    MessageSettled {
        /// Which.
        message: MessageId,
        /// What it is.
        state: MessageState,
    },
}
