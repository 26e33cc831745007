//! Law 11: a live episode survives the broker; its exit status and its output are not lost.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::scene::text;
use crate::support::{Process, Root, SOON, finish, wait_until};

/// Prints 0, 1, 2 ... until it is ended.
const COUNTER: &str = "i=0; while :; do echo $i; i=$((i+1)); sleep 0.02; done";
/// How often the broker is killed.
const KILLS: u64 = 3;

/// How far a counter's output goes; none of its numbers is missing or doubled.
fn counted(root: &Root, id: &Value) -> usize {
    let output = root.ostler(["logs", text(id)]).exits(0).text();
    // Its last line may be on its way.
    let whole = output.rfind('\n').map_or("", |end| &output[..end]);
    for (number, line) in whole.lines().enumerate() {
        assert_eq!(line, number.to_string(), "a hole in the output of {id}");
    }
    whole.lines().count()
}

fn processes(session: &Value) -> (Process, Process) {
    (Process::of_value(&session["pid"]), Process::of_value(&session["host_pid"]))
}

fn whole_and_counting(root: &Root, id: &Value) {
    let before = counted(root, id);
    wait_until(SOON, "the counter to go on", || counted(root, id) > before);
}

#[test]
fn law_11_five_sessions_outlive_a_killed_broker_with_all_their_output() {
    let root = Root::new();
    let first = root.ensure();
    let sessions: Vec<Value> = (0..5).map(|_| root.spawn(&[], &["sh", "-c", COUNTER])).collect();
    for kills in 1..=KILLS {
        sessions.iter().for_each(|session| whole_and_counting(&root, &session["id"]));
        root.kill_broker();
        let next = root.ensure();
        assert_eq!(next["generation"], json!(first["generation"].as_u64().unwrap() + kills));
        for session in &sessions {
            let found = root.session(&session["id"]);
            assert_eq!((&found["pid"], &found["host_pid"]), (&session["pid"], &session["host_pid"]));
            assert_eq!(found["endpoint"], session["endpoint"]);
            let known = || root.session(&session["id"])["reason"].is_null();
            wait_until(SOON, "the host to have answered", known);
            assert_eq!(root.session(&session["id"])["status"], "ready");
        }
        assert_eq!(root.json(["list"])["sessions"].as_array().unwrap().len(), sessions.len());
    }
    for session in &sessions {
        let (command, host) = processes(session);
        whole_and_counting(&root, &session["id"]);
        let stopped = root.json(["stop", text(&session["id"])]);
        assert_eq!((&stopped["session"]["status"], &stopped["survivors"]), (&json!("stopped"), &json!([])));
        assert!(!command.alive());
        wait_until(SOON, "the host to leave", || !host.alive());
        counted(&root, &session["id"]);
    }
}

#[test]
fn law_11_sessions_that_end_while_no_broker_runs_keep_their_exits() {
    let root = Root::new();
    let ends = [("exit 7", "failed", json!({"code": 7})), ("exit 0", "exited", json!({"code": 0}))];
    let killed = ("raise 15", "failed", json!({"signal": "SIGTERM"}));
    let ends: Vec<_> = ends.into_iter().chain([killed]).collect();
    let sessions: Vec<Value> =
        ends.iter().map(|(end, ..)| root.spawn_fixture(&[], &format!("say here -- until go -- {end}"))).collect();
    root.kill_broker();
    fs::write(root.folder().join("go"), "").unwrap();
    for session in &sessions {
        let host = Process::of(session["host_pid"].as_i64().unwrap());
        wait_until(SOON, "the host to leave", || host.is_none_or(|host| !host.alive()));
    }
    let broker = root.ensure();
    for (session, (_, status, exit)) in sessions.iter().zip(&ends) {
        let id = text(&session["id"]);
        let found = root.json(["wait", id])["session"].clone();
        assert_eq!((found["status"].as_str(), &found["exit"]), (Some(*status), exit));
        assert!(text(&found["ended_at"]) < text(&broker["started_at"]), "when it ended, not when that was found out");
        assert_eq!(root.ostler(["logs", id]).exits(0).text(), "here\n");
    }
}

/// Somebody put a folder, a link or another file in the place of `life.lock`: its host is told by identity and hello, and is adopted, stopped and deleted.
#[test]
fn law_11_what_stands_in_place_of_a_life_lock_hides_nobody() {
    let root = Root::new();
    let put: [fn(&Path); 3] = [
        |lock| fs::create_dir_all(lock.join("inner")).unwrap(),
        |lock| std::os::unix::fs::symlink("/nowhere", lock).unwrap(),
        |lock| fs::write(lock, "").unwrap(),
    ];
    let sessions = put.map(|put| {
        let session = root.spawn_fixture(&[], "say here -- sleep");
        let lock = root.path().join("sessions").join(text(&session["id"])).join("1/life.lock");
        fs::remove_file(&lock).unwrap();
        put(&lock);
        session
    });
    root.kill_broker();
    root.ensure();
    for session in sessions {
        let id = text(&session["id"]);
        let (command, host) = processes(&session);
        wait_until(SOON, "it to be adopted", || root.session(&session["id"])["reason"].is_null());
        assert!(command.alive() && host.alive());
        let stopped = root.json(["stop", id, "--timeout", "30s"]);
        assert_eq!(stopped["session"]["exit"], json!({"signal": "SIGTERM"}));
        assert!(!command.alive());
        root.ostler(["delete", id, "--timeout", "30s"]).exits(0);
        assert!(!host.alive(), "nothing is removed under a host");
        assert!(!root.path().join("sessions").join(id).exists());
    }
}

/// What runs while its broker is away may be asked for its output all the same.
#[test]
fn law_11_output_can_be_read_while_no_broker_can_be_had() {
    let root = Root::new();
    let session = root.spawn(&[], &["sh", "-c", COUNTER]);
    let id = &session["id"];
    whole_and_counting(&root, id);
    root.kill_broker();
    let (command, host) = processes(&session);
    let refused = finish(&mut root.command(["--no-start", "list", "--json"]), b"").exits(5);
    assert_eq!(refused.error_code(), "broker_unreachable");
    assert!(command.alive() && host.alive(), "nobody touched it");
    root.ensure();
    whole_and_counting(&root, id);
}
