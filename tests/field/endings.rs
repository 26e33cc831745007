//! Groups D and E: clients, brokers and commands that end in the middle of something.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::leftovers::leftovers;
use crate::support::scene::{at_once, text};
use crate::support::{FIXTURE, Process, Root, Running, SOON, wait_until};

/// Report gajae-code#4010: sessions piled up for days. None is reaped for being idle; but each is listed, all of a kind are stopped in one
/// command, and what has ended is forgotten in another.
#[test]
fn field_d01_sessions_of_dead_clients_are_listed_and_cleared_in_two_commands() {
    const CLIENTS: usize = 10;
    let root = Root::new();
    root.ensure();
    let arguments = ["run", "--label", "job=night", "--", "sh", "-c", "echo up; exec sleep 1000"];
    let clients: Vec<Running> = (0..CLIENTS).map(|_| Running::start(&mut root.command(arguments))).collect();
    clients.iter().for_each(|client| client.says("up"));
    clients.iter().for_each(|client| client.signal(Signal::SIGKILL));
    drop(clients);
    let live = root.json(["list", "--label", "job=night"])["sessions"].clone();
    assert_eq!(live.as_array().map(Vec::len), Some(CLIENTS));
    root.ostler(["stop", "--label", "job=night"]).exits(0);
    for session in live.as_array().into_iter().flatten() {
        assert!(Process::of(session["pid"].as_i64().unwrap()).is_none());
    }
    root.ostler(["prune", "--older", "0s"]).exits(0);
    assert_eq!(root.json(["list", "--all"])["sessions"], json!([]));
    wait_until(SOON, "their files to be gone", || root.names("sessions").is_empty());
}

/// The hosts of this root.
fn hosts(root: &Root) -> Vec<Process> {
    let all = leftovers(root.folder()).into_iter();
    all.filter(|found| found.command().contains(" host ")).map(|found| found.process).collect()
}

/// Report containerd#6860: a crash between starting the helper and writing it down; the helper lived, the record did not, and a retry started a
/// second one.
#[test]
fn field_d06_a_broker_that_dies_as_its_host_appears_starts_no_second_one() {
    const ROUNDS: usize = 8;
    let root = Root::new();
    for round in 0..ROUNDS {
        let (key, starts) = (format!("k{round}"), format!("starts-{round}"));
        root.ensure();
        let before = hosts(&root);
        let mut spawn = root.command(["spawn", "--json", "--key", &key, "--"]);
        let spawn = Running::start(spawn.args([FIXTURE, "count", &starts, "--", "sleep"]));
        let broker = root.broker().unwrap();
        wait_until(SOON, "its host to appear", || hosts(&root).iter().any(|host| !before.contains(host)));
        broker.kill_9();
        let made = spawn.end().exits(0).json();
        let again = root.json(["spawn", "--key", &key, "--", FIXTURE, "count", &starts, "--", "sleep"]);
        assert_eq!(again["session"]["id"], made["session"]["id"]);
        wait_until(SOON, "the start to be counted", || !root.lines(&starts).is_empty());
        assert_eq!(root.lines(&starts), [made["session"]["pid"].to_string()], "once, and it is the one that is told");
    }
    let live = root.json(["list"])["sessions"].as_array().map(Vec::len);
    assert_eq!((live, hosts(&root).len()), (Some(ROUNDS), ROUNDS), "no stray");
}

/// Report claude-code#84349: workers that lived were declared dead by the daemon's successor.
#[test]
fn field_d15_a_change_of_brokers_writes_no_end_of_what_lives() {
    let root = Root::new();
    let sessions: Vec<Value> = (0..5).map(|_| root.spawn(&[], &["sh", "-c", "while :; do sleep 0.05; done"])).collect();
    let histories = || -> Vec<Value> {
        sessions
            .iter()
            .map(|session| root.json(["ledger", "history", text(&session["id"])])["records"].clone())
            .collect()
    };
    let before = histories();
    for kills in [false, true, false] {
        if kills {
            root.kill_broker();
        } else {
            root.json(["shutdown"]);
        }
        root.ensure();
        for session in &sessions {
            wait_until(SOON, "its host to have answered", || root.session(&session["id"])["reason"].is_null());
            assert_eq!(root.session(&session["id"])["pid"], session["pid"]);
        }
    }
    for (before, after) in before.iter().zip(histories()) {
        let (before, after) = (before.as_array().unwrap(), after.as_array().unwrap());
        let later = after.get(before.len()..).unwrap();
        assert!(later.iter().all(|record| !record.to_string().contains("ended")), "{later:#?}");
    }
}

/// Report qwen-code#12091: a delete while a writer was at work, and the file came back without its head.
#[test]
fn field_e12_what_is_deleted_under_a_writer_does_not_come_back() {
    let root = Root::new();
    let script = "trap '' TERM HUP; echo up; while :; do mkdir -p $OSTLER_ROOT/sessions/$OSTLER_SESSION && \
                  echo x >> $OSTLER_ROOT/sessions/$OSTLER_SESSION/notes; done";
    for _ in 0..3 {
        let session = root.spawn(&[], &["sh", "-c", script]);
        let notes = root.path().join("sessions").join(text(&session["id"])).join("notes");
        wait_until(SOON, "it to write", || notes.exists());
        root.json(["delete", text(&session["id"]), "--stop", "--grace", "100ms"]);
        assert_eq!(root.names("sessions"), [""; 0], "nobody is left who could write");
        assert!(Process::of(session["pid"].as_i64().unwrap()).is_none());
        assert_eq!(root.json(["list", "--all"])["sessions"], json!([]));
    }
}

