//! Law 9, cycle by cycle: a session that was spawned, stopped and deleted, with messages or without, leaves nothing behind in the broker or on the disk
//! but its records. After many of them descriptors, threads, memory and files are what they were after some.

use std::collections::{BTreeMap, BTreeSet};
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
/// Cycles of the job `cycles`, unless it is told otherwise.
const LONG_CYCLES: usize = 10_000;

/// What is done again and again.
struct Life {
    live: fn(&mut Asking<'_>),
    /// So many operations are one cycle.
    operations: usize,
    /// Cycles before the base line is taken: more than the latest 250 operations, which the broker keeps in full.
    before: usize,
    /// Cycles in every run of the tests.
    short: usize,
}

const SESSIONS: Life = Life { live: session, operations: 3, before: 400, short: 1_000 };
const MESSAGES: Life = Life { live: messages, operations: 12, before: 40, short: 100 };

/// Parameters with some more.
fn with(mut params: Value, extra: Value) -> Value {
    if let (Value::Object(params), Value::Object(extra)) = (&mut params, extra) {
        params.extend(extra);
    }
    params
}

/// A connection.
struct Asking<'a> {
    client: Client,
    root: &'a Root,
}

impl Asking<'_> {
    /// The answer to what succeeds.
    fn ask(&mut self, method: Method, params: Value) -> Value {
        self.client.set_deadline(Deadline::after(SOON * 2));
        let answer = self.client.call(method, params).unwrap_or_else(|error| panic!("{method}: {error:?}"));
        assert_eq!(answer["operation"]["state"], "succeeded", "{answer}");
        answer
    }

    fn spawn(&mut self, extra: Value) -> (Value, Process) {
        let params = with(json!({"command": ["/bin/sleep", "1000"], "cwd": self.root.folder()}), extra);
        let made = self.ask(Method::SessionSpawn, params);
        (made["session"]["id"].clone(), Process::of_value(&made["session"]["pid"]))
    }

    fn send(&mut self, session: &Value, extra: Value) -> Value {
        let params = with(json!({"session": session, "text": "a few words"}), extra);
        self.ask(Method::MessageSend, params)["message"].clone()
    }

    fn stop(&mut self, session: &Value) {
        let stopped = self.ask(Method::SessionStop, json!({"session": session}));
        assert_eq!(stopped["session"]["status"], "stopped", "{stopped}");
    }

    fn delete(&mut self, session: &Value) {
        let deleted = self.ask(Method::SessionDelete, json!({"session": session, "stop": true}));
        assert_eq!(deleted["session"]["status"], "deleted", "{deleted}");
    }
}

/// Spawned, stopped, deleted.
fn session(asking: &mut Asking<'_>) {
    let (id, command) = asking.spawn(json!({}));
    asking.stop(&id);
    assert!(!command.alive());
    asking.delete(&id);
}

/// One session takes two messages. Three wait for another one, which never shows its prompt: one is withdrawn, one is cancelled with a stop, and one, which
/// starts it again, with its deletion.
fn messages(asking: &mut Asking<'_>) {
    let reads = json!(["sh", "-c", "exec cat >/dev/null"]);
    let (taker, _) = asking.spawn(json!({"command": reads, "adapter": "lines"}));
    for _ in 0..TAKEN {
        assert_eq!(asking.send(&taker, json!({"wait_for": "delivered"}))["state"], "delivered");
    }
    let (busy, _) = asking.spawn(json!({"command": reads, "adapter": "lines", "prompt": "never> $"}));
    let withdrawn = asking.send(&busy, json!({}));
    assert_eq!(asking.send(&busy, json!({}))["state"], "queued");
    assert_eq!(asking.ask(Method::MessageCancel, json!({"message": withdrawn["id"]}))["outcome"], "cancelled");
    asking.stop(&busy);
    asking.send(&busy, json!({"resume": true}));
    asking.delete(&busy);
    asking.stop(&taker);
    asking.delete(&taker);
}

