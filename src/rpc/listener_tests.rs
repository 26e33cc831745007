//! The door with real sockets: a server on its own thread, blocking clients on this one.

use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread::JoinHandle;

use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};

use super::*;
use crate::os::deadline::{Deadline, Pauses};
use crate::rpc::channel::{Channel, HelloError, Speaker, meet};
use crate::rpc::frame::{FRAME_BYTES_MAX, HELLO_FRAME_BYTES_MAX};
use crate::rpc::hello::Mismatch;
use crate::rpc::record::{Record, SCHEMA};
use crate::rpc::tiny::Tiny;
use crate::rpc::wire::{Broker, ClientInfo, ProtocolRange, Role, RootId, Timestamp};

struct Door {
    _home: tempfile::TempDir,
    record: Record,
    service: Arc<Tiny>,
    server: Server<Tiny>,
    thread: Option<JoinHandle<()>>,
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

/// Waits until it holds.
fn until(mut holds: impl FnMut() -> bool) {
    let (deadline, mut pauses) = (soon(), Pauses::new(Duration::from_millis(1), Duration::from_millis(20)));
    while !holds() {
        assert!(pauses.pause(deadline), "it does not come to hold");
    }
}

impl Door {
    fn open(slots_max: usize) -> Door {
        let home = tempfile::Builder::new().prefix("d").tempdir_in("/tmp").unwrap();
        let path = home.path().join("run");
        crate::os::paths::StateRoot::open_or_create(&path).unwrap();
        let (say, hear) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let bound = bind(&RuntimeFolder::open(&path).unwrap(), "b-1").unwrap();
                let record = record(&bound.address);
                let service = Arc::new(Tiny::new(record.clone()));
                let server = Server::with_slots(Arc::clone(&service), slots_max);
                say.send((record, service, server.clone())).unwrap();
                server.clone().accept(bound).await;
                server.ended().await;
            });
        });
        let (record, service, server) = hear.recv().unwrap();
        Door { _home: home, record, service, server, thread: Some(thread) }
    }

    fn raw(&self) -> Raw {
        let path = self.record.broker.endpoint.strip_prefix("unix:").unwrap();
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Raw { lines: BufReader::new(stream.try_clone().unwrap()), stream }
    }

    fn greeted(&self) -> Raw {
        let mut raw = self.raw();
        let answer = raw.ask(&self.hello());
        assert_eq!(answer["result"]["broker"]["incarnation"], "i", "{answer}");
        raw
    }

    fn hello(&self) -> String {
        json!({"jsonrpc": "2.0", "id": 0, "method": "hello", "params": {
            "protocol": ProtocolRange::of_build(), "client": {"name": "t", "version": "1"}, "token": self.record.token, "as": "owner"}})
        .to_string()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.server.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

struct Raw {
    stream: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Raw {
    fn say(&mut self, line: &str) {
        // In one write: the broker may hang up on a line that is too long before its end comes.
        self.stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn ask(&mut self, line: &str) -> Value {
        self.say(line);
        self.hear()
    }

    fn call(&mut self, id: u32, method: &str, params: Value) -> Value {
        self.ask(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string())
    }

    fn is_closed(&mut self) -> bool {
        matches!(self.lines.read(&mut [0]), Ok(0) | Err(_))
    }
}

fn record(address: &str) -> Record {
    let broker = Broker {
        pid: std::process::id(),
        generation: 3,
        incarnation: "i".to_owned(),
        version: "0.1.0".to_owned(),
        protocol: ProtocolRange::of_build(),
        endpoint: address.to_owned(),
        root: "/root".into(),
        started_at: Timestamp::from_us(0),
    };
    Record { schema: SCHEMA, broker, root_id: RootId::new(1, 2), token: "right".to_owned() }
}

fn reason(answer: &Value) -> (String, String) {
    let text = |name: &str| answer["error"]["data"][name].as_str().unwrap_or_default().to_owned();
    (text("code"), text("reason"))
}

#[test]
fn a_client_meets_the_broker_it_meant_and_no_other() {
    let door = Door::open(8);
    let client = ClientInfo { name: "test".into(), version: "1".into() };
    let speaker = |token| Speaker { client: &client, token, role: Role::Owner };
    let (_channel, hello) = meet(&door.record, speaker("right"), soon()).unwrap();
    assert_eq!((hello.protocol, &hello.broker), (1, &door.record.broker));

    let mut other = door.record.clone();
    other.broker.incarnation = "other".to_owned();
    let refused = meet(&other, speaker("right"), soon()).unwrap_err();
    assert!(matches!(refused, HelloError::Mismatch(Mismatch::Incarnation)) && refused.is_passing());
    let copied = Record { root_id: RootId::new(1, 3), ..door.record.clone() };
    assert!(matches!(meet(&copied, speaker("right"), soon()), Err(HelloError::Mismatch(Mismatch::Root))));
    let refused = meet(&door.record, speaker("wrong"), soon()).unwrap_err();
    assert!(matches!(&refused, HelloError::Refused(error) if error.code == ErrorCode::Unauthenticated));
}

#[test]
fn hello_comes_first_once_and_in_its_bounds() {
    let door = Door::open(64);
    let long = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\",\"x\":\"{}\"}}", "x".repeat(5000));
    let wrong = door.hello().replace("right", "wrong");
    let protocol = door.hello().replace("\"max\":1,\"min\":1", "\"max\":9,\"min\":9");
    let unknown = door.hello().replace("\"as\"", "\"more\":1,\"as\"");
    let status = r#"{"jsonrpc":"2.0","id":1,"method":"broker.status"}"#;
    let cases: &[(&str, &str, &str)] = &[
        (status, "unauthenticated", "hello_first"),
        (&wrong, "unauthenticated", ""),
        (&protocol, "protocol_mismatch", ""),
        (&unknown, "invalid_input", "parameters"),
        (&long, "too_large", "line"),
        ("nonsense", "invalid_input", "not_json"),
        ("[]", "invalid_input", "not_a_request"),
    ];
    for (line, code, why) in cases {
        let mut raw = door.raw();
        let answer = raw.ask(line);
        assert_eq!(reason(&answer), ((*code).to_owned(), (*why).to_owned()), "{line}: {answer}");
        assert!(raw.is_closed(), "{line}");
    }
    // The limit holds without a newline too, and costs no more memory than that.
    let mut raw = door.raw();
    raw.stream.write_all(&[b'x'; HELLO_FRAME_BYTES_MAX + 1]).unwrap();
    assert_eq!(reason(&raw.hear()), ("too_large".into(), "line".into()));

    let mut raw = door.greeted();
    assert_eq!(reason(&raw.ask(&door.hello())), ("invalid_input".into(), "hello_twice".into()));
    let answer = raw.call(5, "broker.status", json!({"a": 1}));
    assert_eq!((&answer["id"], &answer["result"]["params"]), (&json!(5), &json!({"a": 1})));
    assert_eq!(answer["result"]["pid"], std::process::id());
}

#[test]
fn bad_lines_are_answered_and_the_connection_goes_on() {
    let door = Door::open(8);
    let mut raw = door.greeted();
    for (line, rpc_code) in [("nonsense", -32700), ("[]", -32600), (r#"{"jsonrpc":"2.0","method":"m"}"#, -32600)] {
        assert_eq!(raw.ask(line)["error"]["code"], rpc_code);
    }
    let unknown = raw.call(1, "session.explode", json!({}));
    assert_eq!((reason(&unknown).0, &unknown["error"]["code"]), ("unknown_method".to_owned(), &json!(-32000)));
    let big = json!({"text": "x".repeat(1_000_000)});
    assert_eq!(raw.call(2, "session.get", big.clone())["result"]["params"], big);
    assert_eq!(reason(&raw.call(3, "session.read", json!({"bytes": 5_000_000}))).0, "too_large");
    raw.stream.write_all(&vec![b'x'; FRAME_BYTES_MAX + 1]).unwrap();
    assert_eq!(reason(&raw.hear()), ("too_large".into(), "line".into()));
    assert!(raw.is_closed());
}

#[test]
fn the_65th_request_in_flight_is_told_to_wait_and_the_end_drops_what_only_waits() {
    let door = Door::open(8);
    let mut raw = door.greeted();
    for id in 0..64 {
        raw.say(&json!({"jsonrpc": "2.0", "id": id, "method": "session.wait"}).to_string());
    }
    let answer = raw.call(64, "session.get", json!({}));
    assert_eq!((&answer["id"], reason(&answer)), (&json!(64), ("busy".into(), "in_flight".into())));
    assert_eq!(answer["error"]["data"]["retry"], "later");
    until(|| door.service.waiting.load(Ordering::SeqCst) == 64);
    // Another connection has its own room.
    assert!(door.greeted().call(1, "session.get", json!({}))["result"].is_object());
    drop(raw);
    until(|| door.service.waiting.load(Ordering::SeqCst) == 0);
    until(|| door.server.connections() == 0);
}

#[test]
fn a_change_goes_on_when_its_caller_has_gone() {
    let door = Door::open(8);
    let mut raw = door.greeted();
    raw.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "session.stop"}).to_string());
    until(|| door.service.begun.load(Ordering::SeqCst) == 1);
    drop(raw);
    until(|| door.server.connections() == 0);
    door.service.go_on.notify_one();
    until(|| door.service.stopped.load(Ordering::SeqCst) == 1);
}

