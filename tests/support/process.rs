//! Processes as the kernel shows them: identity, life, children, and the hard end.

use super::SOON;
use super::wait::wait_until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::{fs, io};

/// One process, told from a later one with the same number by its start time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// Clock ticks after boot.
    start: u64,
}

impl Process {
    /// The process that has this number now; `None` if there is none. A zombie is none: it has ended.
    pub(crate) fn of(pid: i64) -> Option<Process> {
        let pid = i32::try_from(pid).ok()?;
        let stat = Stat::read(pid).ok()?;
        (!stat.ended()).then_some(Process { pid, start: stat.start })
    }

    /// The process with the number in a JSON document.
    #[track_caller]
    pub(crate) fn of_value(pid: &serde_json::Value) -> Process {
        let found = pid.as_i64().and_then(Process::of);
        found.unwrap_or_else(|| panic!("no live process has the pid {pid}"))
    }

    /// True while this very process runs.
    pub(crate) fn alive(self) -> bool {
        Process::of(self.pid.into()) == Some(self)
    }

    /// True while a signal has it stopped.
    pub(crate) fn is_stopped(self) -> bool {
        Stat::read(self.pid).is_ok_and(|stat| stat.start == self.start && stat.state == 'T')
    }

    /// Ends it with SIGKILL, as the kernel's out-of-memory killer would, and waits until it is gone.
    #[track_caller]
    pub(crate) fn kill_9(self) {
        if self.alive() {
            // It may end between the look and the signal; then it is gone, which is what was asked for.
            let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
        }
        wait_until(SOON, &format!("the end of process {}", self.pid), || !self.alive());
    }

    /// The processes whose parent this is.
    pub(crate) fn children(self) -> Vec<Process> {
        let everyone = pids().into_iter().filter_map(|pid| Stat::read(pid).ok().map(|stat| (pid, stat)));
        let ours = everyone.filter(|(_, stat)| stat.parent == self.pid && !stat.ended());
        ours.map(|(pid, stat)| Process { pid, start: stat.start }).collect()
    }
}

/// The numbers of all processes that this one can see.
pub(super) fn pids() -> Vec<i32> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).collect()
}

/// The members of `/proc/PID/stat` that matter here.
struct Stat {
    state: char,
    parent: i32,
    start: u64,
}

impl Stat {
    fn read(pid: i32) -> io::Result<Stat> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Stat::parse(&text).ok_or_else(|| io::Error::other(format!("odd stat line: {text}")))
    }

    /// The name, in parentheses, may hold anything; the numbers start behind its last parenthesis.
    fn parse(text: &str) -> Option<Stat> {
        let (_, numbers) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = numbers.split(' ').collect();
        let state = fields.first()?.chars().next()?;
        Some(Stat { state, parent: fields.get(1)?.parse().ok()?, start: fields.get(19)?.parse().ok()? })
    }

    fn ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

#[cfg(test)]
mod tests {
    use super::{Process, Stat};
    use std::process::{Command, id};

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_numbers() {
        let line = "7 (a ) b) (c) S 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 4242 22";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.state, stat.parent, stat.start), ('S', 3, 4242));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "needs a child that it may leave unreaped")]
    fn a_process_lives_until_it_is_ended_and_a_zombie_has_ended() {
        let me = Process::of(id().into()).unwrap();
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = Process::of(child.id().into()).unwrap();
        assert!(process.alive() && me.children().contains(&process));
        process.kill_9();
        assert!(!process.alive() && !me.children().contains(&process), "not reaped yet, but ended");
        child.wait().unwrap();
        let other = Process { start: me.start + 1, ..me };
        assert!(me.alive() && !other.alive(), "the number alone is not the process");
    }
}
