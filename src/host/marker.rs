//! Finds the processes of an episode after their parents are gone: every one of them was started with a variable that
//! names the episode, and the kernel keeps the environment that a process was started with.
//!
//! The scan only reads. A broker or host of ostler is never an episode's process, whatever its environment says: it
//! outlives the session that happened to start it. A copied root has other inodes and so another marker.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;

use nix::sys::signal::Signal;

use super::look::Shared;
use super::wire::{FileIdentity, Survivor};
use crate::os::clock;
use crate::os::identity::ProcessIdentity;
use crate::os::process::{self, Stat, State};
use crate::os::signal::{Handle, Opened};

/// The variable of the command and everything that it starts.
pub const COMMAND_VARIABLE: &str = "OSTLER_MARK";
/// The variable of the host itself.
pub const HOST_VARIABLE: &str = "OSTLER_HOST_MARK";

/// Longest command line that a survivor is shown with, in characters.
const COMMAND_CHARACTERS_MAX: usize = 200;

/// The marker of an episode.
#[must_use]
pub fn of(session: &str, episode: u32, lock: FileIdentity) -> String {
    format!("{session}.{episode}.{:x}.{:x}", lock.device, lock.inode)
}

/// Who carries which marker of a command, as one walk through the process table saw it.
type Marked = BTreeMap<OsString, Vec<ProcessIdentity>>;

/// A broker that comes after many dead hosts asks for each of them.
static MARKED: Shared<Marked> = Shared::new();

/// Every running process that carries the marker, but no broker and no host.
///
/// # Errors
/// If the process table cannot be read.
pub fn commands(marker: &str) -> io::Result<Vec<ProcessIdentity>> {
    let marked = MARKED.see(all_marked)?;
    Ok(marked.get(OsStr::new(marker)).cloned().unwrap_or_default())
}

fn all_marked() -> io::Result<Marked> {
    let prefix = format!("{COMMAND_VARIABLE}=");
    let mut marked = Marked::new();
    for_each_running(|row, environment| {
        let values = environment.iter().filter_map(|entry| entry.as_bytes().strip_prefix(prefix.as_bytes()));
        let markers: BTreeSet<&OsStr> = values.map(OsStr::from_bytes).collect();
        if !markers.is_empty() && !is_ostler(row.pid) {
            let identity = ProcessIdentity::of_row(row)?;
            for marker in markers {
                marked.entry(marker.to_owned()).or_default().push(identity.clone());
            }
        }
        Ok(())
    })?;
    Ok(marked)
}

/// The host that carries the marker, and its fork on the way to the command.
///
/// # Errors
/// If the process table cannot be read.
pub fn hosts(marker: &str) -> io::Result<Vec<ProcessIdentity>> {
    find(HOST_VARIABLE, marker)
}

/// Every running process that was started in any episode of a session, its hosts among them, whatever became of the locks
/// that its markers name. A broker or host that a command started is not one of them.
///
/// # Errors
/// If the process table cannot be read.
pub fn of_session(session: &str) -> io::Result<Vec<u32>> {
    let (command, host) = (format!("{COMMAND_VARIABLE}={session}."), format!("{HOST_VARIABLE}={session}."));
    let mut found = Vec::new();
    for_each_running(|row, environment| {
        let has = |prefix: &str| environment.iter().any(|entry| entry.as_bytes().starts_with(prefix.as_bytes()));
        if has(&host) || has(&command) && !is_ostler(row.pid) {
            found.push(row.pid);
        }
        Ok(())
    })?;
    Ok(found)
}

