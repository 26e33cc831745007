//! A fact meets the state. Total and silent: what `decide` never emits is refused as [`Illegal`], so that a ledger
//! which says the impossible stops a start instead of being believed.

use super::ending::{Halt, arm, begin, disarm};
use super::event::{Decided, Event, FenceChange, Generation, HostChange, Plan, SessionChange};
use super::family::{rose, sank};
use super::footprint::Runs;
use super::id::{Digest, Key, OperationId, SessionId};
use super::operation::{Actor, Failure, Gained, Kind, Operation, Outcome};
use super::session::{Session, Status};
use super::state::State;
use super::table::Table;
use super::time::Time;
use std::sync::Arc;

/// Where and when a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Its ledger position.
    pub seq: u64,
    /// When its turn was.
    pub time: Time,
}

/// A record that cannot follow the state it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Illegal(
    /// Which rule it breaks.
    pub &'static str,
);

/// Applies one event.
///
/// # Errors
/// [`Illegal`] if the event cannot follow this state. The state may then be half changed and must be dropped.
pub fn apply(state: &mut State, event: &Event, at: At) -> Result<(), Illegal> {
    applied(state, event, at)?;
    if let Event::Accept { sid: Some(sid), .. }
    | Event::Session { sid, .. }
    | Event::Fence { sid, .. }
    | Event::Message { sid, .. } = event
    {
        super::interrupts::renew(state, sid);
    }
    Ok(())
}

fn applied(state: &mut State, event: &Event, at: At) -> Result<(), Illegal> {
    match event {
        Event::Generation { body } => generation(state, body),
        Event::Accept { sid, ep, op, kind, key, req, act, body } => {
            if op.0 != at.seq {
                return Err(Illegal("an operation's id is the position of its own record"));
            }
            let operation = accepted((*op, *kind, body), (act, key), *req, sid.as_ref(), at);
            let bound = (operation.scope.clone(), operation.key.clone());
            if state.keys.get(&bound).is_some_and(|known| state.operations.get(known).is_some()) {
                return Err(Illegal("a key binds one operation"));
            }
            state.free_form += usize::from(operation.is_free_form());
            state.open += 1;
            state.keys.insert(bound, *op);
            state.operations.insert(*op, Arc::new(operation));
            accept(state, sid.as_ref(), *ep, (*op, *kind), (act, key), body, at)?;
            state.hold(*op, sid.as_ref());
            Ok(())
        }
        Event::Finish { sid, op, st, res, body, .. } => {
            settle(state, *op, *st, at.seq, res.clone(), body.clone())?;
            let waiting = sid.as_ref().and_then(|sid| state.sessions.get_mut(sid));
            if let Some(session) = waiting {
                let session = Arc::make_mut(session);
                for list in [&mut session.starts, &mut session.stops, &mut session.deletes, &mut session.interrupts] {
                    list.retain(|waiting| waiting != op);
                }
                if !super::ending::is_awaited(session) {
                    disarm(&mut state.deadlines, session);
                }
            }
            Ok(())
        }
        Event::Host { sid, ep, body } => host(state, sid, *ep, body, at),
        Event::Session { sid, ep, body } => change(state, sid, *ep, body, at),
        Event::Fence { sid, body, .. } => fence(state, sid, body),
        Event::Message { sid, ep, body } => super::apply_mail::message(state, sid, *ep, body, at),
        Event::Queue { sid, body, .. } => super::apply_mail::queue(state, sid, body, at),
        Event::Notice { sid, body, .. } => super::notice::told(state, sid, body, at),
        Event::Beat { body } => {
            for (id, seen_us) in &body.seen {
                if let Some(session) = state.sessions.get_mut(id) {
                    let session = Arc::make_mut(session);
                    session.last_seen_us = session.last_seen_us.max(*seen_us);
                }
            }
            Ok(())
        }
        Event::Conflict { .. } => Ok(()),
        Event::Operator { body, .. } => {
            settle(state, body.operation, body.outcome, at.seq, Gained::default(), decided(body))
        }
    }
}

/// An operation as the record that accepts it makes it.
pub(super) fn accepted(
    (id, kind, plan): (OperationId, Kind, &Plan),
    (act, key): (&Actor, &Key),
    request: Digest,
    session: Option<&SessionId>,
    at: At,
) -> Operation {
    Operation {
        id,
        kind,
        scope: act.scope(),
        key: key.clone(),
        request,
        session: session.cloned(),
        state: Outcome::Accepted,
        seq: at.seq,
        digest: Digest::default(),
        accepted_us: at.time.wall_us,
        reason: plan.reason().cloned(),
        gained: Gained::default(),
        failure: None,
    }
}

