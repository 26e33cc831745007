//! What clients need to find the broker comes back when it is lost; who is no longer the broker leaves everything alone.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::{Value, json};

use crate::cli::wire::Wire;
use crate::support::scene::text;
use crate::support::{Process, Root, SOON, wait_until};

fn socket(root: &Root) -> PathBuf {
    let record: Value = serde_json::from_slice(&fs::read(root.path().join("broker.json")).unwrap()).unwrap();
    text(&record["broker"]["endpoint"]).trim_start_matches("unix:").into()
}

fn sessions(root: &Root) -> Vec<Value> {
    (0..3).map(|_| root.spawn_fixture(&[], "until go -- say here -- sleep")).collect()
}

/// The same broker answers, without that anybody starts another one.
fn is_reachable(root: &Root, broker: Process) {
    let found = || root.broker() == Some(broker);
    wait_until(SOON, "the broker to be found again", found);
    assert_eq!(root.brokers(), [broker]);
    assert_eq!(root.json(["ensure"])["started"], false);
}

fn all_live(root: &Root, sessions: &[Value]) {
    for session in sessions {
        let found = root.session(&session["id"]);
        assert_eq!((&found["status"], &found["pid"]), (&json!("ready"), &session["pid"]));
    }
}

#[test]
fn a_lost_socket_record_or_runtime_folder_comes_back() {
    let root = Root::new();
    let sessions = sessions(&root);
    let broker = root.broker().unwrap();
    let record = root.path().join("broker.json");
    let run = root.folder().join("run");
    let lose: [(&str, &dyn Fn()); 7] = [
        ("socket", &|| fs::remove_file(socket(&root)).unwrap()),
        ("record", &|| fs::remove_file(&record).unwrap()),
        ("record, a folder in its place", &|| {
            fs::remove_file(&record).unwrap();
            fs::create_dir_all(record.join("inner")).unwrap();
        }),
        ("record, a link in its place", &|| {
            fs::remove_file(&record).unwrap();
            std::os::unix::fs::symlink("/nowhere", &record).unwrap();
        }),
        ("both", &|| {
            fs::remove_file(socket(&root)).unwrap();
            fs::remove_file(&record).unwrap();
        }),
        ("runtime folder", &|| fs::remove_dir_all(socket(&root).parent().unwrap()).unwrap()),
        ("all runtime folders", &|| fs::remove_dir_all(&run).unwrap()),
    ];
    for (what, act) in lose {
        act();
        is_reachable(&root, broker);
        all_live(&root, &sessions);
        assert!(socket(&root).exists(), "{what}");
    }
    // The hosts' own sockets were in there: they are still stopped, heard and read.
    fs::write(root.folder().join("go"), "").unwrap();
    for session in &sessions {
        let id = text(&session["id"]);
        wait_until(SOON, "its output", || root.ostler(["logs", id]).exits(0).text() == "here\n");
    }
    root.kill_broker();
    fs::remove_file(&record).unwrap();
    fs::create_dir_all(record.join("inner")).unwrap();
    root.ensure();
    for session in &sessions {
        root.session_becomes(&session["id"], "ready");
        assert!(
            root.session(&session["id"])["reason"].is_null()
                || root.json(["wait", text(&session["id"]), "--for", "ready"]).is_object()
        );
        let stopped = root.json(["stop", text(&session["id"])]);
        assert_eq!(stopped["session"]["exit"], json!({"signal": "SIGTERM"}));
    }
}

/// Something in the record's place that cannot be moved away: said once, shown to whoever is connected or looks, and over when it goes.
#[test]
fn field_b_own_what_keeps_a_broker_from_being_found_is_said_and_heals() {
    let root = Root::new();
    let mut wire = Wire::hello(&root);
    let (broker, record) = (root.ensure(), root.path().join("broker.json"));
    fs::remove_file(&record).unwrap();
    fs::create_dir(&record).unwrap();
    if let Err(error) = mount(Some("tmpfs"), &record, Some("tmpfs"), MsFlags::empty(), Some("size=64k")) {
        eprintln!("NOT CHECKED: a file system cannot be mounted here: {error}");
        return;
    }
    let mut shown = || wire.ask("broker.status", json!({}))["result"]["degraded"].to_string();
    wait_until(SOON, "it to be shown", || shown().contains("cannot publish") && shown().contains("broker.json"));
    assert!(root.json(["status"])["degraded"].to_string().contains("broker.json is no file"));
    let log = || fs::read_to_string(root.path().join("broker.log")).unwrap();
    let mut began = None;
    wait_until(SOON, "several more looks", || {
        let uptime = fs::read_to_string("/proc/uptime").unwrap();
        let now: f64 = uptime.split(' ').next().and_then(|first| first.parse().ok()).unwrap();
        now > *began.get_or_insert(now) + 3.5
    });
    assert_eq!(log().lines().filter(|line| line.contains("cannot find this broker")).count(), 1, "{}", log());
    umount2(&record, MntFlags::MNT_DETACH).unwrap();
    wait_until(SOON, "it to be published again", || record.is_file());
    wait_until(SOON, "it to be over", || shown() == "[]");
    assert_eq!(root.ensure()["incarnation"], broker["incarnation"]);
    assert!(log().contains("can find this broker again"));
}

