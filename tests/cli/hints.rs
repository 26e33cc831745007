//! What a refusal tells to type next, and what the tables for eyes show.

use crate::support::{FIXTURE, OSTLER, Output, Process, Root, SOON, finish, wait_until};
use std::fs;

/// What a failed command tells to type next.
#[track_caller]
fn next(output: &Output) -> String {
    let text = output.error_text();
    let line = text.lines().find_map(|line| line.strip_prefix("  next: "));
    line.unwrap_or_else(|| panic!("nothing is said of what to type next: {text}")).to_owned()
}

#[test]
fn the_next_step_is_the_one_that_helps() {
    let root = Root::new();
    let id = root.json(["spawn", "--name", "web", "--key", "k", "--", "true"])["session"]["id"].clone();
    let id = id.as_str().unwrap();
    root.json(["wait", "web"]);
    assert_eq!(next(&root.ostler(["operation", "show", "nope"]).exits(3)), "ostler operation list");
    let output = root.ostler(["logs", "web", "--episode", "7"]).exits(3);
    assert_eq!(next(&output), "ostler show web");
    assert!(output.error_text().contains("has had one episode, and that is not 7"), "{output:?}");
    let replayed = root.ostler(["spawn", "--name", "web", "--key", "k", "--", "true"]).exits(4);
    assert_eq!(next(&replayed), format!("ostler show {id}"));
    assert!(next(&root.ostler(["spawn", "--cwd", "/nope", "--", "true"]).exits(1)).contains("--cwd"));
    assert!(next(&root.ostler(["spawn", "--name", "No!", "--", "true"]).exits(2)).contains("--name"));
    assert_eq!(next(&root.ostler(["spawn", "--env", "NOVALUE", "--", "true"]).exits(2)), "--env NAME=VALUE");
    let missing = root.ostler(["show", "nobody"]).exits(3);
    assert_eq!(next(&missing), "ostler list --all");
    assert!(missing.error_text().contains("that are not deleted"), "{missing:?}");
    let denied = root.ostler(["run", "--", OSTLER, "shutdown"]).exits(7);
    assert!(next(&denied).contains("outside of the session"), "{denied:?}");
}

#[test]
fn field_k14_a_folder_that_is_gone_is_told_with_what_helps() {
    let root = Root::new();
    root.json(["ensure"]);
    let gone = root.folder().join("gone");
    fs::create_dir(&gone).unwrap();
    let product = root.command([""; 0]);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "rmdir ../gone; exec \"$0\" spawn -- true"]).arg(product.get_program()).env_clear();
    command.current_dir(&gone).envs(product.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let here = finish(&mut command, b"").exits(1);
    let there = root.ostler(["spawn", "--cwd", "/nope", "--", "true"]).exits(1);
    for output in [here, there] {
        assert!(next(&output).contains("--cwd") && output.error_text().contains("(spawn_failed)"), "{output:?}");
    }
}

/// Whoever repeats the start of a session that was deleted is not told to resume it.
#[test]
fn the_replay_of_a_start_says_that_its_session_was_deleted() {
    let root = Root::new();
    let spawn = ["spawn", "--name", "web", "--key", "k", "--", "true"];
    root.json(spawn);
    root.json(["wait", "web"]);
    root.json(["delete", "web"]);
    let replayed = root.ostler(spawn).exits(4);
    let said = replayed.error_text();
    assert!(said.contains("has been deleted since") && !said.contains("resume"), "{said}");
    assert_eq!(next(&replayed), "the same command with a new --key, or with none");
    let document = root.ostler(["--json"].iter().chain(&spawn)).exits(4).json();
    assert_eq!(document["error"]["data"]["reason"], "ended", "{document}");
}

/// A stored result is of then: nothing that came later stands in it.
#[test]
fn what_an_operation_left_is_shown_as_it_was_then() {
    let root = Root::new();
    let spawned = root.json(["spawn", "--name", "web", "--key", "k", "--", "sh", "-c", "exit 3"])["session"].clone();
    root.json(["wait", "web"]);
    let stored = root.json(["operation", "show", "k"])["result"]["session"].clone();
    assert_eq!(stored["status"], "ready", "{stored}");
    for member in ["id", "name", "episode", "command", "cwd"] {
        assert_eq!(stored[member], spawned[member], "{member}: {stored}");
    }
    for later in ["exit", "ended_at", "reason", "last_seen_at"] {
        assert_eq!(stored[later], serde_json::Value::Null, "{later}: {stored}");
    }
    let shown = root.ostler(["operation", "show", "k"]).exits(0).text();
    let left = format!("left the session as  {}  web  ready  pid {}\n", spawned["id"].as_str().unwrap(), stored["pid"]);
    assert!(shown.ends_with(&left), "{shown}");
}

