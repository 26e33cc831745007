//! A subscriber at the broker's socket: asks, and takes what it is told meanwhile.

use std::collections::VecDeque;
use std::fs;

use serde_json::{Value, json};

use crate::cli::wire::Wire;
use crate::support::Root;
use crate::support::scene::text;

/// What the ledger writes for itself tells no event.
const NO_EVENT: [&str; 8] = ["segment", "mark", "gap", "recovered", "carry", "retire", "seal", "accepted"];

pub(crate) struct Subscriber {
    wire: Wire,
    id: u64,
    told: VecDeque<Value>,
}

impl Subscriber {
    /// As the owner.
    pub(crate) fn owner(root: &Root) -> Subscriber {
        Subscriber { wire: Wire::hello(root), id: 1_000, told: VecDeque::new() }
    }

    /// As this session.
    pub(crate) fn session(root: &Root, session: &Value) -> Subscriber {
        let path = root.path().join("sessions").join(text(session)).join("credential");
        let token = fs::read_to_string(path).unwrap();
        let mut wire = Wire::dial(root);
        let client = json!({"name": "test", "version": "0"});
        let params =
            json!({"protocol": {"min": 1, "max": 1}, "client": client, "token": token.trim(), "as": "session"});
        let answer = wire.ask("hello", params);
        assert_eq!(&answer["result"]["identity"]["session_id"], session, "{answer}");
        Subscriber { wire, id: 1_000, told: VecDeque::new() }
    }

    /// Asks without waiting for the answer.
    pub(crate) fn say(&mut self, method: &str, params: &Value) -> u64 {
        self.id += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params});
        self.wire.send(format!("{request}\n").as_bytes());
        self.id
    }

    /// The answer to this.
    #[track_caller]
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        let heard = self.any_answer();
        assert_eq!(heard["id"], id, "{heard}");
        heard
    }

    /// Whatever answer comes next.
    #[track_caller]
    pub(crate) fn any_answer(&mut self) -> Value {
        loop {
            let heard = self.wire.hear().expect("the broker is there");
            if heard["method"] != "event" {
                return heard;
            }
            self.told.push_back(heard["params"].clone());
        }
    }

    /// Asks and gives back the answer; what is told meanwhile is kept.
    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.say(method, &params);
        self.answer(id)
    }

    /// Asks for what succeeds.
    #[track_caller]
    pub(crate) fn gets(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// The code and the reason of the error.
    #[track_caller]
    pub(crate) fn refused(&mut self, method: &str, params: Value) -> (String, Value) {
        let answer = self.ask(method, params);
        let data = &answer["error"]["data"];
        (data["code"].as_str().unwrap_or_else(|| panic!("no error: {answer}")).to_owned(), data["reason"].clone())
    }

    /// Subscribes; the number.
    #[track_caller]
    pub(crate) fn subscribe(&mut self, params: Value) -> u64 {
        self.gets("events.subscribe", params)["subscription"].as_u64().unwrap()
    }

    /// The next event.
    #[track_caller]
    pub(crate) fn event(&mut self) -> Value {
        if let Some(event) = self.told.pop_front() {
            return event;
        }
        let heard = self.wire.hear().expect("the broker is there");
        assert_eq!(heard["method"], "event", "{heard}");
        heard["params"].clone()
    }

    /// The next events, up to one that fits.
    #[track_caller]
    pub(crate) fn until(&mut self, is_last: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut events = Vec::new();
        while events.last().is_none_or(|event| !is_last(event)) {
            events.push(self.event());
        }
        events
    }

    /// All that is told of what the ledger has now, by a subscription that is told the last of it. Nothing comes after it.
    #[track_caller]
    pub(crate) fn rest(&mut self, root: &Root, subscription: u64) -> Vec<Value> {
        let last = records(root).last().expect("there are some")["seq"].clone();
        let mut events = self.until(|event| event["seq"] == last);
        events.extend(self.ends(subscription));
        events
    }

    /// Ends it, and takes what was told up to then.
    #[track_caller]
    pub(crate) fn ends(&mut self, subscription: u64) -> Vec<Value> {
        self.gets("events.unsubscribe", json!({"subscription": subscription}));
        self.told.drain(..).collect()
    }

    /// What was heard beside answers so far.
    pub(crate) fn heard(&mut self) -> Vec<Value> {
        self.told.drain(..).collect()
    }
}

/// What the ledger has that tells an event.
pub(crate) fn records(root: &Root) -> Vec<Value> {
    let lines = root.ostler(["ledger", "export", "--json"]).exits(0).json_lines();
    let records = lines.into_iter().map(|line| line["record"].clone());
    records.filter(|record| !NO_EVENT.contains(&text(&record["t"]))).collect()
}

/// The same, up to the last of these events. A beat may have come since.
pub(crate) fn records_up_to(root: &Root, events: &[Value]) -> Vec<Value> {
    let last = events.last().expect("there are some")["seq"].as_u64();
    records(root).into_iter().filter(|record| record["seq"].as_u64() <= last).collect()
}

/// The records of events.
pub(crate) fn told(events: &[Value]) -> Vec<Value> {
    events.iter().map(|event| event["record"].clone()).collect()
}
