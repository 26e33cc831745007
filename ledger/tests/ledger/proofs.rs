//! Proofs: every record of a ledger has one to every head behind it, and no member of one can be another.

use std::fs;
use std::path::PathBuf;

use ostler_ledger::limits::PROOF_BYTES_MAX;
use ostler_ledger::storage::{Disk, SimulatedDisk, SimulatedStorage};
use ostler_ledger::{Digest, Ledger, Options, Position, Proof, ProofError, ProveError, Record, prove, verify_proof};
use serde_json::{Value, json};

use crate::history::forge;
use crate::support::*;

fn open_small(disk: &SimulatedDisk) -> Ledger<SimulatedStorage> {
    Ledger::open(disk.storage(), Options { segment_bytes: 1800, ..options(BOOT) }).unwrap().0
}

/// Four segments; every turn has two records, so a position in the middle of one is no head that anybody kept.
fn sample() -> (SimulatedDisk, Vec<Record>) {
    let disk = SimulatedDisk::new();
    let mut ledger = open_small(&disk);
    while segments(&disk).len() < 4 {
        let number = ledger.head().seq;
        turn(&mut ledger, &[entry(Some("a"), &format!("\"a\" \\ {number}")), entry(None, "none")]);
    }
    turn(&mut ledger, &[entry(None, "last")]);
    let records = records(&ledger);
    (disk, records)
}

fn proof(disk: &SimulatedDisk, seq: u64) -> Proof {
    prove(&disk.storage(), seq, None).unwrap()
}

#[test]
fn every_record_has_a_proof_to_every_head_behind_it_and_to_no_other() {
    let (disk, records) = sample();
    let heads: Vec<Position> = records.iter().filter(|record| record.header.end).map(Record::position).collect();
    let mut proved = 0;
    for record in &records {
        let newest = proof(&disk, record.header.seq);
        assert_eq!(&newest.head, heads.last().unwrap());
        for head in &heads {
            let made = prove(&disk.storage(), record.header.seq, Some(*head));
            if head.seq < record.header.seq {
                assert!(matches!(made, Err(ProveError::Missing(_))), "{made:?}");
                continue;
            }
            let document = made.unwrap().document();
            assert_eq!(&verify_proof(&document, head).unwrap(), record);
            for other in heads.iter().filter(|other| *other != head) {
                assert!(matches!(verify_proof(&document, other), Err(ProofError::Head(_))));
            }
            proved += 1;
        }
    }
    assert!(proved > 100, "{proved}");
}

#[test]
fn a_proof_has_what_it_needs_and_no_more() {
    let (disk, records) = sample();
    let sealed = proof(&disk, 1);
    assert_eq!((sealed.segment, sealed.index, sealed.seals.len()), (Some(1), Some(0), 3));
    let first_segment =
        u64::try_from(records.iter().skip(1).position(|r| r.header.t == "segment").unwrap() + 1).unwrap();
    assert_eq!(sealed.count, Some(first_segment));
    let active = proof(&disk, records.last().unwrap().header.seq);
    assert_eq!((active.segment, active.path.len(), active.seals.len(), active.tail.len()), (None, 0, 0, 1));
}

/// Every leaf of the document in turn is another one, every list one element shorter, longer or in another order. The head's own
/// digits are the verifier's, not the document's.
#[test]
fn no_member_can_be_another() {
    let (disk, records) = sample();
    let head = records.last().unwrap().position();
    let mut refused = 0;
    for seq in [3, 8, records.iter().rfind(|record| record.header.t == "segment").unwrap().header.seq + 3] {
        let sound: Value = serde_json::from_slice(&proof(&disk, seq).document()).unwrap();
        for pointer in pointers(&sound, "") {
            if pointer == "/ledger" {
                continue;
            }
            for (changed, what) in changes(&sound, &pointer) {
                let verified = verify_proof(&serde_json::to_vec(&changed).unwrap(), &head);
                assert!(verified.is_err(), "record {seq}, {pointer}: {what}");
                refused += 1;
            }
        }
        // What it says of where it comes from is a hint.
        let mut elsewhere = sound;
        elsewhere["ledger"] = json!("another");
        assert!(verify_proof(&serde_json::to_vec(&elsewhere).unwrap(), &head).is_ok());
    }
    assert!(refused > 2_000, "{refused}");
}

