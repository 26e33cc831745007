//! The seam between the protocol and the broker: connections call a [`Service`](crate::rpc::service::Service), the broker implements it.
//!
//! Promise to the implementer: `call` is only reached after a hello that `authenticate` accepted, with parameters that
//! are an object. Promise to the caller: a reply leaves the connection only when `call` has returned, so an
//! implementation that returns after its sync keeps law 6.

use serde_json::Value;
use tokio::sync::mpsc;

use super::error::WireError;
use super::method::Method;
use super::wire::{Broker, Encoded, Identity, Limits, Role, RootId, Timestamp};
pub use crate::os::socket::Peer;

/// Where lines go that a connection is told without asking, each of them whole. There is room for one piece: who tells more waits until the
/// connection takes it, which it does once its reader has taken most of what came before. The answer to a call that has returned goes before
/// what is told from then on. Whoever tells learns from its end that the connection has ended.
pub type Notices = mpsc::Sender<Vec<u8>>;

/// Who calls, on which connection.
#[derive(Clone, Debug)]
pub struct Caller {
    /// What the token proved at hello: the scope of the caller's keys.
    pub identity: Identity,
    /// What the system says about the other end.
    pub peer: Peer,
    /// Number of the connection, never used again in this broker's life.
    pub connection: u64,
    /// Where it is told what it did not ask for.
    pub notices: Notices,
}

/// What the broker implements.
pub trait Service: Send + Sync + 'static {
    /// Who this broker is: the `broker` member of hello.
    fn broker(&self) -> Broker;
    /// Device and inode of the state root, for the client's comparison with what it meant.
    fn root_id(&self) -> RootId;
    /// Wall time.
    fn time(&self) -> Timestamp;
    /// What this broker can do beyond the smallest set.
    fn capabilities(&self) -> Vec<String>;
    /// The limits in force.
    fn limits(&self) -> Limits;

    /// Checks the token of a hello.
    ///
    /// # Errors
    /// `unauthenticated` for a missing or wrong token, `denied` for a right one in the wrong role.
    fn authenticate(&self, token: &str, role: Role) -> Result<Identity, WireError>;

    /// Does one call. `params` is an object; see [`super::wire::decode`].
    ///
    /// When its connection ends, a call that changes something goes on to its end, and the caller's key finds out what became of it.
    /// Any other is dropped where it stands.
    fn call(
        &self,
        caller: Caller,
        method: Method,
        params: Value,
    ) -> impl Future<Output = Result<Encoded, WireError>> + Send;
}
