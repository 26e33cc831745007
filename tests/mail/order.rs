//! Many senders, many sessions, and kills between them: each message once and in order, or with an end that says why not.

use std::thread;

use serde_json::{Value, json};

use super::{message, output, send};
use crate::support::scene::text;
use crate::support::{Root, SOON, wait_until};

#[test]
fn each_message_arrives_once_and_in_order_whoever_sends_beside_it() {
    const SENDERS: usize = 4;
    const EACH: usize = 12;
    let root = Root::new();
    let session = root.spawn(&["--adapter", "lines"], &["cat"]);
    thread::scope(|scope| {
        for sender in 0..SENDERS {
            let (root, session) = (&root, &session);
            scope.spawn(move || {
                for number in 0..EACH {
                    send(root, &session["id"], &format!("{sender} {number}"), &[]);
                }
            });
        }
        // A broker that is killed meanwhile loses nothing and doubles nothing: senders find the next one by their keys.
        root.kill_broker();
    });
    let all = || output(&root, &session["id"]);
    wait_until(SOON, "all of them", || all().lines().count() >= SENDERS * EACH);
    let lines = all();
    for sender in 0..SENDERS {
        let own: Vec<&str> = lines.lines().filter(|line| line.starts_with(&format!("{sender} "))).collect();
        let expected: Vec<String> = (0..EACH).map(|number| format!("{sender} {number}")).collect();
        assert_eq!(own, expected);
    }
}

#[test]
fn receipts_are_listed_newest_first_a_page_at_a_time() {
    let root = Root::new();
    let session = root.spawn_fixture(&[], "sleep");
    let sent: Vec<Value> = (0..5).map(|number| send(&root, &session["id"], &number.to_string(), &[])).collect();
    root.json(["message", "cancel", text(&sent[2]["message"]["id"])]);
    let mut expected: Vec<Value> = sent.iter().map(|of| of["message"]["id"].clone()).collect();
    expected.reverse();
    let first = root.json(["message", "list", text(&session["id"]), "--limit", "3"]);
    let next = text(&first["next"]);
    let second = root.json(["message", "list", text(&session["id"]), "--limit", "3", "--cursor", next]);
    assert_eq!(second["next"], Value::Null);
    let all = first["messages"].as_array().unwrap().iter().chain(second["messages"].as_array().unwrap());
    assert_eq!(all.map(|of| of["id"].clone()).collect::<Vec<_>>(), expected);
    assert_eq!(message(&root, &sent[2]["message"]["id"])["reason"], json!("withdrawn"));
}
