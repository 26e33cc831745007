//! Ledgers that somebody or something has spoilt: `ostler ledger verify` says what is wrong, as the second verifier does;
//! a broker starts on it, or refuses and changes nothing; and no effect runs twice.

use super::refused::refused;
use super::text;
use crate::support::{Output, Root, finish};
use ostler_ledger::storage::Disk;
use ostler_ledger::{Entry, Ledger, Options, Stamp};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const NOW: Stamp = Stamp { at_us: 1_800_000_000_000_000, mono_us: 5_000_000, bg: 1 };

/// Writes turns of one record each into a ledger, which begins a new segment if the boot is another.
fn write(folder: &Path, boot: &str, stamp: &Stamp, bodies: &[Value]) {
    let disk = Disk::new(folder, folder.with_extension("quarantine"));
    let (mut ledger, recovery) = Ledger::open(disk, Options::new("a-ledger", boot)).unwrap();
    let mark = |body: &Value| Entry::new("mark", json!({"body": body}).as_object().unwrap().clone());
    let owed = (!recovery.owed.is_empty()).then_some(recovery.owed);
    for turn in owed.into_iter().chain(bodies.iter().map(|body| vec![mark(body)])) {
        ledger.append(&turn, stamp).unwrap();
        ledger.sync().unwrap();
    }
}

/// A root with a life in its ledger: a session that ended, three segments, a broker that left. Its ledger may be spoilt.
fn lived() -> Root {
    let mut root = Root::new();
    root.json(["spawn", "--name", "web", "--key", "first", "--", "true"]);
    root.json(["wait", "web"]);
    root.json(["shutdown"]);
    write(&ledger(&root), "another boot", &NOW, &[json!({"text": "second"}), json!({"text": "more"})]);
    root.json(["spawn", "--name", "last", "--key", "last", "--", "true"]);
    root.json(["wait", "last"]);
    root.json(["shutdown"]);
    assert_eq!(segments(&root).len(), 3);
    root.damages_the_ledger();
    root
}

fn ledger(root: &Root) -> PathBuf {
    root.path().join("ledger")
}

fn segments(root: &Root) -> Vec<PathBuf> {
    let files = fs::read_dir(ledger(root)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|file| file.extension().is_some_and(|end| end == "jsonl")).collect();
    files.sort();
    files
}

/// Puts other bytes in the place of a segment, as an editor does: by a new file.
fn put(file: &Path, bytes: impl AsRef<[u8]>) {
    let _gone = fs::remove_file(file);
    fs::write(file, bytes).unwrap();
    fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
}

/// Everything in the folder: names and bytes.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.map(|file| (file.clone(), fs::read(&file).unwrap_or_default())).collect();
    files.sort();
    files
}

/// What the verifier that shares no code with the product says of a ledger folder.
#[track_caller]
pub(super) fn second_judge(folder: &Path) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/verify_ledger.py");
    let mut python = Command::new("python3");
    finish(python.arg(script).arg(folder).arg("--json"), b"")
}

/// What both verifiers say of a ledger folder: the classes of its problems. They must agree on all but the sentences.
#[track_caller]
pub(super) fn judged(root: &Root, folder: &Path) -> Vec<String> {
    let first = root.ostler(["--json", "ledger", "verify", "--ledger", folder.to_str().unwrap()]);
    let exit = first.code();
    let second = second_judge(folder);
    assert_eq!(second.code(), exit, "{first:?} {second:?}");
    let problems = |document: &Value| -> Value {
        let mut problems = document["problems"].clone();
        for problem in problems.as_array_mut().unwrap() {
            problem.as_object_mut().unwrap().remove("detail");
        }
        problems
    };
    let (first, second) = (first.json(), second.json());
    assert_eq!((problems(&first), &first["head"]), (problems(&second), &second["head"]));
    let classes: Vec<String> =
        first["problems"].as_array().unwrap().iter().map(|problem| text(&problem["class"]).to_owned()).collect();
    assert_eq!((exit, &first["ok"]), (Some(if classes.is_empty() { 0 } else { 8 }), &json!(classes.is_empty())));
    classes
}

