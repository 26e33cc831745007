//! Files of the ledger that go, change or shrink while a broker writes: nothing is acknowledged that could not be found again, it is said where
//! people look, and what comes back is gone on with.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Root, SOON, wait_until};

/// The ledger's segments, the oldest first.
fn segments(root: &Root) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.path().join("ledger")).unwrap().flatten().map(|entry| entry.path());
    let mut segments: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect();
    segments.sort();
    segments
}

fn trouble(root: &Root) -> String {
    root.json(["status"])["degraded"].to_string()
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap()
}

/// A change is refused, and its refusal names the file.
fn is_refused(root: &Root, segment: &Path) {
    let error = root.ostler(["--json", "spawn", "--", "true"]).exits(1).json()["error"].clone();
    assert_eq!(error["code"], "storage_failed", "{error}");
    assert!(error["message"].as_str().unwrap().contains(name(segment)), "{error}");
}

#[test]
fn a_segment_that_goes_while_it_is_written_to_takes_no_more_until_it_is_back() {
    let root = Root::new();
    root.spawn_fixture(&["--name", "s"], "sleep");
    let broker = root.broker();
    let segment = segments(&root).pop().unwrap();
    let away = root.folder().join("away");
    // Removed, replaced by a copy, and its whole folder moved: nobody asks for anything, and it shows all the same.
    for case in ["removed", "replaced", "folder"] {
        let (place, aside) =
            if case == "folder" { (root.path().join("ledger"), away.clone()) } else { (segment.clone(), away.clone()) };
        fs::rename(&place, &aside).unwrap();
        if case == "replaced" {
            fs::copy(&aside, &place).unwrap();
        }
        wait_until(SOON, "the loss to be told", || trouble(&root).contains("does not take records"));
        let checks = root.ostler(["--json", "doctor"]).json()["checks"].to_string();
        assert!(checks.contains("does not take records") && checks.contains(name(&segment)), "{case}: {checks}");
        is_refused(&root, &segment);
        let log = fs::read_to_string(root.path().join("broker.log")).unwrap();
        assert!(log.contains("the ledger does not take records"), "{case}: {log}");
        assert_eq!(root.json(["show", "s"])["session"]["status"], "ready", "looking goes on");
        if case == "replaced" {
            fs::remove_file(&place).unwrap();
        }
        fs::rename(&aside, &place).unwrap();
        wait_until(SOON, "it to be written to again", || !trouble(&root).contains("does not take records"));
    }
    root.json(["stop", "s", "--grace", "0s"]);
    assert_eq!(root.broker(), broker, "it is the broker still");
    root.verify_ledger();
}

#[test]
fn a_segment_that_is_cut_while_it_is_written_to_takes_no_more_until_it_is_whole() {
    let root = Root::new();
    root.spawn_fixture(&["--name", "s"], "sleep");
    let segment = segments(&root).pop().unwrap();
    let whole = fs::read(&segment).unwrap();
    let open = || OpenOptions::new().write(true).open(&segment).unwrap();
    open().set_len(u64::try_from(whole.len()).unwrap() - 1).unwrap();
    // At once: the turn looks before it writes.
    is_refused(&root, &segment);
    assert!(trouble(&root).contains("was cut to"), "{}", trouble(&root));
    open().write_all(&whole).unwrap();
    wait_until(SOON, "it to be written to again", || !trouble(&root).contains("was cut to"));
    root.json(["stop", "s", "--grace", "0s"]);
    root.verify_ledger();
}

#[test]
fn an_older_segment_that_goes_shows_while_the_broker_works_on() {
    let root = Root::with_limits("segment_bytes:2000");
    for _ in 0..6 {
        let session = root.json(["spawn", "--", "true"])["session"].clone();
        root.json(["wait", session["id"].as_str().unwrap()]);
    }
    let all = segments(&root);
    assert!(all.len() > 3, "{all:?}");
    let away = root.folder().join("away");
    // It was there before the broker was ready, so its watch has seen it.
    fs::rename(&all[0], &away).unwrap();
    wait_until(SOON, "the loss to be told", || trouble(&root).contains("loss"));
    root.json(["spawn", "--", "true"]);
    fs::rename(&away, &all[0]).unwrap();
    wait_until(SOON, "all to be well", || root.json(["status"])["degraded"] == Value::Array(Vec::new()));
}
