//! The `inbox` adapter: a program pulls its messages with its own credential.

use serde_json::{Value, json};

use super::{message, send};
use crate::support::scene::text;
use crate::support::{Output, Root, SOON, finish, wait_until};

/// The command line as the session itself would use it.
pub(super) fn within(root: &Root, session: &Value, arguments: &[&str]) -> Output {
    let mut command = root.command(["--json"]);
    command.args(arguments);
    let credential = root.path().join("sessions").join(text(session)).join("credential");
    finish(command.env("OSTLER_CREDENTIAL", credential).env("OSTLER_SESSION", text(session)), b"")
}

fn texts(page: &Value) -> Vec<&str> {
    page["messages"].as_array().expect("a page").iter().map(|of| text(&of["text"])).collect()
}

#[test]
fn a_session_reads_until_it_acknowledges() {
    let root = Root::new();
    let session = root.spawn_fixture(&[], "sleep");
    let id = &session["id"];
    let sent: Vec<Value> = ["one", "two\nlines", "three"].iter().map(|words| send(&root, id, words, &[])).collect();
    assert_eq!((&sent[0]["delivery"], &sent[2]["position"]), (&json!("queued"), &json!(3)));
    assert_eq!(root.session(id)["queue"], json!({"messages": 3, "bytes": 17, "uncertain": 0}));
    let page = within(&root, id, &["inbox", "read", "--limit", "2"]).exits(0).json();
    assert_eq!(texts(&page), ["one", "two\nlines"]);
    assert_eq!(page["messages"][0]["from"], "owner");
    let rest = within(&root, id, &["inbox", "read", "--cursor", text(&page["next"])]).exits(0).json();
    assert_eq!((texts(&rest), &rest["next"]), (vec!["three"], &Value::Null));
    assert_eq!(message(&root, &sent[0]["message"]["id"])["state"], "delivered");
    // A reader that died before it acknowledged reads it again, after a kill of the broker as well.
    root.kill_broker();
    assert_eq!(texts(&within(&root, id, &["inbox", "read"]).exits(0).json()), ["one", "two\nlines", "three"]);
    let ids: Vec<&str> = sent.iter().map(|of| text(&of["message"]["id"])).collect();
    let acked = within(&root, id, &["inbox", "ack", ids[0], ids[1]]).exits(0).json();
    assert!(acked["messages"].as_array().unwrap().iter().all(|of| of["state"] == "acknowledged"));
    assert_eq!(texts(&within(&root, id, &["inbox", "read"]).exits(0).json()), ["three"]);
    let late = root.ostler(["--json", "message", "cancel", ids[2]]).exits(4).json();
    assert_eq!(late["outcome"], "too_late");
}

#[test]
fn a_session_waits_for_its_next_message() {
    let root = Root::new();
    let program = format!("{} --json inbox read --wait 60s", crate::support::OSTLER);
    let session = root.spawn(&[], &["sh", "-c", &program]);
    let sent = send(&root, &session["id"], "wake up", &["--wait-for", "delivered"]);
    root.ostler(["wait", text(&session["id"])]).exits(0);
    let read: Value = serde_json::from_str(&super::output(&root, &session["id"])).unwrap();
    assert_eq!((texts(&read), &read["messages"][0]["id"]), (vec!["wake up"], &sent["message"]["id"]));
    // It was pulled, and its session has ended: nobody will acknowledge it any more.
    wait_until(SOON, "its receipt", || message(&root, &sent["message"]["id"])["state"] == "delivered");
    let none = within(&root, &root.spawn_fixture(&[], "sleep")["id"], &["inbox", "read", "--wait", "100ms"]);
    assert_eq!(none.exits(0).json()["messages"], json!([]), "nothing by then is an answer");
}

#[test]
fn parents_and_children_write_to_each_other_and_to_nobody_else() {
    let root = Root::new();
    let parent = root.spawn_fixture(&[], "sleep");
    let stranger = root.spawn_fixture(&[], "sleep");
    let child = within(&root, &parent["id"], &["spawn", "--", "sleep", "1000"]).exits(0).json()["session"].clone();
    let to = |from: &Value, to: &Value| within(&root, from, &["send", text(to), "hello"]);
    to(&parent["id"], &child["id"]).exits(0);
    let sent = to(&child["id"], &parent["id"]).exits(0).json();
    assert_eq!(sent["message"]["from"], child["id"]);
    let unknown = to(&child["id"], &json!("aaaaaaaaaaaa")).exits(3).json()["error"].clone();
    let foreign = to(&child["id"], &stranger["id"]).exits(3).json()["error"].clone();
    let neutral = |error: &Value, id: &Value| error["message"].as_str().unwrap().replace(text(id), "ID");
    assert_eq!(neutral(&foreign, &stranger["id"]), neutral(&unknown, &json!("aaaaaaaaaaaa")), "a denial tells nothing");
    // A receipt that is another's is no receipt of ours.
    let own = text(&sent["message"]["id"]);
    within(&root, &stranger["id"], &["message", "show", own]).exits(3);
    within(&root, &stranger["id"], &["message", "cancel", own]).exits(3);
    within(&root, &stranger["id"], &["inbox", "ack", own]).exits(3);
    within(&root, &child["id"], &["message", "show", own]).exits(0);
    let letters = within(&root, &parent["id"], &["inbox", "read"]).exits(0).json();
    assert_eq!(letters["messages"][0]["from"], child["id"]);
}

#[test]
fn a_text_that_was_lost_says_so_and_holds_up_no_other() {
    let root = Root::new();
    let session = root.spawn_fixture(&[], "sleep");
    send(&root, &session["id"], "damaged", &[]);
    send(&root, &session["id"], "whole", &[]);
    let bodies = root.path().join("sessions").join(text(&session["id"])).join("bodies-1");
    let mut bytes = std::fs::read(&bodies).unwrap();
    bytes[16] ^= 1;
    std::fs::write(&bodies, bytes).unwrap();
    let page = within(&root, &session["id"], &["inbox", "read"]).exits(0).json();
    assert_eq!(texts(&page), ["", "whole"]);
    assert!(text(&page["messages"][0]["lost"]).contains("digest"));
    assert_eq!(page["messages"][1]["lost"], Value::Null);
}
