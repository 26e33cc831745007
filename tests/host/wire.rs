//! The host wire: the broker's connection over it, and transcripts that older and newer programs must keep to.
#![expect(clippy::disallowed_methods, reason = "asks whether transcripts are to be written anew")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler::host::client::{Link, LinkError};
use ostler::host::wire::{EpisodeState, Exit, FileIdentity, HostRecord, Push, RefusalCode, Reply, Request};
use serde_json::{Value, json};

use super::bed::{Bed, Talk};
use crate::support::SOON;

/// A line of a transcript at which nothing is sent.
const LISTEN: &str = "(listen)";

/// Plays a transcript against a living host. Lines `> ` are sent, with `$SECRET` filled in; what comes back must be the
/// lines `< `, up to what differs from run to run. `OSTLER_WRITE_TRANSCRIPTS=1` writes what came instead.
fn check_transcript(name: &str, record: &HostRecord) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/host/golden").join(name);
    let text = fs::read_to_string(&path).unwrap();
    let mut talk = Talk::dial(record);
    let mut got = String::new();
    for line in text.lines().filter(|line| !line.starts_with("< ")) {
        got += line;
        got += "\n";
        if let Some(request) = line.strip_prefix("> ") {
            talk.send_line(&request.replace("$SECRET", &record.secret));
        } else if line != LISTEN {
            continue;
        }
        loop {
            let Some(mut answer) = talk.hear() else {
                got += "< (end)\n";
                break;
            };
            let is_push = answer.get("push").is_some();
            let bytes = answer["bytes"].as_u64().unwrap_or(0);
            normalize(&mut answer);
            got += &format!("< {answer}\n");
            if bytes > 0 {
                got += &format!("< (frame) {}\n", hex_without_time(&talk.bytes(bytes)));
            }
            if !is_push {
                break;
            }
        }
    }
    if std::env::var_os("OSTLER_WRITE_TRANSCRIPTS").is_some() {
        return fs::write(&path, &got).unwrap();
    }
    assert_eq!(got, text, "{name}");
}

/// Replaces what differs from run to run, member by member.
fn normalize(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let name = name.as_str();
                if name.ends_with("_us") || ["pid", "start", "ns", "device", "inode"].contains(&name) {
                    assert!(member.is_u64(), "{name}: {member}");
                    *member = json!(0);
                } else if ["boot", "incarnation", "product"].contains(&name) {
                    assert!(member.is_string(), "{name}: {member}");
                    *member = json!("*");
                } else {
                    normalize(member);
                }
            }
        }
        Value::Array(members) => members.iter_mut().for_each(normalize),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// One frame in hex; its time is replaced.
fn hex_without_time(frame: &[u8]) -> String {
    let mut frame = frame.to_vec();
    frame[8..16].fill(0);
    data_encoding::HEXLOWER.encode(&frame)
}

fn talkative() -> (Bed, HostRecord) {
    let bed = Bed::fixture(&["say", "up", "--", "sleep"]);
    let record = bed.start();
    bed.line("up");
    (bed, record)
}

#[test]
fn transcripts_hold() {
    for name in ["reader.txt", "refusals.txt", "unknown.txt"] {
        let (bed, record) = talkative();
        check_transcript(name, &record);
        Talk::broker(&record, 9).stop(10_000);
        bed.ended();
    }
    let (bed, record) = talkative();
    check_transcript("broker.txt", &record);
    bed.ended();
    let bed = Bed::taking(&["say", "up", "--", "copy"]);
    let record = bed.start();
    bed.line("up");
    check_transcript("deliver.txt", &record);
    bed.ended();
}

#[test]
fn every_transcript_is_played() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host/golden");
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["broker.txt", "deliver.txt", "reader.txt", "refusals.txt", "unknown.txt"]);
}

#[test]
fn field_h_own_a_newer_broker_ends_the_older_ones_connection_and_the_older_one_is_refused() {
    let (bed, record) = talkative();
    let mut old = Talk::broker(&record, 3);
    let mut reader = Talk::reader(&record);
    let mut new = Talk::broker(&record, 4);
    assert_eq!(old.hear(), None);
    assert_eq!(reader.ask(json!({ "request": "status" }))["state"], "running");
    let hello = json!({ "request": "hello", "version": 1, "secret": record.secret, "generation": 3 });
    let refused = Talk::dial(&record).ask(hello);
    assert_eq!(refused["error"]["code"], "stale_generation");
    assert_eq!(new.stop(10_000)["ok"], "stop");
    bed.ended();
}

