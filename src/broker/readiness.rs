//! What a caller says of a session's readiness, and what it is told: a session's own word, and the last output of one that did not become ready.

use super::changes::{Settled, Wanted};
use super::front::Front;
use super::render;
use crate::host::files;
use crate::host::read::last_lines;
use crate::machine::{Action, Digest, Outcome, Readiness, Sign, limits};
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::service::Caller;
use crate::rpc::wire::{Encoded, Ready, ReadyParams, ReadyResult, SpawnParams, encode};

/// How long a session may take to become ready where its caller names no time, in milliseconds (contract section 4).
const READY_WITHIN_MS: u64 = 30_000;

/// When the session counts as ready, if not as soon as its command executes.
///
/// # Errors
/// `invalid_input` for a time that is no limit, or for one where nothing is waited for.
pub(super) fn wanted(params: &SpawnParams) -> Result<Option<Readiness>, WireError> {
    let invalid = |message: String| {
        Err(WireError::new(ErrorCode::InvalidInput, format!("{message}; nothing was done")).reason("ready_within"))
    };
    let sign = match (&params.ready, params.ready_within_ms) {
        (Ready::Exec, None) => return Ok(None),
        (Ready::Exec, Some(_)) => {
            return invalid("a time to become ready is for readiness by notify or output".to_owned());
        }
        (Ready::Notify, _) => Sign::Notify,
        (Ready::Output(_), _) => Sign::Output,
    };
    let within_ms = params.ready_within_ms.unwrap_or(READY_WITHIN_MS);
    let (min, max) = (limits::READY_WITHIN_MS_MIN, limits::READY_WITHIN_MS_MAX);
    if !(min..=max).contains(&within_ms) {
        return invalid(format!("the time to become ready is {min} to {max} ms"));
    }
    Ok(Some(Readiness { sign, within_ms }))
}

/// What the host looks for in the output.
pub(super) fn sign(ready: &Ready) -> Option<String> {
    match ready {
        Ready::Exec | Ready::Notify => None,
        Ready::Output(pattern) => Some(pattern.clone()),
    }
}

impl Front {
    pub(super) async fn ready(
        &self,
        caller: &Caller,
        digest: Digest,
        params: ReadyParams,
    ) -> Result<Encoded, WireError> {
        let change = self.keyed(caller, params.key.as_str(), digest)?;
        let settled = self.settle(&change, Action::Ready { episode: params.episode }, Wanted::default()).await?;
        let operation = render::operation(&settled.operation, settled.replayed);
        let session = self.renderer.session_of(&self.view.read(), &settled.operation, false);
        let of = session.zip(settled.operation.gained.readied);
        let (session, readied) =
            of.ok_or_else(|| WireError::new(ErrorCode::Internal, "the operation tells of no readiness"))?;
        Ok(encode(&ReadyResult { session, outcome: render::readied(readied), operation }))
    }

    /// The answer to a start. Where the command executed and the start has failed all the same, the error has its last output: read now, because the
    /// ledger never holds any.
    pub(super) async fn with_output(
        &self,
        settled: &Settled,
        answer: Result<Encoded, WireError>,
    ) -> Result<Encoded, WireError> {
        let error = match answer {
            Err(error) if error.code == ErrorCode::SpawnFailed && settled.operation.state == Outcome::Failed => error,
            answer => return answer,
        };
        let Some(id) = settled.operation.session.clone() else { return Err(error) };
        let episode = self.view.read().sessions.get(&id).map(|session| session.episode);
        let error = error.with("session_id", id.to_string());
        let Some(episode) = episode else {
            return Err(error.with("changed", format!("session {id} was started, and has been deleted since")));
        };
        let folder = files::episode_folder(&self.root, id.as_str(), episode);
        let output = tokio::task::spawn_blocking(move || last_lines(&folder)).await.unwrap_or_default();
        Err(error
            .with("output", output)
            .with("changed", format!("session {id} was started and did not come up; it is listed until it is deleted"))
            .with(
                "remedy",
                format!("ostler show {id}, ostler logs {id}; then ostler resume {id}, or ostler delete {id}"),
            ))
    }
}

#[cfg(test)]
mod tests {
    use super::wanted;
    use crate::machine::{Readiness, Sign};
    use crate::rpc::wire::SpawnParams;
    use serde_json::{Value, json};

    fn of(ready: &str, within_ms: Value) -> Result<Option<Readiness>, String> {
        let params = json!({"key": "k", "command": ["true"], "cwd": "/", "ready": ready, "ready_within_ms": within_ms});
        let params: SpawnParams = serde_json::from_value(params).unwrap();
        wanted(&params).map_err(|error| error.message)
    }

    #[test]
    fn a_time_is_a_limit_and_there_is_one() {
        assert_eq!(of("exec", Value::Null), Ok(None));
        assert_eq!(of("notify", Value::Null), Ok(Some(Readiness { sign: Sign::Notify, within_ms: 30_000 })));
        assert_eq!(of("output:up", json!(5)), Ok(Some(Readiness { sign: Sign::Output, within_ms: 5 })));
        for (ready, within_ms) in [("exec", 5), ("notify", 0), ("output:up", 3_600_001)] {
            assert!(of(ready, json!(within_ms)).unwrap_err().contains("nothing was done"), "{ready} {within_ms}");
        }
    }
}
