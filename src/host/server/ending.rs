//! How an episode ends, step by step:
//!
//! ```text
//! Running --leader ended--> Group --nobody left, or killed in vain--> Sweep --nobody left, or in vain--> Flush --> Over
//!    `- stop: TERM to the group, after the grace KILL
//! ```
//! The leader stays unreaped until its group is gone, because its unreaped pid is what keeps the group's number from
//! meaning anybody else. Then the episode's marked processes are ended; what is left is named.

use std::collections::BTreeMap;
use std::io;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::limits::{CHECK_MS, FLUSH_WITHIN_MS, GRACE_MS, KILL_WITHIN_MS};
use super::reap;
use crate::host::marker;
use crate::host::wire::Survivor;
use crate::os::identity::ProcessIdentity;
use crate::os::process::{self, Stat, State};
use crate::os::signal;

/// Where the end stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The leader lives.
    Running,
    /// The leader has ended, its group may not have.
    Group,
    /// The group is gone, marked processes may not be.
    Sweep,
    /// Nothing is left to end; peers take what is for them.
    Flush,
    /// The host can go.
    Over,
}

/// The end of an episode.
#[derive(Debug)]
pub(super) struct Ending {
    leader: Pid,
    marker: String,
    stage: Stage,
    /// When the group gets its KILL; absent until the end has begun.
    kill_at_us: Option<u64>,
    killed: bool,
    /// When waiting for what was killed is over.
    give_up_us: u64,
    /// Whether somebody asked for the end.
    stopping: bool,
    check_at_us: u64,
    pause_ms: u64,
    survivors: Vec<Survivor>,
}

impl Ending {
    pub(super) fn new(leader: Pid, marker: String) -> Self {
        Self {
            leader,
            marker,
            stage: Stage::Running,
            kill_at_us: None,
            killed: false,
            give_up_us: u64::MAX,
            stopping: false,
            check_at_us: u64::MAX,
            pause_ms: CHECK_MS.0,
            survivors: Vec::new(),
        }
    }

