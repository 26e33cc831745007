//! Finds the processes that belong to one test, whoever started them and whatever became of their parents.
//!
//! Everything that a test starts carries its folder's unique path: in the environment, in the command line, or as the working directory.

use super::process::{Process, pids};
use std::path::Path;
use std::{fmt, fs};

/// A process of a test, with its command line for the message.
#[derive(Clone, Debug)]
pub(crate) struct Leftover {
    pub(crate) process: Process,
    command: String,
}

impl Leftover {
    /// Its command line.
    pub(crate) fn command(&self) -> &str {
        &self.command
    }
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.process.pid, self.command)
    }
}

/// The live processes, other than this one, that carry the path `folder`.
pub(crate) fn leftovers(folder: &Path) -> Vec<Leftover> {
    let own = std::process::id();
    let others = pids().into_iter().filter(|pid| u32::try_from(*pid) != Ok(own) && carries(*pid, folder));
    others
        .filter_map(|pid| {
            let process = Process::of(pid.into())?;
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&line).replace('\0', " ").trim_end().to_owned();
            Some(Leftover { process, command })
        })
        .collect()
}

fn carries(pid: i32, folder: &Path) -> bool {
    let mark = folder.as_os_str().as_encoded_bytes();
    let named = ["environ", "cmdline"].iter().any(|file| {
        let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        bytes.windows(mark.len()).any(|window| window == mark)
    });
    named || fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
}
