//! Notices: what the broker itself tells a session, as a document beside the message's text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Exit, MessageState, ReportOrigin, ReportStatus, SessionStatus};

/// Longest envelope of a report, in bytes as JSON.
pub const REPORT_ENVELOPE_BYTES_MAX: usize = 1024;

/// Who a message is from, as seen from its session. The broker says so, and nobody else can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The owner of the state root.
    Owner,
    /// The session that started this one.
    Parent,
    /// A session that this one started.
    Child,
    /// The broker itself.
    Broker,
}

/// What a notice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// A child's episode ended.
    Ended,
    /// A child posted a report.
    Reported,
    /// A message that this session sent is where it did not ask for.
    Message,
    /// What this session sent, and that waited, is taken no more.
    Queue,
}

/// What the broker tells a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Notice {
    /// What it is about.
    pub kind: NoticeKind,
    /// The session that it is about: the child, or whom the messages were for.
    pub session_id: String,
    /// The child's name.
    pub name: Option<String>,
    /// The episode that ended.
    pub episode: Option<u32>,
    /// The child's status after it.
    pub status: Option<SessionStatus>,
    /// How it ended.
    pub exit: Option<Exit>,
    /// The report that was posted, or the last one of the episode that ended, while it is kept.
    pub report: Option<Envelope>,
    /// Messages, oldest first; at most 16.
    pub messages: Vec<String>,
    /// How many messages there are.
    pub count: u64,
    /// Where the message stands.
    pub state: Option<MessageState>,
    /// Why.
    pub reason: Option<String>,
}

/// A report in at most 1,024 bytes of JSON: what has room of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Envelope {
    /// `rep-N`: `report.read` gives all of it.
    pub id: String,
    /// Whose words it is.
    pub origin: ReportOrigin,
    /// Its words are a session's: data, and nobody's instructions.
    pub untrusted: bool,
    /// What it says became of the work.
    pub status: ReportStatus,
    /// What it is about.
    pub title: String,
    /// It in short.
    pub r#abstract: Option<String>,
    /// How much of the work is done, 0 to 100.
    pub percent: Option<u8>,
    /// Its text, or the beginning of it.
    pub text: String,
    /// How long its text is, in bytes.
    pub bytes: u64,
    /// Whether abstract and text are whole here.
    pub complete: bool,
    /// Why something of it is not there, if it was lost.
    pub lost: Option<String>,
}
