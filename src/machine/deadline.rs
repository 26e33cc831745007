//! The passing of time: which moment matters next, and what follows when it is there. A person's patience and the
//! list's bound are the only two clocks the machine has; everything else the hosts watch themselves.

use super::event::{Beat, Event, MessageChange, SessionChange};
use super::id::SessionId;
use super::limits;
use super::observe::{Settled, failure, finish};
use super::operation::Outcome;
use super::state::State;
use super::time::Time;
use std::collections::BTreeMap;

/// How many ended sessions one tick forgets at the most.
const FORGET_PER_TICK: usize = 100;

/// The boot-clock instant, in microseconds, at which a tick has something to do; none if nothing waits for time.
pub fn next_deadline(state: &State, now: Time) -> Option<u64> {
    if overfull(state) > 0 {
        return Some(0);
    }
    let counts = |id: &SessionId| state.sessions.get(id).is_none_or(|session| super::ready::counts(state, session));
    let stop = state.deadlines.iter().find(|((_, id), _)| counts(id)).map(|((due, _), _)| *due);
    let expiry = state.expiries.iter().next().map(|((expires_us, _), ())| {
        let left_us = expires_us.saturating_sub(now.wall_us).min(limits::EXPIRY_LOOK_MS * 1_000);
        now.boot_us.saturating_add(left_us)
    });
    stop.into_iter().chain(expiry).chain(super::interrupts::next_deadline(state)).min()
}

fn overfull(state: &State) -> usize {
    let ended = state.sessions.len().saturating_sub(state.live);
    ended.saturating_sub(limits::ENDED_SESSIONS_KEPT)
}

/// A stop whose end nobody proved in time is answered honestly; the stop itself goes on being owed. The oldest ended
/// sessions beyond the list's bound are forgotten.
pub(super) fn tick(state: &State, now: Time) -> Vec<Event> {
    let mut events = Vec::new();
    for ((_, id), episode) in state.deadlines.iter().take_while(|((due, _), _)| *due <= now.boot_us) {
        let Some(session) = state.sessions.get(id).filter(|session| session.episode == *episode) else { continue };
        if !super::ready::counts(state, session) {
            continue;
        }
        if let Some(event) = super::ready::overdue(now, session) {
            events.push(event);
            continue;
        }
        let late =
            failure("timeout", "still_alive", "its end was not proven before the deadline; it is still asked for");
        let starts = session.starts.iter().filter(|_| super::ready::is_given_up(session));
        let waiting = session.stops.iter().chain(&session.deletes).chain(starts);
        events.extend(
            waiting.filter_map(|op| finish(state, *op, Some(id), &Settled::Not(Outcome::Failed, late.clone()))),
        );
    }
    let expired = state.expiries.iter().take_while(|((expires_us, _), ())| *expires_us <= now.wall_us);
    for ((_, id), ()) in expired.take(limits::EXPIRIES_PER_TICK) {
        let message = state.messages.get(id);
        let session = message.and_then(|message| state.sessions.get(&message.session));
        events.extend(session.map(|session| super::lane::event(session, *id, MessageChange::Expired)));
    }
    events.extend(super::interrupts::overdue(state, now));
    let surplus = overfull(state).min(FORGET_PER_TICK);
    events.extend(super::decide::prunable(state, now, 0).take(surplus).map(|session| Event::Session {
        sid: session.id.clone(),
        ep: session.episode,
        body: SessionChange::Forgotten,
    }));
    events
}

/// Checkpoints last-seen times in records of bounded size. Times that are not newer are left out, unless the checkpoint
/// is to be whole: then there is a record even if it names nobody.
pub(super) fn beat(state: &State, seen: &BTreeMap<SessionId, u64>, whole: bool) -> Vec<Event> {
    let fits = |id: &SessionId, at_us: u64| {
        state.sessions.get(id).is_some_and(|session| whole || session.last_seen_us < at_us)
    };
    let named: Vec<_> = seen.iter().filter(|(id, at)| fits(id, **at)).map(|(id, at)| (id.clone(), *at)).collect();
    if named.is_empty() && whole {
        return vec![Event::Beat { body: Beat { seen: BTreeMap::new() } }];
    }
    let parts = named.chunks(limits::BEAT_SESSIONS);
    parts.map(|part| Event::Beat { body: Beat { seen: part.iter().cloned().collect() } }).collect()
}
