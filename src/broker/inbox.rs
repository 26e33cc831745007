//! The way into the turn: one bounded queue. Requests that find it full are refused as `busy`; words of the world wait
//! for room, because they must not be lost.

use super::retiring::{Order, Retirement};
use super::turn::Told;
use crate::machine::{Hand, MessageId, Observation, Request, SessionId};
use crate::rpc::error::{ErrorCode, Retry, WireError};
use ostler_ledger::{AppendError, Entry, Position, RetireError, SnapshotError};
use std::collections::BTreeMap;
use tokio::sync::{mpsc, oneshot};

/// Inputs that may wait for the turn.
pub const INBOX: usize = 4_096;
/// Inputs that one turn takes at the most.
pub const TURN_INPUTS: usize = 256;

/// Who wants to know how records of the ledger's own were written: the last one's position, durable.
pub type Written = oneshot::Sender<Result<Position, AppendError>>;

/// One piece of mail for the turn. `T` says where an answer goes.
#[derive(Debug)]
pub enum Post<T = oneshot::Sender<Told>> {
    /// A caller's request, and where its answer goes.
    Request(Request, T),
    /// Word of the world.
    Word {
        /// What is known.
        observation: Observation,
        /// Whether it answers the effect that was under way for this session.
        answers: bool,
    },
    /// A session pulls messages, and where the word goes that they are delivered.
    Pull(SessionId, Vec<MessageId>, T),
    /// The effect of this kind that is under way came to nothing and may leave again.
    Again(SessionId, Hand),
    /// Last-seen times to be checkpointed, and who wants to know when they are durable.
    Beat(BTreeMap<SessionId, u64>, Option<oneshot::Sender<()>>),
    /// Records of the ledger's own, which change nothing in the state, and who wants to know when they are durable.
    Own(Vec<Entry>, Written),
    /// Retire the oldest segments, and who wants to know what came of it.
    Retire(Order, oneshot::Sender<Result<Retirement, RetireError>>),
    /// The ledger did not take the last records: whether it does now. Costs a record if it does.
    Probe,
    /// The file of the ledger that is written to may be another one by now: look.
    Look,
    /// A snapshot was written, and so many bytes it has, or why it was not.
    Stored(Result<u64, SnapshotError>),
    /// A deadline passed.
    Tick,
    /// Everything before this has been done; end the turn.
    Close,
}

/// The sending end.
#[derive(Clone, Debug)]
pub struct Inbox {
    posts: mpsc::Sender<Post>,
}

impl Inbox {
    /// A queue and its receiving end.
    pub fn new() -> (Self, mpsc::Receiver<Post>) {
        let (posts, receiver) = mpsc::channel(INBOX);
        (Self { posts }, receiver)
    }

    /// Asks the turn and waits for its answer. Dropping this future withdraws nothing: the request is decided, and its
    /// key finds the outcome.
    ///
    /// # Errors
    /// `busy` if the queue is full, `draining` if the broker is leaving.
    pub async fn ask(&self, request: Request) -> Result<Told, WireError> {
        self.told(|reply| Post::Request(request, reply)).await
    }

    /// Pulls a session's messages; when this returns they are delivered, durably.
    ///
    /// # Errors
    /// As [`Inbox::ask`].
    pub async fn pull(&self, session: SessionId, messages: Vec<MessageId>) -> Result<Told, WireError> {
        self.told(|reply| Post::Pull(session, messages, reply)).await
    }

    async fn told(&self, post: impl FnOnce(oneshot::Sender<Told>) -> Post) -> Result<Told, WireError> {
        let (reply, answer) = oneshot::channel();
        self.posts.try_send(post(reply)).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => {
                WireError::new(ErrorCode::Busy, "too many requests wait for their turn; nothing was done. Try again")
            }
            mpsc::error::TrySendError::Closed(_) => leaving(),
        })?;
        // The turn drops an open request only when it ends; the caller's key settles it with the next broker.
        answer.await.map_err(|_| {
            let message = "the broker left before this was settled; the same key finds out";
            WireError::new(ErrorCode::Draining, message).reason("unsettled").retry(Retry::SameKey)
        })
    }

    /// Hands over word of the world; waits for room.
    pub async fn post(&self, post: Post) {
        // A closed queue means that the broker is leaving: the next one asks the world itself.
        if self.posts.send(post).await.is_err() {
            tracing::debug!("word came after the last turn");
        }
    }
}

impl Inbox {
    /// As [`Inbox::post`], for what need not be done where the turn has so much else to do.
    pub fn post_if_room(&self, post: Post) {
        if self.posts.try_send(post).is_err() {
            tracing::debug!("the turn has no room, or was the last");
        }
    }

    /// As [`Inbox::post`], from a thread that may block.
    pub fn post_blocking(&self, post: Post) {
        if self.posts.blocking_send(post).is_err() {
            tracing::debug!("word came after the last turn");
        }
    }
}

/// The answer to what comes after the last turn.
pub fn leaving() -> WireError {
    WireError::new(ErrorCode::Draining, "the broker is leaving; nothing was done. Try again in a moment")
}
