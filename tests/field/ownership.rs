//! Group A: who owns the lock, and what stale ones are worth.
#![expect(clippy::disallowed_methods, reason = "starts a bystander by hand")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use ostler::broker::quarantine::{KEPT_MAX, is_quarantined};
use serde_json::{Value, json};

use crate::support::{Process, Root};

fn lock_record(root: &Root) -> Value {
    let bytes = fs::read(root.path().join("broker.lock")).expect("a broker was here");
    serde_json::from_slice(&bytes).expect("its record is JSON")
}

/// Writes the record back as another one's.
fn forge(root: &Root, pid: i64, start: Option<u64>) {
    let mut record = lock_record(root);
    record["identity"]["pid"] = json!(pid);
    if let Some(start) = start {
        record["identity"]["start"] = json!(start);
    }
    fs::write(root.path().join("broker.lock"), record.to_string()).expect("the root is ours");
}

/// Report gajae-code#3963: a dead owner's record and heaped-up tombstones stopped every start.
#[test]
fn field_a01_a_dead_owner_and_a_heap_of_tombstones_stop_no_start() {
    let root = Root::new();
    root.ensure();
    let inode = || fs::metadata(root.path().join("broker.lock")).unwrap().ino();
    let lock = inode();
    root.kill_broker();
    for n in 0..60 {
        let name = format!(".broker.lock.stale-{n:064x}-{n:016x}");
        fs::write(root.path().join(name), "{}").unwrap();
    }
    let report = root.json(["ensure"]);
    assert_eq!(report["started"], true);
    assert!(root.names("").iter().filter(|name| is_quarantined(name)).count() <= KEPT_MAX);
    assert_eq!(inode(), lock, "the lock is the same file for ever");
}

/// Report claude-code#72898: after a power cut the recorded pid belongs to another program.
#[test]
fn field_a04_a_pid_that_is_another_programs_now_is_no_owner() {
    let mut sleeper = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
    let bystander = Process::of(sleeper.id().into()).unwrap();
    let root = Root::new();
    root.ensure();
    root.kill_broker();
    forge(&root, bystander.pid.into(), Some(1));
    let record = root.path().join("broker.json");
    let mut discovery: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    discovery["broker"]["pid"] = json!(bystander.pid);
    fs::write(&record, discovery.to_string()).unwrap();

    let status = root.json(["status"]);
    assert_eq!((&status["state"], &status["lock"]["held"]), (&json!("absent"), &json!(false)));
    assert_eq!(
        (&status["lock"]["owner"]["pid"], &status["lock"]["owner_lives"]),
        (&json!(bystander.pid), &json!(false))
    );
    assert_eq!(root.json(["ensure"])["started"], true);
    assert_eq!(root.json(["shutdown"])["broker"]["pid"], lock_record(&root)["identity"]["pid"]);
    assert!(bystander.alive(), "nobody signalled it");
    // Not even by force, where the record is all there is.
    forge(&root, bystander.pid.into(), None);
    root.ostler(["shutdown", "--force"]).exits(0);
    assert!(bystander.alive());
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

/// Report codex#47206: the record of a process that is gone was an error instead of a restart.
#[test]
fn field_a06_a_record_of_nobody_is_an_owner_that_is_gone() {
    let root = Root::new();
    root.ensure();
    for pid in [None, Some(4_194_304), Some(0), Some(-1), Some(i64::from(u32::MAX))] {
        root.kill_broker();
        if let Some(pid) = pid {
            forge(&root, pid, None);
        }
        assert_eq!(root.json(["status"])["state"], "absent", "{pid:?}");
        root.ostler(["doctor"]);
        assert_eq!(root.json(["ensure"])["started"], true, "{pid:?}");
    }
}

/// Report beads#484: a stale start lock cost five seconds on each command. Here it costs a client nothing: it comes
/// through with less time than any wait for the lock would take.
#[test]
fn field_a14_a_stale_start_lock_costs_nobody_a_wait() {
    let root = Root::new();
    root.ensure();
    for _ in 0..5 {
        root.kill_broker();
        fs::write(root.path().join("start.lock"), "4194304").unwrap();
        // Half of it would be spent on waiting, if anybody waited.
        assert_eq!(root.json(["ensure", "--timeout", "8s"])["started"], true);
    }
}
