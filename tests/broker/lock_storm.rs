//! The broker lock among real processes that take it, leave it, die with it and find nonsense in its place: never two
//! owners at a time, debris within its bounds.

use std::process::Child;

use ostler::broker::lock::LOCK_NAME;
use ostler::broker::quarantine::KEPT_MAX;

use super::arena::Arena;
use crate::support::wait_until;
use crate::support::{Process, SOON};

fn contender(arena: &Arena, rounds: u32) -> Child {
    let (root, witness) = (arena.root(), arena.folder().join("witness"));
    let text = |path: &std::path::Path| path.to_str().expect("a path of a test").to_owned();
    arena.start(&["lock", &text(&root), &rounds.to_string(), &text(&witness)])
}

fn all_succeed(contenders: Vec<Child>) {
    for contender in contenders {
        let output = contender.wait_with_output().expect("it was started");
        assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
}

fn debris(arena: &Arena) -> usize {
    let names = std::fs::read_dir(arena.root()).expect("the root is there").flatten().map(|entry| entry.file_name());
    names.filter(|name| name.as_encoded_bytes().starts_with(b".broker.lock.stale-")).count()
}

/// Report KiroCrew#11164 and what belongs to it: rounds of taking and leaving.
#[test]
fn a_storm_has_one_owner_at_a_time() {
    let arena = Arena::new();
    all_succeed((0..4).map(|_| contender(&arena, 100)).collect());
    assert!(debris(&arena) <= KEPT_MAX);
}

#[test]
fn owners_that_are_killed_leave_the_lock_to_the_next() {
    let arena = Arena::new();
    let mut contenders: Vec<Child> = (0..3).map(|_| contender(&arena, 1_000_000)).collect();
    let witness = arena.folder().join("witness");
    for round in 0..30 {
        // Right while somebody has it.
        wait_until(SOON, "an owner", || witness.exists());
        let at = round % contenders.len();
        let mut victim = std::mem::replace(&mut contenders[at], contender(&arena, 1_000_000));
        victim.kill().unwrap();
        let status = victim.wait().unwrap();
        assert_eq!(status.code(), None, "it ran until it was killed: {status}");
    }
    for mut contender in contenders {
        assert_eq!(contender.try_wait().unwrap(), None, "nobody met another owner");
        contender.kill().unwrap();
        contender.wait().unwrap();
    }
    all_succeed(vec![contender(&arena, 10)]);
    assert!(debris(&arena) <= KEPT_MAX);
}

#[test]
fn field_a_own_a_folder_in_the_locks_place_is_overcome_by_one_at_a_time() {
    for _ in 0..15 {
        let arena = Arena::new();
        let root = ostler::os::paths::StateRoot::open_or_create(&arena.root()).unwrap();
        std::fs::create_dir(root.path().join(LOCK_NAME)).unwrap();
        all_succeed((0..6).map(|_| contender(&arena, 3)).collect());
        assert!(debris(&arena) <= KEPT_MAX);
    }
}

/// Reports paperclip#11913, claude-code#72898: an unrelated living process named in the record.
#[test]
fn field_a11_a_stranger_named_in_the_record_is_neither_believed_nor_signalled() {
    let arena = Arena::new();
    arena.ensure().exits(0);
    let broker = arena.broker();
    let lock = arena.root().join(LOCK_NAME);
    let record = std::fs::read_to_string(&lock).unwrap();
    broker.kill_9();
    // The pid of this very test process, which no start may take for the owner.
    let forged = record.replace(&format!("\"pid\":{}", broker.pid), &format!("\"pid\":{}", std::process::id()));
    assert_ne!(record, forged);
    std::fs::write(&lock, forged).unwrap();
    arena.ensure().exits(0);
    assert_ne!(arena.broker(), broker);
    assert!(Process::of(std::process::id().into()).unwrap().alive());
}
