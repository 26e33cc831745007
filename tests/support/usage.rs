//! What a process holds: descriptors, threads, memory. Compared before and after work, it shows what the work left behind.

use super::process::Process;
use std::fmt;
use std::fs;

/// What a process holds now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) descriptors: usize,
    pub(crate) threads: u64,
    /// Resident memory that is its own: not the pages of its program and of libraries, which the kernel takes and gives as it likes.
    pub(crate) own_kib: u64,
}

impl Usage {
    /// What this process holds; the test fails if there is none.
    #[track_caller]
    pub(crate) fn of(process: Process) -> Usage {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", process.pid)).expect("it lives and is ours").count();
        let status = fs::read_to_string(format!("/proc/{}/status", process.pid)).expect("it lives");
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel says it");
            line.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
        };
        Usage { descriptors, threads: number("Threads:"), own_kib: number("RssAnon:") }
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Usage { descriptors, threads, own_kib } = self;
        write!(f, "{descriptors} descriptors, {threads} threads, {own_kib} KiB of its own")
    }
}
