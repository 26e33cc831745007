//! Calls about reports: post, read, list.
//!
//! A report is two texts in its session's files: its head (title and short parts, as JSON) and its text, so that a list reads no text. Both are
//! on disk before the record that names them. A text that was damaged is told as `lost`, never shown.

use super::bodies::{self, Lost};
use super::changes::{Settled, Wanted};
use super::front::Front;
use super::reads::{Position, other_list, page_limit};
use super::refused::{as_seen_by, failed, refused};
use super::render;
use crate::machine::{
    self, Action, Body, Content, Digest, Exit, Post, Refusal, ReportId, Scope, SessionId, State, Status, Verdict,
    limits, may_read,
};
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::service::Caller;
use crate::rpc::wire::{
    self, Encoded, REPORT_ABSTRACT_BYTES_MAX, REPORT_BYTES_MAX, REPORT_HEAD_BYTES_MAX, REPORT_PAGE_BYTES_MAX,
    REPORT_TITLE_BYTES_MAX, ReportListParams, ReportListResult, ReportOrigin, ReportPostParams, ReportPostResult,
    ReportReadParams, ReportReadResult, ReportStatus, Timestamp, encode,
};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// A report's title and its short parts, as they lie on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) r#abstract: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) artifacts: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) findings: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) validation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) recommendation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) percent: Option<u8>,
}

/// A head, or why there is none.
type Read<T> = Result<T, String>;

impl Front {
    pub(super) async fn post_report(
        &self,
        caller: &Caller,
        digest: Digest,
        params: ReportPostParams,
    ) -> Result<Encoded, WireError> {
        let change = self.keyed(caller, params.key.as_str(), digest)?;
        let verdict = verdict_of(params.status);
        let supersedes = params.supersedes.as_deref().map(report_id);
        let (head, text) = checked(params)?;
        let post = Post { verdict, bodies: None, supersedes };
        let texts: &[&[u8]] = &[&head, text.as_bytes()];
        let settled = self.settle(&change, Action::Report(Box::new(post)), Wanted { spec: None, texts }).await?;
        self.posted(&settled).await
    }

    async fn posted(&self, settled: &Settled) -> Result<Encoded, WireError> {
        let operation = &settled.operation;
        if let Some(error) = failed(operation) {
            return Err(error.with("replayed", settled.replayed).with("key", operation.key.as_str()));
        }
        let id = ReportId(operation.id.0);
        let (report, unconsumed) = {
            let state = self.view.read();
            let report = state.reports.get(&id).cloned();
            let unconsumed = report.as_ref().map(|report| unconsumed(&state, report)).unwrap_or_default();
            (report, unconsumed)
        };
        let Some(report) = report else {
            let message = format!("report {id} was posted, and is no longer kept");
            return Err(WireError::new(ErrorCode::NotFound, message)
                .reason("forgotten")
                .with("report", id.to_string()));
        };
        let head = head_of(&self.root, &report).await;
        let report = document(&report, &head);
        let operation = render::operation(operation, settled.replayed);
        Ok(encode(&ReportPostResult { report, unconsumed, operation }))
    }

    /// `report.read`: a page of a report's text, cut between characters.
    pub(super) async fn read_report(&self, scope: &Scope, params: ReportReadParams) -> Result<Encoded, WireError> {
        let most = params.max_bytes.unwrap_or(REPORT_PAGE_BYTES_MAX);
        if !(1..=REPORT_PAGE_BYTES_MAX).contains(&most) {
            let message = format!("a page has 1 to {REPORT_PAGE_BYTES_MAX} bytes");
            return Err(WireError::new(ErrorCode::InvalidInput, message).reason("max_bytes"));
        }
        let report = self.meant(scope, &params)?;
        let head = head_of(&self.root, &report).await;
        let text = text_of(&self.root, &report).await;
        let mut shown = document(&report, &head);
        let head = head.unwrap_or_default();
        let offset = params.offset.unwrap_or(0);
        let (body, next) = match &text {
            Ok(text) => page(text, offset, most)?,
            // Of what is lost no offset is right or wrong.
            Err(why) => {
                shown.lost.get_or_insert_with(|| why.clone());
                ("", None)
            }
        };
        let body = body.to_owned();
        let Head { artifacts, findings, validation, recommendation, .. } = head;
        let result =
            ReportReadResult { report: shown, artifacts, findings, validation, recommendation, body, offset, next };
        Ok(encode(&result))
    }

