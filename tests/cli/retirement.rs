//! `ledger retire`: what leaves, what stays known, what each reader says of it, and a broker that is killed on the way.

use super::bad_ledgers::judged;
use super::refused::refused;
use super::shape::assert_shape;
use super::text;
use super::wire::Wire;
use crate::support::{Root, SOON, wait_until};
use serde_json::{Value, json};
use std::ops::Range;

/// Segments of about twenty operations, and hardly more of them are known than the last dozen.
const LIMITS: &str = "segment_bytes:20000,snapshot_tail_bytes:1,recent:2,of_session:1,batch:4,settled:8,window_us:1";
const SHAPE: &str = "{schema:1,dry_run:bool,remove:bool,by_broker:bool,segments:int,records:int,bytes:int,first:int|null,last:int|null,\
                     carried_bytes:int,held:{seq:int,segments:int,by:text,session_id:text|null,operation:text|null,text:text}|null,\
                     left:text|null,head:HEAD}";

/// Prunes that find nothing, each with a key of its own; the operations.
fn pass(wire: &mut Wire, numbers: Range<u64>) -> Vec<Value> {
    let ask = |number| wire.ask("session.prune", json!({"key": format!("key-{number}"), "older_ms": 1_u64 << 50}));
    let answers = numbers.map(ask).collect::<Vec<Value>>();
    answers.into_iter().map(|answer| answer["result"]["operation"].clone()).collect()
}

/// The last of these get their stored outcome, and nothing is done again.
#[track_caller]
fn replay(root: &Root, last: &[Value]) {
    let mut wire = Wire::hello(root);
    for operation in last {
        let params = json!({"key": operation["key"], "older_ms": 1_u64 << 50});
        let mut again = wire.ask("session.prune", params)["result"]["operation"].clone();
        assert_eq!(again["replayed"], true, "{again}");
        again["replayed"] = json!(false);
        assert_eq!(&again, operation);
    }
}

fn segments(root: &Root, folder: &str) -> Vec<String> {
    root.names(folder).into_iter().filter(|name| name.ends_with(".jsonl")).collect()
}

fn first_of(segment: &str) -> u64 {
    segment[..20].parse().unwrap()
}

/// Both verifiers find nothing, and the same head. They judge one copy: a broker may write between their readings.
#[track_caller]
fn both_verify(root: &Root) {
    let copy = root.folder().join("judged");
    std::fs::create_dir(&copy).unwrap();
    for name in segments(root, "ledger") {
        std::fs::copy(root.path().join("ledger").join(&name), copy.join(&name)).unwrap();
    }
    assert_eq!(judged(root, &copy), Vec::<String>::new());
    std::fs::remove_dir_all(&copy).unwrap();
    root.verify_ledger();
}

/// A deleted session whose first records are among those that can go, a live one behind them, and the last operations.
struct Scene {
    root: Root,
    gone: Value,
    web: Value,
    /// A head from before the end of what can go.
    head: String,
    last: Vec<Value>,
}

impl Scene {
    fn new() -> Scene {
        let root = Root::with_limits(LIMITS);
        let gone = root.json(["spawn", "--name", "gone", "--key", "spawn-gone", "--", "true"])["session"]["id"].clone();
        root.json(["wait", "gone"]);
        let head = root.json(["ledger", "head"]);
        let head = format!("{}:{}", head["seq"], text(&head["digest"]));
        let mut wire = Wire::hello(&root);
        pass(&mut wire, 0..80);
        // While it is listed, nothing of it goes.
        let held = root.json(["ledger", "retire", "--yes"]);
        assert_shape(&held, SHAPE);
        let why = (&held["segments"], &held["held"]["by"], &held["held"]["session_id"]);
        assert_eq!(why, (&json!(0), &json!("session"), &gone));
        let shown = root.ostler(["ledger", "retire", "--dry-run"]).exits(0).text();
        assert!(shown.starts_with("nothing to retire\n") && shown.contains("`ostler delete "), "{shown}");
        root.json(["delete", "gone", "--key", "delete-gone"]);
        let web = root.json(["spawn", "--name", "web", "--key", "spawn-web", "--", "sleep", "1000"])["session"].clone();
        let last = pass(&mut wire, 80..110);
        Scene { root, gone, web, head, last }
    }

