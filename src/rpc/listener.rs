//! The broker's door: the socket, who is let in, and how many.
//!
//! Promises: only the same user gets in; whoever is turned away is told why in one line; running out of descriptors is
//! survived without spinning and without filling the log; connections that stay silent never keep others out.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use interprocess::local_socket::tokio::prelude::*;
use interprocess::local_socket::tokio::{Listener, Stream};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::connection::{self, Admitted};
use super::envelope;
use super::error::{ErrorCode, WireError};
use super::service::Service;
use crate::os::clock;
use crate::os::errors;
use crate::os::folder::{Kind, Standing};
use crate::os::paths::PathError;
use crate::os::runtime::RuntimeFolder;
use crate::os::socket::{listen, same_user};

/// Connections at once.
pub const CONNECTIONS_MAX: usize = 1024;

/// Pause after the system had no descriptor or memory for another connection.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);
/// At most one line in the log about it in this time, microseconds.
const EXHAUSTED_LOG_US: u64 = 10_000_000;
/// How long a silent connection that is asked to make room may take to go.
const MAKE_ROOM: Duration = Duration::from_millis(200);
/// How long a refusal may take to be written; a fresh socket has room for it.
const REFUSAL: Duration = Duration::from_millis(50);

/// A socket that listens.
#[derive(Debug)]
pub struct Bound {
    listener: Listener,
    /// Its address: `unix:/path`.
    pub address: String,
    /// Its name in the runtime folder.
    pub name: String,
    /// Its device and inode, for the watch.
    pub standing: Standing,
}

/// Listens on `name` in the runtime folder. What stands at that name is removed first: the name carries the incarnation
/// of the caller, so it can only be a left-over of its own. To be called within the runtime that will serve it.
///
/// # Errors
/// [`PathError`]: the path is too long, or the system refuses.
pub fn bind(runtime: &RuntimeFolder, name: &str) -> Result<Bound, PathError> {
    let path = runtime.socket_path(name)?;
    let failed = |doing: &'static str| {
        let path = path.clone();
        move |error: io::Error| PathError::io(doing, path, error)
    };
    if runtime.folder().look(name).map_err(failed("look at"))?.is_some() {
        runtime.folder().remove_all(name).map_err(failed("replace"))?;
    }
    let listener = listen(&path).map_err(failed("listen at"))?;
    match runtime.folder().look(name).map_err(failed("look at"))? {
        Some(standing) if standing.kind == Kind::Socket => {
            Ok(Bound { listener, address: format!("unix:{path}"), name: name.to_owned(), standing })
        }
        // Some mounts take a bind and make a plain file of it.
        Some(_) | None => Err(failed("listen at")(io::Error::other("its file system has no sockets"))),
    }
}

/// Serves connections. A clone serves the same ones.
#[derive(Debug)]
pub struct Server<S> {
    shared: Arc<Shared<S>>,
}

impl<S> Clone for Server<S> {
    fn clone(&self) -> Server<S> {
        Server { shared: Arc::clone(&self.shared) }
    }
}

#[derive(Debug)]
struct Shared<S> {
    service: Arc<S>,
    slots: Arc<Semaphore>,
    slots_max: usize,
    next_connection: AtomicU64,
    /// Connections that have not said hello, oldest first, each with what asks it to make room.
    silent: Arc<Silent>,
    stop: watch::Sender<bool>,
}

/// Connections that have not said hello yet.
#[derive(Debug, Default)]
pub(super) struct Silent {
    waiting: Mutex<BTreeMap<u64, Arc<Notify>>>,
}

impl Silent {
    fn enter(&self, connection: u64) -> Arc<Notify> {
        let notify = Arc::new(Notify::new());
        self.lock().insert(connection, Arc::clone(&notify));
        notify
    }

    /// It has said hello, or is gone.
    pub(super) fn leave(&self, connection: u64) {
        self.lock().remove(&connection);
    }

