//! What the port promises, checked on both implementations; and what the disk refuses.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use ostler_ledger::storage::{
    Access, Crash, Disk, Folder, LockError, Name, Seen, SimulatedDisk, Storage, try_writer_lock,
};
use ostler_ledger::{Ledger, OpenError, Options, VerifyOptions, head, verify, verify_folder};

use crate::support::*;

fn name(file: &str) -> Name<'_> {
    Name { folder: Folder::Quarantine, file }
}

fn conforms<S: Storage>(storage: &S) {
    assert_eq!(storage.list(Folder::Quarantine).unwrap(), Vec::<String>::new());
    assert_eq!(storage.open(name("none"), Access::Read).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(storage.unlink(name("none")).unwrap_err().kind(), ErrorKind::NotFound);
    let file = storage.create(name("b")).unwrap();
    assert_eq!(storage.create(name("b")).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(storage.write_at(&file, 3, b"def").unwrap(), 3);
    assert_eq!(storage.write_at(&file, 0, b"abc").unwrap(), 3);
    assert_eq!(storage.len(&file).unwrap(), 6);
    let mut buffer = [0; 10];
    assert_eq!(storage.read_at(&file, 2, &mut buffer).unwrap(), 4);
    assert_eq!(&buffer[..4], b"cdef");
    assert_eq!(storage.read_at(&file, 6, &mut buffer).unwrap(), 0);
    assert_eq!(storage.read_at(&file, 60, &mut buffer).unwrap(), 0);
    storage.truncate(&file, 2).unwrap();
    storage.write_at(&file, 4, b"z").unwrap();
    assert_eq!(storage.read_at(&file, 0, &mut buffer).unwrap(), 5);
    assert_eq!(&buffer[..5], b"ab\0\0z");
    // Reserving changes neither length nor content, whether it can be done or not.
    storage.allocate(&file, 3, 100_000).unwrap();
    assert_eq!(storage.len(&file).unwrap(), 5);
    storage.truncate(&file, 5).unwrap();
    storage.sync_data(&file).unwrap();
    storage.create(name("a")).unwrap();
    assert_eq!(storage.list(Folder::Quarantine).unwrap(), ["a", "b"]);
    storage.rename(Folder::Quarantine, "b", "a").unwrap();
    assert_eq!(storage.list(Folder::Quarantine).unwrap(), ["a"]);
    let replaced = storage.open(name("a"), Access::Read).unwrap();
    assert_eq!(storage.len(&replaced).unwrap(), 5);
    assert!(!storage.is_sealed(&replaced).unwrap());
    assert_eq!(storage.look(name("a")).unwrap(), Seen { len: 5, sealed: false });
    assert_eq!(storage.look(name("none")).unwrap_err().kind(), ErrorKind::NotFound);
    storage.seal(name("a")).unwrap();
    assert_eq!(storage.look(name("a")).unwrap(), Seen { len: 5, sealed: true });
    assert!(storage.is_sealed(&storage.open(name("a"), Access::Read).unwrap()).unwrap());
    storage.unseal(name("a")).unwrap();
    assert!(!storage.is_sealed(&storage.open(name("a"), Access::Write).unwrap()).unwrap());
    assert_eq!(storage.seal(name("none")).unwrap_err().kind(), ErrorKind::NotFound);
    storage.unlink(name("a")).unwrap();
    storage.sync_folder(Folder::Quarantine).unwrap();
    // A removed file lives on for who holds it.
    assert_eq!(storage.read_at(&replaced, 4, &mut buffer).unwrap(), 1);

    let lock = storage.lock(Duration::ZERO).unwrap();
    assert!(matches!(storage.lock(Duration::ZERO), Err(LockError::Held)));
    drop(lock);
    storage.lock(Duration::ZERO).unwrap();
}

#[test]
fn both_implementations_keep_the_ports_promises() {
    conforms(&SimulatedDisk::new().storage());
    let root = tempfile::tempdir().unwrap();
    conforms(&Disk::new(root.path().join("ledger"), root.path().join("quarantine")));
}

#[test]
fn a_dead_process_can_do_nothing_and_holds_nothing() {
    let disk = SimulatedDisk::new();
    let storage = disk.storage();
    let lock = storage.lock(Duration::ZERO).unwrap();
    disk.crash(Crash::Kill, 0);
    assert!(storage.list(Folder::Ledger).is_err());
    let next = disk.storage();
    let taken = next.lock(Duration::ZERO).unwrap();
    drop(lock);
    assert!(matches!(next.lock(Duration::ZERO), Err(LockError::Held)), "a dead lock frees nobody else's");
    drop(taken);
}

#[test]
fn who_looks_at_a_file_is_refused_what_who_opens_it_is() {
    let root = tempfile::tempdir().unwrap();
    let disk = disk_at(root.path());
    disk.create(name("sound")).unwrap();
    let path = |file: &str| root.path().join("quarantine").join(file);
    symlink("sound", path("link")).unwrap();
    fs::create_dir(path("folder")).unwrap();
    fs::write(path("open"), "").unwrap();
    fs::set_permissions(path("open"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(disk.look(name("sound")).is_ok());
    for file in ["link", "folder", "open"] {
        assert!(disk.open(name(file), Access::Read).is_err(), "{file}");
        assert!(disk.look(name(file)).is_err(), "{file}");
    }
}

fn disk_at(root: &Path) -> Disk {
    Disk::new(root.join("ledger"), root.join("quarantine"))
}

fn quick() -> Options {
    Options { lock_wait: Duration::ZERO, ..options(BOOT) }
}

#[test]
fn a_ledger_on_disk_is_closed_to_others_and_reads_back() {
    let root = tempfile::tempdir().unwrap();
    let (mut ledger, _recovery) = Ledger::open(disk_at(root.path()), quick()).unwrap();
    ledger.append(&[entry(Some("s"), "on disk")], &STAMP).unwrap();
    ledger.sync().unwrap();
    let mode = |path: &str| fs::metadata(root.path().join(path)).unwrap().permissions().mode() & 0o7777;
    assert!(!root.path().join("quarantine").exists(), "made when something is set aside");
    assert_eq!(mode("ledger"), 0o700);
    assert_eq!(mode("ledger/writer.lock"), 0o600);
    assert_eq!(mode("ledger/00000000000000000001.jsonl"), 0o600);
    let report = verify_folder(&root.path().join("ledger"), &VerifyOptions::default()).unwrap();
    assert_eq!((report.ok(), report.records, report.head), (true, 2, ledger.head()));
    drop(ledger);
    let small = Options { segment_bytes: 1, ..quick() };
    let (mut ledger, _recovery) = Ledger::open(disk_at(root.path()), small).unwrap();
    ledger.append(&[entry(Some("s"), "in the next segment")], &STAMP).unwrap();
    assert_eq!(mode("ledger/00000000000000000001.jsonl"), 0o600, "not before the next one is on the disk");
    ledger.sync().unwrap();
    assert_eq!(mode("ledger/00000000000000000001.jsonl"), 0o400);
    assert_eq!(mode("ledger/00000000000000000003.jsonl"), 0o600);
    let reading = Disk::reading(root.path().join("ledger"));
    let seen = head(&reading).unwrap();
    assert_eq!((seen.head, seen.segments), (ledger.head(), 2));
    assert!(verify(&Disk::reading(root.path().join("nothing")), &VerifyOptions::default()).unwrap().ok());
}

#[test]
fn the_writer_lock_keeps_two_writers_apart() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("ledger");
    let (ledger, _recovery) = Ledger::open(disk_at(root.path()), quick()).unwrap();
    let waited = Options { lock_wait: Duration::from_millis(30), ..quick() };
    assert!(matches!(Ledger::open(disk_at(root.path()), waited), Err(OpenError::Lock(LockError::Held))));
    assert!(try_writer_lock(&folder).unwrap().is_none());
    drop(ledger);
    let tried = try_writer_lock(&folder).unwrap().expect("free");
    assert!(matches!(Ledger::open(disk_at(root.path()), quick()), Err(OpenError::Lock(LockError::Held))));
    // Whoever waits gets it as soon as it is free.
    std::thread::scope(|scope| {
        let patient = Options { lock_wait: Duration::from_secs(60), ..quick() };
        let opened = scope.spawn(|| Ledger::open(disk_at(root.path()), patient).map(|_opened| ()));
        drop(tried);
        opened.join().unwrap().unwrap();
    });
}

/// A lock on a file that no longer has the name keeps nobody out, so it is not taken for the lock.
#[test]
fn a_lock_file_that_was_removed_is_made_again() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("ledger");
    drop(try_writer_lock(&folder).unwrap().expect("free"));
    fs::remove_file(folder.join("writer.lock")).unwrap();
    let held = try_writer_lock(&folder).unwrap().expect("free");
    assert!(try_writer_lock(&folder).unwrap().is_none());
    drop(held);
}

#[test]
fn what_is_not_ours_alone_is_refused_and_left_as_it_is() {
    let refused = |prepare: &dyn Fn(&Path)| {
        let root = tempfile::tempdir().unwrap();
        let ledger = root.path().join("ledger");
        fs::create_dir(&ledger).unwrap();
        fs::set_permissions(&ledger, fs::Permissions::from_mode(0o700)).unwrap();
        prepare(&ledger);
        let error = Ledger::open(disk_at(root.path()), quick()).map(|_opened| ()).unwrap_err();
        error.to_string()
    };
    let open_folder = refused(&|ledger| fs::set_permissions(ledger, fs::Permissions::from_mode(0o755)).unwrap());
    assert!(open_folder.contains("mode 0755"), "{open_folder}");
    let segment = "00000000000000000001.jsonl";
    let open_file = refused(&|ledger| {
        fs::write(ledger.join(segment), "").unwrap();
        fs::set_permissions(ledger.join(segment), fs::Permissions::from_mode(0o644)).unwrap();
    });
    assert!(open_file.contains("mode 0644"), "{open_file}");
    let folder = refused(&|ledger| fs::create_dir(ledger.join(segment)).unwrap());
    assert!(folder.contains("regular file"), "{folder}");
    refused(&|ledger| symlink("/dev/null", ledger.join(segment)).unwrap());
    refused(&|ledger| symlink("elsewhere", ledger.join("writer.lock")).unwrap());
    refused(&|ledger| {
        fs::rename(ledger, ledger.with_extension("real")).unwrap();
        symlink("ledger.real", ledger).unwrap();
    });
}

#[test]
fn a_quarantine_that_cannot_be_used_degrades_and_does_not_stop() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("quarantine"), "a file").unwrap();
    let (mut ledger, recovery) = Ledger::open(disk_at(root.path()), quick()).unwrap();
    assert_eq!(recovery.degraded.len(), 1, "{:?}", recovery.degraded);
    ledger.append(&[entry(None, "works")], &STAMP).unwrap();
    ledger.sync().unwrap();
}

