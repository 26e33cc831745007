//! Groups C, D and E: sessions of which nobody knows what became of them, and the way out by evidence.
#![expect(clippy::disallowed_methods, reason = "ends clients and copies roots by hand")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::scene::{at_once, text};
use crate::support::{FIXTURE, Process, Root, SOON, finish, wait_until};

/// The folder of a session's first episode.
fn episode(root: &Root, session: &Value) -> PathBuf {
    root.path().join("sessions").join(text(&session["id"])).join("1")
}

/// Puts other bytes in the place of a file, for the owner alone.
fn put(file: &Path, bytes: impl AsRef<[u8]>) {
    let _gone = fs::remove_file(file);
    fs::write(file, bytes).expect("the file can be written");
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("its mode can be set");
}

/// A session whose host's record was emptied while no broker ran; `ends`: its host died with that.
fn in_doubt(root: &Root, name: &str, ends: bool) -> Value {
    let session = root.spawn(&["--name", name, "--key", "start"], &[FIXTURE, "sleep"]);
    root.kill_broker();
    if ends {
        let (host, command) = (Process::of_value(&session["host_pid"]), Process::of_value(&session["pid"]));
        host.kill_9();
        wait_until(SOON, "both to be gone", || !host.alive() && !command.alive());
    }
    put(&episode(root, &session).join("host.json"), "");
    root.ensure();
    is_fenced(root, &session);
    session
}

fn is_fenced(root: &Root, session: &Value) -> Value {
    let mut found = Value::Null;
    wait_until(SOON, "the session to be fenced", || {
        found = root.session(&session["id"]);
        found["fence"].is_object()
    });
    found
}

/// Report gajae-code#4950: close and delete refused, sweeps skipped, and nothing ended it but an editor.
#[test]
fn field_e04_a_session_in_doubt_whose_process_is_gone_is_settled_by_evidence() {
    let root = Root::new();
    let session = in_doubt(&root, "s", true);
    let other = root.spawn_fixture(&["--name", "other"], "sleep");
    for verb in [&["stop", "s"][..], &["delete", "s", "--stop"], &["resume", "s"]] {
        let refused = root.ostler(verb).exits(4).error_text();
        assert!(refused.contains("next: ostler reconcile "), "{refused}");
    }
    let settled = root.json(["reconcile", "s", "--key", "k"]);
    let now = &settled["session"];
    assert_eq!((&now["status"], &now["fence"], &now["id"]), (&json!("failed"), &Value::Null, &session["id"]));
    assert_eq!(
        (&settled["operation"]["kind"], &settled["operation"]["state"]),
        (&json!("session.reconcile"), &json!("succeeded"))
    );
    assert_eq!(settled["survivors"], json!([]));
    // Its key keeps the outcome; a new one finds nothing to do; another request under the key is refused.
    let again = root.json(["reconcile", "s", "--key", "k"]);
    assert_eq!(
        (&again["operation"]["id"], &again["operation"]["replayed"]),
        (&settled["operation"]["id"], &json!(true))
    );
    assert_eq!(root.json(["reconcile", "s"])["session"], *now);
    assert_eq!(root.ostler(["--json", "reconcile", "other", "--key", "k"]).exits(4).error_code(), "key_conflict");
    // The ledger names who asked and what it came to, and the session's chain is whole.
    let history = root.ostler(["ledger", "history", "s"]).exits(0).text();
    assert!(history.contains("the fence was lifted"), "{history}");
    root.ostler(["ledger", "verify"]).exits(0);
    root.kill_broker();
    assert_eq!(root.session(&session["id"])["status"], "failed", "the next broker is in no doubt");
    assert_eq!(root.json(["resume", "s"])["session"]["status"], "ready");
    assert_eq!(root.json(["delete", "s", "--stop"])["session"]["status"], "deleted");
    assert_eq!(root.session(&other["id"])["pid"], other["pid"]);
}

