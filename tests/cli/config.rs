//! The configuration: its layers, and what is wrong with them.

use crate::support::{Root, finish};
use std::fs;

fn write(root: &Root, place: &str, text: &str) {
    let path = root.folder().join(place);
    let folder = path.parent().expect("it is below the test's folder");
    fs::create_dir_all(folder).and_then(|()| fs::write(&path, text)).expect("the test's folder is ours");
}

const USER: &str = "home/.config/ostler/config.toml";
const OF_ROOT: &str = "root/config.toml";

#[test]
fn values_come_from_the_highest_layer_and_say_so() {
    let root = Root::new();
    root.json(["ensure"]);
    write(&root, USER, "stop_grace = '3s'\ntimeout = '50s'\n");
    write(&root, OF_ROOT, "\nstop_grace = '4s'\n");
    let shown = root.json(["config", "show", "--origin"]);
    assert_eq!(
        shown["values"],
        serde_json::json!({"family_depth": "8", "idle_exit": "1h", "inherit_env": "caller", "live_children": "64", "stop_grace": "4s", "timeout": "50s"})
    );
    assert_eq!(shown["origins"]["inherit_env"], "default");
    assert!(shown["origins"]["stop_grace"].as_str().unwrap().ends_with("/root/config.toml:2"), "{shown}");
    assert!(shown["origins"]["timeout"].as_str().unwrap().ends_with("/config.toml:2"), "{shown}");
    let mut command = root.command(["--json", "--timeout", "70s", "config", "show", "--origin"]);
    let shown = finish(command.env("OSTLER_STOP_GRACE", "5s"), b"").exits(0).json();
    assert_eq!(
        (&shown["values"]["stop_grace"], &shown["origins"]["stop_grace"]),
        (&"5s".into(), &"$OSTLER_STOP_GRACE".into())
    );
    assert_eq!((&shown["values"]["timeout"], &shown["origins"]["timeout"]), (&"1m 10s".into(), &"--timeout".into()));
    let files = root.json(["config", "path"]);
    let layers: Vec<&serde_json::Value> =
        files["files"].as_array().unwrap().iter().map(|file| &file["layer"]).collect();
    assert_eq!(layers, ["system", "user", "root"]);
}

#[test]
fn mistakes_are_named_with_their_place_and_a_suggestion_and_keep_nobody_from_looking() {
    let root = Root::new();
    root.json(["ensure"]);
    write(&root, USER, "stopgrace = '3s'\n");
    write(&root, OF_ROOT, "timeout = 5\n");
    let output = root.ostler(["--json", "list"]).exits(2);
    let message = output.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("config.toml:1: unknown key `stopgrace`, did you mean `stop_grace`?"), "{message}");
    root.ostler(["--timeout", "9s", "wait", "x"]).exits(2);
    root.ostler(["run", "--inherit-env", "minimal", "--", "true"]).exits(125);
    let problems = root.ostler(["--json", "config", "validate"]).exits(2).json();
    assert_eq!(problems["error"]["data"]["problems"].as_array().unwrap().len(), 2, "all are told at once: {problems}");
    let told = root.ostler(["config", "validate"]).exits(2).error_text();
    assert!(told.contains("next: edit ") && told.trim_end().ends_with("config.toml:1"), "{told}");
    assert_eq!(root.json(["status"])["state"], "running");
    let doctor = root.ostler(["--json", "doctor"]).exits(1).json();
    assert_eq!(
        (&doctor["checks"][0]["check"], &doctor["checks"][0]["status"]),
        (&"configuration".into(), &"fail".into())
    );
    root.ostler(["shutdown"]).exits(0);
    // The end of the test needs commands that work.
    write(&root, USER, "");
    write(&root, OF_ROOT, "");
    assert_eq!(root.json(["config", "validate"])["ok"], true);
}

#[test]
fn the_environment_of_a_session_is_what_the_configuration_says() {
    let root = Root::new();
    let seen = |root: &Root, arguments: &[&str]| {
        let script = ["--", "sh", "-c", "echo ${AMBIENT-none} ${PATH:+path} ${NAMED-none}"];
        let mut command = root.command(["run"].iter().chain(arguments).chain(&script));
        finish(command.env("AMBIENT", "here"), b"").exits(0).text()
    };
    assert_eq!(seen(&root, &["--env", "NAMED=1"]), "here path 1\n");
    assert_eq!(seen(&root, &["--inherit-env", "minimal"]), "none path none\n");
    write(&root, OF_ROOT, "inherit_env = 'minimal'\n");
    assert_eq!(seen(&root, &[]), "none path none\n");
    assert_eq!(seen(&root, &["--inherit-env", "caller"]), "here path none\n");
    assert_eq!(
        root.ostler(["--json", "spawn", "--env", "NOVALUE", "--", "true"]).exits(2).error_code(),
        "invalid_input"
    );
}
