//! The turn on simulated storage: what leaves when, what a failed write and a failed sync do, what a restart finds.

use super::turn::{Fatal, Release, Told, Turn};
use crate::machine::limits::Retention;
use crate::machine::*;
use ostler_ledger::storage::{Call, Fault, FaultKind, Folder, SimulatedDisk, SimulatedStorage};
use ostler_ledger::{Options, Recovery};
use std::collections::BTreeMap;

pub(super) type Sut = Turn<SimulatedStorage, &'static str>;

pub(super) fn now() -> Time {
    Time { wall_us: 1_700_000_000_000_000, boot_us: 1_000_000 }
}

fn opened(disk: &SimulatedDisk) -> (Sut, Recovery) {
    let options = Options { snapshot_tail_bytes: 1, ..Options::new("test", "boot") };
    Turn::open(|| disk.storage(), &options, Retention::default()).unwrap()
}

pub(super) fn open(disk: &SimulatedDisk) -> Sut {
    let (mut turn, recovery) = opened(disk);
    begin(&mut turn, &recovery);
    turn
}

pub(super) fn begin(turn: &mut Sut, recovery: &Recovery) {
    let process = Process { boot: "boot".to_owned(), ns: 1, pid: 2, start: 3 };
    let generation = Generation {
        number: turn.last_generation() + 1,
        process,
        incarnation: Digest([1; 32]),
        version: "0.1.0".to_owned(),
        lock_inode: 4,
        reclaimed: None,
    };
    turn.begin(now(), recovery, generation).unwrap();
}

pub(super) fn session(letter: &str) -> SessionId {
    SessionId::parse(&letter.repeat(12)).unwrap()
}

pub(super) fn request(key: &str, digest: u8, action: Action) -> Input {
    let actor = Actor { uid: 0, pid: 1, sid: None };
    let (key, digest) = (Key::parse(key).unwrap(), Digest([digest; 32]));
    Input::Request(Request {
        scope: Scope::Owner,
        actor,
        key,
        digest,
        digests_since: 0,
        family: Family::default(),
        action,
        recalled: Vec::new(),
    })
}

pub(super) fn spawn(letter: &str) -> Action {
    let prepared = Some(PreparedSession { id: session(letter), spec: Digest([7; 32]) });
    Action::Spawn {
        prepared,
        name: None,
        labels: BTreeMap::new(),
        adapter: crate::machine::Adapter::Inbox,
        readiness: None,
        source: None,
    }
}

pub(super) fn started(letter: &str) -> Input {
    let process = |pid| Process { boot: "boot".to_owned(), ns: 1, pid, start: 3 };
    let address = "unix:/h".to_owned();
    let run = Run { host: process(10), command: process(11), address, incarnation: Digest([9; 32]), started_us: 1 };
    Input::Observation(Observation { session: session(letter), episode: 1, word: Word::Started(run) })
}

