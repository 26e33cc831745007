//! Events: subscribers are told the ledger's records, each once, over the death of the broker too, and however slowly they read.

use std::collections::BTreeSet;
use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::subscriber::{Subscriber, records, records_up_to, told};
use crate::support::scene::text;
use crate::support::usage::Usage;
use crate::support::{Root, Running, SOON, wait_until};

/// Subscriptions of a connection, and of a broker.
const OF_CONNECTION: usize = 16;
const OF_BROKER: usize = 1_024;

/// Changes nothing but the ledger: two records.
fn pass(number: usize) -> Value {
    json!({"key": format!("pass-{number}"), "older_ms": 1_u64 << 50})
}

#[test]
fn an_event_is_a_record_of_the_ledger_and_its_position() {
    let root = Root::new();
    let mut subscriber = Subscriber::owner(&root);
    let answer = subscriber.gets("events.subscribe", json!({}));
    assert_eq!(answer["seq"], root.json(["ledger", "head"])["seq"]);
    let session = root.spawn(&["--name", "s"], &["true"]);
    root.json(["wait", "s"]);
    let events = subscriber.rest(&root, answer["subscription"].as_u64().unwrap());
    let behind: Vec<Value> = records_up_to(&root, &events)
        .into_iter()
        .filter(|record| record["seq"].as_u64() > answer["seq"].as_u64())
        .collect();
    assert_eq!(told(&events), behind);
    for event in &events {
        let record = &event["record"];
        assert_eq!(event["subscription"], answer["subscription"]);
        assert_eq!(
            (&event["seq"], &event["at"], &event["session_id"], &event["type"], &event["error"]),
            (&record["seq"], &record["at"], &record["sid"], &record["t"], &Value::Null)
        );
    }
    let history = root.json(["ledger", "history", text(&session["id"])])["records"].clone();
    let of_session = events.iter().filter(|event| event["session_id"] == session["id"]);
    assert_eq!(json!(of_session.map(|event| event["record"].clone()).collect::<Vec<_>>()), history);
}

#[test]
fn sessions_and_types_narrow_it_and_what_nobody_knows_is_refused() {
    let root = Root::new();
    let [a, b] = ["a", "b"].map(|name| root.spawn(&["--name", name], &["true"])["id"].clone());
    root.json(["wait", "a"]);
    root.json(["wait", "b"]);
    let mut subscriber = Subscriber::owner(&root);
    let of_a = subscriber.subscribe(json!({"after": 0, "sessions": ["a"]}));
    let ended = subscriber.subscribe(json!({"after": 0, "types": ["session", "queue"]}));
    let both = subscriber.subscribe(json!({"after": 0, "sessions": [text(&a), text(&b)], "types": ["accept"]}));
    let mut heard = Vec::new();
    wait_until(SOON, "all to be told", || {
        subscriber.gets("broker.status", json!({}));
        heard.extend(subscriber.heard());
        let of = |number: u64| heard.iter().filter(|event| event["subscription"] == number).count();
        of(ended) == 2
            && of(both) == 2
            && of(of_a) == root.json(["ledger", "history", "a"])["records"].as_array().unwrap().len()
    });
    for event in &heard {
        match event["subscription"].as_u64().unwrap() {
            number if number == of_a => assert_eq!(event["session_id"], a),
            number if number == ended => assert_eq!(event["type"], "session"),
            _ => assert_eq!(event["type"], "accept"),
        }
    }
    let unknown = |params: Value| {
        let mut subscriber = Subscriber::owner(&root);
        subscriber.refused("events.subscribe", params)
    };
    assert_eq!(unknown(json!({"sessions": ["a", "nobody"]})).0, "not_found");
    assert_eq!(unknown(json!({"types": ["finish", "sesion"]})), ("invalid_input".to_owned(), json!("types")));
    assert_eq!(unknown(json!({"types": ["carry"]})).0, "invalid_input", "that is the ledger's own");
    assert_eq!(unknown(json!({"after": 1_u64 << 40})), ("invalid_input".to_owned(), json!("after")));
    assert_eq!(unknown(json!({"after": -1})).0, "invalid_input");
    let named: Vec<String> = (0..101).map(|number| format!("s{number}")).collect();
    assert_eq!(unknown(json!({"sessions": named})), ("invalid_input".to_owned(), json!("sessions")));
}

