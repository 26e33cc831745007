//! Messages on their way to a host, and what hosts that are no more wrote down about them.
//!
//! Promise: every attempt comes to a word, as long as the broker lives: taken, refused, or that nobody can tell. What is not an answer (a host
//! that is silent, a connection that broke) is no word: then what is owed is asked of the state again, which by then may be something else.

use super::hosts::Hosts;
use super::inbox::Post;
use super::letter::{letter, origin, said};
use super::passed;
use crate::host::client::{LinkError, Probe, probe};
use crate::host::wire::{DELIVER_BYTES_MAX, Delivery, RefusalCode};
use crate::machine::{Adapter, Carried, Hand, Message, MessageId, Observation, OperationId, SessionId, Word};
use crate::rpc::wire::Origin;
use std::sync::Arc;
use std::time::Duration;

/// Between two attempts to ask a host that gave no answer.
const AGAIN: Duration = Duration::from_millis(100);

/// An attempt: the message, and its token.
pub(super) type Attempt = (MessageId, u64);

impl Hosts {
    /// Hands a message to its host. A host that has seen the attempt says the same again and does nothing.
    pub(super) async fn deliver(self: Arc<Self>, session: SessionId, episode: u32, attempt: Attempt) {
        match self.handed(&session, episode, attempt).await {
            Some(carried) => self.carried((session, episode), attempt, carried).await,
            None => {
                tokio::time::sleep(AGAIN).await;
                self.inbox.post(Post::Again(session, Hand::Mail)).await;
            }
        }
    }

    /// None: there was no answer.
    async fn handed(&self, session: &SessionId, episode: u32, (message, token): Attempt) -> Option<Carried> {
        let (message, adapter, origin) = self.addressed(session, message)?;
        let link = self.link(session, episode)?;
        let bytes = match said(&self.view, &self.root, &message).await {
            Ok(said) => letter(adapter, &message, origin, &said),
            Err(why) => return Some(Carried::Unknown { reason: why }),
        };
        if bytes.len() > DELIVER_BYTES_MAX {
            return Some(Carried::Refused { reason: format!("framed it has more than {DELIVER_BYTES_MAX} bytes") });
        }
        passed::handing();
        let handed = link.deliver(&message.id.to_string(), token, &bytes).await;
        passed::handed();
        match handed {
            Ok(Delivery::Accepted { at_us }) => Some(Carried::Taken { at_us }),
            Ok(Delivery::Refused { reason }) => Some(Carried::Refused { reason }),
            Ok(Delivery::Cut { written, total }) => {
                Some(Carried::Unknown { reason: format!("its input was closed after {written} of {total} bytes") })
            }
            Err(LinkError::Refused(refusal)) if is_final(refusal.code) => {
                Some(Carried::Refused { reason: refusal.message })
            }
            Err(error) => {
                tracing::info!(session = session.as_str(), message = %message.id, %error, "no answer to a message");
                None
            }
        }
    }

    fn addressed(&self, session: &SessionId, message: MessageId) -> Option<(Arc<Message>, Adapter, Origin)> {
        let state = self.view.read();
        let (message, session) = (Arc::clone(state.messages.get(&message)?), state.sessions.get(session)?);
        let origin = origin(session.parent.as_ref(), &message.from);
        Some((message, session.adapter, origin))
    }

    /// Has the host signal the command. One that has signalled for this operation says so again and does nothing.
    pub(super) async fn interrupt(
        self: Arc<Self>,
        session: SessionId,
        episode: u32,
        (operation, turn): (OperationId, Option<u64>),
    ) {
        let answer = match self.link(&session, episode) {
            Some(link) => link.interrupt(operation.0, turn).await.ok(),
            None => None,
        };
        let Some(sent) = answer else {
            tokio::time::sleep(AGAIN).await;
            return self.inbox.post(Post::Again(session, Hand::Signal)).await;
        };
        let word = Word::Interrupted { operation, sent };
        passed::word(&word);
        self.inbox.post(Post::Word { observation: Observation { session, episode, word }, answers: true }).await;
    }

    /// Reads what the host of an episode that is over wrote down.
    pub(super) async fn probe(self: Arc<Self>, session: SessionId, episode: u32, attempt: Attempt) {
        let (root, id, message) = (self.root.clone(), session.to_string(), attempt.0.to_string());
        let read = tokio::task::spawn_blocking(move || probe(&root, &id, episode, &message, attempt.1)).await;
        let carried = match read {
            Ok(Ok(Probe::Accepted { at_us })) => Carried::Taken { at_us },
            Ok(Ok(Probe::NotAccepted)) => Carried::NotTaken,
            Ok(Ok(Probe::CannotTell)) => {
                Carried::Unknown { reason: "its host ended while it handed it over".to_owned() }
            }
            Ok(Err(error)) => Carried::Unknown { reason: format!("its host's journal cannot be read: {error}") },
            Err(error) => Carried::Unknown { reason: error.to_string() },
        };
        self.carried((session, episode), attempt, carried).await;
    }

    async fn carried(&self, (session, episode): (SessionId, u32), (message, attempt): Attempt, carried: Carried) {
        let word = Word::Mail { message, attempt, carried };
        passed::word(&word);
        let observation = Observation { session, episode, word };
        self.inbox.post(Post::Word { observation, answers: true }).await;
    }
}

/// Whether a refusal stays one: nothing was written, and nothing would be if it were asked again.
fn is_final(code: RefusalCode) -> bool {
    match code {
        RefusalCode::CapabilityMissing | RefusalCode::InvalidInput | RefusalCode::TooLarge => true,
        RefusalCode::Unauthenticated
        | RefusalCode::Denied
        | RefusalCode::StaleGeneration
        | RefusalCode::Unavailable
        | RefusalCode::ProtocolMismatch => false,
    }
}
