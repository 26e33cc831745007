//! `ostler ledger explain`: one operation's story, from what really happened.

use super::refused::refused;
use super::shape::assert_shape;
use super::text;
use crate::support::{FIXTURE, Root, Running, SOON, wait_until};
use ostler_ledger::storage::Disk;
use ostler_ledger::{Entry, Ledger, Options, Stamp};
use serde_json::{Value, json};
use std::path::Path;

const STORY: &str = "{id:text,key:text,kind:text,session_id:text|null,session_name:text|null,state:text,actor:{uid:int,pid:int,session_id:text|null},\
                     generation:int,request_digest:hex64,accepted:{seq:int,digest:hex64,at:time},settled:{seq:int,digest:hex64,at:time}|null,\
                     elapsed_ms:int|null,clock:text|null,durable_since:int|null,error:{code:text,message:text}|null,conflicts:int,missing:int,replay:text,\
                     next:text|null,steps:[{seq:int,at:time,elapsed_ms:int,clock:text,text:text}],omitted:int,records:[RECORD]}";

/// The stories of an operation or a key.
#[track_caller]
fn stories(root: &Root, given: &str) -> Vec<Value> {
    let document = root.json(["ledger", "explain", given]);
    assert_shape(&document, &format!("{{schema:1,operations:[{STORY}]}}"));
    document["operations"].as_array().unwrap().clone()
}

/// The one story of it.
#[track_caller]
fn story(root: &Root, given: &str) -> Value {
    let mut stories = stories(root, given);
    assert_eq!(stories.len(), 1, "{stories:?}");
    stories.remove(0)
}

/// Its steps in order.
fn steps(story: &Value) -> Vec<String> {
    story["steps"].as_array().unwrap().iter().map(|step| text(&step["text"]).to_owned()).collect()
}

#[test]
fn a_spawn_and_a_stop_are_told_from_beginning_to_end() {
    let root = Root::new();
    let spawned = root.json(["spawn", "--name", "web", "--key", "k", "--", FIXTURE, "sleep"]);
    let (session, operation) = (&spawned["session"], &spawned["operation"]);
    let op = text(&operation["id"]);
    // Another request under its key is refused, and its record comes with the next turn that is written.
    root.ostler(["spawn", "--key", "k", "--", "false"]).exits(4);
    let stopped = root.json(["stop", "web"]);
    root.json(["delete", "web"]);
    let told = story(&root, op);
    assert_eq!(story(&root, "k"), told, "by its key as well");
    assert_eq!(
        (&told["id"], &told["kind"], &told["session_id"], &told["session_name"], &told["state"]),
        (&operation["id"], &json!("session.spawn"), &session["id"], &json!("web"), &json!("succeeded"))
    );
    assert_eq!((&told["settled"]["seq"], &told["settled"]["digest"]), (&operation["seq"], &operation["digest"]));
    assert_eq!((&told["conflicts"], &told["missing"], &told["clock"]), (&json!(1), &json!(0), &json!("boot")));
    assert_eq!(told["actor"]["uid"], u64::from(nix::unistd::getuid().as_raw()));
    let steps_told = steps(&told);
    let expected = [
        "accepted: a new session named web, its episode 1, to be started within 30s".to_owned(),
        format!("its host (pid {}) started the command (pid {})", session["host_pid"], session["pid"]),
        format!("succeeded; episode 1 runs as pid {}", session["pid"]),
    ];
    assert_eq!(steps_told[..3], expected);
    assert!(
        steps_told[3].starts_with("refused: its key came with another request") && steps_told.len() == 4,
        "{steps_told:?}"
    );
    // What came after its end is another story.
    let stop = story(&root, text(&stopped["operation"]["id"]));
    assert_eq!(
        steps(&stop),
        [
            "accepted: TERM now, KILL after 10s",
            "the process ended: signal SIGTERM; the session is stopped",
            "succeeded; it ended with signal SIGTERM"
        ]
    );
    let page = root.ostler(["ledger", "explain", op]).exits(0).text();
    let first = page.lines().next().unwrap();
    assert!(
        first.starts_with(&format!("{op}: spawn of web (session {}), succeeded after ", text(&session["id"]))),
        "{page}"
    );
    for told in [
        "asked for  2",
        "under key  k\n",
        "recorded   as record ",
        "known to be on disk",
        "retry: the same request under this key",
    ] {
        assert!(page.contains(told), "{told}: {page}");
    }
    refused(&root, &["ledger", "explain", "nope"], 3, "not_found");
    refused(&root, &["ledger", "explain", "op-999999"], 3, "not_found");
    refused(&root, &["ledger", "explain", ""], 2, "invalid_input");
}

