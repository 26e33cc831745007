//! Refusals and failures as callers read them: what failed, why, what did not change, what to type next.

use super::asked::PREFIX_MIN;
use super::turn::Told;
use crate::machine::{
    Failure, Malformed, Name, Operation, OperationId, Outcome, Part, Refusal, Scope, SessionId, Survivor,
};
use crate::os::process;
use crate::rpc::error::{ErrorCode, Retry, WireError};
use crate::rpc::wire::Timestamp;
use std::path::Path;

/// A refusal as an error of the contract.
pub fn refused(refusal: &Refusal) -> WireError {
    match refusal {
        Refusal::KeyConflict { operation, stored, given } => WireError::new(
            ErrorCode::KeyConflict,
            format!(
                "this key belongs to another request, {operation}; nothing was done. \
                 Use a new key for a new request, or `ostler operation show {operation}` to see the old one"
            ),
        )
        .with("operation", operation.to_string())
        .with("stored_digest", stored.to_string())
        .with("given_digest", given.to_string()),
        Refusal::Incomparable { operation, state } => incomparable(*operation, *state),
        Refusal::KeyExpired { until_us } => key_expired(*until_us),
        Refusal::Unreadable { operation } => key_unreadable(*operation),
        Refusal::NoSession { given } => no_session(given),
        Refusal::NoOperation { given } => WireError::new(
            ErrorCode::NotFound,
            format!("there is no operation {given:?}; nothing was done. `ostler operation list` shows them"),
        )
        .with("operation", given.as_str()),
        Refusal::Ambiguous { given, fits, some } => ambiguous(given, *fits, some),
        Refusal::NameTaken { name, by } => name_taken_by(name, by),
        Refusal::Live { session } => WireError::new(
            ErrorCode::SessionLive,
            format!(
                "session {session} is alive and was not deleted. \
                 `ostler delete --stop {session}` ends it first"
            ),
        )
        .with("session_id", session.to_string()),
        Refusal::Stopping { session } => WireError::new(
            ErrorCode::SessionStopping,
            format!(
                "session {session} is being stopped; nothing was done. \
                 `ostler wait {session}`, then try again"
            ),
        )
        .with("session_id", session.to_string()),
        Refusal::Gone { session } => WireError::new(
            ErrorCode::SessionTerminal,
            format!("session {session} is being deleted; nothing was done, and it does not come back"),
        )
        .reason("deleted")
        .with("session_id", session.to_string()),
        Refusal::Lives { .. }
        | Refusal::Hidden { .. }
        | Refusal::Fenced { .. }
        | Refusal::Crowded { .. }
        | Refusal::Capacity { .. }
        | Refusal::Children { .. }
        | Refusal::Depth { .. }
        | Refusal::NotUncertain { .. }
        | Refusal::OwnerOnly => guarded(refusal),
        Refusal::SessionOnly
        | Refusal::NoMessage { .. }
        | Refusal::HasEnded { .. }
        | Refusal::QueueFull { .. }
        | Refusal::Framing { .. }
        | Refusal::Unproven { .. }
        | Refusal::Incapable { .. }
        | Refusal::NoReport { .. }
        | Refusal::Superseded { .. }
        | Refusal::MessageSettled { .. } => super::unsent::unsent(refusal),
    }
}

fn no_session(given: &str) -> WireError {
    WireError::new(
        ErrorCode::NotFound,
        if given.chars().count() < PREFIX_MIN {
            format!("there is no session {given:?}; nothing was done. Of an id give at least {PREFIX_MIN} characters")
        } else {
            format!(
                "there is no session {given:?}; nothing was done. \
                     `ostler list --all` shows all sessions that are not deleted"
            )
        },
    )
    .with("session", given)
}

fn name_taken_by(name: &Name, by: &SessionId) -> WireError {
    let message = format!(
        "the name {name} belongs to session {by}; nothing was done. \
         Choose another name, or `ostler delete {by}` if that one is no longer needed"
    );
    WireError::new(ErrorCode::SessionExists, message).with("session_id", by.to_string())
}

