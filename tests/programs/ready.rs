//! Readiness, with real programs: a start is done when the program says so, or its output does; and it has failed, with what the program said last, when that
//! does not come.

use std::fs;

use serde_json::{Value, json};

use crate::cli::refused::refused;
use crate::support::scene::{spawning, text};
use crate::support::{OSTLER, Output, Process, Root, Running, SOON, wait_until};

/// The file for which a program of these tests waits.
const GO: &str = "go";

/// Waits for the file, then does this.
fn after_go(root: &Root, then: &str) -> String {
    format!("until [ -e {} ]; do sleep 0.01; done; {then}", root.folder().join(GO).display())
}

fn go(root: &Root) {
    fs::write(root.folder().join(GO), "").expect("the folder is ours");
}

/// Starts this script as session `web`, in a client that waits for it.
fn starting(root: &Root, options: &[&str], script: &str) -> Running {
    let options = [&["--name", "web", "--key", "k"], options].concat();
    let mut command = root.command(["--json"]);
    let client = Running::start(command.args(spawning(&options, &["sh", "-c", script])));
    wait_until(SOON, "its command to run", || {
        let shown = root.ostler(["show", "web", "--json"]);
        shown.code() == Some(0) && shown.json()["session"]["pid"].is_u64()
    });
    client
}

fn web(root: &Root) -> Value {
    root.json(["show", "web"])["session"].clone()
}

/// The same call once more: what its key came to.
fn again(root: &Root, options: &[&str], script: &str) -> Output {
    let options = [&["--name", "web", "--key", "k"], options].concat();
    let mut command = root.command(["--json"]);
    crate::support::finish(command.args(spawning(&options, &["sh", "-c", script])), b"")
}

#[test]
fn a_start_is_done_when_the_output_says_so() {
    let root = Root::new();
    let ready = ["--ready", "output:^listening on [0-9]+$", "--adapter", "lines"];
    let script = after_go(&root, "echo listening on 80; exec cat");
    let client = starting(&root, &ready, &script);
    let shown = web(&root);
    assert_eq!((&shown["status"], &shown["started_at"].is_string()), (&json!("starting"), &true), "{shown}");
    refused(&root, &["wait", "web", "--for", "ready", "--timeout", "50ms"], 6, "timeout");
    let sent = root.json(["send", "web", "hello"]);
    assert_eq!(sent["delivery"], "queued", "a message waits for it");
    go(&root);
    let started = client.end().exits(0).json();
    assert_eq!(started["session"]["status"], "ready");
    root.json(["wait", "web", "--for", "ready"]);
    wait_until(SOON, "the message", || root.ostler(["logs", "web"]).text() == "listening on 80\nhello\n");
    // Resumed it has to become ready again.
    root.json(["stop", "web"]);
    assert_eq!(root.json(["resume", "web"])["session"]["status"], "ready");
}

#[test]
fn a_start_is_done_when_the_program_says_so_itself() {
    let root = Root::new();
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"session.ready","params":{"key":"%s","episode":%s}}\n"#;
    let says = |key: &str| format!("printf '{call}' {key} $OSTLER_EPISODE | {OSTLER} connect");
    let script = after_go(&root, &format!("{}; {}; exec sleep 1000", says("one"), says("two")));
    let client = starting(&root, &["--ready", "notify"], &script);
    assert_eq!(web(&root)["status"], "starting");
    go(&root);
    assert_eq!(client.end().exits(0).json()["session"]["status"], "ready");
    let mut said = Vec::new();
    wait_until(SOON, "both answers", || {
        let lines = root.ostler(["logs", "web"]).text();
        let answers = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        said = answers.filter(|line| line["id"] == 1).map(|line| line["result"]["outcome"].clone()).collect();
        said.len() == 2
    });
    assert_eq!(said, ["ready", "unchanged"], "who says it twice is told so");
}

