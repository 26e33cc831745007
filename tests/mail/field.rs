//! Reports of kind G of docs/FIELD.md, replayed as far as messages go in this version; and two failures of our own making.

use std::fs;

use ostler::rpc::error::ErrorCode;
use ostler::rpc::method::Method;
use serde_json::{Value, json};

use super::post::{client, client_within, letter};
use super::{message, send, send_input};
use crate::broker::subscriber::{Subscriber, records_up_to, told};
use crate::cli::refused::refused;
use crate::support::scene::text;
use crate::support::{Root, SOON, finish, wait_until};

/// Where a program notes what it got.
const GOT: &str = "got";
/// More than a pipe takes.
const LARGE: usize = 200 * 1024;

/// A session whose program runs this script, with the place of its notes in `$0` and a file that it may wait for in `$1`.
fn lines(root: &Root, script: &str) -> Value {
    let [got, go] = [GOT, "go"].map(|name| root.folder().join(name).display().to_string());
    root.spawn(&["--adapter", "lines", "--name", "web"], &["sh", "-c", script, &got, &go])["id"].clone()
}

/// One whose pipe is full until there is a file `go`.
fn busy(root: &Root) -> Value {
    let session = lines(root, "until [ -e $1 ]; do sleep 0.01; done; exec cat >> $0");
    let before = send_input(root, &session, &[b'x'; LARGE], &[]);
    wait_until(SOON, "its pipe to be full", || message(root, &before["message"]["id"])["state"] == "sending");
    session
}

fn go(root: &Root) {
    fs::write(root.folder().join("go"), "").expect("the folder is ours");
}

/// The session has ended, or it waits for its next message: each is brought to it at once, over a kill of the broker that had taken it.
#[test]
fn field_g04_a_message_wakes_whom_it_is_for() {
    let mut root = Root::new();
    let session = lines(&root, "exec cat >> $0");
    root.json(["stop", text(&session)]);
    root.kill_broker();
    let counts = root.folder().join("points");
    fs::create_dir(&counts).expect("the folder is ours");
    root.tell("OSTLER_TEST_POINTS", counts.to_str().expect("a temp folder is text"));
    root.tell("OSTLER_TEST_FAIL", "record.send=kill@1");
    let sent = send(&root, &session, "wake up", &["--resume", "--wait-for", "delivered"]);
    assert_eq!((&sent["replayed"], &sent["message"]["state"]), (&json!(true), &json!("delivered")), "{sent}");
    assert_eq!(root.session(&session)["episode"], 2);
    wait_until(SOON, "its message", || root.lines(GOT) == ["wake up"]);
}

/// Its sender dies three times before it hears an answer; the key is the caller's and not the connection's.
#[test]
fn field_g06_a_message_has_its_identity_from_its_sender() {
    let root = Root::new();
    let session = lines(&root, "exec cat >> $0");
    for _ in 0..3 {
        let mut command = root.command(["send", text(&session), "once", "--key", "k"]);
        let output = finish(command.env("OSTLER_TEST_FAIL", "call.sent=kill"), b"");
        assert_eq!(output.code(), None, "it was killed: {output:?}");
    }
    let recorded = || root.json(["message", "list", text(&session)])["messages"].as_array().map_or(0, Vec::len);
    wait_until(SOON, "it to be recorded", || recorded() > 0);
    let again = send(&root, &session, "once", &["--key", "k"]);
    assert_eq!((&again["replayed"], recorded()), (&json!(true), 1), "{again}");
    refused(&root, &["send", text(&session), "other", "--key", "k"], 4, "key_conflict");
    send(&root, &session, "behind", &["--wait-for", "delivered"]);
    wait_until(SOON, "both", || root.lines(GOT) == ["once", "behind"]);
}

#[test]
fn field_g08_what_a_dead_broker_had_queued_is_the_next_ones() {
    const ALL: usize = 200;
    let root = Root::new();
    // Its pipe takes some sixty of these; after the hundredth it reads on only when it may.
    let pause = "[ $n != 100 ] || until [ -e $1 ]; do sleep 0.01; done";
    let session = lines(&root, &format!("while read -r line pad; do echo $line >> $0; n=$((n+1)); {pause}; done"));
    let mut sender = client(&root);
    let pad = "x".repeat(1_000);
    let send = |number: usize| {
        let params = letter(&session, &format!("k-{number}"), &format!("{number} {pad}"));
        let answer = sender.call(Method::MessageSend, params).expect("a broker answers");
        text(&answer["message"]["id"]).to_owned()
    };
    let ids: Vec<String> = (0..ALL).map(send).collect();
    wait_until(SOON, "half of them to be read", || root.lines(GOT).len() == 100);
    let broker = root.kill_broker();
    assert!(!broker.alive() && root.session(&session)["queue"]["messages"].as_u64() > Some(0), "some still wait");
    go(&root);
    wait_until(SOON, "the rest", || root.lines(GOT).len() >= ALL);
    assert_eq!(root.lines(GOT), (0..ALL).map(|number| number.to_string()).collect::<Vec<_>>(), "none twice");
    wait_until(SOON, "the last receipt", || message(&root, &json!(ids[ALL - 1]))["state"] == "delivered");
}

#[test]
fn field_g11_a_message_is_for_the_session_that_had_the_name_when_it_was_accepted() {
    let root = Root::new();
    let session = busy(&root);
    let sent = send(&root, &json!("web"), "for the first", &["--key", "k"]);
    assert_eq!((&sent["message"]["session_id"], &sent["delivery"]), (&session, &json!("queued")));
    root.json(["delete", "--stop", "web"]);
    let second = lines(&root, "exec cat >> $0");
    assert_ne!(second, session);
    // Its sender is told, and asking again does not send it to another.
    let error = refused(&root, &["send", "web", "for the first", "--key", "k"], 3, "not_found");
    assert_eq!(error["data"]["reason"], "forgotten");
    send(&root, &second, "for the second", &["--wait-for", "delivered"]);
    wait_until(SOON, "its own", || root.lines(GOT) == ["for the second"]);
}

