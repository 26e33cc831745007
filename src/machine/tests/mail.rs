//! Messages in the pure core: what is asked, what hosts say, what follows from a session's life. Each primitive is tried with a hit, a miss by
//! state, a miss by token and a miss by episode, and every order of two that meet.

use super::*;

/// A session with this adapter whose command runs.
fn world(adapter: Adapter) -> World {
    let mut world = World::new();
    up(&mut world, A, adapter);
    world
}

fn up(world: &mut World, id: &str, adapter: Adapter) {
    let Action::Spawn { prepared, name, labels, .. } = spawn(id, None) else { unreachable!() };
    world.fresh(Action::Spawn { prepared, name, labels, adapter, readiness: None, source: None });
    world.saw(id, 1, Word::Started(run(1)));
}

fn parcel(id: &str) -> Parcel {
    Parcel {
        target: Ok(sid(id)),
        mode: Mode::Queue,
        body: Some(Body { file: 1, offset: 0, bytes: 10, digest: Digest([7; 32]) }),
        bytes: 10,
        is_long: false,
        expires_in_ms: None,
        interrupt_within_ms: 30_000,
        resume: false,
        prepared: None,
    }
}

fn send(id: &str) -> Action {
    Action::Send(Box::new(parcel(id)))
}

fn message(world: &World, seq: u64) -> Message {
    Message::clone(world.state.messages.get(&MessageId(seq)).expect("it is there"))
}

fn word(message: u64, attempt: u64, carried: Carried) -> Word {
    Word::Mail { message: MessageId(message), attempt, carried }
}

const TAKEN: Carried = Carried::Taken { at_us: 5 };

fn unknown() -> Carried {
    Carried::Unknown { reason: "r".to_owned() }
}

fn refuses() -> Carried {
    Carried::Refused { reason: "r".to_owned() }
}

#[test]
fn a_message_to_an_idle_session_goes_at_once_and_the_next_waits_for_it() {
    let mut world = world(Adapter::Lines);
    assert_eq!(world.fresh(send(A)), "accept op-5 message.send send, finish op-5 succeeded, msg-5 sending, => op-5");
    assert_eq!(world.owes(), "deliver msg-5@7 to aaaaaaaaaaaa/1");
    assert_eq!(world.fresh(send(A)), "accept op-8 message.send send, finish op-8 succeeded, => op-8");
    let position = |world: &World, op: u64| world.state.operations.get(&OperationId(op)).unwrap().gained.position;
    assert_eq!((position(&world, 5), position(&world, 8)), (None, Some(1)));
    assert_eq!(world.saw(A, 1, word(5, 7, TAKEN)), "msg-5 delivered, msg-8 sending");
    assert_eq!(world.owes(), "deliver msg-8@11 to aaaaaaaaaaaa/1");
    assert_eq!(world.saw(A, 1, word(8, 11, TAKEN)), "msg-8 delivered");
    assert_eq!((world.owes(), world.state.waiting(&sid(A))), (String::new(), (0, 0)));
}

/// Complete: hit; miss by state, by token, and by session.
#[test]
fn an_answer_counts_only_for_the_attempt_that_it_names() {
    let mut world = world(Adapter::Lines);
    up(&mut world, B, Adapter::Lines);
    world.fresh(send(A));
    let at = world.state.lanes.get(&sid(A)).unwrap().open[0].0;
    let token = message(&world, at).attempt;
    let before = message(&world, at);
    for late in
        [word(at, token + 1, TAKEN), word(at, 0, TAKEN), word(at + 1, token, TAKEN), word(at, token - 1, unknown())]
    {
        assert_eq!(world.saw(A, 1, late), "");
    }
    assert_eq!(world.saw(B, 1, word(at, token, TAKEN)), "", "another session's word");
    assert_eq!(message(&world, at), before, "a miss changes nothing");
    assert_eq!(world.saw(A, 1, word(at, token, TAKEN)), format!("msg-{at} delivered"));
    for late in [TAKEN, Carried::NotTaken, refuses(), unknown()] {
        assert_eq!(world.saw(A, 1, word(at, token, late)), "", "it was told before");
    }
}

