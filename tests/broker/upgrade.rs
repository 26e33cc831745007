//! `ostler upgrade` between two builds: one broker in place of another while sessions live and clients call.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ostler::os::environment::Environment;
use serde_json::{Value, json};

use crate::support::scene::{at_once, spawning, text};
use crate::support::{FIXTURE, NEXT, OSTLER, Output, Process, Root, Running, SOON, copy_program, finish, wait_until};

/// Rounds of the long test: an upgrade and a downgrade each.
const ROUNDS: usize = 50;
/// Those of them for which the gate has time.
const ROUNDS_GATE: usize = 3;
/// Sessions that live all the while.
const SESSIONS: usize = 20;
/// Clients that call all the while.
const CLIENTS: usize = 10;

fn upgrade(root: &Root, build: &str) -> Output {
    finish(&mut root.command_of(build, ["upgrade", "--json"]), b"")
}

/// What a client of either build asks again and again; every call has to be answered.
fn call(root: &Root, client: usize, turn: usize, session: &str) {
    let build = if client.is_multiple_of(2) { OSTLER } else { NEXT };
    let run = |arguments: &[&str]| {
        let output = finish(&mut root.command_of(build, arguments), b"");
        assert_eq!(output.code(), Some(0), "client {client}, call {turn}: {arguments:?} {output:?}");
        output
    };
    match turn % 4 {
        0 => drop(run(&["list", "--json"])),
        1 => {
            let (key, mark) = (format!("c{client}-{turn}"), format!("started-{client}-{turn}"));
            run(&["spawn", "--key", &key, "--label", "short=1", "--", FIXTURE, "count", &mark]);
            wait_until(SOON, "its command to have run", || !root.lines(&mark).is_empty());
            assert_eq!(root.lines(&mark).len(), 1, "once, whatever became of its broker");
        }
        2 => drop(run(&["show", session, "--json"])),
        _ => drop(run(&["send", session, &format!("from {client}, call {turn}")])),
    }
}

/// The lines that a session has written: each number once, from the first on.
fn is_whole(root: &Root, session: &Value) -> usize {
    let output = finish(&mut root.command(["logs", text(session)]), b"").exits(0);
    let numbers: Vec<usize> = output.text().lines().filter_map(|line| line.parse().ok()).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len()), "{session}: a line is missing or there twice");
    numbers.len()
}

fn up_and_down(rounds: usize) {
    let root = Root::new();
    let first = root.ensure();
    let count = "i=1; while [ $i -le 1000000 ]; do echo $i; i=$((i+1)); sleep 0.05; done";
    let sessions: Vec<Value> = (0..SESSIONS).map(|_| root.spawn(&[], &["sh", "-c", count])).collect();
    let (over, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for (client, session) in sessions.iter().take(CLIENTS).enumerate() {
            let (root, over, calls, session) = (&root, &over, &calls, text(&session["id"]));
            scope.spawn(move || {
                let mut turn = client;
                while !over.load(Ordering::Relaxed) {
                    call(root, client, turn, session);
                    calls.fetch_add(1, Ordering::Relaxed);
                    turn += 1;
                }
            });
        }
        let _over = Over(&over);
        let mut generation = first["generation"].as_u64().expect("a number");
        for (build, version) in [(NEXT, "0.2.0"), (OSTLER, env!("CARGO_PKG_VERSION"))].repeat(rounds) {
            let answered = upgrade(&root, build).exits(0).json();
            assert_eq!((&answered["broker"]["version"], &answered["forced"]), (&json!(version), &json!(false)));
            generation += 1;
            assert_eq!(answered["broker"]["generation"], generation, "one broker after the other: {answered}");
            let called = calls.load(Ordering::Relaxed);
            wait_until(SOON, "its clients to be answered", || calls.load(Ordering::Relaxed) >= called + CLIENTS);
        }
    });
    assert_eq!(root.brokers().len(), 1);
    for session in &sessions {
        let now = root.session(&session["id"]);
        assert_eq!(
            (&now["pid"], &now["episode"], &now["status"]),
            (&session["pid"], &session["episode"], &json!("ready"))
        );
        assert!(is_whole(&root, &session["id"]) > 0);
    }
    eprintln!("{} takeovers, {} calls, none failed", 2 * rounds, calls.load(Ordering::Relaxed));
    root.ostler(["delete", "--stop", "--label", "short=1"]);
}

/// Ends the clients also when the work fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn twenty_sessions_and_ten_clients_go_through_upgrade_and_downgrade() {
    up_and_down(ROUNDS_GATE);
}

#[test]
#[ignore = "takes minutes: fifty upgrades and fifty downgrades"]
fn long_upgrades() {
    let rounds = Environment::process().get("OSTLER_TEST_ROUNDS");
    up_and_down(rounds.and_then(|rounds| rounds.to_str()?.parse().ok()).unwrap_or(ROUNDS));
}

