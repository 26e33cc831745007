//! Group F: rows that are cut, logs that are compacted under load, and brokers that cannot come up.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::cli::wire::Wire;
use crate::support::scene::text;
use crate::support::{FIXTURE, Process, Root, SOON, finish, wait_until};

fn segment(root: &Root) -> PathBuf {
    root.path().join("ledger/00000000000000000001.jsonl")
}

/// The largest file that a process may write, from now on.
#[track_caller]
fn limit_files(process: Process, bytes: &str) {
    let limit = format!("--fsize={bytes}:unlimited");
    finish(Command::new("prlimit").args(["--pid", &process.pid.to_string(), &limit]), b"").exits(0);
}

/// Report gajae-code#2140: a short write went unnoticed, its torn row was dropped, and the operation was done twice.
#[test]
fn field_f01_a_write_that_is_cut_short_does_nothing_twice() {
    let root = Root::new();
    root.ensure();
    for (number, spare) in [0, 1, 7, 100, 400, 900, 1_500].into_iter().enumerate() {
        let (key, starts) = (format!("k{number}"), format!("starts-{number}"));
        let broker = root.broker().expect("it lives through it");
        let length = fs::metadata(segment(&root)).unwrap().len();
        limit_files(broker, &(length + spare).to_string());
        let arguments =
            ["--json", "spawn", "--key", &key, "--timeout", "9s", "--", FIXTURE, "count", &starts, "--", "sleep"];
        let refused = root.ostler(arguments);
        assert_ne!(refused.code(), Some(0), "there was no room for its records: {refused:?}");
        limit_files(broker, "unlimited");
        if number % 2 == 0 {
            root.kill_broker();
        }
        let made = root.ostler(arguments);
        let made = if made.code() == Some(0) { made.json()["session"]["pid"].clone() } else { Value::Null };
        if made.is_null() {
            assert_eq!(
                root.json(["operation", "show", &key])["operation"]["state"],
                "aborted",
                "proven not to have begun"
            );
            continue;
        }
        wait_until(SOON, "the start to be counted", || !root.lines(&starts).is_empty());
        assert_eq!(root.lines(&starts), [made.to_string()], "spare {spare}");
        root.verify_ledger();
    }
}

/// A stop that was recorded is carried out; its end did not fit, and stands once there is room, with the same broker.
#[test]
fn field_f01_the_end_of_a_stop_that_did_not_fit_is_written_once_there_is_room() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s"], "sleep");
    let broker = root.broker().expect("it lives through it");
    let command = Process::of_value(&session["pid"]);
    // Room for the request and none for the outcome: records have some hundred bytes.
    let length = fs::metadata(segment(&root)).unwrap().len();
    limit_files(broker, &(length + 600).to_string());
    root.ostler(["stop", "s", "--grace", "0s", "--key", "k", "--timeout", "6s"]).exits(6);
    assert!(!command.alive(), "it was carried out");
    assert_eq!(root.json(["operation", "show", "k"])["operation"]["state"], "accepted");
    assert!(root.json(["status"])["degraded"].to_string().contains("does not take records"));
    limit_files(broker, "unlimited");
    wait_until(SOON, "the outcome", || root.json(["operation", "show", "k"])["operation"]["state"] == "succeeded");
    assert_eq!(root.session(&session["id"])["status"], "stopped");
    assert_eq!(root.broker(), Some(broker));
}

/// Report eliza#30878: the row behind a torn one was glued to it and lost with it.
#[test]
fn field_f02_a_torn_row_takes_none_of_its_neighbours() {
    let root = Root::new();
    let mut keys: Vec<String> = Vec::new();
    for (round, torn) in [1, 2, 17, 64, 150, 300].into_iter().enumerate() {
        root.ensure();
        for number in 0..3 {
            let key = format!("k{round}-{number}");
            root.json(["prune", "--key", &key, "--older", "9000h"]);
            keys.push(key);
        }
        root.kill_broker();
        let line = fs::read_to_string(segment(&root)).unwrap().lines().last().unwrap().to_owned();
        let mut file = OpenOptions::new().append(true).open(segment(&root)).unwrap();
        file.write_all(&line.as_bytes()[..torn.min(line.len() - 1)]).unwrap();
    }
    root.ensure();
    for key in &keys {
        assert_eq!(root.json(["operation", "show", key])["operation"]["state"], "succeeded", "{key}");
    }
    let verified = root.verify_ledger();
    assert!(verified["problems"].as_array().is_some_and(Vec::is_empty), "{verified}");
}

