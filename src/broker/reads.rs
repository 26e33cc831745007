//! Reads: answered from the view, held for one page at a time. They spawn nothing and change nothing (report D11).

use super::asked::{self, find};
use super::desk::now;
use super::front::Front;
use super::hosts::LOOK_AGAIN_MAX;
use super::refused::{as_seen_by, refused};
use super::render;
use super::route::Read;
use crate::host::client::Verdict;
use crate::host::wire as host;
use crate::machine::{MessageId, OperationId, ReportId, Scope, Session, SessionId, State, Status};
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::service::Caller;
use crate::rpc::wire::{
    Encoded, EndpointParams, EndpointResult, GetParams, ListParams, ReadParams, SessionResult, WaitFor, WaitParams,
    decode, encode,
};
use serde::Serialize;
use serde_json::Value;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Entries of a page that names no limit.
const PAGE: u32 = 100;
/// Entries of a page at the most.
pub(super) const PAGE_MAX: u32 = 1_000;
/// A page ends before it is longer than this, in bytes.
const PAGE_BYTES: usize = 1024 * 1024;
/// What a list without `all` leaves out: sessions that ended longer ago than this, in microseconds.
const RECENT_US: u64 = 24 * 3_600 * 1_000_000;

/// Where a list goes on: behind this ledger position, with these filters.
#[derive(Clone, Debug)]
pub enum Position {
    /// Of sessions.
    Sessions(u64, Box<ListParams>),
    /// Of operations.
    Operations(OperationId, Option<SessionId>),
    /// Of a session's messages.
    Messages(MessageId, SessionId),
    /// Of a session's reports.
    Reports(ReportId, SessionId),
}

/// The result of `session.list`, whose sessions are written already.
#[derive(Serialize)]
struct Page {
    sessions: Vec<Encoded>,
    next: Option<String>,
}

impl Front {
    /// Does a read.
    pub(super) async fn read(self: Arc<Self>, caller: Caller, read: Read, params: Value) -> Result<Encoded, WireError> {
        let scope = self.scope(&caller);
        match read {
            Read::Get => self.get(&scope, &decode(params)?),
            Read::List => self.list(&caller, decode(params)?),
            Read::Wait => self.wait(&scope, decode(params)?).await,
            Read::Output => self.output(&scope, decode(params)?).await,
            Read::Endpoint => self.endpoint(&scope, &decode(params)?),
            Read::Operation => self.operation(&scope, &decode(params)?).await,
            Read::Operations => self.operations(&caller, decode(params)?),
            Read::Message => self.message(&scope, &decode(params)?),
            Read::Messages => self.messages(&caller, &decode(params)?),
            Read::Report => self.read_report(&scope, decode(params)?).await,
            Read::Reports => self.reports(&caller, &decode(params)?).await,
            Read::Inbox => self.pull(&scope, decode(params)?).await,
        }
    }

    /// The session a caller names, if it may know of it.
    pub(super) fn named(scope: &Scope, state: &State, given: &str) -> Result<Arc<Session>, WireError> {
        let missing = || asked::missing(given);
        let found = find(state, given).and_then(|id| match state.sessions.get(&id) {
            Some(session) if Self::may_see(scope, session) => Ok(Arc::clone(session)),
            Some(_) | None => Err(missing()),
        });
        // Another's sessions make a prefix ambiguous without saying so.
        let found = found.map_err(|refusal| if *scope == Scope::Owner { refusal } else { missing() });
        found.map_err(|refusal| as_seen_by(scope, refused(&refusal)))
    }

    fn get(&self, scope: &Scope, params: &GetParams) -> Result<Encoded, WireError> {
        let state = self.view.read();
        let (session, generation) = (Self::named(scope, &state, &params.session)?, state.generation);
        drop(state);
        Ok(encode(&SessionResult { session: self.document(&session, generation) }))
    }

