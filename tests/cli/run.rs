//! What `run` hands over to its command and how it refuses. (What everyday programs do under it is in `programs`.)

use crate::support::{FIXTURE, Root, finish};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

#[test]
fn field_b14_what_cannot_be_started_leaves_nothing_and_its_key_and_name_are_free() {
    let root = Root::new();
    let plain = root.folder().join("plain");
    std::fs::write(&plain, "").unwrap();
    let plain = plain.to_str().unwrap();
    for (arguments, code) in [
        (&["--", "no-such-command"][..], 127),
        (&["--env", "PATH=/nowhere", "--", "sh"], 127),
        (&["--", "./no-such-command"], 127),
        (&["--", plain], 126),
        (&["--", "/"], 126),
        (&["--cwd", "/nowhere/at/all", "--", "true"], 125),
        (&["--", ""], 125),
    ] {
        let given = ["run", "--name", "n", "--key", "k"];
        let output = root.ostler(given.iter().chain(arguments)).exits(code);
        assert!(output.stdout.is_empty() && output.error_text().contains("changed:"), "{output:?}");
    }
    assert_eq!(root.json(["list", "--all"])["sessions"], serde_json::json!([]));
    root.ostler(["run", "--name", "n", "--key", "k", "--", "true"]).exits(0);
    let taken = root.ostler(["--json", "run", "--name", "n", "--", "true"]).exits(125);
    assert_eq!(taken.error_code(), "session_exists");
}

#[test]
fn field_l_own_arguments_and_variables_are_bytes() {
    let root = Root::new();
    let bytes = OsStr::from_bytes(b"\xff\xfe\n'\"$\\ ");
    let mut command = root.command(["run", "--", FIXTURE, "say"]);
    let output = finish(command.arg(bytes), b"").exits(0);
    assert_eq!(output.stdout, [bytes.as_bytes(), b"\n"].concat());
    let mut command = root.command(["run", "--env"]);
    command.arg(OsStr::from_bytes(b"V=\xff=")).args(["--", "sh", "-c", "printf %s \"$V\""]);
    assert_eq!(finish(&mut command, b"").exits(0).stdout, b"\xff=");
    let listed = root.json(["list"]);
    assert_eq!(listed["sessions"][0]["command"][2]["b64"], "//4KJyIkXCA=");
}

#[test]
fn input_is_passed_on_whole_and_ends() {
    let root = Root::new();
    let input: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    let output = finish(&mut root.command(["run", "-i", "--", "cat"]), &input).exits(0);
    assert!(output.stdout == input, "{} of {} bytes came back", output.stdout.len(), input.len());
    // A command that does not read ends all the same.
    finish(&mut root.command(["run", "-i", "--", "true"]), &input).exits(0);
}

#[test]
fn mask_and_limits_are_the_caller_s_and_not_the_broker_s() {
    let root = Root::new();
    root.json(["ensure"]);
    let product = root.command([""; 0]);
    let script = "umask 027; ulimit -S -n 99; exec \"$0\" run -- sh -c 'umask; ulimit -S -n'";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(product.get_program()).env_clear().current_dir(root.folder());
    command.envs(product.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert_eq!(finish(&mut command, b"").exits(0).text(), "0027\n99\n");
}

#[test]
fn whoever_asks_after_a_run_finds_its_session_ended() {
    let root = Root::new();
    for _ in 0..10 {
        root.ostler(["run", "--name", "x", "--", "true"]).exits(0);
        root.ostler(["delete", "x"]).exits(0);
    }
}

#[test]
fn output_that_cannot_be_written_is_told_with_what_became_of_the_session() {
    let root = Root::new();
    let product = root.command([""; 0]);
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" run --name full -- echo full >/dev/full"]).arg(product.get_program()).env_clear();
    command.current_dir(root.folder()).envs(product.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let said = finish(&mut command, b"").exits(125).error_text();
    let id = root.json(["show", "full"])["session"]["id"].as_str().unwrap().to_owned();
    assert!(said.contains(&format!("changed: session {id} was started, and stopped because its output")), "{said}");
    assert!(said.contains(&format!("ostler logs {id}")), "{said}");
    assert_eq!(root.ostler(["logs", "full"]).exits(0).text(), "full\n");
}

#[test]
fn the_cause_of_a_failed_start_is_said_once() {
    let root = Root::new();
    let said = root.ostler(["run", "--", "nosuchcmd"]).exits(127).error_text();
    assert_eq!(said.matches("not found").count(), 1, "{said}");
    assert!(said.starts_with("ostler: cannot start nosuchcmd: ") && !said.contains("nothing ran"), "{said}");
}
