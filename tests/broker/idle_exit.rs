//! A broker that has nothing to do leaves by itself; whatever it has to do keeps it; and nobody who comes in that moment fails.

use std::fs;
use std::time::Duration;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::json;

use crate::cli::wire::Wire;
use crate::support::scene::{at_once, text};
use crate::support::{DiskRoot, FIXTURE, Process, Root, Running, SOON, finish, wait_until};

const IDLE_EXIT: &str = "OSTLER_IDLE_EXIT";

fn of_one_second() -> Root {
    Root::with_variable(IDLE_EXIT, "1s")
}

/// Seconds since boot.
fn uptime() -> f64 {
    let text = fs::read_to_string("/proc/uptime").unwrap();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap()
}

/// It is still there after several times the time after which it would leave.
#[track_caller]
fn stays(broker: Process) {
    let began = uptime();
    wait_until(Duration::from_secs(60), "some seconds to pass", || uptime() >= began + 4.0);
    assert!(broker.alive(), "it left while it had something to do");
}

#[track_caller]
fn leaves(root: &Root, broker: Process) {
    wait_until(SOON, "the idle broker to leave", || !broker.alive());
    let status = root.json(["status"]);
    assert_eq!((&status["state"], &status["lock"]["owner"]["released"]), (&json!("absent"), &json!(true)), "in order");
    assert!(!root.path().join("broker.json").exists());
}

fn started(root: &Root) -> Process {
    Process::of_value(&root.ensure()["pid"])
}

#[test]
fn a_broker_with_nothing_to_do_leaves_and_the_next_one_knows_all() {
    let root = of_one_second();
    let ended = root.spawn(&["--key", "k"], &["sh", "-c", "exit 3"]);
    root.json(["wait", text(&ended["id"])]);
    leaves(&root, started(&root));
    assert_eq!(root.session(&ended["id"])["exit"], json!({"code": 3}));
    assert_eq!(
        root.ostler(["spawn", "--key", "k", "--json", "--", "sh", "-c", "exit 3"]).error_code(),
        "endpoint_stale"
    );
    assert!(root.names("").iter().all(|name| !name.starts_with(".broker.lock.stale-")), "nobody died");
}

#[test]
fn the_time_is_configured_and_may_be_never() {
    let root = Root::new();
    root.ostler(["shutdown"]).exits(0);
    finish(root.command(["ensure"]).env(IDLE_EXIT, "never"), b"").exits(0);
    fs::write(root.path().join("config.toml"), "idle_exit = '1s'\n").unwrap();
    stays(root.broker().unwrap());
    root.json(["shutdown"]);
    leaves(&root, started(&root));
    fs::write(root.path().join("config.toml"), "idle_exit = '0s'\n").unwrap();
    let refused = root.ostler(["ensure", "--json"]).exits(2);
    assert_eq!(refused.error_code(), "invalid_input");
}

#[test]
fn a_live_session_keeps_the_broker() {
    let root = of_one_second();
    let session = root.spawn_fixture(&[], "sleep");
    let broker = started(&root);
    stays(broker);
    // An end that nobody asked for and nobody waits for is its work, too.
    Process::of_value(&session["pid"]).kill_9();
    leaves(&root, broker);
    assert_eq!(root.session(&session["id"])["exit"], json!({"signal": "SIGKILL"}));
}

#[test]
fn whoever_is_connected_keeps_the_broker() {
    let root = of_one_second();
    let mut wire = Wire::hello(&root);
    let broker = started(&root);
    stays(broker);
    wire.works();
    drop(wire);
    leaves(&root, broker);
    // A bridge that says nothing, and a client that waits for what does not come.
    let ended = root.spawn(&["--name", "s"], &["true"]);
    root.json(["wait", text(&ended["id"])]);
    let bridge = Running::start(&mut root.command(["connect"]));
    bridge.says("hello");
    let broker = started(&root);
    stays(broker);
    drop(bridge);
    leaves(&root, broker);
}

#[test]
fn a_follower_and_a_waiter_keep_it_until_they_are_served() {
    let root = of_one_second();
    root.spawn(&["--name", "s"], &[FIXTURE, "say", "here", "--", "until", "go"]);
    let follower = Running::start(&mut root.command(["logs", "s", "-f"]));
    follower.says("here");
    let waiter = Running::start(&mut root.command(["wait", "s", "--json"]));
    let broker = started(&root);
    stays(broker);
    fs::write(root.folder().join("go"), "").unwrap();
    assert_eq!(waiter.end().exits(0).json()["session"]["exit"], json!({"code": 0}));
    follower.end().exits(0);
    leaves(&root, broker);
}

