//! What a storm leaves: the processes whose environment carries its mark. They are counted, and ended.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill as signal};
use nix::unistd::Pid;

/// How long one that is superfluous, or was told to go, may take to leave.
const SETTLED_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Who carries the mark. One that has ended and was not reaped has no environment any more.
fn carriers(mark: &Path) -> Vec<Pid> {
    let mark = mark.as_os_str().as_bytes();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let carries = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        // The mark ends there, or another storm's name would begin like it.
        environment.split(|byte| *byte == 0).any(|variable| variable.ends_with(mark))
    };
    numbers.filter(carries).map(Pid::from_raw).collect()
}

/// How many there are once they are one, or at the latest after a while.
pub(crate) fn count(mark: &Path) -> usize {
    let until = Instant::now() + SETTLED_WITHIN;
    loop {
        let found = carriers(mark).len();
        if found == 1 || Instant::now() >= until {
            return found;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Kills every daemon that is there. Clients wait at their gate and carry the mark as well: they are shells.
pub(crate) fn kill(mark: &Path) {
    let is_shell = |pid: &Pid| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.trim_end() == "sh" || name.trim_end() == "dash"
    };
    for pid in carriers(mark).into_iter().filter(|pid| !is_shell(pid)) {
        // It may have ended by itself.
        let _ = signal(pid, Signal::SIGKILL);
    }
}

/// Ends all of them, until there is none.
pub(crate) fn end(mark: &Path) {
    let until = Instant::now() + SETTLED_WITHIN;
    loop {
        let found = carriers(mark);
        if found.is_empty() {
            return;
        }
        for pid in found {
            let _ = signal(pid, Signal::SIGKILL);
        }
        if Instant::now() >= until {
            println!("processes that carry {} keep appearing", mark.display());
            return;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::{count, end};
    use std::process::{Command, Stdio};

    #[test]
    fn who_carries_the_mark_is_counted_and_ended() {
        let mark = std::env::temp_dir().join(format!("ostler-storm-{}", std::process::id()));
        let mut other = mark.clone().into_os_string();
        other.push("-2");
        let start = |value: &std::ffi::OsStr| {
            let mut command = Command::new("sleep");
            command.arg("1000").env("ANY_NAME", value).stdin(Stdio::null()).spawn().unwrap()
        };
        let (mut ours, mut others) = (start(mark.as_os_str()), start(&other));
        assert_eq!(count(&mark), 1);
        end(&mark);
        assert!(!ours.wait().unwrap().success());
        assert!(others.try_wait().unwrap().is_none(), "another storm's goes on");
        others.kill().unwrap();
        others.wait().unwrap();
    }
}
