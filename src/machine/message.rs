//! A message: what it is, and which state may follow which: one literal table.
//!
//! ```text
//!          sent              the lane's turn             the adapter took it
//!  (none) ------> queued ----------------------> sending --------------------> delivered --> acknowledged
//!                  |  ^          not taken          |  nobody can tell            ^
//!                  |  +-----------------------------+------------> uncertain -----+
//!                  v                                |                  |
//!    cancelled, expired, failed <-------------------+------------------+
//! ```
//! Before `sending` nothing has left the broker, so everything can be taken back. From `sending` on nothing is: an answer or the host's
//! journal says what became of it, and where neither can, it is `uncertain` (laws 4 and 7; requirements R1 to R11).

use super::apply::Illegal;
use super::id::{Digest, Key, MessageId, SessionId};
use super::interrupts::Interrupts;
use super::notice::Notice;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageState {
    /// Recorded; nothing of it has left the broker.
    Queued,
    /// Recorded before the first byte left; its effect may have happened.
    Sending,
    /// The adapter took all of it, or its session has pulled it.
    Delivered,
    /// Its session said that it has it.
    Acknowledged,
    /// Withdrawn before anything of it left.
    Cancelled,
    /// It can never be delivered, or somebody gave it up.
    Failed,
    /// Its time was over while it was queued.
    Expired,
    /// It may have been delivered; nobody can tell.
    Uncertain,
}

impl MessageState {
    /// Every state, in the order of the table.
    pub const ALL: [Self; 8] = [
        Self::Queued,
        Self::Sending,
        Self::Delivered,
        Self::Acknowledged,
        Self::Cancelled,
        Self::Failed,
        Self::Expired,
        Self::Uncertain,
    ];

    /// The word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Sending => "sending",
            Self::Delivered => "delivered",
            Self::Acknowledged => "acknowledged",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
            Self::Expired => "expired",
            Self::Uncertain => "uncertain",
        }
    }

    /// Whether `next` may follow.
    pub fn may_become(self, next: Self) -> bool {
        use MessageState::{Acknowledged, Cancelled, Delivered, Expired, Failed, Queued, Sending, Uncertain};
        match self {
            Queued => matches!(next, Sending | Delivered | Cancelled | Expired | Failed),
            Sending => matches!(next, Delivered | Queued | Uncertain | Failed | Acknowledged),
            Uncertain => matches!(next, Delivered | Queued | Failed | Acknowledged),
            Delivered => matches!(next, Acknowledged),
            Acknowledged | Cancelled | Failed | Expired => false,
        }
    }
}

/// Where in the queue a message goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Behind those that are there.
    #[default]
    Queue,
    /// Before them, behind its like.
    Interrupt,
}

impl Mode {
    /// Whether it is the usual one, which records do not name.
    pub fn is_queue(&self) -> bool {
        *self == Self::Queue
    }
}

/// Who sent a message: the broker says so, from the credential, never the sender (requirements R67, R71).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sender {
    /// The owner of the state root.
    Owner,
    /// A session: the recipient's parent or child.
    Session(SessionId),
    /// The broker itself: a notice.
    Broker,
}

/// Where a message's text lies: in a file of the session, because it may be long or secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Body {
    /// The number of the file.
    pub file: u32,
    /// Where in it the salt begins, which stands before the text.
    pub offset: u64,
    /// The text's length in bytes, without the salt.
    pub bytes: u64,
    /// SHA-256 of salt and text.
    pub digest: Digest,
}

/// What an adapter needs to be told of, as far as the machine goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adapter {
    /// The program pulls its messages.
    #[default]
    Inbox,
    /// They are written to its standard input, each as one line of its own text.
    Lines,
    /// They are written to its standard input, each as one line of JSON.
    JsonLines,
    /// As [`Self::Lines`], and its host sees by its prompt when a session turn ends.
    PromptedLines,
    /// As [`Self::JsonLines`], and its host sees by its prompt when a session turn ends.
    PromptedJsonLines,
}

