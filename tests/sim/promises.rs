//! Promises about a whole state: right after a recovery, after each turn, and when everything has come to rest.

use super::broker::Scene;
use super::clients::Intent;
use super::computer::{Computer, Run, Stage};
use super::evidence::exit;
use super::forgetting::Shelf;
use super::history;
use super::letters;
use super::oracle::{Oracle, follows, same_request};
use super::trace::{Broken, Checked, claim};
use ostler::broker::fold;
use ostler::broker::view::View;
use ostler::machine::{Exit, Name, Outcome, SessionId, State, Status, outstanding, violations};
use ostler_ledger::Options;
use ostler_ledger::storage::SimulatedDisk;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The ledger was folded anew and nothing else has happened yet.
pub(super) fn recovered(scene: &Scene<'_>, view: &View) -> Checked {
    let (oracle, computer, trace) = (&*scene.oracle, &*scene.computer, scene.trace);
    let state = view.read();
    if let Some(published) = &oracle.published {
        let (before, after) = (published.head(), view.head());
        claim(after.seq >= before.seq, || {
            format!("law 6: record {} was published and the recovery ends at {}", before.seq, after.seq)
        })?;
        trace.mark(if after.seq == before.seq { "recovered what was published" } else { "recovered more" }.to_owned());
        if after.seq == before.seq {
            claim(after.digest == before.digest, || format!("law 6: record {} has another digest", after.seq))?;
            claim(*state == *published.read(), || "law 1: the fold is not what was published".to_owned())?;
        }
    }
    sound(&state, computer)?;
    kept(oracle, &state, scene.disk)?;
    requested(&state, &scene.clients.intents)
}

/// A start that began with a snapshot came to the same as one that reads the whole history.
pub(super) fn replayed(scene: &Scene<'_>, view: &View, options: &Options) -> Checked {
    let options = Options { replay: true, ..options.clone() };
    let copy = history::copy(scene.disk);
    let (_, _, whole) = fold::open(|| copy.storage(), &options, scene.retention)
        .map_err(|error| Broken(format!("law 1: the history cannot be replayed: {error}")))?;
    claim(*view.read() == whole.state, || "law 1: the state from a snapshot is not what the history says".to_owned())
}

/// What is left of a ledger, and the archive put back, tell the same: a block that states the state again is right.
pub(super) fn archived(scene: &Scene<'_>, view: &View, options: &Options) -> Checked {
    let options = Options { replay: true, ..options.clone() };
    let whole = history::whole(scene.disk);
    let (_, _, whole) = fold::open(|| whole.storage(), &options, scene.retention)
        .map_err(|error| Broken(format!("law 1: the archive put back cannot be replayed: {error}")))?;
    claim(whole.unlike.is_none(), || format!("law 1: record {:?} states another state again", whole.unlike))?;
    claim(*view.read() == whole.state, || "law 1: the state is not what the archive put back says".to_owned())?;
    scene.trace.mark("began behind what was retired".to_owned());
    Ok(())
}

/// A turn is over.
pub(super) fn turned(state: &State, computer: &Computer) -> Checked {
    letters::turned(state, computer)?;
    sound(state, computer)
}

/// What holds in every state.
fn sound(state: &State, computer: &Computer) -> Checked {
    let found = violations(state);
    claim(found.is_empty(), || format!("invariants: {}", found.join("; ")))?;
    let names: Vec<&Name> = state.sessions.values().filter_map(|session| session.name.as_ref()).collect();
    let unique: BTreeSet<&Name> = names.iter().copied().collect();
    claim(names.len() == unique.len(), || "a name belongs to two sessions".to_owned())?;
    let fenced = state.sessions.values().find(|s| s.fence.is_some() && !computer.tampered(&s.id));
    claim(fenced.is_none(), || format!("law 8: {:?} is fenced and nobody touched it", fenced.map(|s| &s.id)))
}

