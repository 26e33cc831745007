//! What a session may do with its credential: start children and end them; of others it learns not even that they exist.

use std::process::Command;

use serde_json::{Value, json};

use crate::cli::wire::Wire;
use crate::support::scene::{spawning, text};
use crate::support::{FIXTURE, OSTLER, Output, Process, Root, SOON, finish, wait_until};

/// The product as a session of this root runs it.
pub(super) fn inside(root: &Root, session: &Value, arguments: &[&str]) -> Output {
    let mut command: Command = root.command(["--json"]);
    command.args(arguments).env("OSTLER_SESSION", text(&session["id"]));
    command.env("OSTLER_CREDENTIAL", root.path().join("sessions").join(text(&session["id"])).join("credential"));
    finish(&mut command, b"")
}

fn sleeper(root: &Root, name: &str) -> Value {
    root.spawn_fixture(&["--name", name], "sleep")
}

#[test]
fn a_command_reaches_the_broker_as_its_session_and_starts_a_child() {
    let root = Root::new();
    let script =
        format!("{OSTLER} --json spawn --name child -- {FIXTURE} sleep && {OSTLER} --json list && exec sleep 1000");
    let parent = root.spawn(&["--name", "parent"], &["sh", "-c", &script]);
    let mut told = Vec::new();
    wait_until(SOON, "it to have spoken", || {
        told = root.ostler(["logs", "parent"]).exits(0).json_lines();
        told.len() == 2
    });
    let child = &told[0]["session"];
    assert_eq!((&child["name"], &child["parent"]), (&json!("child"), &parent["id"]));
    // The child is in no way its parent's process: it has a host of its own.
    assert_ne!(child["host_pid"], parent["host_pid"]);
    let seen: Vec<&Value> = told[1]["sessions"].as_array().unwrap().iter().map(|session| &session["id"]).collect();
    assert_eq!(seen, [&parent["id"], &child["id"]]);
    // It outlives its parent, as any session.
    root.json(["stop", "parent"]);
    assert!(Process::of_value(&child["pid"]).alive());
}

#[test]
fn a_session_ends_its_children_and_nobody_else() {
    let root = Root::new();
    let (a, b) = (sleeper(&root, "a"), sleeper(&root, "b"));
    let child =
        inside(&root, &a, &["spawn", "--name", "child", "--", FIXTURE, "sleep"]).exits(0).json()["session"].clone();
    let grandchild = inside(&root, &child, &["spawn", "--", FIXTURE, "sleep"]).exits(0).json()["session"].clone();
    for other in [&b, &grandchild] {
        for verb in ["stop", "resume", "delete", "show", "logs", "wait"] {
            inside(&root, &a, &[verb, text(&other["id"])]).exits(3);
        }
    }
    // Itself it may look at, and no more.
    for verb in ["stop", "resume", "delete"] {
        let denied = inside(&root, &a, &[verb, text(&a["id"])]).exits(7);
        assert_eq!(
            (denied.error_code().as_str(), &denied.json()["error"]["data"]["reason"]),
            ("denied", &json!("itself"))
        );
    }
    let unknown = inside(&root, &a, &["show", "b"]).exits(3);
    assert!(unknown.text().contains(&format!("you act as session {}", text(&a["id"]))), "{unknown:?}");
    assert_eq!(inside(&root, &a, &["show", "a"]).exits(0).json()["session"]["id"], a["id"]);
    assert!([&a, &b, &child, &grandchild].iter().all(|session| Process::of_value(&session["pid"]).alive()));
    let list = inside(&root, &a, &["list", "--all"]).exits(0).json();
    let seen: Vec<&Value> = list["sessions"].as_array().unwrap().iter().map(|session| &session["id"]).collect();
    assert_eq!(seen, [&a["id"], &child["id"]]);
    let operations = inside(&root, &a, &["operation", "list"]).exits(0).json();
    assert_eq!(operations["operations"].as_array().unwrap().len(), 1, "its own: the spawn");
    let stopped = inside(&root, &a, &["stop", "child"]).exits(0).json();
    assert_eq!(stopped["session"]["status"], "stopped");
    assert_eq!(inside(&root, &a, &["resume", "child"]).exits(0).json()["session"]["status"], "ready");
    assert_eq!(inside(&root, &a, &["delete", "child", "--stop"]).exits(0).json()["session"]["status"], "deleted");
    // Whoever's child it was, it goes on.
    assert!(Process::of_value(&grandchild["pid"]).alive());
}

