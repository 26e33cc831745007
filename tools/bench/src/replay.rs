//! Verification and replay of a long history, beside reading the same files and hashing the same bytes.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use ostler::broker::codec;
use ostler::machine::{State, apply};
use ostler_ledger::storage::Disk;
use ostler_ledger::{Ledger, Options, Records, VerifyOptions, verify_folder};

use crate::floor::{Tree, record_digest};
use crate::measure::{Contender, Plan, Series, as_float, in_turns};
use crate::report::{Goal, Row};
use crate::{at, history};

/// Part of the rate of reading and hashing alone.
const FLOOR_RATE: f64 = 0.7;

pub(crate) fn run(scratch: &Path, plan: &Plan, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Row>, String> {
    let (folder, quarantine) = (scratch.join("history"), scratch.join("history-quarantine"));
    let count = history::write(&folder, &quarantine, plan.records)?;
    let mut rows = Vec::new();
    if wanted("verify") {
        rows.extend(verified(&folder, plan, count)?);
    }
    if wanted("replay") {
        rows.extend(replayed(&folder, &quarantine, plan, count)?);
    }
    Ok(rows)
}

fn verified(folder: &Path, plan: &Plan, count: u64) -> Result<Vec<Row>, String> {
    let mut chain = |series: &mut Series| {
        let report = series.many(count, || at("verify", verify_folder(folder, &VerifyOptions::default())))?;
        let whole = report.ok() && report.records == count;
        if whole { Ok(()) } else { Err(format!("the history does not verify: {report:?}")) }
    };
    let mut typed = |series: &mut Series| {
        let seen = series.many(count, || {
            let storage = Disk::reading(folder);
            let records = Records::new(&storage);
            records.map(|record| at("read", record)).try_fold(0_u64, |seen, record| record.map(|_| seen + 1))
        })?;
        if seen == count { Ok(()) } else { Err(format!("{seen} records of {count}")) }
    };
    let mut events = |series: &mut Series| {
        series.many(count, || {
            let storage = Disk::reading(folder);
            let mut records = Records::new(&storage);
            records.try_for_each(|record| at("decode", codec::event(&at("read", record)?)).map(drop))
        })
    };
    let mut hashed = |series: &mut Series| series.many(count, || hash_all(folder, false).map(drop));
    let mut demanded = |series: &mut Series| series.many(count, || hash_all(folder, true).map(drop));
    let contenders: &mut [Contender<'_>] = &mut [&mut chain, &mut typed, &mut events, &mut hashed, &mut demanded];
    let (series, pressure) = in_turns(plan.rounds, contenders)?;
    let [chain, typed, events, hashed, demanded] = series.as_slice() else { return Err("five contenders".to_owned()) };
    let floor = "each file read, each line found and hashed";
    let (bytes, reach) = (bytes_of(folder)? / count, Goal::RateInReach(FLOOR_RATE));
    let what = format!("verify: digests, form and both chains of {count} records of {bytes} bytes");
    Ok(vec![
        Row::new("verify", &what, Goal::PerCpuSecond(0.9e6), chain, pressure).against(floor, hashed),
        Row::new("verify-floor", "the same", Goal::RateAtLeast(FLOOR_RATE), chain, pressure).against(floor, hashed),
        Row::new(
            "verify-reach",
            "floor of that: read, found, hashed, and the tree of the seals",
            reach,
            demanded,
            pressure,
        )
        .against(floor, hashed),
        Row::new("verify-typed", "verify, with a typed record of each", Goal::PerCpuSecond(0.4e6), typed, pressure)
            .against(floor, hashed),
        Row::new("verify-events", "verify, with the broker's event of each", Goal::None, events, pressure)
            .against(floor, hashed),
    ])
}

fn replayed(folder: &Path, quarantine: &Path, plan: &Plan, count: u64) -> Result<Vec<Row>, String> {
    let mut replay = |series: &mut Series| {
        series.many(count, || {
            let (mut state, mut wrong) = (State::default(), None);
            let disk = Disk::new(folder, quarantine);
            let opened = Ledger::open_folding(disk, Options::new("bench", "boot"), &mut |record| {
                let folded = codec::event(&record).map_err(|error| error.to_string()).and_then(|event| match event {
                    Some((event, at)) => apply(&mut state, &event, at).map_err(|why| format!("{why:?}")).map(|()| {
                        if record.header.end {
                            state.close(at.time);
                        }
                    }),
                    None => Ok(()),
                });
                wrong = wrong.take().or(folded.err());
            });
            drop(at("replay", opened)?);
            wrong.map_or(Ok(()), Err)
        })
    };
    let mut hashed = |series: &mut Series| series.many(count, || hash_all(folder, false).map(drop));
    let (series, pressure) = in_turns(plan.rounds, &mut [&mut replay, &mut hashed])?;
    let [replay, hashed] = series.as_slice() else { return Err("two contenders".to_owned()) };
    let million = as_float(1_000_000_u64);
    let what = format!("an opening that replays the history, for 1 M records ({count} measured)");
    let row = Row::new("replay", &what, Goal::Seconds(3.0, million), replay, pressure);
    Ok(vec![row.against("each file read, each line found and hashed", hashed)])
}

/// What nobody can do without who verifies: reads the segments into one buffer and hashes R of each line; with the tree over
/// the digests, if asked for.
fn hash_all(folder: &Path, trees: bool) -> Result<u8, String> {
    let (mut buffer, mut mixed) = (Vec::new(), 0);
    for path in segments(folder)? {
        buffer.clear();
        at("a segment", File::open(path).and_then(|mut file| file.read_to_end(&mut buffer)))?;
        let (mut start, mut tree) = (0, Tree::default());
        for end in memchr::memchr_iter(b'\n', &buffer) {
            let line = &buffer[start..end];
            start = end + 1;
            let digest = record_digest(line);
            mixed ^= digest[0];
            if trees {
                tree.push(&digest);
            }
        }
        mixed ^= tree.mixed();
    }
    Ok(std::hint::black_box(mixed))
}

fn bytes_of(folder: &Path) -> Result<u64, String> {
    let lengths = segments(folder)?.into_iter().map(|path| std::fs::metadata(path).map(|meta| meta.len()));
    at("a segment", lengths.sum())
}

fn segments(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = at("the history", std::fs::read_dir(folder))?;
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).collect();
    paths.sort();
    Ok(paths)
}