impl Adapter {
    /// Whether the broker brings messages, and the session need not ask for them.
    pub fn pushes(self) -> bool {
        match self {
            Self::Inbox => false,
            Self::Lines | Self::JsonLines | Self::PromptedLines | Self::PromptedJsonLines => true,
        }
    }

    /// Whether its host tells where a session turn ends.
    pub fn has_turns(self) -> bool {
        match self {
            Self::Inbox | Self::Lines | Self::JsonLines => false,
            Self::PromptedLines | Self::PromptedJsonLines => true,
        }
    }

    /// Whether a message is a line of its own text, which must not be longer than one.
    pub fn is_plain(self) -> bool {
        match self {
            Self::Lines | Self::PromptedLines => true,
            Self::Inbox | Self::JsonLines | Self::PromptedJsonLines => false,
        }
    }

    /// Whether it is the usual one, which records do not name.
    pub fn is_inbox(&self) -> bool {
        *self == Self::Inbox
    }
}

/// A message, as the fold of the ledger knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Its id: the position of the record that accepted it.
    pub id: MessageId,
    /// Whom it is for.
    pub session: SessionId,
    /// Who sent it.
    pub from: Sender,
    /// The key under which it was sent.
    pub key: Key,
    /// Where in the queue it goes.
    pub mode: Mode,
    /// Where it stands.
    pub state: MessageState,
    /// Why, where there is something to say.
    pub reason: Option<String>,
    /// Where its text lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    /// What the broker tells, in the place of a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<Arc<Notice>>,
    /// When it was sent; wall clock, microseconds.
    pub requested_us: u64,
    /// When it is no longer wanted, if it still waits then; wall clock, microseconds.
    pub expires_us: Option<u64>,
    /// When it was taken; wall clock, microseconds.
    pub accepted_us: Option<u64>,
    /// The token of its latest attempt: the position of the record that began it. 0 if there was none. An answer that names another is late
    /// (requirement R9).
    pub attempt: u64,
    /// The episode that this attempt went to.
    pub episode: u32,
    /// How often it went back to the queue because it was not taken.
    pub redeliveries: u32,
    /// The session turn that it interrupts, while it waits for the end of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<Interrupts>,
    /// The session turn that it began, where turns are seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// Position of its latest record.
    pub seq: u64,
    /// When it came to its end; wall clock, microseconds.
    pub settled_us: Option<u64>,
}

impl Message {
    /// Whether something is still to come: it waits, is on its way, in doubt, or was pulled and not acknowledged.
    pub fn is_open(&self) -> bool {
        self.settled_us.is_none()
    }

    /// How long its text is, in bytes.
    pub fn bytes(&self) -> u64 {
        self.body.as_ref().map_or(0, |body| body.bytes)
    }

    /// Changes the state, as the record at `seq` has it.
    ///
    /// # Errors
    /// [`Illegal`] where the table says no.
    pub(super) fn become_state(&mut self, next: MessageState, seq: u64) -> Result<(), Illegal> {
        if !self.state.may_become(next) {
            return Err(Illegal("a message's state that cannot follow the one before"));
        }
        (self.state, self.seq) = (next, seq);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_an_end_and_what_has_left_is_not_taken_back() {
        let table = MessageState::ALL.map(|from| {
            let next = MessageState::ALL.into_iter().filter(|to| from.may_become(*to)).map(MessageState::word);
            format!("{} -> {}", from.word(), next.collect::<Vec<_>>().join(" "))
        });
        assert_eq!(
            table.join("\n"),
            "queued -> sending delivered cancelled failed expired\nsending -> queued delivered acknowledged failed uncertain\n\
             delivered -> acknowledged\nacknowledged -> \ncancelled -> \nfailed -> \nexpired -> \n\
             uncertain -> queued delivered acknowledged failed"
        );
    }
}
