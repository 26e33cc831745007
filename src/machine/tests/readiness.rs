//! Readiness in the pure core: when a start is done that waits for a word, and how it fails when the word does not come.

use super::super::ready::WORDS;
use super::turns::send;
use super::walk::at;
use super::*;

const WITHIN_MS: u64 = 2_000;

/// A session that has to become ready, whose start was accepted as op-2.
fn asked(sign: Sign) -> World {
    let mut world = World::new();
    let Action::Spawn { prepared, name, labels, .. } = spawn(A, None) else { unreachable!() };
    let readiness = Some(Readiness { sign, within_ms: WITHIN_MS });
    world.fresh(Action::Spawn { prepared, name, labels, adapter: Adapter::Lines, readiness, source: None });
    world
}

/// The same, and its command executes.
fn unready(sign: Sign) -> World {
    let mut world = asked(sign);
    assert_eq!(world.saw(A, 1, Word::Started(run(1))), "host/1 started", "nobody is answered yet");
    assert_eq!((world.status(A).as_str(), world.owes().as_str()), ("starting", ""));
    world
}

fn says(world: &mut World, key: &str, episode: u32) -> String {
    world.ask_as(Scope::Session(sid(A)), key, 1, Action::Ready { episode })
}

fn reason(world: &World) -> String {
    world.state.sessions.get(&sid(A)).unwrap().reason.clone().unwrap_or_default()
}

fn due(world: &World) -> Option<u64> {
    next_deadline(&world.state, world.now)
}

fn after(world: &mut World, ms: u64) {
    world.now = Time { boot_us: world.now.boot_us + ms * 1_000, ..world.now };
}

fn by_signal() -> Word {
    Word::Exited { run: None, exit: Exit::Signal("SIGTERM".to_owned()), at_us: 1_000_000_500, survivors: Vec::new() }
}

#[test]
fn the_table_has_each_status_once_and_in_order() {
    assert_eq!(WORDS.map(|(status, _)| status), Status::ALL);
}

#[test]
fn the_start_is_done_when_the_word_comes() {
    let mut world = unready(Sign::Output);
    assert_eq!(world.fresh(send()), "accept op-4 message.send send, finish op-4 succeeded, => op-4", "it waits");
    assert_eq!(world.owes(), "");
    assert_eq!(world.saw(A, 1, Word::Ready), "ready, finish op-2 succeeded, msg-4 sending");
    assert_eq!((world.status(A).as_str(), due(&world)), ("ready", None));
    assert_eq!(world.saw(A, 1, Word::Ready), "", "twice is once");
    assert_eq!(world.saw(A, 2, Word::Ready), "", "another episode's");
}

#[test]
fn a_session_says_it_itself_and_a_miss_is_called_so() {
    let mut world = unready(Sign::Notify);
    assert_eq!(world.saw(A, 1, Word::Ready), "", "its output says nothing");
    assert_eq!(says(&mut world, "k1", 2), "accept op-4 ready nothing, finish op-4 succeeded, => op-4");
    assert_eq!(world.status(A), "starting", "another episode's");
    let said = says(&mut world, "k2", 1);
    assert_eq!(said, "accept op-6 ready nothing, ready, finish op-2 succeeded, finish op-6 succeeded, => op-6");
    assert_eq!(says(&mut world, "k2", 1), "=> op-6 replayed");
    assert_eq!(says(&mut world, "k3", 1), "accept op-10 ready nothing, finish op-10 succeeded, => op-10");
    let came = |op| world.state.operations.get(&OperationId(op)).unwrap().gained.readied;
    assert_eq!([4, 6, 10].map(came), [Some(Readied::Unchanged), Some(Readied::Ready), Some(Readied::Unchanged)]);
    assert_eq!(world.fresh(Action::Ready { episode: 1 }), "=> refused SessionOnly");
    // Where nobody asked for it.
    let mut world = at(Status::Ready);
    assert_eq!(says(&mut world, "k", 1), "accept op-5 ready nothing, finish op-5 succeeded, => op-5");
}

/// A program may be faster than the word that it was started.
#[test]
fn a_word_that_comes_before_the_start_is_kept() {
    let mut world = asked(Sign::Notify);
    assert!(says(&mut world, "k1", 1).contains(", ready, finish"));
    assert_eq!(says(&mut world, "k2", 1), "accept op-6 ready nothing, finish op-6 succeeded, => op-6");
    assert_eq!(world.status(A), "starting");
    assert_eq!(world.saw(A, 1, Word::Started(run(1))), "host/1 started, finish op-2 succeeded");
    assert_eq!((world.status(A).as_str(), due(&world)), ("ready", None));
    // And it is of its episode only.
    world.saw(A, 1, exited(3));
    world.fresh(resume(A, 2));
    assert_eq!(world.saw(A, 2, Word::Started(run(2))), "host/2 started");
    assert_eq!(world.status(A), "starting");
}

