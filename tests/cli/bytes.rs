//! Arguments, environment and directories are bytes: the same bytes arrive, at any length that is allowed, and nothing that is
//! shown or recorded is broken by them.

use super::refused::refused;
use super::text;
use crate::support::{FIXTURE, Root};
use data_encoding::BASE64;
use serde_json::{Value, json};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Command line and environment together (contract section 4).
const COMMAND_BYTES: usize = 512 * 1024;
/// What Linux allows for one argument, its final NUL included.
const ARGUMENT_BYTES: usize = 131_072;

fn os(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

/// A byte string as documents show it.
fn shown(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes).map_or_else(|_| json!({"b64": BASE64.encode(bytes)}), |text| json!(text))
}

const ODD: [&[u8]; 9] =
    [b"\xff\xfe", b"a\nb", b"\t", b"\x1b[31m", b"-x", b"--", b"", "für \u{1f600}".as_bytes(), b"'\"\\$`"];

/// Report L11: turborepo#12823.
#[test]
fn field_l11_odd_bytes_arrive_as_they_were_given() {
    let root = Root::new();
    let folder = root.folder().join(os(b"w\xff\nd"));
    fs::create_dir(&folder).unwrap();
    let mut arguments: Vec<OsString> = ["run", "--name", "odd", "--cwd"].iter().map(OsString::from).collect();
    arguments.push(folder.clone().into());
    for (number, bytes) in ODD.iter().enumerate() {
        arguments
            .extend([OsString::from("--env"), OsString::from_vec([format!("V{number}=").as_bytes(), bytes].concat())]);
    }
    arguments.extend([
        OsString::from("--env"),
        os(b"N\xff=x=y").to_owned(),
        "--".into(),
        FIXTURE.into(),
        "dump".into(),
    ]);
    // The fixture splits its steps at `--`, so that one comes last, before a step that is one.
    let odd = || ODD.iter().filter(|bytes| **bytes != b"--").copied().chain([&b"--"[..], b"exit", b"0"]);
    arguments.extend(odd().map(|bytes| os(bytes).to_owned()));
    let dump = root.ostler(&arguments).exits(0).json();
    let argv: Vec<Value> = [FIXTURE.as_bytes(), b"dump"].into_iter().chain(odd()).map(shown).collect();
    assert_eq!(dump["argv"], json!(argv));
    assert_eq!(dump["cwd"], shown(folder.as_os_str().as_bytes()));
    let variable =
        |name: Value| dump["env"].as_array().unwrap().iter().find(|pair| pair[0] == name).map(|pair| pair[1].clone());
    for (number, bytes) in ODD.iter().enumerate() {
        assert_eq!(variable(json!(format!("V{number}"))), Some(shown(bytes)));
    }
    assert_eq!(variable(shown(b"N\xff")), Some(json!("x=y")));
    // Documents show the same, before and after the broker has read it back from the disk.
    let expected = (json!(argv), shown(folder.as_os_str().as_bytes()));
    for restart in [false, true] {
        if restart {
            root.ostler(["shutdown"]).exits(0);
        }
        let session = root.json(["show", "odd"])["session"].clone();
        assert_eq!((session["command"].clone(), session["cwd"].clone()), expected);
    }
    // A resume starts the same bytes again.
    root.ostler(["resume", "odd"]).exits(0);
    root.ostler(["wait", "odd"]).exits(0);
    assert_eq!(root.ostler(["logs", "odd"]).exits(0).json()["argv"], dump["argv"]);
    // What eyes see is one line a session, and drives no terminal; what the ledger holds is one line a record.
    let listed = root.ostler(["list"]).exits(0);
    assert_eq!(listed.text().lines().count(), 2);
    assert!(std::str::from_utf8(&listed.stdout).is_ok() && !listed.stdout.contains(&0x1b));
    for segment in fs::read_dir(root.path().join("ledger"))
        .unwrap()
        .flatten()
        .filter(|file| file.file_name().to_string_lossy().ends_with(".jsonl"))
    {
        let records = fs::read_to_string(segment.path()).unwrap();
        for line in records.lines().filter(|line| !line.is_empty()) {
            serde_json::from_str::<Value>(line).unwrap();
        }
    }
}