    /// Retires what can go; the first record that is left.
    #[track_caller]
    fn retire(&self) -> u64 {
        let done = self.root.json(["ledger", "retire", "--yes"]);
        assert!(done["segments"].as_u64() >= Some(2), "{done}");
        first_of(&segments(&self.root, "ledger")[0])
    }
}

#[test]
fn the_oldest_segments_leave_and_what_is_known_stays() {
    let Scene { root, web, last, .. } = &Scene::new();
    // Nothing is written without --yes, by a dry run, or to a copy.
    let before = segments(root, "ledger");
    let copy = root.path().join("ledger");
    refused(root, &["ledger", "retire"], 2, "invalid_input");
    refused(root, &["ledger", "retire", "--yes", "--dry-run"], 2, "invalid_input");
    refused(root, &["ledger", "retire", "--yes", "--ledger", copy.to_str().unwrap()], 2, "invalid_input");
    let told = root.json(["ledger", "retire", "--dry-run"]);
    assert_eq!((segments(root, "ledger"), root.names("ledger/archive")), (before.clone(), Vec::new()));

    let done = root.json(["ledger", "retire", "--yes"]);
    assert_shape(&done, SHAPE);
    for member in ["segments", "records", "bytes", "first", "last", "held"] {
        assert_eq!(done[member], told[member], "{member}");
    }
    let count = usize::try_from(done["segments"].as_u64().unwrap()).unwrap();
    assert!(count >= 2 && done["by_broker"] == true && done["left"].is_null(), "{done}");
    assert_eq!(segments(root, "ledger/archive"), before[..count]);
    assert_eq!(done["last"], first_of(&segments(root, "ledger")[0]) - 1);
    both_verify(root);
    let record = root.json(["ledger", "tail", "-n", "1", "--type", "retire"])["record"].clone();
    assert!(record["act"]["uid"].is_u64() && record["body"]["last"] == done["last"], "{record}");
    replay(root, &last[20..]);

    // Without a broker, and the files for good.
    root.json(["shutdown"]);
    root.json(["ensure"]);
    assert_eq!(root.json(["show", "web"])["session"]["pid"], web["pid"], "it lives on");
    replay(root, &last[20..]);
    root.json(["delete", "--stop", "web", "--key", "delete-web"]);
    let last = pass(&mut Wire::hello(root), 110..170);
    root.json(["shutdown"]);
    let archive = segments(root, "ledger/archive");
    let told = root.json(["ledger", "retire", "--dry-run", "--remove"]);
    let done = root.json(["ledger", "retire", "--remove", "--yes"]);
    assert_eq!((&done["by_broker"], &done["segments"]), (&json!(false), &told["segments"]));
    assert!(done["segments"].as_u64() > Some(0), "{done}");
    assert_eq!(segments(root, "ledger/archive"), archive);
    both_verify(root);
    replay(root, &last[52..]);
    assert_eq!(root.json(["status"])["degraded"], json!([]));
}

