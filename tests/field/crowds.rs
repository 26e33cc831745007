//! Group J: hosts that do not answer, clients that do not read, and a system that has nothing left to give.

use std::fs;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::cli::wire::Wire;
use crate::support::scene::{at_once, text};
use crate::support::{FIXTURE, Process, Root, SOON, wait_until};

/// Memory that a process has resident, KiB.
fn resident_kib(process: Process) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.pid)).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the system tells");
    line.trim().trim_end_matches(" kB").parse().expect("it is a number")
}

/// Report gajae-code#4544: a lock was held across slow calls, one for each dead row, and everybody else gave up.
#[test]
fn field_j02_slow_answers_about_some_hold_up_no_other() {
    let root = Root::new();
    let silent: Vec<Value> = (0..12).map(|_| root.spawn_fixture(&[], "sleep")).collect();
    let hosts: Vec<Process> = silent.iter().map(|session| Process::of_value(&session["host_pid"])).collect();
    let signal = |signal| hosts.iter().for_each(|host| kill(Pid::from_raw(host.pid), signal).expect("it is ours"));
    signal(Signal::SIGSTOP);
    root.kill_broker();
    // A fraction of what a single host is waited for.
    assert_eq!(root.json(["ensure", "--timeout", "9s"])["started"], true);
    let commands = (0..8).map(|number| match number % 2 {
        0 => root.command(["list", "--timeout", "9s", "--json"]),
        _ => root.command(["run", "--timeout", "9s", "--", "true"]),
    });
    for output in at_once(commands.collect()) {
        output.exits(0);
    }
    assert_eq!(root.session(&silent[0]["id"])["reason"], "liveness unknown");
    signal(Signal::SIGCONT);
    for session in &silent {
        wait_until(SOON, "its host to have answered", || root.session(&session["id"])["reason"].is_null());
    }
}

/// Report ezpn#33: one client that stopped reading held up all.
#[test]
fn field_j04_a_client_that_never_reads_costs_itself_only() {
    let root = Root::new();
    let broker = root.broker().or_else(|| Process::of(root.ensure()["pid"].as_i64()?)).unwrap();
    // Answers of some hundred KiB each.
    for number in 0..40 {
        let label = format!("l={}", "x".repeat(250));
        root.spawn(&["--label", &label, "--name", &format!("n{number}")], &["true"]);
    }
    let before = resident_kib(broker);
    let mut deaf: Vec<Wire> = (0..8).map(|_| Wire::hello(&root)).collect();
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "session.list", "params": {"all": true}}).to_string() + "\n";
    for wire in &mut deaf {
        for _ in 0..60 {
            wire.send(line.as_bytes());
        }
    }
    for _ in 0..10 {
        root.ostler(["list", "--timeout", "9s"]).exits(0);
    }
    root.ostler(["run", "--timeout", "20s", "--", "true"]).exits(0);
    let grown = resident_kib(broker).saturating_sub(before);
    assert!(grown < 8 * 20 * 1024, "{grown} KiB for eight queues of at most 16 MiB");
    // Nobody reads for ten seconds: it is left.
    let open = || fs::read_dir(format!("/proc/{}/fd", broker.pid)).map_or(0, Iterator::count);
    let crowded = open();
    wait_until(SOON, "the deaf ones to be left", || open() + 8 <= crowded);
    assert_eq!(root.broker(), Some(broker));
}

/// The broker of a system that cannot start a process any more.
fn broker_without(root: &Root, call: &str, error: &str) -> Command {
    let usual = root.command(["broker"]);
    let mut command = Command::new(FIXTURE);
    command.args(["deny", call, error, "--", "exec"]).arg(usual.get_program()).args(usual.get_args());
    command
        .env_clear()
        .envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(root.folder());
    command
}

/// The process table is full: a start is refused with what the system said, nothing is left of it, and what runs is still served.
#[test]
fn field_j_own_a_full_process_table_is_told_and_survived() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s"], "sleep");
    root.json(["shutdown"]);
    let broker = crate::support::Running::start(&mut broker_without(&root, "process", "EAGAIN"));
    wait_until(SOON, "it to serve", || root.broker() == Some(broker.process()));
    for _ in 0..3 {
        let refused = root.ostler(["spawn", "--json", "--name", "b", "--", "true"]);
        let error = refused.json()["error"].clone();
        assert!(refused.code() == Some(1) || refused.code() == Some(9), "{refused:?}");
        assert!(error.to_string().contains("os error 11"), "{error}");
        wait_until(SOON, "nothing to be left of it", || root.names("sessions") == [text(&session["id"])]);
    }
    // What needs no new process works as ever.
    assert_eq!(root.json(["list"])["sessions"].as_array().map(Vec::len), Some(1));
    assert_eq!(root.json(["stop", "s"])["session"]["status"], "stopped");
    root.json(["shutdown"]);
    broker.end().exits(0);
    assert_eq!(root.json(["resume", "s"])["session"]["episode"], 2);
    assert_eq!(root.spawn(&["--name", "b"], &["true"])["name"], "b", "its name was free");
}

/// A flood of connections that come and go with half a word: none of it stays.
#[test]
fn field_j_own_a_flood_of_half_words_leaves_nothing_behind() {
    let root = Root::new();
    let broker = root.ensure();
    let process = Process::of_value(&broker["pid"]);
    let open = || fs::read_dir(format!("/proc/{}/fd", process.pid)).map_or(0, Iterator::count);
    Wire::hello(&root).works();
    let (descriptors, before) = (open(), resident_kib(process));
    for round in 0..20 {
        let mut flood: Vec<Wire> = (0..100).map(|_| Wire::dial_at(&broker)).collect();
        for (number, wire) in flood.iter_mut().enumerate() {
            let words: [&[u8]; 4] = [b"", b"{", b"{\"jsonrpc\":\"2.0\",\"id\":", b"\n\n\n\0\n"];
            wire.send(words[(number + round) % words.len()]);
        }
        root.ostler(["status", "--timeout", "9s"]).exits(0);
    }
    wait_until(SOON, "all of it to be gone", || open() <= descriptors + 2);
    let grown = resident_kib(process).saturating_sub(before);
    assert!(grown < 32 * 1024, "{grown} KiB stayed of two thousand connections");
    Wire::hello(&root).works();
}
