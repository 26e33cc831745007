//! A fact about messages meets the state. As in `apply`: what `decide` and `lane::follow` never emit is [`Illegal`].

use super::apply::{At, Illegal};
use super::event::{MessageChange, MessageEvent, Plan, QueueChange};
use super::id::{Key, MessageId, OperationId, SessionId};
use super::interrupts::alarm;
use super::lane::{Lane, is_closed_with};
use super::limits;
use super::message::{Message, MessageState, Sender};
use super::operation::Actor;
use super::session::Status;
use super::state::State;
use super::time::Time;
use std::sync::Arc;

/// A message was sent.
pub(super) fn sent(
    state: &mut State,
    sid: &SessionId,
    (op, act, key): (OperationId, &Actor, &Key),
    plan: &Plan,
    at: At,
) -> Result<(), Illegal> {
    let Plan::Send { mode, body, expires_us, interrupts } = plan else { return Ok(()) };
    if state.sessions.get(sid).is_none_or(|session| session.status == Status::Deleted) {
        return Err(Illegal("a message to a session that is gone"));
    }
    let id = MessageId(op.0);
    let message = Message {
        id,
        session: sid.clone(),
        from: act.sid.clone().map_or(Sender::Owner, Sender::Session),
        key: key.clone(),
        mode: *mode,
        state: MessageState::Queued,
        reason: None,
        body: Some(body.clone()),
        notice: None,
        requested_us: at.time.wall_us,
        expires_us: *expires_us,
        accepted_us: None,
        attempt: 0,
        episode: 0,
        redeliveries: 0,
        interrupts: *interrupts,
        turn: None,
        seq: at.seq,
        settled_us: None,
    };
    state.enlist(Arc::new(message));
    Ok(())
}

/// A message changed.
pub(super) fn message(state: &mut State, sid: &SessionId, ep: u32, body: &MessageEvent, at: At) -> Result<(), Illegal> {
    let row = state.messages.get(&body.message).filter(|message| message.session == *sid);
    let mut message = Message::clone(row.ok_or(Illegal("a change of a message that is not there"))?);
    let was = message.clone();
    match &body.change {
        MessageChange::Sending => {
            message.become_state(MessageState::Sending, at.seq)?;
            (message.attempt, message.episode) = (at.seq, ep);
            (message.reason, message.interrupts) = (None, None);
        }
        MessageChange::InterruptSent => super::interrupts::sent(&mut message)?,
        MessageChange::Delivered { at_us } => {
            message.become_state(MessageState::Delivered, at.seq)?;
            message.reason = None;
            (message.accepted_us, message.settled_us) = (Some(*at_us), Some(at.time.wall_us));
            super::turns::taken(state, &was, &mut message);
        }
        MessageChange::Pulled => {
            message.become_state(MessageState::Delivered, at.seq)?;
            message.episode = ep;
            message.accepted_us = Some(at.time.wall_us);
        }
        MessageChange::Acknowledged => {
            message.become_state(MessageState::Acknowledged, at.seq)?;
            message.settled_us = Some(at.time.wall_us);
        }
        MessageChange::Returned { reason } => {
            message.become_state(MessageState::Queued, at.seq)?;
            message.redeliveries = message.redeliveries.saturating_add(1);
            message.reason = Some(reason.clone());
        }
        MessageChange::Uncertain { reason } => {
            message.become_state(MessageState::Uncertain, at.seq)?;
            message.reason = Some(reason.clone());
        }
        MessageChange::Cancelled { reason } => end(&mut message, MessageState::Cancelled, Some(reason), at)?,
        MessageChange::Failed { reason } => end(&mut message, MessageState::Failed, Some(reason), at)?,
        MessageChange::Expired => {
            // One that was sent again may have been taken the first time.
            let reason = message.reason.clone();
            end(&mut message, MessageState::Expired, reason.as_ref(), at)?;
        }
    }
    let turned_away = was.state == MessageState::Sending && message.state != MessageState::Delivered;
    state.relist(&was, message);
    if turned_away {
        // No turn begins with it, so none can be interrupted.
        super::interrupts::void(state, sid, was.attempt);
    }
    Ok(())
}

fn end(message: &mut Message, state: MessageState, reason: Option<&String>, at: At) -> Result<(), Illegal> {
    message.become_state(state, at.seq)?;
    message.reason = reason.cloned();
    message.settled_us = Some(at.time.wall_us);
    Ok(())
}