/// What was asked under this key is no longer known, so nothing is executed under it.
fn key_expired(until_us: u64) -> WireError {
    let until = Timestamp::from_us(until_us);
    let message = format!(
        "this key was made before {until}, and what was asked then is no longer known; nothing was done. \
         Look at what is there (`ostler list --all`), then ask with a new key"
    );
    WireError::new(ErrorCode::KeyExpired, message).with("known_since", until.to_string())
}

/// What was asked under this key cannot be read, so nothing is executed under it.
fn key_unreadable(operation: OperationId) -> WireError {
    let message = format!(
        "this key may belong to {operation}, whose records cannot be read; nothing was done. \
         `ostler ledger verify` tells more. For a new request use a new key"
    );
    WireError::new(ErrorCode::Uncertain, message).reason("unreadable").with("operation", operation.to_string())
}

fn ambiguous(given: &str, fits: usize, some: &[SessionId]) -> WireError {
    let ids: Vec<String> = some.iter().map(ToString::to_string).collect();
    let more = if fits > ids.len() { " and more" } else { "" };
    let message =
        format!("{given:?} fits {fits} sessions ({}{more}); nothing was done. Give more of the id", ids.join(", "));
    WireError::new(ErrorCode::InvalidInput, message).reason("ambiguous").with("sessions", ids)
}

/// What lives is not settled: which process it is, and what ends the doubt.
fn lives(session: &SessionId, part: Part, living: &[Survivor], is_elsewhere: bool) -> WireError {
    let what = match part {
        Part::Host | Part::Lock => "its host",
        Part::Command => "its command",
        Part::Marked => "a process of it",
    };
    let named: Vec<String> = living.iter().map(|one| format!("pid {} ({})", one.pid, one.command)).collect();
    let named = if named.is_empty() { "who, the system does not say".to_owned() } else { named.join(", ") };
    let pids: Vec<String> = living.iter().map(|one| one.pid.to_string()).collect();
    let stopped: Vec<String> =
        living.iter().filter(|one| process::is_stopped(one.pid)).map(|one| one.pid.to_string()).collect();
    let remedy = match (is_elsewhere, pids.is_empty()) {
        // It does not answer because it cannot.
        (false, false) if !stopped.is_empty() => {
            format!("it is stopped: kill -CONT {} lets it go on, then ostler reconcile {session}", stopped.join(" "))
        }
        (true, _) => {
            "nothing, if another state root goes on with it; else end it there, then the same again".to_owned()
        }
        (false, true) => format!("end what holds its life.lock, then ostler reconcile {session}"),
        (false, false) => format!("if it is not needed: kill {}, then ostler reconcile {session}", pids.join(" ")),
    };
    let message = format!("session {session} is not settled, because {what} lives: {named}; nothing was done");
    let processes: Vec<_> =
        living.iter().map(|one| serde_json::json!({"pid": one.pid, "command": one.command})).collect();
    WireError::new(ErrorCode::SessionLive, message)
        .reason(part.word())
        .with("session_id", session.to_string())
        .with("processes", processes)
        .with("elsewhere", is_elsewhere)
        .with("remedy", remedy)
}

/// Whether something lives cannot be seen, so that nothing is claimed.
fn hidden(session: &SessionId, part: Part) -> WireError {
    let what = match part {
        Part::Lock => "its life.lock cannot be looked at",
        Part::Host => "its life.lock is gone and the system does not say whether its host lives",
        Part::Command => "the system does not say whether its command lives",
        Part::Marked => "the process table cannot be read",
    };
    let message = format!("session {session} is not settled: {what}; nothing was done");
    WireError::new(ErrorCode::Uncertain, message)
        .reason(part.word())
        .retry(Retry::Later)
        .with("session_id", session.to_string())
        .with("remedy", "ostler doctor, then the same again")
}

