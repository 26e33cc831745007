//! The stored form of an event, read without a detour. A start reads every record behind its snapshot this way.
//!
//! Promise: what is read here, and what is refused, is what the event's own derivation reads and refuses; tests hold the
//! two against each other for every kind of event and every member.

use crate::machine::{Digest, Event, Key, OperationId, SessionId};
use ostler_ledger::Record;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as WordError, StrDeserializer};
use serde::{Deserialize, de::DeserializeOwned};

/// The event in the members that the ledger has cut out already. It says what serde would make of the whole record; but the
/// way from a tagged enum to its variant leads through a copy of everything, which is most of the time that a replay takes.
pub(super) fn read(record: &Record) -> Result<Event, String> {
    let header = &record.header;
    let sid = || header.sid.as_deref().map(SessionId::parse).transpose().map_err(|rule| rule.to_string());
    let of_session = || sid()?.ok_or_else(|| "missing field `sid`".to_owned());
    let ep = || header.ep.ok_or_else(|| "missing field `ep`".to_owned());
    let op = || OperationId::parse(text("op", header.op.as_ref())?).map_err(|rule| rule.to_string());
    Ok(match header.t.as_str() {
        "generation" => Event::Generation { body: part("body", record.body())? },
        "accept" => Event::Accept {
            sid: sid()?,
            ep: header.ep,
            op: op()?,
            kind: word(text("kind", header.kind.as_ref())?)?,
            key: Key::parse(text("key", header.key.as_ref())?).map_err(|rule| rule.to_string())?,
            req: Digest::parse(text("req", header.req.as_ref())?).map_err(|rule| rule.to_string())?,
            act: part("act", record.act())?,
            body: part("body", record.body())?,
        },
        "finish" => Event::Finish {
            sid: sid()?,
            op: op()?,
            kind: word(text("kind", header.kind.as_ref())?)?,
            st: word(text("st", header.st.as_ref())?)?,
            err: header.err.clone(),
            res: part("res", record.res())?,
            body: record.body().map_or(Ok(None), |body| part("body", Some(body)))?,
        },
        "host" => Event::Host { sid: of_session()?, ep: ep()?, body: part("body", record.body())? },
        "session" => Event::Session { sid: of_session()?, ep: ep()?, body: part("body", record.body())? },
        "fence" => Event::Fence { sid: of_session()?, ep: ep()?, body: part("body", record.body())? },
        "message" => Event::Message { sid: of_session()?, ep: ep()?, body: part("body", record.body())? },
        "queue" => Event::Queue { sid: of_session()?, ep: ep()?, body: part("body", record.body())? },
        "notice" => Event::Notice { sid: of_session()?, ep: ep()?, body: part("body", record.body())? },
        "beat" => Event::Beat { body: part("body", record.body())? },
        "conflict" => Event::Conflict { body: part("body", record.body())? },
        "operator" => Event::Operator { act: part("act", record.act())?, body: part("body", record.body())? },
        // One that was added and not here: its own way is right, only slower.
        _ => return serde_json::from_str(record.raw()).map_err(|error| error.to_string()),
    })
}

fn text<'a>(name: &str, text: Option<&'a String>) -> Result<&'a str, String> {
    text.map(String::as_str).ok_or_else(|| format!("missing field `{name}`"))
}

fn part<T: DeserializeOwned>(name: &str, json: Option<&str>) -> Result<T, String> {
    let json = json.ok_or_else(|| format!("missing field `{name}`"))?;
    serde_json::from_str(json).map_err(|error| format!("{name}: {error}"))
}