    /// `report.list`, newest first.
    pub(super) async fn reports(&self, caller: &Caller, params: &ReportListParams) -> Result<Encoded, WireError> {
        let scope = &self.scope(caller);
        let limit = page_limit(params.limit)?;
        let (before, session) = match &params.cursor {
            None => (None, self.author(scope, &params.session)?),
            Some(cursor) => match self.position(caller, cursor)? {
                Position::Reports(before, session) if self.author(scope, &params.session)? == session => {
                    (Some(before), session)
                }
                Position::Reports(..) => return Err(other_list()),
                Position::Sessions(..) | Position::Operations(..) | Position::Messages(..) => return Err(other_list()),
            },
        };
        let page: Vec<_> = {
            let state = self.view.read();
            let rows = state.reports_of(&session).rev().filter(|report| before.is_none_or(|before| report.id < before));
            rows.take(limit + 1).cloned().collect()
        };
        let mut reports = Vec::new();
        for report in page.iter().take(limit) {
            reports.push(document(report, &head_of(&self.root, report).await));
        }
        let last = page.get(limit.saturating_sub(1)).filter(|_| page.len() > limit);
        let next = last.map(|last| self.remember(caller, Position::Reports(last.id, session)));
        Ok(encode(&ReportListResult { reports, next }))
    }

    /// The report that a caller names, if it may read it.
    fn meant(&self, scope: &Scope, params: &ReportReadParams) -> Result<Arc<machine::Report>, WireError> {
        let named = match (&params.report, &params.session) {
            (Some(report), None) => report,
            (None, Some(session)) => {
                let author = self.author(scope, session)?;
                let last = self.view.read().reports_of(&author).next_back().cloned();
                return last.ok_or_else(|| {
                    let message = format!("session {author} has no report; nothing was done");
                    WireError::new(ErrorCode::NotFound, message)
                        .reason("no_report")
                        .with("session_id", author.to_string())
                });
            }
            (Some(_), Some(_)) | (None, None) => {
                let message = "name either a report or a session; nothing was done";
                return Err(WireError::new(ErrorCode::InvalidInput, message).reason("report"));
            }
        };
        let id = report_id(named).map_err(|refusal| refused(&refusal))?;
        let state = self.view.read();
        let report = state.reports.get(&id).filter(|report| may_read(&state, scope, &report.session)).cloned();
        report.ok_or_else(|| refused(&Refusal::NoReport { given: id.to_string() }))
    }

    /// The session whose reports a caller means, if it may read them.
    fn author(&self, scope: &Scope, given: &str) -> Result<SessionId, WireError> {
        let state = self.view.read();
        let found = super::asked::find(&state, given);
        let found = match scope {
            Scope::Owner => found,
            // Another's sessions make a prefix ambiguous without saying so.
            Scope::Session(_) => {
                found.ok().filter(|id| may_read(&state, scope, id)).ok_or_else(|| super::asked::missing(given))
            }
        };
        found.map_err(|refusal| as_seen_by(scope, refused(&refusal)))
    }
}

/// What a report says in short.
pub(super) async fn head_of(root: &Path, report: &machine::Report) -> Read<Head> {
    match &report.content {
        Content::Posted { head, .. } => {
            let bytes = bytes_of(root, &report.session, head).await?;
            serde_json::from_slice(&bytes).map_err(|error| Lost::from(std::io::Error::from(error)).to_string())
        }
        Content::Ended { .. } => Ok(Head { title: "ended without a report".to_owned(), ..Head::default() }),
    }
}

