//! Messages that interrupt, in the pure core and in virtual time: what they overtake, whom they stop, and when they do not.

use super::turns::{over, ready, send, started, taken};
use super::*;

fn interrupt() -> Action {
    let Action::Send(parcel) = send() else { unreachable!() };
    Action::Send(Box::new(Parcel { mode: Mode::Interrupt, ..*parcel }))
}

/// A session in turn 8, which message 6 began; the next record is 10.
fn busy() -> World {
    let mut world = ready();
    world.fresh(send());
    assert_eq!(world.saw(A, 1, taken(6, 8)), "msg-6 delivered");
    world
}

fn sent(operation: u64) -> Word {
    Word::Interrupted { operation: OperationId(operation), sent: true }
}

fn row(world: &World, id: u64) -> Message {
    Message::clone(world.state.messages.get(&MessageId(id)).expect("it is there"))
}

fn position(world: &World, id: u64) -> Option<u64> {
    world.state.operations.get(&OperationId(id)).unwrap().gained.position
}

fn later(world: &mut World, ms: u64) {
    world.now = Time { wall_us: world.now.wall_us + ms * 1_000, boot_us: world.now.boot_us + ms * 1_000 };
}

fn due_in_ms(world: &World) -> Option<u64> {
    next_deadline(&world.state, world.now).map(|at_us| at_us.saturating_sub(world.now.boot_us) / 1_000)
}

#[test]
fn it_overtakes_what_waits_and_keeps_behind_its_like() {
    let mut world = busy();
    world.fresh(send());
    world.fresh(send());
    assert_eq!(world.fresh(interrupt()), "accept op-14 message.send send, finish op-14 succeeded, => op-14");
    world.fresh(interrupt());
    assert_eq!([10, 12, 14, 16].map(|id| position(&world, id)), [Some(1), Some(2), Some(1), Some(2)]);
    let now = [14, 16, 10, 12].map(|id| world.state.position(&row(&world, id)));
    assert_eq!(now, [Some(1), Some(2), Some(3), Some(4)]);
    assert_eq!(world.owes(), "interrupt aaaaaaaaaaaa/1 for op-14 in 8", "once, whoever waits for it");
    assert_eq!(world.saw(A, 1, sent(14)), "msg-14 interruptsent");
    assert_eq!((world.owes(), world.saw(A, 1, sent(14))), (String::new(), String::new()), "twice is once");
    assert_eq!(world.saw(A, 1, over(8)), "turn 8 ended, msg-14 sending");
    assert_eq!(world.saw(A, 1, taken(14, 20)), "msg-14 delivered");
    assert_eq!(
        (world.owes(), due_in_ms(&world)),
        (String::new(), None),
        "the second one interrupts no turn of the first's"
    );
    for (turn, next) in [(20, 16), (23, 10), (26, 12)] {
        assert_eq!(world.saw(A, 1, over(turn)), format!("turn {turn} ended, msg-{next} sending"));
        let token = row(&world, next).attempt;
        world.saw(A, 1, taken(next, token));
    }
}

#[test]
fn where_nothing_runs_it_goes_at_once_and_interrupts_nothing() {
    let mut world = ready();
    assert_eq!(
        world.fresh(interrupt()),
        "accept op-6 message.send send, finish op-6 succeeded, msg-6 sending, => op-6"
    );
    assert_eq!((position(&world, 6), world.owes()), (None, "deliver msg-6@8 to aaaaaaaaaaaa/1".to_owned()));
    assert_eq!(row(&world, 6).interrupts, None);
    // What a program does before its first prompt is nobody's turn: a signal would end one that does not handle it yet.
    let mut world = started();
    world.fresh(send());
    world.fresh(interrupt());
    assert_eq!((world.owes(), due_in_ms(&world)), (String::new(), None));
    assert_eq!(world.saw(A, 1, over(0)), "turn 0 ended, msg-7 sending", "and it is the first");
}

