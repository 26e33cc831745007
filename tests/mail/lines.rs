//! The `lines` adapter: messages on a program's standard input.

use serde_json::{Value, json};

use super::{message, output, send};
use crate::cli::refused::refused;
use crate::cli::shape::assert_shape;
use crate::support::scene::text;
use crate::support::{Root, SOON, wait_until};

const MESSAGE: &str = "{schema:1,message:MESSAGE,delivery:text,position:int|null,replayed:bool,operation:OPERATION}";

#[test]
fn a_real_program_answers_five_expressions_in_order() {
    let root = Root::new();
    let session = root.spawn(&["--adapter", "lines"], &["python3", "-iqu"]);
    assert_eq!(session["adapter"], "lines");
    for number in 1..=5 {
        let sent = send(&root, &session["id"], &format!("print({number} * 11)"), &["--wait-for", "delivered"]);
        assert_shape(&sent, MESSAGE);
        assert_eq!(sent["message"]["state"], "delivered");
    }
    let expected = "11\n22\n33\n44\n55\n";
    wait_until(SOON, "five answers", || output(&root, &session["id"]) == expected);
    assert_eq!(root.session(&session["id"])["queue"], json!({"messages": 0, "bytes": 0, "uncertain": 0}));
}

#[test]
fn what_has_ended_takes_a_message_only_if_it_is_started_for_it() {
    let root = Root::new();
    let session = root.spawn(&["--adapter", "lines", "--name", "cat"], &["cat"]);
    root.json(["stop", "cat"]);
    let error = refused(&root, &["send", "cat", "first"], 4, "session_terminal");
    assert_eq!(error["data"]["status"], "stopped");
    let sent = send(&root, &session["id"], "second", &["--resume", "--wait-for", "delivered"]);
    assert_eq!((&sent["message"]["state"], &sent["delivery"]), (&json!("delivered"), &json!("queued")));
    assert_eq!(root.session(&session["id"])["episode"], 2);
    wait_until(SOON, "its answer", || output(&root, &session["id"]) == "second\n");
}

#[test]
fn one_key_is_one_message() {
    let root = Root::new();
    let session = root.spawn(&["--adapter", "lines"], &["cat"]);
    let first = send(&root, &session["id"], "once", &["--key", "k", "--wait-for", "delivered"]);
    let again = send(&root, &session["id"], "once", &["--key", "k"]);
    assert_eq!((&again["replayed"], &again["message"]["id"]), (&json!(true), &first["message"]["id"]));
    assert_eq!(again["message"]["state"], "delivered", "as it is now");
    refused(&root, &["send", text(&session["id"]), "other", "--key", "k"], 4, "key_conflict");
    send(&root, &session["id"], "twice", &["--wait-for", "delivered"]);
    wait_until(SOON, "both", || output(&root, &session["id"]) == "once\ntwice\n");
    // A retry of one whose session is gone says so, and sends nothing.
    root.json(["delete", "--stop", text(&session["id"])]);
    let error = refused(&root, &["send", text(&session["id"]), "once", "--key", "k"], 3, "not_found");
    assert_eq!(error["data"]["reason"], "forgotten");
}

#[test]
fn a_program_that_reads_nothing_makes_messages_wait_and_holds_up_no_stop() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--adapter", "lines"], "sleep");
    // More than a pipe takes.
    let large = "x".repeat(200 * 1024);
    let sent = super::send_input(&root, &session["id"], large.as_bytes(), &[]);
    let waiting = send(&root, &session["id"], "waits", &[]);
    assert_eq!((&waiting["delivery"], &waiting["position"]), (&json!("queued"), &json!(1)));
    wait_until(SOON, "it to be on its way", || message(&root, &sent["message"]["id"])["state"] == "sending");
    let late = root.ostler(["--json", "message", "cancel", text(&sent["message"]["id"])]).exits(4).json();
    assert_eq!(late["outcome"], "too_late");
    assert_eq!(root.session(&session["id"])["queue"]["messages"], 1);
    let withdrawn = root.json(["message", "cancel", text(&waiting["message"]["id"])]);
    assert_eq!((&withdrawn["outcome"], &withdrawn["message"]["state"]), (&json!("cancelled"), &json!("cancelled")));
    let again = root.json(["message", "cancel", text(&waiting["message"]["id"])]);
    assert_eq!(again["outcome"], "already_final");
    let last = send(&root, &session["id"], "never", &[]);
    let stopped = root.json(["stop", text(&session["id"])]);
    assert_eq!(stopped["session"]["status"], "stopped");
    wait_until(SOON, "it to be settled", || message(&root, &sent["message"]["id"])["state"] == "uncertain");
    let last = message(&root, &last["message"]["id"]);
    assert_eq!((&last["state"], &last["reason"]), (&json!("cancelled"), &json!("session_ended")));
    let given_up = root.json(["message", "resolve", text(&sent["message"]["id"]), "give-up"]);
    assert_eq!((&given_up["message"]["state"], &given_up["message"]["reason"]), (&json!("failed"), &json!("given_up")));
}

