//! Snapshots of the broker's state: a start from one, one that is damaged, and damage of what a start does not read.

use super::keys::stops;
use super::text;
use super::wire::Wire;
use crate::support::{Root, SOON, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

/// A root whose ledger is long enough for a snapshot; its broker has left. The name of the first operation, too.
fn long_root() -> (Root, Value) {
    let root = Root::new();
    let first = root.json(["spawn", "--key", "first", "--name", "web", "--", "true"]);
    root.json(["wait", "web"]);
    stops(&mut Wire::hello(&root), &first["session"]["id"]);
    root.json(["shutdown"]);
    (root, first["operation"].clone())
}

/// The snapshots, oldest first.
fn snapshots(root: &Root) -> Vec<PathBuf> {
    let files = fs::read_dir(root.path().join("ledger")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("snapshot-")).collect();
    files.sort();
    files
}

fn flip(file: &PathBuf, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 1;
    let mut permissions = fs::metadata(file).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
    fs::set_permissions(file, permissions).unwrap();
    fs::write(file, bytes).unwrap();
}

/// What the log says of the last recovery: records in all, records folded.
fn recovered(root: &Root) -> (u64, u64) {
    let log = fs::read_to_string(root.path().join("broker.log")).unwrap();
    let line = log.lines().rev().find(|line| line.contains("ledger recovered")).expect("each start says it");
    let number = |name: &str| {
        let found = line.split([' ', ',', '{', '}']).find_map(|word| word.trim_matches('"').strip_prefix(name));
        let digits: String = found.unwrap_or_default().chars().filter(char::is_ascii_digit).collect();
        digits.parse().unwrap_or_else(|_| panic!("no {name} in {line}"))
    };
    (number("records="), number("folded="))
}

#[test]
fn a_start_reads_what_lies_behind_the_snapshot_and_knows_all_the_same() {
    let (root, first) = long_root();
    let before = root.verify_ledger()["records"].as_u64().unwrap();
    assert!(!snapshots(&root).is_empty());
    root.json(["ensure"]);
    let (records, folded) = recovered(&root);
    assert!(records == before && folded < records / 2, "{folded} of {records}");
    assert_eq!(root.json(["operation", "show", "first"])["operation"], first);
    assert_eq!(root.json(["show", "web"])["session"]["status"], "exited");
    let whole =
        || fs::read_to_string(root.path().join("broker.log")).unwrap().contains("the whole ledger was verified");
    wait_until(SOON, "the scrub", whole);
    assert_eq!(root.json(["status"])["degraded"], json!([]));
}

#[test]
fn a_snapshot_that_is_damaged_is_dropped_and_nothing_is_missing() {
    let (root, first) = long_root();
    for file in snapshots(&root) {
        let middle = usize::try_from(fs::metadata(&file).unwrap().len()).unwrap() / 2;
        flip(&file, middle);
    }
    root.json(["ensure"]);
    let (records, folded) = recovered(&root);
    assert_eq!(records, folded, "the history was replayed");
    assert_eq!(snapshots(&root), Vec::<PathBuf>::new());
    let log = fs::read_to_string(root.path().join("broker.log")).unwrap();
    assert!(log.contains("snapshot dropped"), "{log}");
    assert_eq!(root.json(["operation", "show", "first"])["operation"], first);
    assert_eq!(root.json(["status"])["degraded"], json!([]));
}

#[test]
fn damage_before_the_snapshot_is_found_by_the_scrub() {
    let (mut root, _) = long_root();
    root.damages_the_ledger();
    let mut segments: Vec<_> =
        fs::read_dir(root.path().join("ledger")).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    segments.sort();
    let file = &segments[0];
    let lines = fs::read_to_string(file).unwrap();
    let at = lines.lines().take(20).map(|line| line.len() + 1).sum::<usize>() + 200;
    flip(file, at);
    root.json(["ensure"]);
    let found = || root.json(["status"])["degraded"].to_string().contains("damage");
    wait_until(SOON, "the scrub to find it", found);
    // Nothing rests on it: the session is there, and works.
    root.ostler(["resume", "web"]).exits(0);
    let degraded = root.json(["status"])["degraded"].clone();
    assert!(text(&degraded[0]).contains(file.file_name().unwrap().to_str().unwrap()), "{degraded}");
}
