//! Group D: the children of a broker, from their start to their end.

use std::fs;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::json;
use std::os::unix::process::CommandExt;

use crate::support::scene::text;
use crate::support::{FIXTURE, Process, Root, Running, SOON, wait_until};

/// The entries of a folder of a process: its descriptors, its threads.
fn count(process: Process, of: &str) -> usize {
    fs::read_dir(format!("/proc/{}/{of}", process.pid)).map_or(0, Iterator::count)
}

/// Report CodexBar#2789: terminated and not waited for; descriptors and orphans grew.
#[test]
fn field_d09_what_was_started_and_stopped_leaves_nothing_in_the_broker() {
    let root = Root::new();
    let cycle = || {
        let id = root.spawn_fixture(&[], "ignore-term -- sleep")["id"].clone();
        let stopped = root.json(["stop", text(&id), "--grace", "10ms"]);
        assert_eq!(stopped["session"]["exit"], json!({"signal": "SIGKILL"}));
        root.json(["delete", text(&id)]);
    };
    cycle();
    let broker = root.broker().unwrap();
    let rest = |of: &str| {
        let mut least = usize::MAX;
        wait_until(SOON, "the broker to rest", || {
            let now = count(broker, of);
            let same = now == least;
            least = now;
            same
        });
        least
    };
    let (descriptors, threads) = (rest("fd"), rest("task"));
    (0..30).for_each(|_| cycle());
    wait_until(SOON, "its descriptors to be what they were", || count(broker, "fd") <= descriptors);
    wait_until(SOON, "its threads to be what they were", || count(broker, "task") <= threads);
    assert_eq!((broker.children(), root.names("sessions")), (vec![], vec![]));
}

/// Report 20x#502: each start that failed left one more process.
#[test]
fn field_d10_starts_that_fail_leave_no_process_and_no_folder() {
    let root = Root::new();
    root.ensure();
    let program = root.folder().join("no-interpreter");
    fs::write(&program, "#!/nonexistent/interpreter\n").unwrap();
    for command in ["/nonexistent/program", "/", program.to_str().unwrap()] {
        for _ in 0..5 {
            assert_ne!(root.ostler(["spawn", "--name", "a", "--", command]).code(), Some(0), "{command}");
        }
    }
    let broker = root.broker().unwrap();
    wait_until(SOON, "hosts of failed starts to leave", || root.brokers() == [broker] && broker.children().is_empty());
    wait_until(SOON, "their folders to be removed", || root.names("sessions").is_empty());
    // The name is free all the time.
    root.spawn_fixture(&["--name", "a"], "sleep");
}

/// Report mvnd#193: Ctrl-C in the client ended the daemon that it had just started.
#[test]
fn field_d21_an_interrupt_in_a_clients_group_is_the_clients_alone() {
    for after in ["nothing", "the lock", "the record"] {
        let root = Root::new();
        let mut command = root.command(["ensure", "--json"]);
        let client = Running::start(command.process_group(0));
        let group = Pid::from_raw(client.process().pid);
        match after {
            "the lock" => wait_until(SOON, after, || root.path().join("broker.lock").exists()),
            "the record" => wait_until(SOON, after, || root.path().join("broker.json").exists()),
            _ => {}
        }
        // It may have ended by now, and its group with it.
        let _ = killpg(group, Signal::SIGINT);
        drop(client.end());
        // The broker was never started, or it lives on, and whoever comes next is served at once.
        let found = root.json(["ensure"]);
        let broker = Process::of_value(&found["broker"]["pid"]);
        let session = root.spawn_fixture(&[], "sleep");
        assert!(broker.alive() && Process::of_value(&session["pid"]).alive());
        wait_until(SOON, "one broker to be left", || root.brokers() == [broker]);
        if after == "the record" {
            assert_eq!(found["started"], false, "it was published, and nothing ended it");
        }
    }
}

/// Report trcc-linux#162: a daemon's own boot, and its children's, started daemons. What runs in a session uses the broker that it has, however deep.
#[test]
fn field_b21_sessions_that_ask_for_a_broker_get_the_one_they_have() {
    let root = Root::new();
    let broker = root.ensure();
    let ostler = crate::support::OSTLER;
    let script = root.folder().join("nest");
    let text = format!(
        "{ostler} ensure || exit 9\n[ $1 = 0 ] && exec {FIXTURE} count deepest -- sleep\n\
         {ostler} spawn -- sh \"$0\" $(($1 - 1)) && exec sleep 1000\n"
    );
    fs::write(&script, text).unwrap();
    root.spawn(&[], &["sh", script.to_str().unwrap(), "3"]);
    wait_until(SOON, "the innermost to run", || root.lines("deepest").len() == 1);
    assert_eq!(root.json(["ensure"])["broker"], broker);
    assert_eq!(root.brokers().len(), 1);
    assert_eq!(root.json(["list"])["sessions"].as_array().unwrap().len(), 4);
}