/// A word of a closed list.
fn word<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, String> {
    let deserializer: StrDeserializer<'de, WordError> = text.into_deserializer();
    T::deserialize(deserializer).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::codec::entry;
    use ostler_ledger::Digest as Stamp;
    use serde_json::{Value, json};
    use sha2::Digest as _;

    /// One of each kind of event, and of each shape that a body has.
    fn stored() -> Vec<Value> {
        let hex = "0123456789abcdef".repeat(4);
        let (sid, act) = ("abcdefghijkl", json!({"uid": 1000, "pid": 77}));
        let process = json!({"boot": "b", "ns": 1, "pid": 4, "start": 9});
        let run =
            json!({"host": process, "command": process, "address": "unix:/r/h", "incarnation": hex, "started_us": 5});
        let generation =
            json!({"number": 1, "process": process, "incarnation": hex, "version": "0.1.0", "lock_inode": 9});
        let accept = |kind: &str, body: Value| json!({"t": "accept", "sid": sid, "ep": 1, "op": "op-2", "kind": kind, "key": "k 1", "req": hex, "act": act, "body": body});
        let failed = json!({"t": "finish", "sid": sid, "op": "op-2", "kind": "session.spawn", "st": "failed", "err": "spawn_failed", "res": {}});
        vec![
            json!({"t": "generation", "body": generation}),
            accept("session.spawn", json!({"spawn": {"spec": hex, "deadline_boot_us": 3, "labels": {"a": "b"}}})),
            accept("session.resume", json!({"launch": {"deadline_boot_us": 3}})),
            accept("session.stop", json!({"end": {"grace_ms": 1, "deadline_boot_us": 2, "delete": false}})),
            accept("session.delete", json!("remove")),
            failed,
            json!({"t": "finish", "op": "op-2", "kind": "session.prune", "st": "succeeded", "res": {"pruned": [sid], "left": 1}}),
            json!({"t": "host", "sid": sid, "ep": 1, "body": {"started": run}}),
            json!({"t": "host", "sid": sid, "ep": 1, "body": "unopened"}),
            json!({"t": "session", "sid": sid, "ep": 1, "body": {"ended": {"exit": {"code": 1}, "status": "failed", "at_us": 7}}}),
            json!({"t": "fence", "sid": sid, "ep": 1, "body": {"fence": {"operation": "op-2", "reason": "r"}}}),
            json!({"t": "fence", "sid": sid, "ep": 1, "body": {"fence": null}}),
            accept("message.send", json!({"send": {"body": {"file": 1, "offset": 0, "bytes": 3, "digest": hex}}})),
            json!({"t": "message", "sid": sid, "ep": 1, "body": {"message": "msg-2", "change": "sending"}}),
            json!({"t": "message", "sid": sid, "ep": 1, "body": {"message": "msg-2", "change": {"delivered": {"at_us": 5}}}}),
            json!({"t": "queue", "sid": sid, "ep": 1, "body": {"closed": {"reason": "r"}}}),
            json!({"t": "notice", "sid": sid, "ep": 1, "body": {"reported": {"session": sid, "report": "rep-7"}}}),
            json!({"t": "beat", "body": {"seen": {sid: 5}}}),
            json!({"t": "conflict", "body": {"scope": "owner", "key": "k", "operation": "op-2", "given": hex}}),
            json!({"t": "operator", "act": act, "body": {"operation": "op-2", "outcome": "failed", "reason": "r"}}),
        ]
    }

    /// A record of the event, if it can be one.
    fn record(event: &Value) -> Option<Record> {
        let mut r = event.clone();
        let chain = json!({"at": "2026-01-31T12:34:56.000001Z", "bg": 1, "dur": 0, "mono": 5, "seq": 1, "v": 1});
        chain.as_object()?.iter().for_each(|(name, value)| r[name.as_str()] = value.clone());
        if r.get("sid").is_some() {
            r["sn"] = json!(1);
        }
        let r = r.to_string();
        let digest = sha2::Sha256::new().chain_update("ledger-record-v1\n").chain_update(&r).finalize();
        Record::read(format!("{{\"d\":\"{}\",\"r\":{r}}}", Stamp(digest.into())).as_bytes())
    }

    fn read_alike(event: &Value) -> bool {
        let Some(record) = record(event) else { return false };
        let serde: Option<Event> = serde_json::from_str(record.raw()).ok();
        assert_eq!(read(&record).ok(), serde, "{event}");
        serde.is_some()
    }

    #[test]
    fn an_event_is_read_from_its_members_as_from_the_whole_record() {
        for event in stored() {
            assert!(read_alike(&event), "{event}");
            let (entry, bytes) = entry(&record(&event).and_then(|record| read(&record).ok()).unwrap());
            assert_eq!((entry.t.as_str(), entry.sid.as_deref()), (event["t"].as_str().unwrap(), event["sid"].as_str()));
            assert!(record(&event).unwrap().line().len() <= bytes);
        }
    }

    #[test]
    fn what_is_missing_or_of_another_form_is_refused_alike() {
        let others =
            [json!(null), json!(5), json!("x"), json!({}), json!([]), json!(true), json!("remove"), json!("op-7")];
        let (mut read, mut refused) = (0, 0);
        let mut count = |is: bool| if is { read += 1 } else { refused += 1 };
        for event in stored() {
            for name in ["t", "sid", "ep", "op", "kind", "key", "req", "st", "err", "act", "res", "body"] {
                let mut less = event.clone();
                less.as_object_mut().unwrap().remove(name);
                count(read_alike(&less));
                for other in &others {
                    let mut changed = event.clone();
                    changed[name] = other.clone();
                    count(read_alike(&changed));
                }
            }
        }
        assert!(read > 100 && refused > 300, "{read} {refused}");
    }
}