#[test]
fn every_reader_says_what_was_retired() {
    let scene = Scene::new();
    let first = scene.retire();
    let Scene { root, gone, head, last, .. } = &scene;
    let shown = root.ostler(["ledger", "history", text(gone)]).exits(0).text();
    assert!(shown.contains(&format!("of this session retired, with all before record {first}")), "{shown}");
    let history = root.json(["ledger", "history", text(gone)]);
    assert!(history["retired"].as_u64() > Some(2) && history["missing"] == 0, "{history}");
    let verified = root.json(["ledger", "verify", "--since", head]);
    assert_eq!((&verified["ok"], &verified["since_retired"]), (&json!(true), &json!(true)));
    assert!(root.ostler(["ledger", "verify", "--since", head]).exits(0).text().contains("is retired"));
    for arguments in [&["ledger", "show", "3"][..], &["ledger", "prove", "3"], &["ledger", "explain", "op-3"]] {
        let error = refused(root, arguments, 3, "not_found");
        assert!(text(&error["message"]).contains(&format!("the records before {first} were retired")), "{error}");
        assert!(text(&error["data"]["remedy"]).contains("ledger/archive"), "{error}");
    }
    let file = root.folder().join("gone.jsonl");
    let file = file.to_str().unwrap();
    root.json(["ledger", "history", text(gone), "--export", file]);
    assert!(root.json(["ledger", "verify", "--history", file])["own"]["first"].as_u64() > Some(2));
    root.ostler(["ledger", "explain", text(&last[29]["id"])]).exits(0);
    root.ostler(["ledger", "prove", &first.to_string()]).exits(0);
    root.ostler(["ledger", "stats"]).exits(0);
    root.ostler(["ledger", "export", "-o", root.folder().join("all").to_str().unwrap()]).exits(0);
    assert!(
        root.ostler(["ledger", "tail", "--type", "retire"]).exits(0).text().contains("were retired, to the archive")
    );

    // The archive, put beside the rest, is the old ledger.
    let whole = root.folder().join("whole");
    std::fs::create_dir(&whole).unwrap();
    for folder in ["ledger/archive", "ledger"] {
        for name in segments(root, folder) {
            std::fs::copy(root.path().join(folder).join(&name), whole.join(&name)).unwrap();
        }
    }
    let whole = whole.to_str().unwrap();
    let verified = root.json(["ledger", "verify", "--ledger", whole, "--since", head]);
    assert_eq!(verified["since_retired"], false);
    root.ostler(["ledger", "show", "3", "--ledger", whole]).exits(0);
}

/// Wherever it is: the next broker knows what the last one knew, and ends what it began.
#[test]
fn a_broker_that_is_killed_on_the_way_leaves_all_that_is_known() {
    let root = Root::with_limits(LIMITS);
    let web = root.json(["spawn", "--name", "first", "--key", "spawn-first", "--", "sleep", "1000"])["session"].clone();
    root.json(["delete", "--stop", "first", "--key", "delete-first"]);
    assert!(web["pid"].is_u64());
    let mut retired = 0;
    for round in 0..8_u64 {
        let name = format!("web-{round}");
        let web = root.json(["spawn", "--name", &name, "--key", &name, "--", "sleep", "1000"])["session"].clone();
        let last = pass(&mut Wire::hello(&root), round * 100..round * 100 + 60);
        let (begins, archived) = (segments(&root, "ledger")[0].clone(), segments(&root, "ledger/archive").len());
        let mut wire = Wire::hello(&root);
        let request = json!({"jsonrpc": "2.0", "id": 77, "method": "ledger.retire", "params": {}});
        wire.send(format!("{request}\n").as_bytes());
        // Another instant each time: before it, while files are linked, while they are removed, after it.
        wait_until(SOON, "the retirement to have come so far", || match round % 4 {
            0 => true,
            1 => segments(&root, "ledger/archive").len() > archived,
            2 => segments(&root, "ledger")[0] != begins,
            _ => wire.hear().is_some(),
        });
        root.kill_broker();
        root.json(["ensure"]);
        both_verify(&root);
        replay(&root, &last[52..]);
        assert_eq!(root.json(["show", &name])["session"]["pid"], web["pid"]);
        assert_eq!(root.json(["status"])["degraded"], json!([]));
        retired += segments(&root, "ledger/archive").len() - archived;
        root.json(["delete", "--stop", &name, "--key", &format!("delete-{round}")]);
    }
    assert!(retired > 0);
}
