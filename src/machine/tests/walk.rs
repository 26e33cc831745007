//! Every state with every request and every word of the world, compared with a committed table: a change of
//! behaviour is a change of that file. `BLESS=1` writes it anew.

use super::super::observe::{Column, WORDS};
use super::*;

/// A world in which session A has this status, by the shortest way.
pub(super) fn at(status: Status) -> World {
    let mut world = World::new();
    let Action::Spawn { prepared, name, labels, .. } = spawn(A, Some("alpha")) else { unreachable!() };
    let adapter = if status == Status::Running { Adapter::PromptedLines } else { Adapter::Inbox };
    let readiness = (status == Status::Unready).then_some(Readiness { sign: Sign::Output, within_ms: 30_000 });
    world.fresh(Action::Spawn { prepared, name, labels, adapter, readiness, source: None });
    let ended = |world: &mut World, word: Word| {
        world.saw(A, 1, Word::Started(run(1)));
        world.saw(A, 1, word);
    };
    match status {
        Status::Starting => {}
        Status::Unready | Status::Ready | Status::Running => {
            world.saw(A, 1, Word::Started(run(1)));
        }
        Status::Stopping => {
            world.saw(A, 1, Word::Started(run(1)));
            world.fresh(stop(A));
        }
        Status::Stopped => {
            world.saw(A, 1, Word::Started(run(1)));
            world.fresh(stop(A));
            world.saw(A, 1, exited(0));
        }
        Status::Exited => ended(&mut world, exited(0)),
        Status::Failed => ended(&mut world, exited(3)),
        Status::Interrupted => ended(&mut world, Word::MachineLost),
        Status::Deleted => {
            ended(&mut world, exited(0));
            world.fresh(delete(A, false));
        }
    }
    assert_eq!(world.status(A), status.word());
    world
}

fn word(column: Column) -> Word {
    match column {
        Column::Started => Word::Started(run(1)),
        Column::LaunchFailed => {
            Word::LaunchFailed { phase: Phase::Exec, reason: "not found".to_owned(), obstacle: None }
        }
        Column::NeverOpened => Word::NeverOpened,
        Column::Exited => exited(3),
        Column::HostLost => Word::HostLost,
        Column::MachineLost => Word::MachineLost,
        Column::Adopted => Word::Adopted(run(1)),
        Column::Foreign => Word::Foreign { reason: "another root".to_owned() },
        Column::Removed => Word::Removed,
    }
}

fn walk() -> String {
    let mut out = String::new();
    let mut row = |from: &str, what: &str, world: &World, told: &str| {
        let owes = world.owes();
        let told = if told.is_empty() { "nothing" } else { told };
        out.push_str(&format!("{from:<22} {what:<14} {:<12} {told}; owes {owes}\n", world.status(A)));
    };
    // A stop that came while the start was under way is a state of its own: stopping without a run.
    let mut starts: Vec<(String, fn() -> World)> = Vec::new();
    starts.push(("stopping (no run)".to_owned(), || {
        let mut world = at(Status::Starting);
        world.fresh(stop(A));
        world
    }));
    starts.push(("starting (resumed)".to_owned(), || {
        let mut world = at(Status::Failed);
        world.fresh(resume(A, 2));
        world
    }));
    starts.push(("unready".to_owned(), || at(Status::Unready)));
    let plain: [(Status, fn() -> World); 9] = [
        (Status::Starting, || at(Status::Starting)),
        (Status::Ready, || at(Status::Ready)),
        (Status::Running, || at(Status::Running)),
        (Status::Stopping, || at(Status::Stopping)),
        (Status::Stopped, || at(Status::Stopped)),
        (Status::Exited, || at(Status::Exited)),
        (Status::Failed, || at(Status::Failed)),
        (Status::Interrupted, || at(Status::Interrupted)),
        (Status::Deleted, || at(Status::Deleted)),
    ];
    starts.extend(plain.map(|(status, make)| (status.word().to_owned(), make)));
    for (from, make) in &starts {
        for (what, action) in [
            ("resume", resume(A, 2)),
            ("stop", stop(A)),
            ("delete", delete(A, false)),
            ("delete --stop", delete(A, true)),
        ] {
            let mut world = make();
            let told = world.fresh(action);
            row(from, what, &world, &told);
        }
        for column in Column::ALL {
            let mut world = make();
            let episode = world.state.sessions.get(&sid(A)).map_or(1, |session| session.episode);
            let told = world.saw(A, episode, word(column));
            row(from, &format!("{column:?}"), &world, &told);
        }
        let mut world = make();
        world.generation();
        row(from, "restart", &world, "");
    }
    out
}

#[test]
#[expect(clippy::disallowed_methods, reason = "BLESS decides whether the golden file is written or compared")]
fn every_state_meets_every_request_and_every_word() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/machine/golden/walk.txt");
    let walked = walk();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &walked).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap();
    for (walked, golden) in walked.lines().zip(golden.lines()) {
        assert_eq!(walked, golden);
    }
    assert_eq!(walked.lines().count(), golden.lines().count());
}

#[test]
fn the_tables_have_each_status_once_and_in_order() {
    assert_eq!(REQUESTS.map(|(status, _)| status), Status::ALL);
    assert_eq!(WORDS.map(|(status, _)| status), Status::ALL);
}
