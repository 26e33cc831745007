//! Every command's good path, with `--json`, against the shapes of the contract.

use super::shape::assert_shape;
use super::text;
use crate::support::{FIXTURE, Process, Root, SOON, finish, wait_until};
use serde_json::{Value, json};

const SPAWNED: &str = "{schema:1,session:SESSION,operation:OPERATION}";
const ENDED: &str = "{schema:1,session:SESSION,operation:OPERATION,survivors:[SURVIVOR]}";
const LISTED: &str = "{schema:1,sessions:[SESSION],next:text|null}";
const STATUS: &str = "{schema:1,state:\"running\"|\"absent\"|\"starting\"|\"draining\"|\"unresponsive\"|\"blocked\",broker:BROKER|null,\
                      lock:{held:bool|null,owner:map|null,owner_lives:bool|null},ledger:HEAD|null,sessions:{live:int,total:int}|null,degraded:[text]}";

#[test]
fn ensure_and_status_and_shutdown() {
    let root = Root::new();
    let absent = root.json(["status"]);
    assert_shape(&absent, STATUS);
    assert_eq!(
        (&absent["state"], &absent["broker"], &absent["ledger"]),
        (&json!("absent"), &Value::Null, &Value::Null)
    );
    assert!(!root.path().exists(), "looking makes nothing");
    let first = root.json(["ensure"]);
    assert_shape(&first, "{schema:1,started:bool,broker:BROKER}");
    assert_eq!((&first["started"], &first["broker"]["generation"]), (&json!(true), &json!(1)));
    assert_eq!(first["broker"]["root"], root.path().to_str().unwrap());
    let second = root.json(["ensure"]);
    assert_eq!((&second["started"], &second["broker"]), (&json!(false), &first["broker"]));
    let running = root.json(["status"]);
    assert_shape(&running, STATUS);
    assert_eq!((&running["state"], &running["broker"]), (&json!("running"), &first["broker"]));
    assert_eq!((&running["lock"]["held"], &running["lock"]["owner"]["pid"]), (&json!(true), &first["broker"]["pid"]));
    let broker = Process::of_value(&first["broker"]["pid"]);
    let left = root.json(["shutdown"]);
    assert_shape(&left, "{schema:1,broker:BROKER|null,forced:bool,not_stopped:[{session_id:text,reason:text}]}");
    assert_eq!(left["broker"], first["broker"]);
    wait_until(SOON, "the broker to be gone", || !broker.alive());
    assert_shape(&root.json(["shutdown"]), "{schema:1,broker:null,forced:bool,not_stopped:[text]}");
    let again = root.json(["status"]);
    assert_shape(&again, STATUS);
    assert_eq!((&again["state"], &again["lock"]["owner"]["released"]), (&json!("absent"), &json!(true)));
    assert_shape(
        &again["ledger"].as_object().map(|head| json!({"schema": 1, "ledger": head})).unwrap(),
        "{ledger:HEAD}",
    );
    // When shutdown returns a successor can start: this one does, at once.
    assert_eq!(root.json(["ensure"])["broker"]["generation"], 2);
}

