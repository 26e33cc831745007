//! What can be shown of the ledger to others, and what an operator accepts of it.

use super::refused::refused;
use super::shape::assert_shape;
use super::text;
use crate::support::Root;
use serde_json::{Value, json};
use std::fs;

#[test]
fn a_record_is_proved_without_the_ledger() {
    let root = Root::new();
    root.json(["spawn", "--name", "web", "--key", "first", "--", "true"]);
    root.json(["wait", "web"]);
    let head_of = |head: &Value| format!("{}:{}", head["seq"], text(&head["digest"]));
    let accept =
        root.ostler(["--json", "ledger", "tail", "-n", "1", "--key", "first", "--type", "accept"]).exits(0).json();
    let (record, seq) = (accept["record"].clone(), accept["record"]["seq"].to_string());
    let older = head_of(&root.json(["ledger", "head"]));
    let file = root.folder().join("proof.json");
    let path = file.to_str().unwrap();
    let written = root.json(["ledger", "prove", &seq, "--export", path, "--head", &older]);
    assert_shape(&written, "{schema:1,output:ARG,seq:int,head:HEAD,bytes:int}");
    assert_eq!((head_of(&written["head"]), &written["bytes"]), (older.clone(), &json!(fs::read(&file).unwrap().len())));
    // A proof to a head that was kept stays the same, whatever is written behind it.
    root.json(["delete", "web"]);
    let again = root.ostler(["ledger", "prove", &seq, "--head", &older]).exits(0).text();
    assert_eq!(again, fs::read_to_string(&file).unwrap());
    let newest = root.json(["ledger", "prove", &seq]);
    assert_shape(&newest, "{schema:1,proof:map}");
    root.ostler(["shutdown"]).exits(0);
    let newer = head_of(&root.json(["ledger", "head"]));
    for (arguments, exit, code) in [
        (&["ledger", "prove", "999999"][..], 3, "not_found"),
        (&["ledger", "prove", &seq, "--head", &format!("2:{}", "0".repeat(64))], 8, "integrity"),
        (&["ledger", "prove", &seq, "--export", "/no/such/folder/x"], 2, "invalid_input"),
        (&["ledger", "verify", "--proof", "nowhere", "--head", &newer], 3, "not_found"),
        (&["ledger", "verify", "--proof", path], 2, "invalid_input"),
        (&["ledger", "verify", "--head", &newer], 2, "invalid_input"),
    ] {
        refused(&root, arguments, exit, code);
    }

    fs::rename(root.path(), root.folder().join("gone")).unwrap();
    let shape = "{schema:1,ok:bool,seq:int|null,head:HEAD,record:RECORD|null,reason:text|null,elapsed_ms:int}";
    let verified = root.json(["ledger", "verify", "--proof", path, "--head", &older]);
    assert_shape(&verified, shape);
    assert_eq!((&verified["ok"], &verified["record"]), (&json!(true), &record));
    let shown = root.ostler(["ledger", "verify", "--proof", path, "--head", &older]).exits(0).text();
    assert!(shown.starts_with(&format!("ok  record {seq} is part of that history")), "{shown}");
    let document = fs::read_to_string(&file).unwrap();
    for (content, head) in [
        (document.clone(), newer.as_str()),
        (document.replacen("session.spawn", "session.spown", 1), &older),
        (format!("{document}{document}"), &older),
        (String::new(), &older),
    ] {
        fs::write(&file, content).unwrap();
        let refused = root.ostler(["--json", "ledger", "verify", "--proof", path, "--head", head]).exits(8).json();
        assert_shape(&refused, shape);
        assert_eq!((&refused["ok"], &refused["record"]), (&json!(false), &Value::Null));
        let shown = root.ostler(["ledger", "verify", "--proof", path, "--head", head]).exits(8).text();
        assert!(shown.starts_with("not ok  "), "{shown}");
    }
    fs::rename(root.folder().join("gone"), root.path()).unwrap();
    root.verify_ledger();
}