/// The text of a refusal with what was asked for taken out: what it says beyond that.
fn said(output: &Output, asked: &str) -> Value {
    let mut error = output.json()["error"].clone();
    // Drawn anew for each request.
    error["data"].as_object_mut().expect("an object").remove("key");
    let message = text(&error["message"]).replace(&format!("{asked:?}"), "X");
    error["message"] = json!(message);
    for (_, value) in error["data"].as_object_mut().expect("an object") {
        if *value == asked {
            *value = json!("X");
        }
    }
    error
}

#[test]
fn of_others_a_session_is_told_what_it_is_told_of_nobody() {
    let root = Root::new();
    // No name is as short as what is cut from an id below: of a name, the first letter of an id could be the whole.
    let (a, other) = (sleeper(&root, "itself"), sleeper(&root, "other-one"));
    sleeper(&root, "third");
    let id = text(&other["id"]);
    let asked = [id, "other-one", &id[..3], &id[..1]];
    // As long as those, and fitting nothing: of six letters one at least begins none of three ids.
    let listed = root.json(["list"]);
    let begins =
        |letter: &&str| listed["sessions"].as_array().unwrap().iter().any(|of| text(&of["id"]).starts_with(*letter));
    let free = ["2", "3", "4", "5", "6", "7"].into_iter().find(|letter| !begins(letter)).unwrap();
    let (free_three, begins_own) = (free.repeat(3), text(&a["id"]).starts_with(&id[..1]));
    let nobody = ["aaaa2222aaaa", "other-two", &free_three, free];
    // Where its own id begins like the other's, that letter is its own name.
    for (asked, nobody) in asked.into_iter().zip(nobody).take(if begins_own { 3 } else { 4 }) {
        for verb in ["show", "logs", "wait", "stop", "resume", "delete"] {
            let ask = |of: &str| inside(&root, &a, &[verb, of]);
            let (denied, unknown) = (ask(asked), ask(nobody));
            assert_eq!(denied.code(), Some(3), "{denied:?}");
            assert_eq!(said(&denied, asked), said(&unknown, nobody), "{verb} {asked}");
        }
    }
    // The name is taken, by whom is not said.
    let taken = inside(&root, &a, &["spawn", "--name", "other-one", "--", "true"]).exits(4);
    assert_eq!(taken.error_code(), "session_exists");
    assert!(!taken.text().contains(id), "{taken:?}");
    // Operations of others are as unknown.
    let operations = root.json(["operation", "list"])["operations"].clone();
    let theirs = text(&operations[1]["id"]);
    let by_key = text(&operations[1]["key"]);
    for (asked, nobody) in [(theirs, "op-999"), (by_key, "no-such-key")] {
        let (denied, unknown) =
            (inside(&root, &a, &["operation", "show", asked]), inside(&root, &a, &["operation", "show", nobody]));
        assert_eq!(said(&denied.exits(3), asked), said(&unknown, nobody));
        let resolve = |of: &str| inside(&root, &a, &["operation", "resolve", of, "failed", "--reason", "r"]);
        assert_eq!(
            (resolve(asked).code(), said(&resolve(asked), asked)),
            (resolve(nobody).code(), said(&resolve(nobody), nobody))
        );
    }
    assert_eq!(root.session(&other["id"])["status"], "ready");
}

