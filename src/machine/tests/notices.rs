//! Notices in the pure core: who is told what, once, and who is told nothing.

use super::*;

fn as_session(id: &str) -> Scope {
    Scope::Session(sid(id))
}

/// A parent with this adapter and its child with that one, both ready.
fn family(of_parent: Adapter, of_child: Adapter) -> World {
    let mut world = World::new();
    for (id, scope, of) in [(A, Scope::Owner, of_parent), (B, as_session(A), of_child)] {
        let Action::Spawn { prepared, name, labels, .. } = spawn(id, None) else { unreachable!() };
        world.ask_as(
            scope,
            id,
            1,
            Action::Spawn { prepared, name, labels, adapter: of, readiness: None, source: None },
        );
        world.saw(id, 1, Word::Started(run(1)));
    }
    world
}

fn send(to: &str, expires_in_ms: Option<u64>, resume: bool) -> Action {
    let body = Some(Body { file: 1, offset: 0, bytes: 10, digest: Digest([7; 32]) });
    Action::Send(Box::new(Parcel {
        target: Ok(sid(to)),
        mode: Mode::Queue,
        body,
        bytes: 10,
        is_long: false,
        expires_in_ms,
        interrupt_within_ms: 30_000,
        resume,
        prepared: None,
    }))
}

impl World {
    fn sends(&mut self, from: &str, to: &str) -> u64 {
        let (seq, key) = (self.next_seq(), format!("send-{}", self.next_seq()));
        let told = self.ask_as(as_session(from), &key, 1, send(to, None, false));
        assert!(told.contains("succeeded"), "{told}");
        seq
    }

    /// What a turn told others.
    fn told(&self, since: u64) -> Vec<String> {
        let all = self.ledger.iter().skip(usize::try_from(since).unwrap() - 1);
        all.filter(|(event, _)| matches!(event, Event::Notice { .. })).map(|(event, _)| line(event)).collect()
    }

    fn attempt(&self, message: u64) -> u64 {
        self.state.messages.get(&MessageId(message)).unwrap().attempt
    }
}

#[test]
fn a_parent_is_told_of_each_end_once_and_not_of_one_that_it_asked_for() {
    let mut world = family(Adapter::Inbox, Adapter::Inbox);
    let told = world.saw(B, 1, exited(3));
    assert_eq!(told, format!("ended failed (exit code 3), notice to {A} ({B}/1 failed)"));
    assert_eq!(world.saw(B, 1, exited(3)), "", "a second word of the same end");
    world.fresh(resume(B, 2));
    world.saw(B, 2, Word::Started(run(2)));
    // By the owner, and by the parent beside it.
    let since = world.next_seq();
    world.fresh(stop(B));
    world.saw(B, 2, Word::Exited { run: Some(run(2)), exit: Exit::Code(0), at_us: 5, survivors: Vec::new() });
    assert_eq!(world.told(since), [format!("notice to {A} ({B}/2 stopped)")]);
    world.fresh(resume(B, 3));
    world.saw(B, 3, Word::Started(run(3)));
    let since = world.next_seq();
    world.fresh(stop(B));
    world.ask_as(as_session(A), "stop", 1, stop(B));
    world.saw(B, 3, Word::Exited { run: Some(run(3)), exit: Exit::Code(0), at_us: 5, survivors: Vec::new() });
    assert_eq!(world.told(since), Vec::<String>::new());
    // The notices wait as messages of the broker's, which its credential pulls and acknowledges like any other.
    let lane = world.state.lanes.get(&sid(A)).unwrap();
    assert_eq!((lane.open.len(), lane.notices, lane.bytes), (2, 2, 0));
    let first = world.state.messages.get(&lane.open[0]).unwrap();
    assert_eq!((&first.from, first.key.as_str()), (&Sender::Broker, "notice:bbbbbbbbbbbb:ended:1"));
}

#[test]
fn a_child_that_never_ran_is_told_of_by_its_spawn_alone() {
    let mut world = World::new();
    world.fresh(spawn(A, None));
    world.saw(A, 1, Word::Started(run(1)));
    world.ask_as(as_session(A), "child", 1, spawn(B, None));
    let failed = Word::LaunchFailed { phase: Phase::Exec, reason: "no".to_owned(), obstacle: None };
    assert!(!world.saw(B, 1, failed).contains("notice"));
}

#[test]
fn who_has_ended_and_who_takes_plain_lines_is_told_nothing() {
    for adapter in [Adapter::Lines, Adapter::PromptedLines] {
        let mut world = family(adapter, Adapter::Inbox);
        assert_eq!(world.saw(B, 1, exited(3)), "ended failed (exit code 3)");
        let refused = world.ask_as(as_session(B), "k", 1, send(A, None, false));
        assert_eq!(refused, "=> refused NoSession".replace("NoSession", "Incapable"), "{adapter:?}");
        assert!(!world.fresh(send(A, None, false)).contains("refused"), "its owner speaks its language");
    }
    let mut world = family(Adapter::Inbox, Adapter::Inbox);
    world.saw(A, 1, exited(0));
    assert_eq!(world.saw(B, 1, exited(3)), "ended failed (exit code 3)");
    let mut world = family(Adapter::Inbox, Adapter::Inbox);
    world.fresh(stop(A));
    assert_eq!(world.saw(B, 1, exited(3)), "ended failed (exit code 3)", "one that is being stopped");
}

