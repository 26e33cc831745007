//! Hostile and clumsy clients at the broker's socket: each gets a typed answer or is cut off, and nobody else notices.

use crate::support::{Root, SOON, finish};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;

/// Longest line (contract section 4), and before hello.
const FRAME_BYTES: usize = 4 * 1024 * 1024;
const FIRST_FRAME_BYTES: usize = 4 * 1024;

/// A bare connection to the broker.
pub(crate) struct Wire {
    stream: BufReader<UnixStream>,
    id: u64,
}

impl Wire {
    /// Connects, and says nothing.
    pub(crate) fn dial(root: &Root) -> Wire {
        Wire::dial_at(&root.json(["ensure"])["broker"])
    }

    /// Connects to this broker, and says nothing.
    pub(crate) fn dial_at(broker: &Value) -> Wire {
        let path = broker["endpoint"].as_str().unwrap().strip_prefix("unix:").unwrap().to_owned();
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        Wire { stream: BufReader::new(stream), id: 0 }
    }

    /// Connects and says hello as the owner.
    pub(crate) fn hello(root: &Root) -> Wire {
        let mut wire = Wire::dial(root);
        wire.greet(root);
        wire
    }

    /// Says hello as the owner.
    #[track_caller]
    pub(crate) fn greet(&mut self, root: &Root) {
        let answer = self.ask("hello", hello(&token(root)));
        assert_eq!(answer["result"]["protocol"], 1, "{answer}");
    }

    /// Asks and gives back the answer.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params});
        self.send(format!("{request}\n").as_bytes());
        let answer = self.hear().expect("an answer");
        assert_eq!(answer["id"], self.id, "{answer}");
        answer
    }

    /// Sends bytes, whatever they are; a broker that has cut us off does not take them all.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        if let Err(error) = self.stream.get_mut().write_all(bytes) {
            assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{error}");
        }
    }

    /// The next line; `None` if the broker has hung up.
    pub(crate) fn hear(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap()),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// The code of the error that comes now.
    #[track_caller]
    fn error(&mut self) -> String {
        let answer = self.hear().expect("an answer");
        answer["error"]["data"]["code"].as_str().unwrap_or_else(|| panic!("no error: {answer}")).to_owned()
    }

    #[track_caller]
    fn is_cut_off(&mut self) {
        assert_eq!(self.hear(), None);
    }

    /// The connection is still good.
    #[track_caller]
    pub(crate) fn works(&mut self) {
        assert_eq!(self.ask("broker.status", json!({}))["result"]["state"], "running");
    }
}

fn token(root: &Root) -> String {
    let record: Value = serde_json::from_slice(&fs::read(root.path().join("broker.json")).unwrap()).unwrap();
    record["token"].as_str().unwrap().to_owned()
}

fn hello(token: &str) -> Value {
    json!({"protocol": {"min": 1, "max": 1}, "client": {"name": "test", "version": "0"}, "token": token, "as": "owner"})
}

#[test]
fn nothing_is_served_before_a_good_hello() {
    let root = Root::new();
    let mut wire = Wire::dial(&root);
    wire.send(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"broker.status\",\"params\":{}}\n");
    assert_eq!(wire.error(), "unauthenticated");
    wire.is_cut_off();
    let good = token(&root);
    let short = &good[..good.len() - 1];
    for wrong in ["", "0", short, &format!("{good}0"), &"0".repeat(good.len())] {
        let mut wire = Wire::dial(&root);
        let answer = wire.ask("hello", hello(wrong));
        assert_eq!(answer["error"]["data"]["code"], "unauthenticated", "{wrong:?}");
        assert!(!answer.to_string().contains(&good), "the answer does not tell");
        wire.is_cut_off();
    }
    // An owner's token is no session's, and protocols that nobody speaks are refused with what is spoken.
    let mut params = hello(&good);
    params["as"] = json!("session");
    assert_eq!(Wire::dial(&root).ask("hello", params)["error"]["data"]["code"], "unauthenticated");
    let mut params = hello(&good);
    params["protocol"] = json!({"min": 7, "max": 9});
    let answer = Wire::dial(&root).ask("hello", params);
    assert_eq!(
        (&answer["error"]["data"]["code"], &answer["error"]["data"]["max"]),
        (&json!("protocol_mismatch"), &json!(1))
    );
    // A second hello changes nothing.
    let mut wire = Wire::hello(&root);
    assert_eq!(wire.ask("hello", hello("0"))["error"]["data"]["code"], "invalid_input");
    wire.works();
    root.verify_ledger();
}