/// Nobody will take what waits for a session any more: one record for all of it.
pub(super) fn queue(state: &mut State, sid: &SessionId, change: &QueueChange, at: At) -> Result<(), Illegal> {
    let QueueChange::Closed { reason } = change;
    let session = state.sessions.get(sid).ok_or(Illegal("the queue of a session that is not there"))?;
    let gone = session.status == Status::Deleted;
    let open = state.lanes.get(sid).map(|lane| lane.open.clone()).unwrap_or_default();
    let open = open.iter().filter_map(|id| state.messages.get(id).cloned());
    for was in open.filter(|message| is_closed_with(message, gone)).collect::<Vec<_>>() {
        let mut message = Message::clone(&was);
        match was.state {
            MessageState::Queued => end(&mut message, MessageState::Cancelled, Some(reason), at)?,
            MessageState::Uncertain => end(&mut message, MessageState::Failed, Some(reason), at)?,
            // It was pulled, and nobody will say any more that it was understood.
            MessageState::Delivered => (message.seq, message.settled_us) = (at.seq, Some(at.time.wall_us)),
            MessageState::Sending
            | MessageState::Acknowledged
            | MessageState::Cancelled
            | MessageState::Failed
            | MessageState::Expired => continue,
        }
        state.relist(&was, message);
    }
    Ok(())
}

impl State {
    /// A message takes its place in its lane. The lane's lists are in the order of ids.
    pub(super) fn enlist(&mut self, message: Arc<Message>) {
        if self.lanes.get(&message.session).is_none() {
            self.lanes.insert(message.session.clone(), Arc::default());
        }
        self.change_lane(&message.session, |lane| {
            if message.is_open() {
                lane.open.push(message.id);
                lane.bytes = lane.bytes.saturating_add(message.bytes());
                lane.notices += usize::from(message.notice.is_some());
            } else {
                lane.receipts.push(message.id);
            }
        });
        if !message.is_open() {
            self.receipts.insert((message.seq, message.id), ());
        }
        if let (MessageState::Queued, Some(expires_us)) = (message.state, message.expires_us) {
            self.expiries.insert((expires_us, message.id), ());
        }
        alarm(&message).into_iter().for_each(|alarm| self.alarms.insert(alarm, ()));
        self.messages.insert(message.id, message);
    }

    /// A message is another than it was.
    pub(super) fn relist(&mut self, was: &Message, is: Message) {
        alarm(was).and_then(|alarm| self.alarms.remove(&alarm));
        alarm(&is).into_iter().for_each(|alarm| self.alarms.insert(alarm, ()));
        if let Some(expires_us) = was.expires_us {
            if is.state == MessageState::Queued {
                self.expiries.insert((expires_us, is.id), ());
            } else {
                self.expiries.remove(&(expires_us, is.id));
            }
        }
        if was.is_open() && !is.is_open() {
            self.change_lane(&is.session, |lane| {
                lane.open.retain(|id| *id != is.id);
                lane.bytes = lane.bytes.saturating_sub(is.bytes());
                lane.notices -= usize::from(is.notice.is_some()).min(lane.notices);
                let at = lane.receipts.partition_point(|id| *id < is.id);
                lane.receipts.insert(at, is.id);
            });
        }
        if !was.is_open() {
            self.receipts.remove(&(was.seq, was.id));
        }
        if !is.is_open() {
            self.receipts.insert((is.seq, is.id), ());
        }
        self.messages.insert(is.id, Arc::new(is));
    }

    fn change_lane(&mut self, sid: &SessionId, change: impl FnOnce(&mut Lane)) {
        if let Some(lane) = self.lanes.get_mut(sid) {
            change(Arc::make_mut(lane));
        }
    }

    /// A session left the list, and its messages with it.
    pub(super) fn drop_mail(&mut self, sid: &SessionId) {
        let Some(lane) = self.lanes.remove(sid) else { return };
        for id in lane.open.iter().chain(&lane.receipts) {
            let Some(message) = self.messages.remove(id) else { continue };
            if let Some(expires_us) = message.expires_us {
                self.expiries.remove(&(expires_us, *id));
            }
            alarm(&message).and_then(|alarm| self.alarms.remove(&alarm));
            if !message.is_open() {
                self.receipts.remove(&(message.seq, message.id));
            }
        }
    }

    fn oldest_receipt(&self) -> Option<(u64, MessageId)> {
        self.receipts.iter().next().map(|(place, ())| *place)
    }

    /// Forgets receipts that are too old or too many, oldest first (requirement R24).
    pub(super) fn forget_receipts(&mut self, now: Time) {
        let before_us = now.wall_us.saturating_sub(limits::RECEIPTS_US);
        while let Some((seq, id)) = self.oldest_receipt() {
            let settled_us = self.messages.get(&id).and_then(|message| message.settled_us);
            let is_old = settled_us.is_none_or(|at_us| at_us < before_us);
            if !is_old && self.receipts.len() <= limits::RECEIPTS {
                return;
            }
            self.receipts.remove(&(seq, id));
            if let Some(message) = self.messages.remove(&id) {
                self.change_lane(&message.session, |lane| lane.receipts.retain(|known| *known != id));
                // As where nobody ever sent anything: a state that was stored and restored is the same.
                let lane = self.lanes.get(&message.session);
                if lane.is_some_and(|lane| lane.open.is_empty() && lane.receipts.is_empty()) {
                    self.lanes.remove(&message.session);
                }
            }
        }
    }
}
