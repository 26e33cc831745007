//! Errors of the command line: what failed, why, what did and did not change, what to type next. One type, rendered in one place.

use super::exit::Exit;
use super::text;
use crate::os::build::build;
use crate::rpc::error::{ErrorCode, Retry, WireError};

/// Why a command did not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error with a code, to be shown.
    Error(Box<Report>),
    /// Nobody reads standard output any more: end quietly.
    OutputClosed,
}

/// An error and the attempt that met it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Report {
    /// What was tried, as the rest of "cannot ...".
    pub(crate) attempt: String,
    /// The session as the caller named it, if the attempt is about one.
    pub(crate) session: Option<String>,
    /// The key of a mutating attempt; none where nothing was asked to change.
    pub(crate) key: Option<String>,
    pub(crate) error: WireError,
}

impl Failure {
    /// A failed attempt that asks for no change.
    pub(crate) fn new(attempt: impl Into<String>, error: WireError) -> Self {
        Failure::Error(Box::new(Report { attempt: attempt.into(), session: None, key: None, error }))
    }

    /// Input that this command line itself refuses.
    pub(crate) fn invalid(attempt: impl Into<String>, reason: &str, message: impl Into<String>) -> Self {
        Failure::new(attempt, WireError::new(ErrorCode::InvalidInput, message).reason(reason))
    }

    /// The same failure, about this session.
    #[must_use]
    pub(crate) fn about(mut self, session: &str) -> Self {
        if let Failure::Error(report) = &mut self {
            report.session = Some(session.to_owned());
        }
        self
    }

    /// The same failure with one more member of its error's data.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        if let Failure::Error(report) = &mut self {
            report.error.data.insert(name.to_owned(), value.into());
        }
        self
    }

    /// The same failure, of an attempt to change something under this key.
    #[must_use]
    pub(crate) fn mutating(mut self, key: &str) -> Self {
        if let Failure::Error(report) = &mut self {
            report.key = Some(key.to_owned());
        }
        self
    }
}

impl Report {
    /// The exit code's class.
    pub(crate) fn exit(&self) -> Exit {
        Exit::of(self.error.code)
    }

    /// What did and did not change. What the error itself says of it wins: it knows more.
    pub(crate) fn effect(&self) -> &str {
        match self.error.data.get("changed").and_then(serde_json::Value::as_str) {
            Some(changed) => changed,
            None if self.key.is_none() => "nothing",
            None => self.effect_of_change(),
        }
    }