#[test]
fn a_position_outlives_the_broker_and_nothing_is_lost_or_told_twice() {
    let root = Root::new();
    root.ensure();
    let (mut all, mut after, mut number) = (Vec::new(), 0, 0);
    for round in 0..4 {
        let mut subscriber = Subscriber::owner(&root);
        subscriber.subscribe(json!({"after": after}));
        let mut busy = Subscriber::owner(&root);
        for _ in 0..40 {
            number += 1;
            busy.say("session.prune", &pass(number));
        }
        let session = root.spawn(&[], &["true"])["id"].clone();
        // What else was told by then is never read.
        all.extend((0..20 * round + 5).map(|_| subscriber.event()));
        after = all.last().map_or(0, |event| event["seq"].as_u64().unwrap());
        root.kill_broker();
        root.ensure();
        root.json(["wait", text(&session)]);
    }
    let mut subscriber = Subscriber::owner(&root);
    let last = subscriber.subscribe(json!({"after": after}));
    all.extend(subscriber.rest(&root, last));
    assert_eq!(told(&all), records_up_to(&root, &all));
}

/// What a session may see of these records, worked out from the ledger alone: what is about itself and its children, and what its own requests
/// about its parent come to.
fn seen_by(session: &Value, parent: &Value, children: &[&Value], records: &[Value]) -> Vec<Value> {
    let asked: BTreeSet<&str> =
        records.iter().filter(|record| record["act"]["sid"] == *session).map(|record| text(&record["op"])).collect();
    let of_message = |record: &Value| record["body"]["message"].as_str().map(|id| id.replace("msg-", "op-"));
    let is_seen = |record: &&Value| {
        let about = &record["sid"];
        let is_asked = record["op"].as_str().is_some_and(|op| asked.contains(op))
            || of_message(record).is_some_and(|op| asked.contains(op.as_str()));
        let is_child = children.contains(&about) && record["t"] != "notice";
        about == session || is_child || about == parent && (is_asked || record["t"] == "queue")
    };
    records.iter().filter(is_seen).cloned().collect()
}

