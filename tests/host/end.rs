//! How episodes end: by themselves, by signals, by request, and with relatives that do not want to.

use std::fs;

use nix::sys::signal::Signal;
use ostler::host::wire::Exit;
use ostler::os::signal;
use serde_json::json;

use super::bed::{Bed, Talk, process};
use crate::support::{Process, SOON, wait_for, wait_until};

#[test]
fn exit_codes_and_signals_are_what_they_were() {
    for (steps, exit) in [
        (vec!["exit", "0"], Exit::Code(0)),
        (vec!["exit", "255"], Exit::Code(255)),
        (vec!["raise", "9"], Exit::Signal("SIGKILL".into())),
        (vec!["raise", "15"], Exit::Signal("SIGTERM".into())),
        (vec!["raise", "40"], Exit::Signal("SIG40".into())),
    ] {
        let bed = Bed::fixture(&steps);
        bed.start();
        assert_eq!(bed.ended().exit, exit, "{steps:?}");
    }
}

#[test]
fn an_exit_is_told_to_every_connection_and_durable_before() {
    let bed = Bed::shell("read line <&0; until [ -e go ]; do sleep 0.01; done; exit 7");
    let record = bed.start();
    let (mut broker, mut reader) = (Talk::broker(&record, 1), Talk::reader(&record));
    fs::write(bed.folder().join("go"), "").unwrap();
    for talk in [&mut broker, &mut reader] {
        let push = loop {
            let push = talk.hear().unwrap();
            if push["push"] == "exited" {
                break push;
            }
        };
        assert_eq!(push["exit"], json!({ "code": 7 }));
        let record = bed.exit();
        assert_eq!((record.exit, json!(record.ended_us)), (Exit::Code(7), push["ended_us"].clone()));
    }
    bed.ended();
}

#[test]
fn a_stop_is_answered_with_the_exit_and_repeated_stops_join_it() {
    let bed = Bed::fixture(&["say", "up", "--", "sleep"]);
    let record = bed.start();
    bed.line("up");
    let (mut first, mut second) = (Talk::broker(&record, 1), Talk::broker(&record, 1));
    second.send(json!({ "request": "stop", "grace_ms": 60_000 }));
    let answer = first.stop(60_000);
    assert_eq!(answer["exit"], json!({ "signal": "SIGTERM" }));
    assert_eq!(answer["survivors"], json!([]));
    let other = wait_for(SOON, "the other answer", || second.hear().filter(|line| line.get("ok").is_some()));
    assert_eq!((&other["exit"], &other["ended_us"]), (&answer["exit"], &answer["ended_us"]));
    assert!(!Process::of(record.command.pid.into()).is_some_and(Process::alive));
    assert_eq!(bed.ended().exit, Exit::Signal("SIGTERM".into()));
}

#[test]
fn who_ignores_term_is_killed_after_the_grace_and_a_later_stop_can_shorten_it() {
    let bed = Bed::fixture(&["ignore-term", "--", "say", "up", "--", "sleep"]);
    let record = bed.start();
    bed.line("up");
    let mut patient = Talk::broker(&record, 1);
    patient.send(json!({ "request": "stop", "grace_ms": 120_000 }));
    let status = wait_for(SOON, "stopping", || {
        let status = Talk::reader(&record).ask(json!({ "request": "status" }));
        (status["state"] == "stopping").then_some(status)
    });
    assert_eq!(status.get("exit"), None);
    assert_eq!(Talk::broker(&record, 1).stop(0)["exit"], json!({ "signal": "SIGKILL" }));
    assert_eq!(bed.ended().exit, Exit::Signal("SIGKILL".into()));
}

#[test]
fn field_d_own_a_stopped_process_is_woken_to_end() {
    let bed = Bed::fixture(&["say", "up", "--", "stop-self", "--", "sleep"]);
    let record = bed.start();
    bed.line("up");
    wait_until(SOON, "it stops itself", || {
        fs::read_to_string(format!("/proc/{}/stat", record.command.pid)).unwrap().contains(") T ")
    });
    assert_eq!(Talk::broker(&record, 1).stop(60_000)["exit"], json!({ "signal": "SIGTERM" }));
    bed.ended();
}

