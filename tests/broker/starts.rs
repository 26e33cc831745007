//! A start that fails or dies on its way says where, publishes nothing, and is no obstacle for the next.

use serde_json::{Value, json};

use crate::support::scene::text;
use crate::support::{Process, Root, SOON, finish, wait_until};

const FAIL: &str = "OSTLER_TEST_FAIL";
/// The points of a start that can be made to fail, with the stage that is named then.
const POINTS: [(&str, &str); 3] =
    [("start.generation", "generation"), ("start.beat", "beat"), ("start.publish", "publish")];

fn error_of(root: &Root, point: &str, act: &str) -> Value {
    let mut ensure = root.command(["ensure", "--json"]);
    let output = finish(ensure.env(FAIL, format!("{point}={act}")), b"");
    assert!([Some(1), Some(5)].contains(&output.code()), "{output:?}");
    output.json()["error"].clone()
}

fn nothing_is_published(root: &Root) {
    assert!(!root.path().join("broker.json").exists());
    // It reports, then it goes.
    wait_until(SOON, "the starter to be gone", || root.brokers().is_empty());
    assert_eq!(root.json(["status"])["state"], "absent");
}

#[test]
fn a_start_that_fails_at_any_point_says_where_and_is_no_obstacle() {
    let root = Root::new();
    let session = root.spawn_fixture(&[], "sleep");
    for (point, stage) in POINTS {
        root.kill_broker();
        let error = error_of(&root, point, "error");
        assert_eq!((&error["code"], &error["data"]["stage"]), (&json!("storage_failed"), &json!(stage)), "{error}");
        assert!(text(&error["message"]).contains(&format!("`{stage}`")));
        nothing_is_published(&root);
        assert_eq!(root.json(["ensure"])["started"], true);
        assert_eq!(root.session_becomes(&session["id"], "ready")["pid"], session["pid"]);
    }
}

#[test]
fn a_start_that_dies_at_any_point_says_how_and_where_and_is_no_obstacle() {
    let root = Root::new();
    let session = root.spawn_fixture(&[], "sleep");
    for (point, stage) in POINTS {
        root.kill_broker();
        let error = error_of(&root, point, "kill");
        let data = &error["data"];
        assert_eq!((&error["code"], &data["reason"]), (&json!("broker_unreachable"), &json!("died")), "{error}");
        assert_eq!(data["stage"], stage);
        assert!(text(&data["exit_status"]).contains("SIGKILL"), "{error}");
        nothing_is_published(&root);
        assert_eq!(root.json(["ensure"])["started"], true);
        assert_eq!(root.session_becomes(&session["id"], "ready")["pid"], session["pid"]);
    }
    assert!(Process::of_value(&session["pid"]).alive());
}

/// A client that gives up early neither ends the starter nor leaves it without a report: the start goes on by itself.
#[test]
fn a_start_outlives_the_client_that_asked_for_it() {
    let root = Root::new();
    let mut ensure = root.command(["ensure", "--json", "--timeout", "1s"]);
    let late = finish(ensure.env(FAIL, "start.beat=pause:3000"), b"").exits(6);
    let error = late.json()["error"].clone();
    assert_eq!((&error["code"], &error["data"]["stage"]), (&json!("timeout"), &json!("beat")), "{error}");
    let starter = root.brokers();
    assert_eq!(starter.len(), 1, "it is still at it");
    // The next client waits for it instead of starting another one.
    let report = root.json(["ensure", "--timeout", "60s"]);
    assert_eq!((&report["started"], &report["broker"]["pid"]), (&json!(false), &json!(starter[0].pid)));
}
