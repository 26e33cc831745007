//! Ledger segments: torn, damaged, edited, or forged by somebody who can compute digests. Recovery keeps what verifies,
//! touches nothing else, and never finds more to do the second time.

use ostler_ledger::limits::SEQ_LAST;
use ostler_ledger::storage::{Folder, Name, SimulatedDisk, SimulatedStorage};
use ostler_ledger::{Entry, Ledger, OpenError, Options, Record, Recovery, Stamp, VerifyOptions, strict, verify};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

const SEGMENT: Name<'static> = Name { folder: Folder::Ledger, file: "00000000000000000001.jsonl" };
const STAMP: Stamp = Stamp { at_us: 1_769_862_896_000_001, mono_us: 77_000_000, bg: 1 };

/// The boot in which the seeds were written, and another.
const BOOTS: [&str; 2] = ["boot-a", "boot-b"];

/// A whole segment, byte for byte.
pub fn ledger_segment(bytes: &[u8]) -> bool {
    let verdicts = BOOTS.map(|boot| is_sound(bytes, boot));
    verdicts == [true, true]
}

/// Records, one a line, each put into a line with its right digest: what only chain and grammar can refuse.
pub fn ledger_line(bytes: &[u8]) -> bool {
    let mut segment = Vec::new();
    for record in bytes.split(|byte| *byte == b'\n').filter(|record| !record.is_empty()) {
        segment.extend_from_slice(&line(record));
        segment.push(b'\n');
    }
    ledger_segment(&segment)
}

/// One record, put into a line with its right digest, and as a line itself: the pass that the product reads with and the
/// plain reading find the same in it.
pub fn ledger_slice(bytes: &[u8]) -> bool {
    let lines = [line(bytes), bytes.to_vec()];
    let found = lines.map(|line| {
        let sliced = Record::read(&line);
        assert_eq!(sliced, strict::record(&line), "read in two ways: {}", line.escape_ascii());
        if let Some(record) = &sliced {
            assert_eq!(record.line().trim_end_matches('\n').as_bytes(), line, "a record is kept as it stands");
        }
        sliced.is_some()
    });
    found.contains(&true)
}

/// Records, one a line, with their numbers, digests and chains as a writer would have made them of the rest. What is no record
/// with a number and a type stays as it is.
pub(crate) fn chained(records: &[u8]) -> Vec<u8> {
    let (mut seq, mut prev, mut sessions) = (0_u64, None, BTreeMap::<String, (u64, String)>::new());
    let records = records.split(|byte| *byte == b'\n').filter(|record| !record.is_empty());
    let mended = records.map(|record| {
        let Ok(Value::Object(mut r)) = serde_json::from_slice::<Value>(record) else { return record.to_vec() };
        seq += 1;
        r.insert("seq".to_owned(), Value::from(seq));
        set(&mut r, "prev", prev.take().map(Value::String));
        let sid = r.get("sid").and_then(Value::as_str).map(str::to_owned);
        let head = sid.as_ref().and_then(|sid| sessions.remove(sid));
        set(&mut r, "sn", sid.as_ref().map(|_| Value::from(head.as_ref().map_or(1, |(sn, _)| sn + 1))));
        set(&mut r, "sp", head.as_ref().map(|(_, digest)| Value::from(digest.as_str())));
        let dur = r.get("dur").and_then(Value::as_u64).unwrap_or(0).min(seq - 1);
        r.insert("dur".to_owned(), Value::from(dur));
        let ends = r.get("fin") == Some(&Value::Bool(true));
        let record = serde_json::to_vec(&Value::Object(r)).expect("a value is JSON");
        let digest = String::from_utf8_lossy(&line(&record)[6..70]).into_owned();
        if let Some(sid) = sid.filter(|_| !ends) {
            sessions.insert(sid, (head.map_or(1, |(sn, _)| sn + 1), digest.clone()));
        }
        prev = Some(digest);
        record
    });
    mended.collect::<Vec<_>>().join(&b'\n')
}