/// A broker starts, says that it is degraded if it should, and works; nothing that stood there is rewritten.
#[track_caller]
fn starts(root: &Root, degraded: bool) {
    let before = contents(&ledger(root));
    root.json(["ensure"]);
    let told = root.json(["status"])["degraded"].clone();
    assert_eq!(!told.as_array().unwrap().is_empty(), degraded, "{told}");
    let made = root.json(["spawn", "--name", "new", "--", "true"])["session"]["id"].clone();
    assert_eq!(root.json(["wait", "new"])["session"]["id"], made);
    root.json(["shutdown"]);
    for (file, bytes) in before.iter().filter(|(file, _bytes)| file.extension().is_some_and(|end| end == "jsonl")) {
        let kept = contents(&ledger(root)).into_iter().find(|(other, _bytes)| other == file);
        let kept = kept.unwrap_or_else(|| panic!("{} is gone", file.display())).1;
        assert!(kept.starts_with(bytes) || bytes.starts_with(&kept), "{} was rewritten", file.display());
    }
}

/// No broker starts, the reason is told, and nothing is changed.
#[track_caller]
fn is_refused(root: &Root, exit: i32, code: &str, reason: Option<&str>) -> Value {
    let before = contents(&ledger(root));
    let error = refused(root, &["ensure"], exit, code);
    if let Some(reason) = reason {
        assert_eq!(error["data"]["reason"], reason, "{error}");
    }
    assert_eq!(contents(&ledger(root)), before);
    assert_eq!(root.broker(), None);
    error
}

#[test]
fn an_empty_segment_file() {
    let root = lived();
    let files = segments(&root);
    // Of the middle, and behind all: as a crash leaves a segment that was begun.
    let sound = fs::read(&files[1]).unwrap();
    put(&files[1], "");
    assert_eq!(judged(&root, &ledger(&root)), ["loss"]);
    put(&files[1], sound);
    put(&ledger(&root).join(format!("{:020}.jsonl", 9_999)), "");
    assert_eq!(judged(&root, &ledger(&root)), Vec::<String>::new());
    root.json(["ensure"]);
    assert_eq!(root.json(["status"])["degraded"], json!([]));
    assert_eq!(segments(&root).len(), 3, "it is gone");
}

#[test]
fn a_segment_of_zeros() {
    let root = lived();
    let file = &segments(&root)[1];
    let length = fs::read(file).unwrap().len();
    put(file, vec![0; length]);
    assert_eq!(judged(&root, &ledger(&root)), ["damage"]);
    starts(&root, true);
}

