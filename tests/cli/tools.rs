//! What surrounds the work: configuration, completions, manual page, help, doctor.

use super::refused::refused;
use super::shape::assert_shape;
use super::text;
use crate::support::{Root, finish};
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

/// Writes the user's configuration file.
fn configure(root: &Root, content: &str) {
    fs::create_dir_all(root.folder().join("home/.config/ostler")).unwrap();
    fs::write(root.folder().join("home/.config/ostler/config.toml"), content).unwrap();
}

#[test]
fn a_wrong_configuration_is_an_error_with_a_suggestion_and_blocks_no_look() {
    let root = Root::new();
    root.ostler(["ensure"]).exits(0);
    for (content, expected) in [
        ("stop_grase = \"3s\"\n", "did you mean `stop_grace`?"),
        ("stop_grace = 3\n", "stop_grace"),
        ("stop_grace = \"soon\"\n", "soon"),
        ("inherit_env = \"everything\"\n", "everything"),
        ("stop_grace = \n", "config.toml"),
    ] {
        configure(&root, content);
        for command in [&["config", "validate"][..], &["config", "show"], &["list"], &["spawn", "--", "true"]] {
            let error = refused(&root, command, 2, "invalid_input");
            assert_eq!(error["data"]["reason"], "config");
            assert!(
                text(&error["message"]).contains(expected) && text(&error["message"]).contains("config.toml"),
                "{error}"
            );
        }
        assert_eq!(root.json(["status"])["state"], "running");
        let doctor = root.ostler(["--json", "doctor"]).exits(1).json();
        assert_eq!(
            (&doctor["checks"][0]["check"], &doctor["checks"][0]["status"]),
            (&json!("configuration"), &json!("fail"))
        );
        root.ostler(["ledger", "verify"]).exits(0);
    }
    root.ostler(["shutdown"]).exits(0);
}

#[test]
fn completions_are_scripts_that_their_shells_take() {
    let root = Root::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = root.ostler(["completions", shell]).exits(0).text();
        for word in ["ensure", "spawn", "inherit-env", "ledger"] {
            assert!(script.contains(word), "{shell} lacks {word}");
        }
        let mut syntax = Command::new(shell);
        syntax.arg("-n").env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        if Command::new(shell).arg("-c").arg(":").output().is_ok() {
            let checked = finish(&mut syntax, script.as_bytes()).exits(0);
            assert_eq!(checked.error_text(), "");
        } else {
            eprintln!("{shell} is not here: its script was only looked through");
        }
    }
    refused(&root, &["completions", "tcsh"], 2, "invalid_input");
    assert!(!root.path().exists());
}

#[test]
fn the_manual_page_and_the_help_name_every_command() {
    let root = Root::new();
    let page = root.ostler(["man"]).exits(0).text();
    assert!(page.starts_with(".ie ") && page.contains(".TH ostler 1"), "{:.80}", page);
    let help = root.ostler(["--help"]).exits(0).text();
    for command in [
        "ensure",
        "run",
        "spawn",
        "list",
        "show",
        "logs",
        "wait",
        "stop",
        "resume",
        "delete",
        "prune",
        "operation",
        "status",
        "shutdown",
        "connect",
        "doctor",
        "ledger",
        "schema",
        "config",
        "completions",
        "man",
    ] {
        assert!(page.contains(&format!("ostler\\-{command}(1)")), "the page lacks {command}");
        assert!(help.lines().any(|line| line.trim_start().starts_with(command)), "the help lacks {command}");
        root.ostler([command, "--help"]).exits(0);
    }
    assert!(root.ostler(["--version"]).exits(0).text().starts_with("ostler 0."));
    assert!(!root.path().exists());
}

#[test]
fn doctor_looks_at_everything_and_changes_nothing() {
    let root = Root::new();
    const DOCTOR: &str = "{schema:1,ok:bool,checks:[{check:text,status:\"ok\"|\"warn\"|\"fail\"|\"skip\",evidence:text,remedy:text|null}]}";
    let nothing = root.json(["doctor"]);
    assert_shape(&nothing, DOCTOR);
    assert!(!root.path().exists());
    root.ostler(["spawn", "--name", "a", "--", "sleep", "1000"]).exits(0);
    let before = root.verify_ledger()["head"].clone();
    let found = root.json(["doctor"]);
    assert_shape(&found, DOCTOR);
    assert_eq!(found["ok"], true, "{found}");
    let bad: Vec<&Value> =
        found["checks"].as_array().unwrap().iter().filter(|check| check["status"] == "fail").collect();
    assert!(bad.is_empty(), "{bad:?}");
    assert_eq!(root.verify_ledger()["head"], before, "looking writes nothing");
    // A dead broker is no trouble: the next command starts one.
    root.broker().unwrap().kill_9();
    let dead = root.json(["doctor"]);
    assert_eq!(dead["ok"], true, "{dead}");
    assert_eq!(root.json(["status"])["state"], "absent");
    root.ostler(["stop", "a"]).exits(0);
}

#[test]
fn whoever_closes_the_output_ends_the_program_quietly() {
    let root = Root::new();
    root.ostler(["ensure"]).exits(0);
    for arguments in ["schema", "list --json", "completions bash", "--help", "doctor"] {
        let mut shell = Command::new("sh");
        // A pipe whose reader has gone before anything is written.
        let script = format!(
            "{{ until [ -e gone ]; do :; done; \"$0\" {arguments} 2>said; echo $? >code; }} | {{ exec <&-; : >gone; }}"
        );
        shell.args(["-c", &script, crate::support::OSTLER]).env_clear().current_dir(root.folder());
        shell.envs(root.command(["x"]).get_envs().filter_map(|(name, value)| Some((name, value?))));
        finish(&mut shell, b"").exits(0);
        crate::support::wait_until(crate::support::SOON, "its end", || {
            fs::read_to_string(root.folder().join("code")).is_ok_and(|code| code.ends_with('\n'))
        });
        assert_eq!(fs::read_to_string(root.folder().join("said")).unwrap(), "", "{arguments}");
        let code = fs::read_to_string(root.folder().join("code")).unwrap();
        assert_eq!(code.trim(), "141", "{arguments}");
        ["gone", "said", "code"].iter().for_each(|file| fs::remove_file(root.folder().join(file)).unwrap());
    }
}
