//! The ledger, looked at without a broker and while one writes.

use crate::support::Root;
use std::fs;

#[test]
fn the_history_of_a_session_is_shown_with_and_without_a_broker() {
    let root = Root::new();
    assert_eq!(root.ostler(["--json", "ledger", "head"]).exits(3).error_code(), "not_found");
    let id = root.json(["spawn", "--", "true"])["session"]["id"].as_str().unwrap().to_owned();
    root.json(["wait", &id]);
    let check = || {
        let head = root.json(["ledger", "head"]);
        let verified = root.json(["ledger", "verify"]);
        assert_eq!((&verified["ok"], &verified["head"]["seq"]), (&true.into(), &head["seq"]));
        assert_eq!(verified["head"]["digest"], head["digest"]);
        let history = root.json(["ledger", "history", &id[..7]]);
        let records = history["records"].as_array().unwrap();
        assert_eq!(history["session_id"], *id);
        assert!(records.len() >= 3 && records.iter().all(|record| record["sid"] == *id), "{history}");
        let seq = records[0]["seq"].to_string();
        let shown = root.json(["ledger", "show", &seq]);
        assert_eq!(shown["record"], records[0]);
        assert_eq!(shown["record"]["digest"].as_str().unwrap().len(), 64);
        let tail = root.ostler(["--json", "ledger", "tail", "-n", "2"]).exits(0).json_lines();
        assert_eq!((tail.len(), &tail[1]["record"]["seq"]), (2, &head["seq"]));
        format!("{}:{}", head["seq"], head["digest"].as_str().unwrap())
    };
    check();
    root.ostler(["shutdown"]).exits(0);
    let head = check();
    assert_eq!(root.broker(), None, "looking starts nothing");
    assert_eq!(root.json(["ledger", "verify", "--since", &head])["ok"], true);
    root.json(["ensure"]);
    assert_eq!(root.json(["ledger", "verify", "--since", &head])["ok"], true, "the history goes on");
    assert_eq!(root.ostler(["--json", "ledger", "show", "999999"]).exits(3).error_code(), "not_found");
    assert_eq!(root.ostler(["--json", "ledger", "history", "zzz"]).exits(3).error_code(), "not_found");
    root.ostler(["ledger", "verify", "--since", "nonsense"]).exits(2);
}

#[test]
fn damage_is_found_and_exits_8() {
    let mut root = Root::new();
    root.json(["spawn", "--", "true"]);
    root.ostler(["shutdown"]).exits(0);
    let head = root.json(["ledger", "head"]);
    root.damages_the_ledger();
    let folder = root.path().join("ledger");
    let segment = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment.filter(|path| path.extension().is_some_and(|ext| ext == "jsonl")).min().unwrap();
    let sound = fs::read_to_string(&segment).unwrap();
    fs::write(&segment, sound.replacen("session.spawn", "session.spown", 1)).unwrap();
    let verified = root.ostler(["--json", "ledger", "verify"]).exits(8).json();
    assert_eq!(verified["ok"], false);
    assert_eq!(verified["problems"][0]["class"], "damage", "{verified}");
    assert!(root.ostler(["ledger", "verify"]).exits(8).text().contains("not ok"));
    let doctor = root.ostler(["--json", "doctor"]).exits(1).json();
    let check = doctor["checks"].as_array().unwrap().iter().find(|check| check["check"] == "ledger").unwrap();
    assert_eq!((&check["status"], &check["remedy"]), (&"fail".into(), &"ostler ledger verify".into()));
    // Rolled back to its first record, it verifies by itself but not against a head that was kept.
    let first = sound.lines().next().unwrap();
    fs::write(&segment, format!("{first}\n")).unwrap();
    let kept = format!("{}:{}", head["seq"], head["digest"].as_str().unwrap());
    let rolled_back = root.ostler(["--json", "ledger", "verify", "--since", &kept]).exits(8).json();
    assert_eq!(rolled_back["problems"].as_array().unwrap().last().unwrap()["class"], "loss", "{rolled_back}");
    fs::write(&segment, sound).unwrap();
    root.verify_ledger();
}
