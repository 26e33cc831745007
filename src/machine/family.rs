//! Families: how many children of one session may live, and how deep a tree of sessions may be (requirements R68 and R69).
//!
//! Promises: a child counts as long as it may have a process, which is what lists call alive ([`super::Status::is_live`]), whoever brought it
//! to life. The count is kept beside the sessions, so that a spawn looks at none of the others. Depth is told at birth and stays, also when
//! those above are forgotten.

use super::id::SessionId;
use super::limits;
use super::refusal::Refusal;
use super::session::Session;
use super::state::State;
use super::table::Table;
use std::collections::BTreeMap;

/// What a family may grow to. The product takes it from its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// [`limits::LIVE_CHILDREN`].
    pub children: usize,
    /// [`limits::FAMILY_DEPTH`].
    pub depth: u32,
}

impl Default for Family {
    fn default() -> Self {
        Self { children: limits::LIVE_CHILDREN, depth: limits::FAMILY_DEPTH }
    }
}

impl Family {
    /// Whether this session may start a child; without one, whether the owner may start a session.
    pub(super) fn may_grow(self, state: &State, parent: Option<&SessionId>) -> Result<(), Refusal> {
        if parent.is_some() && depth_below(state, parent) > self.depth {
            return Err(Refusal::Depth { limit: self.depth });
        }
        self.may_rise(state, parent, parent)
    }

    /// Whether one more child of `parent` may have a process. Whose child it is, `caller` is told if that is itself, and the owner in any case.
    pub(super) fn may_rise(
        self,
        state: &State,
        parent: Option<&SessionId>,
        caller: Option<&SessionId>,
    ) -> Result<(), Refusal> {
        if state.live >= limits::LIVE_SESSIONS {
            return Err(Refusal::Capacity { what: "live sessions", limit: limits::LIVE_SESSIONS });
        }
        match parent {
            Some(parent) if state.live_children(parent) >= self.children => {
                let of = Some(parent).filter(|_| caller.is_none_or(|caller| caller == parent)).cloned();
                Err(Refusal::Children { of, is_caller: caller == Some(parent), limit: self.children })
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl State {
    /// How many children of this session may have a process.
    pub fn live_children(&self, parent: &SessionId) -> usize {
        self.children.get(parent).copied().unwrap_or(0)
    }

    /// What is wrong with the families.
    pub(super) fn families_wrong(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut live: BTreeMap<&SessionId, usize> = BTreeMap::new();
        for session in self.sessions.values() {
            let above = session.parent.as_ref().and_then(|parent| self.sessions.get(parent));
            let is_right = match above {
                Some(above) => session.depth == above.depth.saturating_add(1),
                None => (session.depth == 1) == session.parent.is_none(),
            };
            if !is_right {
                found.push(format!("{}: stands at depth {}", session.id, session.depth));
            }
            if let Some(parent) = session.parent.as_ref().filter(|_| session.status.is_live()) {
                *live.entry(parent).or_default() += 1;
            }
        }
        if !self
            .children
            .iter()
            .map(|(parent, count)| (parent, *count))
            .eq(live.iter().map(|(of, count)| (*of, *count)))
        {
            found.push(format!("live children are counted as {:?} and are {live:?}", self.children));
        }
        found
    }
}

/// At which depth a child of `parent` stands; 1 for a session of the owner. Of one that is gone by now only that it was there is known.
pub(super) fn depth_below(state: &State, parent: Option<&SessionId>) -> u32 {
    let above = parent.map(|parent| state.sessions.get(parent).map_or(1, |session| session.depth));
    above.map_or(1, |above| above.saturating_add(1))
}

/// The session may have a process from here on.
pub(super) fn rose((live, children): (&mut usize, &mut Table<SessionId, usize>), session: &Session) {
    *live += 1;
    if let Some(parent) = &session.parent {
        let count = children.get(parent).copied().unwrap_or(0);
        children.insert(parent.clone(), count + 1);
    }
}

/// It has none any more.
pub(super) fn sank((live, children): (&mut usize, &mut Table<SessionId, usize>), session: &Session) {
    *live -= 1;
    let Some(parent) = &session.parent else { return };
    match children.get(parent).copied() {
        Some(count) if count > 1 => children.insert(parent.clone(), count - 1),
        Some(_) | None => drop(children.remove(parent)),
    }
}
