//! The format: canonical text, the golden ledger, and what a later version's ledger meets.

use std::fs;
use std::path::PathBuf;

use ostler_ledger::storage::{Disk, Folder, SimulatedDisk};
use ostler_ledger::{
    Class, Entry, Ledger, OpenError, Options, ReadError, Records, Stamp, VerifyOptions, verify, verify_folder,
};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::*;

/// A ledger of before there were seals, and one with all that a writer writes today. Neither is ever changed.
const GOLDEN: [&str; 2] = ["v1", "v1-sealed"];

/// The inputs of the newest golden ledger. They never change; what is written otherwise gets inputs and a folder of its
/// own.
fn golden_disk() -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    let options = Options { segment_bytes: 2500, ..Options::new("golden-ledger", "golden-boot") };
    let (mut ledger, _recovery) = Ledger::open(disk.storage(), options).unwrap();
    let entry = |t: &str, sid: Option<&str>, ep, fields: Value| Entry {
        sid: sid.map(str::to_owned),
        ep,
        ..Entry::new(t, members(fields))
    };
    let session = Some("k3x9q2m7w5ab");
    let turns = vec![
        vec![entry("generation", None, None, json!({"body": {"pid": 4711, "version": "0.1.0"}}))],
        vec![
            entry(
                "accept",
                session,
                Some(1),
                json!({
                    "act": {"uid": 1000}, "key": "0198c2f0-7d3e-7000-8000-000000000001", "kind": "session.spawn", "op": "op1",
                    "req": "5f".repeat(32), "st": "accepted", "body": {"command": ["/bin/echo", "grüße", "\u{1f600}", "tab\t\"quoted\" \\ \u{1}"]},
                }),
            ),
            entry(
                "session",
                session,
                None,
                json!({"body": {"labels": {"b": "2", "a": "1", "\u{20ac}": "x", "\u{1f600}": "y"}, "name": null}}),
            ),
        ],
        vec![entry(
            "finish",
            session,
            Some(1),
            json!({"op": "op1", "st": "failed", "err": "spawn_failed", "res": {"phase": "exec"}}),
        )],
        vec![
            entry("accept", Some("zzzzzzzzzzzz"), Some(1), json!({"op": "op2", "kind": "session.spawn"})),
            entry(
                "beat",
                None,
                None,
                json!({"body": {"seen": [0, -1, 9_007_199_254_740_991_u64, true, false, null, {}, []]}}),
            ),
        ],
        vec![entry("mark", None, None, json!({}))],
        vec![entry("host", session, Some(4_294_967_295), json!({"body": ""}))],
        vec![Entry { fin: true, ..entry("session", session, None, json!({"body": "removed"})) }],
        vec![entry("mark", None, None, json!({"body": "x".repeat(2500)}))],
        vec![entry("mark", None, None, json!({}))],
    ];
    for (turn, bg) in turns.into_iter().zip(1_u64..) {
        let stamp = Stamp { at_us: 1_767_225_599_999_998 + bg, mono_us: 1_000 * bg, bg };
        ledger.append(&turn, &stamp).unwrap();
        ledger.sync().unwrap();
    }
    disk
}

fn golden_folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

#[test]
fn the_golden_ledger_is_written_byte_for_byte() {
    let mut expected: Vec<(String, Vec<u8>)> = fs::read_dir(golden_folder("v1-sealed"))
        .unwrap()
        .map(|file| file.unwrap())
        .map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap()))
        .collect();
    expected.sort();
    let written = segments(&golden_disk());
    assert!(expected.len() > 2);
    for ((file, bytes), (golden_file, golden)) in written.iter().zip(&expected) {
        assert_eq!(file, golden_file);
        assert_eq!(String::from_utf8_lossy(bytes), String::from_utf8_lossy(golden));
    }
    assert_eq!(written.len(), expected.len());
}

#[test]
fn the_golden_ledgers_verify_and_every_record_is_canonical() {
    GOLDEN.into_iter().for_each(verifies_and_is_canonical);
}

fn verifies_and_is_canonical(golden: &str) {
    let report = verify_folder(&golden_folder(golden), &VerifyOptions::default()).unwrap();
    assert!(report.ok() && report.tail.is_none(), "{golden}: {report:?}");
    let storage = Disk::reading(golden_folder(golden));
    let records: Vec<_> = Records::new(&storage).map(|record| record.unwrap()).collect();
    assert_eq!(u64::try_from(records.len()).unwrap(), report.records);
    for record in &records {
        let value: Value = serde_json::from_str(record.raw()).unwrap();
        assert_eq!(canonical(&value), record.raw(), "JCS(parse(R)) = R");
        let mut hasher = Sha256::new();
        hasher.update("ledger-record-v1\n");
        hasher.update(record.raw());
        let digest: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, record.digest.to_string());
        assert_eq!(value["seq"].as_u64(), Some(record.header.seq));
    }
    let chained = records.windows(2).all(|pair| pair[1].header.prev == Some(pair[0].digest));
    assert!(chained && records[0].header.prev.is_none());
}

