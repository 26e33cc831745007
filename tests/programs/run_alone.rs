//! `ostler run` and what others do meanwhile: to its session, to its broker. It says so, and undoes nothing of it.

use super::{ended, session};
use crate::support::{FIXTURE, Output, Root, Running, SOON, wait_until};
use serde_json::{Value, json};
use std::fs;

/// A `run` of the fixture with these steps, which says `up` first.
fn running(root: &Root, name: &str, steps: &[&str]) -> Running {
    let run = Running::start(root.command(["run", "--name", name, "--", FIXTURE, "say", "up", "--"]).args(steps));
    run.says("up");
    run
}

/// What `run` itself said on its standard error, which is one line that names the session.
#[track_caller]
fn one_line(output: &Output, id: &Value) -> String {
    let said = output.error_text();
    // The shell of a command may have words of its own.
    let ours: Vec<&str> = said.lines().filter(|line| line.starts_with("ostler: ")).collect();
    assert!(ours.len() == 1 && ours[0].contains(super::text(id)), "{output:?}");
    ours[0].to_owned()
}

/// Whether nobody answers and nobody starts.
fn without_broker(root: &Root) -> bool {
    root.json(["status"])["state"] == "absent"
}

#[test]
fn who_stops_or_deletes_its_session_is_named() {
    let root = Root::new();
    let run = running(&root, "stopped", &["sleep"]);
    let id = session(&root, &json!("stopped"))["id"].clone();
    let stop = root.json(["stop", "stopped"]);
    let output = run.end().exits(128 + 15);
    let said = one_line(&output, &id);
    assert!(said.contains("was stopped by process ") && said.contains(super::text(&stop["operation"]["id"])), "{said}");
    // What ends well when it is asked to end was stopped all the same.
    let script =
        ["run", "--name", "polite", "--", "sh", "-c", "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done"];
    let run = Running::start(&mut root.command(script));
    run.says("up");
    let id = session(&root, &json!("polite"))["id"].clone();
    root.ostler(["stop", "polite"]).exits(0);
    assert!(one_line(&run.end().exits(0), &id).contains("was stopped by process "));
    // Its files are gone, and its code is known.
    let run = running(&root, "deleted", &["sleep"]);
    let id = session(&root, &json!("deleted"))["id"].clone();
    root.ostler(["delete", "--stop", "deleted"]).exits(0);
    let said = one_line(&run.end().exits(128 + 15), &id);
    assert!(said.contains("was stopped and deleted by process "), "{said}");
}

#[test]
fn a_broker_that_is_shut_down_stays_so() {
    let root = Root::new();
    let run = running(&root, "alone", &["until", "go", "--", "say", "more", "--", "exit", "6"]);
    let id = session(&root, &json!("alone"))["id"].clone();
    root.ostler(["shutdown"]).exits(0);
    fs::write(root.folder().join("go"), "").unwrap();
    let output = run.end().exits(6);
    assert_eq!(output.text(), "up\nmore\n");
    assert!(one_line(&output, &id).contains("the broker is being shut down"), "{output:?}");
    assert!(without_broker(&root), "run started a broker");
    assert_eq!(ended(&root, &id)["exit"], json!({"code": 6}));
}

#[test]
fn a_broker_that_is_shut_down_with_its_sessions_is_named() {
    let root = Root::new();
    let run = running(&root, "swept", &["sleep"]);
    root.ostler(["shutdown", "--stop-sessions"]).exits(0);
    let output = run.end().exits(128 + 15);
    let said = output.error_text();
    assert!(said.contains("it was shut down with its sessions"), "{output:?}");
    assert!(without_broker(&root), "run started a broker");
}

#[test]
fn a_host_that_is_killed_without_a_broker_ends_run() {
    let root = Root::new();
    let run = running(&root, "orphan", &["sleep"]);
    let host = crate::support::Process::of_value(&session(&root, &json!("orphan"))["host_pid"]);
    root.ostler(["shutdown"]).exits(0);
    let run_process = run.process();
    host.kill_9();
    wait_until(SOON, "run to end with its host", || !run_process.alive());
    let output = run.end().exits(125);
    assert!(output.error_text().contains("left no exit status"), "{output:?}");
    assert!(without_broker(&root), "run started a broker");
}
