//! Group L: descriptors, environments and other things that leak from one process into another.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::support::scene::{spawning, text};
use crate::support::{FIXTURE, OSTLER, Process, Root, SOON, finish, wait_for};

/// What the fixture says that it was given.
fn dumped(root: &Root, session: &Value) -> Value {
    wait_for(SOON, "the fixture to have spoken", || {
        let output = root.ostler(["logs", text(&session["id"])]).exits(0);
        (!output.stdout.is_empty() && output.stdout.ends_with(b"\n")).then(|| output.json())
    })
}

fn open_files(process: Process) -> BTreeMap<String, PathBuf> {
    let entries = fs::read_dir(format!("/proc/{}/fd", process.pid)).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| {
        Some((entry.file_name().to_string_lossy().into_owned(), fs::read_link(entry.path()).ok()?))
    };
    entries.filter_map(of).collect()
}

/// The product behind a shell that has many of its own descriptors open to what it starts.
fn leaky(root: &Root, arguments: &[&str]) -> Command {
    let open = (3..=20).map(|fd| format!("exec {fd}>&1; ")).collect::<String>();
    let mut shell = Command::new("/bin/bash");
    let ready = root.command([""; 0]);
    shell.arg("-c").arg(format!("{open}exec \"$0\" \"$@\"")).arg(OSTLER).args(arguments).env_clear();
    shell.envs(ready.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(root.folder());
    shell
}

/// Report BrowserSkill#55: a caller that reads to the end of file hung for ever.
#[test]
fn field_l01_a_caller_that_reads_to_the_end_is_held_by_nobody() {
    let root = Root::new();
    // `finish` returns at the end of file of both pipes, so only if nobody that was started holds them.
    finish(&mut leaky(&root, &["list", "--json"]), b"").exits(0);
    let made = finish(&mut leaky(&root, &["spawn", "--json", "--", FIXTURE, "sleep"]), b"").exits(0).json();
    let broker = root.broker().unwrap();
    let (host, command) = (Process::of_value(&made["session"]["host_pid"]), Process::of_value(&made["session"]["pid"]));
    let everyone = [broker, host, command].map(open_files);
    for files in &everyone {
        let pipes: Vec<_> = files.iter().filter(|(fd, _)| (3..=20).contains(&fd.parse::<i32>().unwrap())).collect();
        let own = |path: &PathBuf| path.to_string_lossy().starts_with("pipe:");
        // Of pipes a host has those of its command, and nobody else has any but the three.
        assert!(pipes.iter().filter(|(_, path)| own(path)).count() <= 2, "{pipes:?}");
    }
    let of_command: Vec<&str> = everyone[2].keys().map(String::as_str).collect();
    assert_eq!(of_command, ["0", "1", "2"]);
    root.json(["shutdown", "--stop-sessions"]);
    let cold = finish(&mut leaky(&root, &["run", "--", "echo", "out"]), b"").exits(0);
    assert_eq!(cold.text(), "out\n");
}

/// Report materialize#12050: a grandchild kept the old lock, and the new daemon could not start.
#[test]
fn field_l03_a_command_gets_three_descriptors_and_no_lock() {
    let root = Root::new();
    let session = root.spawn_fixture(&[], "dump -- sleep");
    let dump = dumped(&root, &session);
    assert_eq!(dump["fds"].as_object().unwrap().keys().collect::<Vec<_>>(), ["0", "1", "2"]);
    let host = open_files(Process::of_value(&session["host_pid"]));
    let broker_lock = root.path().join("broker.lock");
    assert!(host.values().all(|path| *path != broker_lock && !path.ends_with("writer.lock")), "{host:?}");
    root.kill_broker();
    assert_eq!(root.json(["ensure"])["started"], true);
}

/// Report claude-code#79427: the first caller's secrets went to all later sessions.
#[test]
fn field_l07_a_session_has_its_own_callers_environment_and_no_other() {
    let root = Root::new();
    let variables = |session: &Value| -> BTreeMap<String, String> {
        let dump = dumped(&root, session);
        let pairs = dump["env"].as_array().unwrap().iter();
        pairs.map(|pair| (text(&pair[0]).to_owned(), text(&pair[1]).to_owned())).collect()
    };
    let spawn = |set: &[(&str, &str)], options: &[&str]| {
        let mut command = root.command(["--json"]);
        command.args(spawning(options, &[FIXTURE, "dump"])).envs(set.iter().copied());
        variables(&finish(&mut command, b"").exits(0).json()["session"])
    };
    // This one starts the broker.
    let first = spawn(&[("SECRET_A", "1"), ("LANG", "first"), ("HOME", "/first")], &[]);
    assert_eq!((first["SECRET_A"].as_str(), first["LANG"].as_str()), ("1", "first"));
    let second =
        spawn(&[("SECRET_B", "2"), ("LANG", "second"), ("HOME", "/second"), ("PATH", "/usr/bin:/bin:/x")], &[]);
    assert!(!second.contains_key("SECRET_A"));
    let own = ["SECRET_B", "LANG", "HOME", "PATH"].map(|name| second[name].as_str());
    assert_eq!(own, ["2", "second", "/second", "/usr/bin:/bin:/x"]);
    let third = spawn(&[("LANG", "third")], &["--inherit-env", "minimal", "--env", "NAMED=3"]);
    assert!(!third.contains_key("SECRET_A") && !third.contains_key("SECRET_B"));
    assert_eq!((third["LANG"].as_str(), third["NAMED"].as_str()), ("third", "3"));
    let of_broker = fs::read(format!("/proc/{}/environ", root.broker().unwrap().pid)).unwrap();
    assert!(!String::from_utf8_lossy(&of_broker).contains("SECRET_"));
    // What the product adds is what is documented.
    let added: Vec<&str> = third.keys().map(String::as_str).filter(|name| name.starts_with("OSTLER_")).collect();
    assert_eq!(added, ["OSTLER_CREDENTIAL", "OSTLER_EPISODE", "OSTLER_MARK", "OSTLER_ROOT", "OSTLER_SESSION"]);
}
