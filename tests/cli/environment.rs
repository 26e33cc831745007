//! What a session gets from who asked for it: environment, mask, limits, directory; and what it does not get: anything of who
//! started the broker.

use super::refused::refused;
use super::text;
use crate::support::{FIXTURE, OSTLER, Process, Root, finish};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// The fixture's account of what it was given, with the environment as a map.
fn dump(mut document: Value) -> Value {
    let pairs = document["env"].as_array().unwrap().clone();
    document["env"] =
        pairs.iter().map(|pair| (text(&pair[0]).to_owned(), pair[1].clone())).collect::<serde_json::Map<_, _>>().into();
    document
}

/// A shell in the root's environment, with the product as `$0`.
fn shell(root: &Root, script: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", script, OSTLER, FIXTURE]).env_clear().current_dir(root.folder());
    shell.envs(root.command(["x"]).get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell
}

/// Reports claude-code#79427: the first caller's secrets go to nobody else.
#[test]
fn each_session_has_its_own_caller_s_environment() {
    let root = Root::new();
    let mut first = root.command(["run", "--", FIXTURE, "dump"]);
    let first = dump(finish(first.env("SECRET_A", "planted-secret").env("LANG", "de_DE.UTF-8"), b"").exits(0).json());
    assert_eq!((&first["env"]["SECRET_A"], &first["env"]["LANG"]), (&json!("planted-secret"), &json!("de_DE.UTF-8")));
    let mut second = root.command(["run", "--", FIXTURE, "dump"]);
    let second = dump(finish(second.env("PATH", "/usr/bin:/second"), b"").exits(0).json());
    assert_eq!((&second["env"]["SECRET_A"], &second["env"]["PATH"]), (&Value::Null, &json!("/usr/bin:/second")));
    for name in ["HOME", "TMPDIR", "LANG"] {
        let expected = root
            .command(["x"])
            .get_envs()
            .find(|(known, _)| *known == name)
            .unwrap()
            .1
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        assert_eq!(second["env"][name], expected, "{name}");
    }
    let broker = root.broker().unwrap();
    let environment = fs::read(format!("/proc/{}/environ", broker.pid)).unwrap();
    assert!(!String::from_utf8_lossy(&environment).contains("planted-secret"), "the broker itself has nothing of it");
}

#[test]
fn minimal_inherits_what_programs_need_and_env_is_always_there() {
    let root = Root::new();
    let mut command = root.command([
        "run",
        "--inherit-env",
        "minimal",
        "--env",
        "ASKED=1",
        "--env",
        "HOME=/else",
        "--",
        FIXTURE,
        "dump",
    ]);
    let got = dump(finish(command.env("SECRET_A", "x").env("TERM", "xterm"), b"").exits(0).json());
    let mut names: Vec<&str> = got["env"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .filter(|name| !name.starts_with("OSTLER_"))
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["ASKED", "HOME", "LANG", "PATH", "TERM", "TMPDIR"]);
    assert_eq!(
        (&got["env"]["ASKED"], &got["env"]["HOME"]),
        (&json!("1"), &json!("/else")),
        "what is named goes before what is inherited"
    );
    // The configuration can make it the usual.
    fs::create_dir_all(root.folder().join("home/.config/ostler")).unwrap();
    fs::write(root.folder().join("home/.config/ostler/config.toml"), "inherit_env = \"minimal\"\n").unwrap();
    let run = |arguments: &[&str]| {
        let mut command = root.command(["run"]);
        dump(finish(command.args(arguments).args(["--", FIXTURE, "dump"]).env("SECRET_A", "x"), b"").exits(0).json())
    };
    assert_eq!(run(&[])["env"]["SECRET_A"], Value::Null);
    assert_eq!(run(&["--inherit-env", "caller"])["env"]["SECRET_A"], "x");
}

#[test]
fn a_session_is_told_who_it_is_and_may_do_no_more_than_a_session() {
    let root = Root::new();
    root.ostler(["spawn", "--name", "other", "--", "sleep", "1000"]).exits(0);
    let spawned = root.json([
        "spawn",
        "--name",
        "me",
        "--",
        "sh",
        "-c",
        "\"$0\" dump; \"$1\" list --json; \"$1\" stop other --json; \"$1\" show other --json; \"$1\" logs other --json",
        FIXTURE,
        OSTLER,
    ]);
    root.ostler(["wait", "me"]).exits(0);
    let answers = root.ostler(["logs", "me"]).exits(0).json_lines();
    let got = dump(answers[0].clone());
    let id = &spawned["session"]["id"];
    assert_eq!((&got["env"]["OSTLER_SESSION"], &got["env"]["OSTLER_EPISODE"]), (id, &json!("1")));
    assert_eq!(got["env"]["OSTLER_ROOT"], root.path().to_str().unwrap());
    let credential = fs::metadata(text(&got["env"]["OSTLER_CREDENTIAL"])).unwrap();
    assert_eq!(credential.permissions().mode() & 0o7777, 0o600);
    let seen: Vec<&Value> = answers[1]["sessions"].as_array().unwrap().iter().map(|session| &session["id"]).collect();
    assert_eq!(seen, [id], "it sees itself and its children");
    for refusal in &answers[2..] {
        assert_eq!(refusal["error"]["code"], "not_found", "whom it may not touch is nobody to it: {refusal}");
    }
    assert_eq!(answers.len(), 5);
    assert_eq!(root.json(["show", "other"])["session"]["status"], "ready");
    root.ostler(["stop", "other"]).exits(0);
}

/// Reports chrome-devtools-mcp#2766: modes do not follow the mask, sessions do.
#[test]
fn mask_and_soft_limits_are_the_caller_s() {
    let root = Root::new();
    let script = "umask 000; ulimit -S -n 77; ulimit -S -c 0; exec \"$0\" run -- \"$1\" dump";
    let got = finish(&mut shell(&root, script), b"").exits(0).json();
    assert_eq!((&got["umask"], &got["nofile"][0], &got["core"][0]), (&json!(0), &json!(77), &json!(0)));
    let script = "umask 027; ulimit -S -n 99; exec \"$0\" run -- \"$1\" dump";
    let got = finish(&mut shell(&root, script), b"").exits(0).json();
    assert_eq!((&got["umask"], &got["nofile"][0]), (&json!(0o27), &json!(99)));
    // The broker was started under mask 0, and all of its files are private.
    let mut folders = vec![root.path()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let found = entry.metadata().unwrap();
            assert_eq!(found.permissions().mode() & 0o077, 0, "{}", entry.path().display());
            folders.extend(found.is_dir().then(|| entry.path()));
        }
    }
}

