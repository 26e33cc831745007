//! What a command gets from its host, starts that fail, and hosts that outlive who started them.
#![expect(clippy::disallowed_methods, reason = "starts a starter")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use nix::errno::Errno;
use ostler::host::client::{LaunchOutcome, Verdict};
use ostler::host::spec::{EnvVar, SoftLimit};
use ostler::host::wire::{Exit, StartPhase};
use ostler::os::arg::Arg;
use serde_json::{Value, json};

use super::bed::{Bed, SESSION, Talk, process};
use crate::support::{FIXTURE, OSTLER, SOON, wait_until};

#[test]
fn the_command_gets_exactly_what_its_spec_says() {
    let odd = Arg::from(OsStr::from_bytes(b"\xff\xfe\n"));
    let bed = Bed::with(|spec| {
        spec.command.extend(["dump".into(), odd.clone()]);
        spec.cwd = "/usr".into();
        spec.umask = 0o137;
        spec.limits = vec![
            SoftLimit { resource: "nofile".into(), value: Some(77) },
            SoftLimit { resource: "core".into(), value: Some(0) },
        ];
        spec.env.push(EnvVar { name: odd.clone(), value: odd.clone() });
        spec.env.push(EnvVar { name: "OSTLER_ROOT".into(), value: "of another session".into() });
    });
    let record = bed.start();
    assert_eq!(bed.ended().exit, Exit::Code(0));
    let got: Value = serde_json::from_str(&bed.output()).unwrap();
    assert_eq!(got["argv"], json!([FIXTURE, "dump", odd]));
    let root = bed.state().display().to_string();
    let want = json!([
        ["PATH", "/usr/bin:/bin"],
        [odd, odd],
        ["OSTLER_ROOT", root],
        ["OSTLER_SESSION", SESSION],
        ["OSTLER_EPISODE", "1"],
        ["OSTLER_CREDENTIAL", format!("{root}/sessions/{SESSION}/credential")],
        ["OSTLER_MARK", record.marker],
    ]);
    assert_eq!(got["env"], want);
    let fds = got["fds"].as_object().unwrap();
    assert_eq!(fds.keys().collect::<Vec<_>>(), ["0", "1", "2"], "{fds:?}");
    assert_eq!(fds["0"], "/dev/null");
    // The fixture is a Rust program, and those ignore SIGPIPE (bit 12) themselves.
    assert_eq!((&got["blocked"], &got["ignored"]), (&json!("0000000000000000"), &json!("0000000000001000")));
    assert_eq!((&got["cwd"], &got["umask"]), (&json!("/usr"), &json!(0o137)));
    assert_eq!((&got["nofile"][0], &got["core"][0]), (&json!(77), &json!(0)));
    let (host, command) = (json!(record.host.pid), json!(record.command.pid));
    assert_eq!((&got["pid"], &got["group"]), (&command, &command));
    assert_eq!((&got["parent"], &got["session"]), (&host, &host));
}

#[test]
fn field_l_own_no_signal_is_ignored_or_blocked() {
    let bed = Bed::with(|spec| spec.command = ["cat", "/proc/self/status"].map(Arg::from).to_vec());
    bed.start();
    bed.ended();
    let output = bed.output();
    for name in ["SigPnd", "SigBlk", "SigIgn", "SigCgt"] {
        assert!(output.contains(&format!("{name}:\t0000000000000000\n")), "{output}");
    }
}

