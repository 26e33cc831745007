//! Families of processes: a stop ends what belongs to the session and names what it could not end.

use super::{end_strays, line_of, spawn, text};
use crate::support::{FIXTURE, Process, Root, SOON, wait_until};
use serde_json::{Value, json};

/// The children that a session's fixture tells of, in order.
fn children(root: &Root, id: &Value) -> Vec<Process> {
    line_of(root, id, "ready");
    let output = root.ostler(["logs", text(id)]).exits(0).text();
    output.lines().filter_map(|line| Process::of(line.strip_prefix("child ")?.trim().parse().unwrap())).collect()
}

/// Stops a session and gives back the document.
#[track_caller]
fn stop(root: &Root, id: &Value, grace: &str) -> Value {
    root.json(["stop", text(id), "--grace", grace, "--timeout", "60s"])
}

#[test]
fn field_d08_a_stop_ends_grandchildren_that_ignore_term_or_left_the_group() {
    let root = Root::new();
    let steps = [
        "child",
        "ignore-term -- sleep",
        "--",
        "child",
        "setsid -- sleep",
        "--",
        "child",
        "setsid -- ignore-term -- sleep",
        "--",
        "child",
        "sleep",
        "--",
        "say",
        "ready",
        "--",
        "sleep",
    ];
    let session = spawn(&root, ["--", FIXTURE].into_iter().chain(steps));
    let family = children(&root, &session["id"]);
    assert_eq!(family.len(), 4);
    let stopped = stop(&root, &session["id"], "500ms");
    assert_eq!(stopped["session"]["status"], "stopped");
    assert_eq!(stopped["session"]["exit"], json!({"signal": "SIGTERM"}));
    assert_eq!(stopped["survivors"], json!([]));
    assert!(family.iter().all(|process| !process.alive()), "{family:?}");
}

/// What has shed every sign of its session is named, not killed: it may be anybody's.
#[test]
fn a_stop_names_what_it_cannot_prove_to_be_the_session_s() {
    let root = Root::new();
    let session = spawn(
        &root,
        [
            "--",
            "sh",
            "-c",
            "setsid env -i sh -c ': >away; exec sleep 4331' & until [ -e away ]; do sleep 0.01; done; echo ready; sleep 1000",
        ],
    );
    line_of(&root, &session["id"], "ready");
    let stopped = stop(&root, &session["id"], "5s");
    assert_eq!(stopped["session"]["status"], "stopped");
    let survivors = stopped["survivors"].as_array().unwrap();
    assert_eq!(survivors.len(), 1, "{survivors:?}");
    assert_eq!(survivors[0]["command"], "sleep 4331");
    assert!(Process::of_value(&survivors[0]["pid"]).alive());
    assert_eq!(end_strays(&root, "sleep 4331"), 1);
}

#[test]
fn a_command_that_ignores_term_is_killed_after_its_grace() {
    let root = Root::new();
    let session = spawn(&root, ["--", FIXTURE, "ignore-term", "--", "say", "ready", "--", "sleep"]);
    line_of(&root, &session["id"], "ready");
    let command = Process::of_value(&session["pid"]);
    let stopped = stop(&root, &session["id"], "300ms");
    assert_eq!(
        (&stopped["session"]["status"], &stopped["session"]["exit"]),
        (&json!("stopped"), &json!({"signal": "SIGKILL"}))
    );
    assert!(!command.alive());
    // A stop of what has ended is done, and changes nothing.
    let again = stop(&root, &session["id"], "300ms");
    assert_eq!(again["session"]["exit"], json!({"signal": "SIGKILL"}));
    assert_ne!(again["operation"]["id"], stopped["operation"]["id"]);
}

/// A stopped process cannot hear TERM; it is not waited for for ever.
#[test]
fn a_command_that_has_stopped_itself_ends_too() {
    let root = Root::new();
    let session = spawn(&root, ["--", FIXTURE, "say", "ready", "--", "stop-self", "--", "sleep"]);
    line_of(&root, &session["id"], "ready");
    let command = Process::of_value(&session["pid"]);
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", command.pid)).unwrap_or_default();
    wait_until(SOON, "it to stop", || state().contains(") T "));
    assert_eq!(stop(&root, &session["id"], "300ms")["session"]["status"], "stopped");
    assert!(!command.alive());
}

/// The session leader's own job control: a shell that waits for children in groups of their own.
#[test]
fn a_shell_with_job_control_ends_with_its_jobs() {
    let root = Root::new();
    let script = "set -m; sleep 4341 & sleep 4342 & echo ready; wait";
    let session = spawn(&root, ["--", "sh", "-c", script]);
    line_of(&root, &session["id"], "ready");
    let stopped = stop(&root, &session["id"], "2s");
    assert_eq!((&stopped["session"]["status"], &stopped["survivors"]), (&json!("stopped"), &json!([])));
    assert_eq!(end_strays(&root, "sleep 434"), 0);
}

/// Many processes at once, and two stops of one session: one effect, two answers.
#[test]
fn a_crowd_ends_and_two_stops_agree() {
    let root = Root::new();
    let script = "for i in $(seq 1 50); do sleep 4351 & done; echo ready; wait";
    let session = spawn(&root, ["--", "sh", "-c", script]);
    line_of(&root, &session["id"], "ready");
    let first = crate::support::Running::start(&mut root.command(["--json", "stop", text(&session["id"])]));
    let second = stop(&root, &session["id"], "10s");
    let first = first.end().exits(0).json();
    for answer in [&first, &second] {
        assert_eq!((&answer["session"]["status"], &answer["survivors"]), (&json!("stopped"), &json!([])));
    }
    assert_eq!(end_strays(&root, "sleep 4351"), 0);
}
