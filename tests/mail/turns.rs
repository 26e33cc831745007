//! Session turns, with real programs: a prompt ends one, and the next message goes then and not before, whoever was killed meanwhile.

use std::fs;

use ostler::rpc::method::Method;
use serde_json::{Value, json};

use super::post::client_within;
use super::{message, output, send};
use crate::cli::refused::refused;
use crate::support::scene::text;
use crate::support::{Process, Root, SOON, wait_until};

/// Where a program notes what it got.
const GOT: &str = "got";

/// Python at its prompt, which it writes to standard error.
pub(super) fn python(root: &Root) -> Value {
    let spawned = root.spawn(&["--adapter", "lines", "--prompt", ">>> $", "--name", "py"], &["python3", "-iqu"]);
    root.json(["wait", "py", "--for", "idle"]);
    spawned["id"].clone()
}

/// An expression that python works at until there is a file `go`.
pub(super) fn endless(root: &Root) -> String {
    let go = root.folder().join("go").display().to_string();
    format!(
        "print('begun'); import os, time; _ = [time.sleep(0.01) for _ in iter(lambda: os.path.exists('{go}'), True)]"
    )
}

fn go(root: &Root) {
    fs::write(root.folder().join("go"), "").expect("the folder is ours");
}

pub(super) fn begun(root: &Root, session: &Value) {
    wait_until(SOON, "it to begin", || output(root, session).ends_with("begun\n"));
}

/// A shell that notes each line and shows a prompt; it waits at lines that say so.
fn noting(root: &Root, name: &str) -> Value {
    let [got, go] = [GOT, "go"].map(|name| root.folder().join(name).display().to_string());
    let script = "printf '>'; while read -r line; do echo \"$line\" >> \"$0\"; \
                  if [ \"$line\" = work ]; then until [ -e \"$1\" ]; do sleep 0.01; done; fi; printf '>'; done";
    root.spawn(&["--adapter", "lines", "--prompt", ">", "--name", name], &["sh", "-c", script, &got, &go])["id"].clone()
}

pub(super) fn status(root: &Root, session: &Value) -> String {
    text(&root.session(session)["status"]).to_owned()
}

#[test]
fn a_real_program_gets_one_expression_for_each_prompt() {
    let root = Root::new();
    let session = python(&root);
    assert_eq!(status(&root, &session), "ready");
    let first = send(&root, &session, &endless(&root), &["--wait-for", "delivered"]);
    begun(&root, &session);
    assert_eq!(status(&root, &session), "running");
    let sent: Vec<Value> =
        (1..=4_u64).map(|number| send(&root, &session, &format!("print({number} * 11)"), &[])).collect();
    for (place, sent) in (1..).zip(&sent) {
        assert_eq!((&sent["delivery"], &sent["position"]), (&json!("queued"), &json!(place)), "{sent}");
    }
    refused(&root, &["wait", "py", "--for", "idle", "--timeout", "50ms"], 6, "timeout");
    root.json(["wait", "py", "--for", "ready"]);
    go(&root);
    root.json(["wait", "py", "--for", "idle"]);
    assert_eq!(output(&root, &session), "begun\n11\n22\n33\n44\n", "idle is: the last one has been answered");
    let turn = |of: &Value| message(&root, &of["message"]["id"])["turn"].as_u64().expect("each began a turn");
    let turns: Vec<u64> = std::iter::once(&first).chain(&sent).map(turn).collect();
    assert!(turns.is_sorted_by(|a, b| a < b), "{turns:?}");
    assert_eq!(status(&root, &session), "ready");
}

