//! What a sender is told when broker or host are killed on the way: what the host's journal proves, or that nobody can tell.

use serde_json::json;

use super::{message, output, send, send_input};
use crate::support::scene::text;
use crate::support::{Process, Root, SOON, wait_until};

/// More than a pipe takes, so that the program decides when it is delivered.
const LARGE: usize = 200 * 1024;

#[test]
fn a_killed_broker_s_attempt_is_finished_by_the_next_and_written_once() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--adapter", "lines"], "until go -- copy");
    let sent = send_input(&root, &session["id"], &[b'x'; LARGE], &[]);
    let waits = send(&root, &session["id"], "second", &[]);
    wait_until(SOON, "it to be on its way", || message(&root, &sent["message"]["id"])["state"] == "sending");
    root.kill_broker();
    root.ensure();
    assert_eq!(message(&root, &sent["message"]["id"])["state"], "sending");
    std::fs::write(root.folder().join("go"), "").unwrap();
    wait_until(SOON, "both to be delivered", || message(&root, &waits["message"]["id"])["state"] == "delivered");
    let first = message(&root, &sent["message"]["id"]);
    assert_eq!((&first["state"], &first["redeliveries"]), (&json!("delivered"), &json!(0)));
    let expected = format!("{}\nsecond\n", "x".repeat(LARGE));
    wait_until(SOON, "the output", || output(&root, &session["id"]).len() >= expected.len());
    assert_eq!(output(&root, &session["id"]), expected, "once, and in order");
}

#[test]
fn a_killed_host_leaves_what_its_journal_proves() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--adapter", "lines"], "sleep");
    let done = send(&root, &session["id"], "taken", &["--wait-for", "delivered"]);
    let under_way = send_input(&root, &session["id"], &[b'x'; LARGE], &[]);
    let waits = send(&root, &session["id"], "waits", &[]);
    wait_until(SOON, "it to be on its way", || message(&root, &under_way["message"]["id"])["state"] == "sending");
    Process::of_value(&session["host_pid"]).kill_9();
    root.session_becomes(&session["id"], "failed");
    let state = |of: &serde_json::Value| message(&root, &of["message"]["id"])["state"].clone();
    wait_until(SOON, "it to be settled", || state(&under_way) == "uncertain");
    assert_eq!((state(&done), state(&waits)), (json!("delivered"), json!("cancelled")));
    // Sent again it would need somebody who takes it; the decision is refused, and the message stays in doubt.
    let id = text(&under_way["message"]["id"]);
    root.ostler(["message", "resolve", id, "retry"]).exits(4);
    assert_eq!(state(&under_way), "uncertain");
    root.json(["delete", text(&session["id"])]);
    root.ostler(["message", "show", id]).exits(3);
}