#[test]
fn who_is_not_ready_in_time_is_ended_and_its_start_has_failed() {
    let mut world = unready(Sign::Output);
    let begun = world.now.boot_us;
    assert_eq!(due(&world), Some(begun + WITHIN_MS * 1_000));
    // The wall clock goes where it likes.
    world.now.wall_us += 86_400_000_000;
    assert_eq!(world.step(Input::Tick), "");
    after(&mut world, WITHIN_MS);
    assert_eq!(world.step(Input::Tick), "not ready");
    assert_eq!((world.status(A).as_str(), world.owes().as_str()), ("stopping", "stop aaaaaaaaaaaa/1"));
    assert_eq!(world.step(Input::Tick), "", "once");
    assert_eq!(world.saw(A, 1, Word::Ready), "", "too late");
    // A broker that comes in between goes on with it.
    world.generation();
    assert_eq!(world.saw(A, 1, Word::Adopted(run(1))), "host/1 adopted");
    assert_eq!(world.owes(), "stop aaaaaaaaaaaa/1");
    assert_eq!(
        world.saw(A, 1, by_signal()),
        "ended failed (it was not ready within 2000 ms and was ended), finish op-2 failed (spawn_failed ready)"
    );
    let session = world.state.sessions.get(&sid(A)).unwrap();
    assert!(matches!(&session.exit, Some(Exit::Error(ExitError { phase: Phase::Ready, .. }))), "{:?}", session.exit);
    assert_eq!(world.owes(), "");
}

/// One that cannot be ended: its caller is answered all the same, and its end is still asked for.
#[test]
fn nobody_waits_for_ever_for_the_end_of_one_that_was_not_ready() {
    let mut world = unready(Sign::Output);
    after(&mut world, WITHIN_MS);
    world.step(Input::Tick);
    after(&mut world, limits::UNREADY_GRACE_MS + limits::STOP_PROOF_MS);
    assert_eq!(due(&world), Some(world.now.boot_us));
    assert_eq!(world.step(Input::Tick), "finish op-2 failed (timeout still_alive)");
    assert_eq!((world.owes().as_str(), due(&world)), ("stop aaaaaaaaaaaa/1", None));
    assert_eq!(world.saw(A, 1, by_signal()), "ended failed (it was not ready within 2000 ms and was ended)");
}

#[test]
fn a_command_that_ends_before_it_is_ready_has_failed_whatever_its_code() {
    for (exit, told) in [(exited(0), "exit code 0"), (exited(3), "exit code 3"), (by_signal(), "ended by SIGTERM")] {
        let mut world = unready(Sign::Output);
        let said = world.saw(A, 1, exit);
        assert_eq!(said, format!("ended failed (never ready: {told}), finish op-2 failed (spawn_failed ready)"));
        assert_eq!(due(&world), None);
    }
    // The end may be the first that a broker hears.
    let mut world = asked(Sign::Output);
    let said = world.saw(A, 1, exited(0));
    assert_eq!(
        said,
        "host/1 started, ended failed (never ready: exit code 0), finish op-2 failed (spawn_failed ready)"
    );
    // And with the sign before it the start was done.
    let mut world = asked(Sign::Output);
    assert_eq!(world.saw(A, 1, Word::Ready), "ready");
    assert_eq!(world.saw(A, 1, exited(0)), "host/1 started, finish op-2 succeeded, ended exited");
    let mut world = unready(Sign::Output);
    assert_eq!(
        world.saw(A, 1, Word::HostLost),
        "ended failed (its host died), finish op-2 failed (spawn_failed ready)"
    );
}

#[test]
fn a_stop_at_any_moment_cancels_the_waiting() {
    for (end, last) in [(stop(A), "stopped"), (delete(A, true), "deleted")] {
        // Before the word of the start: as without readiness.
        let mut world = asked(Sign::Output);
        world.fresh(end.clone());
        let said = world.saw(A, 1, Word::Started(run(1)));
        assert_eq!(said, "host/1 started, finish op-2 failed (spawn_failed cancelled)");
        // While it is waited for: at once.
        let mut world = unready(Sign::Output);
        let said = world.fresh(end.clone());
        assert!(said.contains(" end, finish op-2 failed (spawn_failed cancelled), => op-4"), "{said}");
        assert_eq!(world.saw(A, 1, Word::Ready), "");
        world.saw(A, 1, by_signal());
        assert_eq!(world.status(A), last);
        // When it is being ended for it: who stops it joins, and the start has failed for its own reason.
        let mut world = unready(Sign::Output);
        after(&mut world, WITHIN_MS);
        world.step(Input::Tick);
        let said = world.fresh(end);
        assert!(said.contains(" join, => op-5"), "{said}");
        let said = world.saw(A, 1, by_signal());
        assert!(said.contains("finish op-2 failed (spawn_failed ready)"), "{said}");
    }
}

