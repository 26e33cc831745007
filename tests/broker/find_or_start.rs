//! Find-or-start among real processes: any number of clients at once get one broker and none fails; every way in which a
//! start can come to nothing is told.
#![expect(clippy::disallowed_methods, reason = "starts contenders by hand")]

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ostler::client::{Client, ClientOptions, ensure};
use ostler::rpc::envelope;
use ostler::rpc::error::{ErrorCode, Retry, WireError};
use ostler::rpc::record::Record;
use serde_json::Value;

use super::arena::Arena;
use crate::support::{Process, SOON, wait_until};

const ORDER: &str = "OSTLER_TEST_CONTENDER";

/// Starts `count` clients in the same instant and returns what they print.
fn stampede(arena: &Arena, count: usize) -> Vec<Value> {
    let root = arena.root();
    let clients: Vec<_> = (0..count).map(|_| arena.start(&["ensure", root.to_str().expect("text")])).collect();
    let reports = clients.into_iter().map(|client| {
        let output = client.wait_with_output().expect("it was started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        serde_json::from_slice(&output.stdout).expect("a report is JSON")
    });
    reports.collect()
}

fn one_broker(arena: &Arena, reports: &[Value]) {
    let incarnation = &reports[0]["broker"]["incarnation"];
    assert!(reports.iter().all(|report| report["broker"]["incarnation"] == *incarnation), "{reports:#?}");
    assert_eq!(reports.iter().filter(|report| report["started"] == true).count(), 1, "one of them started it");
    let broker = Process::of_value(&reports[0]["broker"]["pid"]);
    assert_eq!(broker, arena.broker());
    // A loser may still be on its way out.
    wait_until(SOON, "one broker to be left", || arena.brokers().len() == 1);
}

/// Reports gajae-code#5198, codex-plugin-cc#543, sccache#340, oh-my-pi#12888.
#[test]
fn field_b01_a_stampede_gets_one_broker_on_a_new_root_and_after_a_kill() {
    let arena = Arena::new();
    for _ in 0..3 {
        one_broker(&arena, &stampede(&arena, 50));
        arena.broker().kill_9();
    }
    let names: Vec<_> = std::fs::read_dir(arena.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.len() < 20, "{names:?}");
}

/// Brokers that nobody coordinates: the guard of the clients is passed by.
#[test]
fn field_b02_brokers_started_by_hand_leave_one() {
    let arena = Arena::new();
    let root = arena.root();
    let arguments = ["broker", "--root", root.to_str().unwrap()];
    let mut brokers: Vec<_> =
        (0..5).map(|_| arena.command(&arguments).stdout(Stdio::null()).spawn().unwrap()).collect();
    let winner = arena.broker();
    let mut left = 0;
    for broker in &mut brokers {
        if i64::from(broker.id()) == i64::from(winner.pid) {
            left += 1;
            continue;
        }
        assert!(broker.wait().unwrap().success(), "losing is no failure");
    }
    assert_eq!(left, 1);
    assert_eq!(arena.broker(), winner);
    winner.kill_9();
    brokers.into_iter().for_each(|mut broker| drop(broker.wait()));
}

/// Reports agenc-core#2612: a left-over socket and record count for nothing.
#[test]
fn what_a_dead_broker_left_is_no_obstacle() {
    let arena = Arena::new();
    let mut last = arena.ensure().exits(0).json();
    for _ in 0..3 {
        let before = arena.record().unwrap();
        arena.broker().kill_9();
        assert!(std::fs::symlink_metadata(before.broker.endpoint.strip_prefix("unix:").unwrap()).is_ok());
        let next = arena.ensure().exits(0).json();
        assert_eq!(next["started"], true);
        assert_ne!(next["broker"]["incarnation"], last["broker"]["incarnation"]);
        last = next;
    }
}

/// Report oh-my-openagent#8448: one root, many spellings.
#[test]
fn every_spelling_of_a_root_finds_the_same_broker() {
    let arena = Arena::new();
    let first = arena.ensure().exits(0).json();
    symlink(arena.root(), arena.folder().join("link")).unwrap();
    for spelling in ["link", "root/", "tmp/../root", ".//root"] {
        let report = arena.ensure_of(&arena.folder().join(spelling)).exits(0).json();
        assert_eq!(report["broker"]["incarnation"], first["broker"]["incarnation"], "{spelling}");
        assert_eq!(report["started"], false);
    }
    let relative = arena.ensure_of(std::path::Path::new("root")).exits(0).json();
    assert_eq!(relative["broker"]["incarnation"], first["broker"]["incarnation"]);
}

/// A root copied with its record and lock is another root: its clients do not land at the broker of the first.
#[test]
fn field_b_own_a_copied_root_gets_a_broker_of_its_own() {
    let arena = Arena::new();
    let first = arena.ensure().exits(0).json();
    let copy = arena.folder().join("copy");
    std::process::Command::new("cp").arg("-a").args([arena.root(), copy.clone()]).status().unwrap();
    let second = arena.ensure_of(&copy).exits(0).json();
    assert_ne!(second["broker"]["incarnation"], first["broker"]["incarnation"]);
    assert_eq!(arena.ensure().exits(0).json()["broker"]["incarnation"], first["broker"]["incarnation"]);
}

fn refused(options: ClientOptions) -> WireError {
    ensure(options).expect_err("the start comes to nothing")
}

#[test]
fn a_start_that_gives_up_says_at_which_stage() {
    let arena = Arena::new();
    let error = refused(arena.options(&[(ORDER, "fail")], SOON));
    assert_eq!((error.code, error.data["stage"].as_str()), (ErrorCode::StorageFull, Some("beat")));
    assert!(error.message.contains("as ordered") && error.message.contains("`beat`"), "{}", error.message);
    assert!(arena.record().is_none());
    // Nothing of it stands in the way of the next.
    ensure(arena.options(&[], SOON)).unwrap();
}

/// Reports gajae-code#3963 and its kind: a starter that dies tells its status and what it last wrote.
#[test]
fn a_start_that_dies_shows_status_and_log() {
    let arena = Arena::new();
    let error = refused(arena.options(&[(ORDER, "die")], SOON));
    assert_eq!((error.code, error.data["reason"].as_str()), (ErrorCode::BrokerUnreachable, Some("died")));
    assert_eq!(error.data["stage"], "beat");
    assert!(error.message.contains("exit status: 101") && error.message.contains("ostler doctor"), "{}", error.message);
    assert!(error.data["log"].to_string().contains("dying as ordered"), "{:?}", error.data["log"]);
    ensure(arena.options(&[], SOON)).unwrap();
}

/// Reports prime-agent#608: a slow start does not hold its client, and is not ended for being slow.
#[test]
fn field_l02_a_start_that_is_late_goes_on_without_its_client() {
    let arena = Arena::new();
    let error = refused(arena.options(&[(ORDER, "hang")], Duration::from_secs(1)));
    assert_eq!((error.code, error.data["stage"].as_str()), (ErrorCode::Timeout, Some("beat")));
    assert_eq!(error.retry, Retry::SameKey);
    let still = arena.brokers();
    assert_eq!(still.len(), 1, "{still:?}");
    std::fs::write(arena.root().join("go"), "").unwrap();
    let report = ensure(arena.options(&[], SOON)).unwrap();
    assert!(still[0].starts_with(&format!("{} ", report.broker.pid)), "{still:?}");
}

#[test]
fn a_program_that_cannot_be_started_is_named() {
    let arena = Arena::new();
    let program = ostler::client::Program::File("/nonexistent/ostler".into());
    let error = refused(ClientOptions { program, ..arena.options(&[], SOON) });
    assert!(error.message.contains("/nonexistent/ostler"), "{}", error.message);
    let never = ClientOptions { no_start: true, ..arena.options(&[], SOON) };
    assert_eq!(refused(never).code, ErrorCode::BrokerUnreachable);
}

/// Reports happy#1654, gajae-code#4704: silence is not death.
#[test]
fn a_silent_owner_is_told_and_neither_replaced_nor_ended() {
    let arena = Arena::new();
    ensure(arena.options(&[], SOON)).unwrap();
    let (broker, lock) = (arena.broker(), std::fs::read(arena.root().join("broker.lock")).unwrap());
    kill(Pid::from_raw(broker.pid), Signal::SIGSTOP).unwrap();
    // Who has less time than hello may take cannot tell silent from busy.
    let hurried = refused(arena.options(&[], Duration::from_secs(2)));
    assert_eq!((hurried.code, hurried.data["reason"].as_str()), (ErrorCode::Timeout, Some("hurried")));
    assert!(!hurried.message.contains("--force"), "{}", hurried.message);
    let error = refused(arena.options(&[], Duration::from_secs(6)));
    assert_eq!((error.code, error.data["reason"].as_str()), (ErrorCode::BrokerUnreachable, Some("unresponsive")));
    assert!(error.message.contains("ostler shutdown --force"), "{}", error.message);
    kill(Pid::from_raw(broker.pid), Signal::SIGCONT).unwrap();
    assert!(!ensure(arena.options(&[], SOON)).unwrap().started);
    assert_eq!(arena.broker(), broker);
    assert_eq!(std::fs::read(arena.root().join("broker.lock")).unwrap(), lock);
}

/// A broker that was killed: its record, and somebody else who listens at its address.
fn impostor(arena: &Arena) -> (Record, UnixListener) {
    ensure(arena.options(&[], SOON)).unwrap();
    let record = arena.record().unwrap();
    arena.broker().kill_9();
    let path = record.broker.endpoint.strip_prefix("unix:").unwrap();
    std::fs::remove_file(path).unwrap();
    let listener = UnixListener::bind(path).unwrap();
    (record, listener)
}

/// Report codex-plugin-cc#108: something accepts and stays silent at the address of a dead broker's record.
#[test]
fn field_b08_a_silent_impostor_at_a_dead_brokers_address_is_passed_by() {
    let arena = Arena::new();
    let (record, _silent) = impostor(&arena);
    let report = ensure(arena.options(&[], Duration::from_secs(8))).unwrap();
    assert!(report.started);
    assert_ne!(report.broker.incarnation, record.broker.incarnation);
}

/// The last try of a caller is cut short by its deadline: that silence is not what a full broker said.
#[test]
fn what_a_full_broker_said_is_told_although_the_last_try_heard_nothing() {
    for no_start in [false, true] {
        let arena = Arena::new();
        let (_record, listener) = impostor(&arena);
        let full = std::thread::spawn(move || {
            let error = WireError::new(ErrorCode::Capacity, "all 3 connections are in use".to_owned());
            let (mut first, _) = listener.accept().expect("the caller comes");
            std::io::Write::write_all(&mut first, &envelope::response(&Value::Null, &Err(error))).expect("it hears");
            // Whoever comes after the first waits until the test is over.
            listener
        });
        let options = ClientOptions { no_start, ..arena.options(&[], Duration::from_secs(1)) };
        let error = Client::connect_or_start(options).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (ErrorCode::Capacity, "all 3 connections are in use"));
        drop(full.join());
    }
}