/// The pointers of all values below.
fn pointers(value: &Value, at: &str) -> Vec<String> {
    let below: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(name, value)| (format!("{at}/{name}"), value)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, value)| (format!("{at}/{index}"), value)).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    below.iter().flat_map(|(at, value)| std::iter::once(at.clone()).chain(pointers(value, at))).collect()
}

fn changes(sound: &Value, pointer: &str) -> Vec<(Value, String)> {
    let value = sound.pointer(pointer).unwrap();
    let mut others: Vec<Value> = vec![Value::Null, json!(true), json!([]), json!({}), json!("")];
    match value {
        Value::Number(number) => {
            let number = number.as_u64().unwrap();
            others.extend([json!(number + 1), json!(number.wrapping_sub(1)), json!(u64::MAX), json!(-1), json!(1.5)]);
        }
        Value::String(text) => {
            let flipped = (0..text.len()).filter(|at| text.is_char_boundary(*at) && text.is_char_boundary(at + 1));
            others.extend(flipped.map(|at| {
                let other = if &text[at..=at] == "0" { "1" } else { "0" };
                json!(format!("{}{other}{}", &text[..at], &text[at + 1..]))
            }));
            others.extend([json!(format!("{text}\n")), json!(&text[..text.len() - 1])]);
        }
        Value::Array(items) => {
            for at in 0..items.len() {
                let mut fewer = items.clone();
                fewer.remove(at);
                let mut doubled = items.clone();
                doubled.insert(at, items[at].clone());
                others.extend([json!(fewer), json!(doubled)]);
                if at > 0 {
                    let mut swapped = items.clone();
                    swapped.swap(at - 1, at);
                    others.push(json!(swapped));
                }
            }
            others.push(json!([items.as_slice(), &[json!("0".repeat(64))]].concat()));
        }
        Value::Null => others.extend([json!(0), json!(1)]),
        Value::Bool(_) | Value::Object(_) => {}
    }
    let changed = others.into_iter().filter(|other| other != value).map(|other| {
        let mut changed = sound.clone();
        *changed.pointer_mut(pointer).unwrap() = other.clone();
        (changed, other.to_string())
    });
    let mut gone = sound.clone();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let removed = gone.pointer_mut(parent).and_then(Value::as_object_mut).and_then(|members| members.remove(name));
    changed.chain(removed.map(|_| (gone, "left out".to_owned()))).collect()
}

/// Whoever can compute digests forges a whole history, but not one that ends with the head that was kept.
#[test]
fn a_forged_history_proves_nothing() {
    let (disk, records) = sample();
    let head = records.last().unwrap().position();
    let forged = disk_of(&forge(&records, |r| {
        if r["seq"] == json!(4) {
            r["body"] = json!({"text": "never"});
        }
    }));
    let false_proof = proof(&forged, 4);
    assert!(false_proof.verify(&false_proof.head).is_ok(), "it is sound but for its head");
    assert!(matches!(false_proof.verify(&head), Err(ProofError::Head(_))));
    // Each part of the true proof with parts of the false one.
    let (good, bad) = (proof(&disk, 4), false_proof);
    for mixed in [
        Proof { record: bad.record.clone(), ..good.clone() },
        Proof { path: bad.path.clone(), record: bad.record.clone(), ..good.clone() },
        Proof { seals: bad.seals.clone(), path: bad.path.clone(), record: bad.record.clone(), ..good.clone() },
        Proof { head, ..bad },
    ] {
        assert!(mixed.verify(&head).is_err());
    }
}

/// Another record of the sealed segment, with its own good path, is not the one that `seq` names.
#[test]
fn a_record_cannot_stand_for_its_neighbour() {
    let (disk, _records) = sample();
    let (third, fourth) = (proof(&disk, 3), proof(&disk, 4));
    let moved = Proof { seq: 3, ..fourth.clone() };
    assert!(matches!(moved.verify(&fourth.head), Err(ProofError::Record)));
    let moved = Proof { record: fourth.record, index: fourth.index, path: fourth.path, ..third.clone() };
    assert!(matches!(moved.verify(&third.head), Err(ProofError::Record)));
}

