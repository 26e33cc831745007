//! What must hold after every event. A violation is a bug of ours: tests and the simulation check after each step,
//! a debug build after each turn.

use super::effect::open_operations;
use super::operation::Outcome;
use super::session::Status;
use super::state::State;
use std::collections::BTreeSet;

/// All violations, each as a sentence; empty means sound.
pub fn violations(state: &State) -> Vec<String> {
    let mut found = Vec::new();
    let mut claim = |holds: bool, what: String| {
        if !holds {
            found.push(what);
        }
    };
    for (id, session) in state.sessions.iter() {
        claim(session.id == *id, format!("{id}: stands under another id"));
        claim(state.removals.get(id).is_none(), format!("{id}: is listed and owed a removal"));
        claim(state.ages.get(&session.created_seq) == Some(id), format!("{id}: is missing in the order of ages"));
        claim(session.episode >= 1 && session.episode < session.next_episode, format!("{id}: episode numbers go back"));
        claim(session.proven <= state.generation, format!("{id}: proven by a generation to come"));
        let runs = matches!(session.status, Status::Unready | Status::Ready | Status::Running);
        claim(!runs || session.run.is_some(), format!("{id}: {} without a run", session.status.word()));
        claim(
            session.turn.is_some() == (session.status == Status::Running),
            format!("{id}: {} with {:?}", session.status.word(), session.turn),
        );
        let is_over = |turn: super::turns::Turn| session.turn_over.is_some_and(|over| turn.number <= over);
        claim(!session.turn.is_some_and(is_over), format!("{id}: runs a turn that is over"));
        claim(
            session.starts.is_empty() || session.status.is_live(),
            format!("{id}: a start waits in {:?}", session.status),
        );
        claim(
            session.stops.is_empty() || session.status == Status::Stopping,
            format!("{id}: a stop waits in {:?}", session.status),
        );
        claim(
            session.deletes.is_empty() || matches!(session.status, Status::Stopping | Status::Deleted),
            format!("{id}: a delete waits in {:?}", session.status),
        );
        claim(
            session.interrupts.is_empty() || session.status.is_live(),
            format!("{id}: an interrupt waits in {:?}", session.status),
        );
        claim(session.status.is_live() || session.prior.is_none(), format!("{id}: keeps what it was before a start"));
        if let Some(name) = &session.name {
            claim(state.names.get(name) == Some(id), format!("{id}: its name {name} leads elsewhere"));
        }
    }
    claim(state.ages.len() == state.sessions.len(), "ages and sessions differ in number".to_owned());
    let named = state.sessions.values().filter(|session| session.name.is_some()).count();
    claim(state.names.len() == named, "a name leads to no session".to_owned());
    let live = state.sessions.values().filter(|session| session.status.is_live()).count();
    claim(state.live == live, format!("{} live sessions are counted, {live} are there", state.live));
    for ((scope, key), id) in state.keys.iter() {
        let bound = state.operations.get(id).is_some_and(|operation| {
            operation.scope == *scope && operation.key == *key && operation.state != Outcome::Aborted
        });
        claim(bound, format!("key {key} leads to {id}, which is not bound by it"));
    }
    let waiting: Vec<_> = open_operations(state).map(|(id, _)| id).collect();
    claim(state.open == waiting.len(), format!("{} open operations are counted, {} wait", state.open, waiting.len()));
    let unique: BTreeSet<_> = waiting.iter().copied().collect();
    claim(waiting.len() == unique.len(), "an operation waits twice".to_owned());
    for (id, operation) in state.operations.iter() {
        let open = operation.state == Outcome::Accepted;
        claim(
            open == unique.contains(id),
            format!("{id}: {} and {}waiting", operation.state.word(), if open { "not " } else { "" }),
        );
    }
    found.extend(super::ready::wrong(state));
    found.extend(state.families_wrong());
    found.extend(state.retained_wrongly());
    found.extend(state.mail_wrong());
    found.extend(state.reports_wrong());
    found
}
