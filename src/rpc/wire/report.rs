//! Reports: the document, and the parameters and results of the methods about them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Key, Operation, Timestamp};

/// Longest text of a report, in bytes.
pub const REPORT_BYTES_MAX: u64 = 1024 * 1024;
/// Longest title, in bytes.
pub const REPORT_TITLE_BYTES_MAX: usize = 200;
/// Longest abstract, in bytes.
pub const REPORT_ABSTRACT_BYTES_MAX: usize = 500;
/// Most that title, abstract and the other short parts may come to together, in bytes as JSON.
pub const REPORT_HEAD_BYTES_MAX: usize = 32 * 1024;
/// Longest page of a report's text, in bytes.
pub const REPORT_PAGE_BYTES_MAX: u64 = 16 * 1024;

/// What a report says became of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportStatus {
    /// It is done.
    Success,
    /// It cannot be done.
    Failure,
    /// Something of it is done.
    Partial,
}

/// Whose words a report is: the broker says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportOrigin {
    /// Its session's.
    Session,
    /// The broker's: its session ended without one.
    Broker,
}

/// One report, without its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// `rep-N`.
    pub id: String,
    /// Whose it is.
    pub session_id: String,
    /// The episode in which it was posted.
    pub episode: u32,
    /// Whose words it is.
    pub origin: ReportOrigin,
    /// What it says became of the work.
    pub status: ReportStatus,
    /// What it is about, on one line.
    pub title: String,
    /// It in short.
    pub r#abstract: Option<String>,
    /// How much of the work is done, 0 to 100.
    pub percent: Option<u8>,
    /// How long its text is, in bytes.
    pub bytes: u64,
    /// When it was posted.
    pub posted_at: Timestamp,
    /// The report whose place it took.
    pub supersedes: Option<String>,
    /// The report that took its place.
    pub superseded_by: Option<String>,
    /// Why there is nothing of it, if it was lost.
    pub lost: Option<String>,
}

/// Parameters of `report.post`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportPostParams {
    /// Key of this request: under the same key the same report is posted once.
    pub key: Key,
    /// What became of the work.
    pub status: ReportStatus,
    /// What it is about: one line, 1 to 200 bytes, no control characters.
    pub title: String,
    /// The text, up to 1 MiB.
    pub body: String,
    /// It in short, up to 500 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#abstract: Option<String>,
    /// Files and other things that were made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// What was found out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// How it was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<String>,
    /// What should be done next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommendation: Option<String>,
    /// How much of the work is done, 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// An earlier report of the same session whose place it takes; the last one of its line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<String>,
}

/// Result of `report.post`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportPostResult {
    /// The report.
    pub report: Report,
    /// Messages to the session that it has not acknowledged: it may not know what they say. At most 100, oldest first.
    pub unconsumed: Vec<String>,
    /// The operation.
    pub operation: Operation,
}

/// Parameters of `report.read`. One of `report` and `session` is named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportReadParams {
    /// The report's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
    /// A session, whose latest report is meant: id, name, or unique prefix of the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// From which byte of the text on: 0, or `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// At most so many bytes of text, 1 to 16,384; a character is never cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
}

/// Result of `report.read`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportReadResult {
    /// The report.
    pub report: Report,
    /// Files and other things that were made.
    pub artifacts: Vec<String>,
    /// What was found out.
    pub findings: Vec<String>,
    /// How it was checked.
    pub validation: Option<String>,
    /// What should be done next.
    pub recommendation: Option<String>,
    /// This page of the text.
    pub body: String,
    /// From which byte of the text on this page is.
    pub offset: u64,
    /// Where the next page begins; none if this is the last one.
    pub next: Option<u64>,
}

/// Parameters of `report.list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportListParams {
    /// Whose: id, name, or unique prefix of the id.
    pub session: String,
    /// At most so many, up to 1,000; 100 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Result of `report.list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportListResult {
    /// Reports, newest first.
    pub reports: Vec<Report>,
    /// Where the list goes on; none if this is the end.
    pub next: Option<String>,
}
