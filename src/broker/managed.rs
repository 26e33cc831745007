//! A broker that a service manager started (docs/PLATFORMS.md): who knocks at the manager's sockets is served, and a broker that is one too many
//! ends without a fault. Which broker serves a root is the lock's word all the same.

use super::front::Door;
use crate::os::socket::listen_on;
use crate::os::supervisor::{self, News};
use crate::rpc::listener::Server;
use crate::rpc::wire::Broker;

/// Serves the manager's sockets beside the broker's own. They lead here and are not published, because they are not the broker's.
pub(super) fn serve_knocks(server: &Server<Door>) {
    for listener in supervisor::listeners() {
        match listen_on(listener) {
            Ok(listener) => drop(tokio::spawn(server.clone().accept_at(listener))),
            Err(error) => tracing::warn!(%error, "a socket of the service manager cannot be served"),
        }
    }
}

/// Another broker serves this root: whoever knocked is sent away to find it, and the manager hears that nothing is wrong.
pub(super) fn superfluous(winner: &Broker) {
    supervisor::turn_away(supervisor::listeners());
    supervisor::tell(&News::Superfluous(format!("process {} is the broker", winner.pid)));
}