#[test]
fn a_request_that_found_it_so_already_says_so() {
    let root = Root::new();
    root.json(["spawn", "--name", "x", "--", "sleep", "1000"]);
    assert!(root.ostler(["resume", "x"]).exits(0).text().ends_with("  (was running)\n"));
    assert!(!root.ostler(["stop", "x"]).exits(0).text().contains("had ended"));
    assert!(root.ostler(["stop", "x"]).exits(0).text().ends_with("  (had ended)\n"));
    assert!(!root.ostler(["resume", "x"]).exits(0).text().contains("was running"));
}

#[test]
fn a_stop_that_takes_longer_than_it_may_tells_its_grace() {
    let root = Root::new();
    root.json(["spawn", "--name", "x", "--", FIXTURE, "ignore-term", "--", "say", "up", "--", "sleep"]);
    wait_until(SOON, "it to ignore TERM", || root.ostler(["logs", "x"]).text() == "up\n");
    let late = root.ostler(["stop", "x", "--grace", "3s", "--timeout", "1s"]).exits(6);
    assert!(late.error_text().contains("a grace of 3s"), "{late:?}");
}

#[test]
fn a_short_prefix_stops_and_deletes_nothing() {
    let root = Root::new();
    let session = root.json(["spawn", "--", "sleep", "1000"])["session"].clone();
    let (id, process) = (session["id"].as_str().unwrap(), Process::of_value(&session["pid"]));
    for verb in [&["stop"][..], &["delete", "--stop"]] {
        let output = root.ostler(verb.iter().copied().chain([&id[..2]])).exits(3);
        assert!(output.error_text().contains("at least 3 characters"), "{output:?}");
    }
    assert!(process.alive());
    assert_eq!(root.json(["stop", &id[..3]])["session"]["id"], *id);
}

#[test]
fn what_did_not_end_in_time_is_told_with_the_time() {
    let root = Root::new();
    root.json(["spawn", "--name", "x", "--", "sleep", "1000"]);
    let waited = root.ostler(["wait", "x", "--timeout", "150ms"]).exits(6);
    assert!(waited.error_text().contains("it did not end within 150ms; it goes on"), "{waited:?}");
    let ran = root.ostler(["run", "--timeout", "2s", "--", "sleep", "1000"]).exits(125);
    assert!(ran.error_text().contains("the command ran longer than 2s"), "{ran:?}");
    assert!(ran.error_text().contains("was stopped after 2s"), "{ran:?}");
}

#[test]
fn tables_tell_how_it_ended_and_what_happened() {
    let root = Root::new();
    let id = root.json(["spawn", "--name", "web", "--", "sh", "-c", "exit 7"])["session"]["id"].clone();
    root.json(["wait", "web"]);
    root.json(["spawn", "--name", "other", "--", "sleep", "1000"]);
    root.json(["stop", "other"]);
    let cell = |name: &str| {
        let listed = root.ostler(["list"]).exits(0).text();
        let row = listed.lines().find(|row| row.contains(name)).unwrap_or_else(|| panic!("{listed}")).to_owned();
        assert!(listed.lines().next().unwrap().contains("STATUS"), "{listed}");
        row.split_whitespace().nth(3).unwrap().to_owned()
    };
    assert_eq!((cell("web"), cell("other")), ("7".to_owned(), "SIGTERM".to_owned()));
    let waited = root.ostler(["wait", "web"]).exits(0).text();
    assert!(waited.ends_with("  web  failed  code 7\n"), "the code is said once: {waited}");
    let deleted = root.ostler(["delete", "web"]).exits(0).text();
    assert_eq!(deleted, format!("{}  web  deleted\n", id.as_str().unwrap()));
    // Its name is in the ledger, and there only.
    let history = root.ostler(["ledger", "history", "web"]).exits(0).text();
    for told in
        ["spawn asked for", "started  episode 1  pid ", "ended: failed  code 7", "delete succeeded", "deleted: its"]
    {
        assert!(history.contains(told), "{told}: {history}");
    }
    assert!(history.lines().nth(1).unwrap().trim_start().starts_with("1  "), "its own sequence comes first: {history}");
    assert_eq!(root.json(["ledger", "history", "web"])["session_id"], id);
    // The newest of that name is meant.
    let newer = root.json(["spawn", "--name", "web", "--", "true"])["session"]["id"].clone();
    assert_eq!(root.json(["ledger", "history", "web"])["session_id"], newer);
    assert_eq!(root.json(["ledger", "history", id.as_str().unwrap()])["session_id"], id);
}
