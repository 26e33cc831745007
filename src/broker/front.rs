//! The front: what the connections call. It sorts calls into reads, which go to the view, and changes, which go to the
//! turn; it knows who may see what. Nothing here holds a lock over an await.

use super::accept::Standing;
use super::bodies::Bodies;
use super::desk::now;
use super::events::Events;
use super::hosts::Hosts;
use super::inbox::Inbox;
use super::render::Renderer;
use super::route::{Change, Route, route};
use super::secret::Secret;
use super::view::View;
use crate::machine::{Family, Scope, Session, SessionId, Status};
use crate::os::build::build;
use crate::os::filesystem;
use crate::os::folder::Folder;
use crate::rpc::connection::IN_FLIGHT_MAX;
use crate::rpc::cursor::Cursors;
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::frame::FRAME_BYTES_MAX;
use crate::rpc::hello::is_same_token;
use crate::rpc::method::Method;
use crate::rpc::service::{Caller, Service};
use crate::rpc::wire::{
    self, Broker, BrokerStatusParams, BrokerStatusResult, Encoded, Identity, LedgerHead, Limits, LockState,
    OwnerRecord, Role, RootId, RunState, SessionCounts, ShutdownParams, ShutdownResult, Timestamp, decode, encode,
};
use ostler_ledger::Finding;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, watch};

/// A wish to leave: whether live sessions are to be stopped first.
pub type Leave = bool;

/// Less room in the root than this is told: what a new session needs may not fit.
const SPACE_BYTES_MIN: u64 = 1024 * 1024;

/// What `status` says first of a ledger that cannot be written.
pub const NO_RECORDS: &str = "the ledger does not take records";

/// Everything a call may need. One for each broker.
#[derive(Debug)]
pub struct Front {
    /// Who this broker is.
    pub broker: Broker,
    /// The state root.
    pub root: PathBuf,
    /// Its device and inode.
    pub root_id: RootId,
    /// The owner record of the lock.
    pub owner: OwnerRecord,
    /// The owner's token.
    pub token: String,
    /// Under which requests are digested.
    pub secret: Secret,
    /// What a family of sessions may grow to.
    pub family: Family,
    /// What readers see.
    pub view: Arc<View>,
    /// The way into the turn.
    pub inbox: Inbox,
    /// The broker's hands.
    pub hosts: Arc<Hosts>,
    /// Texts of messages.
    pub bodies: Arc<Bodies>,
    /// Documents.
    pub renderer: Renderer,
    /// Where lists go on.
    pub cursors: Mutex<Cursors<super::reads::Position>>,
    /// Why the ledger does not take records, while it does not.
    pub degraded: watch::Receiver<Option<String>>,
    /// Why clients cannot find this broker, while they cannot.
    pub hidden: watch::Receiver<Option<String>>,
    /// What was degraded at the start and stays so until an operator accepts it.
    pub standing: Vec<Standing>,
    /// What the scrub has found.
    pub scrubbed: watch::Receiver<Vec<Standing>>,
    /// What subscribers are told.
    pub events: Events,
    /// What an operator has accepted since the start.
    pub accepted: Mutex<BTreeSet<Finding>>,
    /// The last record that was retired since the start.
    pub retired: AtomicU64,
    /// Whether the broker is leaving.
    pub draining: watch::Receiver<bool>,
    /// Where a wish to leave goes.
    pub leave: mpsc::Sender<Leave>,
}

/// The handle that connections share.
#[derive(Clone, Debug)]
pub struct Door(pub Arc<Front>);

impl Service for Door {
    fn broker(&self) -> Broker {
        self.0.broker.clone()
    }

    fn root_id(&self) -> RootId {
        self.0.root_id.clone()
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_us(now().wall_us)
    }

    fn capabilities(&self) -> Vec<String> {
        let built = Method::ALL.iter().filter(|method| route(**method) != Route::Absent);
        built.map(|method| method.name().to_owned()).collect()
    }

    fn limits(&self) -> Limits {
        Limits {
            frame_bytes: u64::try_from(FRAME_BYTES_MAX).unwrap_or(u64::MAX),
            in_flight: u32::try_from(IN_FLIGHT_MAX).unwrap_or(u32::MAX),
            page: super::reads::PAGE_MAX,
            command_bytes: u64::try_from(super::asked::COMMAND_BYTES).unwrap_or(u64::MAX),
            message_bytes: wire::MESSAGE_BYTES_MAX,
            report_bytes: wire::REPORT_BYTES_MAX,
        }
    }

    fn authenticate(&self, token: &str, role: Role) -> Result<Identity, WireError> {
        let wrong = || {
            let message = "the token is not valid; read it anew from broker.json or the session's credential file";
            WireError::new(ErrorCode::Unauthenticated, message)
        };
        match role {
            Role::Owner if is_same_token(token, &self.0.token) => Ok(Identity::Owner),
            Role::Owner => Err(wrong()),
            Role::Session => {
                let (id, _) = token.split_once('.').ok_or_else(wrong)?;
                let id = SessionId::parse(id).map_err(|_| wrong())?;
                let known = self.0.view.read().sessions.get(&id).is_some();
                let credential =
                    known.then(|| crate::host::client::read_credential(&self.0.root, id.as_str())).flatten();
                match credential {
                    Some(credential) if is_same_token(token, &credential) => Ok(Identity::Session(id.to_string())),
                    Some(_) | None => Err(wrong()),
                }
            }
        }
    }