/// Files that cannot be removed yet: the removal is owed, and whoever asked for it has gone.
#[test]
fn an_operation_that_is_not_settled_keeps_the_broker() {
    let root = of_one_second();
    let session = root.spawn(&["--name", "s"], &["true"]);
    root.json(["wait", "s"]);
    let inner = root.path().join("sessions").join(text(&session["id"])).join("inner");
    fs::create_dir(&inner).unwrap();
    if let Err(error) = mount(Some("tmpfs"), &inner, Some("tmpfs"), MsFlags::empty(), Some("size=64k")) {
        eprintln!("NOT CHECKED: a file system cannot be mounted here: {error}");
        return;
    }
    // It stays for us until it has this to stay for.
    let wire = Wire::hello(&root);
    let broker = started(&root);
    let asked = root.ostler(["delete", "s", "--key", "k", "--timeout", "2s", "--json"]);
    drop(wire);
    stays(broker);
    umount2(&inner, MntFlags::MNT_DETACH).unwrap();
    assert!([Some(0), Some(6)].contains(&asked.code()), "{asked:?}");
    leaves(&root, broker);
    assert_eq!(root.json(["operation", "show", "k"])["operation"]["state"], "succeeded");
    wait_until(SOON, "its files to be gone", || root.names("sessions").is_empty());
}

#[test]
fn a_session_in_doubt_keeps_the_broker() {
    let root = of_one_second();
    let session = root.spawn_fixture(&["--name", "s"], "sleep");
    root.kill_broker();
    // Its record is empty, and both host and command are gone: nobody can say what became of it.
    Process::of_value(&session["host_pid"]).kill_9();
    fs::write(root.path().join("sessions").join(text(&session["id"])).join("1/host.json"), "").unwrap();
    let wire = Wire::hello(&root);
    let broker = started(&root);
    wait_until(SOON, "it to be fenced", || root.session(&session["id"])["fence"].is_object());
    drop(wire);
    stays(broker);
    root.json(["reconcile", "s"]);
    leaves(&root, broker);
}

#[test]
fn a_ledger_that_takes_no_records_keeps_the_broker() {
    let Some(root) = DiskRoot::new(4 * 1024) else { return };
    let begun = finish(root.command(["ensure", "--json"]).env(IDLE_EXIT, "1s"), b"").exits(0).json();
    let (broker, mut wire) = (Process::of_value(&begun["broker"]["pid"]), Wire::dial_at(&begun["broker"]));
    wire.greet(&root);
    root.fill_but(0);
    let mut keys = 0;
    wait_until(SOON, "it to be full", || {
        keys += 1;
        let answer = wire.ask("session.prune", json!({"key": format!("k{keys}"), "older_ms": 1_u64 << 50}));
        answer["error"]["data"]["code"] == "storage_full"
    });
    drop(wire);
    assert!(root.json(["status"])["degraded"].to_string().contains("does not take records"));
    stays(broker);
    root.free();
    leaves(&root, broker);
}

/// The broker has decided, and its socket is still there: whoever knocks in this moment gets the next one.
#[test]
fn whoever_comes_as_it_leaves_is_served_by_the_next() {
    const ROUNDS: usize = 4;
    let root = of_one_second();
    for point in ["shutdown.stop=pause:1500", "shutdown.leave=pause:1500"] {
        for round in 0..ROUNDS {
            let begun = finish(root.command(["ensure", "--json"]).env("OSTLER_TEST_FAIL", point), b"").exits(0).json();
            let (broker, record) = (Process::of_value(&begun["broker"]["pid"]), root.path().join("broker.json"));
            let log = || fs::read_to_string(root.path().join("broker.log")).unwrap_or_default();
            wait_until(SOON, "it to have decided", || log().contains("nothing to do for a while"));
            if point.starts_with("shutdown.leave") {
                wait_until(SOON, "its record to be taken back", || !record.exists());
            }
            assert!(broker.alive(), "it is paused just there");
            let (point, _) = point.split_once('=').expect("it is told what to do");
            let key = format!("{point}-{round}");
            let mut commands: Vec<_> = (0..4).map(|_| root.command(["ensure", "--json"])).collect();
            commands.push(root.command(["list", "--json"]));
            commands.push(root.command(["run", "--", "sh", "-c", "exit 0"]));
            commands.push(root.command(["spawn", "--json", "--key", &key, "--", FIXTURE, "count", &key]));
            for output in at_once(commands) {
                output.exits(0);
            }
            wait_until(SOON, "its command to have run", || !root.lines(&key).is_empty());
            assert_eq!(root.lines(&key).len(), 1, "exactly once");
            wait_until(SOON, "the first one to be gone", || !broker.alive());
            root.json(["shutdown"]);
        }
    }
}
