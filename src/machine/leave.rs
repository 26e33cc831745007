//! How a session leaves the list, with all that stands under its name.

use super::apply::At;
use super::ending::disarm;
use super::family::sank;
use super::id::SessionId;
use super::session::Status;
use super::state::State;
use std::sync::Arc;

/// The session's chain has ended: it is gone with its files, whatever of what came before could not be read. One for which an operation
/// still waits stays: how that ended is not known. Says whether it is gone.
pub fn chain_ended(state: &mut State, sid: &SessionId, at: At) -> bool {
    if let Some(session) = state.sessions.get_mut(sid) {
        let session = Arc::make_mut(session);
        if session.waiting().next().is_some() {
            return false;
        }
        if session.status.is_live() {
            sank((&mut state.live, &mut state.children), session);
        }
        disarm(&mut state.deadlines, session);
        session.status = Status::Deleted;
    }
    leave(state, sid, None, at);
    state.removals.remove(sid);
    true
}

/// Takes a session from the list; `owed` is the episode of the removal that its files are still owed.
pub(super) fn leave(state: &mut State, sid: &SessionId, owed: Option<u32>, at: At) {
    let Some(session) = state.sessions.remove(sid) else { return };
    state.release(&session, at.time.wall_us);
    state.drop_mail(sid);
    state.drop_reports(sid);
    state.ages.remove(&session.created_seq);
    if let Some(name) = &session.name {
        state.names.remove(name);
    }
    if let Some(episode) = owed {
        state.removals.insert(sid.clone(), episode);
    }
}
