//! Sessions as text for eyes: the table of `list`, one line for the others, and the names of the statuses.

use super::output::{Output, Tone};
use super::text::{self, Table};
use crate::rpc::wire::{EndedResult, Exit, ListResult, Session, SessionStatus, StartPhase, Stop, Survivor, Timestamp};

/// Every status with its name on the wire.
pub(crate) const STATUSES: [(&str, SessionStatus); 10] = [
    ("starting", SessionStatus::Starting),
    ("ready", SessionStatus::Ready),
    ("running", SessionStatus::Running),
    ("interrupted", SessionStatus::Interrupted),
    ("idle", SessionStatus::Idle),
    ("stopping", SessionStatus::Stopping),
    ("stopped", SessionStatus::Stopped),
    ("exited", SessionStatus::Exited),
    ("failed", SessionStatus::Failed),
    ("deleted", SessionStatus::Deleted),
];

/// The status of a name that is in the table.
pub(crate) fn status(name: String) -> SessionStatus {
    STATUSES.iter().find(|(known, _)| *known == name).expect("the parser lets only names of the table through").1
}

/// The name of a status.
pub(crate) fn status_name(status: SessionStatus) -> &'static str {
    STATUSES.iter().find(|(_, known)| *known == status).expect("a test proves the table complete").0
}

/// Whether a session has, or may have, a process. Exhaustive, so that a new status must be placed here.
pub(crate) fn is_live(status: SessionStatus) -> bool {
    match status {
        SessionStatus::Starting | SessionStatus::Ready | SessionStatus::Running | SessionStatus::Stopping => true,
        SessionStatus::Interrupted
        | SessionStatus::Idle
        | SessionStatus::Stopped
        | SessionStatus::Exited
        | SessionStatus::Failed
        | SessionStatus::Deleted => false,
    }
}

fn tone(status: SessionStatus) -> Tone {
    match status {
        SessionStatus::Ready | SessionStatus::Running => Tone::Good,
        SessionStatus::Starting | SessionStatus::Stopping | SessionStatus::Interrupted => Tone::Notable,
        SessionStatus::Failed => Tone::Bad,
        SessionStatus::Idle | SessionStatus::Stopped | SessionStatus::Exited | SessionStatus::Deleted => Tone::Faint,
    }
}

/// The command line, quoted for a shell.
pub(crate) fn command(session: &Session) -> String {
    session.command.iter().map(|arg| text::shell(arg.as_bytes())).collect::<Vec<_>>().join(" ")
}

/// How an episode ended, in a few words.
pub(crate) fn exit(exit: &Exit) -> String {
    match exit {
        Exit::Code(code) => format!("code {code}"),
        Exit::Signal(name) => format!("signal {}", text::plain(name)),
        Exit::Error(failure) => format!("{}: {}", phase_name(failure.phase), text::plain(&failure.reason)),
    }
}

/// The same in one word: the code, the signal, or the step that failed.
fn exit_cell(exit: &Exit) -> String {
    match exit {
        Exit::Code(code) => code.to_string(),
        Exit::Signal(name) => text::plain(name),
        Exit::Error(failure) => phase_name(failure.phase).to_owned(),
    }
}

/// The name of a phase of a start.
pub(crate) fn phase_name(phase: StartPhase) -> &'static str {
    match phase {
        StartPhase::Exec => "exec",
        StartPhase::Cwd => "cwd",
        StartPhase::Limit => "limit",
        StartPhase::Host => "host",
        StartPhase::Ready => "ready",
    }
}

/// A point in time to the second, for eyes.
pub(crate) fn time(at: Timestamp) -> String {
    let text = at.to_string();
    format!("{}Z", text.split('.').next().unwrap_or(&text)).replace('T', " ")
}

/// What nobody knows of it, in a word each.
fn doubts(session: &Session) -> Vec<String> {
    let fenced = session.fence.is_some().then(|| "fenced".to_owned());
    let silent = session.fence.is_none() && session.reason.as_deref() == Some("liveness unknown");
    let silent = silent.then(|| "silent".to_owned());
    let mail = (session.queue.uncertain > 0).then(|| format!("{} uncertain", session.queue.uncertain));
    fenced.into_iter().chain(silent).chain(mail).collect()
}

/// The status, and what is in doubt beside it.
fn status_cell(session: &Session) -> String {
    let (status, doubts) = (status_name(session.status), doubts(session));
    if doubts.is_empty() { status.to_owned() } else { format!("{status} ({})", doubts.join(", ")) }
}

