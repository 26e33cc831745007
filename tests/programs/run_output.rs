//! Much output, late readers, closed pipes: no byte is lost, no exit is missed.

use super::{end_strays, ended, line_of, session, spawn, text};
use crate::support::{FIXTURE, OSTLER, Process, Root, Running, SOON, finish, wait_until};
use data_encoding::HEXLOWER;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A hundred megabytes in which every place looks different.
const HUNDRED_MEGABYTES: [&str; 3] = ["sh", "-c", "seq 1 20000000 | head -c 100000000"];
/// What is kept of an episode's output (contract section 4).
const KEPT_BYTES: u64 = 8 * 1024 * 1024;

/// Length and digest of what a command prints, which must succeed.
#[expect(clippy::disallowed_methods, reason = "a test starts what it tests")]
fn digest_of(command: &mut Command) -> (u64, String) {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdout.take().unwrap();
    let (mut digest, mut length, mut buffer) = (Sha256::new(), 0, vec![0; 1 << 20]);
    loop {
        let count = pipe.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        digest.update(&buffer[..count]);
        length += u64::try_from(count).unwrap();
    }
    assert!(child.wait().unwrap().success());
    (length, HEXLOWER.encode(&digest.finalize()))
}

/// The folder that holds the output of the only session's first episode.
fn output_folder(root: &Root) -> Option<PathBuf> {
    let session = fs::read_dir(root.path().join("sessions")).ok()?.flatten().next()?;
    Some(session.path().join("1/output"))
}