/// The first attempt stalls and is given back; the second is under way when the first one's answer comes. By the state alone it would be believed.
#[test]
fn an_answer_of_the_attempt_before_is_no_answer_to_this_one() {
    let mut world = world(Adapter::Lines);
    world.fresh(send(A));
    assert_eq!(world.saw(A, 1, word(5, 7, Carried::NotTaken)), "msg-5 returned (not_taken), msg-5 sending");
    assert_eq!((message(&world, 5).attempt, message(&world, 5).redeliveries), (9, 1));
    assert_eq!(world.saw(A, 1, word(5, 7, TAKEN)), "");
    assert_eq!(message(&world, 5).state, MessageState::Sending);
    assert_eq!(world.saw(A, 1, word(5, 9, TAKEN)), "msg-5 delivered");
}

#[test]
fn what_is_never_taken_is_set_aside_and_the_lane_goes_on() {
    let mut world = world(Adapter::Lines);
    world.fresh(send(A));
    world.fresh(send(A));
    for _ in 0..3 {
        let attempt = message(&world, 5).attempt;
        world.saw(A, 1, word(5, attempt, Carried::NotTaken));
    }
    let attempt = message(&world, 5).attempt;
    let said = world.saw(A, 1, word(5, attempt, Carried::NotTaken));
    assert_eq!(said, "msg-5 failed (redelivery_limit), msg-8 sending");
    let attempt = message(&world, 8).attempt;
    assert_eq!(world.saw(A, 1, word(8, attempt, refuses())), "msg-8 failed (r)");
}

#[test]
fn what_nobody_can_tell_is_settled_by_evidence_or_by_whoever_may() {
    let uncertain = || {
        let mut world = world(Adapter::Lines);
        world.fresh(send(A));
        world.fresh(send(A));
        assert_eq!(world.saw(A, 1, word(5, 7, unknown())), "msg-5 uncertain (r), msg-8 sending", "the lane goes on");
        world
    };
    let decide = |again| Action::ResolveMessage { message: Ok(MessageId(5)), again };
    let mut world = uncertain();
    assert_eq!(world.saw(A, 1, word(5, 7, TAKEN)), "msg-5 delivered", "late, and still evidence");
    assert_eq!(world.fresh(decide(true)), "=> refused MessageSettled");
    let mut world = uncertain();
    assert!(world.fresh(decide(false)).contains("msg-5 failed (given_up)"));
    let mut world = uncertain();
    assert!(world.fresh(decide(true)).contains("msg-5 returned (sent_again)"));
    assert_eq!(world.state.position(&message(&world, 5)), Some(1), "it waits for the one that is on its way");
    assert_eq!(world.saw(A, 1, word(5, 7, TAKEN)), "", "the attempt before is over");
    let mut world = uncertain();
    let scope = Scope::Session(sid(B));
    assert_eq!(world.ask_as(scope, "k", 1, decide(false)), "=> refused NoMessage", "who sent nothing knows nothing");
}

#[test]
fn cancel_finds_a_message_before_it_left_or_says_that_it_is_too_late() {
    let mut world = world(Adapter::Lines);
    world.fresh(send(A));
    world.fresh(send(A));
    let cancel = |id| Action::Cancel { message: Ok(MessageId(id)) };
    let outcome = |world: &World| world.state.operations.values().last().unwrap().gained.withdrawal;
    assert!(!world.fresh(cancel(5)).contains("cancelled ("));
    assert_eq!(outcome(&world), Some(Withdrawal::TooLate));
    assert!(world.fresh(cancel(8)).contains("msg-8 cancelled (withdrawn)"));
    assert_eq!(outcome(&world), Some(Withdrawal::Cancelled));
    world.fresh(cancel(8));
    assert_eq!(outcome(&world), Some(Withdrawal::AlreadyFinal));
    assert_eq!(world.saw(A, 1, word(5, 7, TAKEN)), "msg-5 delivered", "what is withdrawn never goes");
    world.fresh(cancel(5));
    assert_eq!(outcome(&world), Some(Withdrawal::AlreadyFinal));
    assert_eq!(world.fresh(cancel(99)), "=> refused NoMessage");
}

