//! The turn on simulated storage: what leaves when, what a failed write and a failed sync do, what a restart finds.

use super::turn::{Fatal, Release, Told, Turn};
use crate::machine::*;
use ostler_ledger::storage::{Call, Fault, FaultKind, SimulatedDisk, SimulatedStorage};
use ostler_ledger::{Ledger, Options};
use std::collections::BTreeMap;

type Sut = Turn<SimulatedStorage, &'static str>;

fn now() -> Time {
    Time { wall_us: 1_700_000_000_000_000, boot_us: 1_000_000 }
}

fn open(disk: &SimulatedDisk) -> Sut {
    let (ledger, recovery) = Ledger::open(disk.storage(), Options::new("test", "boot")).unwrap();
    let mut turn = Turn::open(ledger, &recovery).unwrap();
    let process = Process { boot: "boot".to_owned(), ns: 1, pid: 2, start: 3 };
    let generation = Generation {
        number: turn.last_generation() + 1,
        process,
        incarnation: Digest([1; 32]),
        version: "0.1.0".to_owned(),
        lock_inode: 4,
        reclaimed: None,
    };
    turn.begin(now(), &recovery, generation).unwrap();
    turn
}

fn session(letter: &str) -> SessionId {
    SessionId::parse(&letter.repeat(12)).unwrap()
}

fn request(key: &str, digest: u8, action: Action) -> Input {
    let actor = Actor { uid: 0, pid: 1, sid: None };
    let (key, digest) = (Key::parse(key).unwrap(), Digest([digest; 32]));
    Input::Request(Request { scope: Scope::Owner, actor, key, digest, digests_since: 0, action, recalled: Vec::new() })
}

fn spawn(letter: &str) -> Action {
    let prepared = Some(PreparedSession { id: session(letter), spec: Digest([7; 32]) });
    Action::Spawn { prepared, name: None, labels: BTreeMap::new() }
}

fn started(letter: &str) -> Input {
    let process = |pid| Process { boot: "boot".to_owned(), ns: 1, pid, start: 3 };
    let address = "unix:/h".to_owned();
    let run = Run { host: process(10), command: process(11), address, incarnation: Digest([9; 32]), started_us: 1 };
    Input::Observation(Observation { session: session(letter), episode: 1, word: Word::Started(run) })
}

