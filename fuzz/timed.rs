//! Each target for its time: mutations without end, from seeds that grow by what was understood. There is no coverage to
//! steer by on the stable compiler, so the shape of the formats and the targets' own judgement do.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "how long it runs comes from the environment and the clock, and what it finds is printed"
)]

use crate::mutate::{Numbers, mutation};
use crate::replay::seeds;
use crate::{TARGETS, Target};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs, panic, thread};

/// How long each target runs, unless `--seconds` says otherwise.
const SECONDS: u64 = 600;

/// Understood mutations that are kept as further seeds, and how long one may be.
const KEPT: usize = 512;
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// After so many findings a target is left alone.
const FINDINGS_MAX: usize = 5;

/// What came of one target.
#[derive(Debug, Default)]
struct Ran {
    inputs: u64,
    understood: u64,
    findings: Vec<PathBuf>,
}

/// Where findings go: each is to become a seed, named after what is wrong with it.
fn findings() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/fuzz-findings"))
}

fn run_for(target: &Target, time: Duration, seed: u64) -> Ran {
    let mut pool: Vec<Vec<u8>> = seeds(target).into_iter().map(|(_, bytes)| bytes).collect();
    let committed = pool.len();
    let mut numbers = Numbers::from_seed(seed);
    let (began, mut ran) = (Instant::now(), Ran::default());
    while began.elapsed() < time && ran.findings.len() < FINDINGS_MAX {
        let mut bytes = mutation(&pool, &mut numbers);
        if let Some(mend) = target.mend.filter(|_| numbers.below(2) == 0) {
            bytes = mend(&bytes);
        }
        ran.inputs += 1;
        match panic::catch_unwind(|| (target.run)(&bytes)) {
            Ok(false) => {}
            Ok(true) => {
                ran.understood += 1;
                if bytes.len() > KEPT_BYTES_MAX {
                    continue;
                }
                if pool.len() < committed + KEPT {
                    pool.push(bytes);
                } else {
                    let replaced = committed + numbers.below(KEPT);
                    pool[replaced] = bytes;
                }
            }
            Err(_cause) => ran.findings.push(keep(target, &bytes, ran.inputs)),
        }
    }
    ran
}

fn keep(target: &Target, bytes: &[u8], number: u64) -> PathBuf {
    let path = findings().join(format!("{}-{}-{number}", target.name, std::process::id()));
    let kept = fs::create_dir_all(findings()).and_then(|()| fs::write(&path, bytes));
    kept.unwrap_or_else(|error| eprintln!("{} cannot be kept: {error}: {}", path.display(), bytes.escape_ascii()));
    path
}

#[test]
#[ignore = "ten minutes for each target"]
fn long_fuzz_each_target_for_its_time() {
    let seconds = env::var("OSTLER_TEST_SECONDS").map_or(SECONDS, |text| text.parse().expect("a number of seconds"));
    let only = env::var("OSTLER_TEST_TARGET").ok();
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let chosen: Vec<Target> =
        TARGETS.iter().copied().filter(|target| only.as_ref().is_none_or(|only| only == target.name)).collect();
    assert!(!chosen.is_empty(), "no target is named {only:?}");
    eprintln!("{} targets, {seconds} s each, seed {seed}", chosen.len());
    let (waiting, found) = (Mutex::new(chosen), Mutex::new(Vec::new()));
    let worker = || {
        while let Some(target) = waiting.lock().unwrap().pop() {
            let ran = run_for(&target, Duration::from_secs(seconds), seed);
            eprintln!(
                "{}: {} inputs, {} understood, {} findings",
                target.name,
                ran.inputs,
                ran.understood,
                ran.findings.len()
            );
            assert!(ran.inputs > 0);
            found.lock().unwrap().extend(ran.findings);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(worker);
        }
    });
    let found = found.into_inner().unwrap();
    assert!(found.is_empty(), "{} findings: {found:?}", found.len());
}

#[test]
fn a_finding_is_kept_with_its_bytes_and_the_run_goes_on() {
    let fragile = Target {
        name: "argument",
        run: |bytes| {
            assert!(!bytes.contains(&b'['), "planted");
            true
        },
        mend: Some(|bytes| [bytes, b"]"].concat()),
    };
    let ran = run_for(&fragile, Duration::from_secs(60), 1);
    assert_eq!(ran.findings.len(), FINDINGS_MAX);
    assert!(ran.understood > 0 && ran.inputs > ran.understood);
    for path in ran.findings {
        assert!(fs::read(&path).unwrap().contains(&b'['));
        fs::remove_file(path).unwrap();
    }
}
