//! Status, doctor and shutdown in every state of a broker. They look: nothing is started, made or locked by them.

use crate::support::{Root, SOON, finish, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn state(root: &Root) -> Value {
    root.json(["status"])["state"].clone()
}

/// How the check of this name went.
fn check<'a>(doctor: &'a Value, name: &str) -> &'a Value {
    let found = doctor["checks"].as_array().into_iter().flatten().find(|check| check["check"] == name);
    &found.unwrap_or_else(|| panic!("no check {name} in {doctor}"))["status"]
}

#[test]
fn where_nothing_is_nothing_is_made() {
    let root = Root::new();
    let status = root.json(["status"]);
    assert_eq!(
        (&status["state"], &status["lock"]["held"], &status["broker"]),
        (&"absent".into(), &false.into(), &Value::Null)
    );
    assert_eq!(check(&root.json(["doctor"]), "root"), "skip");
    assert_eq!(root.json(["shutdown"])["broker"], Value::Null);
    assert!(!root.path().exists());
}

#[test]
fn a_broker_runs_and_leaves_and_its_sessions_go_on() {
    let root = Root::new();
    root.json(["spawn", "--name", "x", "--", "sleep", "1000"]);
    let status = root.json(["status"]);
    assert_eq!(
        (&status["state"], &status["lock"]["held"], &status["sessions"]["live"]),
        (&"running".into(), &true.into(), &1.into())
    );
    assert_eq!(status["lock"]["owner"]["pid"], status["broker"]["pid"]);
    let doctor = root.json(["doctor"]);
    let bad = |check: &&Value| check["status"] != "ok";
    assert_eq!(doctor["checks"].as_array().unwrap().iter().find(bad), None, "{doctor}");
    let process = crate::support::Process::of_value(&root.json(["show", "x"])["session"]["pid"]);
    assert_eq!(root.json(["shutdown"])["broker"], status["broker"]);
    assert_eq!(state(&root), "absent", "shutdown returns when a successor could start");
    assert!(process.alive());
    let doctor = root.json(["doctor"]);
    assert_eq!(
        (check(&doctor, "strays"), check(&doctor, "broker")),
        (&"ok".into(), &"skip".into()),
        "its host holds it: {doctor}"
    );
    root.json(["shutdown", "--stop-sessions"]);
    assert!(process.alive(), "no broker, nobody asked to stop anything");
    root.json(["ensure"]);
    root.json(["shutdown", "--stop-sessions"]);
    assert!(!process.alive());
}

#[test]
fn a_killed_broker_leaves_nothing_that_looks_alive() {
    let root = Root::new();
    root.json(["ensure"]);
    root.broker().unwrap().kill_9();
    let status = root.json(["status"]);
    assert_eq!(
        (&status["state"], &status["lock"]["held"], &status["lock"]["owner_lives"]),
        (&"absent".into(), &false.into(), &false.into())
    );
    assert!(root.ostler(["status"]).text().contains("live ones go on in their hosts"));
    assert!(status["ledger"]["seq"].as_u64().unwrap() > 0, "the ledger is read from its files: {status}");
    assert_eq!(root.json(["shutdown"])["broker"], Value::Null);
    let doctor = root.json(["doctor"]);
    assert_eq!(
        (check(&doctor, "broker"), check(&doctor, "lock"), check(&doctor, "discovery")),
        (&"skip".into(), &"ok".into(), &"ok".into()),
        "{doctor}"
    );
}

#[test]
fn a_silent_owner_is_named_and_ended_only_by_force() {
    let root = Root::new();
    root.json(["ensure"]);
    let broker = root.broker().unwrap();
    kill(Pid::from_raw(broker.pid), Signal::SIGSTOP).unwrap();
    let looked = root.json(["status"]);
    assert_eq!((&looked["state"], &looked["lock"]["held"]), (&"unresponsive".into(), &true.into()));
    let doctor = root.ostler(["--json", "doctor"]).exits(1).json();
    assert_eq!((check(&doctor, "broker"), check(&doctor, "discovery")), (&"fail".into(), &"warn".into()), "{doctor}");
    let unanswered = root.ostler(["--json", "--timeout", "6s", "list"]).exits(5).json();
    assert_eq!(unanswered["error"]["data"]["reason"], "unresponsive", "{unanswered}");
    assert!(unanswered["error"]["message"].as_str().unwrap().contains("shutdown --force"), "{unanswered}");
    let refused = root.ostler(["--json", "--timeout", "10s", "shutdown"]).exits(5).json();
    assert_eq!(refused["error"]["code"], "broker_blocked");
    assert_eq!(refused["error"]["data"]["remedy"], "ostler shutdown --force");
    assert!(broker.alive());
    assert_eq!(root.ostler(["--json", "shutdown", "--force"]).exits(0).json()["forced"], true);
    assert!(!broker.alive());
    assert_eq!(state(&root), "absent");
    assert_eq!(root.json(["ensure"])["broker"]["generation"], 2);
}

