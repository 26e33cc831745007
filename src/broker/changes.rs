//! Mutating calls: parameters to a request, files on disk before the turn is asked, the outcome as a document.
//!
//! A spawn's folder is prepared under an id drawn from entropy before its record names it; if the request turns out to
//! be a replay or is refused, the folder goes again. What a crash leaves between the two is swept at the next start.

use super::asked;
use super::bodies;
use super::front::Front;
use super::refused::{self, failed};
use super::turn::Told;
use super::{render, route};
use crate::host::client::{prepare_episode, prepare_session, remove_session_files};
use crate::host::files::FileError;
use crate::host::spec::Spec;
use crate::machine::{
    Action, Actor, Digest, Key, Known, Operation, Outcome, Recalled, Refusal, Request, Scope, Session, SessionId,
    Stale, State, Status, Target, is_settled_by, replayable,
};
use crate::os::{entropy, fail};
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::method::Method;
use crate::rpc::service::Caller;
use crate::rpc::wire::{
    self, DeleteParams, Encoded, EndedResult, InterruptParams, OperationResolveParams, OperationResolveResult,
    PruneParams, PruneResult, ReconcileParams, Resolution, ResumeParams, SpawnParams, SpawnResult, StopParams,
    TurnEvent, TurnParams, TurnResult, decode, encode, encode_value,
};
use data_encoding::BASE32_NOPAD;
use serde_json::Value;
use std::sync::Arc;

/// How often a request may find that its files must be prepared anew: each time another request was faster.
const PREPARATIONS: usize = 8;

/// A request on its way.
pub(super) struct Change {
    pub(super) scope: Scope,
    actor: Actor,
    pub(super) key: Key,
    digest: Digest,
}

/// A settled operation.
pub(super) struct Settled {
    pub(super) operation: Arc<Operation>,
    pub(super) replayed: bool,
    /// The session as it was last, if it left the list with this operation.
    gone: Option<Arc<Session>>,
}

/// What a request needs on disk before its record.
#[derive(Default)]
pub(super) struct Wanted<'a> {
    /// Of a new session.
    pub(super) spec: Option<Spec>,
    /// Of a message its text, of a report its head and its text.
    pub(super) texts: &'a [&'a [u8]],
}

impl Front {
    /// Does a mutating call. It runs to its end even if the caller goes away.
    pub(super) async fn change(
        self: Arc<Self>,
        caller: Caller,
        change: route::Change,
        method: Method,
        params: Value,
    ) -> Result<Encoded, WireError> {
        let digest = asked::digest(&self.secret.key, method.name(), &params);
        match change {
            route::Change::Spawn => self.spawn(&caller, digest, decode(params)?).await,
            route::Change::Fork => self.fork(&caller, digest, decode(params)?).await,
            route::Change::Resume => self.resume(&caller, digest, decode(params)?).await,
            route::Change::Stop => self.stop(&caller, digest, decode(params)?).await,
            route::Change::Delete => self.delete(&caller, digest, decode(params)?).await,
            route::Change::Prune => self.prune(&caller, digest, decode(params)?).await,
            route::Change::Reconcile => self.reconcile(&caller, digest, decode(params)?).await,
            route::Change::Resolve => self.resolve(&caller, digest, decode(params)?).await,
            route::Change::Send => self.send(&caller, digest, decode(params)?).await,
            route::Change::Cancel => self.cancel(&caller, digest, decode(params)?).await,
            route::Change::ResolveMessage => self.decide(&caller, digest, decode(params)?).await,
            route::Change::Interrupt => self.interrupt(&caller, digest, decode(params)?).await,
            route::Change::Turn => self.turn(&caller, digest, decode(params)?).await,
            route::Change::Ready => self.ready(&caller, digest, decode(params)?).await,
            route::Change::Report => self.post_report(&caller, digest, decode(params)?).await,
            route::Change::Acknowledge => self.acknowledge(&caller, digest, decode(params)?).await,
        }
    }

    async fn spawn(&self, caller: &Caller, digest: Digest, params: SpawnParams) -> Result<Encoded, WireError> {
        let change = self.keyed(caller, params.key.as_str(), digest)?;
        let asked::Wanted { spec, name, labels, readiness } = asked::wanted(&params)?;
        let action =
            Action::Spawn { prepared: None, name, labels, adapter: asked::adapter(&spec), readiness, source: None };
        let settled = self.settle(&change, action, Wanted { spec: Some(spec), texts: &[] }).await?;
        self.with_output(&settled, self.started(&settled)).await
    }

