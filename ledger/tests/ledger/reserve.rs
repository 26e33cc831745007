//! Space reserved ahead: on a full disk what settles is still written, and nothing else is.

use std::io::ErrorKind;

use ostler_ledger::storage::{Call, Crash, Fault, FaultKind, Folder, SimulatedDisk, SimulatedStorage};
use ostler_ledger::{AppendError, Ledger, Options, Position, Storage, VerifyOptions, verify};

use crate::support::*;

const RESERVE: u64 = 4_000;

fn reserving(boot: &str) -> Options {
    Options { reserve_bytes: RESERVE, ..options(boot) }
}

fn open_reserving(disk: &SimulatedDisk, boot: &str) -> Ledger<SimulatedStorage> {
    Ledger::open(disk.storage(), reserving(boot)).unwrap().0
}

/// A batch of one record that takes some 500 bytes.
fn batch(text: &str) -> Vec<ostler_ledger::Entry> {
    vec![entry(None, &format!("{text} {}", "x".repeat(250)))]
}

/// Nothing more fits on the disk.
fn fill(disk: &SimulatedDisk) {
    disk.set_capacity(Some(disk.used()));
}

fn settle<S: Storage>(ledger: &mut Ledger<S>, text: &str, keep: u64) -> Result<Vec<Position>, AppendError> {
    let positions = ledger.append_keeping(&batch(text), &STAMP, keep)?;
    ledger.sync().unwrap();
    Ok(positions)
}

/// Appends ordinary batches until the disk takes no more.
fn exhaust<S: Storage>(ledger: &mut Ledger<S>) {
    loop {
        match ledger.append(&batch("ordinary"), &STAMP) {
            Ok(_positions) => ledger.sync().unwrap(),
            Err(AppendError::StorageFull(_)) => break,
            Err(other) => panic!("{other}"),
        }
    }
}

/// Appends settling batches until the reserve is used up as well. Returns how many fitted.
fn spend<S: Storage>(ledger: &mut Ledger<S>, keep: u64) -> u64 {
    let mut fitted = 0;
    loop {
        match settle(ledger, "settles", keep) {
            Ok(_positions) => fitted += 1,
            Err(AppendError::StorageFull(_)) => return fitted,
            Err(other) => panic!("{other}"),
        }
    }
}

fn sound(disk: &SimulatedDisk) {
    let report = verify(&disk.storage(), &VerifyOptions::default()).unwrap();
    assert!(report.ok() && report.tail.is_none(), "{report:?}");
}

#[test]
fn on_a_full_disk_what_settles_is_written_and_ordinary_batches_are_not() {
    let disk = SimulatedDisk::new();
    let mut ledger = open_reserving(&disk, BOOT);
    turn(&mut ledger, &batch("first"));
    fill(&disk);
    exhaust(&mut ledger);
    let (head, next) = (ledger.head(), ledger.next_seq());
    assert!(matches!(ledger.append(&batch("no"), &STAMP), Err(AppendError::StorageFull(_))));
    assert_eq!((ledger.head(), ledger.next_seq()), (head, next), "a refusal changes nothing");
    // Some of it is kept for what matters more.
    let first = spend(&mut ledger, RESERVE / 2);
    let rest = spend(&mut ledger, 0);
    assert!(first >= 3 && rest >= 3, "{first} and {rest}");
    assert!((first + rest) * 500 > RESERVE - 1_000, "{first} and {rest}");
    sound(&disk);
    // Room again: the reserve is filled before an ordinary batch is taken.
    disk.set_capacity(Some(disk.used() + 2_000));
    assert!(matches!(ledger.append(&batch("no"), &STAMP), Err(AppendError::StorageFull(_))));
    disk.set_capacity(None);
    turn(&mut ledger, &batch("again"));
    fill(&disk);
    exhaust(&mut ledger);
    assert!(spend(&mut ledger, 0) >= 7);
    sound(&disk);
    drop(ledger);
    assert!(texts(&open(&disk).0).iter().filter(|text| text.starts_with("settles")).count() >= 13);
}

#[test]
fn the_reserve_follows_what_is_asked_for() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    ledger.reserve(1_000).unwrap();
    turn(&mut ledger, &batch("first"));
    fill(&disk);
    exhaust(&mut ledger);
    let more = ledger.reserve(8_000);
    assert!(matches!(more, Err(AppendError::StorageFull(_))), "{more:?}");
    assert!(matches!(ledger.append(&batch("no"), &STAMP), Err(AppendError::StorageFull(_))));
    ledger.reserve(0).unwrap();
    turn(&mut ledger, &batch("nothing has to be kept any more"));
    disk.set_capacity(None);
    ledger.reserve(8_000).unwrap();
    fill(&disk);
    assert!(spend(&mut ledger, 0) > 14);
    sound(&disk);
}

