//! Attempts of a message are told apart by their tokens. The same test with a broker that ignores them, planted on purpose, comes to another end:
//! so it is the token that decides, and not the state.

use super::turn::Planted;
use super::turn_tests::{Sut, open, request, run, session, spawn, started};
use crate::machine::*;
use ostler_ledger::storage::SimulatedDisk;

/// What a message is once the answer of its first attempt comes while the second one is under way: by its state alone it would be believed.
fn after_a_stale_answer(planted: Planted) -> MessageState {
    let mut turn = open(&SimulatedDisk::new());
    turn.plant(planted);
    let Action::Spawn { prepared, name, labels, .. } = spawn("a") else { unreachable!() };
    let action = Action::Spawn {
        prepared,
        name,
        labels,
        adapter: crate::machine::Adapter::Lines,
        readiness: None,
        source: None,
    };
    run(&mut turn, vec![(request("k", 1, action), None)]).unwrap();
    run(&mut turn, vec![(started("a"), None)]).unwrap();
    let parcel = Parcel {
        target: Ok(session("a")),
        mode: Mode::Queue,
        body: Some(Body { file: 1, offset: 0, bytes: 1, digest: Digest([7; 32]) }),
        bytes: 1,
        is_long: false,
        expires_in_ms: None,
        interrupt_within_ms: 1,
        resume: false,
        prepared: None,
    };
    run(&mut turn, vec![(request("m", 2, Action::Send(Box::new(parcel))), None)]).unwrap();
    let message = |turn: &Sut| Message::clone(turn.view().read().messages.values().next().unwrap());
    let first = message(&turn);
    let word = |carried| {
        let word = Word::Mail { message: first.id, attempt: first.attempt, carried };
        Input::Observation(Observation { session: session("a"), episode: 1, word })
    };
    run(&mut turn, vec![(word(Carried::NotTaken), None)]).unwrap();
    assert!(message(&turn).state == MessageState::Sending && message(&turn).attempt > first.attempt, "it goes again");
    run(&mut turn, vec![(word(Carried::Taken { at_us: 1 }), None)]).unwrap();
    message(&turn).state
}

#[test]
fn an_answer_of_the_attempt_before_is_told_by_its_token_alone() {
    assert_eq!(after_a_stale_answer(Planted::default()), MessageState::Sending);
    let blind = Planted { ignore_tokens: true, ..Planted::default() };
    assert_eq!(after_a_stale_answer(blind), MessageState::Delivered, "a broker without tokens calls it delivered");
}
