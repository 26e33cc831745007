//! The broker's protocol: documents, errors, frames, connections. It knows how requests travel, not what they do:
//! what they do is behind [`crate::rpc::service::Service`].

/// The closed set of error codes and how an error looks on the wire.
pub mod error;
/// The closed set of methods.
pub mod method;
/// The discovery record.
pub mod record;
/// The report pipe of a start.
pub mod report;
/// What the broker implements and the connections call.
pub mod service;
/// Every JSON document of the protocol.
pub mod wire;