fn bytes_in(folder: &Path) -> u64 {
    fs::read_dir(folder).into_iter().flatten().flatten().filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

#[test]
fn a_hundred_megabytes_pass_whole() {
    let root = Root::new();
    let direct = digest_of(Command::new(HUNDRED_MEGABYTES[0]).args(&HUNDRED_MEGABYTES[1..]));
    assert_eq!(direct.0, 100_000_000);
    assert_eq!(digest_of(root.command(["run", "--"]).args(HUNDRED_MEGABYTES)), direct);
    let kept = bytes_in(&output_folder(&root).unwrap());
    assert!(kept <= KEPT_BYTES && kept > KEPT_BYTES / 2, "{kept} bytes are kept");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a reader that does not read needs the bare pipe")]
fn a_command_waits_for_a_slow_reader_and_no_byte_is_lost() {
    let root = Root::new();
    let mut command = root.command(["run", "--", FIXTURE, "print", "24000000", "--", "append", "printed", "x"]);
    let mut run = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    wait_until(SOON, "a full spool", || {
        output_folder(&root).is_some_and(|folder| bytes_in(&folder) > KEPT_BYTES * 3 / 4)
    });
    assert!(!root.folder().join("printed").exists(), "three times what is kept cannot be printed while nobody reads");
    let mut all = Vec::new();
    run.stdout.take().unwrap().read_to_end(&mut all).unwrap();
    assert!(run.wait().unwrap().success());
    assert_eq!(all.len(), 24_000_000);
    let whole = all.chunks(16).zip(0_u64..).all(|(line, number)| line == format!("{number:015}\n").as_bytes());
    assert!(whole && root.folder().join("printed").exists());
}

/// Nobody follows a plain session, so nothing holds it up: the oldest output goes, and the reader is told.
#[test]
fn a_session_that_nobody_reads_is_not_held_up() {
    let root = Root::new();
    let id = spawn(&root, ["--", FIXTURE, "print", "24000000"])["id"].clone();
    assert_eq!(ended(&root, &id)["exit"], json!({"code": 0}));
    let logs = root.ostler(["logs", text(&id)]).exits(0);
    assert!(logs.error_text().contains("bytes have aged out"), "{}", logs.error_text());
    let kept = logs.stdout.len();
    assert!(kept > 4_000_000 && kept < 9_000_000, "{kept}");
    assert!(logs.text().ends_with(&format!("{:015}\n", 1_499_999)), "the newest output is what is kept");
    // As documents the gap is a member, and the rest is the same bytes.
    let documents = root.ostler(["logs", text(&id), "--json"]).exits(0).json_lines();
    let lost = documents[0]["lost"]["to"].as_u64().unwrap();
    assert_eq!(lost + u64::try_from(kept).unwrap(), 24_000_000);
    assert_eq!(documents[1]["position"].as_u64(), Some(lost));
}

#[test]
fn a_program_that_closes_its_output_lives_on() {
    let root = Root::new();
    let id = spawn(
        &root,
        ["--", FIXTURE, "say", "last words", "--", "close-output", "--", "until", "go", "--", "exit", "5"],
    )["id"]
        .clone();
    line_of(&root, &id, "last words");
    let now = session(&root, &id);
    assert_eq!(now["status"], "ready");
    assert!(Process::of_value(&now["pid"]).alive());
    fs::write(root.folder().join("go"), "").unwrap();
    assert_eq!(ended(&root, &id)["exit"], json!({"code": 5}));
    fs::remove_file(root.folder().join("go")).unwrap();
    // The same under `run`, which neither ends early nor hangs.
    let run = Running::start(&mut root.command([
        "run",
        "--",
        FIXTURE,
        "say",
        "bye",
        "--",
        "close-output",
        "--",
        "until",
        "go",
        "--",
        "exit",
        "5",
    ]));
    run.says("bye");
    assert!(run.process().alive());
    fs::write(root.folder().join("go"), "").unwrap();
    run.end().exits(5);
}

/// A grandchild in its own session, without the session's marker, keeps the pipe: the end of the command is seen all the same.
#[test]
fn an_exit_is_seen_though_a_grandchild_keeps_the_pipe() {
    let root = Root::new();
    let script = "setsid env -i sh -c ': >away; exec sleep 4321' & until [ -e away ]; do sleep 0.01; done; rm away; echo done; exit 4";
    let id = spawn(&root, ["--", "sh", "-c", script])["id"].clone();
    let session = ended(&root, &id);
    assert_eq!((&session["status"], &session["exit"]), (&json!("failed"), &json!({"code": 4})));
    assert_eq!(root.ostler(["logs", "-f", text(&id)]).exits(0).text(), "done\n");
    // `run` ends as well, with the code and all output.
    let output = root.ostler(["run", "--", "sh", "-c", script]).exits(4);
    assert_eq!(output.text(), "done\n");
    assert_eq!(end_strays(&root, "sleep 4321"), 2, "nobody ends what cannot be told to belong to a session");
}

/// A grandchild of the same group ends with the command; one that ignores TERM is killed after the grace.
#[test]
fn what_is_left_of_the_group_ends_with_the_command() {
    let root = Root::new();
    let output = root
        .ostler(["run", "--", "sh", "-c", "(trap '' TERM; exec sleep 4322) & sleep 4323 & echo up; exit 4"])
        .exits(4);
    assert_eq!(output.text(), "up\n");
    assert_eq!(end_strays(&root, "sleep 432"), 0);
}

/// Report BrowserSkill#55: whoever reads to the end of file is not held, on a cold root, with more descriptors open.
#[test]
fn reading_to_end_of_file_is_not_held_by_broker_host_or_command() {
    let root = Root::new();
    let script = "exec 3>&1 4>&1 5>&1 6>&1 7>&1 8>&2 9>&2; out=$(\"$0\" spawn --json -- sleep 1000); echo \"$out\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, OSTLER]).env_clear().current_dir(root.folder());
    shell.envs(root.command(["x"]).get_envs().filter_map(|(name, value)| Some((name, value?))));
    // Returns only when nobody holds either pipe any more.
    let session = finish(&mut shell, b"").exits(0).json()["session"].clone();
    for pid in [&session["pid"], &session["host_pid"], &root.json(["status"])["broker"]["pid"]] {
        let process = Process::of_value(pid);
        let open = fs::read_dir(format!("/proc/{}/fd", process.pid)).unwrap().flatten();
        let numbers: Vec<String> = open.map(|entry| entry.file_name().into_string().unwrap()).collect();
        if pid == &session["pid"] {
            let mut numbers = numbers.clone();
            numbers.sort();
            assert_eq!(numbers, ["0", "1", "2"], "the command has exactly its three");
        }
    }
    root.ostler(["stop", text(&session["id"])]).exits(0);
}
