//! The one door to the system. Everything else takes what it needs from here, so that it can be given something else.

/// Bytes of the system that are usually, but not always, text.
pub mod arg;
/// Who is at the other end of a local socket.
pub mod peer;
