//! Copies of sessions: same command, directory, environment and labels; own id, queue, history.

use crate::support::scene::text;
use crate::support::{FIXTURE, Process, Root, SOON, copy_program, finish, wait_until};
use serde_json::{Value, json};

#[test]
fn a_copy_runs_what_its_source_runs() {
    let root = Root::new();
    let place = root.folder().join("place");
    std::fs::create_dir(&place).unwrap();
    let at = place.to_str().unwrap();
    let script = "echo \"$PWD $SECRET\"; exec sleep 1000";
    let options = ["--name", "web", "--label", "a=1", "--cwd", at, "--env", "SECRET=s3"];
    let source = root.spawn(&options, &["sh", "-c", script]);
    let forked = root.json(["fork", "web", "--name", "web2", "--key", "k"]);
    let copy = &forked["session"];
    assert_eq!((&copy["name"], &copy["forked_from"], &copy["episode"]), (&json!("web2"), &source["id"], &json!(1)));
    for member in ["command", "cwd", "labels", "adapter"] {
        assert_eq!(copy[member], source[member], "{member}");
    }
    assert_ne!(copy["pid"], source["pid"]);
    assert_eq!((&source["forked_from"], &forked["operation"]["kind"]), (&Value::Null, &json!("session.fork")));
    let says = || root.ostler(["logs", "web2"]).text() == format!("{at} s3\n");
    wait_until(SOON, "the copy to say where it is and what it was told", says);
    // The key has one copy, also when its source is gone.
    root.json(["delete", "web", "--stop"]);
    let again = root.json(["fork", "web", "--name", "web2", "--key", "k"]);
    assert_eq!((&again["session"]["id"], &again["operation"]["replayed"]), (&copy["id"], &json!(true)));
    assert_eq!(root.session(&copy["id"])["forked_from"], source["id"], "a source that is gone stays the source");
    let gone = root.ostler(["--json", "fork", text(&source["id"])]).exits(3);
    assert_eq!(gone.error_code(), "not_found");
    let explained = root.ostler(["ledger", "explain", "k"]).exits(0).text();
    assert!(explained.contains(&format!("a copy of {}", text(&source["id"]))), "{explained}");
}

#[test]
fn a_copy_of_an_ended_session_starts_and_the_source_stays_ended() {
    let root = Root::new();
    let source = root.spawn(&[], &[FIXTURE, "count", "starts", "--", "exit", "3"]);
    root.json(["wait", text(&source["id"])]);
    let copy = root.json(["fork", text(&source["id"])])["session"].clone();
    assert_eq!(root.json(["wait", text(&copy["id"])])["session"]["exit"], json!({"code": 3}));
    assert_eq!((root.lines("starts").len(), &root.session(&source["id"])["episode"]), (2, &json!(1)));
    assert_eq!((&copy["name"], &root.session(&copy["id"])["forked_from"]), (&Value::Null, &source["id"]));
}

/// A copy that cannot be started leaves nothing, and one whose name is taken is not made.
#[test]
fn a_copy_that_does_not_come_up_leaves_no_session() {
    let root = Root::new();
    let program = root.folder().join("program");
    copy_program("/bin/sleep", &program);
    let source = root.spawn(&["--name", "web"], &[program.to_str().unwrap(), "1000"]);
    assert_eq!(root.ostler(["--json", "fork", "web", "--name", "web"]).exits(4).error_code(), "session_exists");
    // Running programs are busy, so the file is put out of the way.
    std::fs::rename(&program, root.folder().join("elsewhere")).unwrap();
    assert_eq!(root.ostler(["--json", "fork", "web", "--key", "k"]).exits(1).error_code(), "spawn_failed");
    assert_eq!(root.json(["list", "--all"])["sessions"].as_array().unwrap().len(), 1);
    wait_until(SOON, "its folder to go", || root.names("sessions").len() == 1);
    std::fs::rename(root.folder().join("elsewhere"), &program).unwrap();
    assert_eq!(root.json(["fork", "web", "--key", "k"])["session"]["status"], "ready", "the key was free again");
    assert!(Process::of_value(&source["pid"]).alive());
}

/// A session copies what it may resume: its children; the copy is its child, too.
#[test]
fn a_session_copies_its_children_and_nobody_else() {
    let root = Root::new();
    let other = root.spawn_fixture(&["--name", "other"], "sleep");
    let inside = format!(
        "ostler=$1; child=$($ostler spawn --json -- sleep 1000); id=$(echo \"$child\" | sed 's/.*\"session\":{{\"id\":\"\\([a-z2-7]*\\)\".*/\\1/'); \
         $ostler fork $id --json >copy; $ostler fork {} --json >refused; echo done >done; exec sleep 1000",
        text(&other["id"])
    );
    let parent = root.spawn(&[], &["sh", "-c", &inside, "sh", crate::support::OSTLER]);
    wait_until(SOON, "it to have tried", || root.folder().join("done").exists());
    let read =
        |name: &str| -> Value { serde_json::from_slice(&std::fs::read(root.folder().join(name)).unwrap()).unwrap() };
    assert_eq!(read("copy")["session"]["parent"], parent["id"]);
    assert_eq!(read("refused")["error"]["code"], "not_found");
    drop(finish(&mut root.command(["shutdown", "--stop-sessions"]), b""));
}
