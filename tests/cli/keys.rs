//! Keys over time: outcomes that the broker no longer keeps in memory, and keys that are too old to be known.

use super::wire::Wire;
use crate::support::Root;
use serde_json::{Value, json};

/// More operations than the broker keeps in full (docs/CONTRACT.md, section 4).
const MANY: u64 = 1_010;
/// Requests that are in flight at once.
const AT_ONCE: u64 = 50;

/// A UUIDv7 of now.
fn key(number: u64) -> String {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
    format!("{:08x}-{:04x}-7000-8000-{number:012x}", now >> 16, now & 0xffff)
}

/// Stops of a session that has ended, each with a key of its own; the answers in order.
pub(super) fn stops(wire: &mut Wire, session: &Value) -> Vec<Value> {
    let mut answers = Vec::new();
    for from in (0..MANY).step_by(usize::try_from(AT_ONCE).unwrap()) {
        let numbers = from..(from + AT_ONCE).min(MANY);
        for id in numbers.clone() {
            let params = json!({"session": session, "key": key(id)});
            let request = json!({"jsonrpc": "2.0", "id": id + 1_000, "method": "session.stop", "params": params});
            wire.send(format!("{request}\n").as_bytes());
        }
        let mut heard: Vec<Value> = numbers.map(|_| wire.hear().expect("an answer")).collect();
        heard.sort_by_key(|answer| answer["id"].as_u64());
        answers.extend(heard.into_iter().map(|answer| answer["result"]["operation"].clone()));
    }
    answers
}

#[test]
fn an_outcome_that_is_no_longer_in_memory_is_read_back_from_the_ledger() {
    let root = Root::new();
    let session = root.json(["spawn", "--key", "first", "--name", "web", "--", "true"]);
    root.json(["wait", "web"]);
    let first = session["operation"].clone();
    let stopped = stops(&mut Wire::hello(&root), &session["session"]["id"]);
    assert_eq!(stopped.len(), usize::try_from(MANY).unwrap());
    for restarted in [false, true] {
        let mut wire = Wire::hello(&root);
        let listed = wire.ask("operation.list", json!({"limit": 1_000}));
        let listed = listed["result"]["operations"].as_array().unwrap();
        assert!(listed.iter().all(|operation| operation["id"] != first["id"]), "it is let go");
        for given in ["first", first["id"].as_str().unwrap()] {
            assert_eq!(root.json(["operation", "show", given])["operation"], first, "restarted: {restarted}");
        }
        let again = |stop: &Value, grace: Value| {
            let mut params = json!({"session": session["session"]["id"], "key": stop["key"]});
            params.as_object_mut().unwrap().extend(grace.as_object().unwrap().clone());
            Wire::hello(&root).ask("session.stop", params)
        };
        let answer = again(&stopped[3], json!({}));
        let mut told = answer["result"]["operation"].clone();
        assert_eq!(told["replayed"], true, "{answer}");
        told["replayed"] = json!(false);
        assert_eq!(told, stopped[3], "the same id, position and digest");
        let other = again(&stopped[3], json!({"grace_ms": 1}));
        assert_eq!(other["error"]["data"]["code"], "key_conflict", "{other}");
        // A start whose episode is over is not claimed to be there.
        let again = root.ostler(["--json", "spawn", "--key", "first", "--name", "web", "--", "true"]).exits(4).json();
        assert_eq!(again["error"]["code"], "endpoint_stale");
        assert_eq!(again["error"]["data"]["result"]["operation"]["id"], first["id"]);
        let output = root.ostler(["--json", "operation", "resolve", "first", "failed", "--reason", "r"]).exits(4);
        assert_eq!(output.error_code(), "too_late");
        root.json(["shutdown"]);
    }
}

#[test]
fn a_uuid_from_before_the_window_is_refused_and_nothing_is_done() {
    let root = Root::new();
    let old = "01890000-0000-7000-8000-000000000001";
    let output = root.ostler(["--json", "spawn", "--name", "web", "--key", old, "--", "true"]).exits(4);
    let error = output.json()["error"].clone();
    assert_eq!((&error["code"], &error["retry"]), (&json!("key_expired"), &json!("never")), "{error}");
    assert!(error["data"]["known_since"].is_string(), "{error}");
    assert_eq!(root.ostler(["--json", "show", "web"]).exits(3).error_code(), "not_found");
    let text = root.ostler(["spawn", "--name", "web", "--key", old, "--", "true"]).exits(4);
    assert!(text.error_text().contains("no longer known; nothing was done"), "{}", text.error_text());
    // A key of another kind tells no age.
    root.json(["spawn", "--name", "web", "--key", "old", "--", "true"]);
}
