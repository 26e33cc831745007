//! Messages: the document, and the parameters and results of the methods about them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Key, Notice, Operation, Origin, Stop, Timestamp};

/// Longest text of a message, in bytes.
pub const MESSAGE_BYTES_MAX: u64 = 256 * 1024;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// `msg-N`.
    pub id: String,
    /// The session that it is for.
    pub session_id: String,
    /// Who sent it: `owner`, a session's id, or `broker` for a notice; the broker's word.
    pub from: String,
    /// Where in the queue it goes.
    pub mode: MessageMode,
    /// Where it stands.
    pub state: MessageState,
    /// Why, where there is something to say.
    pub reason: Option<String>,
    /// The key under which it was sent.
    pub key: Key,
    /// How long its text is, in bytes.
    pub bytes: u64,
    /// When it was sent.
    pub requested_at: Timestamp,
    /// When it is no longer wanted, if it still waits then.
    pub expires_at: Option<Timestamp>,
    /// When it was taken, or pulled.
    pub accepted_at: Option<Timestamp>,
    /// The session turn that it began, where that is known.
    pub turn: Option<u64>,
    /// How often it went back to the queue because it was not taken.
    pub redeliveries: u32,
}

/// Where in the queue a message goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageMode {
    /// Behind those that are there.
    #[default]
    Queue,
    /// Before them, after the running session turn was interrupted.
    Interrupt,
    /// Into the running session turn. No adapter of this version can do it.
    Steer,
}

/// States of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageState {
    /// Recorded; nothing of it has left the broker.
    Queued,
    /// On its way.
    Sending,
    /// The session's adapter took all of it, or the session pulled it.
    Delivered,
    /// The session said that it has it.
    Acknowledged,
    /// Withdrawn before anything of it left.
    Cancelled,
    /// It can never be delivered, or was given up.
    Failed,
    /// Its time was over while it waited.
    Expired,
    /// It may have been delivered; nobody can tell.
    Uncertain,
}

impl MessageState {
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
}

/// Parameters of `message.send`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageSendParams {
    /// Key of this request: under the same key the same message is sent once.
    pub key: Key,
    /// To which session: id, name, or unique prefix of the id.
    pub session: String,
    /// The text, 1 byte to 256 KiB of UTF-8.
    pub text: String,
    /// Where in the queue it goes.
    #[serde(default)]
    pub mode: MessageMode,
    /// How long it is wanted while it waits, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    /// Start a session that has ended for it.
    #[serde(default)]
    pub resume: bool,
    /// What to wait for before the answer; no part of the request's digest.
    #[serde(default)]
    pub wait_for: Patience,
    /// How long, in milliseconds; without it as long as it takes. No part of the request's digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// What a sender waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Patience {
    /// That the message is recorded.
    #[default]
    Commit,
    /// That it was taken.
    Delivered,
    /// That its session said that it has it. A message that is brought to its session is as far as it gets once it is delivered.
    Acknowledged,
}

impl Patience {
    /// The word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Delivered => "delivered",
            Self::Acknowledged => "acknowledged",
        }
    }
}

/// What a sender learns at once. It is about admission, not about acceptance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Recorded, and on its way.
    Immediate,
    /// Recorded, and waiting.
    Queued,
    /// Whether it was recorded is not known; the same key finds out. A client says so that lost its broker.
    Unknown,
}

/// Result of `message.send`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageSendResult {
    /// The message as it is now.
    pub message: Message,
    /// What was decided when it was sent.
    pub delivery: Delivery,
    /// Where it stood in the queue then: 1 is the next.
    pub position: Option<u64>,
    /// Whether this answer repeats that of an earlier request with the same key.
    pub replayed: bool,
    /// The operation.
    pub operation: Operation,
}

/// Parameters of `message.get`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageGetParams {
    /// Its id.
    pub message: String,
}

/// Result of `message.get` and `message.resolve`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageResult {
    /// The message.
    pub message: Message,
    /// The operation, where it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
}

/// Parameters of `message.list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageListParams {
    /// For which session: id, name, or unique prefix of the id.
    pub session: String,
    /// Entries a page: 100 if absent, at most 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Where to go on: `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Result of `message.list`, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageListResult {
    /// This page.
    pub messages: Vec<Message>,
    /// The next page's cursor.
    pub next: Option<String>,
}

/// Parameters of `message.cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageCancelParams {
    /// Key of this request.
    pub key: Key,
    /// The message's id.
    pub message: String,
}

/// Result of `message.cancel`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageCancelResult {
    /// The message as it is now.
    pub message: Message,
    /// What came of it.
    pub outcome: CancelOutcome,
    /// The operation.
    pub operation: Operation,
}

/// What comes of withdrawing a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CancelOutcome {
    /// Nothing of it has left, and nothing will.
    Cancelled,
    /// It is on its way, in doubt, or was pulled.
    TooLate,
    /// It had come to its end before.
    AlreadyFinal,
}

/// Parameters of `message.resolve`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageResolveParams {
    /// Key of this decision.
    pub key: Key,
    /// The uncertain message's id.
    pub message: String,
    /// What is to become of it.
    pub decision: MessageDecision,
}

/// What is to become of an uncertain message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageDecision {
    /// It is sent again, although its session may then have it twice.
    Retry,
    /// It is given up.
    GiveUp,
}

/// Parameters of `inbox.read`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InboxReadParams {
    /// Messages a page: at most 100, which is also what is meant if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only those behind this message: `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// If there is none, wait so long for one, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// Result of `inbox.read`, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InboxReadResult {
    /// This page.
    pub messages: Vec<Letter>,
    /// Where to go on, if there is more.
    pub next: Option<String>,
    /// The stop of this session that is under way: the program has until its `deadline`. Told ahead of all that waits.
    #[serde(default)]
    pub stop: Option<Stop>,
}

/// A message with its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Letter {
    /// The message.
    #[serde(flatten)]
    pub message: Message,
    /// Who it is from, as seen from here.
    pub origin: Origin,
    /// Its text; of a notice, a sentence of the broker's.
    pub text: String,
    /// What the broker tells, if it is a notice.
    pub notice: Option<Notice>,
    /// Why there is no text, if it was lost.
    pub lost: Option<String>,
}

/// Parameters of `inbox.ack`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InboxAckParams {
    /// Key of this request.
    pub key: Key,
    /// Ids of messages that were read, 1 to 100.
    pub messages: Vec<String>,
}

/// Result of `inbox.ack`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InboxAckResult {
    /// Those messages as they are now.
    pub messages: Vec<Message>,
    /// The operation.
    pub operation: Operation,
}
