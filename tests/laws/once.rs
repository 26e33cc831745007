//! Law 5: an operation key has one outcome. A retry gets that outcome and causes no second effect.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::scene::{at_once, spawning, text};
use crate::support::{FIXTURE, Output, Process, Root, SOON, wait_until};

/// Callers of one key.
const CALLERS: usize = 20;

fn counting() -> [&'static str; 5] {
    [FIXTURE, "count", "starts", "--", "sleep"]
}

fn call(root: &Root, options: &[&str], command: &[&str]) -> Command {
    let mut call = root.command(["--json"]);
    call.args(spawning(options, command));
    call
}

fn callers(root: &Root) -> Vec<Command> {
    (0..CALLERS).map(|_| call(root, &["--key", "one"], &counting())).collect()
}

/// What all were told: one process. Returns how many were told that it was done before.
fn all_the_same(outputs: Vec<Output>) -> (Value, usize) {
    let told: Vec<Value> = outputs.into_iter().map(|output| output.exits(0).json()).collect();
    for each in &told {
        for member in ["id", "pid", "host_pid", "endpoint", "episode"] {
            assert_eq!(each["session"][member], told[0]["session"][member], "{member}");
        }
        assert_eq!(each["operation"]["id"], told[0]["operation"]["id"]);
    }
    let replayed = told.iter().filter(|each| each["operation"]["replayed"] == true).count();
    (told[0]["session"].clone(), replayed)
}

fn refused(output: Output, code: &str) -> Value {
    let output = output.exits(4);
    assert_eq!(output.error_code(), code, "{output:?}");
    output.json()["error"].clone()
}

#[test]
fn law_05_twenty_callers_of_one_key_get_one_process() {
    let root = Root::new();
    let (session, replayed) = all_the_same(at_once(callers(&root)));
    assert_eq!(replayed, CALLERS - 1);
    assert_eq!(session["status"], "ready");
    wait_until(SOON, "the start to be counted", || !root.lines("starts").is_empty());
    assert_eq!(root.lines("starts"), [session["pid"].to_string()]);

    root.kill_broker();
    let (again, replayed) = all_the_same(at_once(callers(&root)));
    assert_eq!((&again["pid"], replayed), (&session["pid"], CALLERS));
    assert_eq!(root.lines("starts").len(), 1);
    assert_eq!(root.json(["list", "--all"])["sessions"].as_array().unwrap().len(), 1);
}

/// The broker is killed as soon as the command runs, which is before its callers are answered or just after.
#[test]
fn law_05_callers_whose_broker_dies_under_them_get_one_process_too() {
    for _ in 0..5 {
        let root = Root::new();
        let broker = root.ensure();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| at_once(callers(&root)));
            wait_until(SOON, "the command to run", || !root.lines("starts").is_empty());
            Process::of_value(&broker["pid"]).kill_9();
            let (session, replayed) = all_the_same(waiting.join().unwrap());
            assert!(replayed >= CALLERS - 1, "{replayed}");
            assert_eq!(root.lines("starts"), [session["pid"].to_string()]);
        });
    }
}

