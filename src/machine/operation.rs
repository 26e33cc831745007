//! An operation: one mutating request, one outcome (law 5). The table says which outcome may follow which.

use super::apply::Illegal;
use super::id::{Digest, Key, MessageId, OperationId, Scope, SessionId};
use super::session::{Exit, Obstacle, Status, Survivor};
use serde::{Deserialize, Serialize};

/// What kind of request it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A new session.
    #[serde(rename = "session.spawn")]
    Spawn,
    /// Make a session as a copy of another one.
    #[serde(rename = "session.fork")]
    Fork,
    /// A new episode of an ended session.
    #[serde(rename = "session.resume")]
    Resume,
    /// The end of a session's process.
    #[serde(rename = "session.stop")]
    Stop,
    /// The removal of a session.
    #[serde(rename = "session.delete")]
    Delete,
    /// The removal of ended sessions.
    #[serde(rename = "session.prune")]
    Prune,
    /// The end of a doubt about a session, by evidence.
    #[serde(rename = "session.reconcile")]
    Reconcile,
    /// An operator's decision about an uncertain operation.
    #[serde(rename = "operation.resolve")]
    Resolve,
    /// A message to a session.
    #[serde(rename = "message.send")]
    Send,
    /// The withdrawal of a message.
    #[serde(rename = "message.cancel")]
    Cancel,
    /// A decision about an uncertain message.
    #[serde(rename = "message.resolve")]
    ResolveMessage,
    /// A signal to a session's command that it should leave what it does.
    #[serde(rename = "session.interrupt")]
    Interrupt,
    /// A session's word of a session turn.
    #[serde(rename = "session.turn")]
    Turn,
    /// A session's word that it is ready.
    #[serde(rename = "session.ready")]
    Ready,
    /// A session's word that it has messages.
    #[serde(rename = "inbox.ack")]
    Acknowledge,
    /// A report of a session.
    #[serde(rename = "report.post")]
    Report,
}

impl Kind {
    /// The method's name on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Spawn => "session.spawn",
            Self::Fork => "session.fork",
            Self::Resume => "session.resume",
            Self::Stop => "session.stop",
            Self::Delete => "session.delete",
            Self::Prune => "session.prune",
            Self::Reconcile => "session.reconcile",
            Self::Resolve => "operation.resolve",
            Self::Send => "message.send",
            Self::Cancel => "message.cancel",
            Self::ResolveMessage => "message.resolve",
            Self::Interrupt => "session.interrupt",
            Self::Turn => "session.turn",
            Self::Ready => "session.ready",
            Self::Acknowledge => "inbox.ack",
            Self::Report => "report.post",
        }
    }
}

/// Where an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Recorded, and not settled.
    Accepted,
    /// Done.
    Succeeded,
    /// Not done, after something of it had happened.
    Failed,
    /// Proven that nothing happened; its key is free.
    Aborted,
    /// It cannot be known; evidence or an operator may settle it.
    Uncertain,
}

impl Outcome {
    /// Every state.
    pub const ALL: [Self; 5] = [Self::Accepted, Self::Succeeded, Self::Failed, Self::Aborted, Self::Uncertain];

    /// The word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Aborted => "aborted",
            Self::Uncertain => "uncertain",
        }
    }

    /// Whether `next` may follow: a settled outcome never changes (law 7).
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Accepted => next != Self::Accepted,
            Self::Uncertain => matches!(next, Self::Succeeded | Self::Failed),
            Self::Succeeded | Self::Failed | Self::Aborted => false,
        }
    }
}

/// The error of an operation that did not succeed, in the contract's codes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// A code of the contract's closed set.
    pub code: String,
    /// The finer distinction: a start's phase, `cancelled`, `lost`.
    pub reason: String,
    /// One sentence for a person.
    pub message: String,
    /// What the system said, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<Obstacle>,
}