    async fn call(&self, caller: Caller, method: Method, params: Value) -> Result<Encoded, WireError> {
        let front = Arc::clone(&self.0);
        front.still_known(&caller)?;
        match route(method) {
            Route::Status => front.status(params),
            Route::Shutdown => front.shutdown(&caller, params),
            Route::Hello | Route::Absent => Err(unknown(method)),
            Route::Change(_)
            | Route::Read(_)
            | Route::Accept
            | Route::Retire
            | Route::Subscribe
            | Route::Unsubscribe
                if *front.draining.borrow() =>
            {
                Err(super::inbox::leaving())
            }
            // A message or report goes on whether its sender stays or not: its text is held until it is decided (requirement R5).
            Route::Change(change @ (Change::Send | Change::Report)) => {
                let sent = tokio::spawn(async move { front.change(caller, change, method, params).await });
                sent.await.unwrap_or_else(|error| Err(WireError::new(ErrorCode::Internal, error.to_string())))
            }
            Route::Change(change) => front.change(caller, change, method, params).await,
            Route::Accept => front.accept(&caller, params).await,
            Route::Retire => front.retire(&caller, params).await,
            Route::Read(read) => front.read(caller, read, params).await,
            Route::Subscribe => front.subscribe(caller, decode(params)?).await,
            Route::Unsubscribe => front.unsubscribe(caller, decode(params)?).await,
        }
    }
}

/// The answer to a method of the protocol that this version does not have.
fn unknown(method: Method) -> WireError {
    let message = format!("this broker (version {}) has no {}; nothing was done", build().version, method.name());
    WireError::new(ErrorCode::UnknownMethod, message).with("version", build().version)
}

impl Front {
    fn status(&self, params: Value) -> Result<Encoded, WireError> {
        let BrokerStatusParams {} = decode(params)?;
        let head = self.view.head();
        let state = self.view.read();
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let sessions = SessionCounts { live: count(state.live), total: count(state.sessions.len()) };
        drop(state);
        let mut degraded = self.standing();
        degraded.extend(self.degraded.borrow().as_ref().map(|why| format!("{NO_RECORDS}: {why}")));
        degraded.extend(self.hidden.borrow().clone());
        degraded.extend(self.short_of_space());
        Ok(encode(&BrokerStatusResult {
            state: if *self.draining.borrow() { RunState::Draining } else { RunState::Running },
            broker: Some(self.broker.clone()),
            lock: LockState { held: Some(true), owner: Some(self.owner.clone()), owner_lives: Some(true) },
            ledger: Some(LedgerHead { seq: head.seq, digest: head.digest.to_string() }),
            sessions: Some(sessions),
            degraded,
        }))
    }

    /// Said before a write fails, and also where only the files of sessions do not fit any more.
    fn short_of_space(&self) -> Option<String> {
        let free = filesystem::free_bytes(&Folder::open(&self.root).ok()?).ok()?;
        let root = self.root.display();
        (free < SPACE_BYTES_MIN)
            .then(|| format!("only {} KiB are free in {root}: new sessions may not fit", free / 1024))
    }

    fn shutdown(&self, caller: &Caller, params: Value) -> Result<Encoded, WireError> {
        let params: ShutdownParams = decode(params)?;
        if self.scope(caller) != Scope::Owner {
            return Err(super::refused::refused(&crate::machine::Refusal::OwnerOnly));
        }
        // A request that was meant for a predecessor must not end its successor (report C08).
        if params.incarnation.as_ref().is_some_and(|meant| *meant != self.broker.incarnation) {
            let message = "that broker has been replaced; this one stays. `ostler status` shows it";
            return Err(WireError::new(ErrorCode::EndpointStale, message).reason("replaced"));
        }
        // A full channel holds the same wish already.
        let _ = self.leave.try_send(params.stop_sessions);
        Ok(encode(&ShutdownResult { broker: self.broker.clone() }))
    }

    /// A connection as a session that was deleted meanwhile acts for nobody: its credential is gone as well.
    pub(super) fn still_known(&self, caller: &Caller) -> Result<(), WireError> {
        let Scope::Session(id) = self.scope(caller) else { return Ok(()) };
        let is_there = |session: &Session| session.status != Status::Deleted;
        if self.view.read().sessions.get(&id).is_some_and(|session| is_there(session)) {
            return Ok(());
        }
        let message = format!("you act as session {id}, which was deleted; nothing was done");
        Err(WireError::new(ErrorCode::Unauthenticated, message).reason("deleted"))
    }

    /// Whose keys a caller's are.
    pub(super) fn scope(&self, caller: &Caller) -> Scope {
        match &caller.identity {
            Identity::Owner => Scope::Owner,
            Identity::Session(id) => {
                Scope::Session(SessionId::parse(id).expect("authenticate gives out valid ids only"))
            }
        }
    }

    /// Whether a caller may look at a session: the owner at each, a session at itself and its children.
    pub(super) fn may_see(scope: &Scope, session: &Session) -> bool {
        match scope {
            Scope::Owner => true,
            Scope::Session(id) => session.id == *id || session.parent.as_ref() == Some(id),
        }
    }

    /// A session's document with the newest sign of life.
    pub(super) fn document(&self, session: &Session, generation: u64) -> wire::Session {
        let queue = super::render::queue(&self.view.read(), &session.id);
        self.renderer.session(session, generation, (self.hosts.seen(&session.id), queue))
    }
}