/// The error of an operation that an operator called failed.
pub(super) fn decided(decided: &Decided) -> Option<Failure> {
    let failure = Failure {
        code: "uncertain".to_owned(),
        reason: "resolved".to_owned(),
        message: decided.reason.clone(),
        obstacle: None,
    };
    (decided.outcome != Outcome::Succeeded).then_some(failure)
}

fn generation(state: &mut State, body: &Generation) -> Result<(), Illegal> {
    if body.number <= state.generation {
        return Err(Illegal("a generation must be larger than the one before"));
    }
    state.generation = body.number;
    if body.process.boot != state.boot {
        state.boot.clone_from(&body.process.boot);
        expire_starts(state);
    }
    Ok(())
}

/// A deadline on another boot's clock says nothing on this one, and who waited for the start is gone with the machine:
/// as with what ran, nothing starts by itself afterwards.
fn expire_starts(state: &mut State) {
    let starting = state.sessions.iter().filter(|(_, session)| session.status == Status::Starting);
    let starting: Vec<_> = starting.map(|(id, _)| id.clone()).collect();
    for id in starting {
        if let Some(session) = state.sessions.get_mut(&id) {
            Arc::make_mut(session).deadline_boot_us = 0;
        }
    }
}

fn settle(
    state: &mut State,
    id: OperationId,
    outcome: Outcome,
    seq: u64,
    gained: Gained,
    failure: Option<Failure>,
) -> Result<(), Illegal> {
    let operation = state.operations.get_mut(&id).ok_or(Illegal("an outcome without an operation"))?;
    let operation = Arc::make_mut(operation);
    let was = operation.state;
    operation.settle(outcome, seq, gained, failure)?;
    if was == Outcome::Accepted {
        state.open -= 1;
    }
    match outcome {
        Outcome::Aborted => {
            let key = (operation.scope.clone(), operation.key.clone());
            state.free_form -= usize::from(operation.is_free_form()).min(state.free_form);
            state.keys.remove(&key);
        }
        Outcome::Succeeded | Outcome::Failed | Outcome::Uncertain if was == Outcome::Accepted => state.settled += 1,
        Outcome::Accepted | Outcome::Succeeded | Outcome::Failed | Outcome::Uncertain => {}
    }
    state.loose.push(id);
    Ok(())
}

fn accept(
    state: &mut State,
    sid: Option<&SessionId>,
    ep: Option<u32>,
    (op, kind): (OperationId, Kind),
    (act, key): (&Actor, &Key),
    plan: &Plan,
    at: At,
) -> Result<(), Illegal> {
    const NO_SESSION: Illegal = Illegal("a plan without its session");
    let generation = state.generation;
    if let Plan::Spawn { .. } = plan {
        return spawn(state, sid.ok_or(NO_SESSION)?, op, act, plan, at);
    }
    if matches!(plan, Plan::Nothing | Plan::Prune { .. }) {
        return Ok(());
    }
    let sid = sid.ok_or(NO_SESSION)?;
    if let Plan::Send { .. } = plan {
        return super::apply_mail::sent(state, sid, (op, act, key), plan, at);
    }
    if let Plan::Report { .. } = plan {
        return super::report::posted(state, sid, op, plan, at);
    }
    let session = Arc::make_mut(state.sessions.get_mut(sid).ok_or(NO_SESSION)?);
    let (live, gone) = (session.status.is_live(), session.status == Status::Deleted);
    let legal = match plan {
        Plan::Launch { .. } | Plan::Remove => !live && !gone,
        Plan::End { .. } | Plan::Interrupt => live,
        Plan::Settle => !gone,
        Plan::Join
        | Plan::JoinFor { .. }
        | Plan::Spawn { .. }
        | Plan::Send { .. }
        | Plan::Report { .. }
        | Plan::Nothing
        | Plan::Prune { .. } => true,
    };
    if !legal {
        return Err(Illegal("a plan that cannot follow the session's status"));
    }
    match plan {
        Plan::Launch { deadline_boot_us } => {
            launch(session, ep.ok_or(Illegal("a launch without its episode"))?, *deadline_boot_us, generation);
            session.starts = vec![op];
            rose((&mut state.live, &mut state.children), session);
        }
        Plan::End { grace_ms, deadline_boot_us, delete, reason } => {
            let (by, reason) = (Some(act.scope()), reason.clone());
            let (asked_us, grace_ms) = (at.time.wall_us, *grace_ms);
            let halt = Halt { operation: Some(op), by, reason, asked_us, grace_ms, turn: None };
            disarm(&mut state.deadlines, session);
            begin(session, halt, *deadline_boot_us);
            let list = if *delete { &mut session.deletes } else { &mut session.stops };
            list.push(op);
            arm(&mut state.deadlines, session, *deadline_boot_us);
        }
        Plan::Remove => {
            session.status = Status::Deleted;
            session.deletes.push(op);
        }
        Plan::Join | Plan::JoinFor { .. } => join(session, &mut state.deadlines, (op, kind), at)?,
        Plan::Interrupt => session.interrupts.push(op),
        Plan::Settle => session.settled_seq = op.0,
        Plan::Spawn { .. } | Plan::Send { .. } | Plan::Report { .. } | Plan::Nothing | Plan::Prune { .. } => {}
    }
    Ok(())
}