#[test]
fn documents_that_are_none_are_refused() {
    let (disk, _records) = sample();
    let sound = proof(&disk, 3);
    let head = sound.head;
    let document = String::from_utf8(sound.document()).unwrap();
    let long = format!("{document}{}", " ".repeat(PROOF_BYTES_MAX));
    assert!(matches!(verify_proof(long.as_bytes(), &head), Err(ProofError::Length)));
    let newer = document.replacen("\"v\":1", "\"v\":2,\"more\":[]", 1);
    assert!(matches!(verify_proof(newer.as_bytes(), &head), Err(ProofError::Version(2))));
    for wrong in [
        String::new(),
        "[".repeat(100_000),
        document.replacen('{', "{\"more\":1,", 1),
        document.replacen('{', "{\"v\":1,", 1),
        format!("{document}x"),
        document[..document.len() - 1].to_owned(),
    ] {
        assert!(matches!(verify_proof(wrong.as_bytes(), &head), Err(ProofError::Form(_))));
    }
    assert!(verify_proof(format!("{document}\n").as_bytes(), &head).is_ok());
}

#[test]
fn what_cannot_be_proved_is_said() {
    let (disk, records) = sample();
    let storage = disk.storage();
    let head = records.last().unwrap().position();
    for missing in [0, head.seq + 1, u64::MAX] {
        assert!(matches!(prove(&storage, missing, None), Err(ProveError::Missing(_))));
    }
    let other = Position { digest: Digest([7; 32]), ..head };
    assert!(matches!(prove(&storage, 1, Some(other)), Err(ProveError::Head(_))));
    assert!(matches!(prove(&storage, 1, Some(Position::START)), Err(ProveError::Head(_))));
    let opens = records.iter().rfind(|record| record.header.t == "segment").unwrap().position();
    assert!(matches!(prove(&storage, 1, Some(opens)), Err(ProveError::Head(_))));
    assert!(matches!(prove(&SimulatedDisk::new().storage(), 1, None), Err(ProveError::Missing(1))));

    let unsealed = Disk::reading(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1"));
    assert!(matches!(prove(&unsealed, 2, None), Err(ProveError::Unsealed(_))));
    assert!(prove(&unsealed, 9, None).is_ok(), "its last segment needs no seal");
}

/// A changed byte in what a proof needs keeps it from being made; nothing that does not verify is handed out.
#[test]
fn damage_gives_no_proof() {
    let (disk, records) = sample();
    let head = records.last().unwrap().position();
    let mut refused = 0;
    for (damaged, (_file, bytes)) in segments(&disk).iter().enumerate() {
        for at in (0..bytes.len()).step_by(31) {
            let mut files = segments(&disk);
            files[damaged].1[at] ^= 1;
            let disk = disk_of(&files);
            for seq in [3, head.seq - 1] {
                match prove(&disk.storage(), seq, Some(head)) {
                    Ok(proof) => assert!(proof.verify(&head).is_ok()),
                    Err(_) => refused += 1,
                }
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

/// Half a turn behind the last whole one, as a writing broker or a crash leaves it, is no head.
#[test]
fn a_turn_that_is_being_written_is_no_head() {
    let (disk, records) = sample();
    let mut files = segments(&disk);
    let whole = files.last().unwrap().1.len();
    let mut ledger = open_small(&disk);
    let batch = [entry(None, "one"), entry(None, "two")];
    ledger.append(&batch, &STAMP).unwrap();
    let written = segments(&disk).pop().unwrap().1;
    for cut in (whole..written.len()).step_by(13) {
        files.last_mut().unwrap().1 = written[..cut].to_vec();
        let made = prove(&disk_of(&files).storage(), 2, None).unwrap();
        assert_eq!(made.head, records.last().unwrap().position());
    }
    assert_eq!(prove(&disk.storage(), 2, None).unwrap().head, ledger.head());
}

/// One proof of each kind, of the golden ledger. They are never changed.
#[test]
fn the_golden_proofs_are_made_and_verify() {
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let storage = Disk::reading(golden.join("v1-sealed"));
    for (seq, file) in [(3, "v1-proofs/sealed-3.json"), (16, "v1-proofs/active-16.json")] {
        let made = prove(&storage, seq, None).unwrap();
        let document = String::from_utf8(made.document()).unwrap() + "\n";
        let kept = fs::read_to_string(golden.join(file)).unwrap();
        assert_eq!(document, kept, "{file}");
        assert_eq!(verify_proof(kept.as_bytes(), &made.head).unwrap().header.seq, seq);
    }
}