/// Runs a command with one child, ends it, and the child must have ended too.
#[track_caller]
fn check_child_ends(child: &str, then: &[&str], exit: Exit) {
    let steps = [&["child", child, "--"], then].concat();
    let bed = Bed::fixture(&steps);
    let record = bed.start();
    bed.line("ready");
    let child = bed.child();
    if then == ["sleep"] {
        let answer = Talk::broker(&record, 1).stop(1);
        assert_eq!(answer["survivors"], json!([]));
        assert!(!child.alive());
    } else {
        fs::write(bed.folder().join("go"), "").unwrap();
    }
    assert_eq!(bed.ended().exit, exit);
    assert!(!child.alive());
}

#[test]
fn a_stop_ends_the_whole_family() {
    for child in
        ["say ready -- sleep", "ignore-term -- say ready -- sleep", "setsid -- ignore-term -- say ready -- sleep"]
    {
        check_child_ends(child, &["sleep"], Exit::Signal("SIGTERM".into()));
    }
}

#[test]
fn an_exit_leaves_nobody_behind() {
    for child in ["say ready -- sleep", "setsid -- ignore-term -- say ready -- sleep"] {
        check_child_ends(child, &["until", "go", "--", "exit", "3"], Exit::Code(3));
    }
}

#[test]
fn who_hid_its_marker_is_named() {
    let bed = Bed::shell("env -i setsid sh -c 'echo child $$; exec sleep 1000' & wait");
    let record = bed.start();
    let child = bed.child();
    let answer = Talk::broker(&record, 1).stop(10_000);
    assert_eq!(answer["survivors"], json!([{ "pid": child.pid, "command": "sleep 1000" }]));
    bed.ended();
    assert!(child.alive());
    child.kill_9();
}

#[test]
fn field_d_own_a_broker_that_a_session_started_outlives_the_session() {
    let bed = Bed::fixture(&["child", "broker", "--", "sleep"]);
    let record = bed.start();
    let broker = bed.child();
    bed.line("broker");
    let answer = Talk::broker(&record, 1).stop(10_000);
    assert_eq!(answer["survivors"], json!([]));
    bed.ended();
    assert!(broker.alive());
    broker.kill_9();
}

#[test]
fn a_grandchild_that_keeps_the_pipe_does_not_hide_the_exit() {
    // In a session of its own, so that nothing ends it before the exit is seen.
    let bed = Bed::fixture(&["child", "setsid -- say ready -- sleep", "--", "until", "go", "--", "exit", "3"]);
    let record = bed.start();
    bed.line("ready");
    let child = bed.child();
    let mut broker = Talk::broker(&record, 1);
    fs::write(bed.folder().join("go"), "").unwrap();
    let push = wait_for(SOON, "the exit", || broker.hear().filter(|line| line["push"] == "exited"));
    assert_eq!(push["exit"], json!({ "code": 3 }));
    bed.ended();
    assert!(!child.alive());
}

#[test]
fn a_command_that_closes_its_output_lives_on() {
    let bed = Bed::fixture(&["say", "bye", "--", "close-output", "--", "append", "closed", "x", "--", "sleep"]);
    let record = bed.start();
    wait_until(SOON, "it has closed its output", || bed.folder().join("closed").exists());
    let mut broker = Talk::broker(&record, 1);
    assert_eq!(broker.ask(json!({ "request": "status" }))["state"], "running");
    assert!(process(&record.command).alive());
    assert_eq!(broker.stop(10_000)["exit"], json!({ "signal": "SIGTERM" }));
    bed.ended();
    assert_eq!(bed.output(), "bye\n");
}

#[test]
fn a_host_told_to_terminate_ends_its_command_in_order() {
    let bed = Bed::fixture(&["say", "up", "--", "sleep"]);
    let record = bed.start();
    bed.line("up");
    signal::send(&record.host, Signal::SIGTERM).unwrap();
    assert_eq!(bed.ended().exit, Exit::Signal("SIGTERM".into()));
}

#[test]
fn a_real_pipeline_and_a_real_server() {
    let bed = Bed::shell("seq 1 1000 | grep 7 | wc -l; exit 4");
    bed.start();
    assert_eq!(bed.ended().exit, Exit::Code(4));
    assert_eq!(bed.output(), "271\n");

    let bed = Bed::with(|spec| {
        spec.command = ["python3", "-u", "-m", "http.server", "--bind", "127.0.0.1", "0"].map(Into::into).to_vec();
    });
    let record = bed.start();
    bed.line("Serving HTTP on");
    assert_eq!(Talk::broker(&record, 1).stop(10_000)["exit"], json!({ "signal": "SIGTERM" }));
    bed.ended();
}
