//! State roots that cannot serve, and left-overs that must not matter, on the product itself: each is told at once with
//! its facts, or overcome without a hand.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;

use ostler::os::entropy;
use serde_json::Value;

use crate::support::leftovers::leftovers;
use crate::support::{Output, Root, SOON, finish, wait_until};

fn ensure_of(root: &Root, path: &Path) -> Output {
    finish(root.command(["--json", "ensure"]).env("OSTLER_ROOT", path), b"")
}

fn error(output: &Output) -> Value {
    output.json()["error"].clone()
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
}

#[test]
fn a_root_that_is_a_file_or_open_to_others_is_refused_with_its_facts() {
    let root = Root::new();
    let file = root.folder().join("file");
    std::fs::write(&file, "mine").unwrap();
    let output = ensure_of(&root, &file).exits(2);
    assert_eq!(error(&output)["data"]["reason"], "not_a_folder");
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");

    let open = root.folder().join("open");
    std::fs::create_dir(&open).unwrap();
    chmod(&open, 0o755);
    let output = ensure_of(&root, &open).exits(7);
    let message = error(&output)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("mode 0755") && message.contains("chmod 700"), "{message}");
    assert_eq!(std::fs::read_dir(&open).unwrap().count(), 0, "nothing was made in it");
}

#[test]
fn field_a16_another_users_root_is_refused_with_both_users() {
    let root = Root::new();
    let theirs = root.folder().join("theirs");
    std::fs::create_dir(&theirs).unwrap();
    chmod(&theirs, 0o700);
    // Only root can give a folder away; for others /proc/1 is a folder that is not theirs.
    let path = if chown(&theirs, Some(4242), None).is_ok() { theirs } else { "/proc/1".into() };
    let output = ensure_of(&root, &path).exits(7);
    let message = error(&output)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("belongs to uid"), "{message}");
}

/// Its configuration cannot even be read; whose root it is says more than that.
#[test]
fn every_command_says_whose_the_root_of_another_user_is() {
    const NOBODY: u32 = 65_534;
    let open = tempfile::tempdir_in("/tmp").unwrap();
    chmod(open.path(), 0o755);
    let (theirs, program) = (open.path().join("theirs"), open.path().join("ostler"));
    std::fs::create_dir(&theirs).unwrap();
    std::fs::write(theirs.join("config.toml"), "").unwrap();
    chmod(&theirs, 0o700);
    crate::support::copy_program(crate::support::OSTLER, &program);
    if chown(&theirs, Some(0), None).is_err() {
        eprintln!("NOT CHECKED: only root can be another user");
        return;
    }
    for arguments in [&["stop", "x"][..], &["spawn", "--", "true"], &["list"], &["ensure"], &["logs", "x"]] {
        let mut command = std::process::Command::new(&program);
        command.arg("--json").args(arguments).env_clear().current_dir("/").uid(NOBODY).gid(NOBODY);
        let output = finish(command.env("OSTLER_ROOT", &theirs).env("HOME", "/nonexistent"), b"").exits(7);
        let error = error(&output);
        assert_eq!(error["code"], "denied", "{output:?}");
        let message = error["message"].as_str().unwrap();
        let said = format!("{} belongs to uid 0 (mode 0700) and this is uid {NOBODY}", theirs.display());
        assert!(message.contains(&said), "{message}");
    }
}

#[test]
fn a_root_that_cannot_be_made_is_told_with_path_and_reason() {
    let root = Root::new();
    let output = ensure_of(&root, Path::new("/proc/ostler"));
    assert_ne!(output.code(), Some(0));
    let error = error(&output);
    assert_eq!(error["data"]["path"], "/proc/ostler");
    assert!(error["data"]["errno"].is_string(), "{error}");
}

#[test]
fn without_any_place_for_a_root_there_is_an_error_and_no_other_place() {
    let root = Root::new();
    let mut command = root.command(["--json", "ensure"]);
    command.env_remove("OSTLER_ROOT").env_remove("HOME");
    let output = finish(&mut command, b"").exits(2);
    assert_eq!(error(&output)["code"], "invalid_input");
    assert!(error(&output)["message"].as_str().unwrap().contains("OSTLER_ROOT"), "{output:?}");
}

#[test]
fn a_deep_root_finds_a_short_place_for_its_sockets() {
    let root = Root::new();
    let deep = root.folder().join("d".repeat(120));
    let mut command = root.command(["--json", "ensure"]);
    let document = finish(command.env("OSTLER_ROOT", &deep).env_remove("XDG_RUNTIME_DIR"), b"").exits(0).json();
    let endpoint = document["broker"]["endpoint"].as_str().unwrap();
    assert!(endpoint.len() < 108 && Path::new(endpoint.strip_prefix("unix:").unwrap()).exists(), "{endpoint}");
    let tmp = root.folder().join("t".repeat(120));
    std::fs::create_dir(&tmp).unwrap();
    finish(root.command(["--root", deep.to_str().unwrap(), "shutdown"]).env("TMPDIR", &tmp), b"").exits(0);
    // Shutdown returns once a successor could start, which is a moment before the process is gone.
    wait_until(SOON, "the end of the broker", || leftovers(root.folder()).is_empty());
}

