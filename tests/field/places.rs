//! Group K: folders of somebody else, planted links, and file systems that lack something.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::support::scene::text;
use crate::support::{Output, Process, Root, Running, SOON, finish, wait_until};

const NOBODY: u32 = 65_534;

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is there");
}

/// Report ray#4593: the first user owned the folder in the shared place, and the second one could not start.
#[test]
fn field_k04_a_folder_of_another_user_in_the_shared_place_is_refused_with_its_facts() {
    let root = Root::new();
    let deep = root.folder().join("d".repeat(110));
    let shared = root.folder().join("tmp");
    let taken = shared.join(format!("ostler-{}", nix::unistd::getuid()));
    for bits in [0o700, 0o777] {
        fs::create_dir(&taken).unwrap();
        chown(&taken, Some(NOBODY), Some(NOBODY)).unwrap();
        mode(&taken, bits);
        let mut ensure = root.command(["ensure", "--json", "--timeout", "20s"]);
        let refused = finish(ensure.env("OSTLER_ROOT", &deep).env_remove("XDG_RUNTIME_DIR"), b"");
        let error = refused.json()["error"].clone();
        assert_ne!(refused.code(), Some(0));
        let message = text(&error["message"]);
        assert!(message.contains(taken.to_str().unwrap()) && message.contains("65534"), "{error}");
        assert_eq!(fs::read_dir(&taken).unwrap().count(), 0, "and nothing is made in it");
        fs::remove_dir(&taken).unwrap();
        wait_until(SOON, "no starter to be left", || root.brokers().is_empty());
    }
    // With a place of one's own it works, whatever stands in the shared one.
    fs::create_dir(&taken).unwrap();
    chown(&taken, Some(NOBODY), Some(NOBODY)).unwrap();
    root.ensure();
}