/// What a finished operation keeps of its result. Never a credential, never the environment (issue 2, Shows).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gained {
    /// The episode that a start made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub episode: Option<u32>,
    /// Its endpoint's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Its endpoint's incarnation; a replay compares it with the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<Digest>,
    /// The command's pid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The host's pid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_pid: Option<u32>,
    /// The session's status at the end of the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// How the process ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// Processes that outlived a stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub survivors: Vec<Survivor>,
    /// The sessions that a prune forgot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pruned: Vec<SessionId>,
    /// How many more it would have forgotten, beyond one call's limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u64>,
    /// Where a message stood in the queue when it was sent; absent if it went at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// The message that was withdrawn or decided about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// What came of the withdrawal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withdrawal: Option<Withdrawal>,
    /// What came of the word of a session turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turned: Option<Turned>,
    /// What came of the word that it is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readied: Option<Readied>,
}

/// What comes of a session's word that it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Readied {
    /// It counts as ready from here on.
    Ready,
    /// It did already, nobody waits for that word, or it is of an episode that is over.
    Unchanged,
}

/// What comes of a session's word of its turn. A miss has a name of its own, so that it cannot be read as a hit (requirement R2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Turned {
    /// The turn runs from here on.
    Began,
    /// The turn is over from here on, and each before it.
    Ended,
    /// It was known, is over, or is of an episode that is.
    Unchanged,
}

/// What comes of withdrawing a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Withdrawal {
    /// Nothing of it has left, and nothing will.
    Cancelled,
    /// It is on its way, in doubt, or was pulled.
    TooLate,
    /// It had come to its end before.
    AlreadyFinal,
}

/// Who asked, as the kernel and the credential say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// The peer's uid.
    pub uid: u32,
    /// The peer's pid when it asked.
    pub pid: u32,
    /// The session whose credential it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sid: Option<SessionId>,
}

impl Actor {
    /// Whose key it is: the credential decides, not an argument (requirement R67).
    pub fn scope(&self) -> Scope {
        self.sid.clone().map_or(Scope::Owner, Scope::Session)
    }
}

/// An operation, as the fold of the ledger knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// Its id: the position of the record that accepted it.
    pub id: OperationId,
    /// What it asks.
    pub kind: Kind,
    /// Whose key it is.
    pub scope: Scope,
    /// The caller's key.
    pub key: Key,
    /// Digest of the request under the root's own secret.
    pub request: Digest,
    /// The session it is about, if it is about one.
    pub session: Option<SessionId>,
    /// Its state.
    pub state: Outcome,
    /// Position of its latest record.
    pub seq: u64,
    /// Digest of that record; filled in when it is known.
    pub digest: Digest,
    /// When it was accepted.
    pub accepted_us: u64,
    /// Why, in the caller's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What it gained.
    pub gained: Gained,
    /// Why it did not succeed.
    pub failure: Option<Failure>,
}

impl Operation {
    /// Whether its key tells no time that can be believed, so that it is known as long as its session.
    pub fn is_free_form(&self) -> bool {
        super::retain::believed_us(&self.key, self.accepted_us).is_none()
    }

    /// Its outcome, as the record at `seq` has it.
    ///
    /// # Errors
    /// [`Illegal`] if it has another one that never changes.
    pub(super) fn settle(
        &mut self,
        outcome: Outcome,
        seq: u64,
        gained: Gained,
        failure: Option<Failure>,
    ) -> Result<(), Illegal> {
        if !self.state.may_become(outcome) {
            return Err(Illegal("a settled outcome never changes"));
        }
        (self.state, self.seq, self.gained, self.failure) = (outcome, seq, gained, failure);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settled_outcome_never_changes() {
        let table = Outcome::ALL.map(|from| {
            let next: Vec<_> = Outcome::ALL.into_iter().filter(|to| from.may_become(*to)).map(Outcome::word).collect();
            format!("{} -> {}", from.word(), next.join(" "))
        });
        assert_eq!(
            table.join("\n"),
            "accepted -> succeeded failed aborted uncertain\nsucceeded -> \nfailed -> \naborted -> \n\
             uncertain -> succeeded failed"
        );
    }
}