/// Reports BrowserSkill#55, materialize#12050: the broker holds nothing of the client that started it.
#[test]
fn a_caller_that_reads_to_the_end_is_not_held_by_the_broker() {
    let arena = Arena::new();
    // Descriptors that any program may leave open to what it starts.
    let script = "exec 7>&1 8>&1; exec \"$0\" ensure \"$1\"";
    let contender = arena.command(&[]).get_program().to_owned();
    let mut command = arena.command(&[]);
    let mut shell = std::process::Command::new("/bin/sh");
    shell.arg("-c").arg(script).arg(contender).arg(arena.root()).env_clear();
    shell.envs(command.env("SECRET", "x").get_envs().filter_map(|(name, value)| Some((name, value?))));
    // Returns at the end of file of both pipes, so only if the broker holds neither.
    let output = shell.stderr(Stdio::piped()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let broker = arena.broker();
    let environment = std::fs::read(format!("/proc/{}/environ", broker.pid)).unwrap();
    assert!(!String::from_utf8_lossy(&environment).contains("SECRET"));
    assert_eq!(std::fs::read_link(format!("/proc/{}/cwd", broker.pid)).unwrap(), arena.root());
}

/// Reports tmux#4640, KiroCrew#11164: what is lost is published again, and who lost the lock leaves.
#[test]
fn lost_publications_come_back_and_a_lost_lock_is_the_end() {
    let arena = Arena::new();
    ensure(arena.options(&[], SOON)).unwrap();
    let broker = arena.broker();
    let socket = arena.record().unwrap().broker.endpoint.strip_prefix("unix:").unwrap().to_owned();
    for lost in [vec![socket.clone()], vec![text(&arena, "broker.json")], vec![socket, text(&arena, "broker.json")]] {
        lost.iter().for_each(|path| std::fs::remove_file(path).unwrap());
        let answers = || Client::connect(arena.options(&[], SOON)).is_ok();
        wait_until(SOON, "the broker to be found again", answers);
        assert_eq!(arena.broker(), broker);
    }
    std::fs::remove_file(arena.root().join("broker.lock")).unwrap();
    wait_until(SOON, "the broker to fence itself", || !broker.alive());
    assert!(ensure(arena.options(&[], SOON)).unwrap().started);
}

fn text(arena: &Arena, name: &str) -> String {
    arena.root().join(name).into_os_string().into_string().expect("a path of a test")
}
