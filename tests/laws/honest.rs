//! Law 7: what cannot be known is said as such, never as success or failure; evidence may settle it later.
#![expect(clippy::disallowed_methods, reason = "stops hosts and kills clients by hand")]

use std::fs;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::scene::{spawning, text};
use crate::support::{FIXTURE, Process, Root, SOON, finish, wait_until};

fn signal(process: &Value, signal: Signal) {
    let pid = i32::try_from(process.as_i64().expect("a pid")).expect("a pid");
    kill(Pid::from_raw(pid), signal).expect("it is a process of this test");
}

/// Silence is not death (report I07): a host that does not answer holds up nobody but whoever asks for its session.
#[test]
fn law_07_of_a_silent_host_nothing_is_claimed() {
    let root = Root::new();
    let silent = root.spawn_fixture(&["--name", "silent"], "sleep");
    let other = root.spawn_fixture(&["--name", "other"], "sleep");
    signal(&silent["host_pid"], Signal::SIGSTOP);
    root.kill_broker();
    let report = root.json(["ensure"]);
    assert_eq!(report["started"], true, "the start waits for no host");
    let found = root.session_becomes(&other["id"], "ready");
    assert_eq!(found["pid"], other["pid"]);
    let found = root.session(&silent["id"]);
    assert_eq!((&found["status"], &found["reason"]), (&json!("ready"), &json!("liveness unknown")));
    // What is asked of it cannot be had, and that is what is said.
    let refused = root.ostler(["stop", "silent", "--grace", "0s", "--timeout", "3s", "--json", "--key", "k"]);
    assert_eq!((refused.code(), refused.error_code().as_str()), (Some(6), "timeout"), "{refused:?}");
    assert!(Process::of_value(&silent["pid"]).alive());
    assert_eq!(root.json(["stop", "other"])["session"]["status"], "stopped");
    // Once it speaks again, what was asked for happens, under the same key.
    signal(&silent["host_pid"], Signal::SIGCONT);
    let ended = root.json(["wait", "silent"]);
    assert_eq!(ended["session"]["status"], "stopped");
    assert!(Process::of(silent["pid"].as_i64().unwrap()).is_none());
    let again = root.ostler(["stop", "silent", "--key", "k", "--json", "--grace", "0s"]);
    assert!([Some(0), Some(6)].contains(&again.code()), "{again:?}");
}

/// A root that was copied with its live sessions owns none of them.
#[test]
fn law_07_a_copied_root_touches_nobody() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s"], "sleep");
    root.spawn_fixture(&["--name", "e"], "exit 3");
    root.json(["wait", "e"]);
    let copy = root.folder().join("copy");
    let copied = Command::new("cp").arg("-a").args([root.path(), copy.clone()]).status().unwrap();
    // Sockets in the root cannot be copied; there are none.
    assert!(copied.success());
    let inside = |arguments: &[&str]| {
        let mut command = root.command(["--json"]);
        finish(command.args(arguments).env("OSTLER_ROOT", &copy), b"")
    };
    let broker = inside(&["ensure"]).exits(0).json();
    assert_eq!(broker["started"], true);
    assert_ne!(broker["broker"]["pid"], root.ensure()["pid"]);
    let mut found = Value::Null;
    wait_until(SOON, "the copy to know that it is one", || {
        found = inside(&["show", "s"]).exits(0).json()["session"].clone();
        found["fence"].is_object()
    });
    for verb in [&["stop", "s"][..], &["delete", "s", "--stop"], &["resume", "s"]] {
        assert_eq!(inside(verb).exits(4).error_code(), "session_fenced");
    }
    assert_eq!(inside(&["show", "e"]).exits(0).json()["session"]["exit"], json!({"code": 3}), "the rest is whole");
    let left = inside(&["shutdown", "--stop-sessions"]).exits(0);
    assert_eq!(left.json()["not_stopped"][0]["session_id"], session["id"], "{left:?}");
    let told = format!("session {} was not stopped: it is fenced", text(&session["id"]));
    assert!(left.error_text().contains(&told), "{left:?}");
    assert!(Process::of_value(&session["pid"]).alive() && Process::of_value(&session["host_pid"]).alive());
    assert_eq!(root.session(&session["id"])["status"], "ready");
    root.kill_broker();
    root.ensure();
    assert_eq!(root.session_becomes(&session["id"], "ready")["pid"], session["pid"]);
}

/// Somebody removed a live session's files. It is ended all the same, and nothing is claimed that is not so.
#[test]
fn law_07_a_live_session_without_its_folder_is_not_lost() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s"], "sleep");
    let command = Process::of_value(&session["pid"]);
    fs::remove_dir_all(root.path().join("sessions").join(text(&session["id"]))).unwrap();
    assert_eq!(root.session(&session["id"])["pid"], session["pid"]);
    let stopped = root.json(["stop", "s"]);
    assert_eq!(
        (&stopped["session"]["status"], &stopped["session"]["exit"]),
        (&json!("stopped"), &json!({"signal": "SIGTERM"}))
    );
    assert!(!command.alive());
    assert_eq!(root.json(["delete", "s"])["session"]["status"], "deleted");
}

