//! What evidence means, in every combination; and what it does to a session in every state, compared with a committed
//! table. `BLESS=1` writes it anew.

use super::super::reconcile::{Finding, finding};
use super::walk::at;
use super::*;

const LOCKS: [Lock; 4] = [Lock::Free, Lock::Held, Lock::Absent, Lock::Hidden];
const TRACES: [Trace; 6] =
    [Trace::Lives, Trace::Gone, Trace::BeforeBoot, Trace::OtherNamespace, Trace::Hidden, Trace::Unrecorded];
const MARKS: [Marks; 3] = [Marks::Found, Marks::Absent, Marks::Hidden];

type Signs = (Lock, Trace, Trace, Marks, bool);

fn every_combination() -> Vec<Signs> {
    let mut all = Vec::new();
    for lock in LOCKS {
        for host in TRACES {
            for command in TRACES {
                for marks in MARKS {
                    all.extend([false, true].map(|has_exit| (lock, host, command, marks, has_exit)));
                }
            }
        }
    }
    all
}

fn found(signs: Signs) -> Finding {
    finding(signs.0, signs.1, signs.2, signs.3, signs.4)
}

/// Law 7, of evidence: what lives or may live is never called dead.
#[test]
fn no_combination_of_evidence_calls_dead_what_may_live() {
    let combinations = every_combination();
    assert_eq!(combinations.len(), 864);
    for signs in combinations {
        let (lock, host, command, marks, has_exit) = signs;
        let lives = lock == Lock::Held || host == Trace::Lives || command == Trace::Lives || marks == Marks::Found;
        let found = found(signs);
        assert_eq!(matches!(found, Finding::Lives(_)), lives, "{signs:?}: {found:?}");
        if matches!(found, Finding::Ended | Finding::Lost | Finding::Interrupted) {
            assert!(marks == Marks::Absent && command != Trace::Hidden && lock != Lock::Hidden, "{signs:?}");
            let unseen = matches!(host, Trace::Hidden | Trace::OtherNamespace);
            assert!(lock == Lock::Free || !unseen, "only a free lock speaks for a host that cannot be seen: {signs:?}");
        }
        assert!(found != Finding::Ended || has_exit, "{signs:?}");
        assert!(found != Finding::Lost || !has_exit, "an exit that is written down is believed: {signs:?}");
    }
}

/// Each sign alone, with all others telling of nothing: what it does.
#[test]
fn each_sign_alone_has_its_meaning() {
    use Finding::{Ended, Hidden, Interrupted, Lives, Lost};
    let nothing: Signs = (Lock::Free, Trace::Unrecorded, Trace::Unrecorded, Marks::Absent, false);
    assert_eq!(found(nothing), Lost);
    let mean = |lock: Lock| found((lock, nothing.1, nothing.2, nothing.3, nothing.4));
    assert_eq!(LOCKS.map(mean), [Lost, Lives(Part::Host), Lost, Hidden(Part::Lock)]);
    let mean = |host: Trace| found((nothing.0, host, nothing.2, nothing.3, nothing.4));
    assert_eq!(TRACES.map(mean), [Lives(Part::Host), Lost, Interrupted, Interrupted, Lost, Lost]);
    let without = |host: Trace| found((Lock::Absent, host, nothing.2, nothing.3, nothing.4));
    let unseen = Hidden(Part::Host);
    assert_eq!(TRACES.map(without), [Lives(Part::Host), Lost, Interrupted, unseen, unseen, Lost]);
    let mean = |command: Trace| found((nothing.0, nothing.1, command, nothing.3, nothing.4));
    assert_eq!(TRACES.map(mean), [Lives(Part::Command), Lost, Lost, Lost, Hidden(Part::Command), Lost]);
    let mean = |marks: Marks| found((nothing.0, nothing.1, nothing.2, marks, nothing.4));
    assert_eq!(MARKS.map(mean), [Lives(Part::Marked), Lost, Hidden(Part::Marked)]);
    assert_eq!(found((nothing.0, nothing.1, nothing.2, nothing.3, true)), Ended);
}

