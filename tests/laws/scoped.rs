//! Law 8: uncertainty, corruption and failure touch only the session they name.

use std::fs;

use serde_json::{Value, json};

use crate::support::scene::text;
use crate::support::{Process, Root, SOON, wait_until};

#[test]
fn law_08_a_refused_delete_hinders_no_other() {
    let root = Root::new();
    let live = root.spawn_fixture(&["--name", "x"], "sleep");
    let ended = root.spawn_fixture(&["--name", "y"], "exit 0");
    root.json(["wait", "y"]);
    let output = root.ostler(["--json", "delete", "x", "y"]).exits(4);
    let told = output.json_lines();
    assert_eq!(told.len(), 2);
    assert_eq!((&told[0]["error"]["code"], &told[1]["session"]["status"]), (&json!("session_live"), &json!("deleted")));
    assert_eq!(told[1]["session"]["id"], ended["id"]);
    assert!(Process::of_value(&live["pid"]).alive());
    assert_eq!(root.names("sessions"), [text(&live["id"])]);
    // What was refused can be done properly.
    assert_eq!(root.json(["delete", "x", "--stop"])["session"]["status"], "deleted");
    assert_eq!(root.names("sessions"), [""; 0]);
}

/// A session that takes its time to stop keeps nobody waiting.
#[test]
fn law_08_a_session_that_is_being_stopped_holds_up_no_other() {
    let root = Root::new();
    let deaf = root.spawn_fixture(&["--name", "deaf"], "ignore-term -- say up -- until go");
    let logs = || root.ostler(["logs", "deaf"]).exits(0).text();
    wait_until(SOON, "it to be deaf", || logs() == "up\n");
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| root.json(["stop", "deaf", "--grace", "2m"]));
        root.session_becomes(&deaf["id"], "stopping");
        let other = root.spawn_fixture(&["--name", "other"], "sleep");
        assert_eq!(root.json(["delete", "other", "--stop"])["session"]["id"], other["id"]);
        // All of that came while the first one was still being stopped.
        assert_eq!(root.session(&deaf["id"])["status"], "stopping");
        let refused = root.ostler(["--json", "resume", "deaf"]).exits(4);
        assert_eq!(refused.error_code(), "session_stopping");
        fs::write(root.folder().join("go"), "").unwrap();
        let stopped: Value = stopping.join().unwrap();
        assert_eq!(
            (&stopped["session"]["status"], &stopped["session"]["exit"]),
            (&json!("stopped"), &json!({"code": 0}))
        );
    });
}

/// A session without its spec is shown without command, and hides no other.
#[test]
fn law_08_a_session_whose_files_are_gone_hides_no_other() {
    let root = Root::new();
    let broken = root.spawn_fixture(&[], "sleep");
    let whole = root.spawn_fixture(&[], "sleep");
    fs::remove_file(root.path().join("sessions").join(text(&broken["id"])).join("spec.json")).unwrap();
    root.kill_broker();
    root.ensure();
    let sessions = root.json(["list"])["sessions"].clone();
    assert_eq!((&sessions[0]["id"], &sessions[0]["command"]), (&broken["id"], &json!([])));
    assert_eq!((&sessions[1]["id"], &sessions[1]["command"]), (&whole["id"], &whole["command"]));
    assert_eq!(sessions[0]["pid"], broken["pid"], "it lives all the same");
    root.session_becomes(&broken["id"], "ready");
    assert_eq!(root.json(["stop", text(&broken["id"])])["session"]["status"], "stopped");
    // It cannot be started again, and says why; that is its own loss.
    let refused = root.ostler(["--json", "resume", text(&broken["id"])]).exits(1);
    assert!(refused.json()["error"]["message"].as_str().unwrap().contains("spec"), "{refused:?}");
    assert_eq!(root.session(&broken["id"])["status"], "stopped", "an aborted resume leaves it as it was");
    assert_eq!(root.session(&whole["id"])["status"], "ready");
}
