//! How many children a session may have, and how deep a family may be, as the sessions meet it.

use crate::support::scene::text;
use crate::support::{FIXTURE, Output, Process, Root};
use serde_json::{Value, json};

use super::credentials::inside;

fn child(root: &Root, parent: &Value) -> Output {
    inside(root, parent, &["spawn", "--", FIXTURE, "sleep"])
}

/// What a refusal says of itself: its code, its finer word, whether to try again, and to a person.
fn refused(output: Output, retry: &str) -> (Value, String) {
    let error = output.exits(9).json()["error"].clone();
    assert_eq!((&error["code"], &error["retry"]), (&json!("capacity"), &json!(retry)), "{error}");
    (error["data"].clone(), text(&error["message"]).to_owned())
}

#[test]
fn a_session_that_has_all_its_children_starts_no_more_until_one_ends() {
    let root = Root::with_variable("OSTLER_LIVE_CHILDREN", "2");
    let parent = root.spawn_fixture(&["--name", "parent"], "sleep");
    let children = [child(&root, &parent), child(&root, &parent)].map(|made| made.exits(0).json()["session"].clone());
    let (data, message) = refused(child(&root, &parent), "later");
    assert_eq!((&data["reason"], &data["limit"]), (&json!("spawn_limit"), &json!(2)));
    assert!(message.contains("limit of 2 live children") && message.contains("ostler stop"), "{message}");
    // The owner's own are not counted, and what was refused left nothing.
    root.spawn_fixture(&[], "sleep");
    assert_eq!(root.json(["list", "--all"])["sessions"].as_array().unwrap().len(), 4);
    let first = text(&children[0]["id"]);
    inside(&root, &parent, &["stop", first]).exits(0);
    let third = child(&root, &parent).exits(0).json()["session"].clone();
    // The one that ended has no place any more, whoever asks, and a message starts it no more than a resume; also with the next broker.
    root.kill_broker();
    let (data, message) = refused(inside(&root, &parent, &["resume", first]), "later");
    assert_eq!((&data["reason"], &data["session_id"]), (&json!("spawn_limit"), &parent["id"]), "{message}");
    for arguments in [&["resume", first][..], &["send", first, "x", "--resume"]] {
        let output = root.ostler(["--json"].iter().chain(arguments));
        let (data, message) = refused(output, "later");
        assert_eq!(data["session_id"], parent["id"], "{message}");
        assert!(message.contains("live_children"), "{message}");
    }
    assert_eq!(root.session(&children[0]["id"])["status"], "stopped");
    inside(&root, &parent, &["stop", text(&third["id"])]).exits(0);
    assert_eq!(root.json(["resume", first])["session"]["status"], "ready");
}

#[test]
fn a_family_is_as_deep_as_may_be_and_no_deeper() {
    let root = Root::with_variable("OSTLER_FAMILY_DEPTH", "2");
    let parent = root.spawn_fixture(&["--name", "parent"], "sleep");
    let second = child(&root, &parent).exits(0).json()["session"].clone();
    // With its parent forgotten it stands no higher.
    root.json(["delete", "parent", "--stop"]);
    let (data, message) = refused(child(&root, &second), "never");
    assert_eq!((&data["reason"], &data["limit"]), (&json!("depth_limit"), &json!(2)));
    assert!(message.contains("family_depth"), "{message}");
    assert!(Process::of_value(&second["pid"]).alive());
}
