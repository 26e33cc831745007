//! Keys over time: what is let go, what is forgotten, what is refused because it may have been.

use super::*;
use data_encoding::HEXLOWER;

#[track_caller]
fn check(told: &str, expected: &str) {
    assert_eq!(told, expected);
}

const DAY_US: u64 = 86_400_000_000;
/// 2026-01-01, in milliseconds.
const EPOCH_MS: u64 = 1_767_225_600_000;

/// So little that a few steps get there.
fn little() -> Retention {
    Retention { recent: 2, of_session: 1, batch: 4, settled: 6, free_form: 9, ..Retention::default() }
}

/// A world in 2026 with session A, ended: its spawn is op-2, under the key "spawn".
fn world() -> World {
    let mut world = World::keeping(little());
    world.now.wall_us = EPOCH_MS * 1_000;
    world.ask("spawn", 1, spawn(A, None));
    world.saw(A, 1, Word::Started(run(1)));
    world.saw(A, 1, exited(0));
    world
}

/// A UUIDv7 made at this time.
fn timed(at_us: u64, number: u32) -> String {
    let ms = at_us / 1_000;
    format!("{:08x}-{:04x}-7000-8000-{number:012x}", ms >> 16, ms & 0xffff)
}

impl World {
    fn now_key(&self, number: u32) -> String {
        timed(self.now.wall_us, number)
    }

    /// So many operations that are done at once, with keys of now.
    fn pass(&mut self, from: u32, count: u32) {
        for number in from..from + count {
            let key = self.now_key(number);
            let told = self.ask(&key, 1, Action::Prune { older_ms: 1 << 52 });
            assert!(told.starts_with("accept"), "{told}");
        }
    }

    fn here(&self) -> String {
        let ids: Vec<String> = self.state.operations.iter().map(|(id, _)| id.to_string()).collect();
        ids.join(" ")
    }
}

#[test]
fn an_operation_is_let_go_once_nothing_keeps_it_and_its_key_still_finds_it() {
    let mut world = world();
    check(&world.here(), "op-2");
    world.pass(0, 2);
    check(&world.here(), "op-2 op-6 op-8");
    // The session keeps its latest operation, and the latest two of all are kept.
    world.pass(2, 1);
    check(&world.here(), "op-2 op-8 op-10");
    check(&world.ask("stop", 1, stop(A)), "accept op-12 stop nothing, finish op-12 succeeded, => op-12");
    check(&world.here(), "op-10 op-12");
    assert_eq!(world.state.past.len(), 3);
    check(&world.ask("spawn", 1, spawn(B, None)), "recall, => op-2 succeeded recalled");
    check(&world.ask("spawn", 2, spawn(B, None)), "recall, conflict, => refused KeyConflict");
    world.generation();
    check(&world.ask("spawn", 1, spawn(B, None)), "recall, => op-2 succeeded recalled");
}

#[test]
fn what_is_read_back_is_what_was_let_go() {
    let mut world = world();
    let before = world.state.operations.get(&OperationId(2)).unwrap().clone();
    world.ask("stop", 1, stop(A));
    world.pass(0, 2);
    assert!(world.state.operations.get(&OperationId(2)).is_none());
    let row = world.state.footprint(OperationId(2), &Scope::Owner, &Key::parse("spawn").unwrap()).unwrap();
    assert_eq!(world.recall(&row), Recalled::Read(before));
}

#[test]
fn what_an_operator_decided_is_read_back_alike() {
    for succeeded in [true, false] {
        let mut world = World::keeping(Retention { of_session: 2, ..little() });
        world.now.wall_us = EPOCH_MS * 1_000;
        world.ask("spawn", 1, spawn(A, None));
        world.saw(A, 1, Word::Foreign { reason: "a copied root".to_owned() });
        world.pass(0, 4);
        assert!(world.here().contains("op-2 "), "what is uncertain is kept");
        let decided = Action::Resolve { operation: Ok(OperationId(2)), succeeded, reason: "seen".to_owned() };
        world.ask("decide", 1, decided);
        let before = world.state.operations.get(&OperationId(2)).unwrap().clone();
        let told = before.failure.as_ref().map(|failure| failure.message.as_str());
        assert_eq!(told, (!succeeded).then_some("seen"));
        world.saw(A, 1, Word::HostLost);
        world.ask("stop", 1, stop(A));
        world.pass(4, 2);
        let row = world.state.footprint(OperationId(2), &Scope::Owner, &before.key).unwrap();
        assert_eq!(world.recall(&row), Recalled::Read(before));
    }
}

