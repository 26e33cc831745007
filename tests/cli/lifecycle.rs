//! From spawn to prune, as documents of the contract.

use crate::support::{Process, Root};
use serde_json::Value;

#[test]
fn ensure_starts_once_and_no_start_never() {
    let root = Root::new();
    let output = root.ostler(["--json", "--no-start", "list"]).exits(5);
    assert_eq!(output.error_code(), "broker_unreachable");
    assert!(!root.path().exists(), "nothing was made");
    let first = root.json(["ensure"]);
    let second = root.json(["ensure"]);
    assert_eq!((&first["schema"], &first["started"], &second["started"]), (&1.into(), &true.into(), &false.into()));
    assert_eq!(first["broker"], second["broker"]);
    root.ostler(["--no-start", "list"]).exits(0);
}

#[test]
fn a_session_from_spawn_to_delete() {
    let root = Root::new();
    let spawned = root.json(["spawn", "--name", "web", "--label", "a=1", "--key", "k1", "--", "sleep", "1000"]);
    let session = &spawned["session"];
    let process = Process::of_value(&session["pid"]);
    assert_eq!(
        (&session["status"], &session["episode"], &session["name"]),
        (&"ready".into(), &1.into(), &"web".into())
    );
    assert_eq!(session["command"], serde_json::json!(["sleep", "1000"]));
    assert_eq!(session["labels"], serde_json::json!({"a": "1"}));
    let operation = &spawned["operation"];
    assert_eq!(
        (&operation["key"], &operation["state"], &operation["replayed"]),
        (&"k1".into(), &"succeeded".into(), &false.into())
    );
    let id = session["id"].as_str().unwrap();

    for name in [id, "web", &id[..6]] {
        assert_eq!(root.json(["show", name])["session"]["id"], *id, "{name}");
    }
    let refused = root.ostler(["--json", "delete", "web"]).exits(4);
    assert_eq!(refused.error_code(), "session_live");
    assert_eq!(root.ostler(["--json", "wait", "web", "--timeout", "100ms"]).exits(6).error_code(), "timeout");
    assert_eq!(root.json(["wait", "web", "--for", "ready"])["session"]["id"], *id);

    let stopped = root.json(["stop", "web"]);
    assert_eq!(
        (&stopped["session"]["status"], &stopped["session"]["exit"]["signal"]),
        (&"stopped".into(), &"SIGTERM".into())
    );
    assert_eq!(stopped["survivors"], serde_json::json!([]));
    assert!(!process.alive());
    assert_eq!(root.json(["stop", "web"])["session"]["status"], "stopped", "stop of an ended session is done");
    assert_eq!(root.json(["wait", "web"])["session"]["status"], "stopped");

    let resumed = root.json(["resume", "web"]);
    assert_eq!(resumed["session"]["episode"], 2);
    let shown = root.json(["show", "web"]);
    let kinds: Vec<&Value> =
        shown["operations"].as_array().unwrap().iter().map(|operation| &operation["kind"]).collect();
    assert_eq!(kinds, ["session.resume", "session.stop", "session.stop", "session.spawn"], "newest first");
    assert_eq!(root.json(["delete", "--stop", "web"])["session"]["status"], "deleted");
    assert_eq!(root.ostler(["--json", "show", "web"]).exits(3).error_code(), "not_found");
    assert_eq!(root.json(["operation", "show", "k1"])["operation"]["kind"], "session.spawn");
    // The name is free again.
    root.ostler(["run", "--name", "web", "--", "true"]).exits(0);
}

#[test]
fn an_operation_that_is_settled_cannot_be_resolved() {
    let root = Root::new();
    root.json(["spawn", "--key", "k", "--", "true"]);
    let output = root.ostler(["--json", "operation", "resolve", "k", "failed", "--reason", "I know"]).exits(4);
    assert_eq!(output.error_code(), "too_late");
    assert_eq!(root.ostler(["--json", "operation", "show", "none"]).exits(3).error_code(), "not_found");
}