/// Less time than hello may take says nothing of a broker: it is told as what it is, and nobody is led to end one, or ends one.
#[test]
fn who_is_in_a_hurry_is_told_the_time_and_ends_no_broker() {
    let root = Root::new();
    let served = root.json(["ensure"])["broker"].clone();
    // It may be too late or just in time, and nothing else.
    for arguments in [&["status"][..], &["list"], &["--no-start", "list"]] {
        let output = root.ostler([&["--timeout", "1ms"], arguments].concat());
        assert!(matches!(output.code(), Some(0 | 6)) && !output.error_text().contains("--force"), "{output:?}");
    }
    let broker = root.broker().unwrap();
    kill(Pid::from_raw(broker.pid), Signal::SIGSTOP).unwrap();
    let late = |output: &crate::support::Output| {
        let said = output.error_text();
        assert_eq!(output.code(), Some(6), "{output:?}");
        assert!(
            said.contains("(timeout)") && said.contains("next: the same command with a longer --timeout"),
            "{said}"
        );
        assert!(!said.contains("--force"), "{said}");
    };
    for arguments in [&["status"][..], &["list"], &["--no-start", "list"], &["shutdown"], &["shutdown", "--force"]] {
        late(&root.ostler([&["--timeout", "300ms"], arguments].concat()));
    }
    late(&finish(root.command(["list"]).env("OSTLER_TIMEOUT", "300ms"), b""));
    let doctor = root.ostler(["--json", "--timeout", "300ms", "doctor"]).exits(0).json();
    assert_eq!(check(&doctor, "broker"), "warn", "{doctor}");
    assert!(!doctor.to_string().contains("--force"), "{doctor}");
    kill(Pid::from_raw(broker.pid), Signal::SIGCONT).unwrap();
    assert_eq!(root.json(["ensure"])["broker"], served);
}

#[test]
fn a_root_is_shown_with_its_whole_path() {
    let root = Root::new();
    let shown = root.ostler(["--root", "elsewhere", "status"]).exits(0).text();
    assert!(shown.contains(&format!("{}/elsewhere\n", root.folder().display())), "{shown}");
}

#[test]
fn a_root_that_is_not_ours_alone_is_blocked_and_says_why() {
    let root = Root::new();
    fs::create_dir(root.path()).unwrap();
    let mode = |mode| fs::set_permissions(root.path(), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o755);
    let status = root.json(["status"]);
    assert_eq!(status["state"], "blocked");
    assert!(status["degraded"][0].as_str().unwrap().contains("0755"), "{status}");
    assert_eq!(check(&root.ostler(["--json", "doctor"]).exits(1).json(), "root"), "fail");
    let refused = root.ostler(["--json", "ensure"]).json();
    let remedy = format!("chmod 700 {}", root.path().display());
    assert_eq!(refused["error"]["data"]["remedy"], *remedy, "{refused}");
    assert!(root.ostler(["shutdown"]).exits(5).error_text().contains(&remedy));
    let head = root.ostler(["ledger", "head"]).exits(7).error_text();
    assert!(head.contains("0755") && head.contains(&format!("next: {remedy}\n")), "{head}");
    mode(0o700);
    root.json(["ensure"]);
}

#[test]
fn a_lock_that_others_may_open_is_blocked_and_a_folder_in_its_place_is_not() {
    let root = Root::new();
    fs::create_dir(root.path()).unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let lock = root.path().join("broker.lock");
    fs::write(&lock, "").unwrap();
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(state(&root), "blocked");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(state(&root), "absent", "the next start sets it aside");
    assert_eq!(check(&root.json(["doctor"]), "lock"), "warn");
    root.json(["ensure"]);
    assert_eq!(state(&root), "running");
}

#[test]
fn processes_of_a_dead_host_are_shown() {
    let root = Root::new();
    let session =
        root.json(["spawn", "--", "sh", "-c", "setsid sleep 1000 & echo $!; exec sleep 1000"])["session"].clone();
    let id = session["id"].as_str().unwrap();
    wait_until(SOON, "the pid of its child", || root.ostler(["logs", id]).text().ends_with('\n'));
    let child = crate::support::Process::of(root.ostler(["logs", id]).text().trim().parse().unwrap()).unwrap();
    // First the broker, so that nobody cleans up after the host.
    root.broker().unwrap().kill_9();
    crate::support::Process::of_value(&session["host_pid"]).kill_9();
    wait_until(SOON, "the command to die with its host", || {
        let doctor = root.ostler(["--json", "doctor"]).exits(0).json();
        check(&doctor, "strays") == "warn" && doctor.to_string().contains(&format!("pid {}\"", child.pid))
    });
    assert!(child.alive(), "looking ends nobody");
    root.json(["ensure"]);
    wait_until(SOON, "the broker to end what is left", || !child.alive());
    assert_eq!(check(&root.json(["doctor"]), "strays"), "ok");
}
