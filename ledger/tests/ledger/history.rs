//! A second, plain writer of the format, for forging: it forms chains, segments and seals by the README alone, and
//! lets a test change any record before it is linked. Whoever controls every byte can do this.

use data_encoding::HEXLOWER;
use ostler_ledger::Record;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// Forms the history of `records`, which are `segment` and `seal` records too, anew: positions, links, `previous` and the
/// seals' bodies are computed, then `tweak` may change the record, then it gets its digest.
pub(crate) fn forge(records: &[Record], mut tweak: impl FnMut(&mut Map<String, Value>)) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    let mut digests: Vec<Vec<String>> = Vec::new();
    let (mut last, mut prior, mut seal, mut sessions) = (None, None, None, BTreeMap::new());
    for (record, seq) in records.iter().zip(1_u64..) {
        let Value::Object(mut r) = serde_json::from_str(record.raw()).unwrap() else { panic!("an object") };
        r.insert("seq".to_owned(), json!(seq));
        link(&mut r, "prev", last.as_ref());
        if let Some(sid) = &record.header.sid {
            link(&mut r, "sp", sessions.get(sid));
        }
        if record.header.t == "segment" {
            link(r["body"].as_object_mut().unwrap(), "previous", last.as_ref());
            prior = seal.take();
            files.push((format!("{seq:020}.jsonl"), Vec::new()));
            digests.push(Vec::new());
        }
        if record.header.t == "seal" {
            let closed = &digests[digests.len() - 2];
            let mut body = json!({
                "count": closed.len(), "last": closed.last(), "number": digests.len() - 1, "root": tree(closed),
            });
            link(body.as_object_mut().unwrap(), "prior", prior.as_ref());
            r.insert("body".to_owned(), body);
        }
        tweak(&mut r);
        r.retain(|_name, value| !value.is_null());
        let (digest, line) = line(&r);
        if r["t"] == json!("seal") && digests.last().unwrap().len() == 1 {
            seal = Some(digest.clone());
        }
        if let Some(sid) = &record.header.sid {
            sessions.insert(sid.clone(), digest.clone());
        }
        files.last_mut().unwrap().1.extend(line.bytes());
        digests.last_mut().unwrap().push(digest.clone());
        last = Some(digest);
    }
    files
}

fn link(members: &mut Map<String, Value>, name: &str, to: Option<&String>) {
    match to {
        Some(digest) => members.insert(name.to_owned(), json!(digest)),
        None => members.remove(name),
    };
}

/// The digest and the line of R. `Map` sorts, and the names are ASCII, so its text is the canonical form.
fn line(r: &Map<String, Value>) -> (String, String) {
    let r = Value::Object(r.clone()).to_string();
    let digest = HEXLOWER.encode(&Sha256::new().chain_update("ledger-record-v1\n").chain_update(&r).finalize());
    let line = format!("{{\"d\":\"{digest}\",\"r\":{r}}}\n");
    (digest, line)
}

/// The root of RFC 6962 over these digests, as it is defined there.
pub(crate) fn tree(digests: &[String]) -> String {
    let bytes = |hex: &str| HEXLOWER.decode(hex.as_bytes()).unwrap();
    let hash = match digests {
        [] => panic!("no segment is empty"),
        [leaf] => Sha256::new().chain_update([0]).chain_update(bytes(leaf)).finalize(),
        several => {
            let split = (1..several.len()).rev().find(|split| split.is_power_of_two()).unwrap();
            let (left, right) = (tree(&several[..split]), tree(&several[split..]));
            Sha256::new().chain_update([1]).chain_update(bytes(&left)).chain_update(bytes(&right)).finalize()
        }
    };
    HEXLOWER.encode(&hash)
}