#[test]
fn a_prompt_that_came_back_while_no_broker_was_there_is_known_to_the_next() {
    let root = Root::new();
    let session = python(&root);
    send(&root, &session, &endless(&root), &["--wait-for", "delivered"]);
    begun(&root, &session);
    send(&root, &session, "print(6 * 7)", &[]);
    root.kill_broker();
    root.ensure();
    wait_until(SOON, "its host to be asked", || root.session(&session)["endpoint"].is_object());
    assert_eq!(status(&root, &session), "running", "the host's word");
    assert_eq!(root.session(&session)["queue"]["messages"], 1);
    root.kill_broker();
    go(&root);
    root.ensure();
    root.json(["wait", "py", "--for", "idle"]);
    assert_eq!(output(&root, &session), "begun\n42\n", "once");
}

#[test]
fn what_is_no_prompt_is_refused_and_nothing_is_started() {
    let root = Root::new();
    for (options, why) in [
        (&["--adapter", "lines", "--prompt", "("][..], "the prompt"),
        (&["--adapter", "lines", "--prompt", "$"], "nothing is written"),
        (&["--prompt", "> "], "adapter lines"),
        (&["--adapter", "inbox", "--prompt", "> "], "adapter lines"),
    ] {
        let arguments = [&["spawn"], options, &["--", "true"]].concat();
        let error = refused(&root, &arguments, 2, "invalid_input");
        assert_eq!(error["data"]["reason"], "prompt");
        assert!(text(&error["message"]).contains(why), "{error}");
    }
    assert_eq!(root.json(["list", "--all"])["sessions"], json!([]));
}

/// A program that tells its turns itself, with its own credential; a broker that was killed knows them as well.
#[test]
fn a_session_tells_its_turns_itself() {
    let root = Root::new();
    let session = root.spawn(&["--adapter", "lines", "--name", "own"], &["cat"])["id"].clone();
    let tell = |event: &str, turn: u64, episode: u32, key: &str| {
        let told = json!({"key": key, "event": event, "turn": turn, "episode": episode});
        client_within(&root, &session).call(Method::SessionTurn, told).unwrap_or_else(|error| panic!("{error:?}"))
    };
    let begun = tell("begin", 1, 1, "k1");
    assert_eq!((&begun["outcome"], &begun["session"]["status"]), (&json!("began"), &json!("running")));
    let sent = send(&root, &session, "waits", &[]);
    assert_eq!((&sent["delivery"], &sent["position"]), (&json!("queued"), &json!(1)));
    root.kill_broker();
    assert_eq!(tell("begin", 1, 1, "k1")["operation"]["replayed"], true);
    for (event, turn, episode, key) in [("end", 0, 1, "k2"), ("end", 1, 2, "k3"), ("begin", 1, 1, "k4")] {
        assert_eq!(tell(event, turn, episode, key)["outcome"], "unchanged", "{key}");
    }
    assert_eq!(output(&root, &session), "");
    assert_eq!(tell("end", 1, 1, "k5")["outcome"], "ended");
    root.json(["wait", "own", "--for", "idle"]);
    wait_until(SOON, "its message", || output(&root, &session) == "waits\n");
    // It is a session's word about itself, and none where its prompt tells.
    let python = python(&root);
    let told = json!({"key": "k", "event": "begin", "turn": 1, "episode": 1});
    let error = client_within(&root, &python).call(Method::SessionTurn, told.clone()).expect_err("its prompt tells");
    assert_eq!(error.code.name(), "capability_missing");
    let error = super::post::client(&root).call(Method::SessionTurn, told).expect_err("the owner is no session");
    assert_eq!(error.code.name(), "denied");
}

