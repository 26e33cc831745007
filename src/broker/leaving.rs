//! How a broker leaves: the sessions that it was asked to stop, and what it takes back, in this order.

use super::discovery;
use super::front::Front;
use super::published::Published;
use super::run::End;
use super::start::DiskTurn;
use crate::machine::{Action, Actor, Digest, Key, Request, Scope};
use crate::os::fail::{Point, pass};
use std::sync::Arc;
use std::time::Duration;

/// How long a leaving broker waits for the sessions that it was asked to stop.
const STOP_SESSIONS: Duration = Duration::from_secs(150);

/// Why its sessions end with it, to who asks.
const SHUTDOWN: &str = "the broker is shut down with its sessions";

/// Discovery record, socket and its folder, ledger lock, clean-release mark, close: in this order.
pub(super) fn leave_in_order(published: &Published, turn: DiskTurn, lock: &mut super::lock::Acquired) -> End {
    pass(Point::ShutdownClosed);
    let at = published.at();
    if let Err(error) = discovery::remove_if_mine(&published.root, &at.record.broker.incarnation) {
        tracing::warn!(%error, "the discovery record stays; the next owner replaces it");
    }
    if let Err(error) = at.runtime.folder().remove_file(&at.watch.socket_name) {
        tracing::debug!(%error, "the socket was gone already");
    }
    pass(Point::ShutdownUnbound);
    if let Err(error) = at.runtime.remove_if_empty() {
        tracing::debug!(%error, "the runtime folder stays, for the hosts in it");
    }
    drop(at);
    pass(Point::ShutdownLeave);
    drop(turn);
    pass(Point::ShutdownUnlocked);
    if let Err(error) = lock.release_mark() {
        tracing::warn!(%error, "the next owner will find this one dead");
    }
    tracing::info!("left in order");
    End::Left
}

/// Stops every live session and waits, bounded, for their ends.
pub(super) async fn stop_all(front: &Arc<Front>) {
    let live: Vec<_> = {
        let state = front.view.read();
        state.sessions.values().filter(|session| session.status.is_live()).map(|session| session.id.clone()).collect()
    };
    let stops = live.into_iter().map(|id| {
        let key = super::asked::shutdown_key(front.broker.generation, id.as_str());
        let request = Request {
            scope: Scope::Owner,
            actor: Actor { uid: crate::os::folder::user(), pid: std::process::id(), sid: None },
            key: Key::parse(&key).expect("it is printable and short"),
            digest: Digest::default(),
            digests_since: front.secret.since,
            family: front.family,
            action: Action::Stop {
                target: Ok(id),
                grace_ms: super::asked::STOP_GRACE_MS,
                reason: Some(SHUTDOWN.to_owned()),
            },
            recalled: Vec::new(),
        };
        let front = Arc::clone(front);
        tokio::spawn(async move { front.inbox.ask(request).await })
    });
    let stops: Vec<_> = stops.collect();
    let all = async {
        for stop in stops {
            // A stop that cannot be proven is in the ledger; leaving does not wait for it.
            drop(stop.await);
        }
    };
    if tokio::time::timeout(STOP_SESSIONS, all).await.is_err() {
        tracing::warn!("not all sessions ended in time; they go on in their hosts");
    }
}