    fn effect_of_change(&self) -> &'static str {
        match self.error.code {
            ErrorCode::Timeout | ErrorCode::BrokerUnreachable | ErrorCode::Draining
                if self.error.retry == Retry::SameKey =>
            {
                "not known: the broker may have done it; the same key finds out and does nothing twice"
            }
            // Said by the client, of a call that nobody answered: nothing is recorded that it knows of.
            ErrorCode::Uncertain if !self.error.data.contains_key("operation") => {
                "not known: the broker may have done it; the same key finds out and does nothing twice"
            }
            ErrorCode::Uncertain => {
                "not known: the operation is recorded as uncertain until evidence or an operator settles it"
            }
            ErrorCode::EndpointStale => "nothing now; the operation of this key was done before",
            ErrorCode::SpawnFailed => "no session was started; its name and its key are free",
            ErrorCode::Internal | ErrorCode::ProtocolMismatch => "not known; the same key finds out",
            ErrorCode::StorageFailed
            | ErrorCode::StorageFull
            | ErrorCode::InvalidInput
            | ErrorCode::TooLarge
            | ErrorCode::NotFound
            | ErrorCode::KeyConflict
            | ErrorCode::KeyExpired
            | ErrorCode::SessionExists
            | ErrorCode::SessionLive
            | ErrorCode::SessionBusy
            | ErrorCode::SessionTerminal
            | ErrorCode::SessionStopping
            | ErrorCode::SessionFenced
            | ErrorCode::TooLate
            | ErrorCode::CapabilityMissing
            | ErrorCode::ExpiredCursor
            | ErrorCode::BrokerUnreachable
            | ErrorCode::BrokerBlocked
            | ErrorCode::Draining
            | ErrorCode::Timeout
            | ErrorCode::Denied
            | ErrorCode::Unauthenticated
            | ErrorCode::Integrity
            | ErrorCode::Capacity
            | ErrorCode::Busy
            | ErrorCode::QueueFull
            | ErrorCode::UnknownMethod => "nothing",
        }
    }

    /// What to type next, if there is anything that helps. A remedy in the error's own data wins: it knows more.
    pub(crate) fn remedy(&self) -> String {
        if let Some(remedy) = self.error.data.get("remedy").and_then(serde_json::Value::as_str) {
            return text::plain(remedy);
        }
        let session = text::shell_str(self.session.as_deref().unwrap_or("SESSION"));
        let same_key =
            || self.key.as_deref().map(|key| format!("the same command with --key {}", text::shell_str(key)));
        match self.error.code {
            ErrorCode::NotFound => self.remedy_of_missing(&session),
            ErrorCode::SessionLive => format!("ostler stop {session}, or ostler delete --stop {session}"),
            ErrorCode::SessionExists => "another --name, or ostler list".to_owned(),
            ErrorCode::SessionFenced => format!("ostler reconcile {session}"),
            ErrorCode::EndpointStale => format!("ostler show {}", self.stale_session().unwrap_or(session)),
            ErrorCode::KeyConflict | ErrorCode::KeyExpired => "the same command without --key".to_owned(),
            ErrorCode::Uncertain => match self.key.as_deref() {
                Some(key) => format!("ostler operation show {}", text::shell_str(key)),
                None => "ostler operation list".to_owned(),
            },
            ErrorCode::Timeout => same_key().unwrap_or_else(|| "the same command with a longer --timeout".to_owned()),
            ErrorCode::BrokerUnreachable => same_key().unwrap_or_else(|| "ostler status, ostler doctor".to_owned()),
            ErrorCode::Denied if self.reason() == "owner_only" => {
                "the same command as the owner, outside of the session".to_owned()
            }
            ErrorCode::Denied if self.reason() == "session_only" => {
                "the same command inside the session; as the owner: ostler message list SESSION, ostler report list SESSION".to_owned()
            }
            ErrorCode::Denied if self.reason() == "itself" => {
                "end the command itself, or the same command as the owner, outside of the session".to_owned()
            }
            ErrorCode::BrokerBlocked | ErrorCode::StorageFailed | ErrorCode::Denied | ErrorCode::Unauthenticated => {
                "ostler doctor".to_owned()
            }
            ErrorCode::StorageFull => {
                format!("free some space, then {}", same_key().unwrap_or_else(|| "the same command".to_owned()))
            }
            ErrorCode::SpawnFailed if self.reason() == "cwd" => OTHER_CWD.to_owned(),
            ErrorCode::SpawnFailed => CORRECT_IT.to_owned(),
            ErrorCode::ExpiredCursor => "the same command without --cursor".to_owned(),
            ErrorCode::Integrity => "ostler ledger verify".to_owned(),
            ErrorCode::Draining
            | ErrorCode::Busy
            | ErrorCode::QueueFull
            | ErrorCode::Capacity
            | ErrorCode::SessionBusy
            | ErrorCode::SessionStopping => "the same command a little later".to_owned(),
            ErrorCode::UnknownMethod
                if self.error.data.get("version").is_some_and(|of| of == build().version) =>
            {
                "ostler --help: this version does not have it yet".to_owned()
            }
            ErrorCode::ProtocolMismatch | ErrorCode::UnknownMethod => {
                "ostler upgrade, then the same command: the broker and this program differ in version".to_owned()
            }
            ErrorCode::InvalidInput => remedy_of_input(self.reason()).unwrap_or(CORRECT_IT).to_owned(),
            ErrorCode::TooLarge => CORRECT_IT.to_owned(),
            ErrorCode::Internal => "ostler doctor".to_owned(),
            ErrorCode::SessionTerminal => "ostler list --all".to_owned(),
            ErrorCode::TooLate => match self.error.data.get("message").and_then(serde_json::Value::as_str) {
                Some(message) => format!("ostler message show {}", text::shell_str(message)),
                None => "ostler operation list".to_owned(),
            },
            ErrorCode::CapabilityMissing => format!("ostler show {session}"),
        }
    }

    fn reason(&self) -> &str {
        self.error.data.get("reason").and_then(serde_json::Value::as_str).unwrap_or_default()
    }

    /// What stood in the way. Of a start that failed the rest of the message stands in the lines below it.
    fn cause(&self) -> &str {
        let detail = self.error.data.get("detail").and_then(serde_json::Value::as_str);
        detail.filter(|_| self.error.code == ErrorCode::SpawnFailed).unwrap_or(&self.error.message)
    }

    /// Where to find what is really there.
    fn remedy_of_missing(&self, session: &str) -> String {
        match (self.reason(), self.error.data.contains_key("operation")) {
            _ if self.error.data.contains_key("message") => format!("ostler message list {session}"),
            ("cwd", _) => OTHER_CWD.to_owned(),
            ("episode", _) => format!("ostler show {session}"),
            (_, true) => "ostler operation list".to_owned(),
            (_, false) => "ostler list --all".to_owned(),
        }
    }

    /// The session of a stored result that travels with the error.
    fn stale_session(&self) -> Option<String> {
        self.error.data.get("result")?.get("session")?.get("id")?.as_str().map(text::shell_str)
    }

    /// The text for eyes.
    pub(crate) fn render(&self) -> String {
        let message = text::plain(self.cause());
        let mut shown = format!("ostler: cannot {}: {message} ({})\n", text::plain(&self.attempt), self.error.code);
        if let Some(usage) = self.error.data.get("usage").and_then(serde_json::Value::as_str) {
            shown.push_str(&format!("  usage: {}\n", text::plain(usage)));
        } else if !self.reason().is_empty() {
            shown.push_str(&format!("  reason: {}\n", text::plain(self.reason())));
        }
        for line in self.error.data.get("output").and_then(serde_json::Value::as_str).unwrap_or_default().lines() {
            shown.push_str(&format!("  output: {}\n", text::plain(line)));
        }
        shown.push_str(&format!("  changed: {}\n", text::plain(self.effect())));
        shown.push_str(&format!("  next: {}\n", self.remedy()));
        shown
    }
}

