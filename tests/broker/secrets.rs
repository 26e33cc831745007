//! What a request puts into the environment, and every credential, stays in the one file that is for it: no log, ledger,
//! stored result or answer holds it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::scene::{spawning, text};
use crate::support::{FIXTURE, Root, finish};

const NAMED: &str = "planted-secret-named-7Q4x";
const INHERITED: &str = "planted-secret-inherited-9Zk2";

/// Files that hold secrets because that is what they are for, by name.
const PRIVATE: [&str; 5] = ["spec.json", "credential", "host.json", "broker.json", "request.secret"];

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let inner = entries.flat_map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => files(&entry.path()),
        Ok(kind) if kind.is_file() => vec![entry.path()],
        _ => Vec::new(),
    });
    inner.collect()
}

/// The members of a JSON document that are secrets by their name.
fn secrets_of(path: &Path, names: &[&str]) -> Vec<String> {
    let document: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let found = names.iter().filter_map(|name| document.pointer(name)).map(|value| text(value).to_owned());
    found.collect()
}

/// Everything that must not be found: what was planted, the owner's token, the session's credential, the host's secret.
fn secrets(root: &Root, id: &str) -> Vec<String> {
    let session = root.path().join("sessions").join(id);
    let credential = fs::read_to_string(session.join("credential")).unwrap();
    let (_, secret) = credential.trim_end().split_once('.').expect("ID.SECRET");
    let mut all = vec![NAMED.to_owned(), INHERITED.to_owned(), secret.to_owned()];
    let token = secrets_of(&root.path().join("broker.json"), &["/token"]);
    let host = secrets_of(&session.join("1/host.json"), &["/secret"]);
    assert_eq!((token.len(), host.len()), (1, 1), "the members are named as this test believes");
    all.extend(token.into_iter().chain(host));
    all
}

fn holds(bytes: &[u8], secret: &str) -> bool {
    bytes.windows(secret.len()).any(|window| window == secret.as_bytes())
}

fn answers(root: &Root, id: &str) -> Vec<Vec<u8>> {
    let head = root.json(["ledger", "head"]);
    let records =
        (1..=head["seq"].as_u64().unwrap()).map(|seq| vec!["ledger".to_owned(), "show".into(), seq.to_string()]);
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<String>>();
    let lines = ["status", "list --all", "doctor", "ensure", "operation list", "operation show key-1", "ledger verify"];
    let asked =
        lines.into_iter().map(words).chain([words(&format!("show {id}")), words(&format!("ledger history {id}"))]);
    let asked: Vec<Vec<String>> = asked.chain(records).collect();
    let plain = asked.iter().map(|words| root.ostler(words));
    let json = asked.iter().map(|words| root.ostler(words.iter().map(String::as_str).chain(["--json"])));
    let outputs: Vec<_> = plain.chain(json).collect();
    for output in &outputs {
        assert!([Some(0), Some(1)].contains(&output.code()), "{output:?}");
    }
    outputs.into_iter().flat_map(|output| [output.stdout, output.stderr]).collect()
}

fn nothing_tells(root: &Root, id: &str, also: &[Vec<u8>]) {
    let secrets = secrets(root, id);
    let places = files(root.folder());
    assert!(places.iter().any(|path| path.ends_with("spec.json")));
    for path in places.iter().filter(|path| !PRIVATE.iter().any(|name| path.ends_with(name))) {
        // What was refused is still being cleared away.
        let bytes = fs::read(path).unwrap_or_default();
        let told = secrets.iter().find(|secret| holds(&bytes, secret));
        assert!(told.is_none(), "{} holds {told:?}", path.display());
    }
    for bytes in answers(root, id).iter().chain(also) {
        let told = secrets.iter().find(|secret| holds(bytes, secret));
        assert!(told.is_none(), "{told:?} is in this answer: {}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn field_l08_planted_secrets_and_credentials_are_in_no_log_ledger_result_or_answer() {
    let root = Root::new();
    let options = ["--name", "a", "--key", "key-1", "--env", &format!("NAMED={NAMED}")];
    let mut spawn = root.command(["--json"]);
    spawn.args(spawning(&options, &[FIXTURE, "say", "up", "--", "sleep"])).env("INHERITED", INHERITED);
    let made = finish(&mut spawn, b"").exits(0);
    let id = text(&made.json()["session"]["id"]).to_owned();
    // It did reach the command, and the file that is for it.
    let spec = fs::read(root.path().join("sessions").join(&id).join("spec.json")).unwrap();
    assert!(holds(&spec, NAMED) && holds(&spec, INHERITED));
    let pid = made.json()["session"]["pid"].to_string();
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap();
    assert!(holds(&environment, NAMED) && holds(&environment, INHERITED));

    let replayed = finish(&mut spawn, b"").exits(0);
    let other = ["--key", "key-1", "--env", &format!("NAMED={NAMED}-other")];
    let refused = root.ostler(spawning(&other, &["true"])).exits(4);
    let failing = ["--key", "key-2", "--env", &format!("NAMED={NAMED}")];
    let failed = root.ostler(spawning(&failing, &["/nonexistent/program"])).exits(1);
    let told = [made, replayed, refused, failed].map(|output| [output.stdout, output.stderr].concat());
    nothing_tells(&root, &id, &told);

    // The same after the broker died, and after the session did.
    root.kill_broker();
    root.ensure();
    nothing_tells(&root, &id, &[]);
    let stopped = root.ostler(["stop", &id, "--json"]).exits(0);
    let stale = finish(&mut spawn, b"").exits(4);
    assert_eq!(stale.error_code(), "endpoint_stale");
    nothing_tells(&root, &id, &[stopped.stdout, stale.stdout, stale.stderr]);
    // The broker itself has nothing of it, so no later session can get it from there.
    let broker = fs::read(format!("/proc/{}/environ", root.broker().unwrap().pid)).unwrap();
    assert!(!holds(&broker, NAMED) && !holds(&broker, INHERITED));
}