/// Reports materialize#12050: three descriptors and no more, whatever the caller had open.
#[test]
fn a_command_has_three_descriptors_and_a_clean_signal_state() {
    let root = Root::new();
    let script = "trap '' HUP INT USR1; exec 3</dev/zero 4>left 5>&1 9</; exec \"$0\" run -- \"$1\" dump";
    let got = finish(&mut shell(&root, script), b"").exits(0).json();
    let fds = got["fds"].as_object().unwrap();
    assert_eq!(fds.keys().map(String::as_str).collect::<Vec<_>>(), ["0", "1", "2"], "{fds:?}");
    assert_eq!(fds["0"], "/dev/null");
    // A Rust program ignores SIGPIPE by itself; nothing else is ignored or blocked.
    assert_eq!((&got["ignored"], &got["blocked"]), (&json!("0000000000001000"), &json!("0000000000000000")));
    assert_eq!(got["pid"], got["group"], "it leads a group of its own");
    // Nor does the broker hold what its starter had open.
    let broker = root.broker().unwrap();
    for entry in fs::read_dir(format!("/proc/{}/fd", broker.pid)).unwrap().flatten() {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        assert!(!target.starts_with("/dev/zero") && !target.ends_with("left"), "{}", target.display());
    }
}

/// Reports auto-mobile#2560: the broker does not live in its starter's directory, and a lost one is named as such.
#[test]
fn a_directory_that_is_gone_is_named_and_hinders_nothing_else() {
    let root = Root::new();
    let script = "mkdir gone; cd gone; \"$0\" ensure >&2; rmdir ../gone; \"$0\" --json spawn -- true; \"$0\" run --cwd / -- pwd; \"$0\" --json list | head -c 11; \"$0\" run --cwd below -- pwd";
    let output = finish(&mut shell(&root, script), b"").exits(125);
    let said = output.text();
    let mut lines = said.lines();
    let error: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!((&error["error"]["code"], &error["error"]["data"]["reason"]), (&json!("spawn_failed"), &json!("cwd")));
    assert!(text(&error["error"]["message"]).contains("the current directory cannot be named"), "{error}");
    assert_eq!(lines.collect::<Vec<_>>(), ["/", "{\"schema\":1"], "other directories work");
    assert!(output.error_text().contains("next: the same command with --cwd"), "{output:?}");
    // Gone for the broker's side.
    let error = refused(
        &root,
        &["spawn", "--cwd", root.folder().join("gone").to_str().unwrap(), "--", "true"],
        1,
        "spawn_failed",
    );
    assert_eq!(error["data"]["reason"], "cwd");
}

