//! `cargo xtask long`: what takes longer than the gate allows, as named jobs over tests named `long_...`.
//!
//! A long test is an ordinary test with `#[ignore = "why"]`; its name says which job runs it, and tidy refuses one that
//! no job would run. A job that finds no test fails, so that none goes quiet.

use crate::stage::{self, Verdict, cargo};
use std::path::Path;
use std::time::Duration;

/// One job: the tests whose name holds `prefix`.
struct Job {
    name: &'static str,
    prefix: &'static str,
    what: &'static str,
    budget_seconds: u64,
}

const JOBS: &[Job] = &[
    Job {
        name: "damages",
        prefix: "long_damages",
        what: "a ledger damaged ten thousand times at random: two judges must say the same, and nothing acknowledged goes",
        budget_seconds: 3600,
    },
    Job {
        name: "large",
        prefix: "long_large",
        what: "a ledger of a gigabyte, verified in 256 MiB of memory",
        budget_seconds: 600,
    },
    Job {
        name: "kills",
        prefix: "long_kills",
        what: "a thousand real kills of a ledger's writer: what it acknowledged to another process is there",
        budget_seconds: 1800,
    },
    Job {
        name: "mutations",
        prefix: "long_mutations",
        what: "hostile input: a million mutations of the committed seeds for each fuzz target",
        budget_seconds: 1800,
    },
    Job {
        name: "fuzz",
        prefix: "long_fuzz",
        what: "hostile input: mutations for each fuzz target, ten minutes each (--seconds N, --target NAME)",
        budget_seconds: 6000,
    },
    Job {
        name: "simulation",
        prefix: "long_simulation",
        what: "whole lives of a broker: twenty thousand seeds, each with an oracle after every recovery",
        budget_seconds: 3600,
    },
    Job {
        name: "operations",
        prefix: "long_operations",
        what: "two million operations without effects through one root in virtual time: memory, start-up, keys old and new",
        budget_seconds: 3600,
    },
    Job {
        name: "cycles",
        prefix: "long_cycles",
        what: "ten thousand sessions spawned, stopped and deleted, and as many pairs of them with messages: descriptors, threads, memory and files as before (--rounds N)",
        budget_seconds: 1800,
    },
    Job {
        name: "soak",
        prefix: "long_soak",
        what: "everyday work on one root for an hour, while brokers and hosts are killed: nothing lost, doubled or left (--seconds N, --seed N)",
        budget_seconds: 7200,
    },
    Job {
        name: "storms",
        prefix: "long_storm",
        what: "many sessions live whole lives while their brokers are killed, leave, and lose lock or record",
        budget_seconds: 900,
    },
    Job {
        name: "messages",
        prefix: "long_messages",
        what: "a hundred thousand messages to fifty sessions while brokers and hosts are killed: once and in order, or with a reason (--rounds N of 5,000, --seed N)",
        budget_seconds: 3600,
    },
    Job {
        name: "matrix",
        prefix: "long_matrix",
        what: "kills at every named point of broker, host and client, five drawn passes each (--seeds N)",
        budget_seconds: 1800,
    },
    Job {
        name: "upgrades",
        prefix: "long_upgrades",
        what: "fifty upgrades and fifty downgrades between two builds, with twenty sessions that write and ten clients that call (--rounds N)",
        budget_seconds: 1800,
    },
    Job {
        name: "stampedes",
        prefix: "long_stampede",
        what: "find-or-start: twenty rounds of fifty clients at once, on new roots and after kills, with and without probers",
        budget_seconds: 900,
    },
];

/// How many of a thing the long tests do, handed down in the environment.
const KNOBS: &[(&str, &str)] = &[
    ("--seeds", "OSTLER_TEST_SEEDS"),
    ("--seed", "OSTLER_TEST_SEED"),
    ("--rounds", "OSTLER_TEST_ROUNDS"),
    ("--seconds", SECONDS),
];

/// How long each target of the job `fuzz` runs, and the job `soak`.
const SECONDS: &str = "OSTLER_TEST_SECONDS";
/// What it is without that option: these jobs' budgets are made for it.
const USUAL_SECONDS: &[(&str, u64)] = &[("fuzz", 600), ("soak", 3600)];

/// Which target of the job `fuzz` runs, if not all.
const TARGET: (&str, &str) = ("--target", "OSTLER_TEST_TARGET");

/// True if some job runs the test `name`.
pub(crate) fn covers(name: &str) -> bool {
    JOBS.iter().any(|job| name.starts_with(job.prefix))
}