    async fn resume(&self, caller: &Caller, digest: Digest, params: ResumeParams) -> Result<Encoded, WireError> {
        let change = self.keyed(caller, params.key.as_str(), digest)?;
        let target = self.target(&change.scope, &params.session)?;
        let settled = self.settle(&change, Action::Resume { target, prepared: None }, Wanted::default()).await?;
        self.with_output(&settled, self.started(&settled)).await
    }

    async fn stop(&self, caller: &Caller, digest: Digest, params: StopParams) -> Result<Encoded, WireError> {
        let change = self.keyed(caller, params.key.as_str(), digest)?;
        let grace_ms = asked::grace(params.grace_ms)?;
        let reason = asked::reason(params.reason)?;
        let target = self.target(&change.scope, &params.session)?;
        let settled = self.settle(&change, Action::Stop { target, grace_ms, reason }, Wanted::default()).await?;
        self.ended(&settled)
    }

    async fn interrupt(&self, caller: &Caller, digest: Digest, params: InterruptParams) -> Result<Encoded, WireError> {
        let change = self.keyed(caller, params.key.as_str(), digest)?;
        let target = self.target(&change.scope, &params.session)?;
        let settled = self.settle(&change, Action::Interrupt { target }, Wanted::default()).await?;
        self.started(&settled)
    }

    async fn turn(&self, caller: &Caller, digest: Digest, params: TurnParams) -> Result<Encoded, WireError> {
        let change = self.keyed(caller, params.key.as_str(), digest)?;
        let begins = params.event == TurnEvent::Begin;
        let action = Action::Turn { number: params.turn, episode: params.episode, begins };
        let settled = self.settle(&change, action, Wanted::default()).await?;
        let operation = render::operation(&settled.operation, settled.replayed);
        let session = self.renderer.session_of(&self.view.read(), &settled.operation, false);
        let of = session.zip(settled.operation.gained.turned);
        let (session, turned) = of.ok_or_else(|| WireError::new(ErrorCode::Internal, "the operation tells no turn"))?;
        Ok(encode(&TurnResult { session, outcome: render::turned(turned), operation }))
    }

    async fn delete(&self, caller: &Caller, digest: Digest, params: DeleteParams) -> Result<Encoded, WireError> {
        let change = self.keyed(caller, params.key.as_str(), digest)?;
        let grace_ms = asked::grace(params.grace_ms)?;
        let reason = asked::reason(params.reason)?;
        if reason.is_some() && !params.stop {
            let message = "a reason is for a delete that stops; nothing was done";
            return Err(WireError::new(ErrorCode::InvalidInput, message).reason("reason"));
        }
        let target = self.target(&change.scope, &params.session)?;
        target.iter().for_each(|id| self.renderer.recall(id));
        let action = Action::Delete { target, stop: params.stop, grace_ms, reason };
        let settled = self.settle(&change, action, Wanted::default()).await?;
        self.ended(&settled)
    }

    async fn prune(&self, caller: &Caller, digest: Digest, params: PruneParams) -> Result<Encoded, WireError> {
        let change = self.keyed(caller, params.key.as_str(), digest)?;
        let older_ms = asked::older(params.older_ms)?;
        if params.dry_run {
            return self.prune_dry(&change, older_ms);
        }
        let settled = self.settle(&change, Action::Prune { older_ms }, Wanted::default()).await?;
        let pruned = &settled.operation.gained.pruned;
        pruned.iter().for_each(|id| self.renderer.forget(id));
        let sessions = pruned.iter().map(ToString::to_string).collect();
        let operation = Some(render::operation(&settled.operation, settled.replayed));
        Ok(encode(&PruneResult { sessions, operation }))
    }

    fn prune_dry(&self, change: &Change, older_ms: u64) -> Result<Encoded, WireError> {
        if change.scope != Scope::Owner {
            return Err(refused::refused(&Refusal::OwnerOnly));
        }
        let state = self.view.read();
        let ids = crate::machine::prunable(&state, super::desk::now(), older_ms).map(|session| session.id.to_string());
        Ok(encode(&PruneResult { sessions: ids.collect(), operation: None }))
    }

    async fn reconcile(&self, caller: &Caller, digest: Digest, params: ReconcileParams) -> Result<Encoded, WireError> {
        let change = self.keyed(caller, params.key.as_str(), digest)?;
        // Before anything is looked up: what a session asks for here tells it nothing.
        if change.scope != Scope::Owner {
            return Err(refused::refused(&Refusal::OwnerOnly));
        }
        let target = self.target(&change.scope, &params.session)?;
        let settled = self.settle(&change, Action::Reconcile { target, evidence: None }, Wanted::default()).await?;
        self.ended(&settled)
    }

