//! Group F: odd things in the place of each file of a root. A broker comes up, or one refusal says what stands where; nobody hangs, nothing
//! panics, and what runs goes on.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use nix::sys::stat::Mode;
use serde_json::json;

use crate::support::scene::text;
use crate::support::{Process, Root, SOON, finish, wait_until};

/// The bytes of a file; a pipe would be waited for, for ever.
fn bytes(place: &Path) -> Option<Vec<u8>> {
    let is_file = fs::symlink_metadata(place).is_ok_and(|there| there.is_file());
    is_file.then(|| fs::read(place).expect("the root is ours"))
}

/// Removes whatever is there.
fn clear(place: &Path) {
    let is_folder = fs::symlink_metadata(place).is_ok_and(|there| there.is_dir());
    let _gone = if is_folder { fs::remove_dir_all(place) } else { fs::remove_file(place) };
}

fn private(place: &Path, bytes: &[u8]) {
    fs::write(place, bytes).expect("the root is ours");
    fs::set_permissions(place, fs::Permissions::from_mode(0o600)).expect("it is ours");
}

/// What is put into a file's place, of what was in it.
type Oddity = (&'static str, fn(&Path, &[u8]));

const ODDITIES: [Oddity; 10] = [
    ("nothing", |_, _| ()),
    ("no bytes", |place, _| private(place, b"")),
    ("half of it", |place, bytes| private(place, &bytes[..bytes.len() / 2])),
    ("NUL", |place, bytes| private(place, &vec![0; bytes.len().max(64)])),
    ("other bytes", |place, _| private(place, &[b"\xff\xfe{\"a\":[1,2", &[7; 300][..]].concat())),
    ("much", |place, _| private(place, &vec![b'x'; 9 * 1024 * 1024])),
    ("a folder", |place, _| fs::create_dir_all(place.join("inner")).expect("the root is ours")),
    ("a link to itself", |place, _| std::os::unix::fs::symlink(place, place).expect("the root is ours")),
    ("a pipe", |place, _| nix::unistd::mkfifo(place, Mode::S_IRUSR | Mode::S_IWUSR).expect("the root is ours")),
    ("a socket", |place, _| drop(UnixListener::bind(place).expect("its path is short"))),
];

/// Puts each of them into the place of `name`, while no broker runs.
fn sweep(name: &str) {
    let root = Root::new();
    let session = root.spawn_fixture(&["--key", "k"], "sleep");
    let command = Process::of_value(&session["pid"]);
    let place = root.path().join(name);
    for (what, put) in ODDITIES {
        root.kill_broker();
        let there = bytes(&place);
        clear(&place);
        put(&place, there.as_deref().unwrap_or_default());
        // Whoever tells of a start that failed reads the end of the log.
        let failed = finish(root.command(["ensure", "--json"]).env("OSTLER_TEST_FAIL", "start.generation=kill"), b"");
        assert_ne!(failed.code(), Some(0), "{name}, {what}");
        assert_ne!(failed.error_code(), "timeout", "{name}, {what}");
        wait_until(SOON, "the starter to be gone", || root.brokers().is_empty());
        let told = root.ostler(["ensure", "--json", "--timeout", "30s"]);
        let log = bytes(&root.path().join("broker.log")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&log).contains("panicked"), "{name}, {what}: {log:?}");
        root.ostler(["status", "--json"]).exits(0);
        root.ostler(["doctor", "--json"]).json();
        if told.code() != Some(0) {
            let error = told.json()["error"].clone();
            let path = root.path().display().to_string();
            assert!(text(&error["message"]).contains(&path), "{name}, {what}: {error}");
            assert!(!["timeout", "internal"].contains(&text(&error["code"])), "{name}, {what}: {error}");
            wait_until(SOON, "no starter to be left", || root.brokers().is_empty());
            clear(&place);
            there.iter().for_each(|bytes| private(&place, bytes));
            root.ensure();
        }
        assert!(command.alive(), "{name}, {what}");
        let found = root.session(&session["id"]);
        assert_eq!((&found["pid"], &found["status"]), (&session["pid"], &json!("ready")), "{name}, {what}: {found:#}");
    }
}

#[test]
fn field_f18_an_odd_lock_or_record_is_no_obstacle() {
    sweep("broker.lock");
    sweep("broker.json");
    sweep("start.lock");
}

#[test]
fn field_f18_an_odd_secret_or_configuration_is_told() {
    sweep("request.secret");
    sweep("config.toml");
}

#[test]
fn field_f18_an_odd_log_or_writer_lock_is_told_or_passed_by() {
    sweep("broker.log");
    sweep("broker.log.previous");
    sweep("ledger/writer.lock");
}
