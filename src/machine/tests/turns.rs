//! Session turns in the pure core: every state with every word of a turn, and what the lane makes of it.

use super::super::turns::{Relation, WORDS, course};
use super::walk::at;
use super::*;

/// A session with a prompt whose command runs and has not shown it yet.
pub(super) fn started() -> World {
    let mut world = World::new();
    prompted(&mut world, A);
    assert_eq!(world.saw(A, 1, Word::Started(run(1))), "host/1 started, finish op-2 succeeded");
    world
}

fn prompted(world: &mut World, id: &str) {
    let Action::Spawn { prepared, name, labels, .. } = spawn(id, None) else { unreachable!() };
    world.fresh(Action::Spawn {
        prepared,
        name,
        labels,
        adapter: Adapter::PromptedLines,
        readiness: None,
        source: None,
    });
}

/// The same, at its prompt.
pub(super) fn ready() -> World {
    let mut world = started();
    assert_eq!(world.saw(A, 1, over(0)), "turn 0 ended");
    world
}

pub(super) fn over(number: u64) -> Word {
    Word::Turn { number, runs: false }
}

fn runs(number: u64) -> Word {
    Word::Turn { number, runs: true }
}

pub(super) fn send() -> Action {
    Action::Send(Box::new(Parcel {
        target: Ok(sid(A)),
        mode: Mode::Queue,
        body: Some(Body { file: 1, offset: 0, bytes: 10, digest: Digest([7; 32]) }),
        bytes: 10,
        is_long: false,
        expires_in_ms: None,
        interrupt_within_ms: 30_000,
        resume: false,
        prepared: None,
    }))
}

pub(super) fn taken(message: u64, attempt: u64) -> Word {
    Word::Mail { message: MessageId(message), attempt, carried: Carried::Taken { at_us: 5 } }
}

fn message(world: &World, id: u64) -> Message {
    Message::clone(world.state.messages.get(&MessageId(id)).expect("it is there"))
}

/// The table in one text: what each word does in each state.
#[test]
fn every_state_with_every_word() {
    let relations = [Relation::Older, Relation::Current, Relation::Newer];
    let row = |status: Status| {
        let each =
            [true, false].into_iter().flat_map(|runs| relations.map(|of| format!("{:?}", course(status, of, runs))));
        format!("{} {}", status.word(), each.collect::<Vec<_>>().join(" "))
    };
    assert_eq!(
        Status::ALL.map(row).join("\n"),
        "starting Late Late Late Late Late Close\nstarting Late Late Late Late Late Close\nready Late Late Open Late Late Close\nrunning Late Late Open Late Close Close\n\
         stopping Late Late Late Late Late Late\nstopped Late Late Late Late Late Late\nexited Late Late Late Late Late Late\n\
         failed Late Late Late Late Late Late\ninterrupted Late Late Late Late Late Late\ndeleted Late Late Late Late Late Late"
    );
    assert_eq!(WORDS.map(|(status, _)| status), Status::ALL, "a row for each status, in their order");
}

/// Each state in a world of its own: what is late leaves no trace, of what is not the state is the one that the table names.
#[test]
fn what_is_late_changes_nothing_in_any_state() {
    for status in Status::ALL {
        for word in [over(0), over(9), runs(0), runs(9)] {
            let mut world = at(status);
            let has_turns = world.state.sessions.get(&sid(A)).unwrap().adapter.has_turns();
            let before = world.state.clone();
            let said = world.saw(A, 1, word.clone());
            match (has_turns, &word) {
                (true, Word::Turn { number: 9, runs: true }) => {
                    assert_eq!((said.as_str(), world.status(A).as_str()), ("turn 9 began", "running"))
                }
                (true, Word::Turn { runs: false, .. }) => assert_eq!(world.status(A), "ready", "{said}"),
                _ => assert_eq!((said.as_str(), &world.state), ("", &before), "{status:?} {word:?}"),
            }
        }
    }
}

#[test]
fn one_message_goes_for_each_prompt() {
    let mut world = started();
    assert_eq!(world.status(A), "running", "until its prompt is there");
    assert_eq!(world.fresh(send()), "accept op-5 message.send send, finish op-5 succeeded, => op-5");
    assert_eq!(world.fresh(send()), "accept op-7 message.send send, finish op-7 succeeded, => op-7");
    assert_eq!(world.owes(), "");
    assert_eq!(world.saw(A, 1, over(0)), "turn 0 ended, msg-5 sending");
    assert_eq!(
        world.saw(A, 1, taken(5, 10)),
        "msg-5 delivered",
        "the next waits for the end of the turn, not for acceptance"
    );
    assert_eq!((world.status(A), message(&world, 5).turn), ("running".to_owned(), Some(10)));
    assert_eq!(world.saw(A, 1, over(10)), "turn 10 ended, msg-7 sending");
    assert_eq!(world.saw(A, 1, taken(7, 13)), "msg-7 delivered");
    assert_eq!(world.saw(A, 1, over(13)), "turn 13 ended");
    assert_eq!((world.status(A), world.owes()), ("ready".to_owned(), String::new()));
}

