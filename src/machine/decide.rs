//! A request meets the state: events, or a refusal. The order of the questions is fixed: the key first (a retry is
//! answered whatever became of its target), then the caller's rights, then the session's table.

use super::event::{Decided, Event, FenceChange, Plan, SessionChange};
use super::footprint::Footprint;
use super::id::{Digest, OperationId, Scope, SessionId};
use super::input::{Action, Input, PreparedSession, Request, Target};
use super::limits;
use super::observe::observe;
use super::operation::{Gained, Kind, Operation, Outcome};
use super::refusal::Refusal;
use super::session::{Ask, Move, Session, Status, on_request};
use super::state::State;
use super::time::Time;
use std::sync::Arc;

/// What a turn learns from one input.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Decision {
    /// The facts that follow, in order.
    pub events: Vec<Event>,
    /// What the caller is told, or waits for.
    pub answer: Answer,
}

/// What the caller of a request is told, or waits for.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Answer {
    /// Nobody asked.
    #[default]
    Nothing,
    /// The outcome of this operation, as soon as it has one and that is durable.
    Operation {
        /// Which.
        id: OperationId,
        /// Whether the key was known before.
        replayed: bool,
    },
    /// Refused; binds nothing and need not wait for a sync.
    Refused(Refusal),
    /// The shell must put this episode's files on disk first and ask again.
    Prepare {
        /// The session, or none for a new one.
        session: Option<SessionId>,
        /// The episode.
        episode: u32,
    },
    /// The key may belong to one of these operations, which were let go: the shell must read their records back and
    /// ask again.
    Recall(Vec<Footprint>),
    /// The shell must look at this session's processes and files, and ask again with what it saw.
    Look {
        /// Which.
        session: SessionId,
    },
    /// The shell must put a message's text for this session on disk first and ask again.
    Store {
        /// Which.
        session: SessionId,
    },
    /// What was pulled is delivered, durably.
    Pulled,
    /// The outcome of this operation, which was let go and read back.
    Recalled(Arc<Operation>),
}

/// Decides one input. `seq` is the ledger position that the first event of this decision will get.
pub fn decide(state: &State, now: Time, seq: u64, input: &Input) -> Decision {
    match input {
        Input::Request(request) => decide_request(state, now, seq, request),
        Input::Observation(observation) => plain(observe(state, now, observation)),
        Input::Pull { session, messages } => {
            Decision { events: super::mail::pull(state, session, messages), answer: Answer::Pulled }
        }
        Input::Beat { seen, whole } => plain(super::deadline::beat(state, seen, *whole)),
        Input::Tick => plain(super::deadline::tick(state, now)),
        Input::Generation(generation) => plain(vec![Event::Generation { body: generation.clone() }]),
    }
}

fn plain(events: Vec<Event>) -> Decision {
    Decision { events, answer: Answer::Nothing }
}

pub(super) fn refused(refusal: Refusal) -> Decision {
    Decision { events: Vec::new(), answer: Answer::Refused(refusal) }
}

fn decide_request(state: &State, now: Time, seq: u64, request: &Request) -> Decision {
    if let Some(decision) = super::keyed::asked_before(state, now, request) {
        return decision;
    }
    let ask = Asked { state, now, seq, request };
    match &request.action {
        Action::Spawn { prepared, name, labels, adapter, readiness, source } => {
            let plan = |spec, deadline_boot_us, source| Plan::Spawn {
                name: name.clone(),
                labels: labels.clone(),
                spec,
                deadline_boot_us,
                adapter: *adapter,
                readiness: *readiness,
                source,
            };
            ask.spawn(prepared.as_ref(), name.as_ref(), source.as_ref(), plan)
        }
        Action::Send(parcel) => ask.send(parcel),
        Action::Cancel { message } => ask.cancel(message),
        Action::ResolveMessage { message, again } => ask.settle_message(message, *again),
        Action::Acknowledge { messages } => ask.acknowledge(messages),
        Action::Report(post) => ask.report(post),
        Action::Resume { target, prepared } => ask.on_session(target, Ask::Resume, (0, None), *prepared),
        Action::Stop { target, grace_ms, reason } => {
            ask.on_session(target, Ask::Stop, (*grace_ms, reason.as_ref()), None)
        }
        Action::Interrupt { target } => ask.interrupt(target),
        Action::Turn { number, episode, begins } => ask.turn(*number, *episode, *begins),
        Action::Ready { episode } => ask.ready(*episode),
        Action::Delete { target, stop, grace_ms, reason } => {
            let ask_for = if *stop { Ask::DeleteStop } else { Ask::Delete };
            ask.on_session(target, ask_for, (*grace_ms, reason.as_ref()), None)
        }
        Action::Prune { older_ms } => ask.prune(*older_ms),
        Action::Reconcile { target, evidence } => ask.reconcile(target, evidence.as_deref()),
        Action::Resolve { operation, succeeded, reason } => ask.resolve(operation, *succeeded, reason),
    }
}