/// Report codex#36558: half of a delete was done, and each later delete failed. A broker is killed at all kinds of moments of it.
#[test]
fn field_e14_a_delete_that_was_cut_off_is_done_by_the_next() {
    let root = Root::new();
    let ledger = || fs::metadata(root.path().join("ledger/00000000000000000001.jsonl")).map_or(0, |file| file.len());
    for round in 0..8_u64 {
        let key = format!("k{round}");
        let session = root.spawn_fixture(&[], "sleep");
        let id = text(&session["id"]);
        let (broker, before) = (root.broker().unwrap(), ledger());
        let delete = Running::start(&mut root.command(["delete", id, "--stop", "--key", &key, "--json"]));
        // At once, with the first record, and later and later.
        wait_until(SOON, "the delete to be under way", || {
            ledger() >= before + round * 180 || root.ostler(["show", id]).code() == Some(3)
        });
        broker.kill_9();
        delete.end().exits(0);
        let again = root.json(["delete", id, "--stop", "--key", &key]);
        assert_eq!((&again["operation"]["replayed"], &again["session"]["status"]), (&json!(true), &json!("deleted")));
        assert_eq!(root.ostler(["delete", id, "--json"]).exits(3).error_code(), "not_found");
        assert_eq!(root.json(["list", "--all"])["sessions"], json!([]), "round {round}");
        wait_until(SOON, "its files to be gone", || root.names("sessions").is_empty());
        assert!(Process::of(session["pid"].as_i64().unwrap()).is_none());
    }
}

/// Report gajae-code#5633: a session had ended by itself, and that surfaced as a crash of whoever came next.
#[test]
fn field_e22_a_session_that_ended_by_itself_is_told_as_that_and_resumed() {
    let root = Root::new();
    let session = root.spawn(&["--name", "s"], &["sh", "-c", "echo first"]);
    root.json(["wait", "s"]);
    root.json(["shutdown"]);
    // Each from a new process, the first with a new broker.
    assert_eq!(root.json(["stop", "s"])["session"]["status"], "exited", "it does not run, which is what was wanted");
    assert_eq!(root.ostler(["logs", "s"]).exits(0).text(), "first\n");
    let refused = root.ostler(["wait", "s", "--for", "ready", "--json"]);
    assert_ne!(refused.code(), Some(0));
    assert!(
        refused.text().trim_start().starts_with("{\"error\"") || refused.json()["error"].is_object(),
        "{refused:?}"
    );
    let resumed = root.json(["resume", "s"])["session"].clone();
    assert_eq!((&resumed["id"], &resumed["episode"]), (&session["id"], &json!(2)));
    assert_eq!(root.json(["wait", "s"])["session"]["exit"], json!({"code": 0}));
}

/// Report bazel#30954: a client was killed and what it had asked for kept everybody else waiting.
#[test]
fn field_e24_the_work_of_a_dead_client_holds_up_nobody() {
    let root = Root::new();
    let slow = root.spawn(&["--name", "slow"], &["sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"]);
    wait_until(SOON, "it to be up", || root.ostler(["logs", "slow"]).text() == "up\n");
    let client =
        Running::start(&mut root.command(["stop", "slow", "--grace", "20s", "--timeout", "60s", "--key", "k"]));
    wait_until(SOON, "the stop to be under way", || root.session(&slow["id"])["status"] == "stopping");
    client.signal(Signal::SIGKILL);
    drop(client);
    root.json(["list", "--timeout", "10s"]);
    let other = root.json(["spawn", "--timeout", "10s", "--", "sleep", "1000"])["session"].clone();
    assert_eq!(root.json(["stop", text(&other["id"]), "--timeout", "20s"])["session"]["status"], "stopped");
    assert_eq!(root.json(["operation", "show", "k"])["operation"]["state"], "accepted", "it can be seen");
    // The broker leaves at once, too, and the next one carries on with it.
    root.json(["shutdown", "--timeout", "20s"]);
    assert_eq!(root.json(["stop", "slow", "--timeout", "90s"])["session"]["status"], "stopped");
    assert_eq!(root.json(["operation", "show", "k"])["operation"]["state"], "succeeded");
}

/// Sessions that start children of their own, all stopped in the same instant: nobody waits for another, and nobody is left.
#[test]
fn field_e_own_a_family_of_sessions_is_stopped_from_all_sides() {
    let root = Root::new();
    let sessions: Vec<Value> =
        (0..6).map(|_| root.spawn_fixture(&["--label", "family=x"], "child sleep -- sleep")).collect();
    let each = sessions.iter().map(|session| root.command(["stop", text(&session["id"]), "--json"]));
    let all = (0..3).map(|_| root.command(["stop", "--label", "family=x", "--json"]));
    for output in at_once(each.chain(all).collect()) {
        output.exits(0);
    }
    for session in &sessions {
        assert_eq!(root.session(&session["id"])["status"], "stopped");
    }
    wait_until(SOON, "all of them to be gone", || {
        leftovers(root.folder()).iter().all(|found| !found.command().starts_with(FIXTURE))
    });
}