    async fn resolve(
        &self,
        caller: &Caller,
        digest: Digest,
        params: OperationResolveParams,
    ) -> Result<Encoded, WireError> {
        let change = self.keyed(caller, params.key.as_str(), digest)?;
        // Before anything is looked up: what a session asks for here tells it nothing.
        if change.scope != Scope::Owner {
            return Err(refused::refused(&Refusal::OwnerOnly));
        }
        let found = self.find_operation(&change.scope, &params.operation).await;
        let operation = found.and_then(|found| {
            let (id, state) = (found.id, found.state);
            if state == Outcome::Uncertain { Ok(id) } else { Err(Refusal::NotUncertain { operation: id, state }) }
        });
        let reason: String = params.reason.chars().take(1_000).collect();
        let succeeded = params.outcome == Resolution::Succeeded;
        let settled = self.settle(&change, Action::Resolve { operation, succeeded, reason }, Wanted::default()).await?;
        let resolved = self.find_operation(&change.scope, &params.operation).await;
        let resolved = resolved.map_err(|refusal| refused::refused(&refusal))?;
        let resolved = render::operation(&resolved, false);
        let operation = render::operation(&settled.operation, settled.replayed);
        Ok(encode(&OperationResolveResult { operation, resolved }))
    }

    /// The session that a caller means. To a session all but itself and its children are as unknown as nobody, and itself it may only look at.
    pub(super) fn target(&self, scope: &Scope, given: &str) -> Result<Target, WireError> {
        let state = self.view.read();
        let found = asked::find(&state, given);
        let Scope::Session(caller) = scope else { return Ok(found) };
        if matches!(&found, Ok(id) if id == caller) {
            return Err(refused::itself(caller));
        }
        let is_child = |id: &SessionId| state.sessions.get(id).is_some_and(|of| of.parent.as_ref() == Some(caller));
        Ok(found.ok().filter(is_child).ok_or_else(|| asked::missing(given)))
    }

    pub(super) fn keyed(&self, caller: &Caller, key: &str, digest: Digest) -> Result<Change, WireError> {
        let scope = self.scope(caller);
        let sid = match &scope {
            Scope::Owner => None,
            Scope::Session(id) => Some(id.clone()),
        };
        let actor = Actor { uid: caller.peer.uid, pid: caller.peer.pid.unwrap_or(0), sid };
        Ok(Change { scope, actor, key: asked::key(key)?, digest })
    }