#[test]
fn field_g16_queued_is_an_answer_that_comes_at_once() {
    let root = Root::new();
    let session = busy(&root);
    let sent = send(&root, &session, "waits", &["--key", "k"]);
    assert_eq!((&sent["delivery"], &sent["position"]), (&json!("queued"), &json!(1)), "while it reads nothing");
    assert_eq!(
        (&sent["replayed"], &sent["message"]["state"]),
        (&json!(false), &json!("queued")),
        "and nobody asked twice"
    );
    assert_eq!(root.lines(GOT), [""; 0]);
    go(&root);
    wait_until(SOON, "both", || root.lines(GOT).len() == 2);
    assert_eq!(root.lines(GOT)[1], "waits");
}

/// A message that cannot be delivered is set aside, visibly, and those behind it go on.
#[test]
fn field_g_own_a_damaged_text_is_delivered_to_nobody_and_holds_up_no_other() {
    let root = Root::new();
    let session = busy(&root);
    let sent: Vec<Value> = ["before", "damaged", "behind"].map(|words| send(&root, &session, words, &[])).into();
    let bodies = root.path().join("sessions").join(text(&session)).join("bodies-1");
    let mut bytes = fs::read(&bodies).unwrap();
    let at = bytes.windows(7).position(|window| window == b"damaged").expect("it lies there");
    bytes[at] ^= 1;
    fs::write(&bodies, bytes).unwrap();
    go(&root);
    wait_until(SOON, "the others", || root.lines(GOT).len() == 3);
    assert_eq!(root.lines(GOT)[1..], ["before", "behind"]);
    let damaged = message(&root, &sent[1]["message"]["id"]);
    assert_eq!(damaged["state"], "uncertain");
    assert!(text(&damaged["reason"]).contains("digest"), "{damaged}");
}

/// A queue that is full refuses, with its numbers; it takes nothing back, and takes again when there is room.
#[test]
fn field_g_own_a_full_queue_says_so_and_loses_nothing() {
    const WORDS: usize = 256 * 1024;
    let root = Root::new();
    let session = root.spawn_fixture(&[], "sleep")["id"].clone();
    let mut sender = client(&root);
    let words = "x".repeat(WORDS);
    let mut send = |number: usize| sender.call(Method::MessageSend, letter(&session, &format!("k-{number}"), &words));
    let fits = 16 * 1024 * 1024 / WORDS;
    let sent: Vec<Value> = (0..fits).map(|number| send(number).expect("there is room")).collect();
    let full = send(fits).unwrap_err();
    assert_eq!(full.code, ErrorCode::QueueFull, "{full:?}");
    assert_eq!(root.session(&session)["queue"], json!({"messages": fits, "bytes": fits * WORDS, "uncertain": 0}));
    let mut own = client_within(&root, &session);
    let page = own.call(Method::InboxRead, json!({"limit": 1})).unwrap();
    let id = &page["messages"][0]["id"];
    assert_eq!(send(fits).unwrap_err().code, ErrorCode::QueueFull, "what was pulled may still be asked for");
    own.call(Method::InboxAck, json!({"messages": [id]})).unwrap();
    send(fits).expect("there is room again");
    assert_eq!(send(fits - 1).unwrap()["message"]["id"], sent[fits - 1]["message"]["id"], "what was taken stays");
}

/// It takes one event for each fifty messages to fifty sessions, about ten thousand records in all. The queues drain all the same, and what it reads
/// afterwards is each record, and at its end the state that each message and session has.
#[test]
fn field_g14_who_reads_events_slowly_loses_none_and_holds_up_no_queue() {
    let root = Root::new();
    let (mut slow, mut sender) = (Subscriber::owner(&root), Subscriber::owner(&root));
    let spawn =
        |number: usize| json!({"key": format!("s{number}"), "command": ["cat"], "cwd": "/", "adapter": "lines"});
    let spawned = (0..50).map(|number| sender.gets("session.spawn", spawn(number))["session"]["id"].clone());
    let sessions: Vec<Value> = spawned.collect();
    let begun = slow.gets("events.subscribe", json!({}));
    let mut events = Vec::new();
    for round in 0..50 {
        for session in &sessions {
            let key = format!("{round} {}", text(session));
            sender.say("message.send", &json!({"session": session, "key": key, "text": key}));
        }
        sessions.iter().for_each(|_| drop(sender.any_answer()));
        events.push(slow.event());
    }
    for session in &sessions {
        sender.gets("session.wait", json!({"session": session, "for": "idle", "timeout_ms": 30_000}));
    }
    events.extend(slow.rest(&root, begun["subscription"].as_u64().unwrap()));
    let behind = |record: &Value| record["seq"].as_u64() > begun["seq"].as_u64();
    let written: Vec<Value> = records_up_to(&root, &events).into_iter().filter(behind).collect();
    assert!(events.len() >= 10_000, "{}", events.len());
    assert_eq!(told(&events), written);
    for session in &sessions {
        let of_message = |event: &&Value| event["session_id"] == *session && event["type"] == "message";
        let mut last = std::collections::BTreeMap::new();
        for event in events.iter().filter(of_message) {
            let body = &event["record"]["body"];
            last.insert(text(&body["message"]).to_owned(), body["change"].clone());
        }
        assert_eq!(last.len(), 50);
        assert!(last.values().all(|change| change["delivered"].is_object()), "{last:?}");
    }
}