#[test]
fn a_list_is_filtered_and_comes_in_pages() {
    let root = Root::new();
    for (name, label) in [("a", "kind=x"), ("b", "kind=y"), ("c", "kind=x")] {
        root.json(["spawn", "--name", name, "--label", label, "--", "true"]);
        root.json(["wait", name]);
    }
    let names = |arguments: &[&str]| -> Vec<String> {
        let listed = root.json(std::iter::once(&"list").chain(arguments));
        listed["sessions"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&[]).len(), 3);
    assert_eq!(names(&["--label", "kind=x"]).len(), 2);
    assert_eq!(names(&["--label", "kind=x", "--label", "other=1"]), [""; 0]);
    assert_eq!(names(&["--status", "failed"]), [""; 0]);
    assert_eq!(names(&["--status", "failed", "--status", "exited"]).len(), 3);

    let mut seen = Vec::new();
    let mut page = root.json(["list", "--limit", "1"]);
    loop {
        seen.extend(page["sessions"].as_array().unwrap().iter().map(|session| session["id"].to_string()));
        let Some(cursor) = page["next"].as_str().map(str::to_owned) else { break };
        page = root.json(["list", "--limit", "1", "--cursor", &cursor]);
    }
    assert_eq!(seen.len(), 3);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 3, "no session comes twice");
    assert_eq!(root.ostler(["--json", "list", "--cursor", "gone"]).exits(4).error_code(), "expired_cursor");
    assert_eq!(root.ostler(["--json", "list", "--limit", "0"]).exits(2).error_code(), "invalid_input");
}

#[test]
fn eyes_see_first_what_lives_and_of_it_first_what_is_new() {
    let root = Root::new();
    for (name, command) in [("a", "true"), ("b", "sleep"), ("c", "true"), ("d", "sleep")] {
        root.json(["spawn", "--name", name, "--", command, "1000"]);
    }
    root.json(["wait", "a"]);
    root.json(["wait", "c"]);
    let listed = |arguments: &[&str]| root.ostler(["list"].iter().chain(arguments)).exits(0).text();
    let names = |table: &str| -> Vec<String> {
        let name = |row: &str| row.split_whitespace().nth(1).unwrap().to_owned();
        table.lines().skip(1).map(name).collect()
    };
    assert_eq!(names(&listed(&[])), ["d", "b", "c", "a"]);
    let cut = listed(&["--limit", "1"]);
    assert_eq!(names(&cut)[0], "d");
    assert!(cut.ends_with("\n3 more: without --limit all are shown\n"), "{cut}");
    // For programs the order is that of their creation, whatever lives.
    let page = root.json(["list"]);
    let order: Vec<&Value> = page["sessions"].as_array().unwrap().iter().map(|session| &session["name"]).collect();
    assert_eq!(order, ["a", "b", "c", "d"]);
}

#[test]
fn a_list_for_eyes_is_whole_however_many_pages_it_takes() {
    let root = Root::new();
    let long = "x".repeat(100_000);
    for name in ["a", "b", "c"] {
        root.json(["spawn", "--name", name, "--", "true", &long, &long, &long, &long]);
    }
    assert!(root.json(["list"])["next"].is_string(), "a page ends at 1 MiB");
    let table = root.ostler(["list"]).exits(0).text();
    let names: Vec<&str> = table.lines().skip(1).map(|row| row.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(names, ["c", "b", "a"]);
}

#[test]
fn ended_sessions_are_forgotten_when_asked_and_only_said_in_a_dry_run() {
    let root = Root::new();
    let ended = root.json(["spawn", "--", "true"])["session"]["id"].clone();
    root.json(["wait", ended.as_str().unwrap()]);
    let live = root.json(["spawn", "--", "sleep", "1000"])["session"]["id"].clone();
    assert_eq!(root.json(["prune", "--older", "1h"])["sessions"], serde_json::json!([]));
    let said = root.json(["prune", "--older", "0s", "--dry-run"]);
    assert_eq!((&said["sessions"], &said["operation"]), (&serde_json::json!([ended]), &Value::Null));
    let done = root.json(["prune", "--older", "0s"]);
    assert_eq!((&done["sessions"], &done["operation"]["state"]), (&serde_json::json!([ended]), &"succeeded".into()));
    let left = root.json(["list"]);
    assert_eq!(left["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(left["sessions"][0]["id"], live);
}

#[test]
fn tables_are_for_eyes_and_cannot_drive_the_terminal() {
    let root = Root::new();
    root.json([
        "spawn",
        "--name",
        "evil",
        "--label",
        "x=y",
        "--",
        "sh",
        "-c",
        "printf '\\033[31mred\\n'; exit 1; # \u{1b}[2J",
    ]);
    root.json(["wait", "evil"]);
    for arguments in [&["list"][..], &["show", "evil"], &["operation", "list"], &["status"], &["wait", "evil"]] {
        let output = root.ostler(arguments).exits(0);
        assert!(!output.stdout.contains(&0x1b), "{output:?}");
    }
    let output = root.ostler(["show", "\u{1b}[31m"]).exits(3);
    assert!(!output.stderr.contains(&0x1b), "{output:?}");
    assert!(root.ostler(["logs", "evil"]).exits(0).stdout.contains(&0x1b), "output is passed as it is");
}