/// The key is bound, and nobody can tell whether to this request.
fn incomparable(operation: OperationId, state: Outcome) -> WireError {
    let show = format!("ostler operation show {operation}");
    let message = format!(
        "this key belongs to {operation}, which is {}; whether this is the same request cannot be known, because the root's request.secret \
         was lost since. Nothing was done. `{show}` tells what the key did; a new request needs a new key",
        state.word()
    );
    let error = WireError::new(ErrorCode::Uncertain, message).reason("incomparable").retry(Retry::Never);
    let error = error.with("operation", operation.to_string()).with("state", state.word());
    error.with("changed", "nothing").with("remedy", show)
}

/// What is not there, told to this caller. A session is told as whom it acts, because what it is not shown looks to it as if it were not there
/// (report R70); what it reads of others is what it reads of nobody.
pub fn as_seen_by(scope: &Scope, error: WireError) -> WireError {
    let Scope::Session(caller) = scope else { return error };
    if error.code != ErrorCode::NotFound {
        return error;
    }
    let given = |member: &str| error.data.get(member).and_then(serde_json::Value::as_str);
    let what = match (given("session"), given("operation")) {
        (Some(session), _) => format!("there is no session {session:?} that this session may see"),
        (None, Some(operation)) => format!("there is no operation {operation:?} of this session"),
        (None, None) => return error,
    };
    let sees = "which sees itself, its children and its own operations";
    let message = format!("{what}: you act as session {caller}, {sees}; nothing was done");
    WireError { message, ..error }
}

/// A session has asked for its own end or its next episode. What it may not do to itself is no secret to it.
pub fn itself(caller: &SessionId) -> WireError {
    let message =
        format!("a session may not stop, resume or delete itself, and you act as session {caller}; nothing was done");
    WireError::new(ErrorCode::Denied, message).reason("itself").with("session_id", caller.to_string())
}

/// A session has written to itself, by its id or its name.
pub fn to_itself(caller: &SessionId) -> WireError {
    let message = format!("a session may not write to itself, and you act as session {caller}; nothing was sent");
    WireError::new(ErrorCode::Denied, message).reason("itself").with("session_id", caller.to_string()).with(
        "remedy",
        "ostler send to its parent or to one of its children; ostler show $OSTLER_SESSION --json names the parent",
    )
}

/// The same for a caller who may not know who has it.
pub fn name_taken(name: &Name) -> WireError {
    let message = format!("the name {name} is taken; nothing was done. Choose another name");
    WireError::new(ErrorCode::SessionExists, message)
}

/// Refusals that protect: a session, a limit, an outcome, the owner.
fn guarded(refusal: &Refusal) -> WireError {
    match refusal {
        Refusal::Lives { session, part, living, is_elsewhere } => lives(session, *part, living, *is_elsewhere),
        Refusal::Hidden { session, part } => hidden(session, *part),
        Refusal::Fenced { session, fence } => {
            let error = WireError::new(
                ErrorCode::SessionFenced,
                format!(
                    "session {session} is fenced: {}; nothing was done. `ostler reconcile {session}` settles it by evidence",
                    fence.reason
                ),
            )
            .reason(&fence.reason)
            .with("session_id", session.to_string())
            .with("remedy", format!("ostler reconcile {session}"));
            match fence.operation {
                Some(operation) => error.with("operation", operation.to_string()),
                None => error,
            }
        }
        Refusal::Crowded { session } => WireError::new(
            ErrorCode::SessionBusy,
            format!("too many operations wait for session {session} already; nothing was done. Try again later"),
        )
        .with("session_id", session.to_string()),
        Refusal::Capacity { what, limit } => WireError::new(
            ErrorCode::Capacity,
            format!("the limit of {limit} {what} is reached; nothing was done. {}", remedy(what)),
        )
        .reason(what)
        .with("limit", count(*limit)),
        Refusal::Children { of, is_caller, limit } => children(of.as_ref(), *is_caller, *limit),
        Refusal::Depth { limit } => depth(*limit),
        Refusal::NotUncertain { operation, state } => WireError::new(
            ErrorCode::TooLate,
            format!("{operation} is {}, and a settled outcome never changes; nothing was done", state.word()),
        )
        .reason("settled"),
        Refusal::OwnerOnly => {
            WireError::new(ErrorCode::Denied, "only the owner of the state root may do this; nothing was done")
                .reason("owner_only")
        }
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
        | Refusal::SessionOnly
        | Refusal::NoMessage { .. }
        | Refusal::HasEnded { .. }
        | Refusal::QueueFull { .. }
        | Refusal::Framing { .. }
        | Refusal::Unproven { .. }
        | Refusal::Incapable { .. }
        | Refusal::NoReport { .. }
        | Refusal::Superseded { .. }
        | Refusal::MessageSettled { .. }
        | Refusal::Gone { .. } => unreachable!("refused() keeps these for itself"),
    }
}