#[test]
fn who_cannot_is_told_before_anything_is_recorded() {
    for adapter in [Adapter::Inbox, Adapter::Lines, Adapter::JsonLines] {
        let mut world = World::new();
        let Action::Spawn { prepared, name, labels, .. } = spawn(A, None) else { unreachable!() };
        world.fresh(Action::Spawn { prepared, name, labels, adapter, readiness: None, source: None });
        world.saw(A, 1, Word::Started(run(1)));
        let before = world.state.clone();
        assert_eq!((world.fresh(interrupt()).as_str(), &world.state), ("=> refused Incapable", &before), "{adapter:?}");
    }
    let mut world = busy();
    world.generation();
    assert_eq!(world.fresh(interrupt()), "=> refused Unproven", "nobody knows what there is to interrupt");
    world.saw(A, 1, Word::Adopted(run(1)));
    assert!(world.fresh(interrupt()).starts_with("accept"));
    world.fresh(stop(A));
    assert_eq!(world.fresh(interrupt()), "=> refused Stopping");
    world.saw(A, 1, exited(0));
    assert_eq!(world.fresh(interrupt()), "=> refused HasEnded");
}

/// Not at 29,999 ms and at 30,000 ms: cancelled, stopped, in this order.
#[test]
fn a_turn_that_does_not_end_in_time_is_the_end_of_its_session() {
    let mut world = busy();
    world.fresh(send());
    world.fresh(interrupt());
    world.fresh(interrupt());
    world.saw(A, 1, sent(12));
    assert_eq!(due_in_ms(&world), Some(30_000));
    later(&mut world, 29_999);
    assert_eq!(world.step(Input::Tick), "");
    // A clock that is set says nothing.
    world.now.wall_us += 86_400_000_000;
    assert_eq!(world.step(Input::Tick), "");
    world.now.wall_us -= 86_900_000_000;
    later(&mut world, 1);
    assert_eq!(world.step(Input::Tick), "msg-12 cancelled (interrupt_timeout), overdue");
    assert_eq!((world.status(A).as_str(), world.owes().as_str()), ("stopping", "stop aaaaaaaaaaaa/1"));
    assert_eq!((world.step(Input::Tick), due_in_ms(&world)), (String::new(), None), "once");
    assert_eq!(world.saw(A, 1, exited(0)), "ended stopped (interrupt_timeout), queue closed (session_ended)");
    assert_eq!([10, 14].map(|id| row(&world, id).state), [MessageState::Cancelled; 2]);
    assert_eq!(world.saw(A, 1, over(8)), "");
}

#[test]
fn the_time_is_that_of_the_turn() {
    // The turn ends; an hour later nothing happens.
    let mut world = busy();
    world.fresh(interrupt());
    world.fresh(interrupt());
    later(&mut world, 29_000);
    world.saw(A, 1, over(8));
    assert_eq!(row(&world, 12).interrupts, None);
    assert_eq!(due_in_ms(&world), None);
    later(&mut world, 3_600_000);
    assert_eq!(world.step(Input::Tick), "");
    assert_eq!(world.status(A), "ready", "its message is on its way");
    // One that is withdrawn stops nobody, and whoever waits behind it has its own time.
    let mut world = busy();
    world.fresh(interrupt());
    later(&mut world, 10_000);
    world.fresh(interrupt());
    world.fresh(Action::Cancel { message: Ok(MessageId(10)) });
    assert_eq!((due_in_ms(&world), world.owes()), (Some(30_000), "interrupt aaaaaaaaaaaa/1 for op-12 in 8".to_owned()));
    // One that expires at the same instant has expired.
    let mut world = busy();
    let Action::Send(parcel) = interrupt() else { unreachable!() };
    world.fresh(Action::Send(Box::new(Parcel { expires_in_ms: Some(30_000), ..*parcel })));
    later(&mut world, 30_000);
    assert_eq!(world.step(Input::Tick), "msg-10 expired");
    assert_eq!(world.status(A), "running");
}