/// The same, and it lives: it is refused, named, and left alone. Once it has ended its own exit record is what counts.
#[test]
fn field_e04_a_session_in_doubt_that_lives_is_refused_and_named() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s"], "sleep");
    root.kill_broker();
    let record = episode(&root, &session).join("host.json");
    let of_another_boot = |record: &Path| {
        let mut stored: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
        stored["host"]["boot"] = json!("another");
        put(record, stored.to_string());
    };
    of_another_boot(&record);
    root.ensure();
    is_fenced(&root, &session);
    let (host, command) = (Process::of_value(&session["host_pid"]), Process::of_value(&session["pid"]));
    for _ in 0..2 {
        let error = root.ostler(["--json", "reconcile", "s"]).exits(4).json()["error"].clone();
        assert_eq!((&error["code"], &error["data"]["reason"]), (&json!("session_live"), &json!("host")));
        let living = error["data"]["processes"].as_array().unwrap();
        let pids: std::collections::BTreeSet<String> = living.iter().map(|one| one["pid"].to_string()).collect();
        // Nobody else: not the broker that once took the lock for its host.
        assert_eq!(pids, [&session["host_pid"], &session["pid"]].map(Value::to_string).into(), "{error}");
        let said = root.ostler(["reconcile", "s"]).exits(4).error_text();
        assert!(said.contains("its host lives") && said.contains(&format!("kill {}", session["host_pid"])), "{said}");
        assert!(host.alive() && command.alive());
        assert!(root.session(&session["id"])["fence"].is_object());
    }
    command.kill_9();
    wait_until(SOON, "its host to leave", || !host.alive());
    let settled = root.json(["reconcile", "s"])["session"].clone();
    assert_eq!((&settled["status"], &settled["exit"]), (&json!("failed"), &json!({"signal": "SIGKILL"})));
    assert_eq!(root.json(["delete", "s"])["session"]["status"], "deleted");
}

/// Its host lives and its record is damaged: it states it again when it is asked, answers, and is adopted instead of being ended.
#[test]
fn field_e04_a_host_that_lives_states_its_damaged_record_again() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s"], "sleep");
    let record = episode(&root, &session).join("host.json");
    let whole = fs::read(&record).unwrap();
    for damage in [&whole[..whole.len() / 2], b"", b"{}"] {
        root.kill_broker();
        put(&record, damage);
        root.ensure();
        is_fenced(&root, &session);
        let adopted = root.json(["reconcile", "s"])["session"].clone();
        let told = (&adopted["status"], &adopted["pid"], &adopted["fence"]);
        assert_eq!(told, (&json!("ready"), &session["pid"], &Value::Null));
        assert_eq!(fs::read(&record).unwrap(), whole);
    }
    assert_eq!(root.json(["stop", "s"])["session"]["exit"], json!({"signal": "SIGTERM"}));
}

/// Its record was removed, and the ledger knows that its command runs: the next broker asks for the record by itself, and ends nobody for a
/// missing file.
#[test]
fn field_e04_a_host_that_lives_states_its_removed_record_again_unasked() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s"], "sleep");
    let record = episode(&root, &session).join("host.json");
    let whole = fs::read(&record).unwrap();
    root.kill_broker();
    fs::remove_file(&record).unwrap();
    root.ensure();
    wait_until(SOON, "its record to be there again", || fs::read(&record).is_ok_and(|now| now == whole));
    let adopted = root.json(["wait", "s", "--for", "ready"])["session"].clone();
    assert_eq!((&adopted["pid"], &adopted["fence"]), (&session["pid"], &Value::Null));
    assert_eq!(root.json(["stop", "s"])["session"]["exit"], json!({"signal": "SIGTERM"}));
}

