//! More connections than the broker has descriptors for: those who knock are told, the log stays short, and when they are
//! gone the broker serves as before.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use ostler::os::folder::Folder;
use ostler::rpc::record;

use crate::support::{OSTLER, Root, finish};

#[test]
fn field_j03_running_out_of_descriptors_is_told_and_survived() {
    let root = Root::new();
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "ulimit -n 64 && exec \"$0\" --json ensure", OSTLER]).stdin(Stdio::null()).env_clear();
    let ensure = root.command(["ensure"]);
    shell.envs(ensure.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(root.folder());
    finish(&mut shell, b"").exits(0);
    let broker = root.broker().expect("it answers");

    let found = record::read(&Folder::open(&root.path()).unwrap()).unwrap().record().unwrap();
    let path = found.broker.endpoint.strip_prefix("unix:").unwrap();
    // They stay silent: those that got in have five seconds, the others are told at once.
    let crowd: Vec<UnixStream> = (0..200).map(|_| UnixStream::connect(path).unwrap()).collect();
    let mut refused = 0;
    for stream in &crowd {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        let answer: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        let reason = answer["error"]["data"]["reason"].as_str().unwrap().to_owned();
        assert!(reason == "descriptors" || reason == "hello", "{answer}");
        refused += usize::from(reason == "descriptors");
    }
    assert!(refused > 100, "{refused} of 200 were told that there is no descriptor");
    drop(crowd);

    assert_eq!(root.broker(), Some(broker));
    assert_eq!(root.json(["ensure"])["started"], false);
    let log = std::fs::read_to_string(root.path().join("broker.log")).unwrap();
    let lines = log.lines().filter(|line| line.contains("no connection can be accepted")).count();
    assert!((1..10).contains(&lines), "{log}");
}
