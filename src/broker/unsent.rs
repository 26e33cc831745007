//! Refusals about messages and reports as callers read them: what failed, why, what did not change, what to type next.

use crate::machine::{MessageId, MessageState, Refusal, ReportId, limits};
use crate::rpc::error::{ErrorCode, WireError};

/// A refusal about messages or reports as an error of the contract.
pub(super) fn unsent(refusal: &Refusal) -> WireError {
    match refusal {
        Refusal::SessionOnly => WireError::new(
            ErrorCode::Denied,
            "only a session may do this, with its own credential; nothing was done. Inside a session the command line uses it by itself",
        )
        .reason("session_only"),
        Refusal::NoMessage { given } => WireError::new(
            ErrorCode::NotFound,
            format!("there is no message {given:?} that you may know of; nothing was done. `ostler message list SESSION` shows them"),
        )
        .with("message", given.as_str()),
        Refusal::HasEnded { session, status } => WireError::new(
            ErrorCode::SessionTerminal,
            format!(
                "session {session} has ended ({}) and takes nothing before it is started again; nothing was sent",
                status.word()
            ),
        )
        .with("session_id", session.to_string())
        .with("status", status.word()),
        Refusal::QueueFull { session, rows, bytes } => queue_full(session.as_str(), *rows, *bytes),
        Refusal::Framing { session } => WireError::new(
            ErrorCode::InvalidInput,
            format!(
                "session {session} takes one line at a time, and the text is more; nothing was sent. Send one line, or spawn it with --frame json"
            ),
        )
        .reason("line")
        .with("session_id", session.to_string()),
        Refusal::Unproven { session } => WireError::new(
            ErrorCode::SessionBusy,
            format!(
                "the host of session {session} has not answered this broker yet, so nobody knows what runs there; nothing was done. Try again"
            ),
        )
        .reason("unproven")
        .with("session_id", session.to_string()),
        Refusal::Incapable { what } => WireError::new(
            ErrorCode::CapabilityMissing,
            format!("this session, or this version, has no {what}; nothing was done{}", remedy(what)),
        )
        .with("capability", *what),
        Refusal::MessageSettled { message, state } => settled(*message, *state),
        Refusal::NoReport { given } => no_report(given),
        Refusal::Superseded { report, head } => superseded(*report, *head),
        Refusal::KeyConflict { .. }
        | Refusal::Incomparable { .. }
        | Refusal::KeyExpired { .. }
        | Refusal::Unreadable { .. }
        | Refusal::NoSession { .. }
        | Refusal::NoOperation { .. }
        | Refusal::Ambiguous { .. }
        | Refusal::NameTaken { .. }
        | Refusal::Live { .. }
        | Refusal::Stopping { .. }
        | Refusal::Gone { .. }
        | Refusal::Fenced { .. }
        | Refusal::Lives { .. }
        | Refusal::Hidden { .. }
        | Refusal::Crowded { .. }
        | Refusal::Capacity { .. }
        | Refusal::Children { .. }
        | Refusal::Depth { .. }
        | Refusal::NotUncertain { .. }
        | Refusal::OwnerOnly => unreachable!("refused() keeps the others for itself"),
    }
}

fn no_report(given: &str) -> WireError {
    let message = format!(
        "there is no report {given:?} that you may know of; nothing was done. `ostler report list SESSION` shows them"
    );
    WireError::new(ErrorCode::NotFound, message).with("report", given)
}

/// Another amendment was faster.
fn superseded(report: ReportId, head: ReportId) -> WireError {
    let message =
        format!("report {report} has been amended already; nothing was posted. Amend {head}, the last of its line");
    let error = WireError::new(ErrorCode::TooLate, message).reason("report_superseded");
    error.with("report", report.to_string()).with("head", head.to_string())
}

/// There is nothing to decide about it.
fn settled(message: MessageId, state: MessageState) -> WireError {
    let why = match state {
        MessageState::Queued | MessageState::Sending => "its fate is still open",
        MessageState::Delivered
        | MessageState::Acknowledged
        | MessageState::Cancelled
        | MessageState::Failed
        | MessageState::Expired
        | MessageState::Uncertain => "there is nothing left to decide",
    };
    WireError::new(ErrorCode::TooLate, format!("message {message} is {}: {why}; nothing was done", state.word()))
        .reason("settled")
        .with("message", message.to_string())
}

fn remedy(what: &str) -> &'static str {
    match what {
        "mode interrupt" => {
            ". A session has it whose turns are seen: spawn it with --adapter lines --prompt RE. `ostler interrupt` sends the signal alone"
        }
        "place for a child's words" => {
            ". Its program would take them for its own input: spawn it with --frame json, or without --adapter lines"
        }
        _ => "",
    }
}

fn queue_full(session: &str, rows: usize, bytes: u64) -> WireError {
    let rows = u64::try_from(rows).unwrap_or(u64::MAX);
    let message = format!(
        "{rows} messages of {bytes} bytes wait for session {session}, the limits are {} and {}; nothing was sent. Try again when it has taken some",
        limits::QUEUE_MESSAGES,
        limits::QUEUE_BYTES
    );
    let error = WireError::new(ErrorCode::QueueFull, message).with("session_id", session);
    error.with("messages", rows).with("bytes", bytes)
}
