//! What holds after each kill, whoever died: one broker, one outcome and one effect a key, a whole ledger, nothing left over.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use super::run::{Answer, GOT, MARKS, Run, Told, operation_of};
use super::script::kill_broker;
use crate::support::{Process, Root, SOON, wait_for, wait_until};

/// Checks all of them. At the end of a script no session is left.
pub(super) fn hold(run: &Run) {
    if run.host_may_die {
        // Behind a host that was killed just before it would have done so itself the next broker clears away.
        kill_broker(&run.root);
    }
    run.does("ensure");
    let broker = one_broker(&run.root);
    nothing_is_left(run);
    let records = records(&run.root);
    run.answers.iter().for_each(|answer| happened_once(run, answer, &records));
    started_once(run, &records);
    arrived_once(run, &records);
    // Repeating did nothing either.
    nothing_is_left(run);
    no_debris(&run.root);
    descriptors_are_back(broker);
    one_broker(&run.root);
}

/// Laws 3 and 10: one process is the broker, published and answering.
fn one_broker(root: &Root) -> Process {
    let mut brokers = Vec::new();
    wait_until(SOON, "one broker to be left", || {
        brokers = root.brokers();
        brokers.len() == 1
    });
    let record: Value = wait_for(SOON, "the discovery record", || {
        serde_json::from_slice(&fs::read(root.path().join("broker.json")).ok()?).ok()
    });
    assert_eq!(record["broker"]["pid"], json!(brokers[0].pid));
    brokers[0]
}

/// Law 5: a key has one outcome, in the ledger and for whoever asks again.
fn happened_once(run: &Run, answer: &Answer, records: &[Value]) {
    let accepted = records.iter().filter(|record| record["t"] == "accept" && record["key"] == answer.key);
    let outcome_of = |accept: &&Value| -> Vec<&Value> {
        records.iter().filter(|record| record["t"] == "finish" && record["op"] == accept["op"]).collect()
    };
    let outcomes: Vec<Vec<&Value>> = accepted.clone().map(|accept| outcome_of(&accept)).collect();
    assert!(outcomes.iter().all(|finished| finished.len() == 1), "one outcome each: {answer:?}: {outcomes:#?}");
    // What was aborted has proven to have done nothing, and has freed its key.
    let binding: Vec<&Value> = outcomes.iter().map(|finished| finished[0]).filter(|of| of["st"] != "aborted").collect();
    // And what was refused, because the host that it needed was dead by then, bound nothing.
    if answer.state == "aborted" || (run.host_may_die && answer.state == "refused") {
        assert!(binding.is_empty(), "{answer:?}: {binding:#?}");
        return;
    }
    assert_eq!(binding.len(), 1, "a key binds once: {answer:?}: {binding:#?}");
    assert_eq!((&binding[0]["op"], &binding[0]["st"]), (&answer.operation, &json!(answer.state)), "{answer:?}");
    if run.forgets {
        return;
    }
    let again = run.insist(&answer.words).json();
    let Told { operation, state, replayed } = operation_of(&again);
    assert_eq!((&operation, &state, replayed), (&answer.operation, &answer.state, true), "{answer:?}: {again}");
}

/// Laws 4 and 5: a command ran once for each episode that the ledger says was up, and for none that it does not know.
fn started_once(run: &Run, records: &[Value]) {
    let mut marks: BTreeMap<String, u32> = BTreeMap::new();
    run.root.lines(MARKS).into_iter().for_each(|mark| *marks.entry(mark).or_default() += 1);
    assert!(marks.values().all(|times| *times == 1), "a command ran twice: {marks:?}");
    let of = |record: &Value| Some(format!("{} {}", record["sid"].as_str()?, record["res"]["episode"].as_u64()?));
    let is_start = |record: &&Value| record["kind"] == "session.spawn" || record["kind"] == "session.resume";
    let succeeded = records.iter().filter(|record| record["t"] == "finish" && record["st"] == "succeeded");
    let started: Vec<String> = succeeded.filter(is_start).filter_map(of).collect();
    for start in &started {
        // A host that died may have taken the command with it before its first step.
        assert!(marks.contains_key(start) || run.host_may_die, "{start} was up and never ran: {marks:?}");
    }
    for mark in marks.keys() {
        assert!(started.contains(mark) || run.host_may_die, "{mark} ran, and nobody was told: {started:?}");
    }
}

