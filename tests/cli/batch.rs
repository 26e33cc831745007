//! Several sessions at a time: one document each, in order; a failure hinders no other; the worst decides the exit code.

use crate::support::{FIXTURE, Process, Root};
use serde_json::Value;

fn three(root: &Root) -> Vec<Process> {
    let spawn = |name| root.json(["spawn", "--name", name, "--label", "set=s", "--", "sleep", "1000"]);
    ["a", "b", "c"].into_iter().map(|name| Process::of_value(&spawn(name)["session"]["pid"])).collect()
}

/// The name of each session, or the code of each error, in order.
fn names(documents: &[Value]) -> Vec<&Value> {
    let name = |document: &Value| if document["error"].is_null() { "/session/name" } else { "/error/code" };
    documents.iter().map(|document| document.pointer(name(document)).unwrap_or(&Value::Null)).collect()
}

#[test]
fn a_batch_goes_on_after_a_failure() {
    let root = Root::new();
    let processes = three(&root);
    let output = root.ostler(["--json", "stop", "c", "none", "a", "b"]).exits(3);
    assert_eq!(names(&output.json_lines()), ["c", "not_found", "a", "b"], "in the order in which they were named");
    assert!(processes.iter().all(|process| !process.alive()));
    let output = root.ostler(["--json", "delete", "a", "b"]).exits(0);
    assert_eq!(names(&output.json_lines()), ["a", "b"]);
    assert_eq!(root.json(["list"])["sessions"].as_array().unwrap().len(), 1);
}

#[test]
fn a_label_selects_and_one_key_is_for_one_session() {
    let root = Root::new();
    let processes = three(&root);
    let output = root.ostler(["--json", "stop", "a", "b", "--key", "k"]).exits(2);
    assert_eq!(output.error_code(), "invalid_input");
    assert!(processes.iter().all(|process| process.alive()), "nothing was done");
    root.json(["stop", "b"]);
    let stopped = root.ostler(["--json", "stop", "--label", "set=s"]).exits(0).json_lines();
    assert_eq!(stopped.len(), 2, "what has ended needs no stop");
    assert_eq!(root.ostler(["--json", "resume", "a", "b", "c"]).exits(0).json_lines().len(), 3);
    assert_eq!(root.ostler(["--json", "delete", "--label", "set=s"]).exits(4).json_lines().len(), 3);
    assert_eq!(root.ostler(["--json", "delete", "--stop", "--label", "set=s"]).exits(0).json_lines().len(), 3);
    let nobody = root.ostler(["--json", "delete", "--label", "set=s"]).exits(0);
    assert!(nobody.stdout.is_empty(), "{nobody:?}");
}

#[test]
fn the_graces_of_a_batch_pass_together() {
    let root = Root::new();
    let stubborn = |_| {
        let session =
            root.json(["spawn", "--label", "set=s", "--", FIXTURE, "ignore-term", "--", "say", "up", "--", "sleep"]);
        let id = session["session"]["id"].as_str().unwrap().to_owned();
        crate::support::wait_until(crate::support::SOON, "it to ignore TERM", || {
            root.ostler(["logs", &id]).text() == "up\n"
        });
    };
    (0..8).for_each(stubborn);
    // One after the other they would need 16 s, and the deadline is that of the whole command.
    let output = root.ostler(["--json", "--timeout", "15s", "stop", "--label", "set=s", "--grace", "2s"]).exits(0);
    let documents = output.json_lines();
    assert_eq!(documents.len(), 8);
    assert!(documents.iter().all(|document| document["session"]["exit"]["signal"] == "SIGKILL"), "{output:?}");
}