#[test]
fn a_session_s_life() {
    let root = Root::new();
    let spawned = root.json([
        "spawn", "--name", "a", "--key", "k", "--label", "team=x", "--env", "V=1", "--cwd", "/", "--", FIXTURE, "say",
        "hi", "--", "sleep",
    ]);
    assert_shape(&spawned, SPAWNED);
    let (session, operation) = (&spawned["session"], &spawned["operation"]);
    assert_eq!(
        (&session["name"], &session["status"], &session["cwd"], &session["episode"]),
        (&json!("a"), &json!("ready"), &json!("/"), &json!(1))
    );
    assert_eq!(
        (&session["labels"], &session["adapter"], &session["exit"]),
        (&json!({"team": "x"}), &json!("inbox"), &Value::Null)
    );
    assert_eq!(session["endpoint"]["generation"], 1);
    assert_eq!(
        (&operation["key"], &operation["kind"], &operation["state"]),
        (&json!("k"), &json!("session.spawn"), &json!("succeeded"))
    );
    assert_eq!((&operation["session_id"], &operation["replayed"]), (&session["id"], &json!(false)));
    assert!(Process::of_value(&session["pid"]).alive() && Process::of_value(&session["host_pid"]).alive());
    wait_until(SOON, "its output", || root.json(["show", "a"])["output_tail"] == "hi\n");
    let shown = root.json(["show", "a"]);
    assert_shape(&shown, "{schema:1,session:SESSION,operations:[OPERATION],output_tail:text}");
    assert_eq!(shown["operations"].as_array().unwrap().len(), 1);
    let ready = root.json(["wait", "a", "--for", "ready"]);
    assert_shape(&ready, "{schema:1,session:SESSION}");
    assert_shape(&root.json(["wait", "a", "--for", "idle"]), "{schema:1,session:SESSION}");
    let late = root.ostler(["--json", "wait", "a", "--timeout", "100ms"]).exits(6);
    assert_eq!(late.error_code(), "timeout");
    let stopped = root.json(["stop", "a"]);
    assert_shape(&stopped, ENDED);
    assert_eq!(stopped["session"]["exit"], json!({"signal": "SIGTERM"}));
    assert_eq!((&stopped["session"]["pid"], &stopped["session"]["endpoint"]), (&Value::Null, &Value::Null));
    let times: Vec<&str> =
        ["created_at", "started_at", "ended_at"].iter().map(|name| text(&stopped["session"][name])).collect();
    assert!(times.is_sorted(), "{times:?}");
    let resumed = root.json(["resume", "a"]);
    assert_shape(&resumed, SPAWNED);
    assert_eq!((&resumed["session"]["episode"], &resumed["session"]["endpoint"]["generation"]), (&json!(2), &json!(2)));
    let deleted = root.json(["delete", "a", "--stop"]);
    assert_shape(&deleted, ENDED);
    assert_eq!(deleted["session"]["status"], "deleted");
    assert_eq!(root.ostler(["--json", "show", "a"]).exits(3).error_code(), "not_found");
    // The name is free again, the id is not.
    let next = root.json(["spawn", "--name", "a", "--", "true"]);
    assert_ne!(next["session"]["id"], session["id"]);
}

#[test]
fn list_filters_pages_and_hides_what_is_deleted() {
    let root = Root::new();
    for (name, label, command) in [("a", "g=1", "true"), ("b", "g=1", "false"), ("c", "g=2", "true")] {
        root.ostler(["spawn", "--name", name, "--label", label, "--", command]).exits(0);
        root.ostler(["wait", name]).exits(0);
    }
    root.ostler(["spawn", "--name", "d", "--label", "g=1", "--", "sleep", "1000"]).exits(0);
    let names = |arguments: &[&str]| {
        let page = root.json(arguments.iter().copied());
        assert_shape(&page, LISTED);
        let names: Vec<String> =
            page["sessions"].as_array().unwrap().iter().map(|session| text(&session["name"]).to_owned()).collect();
        (names.join(" "), page["next"].clone())
    };
    assert_eq!(names(&["list"]).0, "a b c d");
    assert_eq!(names(&["ls"]).0, "a b c d");
    assert_eq!(names(&["ps", "--label", "g=1"]).0, "a b d");
    assert_eq!(names(&["list", "--label", "g=1", "--label", "h=1"]).0, "");
    assert_eq!(names(&["list", "--status", "exited"]).0, "a c");
    assert_eq!(names(&["list", "--status", "failed", "--status", "ready"]).0, "b d");
    assert_eq!(names(&["list", "--status", "exited", "--label", "g=2"]).0, "c");
    // Pages: each session once, in order, though one is deleted between two pages.
    let (first, cursor) = names(&["list", "--limit", "2"]);
    assert_eq!(first, "a b");
    root.ostler(["delete", "a"]).exits(0);
    let (second, end) = names(&["list", "--limit", "2", "--cursor", text(&cursor)]);
    assert_eq!((second.as_str(), &end), ("c d", &Value::Null));
    assert_eq!(root.ostler(["--json", "list", "--cursor", "nonsense"]).exits(4).error_code(), "expired_cursor");
    assert_eq!(root.ostler(["--json", "list", "--limit", "1001"]).exits(2).error_code(), "invalid_input");
    assert_eq!(root.ostler(["--json", "list", "--limit", "0"]).exits(2).error_code(), "invalid_input");
    root.ostler(["stop", "d"]).exits(0);
}

