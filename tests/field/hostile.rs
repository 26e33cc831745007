//! What a hostile tester broke once: lost records, odd files, time-outs, a full house.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;

use nix::sys::stat::Mode;
use serde_json::{Value, json};

use crate::support::{Process, Root, SOON, finish, wait_until};

/// The ledger loses its only segment while a session runs and another one has ended.
fn without_ledger(spoil: impl FnOnce(&std::path::Path)) {
    let mut root = Root::new();
    root.damages_the_ledger();
    let live = root.json(["spawn", "--", "sleep", "1000"])["session"].clone();
    let ended = root.json(["spawn", "--", "sh", "-c", "echo kept"])["session"]["id"]
        .as_str()
        .expect("an id is a text")
        .to_owned();
    root.json(["wait", &ended]);
    root.ostler(["shutdown"]).exits(0);
    spoil(&root.path().join("ledger").join("00000000000000000001.jsonl"));

    let status = root.json(["status"]);
    assert_eq!(status["state"], "absent");
    root.ostler(["ensure"]).exits(0);
    let degraded = root.json(["status"])["degraded"].to_string();
    assert!(
        degraded.contains("2 sessions") && degraded.contains(live["id"].as_str().expect("an id is a text")),
        "{degraded}"
    );
    assert!(Process::of_value(&live["pid"]).alive(), "what ran runs on");
    for id in [live["id"].as_str().expect("an id is a text"), &ended] {
        let episode = root.path().join("sessions").join(id).join("1");
        assert!(episode.join("host.json").is_file() && episode.join("exit.json").is_file(), "its files stay");
    }
    Process::of_value(&live["host_pid"]).kill_9();
}

#[test]
fn field_f18_an_emptied_ledger_takes_no_session_with_it() {
    without_ledger(|segment| fs::write(segment, b"").unwrap());
}

#[test]
fn field_f18_a_removed_ledger_takes_no_session_with_it() {
    without_ledger(|segment| fs::remove_file(segment).unwrap());
}