#[test]
fn law_05_only_what_is_settled_and_the_same_request_is_answered_without_a_turn() {
    let mut world = World::new();
    let key = Key::parse("spawn").unwrap();
    let only_read = |world: &World, scope: &Scope, key: &Key, digest: u8| {
        let operation = world.state.operations.values().next().unwrap();
        is_settled_by(operation, (scope, key), Digest([digest; 32]))
    };
    world.ask("spawn", 1, spawn(A, None));
    assert!(!only_read(&world, &Scope::Owner, &key, 1), "it is under way");
    world.saw(A, 1, Word::Foreign { reason: "a copied root".to_owned() });
    assert!(!only_read(&world, &Scope::Owner, &key, 1), "it is uncertain, and may be settled");
    world.ask("decide", 1, Action::Resolve { operation: Ok(OperationId(2)), succeeded: true, reason: "r".to_owned() });
    assert!(only_read(&world, &Scope::Owner, &key, 1));
    assert!(!only_read(&world, &Scope::Owner, &key, 2), "another request: a conflict, which is recorded");
    assert!(!only_read(&world, &Scope::Owner, &Key::parse("other").unwrap(), 1));
    assert!(!only_read(&world, &Scope::Session(sid(B)), &key, 1));
}

#[test]
fn a_fingerprint_alone_decides_nothing() {
    let mut world = world();
    world.ask("stop", 1, stop(A));
    world.pass(0, 2);
    let key = Key::parse("spawn").unwrap();
    let actor = Actor { uid: 0, pid: 1, sid: None };
    let mut request = Request {
        scope: Scope::Owner,
        actor,
        key: key.clone(),
        digest: Digest([1; 32]),
        digests_since: 0,
        family: Family::default(),
        action: spawn(B, None),
        recalled: Vec::new(),
    };
    let row = world.state.footprint(OperationId(2), &Scope::Owner, &key).unwrap();
    let Recalled::Read(read) = world.recall(&row) else { panic!("it can be read") };
    // Another key with the same fingerprint: the records say so, and the request is new.
    let other = Operation { key: Key::parse("other").unwrap(), ..(*read).clone() };
    request.recalled = vec![Recalled::Read(Arc::new(other))];
    check(&world.step(Input::Request(request.clone())), "accept op-12 spawn spawn, => op-12");
    // And where nobody can read them, nothing is executed.
    request.key = Key::parse(&world.now_key(0)).unwrap();
    request.recalled = vec![Recalled::Unreadable(OperationId(8))];
    check(&world.step(Input::Request(request)), "=> refused Unreadable");
}

#[test]
fn a_key_is_known_for_the_window_and_as_one_of_the_last() {
    let mut world = world();
    let first = world.now_key(0);
    let made_us = world.now.wall_us;
    world.pass(0, 8);
    let ask = |world: &mut World, number| {
        let key = timed(made_us, number);
        world.ask(&key, 1, Action::Prune { older_ms: 1 << 52 })
    };
    check(&ask(&mut world, 0), "recall, => op-6 succeeded recalled");
    // Seven days later it is still one of the last six, and what is not known is refused.
    world.now.wall_us += 8 * DAY_US;
    world.generation();
    check(&ask(&mut world, 0), "recall, => op-6 succeeded recalled");
    check(&ask(&mut world, 99), "=> refused KeyExpired");
    world.pass(100, 3);
    assert_eq!(world.state.past.len(), 9, "the last two and that of the session are kept in full");
    world.pass(103, 1);
    assert_eq!(world.state.past.len(), 6, "a batch of four went as a whole");
    assert_eq!(world.ask(&first, 1, Action::Prune { older_ms: 1 << 52 }), "=> refused KeyExpired");
    check(&ask(&mut world, 7), "recall, => op-20 succeeded recalled");
}