/// The end of a session against everything that may be in its lane.
#[test]
fn the_end_of_a_session_is_the_end_of_its_queue() {
    let mut world = world(Adapter::Lines);
    (0..3).for_each(|_| drop(world.fresh(send(A))));
    assert_eq!(world.saw(A, 1, exited(0)), "ended exited, queue closed (session_ended)");
    assert_eq!(world.owes(), "probe msg-5@7 of aaaaaaaaaaaa/1", "what was on its way is asked for");
    assert_eq!(message(&world, 8).state, MessageState::Cancelled);
    assert_eq!(world.fresh(send(A)), "=> refused HasEnded");
    assert_eq!(
        world.saw(A, 1, word(5, 7, Carried::NotTaken)),
        "msg-5 returned (not_taken), queue closed (session_ended)"
    );
    assert_eq!((message(&world, 5).state, world.owes()), (MessageState::Cancelled, String::new()));
}

#[test]
fn what_is_on_its_way_when_its_session_is_deleted_is_asked_for_before_the_files_go() {
    for (carried, end) in [(TAKEN, MessageState::Delivered), (unknown(), MessageState::Failed)] {
        let mut world = world(Adapter::Lines);
        world.fresh(send(A));
        world.fresh(delete(A, true));
        assert_eq!(
            world.owes(),
            "stop aaaaaaaaaaaa/1, deliver msg-5@7 to aaaaaaaaaaaa/1",
            "neither waits for the other"
        );
        world.saw(A, 1, exited(0));
        assert_eq!(world.owes(), "probe msg-5@7 of aaaaaaaaaaaa/1");
        world.saw(A, 1, word(5, 7, carried));
        assert_eq!(message(&world, 5).state, end);
        assert_eq!(world.owes(), "remove aaaaaaaaaaaa");
        world.saw(A, 1, Word::Removed);
        assert!(world.state.messages.is_empty() && world.state.lanes.is_empty() && world.state.receipts.is_empty());
    }
}

#[test]
fn a_session_lost_with_the_machine_keeps_its_queue_for_whoever_resumes_it() {
    let mut world = world(Adapter::Lines);
    world.fresh(send(A));
    world.fresh(send(A));
    assert_eq!(world.saw(A, 1, Word::MachineLost), "ended interrupted (lost with the machine)");
    assert_eq!(world.saw(A, 1, word(5, 7, Carried::NotTaken)), "msg-5 returned (not_taken)");
    assert_eq!(world.state.waiting(&sid(A)), (2, 20));
    assert_eq!(world.owes(), "", "nothing starts by itself");
    assert!(world.fresh(send(A)).starts_with("accept"), "it takes more");
    world.fresh(resume(A, 2));
    let said = world.saw(A, 2, Word::Started(run(2)));
    assert!(said.ends_with("msg-5 sending"), "{said}");
    assert_eq!(message(&world, 5).episode, 2);
}

#[test]
fn a_message_wakes_what_has_ended_only_if_it_is_told_to() {
    let mut world = world(Adapter::Lines);
    world.saw(A, 1, exited(0));
    let wake = |prepared| Action::Send(Box::new(Parcel { resume: true, prepared, ..parcel(A) }));
    assert_eq!(world.fresh(wake(None)), "=> prepare aaaaaaaaaaaa/2");
    let said = world.fresh(wake(Some(2)));
    assert_eq!(said, "accept op-6 message.send send, woken, finish op-6 succeeded, => op-6");
    assert_eq!(world.owes(), "launch aaaaaaaaaaaa/2");
    assert_eq!(world.saw(A, 2, Word::Started(run(2))), "host/2 started, msg-6 sending");
    // One that never comes up is what it was before, and nobody is left to take the message.
    world.saw(A, 2, word(6, 10, TAKEN));
    world.saw(A, 2, exited(0));
    world.fresh(Action::Send(Box::new(Parcel { resume: true, prepared: Some(3), ..parcel(A) })));
    let failed = Word::LaunchFailed { phase: Phase::Exec, reason: "r".to_owned(), obstacle: None };
    assert_eq!(world.saw(A, 3, failed), "aborted, queue closed (session_ended)");
    assert_eq!(world.status(A), "exited");
}