/// A request with a key that binds nothing yet.
pub(super) struct Asked<'a> {
    pub(super) state: &'a State,
    pub(super) now: Time,
    seq: u64,
    pub(super) request: &'a Request,
}

impl Asked<'_> {
    fn operation(&self) -> OperationId {
        OperationId(self.seq)
    }

    pub(super) fn accept(&self, kind: Kind, sid: Option<&SessionId>, ep: Option<u32>, body: Plan) -> Event {
        Event::Accept {
            sid: sid.cloned(),
            ep,
            op: self.operation(),
            kind,
            key: self.request.key.clone(),
            req: self.request.digest,
            act: self.request.actor.clone(),
            body,
        }
    }

    pub(super) fn done(&self, kind: Kind, sid: Option<&SessionId>, res: Gained) -> Event {
        let op = self.operation();
        Event::Finish { sid: sid.cloned(), op, kind, st: Outcome::Succeeded, err: None, res, body: None }
    }

    pub(super) fn answered(&self, events: Vec<Event>) -> Decision {
        Decision { events, answer: Answer::Operation { id: self.operation(), replayed: false } }
    }

    fn spawn(
        &self,
        prepared: Option<&PreparedSession>,
        name: Option<&super::id::Name>,
        source: Option<&Target>,
        plan: impl FnOnce(Digest, u64, Option<SessionId>) -> Plan,
    ) -> Decision {
        let source = match source.map(|source| self.copied(source)).transpose() {
            Ok(source) => source,
            Err(refusal) => return refused(refusal),
        };
        if let Some(name) = name
            && let Some(by) = self.state.names.get(name)
        {
            return refused(Refusal::NameTaken { name: name.clone(), by: by.clone() });
        }
        if let Err(refusal) = self.request.family.may_grow(self.state, self.request.actor.sid.as_ref()) {
            return refused(refusal);
        }
        let Some(prepared) = prepared else {
            return Decision { events: Vec::new(), answer: Answer::Prepare { session: None, episode: 1 } };
        };
        if self.state.sessions.get(&prepared.id).is_some() || self.state.removals.get(&prepared.id).is_some() {
            return Decision { events: Vec::new(), answer: Answer::Prepare { session: None, episode: 1 } };
        }
        let kind = if source.is_some() { Kind::Fork } else { Kind::Spawn };
        let plan = plan(prepared.spec, self.now.boot_after_ms(limits::START_WITHIN_MS), source);
        self.answered(vec![self.accept(kind, Some(&prepared.id), Some(1), plan)])
    }

    /// The session that a new one is a copy of. Whether its own truth is known does not matter: what it runs is.
    fn copied(&self, source: &Target) -> Result<SessionId, Refusal> {
        let id = source.clone()?;
        match self.state.sessions.get(&id) {
            Some(session) if !may(&self.request.scope, session) => Err(Refusal::NoSession { given: id.to_string() }),
            Some(session) if session.status != Status::Deleted => Ok(id),
            Some(_) => Err(Refusal::Gone { session: id }),
            None => Err(Refusal::NoSession { given: id.to_string() }),
        }
    }

    pub(super) fn found(&self, target: &Target) -> Result<&Session, Refusal> {
        let id = target.clone()?;
        let session = match self.state.sessions.get(&id) {
            Some(session) if may(&self.request.scope, session) => session,
            Some(_) | None => return Err(Refusal::NoSession { given: id.to_string() }),
        };
        match &session.fence {
            Some(fence) => Err(Refusal::Fenced { session: id, fence: fence.clone() }),
            None => Ok(session),
        }
    }

    fn on_session(&self, target: &Target, ask: Ask, end: (u64, Option<&String>), prepared: Option<u32>) -> Decision {
        match self.found(target) {
            Ok(session) => self.moved(session, ask, end, prepared),
            Err(refusal) => refused(refusal),
        }
    }

    fn moved(
        &self,
        session: &Session,
        ask: Ask,
        (grace_ms, reason): (u64, Option<&String>),
        prepared: Option<u32>,
    ) -> Decision {
        let id = &session.id;
        let kind = match ask {
            Ask::Resume => Kind::Resume,
            Ask::Stop => Kind::Stop,
            Ask::Delete | Ask::DeleteStop => Kind::Delete,
        };
        let accept = |ep: u32, plan: Plan| self.accept(kind, Some(id), Some(ep), plan);
        match on_request(session.status, ask) {
            Move::Done => {
                let done = self.done(kind, Some(id), gained(session));
                self.answered(vec![accept(session.episode, Plan::Nothing), done])
            }
            Move::Join if session.waiting().count() >= limits::WAITING_OPERATIONS => {
                refused(Refusal::Crowded { session: id.clone() })
            }
            Move::Join => {
                let plan = reason.map_or(Plan::Join, |reason| Plan::JoinFor { reason: reason.clone() });
                self.answered(vec![accept(session.episode, plan)])
            }
            Move::Launch => self.launch(session, prepared),
            Move::End => {
                let grace_ms = grace_ms.min(limits::STOP_GRACE_MS_MAX);
                let deadline_boot_us = self.now.boot_after_ms(grace_ms);
                let delete = ask == Ask::DeleteStop;
                let plan = Plan::End { grace_ms, deadline_boot_us, delete, reason: reason.cloned() };
                let mut events = vec![accept(session.episode, plan)];
                events.extend(super::ready::cancelled(self.state, session));
                self.answered(events)
            }
            Move::Remove => self.answered(vec![accept(session.episode, Plan::Remove)]),
            Move::Live => refused(Refusal::Live { session: id.clone() }),
            Move::Busy => refused(Refusal::Stopping { session: id.clone() }),
            Move::Gone => refused(Refusal::Gone { session: id.clone() }),
        }
    }

    fn launch(&self, session: &Session, prepared: Option<u32>) -> Decision {
        if let Err(refusal) = self.may_rise(session) {
            return refused(refusal);
        }
        let (id, episode) = (&session.id, session.next_episode);
        if prepared != Some(episode) {
            return Decision { events: Vec::new(), answer: Answer::Prepare { session: Some(id.clone()), episode } };
        }
        let deadline_boot_us = self.now.boot_after_ms(limits::START_WITHIN_MS);
        self.answered(vec![self.accept(Kind::Resume, Some(id), Some(episode), Plan::Launch { deadline_boot_us })])
    }

    /// Whether a session that has ended may live again.
    pub(super) fn may_rise(&self, session: &Session) -> Result<(), Refusal> {
        let caller = self.request.actor.sid.as_ref();
        self.request.family.may_rise(self.state, session.parent.as_ref(), caller)
    }

    fn prune(&self, older_ms: u64) -> Decision {
        if self.request.scope != Scope::Owner {
            return refused(Refusal::OwnerOnly);
        }
        let candidates: Vec<_> = prunable(self.state, self.now, older_ms).collect();
        let chosen = candidates.get(..limits::PRUNE_SESSIONS).unwrap_or(&candidates);
        let mut events = vec![self.accept(Kind::Prune, None, None, Plan::Prune { older_ms })];
        events.extend(chosen.iter().map(|session| Event::Session {
            sid: session.id.clone(),
            ep: session.episode,
            body: SessionChange::Forgotten,
        }));
        let pruned = chosen.iter().map(|session| session.id.clone()).collect();
        let left = u64::try_from(candidates.len() - chosen.len()).ok();
        let gained = Gained { pruned, left, ..Gained::default() };
        events.push(self.done(Kind::Prune, None, gained));
        self.answered(events)
    }

    fn reconcile(&self, target: &Target, evidence: Option<&super::reconcile::Evidence>) -> Decision {
        if self.request.scope != Scope::Owner {
            return refused(Refusal::OwnerOnly);
        }
        let session = match target.as_ref().map(|id| (id, self.state.sessions.get(id))) {
            Ok((_, Some(session))) => session,
            Ok((id, None)) => return refused(Refusal::NoSession { given: id.to_string() }),
            Err(refusal) => return refused(refusal.clone()),
        };
        let (id, episode) = (Some(&session.id), Some(session.episode));
        let accept = |plan| self.accept(Kind::Reconcile, id, episode, plan);
        let done = |gained| self.done(Kind::Reconcile, id, gained);
        let decided = super::reconcile::reconcile((self.state, self.now), session, evidence, accept, done);
        decided.map_or_else(|decision| decision, |events| self.answered(events))
    }

    fn resolve(&self, found: &Result<OperationId, Refusal>, succeeded: bool, reason: &str) -> Decision {
        if self.request.scope != Scope::Owner {
            return refused(Refusal::OwnerOnly);
        }
        let id = match found {
            Ok(id) => *id,
            Err(refusal) => return refused(refusal.clone()),
        };
        let Some(operation) = self.state.operations.get(&id) else {
            return refused(Refusal::NoOperation { given: id.to_string() });
        };
        if operation.state != Outcome::Uncertain {
            return refused(Refusal::NotUncertain { operation: id, state: operation.state });
        }
        let outcome = if succeeded { Outcome::Succeeded } else { Outcome::Failed };
        let decided = Decided { operation: id, outcome, reason: reason.to_owned() };
        // The chain of a session that is gone with its files has ended.
        let open = |sid: &&SessionId| self.state.sessions.get(sid).is_some() || self.state.removals.get(sid).is_some();
        let sid = operation.session.as_ref().filter(open);
        let mut events = vec![self.accept(Kind::Resolve, sid, None, Plan::Nothing)];
        events.push(Event::Operator { act: self.request.actor.clone(), body: decided });
        let fenced = operation.session.as_ref().and_then(|sid| self.state.sessions.get(sid));
        if let Some(session) = fenced
            && session.fence.as_ref().is_some_and(|fence| fence.operation == Some(id))
        {
            let body = FenceChange { fence: None };
            events.push(Event::Fence { sid: session.id.clone(), ep: session.episode, body });
        }
        events.push(self.done(Kind::Resolve, sid, Gained::default()));
        self.answered(events)
    }
}

