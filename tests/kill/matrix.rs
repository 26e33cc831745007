//! The kill matrix: for every point of the table the processes of a root die there, at its first pass and at a drawn one.
//!
//! Each script is first played without a kill, which tells the points that it passes and how often. A point is killed at in the cheapest script
//! that passes it: at its first pass, which must come, and at a later one that is drawn. A point that no script passes fails. `cargo xtask long matrix`
//! draws from all passes of all scripts.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use ostler::os::environment::Environment;
use ostler::os::points::Point;

use super::laws;
use super::run::{Plan, Run};
use super::script::{Script, kill_broker};

/// Kills under way at one time.
const LANES: usize = 3;

/// How often each point is passed, by script.
type Survey = BTreeMap<&'static str, Vec<(Script, u64)>>;

/// One kill.
#[derive(Clone, Debug)]
struct Kill {
    /// Where it is tried, one after the other until the pass is reached.
    scripts: Vec<Script>,
    plan: Plan,
    /// It is the first pass, which must be reached.
    certain: bool,
}

/// Each script, played without a kill.
fn survey() -> &'static Survey {
    static SURVEY: OnceLock<Survey> = OnceLock::new();
    SURVEY.get_or_init(|| {
        let mut survey = Survey::new();
        for script in Script::ALL {
            let mut run = Run::new(script.limits(), None);
            script.play(&mut run);
            let passes = run.passes();
            laws::hold(&run);
            for point in Point::ALL {
                if let Some(times) = passes.get(point.name()) {
                    survey.entry(point.name()).or_default().push((script, *times));
                }
            }
        }
        survey
    })
}

/// The first pass of each point, in the cheapest script that gets there. Not every script gets everywhere each time: whether an end is told or
/// found, for one, is a matter of who is faster.
fn first_passes() -> Vec<Kill> {
    let first = |point: &Point| {
        let scripts = survey().get(point.name())?.iter().map(|(script, _)| *script).collect();
        Some(Kill { scripts, plan: kill(*point, 1), certain: true })
    };
    chosen().filter_map(first).collect()
}

/// A later pass of each point, drawn; in the cheapest script that has one. Of a point that is passed once in all there is none.
fn later_passes(seed: u64) -> Vec<Kill> {
    let mut chance = Chance(seed);
    let mut drawn = |point: &Point| {
        let scripts = survey().get(point.name())?;
        let is_first = |place: usize| place == 0;
        let (place, (script, times)) =
            scripts.iter().enumerate().find(|(place, (_, times))| !is_first(*place) || *times > 1)?;
        let skipped = u64::from(is_first(place));
        let number = 1 + skipped + chance.below(times - skipped);
        Some(Kill { scripts: vec![*script], plan: kill(*point, number), certain: false })
    };
    chosen().filter_map(&mut drawn).collect()
}

/// A pass of each point, drawn from all that were seen.
fn drawn_passes(seed: u64) -> Vec<Kill> {
    let mut chance = Chance(seed);
    let mut drawn = |point: &Point| {
        let scripts = survey().get(point.name())?;
        let mut number = 1 + chance.below(scripts.iter().map(|(_, times)| times).sum());
        for (script, times) in scripts {
            if number <= *times {
                return Some(Kill { scripts: vec![*script], plan: kill(*point, number), certain: false });
            }
            number -= times;
        }
        None
    };
    chosen().filter_map(&mut drawn).collect()
}

/// All points, or those whose name begins with what `OSTLER_TEST_POINT` says.
fn chosen() -> impl Iterator<Item = &'static Point> {
    let told = Environment::process().get("OSTLER_TEST_POINT").and_then(|told| told.to_str()).unwrap_or_default();
    Point::ALL.iter().filter(move |point| point.name().starts_with(told))
}

fn kill(point: Point, number: u64) -> Plan {
    Plan { point, number, act: "kill" }
}

/// Plays it. False: the pass was not reached, which a drawn one may not be.
fn perform(Kill { scripts, plan, certain }: &Kill) -> bool {
    let reached = scripts.iter().any(|script| {
        let mut run = Run::new(script.limits(), Some(*plan));
        script.play(&mut run);
        if !run.reached(*plan) {
            // Nor is it to be reached while the root is cleared away.
            run.root.tell("OSTLER_TEST_FAIL", "");
            return false;
        }
        laws::hold(&run);
        // Nothing is left that an orderly end would have to see to, and that takes longer.
        kill_broker(&run.root);
        true
    });
    assert!(reached || !certain, "nobody came there");
    reached
}

/// Performs all of them, some at a time, and tells what came of it.
fn perform_all(kills: &[Kill]) {
    let (next, reached, broken) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while let Some(kill) = kills.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match catch_unwind(AssertUnwindSafe(|| perform(kill))) {
                        Ok(done) => drop(reached.fetch_add(usize::from(done), Ordering::Relaxed)),
                        Err(_) => {
                            let Kill { scripts, plan, .. } = kill;
                            let told = format!("{}@{} in {scripts:?}", plan.point.name(), plan.number);
                            eprintln!("--- a law is broken after a kill at {told}");
                            broken.lock().unwrap_or_else(PoisonError::into_inner).push(told);
                        }
                    }
                }
            });
        }
    });
    let broken = broken.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Past the capture of tests that pass: how much was tried is worth a line.
    drop(writeln!(io::stderr(), "kill matrix: {} points, {} kills", Point::ALL.len(), reached.into_inner()));
    assert!(broken.is_empty(), "{} of {} kills broke a law: {broken:#?}", broken.len(), kills.len());
}

/// Draws; a seed is the whole sequence.
struct Chance(u64);

impl Chance {
    /// A number below `bound`, which is above 0 (`SplitMix64`).
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[test]
fn every_point_of_the_table_is_passed_by_a_script() {
    let passed: Vec<&str> = survey().keys().copied().collect();
    let never: Vec<&str> = Point::ALL.iter().map(|point| point.name()).filter(|name| !passed.contains(name)).collect();
    assert!(never.is_empty(), "no script passes {never:?}");
}

#[test]
fn law_05_a_kill_at_the_first_pass_of_any_point_breaks_no_law() {
    perform_all(&first_passes());
}

#[test]
fn law_05_a_kill_at_a_later_pass_of_any_point_breaks_no_law() {
    perform_all(&later_passes(1));
}

#[test]
#[ignore = "takes ten minutes: every point at five drawn passes"]
fn long_matrix_of_kills() {
    let told = Environment::process().get("OSTLER_TEST_SEEDS");
    let seeds = told.and_then(|told| told.to_str()?.parse().ok()).unwrap_or(5);
    let kills: Vec<Kill> = (1..=seeds).flat_map(drawn_passes).collect();
    perform_all(&kills);
}
