//! Clients at a gate: all are started and wait; the gate opens for all of them at once; each has the same deadline.

use std::fmt;
use std::io::pipe;
use std::process::Child;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::contender::{Contender, Place};
use super::left;
use crate::at;

/// How long a client may take; one that takes longer has failed.
const CLIENT_WITHIN: Duration = Duration::from_secs(30);
/// How long all of them may take to come to the gate.
const AT_THE_GATE_WITHIN: Duration = Duration::from_secs(30);

/// What came of one storm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gathered {
    /// From the opening of the gate to the end of the last client.
    pub(crate) last_ms: f64,
    /// Clients that ended with an error or not at all.
    pub(crate) failed: usize,
    /// Daemons afterwards.
    pub(crate) daemons: usize,
}

impl fmt::Display for Gathered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "last after {:.0} ms, {} failed, {} daemon(s)", self.last_ms, self.failed, self.daemons)
    }
}

/// So many clients; `set` sets the scene when all of them stand at the gate.
pub(crate) fn storm(
    contender: &Contender,
    place: &Place,
    clients: usize,
    set: impl FnOnce() -> Result<(), String>,
) -> Result<Gathered, String> {
    let (gate, open) = at("the gate", pipe())?;
    let mut waiting = Vec::new();
    for _ in 0..clients {
        let (program, line) = contender.client(place);
        let mut command = place.command("/bin/sh".as_ref());
        // A shell of its own waits, so that starting it is not measured; the end of the pipe lets all of them go on.
        command.args(["-c", "read go; exec \"$0\" \"$@\" < /dev/null"]).arg(program).args(line);
        command.stdin(at("the gate", gate.try_clone())?);
        waiting.push(at("a client", command.spawn())?);
    }
    drop(gate);
    stand_at_the_gate(&waiting)?;
    set()?;
    let began = Instant::now();
    drop(open);
    let (last, failed) = finish(waiting, began);
    let last_ms = last.as_secs_f64() * 1_000.0;
    Ok(Gathered { last_ms, failed, daemons: left::count(place.mark()) })
}

/// Waits until every client sleeps, which is: reads from the gate.
fn stand_at_the_gate(clients: &[Child]) -> Result<(), String> {
    let until = Instant::now() + AT_THE_GATE_WITHIN;
    let reads = |client: &Child| {
        let path = format!("/proc/{}/stat", client.id());
        let stat = std::fs::read_to_string(path).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(name, rest)| rest.starts_with('S') && name.ends_with("(sh"))
    };
    while !clients.iter().all(reads) {
        if Instant::now() > until {
            return Err("the clients do not come to the gate".to_owned());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Waits for all of them. When the last was done, and how many failed.
fn finish(clients: Vec<Child>, began: Instant) -> (Duration, usize) {
    let (done, ends) = mpsc::channel();
    let mut open: Vec<u32> = clients.iter().map(Child::id).collect();
    let waits = clients.into_iter().map(|mut client| {
        let done = done.clone();
        thread::spawn(move || {
            let ended = client.wait();
            let fine = ended.is_ok_and(|status| status.success());
            // Nobody waits any more for one that was late.
            let _ = done.send((client.id(), began.elapsed(), fine));
        })
    });
    let waits: Vec<_> = waits.collect();
    let (mut last, mut failed) = (Duration::ZERO, 0);
    while !open.is_empty() {
        let Ok((id, after, fine)) = ends.recv_timeout(CLIENT_WITHIN.saturating_sub(began.elapsed())) else { break };
        open.retain(|client| *client != id);
        (last, failed) = (last.max(after), failed + usize::from(!fine));
    }
    for late in &open {
        // It is a child whose end nobody has seen yet, so that the number is still its own.
        let pid = Pid::from_raw(i32::try_from(*late).unwrap_or(i32::MAX));
        let _ = kill(pid, Signal::SIGKILL);
        (last, failed) = (CLIENT_WITHIN, failed + 1);
    }
    waits.into_iter().for_each(|wait| drop(wait.join()));
    (last, failed)
}
