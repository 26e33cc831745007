//! Bad input: a clear error in four parts, the exit code of its class, the document with `--json`, and nothing lost: the same
//! name and key can be used properly afterwards, and the ledger verifies.

use super::shape::assert_shape;
use super::text;
use crate::support::{FIXTURE, Root, Running, SOON, wait_until};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;

/// Runs a command that must be refused, for eyes and for programs, and gives back its error.
#[track_caller]
pub(crate) fn refused<S: AsRef<OsStr> + std::fmt::Debug>(root: &Root, arguments: &[S], exit: i32, code: &str) -> Value {
    let shown = root.ostler(arguments).exits(exit);
    let said = shown.error_text();
    let in_four_parts = said.starts_with("ostler: cannot ")
        && said.contains(&format!(" ({code})\n"))
        && said.contains("\n  changed: ")
        && said.contains("\n  next: ");
    assert!(in_four_parts, "{shown:?}");
    assert_eq!(shown.text(), "", "an error is nothing for whoever reads standard output\n{shown:?}");
    let mut command = root.command(["--json"]);
    let documented = crate::support::finish(command.args(arguments), b"").exits(exit);
    let document = documented.json();
    assert_shape(&document, "{schema:1,error:ERROR}");
    assert_eq!(document["error"]["code"], code, "{documented:?}");
    assert_eq!(documented.error_text(), "", "{documented:?}");
    document["error"].clone()
}

#[test]
fn field_l12_names_that_are_no_names() {
    let root = Root::new();
    let long = "a".repeat(64);
    let outside = root.folder().join("outside");
    let names = [
        "../x",
        "..",
        ".",
        "a/b",
        "/abs",
        "",
        "con",
        "nul",
        "com1",
        "lpt9",
        "a.b",
        "A",
        "ü",
        "-x",
        "_x",
        "a ",
        " a",
        "a\nb",
        &long,
        outside.to_str().unwrap(),
    ];
    for name in names {
        let error = refused(&root, &["spawn", &format!("--name={name}"), "--", "true"], 2, "invalid_input");
        assert_eq!(error["data"]["reason"], "name", "{name:?}");
        let is_device = ["con", "nul", "com1", "lpt9"].contains(&name);
        assert_eq!(text(&error["message"]).contains("a device on Windows"), is_device, "{error}");
        // As a target it is nobody: nothing outside the root is looked at, made or removed.
        let given = format!("--json delete -- {name}");
        let target = root.ostler(["--json", "delete", "--", name]);
        assert!(matches!(target.code(), Some(2 | 3)), "{given}\n{target:?}");
    }
    assert!(!outside.exists() && root.json(["list", "--all"])["sessions"] == json!([]));
    for name in ["a", "0", "a-_9", &"a".repeat(63), "cone"] {
        root.ostler(["spawn", "--name", name, "--", "true"]).exits(0);
    }
}

#[test]
fn keys_that_are_no_keys() {
    let root = Root::new();
    for key in ["", "ü", "a\tb", "a\nb", "a\u{7f}", &"k".repeat(129)] {
        refused(&root, &["spawn", "--key", key, "--", "true"], 2, "invalid_input");
    }
    for key in [" ", "~", &"k".repeat(128)] {
        root.ostler(["spawn", "--key", key, "--", "true"]).exits(0);
    }
}

