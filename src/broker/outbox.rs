//! Which owed effect may leave now. The state says what is owed; this remembers only what is under way, so that a
//! session has at most one effect of a kind in the world at a time and none is released twice without a reason.

use crate::machine::{Effect, Hand, SessionId};
use std::collections::HashMap;

/// Effects under way, by session and kind.
#[derive(Debug, Default)]
pub struct Outbox {
    slots: HashMap<(SessionId, Hand), Slot>,
}

#[derive(Debug)]
struct Slot {
    effect: Effect,
    /// The world has answered; the same effect leaves again only once that word is [`Outbox::written`].
    answered: bool,
}

impl Outbox {
    /// What a session owes has been derived anew; the effect to release now, if any.
    pub fn owed(&mut self, session: &SessionId, hand: Hand, owed: Option<Effect>) -> Option<Effect> {
        let place = (session.clone(), hand);
        let Some(owed) = owed else {
            if self.slots.get(&place).is_some_and(|slot| slot.answered) {
                self.slots.remove(&place);
            }
            return None;
        };
        match self.slots.get(&place) {
            Some(slot) if !slot.answered || slot.effect == owed => None,
            Some(_) | None => {
                self.slots.insert(place, Slot { effect: owed.clone(), answered: false });
                Some(owed)
            }
        }
    }

    /// The world has answered the effect that was under way. What is owed must be derived again afterwards.
    pub fn answered(&mut self, session: &SessionId, hand: Hand) {
        if let Some(slot) = self.slots.get_mut(&(session.clone(), hand)) {
            slot.answered = true;
        }
    }

    /// The word that answered is durable. Whatever is owed from here is owed in spite of it, be it the same once more:
    /// a stop that came in the same turn as the word makes it be asked again. Until it is durable, the same effect must
    /// not leave: a start whose "started" the disk does not take yet is still owed, and has happened.
    pub fn written(&mut self, session: &SessionId, hand: Hand) {
        let place = (session.clone(), hand);
        if self.slots.get(&place).is_some_and(|slot| slot.answered) {
            self.slots.remove(&place);
        }
    }

    /// The effect came to nothing and may leave again.
    pub fn again(&mut self, session: &SessionId, hand: Hand) {
        self.slots.remove(&(session.clone(), hand));
    }

    /// How many effects are under way.
    pub fn under_way(&self) -> usize {
        self.slots.values().filter(|slot| !slot.answered).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MessageId;

    const LIFE: Hand = Hand::Life;

    fn judge(id: &SessionId) -> Effect {
        Effect::Judge { session: id.clone(), episode: 1 }
    }

    #[test]
    fn one_effect_of_a_kind_is_under_way_and_none_leaves_twice() {
        let id = SessionId::parse("aaaaaaaaaaaa").unwrap();
        let remove = Effect::Remove { session: id.clone() };
        let mut outbox = Outbox::default();
        assert_eq!(outbox.owed(&id, LIFE, Some(judge(&id))), Some(judge(&id)));
        assert_eq!(outbox.owed(&id, LIFE, Some(judge(&id))), None, "it is under way");
        assert_eq!(outbox.owed(&id, LIFE, Some(remove.clone())), None, "the other one has to answer first");
        outbox.answered(&id, LIFE);
        assert_eq!(outbox.owed(&id, LIFE, Some(judge(&id))), None, "answered, and the answer is not written");
        outbox.written(&id, LIFE);
        assert_eq!(outbox.owed(&id, LIFE, Some(judge(&id))), Some(judge(&id)), "owed in spite of the answer");
        outbox.written(&id, LIFE);
        assert_eq!(outbox.owed(&id, LIFE, Some(judge(&id))), None, "it is under way");
        outbox.answered(&id, LIFE);
        assert_eq!(outbox.owed(&id, LIFE, Some(remove.clone())), Some(remove.clone()));
        assert_eq!(outbox.owed(&id, LIFE, None), None);
        assert_eq!(outbox.under_way(), 1, "no longer owed, but not answered");
        outbox.again(&id, LIFE);
        assert_eq!(outbox.owed(&id, LIFE, Some(remove.clone())), Some(remove));
    }

    #[test]
    fn a_message_under_way_holds_up_no_stop() {
        let id = SessionId::parse("aaaaaaaaaaaa").unwrap();
        let deliver = Effect::Deliver { session: id.clone(), episode: 1, message: MessageId(4), attempt: 5 };
        let stop = Effect::Stop { session: id.clone(), episode: 1, deadline_boot_us: 9 };
        let mut outbox = Outbox::default();
        assert_eq!(outbox.owed(&id, Hand::Mail, Some(deliver.clone())), Some(deliver.clone()));
        assert_eq!(outbox.owed(&id, LIFE, Some(stop.clone())), Some(stop));
        assert_eq!(outbox.owed(&id, Hand::Mail, Some(deliver)), None, "it is under way");
        assert_eq!(outbox.under_way(), 2);
    }
}