    /// Asks the turn, preparing files as often as it says so. What is settled already is only read: no turn is needed for it.
    pub(super) async fn settle(
        &self,
        change: &Change,
        action: Action,
        wanted: Wanted<'_>,
    ) -> Result<Settled, WireError> {
        let Wanted { spec, texts } = wanted;
        // The texts' files stay while this lives: until the turn has answered.
        let mut stored: Vec<bodies::Stored>;
        // A start's files lie on disk before the turn is asked, so it is known first whether they are needed. Anything else the
        // turn finds out on its way.
        let (known, mut recalled) = match &spec {
            Some(_) => self.known_before(change).await,
            None => (false, Vec::new()),
        };
        if let Some(settled) = self.settled_before(change, &recalled) {
            return Ok(settled);
        }
        let mut action = action;
        let mut made = None;
        // Where the key only may be known, the turn asks for files if it is not.
        if let (Some(spec), false) = (&spec, known) {
            (action, made) = self.prepare_new(action, spec).await?;
        }
        for _ in 0..PREPARATIONS {
            let request = Request {
                scope: change.scope.clone(),
                actor: change.actor.clone(),
                key: change.key.clone(),
                digest: change.digest,
                digests_since: self.secret.since,
                family: self.family,
                action: action.clone(),
                recalled: recalled.clone(),
            };
            match self.inbox.ask(request).await {
                Ok(Told::Settled { operation, replayed, gone }) => {
                    if let (Some(id), true) = (made, replayed) {
                        self.unmake(id);
                    }
                    return Ok(Settled { operation, replayed, gone });
                }
                Ok(Told::Look { session }) => action = self.looked(session, action).await,
                Ok(Told::Store { session }) => {
                    stored = self.store(&session, texts).await?;
                    action = crate::machine::stored(action, stored.iter().map(|stored| stored.body.clone()));
                }
                Ok(Told::Recall(rows)) => {
                    recalled = self.recall(rows).await;
                    if let Some(settled) = self.settled_before(change, &recalled) {
                        made.into_iter().for_each(|id| self.unmake(id));
                        return Ok(settled);
                    }
                }
                Ok(Told::Prepare { session: Some(session), episode }) => {
                    match self.prepare_next(&session, episode).await {
                        Ok(()) => action = asked::prepared(action, &session, None, episode),
                        // Its folder went with a removal that was faster: the turn knows what to say.
                        Err(_) if self.is_going(&session) => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(Told::Prepare { session: None, .. }) => {
                    made.take().into_iter().for_each(|id| self.unmake(id));
                    let spec = spec.as_ref().ok_or_else(|| internal("no spec to prepare"))?;
                    (action, made) = self.prepare_new(action, spec).await?;
                }
                Ok(Told::Pulled) => return Err(internal("nothing was to be pulled")),
                Ok(told @ (Told::Refused(_) | Told::Storage { .. })) => {
                    made.into_iter().for_each(|id| self.unmake(id));
                    return Err(self.refused(&change.scope, &told));
                }
                // Whether it was accepted is not known: if it was not, the next start sweeps the folder.
                Err(error) => return Err(error.with("key", change.key.as_str())),
            }
        }
        Err(WireError::new(ErrorCode::Busy, "others were faster each time; nothing was done. Try again"))
    }

    /// The action with what was seen of this session. One that is gone by now is refused by the turn.
    async fn looked(&self, session: SessionId, action: Action) -> Action {
        let of = self.view.read().sessions.get(&session).cloned();
        let Some(of) = of else { return action };
        let evidence = Some(Box::new(self.hosts.evidence(of).await));
        Action::Reconcile { target: Ok(session), evidence }
    }

    /// Whether the key is known or may be, and what was read back to find out.
    async fn known_before(&self, change: &Change) -> (bool, Vec<Recalled>) {
        let (known, rows) = match self.view.read().known(&change.scope, &change.key) {
            Known::Here(_) => (true, Vec::new()),
            Known::Perhaps(rows) => (true, rows),
            Known::Nowhere => (false, Vec::new()),
        };
        (known, self.recall(rows).await)
    }

    /// What an earlier request with this key came to, as the view or the ledger has it.
    fn settled_before(&self, change: &Change, recalled: &[Recalled]) -> Option<Settled> {
        let state = self.view.read();
        let here = state.operation_by_key(&change.scope, &change.key).into_iter();
        let mut known = here.chain(recalled.iter().filter_map(Recalled::operation));
        let settled = known.find(|operation| is_settled_by(operation, (&change.scope, &change.key), change.digest))?;
        Some(Settled { operation: Arc::clone(settled), replayed: true, gone: None })
    }

    /// A refusal as this caller may read it.
    fn refused(&self, scope: &Scope, told: &Told) -> WireError {
        let error = refused::told(told, &self.root.join("ledger")).expect("a refusal is an error");
        let Told::Refused(Refusal::NameTaken { name, by }) = told else { return refused::as_seen_by(scope, error) };
        let sees = self.view.read().sessions.get(by).is_some_and(|session| Self::may_see(scope, session));
        if sees { error } else { refused::name_taken(name) }
    }

    async fn prepare_new(&self, action: Action, spec: &Spec) -> Result<(Action, Option<SessionId>), WireError> {
        let id = new_session_id();
        let (root, spec_to_write, name) = (self.root.clone(), spec.clone(), id.to_string());
        let prepared = tokio::task::spawn_blocking(move || {
            let prepared = prepare_session(&root, &name, &spec_to_write)?;
            prepare_episode(&root, &name, 1)?;
            Ok(prepared)
        });
        let prepared: Result<_, crate::host::client::PrepareError> =
            prepared.await.map_err(|error| WireError::new(ErrorCode::Internal, error.to_string()))?;
        let prepared = prepared.map_err(|error| {
            self.unmake(id.clone());
            super::files::unprepared(&error)
        })?;
        let digest = Digest::parse(&prepared.spec_digest).expect("a spec's digest is 64 hex digits");
        self.renderer.learn(&id, &spec.command, &spec.cwd);
        Ok((asked::prepared(action, &id, Some(digest), 1), Some(id)))
    }

    async fn prepare_next(&self, session: &SessionId, episode: u32) -> Result<(), WireError> {
        if !super::hosts::released(&self.root, session, episode).await {
            let message =
                format!("the last host of session {session} is still at work; nothing was done. Try again later");
            return Err(WireError::new(ErrorCode::SessionBusy, message).with("session_id", session.to_string()));
        }
        let (root, name) = (self.root.clone(), session.to_string());
        let prepared = tokio::task::spawn_blocking(move || {
            fail::point(fail::Point::SpawnPrepare).map_err(FileError::at("prepare", &root))?;
            prepare_episode(&root, &name, episode)
        });
        let prepared = prepared.await.map_err(|error| WireError::new(ErrorCode::Internal, error.to_string()))?;
        prepared.map_err(|error| super::files::unprepared(&error))
    }

    /// Whether a session is being removed, or is.
    pub(super) fn is_going(&self, session: &SessionId) -> bool {
        self.view.read().sessions.get(session).is_none_or(|of| of.status == Status::Deleted)
    }

    /// Removes a folder that no record names.
    fn unmake(&self, id: SessionId) {
        self.renderer.forget(&id);
        let root = self.root.clone();
        drop(tokio::task::spawn_blocking(move || {
            if let Err(error) = remove_session_files(&root, id.as_str()) {
                tracing::info!(session = id.as_str(), %error, "a folder that was not needed stays until the next start");
            }
        }));
    }

    /// The outcome of a start, or of what a live session was asked for.
    pub(super) fn started(&self, settled: &Settled) -> Result<Encoded, WireError> {
        let operation = render::operation(&settled.operation, settled.replayed);
        if let Some(error) = failed(&settled.operation) {
            return Err(error.with("replayed", settled.replayed).with("key", settled.operation.key.as_str()));
        }
        let state = self.view.read();
        let current = replayable(&state, &settled.operation);
        if let (true, Err(stale)) = (settled.replayed, current) {
            let session = self.renderer.session_of(&state, &settled.operation, true);
            let is_deleted = session.as_ref().is_none_or(|of| is_deleted(&state, &of.id));
            return Err(endpoint_stale(stale, is_deleted, &settled.operation, operation, session));
        }
        let session = self.renderer.session_of(&state, &settled.operation, false);
        let session = session.ok_or_else(|| WireError::new(ErrorCode::Internal, "the operation names no session"))?;
        Ok(encode(&SpawnResult { session, operation }))
    }

    /// The outcome of an end.
    fn ended(&self, settled: &Settled) -> Result<Encoded, WireError> {
        if let Some(error) = failed(&settled.operation) {
            return Err(error.with("replayed", settled.replayed).with("key", settled.operation.key.as_str()));
        }
        let state = self.view.read();
        let last = settled.gone.as_ref().map(|session| {
            let mut document = self.renderer.session(session, state.generation, (None, wire::Queue::default()));
            document.status = wire::SessionStatus::Deleted;
            document
        });
        let session = last.or_else(|| self.renderer.session_of(&state, &settled.operation, false));
        let session = session.ok_or_else(|| WireError::new(ErrorCode::Internal, "the operation names no session"))?;
        if let Some(gone) = &settled.gone {
            self.renderer.forget(&gone.id);
        }
        let survivors = render::survivors(&settled.operation);
        let operation = render::operation(&settled.operation, settled.replayed);
        Ok(encode(&EndedResult { session, operation, survivors }))
    }
}

/// The start did succeed, but what it made is not what answers now. The stored result travels along (design 4).
fn endpoint_stale(
    stale: Stale,
    is_deleted: bool,
    stored: &Operation,
    operation: wire::Operation,
    session: Option<wire::Session>,
) -> WireError {
    let why = match stale {
        _ if is_deleted => "its session has been deleted since",
        Stale::Replaced => "a newer episode has replaced what it started",
        Stale::Ended => "the episode that it started is over",
        Stale::Unproven => "no endpoint was recorded for it",
    };
    let next =
        if is_deleted { "A new key starts another one" } else { "`ostler resume` with a new key starts it again" };
    let result = session.map(|session| encode_value(&SpawnResult { session, operation }));
    let message = format!("{} succeeded, but {why}; nothing was done. {next}", stored.id);
    let error = WireError::new(ErrorCode::EndpointStale, message);
    let error =
        if is_deleted { error.with("remedy", "the same command with a new --key, or with none") } else { error };
    error
        .reason(stale.word())
        .with("operation", stored.id.to_string())
        .with("state", Outcome::Succeeded.word())
        .with("replayed", true)
        .with("result", result.unwrap_or(Value::Null))
}

pub(super) fn internal(what: &str) -> WireError {
    WireError::new(ErrorCode::Internal, what)
}

/// Whether nothing is left of a session but its records.
fn is_deleted(state: &State, id: &str) -> bool {
    let session = SessionId::parse(id).ok().and_then(|id| state.sessions.get(&id).cloned());
    session.is_none_or(|session| session.status == Status::Deleted)
}

/// 60 random bits as 12 base32 characters.
fn new_session_id() -> SessionId {
    let text = BASE32_NOPAD.encode(&entropy::bytes::<8>()).to_lowercase();
    SessionId::parse(&text[..12]).expect("base32 in lower case is a session id")
}
