//! How children end: seen without being reaped, because an unreaped leader keeps its process group's number from being
//! given to anybody else, and so the group can still be signalled.

#![expect(unsafe_code, reason = "the safe wrapper of waitid refuses real-time signals")]

use std::io;
use std::mem::MaybeUninit;

use nix::errno::Errno;
use nix::libc;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::host::wire::Exit;
use crate::os::{process, signal};

/// How a child ended, once it has; it stays unreaped.
///
/// # Errors
/// If it is no child of ours.
pub(super) fn peek(pid: Pid) -> io::Result<Option<Exit>> {
    let id = libc::id_t::try_from(pid.as_raw()).map_err(io::Error::other)?;
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let flags = libc::WEXITED | libc::WNOWAIT | libc::WNOHANG;
    // SAFETY: the kernel fills the structure, which is zeroed for the case that it has nothing to say.
    let (code, ended, status) = unsafe {
        Errno::result(libc::waitid(libc::P_PID, id, info.as_mut_ptr(), flags))?;
        let info = info.assume_init();
        (info.si_code, info.si_pid() != 0, info.si_status())
    };
    Ok(match (ended, code) {
        (false, _) => None,
        (true, libc::CLD_EXITED) => Some(Exit::Code(status)),
        (true, _) => Some(Exit::Signal(signal::name(status))),
    })
}

/// Reaps an ended child.
pub(super) fn reap(pid: Pid) {
    // Whether or not its status has a name for the wrapper, it is reaped.
    let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
}

/// Reaps every ended child but the leader: those are the orphans of the episode, which the host adopted.
pub(super) fn reap_adopted(leader: Pid) {
    for pid in process::own_children().unwrap_or_default() {
        match i32::try_from(pid) {
            Ok(pid) if pid != leader.as_raw() => reap(Pid::from_raw(pid)),
            Ok(_) | Err(_) => {}
        }
    }
}
