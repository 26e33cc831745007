//! How many children of a session may live, and how deep they may stand.

use super::*;

const P: &str = "pppppppppppp";

fn child_of(parent: &str) -> Scope {
    Scope::Session(sid(parent))
}

/// A world in which P lives and may have two children.
fn world() -> World {
    let mut world = World::new();
    world.family.children = 2;
    world.fresh(spawn(P, None));
    world.saw(P, 1, Word::Started(run(1)));
    world
}

impl World {
    /// A spawn by P; what came of it.
    fn born(&mut self, id: &str) -> String {
        self.ask_as(child_of(P), &format!("spawn-{id}"), 1, spawn(id, None))
    }

    fn refusal(&self, scope: Scope, action: Action) -> Option<Refusal> {
        let actor = Actor { uid: 0, pid: 1, sid: (scope != Scope::Owner).then(|| sid(P)) };
        let (key, digest) = (Key::parse("look").unwrap(), Digest([1; 32]));
        let (family, recalled) = (self.family, Vec::new());
        let request = Request { scope, actor, key, digest, digests_since: 0, family, action, recalled };
        let answer = decide(&self.state, self.now, self.next_seq(), &Input::Request(request)).answer;
        if let Answer::Refused(refusal) = answer { Some(refusal) } else { None }
    }
}

#[test]
fn a_session_has_so_many_children_that_live_and_no_more() {
    let mut world = world();
    assert!(world.born(A).contains("=> op-"));
    assert!(world.born(B).contains("=> op-"), "a start counts before it is proven");
    assert!(world.born("cccccccccccc").ends_with("=> refused Children"));
    // What was asked before is answered whatever the count is now.
    assert!(world.born(A).ends_with("replayed"));
    // It is one session's limit and not another's.
    assert!(world.fresh(spawn("dddddddddddd", None)).contains("=> op-"));
    let of_another = world.ask_as(child_of("dddddddddddd"), "k", 1, spawn("eeeeeeeeeeee", None));
    assert!(of_another.contains("=> op-"), "{of_another}");
    // Whatever may have a process counts: also what is being stopped, until its end is proven.
    world.saw(A, 1, Word::Started(run(1)));
    world.fresh(stop(A));
    assert!(world.born("cccccccccccc").ends_with("=> refused Children"));
    world.saw(A, 1, exited(0));
    assert_eq!(world.state.live_children(&sid(P)), 1);
    assert!(world.born("cccccccccccc").contains("=> op-"));
    // A start that never was is none.
    world.saw(B, 1, Word::LaunchFailed { phase: Phase::Exec, reason: "not found".to_owned(), obstacle: None });
    assert_eq!((world.status(B).as_str(), world.state.live_children(&sid(P))), ("absent", 1));
}

/// Whoever brings a child back to life, it counts for its parent; and its parent's end makes it nobody else's.
#[test]
fn what_comes_to_life_again_counts() {
    let mut world = world();
    for id in [A, B] {
        world.born(id);
        world.saw(id, 1, Word::Started(run(1)));
    }
    world.saw(A, 1, exited(0));
    world.born("cccccccccccc");
    assert!(world.fresh(resume(A, 2)).ends_with("=> refused Children"));
    let parcel = |target: &str| {
        Action::Send(Box::new(Parcel {
            target: Ok(sid(target)),
            mode: Mode::Queue,
            body: Some(Body { file: 1, offset: 0, bytes: 1, digest: Digest::default() }),
            bytes: 1,
            is_long: false,
            expires_in_ms: None,
            interrupt_within_ms: limits::INTERRUPT_WITHIN_MS,
            resume: true,
            prepared: Some(2),
        }))
    };
    assert!(world.fresh(parcel(A)).ends_with("=> refused Children"));
    // Who asked is told whose child it would be if it may know that.
    let of = Some(sid(P));
    let children = |of, is_caller| Some(Refusal::Children { of, is_caller, limit: 2 });
    assert_eq!(world.refusal(Scope::Owner, resume(A, 2)), children(of.clone(), false));
    assert_eq!(world.refusal(child_of(P), resume(A, 2)), children(of, true));
    world.saw(B, 1, exited(0));
    assert!(world.fresh(parcel(A)).contains("=> op-"));
    assert!(world.fresh(resume(B, 2)).ends_with("=> refused Children"));
    // That its parent has ended changes nothing: it may still be resumed, and more of them not at once.
    world.saw(P, 1, exited(0));
    world.fresh(delete(P, false));
    world.saw(P, 1, Word::Removed);
    assert!(world.fresh(resume(B, 2)).ends_with("=> refused Children"));
    world.saw("cccccccccccc", 1, Word::Started(run(1)));
    world.saw("cccccccccccc", 1, exited(0));
    assert!(world.fresh(resume(B, 2)).contains("=> op-"));
}

/// A child writes to its parent: of that one's parent it learns nothing.
#[test]
fn who_may_not_know_a_parent_is_not_told_it() {
    let mut world = world();
    world.family.children = 1;
    world.born(A);
    world.saw(A, 1, Word::Started(run(1)));
    let wake = Family { children: 1, depth: 8 }.may_rise(&world.state, Some(&sid(P)), Some(&sid(A)));
    assert_eq!(wake, Err(Refusal::Children { of: None, is_caller: false, limit: 1 }));
}

#[test]
fn a_family_is_so_deep_and_no_deeper_also_when_those_above_are_forgotten() {
    let mut world = World::new();
    world.family.depth = 3;
    world.fresh(spawn(A, None));
    world.saw(A, 1, Word::Started(run(1)));
    assert!(world.ask_as(child_of(A), "k", 1, spawn(B, None)).contains("=> op-"));
    world.saw(B, 1, Word::Started(run(1)));
    assert!(world.ask_as(child_of(B), "k", 1, spawn(P, None)).contains("=> op-"));
    world.saw(P, 1, Word::Started(run(1)));
    let depths = [A, B, P].map(|id| world.state.sessions.get(&sid(id)).map(|session| session.depth));
    assert_eq!(depths, [Some(1), Some(2), Some(3)]);
    let deeper = |world: &mut World| world.ask_as(child_of(P), "k", 1, spawn("cccccccccccc", None));
    assert!(deeper(&mut world).ends_with("=> refused Depth"));
    for id in [A, B] {
        world.saw(id, 1, exited(0));
        world.fresh(delete(id, false));
        world.saw(id, 1, Word::Removed);
    }
    assert!(deeper(&mut world).ends_with("=> refused Depth"));
    world.family.depth = 4;
    assert!(deeper(&mut world).contains("=> op-"));
    // What stands there already may be resumed when less is allowed.
    world.family.depth = 1;
    world.saw(P, 1, exited(0));
    assert!(world.fresh(resume(P, 2)).contains("=> op-"));
    assert!(world.fresh(spawn("dddddddddddd", None)).contains("=> op-"), "the owner starts what it likes");
}