/// Runs one turn and tells what left it.
fn run(turn: &mut Sut, inputs: Vec<(Input, Option<&'static str>)>) -> Result<Vec<String>, Fatal> {
    let mut left = Vec::new();
    turn.run(
        now(),
        inputs,
        &mut |release| {
            left.push(match release {
                Release::Answer(who, Told::Settled { operation, replayed, .. }) => {
                    format!("{who}: {} {replayed}", operation.id)
                }
                Release::Answer(who, Told::Refused(_)) => format!("{who}: refused"),
                Release::Answer(who, Told::Prepare { .. }) => format!("{who}: prepare"),
                Release::Answer(who, Told::Recall(rows)) => format!("{who}: recall {rows:?}"),
                Release::Answer(who, Told::Storage { full, .. }) => format!("{who}: storage, full {full}"),
                Release::Owed(session, effect) => format!("{session} owes {}", effect.is_some()),
            });
        },
        &mut |_| {},
    )?;
    Ok(left)
}

#[test]
fn an_operation_without_effect_syncs_once_and_one_with_effect_twice() {
    let mut turn = open(&SimulatedDisk::new());
    let before = turn.syncs();
    assert_eq!(run(&mut turn, vec![(request("k", 1, spawn("a")), Some("spawn"))]).unwrap(), ["aaaaaaaaaaaa owes true"]);
    assert_eq!(
        run(&mut turn, vec![(started("a"), None)]).unwrap(),
        ["spawn: op-3 false", "aaaaaaaaaaaa owes false"],
        "the answer leaves with the outcome"
    );
    assert_eq!(turn.syncs() - before, 2);
    let resume = Action::Resume { target: Ok(session("a")), prepared: None };
    assert_eq!(
        run(&mut turn, vec![(request("r", 2, resume), Some("resume"))]).unwrap(),
        ["resume: op-6 false", "aaaaaaaaaaaa owes false"]
    );
    assert_eq!(turn.syncs() - before, 3, "resume of a live session has no effect");
    assert_eq!(run(&mut turn, vec![(request("k", 1, spawn("b")), Some("again"))]).unwrap(), ["again: op-3 true"]);
    assert_eq!(turn.syncs() - before, 3, "a replay writes nothing");
    assert_eq!(run(&mut turn, vec![(request("k", 9, spawn("b")), Some("other"))]).unwrap(), ["other: refused"]);
    assert_eq!(turn.syncs() - before, 3, "a refusal binds nothing and does not wait");
}

#[test]
fn a_full_disk_undoes_the_turn_and_heals_without_a_restart() {
    let disk = SimulatedDisk::new();
    let mut turn = open(&disk);
    disk.inject(Fault { call: Call::Write, after: 0, kind: FaultKind::Error(std::io::ErrorKind::StorageFull) });
    let left = run(&mut turn, vec![(request("k", 1, spawn("a")), Some("spawn"))]).unwrap();
    assert_eq!(left, ["spawn: storage, full true"]);
    assert!(turn.view().read().sessions.is_empty());
    assert_eq!(run(&mut turn, vec![(request("k", 1, spawn("a")), Some("spawn"))]).unwrap(), ["aaaaaaaaaaaa owes true"]);
    drop(turn);
    assert_eq!(open(&disk).view().read().sessions.len(), 1);
}

#[test]
fn after_a_failed_sync_nothing_leaves() {
    let disk = SimulatedDisk::new();
    let mut turn = open(&disk);
    disk.inject(Fault { call: Call::SyncData, after: 0, kind: FaultKind::Error(std::io::ErrorKind::Other) });
    let ended = run(&mut turn, vec![(request("k", 1, spawn("a")), Some("spawn"))]);
    assert!(matches!(ended, Err(Fatal::Sync(_))), "{ended:?}");
}

#[test]
fn one_turn_takes_many_and_a_long_one_is_cut_into_appends() {
    let disk = SimulatedDisk::new();
    let mut turn = open(&disk);
    let labels: BTreeMap<_, _> = (0..32).map(|n| (format!("label-{n}"), "x".repeat(250))).collect();
    let before = turn.syncs();
    let inputs = "abcdefghijklmnopqrstuvwxyz".chars().map(|letter| {
        let prepared = Some(PreparedSession { id: session(&letter.to_string()), spec: Digest([7; 32]) });
        let action = Action::Spawn { prepared, name: None, labels: labels.clone() };
        (request(&format!("key-{letter}"), 1, action), None)
    });
    let inputs = inputs.collect();
    assert_eq!(run(&mut turn, inputs).unwrap().len(), 26);
    assert_eq!(turn.syncs() - before, 2, "26 records of 9 kB are two appends");
    drop(turn);
    assert_eq!(open(&disk).view().read().sessions.len(), 26);
}

#[test]
fn a_restart_finds_what_is_owed_and_the_same_outcomes() {
    let disk = SimulatedDisk::new();
    let mut turn = open(&disk);
    run(&mut turn, vec![(request("k", 1, spawn("a")), None), (request("l", 2, spawn("b")), None)]).unwrap();
    run(&mut turn, vec![(started("b"), None)]).unwrap();
    let before = turn.view();
    drop(turn);
    let turn = open(&disk);
    let judge = |letter: &str| Effect::Judge { session: session(letter), episode: 1 };
    assert_eq!(turn.outstanding(), [judge("a"), judge("b")], "each live episode is judged before anything else");
    let view = turn.view();
    let (old, new) = (before.read(), view.read());
    assert_eq!(new.operations, old.operations, "positions and digests included");
    assert_eq!(new.generation, old.generation + 1);
}