#[test]
fn a_key_that_was_free_again_has_two_stories() {
    let root = Root::new();
    root.ostler(["spawn", "--key", "k", "--", "no-such-command"]).exits(1);
    root.json(["spawn", "--key", "k", "--", "true"]);
    let told = stories(&root, "k");
    let states: Vec<&str> = told.iter().map(|story| text(&story["state"])).collect();
    assert_eq!(states, ["aborted", "succeeded"]);
    assert!(text(&told[0]["replay"]).contains("the key is free"));
    assert_eq!(told[0]["error"]["code"], "spawn_failed");
    assert!(steps(&told[0]).last().unwrap().starts_with("aborted, proven to have had no effect: "), "{told:?}");
    let page = root.ostler(["ledger", "explain", "k"]).exits(0).text();
    assert!(page.contains("aborted without any effect") && page.contains(", succeeded after "), "{page}");
}

#[test]
fn a_stop_that_outlives_its_broker_is_told_with_both_brokers() {
    let root = Root::new();
    let spawned =
        root.json(["spawn", "--name", "web", "--", FIXTURE, "ignore-term", "--", "say", "deaf", "--", "sleep"]);
    wait_until(SOON, "it to ignore TERM", || root.json(["show", "web"])["output_tail"] == "deaf\n");
    let stopping = Running::start(&mut root.command(["stop", "web", "--key", "end", "--grace", "3s"]));
    wait_until(SOON, "the stop to be recorded", || root.ostler(["ledger", "explain", "end"]).code() == Some(0));
    let open = story(&root, "end");
    assert_eq!(
        (&open["state"], &open["settled"], &open["elapsed_ms"]),
        (&json!("accepted"), &Value::Null, &Value::Null)
    );
    assert!(text(&open["next"]).starts_with("ostler operation show op-"), "{open}");
    assert!(root.ostler(["ledger", "explain", "end"]).exits(0).text().contains("not settled yet"));
    root.broker().unwrap().kill_9();
    drop(stopping);
    root.json(["ensure"]);
    wait_until(SOON, "the stop's outcome", || story(&root, "end")["state"] == "succeeded");
    let told = story(&root, "end");
    let steps_told = steps(&told);
    let at = |what: &str| steps_told.iter().position(|step| step.contains(what));
    let gone = at("broker 1 was gone; broker 2: pid ");
    let found = at(&format!("its host (pid {}) was found alive by broker 2", spawned["session"]["host_pid"]));
    let ended = at("the process ended: signal SIGKILL");
    assert!(
        gone.is_some() && gone < found && found < ended && ended < at("succeeded; it ended with signal SIGKILL"),
        "{steps_told:?}"
    );
    assert!(told["elapsed_ms"].as_u64().unwrap() > 0);
}