/// RFC 8785, written a second time and as plainly as possible: sorted by UTF-16, strings by serde_json, integers only.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort_by_key(|name| name.encode_utf16().collect::<Vec<u16>>());
            let member = |name: &&String| format!("{}:{}", Value::from(name.as_str()), canonical(&members[*name]));
            format!("{{{}}}", names.iter().map(member).collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// The recipe of the README, run as it stands there on the golden ledgers and on a damaged copy.
#[cfg(target_os = "linux")]
#[test]
fn a_stranger_can_verify_with_stock_tools() {
    let readme = fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let recipe = readme.split("```bash\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a recipe");
    let run = |folder: &std::path::Path| {
        let mut command = std::process::Command::new("bash");
        command.args(["-c", recipe]).current_dir(folder).env("LC_ALL", "C").output().unwrap()
    };
    for golden in GOLDEN {
        let report = verify_folder(&golden_folder(golden), &VerifyOptions::default()).unwrap();
        let output = run(&golden_folder(golden));
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), format!("ok, head {}", report.head));
    }

    let copy = tempfile::tempdir().unwrap();
    for (file, mut bytes) in segments(&golden_disk()) {
        bytes[200] ^= 1;
        fs::write(copy.path().join(file), bytes).unwrap();
    }
    assert!(!run(copy.path()).status.success());
}

/// A line of version 2 as a later program might write it.
fn newer_line(ledger: &SimulatedDisk) -> Vec<u8> {
    let last = segments(ledger).pop().unwrap().1;
    let last = String::from_utf8(last).unwrap();
    let last: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
    let r =
        json!({"prev": last["d"], "seq": last["r"]["seq"].as_u64().unwrap() + 1, "surprise": 1, "t": "new", "v": 2});
    let r = canonical(&r);
    let mut hasher = Sha256::new();
    hasher.update("ledger-record-v2\n");
    hasher.update(&r);
    let digest: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{{\"d\":\"{digest}\",\"r\":{r}}}\n").into_bytes()
}

#[test]
fn field_h_own_a_later_versions_ledger_is_refused_and_not_a_byte_is_changed() {
    // With a torn tail behind it, which this program would cut if it were its own.
    for behind in [&b""[..], b"{\"d\":\"torn"] {
        let old = golden_disk();
        let mut files = segments(&old);
        let newer = newer_line(&old);
        files.last_mut().unwrap().1.extend([newer.as_slice(), behind].concat());
        let disk = disk_of(&files);
        let opened = Ledger::open(disk.storage(), options(BOOT)).map(|_opened| ());
        assert!(matches!(&opened, Err(OpenError::TooNew { version: 2, .. })), "{opened:?}");
        assert_eq!(segments(&disk), files);
        assert_eq!(disk.names(Folder::Quarantine), Vec::<String>::new());
        let report = verify(&disk.storage(), &VerifyOptions::default()).unwrap();
        assert!(report.problems.iter().any(|problem| problem.class == Class::TooNew));
        let read: Result<Vec<_>, _> = Records::new(&disk.storage()).collect();
        assert!(matches!(read, Err(ReadError::TooNew { version: 2, .. })));
    }
}

/// A later writer may fill a segment with LF ahead of time; readers and this writer take it for what it is.
#[test]
fn line_feeds_behind_the_last_record_are_no_tail() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    turn(&mut ledger, &[entry(None, "one")]);
    drop(ledger);
    let (file, bytes) = segments(&disk).remove(0);
    let filled = disk_of(&[(file, [bytes, vec![b'\n'; 5000]].concat())]);
    let report = verify(&filled.storage(), &VerifyOptions::default()).unwrap();
    assert!(report.ok() && report.tail.is_none());
    let (mut ledger, recovery) = open(&filled);
    assert_eq!(recovery.tail, None);
    turn(&mut ledger, &[entry(None, "two")]);
    assert_eq!(texts(&ledger), ["one", "two"]);
    drop(ledger);
    assert_eq!(texts(&open(&filled).0), ["one", "two"]);
}

#[test]
fn text_of_every_kind_comes_back_as_it_was() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    let every: String = (0..0x2800).filter_map(char::from_u32).chain(['\u{fffd}', '\u{10ffff}']).collect();
    let body = Map::from_iter([(every.clone(), Value::from(every.clone()))]);
    let members = Map::from_iter([("body".to_owned(), Value::Object(body.clone()))]);
    turn(&mut ledger, &[Entry { members: members.into(), ..entry(None, "") }]);
    drop(ledger);
    let (ledger, recovery) = open(&disk);
    assert!(recovery.problems.is_empty());
    let read = records(&ledger);
    let stored: Value = serde_json::from_str(read[1].body().unwrap()).unwrap();
    assert_eq!(stored, Value::Object(body));
}
