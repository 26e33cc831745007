//! The seeds of the gate, of the long run, and the one that somebody asks for.

use super::broker::Bugs;
use super::story::live;
use super::trace::Trace;
use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How many seeds the gate lives.
pub(super) const GATE_SEEDS: u64 = 2_000;

/// How many seeds the long run lives, unless it is told otherwise.
const LONG_SEEDS: u64 = 20_000;

/// What the seeds of one test must reach together: a simulation that does not get there proves nothing about it.
const SITUATIONS: [&str; 92] = [
    "a message acknowledged",
    "a message cancelled",
    "a message closed",
    "a message delivered",
    "a message expired",
    "a message failed",
    "a message interrupted",
    "a message pulled",
    "a message read",
    "a message read again",
    "a message sent again",
    "a message uncertain",
    "a retry went first",
    "message.cancel succeeded",
    "message.resolve succeeded",
    "message.send succeeded",
    "a snapshot",
    "a sync failed",
    "a turn of several appends",
    "a turn was not over in time",
    "answered in the last instant",
    "asked again after a lost answer",
    "asked twice at once",
    "began behind what was retired",
    "began with a snapshot",
    "forgotten",
    "inbox.ack succeeded",
    "lost its root",
    "no snapshot",
    "not retired",
    "nothing to retire",
    "operation.resolve succeeded",
    "recovered more",
    "recovered what was published",
    "refused Capacity",
    "refused Fenced",
    "refused Gone",
    "refused Incapable",
    "refused KeyConflict",
    "refused KeyExpired",
    "refused Live",
    "refused Lives",
    "refused NameTaken",
    "refused NoOperation",
    "refused NoSession",
    "refused NotUncertain",
    "refused OwnerOnly",
    "refused Stopping",
    "refused Unproven",
    "refused by the disk",
    "replayed what was let go",
    "retired",
    "session.delete failed",
    "session.delete succeeded",
    "session.delete uncertain",
    "session.interrupt succeeded",
    "session.prune succeeded",
    "session.reconcile succeeded",
    "session.resume aborted",
    "session.resume failed",
    "session.resume succeeded",
    "session.resume uncertain",
    "session.spawn aborted",
    "session.spawn failed",
    "session.spawn succeeded",
    "session.spawn uncertain",
    "session.stop failed",
    "session.stop succeeded",
    "session.stop uncertain",
    "several segments",
    "step KillBroker",
    "step KillHost",
    "step Leap",
    "step Reboot",
    "step SetClock",
    "tail TornTail",
    "word adopted",
    "word exited",
    "word foreign",
    "word host lost",
    "word launch failed",
    "word machine lost",
    "word mail not taken by a journal",
    "word mail refused",
    "word mail taken",
    "word mail taken by a journal",
    "word mail unknown by a journal",
    "word never opened",
    "word ready",
    "word removed",
    "word session turn",
    "word started",
];

/// What is wrong in a seed, and the end of its trace.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) what: String,
    pub(super) trace: String,
}

/// Lives one seed; a panic in the product is a failure like any other.
pub(super) fn try_seed(seed: u64, bugs: Bugs) -> Result<Trace, Failure> {
    let trace = Trace::default();
    let lived = catch_unwind(AssertUnwindSafe(|| live(seed, bugs, &trace)));
    let what = match lived {
        Ok(Ok(())) => return Ok(trace),
        Ok(Err(broken)) => broken.0,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            format!("it panics: {}", text.unwrap_or_default())
        }
    };
    Err(Failure { what, trace: trace.end() })
}

fn run(seeds: Range<u64>) {
    if let Some(seed) = asked_for("OSTLER_SIM_SEED") {
        if seeds.contains(&seed) || seeds.start == 0 {
            alone(seed);
        }
        return;
    }
    let mut reached = BTreeSet::new();
    for seed in seeds {
        match try_seed(seed, Bugs::default()) {
            Ok(trace) => reached.append(&mut trace.marks()),
            Err(failure) => panic!(
                "seed {seed}: {}\n{}\nseed {seed}: {}\n\
                 this seed alone: OSTLER_SIM_SEED={seed} cargo test --features testing --test tests sim::seeds::seeds_1",
                failure.what, failure.trace, failure.what
            ),
        }
    }
    let missed: Vec<&str> = SITUATIONS.into_iter().filter(|situation| !reached.contains(*situation)).collect();
    assert!(missed.is_empty(), "no seed reaches {missed:?}");
}

/// One seed with its whole trace.
fn alone(seed: u64) {
    let trace = Trace::default();
    let lived = catch_unwind(AssertUnwindSafe(|| live(seed, Bugs::default(), &trace)));
    eprintln!("{}", trace.text());
    match lived {
        Ok(Ok(())) => {}
        Ok(Err(broken)) => panic!("seed {seed}: {broken}"),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

#[expect(clippy::disallowed_methods, reason = "which seeds to live is the caller's choice")]
fn asked_for(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

// Two tests, so that they share two cores.
#[test]
fn seeds_1() {
    run(0..1_000);
}

#[test]
fn seeds_2() {
    run(1_000..GATE_SEEDS);
}

#[test]
#[ignore = "many seeds"]
fn long_simulation() {
    let count = asked_for("OSTLER_TEST_SEEDS").unwrap_or(LONG_SEEDS);
    run(GATE_SEEDS..GATE_SEEDS + count);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..20 {
        let once = |seed| try_seed(seed, Bugs::default()).map(|trace| trace.text()).map_err(|failure| failure.what);
        assert_eq!(once(seed), once(seed), "seed {seed}");
    }
}
