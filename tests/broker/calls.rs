//! Calls over a connection that breaks, and the bridge.
#![expect(clippy::disallowed_methods, reason = "starts contenders")]

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ostler::client::{Client, ClientOptions};
use ostler::rpc::error::{ErrorCode, Retry};
use ostler::rpc::method::Method;
use serde_json::{Value, json};

use super::arena::Arena;
use crate::support::SOON;

#[test]
fn a_call_keeps_its_key_over_the_death_of_the_broker() {
    let arena = Arena::new();
    let mut client = Client::connect_or_start(arena.options(&[], SOON)).unwrap();
    assert!(client.started());
    let first = client.call(Method::SessionSpawn, json!({})).unwrap();
    let key = first["key"].as_str().unwrap();
    assert_eq!((key.len(), key.as_bytes()[14]), (36, b'7'), "a UUIDv7: {key}");
    arena.broker().kill_9();
    let again = client.call(Method::SessionSpawn, json!({"key": "mine"})).unwrap();
    assert_eq!(again["key"], "mine");
    assert_ne!(again["incarnation"], first["incarnation"], "another broker answered");
    assert_eq!(client.hello().broker.incarnation, again["incarnation"]);
}

#[test]
fn keys_are_made_of_the_brokers_time() {
    let arena = Arena::new();
    let client = Client::connect_or_start(arena.options(&[], SOON)).unwrap();
    let key = client.new_key().replace('-', "");
    let key_ms = u64::from_str_radix(&key[..12], 16).unwrap();
    let hello_ms = client.hello().time.us() / 1000;
    assert!(key_ms >= hello_ms && key_ms - hello_ms < 60_000, "{key_ms} against {hello_ms}");
    assert_ne!(client.new_key(), client.new_key());
}

#[test]
fn field_b10_a_call_that_is_late_says_so_and_what_key_finds_out() {
    let arena = Arena::new();
    drop(Client::connect_or_start(arena.options(&[], SOON)).unwrap());
    let broker = arena.broker();
    let mut client = Client::connect(arena.options(&[], Duration::from_secs(1))).unwrap();
    let mut reader = Client::connect(arena.options(&[], Duration::from_secs(1))).unwrap();
    kill(Pid::from_raw(broker.pid), Signal::SIGSTOP).unwrap();
    let error = client.call(Method::SessionStop, json!({"session": "a"})).unwrap_err();
    assert_eq!((error.code, error.retry), (ErrorCode::Timeout, Retry::SameKey));
    assert!(error.message.contains("whether it took effect is not known"), "{error:?}");
    assert!(error.data["key"].is_string() && error.message.contains("ostler operation show"), "{error:?}");
    let error = reader.call(Method::SessionGet, json!({"session": "a"})).unwrap_err();
    assert_eq!((error.code, error.data.get("key")), (ErrorCode::Timeout, None), "a read has no outcome to doubt");
    kill(Pid::from_raw(broker.pid), Signal::SIGCONT).unwrap();
}

#[test]
fn a_broker_that_is_gone_is_unreachable_where_none_may_be_started() {
    let arena = Arena::new();
    drop(Client::connect_or_start(arena.options(&[], SOON)).unwrap());
    let broker = arena.broker();
    let options = ClientOptions { no_start: true, ..arena.options(&[], Duration::from_secs(1)) };
    let mut client = Client::connect_or_start(options).unwrap();
    broker.kill_9();
    // The first bytes may have gone into the dead socket's buffer or not; either is said as it is.
    let error = client.call(Method::SessionGet, json!({"session": "a"})).unwrap_err();
    assert_eq!(error.code, ErrorCode::BrokerUnreachable);
    assert!(arena.brokers().is_empty(), "none was started");
}

#[test]
fn the_bridge_says_hello_and_passes_lines_until_all_is_answered() {
    let arena = Arena::new();
    let root = arena.root();
    let mut bridge = arena.command(&["bridge", root.to_str().unwrap()]);
    let mut bridge = bridge.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(bridge.stdout.take().unwrap()).lines();
    let mut hear = || serde_json::from_str::<Value>(&said.next().expect("a line").unwrap()).unwrap();
    let hello = hear();
    assert_eq!((hello["method"].as_str(), &hello["id"]), (Some("hello"), &Value::Null));
    assert_eq!(hello["params"]["broker"]["incarnation"], arena.record().unwrap().broker.incarnation);

    let mut input = bridge.stdin.take().unwrap();
    let ask =
        |id: u32, params: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session.get","params":{params}}}"#);
    writeln!(input, "{}", ask(1, r#"{"session":"a"}"#)).unwrap();
    assert_eq!(hear()["result"]["params"], json!({"session": "a"}));
    // The input ends with a request that is not answered yet and has no newline.
    writeln!(input, "{}", ask(2, "{}")).unwrap();
    write!(input, "{}", ask(3, "{}")).unwrap();
    drop(input);
    let mut ids = [hear()["id"].as_u64(), hear()["id"].as_u64()];
    ids.sort_unstable();
    assert_eq!(ids, [Some(2), Some(3)]);
    assert!(said.next().is_none());
    assert!(bridge.wait().unwrap().success());
}

#[test]
fn the_bridge_ends_with_an_error_when_the_broker_goes_first() {
    let arena = Arena::new();
    let root = arena.root();
    let mut bridge = arena.command(&["bridge", root.to_str().unwrap()]);
    let mut bridge = bridge.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(bridge.stdout.take().unwrap()).lines();
    said.next().unwrap().unwrap();
    arena.broker().kill_9();
    let last: Value = serde_json::from_str(&said.next().unwrap().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "broker_unreachable");
    assert_eq!(bridge.wait().unwrap().code(), Some(1));
}
