//! What a crash between each two steps of a message leaves, as one literal table: where who died, what the next broker finds, what the
//! sender saw, what the message comes to, and how often the program really got it. Asked under the same key each is one message.

use std::fs;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use ostler::rpc::error::{ErrorCode, Retry};
use ostler::rpc::method::Method;
use serde_json::{Value, json};

use super::post::{client, client_within, insist, letter, once};
use super::{message, send, send_input};
use crate::support::scene::text;
use crate::support::{Root, SOON, finish, wait_until};

/// Where the program notes what it got.
const GOT: &str = "got";
/// More than a pipe takes.
const LARGE: usize = 200 * 1024;

/// Who is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scene {
    /// A program that reads what comes.
    Reads,
    /// One that reads later: a message before ours fills its pipe.
    Behind,
    /// One that pulls.
    Pulls,
    /// As `Behind`, and it is stopped before it reads.
    Ends,
}

/// What its sender got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sees {
    /// The connection ended before an answer came.
    Unknown,
    /// An answer.
    Answered,
    /// One or the other: the answer leaves beside what follows.
    Either,
}

/// One crash.
struct Row {
    /// Who dies where, as test builds are told.
    at: &'static str,
    scene: Scene,
    sees: Sees,
    /// The message in the ledger, as the next broker finds it.
    found: &'static str,
    comes_to: &'static str,
    got: RangeInclusive<usize>,
}

const fn row(
    at: &'static str,
    scene: Scene,
    sees: Sees,
    found: &'static str,
    comes_to: &'static str,
    got: RangeInclusive<usize>,
) -> Row {
    Row { at, scene, sees, found, comes_to, got }
}

use Scene::{Behind, Ends, Pulls, Reads};
use Sees::{Answered, Either, Unknown};

/// The broker dies before it answers.
const BEFORE_THE_ANSWER: [Row; 5] = [
    row("body.content=kill@1", Reads, Unknown, "nothing", "delivered", 1..=1),
    row("body.named=kill@1", Reads, Unknown, "nothing", "delivered", 1..=1),
    row("record.send=kill@1", Reads, Unknown, "sending", "delivered", 1..=1),
    row("record.sending=kill@1", Reads, Unknown, "sending", "delivered", 1..=1),
    row("record.send=kill@2", Behind, Unknown, "queued", "delivered", 1..=1),
];

/// The broker dies while a message is on its way, or has just arrived.
const ON_THE_WAY: [Row; 6] = [
    row("effect.deliver=kill@1", Reads, Either, "sending", "delivered", 1..=1),
    row("deliver.handing=kill@1", Reads, Either, "sending", "delivered", 1..=1),
    row("deliver.handed=kill@1", Reads, Either, "sending", "delivered", 1..=1),
    row("word.mail=kill@1", Reads, Either, "sending", "delivered", 1..=1),
    row("record.delivered=kill@1", Reads, Either, "delivered", "delivered", 1..=1),
    row("record.pulled=kill@1", Pulls, Answered, "delivered", "delivered", 1..=1),
];

/// The host dies as well, and its session has failed. What its program had read by then is its own affair: it is there or not.
const WITH_THE_HOST: [Row; 6] = [
    row("host.deliver=kill@1,deliver.handed=kill@1", Reads, Either, "sending", "cancelled", 0..=0),
    row("host.journal_attempt=kill@1,deliver.handed=kill@1", Reads, Either, "sending", "uncertain", 0..=0),
    row("host.delivered=kill@1,deliver.handed=kill@1", Reads, Either, "sending", "uncertain", 0..=1),
    row("host.journal_end=kill@1,deliver.handed=kill@1", Reads, Either, "sending", "delivered", 0..=1),
    row("host.deliver=kill@1,effect.probe=kill@1", Reads, Either, "sending", "cancelled", 0..=0),
    row("host.journal_end=kill@1,effect.probe=kill@1", Reads, Either, "sending", "delivered", 0..=1),
];

/// The session ends, and the broker dies when it has written down what that means for those who wait.
const AT_THE_END: [Row; 1] = [row("record.closed=kill@1", Ends, Answered, "cancelled", "cancelled", 0..=0)];

#[test]
fn a_broker_that_dies_before_it_answers() {
    BEFORE_THE_ANSWER.iter().for_each(crash);
}

#[test]
fn field_g09_between_sent_and_confirmed_the_journal_decides() {
    ON_THE_WAY.iter().for_each(crash);
}

#[test]
fn field_g09_with_its_host_gone_it_is_proven_or_uncertain() {
    WITH_THE_HOST.iter().for_each(crash);
}

#[test]
fn a_broker_that_dies_when_a_queue_was_closed() {
    AT_THE_END.iter().for_each(crash);
}

/// The key of the message, and its text.
const KEY: &str = "ours";

