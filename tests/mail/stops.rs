//! What a program that pulls its messages is told when it is being stopped: at once, past what waits, and no other episode.

use serde_json::{Value, json};

use super::inbox::within;
use super::{message, output, send};
use crate::cli::wire::Wire;
use crate::support::scene::text;
use crate::support::{FIXTURE, OSTLER, Process, Root, Running, SOON, wait_until};

/// A session whose program does not heed TERM, reads its inbox once, waiting for what comes, and stays.
fn stubborn(root: &Root) -> Value {
    let script = format!("trap '' TERM; {OSTLER} --json inbox read --wait 600s; exec {FIXTURE} sleep");
    root.spawn(&["--name", "s"], &["sh", "-c", &script])
}

/// A reader that waits in the session's inbox, on a connection of its own.
fn waiting(root: &Root, session: &Value) -> Wire {
    let credential = root.path().join("sessions").join(text(&session["id"])).join("credential");
    let token = std::fs::read_to_string(credential).expect("a session has a credential");
    let mut wire = Wire::dial(root);
    wire.ask("hello", json!({"protocol": {"min": 1, "max": 1}, "client": {"name": "s", "version": "1"}, "as": "session", "token": token.trim_end()}));
    let read = json!({"jsonrpc": "2.0", "id": "r", "method": "inbox.read", "params": {"wait_ms": 600_000}});
    wire.send(format!("{read}\n").as_bytes());
    wire
}

fn stop(root: &Root, options: &[&str]) -> Running {
    Running::start(root.command(["stop", "s"]).args(options))
}

/// The notice that its program has, once it has one.
fn told(root: &Root, session: &Value) -> Value {
    wait_until(SOON, "the program to be told", || output(root, &session["id"]).ends_with('\n'));
    let page: Value = serde_json::from_str(&output(root, &session["id"])).expect("one document");
    assert_eq!(page["messages"], json!([]), "what waits is not handed over any more");
    page["stop"].clone()
}

#[test]
fn a_program_that_waits_is_told_at_once_that_it_is_to_end_and_the_first_deadline_holds() {
    let root = Root::new();
    let session = stubborn(&root);
    let mut reader = waiting(&root, &session);
    let first = stop(&root, &["--grace", "100s", "--reason", "the task was withdrawn"]);
    let heard = reader.hear().expect("who waits is told")["result"]["stop"].clone();
    assert_eq!(
        (&heard["by"], &heard["reason"], &heard["grace_ms"], &heard["turn"]),
        (&json!("owner"), &json!("the task was withdrawn"), &json!(100_000), &Value::Null)
    );
    assert_eq!(told(&root, &session), heard);
    // Another stop is not sooner, and tells nothing else.
    let second = stop(&root, &["--grace", "0s", "--reason", "now", "--key", "second"]);
    let shown = |key: &str| root.ostler(["operation", "show", key]);
    wait_until(SOON, "the second stop", || shown("second").code() == Some(0));
    let again = within(&root, &session["id"], &["inbox", "read", "--wait", "600s"]).exits(0).json();
    assert_eq!((&again["stop"], &again["messages"]), (&heard, &json!([])));
    let document = root.json(["operation", "show", "second"])["operation"].clone();
    assert_eq!((&document["by"], &document["reason"]), (&json!("owner"), &json!("now")));
    assert!(shown("second").text().contains("asked by owner at"), "{:?}", shown("second"));
    // Whoever looks is told as well.
    let screen = root.ostler(["show", "s"]).exits(0).text();
    assert!(screen.contains("by owner at") && screen.contains(": the task was withdrawn"), "{screen}");
    assert_eq!(root.session(&session["id"])["stop"], heard);
    assert!(Process::of_value(&session["pid"]).alive(), "it has its time");
    // Nobody need wait for it.
    Process::of_value(&session["pid"]).kill_9();
    for stop in [first, second] {
        stop.end().exits(0);
    }
    assert_eq!(root.session(&session["id"])["stop"], heard, "who ended it is known afterwards");
}