#[test]
fn until_a_host_has_answered_nothing_is_released_to_it() {
    let mut world = world(Adapter::Lines);
    world.fresh(send(A));
    world.generation();
    assert_eq!(world.owes(), "judge aaaaaaaaaaaa/1", "the attempt waits for its host");
    assert_eq!(world.fresh(send(A)), "accept op-9 message.send send, finish op-9 succeeded, => op-9");
    assert_eq!(world.saw(A, 1, Word::Adopted(run(1))), "host/1 adopted");
    assert_eq!(world.owes(), "deliver msg-5@7 to aaaaaaaaaaaa/1", "the same attempt: its host knows what it did");
    world.saw(A, 1, Word::Foreign { reason: "r".to_owned() });
    assert_eq!(world.owes(), "");
    assert_eq!(world.fresh(send(A)), "=> refused Fenced");
}

#[test]
fn a_session_pulls_and_acknowledges_what_is_its_own() {
    let mut world = world(Adapter::Inbox);
    up(&mut world, B, Adapter::Inbox);
    world.fresh(send(A));
    let id = world.state.lanes.get(&sid(A)).unwrap().open[0];
    assert_eq!(world.owes(), "", "it has to ask");
    let pull = |session: &str| Input::Pull { session: sid(session), messages: vec![id] };
    let ack = |ids: &[MessageId]| Action::Acknowledge { messages: ids.to_vec() };
    let own = || Scope::Session(sid(A));
    assert_eq!(world.step(pull(B)), "=> pulled", "another's");
    assert_eq!(
        world.ask_as(own(), "k0", 1, ack(&[id])),
        "=> refused NoMessage",
        "what was never read is not acknowledged"
    );
    assert_eq!(world.step(pull(A)), format!("{id} pulled, => pulled"));
    assert_eq!(world.step(pull(A)), "=> pulled", "read again, and recorded once");
    assert_eq!(world.ask_as(Scope::Session(sid(B)), "k1", 1, ack(&[id])), "=> refused NoMessage", "a forged receipt");
    assert_eq!(world.fresh(ack(&[id])), "=> refused SessionOnly");
    assert!(world.ask_as(own(), "k2", 1, ack(&[id, id])).contains(&format!("{id} acknowledged, finish")));
    assert!(world.ask_as(own(), "k2", 1, ack(&[id, id])).contains("replayed"));
    assert!(!world.ask_as(own(), "k3", 1, ack(&[id])).contains(&format!("{id} acknowledged")));
}

#[test]
fn who_may_write_to_whom() {
    let mut world = world(Adapter::Inbox);
    let Action::Spawn { prepared, name, labels, adapter, .. } = spawn(B, None) else { unreachable!() };
    let scope = |id: &str| Scope::Session(sid(id));
    world.ask_as(
        scope(A),
        "child",
        1,
        Action::Spawn { prepared, name, labels, adapter, readiness: None, source: None },
    );
    world.saw(B, 1, Word::Started(run(2)));
    const STRANGER: &str = "cccccccccccc";
    up(&mut world, STRANGER, Adapter::Inbox);
    for (from, to, may) in [(A, B, true), (B, A, true), (A, STRANGER, false), (STRANGER, B, false), (A, A, false)] {
        let said = world.ask_as(scope(from), &format!("{from}{to}"), 1, send(to));
        assert_eq!(said.starts_with("accept"), may, "{from} to {to}: {said}");
        assert!(may || said == "=> refused NoSession", "a denial tells nothing: {said}");
    }
    let from =
        |to: &str| world.state.messages.get(&world.state.lanes.get(&sid(to)).unwrap().open[0]).unwrap().from.clone();
    assert_eq!((from(B), from(A)), (Sender::Session(sid(A)), Sender::Session(sid(B))), "as the credential says");
}