/// Lines of a segment with the digests of what stands in them, and every second time chained, too.
pub(crate) fn sealed(segment: &[u8]) -> Vec<u8> {
    let records: Vec<&[u8]> = segment.split(|byte| *byte == b'\n').filter_map(record_of).collect();
    let records = records.join(&b'\n');
    let records = if segment.len().is_multiple_of(2) { chained(&records) } else { records };
    let lines = records.split(|byte| *byte == b'\n').filter(|record| !record.is_empty());
    lines.flat_map(|record| line(record).into_iter().chain([b'\n'])).collect()
}

/// What stands in the place of R.
fn record_of(line: &[u8]) -> Option<&[u8]> {
    line.get(76..)?.strip_suffix(b"}")
}

fn set(r: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    match value {
        Some(value) => r.insert(name.to_owned(), value),
        None => r.remove(name),
    };
}

/// A record's line, without its LF.
fn line(record: &[u8]) -> Vec<u8> {
    let hash = Sha256::new().chain_update(b"ledger-record-v1\n").chain_update(record).finalize();
    let mut line = b"{\"d\":\"".to_vec();
    hash.iter().for_each(|byte| line.extend_from_slice(format!("{byte:02x}").as_bytes()));
    [line.as_slice(), b"\",\"r\":", record, b"}"].concat()
}

/// Verifies and recovers `segment`. True if it is a ledger without a fault.
fn is_sound(segment: &[u8], boot: &str) -> bool {
    let disk = SimulatedDisk::new();
    disk.tamper(SEGMENT, segment);
    let options = VerifyOptions { boot: Some(boot.to_owned()), since: None };
    let report = verify(&disk.storage(), &options).expect("a segment that is there can be read");
    assert_eq!(disk.contents(SEGMENT).as_deref(), Some(segment), "verification changes nothing");
    let mut kept = Vec::new();
    let opened = Ledger::open_folding(disk.storage(), Options::new("fuzz", boot), &mut |record| kept.push(record));
    let Ok((ledger, recovery)) = opened else {
        assert_eq!(disk.contents(SEGMENT).as_deref(), Some(segment), "a refusal changes nothing");
        return false;
    };
    recovers_for_good(&disk, ledger, &recovery, &kept, boot);
    report.ok() && report.tail.is_none() && report.records > 0
}

/// Works on after a recovery: what it handed on stays, what is appended is there, and a further start finds nothing to do.
fn recovers_for_good(
    disk: &SimulatedDisk,
    mut ledger: Ledger<SimulatedStorage>,
    recovery: &Recovery,
    kept: &[Record],
    boot: &str,
) {
    let stored = on_disk(disk);
    assert!(kept.iter().all(|record| stored.contains(&record.line())), "what is kept stands on the disk");
    let note = Entry::new("note", Map::from_iter([body()]));
    let batch: Vec<Entry> = recovery.owed.iter().cloned().chain([note]).collect();
    let positions = ledger.append(&batch, &STAMP).expect("a recovered ledger takes records");
    ledger.sync().expect("and syncs them");
    drop(ledger);
    let again = Ledger::open(disk.storage(), Options::new("fuzz", boot));
    let last = positions.last().map_or(0, |position| position.seq);
    if last > SEQ_LAST {
        assert!(
            matches!(again, Err(OpenError::Exhausted { last: found }) if found == last),
            "a forged number used them up"
        );
        return;
    }
    let (again, second) = again.expect("what was opened opens again");
    assert!(second.tail.is_none() && second.owed.is_empty(), "the second start finds more: {second:?}");
    let all = records(&again);
    assert!(all.starts_with(kept), "an earlier record is gone");
    assert_eq!(all.last().map(Record::position), positions.last().copied(), "the last record is the one appended");
}

fn records(ledger: &Ledger<SimulatedStorage>) -> Vec<Record> {
    ledger.records().map(|record| record.expect("an open ledger can be read")).collect()
}

/// Everything in the ledger's folder, as text: a kept line is valid UTF-8.
fn on_disk(disk: &SimulatedDisk) -> String {
    let files = disk.names(Folder::Ledger);
    let contents = files.iter().filter_map(|file| disk.contents(Name { folder: Folder::Ledger, file }));
    contents.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
}

fn body() -> (String, Value) {
    ("body".to_owned(), Value::Object(Map::from_iter([("text".to_owned(), Value::from("after"))])))
}