#[test]
fn a_file_of_another_kind() {
    let root = lived();
    // Under other names it is none of ours.
    for name in ["notes.txt", "1.jsonl", "00000000000000000001.json"] {
        fs::write(ledger(&root).join(name), b"\x89PNG\r\n\x1a\n").unwrap();
    }
    assert_eq!(judged(&root, &ledger(&root)), Vec::<String>::new());
    put(&segments(&root)[1], b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    assert_eq!(judged(&root, &ledger(&root)), ["loss"]);
    starts(&root, true);
    assert!(ledger(&root).join("notes.txt").exists());
}

#[test]
fn field_f09_a_record_of_a_newer_version() {
    let root = lived();
    let r = r#"{"at":"2030-01-01T00:00:00.000000Z","new":[1.5],"v":2}"#;
    let digest = sha256(&format!("ledger-record-v2\n{r}"));
    let line = format!("{{\"d\":\"{digest}\",\"r\":{r}}}\n");
    let files = segments(&root);
    for file in [&files[0], &files[2]] {
        let sound = fs::read(file).unwrap();
        put(file, [sound.as_slice(), line.as_bytes()].concat());
        let verified = root.ostler(["--json", "ledger", "verify"]).exits(8).json();
        assert!(verified["problems"].to_string().contains("too_new"), "{verified}");
        is_refused(&root, 8, "integrity", Some("newer_version"));
        put(file, sound);
    }
    root.verify_ledger();
}

fn sha256(text: &str) -> String {
    let output = finish(Command::new("sha256sum").arg("-"), text.as_bytes());
    output.text()[..64].to_owned()
}

#[test]
fn segments_that_changed_places() {
    let root = lived();
    let files = segments(&root);
    let bytes: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    put(&files[0], &bytes[1]);
    put(&files[1], &bytes[0]);
    assert_eq!(judged(&root, &ledger(&root))[0], "chain_broken");
    put(&files[0], &bytes[0]);
    put(&files[1], &bytes[2]);
    put(&files[2], &bytes[1]);
    // The last file would be emptied by the next segment, which gets that name.
    assert_eq!(judged(&root, &ledger(&root))[0], "chain_broken");
    is_refused(&root, 8, "integrity", Some("misnamed"));
}

#[test]
fn a_missing_segment() {
    let root = lived();
    let files = segments(&root);
    let sound = fs::read(&files[0]).unwrap();
    fs::remove_file(&files[0]).unwrap();
    assert_eq!(judged(&root, &ledger(&root))[0], "loss");
    put(&files[0], sound);
    fs::remove_file(&files[1]).unwrap();
    assert_eq!(judged(&root, &ledger(&root)), ["loss"]);
    starts(&root, true);
    // The keys before and behind it are known still.
    for key in ["first", "last"] {
        assert_eq!(root.json(["operation", "show", key])["operation"]["key"], key);
    }
}

#[test]
fn a_segment_of_another_ledger() {
    let root = lived();
    let other = root.folder().join("other");
    write(&other, "another boot", &NOW, &[json!({"text": "theirs"})]);
    let theirs = fs::read(other.join("00000000000000000001.jsonl")).unwrap();
    put(&segments(&root)[1], &theirs);
    assert_eq!(judged(&root, &ledger(&root))[0], "chain_broken");
    starts(&root, true);
    // Behind all it is not cut either.
    put(&ledger(&root).join(format!("{:020}.jsonl", 9_999)), &theirs);
    is_refused(&root, 8, "integrity", Some("unexplained"));
}

#[test]
fn a_sequence_number_that_is_there_twice() {
    let root = lived();
    let file = &segments(&root)[1];
    let lines = fs::read_to_string(file).unwrap();
    let second = lines.lines().nth(1).unwrap();
    put(file, lines.replacen(second, &format!("{second}\n{second}"), 1));
    assert_eq!(judged(&root, &ledger(&root)), ["chain_broken"]);
    starts(&root, true);
}

#[test]
fn two_rows_glued_together() {
    let root = lived();
    let file = &segments(&root)[1];
    let lines = fs::read_to_string(file).unwrap();
    put(file, lines.replacen("}\n{", "}{", 1));
    assert_eq!(judged(&root, &ledger(&root)), ["damage"]);
    starts(&root, true);
}

#[test]
fn a_row_cut_inside_a_character() {
    let root = lived();
    write(&ledger(&root), "another boot", &NOW, &[json!({"text": "whole"}), json!({"text": "\u{fc}\u{1f600}"})]);
    let file = segments(&root).pop().unwrap();
    let bytes = fs::read(&file).unwrap();
    let at = bytes.windows(2).rposition(|window| window == "\u{fc}".as_bytes()).unwrap();
    for length in [at + 1, at + 3, at + 5] {
        put(&file, &bytes[..length]);
        assert_eq!(judged(&root, &ledger(&root)), Vec::<String>::new(), "never acknowledged");
    }
    starts(&root, false);
    root.verify_ledger();
    // Followed by more, it is damage of this one row.
    put(&file, [&bytes[..at + 1], b"\n", &bytes[at + 1..]].concat());
    root.ostler(["ledger", "verify"]).exits(8);
}

/// Everything that the format can hold, and what it cannot.
#[test]
fn text_that_is_not_ascii_and_awkward_numbers() {
    let root = Root::new();
    let folder = root.folder().join("written");
    let body = json!({
        "text": "\u{fc}\u{df} \u{65e5}\u{672c} \u{1f469}\u{200d}\u{1f680} \u{2028} \u{202e} \0\u{1}\u{7f} \"\\/ \u{fffd}",
        "numbers": [0, -1, 9_007_199_254_740_991_i64, -9_007_199_254_740_991_i64],
        "\u{fc}": {"": [[], {}, null, true]}, "\u{1f600}": 1, "\u{ffff}": 2,
    });
    write(&folder, "boot", &NOW, &[body.clone(), json!({"text": "last"}), json!({"text": "and on"})]);
    assert_eq!(judged(&root, &folder), Vec::<String>::new());
    let shown = root.json(["ledger", "show", "2", "--ledger", folder.to_str().unwrap()]);
    assert_eq!(shown["record"]["body"], body);
    // Numbers that readers take for different ones, in a record with the right digest.
    let file = folder.join("00000000000000000001.jsonl");
    let sound = fs::read_to_string(&file).unwrap();
    let line = sound.lines().nth(1).unwrap();
    for number in ["9007199254740992", "1.5", "1e3", "-0", "01", "1.0"] {
        let r = line[76..line.len() - 1].replacen("9007199254740991", number, 1);
        let forged = format!("{{\"d\":\"{}\",\"r\":{r}}}", sha256(&format!("ledger-record-v1\n{r}")));
        put(&file, sound.replacen(line, &forged, 1));
        assert_eq!(judged(&root, &folder), ["damage"], "{number}");
    }
}

#[test]
fn a_ledger_copied_from_another_root() {
    let theirs = lived();
    let root = Root::new();
    root.json(["ensure"]);
    root.json(["shutdown"]);
    let own = ledger(&root);
    fs::rename(&own, root.folder().join("mine")).unwrap();
    fs::create_dir(&own).unwrap();
    fs::set_permissions(&own, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    for (index, file) in segments(&theirs).iter().enumerate() {
        put(&own.join(file.file_name().unwrap()), fs::read(file).unwrap());
        assert_eq!(segments(&root).len(), index + 1);
    }
    assert_eq!(judged(&root, &own), Vec::<String>::new());
    root.json(["ensure"]);
    // Its secret is another one, so a retry cannot be compared and is done by nobody.
    let retry = root.ostler(["--json", "spawn", "--name", "web", "--key", "first", "--", "true"]);
    assert_ne!(retry.code(), Some(0), "{retry:?}");
    assert_eq!(root.json(["show", "web"])["session"]["status"], "exited");
    root.json(["shutdown"]);
    root.verify_ledger();
}

#[test]
fn field_f06_two_writers() {
    let root = lived();
    let disk = Disk::new(ledger(&root), root.folder().join("quarantine"));
    let (writer, _recovery) = Ledger::open(disk, Options::new("a-ledger", "another boot")).unwrap();
    is_refused(&root, 5, "broker_blocked", Some("ledger_lock"));
    assert_eq!(judged(&root, &ledger(&root)), Vec::<String>::new(), "readers need no lock");
    drop(writer);
    starts(&root, false);
}

#[test]
fn a_link_a_folder_or_a_file_in_its_place() {
    let root = lived();
    let file = segments(&root).remove(1);
    let elsewhere = root.folder().join("elsewhere");
    fs::rename(&file, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
    unreadable(&root);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    unreadable(&root);
    fs::remove_dir(&file).unwrap();
    fs::rename(&elsewhere, &file).unwrap();
    // The folder itself.
    fs::rename(ledger(&root), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, ledger(&root)).unwrap();
    let error = refused(&root, &["ensure"], 1, "storage_failed");
    assert!(text(&error["message"]).contains("ledger"), "{error}");
    fs::remove_file(ledger(&root)).unwrap();
    fs::write(ledger(&root), "mine").unwrap();
    refused(&root, &["ensure"], 1, "storage_failed");
    assert_eq!(fs::read(ledger(&root)).unwrap(), b"mine");
    fs::remove_file(ledger(&root)).unwrap();
    fs::rename(&elsewhere, ledger(&root)).unwrap();
    starts(&root, false);
    root.verify_ledger();
}

/// Neither verifier follows it or calls it sound, and no broker starts on it.
#[track_caller]
fn unreadable(root: &Root) {
    let output = root.ostler(["--json", "ledger", "verify"]);
    assert!(![Some(0), Some(8)].contains(&output.code()), "{output:?}");
    is_refused(root, 1, "storage_failed", None);
}

/// Times are advisory: the order is that of the numbers.
#[test]
fn a_clock_far_back_or_far_ahead() {
    for (at_us, at) in [(0, "1970-01-01"), (253_402_300_799_000_000, "9999-12-31")] {
        let root = lived();
        write(&ledger(&root), "a third boot", &Stamp { at_us, ..NOW }, &[json!({"text": "odd"})]);
        assert_eq!(judged(&root, &ledger(&root)), Vec::<String>::new());
        let last = root.ostler(["--json", "ledger", "tail", "-n", "1"]).exits(0).json_lines().remove(0);
        assert!(text(&last["record"]["at"]).starts_with(at), "{last}");
        starts(&root, false);
        root.verify_ledger();
        assert_eq!(root.json(["operation", "show", "last"])["operation"]["key"], "last");
    }
}

/// A gigabyte is verified segment by segment.
#[test]
#[ignore = "writes a gigabyte"]
fn long_large_ledger_is_verified_in_256_mib() {
    let root = Root::new();
    let folder = root.folder().join("written");
    let bodies: Vec<Value> = (0..4_000).map(|_number| json!({"text": "x".repeat(60_000)})).collect();
    let size = || -> usize { contents(&folder).iter().map(|(_file, bytes)| bytes.len()).sum() };
    while !folder.exists() || size() < 1 << 30 {
        write(&folder, "boot", &NOW, &bodies);
    }
    let mut shell = Command::new("sh");
    shell.args([
        "-c",
        "ulimit -v 262144; exec \"$@\"",
        "sh",
        crate::support::OSTLER,
        "--json",
        "ledger",
        "verify",
        "--ledger",
    ]);
    let verified = finish(shell.arg(&folder).env("OSTLER_ROOT", root.path()), b"").exits(0).json();
    assert_eq!((&verified["ok"], verified["records"].as_u64() > Some(16_000)), (&json!(true), true), "{verified}");
}