#[test]
fn who_is_not_ready_in_time_is_ended_and_its_last_output_is_in_the_error() {
    let root = Root::new();
    let options = ["--ready", "output:never", "--ready-within", "200ms"];
    let script = "echo port 80 is taken; echo waiting >&2; exec sleep 1000";
    let failed = again(&root, &options, script).exits(1).json()["error"].clone();
    let data = &failed["data"];
    assert_eq!(
        (&failed["code"], &data["reason"], &failed["retry"]),
        (&json!("spawn_failed"), &json!("ready"), &json!("never"))
    );
    assert!(text(&data["detail"]).contains("not ready within 200 ms"), "{failed}");
    assert!(
        text(&data["output"]).contains("port 80 is taken") && text(&data["output"]).contains("waiting"),
        "{failed}"
    );
    let shown = web(&root);
    assert_eq!((&shown["status"], &shown["exit"]["error"]["phase"]), (&json!("failed"), &json!("ready")), "{shown}");
    assert_eq!(shown["pid"], Value::Null);
    // The same key, also of another broker: the same outcome and no second process.
    root.kill_broker();
    let replayed = again(&root, &options, script).exits(1).json()["error"].clone();
    assert_eq!((&replayed["data"]["operation"], &replayed["data"]["replayed"]), (&data["operation"], &json!(true)));
    assert_eq!(replayed["data"]["output"], data["output"]);
    assert_eq!(web(&root)["episode"], 1);
    // For eyes.
    root.json(["delete", "web"]);
    let said = root.ostler(spawning(&options, &["sh", "-c", script])).exits(1).error_text();
    assert!(said.contains("\n  output: port 80 is taken\n") && said.contains("\n  next: ostler show "), "{said}");
}

#[test]
fn a_command_that_ends_before_it_is_ready_has_failed() {
    let root = Root::new();
    for code in ["0", "3"] {
        // Run twice, for eyes and for programs: the second is the same request.
        let options = ["--name", "web", "--key", code, "--ready", "output:up"];
        let failed =
            refused(&root, &spawning(&options, &["sh", "-c", &format!("echo bye; exit {code}")]), 1, "spawn_failed");
        let data = &failed["data"];
        assert_eq!((&data["reason"], &data["output"]), (&json!("ready"), &json!("bye\n")), "{failed}");
        assert!(text(&data["detail"]).contains(&format!("exit code {code}")), "{failed}");
        let shown = web(&root);
        assert_eq!((&shown["status"], shown["exit"]["code"].to_string()), (&json!("failed"), code.to_owned()));
        root.json(["delete", "web"]);
    }
    // Who was ready first and ends at once has been ready, whoever looked.
    let started = root.json(spawning(&["--ready", "output:up"], &["sh", "-c", "echo up; exit 0"]));
    assert_eq!(started["operation"]["state"], "succeeded");
    assert_eq!(root.json(["wait", text(&started["session"]["id"])])["session"]["status"], "exited");
}

#[test]
fn a_stop_or_a_delete_cancels_the_waiting_and_the_caller_is_told() {
    for end in [&["stop", "web"][..], &["delete", "--stop", "web"]] {
        let root = Root::new();
        let client = starting(&root, &["--ready", "notify"], "exec sleep 1000");
        root.json(end);
        let failed = client.end().exits(1).json()["error"].clone();
        assert_eq!(
            (&failed["code"], &failed["data"]["reason"]),
            (&json!("spawn_failed"), &json!("cancelled")),
            "{failed}"
        );
        let listed = root.json(["list", "--all"])["sessions"].clone();
        let statuses: Vec<&Value> = listed.as_array().expect("a list").iter().map(|of| &of["status"]).collect();
        assert_eq!(statuses, if end[0] == "stop" { vec!["stopped"] } else { vec![] });
    }
}

