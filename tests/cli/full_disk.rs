//! A disk that is full at any write: what cannot be kept is refused, what was accepted is not lost, and everything works again
//! when there is room, without a restart and under the same names and keys.

use super::refused::refused;
use super::text;
use super::wire::Wire;
use crate::support::{DiskRoot, FIXTURE, Process, Root, SOON, wait_until};
use serde_json::{Value, json};
use std::fs;

/// Room for a broker, its ledger and some sessions.
const ROOT_KIB: u32 = 4096;

/// A session that waits for a file and then ends with code 7.
fn waiting(root: &Root, name: &str, file: &str) -> Value {
    root.json(["spawn", "--name", name, "--", FIXTURE, "until", file, "--", "exit", "7"])["session"].clone()
}

/// How a request ended that met a full disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    Done,
    /// Nothing happened, and nothing is bound.
    Refused,
    /// It was accepted, and there was no room for its outcome in time: the same key finds out.
    Unanswered,
}

/// Asks for something that may meet the full disk: it succeeds, or says what it met.
#[track_caller]
fn tried(root: &Root, arguments: &[&str]) -> Met {
    let output = root.ostler([&["--json", "--timeout", "5s"], arguments].concat());
    if output.code() == Some(0) {
        return Met::Done;
    }
    let error = output.json()["error"].clone();
    if (output.code(), &error["code"], &error["retry"]) == (Some(6), &json!("timeout"), &json!("same_key")) {
        return Met::Unanswered;
    }
    let is_full = output.code() == Some(9) && error["code"] == "storage_full" && error["retry"] == "same_key";
    let where_it_was = root.path().to_str().unwrap().to_owned();
    assert!(!is_full || text(&error["message"]).contains(&where_it_was), "it names no path\n{output:?}");
    // The broker had room for its record, and the host none for its files: proven that nothing ran.
    let is_given_up = output.code() == Some(1) && error["data"]["state"] == "aborted";
    assert!((is_full || is_given_up) && text(&error["message"]).contains("No space left"), "{output:?}");
    Met::Refused
}

/// Asks again with room and under the same key: what was done is replayed, what was refused is done now.
#[track_caller]
fn settled(root: &Root, arguments: &[&str], met: Met) -> Value {
    let answer = root.json(arguments);
    match met {
        Met::Done => assert_eq!(answer["operation"]["replayed"], true, "{answer}"),
        Met::Refused => assert_eq!(answer["operation"]["replayed"], false, "{answer}"),
        Met::Unanswered => {}
    }
    answer
}

/// Starts, stops and deletes with so many bytes of room, then with enough.
fn at(root: &DiskRoot, spare: u64) {
    let name = |what: &str| format!("{what}-{spare}");
    let file = name("go");
    waiting(root, &name("ends"), &file);
    let live = Process::of_value(&waiting(root, &name("live"), "never")["pid"]);
    root.json(["spawn", "--name", &name("over"), "--", "true"]);
    root.json(["wait", &name("over")]);
    let (spawn_key, stop_key, delete_key) = (name("spawn"), name("stop"), name("delete"));
    let spawn =
        ["spawn", "--name", &name("new"), "--key", &spawn_key, "--", FIXTURE, "count", &name("count"), "--", "sleep"];
    let stop = ["stop", &name("live"), "--key", &stop_key];
    let delete = ["delete", &name("over"), "--key", &delete_key];
    root.fill_but(spare);
    let spawned = tried(root, &spawn);
    // It ends by itself while the disk is full: the exit is kept.
    fs::write(root.folder().join(&file), "").unwrap();
    let (stopped, deleted) = (tried(root, &stop), tried(root, &delete));
    if spare == 0 {
        assert_eq!(spawned, Met::Refused, "there was no room for it");
    }
    let status = root.json(["status"]);
    assert_eq!(status["state"], "running");
    assert!(!status["degraded"].as_array().unwrap().is_empty(), "{status}");
    root.json(["list", "--all"]);
    root.verify_ledger();
    root.free();
    // Now each works under the same name and key; what succeeded is replayed.
    settled(root, &spawn, spawned);
    settled(root, &stop, stopped);
    assert!(!live.alive());
    assert_eq!(settled(root, &delete, deleted)["session"]["status"], "deleted");
    let ended = root.json(["wait", &name("ends"), "--timeout", "60s"])["session"].clone();
    assert_eq!((&ended["exit"], &ended["status"]), (&json!({"code": 7}), &json!("failed")));
    wait_until(SOON, "the broker to be well again", || root.json(["status"])["degraded"] == json!([]));
    root.json(["delete", &name("new"), "--stop"]);
    let started = fs::read_to_string(root.folder().join(name("count"))).unwrap();
    assert_eq!(started.lines().count(), 1, "one key, one process");
    for rest in ["live", "ends"] {
        root.json(["delete", &name(rest)]);
    }
    root.verify_ledger();
}

#[test]
fn field_f04_a_full_disk_at_any_write_loses_nothing() {
    let Some(root) = DiskRoot::new(ROOT_KIB) else { return };
    let broker = root.json(["ensure"])["broker"].clone();
    for pages in 0..12 {
        at(&root, pages * 4096);
    }
    assert_eq!(root.json(["status"])["broker"], broker, "it is still the same broker");
}