#[test]
fn a_session_is_told_of_itself_its_children_and_its_own_messages_and_of_nobody_else() {
    let root = Root::new();
    let sleeper = ["sleep", "1000"];
    let parent = root.spawn(&["--name", "parent"], &sleeper)["id"].clone();
    let child = |of: &Value, name: &str| {
        let params = json!({"key": name, "name": name, "command": sleeper, "cwd": "/"});
        Subscriber::session(&root, of).gets("session.spawn", params)["session"]["id"].clone()
    };
    let own = child(&parent, "own");
    let mut early = Subscriber::session(&root, &own);
    let early_from = early.gets("events.subscribe", json!({}));
    let (sibling, gone, kept) = (child(&parent, "sibling"), child(&own, "gone"), child(&own, "kept"));
    let grandchild = child(&kept, "grandchild");
    let stranger = root.spawn(&["--name", "stranger"], &sleeper)["id"].clone();
    let send = |from: &Value, to: &Value, key: &str| {
        let params = json!({"key": key, "session": to, "text": "x"});
        Subscriber::session(&root, from).gets("message.send", params);
    };
    let family =
        [(&own, &parent), (&sibling, &parent), (&parent, &own), (&own, &kept), (&kept, &own), (&grandchild, &kept)];
    for (number, (from, to)) in family.into_iter().enumerate() {
        send(from, to, &format!("m{number}"));
    }
    root.json(["send", text(&parent), "from the owner"]);
    root.json(["send", text(&kept), "from the owner"]);
    Subscriber::session(&root, &parent).gets("inbox.read", json!({}));
    Subscriber::session(&root, &kept).gets("inbox.read", json!({}));
    // What is gone by the time it is read was a child all the same.
    Subscriber::session(&root, &own).gets("session.delete", json!({"key": "d", "session": gone, "stop": true}));
    root.ostler(["stop", "own", "--key", "m0", "--grace", "0s"]).exits(0);
    root.ostler(["stop", "stranger", "--key", "m0"]).exits(4);
    root.json(["stop", "parent", "--grace", "0s"]);
    let end = Subscriber::session(&root, &kept)
        .gets("session.turn", json!({"key": "e", "event": "begin", "turn": 1, "episode": 1}));
    let end = &end["operation"]["id"];

    let all = records(&root);
    let expected = seen_by(&own, &parent, &[&gone, &kept], &all);
    for (name, is_there) in
        [("message", true), ("queue", true), ("conflict", false), ("beat", false), ("generation", false)]
    {
        assert_eq!(expected.iter().any(|record| record["t"] == name), is_there, "{name}");
        assert!(all.iter().any(|record| record["t"] == name) || name == "beat", "{name}");
    }
    let is_last = |event: &Value| event["type"] == "finish" && event["record"]["op"] == *end;
    let mut late = Subscriber::session(&root, &own);
    late.subscribe(json!({"after": 0}));
    let heard = told(&late.until(is_last));
    assert_eq!(heard, expected);
    // Also from the middle of the life of a child that is gone, and for who was there from the beginning.
    let middle = expected.iter().rev().find(|record| record["sid"] == gone).unwrap()["seq"].as_u64().unwrap() - 1;
    late.subscribe(json!({"after": middle}));
    let behind =
        |from: u64| expected.iter().filter(|record| record["seq"].as_u64() > Some(from)).cloned().collect::<Vec<_>>();
    assert_eq!(told(&late.until(is_last)), behind(middle));
    assert_eq!(told(&early.until(is_last)), behind(early_from["seq"].as_u64().unwrap()));
    // Of others it cannot even ask.
    let mut unknown = late.ask("events.subscribe", json!({"sessions": ["nobodyatall1"]}))["error"].to_string();
    for other in [&sibling, &grandchild, &stranger, &parent] {
        let refused = late.ask("events.subscribe", json!({"sessions": [other]}))["error"].to_string();
        assert_eq!(refused.replace(text(other), "nobodyatall1"), unknown);
        unknown = refused.replace(text(other), "nobodyatall1");
    }
    // Once it is deleted it is nobody.
    root.json(["delete", text(&own)]);
    let end = late.until(|event| event["type"] == "end");
    assert_eq!(end.last().unwrap()["error"]["code"], "unauthenticated");
}

#[test]
fn field_j04_who_reads_no_events_holds_up_nobody_and_costs_a_bounded_piece_of_memory() {
    let root = Root::new();
    let broker = crate::support::Process::of_value(&root.ensure()["pid"]);
    let mut silent: Vec<Subscriber> = (0..20).map(|_| Subscriber::owner(&root)).collect();
    for subscriber in &mut silent {
        for _ in 0..OF_CONNECTION {
            subscriber.subscribe(json!({}));
        }
    }
    let mut quitting = Subscriber::owner(&root);
    let number = quitting.subscribe(json!({}));
    let before = Usage::of(broker);
    let mut worker = Subscriber::owner(&root);
    for number in 0..1_000 {
        worker.gets("session.prune", pass(number));
    }
    // 320 times what was written since would be some 500 MiB.
    let grown_kib = Usage::of(broker).own_kib.saturating_sub(before.own_kib);
    assert!(grown_kib < 64 * 1024, "{grown_kib} KiB");
    assert_eq!(root.json(["status"])["state"], "running");
    // What was on its way to one who gives up comes before the answer, and nothing after it.
    assert!(quitting.ends(number).len() > 100);
    quitting.gets("broker.status", json!({}));
    assert_eq!(quitting.heard(), Vec::<Value>::new());
    // It was not left out of anything: it has only to read.
    let mut of_all = silent.swap_remove(7);
    let last = records(&root).last().unwrap()["seq"].clone();
    let mut told = std::collections::BTreeMap::<u64, Vec<u64>>::new();
    while told.len() < OF_CONNECTION || told.values().any(|seqs| json!(seqs.last()) != last) {
        let event = of_all.event();
        told.entry(event["subscription"].as_u64().unwrap()).or_default().push(event["seq"].as_u64().unwrap());
    }
    let one = told.values().next().unwrap();
    assert!(one.len() >= 2_000 && told.values().all(|seqs| seqs == one));
}

