//! Group J: hosts that do not answer, clients that do not read, and a system that has nothing left to give.

use std::fs;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::cli::wire::Wire;
use crate::support::scene::{at_once, text};
use crate::support::{Process, Root, SOON, finish, wait_until};

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
    let open = || fs::read_dir(format!("/proc/{}/fd", broker.pid)).map_or(0, Iterator::count);
    let (descriptors, before) = (open(), resident_kib(broker));
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
    wait_until(SOON, "the deaf ones to be left", || open() <= descriptors + 2);
    assert_eq!(root.broker(), Some(broker));
}

/// The process table is full: a start is refused with what the system said, nothing is left of it, and what runs is still served.
#[test]
fn field_j_own_a_full_process_table_is_told_and_survived() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s"], "sleep");
    root.json(["shutdown"]);
    let broker = crate::support::Running::start(&mut Root::denied(&root.command(["broker"]), "process", "EAGAIN"));
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

/// A broker that had nothing to do for a while keeps a thread for what blocks: where the process table fills up meanwhile, there is no other, and a
/// start, a look or a removal would be its end. (The library's own threads leave after ten seconds.)
#[test]
fn field_j_own_a_broker_that_rested_has_a_thread_left() {
    let root = Root::new();
    let rest = root.spawn(&[], &["sleep", "12"]);
    let broker = root.broker().expect("it runs");
    root.json(["wait", text(&rest["id"])]);
    let tasks = fs::read_dir(format!("/proc/{}/task", broker.pid)).expect("it lives").flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    let names: Vec<String> = names.map(|name| name.trim().to_owned()).collect();
    assert!(names.iter().any(|name| name.starts_with("tokio-rt")), "{names:?}");
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

/// Lines of the full length that never end, and something small that is kept after them, more than once: what the lines took is given back. The
/// allocator learned from the first round to keep it, and could not let go of what lay below the small thing.
#[test]
fn field_j_own_long_lines_that_never_end_leave_no_memory_behind() {
    let root = Root::new();
    let process = Process::of_value(&root.ensure()["pid"]);
    Wire::hello(&root).works();
    let before = resident_kib(process);
    let line =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"session.list","params":{{"cursor":"{}"#, "x".repeat(4_000_000));
    for _ in 0..3 {
        let mut long: Vec<Wire> = (0..24).map(|_| Wire::hello(&root)).collect();
        long.iter_mut().for_each(|wire| wire.send(line.as_bytes()));
        root.spawn(&[], &["true"]);
        drop(long);
        let grown = || resident_kib(process).saturating_sub(before);
        wait_until(SOON, "their memory to be given back", || grown() < 24 * 1024);
    }
}

/// A client that sends as fast as it can and reads nothing until the end: it is answered or cut off, and others are served all the while.
#[test]
fn field_j_own_a_flood_of_requests_is_answered_or_cut_off() {
    const REQUESTS: u64 = 20_000;
    let root = Root::new();
    let broker = root.ensure();
    let process = Process::of_value(&broker["pid"]);
    let before = resident_kib(process);
    let mut flood = Wire::hello(&root);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            for id in 0..REQUESTS {
                let line =
                    json!({"jsonrpc": "2.0", "id": id, "method": "session.list", "params": {}}).to_string() + "\n";
                flood.send(line.as_bytes());
            }
            let mut answers = 0;
            while let Some(answer) = flood.hear() {
                let is_typed = answer["result"].is_object() || answer["error"]["data"]["code"].is_string();
                assert!(is_typed, "{answer}");
                answers += 1;
                if answers == REQUESTS {
                    break;
                }
            }
        });
        while !sender.is_finished() {
            root.ostler(["list", "--timeout", "9s"]).exits(0);
        }
        sender.join().expect("each answer is typed");
    });
    let grown = resident_kib(process).saturating_sub(before);
    assert!(grown < 64 * 1024, "{grown} KiB for one client");
    assert_eq!(root.ensure()["incarnation"], broker["incarnation"]);
}

/// No descriptor is left for the pipes of a new session: that is told, the connection and the others go on, and it is over when there are some.
#[test]
fn field_j_own_a_start_without_descriptors_is_told_and_leaves_nothing() {
    let root = Root::new();
    let other = root.spawn_fixture(&["--name", "other"], "sleep");
    let mut wire = Wire::hello(&root);
    let broker = root.broker().unwrap();
    let limit = |files: &str| {
        let limit = format!("--nofile={files}");
        finish(Command::new("prlimit").args(["--pid", &broker.pid.to_string(), &limit]), b"").exits(0);
    };
    let open = fs::read_dir(format!("/proc/{}/fd", broker.pid)).unwrap().count();
    for spare in [0, 1, 2, 3] {
        limit(&format!("{}:4096", open + spare));
        let key = format!("k{spare}");
        let params = json!({"key": key, "command": ["sleep", "1000"], "cwd": "/"});
        let answer = wire.ask("session.spawn", params.clone());
        limit("4096:4096");
        let code = answer["error"]["data"]["code"].as_str().unwrap_or("none");
        assert!(["capacity", "spawn_failed", "none"].contains(&code), "{answer}");
        assert!(code == "none" || answer.to_string().contains("os error 24"), "what is lacking is told: {answer}");
        assert!(spare > 0 || code != "none", "there was none");
        // Under the same key it happens now, or has happened.
        let done = wire.ask("session.spawn", params);
        assert_eq!(done["result"]["operation"]["state"], "succeeded", "{done}");
        let name = text(&done["result"]["session"]["id"]).to_owned();
        assert_eq!(
            wire.ask("session.delete", json!({"key": format!("d{spare}"), "session": name, "stop": true}))["error"],
            Value::Null
        );
    }
    wait_until(SOON, "nothing to be left of them", || root.names("sessions") == [text(&other["id"])]);
    assert_eq!(root.json(["stop", "other"])["session"]["status"], "stopped");
    assert_eq!(root.broker(), Some(broker));
}

/// However few descriptors there are, a start that they do not suffice for says so.
#[test]
fn field_j_own_a_start_with_few_descriptors_says_what_it_lacks() {
    let root = Root::new();
    let (mut refused, mut served) = (0, 0);
    for files in 8..40 {
        let ensure = root.command(["ensure", "--json", "--timeout", "20s"]);
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={files}:{files}"));
        let told = finish(&mut Root::carried(command, &ensure), b"");
        if told.code() == Some(0) {
            served += 1;
            root.json(["shutdown"]);
        } else {
            refused += 1;
            let error = told.json()["error"].clone();
            assert_eq!(error["code"], "capacity", "{files}: {error}");
        }
        wait_until(SOON, "nobody to be left", || root.brokers().is_empty());
    }
    assert!(refused > 0 && served > 0, "{refused} were refused, {served} served");
}