/// Asks until the ledger has no room for what this method does; it does nothing, or all of it.
fn until_full(root: &Root, method: &str, session: &str) {
    let mut wire = Wire::hello(root);
    for number in 0..10_000 {
        let answer = wire.ask(method, json!({"session": session, "key": format!("{method} {number}")}));
        if answer["error"].is_object() {
            assert_eq!(answer["error"]["data"]["code"], "storage_full", "{answer}");
            return;
        }
    }
    panic!("the disk is never full");
}

/// Space for the end of what was begun is kept ahead.
#[test]
fn on_a_full_disk_sessions_end_are_stopped_and_deleted() {
    let Some(root) = DiskRoot::new(ROOT_KIB) else { return };
    waiting(&root, "ends", "go");
    let live = waiting(&root, "live", "never");
    let process = Process::of_value(&live["pid"]);
    root.json(["spawn", "--name", "over", "--", "true"]);
    root.json(["wait", "over"]);
    root.fill_but(0);
    until_full(&root, "session.resume", text(&live["id"]));
    let stop = ["stop", "live", "--key", "stop"];
    let stopped = root.json(stop);
    assert_eq!(stopped["session"]["status"], "stopped");
    assert!(!process.alive());
    fs::write(root.folder().join("go"), "").unwrap();
    let ended = root.json(["wait", "ends", "--timeout", "60s"])["session"].clone();
    assert_eq!(ended["exit"], json!({"code": 7}));
    assert_eq!(root.json(["delete", "over"])["session"]["status"], "deleted");
    let again = root.json(stop)["operation"].clone();
    assert_eq!((&again["id"], &again["replayed"]), (&stopped["operation"]["id"], &json!(true)));
    assert_eq!(tried(&root, &["spawn", "--name", "new", "--", "true"]), Met::Refused);
    assert!(!root.json(["status"])["degraded"].as_array().unwrap().is_empty());
    root.verify_ledger();
    root.free();
    wait_until(SOON, "the broker to be well again", || root.json(["status"])["degraded"] == json!([]));
    root.ostler(["run", "--", "true"]).exits(0);
}

/// Nobody need write anything for the broker to see that it can again, and nothing but a write shows it.
#[test]
fn field_f20_room_that_is_there_again_is_seen_without_a_request() {
    let Some(root) = DiskRoot::new(ROOT_KIB) else { return };
    let ended = root.json(["spawn", "--", "true"])["session"]["id"].clone();
    root.json(["wait", text(&ended)]);
    let takes_no_records = || root.json(["status"])["degraded"].to_string().contains("does not take records");
    root.fill_but(0);
    until_full(&root, "session.stop", text(&ended));
    assert!(takes_no_records());
    refused(&root, &["stop", "nobody"], 3, "not_found");
    assert!(takes_no_records(), "what writes nothing heals nothing");
    root.free();
    wait_until(SOON, "the broker to see that there is room", || root.json(["status"])["degraded"] == json!([]));
    root.ostler(["stop", text(&ended)]).exits(0);
}

#[test]
fn no_broker_starts_on_a_full_disk_and_one_does_when_there_is_room() {
    let Some(root) = DiskRoot::new(ROOT_KIB) else { return };
    for pages in 0..5 {
        root.fill_but(pages * 4096);
        let output = root.ostler(["--json", "ensure"]);
        if output.code() != Some(0) {
            let error = refused(&root, &["ensure"], 9, "storage_full");
            assert!(text(&error["message"]).contains("No space left"), "{error}");
        }
        root.free();
        root.ostler(["run", "--", "true"]).exits(0);
        root.ostler(["shutdown"]).exits(0);
        root.verify_ledger();
    }
}

/// The broker dies on a full disk, and so does a session's command: its successor learns of the exit.
#[test]
fn a_successor_takes_over_once_there_is_room() {
    let Some(root) = DiskRoot::new(ROOT_KIB) else { return };
    waiting(&root, "ends", "go");
    let live = waiting(&root, "live", "never");
    root.fill_but(0);
    root.broker().unwrap().kill_9();
    fs::write(root.folder().join("go"), "").unwrap();
    refused(&root, &["ensure"], 9, "storage_full");
    assert_eq!(root.json(["status"])["state"], "absent");
    root.free();
    assert_eq!(root.json(["ensure"])["broker"]["generation"], 2);
    assert_eq!(root.json(["wait", "ends", "--timeout", "60s"])["session"]["exit"], json!({"code": 7}));
    let adopted = root.json(["show", "live"])["session"].clone();
    assert_eq!((&adopted["pid"], &adopted["status"]), (&live["pid"], &json!("ready")));
    root.ostler(["stop", "live"]).exits(0);
}

/// While `run` follows, its command rather waits for room than that a byte is lost.
#[test]
fn run_on_a_full_disk_goes_on_when_there_is_room() {
    let Some(root) = DiskRoot::new(ROOT_KIB) else { return };
    let steps = [
        "run", "--", FIXTURE, "say", "up", "--", "until", "go", "--", "print", "1600000", "--", "append", "printed",
        "x", "--", "exit", "5",
    ];
    let run = crate::support::Running::start(&mut root.command(steps));
    run.says("up");
    root.fill_but(0);
    fs::write(root.folder().join("go"), "").unwrap();
    root.ostler(["status"]).exits(0);
    assert!(!root.folder().join("printed").exists());
    root.free();
    let output = run.end().exits(5);
    assert_eq!(output.stdout.len(), 3 + 1_600_000);
    let whole =
        output.stdout[3..].chunks(16).zip(0_u64..).all(|(line, number)| line == format!("{number:015}\n").as_bytes());
    assert!(whole, "every line is there, once and in order");
}