/// A host says once that a turn is over, and may say it while nobody knows what is true of its session.
#[test]
fn the_end_of_a_turn_counts_while_the_session_is_fenced() {
    let mut world = ready();
    world.fresh(send());
    world.saw(A, 1, taken(6, 8));
    world.fresh(send());
    world.saw(A, 1, Word::Foreign { reason: "damaged".to_owned() });
    assert_eq!(world.saw(A, 1, over(8)), "turn 8 ended");
    assert_eq!(world.owes(), "", "a fenced session is handed nothing");
    assert!(world.saw(A, 1, Word::Adopted(run(1))).contains("msg-10 sending"));
    assert_eq!(world.status(A), "ready");
}

/// Late, twice, out of order, of another episode, of another session: none of them releases a message.
#[test]
fn the_end_of_an_older_turn_releases_nothing() {
    let mut world = ready();
    world.fresh(send());
    world.fresh(send());
    world.saw(A, 1, taken(6, 8));
    let before = world.state.clone();
    for late in [over(0), over(7), runs(0), runs(7), runs(8)] {
        assert_eq!(world.saw(A, 1, late), "");
    }
    assert_eq!(world.saw(A, 2, over(8)), "", "another episode's");
    assert_eq!(world.saw(B, 1, over(8)), "", "another session's");
    assert_eq!(world.state, before);
    assert_eq!(world.saw(A, 1, over(8)), "turn 8 ended, msg-9 sending");
    assert_eq!(world.saw(A, 1, over(8)), "", "twice is once");
    let token = message(&world, 9).attempt;
    world.saw(A, 1, taken(9, token));
    assert_eq!(world.saw(A, 1, over(8)), "", "the one before is over; this one runs");
    assert_eq!(world.status(A), "running");
}

/// The prompt may be back before the broker has heard that the message was taken.
#[test]
fn an_end_that_comes_before_its_beginning_is_not_lost() {
    let mut world = ready();
    world.fresh(send());
    world.fresh(send());
    assert_eq!(world.saw(A, 1, over(8)), "turn 8 ended", "the message is on its way still: nothing goes");
    assert_eq!(world.saw(A, 1, taken(6, 8)), "msg-6 delivered, msg-9 sending");
    assert_eq!(message(&world, 6).turn, Some(8));
    // And the first prompt before the word of the start.
    let mut world = World::new();
    prompted(&mut world, A);
    assert_eq!(world.saw(A, 1, over(0)), "turn 0 ended");
    world.saw(A, 1, Word::Started(run(1)));
    assert_eq!(world.status(A), "ready");
}

#[test]
fn after_a_restart_the_hosts_word_decides() {
    // The prompt came back while no broker was there.
    let mut world = ready();
    world.fresh(send());
    world.fresh(send());
    world.saw(A, 1, taken(6, 8));
    world.generation();
    assert_eq!(world.saw(A, 1, over(8)), "turn 8 ended", "until the host has answered hello nothing goes");
    assert_eq!(world.saw(A, 1, Word::Adopted(run(1))), "host/1 adopted, msg-9 sending");
    // It was taken and nobody had heard; its turn runs, and no second message goes.
    world.generation();
    let token = message(&world, 9).attempt;
    assert_eq!(world.saw(A, 1, Word::Adopted(run(1))), "host/1 adopted");
    assert_eq!(world.saw(A, 1, runs(token)), format!("turn {token} began"));
    assert_eq!(world.owes(), format!("deliver msg-9@{token} to {A}/1"), "the host answers for the same attempt");
    assert_eq!(world.saw(A, 1, taken(9, token)), "msg-9 delivered");
    assert_eq!((world.status(A), world.owes()), ("running".to_owned(), String::new()));
    assert_eq!(world.state.sessions.get(&sid(A)).unwrap().turn.unwrap().message, Some(MessageId(9)));
    // It runs as before: nothing changes.
    world.generation();
    world.saw(A, 1, Word::Adopted(run(1)));
    assert_eq!(world.saw(A, 1, runs(token)), "");
    assert_eq!(world.saw(A, 1, over(token)), format!("turn {token} ended"));
}