#[test]
fn a_queue_is_bounded_by_messages_and_by_bytes() {
    let mut world = world(Adapter::Inbox);
    for _ in 0..64 {
        let large = Parcel { bytes: 256 * 1024, ..parcel(A) };
        let body = large.body.clone().map(|body| Body { bytes: 256 * 1024, ..body });
        world.fresh(Action::Send(Box::new(Parcel { body, ..large })));
    }
    assert_eq!(world.fresh(send(A)), "=> refused QueueFull");
    let mut world = self::world(Adapter::Inbox);
    // A world checks much after each step, so the lane is filled at once.
    for number in 0..limits::QUEUE_MESSAGES {
        let seq = 1_000 + u64::try_from(number).unwrap();
        let key = Key::parse(&format!("k{number}")).unwrap();
        let first = world.state.messages.values().next().map(|of| Message::clone(of));
        let Some(first) = first else {
            world.fresh(send(A));
            continue;
        };
        world.state.enlist(Arc::new(Message { id: MessageId(seq), key, seq, ..first }));
    }
    let request = Request {
        scope: Scope::Owner,
        actor: Actor { uid: 0, pid: 1, sid: None },
        key: Key::parse("last").unwrap(),
        digest: Digest([1; 32]),
        digests_since: 0,
        family: Family::default(),
        action: send(A),
        recalled: Vec::new(),
    };
    let refused = decide(&world.state, world.now, 5_000, &Input::Request(request)).answer;
    assert!(matches!(refused, Answer::Refused(Refusal::QueueFull { rows: 1_000, .. })), "{refused:?}");
}

#[test]
fn one_line_stays_one_line() {
    let long = |id| Action::Send(Box::new(Parcel { is_long: true, ..parcel(id) }));
    assert_eq!(world(Adapter::Lines).fresh(long(A)), "=> refused Framing");
    assert!(world(Adapter::JsonLines).fresh(long(A)).starts_with("accept"));
    assert!(world(Adapter::Inbox).fresh(long(A)).starts_with("accept"));
}

/// Virtual time: what waits expires at its instant and not before, also if the clock is set; what is on its way does not.
#[test]
fn what_waits_expires_and_what_left_does_not() {
    let mut world = world(Adapter::Lines);
    let brief = || Action::Send(Box::new(Parcel { expires_in_ms: Some(1_000), ..parcel(A) }));
    world.fresh(brief());
    world.fresh(brief());
    world.fresh(send(A));
    let due = next_deadline(&world.state, world.now).unwrap();
    assert_eq!(due, world.now.boot_us + 1_000_000);
    let began = world.now;
    world.now = Time { wall_us: began.wall_us + 999_999, boot_us: began.boot_us + 999_999 };
    assert_eq!(world.step(Input::Tick), "");
    world.now = Time { wall_us: began.wall_us - 500_000_000, boot_us: began.boot_us + 1_000_000 };
    assert_eq!(world.step(Input::Tick), "", "the clock was set back");
    assert_eq!(next_deadline(&world.state, world.now), Some(world.now.boot_us + 30_000_000), "it is looked after");
    world.now = Time { wall_us: began.wall_us + 1_000_000, boot_us: began.boot_us + 2_000_000 };
    assert_eq!(world.step(Input::Tick), "msg-8 expired");
    assert_eq!(next_deadline(&world.state, world.now), None);
    assert_eq!(world.saw(A, 1, word(5, 7, TAKEN)), "msg-5 delivered, msg-10 sending");
}

/// Where the turn comes to a message that has expired and no tick has said so yet, it is passed over.
#[test]
fn an_expired_head_is_never_released() {
    let mut world = world(Adapter::Lines);
    world.fresh(send(A));
    world.fresh(Action::Send(Box::new(Parcel { expires_in_ms: Some(1), ..parcel(A) })));
    world.fresh(send(A));
    world.now = Time { wall_us: world.now.wall_us + 2_000, boot_us: world.now.boot_us + 2_000 };
    assert_eq!(world.saw(A, 1, word(5, 7, TAKEN)), "msg-5 delivered, msg-8 expired, msg-10 sending");
}

#[test]
fn receipts_are_kept_for_a_while() {
    let mut world = world(Adapter::Lines);
    world.fresh(send(A));
    world.saw(A, 1, word(5, 7, TAKEN));
    let settled = world.now;
    world.now = Time { wall_us: settled.wall_us + limits::RECEIPTS_US, boot_us: settled.boot_us + 1 };
    world.fresh(send(A));
    assert_eq!(world.state.messages.len(), 2, "not a microsecond less");
    world.now = Time { wall_us: world.now.wall_us + 1, boot_us: world.now.boot_us + 1 };
    world.fresh(send(A));
    assert!(world.state.messages.get(&MessageId(5)).is_none());
    assert_eq!(world.state.receipts.len(), 0);
}