/// Its host told its end in full, and its record was removed after: the end is not forgotten for that.
#[test]
fn field_e04_an_end_that_was_told_is_known_without_the_record_of_its_host() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s"], "sleep");
    root.kill_broker();
    let (host, command) = (Process::of_value(&session["host_pid"]), Process::of_value(&session["pid"]));
    command.kill_9();
    wait_until(SOON, "both to be gone", || !host.alive() && !command.alive());
    fs::remove_file(episode(&root, &session).join("host.json")).unwrap();
    root.ensure();
    assert_eq!(root.session_becomes(&session["id"], "failed")["exit"], json!({"signal": "SIGKILL"}));
}

/// Something else stands where the folder of its episode was: a doubt like others, which ends once nothing lives.
#[test]
fn field_e04_a_file_in_the_place_of_an_episodes_folder_is_a_doubt_that_ends() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s"], "sleep");
    let (host, command) = (Process::of_value(&session["host_pid"]), Process::of_value(&session["pid"]));
    root.kill_broker();
    fs::remove_dir_all(episode(&root, &session)).unwrap();
    put(&episode(&root, &session), "");
    root.ensure();
    is_fenced(&root, &session);
    assert_eq!(root.ostler(["--json", "reconcile", "s"]).exits(4).error_code(), "session_live");
    host.kill_9();
    wait_until(SOON, "both to be gone", || !host.alive() && !command.alive());
    assert_eq!(root.json(["reconcile", "s"])["session"]["status"], "failed");
    assert_eq!(root.json(["delete", "s"])["session"]["status"], "deleted");
}

/// Whether or not somebody asks for it, each start of a broker asks the evidence again.
#[test]
fn field_e04_the_next_broker_finds_records_that_are_whole_again() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s"], "sleep");
    let record = episode(&root, &session).join("host.json");
    let whole = fs::read(&record).unwrap();
    root.kill_broker();
    put(&record, "{}");
    root.ensure();
    is_fenced(&root, &session);
    root.kill_broker();
    put(&record, &whole);
    root.ensure();
    let adopted = root.session_becomes(&session["id"], "ready");
    wait_until(SOON, "the fence to come down", || root.session(&session["id"])["fence"].is_null());
    assert_eq!(adopted["pid"], session["pid"]);
    assert_eq!(root.json(["stop", "s"])["session"]["status"], "stopped");
}

/// An operation that is uncertain is settled with its session, and what it turned out to be never changes again.
#[test]
fn field_e04_an_uncertain_stop_is_settled_with_its_session() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s"], "ignore-term -- sleep");
    let mut stopping = root.command(["stop", "s", "--grace", "2m", "--key", "stop", "--json"]);
    let mut stopping =
        stopping.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    root.session_becomes(&session["id"], "stopping");
    root.kill_broker();
    stopping.kill().unwrap();
    stopping.wait().unwrap();
    let (host, command) = (Process::of_value(&session["host_pid"]), Process::of_value(&session["pid"]));
    host.kill_9();
    wait_until(SOON, "both to be gone", || !host.alive() && !command.alive());
    put(&episode(&root, &session).join("host.json"), "null");
    root.ensure();
    let fenced = is_fenced(&root, &session);
    let shown = |root: &Root| root.json(["operation", "show", "stop"])["operation"].clone();
    assert_eq!((&shown(&root)["state"], &fenced["fence"]["operation"]), (&json!("uncertain"), &shown(&root)["id"]));
    assert_eq!(root.json(["reconcile", "s"])["session"]["status"], "stopped");
    let settled = shown(&root);
    assert_eq!(settled["state"], "succeeded");
    for _ in 0..2 {
        root.json(["reconcile", "s"]);
        let refused = root.ostler(["--json", "operation", "resolve", "stop", "failed", "--reason", "no"]).exits(4);
        assert_eq!(refused.error_code(), "too_late");
        root.kill_broker();
        assert_eq!(shown(&root), settled);
    }
}