/// A ledger of several segments, and one of before there were seals.
#[test]
fn records_of_closed_segments_are_proved_by_their_seals() {
    let root = Root::new();
    let golden = |name: &str| format!("{}/ledger/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    let (sealed, unsealed) = (golden("v1-sealed"), golden("v1"));
    let head = root.json(["ledger", "head", "--ledger", &sealed]);
    let head = format!("{}:{}", head["seq"], text(&head["digest"]));
    let proof = root.ostler(["ledger", "prove", "3", "--ledger", &sealed]).exits(0).text();
    let document: Value = serde_json::from_str(&proof).unwrap();
    assert_eq!((&document["segment"], document["seals"].as_array().unwrap().len()), (&json!(1), 2));
    let file = root.folder().join("proof.json");
    fs::write(&file, proof).unwrap();
    let verified = root.json(["ledger", "verify", "--proof", file.to_str().unwrap(), "--head", &head]);
    assert_eq!((&verified["ok"], &verified["record"]["seq"]), (&json!(true), &json!(3)));
    let refused = root.ostler(["--json", "ledger", "prove", "3", "--ledger", &unsealed]).exits(3);
    assert_eq!(refused.json()["error"]["data"]["reason"], "unsealed");
}

#[test]
fn what_is_wrong_is_accepted_with_and_without_a_broker() {
    let mut root = Root::new();
    root.json(["spawn", "--name", "web", "--", "true"]);
    root.json(["wait", "web"]);
    root.json(["spawn", "--name", "other", "--", "true"]);
    root.json(["wait", "other"]);
    root.json(["prune", "--older", "0s"]);
    root.ostler(["shutdown"]).exits(0);
    root.damages_the_ledger();
    let folder = root.path().join("ledger");
    let segment = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment.filter(|path| path.extension().is_some_and(|ext| ext == "jsonl")).min().unwrap();
    let damage = |from: &str, to: &str| {
        let sound = fs::read_to_string(&segment).unwrap();
        fs::write(&segment, sound.replacen(from, to, 1)).unwrap();
    };
    damage("session.spawn", "session.spown");
    let degraded = || root.json(["status"])["degraded"].as_array().unwrap().len();
    let shape = "{schema:1,ok:bool,accepted:[map],head:HEAD,by_broker:bool,problems:[map]}";

    // Nothing is written without --yes, without a reason, or to a copy.
    let before = fs::read(&segment).unwrap();
    for wrong in [
        &["ledger", "accept", "--reason", "seen"][..],
        &["ledger", "accept", "--yes"],
        &["ledger", "accept", "--yes", "--reason", " "],
        &["ledger", "accept", "--yes", "--reason", "seen", "--ledger", folder.to_str().unwrap()],
    ] {
        refused(&root, wrong, 2, "invalid_input");
    }
    assert_eq!(fs::read(&segment).unwrap(), before);

    let accepted = root.json(["ledger", "accept", "--reason", "the disk was replaced", "--yes"]);
    assert_shape(&accepted, shape);
    assert_eq!(
        (&accepted["ok"], &accepted["by_broker"], accepted["accepted"].as_array().unwrap().len()),
        (&json!(true), &json!(false), 1)
    );
    let verified = root.json(["ledger", "verify"]);
    assert_eq!((&verified["ok"], &verified["accepted"]), (&json!(true), &accepted["accepted"]));
    assert!(root.ostler(["ledger", "verify"]).exits(0).text().contains("accepted: ledger: damage in "));
    let told = root.ostler(["ledger", "tail", "--type", "accepted"]).exits(0).text();
    assert!(told.contains("an operator accepted 1 finding of verify: the disk was replaced"), "{told}");
    root.json(["ensure"]);
    assert_eq!(degraded(), 0);
    root.ostler(["shutdown"]).exits(0);

    // Something new degrades again, and a running broker takes the word for it.
    damage("\"mono\":", "\"mona\":");
    root.ostler(["--json", "ledger", "verify"]).exits(8);
    root.json(["ensure"]);
    assert_eq!(degraded(), 1);
    let session = root.json(["list", "--all"])["sessions"].clone();
    let accepted = root.json(["ledger", "accept", "--reason", "again", "--yes"]);
    assert_shape(&accepted, shape);
    assert_eq!((&accepted["ok"], &accepted["by_broker"]), (&json!(true), &json!(true)));
    assert_eq!((degraded(), &root.json(["list", "--all"])["sessions"]), (0, &session), "no fence is lifted");
    let record = root.ostler(["--json", "ledger", "tail", "-n", "1", "--type", "accepted"]).exits(0).json();
    let act = &record["record"]["body"]["act"];
    assert_eq!(
        act["uid"],
        json!(fs::metadata(&segment).map(|file| std::os::unix::fs::MetadataExt::uid(&file)).unwrap())
    );
    assert!(act["pid"].is_u64() && record["record"]["bg"] == root.json(["status"])["broker"]["generation"], "{record}");
    root.json(["ledger", "verify"]);
    // With nothing to accept nothing is written.
    let head = root.json(["ledger", "head"]);
    assert_eq!(root.json(["ledger", "accept", "--reason", "once more", "--yes"])["accepted"], json!([]));
    assert_eq!(root.json(["ledger", "head"]), head);
    root.ostler(["shutdown"]).exits(0);
}