#[test]
fn what_is_the_owners_alone_is_denied_to_a_session() {
    let root = Root::new();
    let a = sleeper(&root, "a");
    for arguments in [&["shutdown"][..], &["shutdown", "--stop-sessions"], &["prune"], &["prune", "--dry-run"]] {
        let denied = inside(&root, &a, arguments);
        assert_eq!((denied.code(), denied.error_code().as_str()), (Some(7), "denied"), "{denied:?}");
    }
    assert_eq!(root.session(&a["id"])["status"], "ready");
}

/// A key of one session is not a key of another or of the owner.
#[test]
fn keys_belong_to_their_callers() {
    let root = Root::new();
    let (a, b) = (sleeper(&root, "a"), sleeper(&root, "b"));
    let spawn = ["spawn", "--key", "k", "--", FIXTURE, "sleep"];
    let of_a = inside(&root, &a, &spawn).exits(0).json();
    let of_b = inside(&root, &b, &spawn).exits(0).json();
    let owners = root.json(spawning(&["--key", "k"], &[FIXTURE, "sleep"]));
    for made in [&of_a, &of_b, &owners] {
        assert_eq!(made["operation"]["replayed"], false);
    }
    assert_eq!(inside(&root, &a, &spawn).exits(0).json()["session"]["pid"], of_a["session"]["pid"]);
    assert_eq!(owners["session"]["parent"], Value::Null);
}

#[test]
fn a_wrong_or_stale_credential_is_no_credential() {
    let root = Root::new();
    let (a, b) = (sleeper(&root, "a"), sleeper(&root, "b"));
    let path = |session: &Value| root.path().join("sessions").join(text(&session["id"])).join("credential");
    let refused = |credential: &std::path::Path| {
        let mut command = root.command(["list", "--json"]);
        let output = finish(command.env("OSTLER_CREDENTIAL", credential), b"").exits(7);
        assert_eq!(output.error_code(), "unauthenticated");
    };
    let forged = root.folder().join("forged");
    let mine = std::fs::read_to_string(path(&a)).unwrap();
    let secret = mine.split_once('.').unwrap().1.to_owned();
    for text in [
        format!("{}.{secret}", text(&b["id"])),
        format!("{}.", text(&a["id"])),
        "x".to_owned(),
        ".".to_owned(),
        String::new(),
    ] {
        std::fs::write(&forged, text).unwrap();
        refused(&forged);
    }
    // That of a deleted session is nobody's.
    std::fs::copy(path(&a), &forged).unwrap();
    root.json(["delete", "a", "--stop"]);
    refused(&forged);
    refused(&path(&a));
}

/// A connection that was made before is worth no more than the credential: its session is gone, and with it whoever could be asked.
#[test]
fn a_connection_as_a_session_ends_with_the_session() {
    let root = Root::new();
    let a = sleeper(&root, "a");
    let credential = std::fs::read_to_string(root.path().join("sessions").join(text(&a["id"])).join("credential"));
    let mut wire = Wire::dial(&root);
    let hello = json!({"protocol": {"min": 1, "max": 1}, "client": {"name": "a", "version": "1"}, "as": "session",
        "token": credential.unwrap().trim_end()});
    let hello = wire.ask("hello", hello);
    assert_eq!(hello["result"]["identity"]["session_id"], a["id"]);
    let spawn = |key: &str| json!({"key": key, "command": ["sleep", "1000"], "cwd": "/"});
    let child = wire.ask("session.spawn", spawn("1"))["result"]["session"].clone();
    root.json(["delete", "a", "--stop"]);
    let calls = [
        ("session.spawn", spawn("2")),
        ("session.stop", json!({"key": "3", "session": child["id"]})),
        ("session.list", json!({})),
    ];
    for (method, params) in calls {
        let answer = wire.ask(method, params);
        assert_eq!(answer["error"]["data"]["code"], "unauthenticated", "{method}: {answer}");
    }
    // Its child is nobody's business but the owner's now.
    let sessions = root.json(["list"])["sessions"].clone();
    assert_eq!(sessions.as_array().map(Vec::len), Some(1), "{sessions}");
    assert_eq!((&sessions[0]["id"], &sessions[0]["status"]), (&child["id"], &json!("ready")));
}