/// Clients that come while nothing is published wait for the owner of the lock; nobody replaces it.
#[test]
fn clients_that_come_while_nothing_is_published_get_the_same_broker() {
    let root = Root::new();
    let broker = root.ensure();
    for _ in 0..3 {
        fs::remove_file(socket(&root)).unwrap();
        fs::remove_file(root.path().join("broker.json")).unwrap();
        let clients = (0..10).map(|_| root.command(["ensure", "--json", "--timeout", "30s"])).collect();
        for output in crate::support::scene::at_once(clients) {
            let report = output.exits(0).json();
            assert_eq!((&report["broker"]["incarnation"], &report["started"]), (&broker["incarnation"], &json!(false)));
        }
    }
    wait_until(SOON, "losers to leave", || root.brokers().len() == 1);
}

/// All files of a folder, with their bytes.
fn image(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => files.extend(image(&path)),
            kind if kind.is_file() => files.push((path.clone(), fs::read(&path).unwrap())),
            _ => {}
        }
    }
    files.sort();
    files.retain(|(path, _)| !path.ends_with("broker.log"));
    files
}

/// The broker exits by itself and leaves root and sessions as they are; the next one adopts them.
fn is_fenced(root: &Root, sessions: &[Value], broker: Process, act: impl FnOnce()) {
    act();
    let (before, socket) = (image(&root.path()), socket_of(root));
    wait_until(SOON, "the broker to fence itself", || !broker.alive());
    assert!(image(&root.path()) == before, "it left the files as they were");
    assert!(socket.is_none_or(|socket| socket.exists()), "its socket, too");
    let live = |session: &Value, which: &str| Process::of_value(&session[which]).alive();
    assert!(sessions.iter().all(|session| live(session, "pid") && live(session, "host_pid")));
    let report = root.json(["ensure"]);
    assert_eq!(report["started"], true);
    all_live_again(root, sessions);
}

fn socket_of(root: &Root) -> Option<PathBuf> {
    let folders = fs::read_dir(root.folder().join("run/ostler")).into_iter().flatten().flatten();
    let mut names = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten());
    names.find(|entry| entry.file_name().as_encoded_bytes().starts_with(b"b-")).map(|entry| entry.path())
}

fn all_live_again(root: &Root, sessions: &[Value]) {
    for session in sessions {
        wait_until(SOON, "its host to have answered", || root.session(&session["id"])["reason"].is_null());
    }
    all_live(root, sessions);
}

#[test]
fn field_a09_a_foreign_record_or_a_replaced_lock_fences_the_broker() {
    let root = Root::new();
    let sessions = sessions(&root);
    let record = root.path().join("broker.json");
    let lock = root.path().join("broker.lock");

    let foreign = || {
        let mut other: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
        other["broker"]["incarnation"] = json!("0".repeat(64));
        fs::write(root.path().join("other"), other.to_string()).unwrap();
        fs::set_permissions(root.path().join("other"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(root.path().join("other"), &record).unwrap();
    };
    is_fenced(&root, &sessions, root.broker().unwrap(), foreign);

    let replaced = || {
        fs::copy(&lock, root.path().join("other")).unwrap();
        fs::rename(root.path().join("other"), &lock).unwrap();
    };
    is_fenced(&root, &sessions, root.broker().unwrap(), replaced);

    let gone = || fs::remove_file(&lock).unwrap();
    is_fenced(&root, &sessions, root.broker().unwrap(), gone);

    let moved = || fs::rename(&lock, root.folder().join("moved")).unwrap();
    is_fenced(&root, &sessions, root.broker().unwrap(), moved);
}

/// A broker that does not know yet that it lost its lock is asked for a start: it looks before it lets effects go.
#[test]
fn field_a_own_a_broker_without_its_lock_starts_nothing() {
    let root = Root::new();
    let broker = Process::of_value(&root.ensure()["pid"]);
    fs::remove_file(root.path().join("broker.lock")).unwrap();
    // Told to the old broker or, if that is gone already, to the next: either way it is done exactly once.
    let made = root.json(crate::support::scene::spawning(
        &["--key", "k"],
        &[crate::support::FIXTURE, "count", "starts", "--", "sleep"],
    ));
    wait_until(SOON, "the old broker to leave", || !broker.alive());
    wait_until(SOON, "the start to be counted", || root.lines("starts").len() == 1);
    assert_eq!(root.lines("starts"), [made["session"]["pid"].to_string()]);
}
