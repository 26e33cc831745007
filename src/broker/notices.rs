//! Notices as their session reads them: a sentence of the broker's, and the facts as a document. A session's own words stand in the envelope of
//! its report, cut to size, as data, and never in the sentence (requirements R64 and R65).

use super::render;
use super::reports::{Head, head_of, how, text_of, written};
use super::view::View;
use crate::machine::{self, Content, Report, SessionId};
use crate::rpc::wire::{Envelope, Notice, NoticeKind, REPORT_ENVELOPE_BYTES_MAX, ReportOrigin};
use std::path::Path;
use std::sync::Arc;

/// So much an envelope says of why something of it is lost, in bytes of JSON.
const LOST_BYTES: usize = 200;

/// A notice's document, with what there is of the report that it speaks of.
pub(super) async fn notice(view: &View, root: &Path, of: &machine::Notice) -> Notice {
    let report = report_of(view, of);
    let report = match report {
        Some(report) => Some(envelope(root, &report).await),
        None => None,
    };
    let about = |kind: NoticeKind, session: &SessionId| Notice {
        kind,
        session_id: session.to_string(),
        name: None,
        episode: None,
        status: None,
        exit: None,
        report: None,
        messages: Vec::new(),
        count: 0,
        state: None,
        reason: None,
    };
    match of {
        machine::Notice::Ended { session, name, episode, status, exit, .. } => Notice {
            name: name.as_ref().map(ToString::to_string),
            episode: Some(*episode),
            status: Some(render::status(*status)),
            exit: Some(render::exit(exit)),
            report,
            ..about(NoticeKind::Ended, session)
        },
        machine::Notice::Reported { session, .. } => Notice { report, ..about(NoticeKind::Reported, session) },
        machine::Notice::Message { message, session, state, reason } => Notice {
            messages: vec![message.to_string()],
            count: 1,
            state: Some(render::message_state(*state)),
            reason: reason.clone(),
            ..about(NoticeKind::Message, session)
        },
        machine::Notice::Queue { session, reason, count, messages } => Notice {
            messages: messages.iter().map(ToString::to_string).collect(),
            count: *count,
            reason: Some(reason.clone()),
            ..about(NoticeKind::Queue, session)
        },
    }
}

/// The report that a notice speaks of, while it is kept: the one that was posted, or what the broker says in the place of one.
fn report_of(view: &View, of: &machine::Notice) -> Option<Arc<Report>> {
    let state = view.read();
    match of {
        machine::Notice::Ended { report: Some(report), .. } | machine::Notice::Reported { report, .. } => {
            state.reports.get(report).cloned()
        }
        machine::Notice::Ended { session, episode, .. } => {
            let of_broker = |report: &&Arc<Report>| matches!(report.content, Content::Ended { .. });
            state.reports_of(session).filter(of_broker).find(|report| report.episode == *episode).cloned()
        }
        machine::Notice::Message { .. } | machine::Notice::Queue { .. } => None,
    }
}

async fn envelope(root: &Path, report: &Report) -> Envelope {
    let (head, text) = (head_of(root, report).await, text_of(root, report).await);
    let lost = head.as_ref().err().or(text.as_ref().err()).cloned();
    filled(report, &head.unwrap_or_default(), &text.unwrap_or_default(), lost)
}

/// Title, abstract and text, each as far as there is room for it.
fn filled(report: &Report, head: &Head, text: &str, lost: Option<String>) -> Envelope {
    let (origin, bytes) = written(report);
    let mut envelope = Envelope {
        id: report.id.to_string(),
        origin,
        untrusted: origin == ReportOrigin::Session,
        status: super::reports::status_of(report.verdict),
        title: String::new(),
        r#abstract: head.r#abstract.as_ref().map(|_| String::new()),
        percent: head.percent,
        text: String::new(),
        bytes,
        complete: false,
        lost: lost.map(|why| fitting(&why, LOST_BYTES).to_owned()),
    };
    // A title that has room always has it all: it is the shortest of them.
    envelope.title = fitting(&head.title, room(&envelope)).to_owned();
    if let Some(whole) = &head.r#abstract {
        envelope.r#abstract = Some(fitting(whole, room(&envelope)).to_owned());
    }
    envelope.text = fitting(text, room(&envelope)).to_owned();
    let is_whole = envelope.text.len() == text.len() && envelope.r#abstract == head.r#abstract;
    envelope.complete = is_whole && envelope.lost.is_none();
    envelope
}