#[test]
fn too_long_lines_and_silent_peers_harm_nobody() {
    let (bed, record) = talkative();
    let mut flood = Talk::dial(&record);
    flood.send_line(&"x".repeat(8 * 1024));
    assert_eq!(flood.hear().map(|line| line["error"]["code"].clone()), Some(json!("too_large")));
    assert_eq!(flood.hear(), None);
    let mut long = Talk::reader(&record);
    long.send_line(&format!("{{\"id\":1,\"request\":\"status\",\"pad\":\"{}\"}}", "x".repeat(70_000)));
    assert_eq!(long.hear().map(|line| line["error"]["code"].clone()), Some(json!("too_large")));
    // Half a line and then silence: others are served, and the silent one is cut off in the end.
    let silent = Talk::dial(&record);
    let mut crowd: Vec<Talk> = (0..64).map(|_| Talk::reader(&record)).collect();
    for talk in &mut crowd {
        assert_eq!(talk.ask(json!({ "request": "status" }))["ok"], "status");
    }
    let hello = json!({ "request": "hello", "version": 1, "secret": record.secret });
    let refused = Talk::dial(&record).ask(hello);
    assert_eq!(refused["error"]["code"], "unavailable");
    let strangers: Vec<Talk> = (0..10).map(|_| Talk::dial(&record)).collect();
    assert_eq!(Talk::broker(&record, 1).ask(json!({ "request": "status" }))["ok"], "status");
    for mut silent in strangers.into_iter().chain([silent]) {
        assert_eq!(silent.hear(), None);
    }
    Talk::broker(&record, 1).stop(10_000);
    bed.ended();
}

/// The last of a crowd that says nothing would have to wait for all before it, each as long as a hello may take.
#[test]
fn a_silent_crowd_keeps_no_broker_out() {
    let (bed, record) = talkative();
    let mut crowd: Vec<Talk> = (0..300).map(|_| Talk::dial(&record)).collect();
    let mut broker = Talk::broker(&record, 1);
    assert_eq!(broker.ask(json!({ "request": "status" }))["ok"], "status");
    assert_eq!(crowd[0].hear(), None, "the oldest made room");
    broker.stop(10_000);
    bed.ended();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_link_carries_requests_and_pushes_until_the_end() {
    let (bed, record) = talkative();
    runtime().block_on(async {
        let (link, hello, mut pushes) = Link::dial(&record, 2, SOON).await.unwrap();
        assert_eq!((hello.generation, hello.session.as_str(), hello.episode), (2, record.session.as_str(), 1));
        assert_eq!(hello.status.state, EpisodeState::Running);
        assert_eq!(link.status().await.unwrap().output_to, 3);
        let answer = link.ask(Request::Read { from: 1, bytes_max: 100_000 }).await.unwrap();
        assert!(matches!(answer.reply, Reply::Read { from: 1, next: 3, lost: 0, .. }), "{:?}", answer.reply);
        assert_eq!(answer.frames[16..], *b"p\n");
        let refused = link.request(Request::Stop { grace_ms: u64::MAX }).await.unwrap_err();
        assert!(matches!(&refused, LinkError::Refused(refusal) if refusal.code == RefusalCode::InvalidInput));
        let asks = link.clone();
        let stop = tokio::spawn(async move { asks.stop(10_000).await });
        let Some(Push::Exited { exit, .. }) = pushes.recv().await else { panic!("no exit") };
        assert_eq!(exit, Exit::Signal("SIGTERM".into()));
        assert_eq!(stop.await.unwrap().unwrap().exit, Some(exit));
        assert_eq!(pushes.recv().await, None);
        assert!(matches!(link.status().await, Err(LinkError::Closed)));
    });
    bed.ended();
}

#[test]
fn a_link_ends_with_its_host_and_meets_only_the_host_that_is_meant() {
    let (_bed, record) = talkative();
    runtime().block_on(async {
        let other = HostRecord { lock: FileIdentity { device: 1, inode: 1 }, ..record.clone() };
        assert!(matches!(Link::dial(&other, 1, SOON).await, Err(LinkError::Foreign)));
        let wrong = HostRecord { secret: "0".repeat(64), ..record.clone() };
        assert!(matches!(Link::dial(&wrong, 1, SOON).await, Err(LinkError::Refused(_))));
        let (link, _, mut pushes) = Link::dial(&record, 5, SOON).await.unwrap();
        assert!(matches!(
            Link::dial(&record, 4, SOON).await,
            Err(LinkError::Refused(refusal)) if refusal.code == RefusalCode::StaleGeneration
        ));
        super::bed::process(&record.host).kill_9();
        assert_eq!(pushes.recv().await, None);
        assert!(matches!(link.stop(0).await, Err(LinkError::Closed)));
        assert!(matches!(Link::dial(&record, 5, Duration::from_secs(30)).await, Err(LinkError::Unreachable(_))));
    });
}
