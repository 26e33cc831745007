//! Group I: clocks that are set, machines that sleep, and silence that is no death.

use std::fs;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::scene::text;
use crate::support::{Process, Root, Running, SOON, wait_until};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

fn signal(process: Process, signal: Signal) {
    kill(Pid::from_raw(process.pid), signal).expect("it is a process of this test");
}

/// Seconds since boot.
fn uptime() -> f64 {
    let text = fs::read_to_string("/proc/uptime").expect("the system tells");
    text.split(' ').next().and_then(|first| first.parse().ok()).expect("it is a number")
}

fn seconds_pass(seconds: f64) {
    let began = uptime();
    wait_until(Duration::from_secs(60), "some seconds to pass", || uptime() >= began + seconds);
}

/// The sessions run on as they were, and their broker knows it.
#[track_caller]
fn all_live(root: &Root, sessions: &[Value]) {
    for session in sessions {
        wait_until(SOON, "the host to have answered", || root.session(&session["id"])["reason"].is_null());
        let found = root.session(&session["id"]);
        assert_eq!(
            (&found["pid"], &found["episode"], &found["status"]),
            (&session["pid"], &json!(1), &json!("ready")),
            "{found:#}"
        );
    }
}

/// Report leapmux#403: the lid was closed, and the sole owner took its lease for lapsed.
#[test]
fn field_i01_a_broker_that_slept_is_the_broker_still() {
    let root = Root::new();
    let session = root.spawn_fixture(&[], "sleep");
    let before = root.ensure();
    let all = [&before["pid"], &session["host_pid"], &session["pid"]].map(Process::of_value);
    all.iter().for_each(|process| signal(*process, Signal::SIGSTOP));
    seconds_pass(7.0);
    all.iter().for_each(|process| signal(*process, Signal::SIGCONT));
    assert_eq!(root.ensure()["incarnation"], before["incarnation"]);
    all_live(&root, &[session]);
    let log = || fs::read_to_string(root.path().join("broker.log")).unwrap();
    wait_until(SOON, "it to note the gap", || log().contains("slept"));
    // A machine that is busy enough may stop it a second time.
    assert!(log().lines().filter(|line| line.contains("slept")).count() <= 2, "{}", log());
}

/// Report sutando#3782: the clock was stepped back, and live claims were taken away.
#[test]
fn field_i03_a_clock_that_is_set_takes_nothing_from_anybody() {
    let root = Root::with_clock();
    let sessions: Vec<Value> = (0..5).map(|_| root.spawn_fixture(&[], "sleep")).collect();
    for seconds in [-1, -HOUR, -100 * 365 * DAY, 75 * 365 * DAY] {
        let before = root.ensure();
        root.set_clock(seconds);
        // Something is written under the new time, by the broker that was there.
        let other = root.spawn(&[], &["true"]);
        root.json(["wait", text(&other["id"])]);
        assert_eq!(root.ensure()["incarnation"], before["incarnation"], "{seconds}");
        all_live(&root, &sessions);
        // The next broker finds a past that lies in its future, or far behind.
        root.kill_broker();
        root.ensure();
        all_live(&root, &sessions);
        assert_eq!(root.session(&other["id"])["exit"], json!({"code": 0}));
        let verified = root.verify_ledger();
        assert!(verified["problems"].as_array().is_some_and(Vec::is_empty), "{verified}");
    }
}

/// Report nv-config-manager#171: a time stamp in the future was fresh for ever.
#[test]
fn field_i04_a_record_from_the_future_is_no_life() {
    let root = Root::with_clock();
    root.set_clock(DAY);
    let session = root.spawn_fixture(&[], "sleep");
    let broker = root.ensure();
    root.set_clock(0);
    assert_eq!(root.ensure()["incarnation"], broker["incarnation"], "whoever lives is kept, whatever its record says");
    root.kill_broker();
    let status = root.json(["status"]);
    assert_eq!((&status["state"], &status["lock"]["owner_lives"]), (&json!("absent"), &json!(false)), "{status}");
    assert_eq!(root.json(["ensure", "--timeout", "20s"])["started"], true);
    all_live(&root, &[session]);
}

/// Report xen-api#5700: the clock jumped forward, and everyone was declared dead.
#[test]
fn field_i05_a_month_in_one_step_ends_and_forgets_nobody() {
    let root = Root::with_clock();
    let live: Vec<Value> = (0..10).map(|_| root.spawn_fixture(&[], "sleep")).collect();
    let ended = root.spawn(&["--key", "k"], &["sh", "-c", "exit 3"]);
    root.json(["wait", text(&ended["id"])]);
    root.set_clock(30 * DAY);
    let broker = root.ensure();
    // A turn under the new time, and one more look of the watch.
    root.json(["delete", "--stop", text(&root.spawn_fixture(&[], "sleep")["id"])]);
    seconds_pass(1.5);
    assert_eq!(root.ensure()["incarnation"], broker["incarnation"]);
    all_live(&root, &live);
    root.kill_broker();
    root.ensure();
    all_live(&root, &live);
    assert_eq!(root.session(&ended["id"])["exit"], json!({"code": 3}));
    let again = root.ostler(["--json", "spawn", "--key", "k", "--", "sh", "-c", "exit 3"]).exits(4);
    assert_eq!(again.error_code(), "endpoint_stale", "its key is still known");
}