#[test]
fn after_the_answer_of_unsubscribe_nothing_comes_and_its_position_goes_on() {
    let root = Root::new();
    let mut subscriber = Subscriber::owner(&root);
    let mut worker = Subscriber::owner(&root);
    let (mut all, mut after) = (Vec::new(), 0);
    for round in 0..10 {
        let number = subscriber.subscribe(json!({"after": after}));
        for each in 0..10 {
            worker.say("session.prune", &pass(10 * round + each));
        }
        all.push(subscriber.event());
        let ended = subscriber.gets("events.unsubscribe", json!({"subscription": number}));
        all.extend(subscriber.heard());
        after = ended["seq"].as_u64().unwrap();
        assert!(all.last().unwrap()["seq"].as_u64() <= Some(after));
        // Nothing but answers comes now.
        for _ in 0..10 {
            worker.any_answer();
        }
        assert_eq!(subscriber.refused("events.unsubscribe", json!({"subscription": number})).0, "not_found");
        assert_eq!(subscriber.heard(), Vec::<Value>::new());
    }
    let number = subscriber.subscribe(json!({"after": after}));
    assert_eq!(
        worker.refused("events.unsubscribe", json!({"subscription": number})).0,
        "not_found",
        "of another connection"
    );
    all.extend(subscriber.rest(&root, number));
    assert_eq!(told(&all), records_up_to(&root, &all));
}

#[test]
fn subscriptions_have_a_limit_for_a_connection_and_for_all() {
    let root = Root::new();
    let full = ("capacity".to_owned(), json!("subscriptions"));
    let mut all: Vec<(Subscriber, u64)> = Vec::new();
    for _ in 0..OF_BROKER / OF_CONNECTION {
        let mut subscriber = Subscriber::owner(&root);
        let numbers: Vec<u64> = (0..OF_CONNECTION).map(|_| subscriber.subscribe(json!({}))).collect();
        assert_eq!(subscriber.refused("events.subscribe", json!({})), full);
        all.push((subscriber, numbers[0]));
    }
    let mut more = Subscriber::owner(&root);
    assert_eq!(more.refused("events.subscribe", json!({})), full);
    let (subscriber, number) = &mut all[3];
    subscriber.ends(*number);
    let number = more.subscribe(json!({}));
    assert_eq!(more.refused("events.subscribe", json!({})), full);
    more.ends(number);
    // They end with their connection.
    drop(all.pop());
    wait_until(SOON, "those of a connection that has ended to be gone", || {
        more.ask("events.subscribe", json!({}))["result"].is_object()
            && more.ask("events.subscribe", json!({}))["result"].is_object()
    });
}

