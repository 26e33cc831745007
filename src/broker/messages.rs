//! Calls about messages: send, look, withdraw, decide, pull, acknowledge.
//!
//! A text is on disk before the record that names it, and the record before the answer. What a caller waits for beyond that it waits for at
//! the view; nothing of a message depends on somebody waiting (requirements R5, R51, R52).

use super::bodies;
use super::changes::{Settled, Wanted};
use super::front::Front;
use super::reads::{Position, other_list, page_limit};
use super::refused::{as_seen_by, failed, refused};
use super::{letter, render};
use crate::machine::{
    Action, Body, Digest, Message, MessageId, MessageState, Mode, Parcel, Refusal, Scope, SessionId, State, limits,
    may_know,
};
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::service::Caller;
use crate::rpc::wire::{
    self, Delivery, Encoded, InboxAckParams, InboxAckResult, InboxReadParams, InboxReadResult, Letter,
    MESSAGE_BYTES_MAX, MessageCancelParams, MessageCancelResult, MessageDecision, MessageGetParams, MessageListParams,
    MessageListResult, MessageMode, MessageResolveParams, MessageResult, MessageSendParams, MessageSendResult,
    Patience, encode,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A page of pulled messages ends before its texts are longer than this, in bytes.
const PAGE_BYTES: u64 = 1024 * 1024;

impl Front {
    pub(super) async fn send(
        &self,
        caller: &Caller,
        digest: Digest,
        params: MessageSendParams,
    ) -> Result<Encoded, WireError> {
        let change = self.keyed(caller, params.key.as_str(), digest)?;
        let text = params.text.as_bytes();
        let bytes = length_ok(text)?;
        let mode = match params.mode {
            MessageMode::Queue => Mode::Queue,
            MessageMode::Interrupt => Mode::Interrupt,
            MessageMode::Steer => return Err(refused(&Refusal::Incapable { what: "mode steer" })),
        };
        if let Scope::Session(caller) = &change.scope
            && super::asked::find(&self.view.read(), &params.session).as_ref() == Ok(caller)
        {
            return Err(super::refused::to_itself(caller));
        }
        let parcel = Parcel {
            target: self.recipient(&change.scope, &params.session),
            mode,
            body: None,
            bytes,
            is_long: text.contains(&b'\n') || text.contains(&b'\r'),
            expires_in_ms: params.expires_in_ms,
            interrupt_within_ms: interrupt_within_ms(),
            resume: params.resume,
            prepared: None,
        };
        let wanted = Wanted { spec: None, texts: &[text] };
        let settled = self.settle(&change, Action::Send(Box::new(parcel)), wanted).await?;
        self.waited_for(&settled, &params).await?;
        self.sent(&settled)
    }

    /// Whom a caller means: the owner anybody, a session its children and its parent. To a session all others are as unknown as nobody.
    fn recipient(&self, scope: &Scope, given: &str) -> Result<SessionId, Refusal> {
        let state = self.view.read();
        let found = super::asked::find(&state, given);
        let Scope::Session(caller) = scope else { return found };
        let parent = state.sessions.get(caller).and_then(|of| of.parent.as_ref());
        let fits = |id: &SessionId| {
            parent == Some(id) || state.sessions.get(id).is_some_and(|of| of.parent.as_ref() == Some(caller))
        };
        found.ok().filter(fits).ok_or_else(|| super::asked::missing(given))
    }

    /// What became of a message that was sent.
    fn sent(&self, settled: &Settled) -> Result<Encoded, WireError> {
        let operation = &settled.operation;
        if let Some(error) = failed(operation) {
            return Err(error.with("replayed", settled.replayed).with("key", operation.key.as_str()));
        }
        let state = self.view.read();
        let message =
            state.messages.get(&MessageId(operation.id.0)).ok_or_else(|| forgotten(operation.id.0, settled))?;
        let position = operation.gained.position;
        Ok(encode(&MessageSendResult {
            message: render::message(message),
            delivery: if position.is_some() { Delivery::Queued } else { Delivery::Immediate },
            position,
            replayed: settled.replayed,
            operation: render::operation(operation, settled.replayed),
        }))
    }

    /// Waits until the message is where the caller wants it, or can never be.
    async fn waited_for(&self, settled: &Settled, params: &MessageSendParams) -> Result<(), WireError> {
        let patience = params.wait_for;
        if patience == Patience::Commit || failed(&settled.operation).is_some() {
            return Ok(());
        }
        let id = MessageId(settled.operation.id.0);
        let there = |message: &Message| match (message.state, patience) {
            (MessageState::Queued | MessageState::Sending, _) => false,
            // One that is pushed has no further answer; one that was pulled may still be acknowledged.
            (MessageState::Delivered, Patience::Acknowledged) => !message.is_open(),
            (_, _) => true,
        };
        let waiting = self.until(|state| state.messages.get(&id).is_none_or(|message| there(message)));
        let Some(timeout_ms) = params.wait_ms else { return waiting.await };
        match tokio::time::timeout(Duration::from_millis(timeout_ms), waiting).await {
            Ok(waited) => waited,
            Err(_) => {
                let message = format!(
                    "message {id} was not {} within {timeout_ms} ms; it is recorded and goes on. `ostler message show {id}`",
                    patience.word()
                );
                let error = WireError::new(ErrorCode::Timeout, message).with("message", id.to_string());
                Err(error.with("key", settled.operation.key.as_str()))
            }
        }
    }

    /// Waits until the view is so.
    pub(super) async fn until(&self, is_so: impl Fn(&State) -> bool) -> Result<(), WireError> {
        let mut changes = self.view.changes();
        let mut draining = self.draining.clone();
        loop {
            changes.borrow_and_update();
            if is_so(&self.view.read()) {
                return Ok(());
            }
            let left = tokio::select! {
                changed = changes.changed() => changed.is_err(),
                left = draining.wait_for(|draining| *draining) => left.is_ok(),
            };
            if left {
                return Err(super::inbox::leaving());
            }
        }
    }

    /// Writes texts for this session: of a message, or of a report.
    pub(super) async fn store(&self, session: &SessionId, texts: &[&[u8]]) -> Result<Vec<bodies::Stored>, WireError> {
        let needed: BTreeSet<u32> = bodies_of(&self.view.read(), session).map(|body| body.file).collect();
        let (bodies, session) = (Arc::clone(&self.bodies), session.clone());
        let texts: Vec<_> = texts.iter().map(|text| text.to_vec()).collect();
        let stored = tokio::task::spawn_blocking(move || {
            texts.iter().map(|text| bodies.store(&session, text, &needed)).collect::<Result<Vec<_>, _>>()
        });
        let stored = stored.await.map_err(|error| WireError::new(ErrorCode::Internal, error.to_string()))?;
        stored.map_err(|error| {
            let code = crate::rpc::convert::storage_code(&error.source);
            WireError::new(code, format!("the text could not be written down: {error}; nothing was done"))
        })
    }

    pub(super) async fn cancel(
        &self,
        caller: &Caller,
        digest: Digest,
        params: MessageCancelParams,
    ) -> Result<Encoded, WireError> {
        let change = self.keyed(caller, params.key.as_str(), digest)?;
        let message = message_id(&params.message);
        let settled = self.settle(&change, Action::Cancel { message }, Wanted::default()).await?;
        let outcome = settled.operation.gained.withdrawal.map(render::withdrawal);
        let outcome = outcome.ok_or_else(|| WireError::new(ErrorCode::Internal, "the operation tells no outcome"))?;
        let (message, operation) = self.decided(&settled)?;
        Ok(encode(&MessageCancelResult { message, outcome, operation }))
    }

    pub(super) async fn decide(
        &self,
        caller: &Caller,
        digest: Digest,
        params: MessageResolveParams,
    ) -> Result<Encoded, WireError> {
        let change = self.keyed(caller, params.key.as_str(), digest)?;
        let message = message_id(&params.message);
        let again = params.decision == MessageDecision::Retry;
        let settled = self.settle(&change, Action::ResolveMessage { message, again }, Wanted::default()).await?;
        let (message, operation) = self.decided(&settled)?;
        Ok(encode(&MessageResult { message, operation: Some(operation) }))
    }

    /// The message that an operation was about, as it is now.
    fn decided(&self, settled: &Settled) -> Result<(wire::Message, wire::Operation), WireError> {
        let operation = &settled.operation;
        let id = operation.gained.message.unwrap_or(MessageId(0));
        let state = self.view.read();
        let message = state.messages.get(&id).ok_or_else(|| forgotten(id.0, settled))?;
        Ok((render::message(message), render::operation(operation, settled.replayed)))
    }

    pub(super) async fn acknowledge(
        &self,
        caller: &Caller,
        digest: Digest,
        params: InboxAckParams,
    ) -> Result<Encoded, WireError> {
        let change = self.keyed(caller, params.key.as_str(), digest)?;
        if params.messages.is_empty() || params.messages.len() > limits::MESSAGES_AT_ONCE {
            let message = format!("between 1 and {} messages are acknowledged at once", limits::MESSAGES_AT_ONCE);
            return Err(WireError::new(ErrorCode::InvalidInput, message).reason("messages"));
        }
        let messages: Result<Vec<_>, _> = params.messages.iter().map(|text| message_id(text)).collect();
        let messages = messages.map_err(|refusal| refused(&refusal))?;
        let action = Action::Acknowledge { messages: messages.clone() };
        let settled = self.settle(&change, action, Wanted::default()).await?;
        let state = self.view.read();
        let messages = messages.iter().filter_map(|id| state.messages.get(id)).map(|of| render::message(of)).collect();
        Ok(encode(&InboxAckResult { messages, operation: render::operation(&settled.operation, settled.replayed) }))
    }

    /// `message.get`.
    pub(super) fn message(&self, scope: &Scope, params: &MessageGetParams) -> Result<Encoded, WireError> {
        let missing = || refused(&Refusal::NoMessage { given: params.message.chars().take(64).collect() });
        let id = MessageId::parse(&params.message).map_err(|_| missing())?;
        let state = self.view.read();
        let found = state.messages.get(&id).filter(|message| may_know(&state, scope, message)).ok_or_else(missing)?;
        Ok(encode(&MessageResult { message: render::message(found), operation: None }))
    }

    /// `message.list`, newest first.
    pub(super) fn messages(&self, caller: &Caller, params: &MessageListParams) -> Result<Encoded, WireError> {
        let scope = &self.scope(caller);
        let limit = page_limit(params.limit)?;
        let state = self.view.read();
        let (before, session) = match &params.cursor {
            None => (None, self.addressee(scope, &state, &params.session)?),
            Some(cursor) => match self.position(caller, cursor)? {
                Position::Messages(before, session) if self.addressee(scope, &state, &params.session)? == session => {
                    (Some(before), session)
                }
                Position::Messages(..) => return Err(other_list()),
                Position::Sessions(..) | Position::Operations(..) | Position::Reports(..) => return Err(other_list()),
            },
        };
        let lane = state.lanes.get(&session).cloned().unwrap_or_default();
        let mut ids: Vec<_> = lane.open.iter().chain(&lane.receipts).copied().collect();
        ids.sort_unstable_by(|a, b| b.cmp(a));
        let rows = ids.iter().filter(|id| before.is_none_or(|before| **id < before));
        let rows = rows.filter_map(|id| state.messages.get(id)).filter(|message| may_know(&state, scope, message));
        let page: Vec<_> = rows.take(limit + 1).cloned().collect();
        drop(state);
        let messages = page.iter().take(limit).map(|message| render::message(message)).collect();
        let last = page.get(limit.saturating_sub(1)).filter(|_| page.len() > limit);
        let next = last.map(|last| self.remember(caller, Position::Messages(last.id, session)));
        Ok(encode(&MessageListResult { messages, next }))
    }

    /// Whose messages are meant: of a session that the caller may see, or write to.
    fn addressee(&self, scope: &Scope, state: &State, given: &str) -> Result<SessionId, WireError> {
        if let Ok(seen) = Self::named(scope, state, given) {
            return Ok(seen.id.clone());
        }
        let parent = match scope {
            Scope::Owner => None,
            Scope::Session(caller) => state.sessions.get(caller).and_then(|of| of.parent.clone()),
        };
        let found = super::asked::find(state, given).ok().filter(|id| parent.as_ref() == Some(id));
        found.ok_or_else(|| as_seen_by(scope, refused(&super::asked::missing(given))))
    }

    /// `inbox.read`: what a session has to read, oldest first; delivered by that, and read again until it is acknowledged.
    pub(super) async fn pull(&self, scope: &Scope, params: InboxReadParams) -> Result<Encoded, WireError> {
        let Scope::Session(caller) = scope else { return Err(refused(&Refusal::SessionOnly)) };
        let limit = page_limit(params.limit)?.min(limits::MESSAGES_AT_ONCE);
        let after = params.cursor.as_deref().map(message_id).transpose().map_err(|refusal| refused(&refusal))?;
        if self.view.read().sessions.get(caller).is_some_and(|session| session.adapter.pushes()) {
            return Err(refused(&Refusal::Incapable { what: "inbox: its messages are written to its standard input" }));
        }
        if let Some(wait_ms) = params.wait_ms {
            let waiting =
                self.until(|state| notice(state, caller).is_some() || !readable(state, caller, after, 1).is_empty());
            // Nothing by then is an answer as well.
            if let Ok(Err(left)) = tokio::time::timeout(Duration::from_millis(wait_ms), waiting).await {
                return Err(left);
            }
        }
        let mut page = readable(&self.view.read(), caller, after, limit + 1);
        let more = page.len() > limit;
        page.truncate(limit);
        self.inbox.pull(caller.clone(), page.iter().map(|message| message.id).collect()).await?;
        let (messages, all) = self.letters(caller, &page).await;
        let next = messages.last().map(|last| last.message.id.clone()).filter(|_| more || !all);
        // Asked last: a stop that came meanwhile is told now, and not after the next wait.
        let stop = notice(&self.view.read(), caller);
        Ok(encode(&InboxReadResult { messages, next, stop }))
    }

    /// Those of a page that are delivered now, with their texts, and whether they are all. One whose text is lost says so.
    async fn letters(&self, session: &SessionId, page: &[Arc<Message>]) -> (Vec<Letter>, bool) {
        let (mut letters, mut bytes) = (Vec::new(), 0);
        let parent = self.view.read().sessions.get(session).and_then(|of| of.parent.clone());
        for message in page {
            bytes += message.bytes();
            if bytes > PAGE_BYTES && !letters.is_empty() {
                return (letters, false);
            }
            let now = self.view.read().messages.get(&message.id).cloned();
            let Some(now) = now.filter(|now| now.state == MessageState::Delivered) else { continue };
            let (said, lost) = match letter::said(&self.view, &self.root, &now).await {
                Ok(said) => (said, None),
                Err(why) => (letter::Said { text: String::new(), notice: None }, Some(why)),
            };
            let (message, origin) = (render::message(&now), letter::origin(parent.as_ref(), &now.from));
            letters.push(Letter { message, origin, text: said.text, notice: said.notice, lost });
        }
        (letters, true)
    }

    /// Whether a session is idle: nothing of it runs that is known of, and nothing waits for it.
    pub(super) fn is_idle(state: &State, session: &SessionId) -> bool {
        // A notice that nobody pulls is no work.
        let pushes = state.sessions.get(session).is_some_and(|session| session.adapter.pushes());
        let waits = |message: &Message| {
            matches!(message.state, MessageState::Queued | MessageState::Sending)
                && (pushes || message.notice.is_none())
        };
        !state.open_messages(session).any(|message| waits(message))
    }
}

/// The stop of this session that is under way. It follows from the record of the stop and is over with the episode, so no other one is told it.
fn notice(state: &State, session: &SessionId) -> Option<wire::Stop> {
    state.sessions.get(session)?.notice().map(|halt| render::stop(halt))
}

/// The texts of a session that are still needed: of its open messages, and of its reports.
fn bodies_of<'a>(state: &'a State, session: &SessionId) -> impl Iterator<Item = &'a Body> {
    let open = state.open_messages(session).filter_map(|message| message.body.as_ref());
    open.chain(state.reports_of(session).flat_map(|report| report.bodies()))
}