/// An operation waits for what is under way.
fn join(
    session: &mut Session,
    deadlines: &mut Table<(u64, SessionId), u32>,
    (op, kind): (OperationId, Kind),
    at: At,
) -> Result<(), Illegal> {
    let list = match kind {
        Kind::Resume => &mut session.starts,
        Kind::Stop => &mut session.stops,
        Kind::Delete => &mut session.deletes,
        Kind::Spawn
        | Kind::Fork
        | Kind::Prune
        | Kind::Reconcile
        | Kind::Resolve
        | Kind::Send
        | Kind::Cancel
        | Kind::ResolveMessage
        | Kind::Interrupt
        | Kind::Turn
        | Kind::Ready
        | Kind::Acknowledge
        | Kind::Report => return Err(Illegal("this kind joins nothing")),
    };
    list.push(op);
    if kind != Kind::Resume && session.status == Status::Stopping && session.due_boot_us.is_none() {
        arm(deadlines, session, at.time.boot_us);
    }
    Ok(())
}

/// A new episode begins; what the session was is kept until that is proven.
fn launch(session: &mut Session, episode: u32, deadline_boot_us: u64, generation: u64) {
    let prior = Session { prior: None, latest: Vec::new(), held: Runs::default(), ..session.clone() };
    session.prior = Some(Arc::new(prior));
    session.status = Status::Starting;
    session.episode = episode;
    session.next_episode = episode.saturating_add(1);
    session.run = None;
    (session.started_us, session.ended_us, session.exit, session.reason) = (None, None, None, None);
    (session.turn, session.turn_over, session.stop) = (None, None, None);
    session.is_ready = false;
    session.deadline_boot_us = deadline_boot_us;
    session.proven = generation;
}

fn spawn(state: &mut State, sid: &SessionId, op: OperationId, act: &Actor, plan: &Plan, at: At) -> Result<(), Illegal> {
    let Plan::Spawn { name, labels, spec, deadline_boot_us, adapter, readiness, source } = plan else { return Ok(()) };
    if state.sessions.get(sid).is_some() {
        return Err(Illegal("a session id is never used again"));
    }
    if let Some(name) = name {
        if state.names.get(name).is_some() {
            return Err(Illegal("a name belongs to one session"));
        }
        state.names.insert(name.clone(), sid.clone());
    }
    let session = Session {
        id: sid.clone(),
        name: name.clone(),
        parent: act.sid.clone(),
        depth: super::family::depth_below(state, act.sid.as_ref()),
        labels: labels.clone(),
        spec: *spec,
        adapter: *adapter,
        readiness: *readiness,
        forked_from: source.clone(),
        is_ready: false,
        created_seq: at.seq,
        created_us: at.time.wall_us,
        status: Status::Starting,
        reason: None,
        episode: 1,
        next_episode: 2,
        run: None,
        started_us: None,
        ended_us: None,
        exit: None,
        last_seen_us: at.time.wall_us,
        proven: state.generation,
        deadline_boot_us: *deadline_boot_us,
        grace_ms: 0,
        stop: None,
        due_boot_us: None,
        fence: None,
        settled_seq: 0,
        prior: None,
        starts: vec![op],
        stops: Vec::new(),
        deletes: Vec::new(),
        interrupts: Vec::new(),
        turn: None,
        turn_over: None,
        latest: Vec::new(),
        held: Runs::default(),
    };
    rose((&mut state.live, &mut state.children), &session);
    state.sessions.insert(sid.clone(), Arc::new(session));
    state.ages.insert(at.seq, sid.clone());
    Ok(())
}

fn host(state: &mut State, sid: &SessionId, ep: u32, change: &HostChange, at: At) -> Result<(), Illegal> {
    let generation = state.generation;
    let session = state.sessions.get_mut(sid).ok_or(Illegal("word of a host without its session"))?;
    let session = Arc::make_mut(session);
    if session.episode != ep || !session.status.is_live() {
        return Err(Illegal("word of a host whose episode is over"));
    }
    session.proven = generation;
    match change {
        HostChange::Started(run) => {
            session.run = Some(run.clone());
            session.started_us = Some(run.started_us);
            session.last_seen_us = session.last_seen_us.max(at.time.wall_us);
            session.prior = None;
            if session.status == Status::Starting {
                super::ready::started(session, &mut state.deadlines, at);
            }
        }
        HostChange::Adopted(run) => session.run = Some(run.clone()),
        HostChange::Unopened => {}
    }
    Ok(())
}