#[test]
fn the_time_goes_on_while_no_broker_is_there_and_counts_once_its_host_has_answered() {
    let interrupted = || {
        let mut world = busy();
        world.fresh(interrupt());
        later(&mut world, 20_000);
        world.generation();
        world
    };
    let mut world = interrupted();
    assert_eq!((due_in_ms(&world), world.step(Input::Tick)), (None, String::new()));
    world.saw(A, 1, Word::Adopted(run(1)));
    assert_eq!(due_in_ms(&world), Some(10_000));
    assert_eq!(world.owes(), "interrupt aaaaaaaaaaaa/1 for op-10 in 8", "nobody had heard that it was sent");
    later(&mut world, 10_000);
    assert_eq!(world.step(Input::Tick), "msg-10 cancelled (interrupt_timeout), overdue");
    // Ten minutes later nothing is left of it.
    let mut world = interrupted();
    later(&mut world, 600_000);
    assert_eq!(world.step(Input::Tick), "", "whether the turn runs its host knows");
    world.saw(A, 1, Word::Adopted(run(1)));
    assert_eq!(due_in_ms(&world), Some(0));
    assert_eq!(world.step(Input::Tick), "msg-10 cancelled (interrupt_timeout), overdue");
    // Or the turn had ended meanwhile, and a healthy session goes on.
    let mut world = interrupted();
    later(&mut world, 600_000);
    world.saw(A, 1, over(8));
    assert_eq!(world.saw(A, 1, Word::Adopted(run(1))), "host/1 adopted, msg-10 sending");
    assert_eq!((due_in_ms(&world), world.step(Input::Tick)), (None, String::new()));
}

#[test]
fn it_names_the_turn_of_what_is_on_its_way() {
    let on_its_way = || {
        let mut world = ready();
        world.fresh(send());
        world.fresh(interrupt());
        assert_eq!(row(&world, 9).interrupts.map(|of| of.turn), Some(8));
        assert_eq!(world.owes(), "deliver msg-6@8 to aaaaaaaaaaaa/1", "there is no turn yet");
        world
    };
    let mut world = on_its_way();
    world.saw(A, 1, taken(6, 8));
    assert_eq!(world.owes(), "interrupt aaaaaaaaaaaa/1 for op-9 in 8");
    // It was turned away: no turn begins with it.
    for carried in [Carried::Refused { reason: "r".to_owned() }, Carried::NotTaken] {
        let mut world = on_its_way();
        let said = world.saw(A, 1, Word::Mail { message: MessageId(6), attempt: 8, carried });
        assert!(said.ends_with("msg-9 sending"), "{said}");
        assert_eq!(due_in_ms(&world), None);
    }
    // Its prompt was back before anybody heard that it was taken.
    let mut world = on_its_way();
    world.saw(A, 1, over(8));
    assert_eq!(world.saw(A, 1, taken(6, 8)), "msg-6 delivered, msg-9 sending");
}

#[test]
fn whatever_ends_the_turn_ends_its_time() {
    for name in ["stop", "exit", "lost", "fence", "delete"] {
        let mut world = busy();
        world.fresh(interrupt());
        match name {
            "stop" => world.fresh(stop(A)),
            "exit" => world.saw(A, 1, exited(0)),
            "lost" => world.saw(A, 1, Word::MachineLost),
            "fence" => world.saw(A, 1, Word::Foreign { reason: "r".to_owned() }),
            _ => world.fresh(delete(A, true)),
        };
        assert_eq!(world.state.alarms.len(), 0, "{name}");
        later(&mut world, 60_000);
        assert!(!world.step(Input::Tick).contains("msg"), "{name}");
        assert_eq!(world.saw(A, 1, sent(10)), "", "{name}");
    }
}

/// A signal that was asked for by itself and one for a message: each is sent, the older first.
#[test]
fn it_waits_for_no_signal_and_none_for_it() {
    let mut world = busy();
    world.fresh(interrupt());
    world.fresh(Action::Interrupt { target: Ok(sid(A)) });
    assert_eq!(world.owes(), "interrupt aaaaaaaaaaaa/1 for op-10 in 8");
    world.saw(A, 1, sent(10));
    assert_eq!(world.owes(), "interrupt aaaaaaaaaaaa/1 for op-12");
    assert_eq!(world.saw(A, 1, sent(12)), "finish op-12 succeeded");
}