/// The simulated power loss keeps what was synced, whatever it does to the rest.
#[test]
fn a_power_loss_takes_only_what_was_not_synced() {
    let mut lost = 0;
    for seed in 0..200 {
        let disk = SimulatedDisk::new();
        let storage = disk.storage();
        let file = storage.create(name("f")).unwrap();
        storage.write_at(&file, 0, &[1; 3000]).unwrap();
        storage.sync_data(&file).unwrap();
        storage.sync_folder(Folder::Quarantine).unwrap();
        storage.write_at(&file, 3000, &[2; 3000]).unwrap();
        storage.create(name("g")).unwrap();
        disk.crash(Crash::PowerLoss, seed);
        let left = disk.contents(name("f")).unwrap();
        assert_eq!(left[..3000], [1; 3000]);
        assert!(left[3000..].iter().all(|byte| *byte == 2 || *byte == 0));
        lost += u32::from(left != [[1; 3000], [2; 3000]].concat());
    }
    assert!((50..200).contains(&lost), "{lost}");
}

/// A kill cuts the last write on a page of the file, and nothing else.
#[test]
fn a_kill_tears_only_the_write_in_flight_and_only_on_a_page() {
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..100 {
        let disk = SimulatedDisk::new();
        let storage = disk.storage();
        let file = storage.create(name("f")).unwrap();
        storage.write_at(&file, 0, &[1; 5000]).unwrap();
        storage.write_at(&file, 5000, &[2; 9000]).unwrap();
        disk.crash(Crash::Kill, seed);
        lengths.insert(disk.contents(name("f")).unwrap().len());
    }
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [5000, 8192, 12288, 14000]);
}
