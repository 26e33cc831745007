//! A disk without room: the command goes on, its exit is kept, lost output shows as a gap.
//!
//! Needs a small file system of its own, which only root can mount; without it these tests say so and check nothing.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use data_encoding::BASE64;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use ostler::host::read::{Connection, Piece, read_spool};
use ostler::host::spec::Stdin;
use ostler::host::wire::{Exit, Request, StartPhase};

use super::bed::{Bed, SESSION};
use crate::support::{SOON, wait_until};

/// A file system of three megabytes, with the session's files on it.
struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// Moves a session's files onto it; `None` if we may not mount.
    fn under(bed: &Bed) -> Option<SmallDisk> {
        let (folder, sessions) = (bed.folder().join("disk"), bed.state().join("sessions"));
        fs::create_dir(&folder).unwrap();
        if let Err(error) = mount(Some("tmpfs"), &folder, Some("tmpfs"), MsFlags::empty(), Some("size=3m")) {
            eprintln!("not checked: a file system cannot be mounted here: {error}");
            return None;
        }
        let disk = SmallDisk { folder };
        let (from, to) = (sessions.join(SESSION), disk.folder.join(SESSION));
        let moved = std::process::Command::new("cp").arg("-a").arg(&from).arg(&to).status().unwrap();
        assert!(moved.success());
        fs::remove_dir_all(&from).unwrap();
        // The session's folder itself is looked up through no link of ours, so the link stands one above.
        fs::remove_dir(&sessions).unwrap();
        symlink(&disk.folder, &sessions).unwrap();
        Some(disk)
    }

    /// Leaves no room.
    fn fill(&self) {
        let error = fs::write(self.folder.join("filler"), vec![1; 4 << 20]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    }

    fn free(&self) {
        fs::remove_file(self.folder.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        umount2(&self.folder, MntFlags::MNT_DETACH).unwrap();
    }
}

#[test]
fn a_full_disk_loses_output_but_neither_command_nor_exit() {
    let bed = Bed::with(|spec| {
        spec.command.extend("until go -- print 64000 -- append printed x -- copy -- exit 6".split(' ').map(Into::into));
        spec.stdin = Stdin::Client;
    });
    let Some(disk) = SmallDisk::under(&bed) else { return };
    let record = bed.start();
    disk.fill();
    fs::write(bed.folder().join("go"), "").unwrap();
    wait_until(SOON, "it has printed", || bed.folder().join("printed").exists());
    // All of it is read (and lost) before there is room again: what is lost takes part in the positions.
    let mut feeder = Connection::open(&record).unwrap();
    wait_until(SOON, "it has lost", || {
        let status = super::bed::Talk::reader(&record).ask(serde_json::json!({ "request": "status" }));
        status["output_to"] == 64_000
    });
    disk.free();
    feeder.ask(Request::Input { b64: BASE64.encode(b"back"), eof: true }).unwrap();
    assert_eq!(bed.ended().exit, Exit::Code(6));
    let mut reader = read_spool(&bed.episode(), 0);
    assert_eq!(reader.next_piece().unwrap(), Some(Piece::Gap { from: 0, to: 64_000 }));
    let Some(Piece::Output { position: 64_000, bytes, .. }) = reader.next_piece().unwrap() else { panic!("no output") };
    assert_eq!(bytes, b"back");
}

#[test]
fn a_message_waits_for_a_disk_that_can_tell_of_it() {
    let bed = Bed::taking(&["copy"]);
    let Some(disk) = SmallDisk::under(&bed) else { return };
    let record = bed.start();
    disk.fill();
    let deliver =
        serde_json::json!({ "request": "deliver", "message": "m", "attempt": 1, "b64": BASE64.encode(b"hi\n") });
    let mut broker = super::bed::Talk::broker(&record, 2);
    let refused = broker.ask(deliver.clone());
    assert_eq!(refused["error"]["code"], "unavailable", "{refused}");
    disk.free();
    let accepted = broker.ask(deliver);
    assert!(accepted["delivery"]["accepted"].is_object(), "{accepted}");
    bed.line("hi");
    assert_eq!(bed.output(), "hi\n");
    broker.stop(0);
    bed.ended();
}

#[test]
fn an_exit_is_kept_by_a_disk_that_stays_full() {
    let bed = Bed::fixture(&["until", "go", "--", "print", "5000000", "--", "exit", "7"]);
    let Some(disk) = SmallDisk::under(&bed) else { return };
    bed.start();
    disk.fill();
    fs::write(bed.folder().join("go"), "").unwrap();
    assert_eq!(bed.ended().exit, Exit::Code(7));
}

#[test]
fn a_follower_on_a_small_disk_loses_nothing() {
    let bed = Bed::with(|spec| {
        spec.command.extend(["print", "30000000"].map(Into::into));
        spec.follow = true;
    });
    let Some(_disk) = SmallDisk::under(&bed) else { return };
    bed.start();
    let mut follower = bed.follow(true);
    let mut bytes_seen = 0;
    while let Some(piece) = follower.next_piece().unwrap() {
        let Piece::Output { position, bytes, .. } = piece else { panic!("{piece:?}") };
        assert_eq!(position, bytes_seen);
        bytes_seen += u64::try_from(bytes.len()).unwrap();
    }
    assert_eq!(bytes_seen, 30_000_000);
    assert_eq!(bed.ended().exit, Exit::Code(0));
}

#[test]
fn a_start_without_room_for_the_exit_starts_nothing() {
    let bed = Bed::fixture(&["count", "starts"]);
    let Some(disk) = SmallDisk::under(&bed) else { return };
    disk.fill();
    let failure = bed.fail();
    assert_eq!(failure.phase, StartPhase::Host);
    assert!(failure.reason.contains("exit.json"), "{failure:?}");
    assert!(!bed.folder().join("starts").exists());
    disk.free();
    bed.start();
    bed.ended();
    assert!(bed.folder().join("starts").exists());
}