/// Report gajae-code#3903: a recovery pass in parallel made running operations uncertain.
#[test]
fn field_e01_reconciling_in_a_loop_makes_no_start_uncertain() {
    let root = Root::new();
    root.ensure();
    let commands = (0..12).flat_map(|n| {
        let name = format!("s-{n}");
        let spawn = root.command(["--json", "spawn", "--name", &name, "--key", &name, "--", "sh", "-c", "sleep 600"]);
        let reconcile = root.command(["--json", "reconcile", &name]);
        [spawn, reconcile]
    });
    at_once(commands.collect());
    for n in 0..12 {
        let name = format!("s-{n}");
        assert_eq!(root.json(["reconcile", &name])["session"]["status"], "ready");
        assert_eq!(root.json(["operation", "show", &name])["operation"]["state"], "succeeded");
    }
    let list = root.json(["operation", "list"])["operations"].clone();
    assert!(list.as_array().unwrap().iter().all(|one| one["state"] == "succeeded"), "{list}");
}

/// Report gajae-code#5601: what was settled was overwritten by a check that could not read it back.
#[test]
fn field_e02_a_start_that_succeeded_stays_so_whatever_becomes_of_its_session() {
    let root = Root::new();
    in_doubt(&root, "s", true);
    let shown = |root: &Root| root.json(["operation", "show", "start"])["operation"].clone();
    let before = shown(&root);
    assert_eq!(before["state"], "succeeded");
    root.json(["reconcile", "s"]);
    assert_eq!(shown(&root), before);
    root.kill_broker();
    assert_eq!(shown(&root), before);
}

/// A session `s`, one of whose records was damaged while no broker ran, and another one, whose records stand behind that.
fn with_damaged_records(root: &mut Root) -> [Value; 2] {
    let session = root.spawn_fixture(&["--name", "s"], "sleep");
    let other = root.spawn_fixture(&["--name", "other"], "sleep");
    root.kill_broker();
    root.damages_the_ledger();
    let segment = root.path().join("ledger/00000000000000000001.jsonl");
    let lines = fs::read_to_string(&segment).expect("it is text");
    let spoilt = lines.lines().map(|line| {
        let is_meant = line.contains(text(&session["id"])) && line.contains(r#""t":"host""#);
        if is_meant { line.replace("\"started\"", "\"stArted\"") + "\n" } else { format!("{line}\n") }
    });
    put(&segment, spoilt.collect::<String>());
    root.ensure();
    is_fenced(root, &session);
    [session, other]
}

/// A damaged record fences the session that it concerns, no other. Evidence ends the doubt, and the same damage does not bring it back.
#[test]
fn field_e04_a_session_whose_records_in_the_ledger_are_damaged_is_settled_once() {
    let mut root = Root::new();
    let [session, other] = with_damaged_records(&mut root);
    assert_eq!(root.session(&other["id"])["fence"], Value::Null);
    // Its host lives and answers: it is taken up again, with the same process.
    let adopted = root.json(["reconcile", "s"])["session"].clone();
    assert_eq!(
        (&adopted["status"], &adopted["pid"], &adopted["fence"]),
        (&json!("ready"), &session["pid"], &Value::Null)
    );
    for _ in 0..2 {
        root.kill_broker();
        root.ensure();
        assert_eq!(root.session_becomes(&session["id"], "ready")["fence"], Value::Null);
    }
    assert_eq!(root.ostler(["ledger", "verify"]).code(), Some(8), "the damage itself stays to be seen");
    assert_eq!(root.json(["stop", "s"])["session"]["status"], "stopped");
    assert_eq!(root.json(["delete", "s"])["session"]["status"], "deleted");
}

/// Nobody listens to it while it is in doubt, so no turn tells of its end; who waits for that is told what can be seen.
#[test]
fn field_e04_waiting_for_a_session_in_doubt_ends_with_its_command() {
    let mut root = Root::new();
    let [session, _other] = with_damaged_records(&mut root);
    let waiting = root.command(["--json", "wait", "s", "--timeout", "90s"]).stdout(Stdio::piped()).spawn().unwrap();
    // As long as it can be seen to live it is waited for.
    assert_eq!(root.ostler(["--json", "wait", "s", "--timeout", "6s"]).exits(6).error_code(), "timeout");
    Process::of_value(&session["pid"]).kill_9();
    let told = waiting.wait_with_output().unwrap();
    let error = serde_json::from_slice::<Value>(&told.stdout).unwrap()["error"].clone();
    assert_eq!((told.status.code(), &error["code"]), (Some(4), &json!("session_fenced")), "{error}");
    assert_eq!(error["data"]["known"], "its command has ended with signal SIGKILL");
    let said = root.ostler(["wait", "s"]).exits(4).error_text();
    assert!(said.contains("signal SIGKILL") && said.contains("next: ostler reconcile "), "{said}");
    root.json(["reconcile", "s"]);
    root.json(["wait", "s"]);
}

/// Reports codex-plugin-cc#743 and bitsocial-cli#66: whose process it is decides, never its number. A copy of a root settles nothing of
/// what lives in the original, and harms nobody.
#[test]
fn field_c01_a_copied_root_is_not_settled_while_the_original_lives() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s"], "sleep");
    let copy = root.folder().join("copy");
    assert!(Command::new("cp").arg("-a").args([root.path(), copy.clone()]).status().unwrap().success());
    let inside = |arguments: &[&str]| {
        let mut command = root.command(["--json"]);
        finish(command.args(arguments).env("OSTLER_ROOT", &copy), b"")
    };
    inside(&["ensure"]).exits(0);
    wait_until(SOON, "the copy to know that it is one", || {
        inside(&["show", "s"]).exits(0).json()["session"]["fence"].is_object()
    });
    let error = inside(&["reconcile", "s"]).exits(4).json()["error"].clone();
    assert_eq!((&error["code"], &error["data"]["elsewhere"]), (&json!("session_live"), &json!(true)), "{error}");
    assert!(!text(&error["data"]["remedy"]).contains("kill"), "{error}");
    assert_eq!(root.session(&session["id"])["pid"], session["pid"]);
    let host = Process::of_value(&session["host_pid"]);
    root.json(["stop", "s"]);
    wait_until(SOON, "the host to leave", || !host.alive());
    let settled = inside(&["reconcile", "s"]).exits(0).json()["session"].clone();
    assert_eq!((&settled["status"], &settled["fence"]), (&json!("failed"), &Value::Null));
    inside(&["delete", "s"]).exits(0);
    inside(&["shutdown"]).exits(0);
    assert_eq!(root.session(&session["id"])["status"], "stopped");
}

