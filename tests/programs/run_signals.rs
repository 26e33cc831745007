//! `ostler run` and signals: what stops it stops its session; what kills it does not.

use super::{ended, line_of, session, text};
use crate::support::{FIXTURE, Process, Root, Running, SOON, wait_for, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// The one session of this root.
fn only_session(root: &Root) -> Value {
    wait_for(SOON, "the session to be listed", || root.json(["list"])["sessions"].get(0).cloned())
}

#[test]
fn int_term_and_hup_stop_the_session() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let root = Root::new();
        let run = Running::start(&mut root.command(["run", "--", FIXTURE, "say", "up", "--", "sleep"]));
        run.says("up");
        let command = Process::of_value(&only_session(&root)["pid"]);
        run.signal(signal);
        run.end().exits(128 + 15);
        assert!(!command.alive(), "{signal}");
        let session = ended(&root, &only_session(&root)["id"]);
        assert_eq!((&session["status"], &session["exit"]), (&json!("stopped"), &json!({"signal": "SIGTERM"})));
    }
}

#[test]
fn a_command_that_cleans_up_when_it_is_stopped_is_heard_to_its_end() {
    let root = Root::new();
    let script = "trap 'echo cleaned; exit 7' TERM; echo up; while :; do sleep 0.05; done";
    let run = Running::start(&mut root.command(["run", "--", "sh", "-c", script]));
    run.says("up");
    run.signal(Signal::SIGTERM);
    let output = run.end().exits(7);
    assert_eq!(output.text(), "up\ncleaned\n");
}

#[test]
fn the_second_signal_does_not_wait() {
    let root = Root::new();
    let run = Running::start(
        root.command(["run", "--", FIXTURE, "ignore-term", "--", "say", "up", "--", "sleep"])
            .env("OSTLER_STOP_GRACE", "60s"),
    );
    run.says("up");
    let id = only_session(&root)["id"].clone();
    run.signal(Signal::SIGINT);
    wait_until(SOON, "the session to be stopping", || session(&root, &id)["status"] == "stopping");
    run.signal(Signal::SIGINT);
    run.end().exits(128 + 9);
    assert_eq!(ended(&root, &id)["exit"], json!({"signal": "SIGKILL"}));
}

#[test]
fn a_killed_run_leaves_its_session_running_and_listed() {
    let root = Root::new();
    let run = Running::start(&mut root.command([
        "run", "--name", "left", "--", FIXTURE, "say", "up", "--", "until", "go", "--", "say", "more", "--", "exit",
        "6",
    ]));
    run.says("up");
    let before = only_session(&root);
    run.process().kill_9();
    drop(run);
    let after = session(&root, &json!("left"));
    assert_eq!((&after["status"], &after["pid"]), (&json!("ready"), &before["pid"]));
    std::fs::write(root.folder().join("go"), "").unwrap();
    assert_eq!(ended(&root, &json!("left"))["exit"], json!({"code": 6}));
    assert_eq!(root.ostler(["logs", "left"]).exits(0).text(), "up\nmore\n");
}

/// While nobody follows any more the command is not held up, however much it prints.
#[test]
fn a_killed_run_does_not_hold_its_command_up() {
    let root = Root::new();
    let steps =
        ["say", "up", "--", "until", "go", "--", "print", "20000000", "--", "append", "printed", "x", "--", "sleep"];
    let run = Running::start(root.command(["run", "--name", "left", "--", FIXTURE]).args(steps));
    run.says("up");
    run.process().kill_9();
    drop(run);
    std::fs::write(root.folder().join("go"), "").unwrap();
    wait_until(SOON, "all of it to be printed", || root.folder().join("printed").exists());
    root.ostler(["stop", "left"]).exits(0);
}

#[test]
fn a_reader_that_leaves_ends_run_and_stops_the_session() {
    let root = Root::new();
    let script = "\"$0\" run --name pipe -- sh -c 'while :; do echo line; sleep 0.01; done' | head -n 1";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script, crate::support::OSTLER]).env_clear().current_dir(root.folder());
    shell.envs(root.command(["x"]).get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert_eq!(crate::support::finish(&mut shell, b"").exits(0).text(), "line\n");
    assert_eq!(ended(&root, &json!("pipe"))["status"], "stopped");
}

#[test]
fn run_gives_up_at_its_deadline_and_stops_what_it_started() {
    let root = Root::new();
    let output =
        root.ostler(["run", "--name", "late", "--timeout", "2s", "--", FIXTURE, "say", "up", "--", "sleep"]).exits(125);
    assert_eq!(output.text(), "up\n");
    assert!(output.error_text().contains("(timeout)"), "{output:?}");
    assert_eq!(ended(&root, &json!("late"))["status"], "stopped");
}

/// The broker dies under a `run`: neither the command nor its output nor its code is lost.
#[test]
fn run_outlives_the_broker() {
    let root = Root::new();
    let run =
        Running::start(&mut root.command([
            "run", "--", FIXTURE, "say", "up", "--", "until", "go", "--", "print", "3200", "--", "exit", "8",
        ]));
    run.says("up");
    root.broker().unwrap().kill_9();
    std::fs::write(root.folder().join("go"), "").unwrap();
    let output = run.end().exits(8);
    assert_eq!(output.stdout.len(), 3 + 3200);
    let session = only_session(&root);
    assert_eq!(ended(&root, &session["id"])["exit"], json!({"code": 8}));
    assert!(root.ostler(["logs", text(&session["id"])]).exits(0).stdout == output.stdout);
    line_of(&root, &session["id"], "000000000000199");
}