#[test]
fn a_session_whose_receipts_are_all_forgotten_is_stored_as_one_that_never_had_any() {
    let mut world = world(Adapter::Lines);
    world.fresh(send(A));
    world.saw(A, 1, word(5, 7, TAKEN));
    let later_us = limits::RECEIPTS_US + 1;
    world.now = Time { wall_us: world.now.wall_us + later_us, boot_us: world.now.boot_us + later_us };
    // Each turn of this world compares the state with what comes back of it once it is stored.
    world.fresh(Action::Prune { older_ms: 1 << 50 });
    assert!(world.state.lanes.get(&sid(A)).is_none());
}

/// Every order of two that meet over one message: exactly one wins, and the other changes nothing.
#[test]
fn of_two_that_meet_one_wins_in_either_order() {
    let cancel = || Input::Request(request("c", Action::Cancel { message: Ok(MessageId(8)) }));
    let taken = || observation(word(5, 7, TAKEN));
    let ended = || observation(exited(0));
    let cases: [(&str, [Input; 2], &str, &str); 3] = [
        ("cancel and release", [cancel(), taken()], "cancelled", "sending"),
        ("cancel and end", [cancel(), ended()], "cancelled", "cancelled"),
        ("release and end", [taken(), ended()], "sending", "cancelled"),
    ];
    for (name, [first, second], forth, back) in cases {
        for (order, expected) in [([&first, &second], forth), ([&second, &first], back)] {
            let mut world = world(Adapter::Lines);
            world.fresh(send(A));
            world.fresh(send(A));
            order.iter().for_each(|input| drop(world.step((*input).clone())));
            assert_eq!(message(&world, 8).state.word(), expected, "{name}");
        }
    }
}

fn request(key: &str, action: Action) -> Request {
    Request {
        scope: Scope::Owner,
        actor: Actor { uid: 0, pid: 1, sid: None },
        key: Key::parse(key).unwrap(),
        digest: Digest([1; 32]),
        digests_since: 0,
        family: Family::default(),
        action,
        recalled: Vec::new(),
    }
}

fn observation(word: Word) -> Input {
    Input::Observation(Observation { session: sid(A), episode: 1, word })
}

#[test]
fn an_interrupt_is_sent_once_for_each_that_asks_and_waits_for_no_message() {
    let mut world = world(Adapter::Lines);
    let interrupt = || Action::Interrupt { target: Ok(sid(A)) };
    let said = |operation: u64, sent| Word::Interrupted { operation: OperationId(operation), sent };
    world.fresh(send(A));
    assert_eq!(
        world.ask("i", 1, interrupt()),
        "accept op-8 session.interrupt interrupt, => op-8".replace("session.", "")
    );
    world.fresh(interrupt());
    let deliver = "deliver msg-5@7 to aaaaaaaaaaaa/1";
    assert_eq!(world.owes(), format!("interrupt aaaaaaaaaaaa/1 for op-8, {deliver}"));
    assert_eq!(world.saw(A, 1, said(9, true)), "finish op-9 succeeded", "the host answers for each");
    assert_eq!(world.saw(A, 2, said(8, true)), "", "another episode's");
    assert_eq!(world.saw(A, 1, said(8, true)), "finish op-8 succeeded");
    assert_eq!(world.saw(A, 1, said(8, false)), "", "it was told before");
    assert_eq!((world.owes(), world.ask("i", 1, interrupt())), (deliver.to_owned(), "=> op-8 replayed".to_owned()));
}

#[test]
fn an_interrupt_that_comes_too_late_says_so() {
    let interrupt = || Action::Interrupt { target: Ok(sid(A)) };
    let mut world = world(Adapter::Inbox);
    world.fresh(interrupt());
    assert_eq!(world.saw(A, 1, exited(0)), "ended exited, finish op-5 failed (session_terminal ended)");
    assert_eq!(world.fresh(interrupt()), "=> refused HasEnded");
    let mut world = self::world(Adapter::Inbox);
    world.fresh(interrupt());
    let none = Word::Interrupted { operation: OperationId(5), sent: false };
    assert_eq!(world.saw(A, 1, none), "finish op-5 failed (session_terminal ended)");
    world.fresh(interrupt());
    world.fresh(stop(A));
    assert_eq!(world.fresh(interrupt()), "=> refused Stopping");
    world.generation();
    assert_eq!(world.owes(), "judge aaaaaaaaaaaa/1", "nothing is released to who has not answered");
}