/// Evidence about session A as it is now.
fn evidence(world: &World, signs: Signs) -> Evidence {
    let of = Arc::clone(world.state.sessions.get(&sid(A)).unwrap());
    let exit = signs.4.then(|| Ended { run: Some(run(1)), exit: Exit::Code(3), at_us: 1_000_000_500 });
    let living = Vec::new();
    Evidence {
        of,
        lock: signs.0,
        host: signs.1,
        command: signs.2,
        marks: signs.3,
        answers: None,
        exit,
        living,
        is_elsewhere: false,
    }
}

fn reconcile(evidence: Option<Evidence>) -> Action {
    Action::Reconcile { target: Ok(sid(A)), evidence: evidence.map(Box::new) }
}

const DEAD: Signs = (Lock::Free, Trace::Gone, Trace::Gone, Marks::Absent, false);

type Look = (&'static str, fn(&World) -> Evidence);

fn looks() -> [Look; 8] {
    [
        ("none", |world| evidence(world, (Lock::Hidden, Trace::Hidden, Trace::Hidden, Marks::Hidden, false))),
        ("host lives", |world| evidence(world, (Lock::Held, Trace::Lives, Trace::Lives, Marks::Found, false))),
        ("host answers", |world| {
            let held = evidence(world, (Lock::Held, Trace::Lives, Trace::Lives, Marks::Found, false));
            Evidence { answers: Some(run(1)), ..held }
        }),
        ("command lives", |world| evidence(world, (Lock::Free, Trace::Gone, Trace::Lives, Marks::Absent, false))),
        ("marked lives", |world| evidence(world, (Lock::Free, Trace::Gone, Trace::Gone, Marks::Found, true))),
        ("exit record", |world| evidence(world, (Lock::Free, Trace::Gone, Trace::Gone, Marks::Absent, true))),
        ("gone", |world| evidence(world, DEAD)),
        ("another boot", |world| {
            evidence(world, (Lock::Free, Trace::BeforeBoot, Trace::BeforeBoot, Marks::Absent, false))
        }),
    ]
}

/// A world in which A is in doubt.
fn fenced(mut world: World) -> World {
    let episode = world.state.sessions.get(&sid(A)).unwrap().episode;
    world.saw(A, episode, Word::Foreign { reason: "in doubt".to_owned() });
    world
}

fn told() -> String {
    type Make = fn() -> World;
    let states: [(&str, Make); 11] = [
        ("starting", || fenced(at(Status::Starting))),
        ("starting (resumed)", || {
            let mut world = at(Status::Failed);
            world.fresh(super::resume(A, 2));
            fenced(world)
        }),
        ("ready", || fenced(at(Status::Ready))),
        ("ready, unheard of", || {
            let mut world = at(Status::Ready);
            world.generation();
            world
        }),
        ("stopping", || fenced(at(Status::Stopping))),
        ("stopping (no run)", || {
            let mut world = at(Status::Starting);
            world.fresh(stop(A));
            fenced(world)
        }),
        ("deleting (stop)", || {
            let mut world = at(Status::Ready);
            world.fresh(delete(A, true));
            fenced(world)
        }),
        ("stopped", || fenced(at(Status::Stopped))),
        ("exited", || fenced(at(Status::Exited))),
        ("failed", || fenced(at(Status::Failed))),
        ("interrupted", || fenced(at(Status::Interrupted))),
    ];
    let mut out = String::new();
    for (from, make) in states {
        for (what, look) in looks() {
            let mut world = make();
            let before = world.state.clone();
            assert_eq!(world.fresh(reconcile(None)), format!("=> look at {A}"));
            assert_eq!(world.state, before, "a look binds nothing");
            let evidence = look(&world);
            let line = world.fresh(reconcile(Some(evidence)));
            let fence = world.state.sessions.get(&sid(A)).is_some_and(|session| session.fence.is_some());
            let fence = if fence { ", fenced" } else { "" };
            out.push_str(&format!("{from:<18} {what:<13} {}{fence}: {line}; owes {}\n", world.status(A), world.owes()));
            settled_once(&before, &world.state, fence.is_empty());
        }
    }
    out
}

/// Law 7: what was settled stays; and where the doubt ended nothing of it is left.
fn settled_once(before: &State, after: &State, ended: bool) {
    for (id, then) in before.operations.iter() {
        let now = after.operations.get(id).unwrap();
        if matches!(then.state, Outcome::Succeeded | Outcome::Failed | Outcome::Aborted) {
            assert_eq!(then, now, "a settled outcome never changes");
        } else if ended {
            assert!(matches!(now.state, Outcome::Succeeded | Outcome::Failed), "{now:?}");
        }
    }
    if !ended {
        assert_eq!(before.operations, after.operations, "a refusal changes nothing");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "BLESS decides whether the golden file is written or compared")]
fn every_state_meets_every_look() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/machine/golden/reconcile.txt");
    let told = told();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &told).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap();
    for (told, golden) in told.lines().zip(golden.lines()) {
        assert_eq!(told, golden);
    }
    assert_eq!(told.lines().count(), golden.lines().count());
}