/// A new segment needs room of its own. Without any the last one goes on, and the sequence with it.
#[test]
fn a_segment_that_is_full_on_a_full_disk_goes_on() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) =
        Ledger::open(disk.storage(), Options { segment_bytes: 2_000, ..reserving(BOOT) }).unwrap();
    while ledger.next_seq() == ledger.head().seq + 1 || ledger.head().seq == 0 {
        turn(&mut ledger, &batch("until the segment is full"));
    }
    assert_eq!(segments(&disk).len(), 1);
    fill(&disk);
    let head = ledger.head().seq;
    assert!(matches!(settle(&mut ledger, "settles", 0), Err(AppendError::StorageFull(_))));
    assert_eq!((ledger.next_seq(), segments(&disk).len()), (head + 1, 1), "no new segment begins now");
    assert_eq!(settle(&mut ledger, "settles", 0).unwrap()[0].seq, head + 1);
    // It is tried again after each sync, and begins with two records of its own.
    assert_eq!(ledger.next_seq(), head + 4);
    disk.set_capacity(None);
    assert_eq!(turn(&mut ledger, &batch("ordinary"))[0].seq, head + 4);
    assert_eq!(segments(&disk).len(), 2);
    sound(&disk);
}

#[test]
fn a_segment_that_ended_gives_its_reserve_back() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) =
        Ledger::open(disk.storage(), Options { segment_bytes: 2_000, ..reserving(BOOT) }).unwrap();
    for _turn in 0..40 {
        turn(&mut ledger, &batch("x"));
    }
    let content: usize = segments(&disk).iter().map(|(_file, bytes)| bytes.len()).sum();
    assert!(segments(&disk).len() > 5);
    let one_step = 1024 * 1024 + RESERVE + 1_000;
    assert!(disk.used() <= u64::try_from(content).unwrap() + one_step, "{} for {content}", disk.used());
}

/// The cut that undoes a failed write would give the reserve back: it is reserved again.
#[test]
fn a_failed_write_does_not_cost_the_reserve() {
    let disk = SimulatedDisk::new();
    let mut ledger = open_reserving(&disk, BOOT);
    turn(&mut ledger, &batch("first"));
    fill(&disk);
    exhaust(&mut ledger);
    disk.inject(Fault { call: Call::Write, after: 0, kind: FaultKind::Partial(100, ErrorKind::Other) });
    assert!(matches!(settle(&mut ledger, "no", 0), Err(AppendError::StorageFailed(_))));
    fill(&disk);
    assert!(spend(&mut ledger, 0) >= 7);
    sound(&disk);
}

/// A batch that is larger than what is left of the reserve is refused as a whole, and what is left stays.
#[test]
fn a_batch_that_does_not_fit_leaves_the_reserve() {
    let disk = SimulatedDisk::new();
    let mut ledger = open_reserving(&disk, BOOT);
    turn(&mut ledger, &batch("first"));
    fill(&disk);
    exhaust(&mut ledger);
    let large = [entry(None, &"x".repeat(8_000))];
    assert!(matches!(ledger.append_keeping(&large, &STAMP, 0), Err(AppendError::StorageFull(_))));
    fill(&disk);
    assert!(spend(&mut ledger, 0) >= 7);
    sound(&disk);
}

/// A broker that was killed on a full disk can begin again: its first records go into the reserve.
#[test]
fn an_opening_on_a_full_disk_has_the_reserve_again() {
    for crash in [Crash::Kill, Crash::PowerLoss] {
        let disk = SimulatedDisk::new();
        let mut ledger = open_reserving(&disk, BOOT);
        for _turn in 0..3 {
            turn(&mut ledger, &batch("first"));
        }
        fill(&disk);
        exhaust(&mut ledger);
        drop(ledger);
        disk.crash(crash, 3);
        let mut ledger = open_reserving(&disk, BOOT);
        assert!(matches!(ledger.append(&batch("no"), &STAMP), Err(AppendError::StorageFull(_))));
        assert!(spend(&mut ledger, 0) >= 7, "{crash:?}");
        sound(&disk);
    }
}

#[test]
fn where_nothing_can_be_reserved_batches_are_written_as_long_as_they_fit() {
    let disk = SimulatedDisk::new();
    disk.set_allocates(false);
    let mut ledger = open_reserving(&disk, BOOT);
    turn(&mut ledger, &batch("first"));
    disk.set_capacity(Some(disk.used() + 1_600));
    exhaust(&mut ledger);
    assert_eq!(spend(&mut ledger, 0), 0);
    disk.set_capacity(None);
    turn(&mut ledger, &batch("again"));
    assert_eq!(texts(&ledger).len(), 5);
    assert_eq!(disk.names(Folder::Ledger).len(), 1);
}

