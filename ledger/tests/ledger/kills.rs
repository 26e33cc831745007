//! `kill -9` of a real writer: what it acknowledged to another process is there, and nothing looks tampered with.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ostler_ledger::storage::Disk;
use ostler_ledger::{Class, Ledger, Options, VerifyOptions, verify_folder};

use crate::support::*;

const ROOT: &str = "OSTLER_LEDGER_KILL_ROOT";
const ROUNDS: usize = 50;
const LONG_ROUNDS: usize = 1_000;
/// So often one ledger's writer is killed: each round reads all that the ledger has become.
const ROUNDS_A_LEDGER: usize = 25;

fn open_at(root: &Path) -> (Ledger<Disk>, ostler_ledger::Recovery) {
    let disk = Disk::new(root.join("ledger"), root.join("quarantine"));
    let options = Options { lock_wait: Duration::from_secs(60), segment_bytes: 1 << 20, ..options(BOOT) };
    Ledger::open(disk, options).unwrap()
}

/// The writer: run by the test below in a process of its own, and doing nothing when run as a test.
#[test]
#[expect(clippy::disallowed_methods, reason = "the parent test hands over the folder in the environment")]
#[expect(clippy::print_stdout, reason = "an acknowledgement is a line to the parent")]
fn writer() {
    let Some(root) = std::env::var_os(ROOT) else { return };
    let (mut ledger, recovery) = open_at(Path::new(&root));
    let mut batch = recovery.owed;
    for number in 0.. {
        batch.extend((0..8).map(|_| entry(Some("s"), &"x".repeat(number * 1009 % 30_000))));
        let positions = ledger.append(&batch, &STAMP).unwrap();
        ledger.sync().unwrap();
        println!("acknowledged {}", positions.last().unwrap());
        batch.clear();
    }
}

#[test]
fn a_killed_writer_loses_nothing_that_it_acknowledged() {
    kill_writers(ROUNDS);
}

#[test]
#[ignore = "minutes: a thousand kills"]
#[expect(clippy::disallowed_methods, reason = "a test reads how much it is to do")]
fn long_kills_of_writers() {
    let rounds = std::env::var("OSTLER_TEST_ROUNDS").ok().map(|text| text.parse().expect("a number of rounds"));
    kill_writers(rounds.unwrap_or(LONG_ROUNDS));
}

fn kill_writers(rounds: usize) {
    let mut torn = 0;
    for first in (0..rounds).step_by(ROUNDS_A_LEDGER) {
        let root = tempfile::tempdir().unwrap();
        for round in first..rounds.min(first + ROUNDS_A_LEDGER) {
            torn += u32::from(kill_writer(root.path(), round));
        }
        let report = verify_folder(&root.path().join("ledger"), &VerifyOptions::default()).unwrap();
        assert!(report.ok() && report.records > 100, "{report:?}, {torn} tails were torn");
    }
}

/// One life of a writer. Returns whether the kill tore a write.
fn kill_writer(root: &Path, round: usize) -> bool {
    #[expect(clippy::disallowed_methods, reason = "the writer has to be a process, to be killed")]
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::writer", "--nocapture"])
        .env(ROOT, root)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    // The first test output and an acknowledgement can share a line.
    let lines = output.lines().map_while(Result::ok);
    let mut acknowledged = lines.filter_map(|line| line.split_once("acknowledged ").map(|(_, head)| head.to_owned()));
    let mut last = acknowledged.nth(round * 3 % 17).expect("the writer writes");
    child.kill().unwrap();
    child.wait().unwrap();
    last = acknowledged.last().unwrap_or(last);

    let since = Some(last.parse().unwrap());
    let options = VerifyOptions { boot: Some(BOOT.to_owned()), since };
    let report = verify_folder(&root.join("ledger"), &options).unwrap();
    assert!(report.ok(), "round {round}: {report:?}");
    let (_ledger, recovery) = open_at(root);
    assert_eq!(recovery.degraded, Vec::<String>::new(), "round {round}");
    recovery.tail.is_some_and(|tail| tail.class == Class::TornTail)
}
