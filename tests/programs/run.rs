//! `ostler run`: exit codes, streams, input.

use super::{session, text};
use crate::support::{FIXTURE, Root, Running, SOON, finish, wait_until};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// The sessions, oldest first.
fn sessions(root: &Root) -> Vec<serde_json::Value> {
    root.json(["list", "--all"])["sessions"].as_array().unwrap().clone()
}

#[test]
fn a_pipeline_of_a_shell_passes_its_output_and_its_code() {
    let root = Root::new();
    let script = "printf 'pear\\napple\\nfig\\n' | sort | tr a-z A-Z; exit 3";
    let output = root.ostler(["run", "--", "sh", "-c", script]).exits(3);
    assert_eq!((output.text().as_str(), output.error_text().as_str()), ("APPLE\nFIG\nPEAR\n", ""));
    let listed = sessions(&root);
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0]["status"], &listed[0]["exit"]), (&json!("failed"), &json!({"code": 3})));
    // A program of several processes that ends well.
    root.ostler(["run", "--", "sh", "-c", "seq 1 1000 | wc -l | grep -q 1000"]).exits(0);
    assert_eq!(sessions(&root)[1]["status"], "exited");
}

#[test]
fn the_exit_code_is_that_of_the_command() {
    let root = Root::new();
    for code in [0, 1, 2, 42, 125, 126, 127, 128, 255] {
        root.ostler(["run", "--", "sh", "-c", &format!("exit {code}")]).exits(code);
    }
    // 1 HUP, 2 INT, 6 ABRT, 9 KILL, 15 TERM, 34 the first of the real-time signals that a program may use.
    for signal in [1, 2, 6, 9, 15, 34] {
        root.ostler(["run", "--", FIXTURE, "raise", &signal.to_string()]).exits(128 + signal);
    }
    // A program that catches a signal and ends by itself has a code of its own.
    root.ostler(["run", "--", "sh", "-c", "trap 'exit 5' TERM; kill -TERM $$"]).exits(5);
}

#[test]
fn a_command_that_never_ran_has_a_code_of_its_own() {
    let root = Root::new();
    let file = |name: &str, content: &str, mode: u32| {
        fs::write(root.folder().join(name), content).unwrap();
        fs::set_permissions(root.folder().join(name), fs::Permissions::from_mode(mode)).unwrap();
        format!("./{name}")
    };
    let cases = [
        ("no-such-command".to_owned(), 127, "command not found"),
        ("./no-such-file".to_owned(), 127, "command not found"),
        (file("plain", "echo hi\n", 0o644), 126, "Permission denied"),
        (file("script", "echo hi\n", 0o755), 126, "neither a program nor a script that names its interpreter"),
        (file("empty", "", 0o755), 126, "neither a program nor a script"),
        (file("lost", "#!/no/such/interpreter\necho hi\n", 0o755), 126, "interpreter was not found"),
        ("./home".to_owned(), 126, "directory"),
    ];
    for (command, code, why) in &cases {
        let output = root.ostler(["run", "--", command]).exits(*code);
        let said = output.error_text();
        assert!(said.contains(why) && said.contains("no session was started"), "{output:?}");
        assert_eq!(output.text(), "");
    }
    for arguments in
        [&["run", "--no-such-flag", "--", "true"][..], &["run", "--", ""], &["run", "--cwd", "/no/such", "--", "true"]]
    {
        root.ostler(arguments).exits(125);
    }
    assert_eq!(sessions(&root), Vec::<serde_json::Value>::new(), "nothing was started, so nothing is listed");
    root.verify_ledger();
}

#[test]
fn the_two_streams_are_kept_apart() {
    let root = Root::new();
    let script = "for i in 1 2 3; do echo out$i; echo err$i >&2; done";
    let output = root.ostler(["run", "--", "sh", "-c", script]).exits(0);
    assert_eq!((output.text().as_str(), output.error_text().as_str()), ("out1\nout2\nout3\n", "err1\nerr2\nerr3\n"));
    let id = sessions(&root)[0]["id"].clone();
    for (stream, expected) in [("stdout", "out1\nout2\nout3\n"), ("stderr", "err1\nerr2\nerr3\n")] {
        assert_eq!(root.ostler(["logs", text(&id), "--stream", stream]).exits(0).text(), expected);
    }
    // No byte is changed: what is no text, what has no end of line, what looks like an escape.
    let output = root.ostler(["run", "--", "printf", "\\000\\377\\033[31m\\r\\n x"]).exits(0);
    assert_eq!(output.stdout, b"\x00\xff\x1b[31m\r\n x");
}

#[test]
fn input_reaches_the_command_only_if_it_is_asked_for() {
    let root = Root::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let output = finish(&mut root.command(["run", "-i", "--", "cat"]), &bytes).exits(0);
    assert!(output.stdout == bytes, "{} bytes came back", output.stdout.len());
    // Without it the command's input is empty, whatever `run` was given.
    let output = finish(&mut root.command(["run", "--", "sh", "-c", "cat; echo end"]), b"not for you").exits(0);
    assert_eq!(output.text(), "end\n");
    // No input at all is an input.
    assert_eq!(root.ostler(["run", "-i", "--", "cat"]).exits(0).text(), "");
}

#[test]
fn a_dialogue_goes_both_ways_while_it_lasts() {
    let root = Root::new();
    let mut dialogue =
        Running::start(&mut root.command(["run", "-i", "--", "sh", "-c", "while read x; do echo got $x; done"]));
    for word in ["one", "two"] {
        dialogue.give(format!("{word}\n").as_bytes());
        dialogue.says(&format!("got {word}\n"));
    }
    dialogue.end_input();
    dialogue.end().exits(0);
    // A command that needs no more ends `run`, though its input is still open.
    let mut closed = Running::start(&mut root.command(["run", "-i", "--", "sh", "-c", "read x; exit 9"]));
    closed.give(b"enough\n");
    let process = closed.process();
    wait_until(SOON, "run to end before its input does", || !process.alive());
    closed.end().exits(9);
}

#[test]
fn a_name_a_label_and_a_key_work_for_run_as_for_spawn() {
    let root = Root::new();
    let run = ["run", "--name", "job", "--label", "team=a", "--key", "k1", "--", "true"];
    root.ostler(run).exits(0);
    let session = session(&root, &json!("job"));
    assert_eq!(session["labels"], json!({"team": "a"}));
    assert_eq!(root.json(["operation", "show", "k1"])["operation"]["session_id"], session["id"]);
    // The key's command has run, once; it is not run again.
    let output = root.ostler(run).exits(125);
    assert!(output.error_text().contains("endpoint_stale"), "{output:?}");
    assert_eq!(sessions(&root).len(), 1);
}
