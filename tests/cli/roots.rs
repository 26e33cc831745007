//! State roots that cannot serve: each is refused with who, what and why, nothing is made in or beside it, and looking at it
//! works as far as it can.

use super::refused::refused;
use super::text;
use crate::support::{DiskRoot, Root, finish};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

/// Another user.
const SOMEBODY: u32 = 54_321;

/// Every name below a folder.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// What needs a broker is refused so; what looks says so and goes on.
fn is_refused(root: &Root, path: &Path, exit: i32, code: &str, why: &[&str]) {
    let path = path.to_str().unwrap();
    for command in [&["ensure"][..], &["list"], &["spawn", "--", "true"], &["show", "a"]] {
        let arguments = [&["--root", path], command].concat();
        let error = refused(root, &arguments, exit, code);
        for word in why {
            assert!(text(&error["message"]).contains(word), "{word}: {error}");
        }
    }
    refused(root, &["--root", path, "shutdown"], 5, "broker_blocked");
    assert_eq!(root.ostler(["--root", path, "run", "--", "true"]).code(), Some(125));
    let status = root.json(["--root", path, "status"]);
    assert_eq!((&status["state"], &status["broker"]), (&json!("blocked"), &Value::Null));
    assert!(why.iter().all(|word| text(&status["degraded"][0]).contains(word)), "{status}");
    let doctor = root.ostler(["--root", path, "--json", "doctor"]).exits(1).json();
    let check = doctor["checks"].as_array().unwrap().iter().find(|check| check["check"] == "root").unwrap().clone();
    assert_eq!(check["status"], "fail", "{doctor}");
}

#[test]
fn a_root_that_is_a_file() {
    let root = Root::new();
    let file = root.folder().join("file");
    fs::write(&file, "mine").unwrap();
    is_refused(&root, &file, 2, "invalid_input", &["is not a folder", "/file"]);
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    assert_eq!(
        root.ostler(["--root", file.to_str().unwrap(), "--json", "ledger", "verify"]).exits(2).error_code(),
        "invalid_input"
    );
    // A folder below a file, which cannot be made either.
    refused(&root, &["--root", file.join("root").to_str().unwrap(), "ensure"], 2, "invalid_input");
}

#[test]
fn field_k09_a_root_of_another_user_is_neither_used_nor_repaired() {
    let root = Root::new();
    let theirs = root.folder().join("theirs");
    fs::create_dir(&theirs).unwrap();
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o700)).unwrap();
    if let Err(error) = chown(&theirs, Some(SOMEBODY), Some(SOMEBODY)) {
        eprintln!("NOT CHECKED: a folder cannot be given away here: {error}");
        return;
    }
    is_refused(&root, &theirs, 7, "denied", &["uid 54321", "mode 0700"]);
    assert_eq!(names(&theirs), Vec::<String>::new());
    // A lock file of theirs in a root of ours.
    fs::create_dir(root.path()).unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let lock = root.path().join("broker.lock");
    fs::write(&lock, "").unwrap();
    chown(&lock, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    let error = refused(&root, &["ensure"], 7, "denied");
    assert!(
        text(&error["message"]).contains("uid 54321") && text(&error["message"]).contains("broker.lock"),
        "{error}"
    );
    assert_eq!(root.json(["status"])["state"], "blocked");
    fs::remove_file(&lock).unwrap();
    root.ostler(["run", "--", "true"]).exits(0);
}

#[test]
fn a_root_that_is_open_to_others_is_refused_with_the_remedy() {
    let root = Root::new();
    let open = root.folder().join("open");
    fs::create_dir(&open).unwrap();
    for mode in [0o755, 0o711, 0o770, 0o777] {
        fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
        let error = refused(&root, &["--root", open.to_str().unwrap(), "ensure"], 7, "denied");
        let message = text(&error["message"]);
        assert!(message.contains(&format!("mode {mode:04o}")) && message.contains("chmod 700"), "{message}");
        assert_eq!(fs::metadata(&open).unwrap().permissions().mode() & 0o7777, mode, "nothing is repaired");
    }
    assert_eq!(names(&open), Vec::<String>::new());
    fs::set_permissions(&open, fs::Permissions::from_mode(0o700)).unwrap();
    let open = open.to_str().unwrap();
    root.ostler(["--root", open, "ensure"]).exits(0);
    root.ostler(["--root", open, "shutdown"]).exits(0);
}