/// The table of a page of sessions.
pub(crate) fn table(page: &ListResult, output: &Output) -> String {
    const COMMAND_WIDTH: usize = 60;
    const STATUS_COLUMN: usize = 2;
    let mut table = Table::new(["ID", "NAME", "STATUS", "EXIT", "PID", "EPISODE", "CREATED", "COMMAND"]);
    for session in &page.sessions {
        table.row([
            session.id.clone(),
            text::plain(session.name.as_deref().unwrap_or("-")),
            status_cell(session),
            session.exit.as_ref().map_or_else(|| "-".to_owned(), exit_cell),
            session.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
            session.episode.to_string(),
            time(session.created_at),
            text::shorten(&command(session), COMMAND_WIDTH),
        ]);
    }
    output.width.into_iter().for_each(|width| table.fit(width));
    let mut shown = table.render_painted(|row, column, cell| match row.checked_sub(1) {
        Some(row) if column == STATUS_COLUMN => {
            let session = &page.sessions[row];
            output.tone(if doubts(session).is_empty() { tone(session.status) } else { Tone::Bad }, &cell)
        }
        Some(_) | None => cell,
    });
    if let Some(next) = &page.next {
        shown.push_str(&format!("more: --cursor {}\n", text::shell_str(next)));
    }
    shown
}

/// Why it is as it is, unless its exit says that already.
pub(crate) fn reason(session: &Session) -> Option<&str> {
    let is_told = match &session.exit {
        Some(Exit::Code(_) | Exit::Signal(_)) => session.fence.is_none(),
        Some(Exit::Error(failure)) => session.reason.as_ref() == Some(&failure.reason),
        None => false,
    };
    session.reason.as_deref().filter(|_| !is_told)
}

/// Who wanted an episode to end, when, and why.
pub(crate) fn stop(stop: &Stop) -> String {
    let why = stop.reason.as_ref().map(|reason| format!(": {}", text::plain(reason))).unwrap_or_default();
    let turn = stop.turn.map(|turn| format!("; session turn {turn} was cut")).unwrap_or_default();
    format!("by {} at {}{why}{turn}", text::plain(&stop.by), time(stop.asked_at))
}

/// One line about a session: what it is called, how it is, and why.
pub(crate) fn line(session: &Session) -> String {
    format!("{}\n", told(session))
}

/// The same, with a word about a request that found it so already.
pub(crate) fn line_noting(session: &Session, note: Option<&str>) -> String {
    let note = note.map(|note| format!("  ({note})")).unwrap_or_default();
    format!("{}{note}\n", told(session))
}

fn told(session: &Session) -> String {
    let mut shown = session.id.clone();
    if let Some(name) = &session.name {
        shown.push_str(&format!("  {}", text::plain(name)));
    }
    shown.push_str(&format!("  {}", status_name(session.status)));
    if session.status == SessionStatus::Deleted {
        // How it ended before is over, too.
        return shown;
    }
    if let Some(pid) = session.pid {
        shown.push_str(&format!("  pid {pid}"));
    }
    if let Some(ended) = &session.exit {
        shown.push_str(&format!("  {}", exit(ended)));
    }
    if let Some(reason) = reason(session) {
        shown.push_str(&format!("  ({})", text::plain(reason)));
    }
    shown
}

/// A session that was ended, and what was left running, one line each. One that had ended before it was asked for says so.
pub(crate) fn ended(result: &EndedResult, asked_at: Timestamp) -> String {
    let is_stop = result.session.status != SessionStatus::Deleted;
    let had_ended = is_stop && result.session.ended_at.is_some_and(|at| at < asked_at);
    line_noting(&result.session, had_ended.then_some("had ended")) + &left_running(&result.survivors)
}

/// What was left running, one line each.
pub(crate) fn left_running(survivors: &[Survivor]) -> String {
    let left = |left: &Survivor| format!("  left running: {} {}\n", left.pid, text::plain(&left.command));
    survivors.iter().map(left).collect()
}

/// A session that was resumed. One that was alive before it was asked for says so.
pub(crate) fn resumed(session: &Session, asked_at: Timestamp) -> String {
    let was_running = is_live(session.status) && session.started_at.is_some_and(|at| at < asked_at);
    line_noting(session, was_running.then_some("was running"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_statuses_is_the_wire_s() {
        for (name, status) in STATUSES {
            assert_eq!(serde_json::to_value(status).unwrap(), name);
            assert_eq!(status_name(status), name);
        }
    }
}
