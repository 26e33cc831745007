//! Laws 4 to 7 under fire: brokers are killed at any moment, also while they start; callers repeat what was not answered
//! under the same key. In the end everything has happened exactly once, and nothing is left.

use std::fs;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::support::scene::spawning;
use crate::support::{FIXTURE, Output, Process, Root, SOON, finish, wait_for, wait_until};

/// Callers at the same time.
const CALLERS: usize = 6;

/// Asks until there is an answer, as any caller does who wants one: under the same key, as long as that may help.
fn insist(root: &Root, arguments: &[String]) -> Output {
    wait_for(SOON * 4, "an answer", || {
        let output = finish(&mut root.command(arguments), b"");
        if output.code() == Some(0) {
            return Some(output);
        }
        let error = output.json()["error"].clone();
        assert_ne!(error["retry"], "never", "{output:?}");
        None
    })
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// The life of one session: started, stopped, started again, deleted.
fn life(root: &Root, caller: usize, number: usize) {
    let name = format!("s-{caller}-{number}");
    let count = format!("starts-{name}");
    let command = [FIXTURE, "count", count.as_str(), "--", "sleep"];
    let spawn = spawning(&["--json", "--name", &name, "--key", &format!("{name}-spawn")], &command);
    let spawn: Vec<String> = spawn.into_iter().map(|word| word.into_string().expect("plain text")).collect();
    let made = insist(root, &spawn).json();
    assert_eq!((&made["session"]["name"], &made["session"]["episode"]), (&json!(name), &json!(1)));
    let counted = |times: usize| {
        wait_until(SOON, "the start to be counted", || root.lines(&count).len() >= times);
        assert_eq!(root.lines(&count).len(), times, "{name} was started {times} times");
    };
    counted(1);
    let stopped = insist(root, &words(&format!("stop {name} --json --key {name}-stop"))).json();
    assert_eq!((&stopped["session"]["status"], &stopped["survivors"]), (&json!("stopped"), &json!([])));
    assert_eq!(stopped["session"]["exit"], json!({"signal": "SIGTERM"}));
    let resumed = insist(root, &words(&format!("resume {name} --json --key {name}-resume"))).json();
    assert_eq!((&resumed["session"]["id"], &resumed["session"]["episode"]), (&made["session"]["id"], &json!(2)));
    counted(2);
    let process = Process::of_value(&resumed["session"]["pid"]);
    let deleted = insist(root, &words(&format!("delete {name} --stop --json --key {name}-delete"))).json();
    assert_eq!((&deleted["session"]["status"], &deleted["survivors"]), (&json!("deleted"), &json!([])));
    assert!(!process.alive());
    counted(2);
}

fn ledger_bytes(root: &Root) -> u64 {
    let entries = fs::read_dir(root.path().join("ledger")).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

/// What happens to a broker.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// It is killed.
    Kill,
    /// It is asked to leave.
    Leave,
    /// Its lock is taken from under it.
    Fence,
    /// What it published is removed.
    Hide,
}

fn disturb(root: &Root, owner: Process, kind: Kind) {
    let remove = |name: &str| drop(fs::remove_file(root.path().join(name)));
    match kind {
        Kind::Kill => owner.kill_9(),
        // It may be gone by now.
        Kind::Leave => drop(kill(Pid::from_raw(owner.pid), Signal::SIGTERM)),
        Kind::Fence => remove("broker.lock"),
        Kind::Hide => remove("broker.json"),
    }
}

/// Disturbs the owner of the lock each time that the ledger has grown by so much, a different amount each time, until it is
/// over. Returns how often.
fn disturb_as_it_grows(root: &Root, over: &AtomicBool, growth: RangeInclusive<u64>, kinds: &[Kind]) -> usize {
    let mut kills = 0;
    let mut next = ledger_bytes(root);
    // A full period: every step of an operation is hit sooner or later, and none is hit for ever.
    let (mut step, span) = (0, growth.end() - growth.start() + 1);
    while !over.load(Ordering::Relaxed) {
        step = (step * 5 + 977) % span;
        next = next.max(ledger_bytes(root)) + growth.start() + step;
        let grown = || over.load(Ordering::Relaxed) || ledger_bytes(root) >= next;
        wait_until(Duration::from_secs(120), "the ledger to grow", grown);
        if let (false, Some(owner)) = (over.load(Ordering::Relaxed), root.lock_owner()) {
            disturb(root, owner, kinds[kills % kinds.len()]);
            kills += 1;
        }
    }
    kills
}

fn storm(lives: usize, kinds: &[Kind]) -> usize {
    let root = Root::with_limits("recent:1000");
    root.ensure();
    let (over, alive) = (AtomicBool::new(false), AtomicUsize::new(CALLERS));
    let kills = thread::scope(|scope| {
        /// Ends the killing when the last caller has left, however it left.
        struct Caller<'a>(&'a AtomicUsize, &'a AtomicBool);
        impl Drop for Caller<'_> {
            fn drop(&mut self) {
                if self.0.fetch_sub(1, Ordering::Relaxed) == 1 {
                    self.1.store(true, Ordering::Relaxed);
                }
            }
        }
        for caller in 0..CALLERS {
            let (root, over, alive) = (&root, &over, &alive);
            scope.spawn(move || {
                let _caller = Caller(alive, over);
                (0..lives).for_each(|number| life(root, caller, number));
            });
        }
        disturb_as_it_grows(&root, &over, 3_000..=9_000, kinds)
    });
    root.ensure();
    assert_eq!(root.json(["list", "--all"])["sessions"], json!([]));
    assert_eq!(root.names("sessions"), [""; 0]);
    let operations = root.json(["operation", "list", "--limit", "1000"])["operations"].clone();
    let operations = operations.as_array().expect("a list");
    assert_eq!(operations.len(), CALLERS * lives * 4);
    assert!(operations.iter().all(|operation| operation["state"] == "succeeded"), "{operations:#?}");
    kills
}

#[test]
fn law_05_lives_under_a_storm_of_kills_happen_exactly_once() {
    let kills = storm(4, &[Kind::Kill]);
    assert!(kills >= 5, "{kills} kills are no storm");
}

#[test]
fn law_05_lives_under_brokers_that_come_and_go_happen_exactly_once() {
    let changes = storm(4, &[Kind::Leave, Kind::Fence, Kind::Kill, Kind::Hide]);
    assert!(changes >= 5, "{changes} changes are no storm");
}

#[test]
#[ignore = "takes minutes: the same for many lives"]
fn long_storm_of_brokers() {
    let rounds = ostler::os::environment::Environment::process().get("OSTLER_TEST_ROUNDS");
    let rounds = rounds.and_then(|rounds| rounds.to_str()?.parse().ok()).unwrap_or(40);
    storm(rounds, &[Kind::Kill]);
    storm(rounds, &[Kind::Leave, Kind::Fence, Kind::Kill, Kind::Hide]);
}
