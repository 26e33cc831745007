//! An orderly end: `shutdown` returns when a successor could start; live sessions go on, unless they are to be stopped.

use std::fs;

use serde_json::{Value, json};

use crate::support::scene::{at_once, text};
use crate::support::{Process, Root, Running, SOON, finish, wait_until};

/// Whether nobody holds this file's kernel lock now.
fn is_free(root: &Root, name: &str) -> bool {
    let file = fs::OpenOptions::new().read(true).write(true).open(root.path().join(name)).unwrap();
    fs4::FileExt::try_lock(&file).is_ok()
}

#[test]
fn shutdown_returns_when_a_successor_could_start_and_sessions_go_on() {
    let root = Root::new();
    let sessions: Vec<Value> = (0..3).map(|_| root.spawn_fixture(&[], "sleep")).collect();
    let mut before = root.ensure();
    for _ in 0..10 {
        let left = root.json(["shutdown"]);
        assert_eq!(left["broker"]["incarnation"], before["incarnation"]);
        assert!(is_free(&root, "broker.lock") && is_free(&root, "ledger/writer.lock"), "a successor could start");
        assert!(!root.path().join("broker.json").exists());
        let status = root.json(["status"]);
        assert_eq!((&status["state"], &status["lock"]["owner"]["released"]), (&json!("absent"), &json!(true)));
        let next = root.json(["ensure"]);
        assert_eq!(next["started"], true);
        assert_eq!(next["broker"]["generation"].as_u64(), before["generation"].as_u64().map(|of| of + 1));
        for session in &sessions {
            assert_eq!(root.session(&session["id"])["pid"], session["pid"]);
        }
        before = next["broker"].clone();
    }
    assert!(root.names("").iter().all(|name| !name.starts_with(".broker.lock.stale-")), "nobody died");
    for session in &sessions {
        root.session_becomes(&session["id"], "ready");
    }
}

#[test]
fn shutdown_of_nobody_is_done_and_many_at_once_are_too() {
    let root = Root::new();
    assert_eq!(root.json(["shutdown"])["broker"], Value::Null);
    assert!(!root.path().exists(), "and makes no root");
    root.ensure();
    let commands = (0..10).map(|_| root.command(["shutdown", "--json"])).collect();
    at_once(commands).into_iter().for_each(|output| drop(output.exits(0)));
    assert_eq!(root.brokers(), []);
    assert_eq!(root.json(["shutdown"])["broker"], Value::Null);
}

#[test]
fn shutdown_that_stops_sessions_ends_all_of_them_first() {
    let root = Root::new();
    let plain = root.spawn_fixture(&[], "sleep");
    let family = root.spawn(&[], &[crate::support::FIXTURE, "child", "setsid -- sleep", "--", "sleep"]);
    let ended = root.spawn_fixture(&[], "exit 3");
    root.json(["wait", text(&ended["id"])]);
    let processes: Vec<Process> = [&plain, &family].iter().map(|session| Process::of_value(&session["pid"])).collect();
    root.json(["shutdown", "--stop-sessions"]);
    assert!(processes.iter().all(|process| !process.alive()), "it returned when they had ended");
    root.ensure();
    for session in [&plain, &family] {
        let found = root.session(&session["id"]);
        assert_eq!((&found["status"], &found["exit"]), (&json!("stopped"), &json!({"signal": "SIGTERM"})));
    }
    assert_eq!(root.session(&ended["id"])["exit"], json!({"code": 3}), "what had ended before is what it was");
}

/// Clients that arrive while one broker leaves and another comes are served, all of them.
#[test]
fn clients_that_come_while_brokers_change_are_served() {
    let root = Root::new();
    root.ensure();
    let work = |n: usize| match n % 3 {
        0 => root.command(["shutdown", "--json"]),
        1 => root.command(["ensure", "--json"]),
        _ => {
            let mut spawn = root.command(["--json"]);
            spawn.args([
                "spawn",
                "--key",
                &format!("k{n}"),
                "--",
                crate::support::FIXTURE,
                "count",
                &format!("starts-{n}"),
            ]);
            spawn
        }
    };
    for round in 0..5 {
        let crowd: Vec<usize> = (round * 30..round * 30 + 30).collect();
        let outputs = at_once(crowd.iter().map(|n| work(*n)).collect());
        outputs.into_iter().for_each(|output| drop(output.exits(0)));
        for n in crowd.into_iter().filter(|n| n % 3 == 2) {
            wait_until(SOON, "its command to have run", || !root.lines(&format!("starts-{n}")).is_empty());
            assert_eq!(root.lines(&format!("starts-{n}")).len(), 1, "exactly once");
        }
    }
}

/// The record is taken back before the lock is let go of: in between it is not starting.
#[test]
fn a_broker_on_its_last_steps_is_shown_as_draining() {
    let root = Root::new();
    finish(root.command(["ensure"]).env("OSTLER_TEST_FAIL", "shutdown.leave=pause:5000"), b"").exits(0);
    let shutdown = Running::start(&mut root.command(["shutdown"]));
    wait_until(SOON, "the record to be taken back", || !root.path().join("broker.json").exists());
    let status = root.json(["status"]);
    assert_eq!((&status["state"], &status["broker"]), (&json!("draining"), &Value::Null), "{status}");
    shutdown.end().exits(0);
    assert_eq!(root.json(["status"])["state"], "absent");
}

#[test]
fn a_delete_after_a_restart_shows_what_was_deleted_and_warns_of_nothing() {
    let root = Root::new();
    let session = root.spawn(&[], &["true"]);
    let id = text(&session["id"]);
    root.json(["wait", id]);
    root.ostler(["shutdown"]).exits(0);
    root.ensure();
    let deleted = root.json(["delete", id])["session"].clone();
    assert_eq!((&deleted["status"], &deleted["command"]), (&json!("deleted"), &json!(["true"])));
    let log = fs::read_to_string(root.path().join("broker.log")).unwrap();
    assert!(!log.contains("WARN"), "{log}");
}

/// A root that nothing runs in leaves nothing outside of itself; a live session's host keeps its socket and the folder of it.
#[test]
fn the_runtime_folder_goes_with_the_last_that_listens_in_it() {
    let root = Root::new();
    let session = root.spawn(&[], &["sleep", "1000"]);
    let endpoint = text(&root.ensure()["endpoint"]).trim_start_matches("unix:").to_owned();
    let folder = std::path::Path::new(&endpoint).parent().unwrap();
    root.json(["shutdown"]);
    assert!(folder.is_dir(), "its host listens in it");
    root.json(["stop", text(&session["id"])]);
    wait_until(SOON, "the host to be gone", || fs::read_dir(folder).is_ok_and(|entries| entries.count() <= 1));
    root.json(["shutdown"]);
    assert!(!folder.exists(), "{}", folder.display());
    root.json(["ensure"]);
}
