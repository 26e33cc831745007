//! Simulated storage: every file and folder has a visible image (the page cache) and a durable one (the disk).
//!
//! Promises: deterministic, no file is touched, faults by name and n-th call, and processes that stop between or within
//! any two calls. It is as unkind as the kernels of ledger/README.md: after a failed sync the bytes stay visible, a
//! second sync succeeds, and the disk never gets them.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::simulated_image::{Change, Inode, NameChange};
use super::simulated_world::{World, dead};
use super::{Access, Folder, LockError, Name, Storage};

/// The machine's disk. Clones share it. It outlives the processes that write to it.
#[derive(Clone)]
pub struct SimulatedDisk {
    world: Arc<Mutex<World>>,
}

/// One process's door to a [`SimulatedDisk`]. It is dead, and every call fails, once the process was stopped.
#[derive(Clone, Debug)]
pub struct SimulatedStorage {
    disk: SimulatedDisk,
    process: u64,
}

/// An open file of a [`SimulatedStorage`].
#[derive(Clone, Debug)]
pub struct SimulatedFile {
    inode: usize,
    writable: bool,
}

/// The simulated writer lock.
#[derive(Debug)]
pub struct SimulatedLock {
    disk: SimulatedDisk,
    id: u64,
}

/// The calls that a fault can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named after the calls of the port")]
pub enum Call {
    Lock,
    Create,
    Open,
    Read,
    Write,
    Allocate,
    Truncate,
    SyncData,
    SyncFolder,
    Seal,
    Unseal,
    Rename,
    Link,
    Unlink,
    List,
}

/// Makes one call fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which call.
    pub call: Call,
    /// How many such calls succeed first.
    pub after: u64,
    /// How it fails.
    pub kind: FaultKind,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Nothing happens but the error. A failed sync also forgets what it should have made durable.
    Error(io::ErrorKind),
    /// At most this many bytes are written or read.
    Short(usize),
    /// This many bytes, but never all, are written, then the error is reported.
    Partial(usize, io::ErrorKind),
}

/// Where a process stops, counted over all its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The n-th call from now (0 is the next) does not happen.
    Before(u64),
    /// The n-th call from now happens, and nobody learns of it.
    After(u64),
}

impl SimulatedDisk {
    /// An empty disk.
    pub fn new() -> SimulatedDisk {
        SimulatedDisk { world: Arc::default() }
    }

    /// The door of the process that runs now. After [`SimulatedDisk::crash`] take a new one.
    pub fn storage(&self) -> SimulatedStorage {
        SimulatedStorage { disk: self.clone(), process: self.world().process }
    }

    /// Arms a fault; several can be armed.
    pub fn inject(&self, fault: Fault) {
        self.world().faults.push(fault);
    }

    /// Faults that have not struck yet.
    pub fn faults_left(&self) -> usize {
        self.world().faults.len()
    }

    /// Takes back the faults that have not struck yet.
    pub fn withdraw_faults(&self) {
        self.world().faults.clear();
    }

    /// Stops the running process at a call. Every later call of it fails; then call [`SimulatedDisk::crash`].
    pub fn stop_at(&self, stop: Stop) {
        self.world().stop = Some(stop);
    }

    /// Whether the running process has met its stop.
    pub fn is_stopped(&self) -> bool {
        self.world().dead
    }

    /// Calls so far, over all processes.
    pub fn calls(&self) -> u64 {
        self.world().calls
    }

    /// Limits the bytes of all files together, reserved ones included; `None` frees the disk again.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.world().capacity = bytes;
    }

    /// The bytes of all files together, reserved ones included.
    pub fn used(&self) -> u64 {
        wide(self.world().used())
    }

    /// Makes it a disk on which nothing can be reserved, or one on which it can.
    pub fn set_allocates(&self, allocates: bool) {
        self.world().cannot_allocate = !allocates;
    }

    /// The visible bytes of a file, as any reader would see them.
    pub fn contents(&self, name: Name<'_>) -> Option<Vec<u8>> {
        let world = self.world();
        let inode = world.visible_names.get(&(name.folder, name.file.to_owned()))?;
        Some(world.inodes[*inode].visible.clone())
    }

    /// Replaces a file, visible and durable: an edit by somebody else, or a fault of the disk.
    pub fn tamper(&self, name: Name<'_>, bytes: &[u8]) {
        let mut world = self.world();
        let world = &mut *world;
        let key = (name.folder, name.file.to_owned());
        let inode = world.inodes.len();
        world.inodes.push(Inode { visible: bytes.to_vec(), durable: bytes.to_vec(), ..Inode::default() });
        world.visible_names.insert(key.clone(), inode);
        world.durable_names.insert(key, inode);
    }

    /// Removes a file, visible and durable: an edit by somebody else.
    pub fn remove(&self, name: Name<'_>) {
        let mut world = self.world();
        let key = (name.folder, name.file.to_owned());
        world.visible_names.remove(&key);
        world.durable_names.remove(&key);
    }

    /// Whether a file is there and sealed.
    pub fn is_sealed(&self, name: Name<'_>) -> bool {
        let world = self.world();
        world.find(name).is_ok_and(|inode| world.inodes[inode].sealed)
    }

    /// The visible names of a folder, sorted.
    pub fn names(&self, folder: Folder) -> Vec<String> {
        names_of(&self.world(), folder)
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("no call panics while it holds the world")
    }
}

