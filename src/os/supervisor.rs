//! What a service manager (systemd) and this process tell each other: that it serves or leaves, and sockets that the manager listened at
//! before. Without a manager nothing is said and nothing is taken.
#![expect(unsafe_code, reason = "descriptors that another program handed over are known by their numbers only")]

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::socket::{AddressFamily, SockType, SockaddrLike, UnixAddr, getsockname, getsockopt, sockopt};
use sd_notify::NotifyState;

/// What a manager may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// It serves.
    Serving,
    /// Another process does, and this one ends without a fault.
    Superfluous(String),
    /// It is on its way out.
    Leaving,
}

/// Tells the manager, if there is one. That it cannot be told is no reason to fail: it draws its own conclusions.
pub fn tell(news: &News) {
    let told = match news {
        News::Serving => sd_notify::notify(&[NotifyState::Ready]),
        News::Superfluous(why) => sd_notify::notify(&[NotifyState::Status(why), NotifyState::Ready]),
        News::Leaving => sd_notify::notify(&[NotifyState::Stopping]),
    };
    if let Err(error) = told {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}

/// The sockets that the manager handed over to this process: each a local one that listens. Anything else is left alone, with a line in the log. They
/// are handed out once; a second call has none.
pub fn listeners() -> Vec<UnixListener> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Vec::new();
    }
    let numbers: Vec<RawFd> = match sd_notify::listen_fds() {
        Ok(numbers) => numbers.collect(),
        Err(error) => {
            tracing::warn!(%error, "what the service manager handed over cannot be told");
            Vec::new()
        }
    };
    let taken = numbers.into_iter().filter_map(|number| match take(number) {
        Ok(listener) => Some(listener),
        Err(error) => {
            tracing::warn!(number, %error, "handed over by the service manager, and no local socket that listens");
            None
        }
    });
    taken.collect()
}

fn take(number: RawFd) -> io::Result<UnixListener> {
    // SAFETY: borrowed for the questions below, by which a number that is not open is refused.
    let there = unsafe { BorrowedFd::borrow_raw(number) };
    // No child gets it; and it is open.
    fcntl(there, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    let address: UnixAddr = getsockname(number)?;
    let listens = getsockopt(&there, sockopt::AcceptConn)?;
    let is_stream = getsockopt(&there, sockopt::SockType)? == SockType::Stream;
    if !(listens && is_stream && address.family() == Some(AddressFamily::Unix)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the manager opened it for this process before its first instruction and said so under this process's number, so nobody here owns
    // it; `listeners` gives each number away once.
    let owned = unsafe { OwnedFd::from_raw_fd(number) };
    Ok(owned.into())
}

/// Lets whoever knocked at these sockets go, so that the manager does not start this again for them: another process serves.
pub fn turn_away(listeners: Vec<UnixListener>) {
    for listener in listeners {
        if listener.set_nonblocking(true).is_ok() {
            while listener.accept().is_ok() {}
        }
    }
}
