//! A session's output through the broker, and where its host gives it out directly.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Arg, Endpoint, Timestamp};

/// Parameters of `session.read`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadParams {
    /// Exact id, exact name, or unique prefix of the id.
    pub session: String,
    /// Which episode; absent: the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub episode: Option<u32>,
    /// From which byte of the episode's output; 0 is its first.
    #[serde(default)]
    pub position: u64,
    /// How many bytes at most: 64 KiB if absent, at most 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u32>,
    /// Only this stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<Stream>,
}

/// A stream of a program's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Result of `session.read`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadResult {
    /// The episode that was read.
    pub episode: u32,
    /// What was there, in order.
    pub chunks: Vec<Chunk>,
    /// Where to read on.
    pub next: u64,
    /// Bytes that were asked for and have aged out.
    pub lost_bytes: u64,
    /// No more will come: the episode is over and all of it was read.
    pub ended: bool,
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Chunk {
    /// Byte offset in the episode's output.
    pub position: u64,
    /// Which stream.
    pub stream: Stream,
    /// When the host read it.
    pub at: Timestamp,
    /// The bytes, base64.
    pub b64: String,
}

/// Parameters of `session.endpoint`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointParams {
    /// Exact id, exact name, or unique prefix of the id.
    pub session: String,
    /// Which episode; absent: the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub episode: Option<u32>,
}

/// Result of `session.endpoint`: what a reader of the same user needs to read without the broker. Holds no secret; the
/// episode's secret is in a 0600 file of its folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndpointResult {
    /// The session.
    pub session_id: String,
    /// The episode.
    pub episode: u32,
    /// Where the host answers, while it lives.
    pub endpoint: Option<Endpoint>,
    /// The episode's folder.
    pub folder: Arg,
}