/// Report topgun#50: what was appended during a compaction went with the old file.
#[test]
fn field_f13_what_is_acknowledged_during_a_retirement_stays() {
    const CLIENTS: u64 = 6;
    const EACH: u64 = 60;
    // The last hundred operations are known, whatever they are.
    let root = Root::with_limits(
        "segment_bytes:12000,snapshot_tail_bytes:1,recent:2,of_session:1,batch:4,settled:100,window_us:1",
    );
    root.ensure();
    let mut done: Vec<Value> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let root = &root;
                scope.spawn(move || {
                    let mut wire = Wire::hello(root);
                    let ask = |number: u64| {
                        let params = json!({"key": format!("k-{client}-{number}"), "older_ms": 1_u64 << 50});
                        wire.ask("session.prune", params)["result"]["operation"].clone()
                    };
                    (0..EACH).map(ask).collect::<Vec<Value>>()
                })
            })
            .collect();
        let mut retired = 0;
        while clients.iter().any(|client| !client.is_finished()) {
            let output = root.ostler(["ledger", "retire", "--yes", "--json"]).exits(0);
            retired += output.json()["segments"].as_u64().unwrap();
        }
        retired += root.json(["ledger", "retire", "--yes"])["segments"].as_u64().unwrap();
        assert!(retired > 0, "nothing was retired, so nothing was tested");
        clients.into_iter().flat_map(|client| client.join().expect("its requests succeed")).collect()
    });
    root.kill_broker();
    root.ensure();
    done.sort_by_key(|operation| operation["seq"].as_u64());
    let mut wire = Wire::hello(&root);
    for operation in done.iter().rev().take(80) {
        let params = json!({"key": operation["key"], "older_ms": 1_u64 << 50});
        let again = wire.ask("session.prune", params)["result"]["operation"].clone();
        assert_eq!((&again["replayed"], &again["id"]), (&json!(true), &operation["id"]), "{again}");
    }
    root.verify_ledger();
}

/// Report pm2#2827: after a crash nothing ran, and that was saved over the good list.
#[test]
fn field_f17_a_broker_that_cannot_come_up_forgets_nobody() {
    let root = Root::new();
    let sessions: Vec<Value> = (0..10).map(|_| root.spawn_fixture(&[], "sleep")).collect();
    let broker = root.broker().unwrap();
    let hosts: Vec<Process> = sessions.iter().map(|session| Process::of_value(&session["host_pid"])).collect();
    broker.kill_9();
    hosts.iter().for_each(|host| host.kill_9());
    for act in
        ["start.generation=kill", "start.beat=error", "start.beat=kill", "start.publish=kill", "start.publish=error"]
    {
        let failed = finish(root.command(["ensure", "--json"]).env("OSTLER_TEST_FAIL", act), b"");
        assert_ne!(failed.code(), Some(0), "{act}");
        wait_until(SOON, "the starter to be gone", || root.brokers().is_empty());
    }
    root.ensure();
    assert_eq!(root.json(["list", "--all"])["sessions"].as_array().map(Vec::len), Some(10));
    for session in &sessions {
        assert!(root.session_becomes(&session["id"], "failed")["reason"].is_string());
        assert_eq!(root.json(["resume", text(&session["id"])])["session"]["episode"], 2);
    }
}

/// A hard limit on the size of files, as some sites set it for everybody: a start that it does not suffice for says so, and a command whose output
/// does not fit lives on.
#[test]
fn field_f_own_a_limit_on_file_sizes_is_a_full_disk_and_no_death() {
    for (bytes, begins) in [(100, false), (300, false), (60_000, true)] {
        let root = Root::new();
        let ensure = root.command(["ensure", "--json", "--timeout", "20s"]);
        let mut command = Command::new("prlimit");
        command.arg(format!("--fsize={bytes}:{bytes}"));
        let told = finish(&mut Root::carried(command, &ensure), b"");
        if !begins {
            assert_eq!(told.exits(9).json()["error"]["code"], "storage_full", "{bytes}");
            wait_until(SOON, "nobody to be left", || root.brokers().is_empty());
            continue;
        }
        let broker = told.exits(0).json()["broker"].clone();
        let session = root.spawn_fixture(&["--name", "s"], "print 300000 -- append done x -- sleep");
        wait_until(SOON, "all of it to be said", || root.lines("done").len() == 1);
        let found = root.session(&session["id"]);
        assert_eq!((&found["status"], &found["pid"]), (&json!("ready"), &session["pid"]), "{found:#}");
        let kept = root.ostler(["logs", "s"]).exits(0).stdout.len();
        assert!(kept < bytes, "{kept} bytes of it");
        assert_eq!(root.json(["stop", "s"])["session"]["exit"], json!({"signal": "SIGTERM"}));
        assert_eq!(root.ensure()["incarnation"], broker["incarnation"]);
    }
}