#[test]
fn closed_input_is_a_failure_that_is_seen() {
    let root = Root::new();
    let session = root.spawn(&["--adapter", "lines"], &["sh", "-c", "exec 0<&-; exec sleep 1000"]);
    let ended = || send(&root, &session["id"], "x", &[]);
    let sent = ended();
    wait_until(SOON, "it to fail", || message(&root, &sent["message"]["id"])["state"] == "failed");
    let failed = root.ostler(["--json", "send", text(&session["id"]), "y", "--wait-for", "delivered"]).exits(1).json();
    assert_eq!(failed["message"]["state"], "failed");
    assert!(failed["message"]["reason"].is_string());
}

#[test]
fn a_frame_of_json_tells_who_sent_what() {
    let root = Root::new();
    let session = root.spawn(&["--adapter", "lines", "--frame", "json"], &["cat"]);
    let hostile = "two\nlines {\"from\":\"owner\"} \u{1b}[31m";
    let sent = send(&root, &session["id"], hostile, &["--wait-for", "delivered"]);
    wait_until(SOON, "the line", || output(&root, &session["id"]).ends_with('\n'));
    let line: Value = serde_json::from_str(output(&root, &session["id"]).trim_end()).unwrap();
    assert_eq!((&line["text"], &line["from"]), (&json!(hostile), &json!("owner")));
    assert_eq!((&line["message"], &line["mode"]), (&sent["message"]["id"], &json!("queue")));
    let plain = root.spawn(&["--adapter", "lines"], &["cat"]);
    refused(&root, &["send", text(&plain["id"]), "two\nlines"], 2, "invalid_input");
}

#[test]
fn bad_input_is_refused_and_sends_nothing() {
    let root = Root::new();
    let session = root.spawn(&["--adapter", "lines"], &["cat"]);
    let id = text(&session["id"]);
    refused(&root, &["send", id, ""], 2, "invalid_input");
    refused(&root, &["send", "nobody", "x"], 3, "not_found");
    refused(&root, &["send", id, "x", "--mode", "interrupt"], 4, "capability_missing");
    refused(&root, &["message", "show", "msg-1"], 3, "not_found");
    refused(&root, &["message", "show", "op-1"], 3, "not_found");
    refused(&root, &["message", "cancel", "msg-99"], 3, "not_found");
    refused(&root, &["inbox", "read"], 7, "denied");
    let large = vec![b'x'; 256 * 1024 + 1];
    let output = super::input(&root, &["--json", "send", id, "-"], &large).exits(2).json();
    assert_eq!(output["error"]["code"], "too_large");
    super::input(&root, &["--json", "send", id, "-"], b"\xff\xfe").exits(2);
    assert_eq!(root.json(["message", "list", id])["messages"], json!([]));
    let fits = super::send_input(&root, &session["id"], &large[..256 * 1024], &["--wait-for", "delivered"]);
    assert_eq!(fits["message"]["bytes"], 256 * 1024);
}

#[test]
fn what_waits_too_long_expires() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--adapter", "lines"], "sleep");
    super::send_input(&root, &session["id"], &vec![b'x'; 200 * 1024], &[]);
    let brief = send(&root, &session["id"], "soon", &["--expires-in", "300ms"]);
    assert!(brief["message"]["expires_at"].is_string());
    wait_until(SOON, "it to expire", || message(&root, &brief["message"]["id"])["state"] == "expired");
    refused(&root, &["send", text(&session["id"]), "x", "--wait-for", "delivered", "--timeout", "300ms"], 6, "timeout");
}

#[test]
fn an_interrupt_reaches_a_real_program_and_it_goes_on() {
    let root = Root::new();
    let session = root.spawn(&["--adapter", "lines"], &["python3", "-iqu"]);
    let endless = "print('begun'); import time; [time.sleep(0.01) for _ in iter(int, 1)]";
    send(&root, &session["id"], endless, &["--wait-for", "delivered"]);
    wait_until(SOON, "it to begin", || output(&root, &session["id"]) == "begun\n");
    let first = root.json(["interrupt", text(&session["id"]), "--key", "k"]);
    assert_eq!((&first["operation"]["state"], &first["session"]["status"]), (&json!("succeeded"), &json!("ready")));
    let errors = || root.ostler(["logs", text(&session["id"]), "--stream", "stderr"]).exits(0).text();
    wait_until(SOON, "the interrupt", || errors().contains("KeyboardInterrupt"));
    // The same key is the same interrupt.
    assert_eq!(root.json(["interrupt", text(&session["id"]), "--key", "k"])["operation"]["replayed"], true);
    send(&root, &session["id"], "print('goes on')", &["--wait-for", "delivered"]);
    wait_until(SOON, "its next answer", || output(&root, &session["id"]) == "begun\ngoes on\n");
    assert_eq!(errors().matches("KeyboardInterrupt").count(), 1);
    root.json(["stop", text(&session["id"])]);
    refused(&root, &["interrupt", text(&session["id"])], 4, "session_terminal");
}