#[test]
fn batches_go_on_after_a_failure_and_exit_with_the_worst() {
    let root = Root::new();
    for name in ["a", "b"] {
        root.ostler(["spawn", "--name", name, "--label", "g=1", "--", "sleep", "1000"]).exits(0);
    }
    let documents = root.ostler(["--json", "stop", "a", "nobody", "b"]).exits(3).json_lines();
    assert_eq!(documents.len(), 3);
    assert_shape(&documents[0], ENDED);
    assert_shape(&documents[1], "{schema:1,error:ERROR}");
    assert_shape(&documents[2], ENDED);
    assert_eq!(documents[2]["session"]["status"], "stopped");
    assert_eq!(root.ostler(["--json", "stop", "a", "b", "--key", "k"]).exits(2).error_code(), "invalid_input");
    // Stopping what has ended is done; deleting by label takes what there is.
    root.ostler(["--json", "stop", "--label", "g=1"]).exits(0);
    let documents = root.ostler(["--json", "rm", "--label", "g=1"]).exits(0).json_lines();
    assert_eq!(documents.len(), 2);
    documents.iter().for_each(|document| assert_shape(document, ENDED));
    assert_eq!(root.ostler(["--json", "delete", "a", "b"]).exits(3).json_lines().len(), 2);
}

#[test]
fn logs_by_lines_stream_episode_and_to_the_end() {
    let root = Root::new();
    let script = "echo one; echo two >&2; until [ -e go ]; do sleep 0.02; done; echo three; printf four";
    root.ostler(["spawn", "--name", "a", "--", "sh", "-c", script]).exits(0);
    wait_until(SOON, "both lines", || root.ostler(["logs", "a"]).exits(0).text().lines().count() == 2);
    let follower = crate::support::Running::start(&mut root.command(["logs", "-f", "a"]));
    follower.says("one\n");
    std::fs::write(root.folder().join("go"), "").unwrap();
    let followed = follower.end().exits(0);
    assert_eq!(followed.stdout.len(), "one\ntwo\nthree\nfour".len());
    root.ostler(["wait", "a"]).exits(0);
    let logs = |arguments: &[&str]| root.ostler(["logs", "a"].iter().chain(arguments)).exits(0).text();
    assert_eq!(logs(&["--stream", "stdout"]), "one\nthree\nfour");
    assert_eq!(logs(&["--stream", "stderr"]), "two\n");
    assert_eq!(logs(&["--tail", "1", "--stream", "stdout"]), "four");
    assert_eq!(logs(&["--tail", "2", "--stream", "stdout"]), "three\nfour");
    assert_eq!(logs(&["--tail", "0"]), "");
    assert_eq!(logs(&["--tail", "2", "-f", "--stream", "stdout"]), "three\nfour");
    root.ostler(["resume", "a"]).exits(0);
    root.ostler(["wait", "a"]).exits(0);
    assert_eq!(logs(&["--episode", "1", "--stream", "stderr"]), "two\n");
    assert_eq!(logs(&["--episode", "2", "--tail", "1", "--stream", "stdout"]), "four");
    assert_eq!(root.ostler(["--json", "logs", "a", "--episode", "3"]).exits(3).error_code(), "not_found");
    let pieces = root.ostler(["--json", "logs", "a", "--stream", "stderr"]).exits(0).json_lines();
    assert_eq!(pieces.len(), 1);
    assert_shape(&pieces[0], "{schema:1,position:int,stream:\"stderr\",at:time,b64:text}");
}