#[test]
fn field_j06_lines_have_a_limit_and_a_smaller_one_before_hello() {
    let root = Root::new();
    let mut wire = Wire::dial(&root);
    wire.send(&vec![b'x'; FIRST_FRAME_BYTES + 1]);
    assert_eq!(wire.error(), "too_large");
    wire.is_cut_off();
    // A line of just the allowed length is an answer's worth; one byte more ends the connection.
    let line = |bytes: usize| {
        let (head, tail) = (r#"{"jsonrpc":"2.0","id":1,"method":"session.get","params":{"session":""#, "\"}}\n");
        format!("{head}{}{tail}", "x".repeat(bytes - head.len() - tail.len()))
    };
    let mut wire = Wire::hello(&root);
    wire.send(line(FRAME_BYTES).as_bytes());
    assert_eq!(wire.error(), "not_found");
    wire.works();
    wire.send(line(FRAME_BYTES + 1).as_bytes());
    assert_eq!(wire.error(), "too_large");
    wire.is_cut_off();
    Wire::hello(&root).works();
}

#[test]
fn field_j08_half_a_frame_and_silence_hold_nobody_up() {
    let root = Root::new();
    let mut silent = Wire::dial(&root);
    let mut half = Wire::dial(&root);
    half.send(b"{\"jsonrpc\":\"2.0\",\"id\":1,");
    let mut later = Wire::hello(&root);
    later.send(b"{\"jsonrpc\":\"2.0\",\"id\":1,");
    // Others are served meanwhile.
    Wire::hello(&root).works();
    root.ostler(["run", "--", "true"]).exits(0);
    for wire in [&mut silent, &mut half] {
        assert_eq!(wire.error(), "timeout", "hello has a deadline");
        wire.is_cut_off();
    }
    // Who has said hello may take its time, and go on.
    later.send(b"\"method\":\"broker.status\",\"params\":{}}\n");
    assert_eq!(later.hear().unwrap()["result"]["state"], "running");
    // Who leaves in the middle of a line, or without reading its answer, has asked for nothing.
    let mut leaving = Wire::hello(&root);
    leaving.send(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session.spawn\",\"params\":{\"key\":\"k\",\"comm");
    drop(leaving);
    Wire::hello(&root).works();
    let found = root.ostler(["--json", "operation", "show", "k"]).exits(3);
    assert_eq!(found.error_code(), "not_found");
}

#[test]
fn lines_that_are_no_requests_are_answered_and_the_connection_goes_on() {
    let root = Root::new();
    let mut wire = Wire::hello(&root);
    let deep = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session.get\",\"params\":{{\"session\":{}{}}}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let status = r#""method":"broker.status","params":{}"#;
    let lines: [(String, i64); 10] = [
        ("hello".into(), -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,".into(), -32700),
        (deep, -32700),
        (format!("[{{\"jsonrpc\":\"2.0\",\"id\":1,{status}}}]"), -32600),
        ("42".into(), -32600),
        ("{}".into(), -32600),
        (format!("{{\"jsonrpc\":\"1.0\",\"id\":1,{status}}}"), -32600),
        (format!("{{\"jsonrpc\":\"2.0\",{status}}}"), -32600),
        (format!("{{\"jsonrpc\":\"2.0\",\"id\":{{}},{status}}}"), -32600),
        (format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"more\":1,{status}}}"), -32600),
    ];
    for (line, code) in lines {
        wire.send(format!("{line}\n").as_bytes());
        let answer = wire.hear().unwrap();
        assert_eq!(
            (&answer["error"]["code"], &answer["error"]["data"]["code"]),
            (&json!(code), &json!("invalid_input")),
            "{line:.200} {answer}"
        );
    }
    wire.send(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session.get\",\"params\":{\"session\":\"\xff\xfe\"}}\n");
    assert_eq!(wire.error(), "invalid_input");
    wire.works();
}

#[test]
fn field_h04_unknown_methods_and_parameters_are_refused_by_name() {
    let root = Root::new();
    let mut wire = Wire::hello(&root);
    for method in ["no.such", "session.register", "pool.acquire", "Session.Get", ""] {
        let answer = wire.ask(method, json!({}));
        assert_eq!(answer["error"]["data"]["code"], "unknown_method", "{answer}");
    }
    for (method, params) in [
        ("session.get", json!({"session": "a", "sesion": "b"})),
        ("session.spawn", json!({"key": "k", "command": ["true"], "cwd": "/", "sesion": 1})),
        ("broker.status", json!({"sesion": 1})),
        ("session.list", json!({"all": true, "sesion": []})),
    ] {
        let answer = wire.ask(method, params);
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(answer["error"]["data"]["code"] == "invalid_input" && message.contains("sesion"), "{answer}");
    }
    for params in [json!([1]), json!("text"), json!(null), json!(1)] {
        assert_eq!(wire.ask("session.get", params)["error"]["data"]["code"], "invalid_input");
    }
    for params in [json!({}), json!({"session": 1}), json!({"session": null})] {
        assert_eq!(wire.ask("session.get", params)["error"]["data"]["code"], "invalid_input");
    }
    assert_eq!(root.json(["list", "--all"])["sessions"], json!([]));
    root.verify_ledger();
}

#[test]
fn a_bridge_takes_lines_and_gives_answers() {
    let root = Root::new();
    let mut lines = String::new();
    for (id, method, params) in [
        (1, "session.spawn", json!({"key": "k", "name": "a", "command": ["true"], "cwd": "/"})),
        (2, "session.wait", json!({"session": "a", "for": "ended"})),
        (3, "no.such", json!({})),
    ] {
        lines.push_str(&format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})));
    }
    let answers = finish(&mut root.command(["connect"]), lines.as_bytes()).exits(0).json_lines();
    assert_eq!((&answers[0]["method"], &answers[0]["params"]["protocol"]), (&json!("hello"), &json!(1)));
    let answer =
        |id: u64| answers.iter().find(|answer| answer["id"] == id).unwrap_or_else(|| panic!("no {id}: {answers:?}"));
    assert_eq!(answer(1)["result"]["session"]["name"], "a");
    assert_eq!(answer(3)["error"]["data"]["code"], "unknown_method");
    assert!(
        answer(2).get("result").is_some() || answer(2)["error"]["data"]["code"] == "not_found",
        "answers come as they are ready"
    );
    assert_eq!(
        root.ostler(["--json", "--no-start", "connect", "--root", "/nonexistent"]).exits(5).error_code(),
        "broker_unreachable"
    );
}