const CORRECT_IT: &str = "correct that and type it again";
const OTHER_CWD: &str = "the same command with --cwd DIR, a folder that is there";

/// What helps against input that was refused for this reason.
fn remedy_of_input(reason: &str) -> Option<&'static str> {
    match reason {
        "ambiguous" => Some("the same command with more of the id"),
        "name" => Some("--name with 1 to 63 of a-z, 0-9, _ and -, a letter or digit first"),
        "env" => Some("--env NAME=VALUE"),
        "key" => Some("--key with 1 to 128 printable ASCII characters for one session, or none"),
        "label" | "labels" => Some("--label KEY=VALUE, each key once"),
        "root" | "no_root" => Some("--root DIR, or set OSTLER_ROOT"),
        "not_a_folder" => Some("another --root"),
        "line" => Some("one line of text, or a session that was spawned with --frame json"),
        "command" => Some("correct the command and type it again"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_why_changed_and_next() {
        let error = WireError::new(ErrorCode::SessionLive, "its process 7 is alive").reason("live");
        let Failure::Error(report) = Failure::new("delete web", error).about("web").mutating("k") else { panic!() };
        assert_eq!(
            report.render(),
            "ostler: cannot delete web: its process 7 is alive (session_live)\n  reason: live\n  changed: nothing\n  \
             next: ostler stop web, or ostler delete --stop web\n"
        );
    }

    #[test]
    fn the_cause_of_a_failed_start_is_said_once() {
        let message =
            "the command did not come up (exec): command not found; nothing ran; the key and the name are free";
        let error = WireError::new(ErrorCode::SpawnFailed, message).reason("exec").with("detail", "command not found");
        let Failure::Error(report) = Failure::new("start x", error).mutating("k") else { panic!() };
        assert_eq!(
            report.render(),
            "ostler: cannot start x: command not found (spawn_failed)\n  reason: exec\n  changed: no session was started; \
             its name and its key are free\n  next: correct that and type it again\n"
        );
    }

    #[test]
    fn a_lost_answer_is_never_called_unchanged() {
        let report = |code, key: Option<&str>| Report {
            attempt: "stop x".into(),
            session: Some("x".into()),
            key: key.map(str::to_owned),
            error: WireError::new(code, "m"),
        };
        for code in [ErrorCode::Timeout, ErrorCode::BrokerUnreachable, ErrorCode::Uncertain, ErrorCode::Internal] {
            assert!(report(code, Some("k")).effect().starts_with("not known"), "{code}");
            assert_eq!(report(code, None).effect(), "nothing", "{code}");
        }
        assert!(report(ErrorCode::Timeout, Some("k")).remedy().ends_with("--key k"));
    }

    #[test]
    fn the_next_step_fits_what_was_refused() {
        let remedy = |error: WireError, session: Option<&str>| {
            let report = Report { attempt: "x".into(), session: session.map(str::to_owned), key: None, error };
            report.remedy()
        };
        let of = |code, reason: &str| WireError::new(code, "m").reason(reason);
        let missing = || WireError::new(ErrorCode::NotFound, "m");
        assert_eq!(remedy(missing(), None), "ostler list --all");
        assert_eq!(remedy(missing().with("operation", "nope"), None), "ostler operation list");
        assert_eq!(remedy(missing().reason("episode"), Some("web")), "ostler show web");
        for code in [ErrorCode::NotFound, ErrorCode::SpawnFailed] {
            assert!(remedy(of(code, "cwd"), None).contains("--cwd"), "{code}");
        }
        let result = serde_json::json!({"session": {"id": "abcdefgh2345"}});
        let stale = of(ErrorCode::EndpointStale, "ended").with("result", result);
        assert_eq!(remedy(stale, None), "ostler show abcdefgh2345");
        for reason in ["ambiguous", "name", "env", "key", "label", "root", "command"] {
            assert_ne!(remedy(of(ErrorCode::InvalidInput, reason), None), "", "{reason}");
        }
        assert!(remedy(of(ErrorCode::Denied, "owner_only"), None).contains("outside of the session"));
        let unknown = |version: &str| WireError::new(ErrorCode::UnknownMethod, "m").with("version", version);
        assert!(!remedy(unknown(build().version), None).contains("differ"));
        assert!(remedy(unknown("0.0.0"), None).contains("differ"));
    }

    #[test]
    fn text_from_others_cannot_drive_the_terminal() {
        let error = WireError::new(ErrorCode::NotFound, "no \u{1b}[31msession").reason("a\nb");
        let Failure::Error(report) = Failure::new("show \u{7}", error) else { panic!() };
        let shown = report.render();
        assert!(!shown.contains('\u{1b}') && !shown.contains('\u{7}') && !shown.contains("a\nb"), "{shown}");
    }
}