fn crash(row: &Row) {
    eprintln!("--- {} ({:?})", row.at, row.scene);
    let root = planned(row.at);
    let session = scene(&root, row.scene);
    let ours = letter(&session, KEY, KEY);
    let first = once(client(&root), Method::MessageSend, &ours);
    // Whoever is needed for the crash and is not the sender may be cut off by it.
    match row.scene {
        Pulls => drop(once(client_within(&root, &session), Method::InboxRead, &json!({}))),
        Ends => drop(once(client(&root), Method::SessionStop, &json!({"session": session, "key": "stop"}))),
        Reads | Behind => {}
    }
    wait_until(SOON, "the broker to die at its point", || root.brokers().is_empty());
    match (&first, row.sees) {
        (Ok(_), Answered | Either) => {}
        (Err(error), Unknown | Either) => {
            assert_eq!((error.code, error.retry), (ErrorCode::BrokerUnreachable, Retry::SameKey), "{error:?}");
        }
        (told, sees) => panic!("{}: {sees:?}, and the sender was told {told:?}", row.at),
    }
    assert_eq!(in_the_ledger(&root, KEY), row.found, "{}: what the next broker finds", row.at);
    root.ensure();
    // Asked again it is the same message, and another text under its key is refused.
    let again = insist(&root, Method::MessageSend, &ours);
    assert_eq!(again["replayed"], row.found != "nothing", "{}: {again}", row.at);
    if let Ok(first) = &first {
        assert_eq!(again["message"]["id"], first["message"]["id"], "{}", row.at);
    }
    let other = once(client(&root), Method::MessageSend, &letter(&session, KEY, "other")).expect_err("another text");
    assert_eq!(other.code, ErrorCode::KeyConflict, "{}: {other:?}", row.at);
    fs::write(root.folder().join("go"), "").expect("the folder is ours");
    let id = &again["message"]["id"];
    wait_until(SOON, &format!("it to be {}", row.comes_to), || message(&root, id)["state"] == row.comes_to);
    let times = received(&root, &session, row.scene);
    assert!(row.got.contains(&times), "{}: the program got it {times} times", row.at);
    // No later word makes another of it.
    assert_eq!(message(&root, id)["state"], row.comes_to, "{}", row.at);
}

/// A root whose processes die where they are told, once.
fn planned(at: &str) -> Root {
    let mut root = Root::new();
    let counts = root.folder().join("points");
    fs::create_dir(&counts).expect("the folder is ours");
    root.tell("OSTLER_TEST_POINTS", counts.to_str().expect("a temp folder is text"));
    root.tell("OSTLER_TEST_FAIL", at);
    root
}

fn got(root: &Root) -> PathBuf {
    root.folder().join(GOT)
}

fn scene(root: &Root, scene: Scene) -> Value {
    let notes = format!("exec cat >> {}", got(root).display());
    let go = root.folder().join("go");
    let later = format!("until [ -e {} ]; do sleep 0.01; done; {notes}", go.display());
    let lines = |script: &str| root.spawn(&["--adapter", "lines"], &["sh", "-c", script])["id"].clone();
    match scene {
        Reads => lines(&notes),
        Pulls => root.spawn_fixture(&[], "sleep")["id"].clone(),
        Behind | Ends => {
            let session = lines(&later);
            let before = send_input(root, &session, &[b'x'; LARGE], &[]);
            wait_until(SOON, "it to fill the pipe", || message(root, &before["message"]["id"])["state"] == "sending");
            session
        }
    }
}

/// How often the program got it: once nothing more can come.
fn received(root: &Root, session: &Value, scene: Scene) -> usize {
    if scene == Pulls {
        let page = once(client_within(root, session), Method::InboxRead, &json!({})).expect("a page");
        let pages = page["messages"].as_array().expect("a page");
        return pages.iter().filter(|of| of["text"] == KEY).count();
    }
    let count = |words: &str| root.lines(GOT).iter().filter(|line| *line == words).count();
    if root.session(session)["status"] == "ready" {
        // What is sent behind it has arrived: so has it, if it ever will.
        send(root, session, "behind", &["--wait-for", "delivered"]);
        wait_until(SOON, "the one behind it", || count("behind") == 1);
    }
    count(KEY)
}

/// The state of the message under this key, as the records on disk have it, or `nothing`.
fn in_the_ledger(root: &Root, key: &str) -> String {
    let segments = root.names("ledger").into_iter().filter(|name| name.ends_with(".jsonl"));
    let texts = segments.map(|name| fs::read_to_string(root.path().join("ledger").join(name)).expect("it is there"));
    let texts: Vec<String> = texts.collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    let records: Vec<Value> =
        lines.filter_map(|line| Some(serde_json::from_str::<Value>(line).ok()?["r"].clone())).collect();
    let Some(accept) = records.iter().find(|record| record["t"] == "accept" && record["key"] == key) else {
        return "nothing".to_owned();
    };
    let id = text(&accept["op"]).replace("op-", "msg-");
    let mut state = "queued".to_owned();
    for record in &records {
        let change = &record["body"]["change"];
        if record["t"] == "message" && record["body"]["message"] == id {
            let named = change.as_object().and_then(|of| of.keys().next().cloned());
            let word = named.unwrap_or_else(|| text(change).to_owned());
            state = if word == "pulled" { "delivered".to_owned() } else { word };
        } else if record["t"] == "queue" && state == "queued" {
            state = "cancelled".to_owned();
        }
    }
    state
}

#[test]
fn a_command_whose_broker_died_says_unknown_and_its_key_finds_out() {
    let root = planned("record.send=kill@1");
    let session = scene(&root, Reads);
    let words = ["--json", "--no-start", "--timeout", "5s", "send", text(&session), "once", "--key", KEY];
    let told = finish(&mut root.command(words), b"").exits(1).json();
    assert_eq!((&told["delivery"], &told["key"], &told["message"]), (&json!("unknown"), &json!(KEY), &Value::Null));
    let again = send(&root, &session, "once", &["--key", KEY, "--wait-for", "delivered"]);
    assert_eq!((&again["replayed"], &again["message"]["state"]), (&json!(true), &json!("delivered")));
    wait_until(SOON, "it to arrive", || root.lines(GOT) == ["once"]);
}

#[test]
fn a_command_that_may_start_a_broker_finds_out_by_itself() {
    let root = planned("record.send=kill@1");
    let session = scene(&root, Reads);
    let told = send(&root, &session, "once", &["--wait-for", "delivered"]);
    assert_eq!((&told["replayed"], &told["message"]["state"]), (&json!(true), &json!("delivered")));
    wait_until(SOON, "it to arrive", || root.lines(GOT) == ["once"]);
}