#[test]
fn no_start_starts_nothing() {
    let root = Root::new();
    for command in [
        &["list"][..],
        &["ensure"],
        &["spawn", "--", "true"],
        &["show", "a"],
        &["wait", "a"],
        &["prune"],
        &["logs", "a"],
        &["stop", "a"],
    ] {
        refused(&root, &[&["--no-start"], command].concat(), 5, "broker_unreachable");
    }
    assert_eq!(root.ostler(["--no-start", "run", "--", "true"]).code(), Some(125));
    assert!(!root.path().exists());
    for looking in [
        &["status"][..],
        &["doctor"],
        &["schema"],
        &["completions", "bash"],
        &["man"],
        &["config", "show"],
        &["shutdown"],
    ] {
        root.ostler(looking).exits(0);
    }
    assert!(!root.path().exists(), "who only looks makes nothing");
    // Where one runs it is used.
    root.ostler(["ensure"]).exits(0);
    root.ostler(["--no-start", "list"]).exits(0);
    root.broker().unwrap().kill_9();
    refused(&root, &["--no-start", "list"], 5, "broker_unreachable");
    assert_eq!(root.json(["status"])["state"], "absent");
}

/// Report biorouter#57: what a request put into an environment stands in the session's private spec and nowhere else.
#[test]
fn a_secret_is_in_no_ledger_log_status_or_command_line() {
    let root = Root::new();
    let secret = "planted-7c5a1f";
    let given = format!("TOKEN={secret}");
    let spawned = root.json(["spawn", "--name", "a", "--key", "k", "--env", &given, "--", "sleep", "1000"]);
    root.ostler(["--json", "spawn", "--env", &given, "--", "no-such-command"]).exits(1);
    root.ostler(["--json", "spawn", "--env", &given, "--name", "..", "--", "true"]).exits(2);
    for looking in [
        &["show", "a"][..],
        &["list"],
        &["status"],
        &["doctor"],
        &["operation", "show", "k"],
        &["operation", "list"],
        &["ledger", "tail", "-n", "100"],
        &["ledger", "history", "a"],
    ] {
        for form in [&[][..], &["--json"]] {
            let output = root.ostler([form, looking].concat()).exits(0);
            assert!(!output.text().contains(secret) && !output.error_text().contains(secret), "{output:?}");
        }
    }
    for pid in [&spawned["session"]["host_pid"], &json!(root.broker().unwrap().pid)] {
        let process = Process::of_value(pid);
        for file in ["cmdline", "environ"] {
            let held = fs::read(format!("/proc/{}/{file}", process.pid)).unwrap();
            assert!(!String::from_utf8_lossy(&held).contains(secret), "{file} of {}", process.pid);
        }
    }
    let mut holders = Vec::new();
    let mut folders = vec![root.path()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            if entry.metadata().unwrap().is_dir() {
                folders.push(entry.path());
            } else if String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).contains(secret) {
                holders.push(entry.path());
            }
        }
    }
    assert_eq!(holders, [root.path().join("sessions").join(text(&spawned["session"]["id"])).join("spec.json")]);
    // With the session it is gone from the disk.
    root.ostler(["delete", "a", "--stop"]).exits(0);
    crate::support::wait_until(crate::support::SOON, "its files to go", || !holders[0].exists());
}