#[test]
fn law_05_a_key_belongs_to_one_request() {
    let root = Root::new();
    let made = root.json(spawning(&["--key", "one"], &counting()));
    let other_request = |root: &Root| {
        let other: [(&[&str], &[&str]); 5] = [
            (&["--key", "one"], &[FIXTURE, "sleep"]),
            (&["--key", "one", "--cwd", "/"], &counting()),
            (&["--key", "one", "--env", "A=1"], &counting()),
            (&["--key", "one", "--name", "n"], &counting()),
            (&["--key", "one", "--label", "a=b"], &counting()),
        ];
        for (options, command) in other {
            let error = refused(root.ostler(call(root, options, command).get_args()), "key_conflict");
            assert_eq!(error["data"]["operation"], made["operation"]["id"]);
            assert_eq!(error["data"]["stored_digest"], made["operation"]["request_digest"]);
        }
        // Another method is another request, too.
        refused(root.ostler(["--json", "stop", text(&made["session"]["id"]), "--key", "one"]), "key_conflict");
    };
    other_request(&root);
    root.kill_broker();
    other_request(&root);
    assert_eq!(root.lines("starts").len(), 1);
    assert_eq!(root.json(["list", "--all"])["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(root.session(&made["session"]["id"])["status"], "ready");
}

#[test]
fn law_05_a_retry_from_a_shell_with_another_environment_is_a_replay() {
    let root = Root::new();
    let options = ["--key", "one", "--env", "NAMED=1"];
    let mut first = call(&root, &options, &counting());
    first.env("AMBIENT", "1").env("TERM", "xterm");
    let mut retry = call(&root, &options, &counting());
    retry.env("AMBIENT", "2").env("OTHER", "x").env("LANG", "C");
    let told = at_once(vec![first]).remove(0).exits(0).json();
    let again = at_once(vec![retry]).remove(0).exits(0).json();
    assert_eq!(again["operation"]["replayed"], true);
    assert_eq!(again["session"]["pid"], told["session"]["pid"]);
    assert_eq!(again["operation"]["request_digest"], told["operation"]["request_digest"]);
}

/// A replay says what became of what was started, and what that was.
#[test]
fn law_05_a_replay_of_a_start_whose_process_is_gone_is_stale_and_tells_the_result() {
    let root = Root::new();
    let arguments = || spawning(&["--key", "one"], &counting());
    let replay = |reason: &str, made: &Value| {
        let mut command = root.command(["--json"]);
        command.args(arguments());
        let error = refused(at_once(vec![command]).remove(0), "endpoint_stale");
        assert_eq!(error["data"]["reason"], reason);
        let stored = &error["data"]["result"];
        for member in ["id", "episode", "pid", "host_pid", "endpoint"] {
            assert_eq!(stored["session"][member], made["session"][member], "{member}");
        }
        assert_eq!(
            (&stored["operation"]["id"], &stored["operation"]["state"]),
            (&made["operation"]["id"], &json!("succeeded"))
        );
    };
    let made = root.json(arguments());
    let id = text(&made["session"]["id"]).to_owned();
    root.json(["stop", &id]);
    replay("ended", &made);
    root.kill_broker();
    replay("ended", &made);
    let resumed = root.json(["resume", &id, "--key", "two"]);
    replay("replaced", &made);
    root.kill_broker();
    replay("replaced", &made);
    // The resume's own key leads to what lives.
    let again = root.json(["resume", &id, "--key", "two"]);
    assert_eq!((&again["session"]["pid"], &again["operation"]["replayed"]), (&resumed["session"]["pid"], &json!(true)));
    root.json(["stop", &id]);
    let gone = root.ostler(["--json", "resume", &id, "--key", "two"]);
    assert_eq!(refused(gone, "endpoint_stale")["data"]["reason"], "ended");
    assert_eq!(root.lines("starts").len(), 2);
}

/// The outcome of a stop or a delete is told again as it was, whatever came later.
#[test]
fn law_05_a_stop_and_a_delete_are_replayed_and_do_nothing_twice() {
    let root = Root::new();
    let session = root.spawn_fixture(&[], "sleep");
    let id = text(&session["id"]).to_owned();
    let stop = || root.json(["stop", &id, "--key", "s"]);
    let stopped = stop();
    assert_eq!(stopped["operation"]["replayed"], false);
    let resumed = root.json(["resume", &id]);
    let again = stop();
    assert_eq!(
        (&again["operation"]["replayed"], &again["operation"]["id"]),
        (&json!(true), &stopped["operation"]["id"])
    );
    assert!(Process::of_value(&resumed["session"]["pid"]).alive(), "the retry of a stop stops nothing else");
    let delete = || root.json(["delete", &id, "--stop", "--key", "d"]);
    let deleted = delete();
    assert_eq!((&deleted["session"]["status"], &deleted["operation"]["replayed"]), (&json!("deleted"), &json!(false)));
    let again = delete();
    assert_eq!((&again["session"]["status"], &again["operation"]["replayed"]), (&json!("deleted"), &json!(true)));
    root.kill_broker();
    assert_eq!(delete()["operation"]["id"], deleted["operation"]["id"]);
    assert_eq!(root.names("sessions"), [""; 0]);
}