fn change(state: &mut State, sid: &SessionId, ep: u32, change: &SessionChange, at: At) -> Result<(), Illegal> {
    const NO_SESSION: Illegal = Illegal("a change without its session");
    if matches!(change, SessionChange::Removed) && state.removals.remove(sid).is_some() {
        return Ok(());
    }
    if let SessionChange::Woken { deadline_boot_us } = change {
        return woken(state, sid, ep, *deadline_boot_us);
    }
    let session = Arc::make_mut(state.sessions.get_mut(sid).ok_or(NO_SESSION)?);
    if session.episode != ep {
        return Err(Illegal("a change of another episode"));
    }
    let changed = super::turns::changed(session, change, at);
    if let Some(changed) = changed.or_else(|| super::ready::changed(session, &mut state.deadlines, change, at)) {
        return changed;
    }
    let live = session.status.is_live();
    let legal = match change {
        SessionChange::Ended { status, .. } => live && !status.is_live() && *status != Status::Deleted,
        SessionChange::Aborted => live,
        SessionChange::Deleting | SessionChange::Forgotten => !live && session.status != Status::Deleted,
        SessionChange::Removed => session.status == Status::Deleted,
        SessionChange::Woken { .. }
        | SessionChange::Overdue { .. }
        | SessionChange::Ready
        | SessionChange::Unready { .. }
        | SessionChange::TurnBegan { .. }
        | SessionChange::TurnEnded { .. } => false,
    };
    if !legal {
        return Err(Illegal("a change that cannot follow the session's status"));
    }
    if live {
        sank((&mut state.live, &mut state.children), session);
        disarm(&mut state.deadlines, session);
    }
    match change {
        SessionChange::Ended { exit, status, reason, at_us } => {
            session.status = *status;
            super::turns::left(session);
            session.reason.clone_from(reason);
            session.exit = Some(exit.clone());
            session.ended_us = Some(*at_us);
            session.last_seen_us = session.last_seen_us.max(*at_us);
            session.proven = state.generation;
            session.prior = None;
            super::report::unreported(state, sid, (*status, exit), at);
        }
        SessionChange::Aborted => match session.prior.take() {
            Some(prior) => back(session, prior, state.generation),
            None => super::leave::leave(state, sid, Some(ep), at),
        },
        SessionChange::Deleting => session.status = Status::Deleted,
        SessionChange::Forgotten => super::leave::leave(state, sid, Some(ep), at),
        SessionChange::Removed => super::leave::leave(state, sid, None, at),
        SessionChange::Woken { .. }
        | SessionChange::Overdue { .. }
        | SessionChange::Ready
        | SessionChange::Unready { .. }
        | SessionChange::TurnBegan { .. }
        | SessionChange::TurnEnded { .. } => {}
    }
    Ok(())
}

/// A start came to nothing: the session is what it was before.
fn back(session: &mut Session, prior: Arc<Session>, generation: u64) {
    let mut back = Arc::unwrap_or_clone(prior);
    back.next_episode = session.next_episode;
    back.proven = generation;
    back.starts = std::mem::take(&mut session.starts);
    back.stops = std::mem::take(&mut session.stops);
    back.deletes = std::mem::take(&mut session.deletes);
    back.interrupts = std::mem::take(&mut session.interrupts);
    back.settled_seq = session.settled_seq;
    back.latest = std::mem::take(&mut session.latest);
    back.held = std::mem::take(&mut session.held);
    *session = back;
}

fn woken(state: &mut State, sid: &SessionId, ep: u32, deadline_boot_us: u64) -> Result<(), Illegal> {
    let session = state.sessions.get_mut(sid).ok_or(Illegal("nobody is woken"))?;
    let session = Arc::make_mut(session);
    if session.status.is_live() || session.status == Status::Deleted || ep < session.next_episode {
        return Err(Illegal("only what has ended is woken, for a new episode"));
    }
    launch(session, ep, deadline_boot_us, state.generation);
    rose((&mut state.live, &mut state.children), session);
    Ok(())
}

fn fence(state: &mut State, sid: &SessionId, change: &FenceChange) -> Result<(), Illegal> {
    let generation = state.generation;
    let session = state.sessions.get_mut(sid).ok_or(Illegal("a fence without its session"))?;
    let session = Arc::make_mut(session);
    // A fence that comes down leaves the world to be asked again; one that goes up has just asked it.
    session.proven = if change.fence.is_some() { generation } else { 0 };
    session.fence.clone_from(&change.fence);
    Ok(())
}
