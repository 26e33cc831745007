//! Group E: operations that meet each other, and what became of them.

use serde_json::{Value, json};

use crate::support::leftovers::leftovers;
use crate::support::scene::text;
use crate::support::{FIXTURE, Process, Root, Running, SOON, wait_until};

/// The processes of commands that were told to count their start.
fn counted(root: &Root) -> Vec<Process> {
    let all = leftovers(root.folder()).into_iter();
    all.filter(|found| found.command().starts_with(FIXTURE)).map(|found| found.process).collect()
}

/// Starts a session beside the test, with a command that counts its start.
fn starting(root: &Root, name: &str) -> Running {
    Running::start(
        &mut root.command(["spawn", "--json", "--name", name, "--", FIXTURE, "count", "starts", "--", "sleep"]),
    )
}

/// Report suna#4211: deleted while it was being made, it rose again.
#[test]
fn field_e11_what_is_deleted_while_it_starts_does_not_rise_again() {
    const ROUNDS: usize = 12;
    let root = Root::new();
    root.ensure();
    for round in 0..ROUNDS {
        let spawn = starting(&root, "a");
        let delete = || root.ostler(["delete", "a", "--stop", "--json"]).code() == Some(0);
        wait_until(SOON, "a session to be deleted", delete);
        // Whoever started it is told that it lives, or what happened to it: never nothing.
        let told = spawn.end();
        if told.code() != Some(0) {
            let error = told.json()["error"].clone();
            let cancelled = error["code"] == "spawn_failed" && error["data"]["reason"] == "cancelled";
            assert!(cancelled || error["code"] == "session_terminal", "{error:#}");
        }
        wait_until(SOON, "its command to be gone", || counted(&root).is_empty());
        assert_eq!(root.json(["list", "--all"])["sessions"], json!([]), "round {round}");
        assert!(root.lines("starts").len() <= round + 1, "no start was made twice");
    }
    root.kill_broker();
    root.ensure();
    assert_eq!(root.json(["list", "--all"])["sessions"], json!([]));
}

/// Report t3code#12136: a stop that came during the start was lost.
#[test]
fn field_e16_a_stop_during_a_start_stops_it() {
    let root = Root::new();
    root.ensure();
    for round in 0..12 {
        let name = format!("a{round}");
        let spawn = starting(&root, &name);
        let mut stopped = Value::Null;
        wait_until(SOON, "a session to be stopped", || {
            let output = root.ostler(["stop", &name, "--json"]);
            let is_done = output.code() == Some(0);
            if is_done {
                stopped = output.json();
            }
            is_done
        });
        drop(spawn.end());
        assert_eq!(stopped["session"]["status"], "stopped", "{stopped:#}");
        wait_until(SOON, "its command to be gone", || counted(&root).is_empty());
        assert_eq!(root.json(["show", &name])["session"]["status"], "stopped", "and it stays so");
    }
}

/// Report agi-cli#3612: a resume that found nothing started an empty agent.
#[test]
fn field_e19_a_resume_of_what_is_not_there_starts_nothing() {
    let root = Root::new();
    let deleted = root.spawn(&["--name", "gone"], &[FIXTURE, "count", "starts", "--", "sleep"]);
    let emptied = root.spawn(&["--name", "emptied"], &[FIXTURE, "count", "starts", "--", "sleep"]);
    wait_until(SOON, "both to be counted", || root.lines("starts").len() == 2);
    root.json(["delete", "gone", "--stop"]);
    root.json(["stop", "emptied"]);
    let upper = text(&emptied["id"]).to_uppercase();
    for id in ["aaaaaaaaaaaa", text(&deleted["id"]), "gone", "nobody"] {
        let refused = root.ostler(["resume", id, "--json"]);
        assert_eq!(refused.error_code(), "not_found", "{id}");
    }
    // Ids are lower case; another case is another word.
    assert_ne!(root.ostler(["resume", &upper, "--json"]).code(), Some(0));
    let folder = root.path().join("sessions").join(text(&emptied["id"]));
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::create_dir(&folder).unwrap();
    let refused = root.ostler(["resume", "emptied", "--json"]);
    assert!(!refused.error_code().is_empty() && refused.code() != Some(0), "{refused:?}");
    assert!(counted(&root).is_empty());
    assert_eq!(root.lines("starts").len(), 2);
}

/// Report agent-of-empires#2344: a resume landed on the newest session of the folder.
#[test]
fn field_e20_a_resume_is_of_that_session_and_no_other() {
    let root = Root::new();
    let sessions: Vec<Value> = (0..5)
        .map(|number| {
            let word = format!("I-am-{number}");
            let own = format!("WHO={number}");
            root.spawn(&["--env", &own], &["sh", "-c", "echo $0 $WHO; exec sleep 1000", &word])
        })
        .collect();
    for session in &sessions {
        root.json(["stop", text(&session["id"])]);
    }
    for number in [1, 4, 0] {
        let id = &sessions[number]["id"];
        let resumed = root.json(["resume", text(id)])["session"].clone();
        assert_eq!((&resumed["id"], &resumed["episode"]), (id, &json!(2)));
        let line = format!("I-am-{number} {number}\n");
        wait_until(SOON, "its word", || root.ostler(["logs", text(id)]).text().ends_with(&line));
    }
}

/// Report gajae-code#5077: resumed, alive, and never reachable; its generation stayed the same.
#[test]
fn field_e23_each_resume_is_the_next_episode_and_answers() {
    let root = Root::new();
    let id = root.spawn_fixture(&["--name", "a"], "say here -- sleep")["id"].clone();
    for episode in 2..=8 {
        root.json(["stop", "a"]);
        if episode % 3 == 0 {
            root.kill_broker();
        }
        let resumed = root.json(["resume", "a"])["session"].clone();
        assert_eq!((&resumed["id"], &resumed["episode"]), (&id, &json!(episode)));
        wait_until(SOON, "its word", || root.ostler(["logs", "a"]).text().ends_with("here\n"));
    }
}
