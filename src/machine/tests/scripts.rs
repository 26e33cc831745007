//! Stories, step by step, as text: each is a rule of the design that the tables alone do not show.

use super::*;

#[track_caller]
fn check(told: &str, expected: &str) {
    assert_eq!(told, expected);
}

#[test]
fn one_key_has_one_outcome() {
    let mut world = World::new();
    check(&world.ask("k", 1, spawn(A, None)), "accept op-2 spawn spawn, => op-2");
    check(&world.ask("k", 1, spawn(B, None)), "=> op-2 replayed");
    check(&world.saw(A, 1, Word::Started(run(1))), "host/1 started, finish op-2 succeeded");
    check(&world.ask("k", 1, spawn(B, None)), "=> op-2 replayed");
    check(&world.ask("k", 2, spawn(B, None)), "conflict, => refused KeyConflict");
    check(&world.ask("k", 3, stop(A)), "conflict, => refused KeyConflict");
    world.generation();
    check(&world.ask("k", 1, spawn(B, None)), "=> op-2 replayed");
    check(&world.status(B), "absent");
}

/// The secret of the digests was lost: what another digest means is not known, and nothing is recorded against the caller.
#[test]
fn what_cannot_be_compared_is_not_called_a_conflict() {
    let mut world = World::new();
    world.ask("old", 1, spawn(A, None));
    world.digests_since = 3;
    check(&world.ask("old", 2, spawn(A, None)), "=> refused Incomparable");
    check(&world.ask("old", 3, stop(A)), "=> refused Incomparable");
    check(&world.ask("new", 4, spawn(B, None)), "accept op-3 spawn spawn, => op-3");
    check(&world.ask("new", 4, spawn(B, None)), "=> op-3 replayed");
    check(&world.ask("new", 5, stop(B)), "conflict, => refused KeyConflict");
}

#[test]
fn a_key_belongs_to_its_scope() {
    let mut world = World::new();
    world.ask("k", 1, spawn(A, None));
    world.saw(A, 1, Word::Started(run(1)));
    check(&world.ask_as(Scope::Session(sid(A)), "k", 2, spawn(B, None)), "accept op-5 spawn spawn, => op-5");
    assert_eq!(world.state.sessions.get(&sid(B)).unwrap().parent, Some(sid(A)));
}

#[test]
fn a_session_may_change_its_children_only_and_learns_nothing_of_others() {
    let mut world = World::new();
    world.fresh(spawn(A, None));
    world.fresh(spawn(B, None));
    let scope = Scope::Session(sid(A));
    check(&world.ask_as(scope.clone(), "x", 1, stop(B)), "=> refused NoSession");
    check(&world.ask_as(scope.clone(), "x", 1, stop(A)), "=> refused NoSession");
    check(&world.ask_as(scope, "x", 1, Action::Prune { older_ms: 0 }), "=> refused OwnerOnly");
}

#[test]
fn an_aborted_spawn_frees_key_and_name_and_leaves_no_session() {
    let mut world = World::new();
    world.ask("k", 1, spawn(A, Some("alpha")));
    check(&world.fresh(spawn(B, Some("alpha"))), "=> refused NameTaken");
    let failed = Word::LaunchFailed { phase: Phase::Exec, reason: "No such file".to_owned(), obstacle: None };
    check(&world.saw(A, 1, failed), "aborted, finish op-2 aborted (spawn_failed exec)");
    check(&world.status(A), "absent");
    check(&world.owes(), "remove aaaaaaaaaaaa");
    check(&world.ask("k", 9, spawn(B, Some("alpha"))), "accept op-5 spawn spawn, => op-5");
    check(&world.saw(A, 1, Word::Removed), "removed");
    check(&world.owes(), "launch bbbbbbbbbbbb/1");
}

