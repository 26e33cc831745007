//! `cargo xtask ci`: the stages of the gate, in order, cheap ones first and the tests last.
//!
//! The tests come last so that a run ends with the test runner's own summary; their time stands in it.

use crate::readme;
use crate::stage::{self, Verdict, cargo};
use crate::tidy;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// All budgets together: what the gate may take on two cores with nothing built yet.
const TOTAL_SECONDS: u64 = 30 * 60;

/// The table of points, none of which stands in a release.
const POINTS: &str = "src/os/points.rs";

/// What a stage does.
enum Work {
    Cargo { arguments: &'static [&'static str], variables: &'static [(&'static str, &'static str)] },
    Tidy,
    Release,
}

struct Stage {
    name: &'static str,
    budget_seconds: u64,
    work: Work,
}

const fn cargo_stage(name: &'static str, budget_seconds: u64, arguments: &'static [&'static str]) -> Stage {
    Stage { name, budget_seconds, work: Work::Cargo { arguments, variables: &[] } }
}

/// The gate.
const STAGES: &[Stage] = &[
    cargo_stage("format", 15, &["fmt", "--all", "--check"]),
    Stage { name: "tidy", budget_seconds: 15, work: Work::Tidy },
    cargo_stage("clippy", 210, &["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    cargo_stage(
        "clippy, testing",
        90,
        &["clippy", "--locked", "--workspace", "--all-targets", "--features", "testing", "--", "-D", "warnings"],
    ),
    Stage {
        name: "documentation",
        budget_seconds: 90,
        work: Work::Cargo {
            arguments: &["doc", "--locked", "--workspace", "--no-deps", "--document-private-items"],
            variables: &[("RUSTDOCFLAGS", "-D warnings")],
        },
    },
    Stage { name: "release", budget_seconds: 360, work: Work::Release },
    // Documentation tests would otherwise have the last word. They come with the first build for tests.
    cargo_stage("documentation tests", 240, &["test", "--locked", "--workspace", "--features", "testing", "--doc"]),
    Stage {
        name: "tests",
        budget_seconds: 750,
        work: Work::Cargo {
            arguments: &[
                "test",
                "--locked",
                "--workspace",
                "--features",
                "testing",
                "--lib",
                "--bins",
                "--tests",
                "--examples",
            ],
            // What a failed test says stands near the end of the log, which may be all that is kept; a trace would push it out.
            variables: &[("RUST_BACKTRACE", "0")],
        },
    },
];

/// Runs every stage; stops at the first that fails.
pub(crate) fn run(top: &Path) -> Result<(), String> {
    let mut total = Duration::ZERO;
    for (index, stage) in STAGES.iter().enumerate() {
        let budget = Duration::from_secs(stage.budget_seconds);
        println!("== {} (budget {} s)", stage.name, stage.budget_seconds);
        let (verdict, elapsed) = perform(top, &stage.work, budget)?;
        total += elapsed;
        let time = format!("{}: {:.1} s of {} s", stage.name, elapsed.as_secs_f64(), stage.budget_seconds);
        let last = index + 1 == STAGES.len();
        match verdict {
            // The summary of the tests stays the last word.
            Verdict::Passed if last => {}
            Verdict::Passed => println!("ok {time}; {:.1} s so far", total.as_secs_f64()),
            Verdict::Slow => eprintln!("warning: {time}: over its budget"),
            Verdict::Failed => return Err(format!("failed: {time}")),
            Verdict::Hung => return Err(format!("failed: {time}: ended at three times its budget")),
        }
    }
    if total > Duration::from_secs(TOTAL_SECONDS) {
        eprintln!("warning: all stages took {:.1} s, more than {TOTAL_SECONDS} s", total.as_secs_f64());
    }
    Ok(())
}

fn perform(top: &Path, work: &Work, budget: Duration) -> Result<(Verdict, Duration), String> {
    match work {
        Work::Cargo { arguments, variables } => {
            let mut command = cargo(top, arguments);
            command.envs(variables.iter().copied());
            stage::run(&mut command, budget)
        }
        Work::Tidy => tidy::run(top).map(|()| (Verdict::Passed, Duration::ZERO)),
        Work::Release => release(top, budget),
    }
}

/// Builds the product as users get it and asks cargo which features went into it.
fn release(top: &Path, budget: Duration) -> Result<(Verdict, Duration), String> {
    let arguments = ["build", "--locked", "--release", "--package", "ostler"];
    let (verdict, elapsed) = stage::run(&mut cargo(top, &arguments), budget)?;
    if matches!(verdict, Verdict::Passed | Verdict::Slow) {
        // Again, now in cargo's own words; everything is built, so this takes no time.
        let mut command: Command = cargo(top, &arguments);
        let output = command.arg("--message-format=json").stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("cannot run cargo: {error}"))?;
        let program = release_is_clean(&String::from_utf8_lossy(&output.stdout))?;
        let bytes = std::fs::read(&program).map_err(|error| format!("cannot read {program}: {error}"))?;
        if holds_test_words(&bytes) {
            return Err(format!("failed: {program} answers to the variables of tests (OSTLER_TEST_...)"));
        }
        let table =
            std::fs::read_to_string(top.join(POINTS)).map_err(|error| format!("cannot read {POINTS}: {error}"))?;
        let points = points_of(&table);
        if points.is_empty() {
            return Err(format!("failed: no point is found in {POINTS}"));
        }
        if let Some(point) = points.iter().find(|point| holds(&bytes, point.as_bytes())) {
            return Err(format!("failed: {program} holds the point `{point}`: points must never ship"));
        }
        readme::run(top, &program)?;
    }
    Ok((verdict, elapsed))
}

/// Judges cargo's messages on the release build: one program, `ostler`, and the `testing` feature in nothing of ours. Gives
/// back where the program is.
fn release_is_clean(messages: &str) -> Result<String, String> {
    let built: Vec<&str> = messages.lines().filter(|line| line.contains(r#""reason":"compiler-artifact""#)).collect();
    if built.iter().any(|line| line.contains(r#""name":"ostler"#) && member(line, "features").contains("testing")) {
        return Err("failed: the release build holds the `testing` feature: fail points must never ship".to_owned());
    }
    let programs: Vec<&&str> = built.iter().filter(|line| member(line, "kind").contains("bin")).collect();
    let [program] = programs.as_slice() else {
        return Err(format!("failed: the release build made {} programs, not `ostler` alone", programs.len()));
    };
    Ok(member(program, "executable").trim_matches('"').to_owned())
}

/// The text of a member of one message: a list of words or a text.
fn member<'a>(message: &'a str, name: &str) -> &'a str {
    let from = message.split_once(&format!("\"{name}\":")).map_or("", |(_, rest)| rest);
    let end = if from.starts_with('[') { ']' } else { ',' };
    from.split([end, '}']).next().unwrap_or("")
}

/// The names under which tests reach into a test build. None of them stands in a release.
fn holds_test_words(program: &[u8]) -> bool {
    holds(program, b"OSTLER_TEST_")
}

fn holds(program: &[u8], word: &[u8]) -> bool {
    program.windows(word.len()).any(|window| window == word)
}

/// The names in the table of points: what stands between quotes behind ` = `.
fn points_of(table: &str) -> Vec<&str> {
    let names = table.lines().filter_map(|line| line.trim().split_once(" = \"")?.1.strip_suffix("\","));
    names.filter(|name| name.contains('.')).collect()
}

#[cfg(test)]
mod tests {
    use super::{POINTS, STAGES, TOTAL_SECONDS, holds_test_words, points_of, release_is_clean};

    #[test]
    fn the_budgets_fit_into_the_total_and_the_tests_come_last() {
        let sum: u64 = STAGES.iter().map(|stage| stage.budget_seconds).sum();
        assert!(sum <= TOTAL_SECONDS, "{sum} s");
        assert_eq!(STAGES.last().map(|stage| stage.name), Some("tests"));
    }

    #[test]
    fn a_release_with_fail_points_is_refused() {
        let artifact = |name: &str, kind: &str, features: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","target":{{"kind":["{kind}"],"name":"{name}"}},"features":[{features}],"executable":"/x/{name}"}}"#
            )
        };
        let library = |features| artifact("ostler_ledger", "lib", features);
        let check = |lines: &[String]| release_is_clean(&lines.join("\n"));
        let program = artifact("ostler", "bin", r#""default""#);
        assert_eq!(check(&[library(""), program.clone()]), Ok("/x/ostler".to_owned()));
        assert!(check(&[library(r#""testing""#), program.clone()]).unwrap_err().contains("never ship"));
        assert!(check(&[artifact("ostler", "bin", r#""default","testing""#)]).unwrap_err().contains("never ship"));
        assert!(check(&[library("")]).unwrap_err().contains("0 programs"));
        assert!(check(&[program, artifact("ostler-fixture", "bin", "")]).unwrap_err().contains("2 programs"));
    }

    #[test]
    fn points_are_read_from_the_table() {
        let table = std::fs::read_to_string(crate::top().join(POINTS)).unwrap();
        let points = points_of(&table);
        assert!(points.len() > 100 && points.contains(&"start.beat"), "{points:?}");
    }

    #[test]
    fn words_of_tests_are_found_in_a_program() {
        assert!(holds_test_words(b"\x7fELF...OSTLER_TEST_FAIL...") && !holds_test_words(b"OSTLER_ROOT OSTLER_TEST"));
    }
}
