//! The broker's protocol: documents, errors, frames, connections. It knows how requests travel, not what they do:
//! what they do is behind [`crate::rpc::service::Service`].

mod calls;
/// The client's end of a connection.
pub mod channel;
/// One connection.
pub mod connection;
/// What the system refused, in the words of the protocol.
pub mod convert;
/// Cursors of lists.
pub mod cursor;
/// The JSON-RPC envelope.
pub mod envelope;
/// The closed set of error codes and how an error looks on the wire.
pub mod error;
/// Lines of bounded length.
pub mod frame;
/// Both sides of hello.
pub mod hello;
/// The broker's door.
pub mod listener;
/// The closed set of methods.
pub mod method;
/// The discovery record.
pub mod record;
/// The report pipe of a start.
pub mod report;
/// What the broker implements and the connections call.
pub mod service;
/// The smallest service, for tests.
#[cfg(any(test, feature = "testing"))]
pub mod tiny;
/// Every JSON document of the protocol.
pub mod wire;