    fn list(&self, caller: &Caller, params: ListParams) -> Result<Encoded, WireError> {
        let scope = &self.scope(caller);
        let limit = page_limit(params.limit)?;
        let (after, filter) = match &params.cursor {
            None => (None, Box::new(params)),
            Some(cursor) => match self.position(caller, cursor)? {
                Position::Sessions(after, filter) => (Some(after), filter),
                Position::Operations(..) | Position::Messages(..) | Position::Reports(..) => return Err(other_list()),
            },
        };
        let recent_us = now().wall_us.saturating_sub(RECENT_US);
        let state = self.view.read();
        let generation = state.generation;
        let fits = |session: &&Arc<Session>| Self::may_see(scope, session) && matches(&filter, session, recent_us);
        let rows = state.ages.after(after.as_ref()).filter_map(|(_, id)| state.sessions.get(id)).filter(fits);
        let page: Vec<_> = rows.take(limit + 1).cloned().collect();
        drop(state);
        let mut documents = Vec::new();
        let mut bytes = 0;
        for session in page.iter().take(limit) {
            let document = encode(&self.document(session, generation));
            bytes += document.get().len();
            if bytes > PAGE_BYTES && !documents.is_empty() {
                break;
            }
            documents.push(document);
        }
        let last = documents.len().checked_sub(1).and_then(|last| page.get(last));
        let more = last.filter(|_| page.len() > documents.len());
        let next = more.map(|last| self.remember(caller, Position::Sessions(last.created_seq, filter)));
        Ok(encode(&Page { sessions: documents, next }))
    }

    async fn wait(&self, scope: &Scope, params: WaitParams) -> Result<Encoded, WireError> {
        let waiting = self.waited(scope, &params);
        match params.timeout_ms {
            None => waiting.await,
            Some(timeout_ms) => {
                tokio::time::timeout(Duration::from_millis(timeout_ms), waiting).await.unwrap_or_else(|_| {
                    let what = match params.until {
                        WaitFor::Ended => "did not end",
                        WaitFor::Ready => "was not ready",
                        WaitFor::Idle => "was not idle",
                    };
                    let message = format!("session {} {what} within {timeout_ms} ms; it goes on", params.session);
                    Err(WireError::new(ErrorCode::Timeout, message))
                })
            }
        }
    }

    async fn waited(&self, scope: &Scope, params: &WaitParams) -> Result<Encoded, WireError> {
        let mut changes = self.view.changes();
        let mut draining = self.draining.clone();
        let mut last = Self::named(scope, &self.view.read(), &params.session)?;
        loop {
            changes.borrow_and_update();
            let (current, generation) = self.current(&last.id);
            let Some(current) = current else {
                let gone = Session { status: Status::Deleted, ..Session::clone(&last) };
                let session = self.document(&gone, generation);
                return match params.until {
                    WaitFor::Ended => Ok(encode(&SessionResult { session })),
                    WaitFor::Ready | WaitFor::Idle => Err(never(&last, "was deleted")),
                };
            };
            let reached = match params.until {
                WaitFor::Ended => !current.status.is_live(),
                WaitFor::Ready => matches!(current.status, Status::Ready | Status::Running),
                // In no session turn, as far as turns are seen, or down; and nothing waits for it.
                WaitFor::Idle => {
                    let settled = current.status == Status::Ready || !current.status.is_live();
                    settled && Self::is_idle(&self.view.read(), &current.id)
                }
            };
            if reached {
                return Ok(encode(&SessionResult { session: self.document(&current, generation) }));
            }
            if params.until == WaitFor::Ready && !current.status.is_live() {
                return Err(never(&current, "has ended"));
            }
            if current.fence.is_some() && params.until == WaitFor::Ended {
                self.still_lives(&current).await?;
            }
            last = current;
            // A fenced session is not listened to, so its end makes no turn.
            let again = if last.fence.is_some() { LOOK_AGAIN_MAX } else { Duration::MAX };
            let left = tokio::select! {
                () = tokio::time::sleep(again) => false,
                changed = changes.changed() => changed.is_err(),
                left = draining.wait_for(|draining| *draining) => left.is_ok(),
            };
            if left {
                return Err(super::inbox::leaving());
            }
        }
    }

    /// A fenced session stays as the ledger has it, whatever becomes of its process. Who waits for its end waits as long as its host can be
    /// seen to live.
    async fn still_lives(&self, session: &Session) -> Result<(), WireError> {
        let known = match self.hosts.verdict(&session.id, session.episode).await {
            None | Some(Verdict::Alive(_) | Verdict::StillStarting) => return Ok(()),
            Some(Verdict::Ended(record)) => format!("its command has ended with {}", exit_text(&record.exit)),
            Some(Verdict::HostDied(_)) => "its host died".to_owned(),
            Some(Verdict::LostWithMachine) => "it was lost with the machine".to_owned(),
            Some(Verdict::NeverOpened) => "its command never ran".to_owned(),
            Some(Verdict::Foreign) => "what runs under its number belongs to another state root".to_owned(),
            Some(Verdict::Damaged(why)) => format!("whether it runs cannot be seen: {why}"),
            Some(Verdict::MissingLock) => "whether it runs cannot be seen: its life.lock is missing".to_owned(),
        };
        let id = &session.id;
        let reason = session.fence.as_ref().map_or("", |fence| fence.reason.as_str());
        let message = format!(
            "session {id} is fenced ({reason}), so its end is not recorded; as far as can be seen, {known}. Nothing was changed. \
             `ostler reconcile {id}` settles it by evidence"
        );
        let error = WireError::new(ErrorCode::SessionFenced, message).reason(reason);
        Err(error
            .with("session_id", id.to_string())
            .with("known", known)
            .with("remedy", format!("ostler reconcile {id}")))
    }