/// All that it says.
pub(super) async fn text_of(root: &Path, report: &machine::Report) -> Read<String> {
    match &report.content {
        Content::Posted { text, .. } => {
            let bytes = bytes_of(root, &report.session, text).await?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }
        Content::Ended { status, exit } => Ok(ended(*status, exit)),
    }
}

async fn bytes_of(root: &Path, session: &SessionId, body: &Body) -> Read<Vec<u8>> {
    let (root, session, body) = (root.to_owned(), session.clone(), body.clone());
    let read = tokio::task::spawn_blocking(move || bodies::read(&root, &session, &body, REPORT_BYTES_MAX)).await;
    read.map_err(|error| error.to_string())?.map_err(|lost| lost.to_string())
}

/// Head and text of a report that may be posted.
fn checked(params: ReportPostParams) -> Result<(Vec<u8>, String), WireError> {
    let bad = |what: &'static str, rule: String| {
        Err(WireError::new(ErrorCode::InvalidInput, format!("{rule}; nothing was posted")).reason(what))
    };
    let title = &params.title;
    if !(1..=REPORT_TITLE_BYTES_MAX).contains(&title.len()) || title.chars().any(char::is_control) {
        let rule = format!("a title is one line of 1 to {REPORT_TITLE_BYTES_MAX} bytes without control characters");
        return bad("title", rule);
    }
    if params.r#abstract.as_ref().is_some_and(|text| text.len() > REPORT_ABSTRACT_BYTES_MAX) {
        return bad("abstract", format!("an abstract has at most {REPORT_ABSTRACT_BYTES_MAX} bytes"));
    }
    if params.percent.is_some_and(|percent| percent > 100) {
        return bad("percent", "percent is 0 to 100".to_owned());
    }
    let (limit, bytes) = (REPORT_BYTES_MAX, u64::try_from(params.body.len()).unwrap_or(u64::MAX));
    if bytes > limit {
        return Err(too_large("body", bytes, limit));
    }
    let ReportPostParams { title, r#abstract, artifacts, findings, validation, recommendation, percent, body, .. } =
        params;
    let head = Head { title, r#abstract, artifacts, findings, validation, recommendation, percent };
    let head = serde_json::to_vec(&head).expect("text and numbers always serialise");
    if head.len() > REPORT_HEAD_BYTES_MAX {
        let wide = |bytes| u64::try_from(bytes).unwrap_or(u64::MAX);
        return Err(too_large(
            "title, abstract and the other short parts",
            wide(head.len()),
            wide(REPORT_HEAD_BYTES_MAX),
        ));
    }
    Ok((head, body))
}

fn too_large(what: &str, bytes: u64, limit: u64) -> WireError {
    let message = format!("{what} of {bytes} bytes, the limit is {limit}; nothing was posted");
    WireError::new(ErrorCode::TooLarge, message).with("limit", limit)
}

/// At most so many bytes from `offset` on, at least one character, and where the next page begins.
fn page(text: &str, offset: u64, most: u64) -> Result<(&str, Option<u64>), WireError> {
    let wrong = || {
        let message = "an offset is 0, or `next` of the page before";
        WireError::new(ErrorCode::InvalidInput, message).reason("offset")
    };
    let from = usize::try_from(offset).map_err(|_| wrong())?;
    let rest = text.get(from..).ok_or_else(wrong)?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = match rest.len() <= most {
        true => rest.len(),
        false => rest.floor_char_boundary(most).max(ends.take(1).sum()),
    };
    let next = (end < rest.len()).then(|| offset.saturating_add(u64::try_from(end).unwrap_or(u64::MAX)));
    Ok((&rest[..end], next))
}

fn document(report: &machine::Report, head: &Read<Head>) -> wire::Report {
    let (origin, bytes) = written(report);
    let said = head.as_ref().ok();
    wire::Report {
        id: report.id.to_string(),
        session_id: report.session.to_string(),
        episode: report.episode,
        origin,
        status: status_of(report.verdict),
        title: said.map(|head| head.title.clone()).unwrap_or_default(),
        r#abstract: said.and_then(|head| head.r#abstract.clone()),
        percent: said.and_then(|head| head.percent),
        bytes,
        posted_at: Timestamp::from_us(report.posted_us),
        supersedes: report.supersedes.map(|id| id.to_string()),
        superseded_by: report.superseded_by.map(|id| id.to_string()),
        lost: head.as_ref().err().cloned(),
    }
}

/// Whose words a report's text is, and how long it is.
pub(super) fn written(report: &machine::Report) -> (ReportOrigin, u64) {
    match &report.content {
        Content::Posted { text, .. } => (ReportOrigin::Session, text.bytes),
        Content::Ended { status, exit } => {
            (ReportOrigin::Broker, u64::try_from(ended(*status, exit).len()).unwrap_or(u64::MAX))
        }
    }
}

/// The broker's own words of an end: facts, and nothing of the session's.
fn ended(status: Status, exit: &Exit) -> String {
    format!("The session ended ({}, {}) and had posted no report in this episode.", status.word(), how(exit))
}

/// How an episode ended, in words.
pub(super) fn how(exit: &Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(name) => format!("signal {name}"),
        Exit::Error(error) => error.reason.clone(),
    }
}

