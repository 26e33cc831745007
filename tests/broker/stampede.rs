//! Many clients in the same instant, on the product itself: every one succeeds, all name one incarnation, one broker is
//! left, debris within its bounds; also while others only look.
#![expect(clippy::disallowed_methods, reason = "starts fifty clients at once")]

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use ostler::broker::quarantine::KEPT_MAX;
use serde_json::Value;

use crate::support::leftovers::leftovers;
use crate::support::{Root, SOON, wait_until};

const CLIENTS: usize = 50;

fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the product starts")
}

/// One round: all at once, then what they say. Returns the incarnation.
fn round(root: &Root) -> Value {
    let clients: Vec<Child> =
        (0..CLIENTS).map(|_| start(&mut root.command(["ensure", "--json", "--timeout", "60s"]))).collect();
    let said: Vec<Value> = clients
        .into_iter()
        .map(|client| {
            let output = client.wait_with_output().expect("it was started");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            serde_json::from_slice(&output.stdout).expect("a document")
        })
        .collect();
    let incarnation = said[0]["broker"]["incarnation"].clone();
    assert!(said.iter().all(|document| document["broker"]["incarnation"] == incarnation), "{said:#?}");
    let started = said.iter().filter(|document| document["started"] == true).count();
    assert_eq!(started, 1, "one of them started it");
    wait_until(SOON, "one broker to be left", || {
        leftovers(root.folder()).iter().filter(|process| process.to_string().contains(" broker --root")).count() == 1
    });
    incarnation
}

fn debris(root: &Root) -> usize {
    let names = std::fs::read_dir(root.path()).expect("the root is there").flatten().map(|entry| entry.file_name());
    names.filter(|name| name.as_encoded_bytes().starts_with(b".broker.")).count()
}

/// `rounds` new roots, and `rounds` kills of the broker of one, while `probers` look in a tight loop.
fn stampede(rounds: usize, probers: usize) {
    for _ in 0..rounds {
        let root = Root::new();
        probed(&root, probers, || drop(round(&root)));
    }
    let root = Root::new();
    let mut last = round(&root);
    for _ in 0..rounds {
        root.broker().expect("it answers").kill_9();
        probed(&root, probers, || {
            let next = round(&root);
            assert_ne!(next, last);
            last = next;
        });
        assert!(debris(&root) <= KEPT_MAX);
    }
}

fn probed(root: &Root, probers: usize, work: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for prober in 0..probers {
            let (root, is_over) = (&*root, &is_over);
            scope.spawn(move || {
                let look = if prober % 2 == 0 { "status" } else { "doctor" };
                while !is_over.load(Ordering::Relaxed) {
                    let output = start(&mut root.command([look, "--json"])).wait_with_output().expect("it was started");
                    assert!(!output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
                }
            });
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        is_over.store(true, Ordering::Relaxed);
        if let Err(panic) = done {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
fn fifty_clients_at_once_get_one_broker() {
    stampede(2, 0);
}

#[test]
fn fifty_clients_at_once_get_one_broker_while_others_look() {
    stampede(1, 3);
}

#[test]
#[ignore = "twenty rounds of fifty clients, with and without probers"]
fn long_stampede() {
    let rounds = ostler::os::environment::Environment::process().get("OSTLER_TEST_ROUNDS");
    let rounds = rounds.and_then(|rounds| rounds.to_str()?.parse().ok()).unwrap_or(20);
    stampede(rounds, 0);
    stampede(rounds, 3);
}
