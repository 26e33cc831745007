//! Events: subscribers are told the ledger's records as they become durable. There is no second store: an event is a record, told by its position,
//! so that whoever knows the last one that he got goes on behind it, with this broker or a later one.
//!
//! ```text
//! turn --sync--> view's head --wakes--> subscription --waits for room--> page of the ledger --> connection
//! ```
//! Promises: nothing is told before it is durable; nothing is left out and nothing told twice; what cannot be told any more ends the subscription,
//! with the reason. Whoever does not read holds up nobody, and nothing is kept for him but his position: the ledger has the rest.

use super::codec;
use super::feed::Feed;
use super::front::Front;
use super::recall::accepting;
use super::sight::{Seen, Sight};
use crate::machine::{self, OperationId, Scope};
use crate::rpc::envelope;
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::service::Caller;
use crate::rpc::wire::{
    Encoded, Event, EventsSubscribeParams, EventsSubscribeResult, EventsUnsubscribeParams, EventsUnsubscribeResult,
    Timestamp, encode,
};
use ostler_ledger::Record;
use serde_json::json;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::JoinHandle;

/// Subscriptions of one connection.
pub const OF_CONNECTION_MAX: usize = 16;
/// Subscriptions of all connections.
pub const OF_BROKER_MAX: usize = 1024;
/// Sessions, and types, that a subscription names.
const NAMED_MAX: usize = 100;

/// All subscriptions, and what they read.
#[derive(Debug)]
pub struct Events {
    feed: Feed,
    rows: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    last: u64,
    /// By connection and number.
    rows: BTreeMap<(u64, u64), Row>,
}

#[derive(Debug)]
struct Row {
    /// The position up to which all was told.
    told: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Events {
    /// Of the ledger in this folder.
    pub fn new(ledger: PathBuf) -> Events {
        Events { feed: Feed::new(ledger), rows: Mutex::default() }
    }

    /// What was read is read anew: it may not be there any more.
    pub(super) fn forget(&self) {
        self.feed.forget();
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, row: (u64, u64)) -> Option<Row> {
        let mut rows = self.rows();
        let left = rows.rows.remove(&row);
        if rows.rows.is_empty() {
            self.feed.forget();
        }
        left
    }
}

/// Takes a subscription off the list however it ends.
struct Ending(Arc<Front>, (u64, u64));

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.events.leave(self.1);
    }
}

impl Front {
    /// `events.subscribe`.
    pub(super) async fn subscribe(
        self: Arc<Self>,
        caller: Caller,
        params: EventsSubscribeParams,
    ) -> Result<Encoded, WireError> {
        let scope = self.scope(&caller);
        let types = known_types(&params.types)?;
        let (sight, sessions, born, head) = {
            let state = self.view.read();
            let born = match &scope {
                Scope::Owner => None,
                Scope::Session(id) => state.sessions.get(id).map(|session| session.created_seq),
            };
            let sessions = self.sessions_named(&scope, &state, &params.sessions)?;
            (Sight::of(&scope, &state), sessions, born, self.view.head().seq)
        };
        let after = params.after.unwrap_or(head);
        if after > head {
            let message =
                format!("`after` is {after}, and the ledger's head is {head}: nothing can have been told from there");
            return Err(WireError::new(ErrorCode::InvalidInput, message).reason("after").with("seq", head));
        }
        if after < head {
            self.events.feed.behind(after, head).await?;
        }
        // Which children a session had by then its own history tells.
        let read = born.map_or(after, |born| if after < head { after.min(born) } else { after });
        let told = Arc::new(AtomicU64::new(after));
        let following =
            |subscription| Following { subscription, sight, sessions, types, read, told: Arc::clone(&told) };
        // Without a pause from here to the answer: what is told comes behind it.
        let subscription = self.begin(caller, following)?;
        Ok(encode(&EventsSubscribeResult { subscription, seq: after }))
    }

    /// The sessions that are named.
    fn sessions_named(
        &self,
        scope: &Scope,
        state: &machine::State,
        given: &[String],
    ) -> Result<BTreeSet<String>, WireError> {
        if given.len() > NAMED_MAX {
            return Err(too_many("sessions"));
        }
        let named = given.iter().map(|given| Self::named(scope, state, given));
        named.map(|session| session.map(|session| session.id.to_string())).collect()
    }

    fn begin(self: &Arc<Self>, caller: Caller, following: impl FnOnce(u64) -> Following) -> Result<u64, WireError> {
        let mut rows = self.events.rows();
        let connection = caller.connection;
        if rows.rows.range((connection, 0)..=(connection, u64::MAX)).count() >= OF_CONNECTION_MAX {
            return Err(full(&format!("this connection has {OF_CONNECTION_MAX} subscriptions"), "connection"));
        }
        if rows.rows.len() >= OF_BROKER_MAX {
            return Err(full(&format!("this broker has {OF_BROKER_MAX} subscriptions"), "broker"));
        }
        rows.last += 1;
        let subscription = rows.last;
        let following = following(subscription);
        let (told, ending) = (Arc::clone(&following.told), Ending(Arc::clone(self), (connection, subscription)));
        let front = Arc::clone(self);
        let task = tokio::spawn(async move {
            let _ending = ending;
            following.follow(&front, &caller).await;
        });
        rows.rows.insert((connection, subscription), Row { told, task });
        Ok(subscription)
    }

