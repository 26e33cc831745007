//! Which records a subscriber may see: the owner all, a session those about itself and its children, and of those about its parent what its own
//! messages to it come to. Nobody else is told that the others exist.
//!
//! Promise: it is judged by records alone, in their order. So it does not matter how late they are read, and whether a child is there any more.

use super::codec::{self, session_of};
use crate::machine::{Event, Kind, OperationId, Scope, SessionId, State};
use ostler_ledger::Record;
use std::collections::BTreeSet;

/// Whose eyes.
#[derive(Debug)]
pub(super) enum Sight {
    /// The owner's.
    All,
    /// A session's.
    Kin(Kin),
}

/// A session and those that it may know of.
#[derive(Debug)]
pub(super) struct Kin {
    own: SessionId,
    parent: Option<SessionId>,
    /// Those whose last record was not read yet.
    children: BTreeSet<SessionId>,
}

/// Whether a record is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Yes,
    No,
    /// If the session itself asked for this operation.
    IfAsked(OperationId),
}

impl Sight {
    /// As things stand now.
    pub(super) fn of(scope: &Scope, state: &State) -> Sight {
        let Scope::Session(own) = scope else { return Sight::All };
        let parent = state.sessions.get(own).and_then(|session| session.parent.clone());
        let children = state.sessions.values().filter(|session| session.parent.as_ref() == Some(own));
        Sight::Kin(Kin { own: own.clone(), parent, children: children.map(|session| session.id.clone()).collect() })
    }

    /// Judges the next record. None may be left out.
    pub(super) fn sees(&mut self, record: &Record) -> Seen {
        match self {
            Sight::All => Seen::Yes,
            Sight::Kin(kin) => kin.sees(record),
        }
    }

    /// Whether this is the record of a request of this session.
    pub(super) fn asked(&self, accepting: &Event) -> bool {
        match (self, accepting) {
            (Sight::Kin(kin), Event::Accept { act, .. }) => act.sid.as_ref() == Some(&kin.own),
            (_, _) => false,
        }
    }
}

/// Whether an operation of this kind makes a session.
fn makes_session(kind: &str) -> bool {
    [Kind::Spawn, Kind::Fork].iter().any(|of| of.word() == kind)
}

impl Kin {
    fn sees(&mut self, record: &Record) -> Seen {
        let header = &record.header;
        let Some(about) = header.sid.as_deref().and_then(|sid| SessionId::parse(sid).ok()) else { return Seen::No };
        if header.t == "accept" && header.kind.as_deref().is_some_and(makes_session) && self.asks(record) {
            self.children.insert(about.clone());
        }
        let is_kin = about == self.own || self.children.contains(&about);
        if header.fin {
            self.children.remove(&about);
        }
        match is_kin {
            // What the broker tells a child may be about children of that one.
            true if header.t == "notice" && about != self.own => Seen::No,
            true => Seen::Yes,
            false if Some(&about) == self.parent.as_ref() => self.of_parent(record),
            false => Seen::No,
        }
    }

    fn asks(&self, record: &Record) -> bool {
        let event = codec::event(record).ok().flatten();
        matches!(event, Some((Event::Accept { act, .. }, _)) if act.sid.as_ref() == Some(&self.own))
    }

    /// To its parent a session writes, and that is all.
    fn of_parent(&self, record: &Record) -> Seen {
        let Ok(Some((event, _))) = codec::event(record) else { return Seen::No };
        debug_assert_eq!(session_of(&event), self.parent.as_ref(), "the header names who the event is about");
        match event {
            Event::Accept { act, .. } if act.sid.as_ref() == Some(&self.own) => Seen::Yes,
            Event::Finish { op, .. } => Seen::IfAsked(op),
            Event::Message { body, .. } => Seen::IfAsked(OperationId(body.message.0)),
            // Whatever waits there is cancelled by it.
            Event::Queue { .. } => Seen::Yes,
            Event::Accept { .. }
            | Event::Generation { .. }
            | Event::Host { .. }
            | Event::Session { .. }
            | Event::Fence { .. }
            | Event::Beat { .. }
            | Event::Conflict { .. }
            | Event::Notice { .. }
            | Event::Operator { .. } => Seen::No,
        }
    }
}
