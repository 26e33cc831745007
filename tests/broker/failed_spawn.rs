//! A start that fails before its gate opens has not happened: name and key are free, nothing is left of it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::scene::spawning;
use crate::support::{Root, SOON, wait_until};

fn nothing_is_left(root: &Root) {
    assert_eq!(root.json(["list", "--all"])["sessions"].as_array().unwrap().len(), 0);
    wait_until(SOON, "the folder to be removed", || root.names("sessions").is_empty());
    assert!(root.sockets().iter().all(|name| name.starts_with("b-")));
}

#[test]
fn field_a12_a_start_that_fails_before_its_gate_opens_frees_key_and_name() {
    let root = Root::new();
    let plain = root.folder().join("plain");
    fs::write(&plain, "no program").unwrap();
    let program = root.folder().join("program");
    fs::write(&program, "#!/nonexistent/interpreter\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let here = root.folder().as_os_str().to_owned();
    let cases: [(&[&str], OsString, &str); 6] = [
        (&[], "/nonexistent/program".into(), "exec"),
        (&[], "no-such-program-on-the-path".into(), "exec"),
        (&[], plain.into(), "exec"),
        (&[], program.into(), "exec"),
        (&[], here, "exec"),
        (&["--cwd", "/nonexistent/folder"], "true".into(), "cwd"),
    ];
    for (more, command, phase) in &cases {
        let options: Vec<&str> = ["--name", "n", "--key", "k"].into_iter().chain(more.iter().copied()).collect();
        let mut arguments = spawning(&options, &[command]);
        arguments.push("--json".into());
        // Flags stand before the command.
        arguments.rotate_right(1);
        let failed = root.ostler(&arguments).exits(1).json()["error"].clone();
        assert_eq!((failed["code"].as_str(), failed["data"]["reason"].as_str()), (Some("spawn_failed"), Some(*phase)));
        nothing_is_left(&root);
    }
    // Across a restart, too: what is free stays free.
    root.kill_broker();
    let made = root.json(spawning(&["--name", "n", "--key", "k"], &["sleep", "1000"]));
    assert_eq!(
        (made["session"]["status"].as_str(), made["operation"]["replayed"].as_bool()),
        (Some("ready"), Some(false))
    );
    let again = root.json(spawning(&["--name", "n", "--key", "k"], &["sleep", "1000"]));
    assert_eq!(
        (&again["session"]["pid"], again["operation"]["replayed"].as_bool()),
        (&made["session"]["pid"], Some(true))
    );
}

/// Twenty callers of a start that fails are all told so, and the key is free after each.
#[test]
fn many_callers_of_a_failing_start_are_all_told() {
    let root = Root::new();
    let call = || {
        let mut command = root.command(["--json"]);
        command.args(spawning(&["--name", "n", "--key", "k"], &["/nonexistent/program"]));
        command
    };
    for output in crate::support::scene::at_once((0..20).map(|_| call()).collect()) {
        assert_eq!(output.clone().exits(1).error_code(), "spawn_failed", "{output:?}");
    }
    nothing_is_left(&root);
}

/// A resume whose program is gone meanwhile leaves the session as it was.
#[test]
fn a_failed_resume_leaves_the_session_as_it_was() {
    let root = Root::new();
    let program = root.folder().join("program");
    fs::write(&program, "#!/bin/sh\nexit 3\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let made = root.spawn(&["--name", "n"], &[&program]);
    let before = root.json(["wait", "n"])["session"].clone();
    let moved = root.folder().join("moved");
    fs::rename(&program, &moved).unwrap();
    let failed = root.ostler(["resume", "n", "--key", "k", "--json"]).exits(1);
    assert_eq!(failed.json()["error"]["data"]["reason"], "exec");
    assert_eq!(root.session(&made["id"]), before);
    root.kill_broker();
    root.ensure();
    assert_eq!(root.session(&made["id"]), before);
    fs::rename(&moved, &program).unwrap();
    let resumed = root.json(["resume", "n", "--key", "k"]);
    assert_eq!(resumed["operation"]["replayed"], false);
    assert_eq!(root.json(["wait", "n"])["session"]["exit"], serde_json::json!({"code": 3}));
}
