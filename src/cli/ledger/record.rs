//! One record of the ledger: as the document of the contract, as a line, and as a page for eyes.

use ostler_ledger::Record;
use serde_json::Value;

use super::super::failure::Failure;
use super::super::output::{Stream, document_of};
use super::super::text;
use super::words::words;
pub(crate) use crate::broker::events::document as json;

/// RECORD: the stored members and the digest.
pub(crate) fn document(record: &Record) -> Value {
    let mut members: Value = serde_json::from_str(record.raw()).expect("a sound record is a JSON object");
    members["digest"] = Value::from(record.digest.to_string());
    members
}

/// Prints one of many, as a document or as a line.
pub(super) fn print(found: &Record, stream: &mut Stream) -> Result<(), Failure> {
    if stream.json { stream.bytes(&document_of("record", &json(found))) } else { stream.bytes(line(found).as_bytes()) }
}

/// The length of its line: R, the digest, and what stands around both in every line.
pub(super) fn line_bytes(record: &Record) -> u64 {
    const AROUND: usize = "{\"d\":\"\",\"r\":}\n".len() + 64;
    u64::try_from(record.raw().len() + AROUND).expect("a length fits 64 bits")
}

/// The name of the session that this record spawns.
pub(super) fn spawned_name(record: &Record) -> Option<String> {
    let body = record.body().filter(|body| record.header.t == "accept" && body.contains("\"name\":"))?;
    let body: Value = serde_json::from_str(body).ok()?;
    body["spawn"]["name"].as_str().map(str::to_owned)
}

/// One line: where, when, of which type, about whom, what it says.
fn line(record: &Record) -> String {
    let header = &record.header;
    let session = header.sid.as_deref().unwrap_or("-");
    let (at, t, session) = (text::plain(&header.at), text::plain(&header.t), text::plain(session));
    format!("{:>8}  {at}  {t:<10}  {session:<12}  {}\n", header.seq, text::plain(&words(&document(record))))
}

/// What it says, and all members, one a line, long ones too.
pub(super) fn whole(record: &Record) -> String {
    let document = document(record);
    let members = document.as_object().into_iter().flatten();
    let members = members.map(|(name, value)| format!("{name:<6} {}\n", text::plain(&shown(value))));
    format!("record {}: {}\n{}", record.header.seq, text::plain(&words(&document)), members.collect::<String>())
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use ostler_ledger::storage::SimulatedDisk;
    use ostler_ledger::{Entry, Ledger, Options, Stamp};

    use super::*;

    #[test]
    fn a_record_is_the_same_in_all_its_forms() {
        let disk = SimulatedDisk::new();
        let (mut ledger, recovery) = Ledger::open(disk.storage(), Options::new("id", "boot")).unwrap();
        let stamp = Stamp { at_us: 1_767_225_600_000_000, mono_us: 5, bg: 1 };
        let mut turn = recovery.owed;
        let (sid, members) = (Some("s1".into()), serde_json::Map::default());
        turn.push(Entry { t: "note".into(), sid, ep: None, fin: false, members: members.into() });
        ledger.append(&turn, &stamp).unwrap();
        let records: Vec<Record> = ledger.records().map(Result::unwrap).collect();
        assert!(!records.is_empty());
        for found in &records {
            assert_eq!(serde_json::from_str::<Value>(&json(found)).unwrap(), document(found));
            assert_eq!(line_bytes(found), u64::try_from(found.line().len()).unwrap());
        }
    }
}
