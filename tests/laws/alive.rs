//! Law 10: alive means locked. A host that is gone takes its command with it, and what is said of it is what the kernel
//! says.

use serde_json::{Value, json};

use crate::support::leftovers::leftovers;
use crate::support::scene::text;
use crate::support::{FIXTURE, Process, Root, SOON, wait_until};

/// A session whose command counts its starts in `starts` and has a child that is hard to find: in a session of its own,
/// deaf to TERM. With the child.
fn with_a_stray(root: &Root) -> (Value, Process) {
    let stray = "setsid -- ignore-term -- say deaf -- sleep";
    let session = root.spawn(&[], &[FIXTURE, "count", "starts", "--", "child", stray, "--", "sleep"]);
    let mut child = None;
    wait_until(SOON, "the child to be up", || {
        let output = root.ostler(["logs", text(&session["id"])]).exits(0).text();
        let line = output.lines().find_map(|line| line.strip_prefix("child "));
        child = line.and_then(|pid| Process::of(pid.parse().expect("a pid")));
        child.is_some() && output.contains("deaf\n")
    });
    (session, child.expect("it is up"))
}

fn fixtures(root: &Root) -> usize {
    leftovers(root.folder()).iter().filter(|found| found.command().starts_with(FIXTURE)).count()
}

fn lost_with_its_host(session: &Value) {
    assert_eq!(session["status"], "failed");
    assert_eq!(session["exit"]["error"]["phase"], "host");
    assert_eq!((&session["pid"], &session["endpoint"]), (&Value::Null, &Value::Null));
}

fn resumed_once(root: &Root, id: &Value) {
    let resumed = root.json(["resume", text(id)]);
    assert_eq!((&resumed["session"]["status"], &resumed["session"]["episode"]), (&json!("ready"), &json!(2)));
    wait_until(SOON, "the second start to be counted", || root.lines("starts").len() == 2);
    assert_eq!(root.lines("starts")[1], resumed["session"]["pid"].to_string());
    // The command and its child.
    wait_until(SOON, "both processes", || fixtures(root) == 2);
    assert_eq!(root.json(["resume", text(id)])["session"]["pid"], resumed["session"]["pid"], "it lives: no twin");
    assert_eq!(root.lines("starts").len(), 2);
}

#[test]
fn law_10_a_killed_host_takes_its_command_along_before_anything_is_said() {
    let root = Root::new();
    let (session, child) = with_a_stray(&root);
    let (command, host) = (Process::of_value(&session["pid"]), Process::of_value(&session["host_pid"]));
    host.kill_9();
    wait_until(SOON, "the session to be lost", || {
        let said = root.session(&session["id"])["status"].clone();
        // Looked at after it was said.
        assert!(said == "ready" || !command.alive() && !child.alive(), "said {said} while a process lives");
        said != "ready"
    });
    lost_with_its_host(&root.session(&session["id"]));
    assert_eq!(fixtures(&root), 0);
    assert!(root.sockets().iter().all(|name| name.starts_with("b-")), "the dead host's socket is gone");
    resumed_once(&root, &session["id"]);
}

#[test]
fn law_10_a_host_killed_while_no_broker_runs_is_found_out_by_the_next() {
    let root = Root::new();
    let (session, child) = with_a_stray(&root);
    let (command, host) = (Process::of_value(&session["pid"]), Process::of_value(&session["host_pid"]));
    root.kill_broker();
    host.kill_9();
    wait_until(SOON, "the command to go with its host", || !command.alive());
    root.ensure();
    wait_until(SOON, "the session to be lost", || {
        let said = root.session(&session["id"])["status"].clone();
        assert!(said == "ready" || !child.alive(), "said {said} while a process lives");
        said != "ready"
    });
    lost_with_its_host(&root.session(&session["id"]));
    resumed_once(&root, &session["id"]);
}

/// A session between two that lose their hosts goes on (law 8).
#[test]
fn law_10_a_killed_host_is_the_loss_of_its_own_session_only() {
    let root = Root::new();
    let sessions: Vec<Value> = (0..3).map(|_| root.spawn_fixture(&[], "sleep")).collect();
    for session in [&sessions[0], &sessions[2]] {
        Process::of_value(&session["host_pid"]).kill_9();
    }
    for session in [&sessions[0], &sessions[2]] {
        lost_with_its_host(&root.session_becomes(&session["id"], "failed"));
    }
    let kept = root.session(&sessions[1]["id"]);
    assert_eq!((&kept["status"], &kept["pid"]), (&json!("ready"), &sessions[1]["pid"]));
}
