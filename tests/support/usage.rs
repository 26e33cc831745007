//! What a process holds: descriptors, threads, memory. Compared before and after work, it shows what the work left behind.

use super::process::Process;
use ostler::broker::hosts::BLOCKING_THREADS;
use std::fmt;
use std::fs;

/// What a broker keeps of an operation that was let go: 32 bytes where it is known, and 43 in the text of a snapshot, which is in memory
/// up to three times while it is written. Of what that takes and frees the allocator keeps as much again: after 7,200 operations
/// 7.3 MiB were resident, and at no time more than 3.7 MiB of them in use.
const KEPT_BYTES: usize = 32 + 2 * 3 * 43;
/// What memory may differ by without a reason in the broker: what is in use goes up and down by 2 MiB with every snapshot, and the
/// allocator keeps, in several arenas, some of what was in use at its peaks.
const NOISE_KIB: u64 = 4 * 1024;

/// By how much a broker's own memory may grow with so many operations.
pub(crate) fn growth_kib(operations: usize) -> u64 {
    NOISE_KIB + u64::try_from(operations * KEPT_BYTES / 1024).expect("a small number")
}

/// What a process holds now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) descriptors: usize,
    pub(crate) threads: u64,
    /// Resident memory that is its own: not the pages of its program and of libraries, which the kernel takes and gives as it likes.
    pub(crate) own_kib: u64,
}

impl Usage {
    /// Whether it has no more open than `other`, and no more threads than the broker keeps for what blocks.
    pub(crate) fn is_within(self, other: Usage) -> bool {
        let kept = u64::try_from(BLOCKING_THREADS).expect("a small number");
        self.descriptors <= other.descriptors && self.threads <= other.threads + kept
    }

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
