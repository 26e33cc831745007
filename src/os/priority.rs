//! Work that everything else goes before.
#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "setpriority has no safe wrapper"))]

use std::io;

/// Does this on a thread of its own, which ends with the process at the latest, and only when nothing else wants the processor.
///
/// # Errors
/// There is no thread for it; nothing is done.
pub fn behind(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        if let Err(error) = lower() {
            tracing::debug!(%error, "this thread keeps its priority");
        }
        work();
    });
    thread.map(drop)
}

/// From here on this thread gets the processor when nobody else wants it, where the system gives threads a priority of their
/// own; elsewhere nothing changes.
///
/// # Errors
/// The system refuses. That costs time, and nothing else.
fn lower() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        /// As nice as a process can be.
        const NICE: nix::libc::c_int = 19;
        // SAFETY: takes numbers and touches no memory of ours. On Linux 0 is the calling thread, not its process.
        let refused = unsafe { nix::libc::setpriority(nix::libc::PRIO_PROCESS, 0, NICE) } != 0;
        if refused {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