/// What a crash, a power cut or a hand may leave in place of the lock. Each start needs no hand and signals nobody.
#[test]
fn left_overs_of_a_lock_are_overcome_at_once() {
    let root = Root::new();
    root.json(["ensure"]);
    root.ostler(["shutdown"]).exits(0);
    let lock = root.path().join("broker.lock");
    let released = std::fs::read_to_string(&lock).unwrap();
    let me = format!("\"pid\":{}", std::process::id());
    let dead = released.replace("\"released\":true", "\"released\":false");
    let pid = dead.split("\"pid\":").nth(1).unwrap().split(',').next().unwrap().to_owned();
    let unrelated = dead.replace(&format!("\"pid\":{pid}"), &me);
    assert!(dead != released && unrelated != dead);
    let records: [(&str, Vec<u8>); 6] = [
        ("a dead owner", dead.clone().into_bytes()),
        ("an unrelated living process", unrelated.into_bytes()),
        ("torn", dead.as_bytes()[..dead.len() / 2].to_vec()),
        ("empty", Vec::new()),
        ("filled with NUL", vec![0; 4096]),
        ("of another program", b"4711\n".to_vec()),
    ];
    for _ in 0..60 {
        let name = format!(".broker.lock.stale-{}-{}", entropy::hex::<32>(), entropy::hex::<8>());
        std::fs::write(root.path().join(name), "old").unwrap();
    }
    for (what, bytes) in records {
        std::fs::write(&lock, bytes).unwrap();
        let document = root.json(["ensure"]);
        assert_eq!(document["started"], true, "{what}");
        root.ostler(["shutdown"]).exits(0);
    }
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir_all(lock.join("inner")).unwrap();
    assert_eq!(root.json(["ensure"])["started"], true, "a folder in its place");
    let names = std::fs::read_dir(root.path()).unwrap().flatten();
    let kept = names.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b".broker.lock.stale-")).count();
    assert!(kept <= ostler::broker::quarantine::KEPT_MAX, "{kept} records are kept");
}

/// Behind the root's own mode nobody else can open them; a session is not lost for one, and the doctor names it.
#[test]
fn a_file_below_the_root_that_is_open_to_others_is_refused_only_where_it_decides() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s"], "sleep");
    root.ostler(["shutdown"]).exits(0);
    let of_session = format!("sessions/{}/spec.json", session["id"].as_str().unwrap());
    for name in ["broker.lock", "ledger/00000000000000000001.jsonl", "request.secret", &of_session] {
        let file = root.path().join(name);
        chmod(&file, 0o644);
        let told = root.ostler(["--json", "ensure"]);
        if name.contains("lock") || name.contains("ledger") {
            let message = error(&told)["message"].to_string();
            assert!(message.contains(name) && message.contains("0644"), "{name}: {message}");
        } else {
            assert_eq!(told.code(), Some(0), "{name}: {told:?}");
            root.json(["resume", "s"]);
        }
        let checks = root.ostler(["--json", "doctor"]).json()["checks"].clone();
        let modes = checks.as_array().unwrap().iter().find(|check| check["check"] == "modes").unwrap();
        assert!(modes["status"] == "fail" && modes["evidence"].to_string().contains(name), "{name}: {modes}");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644, "nothing repairs it");
        chmod(&file, 0o600);
    }
}

/// Report chrome-devtools-mcp#2766: modes do not follow the umask of whoever comes first.
#[test]
fn field_k07_everything_is_private_under_any_umask() {
    for umask in ["000", "022", "077"] {
        let root = Root::new();
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-c", &format!("umask {umask} && exec \"$0\" \"$@\""), crate::support::OSTLER]);
        shell.args(["--json", "spawn", "--", "sh", "-c", "umask; exec sleep 1000"]).current_dir(root.folder());
        let plain = root.command(["spawn"]);
        shell.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let id = finish(&mut shell, b"").exits(0).json()["session"]["id"].as_str().unwrap().to_owned();
        let mut open = Vec::new();
        let mut folders = vec![root.path(), root.folder().join("run/ostler")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap().flatten() {
                let mode = entry.metadata().unwrap().permissions().mode() & 0o7777;
                if mode & 0o077 != 0 {
                    open.push(format!("{:04o} {}", mode, entry.path().display()));
                }
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        assert!(open.is_empty(), "under {umask}: {open:#?}");
        // The command has its caller's.
        wait_until(SOON, "its first line", || root.ostler(["logs", &id]).text() == format!("0{umask}\n"));
    }
}