#[test]
fn options_that_cannot_be_meant() {
    let root = Root::new();
    let label = |number: usize| format!("--label=k{number}=v");
    let many: Vec<String> = (0..33).map(label).collect();
    let with = |options: &[&str]| {
        [&["spawn"], options, &["--", "true"]].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let long_key = format!("--label={}=v", "k".repeat(64));
    let long_value = format!("--label=k={}", "v".repeat(256));
    let cases: Vec<Vec<String>> = vec![
        with(&many.iter().map(String::as_str).collect::<Vec<_>>()),
        with(&[&long_key]),
        with(&[&long_value]),
        with(&["--label", "k=1", "--label", "k=2"]),
        with(&["--label", "novalue"]),
        with(&["--env", "=x"]),
        with(&["--env", "NOVALUE"]),
        with(&["--inherit-env", "everything"]),
        with(&["--ready", "someday"]),
        with(&["--timeout", "5"]),
        with(&["--timeout", "soon"]),
        vec!["spawn".into()],
        vec!["spawn".into(), "--".into()],
        vec!["spawn".into(), "--".into(), String::new()],
        vec!["spawn".into(), "true".into()],
        vec!["nosuchcommand".into()],
        vec!["list".into(), "--status".into(), "happy".into()],
        vec!["stop".into()],
        vec!["stop".into(), "a".into(), "--grace".into(), "121s".into()],
    ];
    for case in &cases {
        refused(&root, case, 2, "invalid_input");
    }
    assert_eq!(root.json(["list", "--all"])["sessions"], json!([]));
    let most: Vec<String> = (0..32).map(label).collect();
    root.ostler(with(&most.iter().map(String::as_str).collect::<Vec<_>>())).exits(0);
}

#[test]
fn field_e18_a_command_that_cannot_run_leaves_name_and_key_free() {
    let root = Root::new();
    let folder = root.folder();
    std::fs::write(folder.join("plain"), "no program").unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    std::fs::write(folder.join("lost"), "#!/no/such/interpreter").unwrap();
    std::fs::set_permissions(folder.join("lost"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let cases: [(&[&str], &str, &str, &str); 8] = [
        (&["--", "no-such-command"], "exec", "not_found", "ENOENT"),
        (&["--", &path("plain")], "exec", "denied", "EACCES"),
        (&["--", &path("home")], "exec", "denied", "EACCES"),
        (&["--", &path("lost")], "exec", "other", "ENOENT"),
        (&["--cwd", "/no/such/folder", "--", "true"], "cwd", "not_found", "ENOENT"),
        (&["--cwd", &path("plain"), "--", "true"], "cwd", "not_found", "ENOTDIR"),
        (&["--cwd", "no-such-relative", "--", "true"], "cwd", "not_found", "ENOENT"),
        (&["--env", "PATH=/nowhere", "--", "true"], "exec", "not_found", "ENOENT"),
    ];
    for (number, (rest, phase, cause, errno)) in cases.iter().enumerate() {
        let key = format!("key-{number}");
        let start = ["spawn", "--name", "job", "--key", &key];
        let error = refused(&root, &[&start, *rest].concat(), 1, "spawn_failed");
        assert_eq!((&error["data"]["reason"], &error["retry"]), (&json!(phase), &json!("never")));
        assert_eq!((&error["data"]["cause"], &error["data"]["errno"]), (&json!(cause), &json!(errno)), "{rest:?}");
        assert_eq!(root.json(["list", "--all"])["sessions"], json!([]), "it leaves no session");
        // The attempt is on record.
        assert_eq!(root.json(["operation", "list", "--limit", "1"])["operations"][0]["state"], "aborted");
        // The same name and the same key, used properly.
        let proper = root.json([&start[..], &["--", "sleep", "1000"]].concat());
        assert_eq!(proper["operation"]["replayed"], false, "{proper}");
        root.json(["delete", "job", "--stop"]);
    }
    root.verify_ledger();
    let left: Vec<_> = std::fs::read_dir(root.path().join("sessions")).unwrap().collect();
    wait_until(SOON, "their files to go", || std::fs::read_dir(root.path().join("sessions")).unwrap().count() == 0);
    drop(left);
}

#[test]
fn sessions_that_are_not_there() {
    let root = Root::new();
    root.ostler(["ensure"]).exits(0);
    for command in ["show", "logs", "wait", "stop", "resume", "delete"] {
        let error = refused(&root, &[command, "nobody"], 3, "not_found");
        assert!(text(&error["message"]).contains("nobody"));
    }
    refused(&root, &["operation", "show", "nothing"], 3, "not_found");
    refused(&root, &["operation", "list", "nobody"], 3, "not_found");
    // An exact name goes before a prefix of an id, and an exact id before both.
    let id = text(&root.json(["spawn", "--", "true"])["session"]["id"]).to_owned();
    let prefix = &id[..4];
    assert_eq!(root.json(["show", prefix])["session"]["id"], *id);
    let named = root.json(["spawn", "--name", prefix, "--", "true"])["session"]["id"].clone();
    assert_eq!(root.json(["show", prefix])["session"]["id"], named);
    root.ostler(["spawn", "--name", &id, "--", "true"]).exits(0);
    assert_eq!(root.json(["show", &id])["session"]["id"], *id);
    let error = refused(&root, &["show", &id[..2]], 3, "not_found");
    assert!(text(&error["message"]).contains("at least 3"), "{error}");
}

#[test]
fn what_the_state_of_a_session_forbids() {
    let root = Root::new();
    let spawned = root.json(["spawn", "--name", "a", "--", FIXTURE, "ignore-term", "--", "say", "up", "--", "sleep"]);
    wait_until(SOON, "it to ignore TERM", || root.ostler(["logs", "a"]).exits(0).text() == "up\n");
    let error = refused(&root, &["delete", "a"], 4, "session_live");
    assert!(text(&error["message"]).contains("--stop"));
    let error = refused(&root, &["spawn", "--name", "a", "--", "true"], 4, "session_exists");
    assert_eq!(error["data"]["session_id"], spawned["session"]["id"]);
    // A refused delete of one session never hinders another's.
    root.ostler(["spawn", "--name", "b", "--", "true"]).exits(0);
    root.ostler(["wait", "b"]).exits(0);
    let documents = root.ostler(["--json", "delete", "a", "b"]).exits(4).json_lines();
    assert_eq!(
        (&documents[0]["error"]["code"], &documents[1]["session"]["status"]),
        (&json!("session_live"), &json!("deleted"))
    );
    let stop = Running::start(&mut root.command(["stop", "a", "--grace", "3s"]));
    wait_until(SOON, "it to be stopping", || root.json(["show", "a"])["session"]["status"] == "stopping");
    refused(&root, &["resume", "a"], 4, "session_stopping");
    refused(&root, &["delete", "a"], 4, "session_live");
    stop.end().exits(0);
    root.ostler(["delete", "a"]).exits(0);
    root.ostler(["spawn", "--name", "a", "--", "true"]).exits(0);
}

#[test]
fn a_refusal_changes_nothing_in_the_ledger() {
    let root = Root::new();
    root.ostler(["spawn", "--name", "a", "--", "sleep", "1000"]).exits(0);
    let records = || root.verify_ledger()["records"].clone();
    wait_until(SOON, "the ledger to rest", || {
        let before = records();
        root.json(["status"]);
        before == records()
    });
    let before = records();
    for arguments in [
        &["delete", "a"][..],
        &["show", "x"],
        &["spawn", "--name", "a", "--", "true"],
        &["spawn", "--name", "..", "--", "true"],
        &["stop", "nobody"],
    ] {
        assert_ne!(root.ostler(arguments).code(), Some(0));
    }
    assert_eq!(records(), before);
    root.ostler(["stop", "a"]).exits(0);
}