#[test]
fn a_reader_that_does_not_read_is_cut_off_and_others_are_served() {
    let door = Door::open(8);
    let mut slow = door.greeted();
    let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "session.read", "params": {"bytes": 1_000_000}}).to_string();
    for _ in 0..60 {
        // Once it is cut off, writing fails.
        if slow.stream.write_all(ask.as_bytes()).and_then(|()| slow.stream.write_all(b"\n")).is_err() {
            break;
        }
    }
    assert!(door.greeted().call(1, "session.get", json!({}))["result"].is_object());
    until(|| door.server.connections() <= 1);
    let mut rest = Vec::new();
    drop(slow.lines.read_to_end(&mut rest));
    assert!(rest.len() < 20_000_000, "it got {} bytes", rest.len());
}

#[test]
fn silent_connections_make_room_and_greeted_ones_do_not() {
    let door = Door::open(3);
    let mut first = door.raw();
    let mut second = door.raw();
    let mut greeted = door.greeted();
    let mut fourth = door.greeted();
    assert_eq!(reason(&first.hear()), ("capacity".into(), "connections".into()), "the oldest silent one goes");
    let mut fifth = door.greeted();
    assert_eq!(reason(&second.hear()).1, "connections");
    let mut sixth = door.raw();
    assert_eq!(reason(&sixth.hear()), ("capacity".into(), "connections".into()));
    assert!(sixth.is_closed());
    for raw in [&mut greeted, &mut fourth, &mut fifth] {
        assert!(raw.call(1, "session.get", json!({}))["result"].is_object());
    }
}