#[test]
fn an_aborted_resume_leaves_the_session_as_it_was() {
    let mut world = World::new();
    world.fresh(spawn(A, None));
    world.saw(A, 1, Word::Started(run(1)));
    world.saw(A, 1, exited(3));
    let before = world.state.sessions.get(&sid(A)).unwrap().clone();
    world.fresh(resume(A, 2));
    let failed = Word::LaunchFailed { phase: Phase::Cwd, reason: "gone".to_owned(), obstacle: None };
    world.saw(A, 2, failed);
    let after = world.state.sessions.get(&sid(A)).unwrap();
    assert_eq!((after.status, after.episode, &after.exit), (before.status, 1, &before.exit));
    check(&world.fresh(resume(A, 2)), "=> prepare aaaaaaaaaaaa/3");
    check(&world.fresh(resume(A, 3)), "accept op-9 resume launch, => op-9");
}

#[test]
fn a_resume_that_is_deleted_before_it_started_leaves_nothing() {
    let mut world = World::new();
    world.fresh(spawn(A, None));
    world.saw(A, 1, Word::Started(run(1)));
    world.saw(A, 1, exited(0));
    world.fresh(resume(A, 2));
    check(&world.fresh(delete(A, true)), "accept op-7 delete end, => op-7");
    let told = "aborted, finish op-6 aborted (spawn_failed cancelled), deleting";
    check(&world.saw(A, 2, Word::NeverOpened), told);
    check(&world.owes(), "remove aaaaaaaaaaaa");
    check(&world.saw(A, 1, Word::Removed), "removed, finish op-7 succeeded");
    check(&world.status(A), "absent");
}

#[test]
fn delete_wins_over_a_late_start() {
    let mut world = World::new();
    world.fresh(spawn(A, Some("alpha")));
    check(&world.fresh(delete(A, true)), "accept op-3 delete end, => op-3");
    check(&world.owes(), "judge aaaaaaaaaaaa/1");
    check(&world.saw(A, 1, Word::Started(run(1))), "host/1 started, finish op-2 failed (spawn_failed cancelled)");
    check(&world.owes(), "stop aaaaaaaaaaaa/1");
    check(&world.saw(A, 1, exited(0)), "ended stopped, deleting");
    check(&world.owes(), "remove aaaaaaaaaaaa");
    check(&world.saw(A, 1, Word::Removed), "removed, finish op-3 succeeded");
    check(&world.status(A), "absent");
    check(&world.saw(A, 1, Word::Started(run(1))), "");
}

#[test]
fn a_refused_delete_hinders_nobody() {
    let mut world = World::new();
    world.fresh(spawn(A, None));
    world.saw(A, 1, Word::Started(run(1)));
    world.fresh(spawn(B, None));
    world.saw(B, 1, Word::Started(run(2)));
    world.saw(B, 1, exited(0));
    check(&world.fresh(delete(A, false)), "=> refused Live");
    check(&world.fresh(delete(B, false)), "accept op-9 delete remove, => op-9");
    check(&world.saw(B, 1, Word::Removed), "removed, finish op-9 succeeded");
}

#[test]
fn after_a_restart_the_world_is_asked_before_anything_is_released() {
    let mut world = World::new();
    world.fresh(spawn(A, None));
    check(&world.owes(), "launch aaaaaaaaaaaa/1");
    world.generation();
    check(&world.owes(), "judge aaaaaaaaaaaa/1");
    check(&world.saw(A, 1, Word::NeverOpened), "host/1 unopened");
    check(&world.owes(), "launch aaaaaaaaaaaa/1");
    world.generation();
    world.now.boot_us += limits::START_WITHIN_MS * 1_000 + 1;
    check(&world.saw(A, 1, Word::NeverOpened), "aborted, finish op-2 aborted (spawn_failed expired)");
}

#[test]
fn a_start_that_never_opened_before_a_reboot_is_not_issued_after_it() {
    let mut world = World::new();
    world.now.boot_us = 9_000_000_000_000;
    world.fresh(spawn(A, None));
    world.now.boot_us = 5_000_000;
    world.generation_in("another boot");
    check(&world.owes(), "judge aaaaaaaaaaaa/1");
    check(&world.saw(A, 1, Word::NeverOpened), "aborted, finish op-2 aborted (spawn_failed expired)");
}

