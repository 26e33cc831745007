//! `ostler ledger`: what an operator sees and proves without the broker.

use super::refused::refused;
use super::shape::assert_shape;
use super::text;
use crate::support::{Root, Running, SOON, wait_until};
use serde_json::{Value, json};
use std::fs;

/// A head as `--since` takes it.
fn kept(head: &Value) -> String {
    format!("{}:{}", head["seq"], text(&head["digest"]))
}

#[test]
fn head_verify_show_history_and_tail() {
    let root = Root::new();
    let spawned = root.json(["spawn", "--name", "a", "--key", "k", "--", "true"]);
    root.ostler(["wait", "a"]).exits(0);
    root.ostler(["spawn", "--name", "b", "--", "true"]).exits(0);
    root.ostler(["wait", "b"]).exits(0);
    // Also without a broker, and the same.
    for broker in [true, false] {
        if !broker {
            root.ostler(["shutdown"]).exits(0);
        }
        let head = root.json(["ledger", "head"]);
        assert_shape(&head, "{schema:1,seq:int,digest:hex64,segments:int,bytes:int}");
        let verified = root.json(["ledger", "verify"]);
        assert_shape(&verified, "{schema:1,ok:bool,records:int,head:HEAD,problems:[PROBLEM],elapsed_ms:int}");
        assert_eq!(
            (&verified["ok"], &verified["head"]["seq"], &verified["records"]),
            (&json!(true), &head["seq"], &head["seq"])
        );
        let shown = root.json(["ledger", "show", "1"]);
        assert_shape(&shown, "{schema:1,record:RECORD}");
        assert_eq!((&shown["record"]["t"], &shown["record"]["seq"]), (&json!("segment"), &json!(1)));
        let id = text(&spawned["session"]["id"]);
        let history = root.json(["ledger", "history", id]);
        assert_shape(&history, "{schema:1,session_id:text,records:[RECORD],missing:int}");
        assert_eq!(root.json(["ledger", "history", "a"])["records"], history["records"], "a name will do");
        assert_eq!(root.json(["ledger", "history", &id[..8]])["records"], history["records"], "and a prefix of the id");
        let records = history["records"].as_array().unwrap();
        assert!(records.iter().all(|record| record["sid"] == spawned["session"]["id"]));
        let own: Vec<u64> = records.iter().map(|record| record["sn"].as_u64().unwrap()).collect();
        assert_eq!(own, (1..=u64::try_from(own.len()).unwrap()).collect::<Vec<_>>(), "its own numbers have no hole");
        assert_eq!((&records[0]["t"], &records[0]["key"]), (&json!("accept"), &json!("k")));
        let tail = root.ostler(["--json", "ledger", "tail", "-n", "3"]).exits(0).json_lines();
        let numbers: Vec<u64> = tail.iter().map(|line| line["record"]["seq"].as_u64().unwrap()).collect();
        let last = head["seq"].as_u64().unwrap();
        assert_eq!(numbers, [last - 2, last - 1, last]);
        root.json(["ledger", "verify", "--since", &kept(&head)]);
    }
    refused(&root, &["ledger", "show", "99999"], 3, "not_found");
    refused(&root, &["ledger", "history", "nobody"], 3, "not_found");
    refused(&root, &["ledger", "show", "first"], 2, "invalid_input");
    refused(&root, &["ledger", "verify", "--since", "garbage"], 2, "invalid_input");
    let elsewhere = root.folder().join("nothing");
    refused(&root, &["--root", elsewhere.to_str().unwrap(), "ledger", "verify"], 3, "not_found");
    assert!(!elsewhere.exists());
}

#[test]
fn the_tail_is_followed_as_records_come() {
    let root = Root::new();
    root.ostler(["ensure"]).exits(0);
    let tail = Running::start(&mut root.command(["--json", "ledger", "tail", "-n", "1", "-f"]));
    wait_until(SOON, "the newest record", || tail.text().lines().count() == 1);
    root.ostler(["spawn", "--key", "watched", "--", "true"]).exits(0);
    tail.says("\"key\":\"watched\"");
    drop(tail);
}

#[test]
fn an_operation_s_answer_is_a_receipt_that_the_ledger_honours() {
    let root = Root::new();
    let operation = root.json(["spawn", "--name", "a", "--", "true"])["operation"].clone();
    root.ostler(["wait", "a"]).exits(0);
    assert_eq!(root.json(["ledger", "show", &operation["seq"].to_string()])["record"]["digest"], operation["digest"]);
    root.json(["ledger", "verify", "--since", &kept(&operation)]);
    // A head that this ledger never had.
    let other = json!({"seq": operation["seq"], "digest": "0".repeat(64)});
    let verified = root.ostler(["--json", "ledger", "verify", "--since", &kept(&other)]).exits(8).json();
    assert_eq!(verified["ok"], false);
    assert_shape(&verified, "{ok:bool,problems:[PROBLEM]}");
    let beyond = json!({"seq": 99_999, "digest": operation["digest"]});
    assert_eq!(root.ostler(["--json", "ledger", "verify", "--since", &kept(&beyond)]).exits(8).json()["ok"], false);
}

#[test]
fn a_changed_byte_is_found_and_named() {
    let mut root = Root::new();
    root.damages_the_ledger();
    let id = root.json(["spawn", "--name", "a", "--", "true"])["session"]["id"].clone();
    root.ostler(["wait", "a"]).exits(0);
    root.ostler(["shutdown"]).exits(0);
    let segment = fs::read_dir(root.path().join("ledger"))
        .unwrap()
        .flatten()
        .map(|file| file.path())
        .find(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .unwrap();
    let good = fs::read_to_string(&segment).unwrap();
    let changed = good.replacen("\"name\":\"a\"", "\"name\":\"b\"", 1);
    assert_ne!(good, changed);
    fs::write(&segment, &changed).unwrap();
    let output = root.ostler(["--json", "ledger", "verify"]).exits(8);
    let verified = output.json();
    assert_shape(&verified, "{ok:bool,records:int,problems:[PROBLEM]}");
    let problem = &verified["problems"][0];
    assert_eq!((&problem["class"], &problem["sessions"]), (&json!("damage"), &json!([id])), "{verified}");
    let eyes = root.ostler(["ledger", "verify"]).exits(8).text();
    assert!(eyes.contains("not ok") && eyes.contains(text(&id)), "{eyes}");
    fs::write(&segment, &good).unwrap();
    root.verify_ledger();
}
