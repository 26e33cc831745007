//! Groups A, C and D: records that name somebody else, an owner that is silent, and one session that cannot be ended among others that can.
#![expect(clippy::disallowed_methods, reason = "starts strangers by hand")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::scene::{at_once, text};
use crate::support::{Process, Root, SOON, wait_until};

/// A process that nobody here has to do with. It is ended with its test.
struct Stranger(Child);

impl Stranger {
    fn new() -> Self {
        Self(Command::new("sleep").arg("600").spawn().expect("a stranger"))
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().expect("it can be asked").is_none()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _gone = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Changes the identities in a session's `host.json`.
fn rewrite(root: &Root, session: &Value, change: impl Fn(&mut Value)) {
    let path = root.path().join("sessions").join(text(&session["id"])).join("1/host.json");
    let mut record: Value = serde_json::from_slice(&fs::read(&path).expect("a host writes it")).expect("it is JSON");
    change(&mut record["host"]);
    change(&mut record["command"]);
    let _gone = fs::remove_file(&path);
    fs::write(&path, serde_json::to_vec(&record).expect("it stays JSON")).expect("the file can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode can be set");
}

/// Reports codex-plugin-cc#743 and bitsocial-cli#66: a recorded number belonged to somebody else by then, or counted in another container, and was
/// signalled. Whatever is asked, the stranger hears nothing.
#[test]
fn field_c02_a_number_of_another_container_or_of_a_stranger_is_never_signalled() {
    for ends in [true, false] {
        let root = Root::new();
        let mut stranger = Stranger::new();
        let pid = json!(stranger.0.id());
        let (away, reused) = (root.spawn_fixture(&[], "sleep"), root.spawn_fixture(&[], "sleep"));
        root.kill_broker();
        let living = [&away, &reused].map(|session| Process::of_value(&session["host_pid"]));
        if ends {
            living.iter().for_each(|host| host.kill_9());
        }
        rewrite(&root, &away, |identity| {
            identity["pid"] = pid.clone();
            identity["ns"] = json!(identity["ns"].as_u64().map(|ns| ns + 1));
        });
        rewrite(&root, &reused, |identity| {
            identity["pid"] = pid.clone();
            identity["start"] = json!(1);
        });
        root.ensure();
        for session in [&away, &reused] {
            let id = text(&session["id"]);
            wait_until(SOON, "the evidence to be judged", || {
                root.session(&session["id"])["reason"] != "liveness unknown"
            });
            for verb in
                [&["stop", id, "--grace", "0s"][..], &["reconcile", id], &["delete", id, "--stop", "--grace", "0s"]]
            {
                let told = root.ostler(["--json", "--timeout", "20s"].iter().chain(verb));
                assert!([Some(0), Some(3), Some(4)].contains(&told.code()), "{told:?}");
            }
            assert!(stranger.lives(), "{id}");
        }
        if ends {
            assert_eq!(root.json(["list", "--all"])["sessions"], json!([]), "both were settled and deleted");
        }
        assert_eq!(root.brokers().len(), 1);
        for host in living {
            host.kill_9();
        }
    }
}

/// Report gajae-code#3980: a close loop ended at the first refusal, and the broker was never replaced.
#[test]
fn field_d04_one_session_that_cannot_be_stopped_hinders_no_shutdown() {
    let root = Root::new();
    let sessions: Vec<Value> =
        ["sleep", "ignore-term -- sleep", "sleep"].map(|steps| root.spawn_fixture(&[], steps)).into();
    root.kill_broker();
    // The one in the middle is of somebody else, as far as its record tells.
    rewrite(&root, &sessions[1], |identity| identity["ns"] = json!(7));
    root.ensure();
    wait_until(SOON, "it to be fenced", || root.session(&sessions[1]["id"])["fence"].is_object());
    let broker = root.broker().expect("a broker answers");
    let commands: Vec<Process> = sessions.iter().map(|session| Process::of_value(&session["pid"])).collect();
    let left = root.json(["shutdown", "--stop-sessions"]);
    let named: Vec<&Value> =
        left["not_stopped"].as_array().into_iter().flatten().map(|one| &one["session_id"]).collect();
    assert_eq!(named, [&sessions[1]["id"]], "{left}");
    assert!(!commands[0].alive() && commands[1].alive() && !commands[2].alive());
    // It says that it leaves a moment before it is gone.
    wait_until(SOON, "the broker to be gone", || !broker.alive());
    Process::of_value(&sessions[1]["host_pid"]).kill_9();
}

/// A host that does not answer ends nothing: its session goes on and is named, as a fenced one is.
#[test]
fn field_d04_a_session_whose_host_is_silent_is_named_by_a_shutdown() {
    let root = Root::new();
    let [silent, other] = ["sleep", "sleep"].map(|steps| root.spawn_fixture(&[], steps));
    let (host, other) = (Process::of_value(&silent["host_pid"]), Process::of_value(&other["pid"]));
    kill(Pid::from_raw(host.pid), Signal::SIGSTOP).expect("it is the host of this test");
    // Its end is asked for, so that the shutdown has not to wait for the whole grace of its own.
    root.ostler(["stop", text(&silent["id"]), "--grace", "0s", "--timeout", "1s"]).exits(6);
    let left = root.json(["shutdown", "--stop-sessions"]);
    let named: Vec<&Value> =
        left["not_stopped"].as_array().into_iter().flatten().map(|one| &one["session_id"]).collect();
    assert_eq!(named, [&silent["id"]], "{left}");
    assert!(host.alive() && !other.alive());
    kill(Pid::from_raw(host.pid), Signal::SIGCONT).expect("it is the host of this test");
    // What was asked for is owed still.
    assert_eq!(root.session_becomes(&silent["id"], "stopped")["exit"], json!({"signal": "SIGTERM"}));
}

/// Report gajae-code#4704: a broker lived and was silent; nobody could use it and nobody could take over. Each client is told in its time, with
/// what to type; the broker that wakes up is the broker still.
#[test]
fn field_a03_a_silent_broker_is_told_to_each_with_the_remedy() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s"], "sleep");
    let broker = root.broker().expect("a broker answers");
    let signal = |signal| kill(Pid::from_raw(broker.pid), signal).expect("it is the broker of this test");
    signal(Signal::SIGSTOP);
    let commands = (0..2).map(|_| root.command(["--json", "ensure", "--timeout", "7s"])).collect();
    for told in at_once(commands) {
        let error = told.exits(5).json()["error"].clone();
        assert!(error["message"].as_str().is_some_and(|said| said.contains("shutdown --force")), "{error}");
    }
    // Starters that gave up go a moment after their clients.
    wait_until(SOON, "nobody to be beside it", || root.brokers() == [broker]);
    signal(Signal::SIGCONT);
    assert_eq!(root.ensure()["pid"], json!(broker.pid));
    assert_eq!(root.json(["stop", "s"])["session"]["id"], session["id"]);
    root.ostler(["ledger", "verify"]).exits(0);
}
