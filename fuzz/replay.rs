//! Replays the committed seeds, and fixed-seed mutations of them, on every run of the tests.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "the length of the long run comes from the environment, and a finding is printed"
)]

use crate::mutate::{Numbers, mutation};
use crate::{TARGETS, Target};
use std::collections::BTreeSet;
use std::panic;
use std::path::PathBuf;
use std::{env, fs};

/// Mutations of each target in every run.
const MUTATIONS: u64 = 2_000;

/// Mutations of each target in the long run, unless `--rounds` says otherwise.
const LONG_MUTATIONS: u64 = 1_000_000;

/// Where the mutations start. A finding of another seed becomes a file in the corpus, not a new seed here.
const SEED: u64 = 0x05_71e6;

fn corpora() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/corpora"))
}

/// The committed seeds of a target, by name.
pub(crate) fn seeds(target: &Target) -> Vec<(String, Vec<u8>)> {
    let folder = corpora().join(target.name);
    let mut found: Vec<(String, Vec<u8>)> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    found.sort();
    found
}

/// Runs a target on bytes; a panic is told with the bytes that caused it.
fn run(target: &Target, from: &str, bytes: &[u8]) -> bool {
    match panic::catch_unwind(|| (target.run)(bytes)) {
        Ok(understood) => understood,
        Err(cause) => {
            eprintln!("{} fails on {from}, {} bytes: {}", target.name, bytes.len(), bytes.escape_ascii());
            panic::resume_unwind(cause);
        }
    }
}

/// `OSTLER_TEST_TARGET` names the only one.
fn run_mutations(count: u64) {
    let only = env::var("OSTLER_TEST_TARGET").ok();
    for target in TARGETS.iter().filter(|target| only.as_deref().is_none_or(|only| only == target.name)) {
        let seeds: Vec<Vec<u8>> = seeds(target).into_iter().map(|(_, bytes)| bytes).collect();
        let mut numbers = Numbers::from_seed(SEED);
        for index in 0..count {
            run(target, &format!("mutation {index}"), &mutation(&seeds, &mut numbers));
        }
        eprintln!("{}: {count} mutations", target.name);
    }
}

#[test]
fn every_target_has_seeds_and_every_corpus_a_target() {
    let folders = fs::read_dir(corpora()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let folders: BTreeSet<String> = folders.collect();
    let targets: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(folders, targets);
    for target in TARGETS {
        let seeds = seeds(target);
        for kind in ["good", "bad"] {
            assert!(seeds.iter().any(|(name, _)| name.starts_with(kind)), "{} has no {kind} seed", target.name);
        }
        assert!(seeds.iter().all(|(_, bytes)| bytes.len() <= 64 * 1024), "{}: seeds are small", target.name);
    }
}

#[test]
fn the_wrappers_for_libfuzzer_name_every_target() {
    let manifest = include_str!("fuzz_targets/Cargo.toml");
    for target in TARGETS {
        assert!(manifest.contains(&format!("path = \"{}.rs\"", target.name)), "{}", target.name);
    }
}

/// A seed named `good...` is understood and one named `bad...` is refused; so seeds follow the formats and do not rot.
#[test]
fn the_committed_seeds_do_no_harm_and_mean_what_they_are_called() {
    for target in TARGETS {
        for (name, bytes) in seeds(target) {
            let understood = run(target, &name, &bytes);
            assert!(name.starts_with(if understood { "good" } else { "bad" }), "{}/{name}", target.name);
        }
    }
}

#[test]
fn mutations_of_the_seeds_do_no_harm() {
    run_mutations(MUTATIONS);
}

#[test]
#[ignore = "minutes: a million mutations of each target"]
fn long_mutations_of_the_seeds_do_no_harm() {
    let rounds = env::var("OSTLER_TEST_ROUNDS").ok().map(|text| text.parse().expect("a number of rounds"));
    run_mutations(rounds.unwrap_or(LONG_MUTATIONS));
}

#[test]
fn a_target_that_panics_is_caught_with_its_bytes() {
    let fragile = Target {
        name: "fragile",
        run: |bytes| {
            assert!(!bytes.contains(&b'['));
            true
        },
        mend: None,
    };
    let seeds = [b"{}".to_vec()];
    let found = panic::catch_unwind(|| {
        let mut numbers = Numbers::from_seed(SEED);
        (0..MUTATIONS).all(|index| run(&fragile, &format!("mutation {index}"), &mutation(&seeds, &mut numbers)))
    });
    assert!(found.is_err(), "the mutations are too tame to find an open bracket");
}