#[test]
fn a_fence_binds_one_session_and_an_operator_or_evidence_takes_it_down() {
    let mut world = World::new();
    world.fresh(spawn(A, None));
    world.fresh(spawn(B, None));
    world.saw(B, 1, Word::Started(run(2)));
    world.generation();
    let foreign = Word::Foreign { reason: "a copied root".to_owned() };
    check(&world.saw(A, 1, foreign.clone()), "fence up, finish op-2 uncertain (uncertain foreign)");
    check(&world.fresh(stop(A)), "=> refused Fenced");
    check(&world.owes(), "judge bbbbbbbbbbbb/1");
    world.saw(B, 1, Word::Adopted(run(2)));
    check(&world.fresh(stop(B)), "accept op-10 stop end, => op-10");
    let decided = Action::Resolve { operation: Ok(OperationId(2)), succeeded: false, reason: "seen".to_owned() };
    check(
        &world.fresh(decided.clone()),
        "accept op-11 operation.resolve nothing, operator op-2 failed, fence down, finish op-11 succeeded, => op-11",
    );
    check(&world.fresh(decided), "=> refused NotUncertain");
    check(&world.owes(), "judge aaaaaaaaaaaa/1, stop bbbbbbbbbbbb/1");
    check(&world.saw(A, 1, foreign), "fence up");
    world.generation();
    check(&world.saw(A, 1, Word::HostLost), "fence down, ended failed (its host died)");
}

#[test]
fn the_first_stop_deadline_wins_and_a_stop_without_proof_is_answered_honestly() {
    let mut world = World::new();
    world.fresh(spawn(A, None));
    world.saw(A, 1, Word::Started(run(1)));
    world.fresh(stop(A));
    let first = world.state.sessions.get(&sid(A)).unwrap().deadline_boot_us;
    world.now.boot_us += 1_000;
    check(&world.fresh(stop(A)), "accept op-6 stop join, => op-6");
    assert_eq!(world.state.sessions.get(&sid(A)).unwrap().deadline_boot_us, first);
    let due = next_deadline(&world.state, world.now).unwrap();
    assert_eq!(due, first + limits::STOP_PROOF_MS * 1_000);
    world.now.boot_us = due - 1;
    check(&world.step(Input::Tick), "");
    world.now.boot_us = due;
    check(
        &world.step(Input::Tick),
        "finish op-5 failed (timeout still_alive), finish op-6 failed (timeout still_alive)",
    );
    assert_eq!(next_deadline(&world.state, world.now), None);
    check(&world.owes(), "stop aaaaaaaaaaaa/1");
    world.fresh(stop(A));
    assert!(next_deadline(&world.state, world.now).is_some(), "a later stop has a deadline of its own");
    check(&world.saw(A, 1, exited(0)), "ended stopped, finish op-9 succeeded");
    assert_eq!(next_deadline(&world.state, world.now), None);
}

#[test]
fn a_replayed_start_is_checked_against_the_endpoint_that_answers_now() {
    let mut world = World::new();
    world.fresh(spawn(A, None));
    let stale = |world: &World| {
        let operation = world.state.operations.get(&OperationId(2)).unwrap();
        replayable(&world.state, operation).map_err(Stale::word)
    };
    world.saw(A, 1, Word::Started(run(1)));
    assert_eq!(stale(&world), Ok(()));
    world.fresh(stop(A));
    assert_eq!(stale(&world), Ok(()), "it lives until its end is proven");
    world.saw(A, 1, exited(0));
    assert_eq!(stale(&world), Err("ended"));
    world.fresh(resume(A, 2));
    world.saw(A, 2, Word::Started(run(2)));
    assert_eq!(stale(&world), Err("replaced"));
}

