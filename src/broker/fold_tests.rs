//! What a damaged record does to the fold, and what it must not do.

use super::fold;
use super::turn_tests::*;
use crate::machine::limits::Retention;
use crate::machine::*;
use ostler_ledger::Options;
use ostler_ledger::storage::{Folder, Name, SimulatedDisk};

fn options() -> Options {
    Options { snapshot_tail_bytes: u64::MAX, ..Options::new("test", "boot") }
}

fn said(letter: &str, word: Word) -> Input {
    Input::Observation(Observation { session: session(letter), episode: 1, word })
}

/// Two sessions: one lives, the other's whole life is over.
fn a_life_and_a_half(disk: &SimulatedDisk) {
    let (mut turn, recovery) = Sut::open(|| disk.storage(), &options(), Retention::default()).unwrap();
    begin(&mut turn, &recovery);
    let exit = Exit::Code(0);
    let exited = Word::Exited { run: None, exit, at_us: 1, survivors: Vec::new() };
    let delete = Action::Delete { target: Ok(session("a")), stop: false, grace_ms: 0, reason: None };
    let inputs = [
        request("a", 1, spawn("a")),
        started("a"),
        request("b", 2, spawn("b")),
        started("b"),
        said("a", exited),
        request("d", 3, delete),
        said("a", Word::Removed),
        // Its record says that all before it was durable: no damage there can be taken for a torn tail.
        request("p", 4, Action::Prune { older_ms: 1 << 50 }),
    ];
    for input in inputs {
        run(&mut turn, vec![(input, None)]).unwrap();
    }
    assert!(turn.view().read().sessions.get(&session("a")).is_none(), "its life is over");
}

fn line_of(disk: &SimulatedDisk) -> (String, Vec<u8>) {
    let file = disk.names(Folder::Ledger).remove(0);
    let bytes = disk.contents(Name { folder: Folder::Ledger, file: &file }).unwrap();
    (file, bytes)
}

/// A record that ends a session's chain is the word of a broker that saw all of it: whatever before it cannot be read, the session does not
/// rise again.
#[test]
fn a_deleted_session_stays_deleted_whichever_of_its_records_is_damaged() {
    let whole = SimulatedDisk::new();
    a_life_and_a_half(&whole);
    let (file, bytes) = line_of(&whole);
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let ends = lines.iter().position(|line| String::from_utf8_lossy(line).contains("\"fin\":true")).unwrap();
    let of_a = |line: &[u8]| String::from_utf8_lossy(line).contains(session("a").as_str());
    let damaged: Vec<usize> = (0..ends).filter(|at| of_a(lines[*at])).collect();
    assert!(damaged.len() >= 6, "{damaged:?} of {}", lines.len());
    for at in damaged {
        let mut bytes: Vec<u8> = lines.concat();
        let place = lines[..at].concat().len() + 30;
        bytes[place] ^= 1;
        let disk = SimulatedDisk::new();
        disk.tamper(Name { folder: Folder::Ledger, file: &file }, &bytes);
        let (_, recovery, folded) = fold::open(|| disk.storage(), &options(), Retention::default()).unwrap();
        assert!(!recovery.problems.is_empty(), "line {at} is damaged");
        let text = String::from_utf8_lossy(lines[at]);
        assert_eq!(folded.state.sessions.get(&session("a")), None, "without line {at}: {text}");
        assert!(folded.state.sessions.get(&session("b")).is_some(), "without line {at}: {text}");
        assert_eq!(folded.state.live, 1, "without line {at}: {text}");
    }
}