    fn current(&self, id: &SessionId) -> (Option<Arc<Session>>, u64) {
        let state = self.view.read();
        (state.sessions.get(id).cloned(), state.generation)
    }

    async fn output(&self, scope: &Scope, params: ReadParams) -> Result<Encoded, WireError> {
        let session = Self::named(scope, &self.view.read(), &params.session)?;
        let episode = episode_of(&session, params.episode)?;
        let live = session.status.is_live() && episode == session.episode;
        let root = self.root.clone();
        let read = tokio::task::spawn_blocking(move || super::output::read(&root, &session.id, episode, live, &params));
        let read = read.await.map_err(|error| WireError::new(ErrorCode::Internal, error.to_string()))?;
        Ok(encode(&read?))
    }

    fn endpoint(&self, scope: &Scope, params: &EndpointParams) -> Result<Encoded, WireError> {
        let state = self.view.read();
        let (session, generation) = (Self::named(scope, &state, &params.session)?, state.generation);
        drop(state);
        let episode = episode_of(&session, params.episode)?;
        let document = self.document(&session, generation);
        let folder = crate::host::files::episode_folder(&self.root, session.id.as_str(), episode);
        Ok(encode(&EndpointResult {
            session_id: document.id,
            episode,
            endpoint: document.endpoint.filter(|_| episode == session.episode),
            folder: folder.into_os_string().into(),
        }))
    }

    pub(super) fn position(&self, caller: &Caller, cursor: &str) -> Result<Position, WireError> {
        let mut cursors = self.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        cursors.find(&caller.identity, cursor, now().boot_us)
    }

    pub(super) fn remember(&self, caller: &Caller, position: Position) -> String {
        let mut cursors = self.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        cursors.keep(&caller.identity, position, now().boot_us)
    }
}

fn matches(filter: &ListParams, session: &Session, recent_us: u64) -> bool {
    let old = session.status == Status::Deleted || session.ended_us.is_some_and(|at| at < recent_us);
    (filter.all || session.status.is_live() || !old)
        && (filter.status.is_empty() || filter.status.contains(&render::status(session.status)))
        && filter.labels.iter().all(|(key, value)| session.labels.get(key) == Some(value))
}

fn exit_text(exit: &host::Exit) -> String {
    match exit {
        host::Exit::Code(code) => format!("code {code}"),
        host::Exit::Signal(name) => format!("signal {name}"),
        host::Exit::Error(failure) => failure.reason.clone(),
    }
}

/// The episode that is meant: the last, if none is named.
fn episode_of(session: &Session, given: Option<u32>) -> Result<u32, WireError> {
    match given.unwrap_or(session.episode) {
        known if (1..=session.episode).contains(&known) => Ok(known),
        unknown => {
            let message = match session.episode {
                1 => format!("session {} has had one episode, and that is not {unknown}", session.id),
                last => format!("session {} has had episodes 1 to {last}, and none is {unknown}", session.id),
            };
            Err(WireError::new(ErrorCode::NotFound, message).reason("episode"))
        }
    }
}

pub(super) fn page_limit(given: Option<u32>) -> Result<usize, WireError> {
    match given.unwrap_or(PAGE) {
        fits @ 1..=PAGE_MAX => Ok(usize::try_from(fits).unwrap_or(1)),
        _ => Err(WireError::new(ErrorCode::InvalidInput, format!("limit is 1 to {PAGE_MAX}")).reason("limit")),
    }
}

pub(super) fn other_list() -> WireError {
    WireError::new(ErrorCode::InvalidInput, "this cursor belongs to another list").reason("cursor")
}

fn never(session: &Session, what: &str) -> WireError {
    WireError::new(ErrorCode::SessionTerminal, format!("session {} {what}; it will not get there", session.id))
        .with("status", session.status.word())
        .with("session_id", session.id.to_string())
}

#[cfg(test)]
mod tests {
    use crate::rpc::wire::ListResult;

    #[test]
    fn a_page_has_the_form_of_the_contract() {
        let page = serde_json::json!({ "sessions": [], "next": null });
        assert!(serde_json::from_value::<ListResult>(page).is_ok());
    }
}