/// Law 5 for messages: a line arrives once, in the order in which it was sent, and each that is called delivered did arrive.
fn arrived_once(run: &Run, records: &[Value]) {
    let got = run.root.lines(GOT);
    let sent: Vec<&String> = run.answers.iter().map(|answer| &answer.key).filter(|key| got.contains(key)).collect();
    assert_eq!(got.iter().collect::<Vec<_>>(), sent, "each once, and in order");
    let delivered =
        records.iter().filter(|record| record["t"] == "message" && !record["body"]["change"]["delivered"].is_null());
    for record in delivered {
        let operation = record["body"]["message"].as_str().map(|id| id.replace("msg-", "op-"));
        let mut accepted = records.iter().filter(|accept| accept["t"] == "accept");
        let accept = accepted.find(|accept| accept["op"].as_str() == operation.as_deref()).expect("it was sent");
        let arrived = got.iter().any(|line| accept["key"] == **line);
        // Of a host that died nobody read what it had handed over.
        assert!(arrived || run.host_may_die || accept["key"] == "long", "{record} and never arrived: {got:?}");
    }
}

/// Law 9, and that deletion is deletion: no session, no folder, no socket but one.
fn nothing_is_left(run: &Run) {
    let listed = run.does("list --all");
    assert_eq!(listed["sessions"], json!([]), "{listed}");
    wait_until(SOON, "the folders of sessions to be gone", || run.root.names("sessions").is_empty());
    let mut sockets = Vec::new();
    wait_until(SOON, "one socket to be left", || {
        sockets = run.root.sockets();
        sockets.len() == 1
    });
    assert!(sockets[0].starts_with("b-"), "{sockets:?}");
}

/// Law 9: what was half written is gone, but for a snapshot, which the next one is written over; records of dead owners are set aside under their names.
fn no_debris(root: &Root) {
    let known =
        ["broker.json", "broker.lock", "broker.log", "broker.log.previous", "ledger", "quarantine", "request.secret"];
    let known = |name: &String| known.contains(&name.as_str()) || ["sessions", "start.lock"].contains(&name.as_str());
    let aside = |name: &String| name.starts_with(".broker.lock.stale-");
    let strange: Vec<String> = root.names("").into_iter().filter(|name| !known(name) && !aside(name)).collect();
    assert!(strange.is_empty(), "debris in the root: {strange:?}");
    let is_ledger = |name: &String| {
        let others = ["archive", "writer.lock", "snapshot.new"];
        name.ends_with(".jsonl") || name.starts_with("snapshot-") || others.contains(&name.as_str())
    };
    let strange: Vec<String> = root.names("ledger").into_iter().filter(|name| !is_ledger(name)).collect();
    assert!(strange.is_empty(), "debris in the ledger: {strange:?}");
}

/// Law 9: what connections and hosts took of it is given back.
fn descriptors_are_back(broker: Process) {
    let open = || fs::read_dir(format!("/proc/{}/fd", broker.pid)).map_or(usize::MAX, Iterator::count);
    wait_until(SOON, "its descriptors to be back at base", || open() <= base());
}

/// The descriptors of a broker that has only begun.
fn base() -> usize {
    static BASE: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *BASE.get_or_init(|| {
        let root = Root::new();
        root.ensure();
        let broker = root.brokers()[0];
        let open = || fs::read_dir(format!("/proc/{}/fd", broker.pid)).map_or(0, Iterator::count);
        // The connection of its starter may be open for a moment; the least of what is seen is what it keeps.
        (0..50).map(|_| open()).min().unwrap_or_default().max(open())
    })
}

/// Every record of the ledger and its archive, once.
fn records(root: &Root) -> Vec<Value> {
    let mut found: BTreeMap<u64, Value> = BTreeMap::new();
    for folder in ["ledger/archive", "ledger"] {
        for name in root.names(folder).into_iter().filter(|name| name.ends_with(".jsonl")) {
            let text = fs::read_to_string(root.path().join(folder).join(name)).unwrap_or_default();
            for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
                found.insert(line["r"]["seq"].as_u64().unwrap_or_default(), line["r"].clone());
            }
        }
    }
    found.into_values().collect()
}