/// Ends every process that `find` names, and what it starts meanwhile, until there is none or the time is up. Returns
/// who is left.
///
/// # Errors
/// If the process table cannot be read.
pub fn end_all(
    find: impl Fn() -> io::Result<Vec<ProcessIdentity>>,
    within_ms: u64,
) -> io::Result<Vec<ProcessIdentity>> {
    let deadline_us = clock::boot_us().saturating_add(within_ms.saturating_mul(1_000));
    loop {
        let found = find()?;
        let left_ms = deadline_us.saturating_sub(clock::boot_us()) / 1_000;
        if found.is_empty() || left_ms == 0 {
            return Ok(found);
        }
        let mut ending = Vec::new();
        for identity in &found {
            // What cannot be signalled is found again and named in the end.
            if let Ok(Opened::Process(handle)) = Handle::open(identity)
                && handle.send(Signal::SIGKILL).is_ok()
            {
                ending.push(handle);
            }
        }
        let Some(last) = ending.last() else {
            return find();
        };
        // A slice only, so that one that the kernel cannot end does not hide new ones.
        last.wait_end(left_ms.min(100))?;
    }
}

/// Whether a process was started with the marker of a command.
#[must_use]
pub fn carries(pid: u32, marker: &str) -> bool {
    let wanted = OsString::from(format!("{COMMAND_VARIABLE}={marker}"));
    process::environment(pid).is_some_and(|environment| environment.contains(&wanted))
}

/// How a survivor is shown.
#[must_use]
pub fn survivor(pid: u32) -> Survivor {
    let parts = process::command_line(pid).unwrap_or_default();
    let text = parts.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ");
    Survivor { pid, command: text.chars().take(COMMAND_CHARACTERS_MAX).collect() }
}

/// Whether a process is a broker or a host: by its program and the subcommand that it was started with.
#[must_use]
pub fn is_ostler(pid: u32) -> bool {
    let subcommand = process::command_line(pid).and_then(|line| line.into_iter().nth(1));
    if !subcommand.is_some_and(|name| ["broker", "host"].iter().any(|known| name == OsStr::new(known))) {
        return false;
    }
    let program = fs::read_link(format!("/proc/{pid}/exe"));
    // "ostler (deleted)" after an upgrade is still one.
    program.is_ok_and(|path| path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ostler")))
}

fn find(variable: &str, marker: &str) -> io::Result<Vec<ProcessIdentity>> {
    let wanted = OsString::from(format!("{variable}={marker}"));
    let mut found = Vec::new();
    for_each_running(|row, environment| {
        if environment.contains(&wanted) {
            found.push(ProcessIdentity::of_row(row)?);
        }
        Ok(())
    })?;
    Ok(found)
}

/// Shows every other running process with the environment that it was started with. The row is the older look of the two: if the pid
/// changed hands between them, its identity leads to nobody.
fn for_each_running(mut show: impl FnMut(&Stat, &[OsString]) -> io::Result<()>) -> io::Result<()> {
    for row in process::all()? {
        if row.state == State::Ended || row.pid == std::process::id() {
            continue;
        }
        if let Some(environment) = process::environment(row.pid) {
            show(&row, &environment)?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "test children")]
mod tests {
    use std::process::Command;

    use super::{COMMAND_VARIABLE, FileIdentity, commands, end_all, of, survivor};

    #[test]
    fn marked_processes_are_found_and_ended_and_no_others() {
        let marker = of("abc", 3, FileIdentity { device: 1, inode: crate::os::clock::boot_us() });
        let start = |marker: &str| {
            let mut sleep = Command::new("sleep");
            sleep.arg("600").env(COMMAND_VARIABLE, marker).spawn().unwrap()
        };
        let (mut ours, mut longer) = (start(&marker), start(&format!("{marker}0")));
        // The exec may still be under way.
        let deadline_us = crate::os::clock::boot_us() + 10_000_000;
        while commands(&marker).unwrap().is_empty() {
            assert!(crate::os::clock::boot_us() < deadline_us);
        }
        assert_eq!(commands(&marker).unwrap().iter().map(|found| found.pid).collect::<Vec<_>>(), [ours.id()]);
        assert_eq!(survivor(ours.id()).command, "sleep 600");
        assert_eq!(end_all(|| commands(&marker), 10_000).unwrap(), []);
        assert!(!ours.wait().unwrap().success());
        assert!(longer.try_wait().unwrap().is_none());
        longer.kill().unwrap();
        longer.wait().unwrap();
    }
}