#[test]
fn repeated_it_changes_nothing_and_its_key_keeps_its_outcome() {
    let mut world = fenced(at(Status::Ready));
    let look = evidence(&world, DEAD);
    let first = world.ask("k", 1, reconcile(Some(look.clone())));
    assert!(first.contains("fence down, ended failed (its host died)"), "{first}");
    let replayed = world.ask("k", 1, reconcile(None));
    assert!(replayed.ends_with(" replayed"), "{replayed}");
    let session = Arc::clone(world.state.sessions.get(&sid(A)).unwrap());
    // The same evidence again, and another's that comes late: nothing is in doubt any more.
    for look in [None, Some(look)] {
        let again = world.fresh(reconcile(look));
        assert!(again.contains("reconcile nothing, finish") && again.contains("succeeded"), "{again}");
        let now = world.state.sessions.get(&sid(A)).unwrap();
        assert_eq!((now.status, &now.exit, &now.ended_us), (session.status, &session.exit, &session.ended_us));
    }
}

/// Between the look and the turn another one ended the doubt, and the session was started again.
#[test]
fn evidence_of_what_was_says_nothing_of_what_is() {
    let mut world = fenced(at(Status::Ready));
    let old = evidence(&world, DEAD);
    world.fresh(reconcile(Some(old.clone())));
    world.fresh(super::resume(A, 2));
    world.saw(A, 2, Word::Started(run(2)));
    world.saw(A, 2, Word::Foreign { reason: "in doubt".to_owned() });
    let told = world.fresh(reconcile(Some(old)));
    assert_eq!(told, format!("=> look at {A}"));
    assert_eq!(world.status(A), "ready");
}

#[test]
fn only_the_owner_may_and_what_is_gone_is_gone() {
    let mut world = fenced(at(Status::Ready));
    let asked = world.ask_as(Scope::Session(sid(B)), "x", 1, reconcile(None));
    assert_eq!(asked, "=> refused OwnerOnly");
    let asked = world.fresh(Action::Reconcile { target: Ok(sid(B)), evidence: None });
    assert_eq!(asked, "=> refused NoSession");
    let mut world = at(Status::Deleted);
    assert_eq!(world.fresh(reconcile(None)), "=> refused Gone");
}

/// A healthy session is in no doubt: nothing is looked at and nothing changes (report E01).
#[test]
fn a_healthy_session_is_left_as_it_is() {
    for status in [Status::Starting, Status::Ready, Status::Stopping, Status::Exited] {
        let mut world = at(status);
        let before = Arc::clone(world.state.sessions.get(&sid(A)).unwrap());
        let told = world.fresh(reconcile(None));
        assert!(told.contains("reconcile nothing"), "{told}");
        let now = world.state.sessions.get(&sid(A)).unwrap();
        assert_eq!(
            Session { latest: Vec::new(), ..(**now).clone() },
            Session { latest: Vec::new(), ..(*before).clone() }
        );
    }
}

/// A doubt that evidence ended leaves its position behind, so that old damage does not bring it back.
#[test]
fn the_position_of_the_last_settled_doubt_is_kept() {
    let mut world = fenced(at(Status::Exited));
    let look = evidence(&world, DEAD);
    let told = world.fresh(reconcile(Some(look)));
    assert!(told.contains("reconcile settle, fence down, finish"), "{told}");
    let session = world.state.sessions.get(&sid(A)).unwrap();
    assert!(session.settled_seq > session.created_seq && session.fence.is_none());
    assert_eq!(session.status, Status::Exited, "what it was stays");
}