/// A session turn that died with its host is over: nothing waits behind it, and what is resumed begins anew.
#[test]
fn field_g01_a_turn_that_died_with_its_process_holds_up_nothing() {
    let root = Root::new();
    let session = noting(&root, "web");
    send(&root, &session, "work", &["--wait-for", "delivered"]);
    let waiting: Vec<Value> = (0..3).map(|number| send(&root, &session, &number.to_string(), &[])).collect();
    wait_until(SOON, "it to be read", || root.lines(GOT) == ["work"]);
    assert_eq!(status(&root, &session), "running");
    let host = root.session(&session)["host_pid"].as_i64().and_then(Process::of).expect("its host lives");
    root.kill_broker();
    host.kill_9();
    root.ensure();
    root.json(["wait", "web"]);
    assert_eq!(status(&root, &session), "failed");
    for sent in &waiting {
        let ended = message(&root, &sent["message"]["id"]);
        assert_eq!((&ended["state"], &ended["reason"]), (&json!("cancelled"), &json!("session_ended")));
    }
    send(&root, &session, "after", &["--resume", "--wait-for", "delivered"]);
    root.json(["wait", "web", "--for", "idle"]);
    assert_eq!(root.lines(GOT), ["work", "after"]);
}

/// Messages that meet the ends of turns: each begins the next one.
#[test]
fn field_g03_a_message_that_meets_the_end_of_a_turn_begins_the_next() {
    let root = Root::new();
    let session = noting(&root, "web");
    let words: Vec<String> = (0..60).map(|number: u32| number.to_string()).collect();
    for word in &words {
        send(&root, &session, word, &[]);
    }
    root.json(["wait", "web", "--for", "idle"]);
    assert_eq!(root.lines(GOT), words);
    let sent = root.json(["message", "list", text(&session)])["messages"].clone();
    let turns: Vec<u64> = sent.as_array().expect("a list").iter().filter_map(|of| of["turn"].as_u64()).collect();
    assert!(turns.len() == words.len() && turns.is_sorted_by(|a, b| a > b), "a turn each, newest first: {turns:?}");
}

/// Cut off in the middle of a turn three times: what is taken afterwards waits for none of them.
#[test]
fn field_g12_a_turn_that_was_cut_off_counts_as_nothing_that_waits() {
    let root = Root::new();
    let session = noting(&root, "web");
    for round in 1..=3 {
        send(&root, &session, "work", &["--resume", "--wait-for", "delivered"]);
        wait_until(SOON, "it to be read", || root.lines(GOT).len() == round);
        let host = root.session(&session)["host_pid"].as_i64().and_then(Process::of).expect("its host lives");
        root.kill_broker();
        host.kill_9();
        root.ensure();
        root.json(["wait", "web"]);
    }
    for word in ["one", "two"] {
        send(&root, &session, word, &["--resume", "--wait-for", "delivered"]);
        root.json(["wait", "web", "--for", "idle"]);
        assert_eq!(root.session(&session)["queue"]["messages"], 0);
    }
    assert_eq!(root.lines(GOT), ["work", "work", "work", "one", "two"]);
}

/// Who asked was killed in its turn: an answer to that is late, once and for all, and the next life is written to as any other.
#[test]
fn field_g17_what_was_asked_ends_with_the_process_that_asked() {
    let root = Root::new();
    let session = root.spawn(&["--adapter", "lines", "--name", "own"], &["cat"])["id"].clone();
    let tell = |event: &str, episode: u32, key: &str| {
        let told = json!({"key": key, "event": event, "turn": 1, "episode": episode});
        client_within(&root, &session).call(Method::SessionTurn, told).unwrap_or_else(|error| panic!("{error:?}"))
    };
    assert_eq!(tell("begin", 1, "k1")["outcome"], "began");
    root.session(&session)["pid"].as_i64().and_then(Process::of).expect("its command lives").kill_9();
    root.json(["wait", "own"]);
    refused(&root, &["send", "own", "an answer"], 4, "session_terminal");
    root.json(["resume", "own"]);
    assert_eq!(status(&root, &session), "ready", "the turn ended with its episode");
    for key in ["k2", "k3"] {
        assert_eq!(tell("end", 1, key)["outcome"], "unchanged");
    }
    assert_eq!(tell("begin", 1, "k4")["outcome"], "unchanged", "nor does it begin anything in the next one");
    send(&root, &session, "works again", &["--wait-for", "delivered"]);
    wait_until(SOON, "its message", || output(&root, &session) == "works again\n");
}
