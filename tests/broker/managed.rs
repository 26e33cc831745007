//! A broker under a service manager, played by these tests: told that it serves, given a socket before it starts.
#![expect(clippy::disallowed_methods, reason = "plays a service manager")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{OSTLER, Process, Root, SOON, wait_until};

/// What the manager has before it starts anything.
struct Manager {
    root: Root,
    knocks: UnixListener,
    news: UnixDatagram,
}

impl Manager {
    fn new() -> Manager {
        let root = Root::new();
        let at = |name: &str| root.folder().join(name);
        let (knocks, news) = (UnixListener::bind(at("knocks")).unwrap(), UnixDatagram::bind(at("news")).unwrap());
        news.set_read_timeout(Some(SOON)).unwrap();
        Manager { root, knocks, news }
    }

    /// The broker's command as the manager starts it: with the socket as descriptor 3, named for the process that it will be.
    fn broker(&self) -> Command {
        let own = self.root.command(["broker"]);
        let mut command = Command::new("sh");
        command.args(["-c", "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" \"$@\""]);
        let mut command = Root::carried(command, &own);
        command.stdin(OwnedFd::from(self.knocks.try_clone().unwrap())).stdout(Stdio::null()).stderr(Stdio::null());
        command.env("NOTIFY_SOCKET", self.root.folder().join("news"));
        command
    }

    fn heard(&self) -> String {
        let mut bytes = [0; 512];
        let length = self.news.recv(&mut bytes).expect("the manager is told");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }
}

/// Says hello at this socket with the token of the published record.
fn hello(manager: &Manager, stream: &mut UnixStream) -> Value {
    let record: Value = serde_json::from_slice(&fs::read(manager.root.path().join("broker.json")).unwrap()).unwrap();
    let params = json!({"protocol": {"min": 1, "max": 1}, "client": {"name": "t", "version": "1"},
        "token": record["token"], "as": "owner"});
    let line = json!({"jsonrpc": "2.0", "id": 0, "method": "hello", "params": params}).to_string() + "\n";
    stream.write_all(line.as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap()
}

#[test]
fn a_manager_is_told_and_its_socket_is_served_beside_the_broker_s_own() {
    let manager = Manager::new();
    // It knocked before there was a broker: that is what the manager starts one for.
    let mut early = UnixStream::connect(manager.root.folder().join("knocks")).unwrap();
    let mut broker = manager.broker().spawn().unwrap();
    assert_eq!(manager.heard(), "READY=1\n");
    let published = manager.root.ensure();
    assert_eq!(published["pid"], broker.id());
    assert_eq!(hello(&manager, &mut early)["result"]["broker"], published);
    assert!(
        !published["endpoint"].as_str().unwrap().contains("knocks"),
        "the manager's socket is not the broker's to publish"
    );
    // Neither a host nor a session has the manager's socket or its word.
    let session = manager.root.spawn_fixture(&[], "sleep");
    for member in ["pid", "host_pid"] {
        let pid = Process::of_value(&session[member]).pid;
        let variables = fs::read(format!("/proc/{pid}/environ")).unwrap();
        assert!(!String::from_utf8_lossy(&variables).contains("NOTIFY_SOCKET"), "{member}");
        let links = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        let ours = fs::read_link(format!("/proc/{}/fd/{}", std::process::id(), manager.knocks.as_raw_fd())).unwrap();
        assert!(links.filter_map(|link| fs::read_link(link.path()).ok()).all(|link| link != ours), "{member}");
    }
    manager.root.json(["shutdown"]);
    assert_eq!(manager.heard(), "STOPPING=1\n");
    assert!(broker.wait().unwrap().success());
    assert!(manager.root.folder().join("knocks").exists(), "the socket is the manager's");
}

#[test]
fn one_broker_too_many_sends_who_knocked_away_and_ends_without_a_fault() {
    let manager = Manager::new();
    let first = manager.root.ensure();
    let early = UnixStream::connect(manager.root.folder().join("knocks")).unwrap();
    assert!(manager.broker().status().unwrap().success());
    assert_eq!(manager.heard(), format!("STATUS=process {} is the broker\nREADY=1\n", first["pid"]));
    let mut line = String::new();
    assert_eq!(BufReader::new(early).read_line(&mut line).unwrap(), 0, "it is free to look for the broker");
}

/// A number that is no socket is left alone, and the broker serves.
#[test]
fn what_is_no_listening_socket_is_not_taken() {
    let manager = Manager::new();
    let mut command = manager.broker();
    command.stdin(Stdio::null());
    let mut broker = command.spawn().unwrap();
    assert_eq!(manager.heard(), "READY=1\n");
    manager.root.json(["list"]);
    let log = || fs::read_to_string(manager.root.path().join("broker.log")).unwrap();
    wait_until(SOON, "a line about it", || log().contains("no local socket that listens"));
    manager.root.json(["shutdown"]);
    assert!(broker.wait().unwrap().success());
}

/// The unit of the repository does not let its hosts die with the broker.
#[test]
fn the_units_keep_sessions_when_the_broker_stops() {
    let units = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/units");
    let service = fs::read_to_string(format!("{units}/ostler.service")).unwrap();
    for line in ["KillMode=process", "Type=notify", "RestartPreventExitStatus=5"] {
        assert!(service.lines().any(|found| found == line), "{line}");
    }
    assert!(service.contains("/ostler broker\n") && OSTLER.ends_with("ostler"));
    let plist = fs::read_to_string(format!("{units}/dev.ostler.broker.plist")).unwrap();
    assert!(plist.contains("<key>AbandonProcessGroup</key>\n  <true/>"));
}
