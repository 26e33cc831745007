//! Fifty clients in the same instant, on a new root and right after the broker was killed: none fails, all meet the same
//! broker, one is left, and what lies about stays within its bounds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ostler::broker::quarantine::{KEPT_MAX, is_quarantined};
use serde_json::Value;

use crate::support::scene::at_once;
use crate::support::{Root, SOON, wait_until};

/// Clients of one stampede.
const CLIENTS: usize = 50;
/// Stampedes of each kind.
const ROUNDS: usize = 20;
/// Of those with probes the gate has time for these; the long test does the full number.
const ROUNDS_PROBED: usize = 5;

/// Every client finds the same broker; that is returned.
fn stampede(root: &Root) -> Value {
    let clients = (0..CLIENTS).map(|_| root.command(["ensure", "--json"])).collect();
    let reports: Vec<Value> = at_once(clients).into_iter().map(|output| output.exits(0).json()).collect();
    let broker = reports[0]["broker"].clone();
    for report in &reports {
        assert_eq!(report["broker"], broker, "all are told of one broker");
    }
    let started = reports.iter().filter(|report| report["started"] == true).count();
    assert_eq!(started, 1, "one of them started it");
    broker
}

/// One broker, and nothing else of all who tried.
fn one_is_left(root: &Root, broker: &Value) {
    // A loser may still be on its way out.
    wait_until(SOON, "one broker to be left", || root.brokers().len() == 1);
    assert_eq!(i64::from(root.brokers()[0].pid), broker["pid"].as_i64().expect("a pid"));
    assert_eq!(root.json(["status"])["broker"], *broker);
}

fn tidy(root: &Root) {
    const USUAL: [&str; 9] = [
        "broker.json",
        "broker.lock",
        "broker.log",
        "broker.log.previous",
        "ledger",
        "quarantine",
        "request.secret",
        "sessions",
        "start.lock",
    ];
    let (aside, names): (Vec<_>, Vec<_>) = root.names("").into_iter().partition(|name| is_quarantined(name));
    assert!(aside.len() <= KEPT_MAX, "{aside:?}");
    let odd: Vec<_> = names.iter().filter(|name| !USUAL.contains(&name.as_str())).collect();
    assert!(odd.is_empty(), "not to be left in a root: {odd:?}");
    assert_eq!(root.names("quarantine"), [""; 0]);
    let sockets = root.sockets();
    assert!(sockets.len() == 1 && sockets[0].starts_with("b-"), "{sockets:?}");
}

/// A new root, then kills, each followed by a stampede.
fn rounds(root: &Root, kills: usize) {
    let mut broker = stampede(root);
    one_is_left(root, &broker);
    for _ in 0..kills {
        let killed = root.kill_broker();
        let next = stampede(root);
        one_is_left(root, &next);
        assert!(!killed.alive());
        assert_eq!(next["generation"].as_u64(), broker["generation"].as_u64().map(|of| of + 1));
        broker = next;
    }
    tidy(root);
}

/// Runs `work` while three processes at a time look at the root as fast as they can.
fn probed(root: &Root, work: impl FnOnce()) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for probe in ["status", "doctor", "status"] {
            let over = &over;
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let output = root.ostler([probe, "--json"]);
                    // A doctor that looks while nobody is the broker has something to say, and may say so.
                    let fine = output.code() == Some(0) || (probe == "doctor" && output.code() == Some(1));
                    assert!(fine && output.json()["schema"] == 1, "{output:?}");
                }
            });
        }
        // Also when the work fails, so that the probes end.
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _over = Over(&over);
        work();
    });
}

#[test]
fn field_j09_fifty_at_once_get_one_broker_on_a_new_root_and_after_each_kill() {
    for _ in 1..ROUNDS {
        rounds(&Root::new(), 0);
    }
    rounds(&Root::new(), ROUNDS);
}

fn rounds_while_others_probe(number: usize) {
    for _ in 1..number {
        let root = Root::new();
        probed(&root, || rounds(&root, 0));
    }
    let root = Root::new();
    probed(&root, || rounds(&root, number));
}

#[test]
fn fifty_at_once_get_one_broker_while_others_probe() {
    rounds_while_others_probe(ROUNDS_PROBED);
}

#[test]
#[ignore = "takes minutes: all rounds with three processes that probe as fast as they can"]
fn long_stampede_while_others_probe() {
    let rounds = ostler::os::environment::Environment::process().get("OSTLER_TEST_ROUNDS");
    rounds_while_others_probe(rounds.and_then(|rounds| rounds.to_str()?.parse().ok()).unwrap_or(ROUNDS));
}
