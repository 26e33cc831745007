//! Snapshots: torn, damaged, of another ledger, or forged by somebody who can compute digests. A snapshot is a cache: whatever
//! stands in one, an opening ends, the history is untouched, and without a usable one everything is replayed.

use std::sync::OnceLock;

use ostler_ledger::storage::{Folder, Name, SimulatedDisk};
use ostler_ledger::{Entry, Fold, Ledger, Options, Record, Stamp};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

const STAMP: Stamp = Stamp { at_us: 1_769_862_896_000_001, mono_us: 77_000_000, bg: 1 };
const FOLD: &str = "fuzz 1";
const PAYLOAD: &[u8] = b"state";

/// A ledger with a snapshot in the middle of it: its files, the snapshot's name, and R of the snapshot's first line.
struct Sample {
    files: Vec<(String, Vec<u8>)>,
    snapshot: String,
    described: Value,
    records: u64,
}

/// What an opening begins with and goes on from.
#[derive(Default)]
struct Seen {
    restored: Option<Vec<u8>>,
    records: u64,
}

impl Fold for Seen {
    type State = Vec<u8>;

    fn name(&self) -> &'static str {
        FOLD
    }

    fn read(&mut self, payload: &[u8]) -> Result<Vec<u8>, String> {
        if payload.starts_with(b"refused") { Err("it says so".to_owned()) } else { Ok(payload.to_vec()) }
    }

    fn restore(&mut self, payload: Vec<u8>) {
        self.restored = Some(payload);
    }

    fn record(&mut self, _record: Record) {
        self.records += 1;
    }
}

/// The first line changes R of a good snapshot, member by member, and what follows replaces its payload; length and digests are
/// made right. And the bytes as they are, in the snapshot's place. True if a snapshot so changed is used.
pub fn ledger_snapshot(bytes: &[u8]) -> bool {
    let sample = sample();
    opens(sample, bytes);
    let (change, payload) = bytes.split_at(bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len()));
    let Ok(change) = serde_json::from_slice::<Value>(change) else { return false };
    let payload = match payload {
        [] | [_] => PAYLOAD,
        [_, payload @ ..] => payload,
    };
    let mut described = sample.described.clone();
    described["bytes"] = Value::from(payload.len());
    described["sum"] = Value::from(hex(&Sha256::digest(payload)));
    merge(&mut described, &change);
    // The writer's own form is of no matter to the reader here: only the digest is over what stands there.
    let r = serde_json::to_vec(&described).expect("a value is JSON");
    let digest = hex(&Sha256::new().chain_update(b"ledger-snapshot-v1\n").chain_update(&r).finalize());
    let file = [b"{\"d\":\"", digest.as_bytes(), b"\",\"r\":", &r, b"}\n", payload].concat();
    opens(sample, &file)
}

/// Opens the sample with these bytes in place of its snapshot. True if they were used.
fn opens(sample: &Sample, snapshot: &[u8]) -> bool {
    let disk = disk_of(&sample.files);
    disk.tamper(in_ledger(&sample.snapshot), snapshot);
    let mut seen = Seen::default();
    let opened = Ledger::open_from(disk.storage(), options(), &mut seen);
    let (mut ledger, recovery) = opened.expect("no snapshot keeps a sound ledger from opening");
    let used = recovery.snapshot.is_some();
    if used {
        assert!(seen.restored.is_some() && recovery.dropped_snapshots.is_empty());
    } else {
        assert_eq!((seen.restored, seen.records), (None, sample.records), "the history is replayed");
        assert!(recovery.problems.is_empty(), "a snapshot is no reason to doubt the history: {:?}", recovery.problems);
        assert!(disk.contents(in_ledger(&sample.snapshot)).is_none(), "what is of no use is removed");
        let note = [entry(None, "after")];
        ledger.append(&note, &STAMP).expect("a ledger that was opened takes records");
        ledger.sync().expect("and syncs them");
    }
    for (file, bytes) in sample.files.iter().filter(|(file, _)| file.ends_with(".jsonl")) {
        let now = disk.contents(in_ledger(file)).unwrap_or_default();
        assert!(now.starts_with(bytes), "{file} is changed");
    }
    used
}

fn sample() -> &'static Sample {
    static SAMPLE: OnceLock<Sample> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let disk = SimulatedDisk::new();
        let (mut ledger, _recovery) = Ledger::open(disk.storage(), options()).expect("a new ledger opens");
        let turn = |ledger: &mut Ledger<_>, number: usize| {
            let sid = ["a", "b", "c"][number % 3];
            ledger.append(&[entry(Some(sid), "one"), entry(None, "two")], &STAMP).expect("appends");
            ledger.sync().expect("syncs");
        };
        (0..8).for_each(|number| turn(&mut ledger, number));
        let at = ledger.snapshot(PAYLOAD, FOLD).expect("a snapshot is due").seq;
        (0..3).for_each(|number| turn(&mut ledger, number));
        let records = ledger.head().seq;
        drop(ledger);
        let content = |file: String| (file.clone(), disk.contents(in_ledger(&file)).expect("it is listed"));
        let files: Vec<(String, Vec<u8>)> = disk.names(Folder::Ledger).into_iter().map(content).collect();
        let snapshot = format!("snapshot-{at:020}");
        let line =
            files.iter().find(|(file, _)| *file == snapshot).map(|(_, bytes)| bytes.as_slice()).unwrap_or_default();
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut described: Value = serde_json::from_slice(line).expect("its first line is JSON");
        Sample { files, snapshot, described: described["r"].take(), records }
    })
}

fn options() -> Options {
    Options { segment_bytes: 2_000, snapshot_tail_bytes: 1, ..Options::new("fuzz", "boot") }
}

fn entry(sid: Option<&str>, text: &str) -> Entry {
    let members = Map::from_iter([("body".to_owned(), json!({"text": text}))]);
    Entry { sid: sid.map(str::to_owned), ..Entry::new("note", members) }
}

fn disk_of(files: &[(String, Vec<u8>)]) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    files.iter().for_each(|(file, bytes)| disk.tamper(in_ledger(file), bytes));
    disk
}

fn in_ledger(file: &str) -> Name<'_> {
    Name { folder: Folder::Ledger, file }
}

/// Members of an object take the place of those of the same name, down to the innermost; anything else takes the whole place.
fn merge(old: &mut Value, new: &Value) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            new.iter().for_each(|(name, new)| merge(old.entry(name.as_str()).or_insert(Value::Null), new));
        }
        (old, new) => old.clone_from(new),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