#[test]
fn a_turn_ends_with_its_episode() {
    for (end, status) in [(exited(0), "exited"), (Word::HostLost, "failed"), (Word::MachineLost, "interrupted")] {
        let mut world = ready();
        world.fresh(send());
        world.saw(A, 1, taken(6, 8));
        world.saw(A, 1, end);
        let session = world.state.sessions.get(&sid(A)).unwrap();
        assert_eq!((session.status.word(), session.turn), (status, None));
        assert_eq!(world.saw(A, 1, over(8)), "");
        world.fresh(resume(A, 2));
        world.saw(A, 2, Word::Started(run(2)));
        assert_eq!(world.status(A), "running", "the next episode has to show its prompt first");
        assert_eq!(world.saw(A, 1, over(8)), "", "the episode before is over");
        assert_eq!(world.saw(A, 2, over(0)), "turn 0 ended");
    }
    let mut world = started();
    world.fresh(stop(A));
    assert_eq!(world.saw(A, 1, over(0)), "", "it is being stopped");
}

/// A message of which nobody can tell began nothing, and one that was turned away did not either.
#[test]
fn what_was_not_taken_begins_no_turn() {
    for carried in [Carried::Unknown { reason: "r".to_owned() }, Carried::Refused { reason: "r".to_owned() }] {
        let mut world = ready();
        world.fresh(send());
        world.saw(A, 1, Word::Mail { message: MessageId(6), attempt: 8, carried });
        assert_eq!(world.status(A), "ready");
    }
    let mut world = ready();
    world.fresh(send());
    world.saw(
        A,
        1,
        Word::Mail { message: MessageId(6), attempt: 8, carried: Carried::Unknown { reason: "r".to_owned() } },
    );
    world.saw(A, 1, taken(6, 8));
    assert_eq!(
        (world.status(A), message(&world, 6).turn),
        ("ready".to_owned(), Some(8)),
        "late evidence says nothing of now"
    );
}

fn told(number: u64, begins: bool) -> Action {
    Action::Turn { number, episode: 1, begins }
}

/// A session tells its own turns: the same table, and what is late has a name and changes nothing.
#[test]
fn a_session_that_tells_its_turns_itself() {
    let own = || Scope::Session(sid(A));
    let mut world = World::new();
    let Action::Spawn { prepared, name, labels, .. } = spawn(A, None) else { unreachable!() };
    world.fresh(Action::Spawn { prepared, name, labels, adapter: Adapter::Lines, readiness: None, source: None });
    assert_eq!(world.ask_as(own(), "early", 1, told(1, true)), "=> refused Unproven");
    world.saw(A, 1, Word::Started(run(1)));
    let mut keys = 0;
    let mut tell = |world: &mut World, action: Action| {
        keys += 1;
        let said = world.ask_as(own(), &format!("t{keys}"), 1, action);
        let outcome = world.state.operations.values().last().unwrap().gained.turned;
        (outcome, said.split(", ").find(|part| part.starts_with("turn")).unwrap_or("").to_owned())
    };
    let nothing = || (Some(Turned::Unchanged), String::new());
    assert_eq!(tell(&mut world, told(1, true)), (Some(Turned::Began), "turn 1 began".to_owned()));
    assert_eq!(tell(&mut world, told(1, true)), nothing(), "twice is once");
    assert_eq!(world.status(A), "running");
    // What is sent meanwhile waits for the end.
    world.fresh(send());
    assert_eq!((world.owes(), world.state.waiting(&sid(A)).0), (String::new(), 1));
    assert_eq!(tell(&mut world, Action::Turn { number: 1, episode: 2, begins: false }), nothing(), "another episode");
    assert_eq!(tell(&mut world, told(0, false)), nothing(), "an older turn");
    assert!(world.owes().is_empty(), "and nothing was released by it");
    let ends = told(1, false);
    let said = world.ask_as(own(), "end", 1, ends.clone());
    assert!(said.contains("turn 1 ended") && said.ends_with("sending, => op-16"), "{said}");
    assert_eq!(world.ask_as(own(), "end", 1, ends.clone()), "=> op-16 replayed");
    assert_eq!(tell(&mut world, ends), nothing());
    assert_eq!(tell(&mut world, told(1, true)), nothing(), "its beginning comes late");
    assert_eq!(tell(&mut world, told(3, false)).0, Some(Turned::Ended), "its end comes before its beginning");
    assert_eq!(tell(&mut world, told(3, true)), nothing());
    world.generation();
    world.saw(A, 1, Word::Adopted(run(1)));
    assert_eq!(tell(&mut world, told(4, true)).0, Some(Turned::Began));
    assert_eq!(world.saw(A, 1, over(4)), "", "no host sees its turns");
    world.saw(A, 1, exited(0));
    assert_eq!(tell(&mut world, told(4, false)), nothing(), "it has ended");
}

#[test]
fn who_may_not_tell_turns_is_refused() {
    let mut world = ready();
    assert_eq!(world.fresh(told(1, true)), "=> refused SessionOnly");
    assert_eq!(world.ask_as(Scope::Session(sid(A)), "k", 1, told(1, true)), "=> refused Incapable", "its prompt tells");
    assert_eq!(world.ask_as(Scope::Session(sid(B)), "k", 1, told(1, true)), "=> refused NoSession");
}
