//! INT, TERM and HUP as events instead of ends, for programs that have something to put in order first.
//!
//! Promise: from `Interruptions::take` on no such signal ends this process by itself, each is seen by `next`, and what
//! the caller had ignored (`nohup`, a shell's background job) stays ignored.
#![expect(
    unsafe_code,
    reason = "asking for a signal's disposition without setting one is left out of the safe bindings"
)]

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigSet, Signal};

/// The signals that ask a program to end.
const SIGNALS: [(Signal, libc::c_int); 3] =
    [(Signal::SIGINT, libc::SIGINT), (Signal::SIGTERM, libc::SIGTERM), (Signal::SIGHUP, libc::SIGHUP)];

/// The signals, held back until they are asked for.
#[derive(Debug)]
pub struct Interruptions {
    set: SigSet,
}

impl Interruptions {
    /// Holds them back for this thread and all that it starts from now on; call it before there are others.
    ///
    /// # Errors
    /// What the system answers.
    pub fn take() -> std::io::Result<Self> {
        let mut set = SigSet::empty();
        for (signal, number) in SIGNALS {
            // A blocked signal is kept for its waiter even where it is ignored, so those must not be waited for.
            if !is_ignored(number)? {
                set.add(signal);
            }
        }
        set.thread_block()?;
        Ok(Interruptions { set })
    }

    /// Waits for the next one; for ever where all of them are ignored.
    ///
    /// # Errors
    /// What the system answers.
    pub fn next(&self) -> std::io::Result<Interruption> {
        let signal = self.set.wait()?;
        Ok(if signal == Signal::SIGINT {
            Interruption::Interrupt
        } else if signal == Signal::SIGHUP {
            Interruption::HangUp
        } else {
            Interruption::Terminate
        })
    }
}

fn is_ignored(signal: libc::c_int) -> std::io::Result<bool> {
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: a null action asks without setting; `now` is large enough and valid for writes.
    let answer = unsafe { libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) };
    Errno::result(answer)?;
    // SAFETY: the call succeeded, so it has filled `now`.
    Ok(unsafe { now.assume_init() }.sa_sigaction == libc::SIG_IGN)
}

/// Which one it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// INT: somebody pressed the key.
    Interrupt,
    /// TERM.
    Terminate,
    /// HUP: the terminal is gone.
    HangUp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_events_for_the_thread_that_took_them() {
        let told = [Interruption::Interrupt, Interruption::Terminate, Interruption::HangUp];
        // What whoever started the tests has ignored stays ignored, and would never come.
        let comes = |((_, number), _): &((Signal, libc::c_int), Interruption)| !is_ignored(*number).unwrap();
        let (raised, expected): (Vec<_>, Vec<_>) = SIGNALS.into_iter().zip(told).filter(comes).unzip();
        // A thread of its own: the mask is the thread's, and the signal is sent to that thread only.
        let seen = std::thread::spawn(|| {
            let interruptions = Interruptions::take().unwrap();
            let mut seen = Vec::new();
            for (signal, _) in raised {
                nix::sys::signal::raise(signal).unwrap();
                seen.push(interruptions.next().unwrap());
            }
            seen
        });
        assert_eq!(seen.join().unwrap(), expected);
    }
}