/// Ended sessions that a prune would forget, oldest first.
pub fn prunable(state: &State, now: Time, older_ms: u64) -> impl Iterator<Item = &Session> {
    let before_us = now.wall_us.saturating_sub(older_ms.saturating_mul(1_000));
    state.ages.values().filter_map(|id| state.sessions.get(id)).map(std::convert::AsRef::as_ref).filter(
        move |session| {
            let ended = matches!(
                session.status,
                super::session::Status::Stopped
                    | super::session::Status::Exited
                    | super::session::Status::Failed
                    | super::session::Status::Interrupted
            );
            ended && session.fence.is_none() && session.ended_us.is_some_and(|at| at <= before_us)
        },
    )
}

/// Mutations belong to the owner and, for its direct children, to a session (requirement R66). Another's session
/// reads as unknown, so that a denial does not reveal that it exists (R70).
fn may(scope: &Scope, session: &Session) -> bool {
    match scope {
        Scope::Owner => true,
        Scope::Session(id) => session.parent.as_ref() == Some(id),
    }
}

/// What an operation that found its goal reached gains.
pub(super) fn gained(session: &Session) -> Gained {
    let run = session.run.as_ref();
    Gained {
        episode: Some(session.episode),
        address: run.map(|run| run.address.clone()),
        incarnation: run.map(|run| run.incarnation),
        pid: run.map(|run| run.command.pid),
        host_pid: run.map(|run| run.host.pid),
        status: Some(session.status),
        exit: session.exit.clone(),
        ..Gained::default()
    }
}