    fn ask_oldest_to_leave(&self) -> bool {
        self.lock().pop_first().is_some_and(|(_, notify)| {
            notify.notify_one();
            true
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<Notify>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Service> Server<S> {
    /// A server for this service.
    pub fn new(service: Arc<S>) -> Server<S> {
        Server::with_slots(service, CONNECTIONS_MAX)
    }

    /// A server with room for `slots_max` connections.
    pub fn with_slots(service: Arc<S>, slots_max: usize) -> Server<S> {
        Server {
            shared: Arc::new(Shared {
                service,
                slots: Arc::new(Semaphore::new(slots_max)),
                slots_max,
                next_connection: AtomicU64::new(1),
                silent: Arc::default(),
                stop: watch::channel(false).0,
            }),
        }
    }

    /// Lets connections in until [`Server::stop`]. May run for several sockets at once: one that was lost and one that
    /// took its place.
    pub async fn accept(self, bound: Bound) {
        self.accept_at(bound.listener).await;
    }

    /// The same at a socket of another name.
    pub async fn accept_at(self, listener: Listener) {
        let mut stop = self.shared.stop.subscribe();
        let mut exhausted = Exhausted::new();
        loop {
            let accepted = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok(stream) => self.admit(stream).await,
                Err(error) => exhausted.handle(&listener, &error).await,
            }
        }
    }

    /// Asks every connection to come to its end: nothing new is let in or read, what is in flight is answered.
    pub fn stop(&self) {
        self.shared.stop.send_replace(true);
    }

    /// How many connections were let in since it was made.
    pub fn let_in(&self) -> u64 {
        self.shared.next_connection.load(Ordering::Relaxed) - 1
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.shared.slots_max - self.shared.slots.available_permits()
    }

    /// Returns once every connection has ended. To be called after [`Server::stop`], under a time limit.
    pub async fn ended(&self) {
        let all = u32::try_from(self.shared.slots_max).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        drop(self.shared.slots.acquire_many(all).await);
    }

    async fn admit(&self, stream: Stream) {
        let peer = match same_user(&stream) {
            Ok(peer) => peer,
            Err(error) => {
                tracing::warn!(%error, "connection refused");
                return refuse(&stream, &WireError::new(ErrorCode::Denied, error.to_string())).await;
            }
        };
        let Some(slot) = self.slot().await else {
            let message = format!("all {} connections are in use", self.shared.slots_max);
            return refuse(&stream, &WireError::new(ErrorCode::Capacity, message).reason("connections")).await;
        };
        let connection = self.shared.next_connection.fetch_add(1, Ordering::Relaxed);
        let make_room = self.shared.silent.enter(connection);
        let admitted = Admitted {
            stream,
            peer,
            connection,
            service: Arc::clone(&self.shared.service),
            stop: self.shared.stop.subscribe(),
            silent: Arc::clone(&self.shared.silent),
            make_room,
        };
        tokio::spawn(async move {
            connection::serve(admitted).await;
            drop(slot);
        });
    }

    /// A slot; if all are taken, that of the connection that has been silent for longest.
    async fn slot(&self) -> Option<OwnedSemaphorePermit> {
        let slots = &self.shared.slots;
        if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
            return Some(slot);
        }
        if !self.shared.silent.ask_oldest_to_leave() {
            return None;
        }
        timeout(MAKE_ROOM, Arc::clone(slots).acquire_owned()).await.ok()?.ok()
    }
}

/// Tells why and closes.
async fn refuse(mut stream: &Stream, error: &WireError) {
    let line = envelope::response(&Value::Null, &Err(error.clone()));
    // Whoever does not take it learns from the end of the connection.
    drop(timeout(REFUSAL, stream.write_all(&line)).await);
}

/// Out of descriptors: one is kept in reserve, to tell those who knock instead of leaving them in the queue.
struct Exhausted {
    reserve: Option<File>,
    logged_us: Option<u64>,
    unlogged: u64,
}

impl Exhausted {
    fn new() -> Exhausted {
        Exhausted { reserve: File::open("/dev/null").ok(), logged_us: None, unlogged: 0 }
    }

    async fn handle(&mut self, listener: &Listener, error: &io::Error) {
        // It was there and is gone: nothing to pause for.
        if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted) {
            return;
        }
        self.log(error);
        let freed = self.reserve.take().is_some();
        if freed
            && errors::is_out_of_descriptors(error)
            && let Ok(Ok(stream)) = timeout(Duration::ZERO, listener.accept()).await
        {
            let error = WireError::new(ErrorCode::Capacity, "the broker has no file descriptor for a connection");
            refuse(&stream, &error.reason("descriptors")).await;
            drop(stream);
            self.reserve = File::open("/dev/null").ok();
            // Whoever knocked knows; the next may be told at once.
            return;
        }
        self.reserve = File::open("/dev/null").ok();
        sleep(EXHAUSTED_PAUSE).await;
    }

    fn log(&mut self, error: &io::Error) {
        let now_us = clock::boot_us();
        if self.logged_us.is_some_and(|logged_us| now_us.saturating_sub(logged_us) < EXHAUSTED_LOG_US) {
            self.unlogged += 1;
            return;
        }
        tracing::error!(%error, times_before = self.unlogged, "no connection can be accepted");
        (self.logged_us, self.unlogged) = (Some(now_us), 0);
    }
}

#[cfg(test)]
#[path = "listener_tests.rs"]
mod tests;
