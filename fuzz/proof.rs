//! Proofs: of any bytes, and of parts of true ones put together by somebody who can compute digests. Whatever a document says, what
//! passes is a record of the history that ends with the head that was kept.

use std::sync::OnceLock;

use ostler_ledger::storage::SimulatedDisk;
use ostler_ledger::{Entry, Ledger, Options, Position, Proof, Record, Stamp, prove, verify_proof};
use serde_json::{Map, Value, json};

const STAMP: Stamp = Stamp { at_us: 1_769_862_896_000_001, mono_us: 77_000_000, bg: 1 };

/// A ledger of several segments: its records, and two proofs, of a sealed record and of an unsealed one.
struct Sample {
    head: Position,
    records: Vec<Record>,
    proofs: [Value; 2],
}

/// The bytes as a proof to the head that they name themselves; and, where they are a JSON object, as changes of two true proofs, member
/// by member. True if one of them passes.
pub fn ledger_proof(bytes: &[u8]) -> bool {
    let sample = sample();
    let named = Proof::parse(bytes).is_ok_and(|proof| {
        let again = Proof::parse(&proof.document()).expect("what was read is written and read again");
        assert_eq!(again, proof);
        let verified = proof.verify(&proof.head);
        if let Ok(record) = &verified {
            assert_eq!((record.line().trim_end_matches('\n'), record.header.seq), (proof.record.as_str(), proof.seq));
        }
        verified.is_ok()
    });
    passes(sample, bytes);
    let Ok(Value::Object(changes)) = serde_json::from_slice(bytes) else { return named };
    let changed = sample.proofs.iter().map(|proof| {
        let mut changed = proof.clone();
        merge(&mut changed, &Value::Object(changes.clone()));
        passes(sample, &serde_json::to_vec(&changed).expect("a value is JSON"))
    });
    let changed = changed.collect::<Vec<bool>>();
    named || changed.contains(&true)
}

/// Whether the document passes against the sample's head; then it is about one of the sample's records.
fn passes(sample: &Sample, document: &[u8]) -> bool {
    let verified = verify_proof(document, &sample.head);
    if let Ok(record) = &verified {
        assert!(sample.records.contains(record), "a record that is none: {}", record.line());
    }
    verified.is_ok()
}

fn sample() -> &'static Sample {
    static SAMPLE: OnceLock<Sample> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let disk = SimulatedDisk::new();
        let options = Options { segment_bytes: 1_500, ..Options::new("fuzz", "boot") };
        let (mut ledger, _recovery) = Ledger::open(disk.storage(), options).expect("a new ledger opens");
        for number in 0..14 {
            let body = Map::from_iter([("body".to_owned(), json!({"text": number}))]);
            let entry = Entry { sid: Some("a".to_owned()), ..Entry::new("note", body) };
            ledger.append(&[entry], &STAMP).expect("appends");
            ledger.sync().expect("syncs");
        }
        let records: Vec<Record> = ledger.records().map(|record| record.expect("reads")).collect();
        let head = ledger.head();
        let proofs = [3, head.seq - 1].map(|seq| {
            let proof = prove(&disk.storage(), seq, None).expect("every record has a proof");
            serde_json::to_value(proof).expect("a proof is JSON")
        });
        Sample { head, records, proofs }
    })
}

/// Members of an object take the place of those of the same name, down to the innermost, and so do the elements of a list; anything
/// else takes the whole place.
fn merge(old: &mut Value, new: &Value) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            new.iter().for_each(|(name, new)| merge(old.entry(name.as_str()).or_insert(Value::Null), new));
        }
        (Value::Array(old), Value::Array(new)) => {
            old.truncate(new.len());
            old.iter_mut().zip(new).for_each(|(old, new)| {
                if !new.is_null() {
                    merge(old, new)
                }
            });
        }
        (old, new) => old.clone_from(new),
    }
}
