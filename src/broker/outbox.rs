//! Which owed effect may leave now. The state says what is owed; this remembers only what is under way, so that a
//! session has at most one effect in the world at a time and none is released twice without a reason.

use crate::machine::{Effect, SessionId};
use std::collections::HashMap;

/// Effects under way, by session.
#[derive(Debug, Default)]
pub struct Outbox {
    slots: HashMap<SessionId, Slot>,
}

#[derive(Debug)]
struct Slot {
    effect: Effect,
    /// The world has answered; the same effect leaves again only once that word is [`Outbox::written`].
    answered: bool,
}

impl Outbox {
    /// What a session owes has been derived anew; the effect to release now, if any.
    pub fn owed(&mut self, session: &SessionId, owed: Option<Effect>) -> Option<Effect> {
        let Some(owed) = owed else {
            if self.slots.get(session).is_some_and(|slot| slot.answered) {
                self.slots.remove(session);
            }
            return None;
        };
        match self.slots.get(session) {
            Some(slot) if !slot.answered || slot.effect == owed => None,
            Some(_) | None => {
                self.slots.insert(session.clone(), Slot { effect: owed.clone(), answered: false });
                Some(owed)
            }
        }
    }

    /// The world has answered the effect that was under way. What is owed must be derived again afterwards.
    pub fn answered(&mut self, session: &SessionId) {
        if let Some(slot) = self.slots.get_mut(session) {
            slot.answered = true;
        }
    }

    /// The word that answered is durable. Whatever is owed from here is owed in spite of it, be it the same once more:
    /// a stop that came in the same turn as the word makes it be asked again. Until it is durable, the same effect must
    /// not leave: a start whose "started" the disk does not take yet is still owed, and has happened.
    pub fn written(&mut self, session: &SessionId) {
        if self.slots.get(session).is_some_and(|slot| slot.answered) {
            self.slots.remove(session);
        }
    }

    /// The effect came to nothing and may leave again.
    pub fn again(&mut self, session: &SessionId) {
        self.slots.remove(session);
    }

    /// How many effects are under way.
    pub fn under_way(&self) -> usize {
        self.slots.values().filter(|slot| !slot.answered).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(id: &SessionId) -> Effect {
        Effect::Judge { session: id.clone(), episode: 1 }
    }

    #[test]
    fn one_effect_a_session_is_under_way_and_none_leaves_twice() {
        let id = SessionId::parse("aaaaaaaaaaaa").unwrap();
        let remove = Effect::Remove { session: id.clone() };
        let mut outbox = Outbox::default();
        assert_eq!(outbox.owed(&id, Some(judge(&id))), Some(judge(&id)));
        assert_eq!(outbox.owed(&id, Some(judge(&id))), None, "it is under way");
        assert_eq!(outbox.owed(&id, Some(remove.clone())), None, "the other one has to answer first");
        outbox.answered(&id);
        assert_eq!(outbox.owed(&id, Some(judge(&id))), None, "answered, and the answer is not written");
        outbox.written(&id);
        assert_eq!(outbox.owed(&id, Some(judge(&id))), Some(judge(&id)), "owed in spite of the answer");
        outbox.written(&id);
        assert_eq!(outbox.owed(&id, Some(judge(&id))), None, "it is under way");
        outbox.answered(&id);
        assert_eq!(outbox.owed(&id, Some(remove.clone())), Some(remove.clone()));
        assert_eq!(outbox.owed(&id, None), None);
        assert_eq!(outbox.under_way(), 1, "no longer owed, but not answered");
        outbox.again(&id);
        assert_eq!(outbox.owed(&id, Some(remove.clone())), Some(remove));
    }
}
