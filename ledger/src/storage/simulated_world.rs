//! The state behind a simulated disk: images, names, the running process, and what is to go wrong.

use std::collections::BTreeMap;
use std::io;

use super::simulated::{Call, Fault, FaultKind, Stop};
use super::simulated_image::{Change, InFlight, Inode, NameChange};
use super::{Folder, Name};

#[derive(Default)]
pub(super) struct World {
    pub(super) inodes: Vec<Inode>,
    pub(super) visible_names: BTreeMap<(Folder, String), usize>,
    pub(super) durable_names: BTreeMap<(Folder, String), usize>,
    pub(super) unsynced_names: Vec<(Folder, NameChange)>,
    /// The write that a kill can tear: the last call, if it was one.
    pub(super) in_flight: Option<InFlight>,
    pub(super) process: u64,
    pub(super) dead: bool,
    pub(super) lock: Option<u64>,
    pub(super) locks_taken: u64,
    pub(super) faults: Vec<Fault>,
    pub(super) stop: Option<Stop>,
    pub(super) calls: u64,
    pub(super) capacity: Option<u64>,
    pub(super) cannot_allocate: bool,
}

impl World {
    /// The process is gone: its locks are free, its handles are dead, its faults are forgotten.
    pub(super) fn end_process(&mut self) {
        self.process += 1;
        self.dead = false;
        self.lock = None;
        self.stop = None;
        self.faults.clear();
        self.in_flight = None;
    }

    /// Counts a call, and says whether a fault strikes it and whether the process stops after it.
    pub(super) fn enter(&mut self, process: u64, call: Call) -> io::Result<(Option<FaultKind>, bool)> {
        if self.dead || process != self.process {
            return Err(dead());
        }
        self.calls += 1;
        let mut stops_after = false;
        match &mut self.stop {
            Some(Stop::Before(0)) => {
                self.dead = true;
                return Err(dead());
            }
            Some(Stop::After(0)) => {
                self.dead = true;
                stops_after = true;
            }
            Some(Stop::Before(left) | Stop::After(left)) => *left -= 1,
            None => {}
        }
        let struck = self.faults.iter().position(|fault| fault.call == call && fault.after == 0);
        for fault in self.faults.iter_mut().filter(|fault| fault.call == call) {
            fault.after = fault.after.saturating_sub(1);
        }
        self.in_flight = None;
        Ok((struck.map(|index| self.faults.remove(index).kind), stops_after))
    }

    pub(super) fn used(&self) -> usize {
        self.visible_names.values().map(|inode| self.inodes[*inode].len()).sum()
    }

    pub(super) fn room(&self) -> usize {
        let used = self.used();
        let capacity = self.capacity.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        capacity.saturating_sub(used)
    }

    pub(super) fn find(&self, name: Name<'_>) -> io::Result<usize> {
        let found = self.visible_names.get(&(name.folder, name.file.to_owned()));
        found.copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn set_sealed(&mut self, name: Name<'_>, sealed: bool) -> io::Result<()> {
        let inode = self.find(name)?;
        self.inodes[inode].sealed = sealed;
        Ok(())
    }

    pub(super) fn change_name(&mut self, folder: Folder, change: NameChange) {
        change.apply(folder, &mut self.visible_names);
        self.unsynced_names.push((folder, change));
    }

    pub(super) fn change(&mut self, inode: usize, change: Change) {
        let inode = &mut self.inodes[inode];
        change.apply(&mut inode.visible);
        inode.unsynced.push(change);
    }

    pub(super) fn write(&mut self, inode: usize, offset: usize, bytes: &[u8]) -> io::Result<usize> {
        let visible = &self.inodes[inode].visible;
        let growth = (offset + bytes.len()).saturating_sub(self.inodes[inode].len());
        let missing = growth.saturating_sub(self.room());
        let len = bytes.len().saturating_sub(missing);
        if len == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let before = visible.get(offset..).unwrap_or_default().to_vec();
        self.change(inode, Change::Write { offset, bytes: bytes[..len].to_vec() });
        self.in_flight = Some(InFlight { inode, offset, len, before });
        Ok(len)
    }
}

pub(super) fn dead() -> io::Error {
    io::Error::other("the simulated process is dead")
}