#[test]
fn a_start_found_ended_after_a_crash_succeeded_first() {
    let mut world = World::new();
    world.fresh(spawn(A, None));
    world.generation();
    check(&world.saw(A, 1, exited(3)), "host/1 started, finish op-2 succeeded, ended failed (exit code 3)");
    world.fresh(resume(A, 2));
    world.generation();
    let not_executable = Exit::Error(ExitError { phase: Phase::Exec, reason: "denied".to_owned(), obstacle: None });
    let word = Word::Exited { run: None, exit: not_executable, at_us: 1, survivors: Vec::new() };
    check(&world.saw(A, 2, word), "aborted, finish op-7 aborted (spawn_failed exec)");
    check(&world.status(A), "failed");
}

#[test]
fn prune_forgets_ended_sessions_by_age_and_the_list_is_bounded() {
    let mut world = World::new();
    for id in [A, B] {
        world.fresh(spawn(id, None));
        world.saw(id, 1, Word::Started(run(1)));
    }
    world.saw(A, 1, exited(0));
    check(&world.fresh(Action::Prune { older_ms: 0 }), "accept op-9 prune prune, finish op-9 succeeded, => op-9");
    world.now.wall_us += 1_000;
    check(
        &world.fresh(Action::Prune { older_ms: 0 }),
        "accept op-11 prune prune, forgotten, finish op-11 succeeded, => op-11",
    );
    check(&world.owes(), "remove aaaaaaaaaaaa");
    check(&world.status(B), "ready");
}

#[test]
fn a_beat_carries_only_newer_times_and_binds_no_session() {
    let mut world = World::new();
    world.fresh(spawn(A, None));
    let seen = |at| Input::Beat { seen: BTreeMap::from([(sid(A), at), (sid(B), at)]), whole: false };
    check(&world.step(seen(1)), "");
    check(&world.step(seen(5_000_000_000)), "beat of 1");
    assert_eq!(world.state.sessions.get(&sid(A)).unwrap().last_seen_us, 5_000_000_000);
    check(&world.step(seen(4_000_000_000)), "");
    check(&world.step(Input::Beat { seen: BTreeMap::new(), whole: true }), "beat of 0");
}

#[test]
fn a_ledger_that_says_the_impossible_is_not_believed() {
    let at = At { seq: 2, time: Time::default() };
    let mut world = World::new();
    let finish = Event::Finish {
        sid: None,
        op: OperationId(1),
        kind: Kind::Stop,
        st: Outcome::Succeeded,
        err: None,
        res: Gained::default(),
        body: None,
    };
    assert_eq!(apply(&mut world.state, &finish, at), Err(Illegal("an outcome without an operation")));
    world.fresh(spawn(A, None));
    world.saw(A, 1, Word::Started(run(1)));
    let again = Event::Finish {
        sid: None,
        op: OperationId(2),
        kind: Kind::Spawn,
        st: Outcome::Failed,
        err: None,
        res: Gained::default(),
        body: None,
    };
    assert_eq!(apply(&mut world.state, &again, at), Err(Illegal("a settled outcome never changes")));
    world.saw(A, 1, Word::Exited { run: None, exit: Exit::Code(0), at_us: 1, survivors: Vec::new() });
    let mut next = 10;
    let mut asked = |world: &mut World, kind: Kind, body: Plan| {
        next += 1;
        let (op, key) = (OperationId(next), Key::parse(&format!("k{next}")).unwrap());
        let act = Actor { uid: 0, pid: 1, sid: None };
        let accept = Event::Accept { sid: Some(sid(A)), ep: Some(1), op, kind, key, req: Digest::default(), act, body };
        apply(&mut world.state, &accept, At { seq: next, ..at })
    };
    let end = Plan::End { grace_ms: 1, deadline_boot_us: 1, delete: false, reason: None };
    let late = Err(Illegal("a plan that cannot follow the session's status"));
    assert_eq!(asked(&mut world, Kind::Stop, end), late);
    assert_eq!(asked(&mut world, Kind::Delete, Plan::Remove), Ok(()));
    assert_eq!(asked(&mut world, Kind::Resume, Plan::Launch { deadline_boot_us: 1 }), late);
}