#[test]
fn operations_are_shown_and_listed() {
    let root = Root::new();
    let spawned = root.json(["spawn", "--name", "a", "--key", "first", "--", "sleep", "1000"]);
    root.ostler(["stop", "a", "--key", "second"]).exits(0);
    let shown = root.json(["operation", "show", "first"]);
    assert_shape(&shown, "{schema:1,operation:OPERATION,result:map|null}");
    assert_eq!(shown["operation"]["id"], spawned["operation"]["id"]);
    assert_eq!(root.json(["operation", "show", text(&spawned["operation"]["id"])])["operation"]["key"], "first");
    let listed = root.json(["operation", "list", "a"]);
    assert_shape(&listed, "{schema:1,operations:[OPERATION],next:text|null}");
    let keys: Vec<&str> = listed["operations"].as_array().unwrap().iter().map(|one| text(&one["key"])).collect();
    assert_eq!(keys, ["second", "first"], "newest first");
    let page = root.json(["operation", "list", "--limit", "1"]);
    let rest = root.json(["operation", "list", "--limit", "1", "--cursor", text(&page["next"])]);
    assert_eq!(rest["operations"][0]["key"], "first");
    let missing = root.ostler(["operation", "show", "never"]).exits(3);
    assert!(missing.error_text().contains("next: ostler operation list"), "{missing:?}");
    // A decision is only for what is uncertain.
    let decided = ["--json", "operation", "resolve", "first", "succeeded", "--reason", "I saw it"];
    assert_eq!(root.ostler(decided).exits(4).error_code(), "too_late");
}

#[test]
fn a_replay_is_the_first_answer_and_a_conflict_is_told() {
    let root = Root::new();
    let spawn = ["--json", "spawn", "--key", "k", "--", "sleep", "1000"];
    let first = root.ostler(spawn).exits(0).json();
    // A retry from other surroundings: nothing that it did not name counts.
    let second = finish(root.command(spawn).env("OTHER", "1"), b"").exits(0).json();
    assert_shape(&second, SPAWNED);
    assert_eq!(second["operation"]["replayed"], true);
    for same in ["id", "seq", "digest", "request_digest"] {
        assert_eq!(second["operation"][same], first["operation"][same], "{same}");
    }
    assert_eq!(second["session"]["pid"], first["session"]["pid"]);
    for other in [
        &["--json", "spawn", "--key", "k", "--", "sleep", "1001"][..],
        &["--json", "spawn", "--key", "k", "--env", "A=1", "--", "sleep", "1000"],
        &["--json", "stop", "--key", "k", "nobody"],
    ] {
        let refused = root.ostler(other).exits(4);
        assert_eq!(refused.error_code(), "key_conflict");
        assert_shape(
            &refused.json(),
            "{error:{code:text,message:text,retry:\"never\",data:{stored_digest:hex64,given_digest:hex64,operation:text}}}",
        );
    }
    let id = text(&first["session"]["id"]);
    root.ostler(["stop", id]).exits(0);
    let stale = root.ostler(spawn).exits(4).json();
    assert_eq!(
        (&stale["error"]["code"], &stale["error"]["data"]["reason"]),
        (&json!("endpoint_stale"), &json!("ended"))
    );
    assert_shape(&stale, "{error:{data:{result:{session:SESSION,operation:OPERATION}}}}");
    root.ostler(["resume", id]).exits(0);
    assert_eq!(root.ostler(spawn).exits(4).json()["error"]["data"]["reason"], "replaced");
    root.ostler(["stop", id]).exits(0);
}

#[test]
fn prune_says_which_and_only_then_forgets() {
    let root = Root::new();
    let ids: Vec<Value> = (0..3).map(|_| root.json(["spawn", "--", "true"])["session"]["id"].clone()).collect();
    ids.iter().for_each(|id| drop(root.ostler(["wait", text(id)]).exits(0)));
    let live = root.json(["spawn", "--", "sleep", "1000"])["session"]["id"].clone();
    const PRUNED: &str = "{schema:1,sessions:[text],operation:OPERATION|null}";
    let nothing = root.json(["prune", "--dry-run"]);
    assert_shape(&nothing, PRUNED);
    assert_eq!(nothing["sessions"], json!([]), "what has just ended is kept");
    let dry = root.json(["prune", "--older", "0s", "--dry-run"]);
    assert_eq!((&dry["sessions"], &dry["operation"]), (&json!(ids), &Value::Null));
    let pruned = root.json(["prune", "--older", "0s"]);
    assert_shape(&pruned, PRUNED);
    assert_eq!(pruned["sessions"], json!(ids));
    let left: Vec<Value> = root.json(["list", "--all"])["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| session["id"].clone())
        .collect();
    assert_eq!(left, std::slice::from_ref(&live));
    wait_until(SOON, "their files to go", || {
        ids.iter().all(|id| !root.path().join("sessions").join(text(id)).exists())
    });
    root.ostler(["stop", text(&live)]).exits(0);
}
