//! Copies of sessions in the pure core: what a copy keeps of its source, and when there is none to make.

use super::*;

fn copy_of(source: Target, id: &str) -> Action {
    let Action::Spawn { prepared, name, adapter, readiness, .. } = spawn(id, None) else { unreachable!() };
    let labels = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
    Action::Spawn { prepared, name, labels, adapter, readiness, source: Some(source) }
}

fn source_of(world: &World, id: &str) -> Option<SessionId> {
    world.state.sessions.get(&sid(id)).unwrap().forked_from.clone()
}

#[test]
fn a_copy_is_a_session_of_its_own_that_remembers_its_source() {
    let mut world = World::new();
    world.fresh(spawn(A, None));
    world.saw(A, 1, Word::Started(run(1)));
    assert_eq!(world.fresh(copy_of(Ok(sid(A)), B)), "accept op-5 fork spawn, => op-5");
    assert_eq!(world.saw(B, 1, Word::Started(run(2))), "host/1 started, finish op-5 succeeded");
    assert_eq!((source_of(&world, B), source_of(&world, A)), (Some(sid(A)), None));
    // The source ends and goes; the copy does not care.
    world.fresh(stop(A));
    world.saw(A, 1, exited(0));
    world.fresh(Action::Delete { target: Ok(sid(A)), stop: false, grace_ms: 0, reason: None });
    world.saw(A, 1, Word::Removed);
    assert_eq!((world.status(B), source_of(&world, B)), ("ready".to_owned(), Some(sid(A))));
}

#[test]
fn of_what_is_gone_or_not_the_caller_s_there_is_no_copy() {
    let mut world = World::new();
    assert_eq!(world.fresh(copy_of(Err(Refusal::NoSession { given: "x".to_owned() }), B)), "=> refused NoSession");
    world.fresh(spawn(A, None));
    world.saw(A, 1, Word::Started(run(1)));
    assert_eq!(
        world.ask_as(Scope::Session(sid("cccccccccccc")), "k", 1, copy_of(Ok(sid(A)), B)),
        "=> refused NoSession",
        "another session's is as unknown as one that is not there"
    );
    world.saw(A, 1, exited(0));
    world.fresh(Action::Delete { target: Ok(sid(A)), stop: false, grace_ms: 0, reason: None });
    assert_eq!(world.fresh(copy_of(Ok(sid(A)), B)), "=> refused Gone");
}

/// Nobody knows what became of it; what it runs is known all the same.
#[test]
fn a_session_in_doubt_can_be_copied() {
    let mut world = World::new();
    world.fresh(spawn(A, None));
    world.saw(A, 1, Word::Foreign { reason: "damaged".to_owned() });
    assert!(world.fresh(copy_of(Ok(sid(A)), B)).contains("fork spawn"));
}
