//! Who is at the other end of a local socket, as the kernel says.

/// The process at the other end of a connection. For records and for the check of the user only: a pid proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Effective user id at the time it connected or listened.
    pub uid: u32,
    /// Process id, where the system tells.
    pub pid: Option<u32>,
}
