//! Which files the ledger's commands write to and read from: what is no regular file is never replaced and never waited for, and a folder
//! without a segment is no sound ledger.

use super::bad_ledgers::second_judge;
use super::refused::refused;
use super::text;
use crate::support::{Root, Running, finish};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use serde_json::json;
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;

/// A root with one session's life in its ledger, and no broker.
fn lived() -> Root {
    let root = Root::new();
    root.json(["spawn", "--name", "web", "--", "true"]);
    root.json(["wait", "web"]);
    root.ostler(["shutdown"]).exits(0);
    root
}

/// Every way to write a file, the path last.
const WRITERS: [&[&str]; 3] =
    [&["ledger", "export", "-o"], &["ledger", "history", "web", "--export"], &["ledger", "prove", "3", "--export"]];

fn with<'a>(command: &[&'a str], path: &'a Path) -> Vec<&'a str> {
    [command, &[path.to_str().unwrap()]].concat()
}

#[test]
fn a_pipe_or_device_is_written_through_and_stays() {
    let root = lived();
    let pipe = root.folder().join("pipe");
    nix::unistd::mkfifo(&pipe, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let link = root.folder().join("link");
    symlink(&pipe, &link).unwrap();
    for command in WRITERS {
        let expected = root.ostler(with(command, Path::new("-"))).exits(0).text();
        assert!(!expected.is_empty());
        for path in [&pipe, &link] {
            let reading = thread::spawn({
                let pipe = pipe.clone();
                move || fs::read_to_string(pipe).unwrap()
            });
            root.json(with(command, path));
            // Before the reader is waited for: it would wait for ever for a pipe that is gone.
            assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo() && link.is_symlink(), "{command:?}");
            assert_eq!(reading.join().unwrap(), expected, "{command:?}");
        }
    }
    // A device like /dev/null, made for this: nothing here may touch the machine's own.
    let device = root.folder().join("null");
    if let Err(error) = mknod(&device, SFlag::S_IFCHR, Mode::S_IRUSR | Mode::S_IWUSR, makedev(1, 3)) {
        eprintln!("NOT CHECKED: a device cannot be made here: {error}");
        return;
    }
    if let Err(error) = File::options().write(true).open(&device) {
        eprintln!("NOT CHECKED: a device cannot be opened here: {error}");
        return;
    }
    let inode = fs::metadata(&device).unwrap().ino();
    for command in WRITERS {
        root.json(with(command, &device));
        let there = fs::symlink_metadata(&device).unwrap();
        assert!(there.file_type().is_char_device() && there.ino() == inode, "{command:?}");
    }
}