impl Default for SimulatedDisk {
    fn default() -> Self {
        SimulatedDisk::new()
    }
}

impl fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimulatedDisk")
    }
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let mut world = self.disk.world();
        if world.lock == Some(self.id) {
            world.lock = None;
        }
    }
}

impl SimulatedStorage {
    /// Runs one call: liveness, stop, a fault that only reports an error, then the call itself.
    fn call<T>(&self, call: Call, run: impl FnOnce(&mut World, Option<FaultKind>) -> io::Result<T>) -> io::Result<T> {
        let mut world = self.disk.world();
        let (fault, stops_after) = world.enter(self.process, call)?;
        let result = match fault {
            Some(FaultKind::Error(kind)) if !matches!(call, Call::SyncData | Call::SyncFolder) => Err(kind.into()),
            Some(_) | None => run(&mut world, fault),
        };
        if stops_after { Err(dead()) } else { result }
    }
}

impl Storage for SimulatedStorage {
    type File = SimulatedFile;
    type Lock = SimulatedLock;

    fn lock(&self, _wait: Duration) -> Result<SimulatedLock, LockError> {
        let taken = self.call(Call::Lock, |world, _fault| {
            if world.lock.is_some() {
                return Ok(None);
            }
            world.locks_taken += 1;
            world.lock = Some(world.locks_taken);
            Ok(world.lock)
        })?;
        let id = taken.ok_or(LockError::Held)?;
        Ok(SimulatedLock { disk: self.disk.clone(), id })
    }

    fn create(&self, name: Name<'_>) -> io::Result<SimulatedFile> {
        self.call(Call::Create, |world, _fault| {
            if world.find(name).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let inode = world.inodes.len();
            world.inodes.push(Inode::default());
            world.change_name(name.folder, NameChange::Create(name.file.to_owned(), inode));
            Ok(SimulatedFile { inode, writable: true })
        })
    }

