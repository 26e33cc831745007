//! `ostler doctor`: what it finds of sessions in doubt, with and without a broker; that it changes nothing; and the repairs that it does when
//! it is told to.

use super::text;
use crate::support::{Process, Root, SOON, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn checks<'a>(doctor: &'a Value, name: &str) -> Vec<&'a Value> {
    doctor["checks"].as_array().into_iter().flatten().filter(|check| check["check"] == name).collect()
}

/// Everything below a folder: names, modes and bytes, but for the broker's log.
fn image(folder: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, metadata) = (entry.path(), entry.metadata().unwrap());
        if path.ends_with("broker.log") {
            continue;
        }
        let bytes = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        all.push((path.clone(), metadata.permissions().mode(), bytes));
        if metadata.is_dir() {
            all.extend(image(&path));
        }
    }
    all.sort();
    all
}

/// Report gajae-code#4950: whoever looks is told which session is in doubt, and what to type.
#[test]
fn a_session_in_doubt_is_named_with_what_to_type_whether_or_not_a_broker_runs() {
    let root = Root::new();
    let session = root.json(["spawn", "--name", "s", "--", "sleep", "1000"])["session"].clone();
    let id = text(&session["id"]);
    root.json(["spawn", "--", "sleep", "1000"]);
    root.broker().unwrap().kill_9();
    let host = Process::of_value(&session["host_pid"]);
    host.kill_9();
    let record = root.path().join("sessions").join(id).join("1/host.json");
    fs::write(&record, "").unwrap();
    assert_eq!(checks(&root.json(["doctor"]), "sessions")[0]["status"], "ok", "no record says so yet");
    root.json(["ensure"]);
    wait_until(SOON, "it to be fenced", || root.json(["show", id])["session"]["fence"].is_object());
    for runs in [true, false] {
        if !runs {
            root.json(["shutdown"]);
        }
        let before = image(&root.path());
        let doctor = root.ostler(["--json", "doctor"]).exits(0).json();
        let found = checks(&doctor, "sessions");
        assert_eq!(found.len(), 1, "the other one is in no doubt: {doctor}");
        let told = (&found[0]["status"], &found[0]["remedy"]);
        assert_eq!(told, (&json!("warn"), &json!(format!("ostler reconcile {id}"))), "{doctor}");
        assert!(text(&found[0]["evidence"]).contains("damaged"), "{doctor}");
        assert_eq!(checks(&doctor, "hosts")[0]["status"], "ok");
        assert_eq!(image(&root.path()), before, "it looks only");
    }
    root.json(["reconcile", id]);
    for runs in [true, false] {
        if !runs {
            root.json(["shutdown"]);
        }
        assert_eq!(checks(&root.json(["doctor"]), "sessions")[0]["status"], "ok");
    }
}

/// A host that runs and that no record knows is the one thing that nobody else would tell.
#[test]
fn a_host_that_no_record_knows_is_named() {
    let mut root = Root::new();
    let session = root.json(["spawn", "--", "sleep", "1000"])["session"].clone();
    root.json(["shutdown"]);
    root.damages_the_ledger();
    fs::remove_dir_all(root.path().join("ledger")).unwrap();
    let doctor = root.ostler(["--json", "doctor"]).exits(1).json();
    let found = checks(&doctor, "hosts")[0];
    assert!(found["status"] == "fail" && text(&found["evidence"]).contains(text(&session["id"])), "{doctor}");
    Process::of_value(&session["host_pid"]).kill_9();
}

#[test]
fn a_repair_is_done_where_it_is_named_and_no_broker_runs() {
    let root = Root::new();
    root.json(["spawn", "--", "sleep", "1000"]);
    let broker = root.broker().unwrap();
    for check in ["discovery", "quarantine"] {
        let before = image(&root.path());
        let refused = root.ostler(["--json", "doctor", "--fix", check]).exits(5);
        let error = refused.json()["error"].clone();
        assert_eq!((&error["code"], &error["data"]["reason"]), (&json!("broker_blocked"), &json!("ledger_lock")));
        assert!(text(&error["data"]["remedy"]).contains("ostler shutdown"), "{error}");
        assert_eq!(image(&root.path()), before);
    }
    broker.kill_9();
    // A record of a broker that is gone, then something that is no record, then nothing.
    let published = root.path().join("broker.json");
    let fixed = |check: &str| root.json(["doctor", "--fix", check])["fixed"].clone();
    assert!(text(&fixed("discovery")[0]["evidence"]).contains("removed") && !published.exists());
    fs::create_dir(&published).unwrap();
    fs::set_permissions(&published, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(text(&fixed("discovery")[0]["evidence"]).contains("set aside") && !published.exists());
    assert!(text(&fixed("discovery")[0]["evidence"]).contains("nothing was published"));
    let debris = root.path().join("quarantine/tail-1");
    fs::write(&debris, "debris").unwrap();
    fs::set_permissions(&debris, fs::Permissions::from_mode(0o600)).unwrap();
    let told = fixed("quarantine")[0].clone();
    assert_eq!(told["check"], "quarantine");
    assert!(text(&told["evidence"]).contains("1 records of dead owners and 1 pieces were removed"), "{told}");
    assert_eq!(root.names("quarantine"), [""; 0]);
    assert!(root.names(".").iter().all(|name| !name.starts_with(".broker.lock.stale-")), "{:?}", root.names("."));
    // A broker begins as ever, and what ran still runs.
    root.json(["ensure"]);
    assert_eq!(root.json(["list"])["sessions"].as_array().unwrap().len(), 1);
    root.ostler(["doctor", "--fix", "modes"]).exits(2);
}

#[test]
fn where_nothing_is_nothing_is_repaired_or_made() {
    let root = Root::new();
    let fixed = root.json(["doctor", "--fix", "quarantine"])["fixed"].clone();
    assert!(text(&fixed[0]["evidence"]).contains("nothing to do"), "{fixed}");
    assert!(!root.path().exists());
}
