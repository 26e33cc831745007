//! Readers beside a writer: no lock, no false alarm, and never anything but whole turns in order.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ostler_ledger::storage::{Access, Call, Disk, Fault, FaultKind, Folder, Name, SimulatedDisk, SimulatedStorage};
use ostler_ledger::storage::{LockError, SimulatedFile, SimulatedLock};
use ostler_ledger::{Ledger, Options, Position, Records, Storage, VerifyOptions, head, verify};

use crate::support::*;

/// Reads in small pieces, so that one reading of a file spans many moments of its writer.
struct InPieces(SimulatedStorage);

impl Storage for InPieces {
    type File = SimulatedFile;
    type Lock = SimulatedLock;

    fn lock(&self, wait: Duration) -> Result<SimulatedLock, LockError> {
        self.0.lock(wait)
    }
    fn create(&self, name: Name<'_>) -> std::io::Result<SimulatedFile> {
        self.0.create(name)
    }
    fn open(&self, name: Name<'_>, access: Access) -> std::io::Result<SimulatedFile> {
        self.0.open(name, access)
    }
    fn len(&self, file: &SimulatedFile) -> std::io::Result<u64> {
        self.0.len(file)
    }
    fn read_at(&self, file: &SimulatedFile, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = buffer.len().min(97);
        self.0.read_at(file, offset, &mut buffer[..len])
    }
    fn write_at(&self, file: &SimulatedFile, offset: u64, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write_at(file, offset, bytes)
    }
    fn allocate(&self, file: &SimulatedFile, offset: u64, len: u64) -> std::io::Result<bool> {
        self.0.allocate(file, offset, len)
    }
    fn truncate(&self, file: &SimulatedFile, len: u64) -> std::io::Result<()> {
        self.0.truncate(file, len)
    }
    fn sync_data(&self, file: &SimulatedFile) -> std::io::Result<()> {
        self.0.sync_data(file)
    }
    fn sync_folder(&self, folder: Folder) -> std::io::Result<()> {
        self.0.sync_folder(folder)
    }
    fn seal(&self, name: Name<'_>) -> std::io::Result<()> {
        self.0.seal(name)
    }
    fn unseal(&self, name: Name<'_>) -> std::io::Result<()> {
        self.0.unseal(name)
    }
    fn is_sealed(&self, file: &SimulatedFile) -> std::io::Result<bool> {
        self.0.is_sealed(file)
    }
    fn rename(&self, folder: Folder, from: &str, to: &str) -> std::io::Result<()> {
        self.0.rename(folder, from, to)
    }
    fn link(&self, file: &str, from: Folder, to: Folder) -> std::io::Result<()> {
        self.0.link(file, from, to)
    }

    fn unlink(&self, name: Name<'_>) -> std::io::Result<()> {
        self.0.unlink(name)
    }
    fn list(&self, folder: Folder) -> std::io::Result<Vec<String>> {
        self.0.list(folder)
    }
}

/// Reads until the writer is done, and once more. Returns how many readings there were.
fn read_beside<S: Storage>(storage: &S, done: &AtomicBool) -> u32 {
    let mut last = Position::START;
    let mut readings = 0;
    loop {
        let finished = done.load(Ordering::Acquire);
        let report = verify(storage, &VerifyOptions { boot: Some(BOOT.to_owned()), since: Some(last) }).unwrap();
        assert!(report.ok(), "a false alarm: {report:?}");
        assert!(report.head.seq >= last.seq);
        last = report.head;
        let mut ended = true;
        for (expected, record) in (1..).zip(Records::new(storage)) {
            let record = record.unwrap();
            assert_eq!(record.header.seq, expected);
            ended = record.header.end;
        }
        assert!(ended, "half a turn was read");
        head(storage).unwrap();
        readings += 1;
        if finished {
            return readings;
        }
    }
}

fn small_segments() -> Options {
    Options { segment_bytes: 20_000, ..options(BOOT) }
}

#[test]
fn readers_see_no_fault_while_turns_fail_and_are_filled_again() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = Ledger::open(disk.storage(), small_segments()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_beside(&InPieces(disk.storage()), &done));
        let mut readings = 0;
        for number in 0..300_usize {
            if number % 3 == 0 {
                let kind = FaultKind::Partial(number * 13 % 1500, ErrorKind::Other);
                disk.inject(Fault { call: Call::Write, after: 0, kind });
            }
            let batch = [entry(Some("a"), &"x".repeat(number * 7 % 900)), entry(None, &"y".repeat(number * 31 % 700))];
            let appended = ledger.append(&batch, &STAMP);
            assert_eq!(appended.is_err(), number % 3 == 0);
            ledger.sync().unwrap();
            if reader.is_finished() {
                break;
            }
        }
        done.store(true, Ordering::Release);
        readings += reader.join().unwrap();
        assert!(readings > 0);
    });
}

#[test]
fn readers_see_no_fault_on_a_real_disk() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("ledger");
    let storage = Disk::new(folder.clone(), root.path().join("quarantine"));
    let (mut ledger, _recovery) = Ledger::open(storage, small_segments()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_beside(&Disk::reading(folder.clone()), &done));
        for number in 0..200_usize {
            let batch = vec![entry(Some("a"), &"x".repeat(number * 97 % 3000)); 1 + number % 9];
            ledger.append(&batch, &STAMP).unwrap();
            ledger.sync().unwrap();
        }
        done.store(true, Ordering::Release);
        assert!(reader.join().unwrap() > 0);
    });
}