#[test]
fn where_no_broker_runs_it_starts_one_and_to_the_same_version_it_is_a_restart() {
    let root = Root::new();
    let first = upgrade(&root, OSTLER).exits(0).json();
    assert_eq!((&first["replaced"], &first["broker"]["generation"]), (&Value::Null, &json!(1)));
    let session = root.spawn_fixture(&[], "sleep");
    let second = upgrade(&root, OSTLER).exits(0).json();
    assert_eq!((&second["replaced"], &second["broker"]["generation"]), (&first["broker"], &json!(2)));
    assert_eq!(root.session(&session["id"])["pid"], session["pid"]);
    root.json(["shutdown"]);
    assert_eq!(upgrade(&root, OSTLER).exits(0).json()["replaced"], Value::Null);
}

/// The program that ran before runs again, from its image: its file may be gone.
#[test]
fn a_broken_program_leaves_the_one_that_ran_before() {
    let root = Root::new();
    let copy = root.folder().join("ostler-before");
    copy_program(OSTLER, &copy);
    let before = finish(&mut root.command_of(copy.to_str().unwrap(), ["ensure", "--json"]), b"").exits(0).json();
    let session = root.spawn_fixture(&[], "sleep");
    std::fs::remove_file(&copy).unwrap();
    let failed = finish(root.command_of(NEXT, ["upgrade", "--json"]).env("OSTLER_TEST_BROKEN", "1"), b"");
    assert_eq!(failed.code(), Some(5), "{failed:?}");
    let error = failed.json()["error"].clone();
    assert!(text(&error["message"]).contains("died"), "{error}");
    assert!(text(&error["data"]["changed"]).contains(env!("CARGO_PKG_VERSION")), "{error}");
    let now = root.json(["status"])["broker"].clone();
    assert_eq!((&now["version"], &now["generation"]), (&json!(env!("CARGO_PKG_VERSION")), &json!(2)));
    assert_ne!(now["pid"], before["broker"]["pid"]);
    assert_eq!(root.session(&session["id"])["pid"], session["pid"]);
}

#[test]
fn many_at_once_take_over_one_after_the_other() {
    let root = Root::new();
    root.ensure();
    let session = root.spawn_fixture(&[], "sleep");
    let builds = [OSTLER, NEXT].repeat(5);
    // Half of its time each waits for its turn.
    let upgrade = |build: &&str| root.command_of(build, ["upgrade", "--json", "--timeout", "180s"]);
    let outputs = at_once(builds.iter().map(upgrade).collect());
    let mut generations: Vec<u64> =
        outputs.into_iter().map(|output| output.exits(0).json()["broker"]["generation"].as_u64().unwrap()).collect();
    generations.sort_unstable();
    assert!(generations.iter().copied().eq(2..12), "{generations:?}");
    assert_eq!((root.brokers().len(), &root.session(&session["id"])["pid"]), (1, &session["pid"]));
}

/// A start that is on its way when the broker changes has one effect, and its caller is answered.
#[test]
fn a_spawn_under_way_is_answered_by_the_next_broker() {
    for point in ["effect.spawn=pause:3000", "reply.begin=pause:3000"] {
        let root = Root::new();
        finish(root.command(["ensure"]).env("OSTLER_TEST_FAIL", point), b"").exits(0);
        let arguments = spawning(&["--key", "k"], &[FIXTURE, "count", "starts", "--", "sleep"]);
        let spawn = Running::start(root.command(["--json"]).args(arguments));
        wait_until(SOON, "its record", || root.names("sessions").len() == 1);
        assert_eq!(upgrade(&root, NEXT).exits(0).json()["broker"]["version"], "0.2.0", "{point}");
        let session = spawn.end().exits(0).json()["session"].clone();
        assert_eq!(root.session_becomes(&session["id"], "ready")["pid"], session["pid"]);
        assert_eq!(root.lines("starts").len(), 1, "{point}");
    }
}

/// Stopped while it owns the root, and let go on when another one does: it changes nothing and signals nobody.
#[test]
fn a_broker_that_slept_through_its_replacement_does_nothing_any_more() {
    let root = Root::new();
    root.ensure();
    let session = root.spawn_fixture(&[], "sleep");
    let old = root.broker().unwrap();
    kill(Pid::from_raw(old.pid), Signal::SIGSTOP).unwrap();
    // Somebody removes the lock by hand; nothing else could make room beside a process that holds it.
    std::fs::remove_file(root.path().join("broker.lock")).unwrap();
    std::fs::remove_file(root.path().join("ledger/writer.lock")).unwrap();
    let now = finish(&mut root.command_of(NEXT, ["ensure", "--json"]), b"").exits(0).json()["broker"].clone();
    assert_eq!(now["version"], "0.2.0");
    let adopted = || root.ostler(["ledger", "history", text(&session["id"]), "--json"]).text().contains("adopted");
    wait_until(SOON, "its successor to have adopted the session", adopted);
    let head = root.verify_ledger()["head"].clone();
    kill(Pid::from_raw(old.pid), Signal::SIGCONT).unwrap();
    wait_until(SOON, "the old one to go", || !old.alive());
    assert_eq!(root.verify_ledger()["head"], head, "it wrote nothing");
    assert_eq!(root.json(["status"])["broker"], now, "and published nothing");
    assert!(Process::of_value(&session["pid"]).alive());
    assert_eq!(root.session_becomes(&session["id"], "ready")["pid"], session["pid"]);
}
