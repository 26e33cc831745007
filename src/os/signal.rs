//! Signals that reach the process that is meant or nobody (law 10): the kernel's handle (pidfd) is opened first, the
//! identity is read again through it, and only then the signal goes out through that same handle.

#![expect(unsafe_code, reason = "the pidfd system calls have no safe wrapper")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigHandler, Signal};

use super::clock;
use super::identity::{Liveness, ProcessIdentity};

/// What became of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The kernel took it for exactly the process that was named.
    Delivered,
    /// That process is gone; nothing was signalled, whoever has its pid now.
    Gone,
    /// The record is of another boot or PID namespace; nothing was signalled.
    Foreign,
}

/// A kernel handle of one process, opened and then checked against its identity: it can never come to mean another.
#[derive(Debug)]
pub struct Handle {
    pidfd: OwnedFd,
}

impl Handle {
    /// Opens the handle of the named process, or says why there is none.
    ///
    /// # Errors
    /// If the system refuses, for example a kernel without pidfds.
    pub fn open(identity: &ProcessIdentity) -> io::Result<Opened> {
        if !identity.is_of_here()? {
            return Ok(Opened::Foreign);
        }
        let pidfd = match pidfd_open(identity.pid) {
            Ok(pidfd) => pidfd,
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(Opened::Gone),
            Err(error) => return Err(error),
        };
        // Read after the handle is held: if it still is that process now, the handle is its.
        match identity.liveness() {
            Liveness::Alive => Ok(Opened::Process(Self { pidfd })),
            Liveness::Dead => Ok(Opened::Gone),
            Liveness::Foreign => Ok(Opened::Foreign),
            Liveness::Unknown => {
                Err(io::Error::other(format!("the identity of process {} cannot be read", identity.pid)))
            }
        }
    }

    /// Sends a signal through the handle.
    ///
    /// # Errors
    /// What the kernel answers; a process that is gone is [`Sent::Gone`], not an error.
    pub fn send(&self, signal: Signal) -> io::Result<Sent> {
        // SAFETY: the descriptor is open, a null siginfo is allowed, flags are zero as the call demands.
        let result = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.pidfd.as_raw_fd(),
                libc::c_int::from(signal_number(signal)),
                std::ptr::null::<libc::siginfo_t>(),
                0_u32,
            )
        };
        match Errno::result(result) {
            Ok(_) => Ok(Sent::Delivered),
            Err(Errno::ESRCH) => Ok(Sent::Gone),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the process has ended or the time is up; says whether it has.
    ///
    /// # Errors
    /// If polling fails.
    pub fn wait_end(&self, within_ms: u64) -> io::Result<bool> {
        let deadline_us = clock::boot_us().saturating_add(within_ms.saturating_mul(1_000));
        loop {
            let left_ms = deadline_us.saturating_sub(clock::boot_us()).div_ceil(1_000);
            let timeout = PollTimeout::try_from(left_ms).unwrap_or(PollTimeout::MAX);
            match poll(&mut [PollFd::new(self.pidfd.as_fd(), PollFlags::POLLIN)], timeout) {
                Ok(0) if left_ms == 0 => return Ok(false),
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Handle {
    /// Readable once the process has ended.
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// What opening a handle found.
#[derive(Debug)]
pub enum Opened {
    /// The process, held.
    Process(Handle),
    /// No such process any more.
    Gone,
    /// A record of another boot or PID namespace.
    Foreign,
}

/// Signals exactly the named process.
///
/// # Errors
/// What the system answers, for example that it is not ours to signal.
pub fn send(identity: &ProcessIdentity, signal: Signal) -> io::Result<Sent> {
    match Handle::open(identity)? {
        Opened::Process(handle) => handle.send(signal),
        Opened::Gone => Ok(Sent::Gone),
        Opened::Foreign => Ok(Sent::Foreign),
    }
}

/// The name of a signal by its number, as the contract writes it: `SIGKILL`; real-time ones as `SIG34`.
#[must_use]
pub fn name(number: i32) -> String {
    Signal::try_from(number).map_or_else(|_| format!("SIG{number}"), |signal| signal.as_str().to_owned())
}

/// The number of a signal by the name that [`name`] gives.
#[must_use]
pub fn number(name: &str) -> Option<i32> {
    match name.parse::<Signal>() {
        Ok(signal) => Some(signal_number(signal)),
        Err(_) => name.strip_prefix("SIG")?.parse().ok(),
    }
}

#[expect(clippy::as_conversions, reason = "the enum is the kernel's numbering and has no other conversion")]
fn signal_number(signal: Signal) -> i32 {
    signal as i32
}

/// A kernel handle of a child that this process has not reaped: as long as it is not, its pid is its own.
///
/// # Errors
/// If the kernel refuses.
pub fn pidfd_of_child(pid: u32) -> io::Result<OwnedFd> {
    pidfd_open(pid)
}

fn pidfd_open(pid: u32) -> io::Result<OwnedFd> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    // SAFETY: plain integers go in; the kernel gives a new descriptor (close-on-exec by itself) or an error.
    let fd = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0_u32) })?;
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just given us this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A file that has reached the size limit of this process is an error of the write from now on, and not the end of the process.
///
/// # Errors
/// What the system answers.
pub fn outlive_size_limit() -> io::Result<()> {
    // SAFETY: ignoring runs no code of ours.
    unsafe { nix::sys::signal::signal(Signal::SIGXFSZ, SigHandler::SigIgn) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Handle, Opened, Sent, Signal, name, number, send};
    use crate::os::identity::ProcessIdentity;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test child")]
    fn only_the_named_process_is_signalled() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let identity = ProcessIdentity::of(child.id()).unwrap().unwrap();
        let reused = ProcessIdentity { start: identity.start + 1, ..identity.clone() };
        assert_eq!(send(&reused, Signal::SIGKILL).unwrap(), Sent::Gone);
        let foreign = ProcessIdentity { boot: "x".into(), ..identity.clone() };
        assert_eq!(send(&foreign, Signal::SIGKILL).unwrap(), Sent::Foreign);
        assert!(child.try_wait().unwrap().is_none(), "it must still run");

        let Opened::Process(handle) = Handle::open(&identity).unwrap() else { panic!("it runs") };
        assert!(!handle.wait_end(0).unwrap());
        assert_eq!(handle.send(Signal::SIGTERM).unwrap(), Sent::Delivered);
        assert!(handle.wait_end(10_000).unwrap());
        child.wait().unwrap();
        assert_eq!(handle.send(Signal::SIGTERM).unwrap(), Sent::Gone);
        assert_eq!(send(&identity, Signal::SIGTERM).unwrap(), Sent::Gone);
    }

    #[test]
    fn names_and_numbers_agree() {
        for signal in Signal::iterator() {
            assert_eq!(number(&name(super::signal_number(signal))), Some(super::signal_number(signal)));
        }
        assert_eq!(name(9), "SIGKILL");
        assert_eq!((name(40), number("SIG40")), ("SIG40".into(), Some(40)));
    }
}