/// Report claude-supertool#148: links planted at predictable names made a daemon write over a victim's file.
#[test]
fn field_k05_planted_links_are_written_through_by_nobody() {
    let root = Root::new();
    let session = root.spawn_fixture(&[], "sleep");
    let victim = root.folder().join("victim");
    fs::write(&victim, "precious").unwrap();
    let names = ["broker.lock", "broker.json", "broker.log", "start.lock", "request.secret", "ledger/writer.lock"];
    for name in names {
        root.kill_broker();
        let place = root.path().join(name);
        let kept = fs::read(&place).unwrap_or_default();
        let _absent = fs::remove_file(&place);
        symlink(&victim, &place).unwrap();
        let told = root.ostler(["ensure", "--json", "--timeout", "30s"]);
        assert_eq!(fs::read(&victim).unwrap(), b"precious", "{name}");
        if told.code() != Some(0) {
            let message = text(&told.json()["error"]["message"]).to_owned();
            let told = if name == "ledger/writer.lock" { "writer lock" } else { name };
            assert!(message.contains(root.path().to_str().unwrap()) && message.contains(told), "{name}: {message}");
            wait_until(SOON, "the starter to be gone", || root.brokers().is_empty());
            fs::remove_file(&place).unwrap();
            fs::write(&place, kept).unwrap();
            mode(&place, 0o600);
            root.ensure();
        }
        assert_eq!(root.session(&session["id"])["pid"], session["pid"], "{name}");
    }
    // The folder of the sockets, where others can get at it.
    root.json(["shutdown", "--stop-sessions"]);
    let elsewhere = root.folder().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let _gone = fs::remove_dir_all(root.folder().join("run/ostler"));
    symlink(&elsewhere, root.folder().join("run/ostler")).unwrap();
    let broker = root.ensure();
    assert!(!text(&broker["endpoint"]).contains("run/ostler/"), "another place is taken: {broker}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

/// Another user at the socket, let in by folders that were opened up: the broker looks at who it is.
#[test]
fn field_k_own_another_user_at_the_socket_is_told_to_leave() {
    let root = Root::new();
    let broker = root.ensure();
    let endpoint = text(&broker["endpoint"]).trim_start_matches("unix:").to_owned();
    let socket = Path::new(&endpoint);
    for folder in socket.ancestors().skip(1).take_while(|folder| folder.starts_with(root.folder())) {
        mode(folder, 0o711);
    }
    mode(socket, 0o666);
    let knock = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.settimeout(20); print(s.recv(4096).decode())";
    let mut stranger = Command::new("python3");
    stranger.args(["-c", knock, &endpoint]).uid(NOBODY).gid(NOBODY).current_dir("/");
    let told = finish(&mut stranger, b"").exits(0).text();
    assert!(told.contains("denied"), "{told}");
    for folder in socket.ancestors().skip(1).take_while(|folder| folder.starts_with(root.folder())) {
        mode(folder, 0o700);
    }
    assert_eq!(root.ensure()["incarnation"], broker["incarnation"]);
}

/// The folder of the sockets was in a shared place and is gone; another user has made it and listens there. He learns no token.
#[test]
fn field_k_own_whoever_squats_the_address_learns_nothing() {
    let root = Root::new();
    let deep = root.folder().join("d".repeat(110));
    let shared = root.folder().join("tmp");
    let client = |words: &[&str]| {
        let mut command = root.command(["--json"]);
        command.args(words).env("OSTLER_ROOT", &deep).env_remove("XDG_RUNTIME_DIR");
        finish(&mut command, b"")
    };
    let broker = client(&["ensure"]).exits(0).json()["broker"].clone();
    let endpoint = text(&broker["endpoint"]).trim_start_matches("unix:").to_owned();
    Process::of_value(&broker["pid"]).kill_9();
    let folder = shared.join(format!("ostler-{}", nix::unistd::getuid()));
    fs::remove_dir_all(&folder).unwrap();
    // Everybody may come this far, as in the usual temporary folder.
    mode(root.folder(), 0o755);
    mode(&shared, 0o777);
    let squat = "import os,socket,sys\nos.umask(0)\nos.makedirs(os.path.dirname(sys.argv[1]))\ns=socket.socket(socket.AF_UNIX)\n\
                 s.bind(sys.argv[1])\ns.listen()\nprint('listens',flush=True)\nwhile True:\n c,_=s.accept()\n c.settimeout(5)\n\
                 \x20print('got',c.recv(4096),flush=True)";
    let mut stranger = Command::new("python3");
    stranger.args(["-c", squat, &endpoint]).uid(NOBODY).gid(NOBODY).current_dir("/");
    let stranger = Running::start(&mut stranger);
    stranger.says("listens");
    for words in [&["ensure", "--timeout", "20s"][..], &["list", "--no-start", "--timeout", "20s"]] {
        let refused = client(words);
        let error = refused.json()["error"].clone();
        assert_ne!(refused.code(), Some(0));
        assert!(error["message"].to_string().contains("65534"), "whose it is stands in the error: {error}");
    }
    let status = client(&["status"]).exits(0).json();
    assert_ne!(status["state"], "running", "{status}");
    wait_until(SOON, "it to have heard of them, and of nothing else", || stranger.text().contains("got b''"));
    assert!(!stranger.text().contains("token"), "{}", stranger.text());
    wait_until(SOON, "no starter to be left", || root.brokers().is_empty());
    drop(stranger);
}

/// `ensure` on a system that answers this call with this error.
fn without(root: &Root, call: &str, error: &str) -> Output {
    finish(&mut Root::denied(&root.command(["ensure", "--json", "--timeout", "20s"]), call, error), b"")
}

/// Report watchman#697: locks on a network home were not supported. There is no broker then, and it is said why.
#[test]
fn field_k10_where_there_are_no_locks_there_is_no_broker() {
    for error in ["ENOLCK", "EOPNOTSUPP"] {
        let root = Root::new();
        let refused = without(&root, "flock", error);
        let told = refused.json()["error"].clone();
        assert_eq!(
            (&told["code"], &told["data"]["reason"]),
            (&json!("broker_blocked"), &json!("unlockable")),
            "{refused:?}"
        );
        let message = text(&told["message"]);
        assert!(message.contains("broker.lock cannot be locked") && message.contains("local file system"), "{message}");
        wait_until(SOON, "nobody to be left", || root.brokers().is_empty());
        assert!(!root.path().join("broker.json").exists());
        root.ensure();
    }
}

/// Report relay#381: a mounted drive had no sockets.
#[test]
fn field_k12_where_there_are_no_sockets_it_is_said_with_the_path() {
    let root = Root::new();
    let refused = without(&root, "bind", "EOPNOTSUPP");
    let told = refused.json()["error"].clone();
    assert_ne!(refused.code(), Some(0));
    let message = text(&told["message"]);
    assert!(message.contains("listen at") && message.contains(root.folder().to_str().unwrap()), "{message}");
    wait_until(SOON, "nobody to be left", || root.brokers().is_empty());
    assert!(!root.path().join("broker.json").exists());
    root.ensure();
}