#[test]
fn a_bridge_passes_events() {
    let root = Root::new();
    let mut bridge = Running::start(&mut root.command(["connect"]));
    bridge.says("hello");
    let subscribe = json!({"jsonrpc": "2.0", "id": "s", "method": "events.subscribe", "params": {"types": ["accept"]}});
    bridge.give(format!("{subscribe}\n").as_bytes());
    bridge.says(r#""id":"s""#);
    let session = root.spawn(&[], &["true"])["id"].clone();
    bridge.says(r#""method":"event""#);
    let lines: Vec<Value> = bridge.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = &lines.iter().find(|line| line["method"] == "event").unwrap()["params"];
    assert_eq!((&told["session_id"], &told["record"]["kind"]), (&session, &json!("session.spawn")));
    // It is no answer: the bridge ends once its input has, whatever else is told.
    bridge.end().exits(0);
    root.json(["wait", text(&session)]);
}

/// Segments of some records, and hardly any operation is known.
const LIMITS: &str = "segment_bytes:20000,snapshot_tail_bytes:1,recent:2,of_session:1,batch:4,settled:8,window_us:1";

#[test]
fn what_was_retired_is_told_as_that_and_not_stepped_over() {
    let root = Root::with_limits(LIMITS);
    let mut worker = Subscriber::owner(&root);
    let mut slow = Subscriber::owner(&root);
    let number = slow.subscribe(json!({"after": 0}));
    // More than fits between the broker and one who does not read.
    (0..1_200).for_each(|number| drop(worker.gets("session.prune", pass(number))));
    let retired = root.json(["ledger", "retire", "--yes"]);
    let last = retired["last"].as_u64().unwrap();
    let expired = ("expired_cursor".to_owned(), json!("retired"));
    assert_eq!(worker.refused("events.subscribe", json!({"after": 0})), expired);
    assert_eq!(worker.refused("events.subscribe", json!({"after": last - 1})), expired);
    let number_of_rest = worker.subscribe(json!({"after": last}));
    let rest = worker.rest(&root, number_of_rest);
    assert_eq!(told(&rest), records_up_to(&root, &rest));
    // What was on its way comes, in order, and then the reason.
    let events = slow.until(|event| event["type"] == "end");
    let (end, before) = events.split_last().unwrap();
    assert!(before.windows(2).all(|two| two[0]["seq"].as_u64() < two[1]["seq"].as_u64()));
    assert_eq!((&end["error"]["code"], &end["record"]), (&json!("expired_cursor"), &Value::Null), "{end}");
    assert_eq!(end["error"]["data"]["first"], json!(last + 1));
    assert!(before.last().unwrap()["seq"].as_u64() <= end["seq"].as_u64() && end["seq"].as_u64() < Some(last));
    assert_eq!(slow.refused("events.unsubscribe", json!({"subscription": number})).0, "not_found");
}

#[test]
fn a_record_that_is_damaged_ends_it_and_the_next_one_goes_on_behind() {
    let mut root = Root::new();
    root.damages_the_ledger();
    let mut worker = Subscriber::owner(&root);
    (0..20).for_each(|number| drop(worker.gets("session.prune", pass(number))));
    let all = records(&root);
    let hurt = all[10]["seq"].as_u64().unwrap();
    let segment = root.path().join("ledger/00000000000000000001.jsonl");
    let stored = fs::read_to_string(&segment).unwrap();
    let whole = stored.lines().find(|line| line.contains(&format!(r#""seq":{hurt},"#))).unwrap();
    fs::write(&segment, stored.replace(whole, &"x".repeat(whole.len()))).unwrap();
    let mut subscriber = Subscriber::owner(&root);
    subscriber.subscribe(json!({"after": 0}));
    let events = subscriber.until(|event| event["type"] == "end");
    let (end, before) = events.split_last().unwrap();
    assert_eq!(told(before), all[..10]);
    assert_eq!((&end["error"]["code"], &end["error"]["data"]["after"]), (&json!("integrity"), &json!(hurt)), "{end}");
    let behind = subscriber.subscribe(json!({"after": hurt}));
    assert_eq!(told(&subscriber.rest(&root, behind)), all[11..]);
}

#[test]
fn a_subscriber_that_is_frozen_is_there_when_it_goes_on() {
    let root = Root::new();
    let mut bridge = Running::start(&mut root.command(["connect"]));
    bridge.says("hello");
    bridge.give(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"events.subscribe\",\"params\":{\"after\":0}}\n");
    bridge.says("subscription");
    bridge.signal(Signal::SIGSTOP);
    let mut worker = Subscriber::owner(&root);
    (0..1_000).for_each(|number| drop(worker.gets("session.prune", pass(number))));
    bridge.signal(Signal::SIGCONT);
    let last = records(&root).last().unwrap()["seq"].as_u64().unwrap();
    bridge.says(&format!(r#""seq":{last},"#));
    let text = bridge.text();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let told: Vec<Value> =
        lines.filter(|line| line["method"] == "event").map(|line| line["params"]["record"].clone()).collect();
    assert_eq!(told, records(&root));
}