#[test]
fn the_command_is_looked_up_in_its_own_path_from_its_own_folder() {
    let bed = Bed::with(|spec| {
        spec.command = vec!["greet".into()];
        spec.env = vec![EnvVar { name: "PATH".into(), value: "/nowhere:relative::/bin".into() }];
    });
    let script = |path: &str, says: &str, mode: u32| {
        let path = bed.folder().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\necho {says}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    // What may not be executed is passed over, as every shell does.
    script("relative/greet", "refused", 0o600);
    script("greet", "here", 0o700);
    bed.start();
    bed.ended();
    assert_eq!(bed.output(), "here\n");
}

/// Starts a command that cannot be executed.
#[track_caller]
fn check_exec(prepare: impl FnOnce(&Bed), command: &str, errno: Errno, reason: &str) {
    let bed = Bed::with(|spec| spec.command = vec![command.into()]);
    prepare(&bed);
    let failure = bed.fail();
    assert_eq!(failure.phase, StartPhase::Exec, "{failure:?}");
    assert_eq!(failure.errno.map(Errno::from_raw), Some(errno), "{failure:?}");
    assert!(failure.reason.contains(reason), "{failure:?}");
    assert_eq!(bed.ended().exit, Exit::Error(failure));
    assert_eq!(bed.output(), "");
}

#[test]
fn a_command_that_cannot_be_executed_says_why() {
    let file = |text: &'static str, mode: u32| {
        move |bed: &Bed| {
            let path = bed.folder().join("file");
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    check_exec(|_| (), "no-such-command", Errno::ENOENT, "command not found: no-such-command");
    check_exec(|_| (), "./file", Errno::ENOENT, "there is no file ./file");
    check_exec(|_| (), "/", Errno::EACCES, "cannot execute /: it is a directory");
    check_exec(file("#!/bin/sh\n", 0o600), "./file", Errno::EACCES, "Permission denied");
    check_exec(file("exit 0\n", 0o700), "./file", Errno::ENOEXEC, "neither a program nor a script");
    check_exec(file("#!/nowhere/sh\n", 0o700), "./file", Errno::ENOENT, "its interpreter was not found");
}

#[test]
fn a_missing_folder_is_told_apart_from_a_missing_command() {
    for (cwd, errno) in [("/nowhere", Errno::ENOENT), ("/bin/sh", Errno::ENOTDIR)] {
        let bed = Bed::with(|spec| {
            spec.command = vec!["no-such-command".into()];
            spec.cwd = cwd.into();
        });
        let failure = bed.fail();
        assert_eq!((failure.phase, failure.errno.map(Errno::from_raw)), (StartPhase::Cwd, Some(errno)));
        assert!(failure.reason.contains(cwd), "{failure:?}");
        assert_eq!(bed.ended().exit, Exit::Error(failure));
    }
}

#[test]
fn a_command_line_of_the_longest_kind_arrives_whole() {
    let bed = Bed::with(|spec| {
        let room = ostler::host::spec::COMMAND_BYTES_MAX - spec.bytes() - "dump".len() - 1;
        spec.command.push("dump".into());
        // One argument may have 128 KiB at most on Linux.
        let (part, rest) = (100_000, room % 100_001);
        spec.command.extend(std::iter::repeat_n(Arg::from("x".repeat(part)), room / 100_001));
        spec.command.push("y".repeat(rest - 1).into());
        assert_eq!(spec.bytes(), ostler::host::spec::COMMAND_BYTES_MAX);
    });
    bed.start();
    assert_eq!(bed.ended().exit, Exit::Code(0));
    let got: Value = serde_json::from_str(&bed.output()).unwrap();
    let bytes: usize = got["argv"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap().len() + 1).sum();
    assert!(bytes > 500 * 1024, "{bytes}");
}

#[test]
fn a_host_refuses_a_spec_that_the_ledger_does_not_name() {
    let bed = Bed::fixture(&["append", "ran", "once"]);
    let outcome = bed.launch_with(ostler::host::client::Launch { spec_digest: "0".repeat(64), ..bed.launch_order() });
    let LaunchOutcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert_eq!(failure.phase, StartPhase::Host);
    wait_until(SOON, "the host's end", || bed.verdict() == Verdict::NeverOpened);
    // Nothing has happened, so the same episode can be started after all.
    bed.start();
    bed.ended();
    assert_eq!(fs::read_to_string(bed.folder().join("ran")).unwrap(), "once\n");
}

#[test]
fn the_gate_stays_shut_until_the_hosts_record_is_written() {
    let bed = Bed::fixture(&["count", "starts"]);
    let in_the_way = bed.episode().join("host.json");
    fs::create_dir(&in_the_way).unwrap();
    let failure = bed.fail();
    assert!(failure.phase == StartPhase::Host && failure.reason.contains("host.json"), "{failure:?}");
    fs::remove_dir(&in_the_way).unwrap();
    wait_until(SOON, "the host's end", || bed.verdict() == Verdict::NeverOpened);
    // The command was forked by then, and ended at its gate.
    assert!(!bed.folder().join("starts").exists());
    bed.start();
    bed.ended();
    assert_eq!(fs::read_to_string(bed.folder().join("starts")).unwrap().lines().count(), 1);
}

#[test]
fn a_live_episode_is_never_started_twice() {
    let bed = Bed::fixture(&["count", "starts", "--", "say", "up", "--", "sleep"]);
    let record = bed.start();
    bed.line("up");
    assert_eq!(bed.launch(), LaunchOutcome::Unclear("life.lock is held".into()));
    assert_eq!(bed.verdict(), Verdict::Alive(Box::new(record.clone())));
    Talk::broker(&record, 1).stop(10_000);
    bed.ended();
    assert_eq!(fs::read_to_string(bed.folder().join("starts")).unwrap().lines().count(), 1);
}

#[test]
fn a_missing_life_lock_is_not_made_by_a_start() {
    let bed = Bed::fixture(&["count", "starts"]);
    fs::remove_file(bed.episode().join("life.lock")).unwrap();
    let failure = bed.fail();
    assert_eq!((failure.phase, failure.errno.map(Errno::from_raw)), (StartPhase::Host, Some(Errno::ENOENT)));
    assert!(!bed.episode().join("life.lock").exists() && !bed.folder().join("starts").exists());
    assert_eq!(bed.verdict(), Verdict::MissingLock);
}

#[test]
fn a_host_outlives_its_starter() {
    let bed = Bed::fixture(&["say", "up", "--", "sleep"]);
    let order = bed.launch_order();
    let mut starter = Command::new(FIXTURE);
    starter.arg("launch").arg(OSTLER).args([&order.root, &order.runtime]).args([&order.session, &order.spec_digest]);
    let mut starter = starter.stdout(Stdio::null()).spawn().unwrap();
    bed.line("up");
    let Verdict::Alive(record) = bed.verdict() else { panic!("{:?}", bed.verdict()) };
    assert!(process(&record.host).alive());
    // Its whole group, as a terminal would.
    starter.kill().unwrap();
    starter.wait().unwrap();
    let mut broker = Talk::broker(&record, 2);
    let status = broker.ask(json!({ "request": "status" }));
    assert_eq!(status["state"], "running", "{status}");
    assert!(process(&record.command).alive());
    broker.stop(10_000);
    assert_eq!(bed.ended().exit, Exit::Signal("SIGTERM".into()));
}