/// The broker is killed while it waits: the program becomes ready while none is there, or ends after it was, or is never ready.
#[test]
fn a_broker_that_is_killed_while_it_waits_changes_no_outcome() {
    for (then, options, state, status) in [
        ("echo up; exec sleep 1000", &["--ready", "output:up"][..], "succeeded", "ready"),
        ("echo up; exit 0", &["--ready", "output:up"], "succeeded", "exited"),
        ("echo bye; exit 0", &["--ready", "output:up"], "failed", "failed"),
        ("exec sleep 1000", &["--ready", "output:up", "--ready-within", "2s"], "failed", "failed"),
    ] {
        let root = Root::new();
        let script = after_go(&root, then);
        let client = starting(&root, options, &script);
        let session = web(&root);
        let command = Process::of_value(&session["pid"]);
        client.process().kill_9();
        root.kill_broker();
        go(&root);
        if then.ends_with("exit 0") {
            wait_until(SOON, "it to end", || !command.alive());
        }
        again(&root, options, &script);
        let operation = root.json(["operation", "show", "k"])["operation"].clone();
        assert_eq!(operation["state"], state, "{then}: {operation}");
        root.session_becomes(&session["id"], status);
        assert_eq!((&web(&root)["episode"], command.alive()), (&json!(1), status == "ready"), "{then}");
    }
}

#[test]
fn what_is_no_sign_or_no_time_is_refused_and_nothing_is_started() {
    let root = Root::new();
    let long = format!("output:{}", "x".repeat(257));
    for (options, reason) in [
        (&["--ready", "output:("][..], "ready"),
        (&["--ready", "output:x*"], "ready"),
        (&["--ready", "output:(a{100}){100}"], "ready"),
        (&["--ready", &long], "ready"),
        (&["--ready", "notify", "--ready-within", "0s"], "ready_within"),
        (&["--ready", "notify", "--ready-within", "2h"], "ready_within"),
        (&["--ready-within", "2s"], "ready_within"),
    ] {
        let arguments = [&["spawn"], options, &["--", "true"]].concat();
        let error = refused(&root, &arguments, 2, "invalid_input");
        assert_eq!(error["data"]["reason"], reason, "{error}");
    }
    let run = root.ostler(["run", "--ready", "notify", "--", "true"]).exits(125);
    assert!(run.error_text().contains("ostler spawn"), "{run:?}");
    assert_eq!(root.ostler(["spawn", "--ready", "soon", "--", "true"]).code(), Some(2));
    assert_eq!(root.json(["list", "--all"])["sessions"], json!([]));
}

/// Report gajae-code#4258: the client's patience ended before the start did, and the outcome was called uncertain for ever.
#[test]
fn field_b10_a_start_that_is_slow_to_be_ready_is_found_by_its_key() {
    let root = Root::new();
    let script = after_go(&root, "echo up; exec sleep 1000");
    let options = ["--ready", "output:up"];
    let late = ["--name", "web", "--key", "k", "--ready", "output:up", "--timeout", "500ms"];
    let error = root.command(["--json"]).args(spawning(&late, &["sh", "-c", &script])).output().expect("it runs");
    let error: Value = serde_json::from_slice(&error.stdout).expect("a document");
    assert_eq!((&error["error"]["code"], &error["error"]["retry"]), (&json!("timeout"), &json!("same_key")), "{error}");
    go(&root);
    let found = again(&root, &options, &script).exits(0).json();
    assert_eq!(found["session"]["status"], "ready");
    assert_eq!(root.json(["list", "--all"])["sessions"].as_array().map(Vec::len), Some(1));
}

/// Report 20x#502: each start that did not become ready left one more process.
#[test]
fn field_d10_starts_that_are_never_ready_leave_no_process() {
    let root = Root::new();
    root.ensure();
    for _ in 0..5 {
        let spawn = spawning(&["--ready", "notify", "--ready-within", "50ms"], &["sleep", "1000"]);
        let failed = root.command(["--json"]).args(spawn).output().expect("it runs");
        let failed: Value = serde_json::from_slice(&failed.stdout).expect("a document");
        assert_eq!(failed["error"]["data"]["reason"], "ready", "{failed}");
    }
    let broker = root.broker().expect("a broker answers");
    wait_until(SOON, "the hosts to leave", || root.brokers() == [broker] && broker.children().is_empty());
    let listed = root.json(["list", "--all", "--status", "failed"])["sessions"].clone();
    assert_eq!(listed.as_array().map(Vec::len), Some(5), "each says why");
}
