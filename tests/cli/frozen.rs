//! A host or a command that is stopped looks alive and does nothing: it is named, with what lets it go on.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::text;
use crate::support::{Process, Root, SOON, wait_until};

fn signal(process: Process, signal: Signal) {
    kill(Pid::from_raw(process.pid), signal).unwrap();
}

/// What the doctor says of the sessions.
fn doubts(root: &Root) -> String {
    let checks = root.json(["doctor"])["checks"].clone();
    let found: Vec<_> = checks.as_array().unwrap().iter().filter(|check| check["check"] == "sessions").collect();
    serde_json::to_string(&found).unwrap()
}

/// The stop is given up for its proof only, and says so: its key is settled, and nobody is told to ask it again.
#[test]
fn a_frozen_host_is_named_and_a_stop_that_it_outlasts_tells_what_is_settled() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s"], "sleep");
    let host = Process::of_value(&session["host_pid"]);
    let thaw = format!("kill -CONT {}", host.pid);
    signal(host, Signal::SIGSTOP);
    let shown = root.ostler(["show", "s"]).exits(0).text();
    assert!(shown.contains("its host") && shown.contains(&thaw), "{shown}");
    assert!(doubts(&root).contains(&thaw), "{}", doubts(&root));
    let settled = root.ostler(["reconcile", "s"]).exits(0).text();
    assert!(settled.contains(&thaw), "{settled}");
    let late = root.ostler(["stop", "s", "--grace", "0s", "--key", "k"]).exits(6).error_text();
    assert!(late.contains("still_alive") && late.contains("settled as failed"), "{late}");
    assert!(!late.contains("--key") && late.contains("ostler show "), "{late}");
    let document = root.ostler(["--json", "stop", "s", "--grace", "0s", "--key", "k"]).exits(6).json();
    assert_eq!(document["error"]["retry"], "never", "{document}");
    signal(host, Signal::SIGCONT);
    root.session_becomes(&session["id"], "stopped");
    assert!(!doubts(&root).contains("kill -CONT"), "{}", doubts(&root));
}

/// The next broker has no answer from it. To end it is not the only way out.
#[test]
fn a_frozen_host_that_a_broker_waits_for_is_let_go_on_before_it_is_ended() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s"], "sleep");
    let host = Process::of_value(&session["host_pid"]);
    let thaw = format!("kill -CONT {}", host.pid);
    signal(host, Signal::SIGSTOP);
    root.kill_broker();
    assert!(doubts(&root).contains(&thaw), "also where no broker runs: {}", doubts(&root));
    root.ensure();
    assert!(root.ostler(["list"]).exits(0).text().contains("(silent)"));
    let refused = root.ostler(["reconcile", "s", "--timeout", "60s"]);
    assert!(refused.error_text().contains(&thaw), "{refused:?}");
    assert!(doubts(&root).contains(&thaw) && !doubts(&root).contains("ostler reconcile"), "{}", doubts(&root));
    signal(host, Signal::SIGCONT);
    wait_until(SOON, "it to be adopted", || root.session(&session["id"])["reason"].is_null());
    assert_eq!(text(&root.session(&session["id"])["status"]), "ready");
}

#[test]
fn a_command_that_is_stopped_is_named() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s"], "sleep");
    let command = Process::of_value(&session["pid"]);
    signal(command, Signal::SIGSTOP);
    let thaw = format!("its command (pid {}) is stopped and does nothing (kill -CONT {0} lets it go on)", command.pid);
    // The signal is sent, and the process stops a moment later.
    wait_until(SOON, "it to be told", || root.ostler(["show", "s"]).exits(0).text().contains(&thaw));
    signal(command, Signal::SIGCONT);
    wait_until(SOON, "it to go on", || !root.ostler(["show", "s"]).exits(0).text().contains("kill -CONT"));
}