/// Clients that are killed at any moment of their request: the key finds out, and does nothing twice.
#[test]
fn law_07_what_a_killed_client_asked_for_is_found_out_by_its_key() {
    const CLIENTS: usize = 12;
    let root = Root::new();
    root.ensure();
    let arguments = |n: usize| {
        let count = format!("starts-{n}");
        spawning(&["--json", "--key", &format!("k-{n}")], &[FIXTURE, "count", &count, "--", "sleep"])
    };
    let ledger = || fs::metadata(root.path().join("ledger/00000000000000000001.jsonl")).unwrap().len();
    for n in 0..CLIENTS {
        let before = ledger();
        let mut client = root.command(arguments(n));
        let mut client = client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // At once, or once something of it is in the ledger.
        wait_until(SOON, "it to have asked", || n % 3 == 0 || ledger() > before);
        client.kill().unwrap();
        client.wait().unwrap();
    }
    for n in 0..CLIENTS {
        let made = root.ostler(arguments(n)).exits(0).json();
        wait_until(SOON, "the start to be counted", || !root.lines(&format!("starts-{n}")).is_empty());
        assert_eq!(root.lines(&format!("starts-{n}")), [made["session"]["pid"].to_string()]);
    }
    assert_eq!(root.json(["list", "--all"])["sessions"].as_array().unwrap().len(), CLIENTS);
}

/// Who waits, follows or runs does not notice that its broker was replaced.
#[test]
fn law_07_waiting_following_and_running_outlive_the_broker() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s"], "say first -- until go -- say second -- exit 5");
    let start = |arguments: &[&str]| {
        let mut command = root.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let waiting = start(&["wait", "s", "--json"]);
    let following = start(&["logs", "s", "-f"]);
    let running = start(&[
        "run", "--name", "r", "--", FIXTURE, "say", "first", "--", "until", "go", "--", "say", "second", "--", "exit",
        "6",
    ]);
    wait_until(SOON, "both to speak", || {
        let spoken = |name: &str| root.ostler(["logs", name]).stdout == b"first\n";
        spoken("s") && spoken("r")
    });
    for _ in 0..2 {
        root.kill_broker();
        root.ensure();
    }
    root.kill_broker();
    fs::write(root.folder().join("go"), "").unwrap();
    let output = |child: std::process::Child| child.wait_with_output().unwrap();
    let waited = output(waiting);
    let document: Value = serde_json::from_slice(&waited.stdout).unwrap_or_else(|_| panic!("{waited:?}"));
    assert_eq!((&document["session"]["id"], &document["session"]["exit"]), (&session["id"], &json!({"code": 5})));
    let followed = output(following);
    assert!(followed.status.success() && followed.stdout == b"first\nsecond\n", "{followed:?}");
    let ran = output(running);
    assert!(ran.status.code() == Some(6) && ran.stdout == b"first\nsecond\n", "{ran:?}");
}

/// The secret under which requests are digested is gone: whether a retry is one cannot be known, and is not held against the caller.
#[test]
fn law_07_a_retry_that_cannot_be_compared_is_said_to_be_so() {
    let root = Root::new();
    let spawn = ["spawn", "--key", "old", "--", FIXTURE, "count", "starts", "--", "sleep"];
    let session = root.json(spawn)["session"].clone();
    root.ostler(["shutdown"]).exits(0);
    fs::remove_file(root.path().join("request.secret")).unwrap();
    for _ in 0..2 {
        root.ensure();
        let degraded = root.json(["status"])["degraded"].to_string();
        assert!(degraded.contains("request.secret was lost"), "{degraded}");
        assert!(root.ostler(["doctor"]).text().contains("request.secret was lost"));
        // A retry, and another request under the same key.
        for arguments in [&spawn[..], &["stop", text(&session["id"]), "--key", "old"]] {
            let mut command = root.command(["--json"]);
            let error = finish(command.args(arguments), b"").exits(1).json()["error"].clone();
            let said = (&error["code"], &error["data"]["reason"], &error["retry"], &error["data"]["state"]);
            assert_eq!(said, (&json!("uncertain"), &json!("incomparable"), &json!("never"), &json!("succeeded")));
            let shown = root.ostler(arguments).exits(1).error_text();
            assert!(
                shown.contains("changed: nothing\n") && shown.contains("next: ostler operation show op-"),
                "{shown}"
            );
        }
        // What was asked since is compared as ever.
        root.json(["spawn", "--key", "new", "--name", "new", "--", "sleep", "1000"]);
        let mut other = root.command(["--json", "spawn", "--key", "new", "--", "true"]);
        assert_eq!(finish(&mut other, b"").exits(4).error_code(), "key_conflict");
        root.ostler(["shutdown"]).exits(0);
    }
    root.ensure();
    assert_eq!(root.json(["show", text(&session["id"])])["session"]["pid"], session["pid"]);
    assert_eq!(root.lines("starts").len(), 1, "nothing was done twice");
}