/// Without a reserve there is no call more than before.
#[test]
fn nothing_is_allocated_unless_something_is_to_be_kept() {
    let disk = SimulatedDisk::new();
    disk.inject(Fault { call: Call::Allocate, after: 0, kind: FaultKind::Error(ErrorKind::Other) });
    let (mut ledger, _recovery) = open(&disk);
    turn(&mut ledger, &batch("one"));
    settle(&mut ledger, "two", 0).unwrap();
    assert_eq!(disk.faults_left(), 1);
    // With one, once for many batches.
    let (disk, mut calls) = (SimulatedDisk::new(), 0);
    let mut ledger = open_reserving(&disk, BOOT);
    for _turn in 0..100 {
        let before = disk.calls();
        turn(&mut ledger, &batch("x"));
        calls += disk.calls() - before;
    }
    assert!(calls <= 2 * 100 + 3, "{calls}");
}

#[cfg(target_os = "linux")]
#[expect(clippy::print_stderr, reason = "a test that cannot run here says so")]
mod on_disk {
    use super::*;
    use std::fs::{self, OpenOptions};
    use std::io::Write;
    use std::path::Path;
    use std::process::Command;

    use nix::mount::{MntFlags, MsFlags, mount, umount2};
    use ostler_ledger::storage::Disk;

    /// A small file system of its own.
    struct Mounted(tempfile::TempDir);

    impl Mounted {
        /// In memory; `None` if we may not mount.
        fn tmpfs() -> Option<Mounted> {
            let folder = tempfile::tempdir().unwrap();
            let options = Some("size=8m,mode=700");
            match mount(Some("tmpfs"), folder.path(), Some("tmpfs"), MsFlags::empty(), options) {
                Ok(()) => Some(Mounted(folder)),
                Err(error) => {
                    eprintln!("NOT CHECKED: a file system cannot be mounted here: {error}");
                    None
                }
            }
        }

        /// ext4 in a file; `None` if the tools for it are missing or we may not.
        fn ext4() -> Option<Mounted> {
            let folder = tempfile::tempdir().unwrap();
            let image = folder.path().with_extension("image");
            fs::write(&image, vec![0; 12 << 20]).unwrap();
            let run = |program: &str, arguments: &[&str]| {
                let done = Command::new(program).args(arguments).output();
                done.map_err(|error| error.to_string()).and_then(|output| match output.status.success() {
                    true => Ok(()),
                    false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
                })
            };
            let (image_text, folder_text) = (image.to_str().unwrap(), folder.path().to_str().unwrap());
            let made = run("mkfs.ext4", &["-q", "-m", "0", image_text])
                .and_then(|()| run("mount", &["-o", "loop", image_text, folder_text]));
            fs::remove_file(&image).unwrap();
            if let Err(why) = made {
                eprintln!("NOT CHECKED: ext4 cannot be had here: {why}");
                return None;
            }
            fs::remove_dir(folder.path().join("lost+found")).unwrap();
            Some(Mounted(folder))
        }
    }

    impl Drop for Mounted {
        fn drop(&mut self) {
            let _gone_with_the_machine = umount2(self.0.path(), MntFlags::MNT_DETACH);
        }
    }

    fn fill_disk(folder: &Path) {
        let mut filler = OpenOptions::new().append(true).create(true).open(folder.join("filler")).unwrap();
        for len in [64 * 1024, 4096, 1] {
            while filler.write_all(&vec![b'f'; len]).is_ok() {}
        }
    }

    fn check(folder: &Path) {
        let disk = || Disk::new(folder.join("ledger"), folder.join("quarantine"));
        let reserve_bytes = 64 * 1024;
        let options = Options { reserve_bytes, ..options(BOOT) };
        let (mut ledger, _recovery) = Ledger::open(disk(), options.clone()).unwrap();
        ledger.append(&batch("first"), &STAMP).unwrap();
        ledger.sync().unwrap();
        fill_disk(folder);
        exhaust(&mut ledger);
        // What is left on the device when the ledger takes no more is taken as well.
        fill_disk(folder);
        assert!(fs::write(folder.join("other"), "x").is_err(), "the disk is full");
        for number in 0..40 {
            settle(&mut ledger, "settles", 0).unwrap_or_else(|error| panic!("{number}: {error}"));
        }
        drop(ledger);
        let (mut ledger, _recovery) = Ledger::open(disk(), options).unwrap();
        for number in 0..20 {
            settle(&mut ledger, "settles", 0).unwrap_or_else(|error| panic!("reopened, {number}: {error}"));
        }
        fs::remove_file(folder.join("filler")).unwrap();
        ledger.append(&batch("room again"), &STAMP).unwrap();
        ledger.sync().unwrap();
        let report = verify(&disk(), &VerifyOptions::default()).unwrap();
        assert!(report.ok() && report.tail.is_none(), "{report:?}");
    }

    #[test]
    fn a_full_tmpfs_takes_what_settles() {
        let Some(mounted) = Mounted::tmpfs() else { return };
        check(mounted.0.path());
    }

    #[test]
    fn a_full_ext4_takes_what_settles() {
        let Some(mounted) = Mounted::ext4() else { return };
        check(mounted.0.path());
    }
}