    /// `events.unsubscribe`.
    pub(super) async fn unsubscribe(
        self: Arc<Self>,
        caller: Caller,
        EventsUnsubscribeParams { subscription }: EventsUnsubscribeParams,
    ) -> Result<Encoded, WireError> {
        let Some(Row { told, task }) = self.events.leave((caller.connection, subscription)) else {
            let message = format!("this connection has no subscription {subscription} (any more)");
            return Err(WireError::new(ErrorCode::NotFound, message).reason("subscription"));
        };
        task.abort();
        // It has ended either way.
        drop(task.await);
        // What is on its way goes before the answer; without the connection nobody gets either.
        drop(caller.notices.reserve().await);
        Ok(encode(&EventsUnsubscribeResult { seq: told.load(Ordering::Relaxed) }))
    }
}

/// One subscription on its way.
struct Following {
    subscription: u64,
    sight: Sight,
    /// Only these, if any.
    sessions: BTreeSet<String>,
    /// Only these, if any.
    types: BTreeSet<String>,
    /// What was read so far. A session reads from its own beginning on, and is told what comes behind `told`.
    read: u64,
    told: Arc<AtomicU64>,
}

impl Following {
    async fn follow(mut self, front: &Front, caller: &Caller) {
        let mut changes = front.view.changes();
        loop {
            let head = changes.borrow_and_update().seq;
            if self.read >= head {
                let is_over = tokio::select! {
                    () = caller.notices.closed() => true,
                    changed = changes.changed() => changed.is_err(),
                };
                if is_over {
                    return;
                }
                continue;
            }
            // Room first: whoever does not read has nothing read for him.
            let Ok(room) = caller.notices.reserve().await else { return };
            let page = match front.still_known(caller) {
                Ok(()) => self.page(front, head).await,
                Err(gone) => Err(gone),
            };
            match page {
                Ok(lines) if lines.is_empty() => drop(room),
                Ok(lines) => room.send(lines),
                Err(error) => return room.send(self.end(error)),
            }
            self.told.fetch_max(self.read, Ordering::Relaxed);
            // Whoever has much to catch up with is not alone.
            tokio::task::yield_now().await;
        }
    }

    /// The lines that tell the next page.
    async fn page(&mut self, front: &Front, head: u64) -> Result<Vec<u8>, WireError> {
        let told = self.told.load(Ordering::Relaxed);
        let records = match front.events.feed.behind(self.read, head).await {
            // What is not to be told need not be known in full.
            Err(_) if self.read < told => {
                self.read = told;
                return Ok(Vec::new());
            }
            records => records?,
        };
        let mut lines = Vec::new();
        for record in records {
            self.read = record.header.seq;
            if self.is_meant(front, &record, told).await {
                lines.extend(self.line(&record));
            }
        }
        Ok(lines)
    }

    async fn is_meant(&mut self, front: &Front, record: &Record, told: u64) -> bool {
        let header = &record.header;
        if !codec::tells_event(&header.t) {
            return false;
        }
        let seen = self.sight.sees(record);
        let is_meant = header.seq > told
            && (self.types.is_empty() || self.types.contains(&header.t))
            && (self.sessions.is_empty() || header.sid.as_ref().is_some_and(|sid| self.sessions.contains(sid)));
        match seen {
            _ if !is_meant => false,
            Seen::Yes => true,
            Seen::No => false,
            Seen::IfAsked(operation) => self.asked(front, operation).await,
        }
    }

    /// Whether the subscriber asked for this operation, by the record that accepted it.
    async fn asked(&self, front: &Front, operation: OperationId) -> bool {
        let ledger = front.ledger();
        let found = tokio::task::spawn_blocking(move || accepting(&ledger, operation)).await;
        found.ok().flatten().is_some_and(|event| self.sight.asked(&event))
    }

    fn line(&self, record: &Record) -> Vec<u8> {
        let header = &record.header;
        let stored = RawValue::from_string(document(record)).expect("a sound record is a JSON object");
        envelope::notification(
            EVENT,
            &Event {
                subscription: self.subscription,
                seq: header.seq,
                at: header.at.parse().unwrap_or(Timestamp::from_us(0)),
                session_id: header.sid.clone(),
                kind: header.t.clone(),
                record: Some(stored),
                error: None,
            },
        )
    }

    fn end(&self, error: WireError) -> Vec<u8> {
        let seq = self.told.load(Ordering::Relaxed);
        let at = Timestamp::from_us(super::desk::now().wall_us);
        let (subscription, kind) = (self.subscription, "end".to_owned());
        let event = Event { subscription, seq, at, session_id: None, kind, record: None, error: Some(error) };
        envelope::notification(EVENT, &event)
    }
}

/// The notification's name.
const EVENT: &str = "event";

/// RECORD of the contract: the stored members and the digest, without parsing what is stored.
pub fn document(record: &Record) -> String {
    let members = record.raw().strip_prefix('{').expect("a sound record is a JSON object");
    format!("{{\"digest\":\"{}\",{members}", record.digest)
}

/// The types that are named, if events have them all.
fn known_types(given: &[String]) -> Result<BTreeSet<String>, WireError> {
    if given.len() > NAMED_MAX {
        return Err(too_many("types"));
    }
    for name in given {
        // What an event is stored as knows its own names, and lists them where it does not know one.
        if let Err(error) = serde_json::from_value::<machine::Event>(json!({ "t": name }))
            && error.to_string().starts_with("unknown variant")
        {
            return Err(WireError::new(ErrorCode::InvalidInput, format!("types: {error}")).reason("types"));
        }
    }
    Ok(given.iter().cloned().collect())
}

fn too_many(what: &str) -> WireError {
    WireError::new(ErrorCode::InvalidInput, format!("at most {NAMED_MAX} {what} are named")).reason(what)
}

fn full(why: &str, of: &str) -> WireError {
    let message = format!("{why}, which is the limit; `events.unsubscribe` ends one");
    WireError::new(ErrorCode::Capacity, message).reason("subscriptions").with("of", of)
}