#[test]
fn a_clock_that_goes_wrong_makes_no_key_new_again() {
    let mut world = world();
    let made_us = world.now.wall_us;
    world.pass(0, 20);
    world.now.wall_us += 1_000 * DAY_US;
    world.pass(100, 1);
    // Everything but the last is forgotten, and the clock is set right again.
    world.now.wall_us = made_us + 1_000_000;
    let again = world.ask(&timed(made_us, 0), 1, Action::Prune { older_ms: 1 << 52 });
    check(&again, "=> refused KeyExpired");
    // Set back further still, its time looks like one to come, and it is not taken for a free-form key.
    world.now.wall_us = made_us - 3 * DAY_US;
    let again = world.ask(&timed(made_us, 0), 1, Action::Prune { older_ms: 1 << 52 });
    check(&again, "=> refused KeyExpired");
    world.now.wall_us = made_us + 1_000_000;
    let told = world.ask(&timed(made_us + 1_000_000, 200), 1, Action::Prune { older_ms: 1 << 52 });
    assert!(told.starts_with("accept"), "a key of now is not refused: {told}");
}

#[test]
fn a_key_from_the_future_counts_as_free_form() {
    let mut world = world();
    let now_us = world.now.wall_us;
    assert_eq!(world.state.free_form, 1);
    world.ask(&timed(now_us + DAY_US / 2, 1), 1, stop(A));
    assert_eq!(world.state.free_form, 1, "clocks may differ a little");
    world.ask(&timed(now_us + 2 * DAY_US, 2), 1, stop(A));
    assert_eq!(world.state.free_form, 2);
    // One from half a day ahead is known until the window after its own time is over.
    world.pass(10, 10);
    world.now.wall_us = now_us + 7 * DAY_US + DAY_US / 4;
    world.pass(30, 10);
    let ahead = world.ask(&timed(now_us + DAY_US / 2, 1), 1, stop(A));
    assert!(ahead.contains("recalled"), "{ahead}");
}

#[test]
fn a_free_form_key_is_known_as_long_as_its_session_and_the_window_after_it() {
    let mut world = world();
    world.ask("stop", 1, stop(A));
    for day in 0..40 {
        world.now.wall_us += DAY_US;
        world.pass(day * 10, 4);
    }
    check(&world.ask("stop", 1, stop(A)), "=> op-6 replayed");
    check(&world.ask("spawn", 1, spawn(B, None)), "recall, => op-2 succeeded recalled");
    let key = world.now_key(1_000);
    world.ask(&key, 1, delete(A, false));
    world.saw(A, 1, Word::Removed);
    for day in 40..46 {
        world.now.wall_us += DAY_US;
        world.pass(day * 10, 4);
        check(&world.ask("spawn", 1, spawn(B, None)), "recall, => op-2 succeeded recalled");
    }
    assert_eq!(world.state.free_form, 2);
    for day in 46..50 {
        world.now.wall_us += DAY_US;
        world.pass(day * 10, 4);
    }
    assert_eq!(world.state.free_form, 0);
    let told = world.ask("spawn", 1, spawn(B, None));
    assert!(told.starts_with("accept"), "{told}");
}