    pub(super) fn stage(&self) -> Stage {
        self.stage
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Who was left, once the sweep is over.
    pub(super) fn survivors(&self) -> &[Survivor] {
        &self.survivors
    }

    /// When the next step is due.
    pub(super) fn next_us(&self) -> Option<u64> {
        let due = match self.stage {
            Stage::Running if self.killed => self.give_up_us,
            Stage::Running => self.kill_at_us.unwrap_or(u64::MAX),
            Stage::Group | Stage::Sweep => self.check_at_us.min(self.give_up_us),
            Stage::Flush => self.give_up_us,
            Stage::Over => u64::MAX,
        };
        (due != u64::MAX).then_some(due)
    }

    /// Somebody asks for the end. A later asker can only shorten the grace.
    pub(super) fn stop(&mut self, now_us: u64, grace_ms: u64) {
        self.stopping = true;
        let kill_at_us = now_us.saturating_add(grace_ms.saturating_mul(1_000));
        if self.kill_at_us.is_none() {
            self.terminate_group();
        }
        self.kill_at_us = Some(self.kill_at_us.map_or(kill_at_us, |earlier| earlier.min(kill_at_us)));
    }

    /// INT to the group; false once the leader was seen ended.
    pub(super) fn interrupt(&self) -> bool {
        self.stage == Stage::Running && killpg(self.leader, Signal::SIGINT).is_ok()
    }

    /// The leader was seen ended, and is not reaped.
    pub(super) fn leader_ended(&mut self, now_us: u64) {
        self.stage = Stage::Group;
        self.check_at_us = now_us;
        self.give_up_us = u64::MAX;
        if self.kill_at_us.is_none() {
            self.terminate_group();
            self.kill_at_us = Some(now_us.saturating_add(GRACE_MS * 1_000));
        }
        if self.killed {
            // The first KILL may have met a process about to fork.
            self.kill_group(now_us);
        }
    }

    /// The command never came up: there is nothing to end.
    pub(super) fn never_started(&mut self, now_us: u64) {
        reap::reap(self.leader);
        self.flush(now_us);
    }

    /// A child ended: look again at once.
    pub(super) fn child_ended(&mut self, now_us: u64) {
        self.check_at_us = self.check_at_us.min(now_us);
    }

    /// Does what is due. True when the sweep has just ended.
    pub(super) fn advance(&mut self, now_us: u64) -> bool {
        match self.stage {
            Stage::Running => {
                if !self.killed && self.kill_at_us.is_some_and(|at| at <= now_us) {
                    self.kill_group(now_us);
                } else if self.killed && self.give_up_us <= now_us {
                    // The kernel cannot end it now. Who waits is told, and the end will still be seen.
                    self.survivors = vec![marker::survivor(pid_number(self.leader))];
                    self.give_up_us = u64::MAX;
                    return true;
                }
                false
            }
            Stage::Group => {
                self.end_group(now_us);
                false
            }
            Stage::Sweep => self.sweep(now_us),
            Stage::Flush => {
                if self.give_up_us <= now_us {
                    self.stage = Stage::Over;
                }
                false
            }
            Stage::Over => false,
        }
    }

    /// Peers have taken everything.
    pub(super) fn flushed(&mut self) {
        if self.stage == Stage::Flush {
            self.stage = Stage::Over;
        }
    }

    fn end_group(&mut self, now_us: u64) {
        if !self.killed && self.kill_at_us.is_some_and(|at| at <= now_us) {
            self.kill_group(now_us);
        }
        if self.check_at_us > now_us && self.give_up_us > now_us {
            return;
        }
        // If the table cannot be read, the group counts as there until its time is up.
        let is_gone = group_members(self.leader).is_ok_and(|members| members.is_empty());
        if is_gone || self.give_up_us <= now_us {
            reap::reap(self.leader);
            self.stage = Stage::Sweep;
            self.give_up_us = now_us.saturating_add(KILL_WITHIN_MS * 1_000);
            self.pause_ms = CHECK_MS.0;
            self.check_at_us = now_us;
        } else {
            self.pause(now_us);
        }
    }

    fn sweep(&mut self, now_us: u64) -> bool {
        let last_look = self.give_up_us <= now_us;
        if self.check_at_us > now_us && !last_look {
            return false;
        }
        reap::reap_adopted(self.leader);
        let marked = self.marked().unwrap_or_default();
        if !marked.is_empty() && !last_look {
            for identity in &marked {
                // Whom this does not end is named in the end.
                drop(signal::send(identity, Signal::SIGKILL));
            }
            self.pause(now_us);
            return false;
        }
        let mut left: BTreeMap<u32, Survivor> = BTreeMap::new();
        let descendants = descendants().unwrap_or_default().into_iter().map(|row| row.pid);
        for pid in marked.into_iter().map(|identity| identity.pid).chain(descendants) {
            left.insert(pid, marker::survivor(pid));
        }
        self.survivors = left.into_values().collect();
        self.flush(now_us);
        true
    }

    /// Marked processes: everywhere if somebody asked for the end, else among what descends from the command, which is
    /// everything it started unless another process started it on its behalf.
    fn marked(&self) -> io::Result<Vec<ProcessIdentity>> {
        if self.stopping {
            return marker::commands(&self.marker);
        }
        let mut marked = Vec::new();
        for row in descendants()? {
            if marker::carries(row.pid, &self.marker) {
                marked.push(ProcessIdentity::of_row(&row)?);
            }
        }
        Ok(marked)
    }

    fn flush(&mut self, now_us: u64) {
        self.stage = Stage::Flush;
        self.give_up_us = now_us.saturating_add(FLUSH_WITHIN_MS * 1_000);
    }

    fn pause(&mut self, now_us: u64) {
        self.check_at_us = now_us.saturating_add(self.pause_ms * 1_000);
        self.pause_ms = (self.pause_ms * 2).min(CHECK_MS.1);
        if let Some(kill_at_us) = self.kill_at_us.filter(|_| !self.killed && self.stage == Stage::Group) {
            self.check_at_us = self.check_at_us.min(kill_at_us);
        }
    }

    fn terminate_group(&self) {
        // A group of stopped processes takes its TERM only once it goes on. What is gone already needs neither.
        let _ = killpg(self.leader, Signal::SIGTERM);
        let _ = killpg(self.leader, Signal::SIGCONT);
    }

    fn kill_group(&mut self, now_us: u64) {
        let _ = killpg(self.leader, Signal::SIGKILL);
        self.killed = true;
        self.give_up_us = now_us.saturating_add(KILL_WITHIN_MS * 1_000);
        self.check_at_us = now_us;
        self.pause_ms = CHECK_MS.0;
    }
}

fn pid_number(pid: Pid) -> u32 {
    u32::try_from(pid.as_raw()).expect("the pid of a child is positive")
}

/// Who still runs in the leader's group.
fn group_members(leader: Pid) -> io::Result<Vec<Stat>> {
    // Only descendants can be in it, and whoever lost his parent is a child of this host.
    let group = pid_number(leader);
    if process::own_children()?.iter().all(|child| *child == group) {
        return Ok(Vec::new());
    }
    let all = process::all()?.into_iter();
    Ok(all.filter(|row| row.group == group && row.state == State::Runs).collect())
}

/// Every running process that descends from this host, but no broker or host of ostler and nothing below one.
fn descendants() -> io::Result<Vec<Stat>> {
    if process::own_children()?.is_empty() {
        return Ok(Vec::new());
    }
    let mut children: BTreeMap<u32, Vec<Stat>> = BTreeMap::new();
    for row in process::all()? {
        children.entry(row.parent).or_default().push(row);
    }
    let (mut found, mut parents) = (Vec::new(), vec![std::process::id()]);
    while let Some(parent) = parents.pop() {
        // Taken out, so that no picture of the table, however torn, can send us in a circle.
        for row in children.remove(&parent).unwrap_or_default() {
            if marker::is_ostler(row.pid) {
                continue;
            }
            parents.push(row.pid);
            if row.state == State::Runs {
                found.push(row);
            }
        }
    }
    Ok(found)
}
