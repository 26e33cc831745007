//! The published side of a running broker: whether clients can still find it, and publishing again what is gone.

use super::discovery;
use super::front::Door;
use super::start;
use super::watch::{Verdict, Watch};
use crate::os::fail::{Point, pass};
use crate::os::paths::StateRoot;
use crate::os::runtime::RuntimeFolder;
use crate::rpc::error::WireError;
use crate::rpc::listener::{Server, bind};
use crate::rpc::record::{RECORD_NAME, Record};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// The published side of this broker, for the watch.
pub(super) struct Published {
    pub(super) root: Arc<StateRoot>,
    pub(super) at: Mutex<At>,
    /// Why clients cannot find us, while they cannot.
    pub(super) hidden: watch::Sender<Option<String>>,
}

/// Where it is published now: the place of the socket can change when its folder is lost.
pub(super) struct At {
    pub(super) runtime: RuntimeFolder,
    pub(super) record: Record,
    pub(super) watch: Watch,
}

impl Published {
    pub(super) fn check(&self) -> Verdict {
        let watch = self.at().watch.clone();
        watch.check(&self.root).unwrap_or_else(|error| {
            tracing::warn!(%error, "the root cannot be looked into");
            Verdict::Fine
        })
    }

    /// Takes down whether clients can find us. It is looked at every second, so only a change is logged.
    fn note(&self, hidden: Option<String>) {
        self.hidden.send_if_modified(|known| {
            let is_new = *known != hidden;
            match &hidden {
                Some(why) if is_new => tracing::warn!(why, "clients cannot find this broker; tried again every second"),
                None if is_new => tracing::info!("clients can find this broker again"),
                Some(_) | None => {}
            }
            *known = hidden;
            is_new
        });
    }

    pub(super) fn at(&self) -> std::sync::MutexGuard<'_, At> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks whether clients can still find us, and publishes again what is gone. False: fenced.
pub(super) fn keep_published(published: &Arc<Published>, server: &Server<Door>) -> bool {
    match published.check() {
        Verdict::Fine => {
            published.note(None);
            true
        }
        Verdict::Fence(_) => false,
        Verdict::Republish { discovery, socket } => {
            if published.hidden.borrow().is_none() {
                tracing::warn!(discovery, socket, "publishing again what is gone");
            }
            pass(Point::PublishAgain);
            published.note(publish_again(published, server, socket).err());
            true
        }
    }
}

fn publish_again(published: &Published, server: &Server<Door>, socket: bool) -> Result<(), String> {
    if socket {
        listen_anew(published, server).map_err(|error| format!("this broker cannot listen anew: {error}"))?;
    }
    let record = published.at().record.clone();
    let path = published.root.path().join(RECORD_NAME);
    discovery::publish(&published.root, &record).map_err(|error| format!("cannot publish {}: {error}", path.display()))
}

/// Listens again: at the same address if its folder is still to be had, else where sockets go now.
fn listen_anew(published: &Published, server: &Server<Door>) -> Result<(), WireError> {
    let runtime = start::runtime(&published.root)?;
    let mut at = published.at();
    let bound = bind(&runtime, &at.watch.socket_name);
    let bound = bound.map_err(WireError::from)?;
    at.watch.socket = bound.standing;
    at.watch.socket_folder = runtime.path().to_owned();
    at.record.broker.endpoint.clone_from(&bound.address);
    at.runtime = runtime;
    drop(at);
    pass(Point::PublishBoundAgain);
    drop(tokio::spawn(server.clone().accept(bound)));
    Ok(())
}