/// What had been sent to a session and was not acknowledged when it posted this report (requirement R56): whoever asks again is told the same.
fn unconsumed(state: &State, report: &machine::Report) -> Vec<String> {
    let Some(lane) = state.lanes.get(&report.session) else { return Vec::new() };
    let mut ids: Vec<_> = lane.open.iter().chain(&lane.receipts).filter(|id| id.0 < report.id.0).collect();
    ids.sort_unstable();
    let of_then = ids.into_iter().filter_map(|id| state.messages.get(id));
    let of_then = of_then.filter(|message| message.is_open() || message.seq > report.id.0);
    let of_then = of_then.filter(|message| message.notice.is_none());
    of_then.take(limits::MESSAGES_AT_ONCE).map(|message| message.id.to_string()).collect()
}

fn report_id(text: &str) -> Result<ReportId, Refusal> {
    ReportId::parse(text).map_err(|_| Refusal::NoReport { given: text.chars().take(64).collect() })
}

fn verdict_of(status: ReportStatus) -> Verdict {
    match status {
        ReportStatus::Success => Verdict::Success,
        ReportStatus::Failure => Verdict::Failure,
        ReportStatus::Partial => Verdict::Partial,
    }
}

pub(super) fn status_of(verdict: Verdict) -> ReportStatus {
    match verdict {
        Verdict::Success => ReportStatus::Success,
        Verdict::Failure => ReportStatus::Failure,
        Verdict::Partial => ReportStatus::Partial,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_every_size_come_to_the_whole_and_cut_no_character() {
        let text = "a\u{e9}\u{20ac}\u{1f600} \u{2028}z".repeat(3);
        for most in 1..=u64::try_from(text.len()).unwrap() + 1 {
            let (mut whole, mut at) = (String::new(), Some(0));
            while let Some(offset) = at {
                let (part, next) = page(&text, offset, most).unwrap();
                assert!(!part.is_empty() && (part.len() <= 4 || u64::try_from(part.len()).unwrap() <= most));
                whole.push_str(part);
                at = next;
            }
            assert_eq!(whole, text, "{most}");
        }
        assert_eq!(page("", 0, 1).unwrap(), ("", None));
        for (offset, text) in [(1, "\u{e9}"), (3, "\u{e9}"), (u64::MAX, "x")] {
            assert_eq!(page(text, offset, 9).unwrap_err().code, ErrorCode::InvalidInput);
        }
    }
}
