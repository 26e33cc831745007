//! Two judges for every case: the crate, and `tools/verify_ledger.py`, which shares no code with it. They must agree on
//! everything that a report says but for its sentences.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use ostler_ledger::{Position, VerifyOptions, VerifyReport, verify, verify_folder};
use serde_json::{Value, json};

use crate::support::disk_of;

/// The files of a ledger folder: names and bytes.
pub(crate) type Files = Vec<(String, Vec<u8>)>;

/// The second judge: one process for all cases of a test.
pub(crate) struct Judges {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

fn second() -> Command {
    let mut command = Command::new("python3");
    command.arg(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tools/verify_ledger.py"));
    command
}

impl Judges {
    pub(crate) fn new() -> Judges {
        let mut command = second();
        command.arg("--serve").stdin(Stdio::piped()).stdout(Stdio::piped());
        #[expect(clippy::disallowed_methods, reason = "the second judge is a program")]
        let mut child = command.spawn().expect("python3 runs; apt-get install python3");
        let (questions, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Judges { child, questions, answers }
    }

    /// The report that both give. Panics with `what` if they differ.
    pub(crate) fn report(&mut self, files: &Files, options: &VerifyOptions, what: &dyn Fn() -> String) -> VerifyReport {
        let report = verify(&disk_of(files).storage(), options).unwrap();
        let second = self.second(files, options);
        let first = without_sentences(serde_json::to_value(&report).unwrap());
        assert_eq!(first, second, "{}: the crate and tools/verify_ledger.py differ, in this order", what());
        report
    }

    fn second(&mut self, files: &Files, options: &VerifyOptions) -> Value {
        let files = files.iter().map(|(name, bytes)| (name.clone(), Value::from(data_encoding::BASE64.encode(bytes))));
        let files: serde_json::Map<String, Value> = files.collect();
        let since = options.since.map(|since: Position| since.to_string());
        let case = json!({"folder": null, "files": files, "boot": options.boot, "since": since});
        writeln!(self.questions, "{case}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        let mut answer: Value = serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"));
        for gone in ["schema", "ok"] {
            answer.as_object_mut().unwrap().remove(gone);
        }
        without_sentences(answer)
    }
}

impl Drop for Judges {
    fn drop(&mut self) {
        // End of file on its input ends it; ended by force it would be if the test failed meanwhile.
        let _gone = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn without_sentences(mut report: Value) -> Value {
    let strip = |item: &mut Value| {
        if let Some(members) = item.as_object_mut() {
            members.remove("detail");
        }
    };
    for findings in ["problems", "accepted"] {
        report[findings].as_array_mut().into_iter().flatten().for_each(strip);
    }
    strip(&mut report["tail"]);
    report
}

/// As a stranger runs it: on a folder, with an answer by exit code.
#[test]
fn the_second_judge_reads_folders() {
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1");
    let report = verify_folder(&golden, &VerifyOptions::default()).unwrap();
    let run = |folder: &Path, more: &[&str]| {
        let mut command = second();
        command.arg(folder).args(more);
        let output = command.output().expect("python3 runs");
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = run(&golden, &["--json"]);
    let mut second: Value = serde_json::from_str(&text).unwrap();
    ["schema", "ok", "elapsed_ms"].iter().for_each(|gone| drop(second.as_object_mut().unwrap().remove(*gone)));
    assert_eq!((code, second), (Some(0), serde_json::to_value(&report).unwrap()));
    let head = report.head;
    assert_eq!(run(&golden, &["--since", &head.to_string()]).0, Some(0));
    let other = Position { digest: Position::START.digest, ..head };
    let (code, text) = run(&golden, &["--since", &other.to_string()]);
    assert!(code == Some(8) && text.contains("chain_broken"), "{code:?} {text}");
    assert_eq!(run(&golden.join("absent"), &[]).0, Some(1));
    assert_eq!(run(&golden, &["--since", "not a head"]).0, Some(2));
}

/// The documents that are handed out: proofs, and one session's lines.
#[test]
fn the_second_judge_reads_proofs_and_histories() {
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let head = verify_folder(&golden.join("v1-sealed"), &VerifyOptions::default()).unwrap().head;
    let older = Position { seq: head.seq - 1, ..head };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("document");
    let run = |bytes: &[u8], arguments: &[&str]| {
        std::fs::write(&file, bytes).unwrap();
        let mut command = second();
        command.arg(arguments[0]).arg(&file).args(&arguments[1..]);
        let output = command.output().expect("python3 runs");
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    for (seq, name) in [(3, "sealed-3.json"), (16, "active-16.json")] {
        let proof = std::fs::read(golden.join("v1-proofs").join(name)).unwrap();
        let (code, text) = run(&proof, &["--proof", "--head", &head.to_string()]);
        assert!(code == Some(0) && text.contains(&format!("\"seq\": {seq},")), "{name}: {code:?} {text}");
        assert_eq!(run(&proof, &["--proof", "--head", &older.to_string()]).0, Some(8), "{name}");
        let changed = String::from_utf8(proof).unwrap().replacen("\\\"v\\\":1}", "\\\"v\\\":2}", 1);
        assert_eq!(run(changed.as_bytes(), &["--proof", "--head", &head.to_string()]).0, Some(8), "{name}");
    }
    let all = std::fs::read_to_string(golden.join("v1/00000000000000000001.jsonl")).unwrap();
    let of_one: Vec<&str> =
        all.split_inclusive('\n').filter(|line| line.contains("\"sid\":\"k3x9q2m7w5ab\"")).collect();
    assert!(of_one.len() > 1, "{all}");
    assert_eq!(run(of_one.concat().as_bytes(), &["--history"]).0, Some(0));
    assert_eq!(run([of_one[1], of_one[0]].concat().as_bytes(), &["--history"]).0, Some(8));
}
