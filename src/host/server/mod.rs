//! The host process.

/// How the host is called.
pub mod arguments;