/// What waits stays where it is until the end, and what it has it may acknowledge; to eyes the notice stands before all else.
#[test]
fn while_it_is_stopped_a_program_reads_what_it_has_and_nothing_new() {
    let root = Root::new();
    let session = root.spawn(&["--name", "s"], &["sh", "-c", &format!("trap '' TERM; exec {FIXTURE} sleep")]);
    let id = &session["id"];
    let had = send(&root, id, "had", &[])["message"]["id"].clone();
    within(&root, id, &["inbox", "read"]).exits(0);
    let waits = send(&root, id, "waits", &[])["message"]["id"].clone();
    let stopping = stop(&root, &["--grace", "100s"]);
    root.session_becomes(id, "stopping");
    let page = within(&root, id, &["inbox", "read"]).exits(0).json();
    assert_eq!((&page["messages"][0]["id"], page["messages"].as_array().map(Vec::len)), (&had, Some(1)));
    assert_eq!((&page["stop"]["by"], &page["stop"]["reason"]), (&json!("owner"), &Value::Null));
    within(&root, id, &["inbox", "ack", text(&had)]).exits(0);
    within(&root, id, &["inbox", "ack", text(&waits)]).exits(3);
    assert_eq!(message(&root, &waits)["state"], "queued");
    Process::of_value(&session["pid"]).kill_9();
    stopping.end().exits(0);
    assert_eq!(
        (&message(&root, &waits)["state"], &message(&root, &had)["state"]),
        (&json!("cancelled"), &json!("acknowledged"))
    );
}

/// The notice is no message: it follows from the stop, which outlives its broker with its deadline, and ends with the episode.
#[test]
fn the_next_broker_tells_it_and_keeps_the_deadline_and_the_next_episode_is_told_nothing() {
    let root = Root::new();
    let session = stubborn(&root);
    let id = &session["id"];
    let stopping = stop(&root, &["--grace", "3s", "--reason", "r"]);
    let heard = told(&root, &session);
    root.kill_broker();
    let page = within(&root, id, &["inbox", "read"]).exits(0).json();
    assert_eq!(page["stop"], heard);
    let ended = root.session_becomes(id, "stopped");
    assert_eq!((&ended["exit"], &ended["stop"]), (&json!({"signal": "SIGKILL"}), &heard));
    assert!(text(&ended["ended_at"]) >= text(&heard["deadline"]), "not before its time: {ended}");
    drop(stopping);
    let resumed = root.json(["resume", "s"])["session"].clone();
    assert_eq!((&resumed["status"], &resumed["stop"]), (&json!("ready"), &Value::Null));
    let page = within(&root, id, &["inbox", "read", "--wait", "100ms"]).exits(0).json();
    assert_eq!((&page["stop"], &page["messages"]), (&Value::Null, &json!([])));
}

#[test]
fn a_reason_is_a_short_plain_text_of_a_stop() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s"], "sleep");
    let long = "x".repeat(257);
    for reason in ["", "two\nlines", &long] {
        let refused = root.ostler(["--json", "stop", "s", "--reason", reason]).exits(2).json();
        assert_eq!(refused["error"]["data"]["reason"], "reason", "{refused}");
    }
    root.ostler(["delete", "s", "--reason", "r"]).exits(2);
    let params = json!({"key": "k", "session": "s", "reason": "r"});
    let refused = Wire::hello(&root).ask("session.delete", params);
    assert_eq!(refused["error"]["data"]["code"], "invalid_input", "{refused}");
    assert_eq!(root.session(&session["id"])["status"], "ready");
    let reason = "x".repeat(256);
    let deleted = root.json(["delete", "s", "--stop", "--reason", &reason]);
    assert_eq!(deleted["operation"]["reason"], reason);
    let history = root.ostler(["ledger", "history", text(&session["id"])]).exits(0).text();
    assert!(history.contains(&format!("({reason})")), "{history}");
}
