//! What a dead broker, a full disk or a stranger left in the lock's place is no obstacle: the next start needs no hand and
//! no wait, and signals nobody.
#![expect(clippy::disallowed_methods, reason = "starts bystanders by hand")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use ostler::broker::quarantine::{KEPT_MAX, is_quarantined};
use serde_json::{Value, json};

use crate::support::scene::text;
use crate::support::{FIXTURE, Process, Root, SOON, finish, wait_until};

/// A process that has nothing to do with any broker, and would die of any signal that it is sent.
struct Bystander {
    child: Child,
    process: Process,
}

impl Bystander {
    fn new() -> Bystander {
        let child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let process = Process::of(child.id().into()).unwrap();
        Bystander { child, process }
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let unharmed = self.process.alive();
        drop(self.child.kill());
        drop(self.child.wait());
        assert!(unharmed || std::thread::panicking(), "somebody signalled a bystander");
    }
}

fn lock(root: &Root) -> PathBuf {
    root.path().join("broker.lock")
}

/// The owner record that the killed broker left.
fn record(root: &Root) -> Value {
    serde_json::from_slice(&fs::read(lock(root)).unwrap()).unwrap()
}

fn set_aside(root: &Root) -> Vec<String> {
    root.names("").into_iter().filter(|name| is_quarantined(name)).collect()
}

/// One start by the plain command; which says that it started, and took no time-out to do so.
fn starts_at_once(root: &Root, before: &Value) -> Value {
    // The clients of a root whose owner is dead do not even come near their deadline.
    let report = root.json(["ensure", "--timeout", "20s"]);
    assert_eq!(report["started"], true);
    assert_eq!(report["broker"]["generation"].as_u64(), before["generation"].as_u64().map(|of| of + 1));
    report["broker"].clone()
}

/// Makes what is put into the lock of what the dead broker left there.
type Forge<'a> = Box<dyn Fn(&mut Value) -> Vec<u8> + 'a>;

#[test]
fn whatever_stands_in_the_lock_is_no_obstacle() {
    let bystander = Bystander::new();
    let root = Root::new();
    let mut broker = root.ensure();
    let session = root.spawn_fixture(&[], "sleep");
    let pid = |record: &mut Value, pid: i64| record["identity"]["pid"] = json!(pid);
    let torn = |record: &Value| record.to_string().as_bytes()[..100].to_vec();
    let cases: Vec<(&str, Forge<'_>)> = vec![
        ("as it was left", Box::new(|record| record.to_string().into_bytes())),
        (
            "the pid of a bystander",
            Box::new(|record| {
                pid(record, bystander.process.pid.into());
                record.to_string().into_bytes()
            }),
        ),
        (
            "the pid of nobody",
            Box::new(|record| {
                pid(record, 4_194_304);
                record.to_string().into_bytes()
            }),
        ),
        (
            "pid 0",
            Box::new(|record| {
                pid(record, 0);
                record.to_string().into_bytes()
            }),
        ),
        (
            "pid -1",
            Box::new(|record| {
                pid(record, -1);
                record.to_string().into_bytes()
            }),
        ),
        (
            "another boot",
            Box::new(|record| {
                pid(record, bystander.process.pid.into());
                record["identity"]["boot"] = json!("00000000-0000-0000-0000-000000000000");
                record.to_string().into_bytes()
            }),
        ),
        ("torn", Box::new(|record| torn(record))),
        ("empty", Box::new(|_| Vec::new())),
        ("NUL", Box::new(|_| vec![0; 512])),
        ("megabytes", Box::new(|_| vec![b'x'; 3_000_000])),
    ];
    for (what, bytes) in cases {
        root.kill_broker();
        let mut left = record(&root);
        fs::write(lock(&root), bytes(&mut left)).unwrap();
        let next = starts_at_once(&root, &broker);
        let status = root.json(["status"]);
        assert_eq!((&status["state"], &status["lock"]["owner"]["pid"]), (&json!("running"), &next["pid"]), "{what}");
        assert_eq!(root.session(&session["id"])["pid"], session["pid"], "{what}");
        assert!(bystander.process.alive(), "{what}");
        broker = next;
    }
    assert!(set_aside(&root).len() <= KEPT_MAX);
}

#[test]
fn a_folder_a_link_or_a_socket_in_the_locks_place_is_set_aside() {
    let root = Root::new();
    let mut broker = root.ensure();
    let outside = root.folder().join("outside");
    fs::write(&outside, "precious").unwrap();
    let place: [(&str, &dyn Fn()); 4] = [
        ("a folder", &|| fs::create_dir_all(lock(&root).join("inner")).unwrap()),
        ("a link to a file", &|| std::os::unix::fs::symlink(&outside, lock(&root)).unwrap()),
        ("a link to nowhere", &|| std::os::unix::fs::symlink("/nonexistent", lock(&root)).unwrap()),
        ("a socket", &|| drop(std::os::unix::net::UnixListener::bind(lock(&root)).unwrap())),
    ];
    for (what, put) in place {
        root.kill_broker();
        fs::remove_file(lock(&root)).unwrap();
        put();
        broker = starts_at_once(&root, &broker);
        assert!(fs::symlink_metadata(lock(&root)).unwrap().is_file(), "{what}");
    }
    assert_eq!(fs::read_to_string(&outside).unwrap(), "precious");
    assert_eq!(set_aside(&root).len(), 4, "each stays as evidence, beside the one record that was overwritten: none");
}