#[test]
fn stopping_answers_what_is_in_flight_and_ends() {
    let door = Door::open(8);
    let mut raw = door.greeted();
    let mut silent = door.raw();
    let answer = raw.call(1, "session.get", json!({}));
    assert!(answer["result"].is_object());
    until(|| door.server.connections() == 2);
    door.server.stop();
    assert!(raw.is_closed());
    assert_eq!(reason(&silent.hear()), ("draining".into(), "stopping".into()));
    until(|| door.server.connections() == 0);
    let path = door.record.broker.endpoint.strip_prefix("unix:").unwrap();
    assert!(std::fs::symlink_metadata(path).is_ok(), "the name is its owner's to remove");
}

#[test]
fn the_socket_is_private_and_what_stood_in_its_place_is_gone() {
    let home = tempfile::Builder::new().prefix("d").tempdir_in("/tmp").unwrap();
    crate::os::paths::StateRoot::open_or_create(&home.path().join("run")).unwrap();
    let folder = RuntimeFolder::open(&home.path().join("run")).unwrap();
    std::fs::create_dir(home.path().join("run/b-1")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let bound = bind(&folder, "b-1").unwrap();
    assert_eq!((bound.standing.kind, bound.standing.mode), (Kind::Socket, 0o600));
    let again = bind(&folder, "b-1").unwrap();
    assert!(!again.standing.is_same(&bound.standing));
    assert!(matches!(bind(&folder, &"x".repeat(120)), Err(PathError::SocketPath { .. })));
}

#[test]
fn an_address_of_another_system_is_refused() {
    let refused = Channel::dial("pipe:ostler", soon()).unwrap_err().to_string();
    assert!(refused.contains("pipe:ostler"), "{refused}");
}