    fn open(&self, name: Name<'_>, access: Access) -> io::Result<SimulatedFile> {
        self.call(Call::Open, |world, _fault| {
            let inode = world.find(name)?;
            if access == Access::Write && world.inodes[inode].sealed {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            Ok(SimulatedFile { inode, writable: access == Access::Write })
        })
    }

    fn len(&self, file: &SimulatedFile) -> io::Result<u64> {
        let world = self.disk.world();
        Ok(wide(world.inodes[file.inode].visible.len()))
    }

    fn length_at(&self, name: Name<'_>, file: &SimulatedFile) -> io::Result<Option<u64>> {
        let there = self.disk.world().find(name);
        if there.is_ok_and(|inode| inode == file.inode) { self.len(file).map(Some) } else { Ok(None) }
    }

    fn read_at(&self, file: &SimulatedFile, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.call(Call::Read, |world, fault| {
            let visible = world.inodes[file.inode].visible.get(narrow(offset)?..).unwrap_or_default();
            let len = visible.len().min(buffer.len()).min(bound(fault));
            buffer[..len].copy_from_slice(&visible[..len]);
            Ok(len)
        })
    }

    fn write_at(&self, file: &SimulatedFile, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        assert!(file.writable, "opened for reading only");
        self.call(Call::Write, |world, fault| {
            let most = match fault {
                Some(FaultKind::Partial(..)) => bytes.len().saturating_sub(1),
                Some(FaultKind::Error(_) | FaultKind::Short(_)) | None => bytes.len(),
            };
            let bytes = &bytes[..most.min(bound(fault))];
            let written = world.write(file.inode, narrow(offset)?, bytes)?;
            match fault {
                Some(FaultKind::Partial(_, kind)) => Err(kind.into()),
                Some(FaultKind::Error(_) | FaultKind::Short(_)) | None => Ok(written),
            }
        })
    }

    fn allocate(&self, file: &SimulatedFile, offset: u64, len: u64) -> io::Result<bool> {
        assert!(file.writable, "opened for reading only");
        self.call(Call::Allocate, |world, _fault| {
            let end = narrow(offset + len)?;
            if world.cannot_allocate {
                return Ok(false);
            }
            if end.saturating_sub(world.inodes[file.inode].len()) > world.room() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let inode = &mut world.inodes[file.inode];
            inode.reserved = inode.reserved.max(end);
            Ok(true)
        })
    }

    fn truncate(&self, file: &SimulatedFile, len: u64) -> io::Result<()> {
        assert!(file.writable, "opened for reading only");
        self.call(Call::Truncate, |world, _fault| {
            let len = narrow(len)?;
            let inode = &mut world.inodes[file.inode];
            if len <= inode.visible.len() {
                inode.reserved = 0;
            }
            world.change(file.inode, Change::Truncate(len));
            Ok(())
        })
    }

    fn sync_data(&self, file: &SimulatedFile) -> io::Result<()> {
        self.call(Call::SyncData, |world, fault| {
            let inode = &mut world.inodes[file.inode];
            let unsynced = std::mem::take(&mut inode.unsynced);
            inode.reserved_durable = inode.reserved;
            match fault {
                Some(FaultKind::Error(kind) | FaultKind::Partial(_, kind)) => return Err(kind.into()),
                Some(FaultKind::Short(_)) | None => {}
            }
            for change in unsynced {
                change.apply(&mut inode.durable);
            }
            Ok(())
        })
    }

    fn sync_folder(&self, folder: Folder) -> io::Result<()> {
        self.call(Call::SyncFolder, |world, fault| {
            let unsynced = std::mem::take(&mut world.unsynced_names);
            let (these, others) = unsynced.into_iter().partition(|(of, _change)| *of == folder);
            world.unsynced_names = others;
            let these: Vec<(Folder, NameChange)> = these;
            match fault {
                Some(FaultKind::Error(kind) | FaultKind::Partial(_, kind)) => return Err(kind.into()),
                Some(FaultKind::Short(_)) | None => {}
            }
            for (folder, change) in these {
                change.apply(folder, &mut world.durable_names);
            }
            Ok(())
        })
    }

    fn seal(&self, name: Name<'_>) -> io::Result<()> {
        self.call(Call::Seal, |world, _fault| world.set_sealed(name, true))
    }

    fn unseal(&self, name: Name<'_>) -> io::Result<()> {
        self.call(Call::Unseal, |world, _fault| world.set_sealed(name, false))
    }

    fn is_sealed(&self, file: &SimulatedFile) -> io::Result<bool> {
        Ok(self.disk.world().inodes[file.inode].sealed)
    }

    fn rename(&self, folder: Folder, from: &str, to: &str) -> io::Result<()> {
        self.call(Call::Rename, |world, _fault| {
            world.find(Name { folder, file: from })?;
            world.change_name(folder, NameChange::Rename(from.to_owned(), to.to_owned()));
            Ok(())
        })
    }

    fn link(&self, file: &str, from: Folder, to: Folder) -> io::Result<()> {
        self.call(Call::Link, |world, _fault| {
            let inode = world.find(Name { folder: from, file })?;
            if world.find(Name { folder: to, file }).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            world.change_name(to, NameChange::Create(file.to_owned(), inode));
            Ok(())
        })
    }

    fn unlink(&self, name: Name<'_>) -> io::Result<()> {
        self.call(Call::Unlink, |world, _fault| {
            world.find(name)?;
            world.change_name(name.folder, NameChange::Unlink(name.file.to_owned()));
            Ok(())
        })
    }

    fn list(&self, folder: Folder) -> io::Result<Vec<String>> {
        self.call(Call::List, |world, _fault| Ok(names_of(world, folder)))
    }
}

fn names_of(world: &World, folder: Folder) -> Vec<String> {
    world.visible_names.keys().filter(|(of, _name)| *of == folder).map(|(_of, name)| name.clone()).collect()
}

fn bound(fault: Option<FaultKind>) -> usize {
    match fault {
        Some(FaultKind::Short(bytes) | FaultKind::Partial(bytes, _)) => bytes,
        Some(FaultKind::Error(_)) | None => usize::MAX,
    }
}

fn narrow(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_wide| io::ErrorKind::InvalidInput.into())
}

fn wide(len: usize) -> u64 {
    u64::try_from(len).expect("a length fits 64 bits")
}