fn old_records(root: &Root, number: u64) {
    for n in 0..number {
        let name = format!(".broker.lock.stale-{n:064x}-{n:016x}");
        let file = fs::File::create(root.path().join(name)).unwrap();
        // Half of them beyond the age.
        let age = Duration::from_secs(if n % 2 == 0 { 48 * 3600 } else { 60 + n });
        file.set_modified(SystemTime::now() - age).unwrap();
    }
}

#[test]
fn sixty_records_of_dead_owners_are_swept_by_the_next_start() {
    let root = Root::new();
    let broker = root.ensure();
    root.kill_broker();
    old_records(&root, 60);
    assert_eq!(set_aside(&root).len(), 60);
    starts_at_once(&root, &broker);
    let left = set_aside(&root);
    assert_eq!(left.len(), KEPT_MAX, "{left:?}");
    let digest = |name: &String| name.contains(&format!("{:064x}", 1));
    assert!(left.iter().any(digest), "the newest stay");
    // The one that was killed is among them, and the ledger names it.
    let log = fs::read_to_string(root.path().join("broker.log")).unwrap();
    let kept = left.iter().find(|name| log.contains(name.as_str())).expect("the log names what was set aside");
    let records: String = fs::read_dir(root.path().join("ledger"))
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path()).ok())
        .collect();
    assert!(records.contains(kept.as_str()), "the reclaim is a record");
}

/// A guard of the clients that somebody left, held by nobody.
#[test]
fn a_left_over_guard_of_the_clients_makes_nobody_wait() {
    let bystander = Bystander::new();
    let root = Root::new();
    let broker = root.ensure();
    root.kill_broker();
    fs::write(root.path().join("start.lock"), bystander.process.pid.to_string()).unwrap();
    starts_at_once(&root, &broker);
}

/// What was published by the dead is believed by nobody: the address leads to a bystander that says nothing.
#[test]
fn field_b_own_a_left_over_address_at_which_a_stranger_listens_is_passed_by() {
    let root = Root::new();
    let broker = root.ensure();
    root.kill_broker();
    let address = text(&broker["endpoint"]).trim_start_matches("unix:").to_owned();
    fs::remove_file(&address).unwrap();
    let _stranger = std::os::unix::net::UnixListener::bind(&address).unwrap();
    starts_at_once(&root, &broker);
}

/// A host that is killed as it goes leaves its socket. What has no session any more is found by nobody else than the next start.
#[test]
fn sockets_of_hosts_that_were_killed_go_with_the_next_start_and_those_of_living_ones_stay() {
    let root = Root::new();
    let session = root.spawn_fixture(&[], "sleep");
    let address = text(&session["endpoint"]["address"]).trim_start_matches("unix:").to_owned();
    let left = Path::new(&address).with_file_name("h-0123456789abcdef");
    drop(std::os::unix::net::UnixListener::bind(&left).unwrap());
    root.kill_broker();
    assert!(left.exists());
    root.ensure();
    assert!(!left.exists());
    assert!(Path::new(&address).exists(), "its host listens");
    assert_eq!(root.session_becomes(&session["id"], "ready")["endpoint"], session["endpoint"]);
}

/// A host that is killed after its command has ended cannot remove its socket, and no evidence is asked any more.
#[test]
fn the_socket_of_a_host_that_was_killed_last_goes_with_its_session() {
    let root = Root::new();
    // What is left of the command's group does not heed TERM, so that its host stays for the grace. The command ends once that is so.
    let ready = root.folder().join("ready").to_str().expect("a path of a test").to_owned();
    let child = format!("ignore-term -- append {ready} yes -- sleep");
    let session = root.spawn(&[], &[FIXTURE, "child", &child, "--", "until", &ready, "--", "exit", "0"]);
    let host = Process::of_value(&session["host_pid"]);
    root.session_becomes(&session["id"], "exited");
    let said = root.ostler(["logs", text(&session["id"])]).exits(0).text();
    let child = said.trim().strip_prefix("child ").and_then(|pid| Process::of(pid.parse().ok()?)).expect("it lives");
    host.kill_9();
    child.kill_9();
    assert_eq!(root.sockets().len(), 2, "that of the broker, and that of the host");
    root.json(["delete", text(&session["id"])]);
    wait_until(SOON, "the socket to go", || root.sockets().len() == 1);
}

/// A broker that is slow to dial finds the command ended and its host at what that left behind, which has ten seconds.
#[test]
fn an_end_is_told_at_once_though_nobody_listened_when_it_came() {
    let root = Root::new();
    finish(root.command(["ensure"]).env("OSTLER_TEST_FAIL", "adopt.dial=pause:1000"), b"").exits(0);
    let ready = root.folder().join("ready").to_str().expect("a path of a test").to_owned();
    let child = format!("ignore-term -- append {ready} yes -- sleep");
    let session = root.spawn(&[], &[FIXTURE, "child", &child, "--", "until", &ready, "--", "exit", "0"]);
    root.session_becomes(&session["id"], "exited");
    let said = root.ostler(["logs", text(&session["id"])]).exits(0).text();
    let child = said.trim().strip_prefix("child ").and_then(|pid| Process::of(pid.parse().ok()?));
    child.expect("what the command left behind still has its grace").kill_9();
}