/// As many children of one session live as may. Whose they are is told to who may know it.
fn children(of: Option<&SessionId>, is_caller: bool, limit: usize) -> WireError {
    let (whose, remedy) = match of {
        Some(_) if is_caller => ("this session's".to_owned(), "`ostler list` shows them, `ostler stop ID` ends one"),
        Some(of) => (
            format!("session {of}'s"),
            "`ostler list` shows what lives, `ostler stop ID` ends one; the setting live_children, read when the broker starts, allows more",
        ),
        None => ("one session's".to_owned(), "Ask the owner, or try again later"),
    };
    let message = format!(
        "the limit of {limit} live children is reached, and this would be {whose} next; nothing was done. {remedy}"
    );
    let error = WireError::new(ErrorCode::Capacity, message).reason("spawn_limit").with("limit", count(limit));
    match of {
        Some(of) => error.with("session_id", of.to_string()),
        None => error,
    }
}

/// The caller stands as deep in its family as anybody may.
fn depth(limit: u32) -> WireError {
    let message = format!(
        "this session stands as deep in its family as the limit of {limit} allows, and starts no child; nothing was done. \
         Ask its parent or the owner to start what is needed (`ostler send`); the owner's setting family_depth, read when the broker starts, allows more"
    );
    WireError::new(ErrorCode::Capacity, message).reason("depth_limit").retry(Retry::Never).with("limit", limit)
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// What helps at a limit.
fn remedy(what: &str) -> &'static str {
    match what {
        "free-form keys" => "Use a UUIDv7 as key, or delete sessions: their keys are forgotten 7 days later",
        "known operations" => "They are forgotten 7 days after they were settled; try again later",
        "unsettled operations" => "`ostler operation resolve` settles those that are uncertain",
        _ => "Stop sessions that are no longer needed",
    }
}

/// An operation that did not succeed, as an error of the contract.
pub fn failed(operation: &Operation) -> Option<WireError> {
    let failure = operation.failure.as_ref()?;
    Some(of_failure(operation, failure))
}

