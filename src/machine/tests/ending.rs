//! Who wanted an episode to end, when and why, and what its program is told of that.

use super::turns::{ready, send, started, taken};
use super::*;

/// A stop with these words, by A's parent P or the owner.
fn stop_for(reason: Option<&str>, grace_ms: u64) -> Action {
    Action::Stop { target: Ok(sid(A)), grace_ms, reason: reason.map(str::to_owned) }
}

fn halt(world: &World) -> Option<Halt> {
    world.state.sessions.get(&sid(A)).and_then(|session| session.stop.as_deref().cloned())
}

/// Whether its program is told, as in [`Session::notice`].
fn is_told(world: &World) -> bool {
    world.state.sessions.get(&sid(A)).is_some_and(|session| session.notice().is_some())
}

fn alive() -> World {
    let mut world = World::new();
    world.fresh(spawn(A, None));
    world.saw(A, 1, Word::Started(run(1)));
    world
}

#[test]
fn a_stop_tells_who_asked_when_and_why_and_the_first_one_counts() {
    let mut world = alive();
    let asked_us = world.now.wall_us;
    world.fresh(stop_for(Some("too slow"), 10_000));
    let first = Halt {
        operation: Some(OperationId(5)),
        by: Some(Scope::Owner),
        reason: Some("too slow".to_owned()),
        asked_us,
        grace_ms: 10_000,
        turn: None,
    };
    assert_eq!((halt(&world), first.deadline_us()), (Some(first.clone()), asked_us + 10_000_000));
    world.now.wall_us += 1;
    world.now.boot_us += 1;
    assert_eq!(world.fresh(stop_for(Some("me too"), 1)), "accept op-6 stop joinfor, => op-6");
    world.fresh(stop(A));
    assert_eq!(halt(&world), Some(first.clone()));
    // Each operation keeps its own words, also when it is read back from its records.
    let reason = |world: &World, id| world.state.operations.get(&OperationId(id)).unwrap().reason.clone();
    assert_eq!([5, 6, 7].map(|id| reason(&world, id)), [first.reason.clone(), Some("me too".to_owned()), None]);
    // It is told as long as the stop is under way, by the next broker too, and is known until the next episode.
    assert!(is_told(&world));
    world.generation();
    assert!(is_told(&world));
    world.saw(A, 1, exited(0));
    assert_eq!((is_told(&world), halt(&world)), (false, Some(first.clone())));
    world.fresh(stop(A));
    assert_eq!(halt(&world), Some(first), "a stop of what has ended is none");
    world.fresh(resume(A, 2));
    assert_eq!(halt(&world), None);
    world.saw(A, 2, Word::Started(run(2)));
    assert_eq!((is_told(&world), halt(&world)), (false, None), "the notice of an episode is not the next one's");
}

#[test]
fn a_resume_that_came_to_nothing_leaves_the_stop_as_it_was() {
    let mut world = alive();
    world.fresh(stop_for(Some("r"), 1));
    world.saw(A, 1, exited(0));
    let before = halt(&world);
    world.fresh(resume(A, 2));
    world.saw(A, 2, Word::LaunchFailed { phase: Phase::Exec, reason: "not found".to_owned(), obstacle: None });
    assert_eq!((world.status(A).as_str(), halt(&world)), ("stopped", before));
}

#[test]
fn the_session_turn_that_it_cuts_is_named() {
    let mut world = started();
    world.fresh(stop(A));
    assert_eq!(halt(&world).map(|halt| halt.turn), Some(Some(0)), "the program had not shown its prompt");
    let mut world = ready();
    world.fresh(stop(A));
    assert_eq!(halt(&world).map(|halt| halt.turn), Some(None), "between two turns none is cut");
    let mut world = ready();
    world.fresh(send());
    world.saw(A, 1, taken(6, 8));
    world.fresh(delete(A, true));
    assert_eq!(halt(&world).map(|halt| halt.turn), Some(Some(8)));
}

/// Its parent is named, and a turn that did not heed its interrupt is the broker's own doing.
#[test]
fn whoever_asked_is_named() {
    let mut world = World::new();
    world.fresh(spawn(B, None));
    world.saw(B, 1, Word::Started(run(1)));
    let parent = || Scope::Session(sid(B));
    world.ask_as(parent(), "k", 1, spawn(A, None));
    world.saw(A, 1, Word::Started(run(1)));
    world.ask_as(parent(), "s", 1, stop_for(None, 1));
    assert_eq!(halt(&world).and_then(|halt| halt.by), Some(parent()));

    let mut world = ready();
    world.fresh(send());
    world.saw(A, 1, taken(6, 8));
    let Action::Send(parcel) = send() else { unreachable!() };
    world.fresh(Action::Send(Box::new(Parcel { mode: Mode::Interrupt, ..*parcel })));
    world.now.boot_us += 30_000_000;
    world.step(Input::Tick);
    let halt = halt(&world).expect("it is stopped");
    assert_eq!((halt.operation, halt.by, halt.turn), (None, None, Some(8)));
    assert_eq!(halt.reason.as_deref(), Some("interrupt_timeout"));
}

/// What waits is not handed to a program that is told to end, and is cancelled with it; what it has it may acknowledge.
#[test]
fn while_it_is_stopped_nothing_more_is_pulled() {
    let mut world = alive();
    world.fresh(send());
    world.fresh(send());
    let pull = |id: u64| Input::Pull { session: sid(A), messages: vec![MessageId(id)] };
    assert_eq!(world.step(pull(5)), "msg-5 pulled, => pulled");
    world.fresh(stop(A));
    assert_eq!(world.step(pull(7)), "=> pulled");
    assert_eq!(world.step(pull(5)), "=> pulled", "read again, and recorded once");
    let acknowledge = Action::Acknowledge { messages: vec![MessageId(5)] };
    let told = world.ask_as(Scope::Session(sid(A)), "a", 1, acknowledge);
    assert!(told.contains("msg-5 acknowledged"), "{told}");
    world.saw(A, 1, exited(0));
    let state = |id: u64| world.state.messages.get(&MessageId(id)).map(|of| (of.state, of.reason.clone()));
    assert_eq!(state(7), Some((MessageState::Cancelled, Some("session_ended".to_owned()))));
}