#[test]
fn free_form_keys_are_bounded_and_an_aborted_one_is_free() {
    let mut world = world();
    for number in 0..8 {
        world.ask(&format!("key-{number}"), 1, stop(A));
    }
    check(&world.ask("one-more", 1, stop(A)), "=> refused Capacity");
    assert!(world.ask("key-3", 1, stop(A)).contains("op-12"), "a known one is answered");
    let key = world.now_key(1);
    assert!(world.ask(&key, 1, stop(A)).starts_with("accept"), "a UUIDv7 is taken");
    let mut world = World::keeping(Retention { free_form: 1, ..little() });
    for _ in 0..5 {
        world.ask("spawn", 1, spawn(A, None));
        check(&world.ask("one-more", 1, spawn(B, None)), "=> refused Capacity");
        world.saw(A, 1, Word::LaunchFailed { phase: Phase::Exec, reason: "no".to_owned(), obstacle: None });
        world.saw(A, 1, Word::Removed);
        assert_eq!(world.state.free_form, 0);
    }
    assert!(world.state.past.len() > 2, "an aborted operation can be looked up, and binds nothing");
    assert!(world.ask("spawn", 1, spawn(A, None)).starts_with("accept"));
}

#[test]
fn what_starts_something_is_refused_before_what_ends_it() {
    let mut world = World::keeping(Retention { known: 3, ..little() });
    world.now.wall_us = EPOCH_MS * 1_000;
    world.pass(0, 3);
    check(&world.fresh(spawn(A, None)), "=> refused Capacity");
    world.pass(3, 1);
}

#[test]
fn the_oldest_record_that_something_known_leads_to() {
    let mut world = world();
    let needed = |world: &World| world.state.oldest_needed();
    assert_eq!(needed(&world), Some((2, Needed::Session(sid(A)))), "it is listed");
    world.pass(0, 8);
    let key = world.now_key(100);
    world.ask(&key, 1, delete(A, false));
    world.saw(A, 1, Word::Removed);
    assert_eq!(needed(&world), Some((2, Needed::Key(OperationId(2)))), "its key is within the window");
    let mut last = 2;
    for day in 1..40 {
        world.now.wall_us += DAY_US;
        world.pass(day * 10, 4);
        let (seq, by) = needed(&world).unwrap();
        assert!(seq >= last && matches!(by, Needed::Key(_)), "{seq} {by:?}");
        last = seq;
    }
    assert!(last > 60, "{last}");
    let mut world = World::keeping(Retention { recent: 2, ..little() });
    assert_eq!(needed(&world), None);
    world.pass(0, 1);
    assert_eq!(needed(&world), Some((2, Needed::Operation(OperationId(2)))), "it is among the latest");
}

/// A state that was stored under other limits goes on under those of now, and nothing that was known is new.
#[test]
fn other_limits_let_go_and_forget_nothing_that_was_within_them() {
    let mut world = World::keeping(Retention::default());
    world.now.wall_us = EPOCH_MS * 1_000;
    world.ask("spawn", 1, spawn(A, None));
    world.saw(A, 1, Word::Started(run(1)));
    world.saw(A, 1, exited(0));
    for number in 0..12 {
        world.ask(&format!("stop-{number}"), 1, stop(A));
    }
    for retention in [Retention { settled: 100, ..little() }, Retention { of_session: 2, ..Retention::default() }] {
        let state = world.state.stored().state_on(retention, world.now);
        assert_eq!((violations(&state), state.retention), (Vec::new(), retention));
        assert!(state.operations.iter().count() < world.state.operations.iter().count() || retention.recent > 100);
        for operation in world.state.operations.values() {
            let known = match state.known(&operation.scope, &operation.key) {
                Known::Here(here) => here.id == operation.id,
                Known::Perhaps(rows) => rows.iter().any(|row| row.operation() == operation.id),
                Known::Nowhere => false,
            };
            assert!(known, "{}", operation.id);
        }
        let back = state.stored().state_on(world.state.retention, world.now);
        assert_eq!(violations(&back), Vec::<String>::new());
    }
    assert!(world.state.stored().state_on(world.state.retention, world.now) == world.state);
}