/// Report gajae-code#5796: rows of dead hosts that no sweep ever ended.
#[test]
fn field_d03_hosts_that_died_under_a_stopped_broker_are_settled_once() {
    let root = Root::new();
    let sessions: Vec<Value> = (0..5).map(|_| root.spawn_fixture(&[], "sleep")).collect();
    let broker = root.broker().unwrap();
    let signal = |signal| kill(Pid::from_raw(broker.pid), signal).expect("it is the broker of this test");
    signal(Signal::SIGSTOP);
    sessions.iter().for_each(|session| Process::of_value(&session["host_pid"]).kill_9());
    signal(Signal::SIGCONT);
    for session in &sessions {
        let ended = root.session_becomes(&session["id"], "failed");
        assert_eq!(ended["reason"], "its host died");
        assert_eq!(root.json(["reconcile", text(&session["id"])])["session"], ended, "there is nothing left to do");
    }
}

/// Who acts as a session settles nothing, not even of itself.
#[test]
fn a_session_may_not_settle_a_doubt() {
    let root = Root::new();
    let session = in_doubt(&root, "s", false);
    let mut command = root.command(["--json", "reconcile", "s"]);
    let credential = root.path().join("sessions").join(text(&session["id"])).join("credential");
    let refused = finish(command.env("OSTLER_CREDENTIAL", credential).env("OSTLER_SESSION", text(&session["id"])), b"");
    assert_eq!((refused.code(), refused.error_code().as_str()), (Some(7), "denied"), "{refused:?}");
    Process::of_value(&session["host_pid"]).kill_9();
}