/// Runs one turn and tells what left it.
pub(super) fn run(turn: &mut Sut, inputs: Vec<(Input, Option<&'static str>)>) -> Result<Vec<String>, Fatal> {
    run_at(turn, now(), inputs)
}

pub(super) fn run_at(
    turn: &mut Sut,
    now: Time,
    inputs: Vec<(Input, Option<&'static str>)>,
) -> Result<Vec<String>, Fatal> {
    let mut left = Vec::new();
    turn.run(
        now,
        inputs,
        &mut |release| {
            // None of these sessions has a message or is interrupted.
            if matches!(release, Release::Owed(_, Hand::Mail | Hand::Signal, None)) {
                return;
            }
            left.push(match release {
                Release::Answer(who, Told::Settled { operation, replayed, .. }) => {
                    format!("{who}: {} {replayed}", operation.id)
                }
                Release::Answer(who, Told::Refused(_)) => format!("{who}: refused"),
                Release::Answer(who, Told::Prepare { .. }) => format!("{who}: prepare"),
                Release::Answer(who, Told::Recall(rows)) => format!("{who}: recall {rows:?}"),
                Release::Answer(who, Told::Look { session }) => format!("{who}: look at {session}"),
                Release::Answer(who, Told::Storage { full, .. }) => format!("{who}: storage, full {full}"),
                Release::Answer(who, Told::Store { session }) => format!("{who}: store for {session}"),
                Release::Answer(who, Told::Pulled) => format!("{who}: pulled"),
                Release::Owed(session, _, effect) => format!("{session} owes {}", effect.is_some()),
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
        let action = Action::Spawn {
            prepared,
            name: None,
            labels: labels.clone(),
            adapter: crate::machine::Adapter::Inbox,
            readiness: None,
            source: None,
        };
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

#[test]
fn a_start_from_a_snapshot_comes_to_what_a_replay_does() {
    let disk = SimulatedDisk::new();
    let mut turn = open(&disk);
    run(&mut turn, vec![(request("k", 1, spawn("a")), None), (request("l", 2, spawn("b")), None)]).unwrap();
    let at = turn.view().head();
    turn.snapshot(false).expect("it is due").write(&disk.storage()).unwrap();
    run(&mut turn, vec![(started("b"), None)]).unwrap();
    let before = turn.view();
    drop(turn);
    let (turn, recovery) = opened(&disk);
    let snapshot = recovery.snapshot.expect("there is one");
    assert_eq!((snapshot.seq, recovery.folded), (at.seq, turn.view().head().seq - at.seq));
    assert_eq!(*turn.view().read(), *before.read());
    assert_eq!(turn.view().head(), before.head());
}

/// It is stored with a digest that fits, so the ledger believes it: only the records behind it tell that it is wrong.
#[test]
fn a_snapshot_that_no_record_can_follow_is_dropped_and_the_history_replayed() {
    let disk = SimulatedDisk::new();
    let mut turn = open(&disk);
    run(&mut turn, vec![(request("k", 1, spawn("a")), None)]).unwrap();
    let mut wrong = turn.snapshot(false).expect("it is due");
    wrong.state = State::keeping(Retention::default());
    wrong.write(&disk.storage()).unwrap();
    run(&mut turn, vec![(started("a"), None)]).unwrap();
    let before = turn.view();
    drop(turn);
    let (turn, recovery) = opened(&disk);
    assert_eq!((recovery.snapshot, recovery.folded), (None, recovery.records));
    assert_eq!(recovery.dropped_snapshots.len(), 1);
    assert_eq!(*turn.view().read(), *before.read());
}

#[test]
fn a_snapshot_of_other_limits_is_not_used() {
    let disk = SimulatedDisk::new();
    let mut turn = open(&disk);
    turn.snapshot(false).expect("it is due").write(&disk.storage()).unwrap();
    drop(turn);
    let retention = Retention { recent: 7, ..Retention::default() };
    let (turn, recovery) = Sut::open(|| disk.storage(), &Options::new("test", "boot"), retention).unwrap();
    assert_eq!((recovery.snapshot, turn.view().read().retention), (None, retention));
    assert!(recovery.dropped_snapshots[0].why.contains("other limits"), "{:?}", recovery.dropped_snapshots);
}

#[test]
fn the_next_snapshot_is_due_when_half_as_much_as_the_last_lies_behind_it() {
    let disk = SimulatedDisk::new();
    let mut turn = open(&disk);
    let bytes = turn.snapshot(false).expect("it is due").write(&disk.storage()).unwrap();
    turn.snapshot_has(bytes);
    let half = bytes / 2;
    let lines = |disk: &SimulatedDisk| {
        let file = &disk.names(Folder::Ledger)[0];
        disk.contents(ostler_ledger::storage::Name { folder: Folder::Ledger, file }).unwrap().len()
    };
    let before = lines(&disk);
    for number in 0..100 {
        let key = format!("key-{number}");
        let prune = Action::Prune { older_ms: 1 << 50 };
        run(&mut turn, vec![(request(&key, 1, prune), None)]).unwrap();
        let behind = u64::try_from(lines(&disk) - before).unwrap();
        match turn.snapshot(false) {
            Some(_) => return assert!(behind >= half, "{behind} of {half}"),
            None => assert!(behind < half, "{behind} of {half}"),
        }
    }
    panic!("none is due");
}

/// Resumes of a live session, which do nothing: until the disk takes no more of what begins something.
fn until_full(turn: &mut Sut) {
    for number in 0..10_000 {
        let resume = Action::Resume { target: Ok(session("a")), prepared: None };
        let left = run(turn, vec![(request(&format!("resume-{number}"), 2, resume), Some("resume"))]).unwrap();
        if left[0] == "resume: storage, full true" {
            return;
        }
    }
    panic!("it is never full");
}

/// A broker that serves a live session, on a disk that takes no more of what begins something.
fn full(disk: &SimulatedDisk) -> Sut {
    let mut turn = open(disk);
    turn.serve();
    run(&mut turn, vec![(request("k", 1, spawn("a")), None)]).unwrap();
    run(&mut turn, vec![(started("a"), None)]).unwrap();
    disk.set_capacity(Some(disk.used()));
    until_full(&mut turn);
    turn
}

#[test]
fn on_a_full_disk_what_ends_something_is_done_and_what_begins_something_is_refused() {
    let disk = SimulatedDisk::new();
    let mut turn = full(&disk);
    // One turn, and each gets what it can.
    let stop = Action::Stop { target: Ok(session("a")), grace_ms: 1_000, reason: None };
    let both = vec![(request("b", 3, spawn("b")), Some("spawn")), (request("s", 4, stop.clone()), Some("stop"))];
    assert_eq!(run(&mut turn, both).unwrap(), ["spawn: storage, full true", "aaaaaaaaaaaa owes true"]);
    let exited = Word::Exited { run: None, exit: Exit::Code(0), at_us: 5, survivors: Vec::new() };
    let exited = Input::Observation(Observation { session: session("a"), episode: 1, word: exited });
    let left = run(&mut turn, vec![(request("b", 3, spawn("b")), Some("spawn")), (exited, None)]).unwrap();
    assert_eq!((left[0].as_str(), &left[1][..8]), ("spawn: storage, full true", "stop: op"), "{left:?}");
    let again = run(&mut turn, vec![(request("s", 4, stop), Some("again"))]).unwrap();
    assert!(again[0].starts_with("again: op-") && again[0].ends_with(" true"), "{again:?}");
    let delete = Action::Delete { target: Ok(session("a")), stop: false, grace_ms: 0, reason: None };
    assert_eq!(run(&mut turn, vec![(request("d", 5, delete), Some("delete"))]).unwrap(), ["aaaaaaaaaaaa owes true"]);
    let removed = Observation { session: session("a"), episode: 1, word: Word::Removed };
    let left = run(&mut turn, vec![(Input::Observation(removed), None)]).unwrap();
    assert!(left[0].starts_with("delete: op-"), "{left:?}");
    // A broker that starts now can go on, and one that has room again takes everything.
    let before = turn.view();
    drop(turn);
    let mut turn = open(&disk);
    assert_eq!(turn.view().read().sessions, before.read().sessions);
    turn.serve();
    disk.set_capacity(None);
    assert_eq!(run(&mut turn, vec![(request("b", 3, spawn("b")), Some("spawn"))]).unwrap(), ["bbbbbbbbbbbb owes true"]);
    assert_eq!(turn.short(), None);
}

#[test]
fn beats_are_refused_on_a_full_disk_and_the_lack_is_told_until_there_is_room() {
    let disk = SimulatedDisk::new();
    let mut turn = full(&disk);
    let beat = || (Input::Beat { seen: BTreeMap::new(), whole: true }, None);
    // A beat is shorter than a resume, so a few may still fit.
    let mut refused = Vec::new();
    for _ in 0..10 {
        turn.run(now(), vec![beat()], &mut |_| {}, &mut |failed| refused.push(failed.words)).unwrap();
    }
    assert_eq!(refused.last(), Some(&false), "it is refused, and no word of the world was lost");
    let stop = Action::Stop { target: Ok(session("a")), grace_ms: 1_000, reason: None };
    run(&mut turn, vec![(request("s", 4, stop), None)]).unwrap();
    assert!(turn.short().is_some(), "what was written came from the reserve");
    disk.set_capacity(None);
    turn.run(now(), vec![beat()], &mut |_| {}, &mut |failed| panic!("{failed:?}")).unwrap();
    assert_eq!(turn.short(), None);
}