#[test]
fn a_sender_is_told_what_became_of_its_message_unless_it_asked_for_that() {
    let mut world = family(Adapter::Inbox, Adapter::JsonLines);
    let doubtful = world.sends(A, B);
    let word = |attempt, carried| Word::Mail { message: MessageId(doubtful), attempt, carried };
    let attempt = world.attempt(doubtful);
    let told = world.saw(B, 1, word(attempt, Carried::Unknown { reason: "r".to_owned() }));
    assert_eq!(told, format!("msg-{doubtful} uncertain (r), notice to {A} (msg-{doubtful} uncertain)"));
    let told = world.saw(B, 1, word(attempt, Carried::Taken { at_us: 5 }));
    assert_eq!(told, format!("msg-{doubtful} delivered, notice to {A} (msg-{doubtful} delivered)"), "it is corrected");
    // Failed by the host, expired by the clock, withdrawn by the owner.
    let refused = world.sends(A, B);
    let (attempt, carried) = (world.attempt(refused), Carried::Refused { reason: "r".to_owned() });
    let told = world.saw(B, 1, Word::Mail { message: MessageId(refused), attempt, carried });
    assert_eq!(told, format!("msg-{refused} failed (r), notice to {A} (msg-{refused} failed)"));
    let ahead = world.sends(A, B);
    let expires = world.next_seq();
    world.ask_as(as_session(A), "expires", 1, send(B, Some(1_000), false));
    world.now.wall_us += 2_000_000;
    world.now.boot_us += 2_000_000;
    assert_eq!(world.step(Input::Tick), format!("msg-{expires} expired, notice to {A} (msg-{expires} expired)"));
    for (by, is_told) in [(Scope::Owner, true), (as_session(A), false)] {
        let waits = world.sends(A, B);
        let (since, key) = (world.next_seq(), format!("cancel-{waits}"));
        world.ask_as(by, &key, 1, Action::Cancel { message: Ok(MessageId(waits)) });
        assert_eq!(world.told(since).len(), usize::from(is_told));
    }
    // What goes as it should is no news.
    let since = world.next_seq();
    let attempt = world.attempt(ahead);
    world.saw(B, 1, Word::Mail { message: MessageId(ahead), attempt, carried: Carried::Taken { at_us: 5 } });
    assert_eq!(world.told(since), Vec::<String>::new());
}

#[test]
fn each_sender_is_told_once_of_all_that_was_lost_with_a_queue() {
    const C: &str = "cccccccccccc";
    let mut world = family(Adapter::Inbox, Adapter::Inbox);
    world.ask_as(as_session(B), "grandchild", 1, spawn(C, None));
    world.saw(C, 1, Word::Started(run(1)));
    for _ in 0..20 {
        world.sends(A, B);
    }
    world.sends(C, B);
    world.fresh(send(B, None, false));
    let since = world.next_seq();
    world.saw(B, 1, exited(1));
    let (of_a, of_c) = ("20 for bbbbbbbbbbbb session_ended", "1 for bbbbbbbbbbbb session_ended");
    let expected = [format!("{B}/1 failed"), of_a.to_owned(), of_c.to_owned()];
    let to = [A, A, C];
    let expected: Vec<_> = to.iter().zip(expected).map(|(to, what)| format!("notice to {to} ({what})")).collect();
    assert_eq!(world.told(since), expected);
    let told = world.state.messages.values().filter_map(|message| message.notice.as_deref());
    let named: Vec<_> = told
        .filter_map(|notice| match notice {
            Notice::Queue { messages, count: 20, .. } => Some(messages.len()),
            Notice::Queue { .. } | Notice::Ended { .. } | Notice::Reported { .. } | Notice::Message { .. } => None,
        })
        .collect();
    assert_eq!(named, [limits::NOTICE_MESSAGES]);
}

/// A notice to a session that takes JSON lines goes as a message does: one at a time, in its turn, again if it was not taken.
#[test]
fn a_notice_goes_as_a_message_does_and_begets_none() {
    let mut world = family(Adapter::JsonLines, Adapter::Inbox);
    let since = world.next_seq();
    let told = world.saw(B, 1, exited(1));
    let id = since + 1;
    assert_eq!(told, format!("ended failed (exit code 1), notice to {A} ({B}/1 failed), msg-{id} sending"));
    let attempt = world.attempt(id);
    let word = |carried| Word::Mail { message: MessageId(id), attempt, carried };
    assert_eq!(world.saw(A, 1, word(Carried::Unknown { reason: "r".to_owned() })), format!("msg-{id} uncertain (r)"));
    assert_eq!(world.saw(A, 1, word(Carried::Taken { at_us: 5 })), format!("msg-{id} delivered"));
}

#[test]
fn notices_are_bounded_and_refuse_no_message() {
    let mut world = family(Adapter::Inbox, Adapter::Inbox);
    // A world checks much after each step, so they are made at once.
    for number in 0..limits::NOTICES {
        let seq = 1_000 + u64::try_from(number).unwrap();
        let body = Notice::Reported { session: sid(B), report: ReportId(seq) };
        let event = Event::Notice { sid: sid(A), ep: 1, body };
        apply(&mut world.state, &event, At { seq, time: world.now }).unwrap();
    }
    let ended = Event::Session {
        sid: sid(B),
        ep: 1,
        body: SessionChange::Ended { exit: Exit::Code(1), status: Status::Failed, reason: None, at_us: 1 },
    };
    assert_eq!(news(&world.state, &ended, None), [], "of what is too much it is not told");
    let request = Request {
        scope: Scope::Owner,
        actor: Actor { uid: 0, pid: 1, sid: None },
        key: Key::parse("k").unwrap(),
        digest: Digest([1; 32]),
        digests_since: 0,
        family: Family::default(),
        action: send(A, None, false),
        recalled: Vec::new(),
    };
    let decision = decide(&world.state, world.now, 9_000, &Input::Request(request));
    assert!(matches!(decision.answer, Answer::Operation { .. }), "{decision:?}");
}