/// Reports bazel#12183: says so instead of hanging.
#[test]
fn field_k13_a_read_only_root_is_told_with_its_path_and_reading_works() {
    let Some(root) = DiskRoot::new(4096) else { return };
    root.set_read_only(true);
    for command in [&["ensure"][..], &["list"], &["spawn", "--", "true"]] {
        let error = refused(&root, command, 1, "storage_failed");
        assert!(
            text(&error["message"]).contains("read-only")
                && text(&error["message"]).contains(root.path().to_str().unwrap()),
            "{error}"
        );
    }
    assert_eq!(root.json(["status"])["state"], "absent");
    assert_eq!(root.json(["shutdown"])["broker"], Value::Null);
    root.set_read_only(false);
    // With history in it: what can be read is read.
    root.ostler(["run", "--", "true"]).exits(0);
    root.ostler(["shutdown"]).exits(0);
    root.set_read_only(true);
    let error = refused(&root, &["ensure"], 1, "storage_failed");
    assert_eq!(error["data"]["errno"], "EROFS", "{error}");
    root.verify_ledger();
    let status = root.json(["status"]);
    assert_eq!((&status["state"], &status["lock"]["owner"]["released"]), (&json!("absent"), &json!(true)));
    let doctor = root.ostler(["--json", "doctor"]).exits(1).json();
    let check = doctor["checks"].as_array().unwrap().iter().find(|check| check["status"] == "fail").unwrap().clone();
    assert!(check["check"] == "writable" && text(&check["evidence"]).contains("ead-only"), "{check}");
    root.set_read_only(false);
    root.ostler(["run", "--", "true"]).exits(0);
}

/// Reports codex#27765: a deep root works where sockets have a short place, and is refused with the figures where not.
#[test]
fn field_k02_a_deep_root_works_or_says_what_the_system_takes() {
    let root = Root::new();
    let deep = root.folder().join("d".repeat(100)).join("e".repeat(100)).join("root");
    let path = deep.to_str().unwrap();
    root.ostler(["--root", path, "run", "--", "true"]).exits(0);
    root.ostler(["--root", path, "shutdown"]).exits(0);
    // Nowhere short: neither the runtime folder nor the root, and what stands in the temp folder is not ours.
    let long = root.folder().join("l".repeat(100));
    fs::create_dir(&long).unwrap();
    fs::set_permissions(&long, fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = root.command(["--root", path, "--json", "ensure"]);
    let output = finish(command.env("XDG_RUNTIME_DIR", &long).env("TMPDIR", &long), b"");
    if output.code() == Some(0) {
        // The system's own temp folder served; it is the same broker for who asks with another environment.
        let found = root.json(["--root", path, "ensure"]);
        assert_eq!(found["started"], false);
        root.ostler(["--root", path, "shutdown"]).exits(0);
        return;
    }
    let error = output.exits(5).json()["error"].clone();
    assert!(error["data"]["reason"] == "socket_path" && text(&error["message"]).contains("bytes"), "{error}");
}

#[test]
fn field_k_own_a_root_that_nothing_names_is_an_error_and_never_another_place() {
    let root = Root::new();
    let mut command = root.command(["--json", "ensure"]);
    let output = finish(command.env_remove("OSTLER_ROOT").env_remove("HOME"), b"").exits(2);
    assert_eq!(output.error_code(), "invalid_input");
    // A relative HOME names no place either.
    let mut command = root.command(["--json", "ensure"]);
    assert_eq!(
        finish(command.env_remove("OSTLER_ROOT").env("HOME", "home"), b"").exits(2).error_code(),
        "invalid_input"
    );
    for variables in [&[("XDG_STATE_HOME", "state")][..], &[]] {
        let mut command = root.command(["--json", "status"]);
        command.env_remove("OSTLER_ROOT").envs(variables.iter().copied());
        let status = finish(&mut command, b"").exits(0).json();
        assert_eq!(status["state"], "absent");
    }
}