/// However many keys are known, a start looks at none of them in a full batch: whatever stands there makes no difference to what it finds.
#[test]
fn footprints_of_full_batches_are_not_looked_at_before_they_are_asked_for() {
    let mut world = world();
    for number in 0..5 {
        world.ask(&format!("again-{number}"), 3, stop(A));
    }
    let state = &world.state;
    let mut footprints = Vec::new();
    let stored = serde_json::to_string(&state.stored_apart(&mut footprints)).unwrap();
    let back = |footprints: &[u8]| {
        serde_json::from_str::<Stored<Counted>>(&stored).unwrap().state(state.retention, footprints)
    };
    assert_eq!(back(&footprints).unwrap().as_ref(), Some(state));
    assert_eq!(state.past.len(), 4, "one batch, which is full");
    let other: Vec<u8> = footprints.iter().map(|byte| !byte).collect();
    let other = back(&other).unwrap().unwrap();
    assert!(other.past != state.past);
    assert_eq!(State { past: Arc::clone(&state.past), ..other }, *state);
    // And what has another length is refused.
    for wrong in [&footprints[1..], &[&footprints[..], b"x"].concat(), &[]] {
        assert!(back(wrong).is_err(), "{} bytes", wrong.len());
    }
    let mut other = state.retention;
    other.recent += 1;
    assert_eq!(serde_json::from_str::<Stored<Counted>>(&stored).unwrap().state(other, &footprints).unwrap(), None);
}

/// Another form is another version: whoever changes this file changes the version in `broker::snapshot`, too, and
/// gives the form in `broker::carry` another name, without ceasing to read this one.
#[test]
fn the_stored_form_is_this() {
    let mut world = world();
    let labels = BTreeMap::from([("job".to_owned(), "7".to_owned())]);
    let prepared = Some(PreparedSession { id: sid(B), spec: Digest([7; 32]) });
    world.ask(
        "named",
        2,
        Action::Spawn {
            prepared,
            name: Some(Name::parse("web").unwrap()),
            labels,
            adapter: crate::machine::Adapter::Inbox,
            readiness: None,
            source: None,
        },
    );
    world.saw(B, 1, Word::Started(run(3)));
    for number in 0..5 {
        world.ask(&format!("again-{number}"), 3, stop(A));
    }
    world.ask("stop", 3, stop(B));
    let stored = serde_json::to_string(&world.state.stored()).unwrap();
    assert_eq!(stored, include_str!("../golden/stored.json").trim_end());
    let mut footprints = Vec::new();
    let apart = serde_json::to_value(world.state.stored_apart(&mut footprints)).unwrap();
    let apart = format!("{}\n{}", apart["past"], HEXLOWER.encode(&footprints));
    assert_eq!(apart, include_str!("../golden/apart.txt").trim_end());
}

/// A call's key was read back, and is forgotten before the call comes to its turn: what was read holds, and nothing is done anew.
#[test]
fn what_was_read_back_for_a_call_holds_though_it_is_forgotten_meanwhile() {
    let mut world = World::new();
    world.ask("k", 1, spawn(A, None));
    world.saw(A, 1, Word::Started(run(1)));
    let known = Arc::clone(world.state.operations.values().next().unwrap());
    let request = |recalled, digest| Request {
        scope: Scope::Owner,
        actor: Actor { uid: 0, pid: 1, sid: None },
        key: Key::parse("k").unwrap(),
        digest: Digest([digest; 32]),
        digests_since: 0,
        family: Family::default(),
        action: spawn(B, None),
        recalled,
    };
    // A world that has forgotten it.
    let fresh = World::new();
    let decide = |request| decide(&fresh.state, fresh.now, 2, &Input::Request(request)).answer;
    let read = || vec![Recalled::Read(Arc::clone(&known))];
    assert_eq!(decide(request(read(), 1)), Answer::Recalled(Arc::clone(&known)));
    assert!(matches!(decide(request(read(), 2)), Answer::Refused(Refusal::KeyConflict { .. })));
    assert!(matches!(decide(request(Vec::new(), 1)), Answer::Operation { replayed: false, .. }));
    let aborted = Operation { state: Outcome::Aborted, ..Operation::clone(&known) };
    let aborted = vec![Recalled::Read(Arc::new(aborted))];
    assert!(matches!(decide(request(aborted, 1)), Answer::Operation { replayed: false, .. }), "its key is free");
}