/// Report loom#4400: a heartbeat file from the last boot made a booting daemon look stuck.
#[test]
fn field_i06_a_slow_start_is_not_judged_by_what_the_last_one_left() {
    let root = Root::new();
    root.ensure();
    root.kill_broker();
    let mut ensure = root.command(["ensure", "--json"]);
    let starting = Running::start(ensure.env("OSTLER_TEST_FAIL", "start.beat=pause:4000"));
    let mut seen = Vec::new();
    wait_until(SOON, "the start to be over", || {
        let status = root.json(["status"]);
        let state = text(&status["state"]).to_owned();
        assert!(["absent", "starting", "running"].contains(&state.as_str()), "{status}");
        seen.push(state);
        seen.last().is_some_and(|state| state == "running")
    });
    assert!(seen.iter().any(|state| state == "starting"), "{seen:?}");
    assert_eq!(starting.end().exits(0).json()["started"], true);
}

/// Report agor#1809: thirty seconds without a sign during a heavy build, and a healthy session was marked as failed.
#[test]
fn field_i07_a_session_that_is_busy_and_silent_is_not_dead() {
    let root = Root::new();
    let session = root.spawn(&["--name", "busy"], &["sh", "-c", "while :; do :; done"]);
    let host = Process::of_value(&session["host_pid"]);
    signal(host, Signal::SIGSTOP);
    root.kill_broker();
    root.ensure();
    for _ in 0..3 {
        let found = root.session(&session["id"]);
        assert_eq!((&found["status"], &found["reason"]), (&json!("ready"), &json!("liveness unknown")), "{found:#}");
        seconds_pass(1.0);
    }
    signal(host, Signal::SIGCONT);
    all_live(&root, &[session]);
}

/// Report overdeck#2775: a sweep after each restart hit live agents.
#[test]
fn field_i10_ten_restarts_reap_nobody() {
    let root = Root::new();
    let sessions: Vec<Value> =
        (0..10).map(|_| root.spawn(&[], &["sh", "-c", "while :; do sleep 0.05; done"])).collect();
    for round in 0..10 {
        if round % 2 == 0 {
            root.kill_broker();
        } else {
            root.json(["shutdown"]);
        }
        root.ensure();
        assert_eq!(root.json(["list"])["sessions"].as_array().map(Vec::len), Some(sessions.len()), "round {round}");
    }
    all_live(&root, &sessions);
}

/// A starter that sleeps in the middle of its start is waited for: nobody begins beside it, and when it wakes it serves.
#[test]
fn field_i_own_a_starter_that_sleeps_has_no_rival() {
    let root = Root::new();
    let mut ensure = root.command(["ensure", "--json", "--timeout", "60s"]);
    let first = Running::start(ensure.env("OSTLER_TEST_FAIL", "start.beat=pause:1500"));
    wait_until(SOON, "it to be at it", || root.brokers().len() == 1 && root.path().join("ledger").exists());
    let starter = root.brokers()[0];
    signal(starter, Signal::SIGSTOP);
    let second = Running::start(&mut root.command(["ensure", "--json", "--timeout", "60s"]));
    seconds_pass(3.0);
    assert_eq!(root.brokers(), [starter]);
    signal(starter, Signal::SIGCONT);
    for report in [first.end(), second.end()] {
        assert_eq!(report.exits(0).json()["broker"]["pid"], json!(starter.pid));
    }
}

/// A session that ends before it was made, by the clock, is shown and resumed like any other.
#[test]
fn field_i_own_an_end_before_its_beginning_is_an_end() {
    let root = Root::with_clock();
    // Set back while it runs: its beginning lies in the future.
    root.set_clock(2 * DAY);
    let session = root.spawn_fixture(&["--name", "s"], "sleep");
    root.set_clock(0);
    let stopped = root.json(["stop", "s"])["session"].clone();
    assert!(text(&stopped["ended_at"]) < text(&stopped["created_at"]), "{stopped:#}");
    assert_eq!(root.session(&session["id"])["status"], "stopped");
    root.ostler(["list", "--all"]).exits(0);
    root.ostler(["show", "s"]).exits(0);
    assert_eq!(root.json(["resume", "s"])["session"]["episode"], 2);
    root.set_clock(-DAY);
    assert_eq!(root.json(["stop", "s"])["session"]["status"], "stopped");
    root.ostler(["ledger", "history", "s"]).exits(0);
}
