//! The time limits of a connection. The clock stands still and jumps to the next limit whenever nothing else is to do,
//! so that seconds of silence pass at once.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use serde_json::json;

use super::*;
use crate::rpc::record::{Record, SCHEMA};
use crate::rpc::tiny::Tiny;
use crate::rpc::wire::{Broker, ProtocolRange, RootId, Timestamp};

fn tiny() -> Tiny {
    let broker = Broker {
        pid: 1,
        generation: 1,
        incarnation: "i".to_owned(),
        version: "0.1.0".to_owned(),
        protocol: ProtocolRange::of_build(),
        endpoint: "unix:/nowhere".to_owned(),
        root: "/root".into(),
        started_at: Timestamp::from_us(0),
    };
    Tiny::new(Record { schema: SCHEMA, broker, root_id: RootId::new(1, 2), token: "t".to_owned() })
}

const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"hello","params":{"protocol":{"min":1,"max":1},"client":{"name":"t","version":"1"},"token":"t","as":"owner"}}"#;

/// Serves a connection on which `said` was sent and nothing comes after; returns the answers and the seconds that passed.
fn serve_silence_after(said: &str) -> (Vec<Value>, u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(said.as_bytes()).unwrap();
    ours.set_nonblocking(true).unwrap();
    let seconds = runtime.block_on(async {
        let stream = tokio::net::UnixStream::from_std(ours).unwrap();
        let (_stop, stopped) = watch::channel(false);
        let begun = Instant::now();
        serve(Admitted {
            stream: Stream::UdSocket(stream.into()),
            peer: Peer { uid: 0, pid: None },
            connection: 1,
            service: Arc::new(tiny()),
            stop: stopped,
            silent: Arc::default(),
            make_room: Arc::default(),
        })
        .await;
        begun.elapsed().as_secs()
    });
    let mut text = String::new();
    theirs.read_to_string(&mut text).unwrap();
    (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), seconds)
}

fn why(answer: &Value) -> [&str; 2] {
    ["code", "reason"].map(|name| answer["error"]["data"][name].as_str().unwrap())
}

#[test]
fn silence_instead_of_hello_ends_after_five_seconds() {
    for said in ["", "{", &HELLO[..HELLO.len() / 2], HELLO] {
        let (answers, seconds) = serve_silence_after(said);
        assert_eq!(answers.len(), 1, "{said}");
        assert_eq!((why(&answers[0]), seconds), (["timeout", "hello"], 5), "{said}");
    }
}

#[test]
fn half_a_line_and_then_silence_ends_after_thirty_seconds() {
    let half = format!("{HELLO}\n{{\"jsonrpc\":\"2.0\",\"id\":1,");
    let (answers, seconds) = serve_silence_after(&half);
    assert_eq!(answers[0]["id"], json!(0));
    assert_eq!((why(&answers[1]), seconds), (["invalid_input", "incomplete_line"], 30));
}

#[test]
fn a_reader_that_makes_no_progress_is_left_after_ten_seconds() {
    let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "session.read", "params": {"bytes": 3_000_000}});
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(format!("{HELLO}\n{ask}\n").as_bytes()).unwrap();
    ours.set_nonblocking(true).unwrap();
    runtime.block_on(async {
        let stream = tokio::net::UnixStream::from_std(ours).unwrap();
        let (_stop, stop) = watch::channel(false);
        let begun = Instant::now();
        let (service, peer) = (Arc::new(tiny()), Peer { uid: 0, pid: None });
        let stream = Stream::UdSocket(stream.into());
        serve(Admitted {
            stream,
            peer,
            connection: 1,
            service,
            stop,
            silent: Arc::default(),
            make_room: Arc::default(),
        })
        .await;
        assert_eq!(begun.elapsed().as_secs(), 10);
    });
}

/// How long a connection lasts on which events are told without end and nobody reads; none if longer than an hour.
fn seconds_of_a_subscriber_that_asks(asked: &str) -> Option<u64> {
    let subscribe = json!({"jsonrpc": "2.0", "id": 1, "method": "events.subscribe", "params": {"bytes": 1000}});
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(format!("{HELLO}\n{subscribe}\n").as_bytes()).unwrap();
    ours.set_nonblocking(true).unwrap();
    runtime.block_on(async {
        let stream = Stream::UdSocket(tokio::net::UnixStream::from_std(ours).unwrap().into());
        let (_stop, stop) = watch::channel(false);
        let (service, peer) = (Arc::new(tiny()), Peer { uid: 0, pid: None });
        let (silent, make_room) = (Arc::default(), Arc::default());
        let begun = Instant::now();
        let mut serving =
            std::pin::pin!(serve(Admitted { stream, peer, connection: 1, service, stop, silent, make_room }));
        if timeout(Duration::from_secs(100), &mut serving).await.is_ok() {
            return Some(begun.elapsed().as_secs());
        }
        theirs.write_all(asked.as_bytes()).unwrap();
        let ended = timeout(Duration::from_secs(3600), serving).await;
        ended.is_ok().then(|| begun.elapsed().as_secs())
    })
}

#[test]
fn who_reads_no_events_is_waited_for_unless_an_answer_waits_behind_them() {
    assert_eq!(seconds_of_a_subscriber_that_asks(""), None);
    let ask = json!({"jsonrpc": "2.0", "id": 2, "method": "broker.status", "params": {}});
    let ended = seconds_of_a_subscriber_that_asks(&format!("{ask}\n"));
    assert!(matches!(ended, Some(110..=120)), "{ended:?}");
}