/// What was asked for on the command line.
#[derive(Debug, Default, Eq, PartialEq)]
struct Request {
    jobs: Vec<String>,
    variables: Vec<(&'static str, String)>,
    list: bool,
}

/// Runs the jobs that `arguments` name, or all; every job runs even if one before it failed.
pub(crate) fn run(top: &Path, arguments: &[&str]) -> Result<(), String> {
    let request = parse(arguments)?;
    if request.list {
        for job in JOBS {
            println!("{:12} {} (budget {} s)", job.name, job.what, job.budget_seconds);
        }
        return Ok(());
    }
    let chosen = JOBS.iter().filter(|job| request.jobs.is_empty() || request.jobs.iter().any(|name| name == job.name));
    let failed: Vec<&str> = chosen.filter(|job| !perform(top, job, &request)).map(|job| job.name).collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

fn parse(arguments: &[&str]) -> Result<Request, String> {
    let mut request = Request::default();
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        if *word == "--list" {
            request.list = true;
        } else if let Some((_, variable)) = KNOBS.iter().find(|(flag, _)| flag == word) {
            let number = rest.next().filter(|value| value.parse::<u64>().is_ok_and(|number| number > 0));
            let number = number.ok_or_else(|| format!("{word} needs a number above zero"))?;
            request.variables.push((variable, (*number).to_owned()));
        } else if *word == TARGET.0 {
            let name = rest.next().ok_or_else(|| format!("{word} needs a name"))?;
            request.variables.push((TARGET.1, (*name).to_owned()));
        } else if JOBS.iter().any(|job| job.name == *word) {
            request.jobs.push((*word).to_owned());
        } else {
            return Err(format!("no job or option `{word}`; `cargo xtask long --list` names the jobs"));
        }
    }
    Ok(request)
}

impl Request {
    /// A job's budget; longer where it is told to run longer than it usually does.
    fn budget(&self, job: &Job) -> u64 {
        let asked = self.variables.iter().find(|(name, _)| *name == SECONDS);
        let asked = asked.and_then(|(_, seconds)| seconds.parse::<u64>().ok()).unwrap_or(0);
        let usual = USUAL_SECONDS.iter().find(|(name, _)| *name == job.name);
        usual.map_or(job.budget_seconds, |(_, usual)| job.budget_seconds * asked.max(*usual) / usual)
    }
}

/// Runs one job and prints what came of it; false if it failed.
fn perform(top: &Path, job: &Job, request: &Request) -> bool {
    let budget = request.budget(job);
    println!("== {}: {} (budget {budget} s)", job.name, job.what);
    let test = ["test", "--locked", "--workspace", "--features", "testing", "--", job.prefix, "--ignored"];
    match cargo(top, &test).arg("--list").output() {
        Ok(output) if lists_a_test(&String::from_utf8_lossy(&output.stdout)) => {}
        Ok(output) => {
            eprintln!(
                "{}failed: {}: no test is named `{}...`",
                String::from_utf8_lossy(&output.stderr),
                job.name,
                job.prefix
            );
            return false;
        }
        Err(error) => {
            eprintln!("failed: {}: cannot run cargo: {error}", job.name);
            return false;
        }
    }
    let mut command = cargo(top, &test);
    command.arg("--nocapture").envs(request.variables.iter().map(|(name, value)| (name, value)));
    match stage::run(&mut command, Duration::from_secs(budget)) {
        Ok((verdict, elapsed)) => {
            println!("{verdict:?} {}: {:.1} s of {budget} s", job.name, elapsed.as_secs_f64());
            matches!(verdict, Verdict::Passed | Verdict::Slow)
        }
        Err(error) => {
            eprintln!("failed: {}: {error}", job.name);
            false
        }
    }
}

fn lists_a_test(listing: &str) -> bool {
    listing.lines().any(|line| line.ends_with(": test"))
}

#[cfg(test)]
mod tests {
    use super::{JOBS, Request, covers, lists_a_test, parse};

    #[test]
    fn arguments_name_jobs_and_turn_knobs() {
        let expected = Request {
            jobs: vec!["mutations".to_owned()],
            variables: vec![("OSTLER_TEST_SEEDS", "9".to_owned())],
            list: false,
        };
        assert_eq!(parse(&["mutations", "--seeds", "9"]), Ok(expected));
        assert!(parse(&["--seeds", "0"]).unwrap_err().contains("above zero"));
        assert!(parse(&["--rounds"]).unwrap_err().contains("above zero"));
        assert!(parse(&["nothing"]).unwrap_err().contains("--list"));
        let fuzz = parse(&["fuzz", "--target", "spec", "--seconds", "1200"]).unwrap();
        let expected = vec![("OSTLER_TEST_TARGET", "spec".to_owned()), ("OSTLER_TEST_SECONDS", "1200".to_owned())];
        assert_eq!(fuzz.variables, expected);
        let job = JOBS.iter().find(|job| job.name == "fuzz").unwrap();
        assert_eq!((fuzz.budget(job), Request::default().budget(job)), (2 * job.budget_seconds, job.budget_seconds));
        let job = JOBS.iter().find(|job| job.name == "storms").unwrap();
        assert_eq!(fuzz.budget(job), job.budget_seconds, "it does not go by time");
        assert!(parse(&["--target"]).unwrap_err().contains("a name"));
    }

    #[test]
    fn every_job_has_a_prefix_of_its_own_that_marks_a_long_test() {
        for job in JOBS {
            assert!(job.prefix.starts_with("long_"), "{}", job.name);
            let covering = JOBS.iter().filter(|other| job.prefix.starts_with(other.prefix)).count();
            assert_eq!(covering, 1, "{}", job.name);
        }
        assert!(covers("long_mutations_of_frames") && !covers("mutations"));
    }

    #[test]
    fn a_listing_without_tests_is_seen() {
        assert!(lists_a_test("a::long_x: test\n\n1 test, 0 benchmarks\n"));
        assert!(!lists_a_test("0 tests, 0 benchmarks\n"));
    }
}