/// Reports L10: no-mistakes#485.
#[test]
fn field_l10_one_argument_may_be_as_long_as_the_system_allows() {
    let root = Root::new();
    let longest = "x".repeat(ARGUMENT_BYTES - 1);
    let output = root.ostler(["run", "--", "sh", "-c", "printf %s \"$1\" | wc -c", "sh", &longest]).exits(0);
    assert_eq!(output.text().trim(), (ARGUMENT_BYTES - 1).to_string());
    // One byte more cannot even be given to `ostler`; a client that talks to the broker is told.
    let too_long = "x".repeat(ARGUMENT_BYTES);
    let script = super::wire::Wire::hello(&root)
        .ask("session.spawn", json!({"key": "k", "name": "long", "command": ["echo", too_long], "cwd": "/"}));
    let data = &script["error"]["data"];
    assert!(data["code"] == "spawn_failed" && text(&data["detail"]).contains("too long"), "{data}");
    // Name and key are free.
    let again = super::wire::Wire::hello(&root)
        .ask("session.spawn", json!({"key": "k", "name": "long", "command": ["/bin/echo", "ok"], "cwd": "/"}));
    assert_eq!(again["result"]["operation"]["state"], "succeeded", "{again}");
}

#[test]
fn ten_thousand_arguments_are_counted_right() {
    let root = Root::new();
    let mut arguments: Vec<String> = ["run", "--", "sh", "-c", "echo $# ${10000}", "sh"].map(str::to_owned).to_vec();
    arguments.extend((1..=10_000).map(|number| number.to_string()));
    assert_eq!(root.ostler(&arguments).exits(0).text(), "10000 10000\n");
}

#[test]
fn the_command_line_has_a_limit_and_works_right_at_it() {
    let root = Root::new();
    let mut wire = super::wire::Wire::hello(&root);
    // Every argument counts with its NUL, every variable with its `=` and its NUL.
    let command = |bytes: usize| {
        let fixed = ["/bin/sh", "-c", "exit 7", "sh"];
        let taken: usize = fixed.iter().map(|argument| argument.len() + 1).sum();
        let mut left = bytes - taken;
        let mut command: Vec<String> = fixed.map(str::to_owned).to_vec();
        while left > 0 {
            let part = left.min(100_000);
            command.push("x".repeat(part - 1));
            left -= part;
        }
        command
    };
    let variable = json!([{"name": "A", "value": "b"}]);
    let spawn = |wire: &mut super::wire::Wire, key: &str, bytes: usize| {
        wire.ask(
            "session.spawn",
            json!({"key": key, "name": "big", "command": command(bytes), "env": variable, "cwd": "/"}),
        )
    };
    let refused_at = spawn(&mut wire, "k", COMMAND_BYTES + 1 - 4);
    assert_eq!(refused_at["error"]["data"]["code"], "too_large", "{refused_at}");
    let started = spawn(&mut wire, "k", COMMAND_BYTES - 4);
    assert_eq!(started["result"]["operation"]["state"], "succeeded", "{:.300}", started.to_string());
    assert_eq!(root.json(["wait", "big"])["session"]["exit"], json!({"code": 7}));
    root.ostler(["list"]).exits(0);
    // Through the command line, where the environment is the caller's.
    let mut arguments: Vec<String> = ["spawn", "--name", "bigger", "--"].map(str::to_owned).to_vec();
    arguments.extend(command(COMMAND_BYTES));
    let error = refused(&root, &arguments, 2, "too_large");
    assert_eq!(error["data"]["limit"], COMMAND_BYTES);
}

#[test]
fn a_nul_is_refused_wherever_a_client_sends_one() {
    let root = Root::new();
    let mut wire = super::wire::Wire::hello(&root);
    for params in [
        json!({"key": "k", "command": ["echo", "a\u{0}b"], "cwd": "/"}),
        json!({"key": "k", "command": ["echo"], "cwd": "/\u{0}"}),
        json!({"key": "k", "command": ["echo"], "cwd": "/", "env": [{"name": "A", "value": "\u{0}"}]}),
        json!({"key": "k", "command": ["echo"], "cwd": "/", "env": [{"name": "A=B", "value": ""}]}),
        json!({"key": "k", "command": ["echo"], "cwd": "/", "env": [{"name": "", "value": ""}]}),
        json!({"key": "k", "command": ["echo"], "cwd": "relative"}),
        json!({"key": "k", "command": [], "cwd": "/"}),
        json!({"key": "k", "command": [{"b64": "not base64!"}], "cwd": "/"}),
    ] {
        let answer = wire.ask("session.spawn", params.clone());
        assert_eq!(answer["error"]["data"]["code"], "invalid_input", "{params} {answer}");
    }
    let answer = wire.ask("session.spawn", json!({"key": "k", "command": ["true"], "cwd": "/"}));
    assert_eq!(answer["result"]["operation"]["replayed"], false, "{answer}");
}