/// How many bytes of JSON are left in an envelope.
fn room(envelope: &Envelope) -> usize {
    let taken = serde_json::to_string(envelope).map_or(REPORT_ENVELOPE_BYTES_MAX, |text| text.len());
    REPORT_ENVELOPE_BYTES_MAX.saturating_sub(taken)
}

/// The beginning of a text that comes to no more than so many bytes inside a JSON string.
fn fitting(text: &str, room: usize) -> &str {
    let mut taken = 0;
    let end = text.char_indices().find(|(at, c)| {
        let piece = &text[*at..at + c.len_utf8()];
        // Without its two quotation marks.
        taken += serde_json::to_string(piece).map_or(usize::MAX, |json| json.len().saturating_sub(2));
        taken > room
    });
    end.map_or(text, |(at, _)| &text[..at])
}

/// What a notice says, in one sentence of the broker's.
pub(super) fn sentence(notice: &machine::Notice, of: &Notice) -> String {
    let session = match &of.name {
        Some(name) => format!("session {} ({name})", of.session_id),
        None => format!("session {}", of.session_id),
    };
    let reason = of.reason.as_deref().unwrap_or("no reason is recorded");
    let kept = if of.report.is_some() { "" } else { ", which is no longer kept" };
    match notice {
        machine::Notice::Ended { report: Some(report), exit, .. } => {
            format!("{session} ended ({}); its last report is {report}{kept}", how(exit))
        }
        machine::Notice::Ended { report: None, exit, .. } => {
            format!("{session} ended ({}) and left no report", how(exit))
        }
        machine::Notice::Reported { report, .. } => format!("{session} posted report {report}{kept}"),
        machine::Notice::Message { .. } => {
            let state = of.state.map_or("unknown", |state| state.word());
            let reason = of.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("your message {} to {session} is {state}{reason}", of.messages.concat())
        }
        machine::Notice::Queue { .. } => {
            format!("{} of your messages to {session} will not be delivered: {reason}", of.count)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Body, Digest, ReportId, Verdict};

    fn report() -> Report {
        let body = Body { file: 1, offset: 0, bytes: 1_048_576, digest: Digest::default() };
        Report {
            id: ReportId(u64::MAX),
            session: SessionId::parse("aaaaaaaaaaaa").unwrap(),
            episode: 1,
            verdict: Verdict::Partial,
            content: Content::Posted { head: body.clone(), text: body },
            supersedes: None,
            superseded_by: None,
            posted_us: 1,
        }
    }

    #[test]
    fn an_envelope_never_has_more_than_a_kibibyte_whatever_it_holds() {
        let hostile = ["\u{1}", "\"", "\u{1f600}", "\u{2028}", "</report>", "a"];
        for piece in hostile {
            for (title, of_abstract, text) in [(200, 500, 3_000), (200, 500, 0), (1, 0, 3_000), (10, 20, 30)] {
                let repeated = |bytes: usize| piece.repeat(bytes / piece.len());
                let head = Head { title: repeated(title), r#abstract: Some(repeated(of_abstract)), ..Head::default() };
                let text = repeated(text);
                let lost = (text.len() == 3_000).then(|| repeated(1_000));
                let envelope = filled(&report(), &head, &text, lost.clone());
                let json = serde_json::to_string(&envelope).unwrap();
                assert!(json.len() <= REPORT_ENVELOPE_BYTES_MAX, "{} bytes of {piece:?}", json.len());
                assert!(text.starts_with(&envelope.text));
                let is_whole = envelope.text == text && envelope.r#abstract == head.r#abstract;
                assert_eq!(envelope.complete, is_whole && lost.is_none(), "{piece:?}");
            }
        }
        let short = filled(&report(), &Head { title: "t".to_owned(), ..Head::default() }, "all of it", None);
        assert!(short.complete && short.untrusted && short.text == "all of it");
    }
}
