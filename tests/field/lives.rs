//! Groups D, E and K: sessions and their brokers, keys and their requests, and what cleaners do.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::scene::{at_once, text};
use crate::support::{FIXTURE, Process, Root, SOON, wait_until};

/// Report gajae-code#5516: a successor did not adopt the children of its predecessor, and kept them alive for ever.
#[test]
fn field_d02_every_child_of_a_dead_broker_is_adopted_and_answers() {
    let root = Root::new();
    let sessions: Vec<Value> = (0..5).map(|_| root.spawn_fixture(&[], "sleep")).collect();
    let hosts: Vec<Process> = sessions.iter().map(|session| Process::of_value(&session["host_pid"])).collect();
    root.kill_broker();
    root.ensure();
    for session in &sessions {
        let answer = root.json(["wait", text(&session["id"]), "--for", "ready"]);
        assert_eq!(answer["session"]["pid"], session["pid"]);
        // Its host takes orders of the new broker.
        assert_eq!(root.json(["stop", text(&session["id"])])["session"]["exit"], json!({"signal": "SIGTERM"}));
    }
    wait_until(SOON, "the hosts to leave", || hosts.iter().all(|host| !host.alive()));
}

/// Report hermes-agent#17430: the child is gone, a grandchild holds its output, the status stayed `running`.
#[test]
fn field_d17_a_grandchild_that_holds_the_output_does_not_keep_a_session_alive() {
    let root = Root::new();
    let session = root.spawn(&[], &["sh", "-c", "echo before; sleep 600 & exit 3"]);
    let ended = root.json(["wait", text(&session["id"])])["session"].clone();
    assert_eq!((&ended["status"], &ended["exit"]), (&json!("failed"), &json!({"code": 3})));
    assert_eq!(root.ostler(["logs", text(&session["id"])]).exits(0).text(), "before\n");
    // Out of reach of its group, too.
    let detached = root.spawn(&[], &[FIXTURE, "child", "setsid -- sleep", "--", "exit", "4"]);
    let ended = root.json(["wait", text(&detached["id"])])["session"].clone();
    assert_eq!(ended["exit"], json!({"code": 4}));
}

/// Report gajae-code#5677: a close with a key that was used before ran against a different session.
#[test]
fn field_e07_a_key_that_was_used_for_another_target_is_refused() {
    let root = Root::new();
    let (a, b) = (root.spawn_fixture(&["--name", "a"], "sleep"), root.spawn_fixture(&["--name", "b"], "sleep"));
    root.json(["stop", "a", "--key", "x"]);
    for restart in [false, true] {
        if restart {
            root.kill_broker();
        }
        for verb in
            [&["stop", "b", "--key", "x"][..], &["delete", "b", "--stop", "--key", "x"], &["resume", "a", "--key", "x"]]
        {
            let refused = root.ostler(["--json"].iter().chain(verb)).exits(4);
            assert_eq!(refused.error_code(), "key_conflict", "{verb:?}");
        }
        let replayed = root.json(["stop", "a", "--key", "x"]);
        assert_eq!((&replayed["operation"]["replayed"], &replayed["session"]["id"]), (&json!(true), &a["id"]));
    }
    assert!(Process::of_value(&b["pid"]).alive());
}

fn resumes(root: &Root, name: &str, number: usize) -> Vec<Value> {
    let commands: Vec<Command> = (0..number).map(|_| root.command(["resume", name, "--json"])).collect();
    at_once(commands).into_iter().map(|output| output.exits(0).json()["session"].clone()).collect()
}

/// Report gajae-code#2078: a resume of a live session started a twin.
#[test]
fn field_e08_a_resume_of_a_live_session_is_that_session() {
    let root = Root::new();
    let session = root.spawn(&["--name", "a"], &[FIXTURE, "count", "starts", "--", "sleep"]);
    for resumed in resumes(&root, "a", 10) {
        assert_eq!((&resumed["pid"], &resumed["episode"]), (&session["pid"], &json!(1)));
    }
    wait_until(SOON, "the start to be counted", || !root.lines("starts").is_empty());
    assert_eq!(root.lines("starts").len(), 1);
}

/// Report agentistics#496: two resumes 62 ms apart both started.
#[test]
fn field_e09_resumes_at_the_same_time_start_one_process() {
    const ROUNDS: usize = 10;
    let root = Root::new();
    let session = root.spawn(&["--name", "a"], &[FIXTURE, "count", "starts", "--", "sleep"]);
    for round in 1..=ROUNDS {
        // Stopped, failed, and lost with its host, in turn.
        match round % 3 {
            0 => drop(root.json(["stop", "a"])),
            1 => Process::of_value(&root.session(&session["id"])["pid"]).kill_9(),
            _ => Process::of_value(&root.session(&session["id"])["host_pid"]).kill_9(),
        }
        root.json(["wait", "a"]);
        let resumed = resumes(&root, "a", 20);
        assert!(resumed.iter().all(|of| of["pid"] == resumed[0]["pid"]), "{resumed:#?}");
        wait_until(SOON, "the start to be counted", || root.lines("starts").len() > round);
        assert_eq!(root.lines("starts").len(), round + 1);
    }
}

/// Report opencode#5517: five deletes at once, some undone.
#[test]
fn field_e15_fifty_deletes_at_once_are_all_done_for_good() {
    let root = Root::new();
    let spawns = (0..50).map(|n| {
        let mut spawn = root.command(["spawn", "--json", "--"]);
        spawn.args([FIXTURE, if n % 2 == 0 { "sleep" } else { "say" }, "x"]);
        spawn
    });
    let ids: Vec<Value> =
        at_once(spawns.collect()).iter().map(|of| of.clone().exits(0).json()["session"]["id"].clone()).collect();
    let deletes = ids.iter().map(|id| root.command(["delete", text(id), "--stop", "--json"])).collect();
    for deleted in at_once(deletes) {
        assert_eq!(deleted.exits(0).json()["session"]["status"], "deleted");
    }
    let gone = || {
        assert_eq!(root.json(["list", "--all"])["sessions"], json!([]));
        assert_eq!(root.names("sessions"), [""; 0]);
    };
    gone();
    root.kill_broker();
    root.ensure();
    gone();
    for id in &ids {
        let history = root.json(["ledger", "history", text(id)]);
        let records = history["records"].as_array().unwrap();
        let done = |of: &&Value| of["kind"] == "session.delete" && of["st"] == "succeeded";
        assert_eq!(records.iter().filter(done).count(), 1, "{history:#}");
    }
}

/// Report tmux#4640: a cleaner of temporary files removed the socket of a live server.
#[test]
fn field_k01_what_a_cleaner_removes_comes_back_with_the_same_broker() {
    let root = Root::new();
    let sessions: Vec<Value> = (0..3).map(|_| root.spawn_fixture(&[], "sleep")).collect();
    let broker = root.ensure();
    // All that a cleaner of the runtime folder can reach.
    fs::remove_dir_all(root.folder().join("run/ostler")).unwrap();
    let found = || root.broker().is_some_and(|of| broker["pid"] == of.pid);
    wait_until(SOON, "the broker to be found again", found);
    assert_eq!(root.ensure()["incarnation"], broker["incarnation"]);
    // The hosts' sockets went, too; the next broker finds them all the same.
    root.kill_broker();
    root.ensure();
    for session in &sessions {
        wait_until(SOON, "its host to have answered", || root.session(&session["id"])["reason"].is_null());
        assert_eq!(root.session(&session["id"])["pid"], session["pid"]);
        assert_eq!(root.json(["stop", text(&session["id"])])["session"]["status"], "stopped");
    }
}
