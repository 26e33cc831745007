//! What is asked for and given up: one case at least for each method, and one for each way in which it waits.

use super::bed::{Ask, Bed, ended};
use crate::machine::{Carried, SessionId, Word};
use crate::rpc::method::Method;
use crate::rpc::wire::Identity;
use serde_json::{Value, json};

/// A request, in a world that is ready for it.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) method: Method,
    /// Makes the world, and says what is asked.
    pub(super) scene: fn(&mut Bed) -> Ask,
    /// What happens once everything waits. May happen often, and without the request.
    pub(super) cue: fn(&mut Bed),
    /// Given up, it may leave a folder that no record names: the next start sweeps it.
    pub(super) leaves_folder: bool,
}

const fn case(name: &'static str, method: Method, scene: fn(&mut Bed) -> Ask) -> Case {
    Case { name, method, scene, cue: |_| {}, leaves_folder: false }
}

const fn cued(name: &'static str, method: Method, scene: fn(&mut Bed) -> Ask, cue: fn(&mut Bed)) -> Case {
    Case { name, method, scene, cue, leaves_folder: false }
}

/// The scenes have a session `s`, where they have one; what is given up has the key `k`.
pub(super) const CASES: &[Case] = &[
    case("the broker", Method::BrokerStatus, |_| owner(Method::BrokerStatus, json!({}))),
    case("a shutdown", Method::BrokerShutdown, |_| owner(Method::BrokerShutdown, json!({}))),
    case("findings", Method::LedgerAccept, |_| {
        let finding = json!({"class": "torn_tail", "first": null, "missing": 0, "offset": 7, "segment": "1.jsonl"});
        owner(Method::LedgerAccept, json!({"reason": "seen", "findings": [finding]}))
    }),
    case("a retirement", Method::LedgerRetire, |_| owner(Method::LedgerRetire, json!({}))),
    Case { leaves_folder: true, ..case("a spawn", Method::SessionSpawn, |_| owner(Method::SessionSpawn, spawn("k"))) },
    case("a spawn that is known", Method::SessionSpawn, |bed| {
        let known = bed.gets(Method::SessionSpawn, spawn("k"));
        bed.gets(Method::SessionResume, json!({"key": "later", "session": known["session"]["id"]}));
        many(bed);
        owner(Method::SessionSpawn, spawn("k"))
    }),
    Case {
        leaves_folder: true,
        ..case("a fork", Method::SessionFork, |bed| {
            let source = bed.gets(Method::SessionSpawn, spawn("source"));
            owner(Method::SessionFork, json!({"key": "k", "session": source["session"]["id"]}))
        })
    },
    case("a resume", Method::SessionResume, |bed| {
        bed.scene("inbox");
        bed.word("s", ended());
        owner(Method::SessionResume, json!({"key": "k", "session": "s"}))
    }),
    case("a resume of what lives", Method::SessionResume, |bed| {
        bed.scene("inbox");
        owner(Method::SessionResume, json!({"key": "k", "session": "s"}))
    }),
    case("a stop", Method::SessionStop, |bed| {
        bed.scene("inbox");
        bed.sends("waits");
        owner(Method::SessionStop, json!({"key": "k", "session": "s"}))
    }),
    cued(
        "a stop that takes its time",
        Method::SessionStop,
        |bed| {
            bed.scene("inbox");
            bed.is_silent = true;
            owner(Method::SessionStop, json!({"key": "k", "session": "s"}))
        },
        Bed::speak,
    ),
    case("an interrupt", Method::SessionInterrupt, |bed| {
        bed.scene("inbox");
        owner(Method::SessionInterrupt, json!({"key": "k", "session": "s"}))
    }),
    case("a deletion", Method::SessionDelete, |bed| {
        bed.scene("inbox");
        bed.sends("waits");
        owner(Method::SessionDelete, json!({"key": "k", "session": "s", "stop": true}))
    }),
    case("a prune", Method::SessionPrune, |bed| {
        bed.scene("inbox");
        bed.word("s", ended());
        owner(Method::SessionPrune, json!({"key": "k", "older_ms": 0}))
    }),
    case("a session", Method::SessionGet, |bed| {
        bed.scene("inbox");
        owner(Method::SessionGet, json!({"session": "s"}))
    }),
    case("sessions", Method::SessionList, |bed| {
        many(bed);
        owner(Method::SessionList, json!({"limit": 1}))
    }),
    cued(
        "a wait for the end",
        Method::SessionWait,
        |bed| {
            bed.scene("inbox");
            owner(Method::SessionWait, json!({"session": "s", "for": "ended", "timeout_ms": LONG_MS}))
        },
        |bed| bed.word("s", ended()),
    ),
    cued(
        "a wait for readiness",
        Method::SessionWait,
        |bed| {
            bed.is_silent = true;
            let mut params = spawn("starts");
            params["name"] = "s".into();
            bed.begins(Method::SessionSpawn, params);
            owner(Method::SessionWait, json!({"session": "s", "for": "ready"}))
        },
        Bed::speak,
    ),
    cued(
        "a wait until it is idle",
        Method::SessionWait,
        |bed| {
            bed.scene("lines");
            bed.is_silent = true;
            bed.sends("on its way");
            owner(Method::SessionWait, json!({"session": "s", "for": "idle"}))
        },
        Bed::speak,
    ),
    case("a wait for what nobody can see", Method::SessionWait, |bed| {
        bed.scene("inbox");
        bed.word("s", foreign());
        owner(Method::SessionWait, json!({"session": "s", "for": "ended"}))
    }),
    case("output", Method::SessionRead, |bed| {
        bed.scene("inbox");
        owner(Method::SessionRead, json!({"session": "s"}))
    }),
    case("an endpoint", Method::SessionEndpoint, |bed| {
        bed.scene("inbox");
        owner(Method::SessionEndpoint, json!({"session": "s"}))
    }),
    case("a turn", Method::SessionTurn, |bed| {
        bed.scene("inbox");
        bed.of("s", Method::SessionTurn, json!({"key": "k", "event": "begin", "turn": 1, "episode": 1}))
    }),
    case("a word of readiness", Method::SessionReady, |bed| {
        bed.scene("inbox");
        bed.of("s", Method::SessionReady, json!({"key": "k", "episode": 1}))
    }),
    case("a reconciliation", Method::SessionReconcile, |bed| {
        bed.scene("inbox");
        bed.word("s", foreign());
        owner(Method::SessionReconcile, json!({"key": "k", "session": "s"}))
    }),
    case("a decision", Method::OperationResolve, |bed| {
        bed.scene("inbox");
        bed.is_silent = true;
        bed.begins(Method::SessionStop, json!({"key": "doubt", "session": "s"}));
        bed.word("s", foreign());
        let params = json!({"key": "k", "operation": "doubt", "outcome": "failed", "reason": "seen"});
        owner(Method::OperationResolve, params)
    }),
    case("an operation that was let go", Method::OperationGet, |bed| {
        bed.scene("inbox");
        bed.gets(Method::SessionResume, json!({"key": "later", "session": "s"}));
        many(bed);
        owner(Method::OperationGet, json!({"operation": "spawn-s"}))
    }),
    case("operations", Method::OperationList, |bed| {
        many(bed);
        owner(Method::OperationList, json!({}))
    }),
    case("a message", Method::MessageSend, |bed| {
        bed.scene("inbox");
        message(json!({}))
    }),
    case("a message to what takes lines", Method::MessageSend, |bed| {
        bed.scene("lines");
        message(json!({"wait_for": "delivered"}))
    }),
    cued(
        "a message that is on its way",
        Method::MessageSend,
        |bed| {
            bed.scene("lines");
            bed.is_silent = true;
            message(json!({"wait_for": "delivered", "wait_ms": LONG_MS}))
        },
        Bed::speak,
    ),
    cued(
        "a message until it is acknowledged",
        Method::MessageSend,
        |bed| {
            bed.scene("inbox");
            message(json!({"wait_for": "acknowledged"}))
        },
        |bed| {
            let who = session(&bed.id("s"));
            let read = bed.asked(&who, Method::InboxRead, json!({})).unwrap();
            for message in read["messages"].as_array().unwrap() {
                let params = json!({"key": format!("ack-{}", message["id"]), "messages": [message["id"]]});
                bed.asked(&who, Method::InboxAck, params).unwrap();
            }
        },
    ),
    case("a message that starts its session", Method::MessageSend, |bed| {
        bed.scene("lines");
        bed.word("s", ended());
        message(json!({"resume": true, "wait_for": "delivered"}))
    }),
    case("a message that interrupts", Method::MessageSend, |bed| {
        let mut params = spawn("spawn-s");
        params["name"] = "s".into();
        params["adapter"] = "lines".into();
        params["prompt"] = ">>> $".into();
        bed.gets(Method::SessionSpawn, params);
        bed.word("s", Word::Turn { number: 0, runs: false });
        bed.sends("works");
        message(json!({"mode": "interrupt"}))
    }),
    case("one message", Method::MessageGet, |bed| {
        bed.scene("inbox");
        let id = bed.sends("waits");
        owner(Method::MessageGet, json!({"message": id}))
    }),
    case("messages", Method::MessageList, |bed| {
        bed.scene("inbox");
        bed.sends("waits");
        owner(Method::MessageList, json!({"session": "s"}))
    }),
    case("a withdrawal", Method::MessageCancel, |bed| {
        bed.scene("inbox");
        let id = bed.sends("waits");
        owner(Method::MessageCancel, json!({"key": "k", "message": id}))
    }),
    case("a decision about a message", Method::MessageResolve, |bed| {
        bed.scene("lines");
        bed.carries = Carried::Unknown { reason: "lost".to_owned() };
        let id = bed.sends("perhaps");
        bed.carries = Carried::Taken { at_us: 2 };
        owner(Method::MessageResolve, json!({"key": "k", "message": id, "decision": "retry"}))
    }),
    case("a pull", Method::InboxRead, |bed| {
        bed.scene("inbox");
        bed.sends("one");
        bed.sends("two");
        bed.of("s", Method::InboxRead, json!({}))
    }),
    cued(
        "a pull that waits",
        Method::InboxRead,
        |bed| {
            bed.scene("inbox");
            bed.of("s", Method::InboxRead, json!({"wait_ms": LONG_MS}))
        },
        |bed| drop(bed.sends("one")),
    ),
    cued(
        "a pull that a stop ends",
        Method::InboxRead,
        |bed| {
            bed.scene("inbox");
            bed.is_silent = true;
            bed.of("s", Method::InboxRead, json!({"wait_ms": LONG_MS}))
        },
        |bed| bed.begins(Method::SessionStop, json!({"key": "stop", "session": "s", "reason": "enough"})),
    ),
    case("an acknowledgement", Method::InboxAck, |bed| {
        bed.scene("inbox");
        let id = bed.sends("one");
        let read = bed.of("s", Method::InboxRead, json!({}));
        bed.asked(&read.who, read.method, read.params).unwrap();
        bed.of("s", Method::InboxAck, json!({"key": "k", "messages": [id]}))
    }),
    case("a report", Method::ReportPost, |bed| {
        let ask = bed.report("k");
        bed.sends("not read");
        ask
    }),
    case("one report", Method::ReportRead, |bed| {
        let ask = bed.report("posted");
        bed.asked(&ask.who, ask.method, ask.params).unwrap();
        owner(Method::ReportRead, json!({"session": "s"}))
    }),
    case("reports", Method::ReportList, |bed| {
        for key in ["one", "two"] {
            let ask = bed.report(key);
            bed.asked(&ask.who, ask.method, ask.params).unwrap();
        }
        owner(Method::ReportList, json!({"session": "s"}))
    }),
    case("a subscription", Method::EventsSubscribe, |bed| {
        bed.scene("inbox");
        owner(Method::EventsSubscribe, json!({}))
    }),
    case("a subscription to what was", Method::EventsSubscribe, |bed| {
        bed.scene("inbox");
        bed.of("s", Method::EventsSubscribe, json!({"after": 0, "sessions": ["s"]}))
    }),
    case("the end of a subscription", Method::EventsUnsubscribe, |bed| {
        let subscribe = Ask { connection: Some(1), ..owner(Method::EventsSubscribe, json!({"after": 0})) };
        let (answer, _) = bed.drive(&subscribe, None, &|_| {});
        let subscription = &answer.unwrap().unwrap()["subscription"];
        Ask { connection: Some(1), ..owner(Method::EventsUnsubscribe, json!({"subscription": subscription})) }
    }),
];

