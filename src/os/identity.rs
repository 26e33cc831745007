//! Which process is meant. A bare pid identifies nothing: pids are used again, other containers and other boots have
//! their own. An identity is the boot, the PID namespace, the pid in it and the kernel's start time.
//!
//! Liveness answers honestly: refused permission is never death, and a record of another boot or namespace is foreign.

use std::io;
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::sys::signal;
use nix::unistd::Pid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::process::{self, State};

/// Process identity (docs/ARCHITECTURE.md, "Words").
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessIdentity {
    /// The kernel's id of this boot of the machine.
    pub boot: String,
    /// Inode of the PID namespace in which `pid` counts.
    pub ns: u64,
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot, as the kernel keeps it.
    pub start: u64,
}

/// What can be known about the process that an identity names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It runs.
    Alive,
    /// It ended; an unreaped one counts as ended.
    Dead,
    /// Another boot or PID namespace: never to be signalled, never live.
    Foreign,
    /// The system would not say.
    Unknown,
}

impl ProcessIdentity {
    /// This process.
    ///
    /// # Errors
    /// If `/proc` is not there.
    pub fn current() -> io::Result<Self> {
        Self::of(std::process::id())?.ok_or_else(|| io::Error::other("/proc does not show this process"))
    }

    /// The process that has this pid now, or `None` if there is none.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn of(pid: u32) -> io::Result<Option<Self>> {
        process::stat(pid)?.map(|row| Self::of_row(&row)).transpose()
    }

    /// The process that a row of the process table is about.
    ///
    /// # Errors
    /// If the system does not say where we are.
    pub fn of_row(row: &process::Stat) -> io::Result<Self> {
        let (boot, ns) = here()?;
        Ok(Self { boot: boot.clone(), ns: *ns, pid: row.pid, start: row.start_ticks })
    }

    /// Whether the named process runs. Sends nothing.
    #[must_use]
    pub fn liveness(&self) -> Liveness {
        match here() {
            Ok((boot, ns)) if *boot == self.boot && *ns == self.ns => {}
            Ok(_) => return Liveness::Foreign,
            Err(_) => return Liveness::Unknown,
        }
        match process::stat(self.pid) {
            Ok(Some(stat)) if stat.start_ticks != self.start => Liveness::Dead,
            Ok(Some(stat)) => match stat.state {
                State::Ended => Liveness::Dead,
                State::Runs => Liveness::Alive,
            },
            Ok(None) if is_hidden(self.pid) => Liveness::Unknown,
            Ok(None) => Liveness::Dead,
            Err(_) => Liveness::Unknown,
        }
    }

    /// Whether it lives and is stopped: it does nothing until somebody lets it go on.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.liveness() == Liveness::Alive && process::is_stopped(self.pid)
    }

    /// Whether the record was made in this boot and PID namespace, so that its pid means something here.
    ///
    /// # Errors
    /// If the system does not say where we are.
    pub fn is_of_here(&self) -> io::Result<bool> {
        let (boot, ns) = here()?;
        Ok(*boot == self.boot && *ns == self.ns)
    }
}

/// `/proc` may hide processes of others (hidepid) or not be mounted; only the kernel's "no such process" is death.
fn is_hidden(pid: u32) -> bool {
    let Ok(pid) = i32::try_from(pid) else {
        return false;
    };
    !matches!(signal::kill(Pid::from_raw(pid), None), Err(Errno::ESRCH))
}

/// Boot id and PID namespace of this process; both last as long as it does.
fn here() -> io::Result<&'static (String, u64)> {
    static HERE: OnceLock<(String, u64)> = OnceLock::new();
    if let Some(known) = HERE.get() {
        return Ok(known);
    }
    let found = (process::boot_id()?, process::pid_namespace()?);
    Ok(HERE.get_or_init(|| found))
}

#[cfg(test)]
mod tests {
    use super::{Liveness, ProcessIdentity};

    #[test]
    fn this_process_lives_and_its_changed_record_does_not() {
        let me = ProcessIdentity::current().unwrap();
        assert_eq!(me.liveness(), Liveness::Alive);
        let reused = ProcessIdentity { start: me.start + 1, ..me.clone() };
        assert_eq!(reused.liveness(), Liveness::Dead);
        let other_boot = ProcessIdentity { boot: "another".into(), ..me.clone() };
        assert_eq!(other_boot.liveness(), Liveness::Foreign);
        let other_namespace = ProcessIdentity { ns: me.ns + 1, ..me };
        assert_eq!(other_namespace.liveness(), Liveness::Foreign);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test child")]
    fn an_unreaped_process_is_dead() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let identity = ProcessIdentity::of(child.id()).unwrap().unwrap();
        // Seen ended, but not reaped: the zombie keeps its pid.
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
        let flags = nix::sys::wait::WaitPidFlag::WEXITED | nix::sys::wait::WaitPidFlag::WNOWAIT;
        nix::sys::wait::waitid(nix::sys::wait::Id::Pid(pid), flags).unwrap();
        assert_eq!(identity.liveness(), Liveness::Dead);
        child.wait().unwrap();
        assert_eq!(identity.liveness(), Liveness::Dead);
        assert_eq!(ProcessIdentity::of(u32::MAX - 1).unwrap(), None);
    }

    #[test]
    fn the_stored_form_is_fixed() {
        let identity = ProcessIdentity { boot: "b".into(), ns: 1, pid: 2, start: 3 };
        let json = r#"{"boot":"b","ns":1,"pid":2,"start":3}"#;
        assert_eq!(serde_json::to_string(&identity).unwrap(), json);
    }
}