/// What a broker finds that comes later: the deadline as it was recorded, and the host's word before it.
#[test]
fn a_broker_that_comes_later_goes_by_the_record_and_hears_the_host_first() {
    let mut world = unready(Sign::Output);
    after(&mut world, WITHIN_MS);
    world.generation();
    assert_eq!((due(&world), world.step(Input::Tick).as_str()), (None, ""), "its host has not answered yet");
    assert_eq!(world.owes(), "judge aaaaaaaaaaaa/1");
    assert_eq!(world.saw(A, 1, Word::Ready), "ready, finish op-2 succeeded");
    assert_eq!(world.saw(A, 1, Word::Adopted(run(1))), "host/1 adopted");
    assert_eq!((world.step(Input::Tick).as_str(), world.status(A).as_str()), ("", "ready"));
    // Nothing said, and the time is over.
    let mut world = unready(Sign::Output);
    after(&mut world, WITHIN_MS);
    world.generation();
    assert_eq!(world.saw(A, 1, Word::Adopted(run(1))), "host/1 adopted");
    assert_eq!(due(&world), Some(world.now.boot_us));
    assert_eq!(world.step(Input::Tick), "not ready");
    // A boot ends it, and its deadline with it.
    let mut world = unready(Sign::Output);
    world.generation_in("another boot");
    world.now.boot_us = 1;
    assert!(world.saw(A, 1, Word::MachineLost).contains("finish op-2 failed (spawn_failed ready)"));
    assert_eq!((world.status(A).as_str(), due(&world)), ("interrupted", None));
}

#[test]
fn who_comes_while_it_is_waited_for_gets_the_one_outcome() {
    let mut world = unready(Sign::Output);
    assert_eq!(world.fresh(resume(A, 2)), "accept op-4 resume join, => op-4");
    // What has nothing to do with it leaves the deadline where it is.
    world.fresh(Action::Interrupt { target: Ok(sid(A)) });
    assert_eq!(world.saw(A, 1, Word::Interrupted { operation: OperationId(5), sent: true }), "finish op-5 succeeded");
    assert!(due(&world).is_some());
    assert_eq!(world.saw(A, 1, Word::Ready), "ready, finish op-2 succeeded, finish op-4 succeeded");
    let mut world = unready(Sign::Output);
    world.fresh(resume(A, 2));
    let said = world.saw(A, 1, exited(1));
    assert!(
        said.ends_with("finish op-2 failed (spawn_failed ready), finish op-4 failed (spawn_failed ready)"),
        "{said}"
    );
    assert_eq!(reason(&world), "never ready: exit code 1");
}

/// A doubt says nothing of readiness: what was waited for goes on once the doubt is over, and what the host says to a new broker comes before that.
#[test]
fn a_fenced_session_is_not_ended_for_its_time() {
    let fenced = || {
        let mut world = unready(Sign::Output);
        world.saw(A, 1, Word::Foreign { reason: "another root".to_owned() });
        after(&mut world, WITHIN_MS);
        assert_eq!((due(&world), world.step(Input::Tick).as_str()), (None, ""));
        world
    };
    let mut world = fenced();
    assert_eq!(world.saw(A, 1, Word::Ready), "ready");
    assert_eq!(world.saw(A, 1, Word::Adopted(run(1))), "fence down, host/1 adopted, finish op-2 succeeded");
    assert_eq!((world.step(Input::Tick).as_str(), world.status(A).as_str()), ("", "ready"));
    let mut world = fenced();
    assert_eq!(world.saw(A, 1, Word::Adopted(run(1))), "fence down, host/1 adopted", "op-2 stays uncertain");
    world.saw(A, 1, Word::Adopted(run(1)));
    assert_eq!(world.step(Input::Tick), "not ready");
    assert_eq!(due(&world), None, "nobody waits for it any more");
    assert_eq!(
        world.saw(A, 1, by_signal()),
        "ended failed (it was not ready within 2000 ms and was ended)",
        "the doubt is settled by who asks for it"
    );
    assert_eq!(world.state.operations.get(&OperationId(2)).unwrap().state, Outcome::Uncertain);
}