#[test]
fn field_f18_a_pipe_in_place_of_the_secret_refuses_the_start_at_once() {
    let root = Root::new();
    root.ostler(["ensure"]).exits(0);
    root.ostler(["shutdown"]).exits(0);
    let secret = root.path().join("request.secret");
    fs::remove_file(&secret).unwrap();
    nix::unistd::mkfifo(&secret, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let refused = root.ostler(["ensure"]).exits(1).error_text();
    assert!(refused.contains("request.secret is no regular file"), "{refused}");
    fs::remove_file(&secret).unwrap();
    root.ostler(["ensure"]).exits(0);
}

/// Where the secret is written before it has its name: a pipe there held the start up for ever, with the lock in its hand.
#[test]
fn field_f18_a_pipe_in_place_of_the_secrets_draft_is_cleared_away() {
    let root = Root::new();
    root.ostler(["ensure"]).exits(0);
    root.ostler(["shutdown"]).exits(0);
    fs::remove_file(root.path().join("request.secret")).unwrap();
    nix::unistd::mkfifo(&root.path().join("request.secret.new"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    root.ostler(["ensure", "--timeout", "9s"]).exits(0);
    assert!(!root.path().join("request.secret.new").exists() && root.path().join("request.secret").is_file());
}

/// The host has one thread: a pipe where its output belongs made it deaf, and its session could not be stopped.
#[test]
fn field_f18_a_pipe_in_place_of_the_output_makes_no_host_deaf() {
    let root = Root::new();
    let script = "o=$OSTLER_ROOT/sessions/$OSTLER_SESSION/1/output; mkdir -m 700 $o; mkfifo -m 600 $o/00000000000000000000; \
                  echo lost; touch written; exec sleep 1000";
    let folder = root.folder().to_owned();
    root.spawn(&["--name", "s", "--cwd", folder.to_str().unwrap()], &["sh", "-c", script]);
    wait_until(SOON, "it to have written", || folder.join("written").exists());
    assert_eq!(root.json(["stop", "s", "--timeout", "9s"])["session"]["exit"], json!({"signal": "SIGTERM"}));
    root.json(["delete", "s"]);
}

#[test]
fn field_a13_a_root_that_is_moved_under_its_broker_takes_its_sessions_along() {
    let root = Root::new();
    let (here, there) = (root.path(), root.folder().join("moved"));
    let session = root.json(["spawn", "--", "sleep", "1000"])["session"].clone();
    let (id, first) = (session["id"].as_str().unwrap(), root.broker().unwrap());
    let command = Process::of_value(&session["pid"]);
    fs::rename(&here, &there).unwrap();
    // Another root grows at the old place before anybody looks after the moved one.
    root.ostler(["ensure"]).exits(0);
    wait_until(SOON, "the broker of the moved root has left", || !first.alive());
    assert_eq!(root.json(["list"])["sessions"], json!([]));
    assert_eq!(fs::read_dir(here.join("sessions")).unwrap().count(), 0, "nothing of the moved root is in the new one");

    let moved = ["--root", there.to_str().unwrap()];
    let shown = root.json([&moved[..], &["show", id]].concat());
    assert_eq!(shown["session"]["pid"], session["pid"]);
    wait_until(SOON, "the session is adopted", || {
        root.json([&moved[..], &["show", id]].concat())["session"]["reason"].is_null()
    });
    root.ostler([&moved[..], &["shutdown", "--stop-sessions"]].concat()).exits(0);
    assert!(!command.alive());
}

#[test]
fn field_e21_a_stop_that_outlives_its_deadline_is_late_and_not_uncertain() {
    let root = Root::new();
    let script = "trap '' TERM; echo up; while :; do sleep 1; done";
    let id = root.json(["spawn", "--", "sh", "-c", script])["session"]["id"].as_str().unwrap().to_owned();
    let arguments = ["stop", &id, "--key", "k", "--grace", "5s", "--timeout", "300ms"];
    let late = root.ostler(arguments).exits(6).error_text();
    assert!(late.contains("(timeout)") && late.contains("the same key finds out"), "{late}");
    assert_eq!(root.json(["operation", "show", "k"])["operation"]["state"], "accepted");
    let done = root.json(["stop", &id, "--key", "k", "--grace", "5s"]);
    assert_eq!((&done["operation"]["state"], &done["session"]["status"]), (&json!("succeeded"), &json!("stopped")));
}

#[test]
fn field_d11_sessions_can_be_stopped_where_no_thread_can_be_had() {
    let root = Root::new();
    for name in ["a", "b"] {
        root.json(["spawn", "--name", name, "--", "sleep", "1000"]);
    }
    // Root has no such limit; everybody else has more than one process here already.
    for arguments in [&["stop", "a", "b"][..], &["delete", "a"]] {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -u 1; exec \"$@\"", "sh"]);
        finish(&mut Root::carried(command, &root.command(arguments)), b"").exits(0);
    }
}

#[test]
fn field_j06_an_age_beyond_what_a_record_holds_is_bad_input() {
    let root = Root::new();
    root.ostler(["ensure"]).exits(0);
    let mut said = Said::hello(&root);
    let answer = said.call("session.prune", json!({"key": "k", "older_ms": u64::MAX}));
    assert_eq!(answer["error"]["data"]["code"], "invalid_input", "{answer}");
    let answer = said.call("session.prune", json!({"key": "k", "older_ms": (1_u64 << 53) - 1}));
    assert_eq!(answer["result"]["operation"]["state"], "succeeded", "{answer}");
}

#[test]
fn field_j06_a_finding_beyond_what_a_record_holds_is_bad_input() {
    let root = Root::new();
    root.ostler(["ensure"]).exits(0);
    let mut said = Said::hello(&root);
    let finding = json!({"class": "loss", "first": 1, "missing": u64::MAX, "offset": 0, "segment": "s"});
    let answer = said.call("ledger.accept", json!({"reason": "r", "findings": [finding]}));
    let told = (&answer["error"]["data"]["code"], &answer["error"]["data"]["retry"]);
    assert_eq!(told, (&json!("invalid_input"), &json!("never")), "{answer}");
    assert_eq!(said.call("broker.status", json!({}))["result"]["degraded"], json!([]));
}

#[test]
fn field_j08_a_broker_with_a_full_house_is_never_called_hung() {
    let root = Root::new();
    root.ostler(["ensure"]).exits(0);
    let guests: Vec<Said> = (0..1024).map(|_| Said::hello(&root)).collect();
    let turned_away = root.ostler(["list", "--timeout", "2s"]).exits(9).error_text();
    assert!(turned_away.contains("(capacity)") && !turned_away.contains("--force"), "{turned_away}");
    let status = root.json(["status", "--timeout", "1s"]);
    assert_eq!(status["state"], "running", "{status}");
    assert!(status["broker"]["pid"].is_u64() && status["degraded"].to_string().contains("1024"), "{status}");
    drop(guests);
    root.ostler(["list"]).exits(0);
}

/// A connection by hand.
struct Said(BufReader<UnixStream>);

impl Said {
    fn hello(root: &Root) -> Said {
        let record: Value =
            serde_json::from_slice(&fs::read(root.path().join("broker.json")).expect("the broker answers"))
                .expect("the broker answers");
        let endpoint = record["broker"]["endpoint"]
            .as_str()
            .expect("the broker answers")
            .strip_prefix("unix:")
            .expect("the broker answers");
        let mut said = Said(BufReader::new(UnixStream::connect(endpoint).expect("the broker answers")));
        let client = json!({"name": "test", "version": "1"});
        let protocol = json!({"min": 1, "max": 1});
        let hello = json!({"protocol": protocol, "client": client, "token": record["token"], "as": "owner"});
        let answer = said.call("hello", hello);
        assert!(answer["result"].is_object(), "{answer}");
        said
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.0.get_mut().write_all(format!("{request}\n").as_bytes()).expect("the broker answers");
        let mut line = String::new();
        self.0.read_line(&mut line).expect("the broker answers");
        serde_json::from_str(&line).expect("the broker answers")
    }
}
