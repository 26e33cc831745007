//! Local sockets: listening privately, hanging up, and who is at the other end as the kernel says. That answer is about
//! the moment it connected or listened; it cannot be forged, and the pid in it proves nothing later.

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use interprocess::local_socket::tokio::Listener;
use interprocess::local_socket::traits::StreamCommon;
use interprocess::local_socket::{GenericFilePath, ListenerOptions, Stream, ToFsName};
use interprocess::os::unix::local_socket::ListenerOptionsExt;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use super::folder::user;

/// The process at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Effective user id.
    pub uid: u32,
    /// Process id, where the system tells.
    pub pid: Option<u32>,
}

/// Why the other end is not to be spoken to.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// It is another user's.
    #[error("the other end of the socket belongs to uid {uid}, this is uid {user}")]
    Stranger {
        /// Whose it is.
        uid: u32,
        /// Who we are.
        user: u32,
    },
    /// The system does not say; a connection that was never made says `ConnectionReset`.
    #[error("the system does not say who is at the other end of the socket: {0}")]
    Unknown(#[from] io::Error),
}

/// The other end, if it is the same user's as this one. Each end asks before it says anything that matters.
///
/// # Errors
/// [`PeerError::Stranger`], [`PeerError::Unknown`].
pub fn same_user(stream: &impl StreamCommon) -> Result<Peer, PeerError> {
    let credentials = stream.peer_creds()?;
    let uid = credentials.euid().ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
    let pid = credentials.pid().and_then(|pid| u32::try_from(pid).ok());
    judge(Peer { uid, pid }, user())
}

fn judge(peer: Peer, user: u32) -> Result<Peer, PeerError> {
    if peer.uid == user { Ok(peer) } else { Err(PeerError::Stranger { uid: peer.uid, user }) }
}

/// Listens at a path, for this user only: there is no moment at which others could connect. The name is the caller's to
/// remove. To be called within the runtime that accepts.
///
/// # Errors
/// What the system answers; `EADDRINUSE` if anything stands there.
pub fn listen(path: &str) -> io::Result<Listener> {
    let name = path.to_fs_name::<GenericFilePath>()?;
    ListenerOptions::new().name(name).mode(0o600).reclaim_name(false).create_tokio()
}

/// The same for a socket at which somebody listened before, and handed it over. Its name is not the caller's to remove.
///
/// # Errors
/// What the system answers.
pub fn listen_on(handed_over: std::os::unix::net::UnixListener) -> io::Result<Listener> {
    Ok(Listener::UdSocket(std::os::fd::OwnedFd::from(handed_over).try_into()?))
}

/// Whether something stands at this path and nobody listens at it any more. Who listens and has no time for us is there; what cannot be asked
/// counts as that.
pub fn is_deserted(path: &Path) -> bool {
    let asked = || -> nix::Result<()> {
        let asking = socket(AddressFamily::Unix, SockType::Stream, SockFlag::empty(), None)?;
        // Not to wait behind others for one that is stopped.
        fcntl(&asking, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        fcntl(&asking, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        connect(asking.as_raw_fd(), &UnixAddr::new(path)?)
    };
    asked() == Err(Errno::ECONNREFUSED)
}

/// Says that nothing more will be sent, which ends the connection; what is on its way still arrives.
pub fn hang_up(stream: &Stream) {
    match stream {
        // It may be gone already.
        Stream::UdSocket(stream) => drop(stream.inner().shutdown(std::net::Shutdown::Write)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn both_ends_of_a_pair_are_this_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = same_user(&Stream::UdSocket(one.into())).unwrap();
        assert_eq!(peer, Peer { uid: user(), pid: Some(std::process::id()) });
    }

    #[test]
    fn a_socket_is_deserted_once_its_listener_is_gone_and_not_before() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("s");
        assert!(!is_deserted(&path), "nothing stands there");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        // One that never accepts: its queue fills up, and it is there all the same.
        let waiting: Vec<_> = (0..10).map(|_| is_deserted(&path)).collect();
        assert_eq!(waiting, [false; 10]);
        drop(listener);
        assert!(is_deserted(&path));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        assert!(is_deserted(&path), "a file is no socket at which anybody listens");
    }

    #[test]
    fn another_user_is_refused_and_named() {
        let text = judge(Peer { uid: 4242, pid: None }, 1000).unwrap_err().to_string();
        assert!(text.contains("uid 4242") && text.contains("uid 1000"), "{text}");
        assert!(judge(Peer { uid: 0, pid: None }, 1000).is_err(), "root is another user");
    }
}