/// What befalls a file of an episode, by name.
type Damage = (&'static str, fn(&Path));

const DAMAGES: [Damage; 6] = [
    ("empty", |file| put(file, "")),
    ("half", |file| {
        let whole = fs::read(file).expect("it is there");
        put(file, &whole[..whole.len() / 2]);
    }),
    ("nul", |file| put(file, [0; 300])),
    ("noise", |file| put(file, [0xa7; 300])),
    ("a folder", |file| {
        fs::remove_file(file).expect("it is there");
        fs::create_dir(file).expect("a folder can be made");
    }),
    ("gone", |file| fs::remove_file(file).expect("it is there")),
];

/// Reports nomad#1170 and prime-agent#1045: a damaged file of one row stopped every start, or poisoned the whole list. Each file of an episode in
/// each state, of hosts that are dead: nothing else suffers, and each is settled in the end.
#[test]
fn field_f18_each_damaged_file_of_a_dead_session_is_settled() {
    let root = Root::new();
    let whole = root.spawn_fixture(&["--name", "whole"], "sleep");
    let mut sessions = Vec::new();
    for file in ["host.json", "exit.json", "life.lock"] {
        for (damage, act) in DAMAGES {
            sessions.push((format!("{file} {damage}"), root.spawn_fixture(&[], "sleep"), file, act));
        }
    }
    root.kill_broker();
    for (_, session, file, act) in &sessions {
        Process::of_value(&session["host_pid"]).kill_9();
        act(&episode(&root, session).join(file));
    }
    root.ensure();
    assert_eq!(root.session_becomes(&whole["id"], "ready")["pid"], whole["pid"]);
    for (what, session, _, _) in &sessions {
        let id = text(&session["id"]);
        let mut settled = Value::Null;
        // Some are settled by the start itself, which asks at its own pace.
        wait_until(SOON, what, || {
            settled = root.json(["reconcile", id])["session"].clone();
            settled["fence"].is_null() && settled["reason"] != "liveness unknown"
        });
        assert_eq!((&settled["status"], &settled["fence"]), (&json!("failed"), &Value::Null), "{what}: {settled}");
        assert_eq!(root.json(["delete", id])["session"]["status"], "deleted", "{what}");
    }
    assert_eq!(root.json(["list"])["sessions"].as_array().unwrap().len(), 1);
}

/// The same of hosts that live: each is adopted or refused, and none is called dead. Once it is dead it is settled.
#[test]
fn field_c07_each_damaged_file_of_a_living_session_is_refused_or_adopted() {
    let root = Root::new();
    let mut sessions = Vec::new();
    for file in ["host.json", "life.lock"] {
        for (damage, act) in &DAMAGES[..5] {
            sessions.push((format!("{file} {damage}"), root.spawn_fixture(&[], "sleep"), file, act));
        }
    }
    root.kill_broker();
    for (_, session, file, act) in &sessions {
        act(&episode(&root, session).join(file));
    }
    root.ensure();
    assert_eq!(root.json(["list"])["sessions"].as_array().unwrap().len(), sessions.len());
    for (what, session, _, _) in &sessions {
        let id = text(&session["id"]);
        let (host, command) = (Process::of_value(&session["host_pid"]), Process::of_value(&session["pid"]));
        let told = root.ostler(["--json", "reconcile", id]);
        match told.code() {
            Some(0) => assert_eq!(told.json()["session"]["pid"], session["pid"], "{what}: {told:?}"),
            _ => assert_eq!(told.exits(4).error_code(), "session_live", "{what}"),
        }
        assert!(host.alive() && command.alive(), "{what}");
        host.kill_9();
        wait_until(SOON, "its command to end", || !command.alive());
        wait_until(SOON, what, || {
            let told = root.ostler(["--json", "reconcile", id]);
            told.code() == Some(0) && told.json()["session"]["status"] == "failed"
        });
        assert_eq!(root.json(["delete", id])["session"]["status"], "deleted", "{what}");
    }
}
