//! Law 9, cycle by cycle: a session that was spawned, stopped and deleted leaves nothing behind in the broker or on the disk but its
//! records. After many of them descriptors, threads, memory and files are what they were after some.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

use ostler::client::Client;
use ostler::os::deadline::Deadline;
use ostler::os::environment::Environment;
use ostler::rpc::method::Method;
use serde_json::{Value, json};

use crate::support::leftovers::leftovers;
use crate::support::usage::growth_kib;
use crate::support::{Process, Root, SOON, Usage, wait_until};

/// Sessions at the same time, each on a connection of its own.
const AT_ONCE: usize = 8;
/// Cycles before the base line is taken: more than the latest 250 operations, which the broker keeps in full.
const BEFORE: usize = 400;
/// Operations of one cycle.
const OPERATIONS: usize = 3;
/// Cycles in every run of the tests.
const SHORT_CYCLES: usize = 1_000;
/// Cycles of the job `cycles`, unless it is told otherwise.
const LONG_CYCLES: usize = 10_000;

/// One life after another, until so many were lived by all.
fn lives(root: &Root, done: &AtomicUsize, total: usize) {
    let mut client = Client::connect(root.client_options(Deadline::after(SOON * 2))).expect("a broker answers");
    let mut ask = |method: Method, params: Value| -> Value {
        client.set_deadline(Deadline::after(SOON * 2));
        let answer = client.call(method, params).unwrap_or_else(|error| panic!("{method}: {error:?}"));
        assert_eq!(answer["operation"]["state"], "succeeded", "{answer}");
        answer["session"].clone()
    };
    while done.fetch_add(1, Ordering::Relaxed) < total {
        let params = json!({"command": ["/bin/sleep", "1000"], "cwd": root.folder()});
        let made = ask(Method::SessionSpawn, params);
        let command = Process::of_value(&made["pid"]);
        let stopped = ask(Method::SessionStop, json!({"session": made["id"]}));
        assert_eq!(stopped["status"], "stopped", "{stopped}");
        assert!(!command.alive());
        assert_eq!(ask(Method::SessionDelete, json!({"session": made["id"]}))["status"], "deleted");
    }
}

fn cycle(root: &Root, total: usize) {
    let done = AtomicUsize::new(0);
    thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(|| lives(root, &done, total)))));
}

/// Every path below the test's folder, but the ledger's segments and snapshots: history grows, within bounds of its own.
fn files(root: &Root) -> BTreeSet<PathBuf> {
    fn walk(folder: &Path, found: &mut BTreeSet<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            walk(&entry.path(), found);
            found.insert(entry.path());
        }
    }
    let mut found = BTreeSet::new();
    walk(root.folder(), &mut found);
    let history =
        |name: &str| name.ends_with(".jsonl") || name.starts_with("snapshot-") || name == "broker.log.previous";
    found.retain(|path| !path.file_name().and_then(|name| name.to_str()).is_some_and(history));
    found
}

/// What there is when nobody does anything: the broker alone, without connections, and with no more threads that wait
/// for work than it may ever have: it keeps those that it had.
fn at_rest(root: &Root, broker: Process, fresh: Usage) -> (Usage, BTreeSet<PathBuf>) {
    wait_until(SOON, "the hosts to be gone", || leftovers(root.folder()).iter().all(|left| left.process == broker));
    wait_until(SOON, "the last folder to go", || root.names("sessions").is_empty());
    wait_until(SOON, "the last connection to be closed", || Usage::of(broker).is_within(fresh));
    (Usage::of(broker), files(root))
}

fn cycles(total: usize) {
    let root = Root::new();
    root.ensure();
    let broker = root.broker().expect("it answers");
    let fresh = Usage::of(broker);
    cycle(&root, BEFORE);
    let (before, files_before) = at_rest(&root, broker, fresh);
    cycle(&root, total);
    let (after, files_after) = at_rest(&root, broker, fresh);
    eprintln!("{total} cycles: fresh {fresh}; after {BEFORE}: {before}; after all: {after}");
    let allowed_kib = before.own_kib + growth_kib(total * OPERATIONS);
    assert!(after.own_kib <= allowed_kib, "memory: {before} before, {after} after {total} cycles");
    assert_eq!(files_after, files_before);
}

#[test]
fn law_09_a_thousand_cycles_leave_nothing_behind() {
    cycles(SHORT_CYCLES);
}

#[test]
#[ignore = "takes minutes: ten times as many"]
fn long_cycles() {
    let rounds = Environment::process().get("OSTLER_TEST_ROUNDS");
    cycles(rounds.and_then(|rounds| rounds.to_str()?.parse().ok()).unwrap_or(LONG_CYCLES));
}
