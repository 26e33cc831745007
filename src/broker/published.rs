//! The published side of a running broker: whether clients can still find it, and publishing again what is gone.

use super::discovery;
use super::front::Door;
use super::start;
use super::watch::{Verdict, Watch};
use crate::os::paths::StateRoot;
use crate::os::runtime::RuntimeFolder;
use crate::rpc::error::WireError;
use crate::rpc::listener::{Server, bind};
use crate::rpc::record::Record;
use std::sync::{Arc, Mutex, PoisonError};

/// The published side of this broker, for the watch.
pub(super) struct Published {
    pub(super) root: Arc<StateRoot>,
    pub(super) at: Mutex<At>,
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

    pub(super) fn at(&self) -> std::sync::MutexGuard<'_, At> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks whether clients can still find us, and publishes again what is gone. False: fenced.
pub(super) fn keep_published(published: &Arc<Published>, server: &Server<Door>) -> bool {
    match published.check() {
        Verdict::Fine => true,
        Verdict::Fence(_) => false,
        Verdict::Republish { discovery, socket } => {
            tracing::warn!(discovery, socket, "publishing again what is gone");
            if socket && let Err(error) = listen_anew(published, server) {
                tracing::warn!(%error, "cannot listen anew yet");
                return true;
            }
            let record = published.at().record.clone();
            if let Err(error) = discovery::publish(&published.root, &record) {
                tracing::warn!(%error, "cannot publish yet");
            }
            true
        }
    }
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
    drop(tokio::spawn(server.clone().accept(bound)));
    Ok(())
}
