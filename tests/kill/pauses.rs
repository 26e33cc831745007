//! Processes that are stopped at a point, as a machine stops them that has no time for them, while the world goes on: silence is not
//! death, and whoever comes back finds nothing done twice.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ostler::os::points::Point;
use serde_json::{Value, json};

use super::run::{MARKS, Plan, Run};
use crate::support::leftovers::leftovers;
use crate::support::{Output, Process, Running, SOON, finish, wait_for, wait_until};

const LIMITS: &str = "segment_bytes:1000000";
/// How long a caller waits who gives up.
const IMPATIENT: &str = "1s";

fn stopping_at(point: Point) -> Run {
    Run::new(LIMITS, Some(Plan { point, number: 1, act: "stop" }))
}

/// The process that was stopped.
fn stopped(run: &Run) -> Process {
    let find =
        || leftovers(run.root.folder()).into_iter().map(|left| left.process).find(|process| process.is_stopped());
    wait_for(SOON, "a process to be stopped at the point", find)
}

fn go_on(process: Process) {
    kill(Pid::from_raw(process.pid), Signal::SIGCONT).expect("it is there, stopped");
}

/// A spawn that notes its start, under one key.
fn spawn(run: &Run, script: &str, timeout: &str) -> Vec<String> {
    let noting =
        format!("echo $OSTLER_SESSION $OSTLER_EPISODE >> {}; {script}", run.root.folder().join(MARKS).display());
    let words = ["spawn", "--json", "--key", "once", "--name", "web", "--timeout", timeout, "--", "sh", "-c", &noting];
    words.map(str::to_owned).to_vec()
}

fn ask(run: &Run, words: &[String]) -> Output {
    finish(&mut run.root.command(words), b"")
}

/// The session ran once, and whoever asks again is told of the same operation.
#[track_caller]
fn ran_once(run: &Run, words: &[String], operation: &Value) {
    wait_until(SOON, "the start to be noted", || !run.root.lines(MARKS).is_empty());
    let again = ask(run, words).exits(0).json();
    assert_eq!((&again["operation"]["id"], &again["operation"]["replayed"]), (operation, &json!(true)));
    assert_eq!(run.root.lines(MARKS).len(), 1);
}

/// The host has reported, its broker has not recorded it, and the caller has no more time.
#[test]
fn law_05_a_caller_that_gave_up_between_effect_and_record_finds_it_done_once() {
    for dies in [false, true] {
        let run = stopping_at(Point::WordStarted);
        let late = ask(&run, &spawn(&run, "exec sleep 1000", IMPATIENT)).exits(6);
        let error = late.json()["error"].clone();
        assert_eq!((&error["code"], &error["retry"]), (&json!("timeout"), &json!("same_key")), "{error}");
        let broker = stopped(&run);
        assert_eq!(run.root.brokers(), [broker], "a stopped broker holds its lock: nobody takes over");
        if dies {
            broker.kill_9();
        } else {
            go_on(broker);
        }
        let words = spawn(&run, "exec sleep 1000", "60s");
        let told = ask(&run, &words).exits(0).json();
        assert_eq!(told["session"]["episode"], 1);
        assert_eq!(run.root.brokers().first() == Some(&broker), !dies);
        ran_once(&run, &words, &told["operation"]["id"]);
    }
}

/// The host is there, without a record: its broker's successor waits for it, and starts no second one.
#[test]
fn law_04_a_host_that_was_stopped_before_its_record_is_waited_for_and_adopted() {
    let run = stopping_at(Point::HostForked);
    let late = ask(&run, &spawn(&run, "exec sleep 1000", IMPATIENT)).exits(6);
    assert_eq!(late.error_code(), "timeout");
    let host = stopped(&run);
    run.root.kill_broker();
    run.root.ensure();
    let words = spawn(&run, "exec sleep 1000", "60s");
    let waiting = Running::start(&mut run.root.command(&words));
    wait_until(SOON, "the session to be starting", || {
        run.root.json(["show", "web"])["session"]["status"] == "starting"
    });
    assert!(host.alive() && run.root.lines(MARKS).is_empty(), "its gate is closed");
    go_on(host);
    let told = waiting.end().exits(0).json();
    assert_eq!(told["session"]["host_pid"], json!(host.pid));
    ran_once(&run, &words, &told["operation"]["id"]);
}

/// The command has ended, its host has seen it and not written it down; no broker calls that an end, or knows one better.
#[test]
fn law_07_an_exit_that_its_host_has_not_recorded_is_neither_invented_nor_lost() {
    let run = stopping_at(Point::HostExitSeen);
    let words = spawn(&run, "exit 7", "60s");
    ask(&run, &words).exits(0);
    let host = stopped(&run);
    run.root.kill_broker();
    run.root.ensure();
    let shown = run.root.json(["show", "web"])["session"].clone();
    assert_eq!((&shown["ended_at"], &shown["exit"]), (&Value::Null, &Value::Null), "{shown}");
    let hurried = ask(&run, &["wait", "web", "--json", "--timeout", IMPATIENT].map(str::to_owned));
    assert_eq!(hurried.exits(6).error_code(), "timeout");
    assert!(host.alive(), "silence is not death");
    go_on(host);
    let ended = run.root.json(["wait", "web"])["session"].clone();
    assert_eq!((&ended["status"], &ended["exit"]), (&json!("failed"), &json!({"code": 7})));
    assert_eq!(run.root.lines(MARKS).len(), 1);
}

/// A starter that has the lock and has not published is the only one, however long it takes; and if it dies, the next one is.
#[test]
fn law_10_a_start_beside_a_stopped_starter_waits_or_says_so() {
    for dies in [false, true] {
        let run = stopping_at(Point::StartPublish);
        let first = Running::start(&mut run.root.command(["ensure", "--json", "--timeout", "60s"]));
        let starter = stopped(&run);
        let second = ask(&run, &["ensure", "--json", "--timeout", IMPATIENT].map(str::to_owned));
        assert!([Some(5), Some(6)].contains(&second.code()), "{second:?}");
        assert_ne!(second.json()["error"]["retry"], "never", "{second:?}");
        // Whoever was started beside it found the lock held, and says nothing else.
        wait_until(SOON, "the starter to be alone", || run.root.brokers() == [starter]);
        assert!(!run.root.path().join("broker.json").exists());
        if dies {
            starter.kill_9();
        } else {
            go_on(starter);
        }
        let met = first.end().exits(0).json();
        assert_eq!((&met["started"], met["broker"]["pid"] == starter.pid), (&json!(true), !dies), "{met}");
        let again = run.root.json(["ensure"]);
        assert_eq!((&again["started"], &again["broker"]["pid"]), (&json!(false), &met["broker"]["pid"]));
        wait_until(SOON, "one broker to be left", || run.root.brokers().len() == 1);
    }
}