/// Of a cycle's messages these are delivered, withdrawn, and cancelled with an end.
const TAKEN: usize = 2;
const WITHDRAWN: usize = 1;
const ENDED: usize = 2;

/// What the ledger's records say became of all messages: delivered, withdrawn, cancelled with an end of their session. None is left.
fn account(root: &Root) -> (usize, usize, usize) {
    let lines = root.ostler(["ledger", "export", "--json"]).exits(0).json_lines();
    let mut open: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let (mut delivered, mut withdrawn, mut ended) = (0, 0, 0);
    for record in lines.iter().map(|line| &line["record"]) {
        let lane = open.entry(record["sid"].to_string()).or_default();
        let (body, change) = (&record["body"], &record["body"]["change"]);
        let id = body["message"].to_string();
        match record["t"].as_str() {
            Some("accept") if record["kind"] == "message.send" => {
                lane.insert(record["op"].to_string().replace("op-", "msg-"));
            }
            Some("message") if change["delivered"].is_object() => delivered += usize::from(lane.remove(&id)),
            Some("message") if change["cancelled"].is_object() => withdrawn += usize::from(lane.remove(&id)),
            Some("queue") => ended += std::mem::take(lane).len(),
            _ => {}
        }
    }
    assert!(open.values().all(BTreeSet::is_empty), "of these nothing is known: {open:?}");
    (delivered, withdrawn, ended)
}

/// One life after another, until so many were lived by all.
fn lives(root: &Root, life: &Life, done: &AtomicUsize, total: usize) {
    let client = Client::connect(root.client_options(Deadline::after(SOON * 2))).expect("a broker answers");
    let mut asking = Asking { client, root };
    while done.fetch_add(1, Ordering::Relaxed) < total {
        (life.live)(&mut asking);
    }
}

fn cycle(root: &Root, life: &Life, total: usize) {
    let done = AtomicUsize::new(0);
    thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(|| lives(root, life, &done, total)))));
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

fn cycles(life: &Life, total: usize) -> Root {
    let root = Root::new();
    root.ensure();
    let broker = root.broker().expect("it answers");
    let fresh = Usage::of(broker);
    cycle(&root, life, life.before);
    let (before, files_before) = at_rest(&root, broker, fresh);
    cycle(&root, life, total);
    let (after, files_after) = at_rest(&root, broker, fresh);
    eprintln!("{total} cycles: fresh {fresh}; after {}: {before}; after all: {after}", life.before);
    let allowed_kib = before.own_kib + growth_kib(total * life.operations);
    assert!(after.own_kib <= allowed_kib, "memory: {before} before, {after} after {total} cycles");
    assert_eq!(files_after, files_before);
    root
}

fn cycles_of_messages(total: usize) {
    let root = cycles(&MESSAGES, total);
    let all = MESSAGES.before + total;
    assert_eq!(account(&root), (all * TAKEN, all * WITHDRAWN, all * ENDED), "delivered, withdrawn, ended");
}

/// What the job was told, if it was.
fn long() -> usize {
    let rounds = Environment::process().get("OSTLER_TEST_ROUNDS");
    rounds.and_then(|rounds| rounds.to_str()?.parse().ok()).unwrap_or(LONG_CYCLES)
}

#[test]
fn law_09_a_thousand_cycles_leave_nothing_behind() {
    cycles(&SESSIONS, SESSIONS.short);
}

#[test]
fn law_09_cycles_of_messages_leave_nothing_behind_and_the_account_of_messages_is_even() {
    cycles_of_messages(MESSAGES.short);
}

#[test]
#[ignore = "takes minutes: ten times as many"]
fn long_cycles() {
    cycles(&SESSIONS, long());
}

#[test]
#[ignore = "takes minutes: a hundred times as many"]
fn long_cycles_of_messages() {
    cycles_of_messages(long());
}
