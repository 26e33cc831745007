//! Session turns as a host tells them: by the prompt, once each, also to a broker that comes later; and a signal only for the turn that is meant.

use data_encoding::BASE64;
use ostler::host::spec::Adapter;
use ostler::os::arg::Arg;
use serde_json::{Value, json};

use super::bed::{Bed, Talk};

/// A shell with a prompt; at `work` it goes on once it was interrupted, at `hold` once it may.
fn prompted() -> Bed {
    let script = "trap 'echo INT; x=1' INT; printf '>'; while read -r line; do echo \"got $line\"; \
                  if [ \"$line\" = work ]; then echo working; x=; until [ -n \"$x\" ]; do sleep 0.01; done; fi; \
                  if [ \"$line\" = hold ]; then echo holding; until [ -e go ]; do sleep 0.01; done; fi; printf '>'; done";
    Bed::with(|spec| {
        spec.command = ["sh", "-c", script].map(Arg::from).to_vec();
        spec.adapter = Adapter::Lines;
        spec.prompt = Some(">$".to_owned());
    })
}

fn deliver(broker: &mut Talk, attempt: u64, line: &str) {
    let b64 = BASE64.encode(format!("{line}\n").as_bytes());
    let answer = broker.ask(json!({"request": "deliver", "message": "m", "attempt": attempt, "b64": b64}));
    assert!(answer["delivery"]["accepted"].is_object(), "{answer}");
}

/// Waits for the end of a turn, past answers and beats.
#[track_caller]
fn over(broker: &mut Talk) -> u64 {
    loop {
        let line = broker.hear().expect("the host lives");
        if line["push"] == "turn" {
            assert_eq!(line["runs"], false, "{line}");
            return line["number"].as_u64().expect("a number");
        }
    }
}

fn turn(broker: &mut Talk) -> Value {
    broker.ask(json!({"request": "status"}))["turn"].clone()
}

#[test]
fn a_prompt_is_the_end_of_one_turn_and_the_next_broker_hears_of_it() {
    let bed = prompted();
    let record = bed.start();
    let mut first = Talk::broker(&record, 2);
    // Its first prompt may have come before this broker.
    if turn(&mut first) != json!({"number": 0, "runs": false}) {
        assert_eq!(over(&mut first), 0);
    }
    deliver(&mut first, 7, "one");
    assert_eq!(over(&mut first), 7);
    deliver(&mut first, 9, "work");
    bed.line("working");
    assert_eq!(turn(&mut first), json!({"number": 9, "runs": true}));
    // The same attempt again is no new turn, and no other broker hears of an end that was none.
    deliver(&mut first, 7, "one");
    let mut second = Talk::broker(&record, 3);
    assert_eq!(turn(&mut second), json!({"number": 9, "runs": true}));
    let interrupt = |broker: &mut Talk, attempt: u64, turn: u64| {
        broker.ask(json!({"request": "interrupt", "attempt": attempt, "turn": turn}))["sent"].clone()
    };
    for (attempt, other) in [(11, 7), (12, 0), (13, 10)] {
        assert_eq!(interrupt(&mut second, attempt, other), false, "turn {other} does not run");
    }
    assert_eq!(interrupt(&mut second, 14, 9), true);
    assert_eq!(over(&mut second), 9);
    assert_eq!(interrupt(&mut second, 14, 9), true, "it was sent, and is not again");
    assert_eq!(interrupt(&mut second, 15, 9), false, "it is over");
    assert_eq!(turn(&mut second), json!({"number": 9, "runs": false}));
    second.stop(0);
    bed.ended();
    assert_eq!(bed.output().matches("INT").count(), 1);
}

/// Whoever asked first may have been withdrawn before its broker knew that the signal was sent: the next one asks for the same turn.
#[test]
fn a_turn_is_interrupted_once_whoever_asks() {
    let bed = prompted();
    let record = bed.start();
    let mut broker = Talk::broker(&record, 2);
    if turn(&mut broker) != json!({"number": 0, "runs": false}) {
        assert_eq!(over(&mut broker), 0);
    }
    let interrupt = |broker: &mut Talk, attempt: u64, turn: u64| {
        broker.ask(json!({"request": "interrupt", "attempt": attempt, "turn": turn}))["sent"].clone()
    };
    deliver(&mut broker, 7, "hold");
    bed.line("holding");
    assert_eq!(interrupt(&mut broker, 8, 7), true);
    bed.line("INT");
    assert_eq!(interrupt(&mut broker, 9, 7), true, "for this turn it was sent");
    std::fs::write(bed.folder().join("go"), "").unwrap();
    assert_eq!(over(&mut broker), 7);
    deliver(&mut broker, 10, "work");
    bed.line("working");
    assert_eq!(interrupt(&mut broker, 11, 10), true, "the next turn is another one");
    assert_eq!(over(&mut broker), 10);
    broker.stop(0);
    bed.ended();
    assert_eq!(bed.output().matches("INT").count(), 2);
}

#[test]
fn a_host_without_a_prompt_says_nothing_of_turns() {
    let bed = Bed::taking(&["copy"]);
    let record = bed.start();
    let mut broker = Talk::broker(&record, 2);
    deliver(&mut broker, 1, "one");
    assert_eq!(turn(&mut broker), Value::Null);
    broker.stop(0);
    bed.ended();
}