/// Longer than any test.
const LONG_MS: u64 = 600_000;

impl Bed {
    /// A session `s` that takes messages so.
    fn scene(&mut self, adapter: &str) {
        let mut params = spawn("spawn-s");
        params["name"] = "s".into();
        params["adapter"] = adapter.into();
        self.gets(Method::SessionSpawn, params);
    }

    /// A message to `s`; its id.
    fn sends(&mut self, text: &str) -> Value {
        self.gets(Method::MessageSend, json!({"key": text, "session": "s", "text": text}))["message"]["id"].clone()
    }

    /// What a session asks.
    fn of(&self, name: &str, method: Method, params: Value) -> Ask {
        Ask { who: session(&self.id(name)), method, params, connection: None }
    }

    /// A report of `s`, whose parent is told.
    fn report(&mut self, key: &str) -> Ask {
        if self.front.view.read().names.iter().next().is_none() {
            let parent = self.gets(Method::SessionSpawn, spawn("spawn-parent"))["session"]["id"].clone();
            let mut params = spawn("spawn-s");
            params["name"] = "s".into();
            self.asked(&session(parent.as_str().unwrap()), Method::SessionSpawn, params).unwrap();
        }
        self.of("s", Method::ReportPost, json!({"key": key, "status": "success", "title": "done", "body": "all of it"}))
    }
}

fn owner(method: Method, params: Value) -> Ask {
    Ask { who: Identity::Owner, method, params, connection: None }
}

fn session(id: &str) -> Identity {
    Identity::Session(SessionId::parse(id).unwrap().to_string())
}

fn spawn(key: &str) -> Value {
    json!({"key": key, "command": ["true"], "cwd": "/"})
}

fn message(extra: Value) -> Ask {
    let mut params = json!({"key": "k", "session": "s", "text": "text"});
    params.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    owner(Method::MessageSend, params)
}

fn foreign() -> Word {
    Word::Foreign { reason: "damaged".to_owned() }
}

/// More operations than are kept in full.
fn many(bed: &mut Bed) {
    ["one", "two", "three"].into_iter().for_each(|key| drop(bed.gets(Method::SessionSpawn, spawn(key))));
}