/// Every acknowledged operation is known, as it was told; what was acknowledged as gone is gone.
fn kept(oracle: &Oracle, state: &State, disk: &SimulatedDisk) -> Checked {
    let mut shelf = None;
    for (id, then) in oracle.told.iter().filter(|(id, _)| !oracle.forgotten.contains(id)) {
        let now = match state.operations.get(id) {
            Some(here) => Some(Arc::clone(here)),
            None => {
                let shelf = match &shelf {
                    Some(shelf) => shelf,
                    None => shelf.insert(Shelf::of(disk)?),
                };
                shelf.let_go(then, state)
            }
        };
        let now = now.ok_or_else(|| Broken(format!("law 6: {id} was acknowledged and is lost")))?;
        claim(now.state != Outcome::Accepted, || format!("law 6: {id} was acknowledged and is not settled"))?;
        claim(follows(then, &now), || format!("law 7: {id} was told as {then:?} and is {now:?}"))?;
    }
    let back = oracle.deleted.iter().find(|id| state.sessions.get(id).is_some());
    claim(back.is_none(), || format!("{back:?} was deleted and is listed"))
}

/// Every operation was asked for, by a call that was not refused.
fn requested(state: &State, intents: &[Intent]) -> Checked {
    for (id, operation) in state.operations.iter() {
        let asked = intents.iter().find(|intent| {
            intent.digest == operation.request && intent.key == operation.key && intent.scope == operation.scope
        });
        let asked = asked.ok_or_else(|| Broken(format!("law 5: nobody asked for {id}")))?;
        same_request(operation, asked)?;
        claim(asked.accepted || asked.lost || asked.open > 0, || {
            format!("law 7: {id} is there and every call for it was refused")
        })?;
    }
    Ok(())
}

/// Nothing fails any more and everything has come to rest.
pub(super) fn healed(
    oracle: &Oracle,
    state: &State,
    intents: &[Intent],
    computer: &Computer,
    disk: &SimulatedDisk,
) -> Checked {
    kept(oracle, state, disk)?;
    requested(state, intents)?;
    sound(state, computer)?;
    let open = state.operations.values().find(|operation| operation.state == Outcome::Accepted);
    claim(open.is_none(), || format!("liveness: {:?} never settles", open.map(|operation| operation.id)))?;
    let owed = outstanding(state);
    claim(owed.is_empty(), || format!("liveness: still owed: {owed:?}"))?;
    claim(state.removals.is_empty(), || "liveness: removals are still owed".to_owned())?;
    for session in state.sessions.values().filter(|session| session.fence.is_none()) {
        let run = (session.id.clone(), session.episode);
        exits(session.exit.as_ref(), &run, computer)?;
        let lives = computer.commands.values().any(|of| *of == run);
        match session.status {
            Status::Ready | Status::Running => {
                let host = computer.host_of(&run).and_then(|pid| computer.hosts.get(&pid));
                let serves = host.is_some_and(|host| {
                    host.stage == Stage::Running
                        && session.run.as_ref().is_some_and(|facts| {
                            facts.host.pid == host.identity.pid && facts.command.pid == host.command
                        })
                });
                claim(lives && serves, || format!("liveness: {run:?} is ready and nothing runs"))?;
            }
            Status::Stopped | Status::Exited | Status::Failed | Status::Interrupted => {
                claim(!lives, || format!("law 11: {run:?} is {} and lives", session.status.word()))?;
            }
            Status::Starting | Status::Unready | Status::Stopping | Status::Deleted => {
                return Err(Broken(format!("liveness: {run:?} stays {}", session.status.word())));
            }
        }
    }
    orphans(state, computer)
}

/// An exit code or a signal is what the command's host saw, and nothing that anybody made up.
pub(super) fn exits(told: Option<&Exit>, run: &Run, computer: &Computer) -> Checked {
    let Some(told @ (Exit::Code(_) | Exit::Signal(_))) = told else { return Ok(()) };
    let seen = computer.ends.get(run).map(exit);
    claim(seen.as_ref() == Some(told), || {
        format!("law 11: {run:?} is told to have ended with {told:?}, and it was {seen:?}")
    })
}

/// No process and no folder without a session that knows it.
fn orphans(state: &State, computer: &Computer) -> Checked {
    for (session, episode) in computer.commands.values() {
        let known = state.sessions.get(session);
        let known = known.is_some_and(|known| {
            known.fence.is_some()
                || matches!(known.status, Status::Ready | Status::Running) && known.episode == *episode
        });
        claim(known, || format!("law 11: {session}/{episode} runs and no session knows it"))?;
    }
    let listed: BTreeSet<&SessionId> = state.sessions.iter().map(|(id, _)| id).collect();
    let folders: BTreeSet<&SessionId> = computer.folders.keys().collect();
    claim(listed == folders, || format!("folders {folders:?} and sessions {listed:?} differ"))
}