fn of_failure(operation: &Operation, failure: &Failure) -> WireError {
    let code = ErrorCode::from_name(&failure.code).unwrap_or(ErrorCode::Internal);
    let kept = match operation.state {
        Outcome::Aborted => "nothing ran; the key and the name are free",
        Outcome::Uncertain => "whether it took effect is not known",
        Outcome::Failed | Outcome::Accepted | Outcome::Succeeded => "its outcome is settled",
    };
    let message = if code == ErrorCode::SpawnFailed {
        format!("the command did not come up ({}): {}; {kept}", failure.reason, failure.message)
    } else {
        format!("{}; {kept}", failure.message)
    };
    // What is settled stays so under this key, whatever its code means elsewhere.
    let is_settled =
        operation.state == Outcome::Aborted || operation.state == Outcome::Failed && code.retry() == Retry::SameKey;
    let retry = if is_settled { Retry::Never } else { code.retry() };
    let error = WireError::new(code, message)
        .reason(&failure.reason)
        .retry(retry)
        .with("detail", failure.message.as_str())
        .with("operation", operation.id.to_string())
        .with("state", operation.state.word());
    let error = match &operation.session {
        Some(session) if failure.reason == "still_alive" => error
            .with("changed", "this operation is settled as failed, and its key finds nothing else; `ostler show` tells how the session goes on")
            .with("remedy", format!("ostler show {session}; ostler stop {session} waits for its end again")),
        Some(_) | None => error,
    };
    let Some(obstacle) = &failure.obstacle else { return error };
    let error = error.with("cause", obstacle.cause.word());
    match &obstacle.errno {
        Some(errno) => error.with("errno", errno.as_str()),
        None => error,
    }
}

/// A write that changed nothing.
pub fn storage(ledger: &Path, full: bool, message: &str) -> WireError {
    let code = if full { ErrorCode::StorageFull } else { ErrorCode::StorageFailed };
    let next = if full { "Free space and repeat with the same key" } else { "See `ostler doctor`" };
    let path = ledger.display().to_string();
    WireError::new(code, format!("{path} could not be written: {message}; nothing changed. {next}")).with("path", path)
}

/// A text that breaks a grammar.
pub fn malformed(field: &str, rule: Malformed) -> WireError {
    WireError::new(ErrorCode::InvalidInput, format!("{field} {rule}; nothing was done")).reason(field)
}

/// A name that is none. Which rule it breaks is told: of a device nobody thinks.
pub fn bad_name(text: &str, rule: Malformed) -> WireError {
    if !Name::is_device(text) {
        return malformed("name", rule);
    }
    let message =
        format!("the name `{text}` is that of a device on Windows, where no file can be called so; nothing was done");
    WireError::new(ErrorCode::InvalidInput, message).reason("name").with("remedy", "another --name")
}

/// What a turn told, as an error, if it is one.
pub fn told(told: &Told, ledger: &Path) -> Option<WireError> {
    match told {
        Told::Refused(refusal) => Some(refused(refusal)),
        Told::Storage { full, message } => Some(storage(ledger, *full, message)),
        Told::Settled { .. }
        | Told::Prepare { .. }
        | Told::Recall(_)
        | Told::Look { .. }
        | Told::Store { .. }
        | Told::Pulled => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ambiguous_prefix_names_what_it_fits() {
        let some: Vec<SessionId> =
            ["abcdefgh2345", "abcdefgh2346"].iter().map(|id| SessionId::parse(id).unwrap()).collect();
        let error = refused(&Refusal::Ambiguous { given: "abc".to_owned(), fits: 2, some: some.clone() });
        assert!(error.message.contains("(abcdefgh2345, abcdefgh2346);"), "{error}");
        assert_eq!(error.data["sessions"], serde_json::json!(["abcdefgh2345", "abcdefgh2346"]));
        let error = refused(&Refusal::Ambiguous { given: "abc".to_owned(), fits: 9, some });
        assert!(error.message.contains("abcdefgh2346 and more);"), "{error}");
    }

    #[test]
    fn a_name_that_is_a_device_is_told_so_and_another_bad_one_the_rule() {
        let told = |name: &str| bad_name(name, Name::parse(name).unwrap_err()).message;
        assert!(told("con").contains("`con` is that of a device"), "{}", told("con"));
        assert!(told("A").contains("[a-z0-9]") && !told("A").contains("Windows"), "{}", told("A"));
    }

    #[test]
    fn too_little_of_an_id_is_told_so() {
        let missing = |given: &str| refused(&Refusal::NoSession { given: given.to_owned() }).message;
        assert!(missing("ab").contains("at least 3 characters"));
        assert!(missing("abc").contains("`ostler list --all`"));
    }
}