/// Writes turns into a ledger of its own, each in a boot and at a time on both clocks, microseconds.
fn write(folder: &Path, turns: &[(&str, u64, u64, &[Value])]) {
    let quarantine = folder.with_extension("quarantine");
    for (boot, at_us, mono_us, records) in turns {
        let disk = Disk::new(folder, &quarantine);
        let (mut ledger, recovery) = Ledger::open(disk, Options::new("a-ledger", *boot)).unwrap();
        let entry = |record: &Value| {
            let mut members = record.as_object().unwrap().clone();
            let mut text = |name: &str| members.remove(name).map(|value| value.as_str().unwrap().to_owned());
            let (t, sid) = (text("t").unwrap(), text("sid"));
            Entry { t, ep: sid.is_some().then_some(1), sid, fin: false, members: members.into() }
        };
        let entries: Vec<Entry> = recovery.owed.iter().cloned().chain(records.iter().map(entry)).collect();
        ledger.append(&entries, &Stamp { at_us: *at_us, mono_us: *mono_us, bg: 1 }).unwrap();
        ledger.sync().unwrap();
    }
}

#[test]
fn uncertainty_is_told_with_its_fence_and_with_whoever_settled_it() {
    const S: u64 = 1_000_000;
    let root = Root::new();
    let folder = root.folder().join("written");
    let fence = json!({"fence": {"operation": "op-2", "reason": "its endpoint belongs to another root"}});
    let error = json!({"code": "uncertain", "reason": "foreign", "message": "nobody can know"});
    let finish = json!({"t": "finish", "sid": "aaaaaaaaaaaa", "op": "op-2", "kind": "session.stop", "st": "uncertain", "err": "uncertain",
                        "res": {}, "body": error});
    let decided = json!({"t": "operator", "act": {"uid": 7, "pid": 8},
                         "body": {"operation": "op-2", "outcome": "failed", "reason": "I looked"}});
    let lifted = json!({"t": "fence", "sid": "aaaaaaaaaaaa", "body": {"fence": null}});
    let accept = json!({"t": "accept", "sid": "aaaaaaaaaaaa", "op": "op-2", "kind": "session.stop", "key": "k", "req": "ab".repeat(32),
                        "act": {"uid": 1, "pid": 2, "sid": "bbbbbbbbbbbb"}, "body": {"end": {"grace_ms": 10_000, "delete": false}}});
    let up = json!({"t": "fence", "sid": "aaaaaaaaaaaa", "body": fence});
    let before: &[Value] = &[accept];
    write(
        &folder,
        &[("boot-1", 1_800_000_000 * S, 5 * S, before), ("boot-1", 1_800_000_002 * S, 7 * S, &[up, finish])],
    );
    let explain = || {
        let told = root.json(["ledger", "explain", "k", "--ledger", folder.to_str().unwrap()]);
        assert_shape(&told, &format!("{{schema:1,operations:[{STORY}]}}"));
        told["operations"][0].clone()
    };
    let told = explain();
    assert_eq!((&told["state"], &told["settled"]), (&json!("uncertain"), &Value::Null));
    assert!(text(&told["next"]).contains("ostler operation resolve op-2 succeeded|failed --reason TEXT"), "{told}");
    assert_eq!(
        steps(&told),
        [
            "accepted: TERM now, KILL after 10s",
            "the session was fenced: its endpoint belongs to another root",
            "uncertain: nobody can know (uncertain)"
        ]
    );
    // Decided after the machine was started anew: only the wall clock spans that.
    write(&folder, &[("boot-2", 1_800_000_060 * S, S, &[decided, lifted])]);
    let told = explain();
    assert_eq!(
        (&told["state"], &told["elapsed_ms"], &told["clock"]),
        (&json!("failed"), &json!(60_000), &json!("wall"))
    );
    let last = steps(&told).split_off(3);
    assert_eq!(last[0], "decided by uid 7 (pid 8): it failed, because: I looked");
    assert!(last[1].starts_with("the fence was lifted"), "{last:?}");
    assert_eq!(told["steps"][2]["elapsed_ms"], 2_000);
    let page = root.ostler(["ledger", "explain", "op-2", "--ledger", folder.to_str().unwrap()]).exits(0).text();
    assert!(
        page.contains("by session bbbbbbbbbbbb (process 2 of uid 1)") && page.contains("~+1m  decided by"),
        "{page}"
    );
    assert!(page.contains("failed after about 1m") && page.contains("started anew in between"), "{page}");
}