/// A session's messages that it can read, oldest first: while it is being stopped only those that it has had already.
fn readable(state: &State, session: &SessionId, after: Option<MessageId>, most: usize) -> Vec<Arc<Message>> {
    let stops = notice(state, session).is_some();
    let open = state.open_messages(session).filter(|message| after.is_none_or(|after| message.id > after));
    let fits = |message: &&Arc<Message>| {
        message.state == MessageState::Delivered || message.state == MessageState::Queued && !stops
    };
    open.filter(fits).take(most).cloned().collect()
}

/// How long a session turn may take to end once a message interrupts it.
fn interrupt_within_ms() -> u64 {
    #[cfg(feature = "testing")]
    if let Some(planted) = super::planted::interrupt_within_ms() {
        return planted;
    }
    limits::INTERRUPT_WITHIN_MS
}

fn message_id(text: &str) -> Result<MessageId, Refusal> {
    MessageId::parse(text).map_err(|_| Refusal::NoMessage { given: text.chars().take(64).collect() })
}

fn length_ok(text: &[u8]) -> Result<u64, WireError> {
    let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
    if bytes == 0 {
        return Err(WireError::new(ErrorCode::InvalidInput, "the text is empty; nothing was sent").reason("text"));
    }
    if bytes > MESSAGE_BYTES_MAX {
        let message = format!("the text has {bytes} bytes, the limit is {MESSAGE_BYTES_MAX}; nothing was sent");
        return Err(WireError::new(ErrorCode::TooLarge, message).with("limit", MESSAGE_BYTES_MAX));
    }
    Ok(bytes)
}

/// The operation is known, and its message is not any more: its session was deleted, or its receipt was kept long enough.
fn forgotten(id: u64, settled: &Settled) -> WireError {
    let id = MessageId(id);
    let operation = render::operation(&settled.operation, settled.replayed);
    let message =
        format!("message {id} was sent, and is no longer known: its session was deleted, or it ended long ago");
    let error = WireError::new(ErrorCode::NotFound, message).reason("forgotten").with("message", id.to_string());
    error
        .with("operation", operation.id)
        .with("state", settled.operation.state.word())
        .with("replayed", operation.replayed)
}