#[test]
fn a_folder_or_socket_is_refused_and_a_link_to_a_file_is_replaced() {
    let root = lived();
    let (folder, socket) = (root.folder().join("folder"), root.folder().join("socket"));
    fs::create_dir(&folder).unwrap();
    let _listener = UnixListener::bind(&socket).unwrap();
    // As /dev/stdout is one, where a file is open: not to be replaced, and not to be written over either.
    let open = root.folder().join("open");
    symlink("/proc/self/exe", &open).unwrap();
    let (file, link) = (root.folder().join("file"), root.folder().join("link"));
    fs::write(&file, "mine").unwrap();
    for command in WRITERS {
        let flag = command.last().unwrap().replace("-o", "--output");
        for (path, next) in [
            (&folder, format!("{flag} {}/FILE", folder.display())),
            (&socket, format!("another {flag}")),
            (&open, format!("{flag} -")),
        ] {
            let error = refused(&root, &with(command, path), 2, "invalid_input");
            assert!(text(&error["data"]["remedy"]).contains(&next), "{error}");
        }
        symlink(&file, &link).unwrap();
        root.json(with(command, &link));
        assert!(!link.is_symlink() && fs::read(&file).unwrap() == b"mine", "the link itself is replaced");
        fs::remove_file(&link).unwrap();
    }
    assert!(socket.symlink_metadata().unwrap().file_type().is_socket() && open.is_symlink());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn a_dash_is_standard_output() {
    let root = lived();
    assert_eq!(
        root.ostler(["ledger", "export", "-o", "-"]).exits(0).text(),
        root.ostler(["ledger", "export"]).exits(0).text()
    );
    let of_web = root.ostler(["ledger", "export", "--session", "web"]).exits(0).text();
    assert_eq!(root.ostler(["ledger", "history", "web", "--export", "-"]).exits(0).text(), of_web);
    assert_eq!(
        root.ostler(["ledger", "prove", "3", "--export", "-"]).exits(0).text(),
        root.ostler(["ledger", "prove", "3"]).exits(0).text()
    );
    assert!(!root.folder().join("-").exists());
}

#[test]
fn following_ends_behind_the_last_record_that_is_meant() {
    let root = lived();
    let tail =
        |flags: &[&str]| root.ostler([&["ledger", "tail", "-f", "--json"], flags].concat()).exits(0).json_lines();
    let head = root.json(["ledger", "head"])["seq"].as_u64().unwrap();
    let to_head = tail(&["-n", "1000", "--to", &head.to_string()]);
    assert_eq!(to_head.last().unwrap()["record"]["seq"], head);
    assert_eq!(tail(&["--to", "3"]).len(), 3);
    assert_eq!(tail(&["--to", "3", "-n", "0"]).len(), 0);
    assert_eq!(tail(&["--to", "3", "--type", "finish"]).len(), 0);
    // One that is still to come.
    let next = (head + 1).to_string();
    let following = Running::start(&mut root.command([
        "ledger",
        "tail",
        "-f",
        "-n",
        "1",
        "--to",
        &next,
        "--from",
        &head.to_string(),
    ]));
    following.says(&head.to_string());
    root.json(["ensure"]);
    assert_eq!(following.end().exits(0).text().lines().count(), 2);
    let error = refused(&root, &["ledger", "tail", "-f", "--until", "2020-01-01"], 2, "invalid_input");
    assert!(text(&error["data"]["remedy"]).contains("--to SEQ"), "{error}");
}

#[test]
fn a_folder_without_a_segment_is_no_sound_ledger() {
    let mut root = lived();
    let (own, empty) = (root.path().join("ledger"), root.folder().join("empty"));
    fs::create_dir(&empty).unwrap();
    fs::write(empty.join("1.jsonl"), "").unwrap();
    let head = root.json(["ledger", "head"]);
    let kept = format!("{}:{}", head["seq"], text(&head["digest"]));
    let readers: [&[&str]; 8] = [
        &["head"],
        &["verify"],
        &["stats"],
        &["tail"],
        &["export"],
        &["show", "3"],
        &["history", "web"],
        &["prove", "3"],
    ];
    // The state root in place of its ledger: the one that is meant is named. Nothing anywhere: that is said.
    for (folder, next) in [(root.path(), format!("--ledger {}", own.display())), (empty, "another --ledger".into())] {
        for reader in readers {
            let command = [&["ledger"], reader, &["--ledger", folder.to_str().unwrap()]].concat();
            let error = refused(&root, &command, 3, "not_found");
            assert_eq!(error["message"], format!("no segment file in {}", folder.display()));
            assert!(text(&error["data"]["remedy"]).contains(&next), "{error}");
        }
        let python = second_judge(&folder);
        let said = format!("no segment file in {}", folder.display());
        assert!(python.code() == Some(3) && python.error_text().contains(&said), "{python:?}");
        assert_eq!(python.error_text().contains(own.to_str().unwrap()), folder == root.path(), "{python:?}");
    }
    // Its only segment is deleted.
    root.damages_the_ledger();
    fs::remove_file(own.join("00000000000000000001.jsonl")).unwrap();
    for reader in readers {
        let error = refused(&root, &[&["ledger"], reader].concat(), 3, "not_found");
        assert!(text(&error["message"]).starts_with("no segment file in "), "{error}");
    }
    let lost = root.ostler(["--json", "ledger", "verify", "--since", &kept]).exits(8).json();
    assert_eq!(lost["problems"][0]["class"], "loss", "against a head that was kept it is more than nothing");
    let doctor = root.ostler(["--json", "doctor"]).json();
    let check = doctor["checks"].as_array().unwrap().iter().find(|check| check["check"] == "ledger").unwrap();
    assert_eq!(check["status"], "skip", "{check}");
}

#[test]
fn what_is_verified_has_an_end() {
    let root = lived();
    let pipe = root.folder().join("pipe");
    nix::unistd::mkfifo(&pipe, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let head = root.json(["ledger", "head"]);
    let head = format!("{}:{}", head["seq"], text(&head["digest"]));
    for path in [pipe.to_str().unwrap(), "/dev/zero", "home"] {
        for command in [&["--history", path][..], &["--proof", path, "--head", &head]] {
            let error = refused(&root, &[&["ledger", "verify"], command].concat(), 2, "invalid_input");
            assert!(text(&error["message"]).contains("no regular file"), "{error}");
        }
    }
    // A pipe is read as standard input.
    let lines = root.ostler(["ledger", "history", "web", "--export", "-"]).exits(0).text();
    let piped = finish(&mut root.command(["--json", "ledger", "verify", "--history", "-"]), lines.as_bytes()).exits(0);
    assert_eq!(piped.json()["records"], json!(lines.lines().count()));
    let proof = root.ostler(["ledger", "prove", "3"]).exits(0).text();
    finish(&mut root.command(["ledger", "verify", "--proof", "-", "--head", &head]), proof.as_bytes()).exits(0);
    // One byte longer than any history can be, and not read for it.
    let long = root.folder().join("long");
    File::create(&long).unwrap().set_len((16 << 30) + 1).unwrap();
    let error = refused(&root, &["ledger", "verify", "--history", long.to_str().unwrap()], 2, "too_large");
    assert!(text(&error["message"]).contains("17179869184 bytes"), "{error}");
}
