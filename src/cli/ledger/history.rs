//! `ostler ledger history`: what happened to one session, told from its records; also of one that is deleted, whose name only the ledger
//! still knows.

use std::collections::BTreeSet;

use ostler_ledger::storage::Disk;
use ostler_ledger::{Record, Records};
use serde_json::{Value, json};

use super::super::context::Context;
use super::super::exit::Exit;
use super::super::failure::Failure;
use super::super::text;
use super::{folder, record, unreadable};
use crate::rpc::error::{ErrorCode, WireError};

/// So many of the sessions that an ambiguous prefix fits are named.
const NAMED_MAX: usize = 5;

pub(super) fn run(session: &str, context: &Context) -> Result<Exit, Failure> {
    let attempt = format!("show the history of {session}");
    let storage = Disk::reading(folder(context, &attempt)?);
    let id = resolve(&storage, session, &attempt)?;
    let mut records = Vec::new();
    for found in Records::new(&storage) {
        let found = found.map_err(|error| unreadable(&attempt, &error))?;
        if found.header.sid.as_deref() == Some(&*id) {
            records.push(found);
        }
    }
    let document = json!({ "session_id": id, "records": records.iter().map(record::document).collect::<Vec<_>>() });
    context.output.either(&document, |_| format!("session {}\n", text::plain(&id)) + &table(&records))?;
    Ok(Exit::Done)
}

/// The session that is meant: by exact id, else the newest that was spawned with this name, else by unique prefix.
fn resolve(storage: &Disk, given: &str, attempt: &str) -> Result<String, Failure> {
    let (mut named, mut fits) = (None, BTreeSet::new());
    for found in Records::new(storage) {
        let found = found.map_err(|error| unreadable(attempt, &error))?;
        let Some(sid) = &found.header.sid else { continue };
        if sid.starts_with(given) && !fits.contains(sid) {
            fits.insert(sid.clone());
        }
        if found.header.t == "accept" && record::document(&found)["body"]["spawn"]["name"] == given {
            named = Some(sid.clone());
        }
    }
    if fits.contains(given) {
        return Ok(given.to_owned());
    }
    match (named, fits.len(), fits.first()) {
        (Some(id), _, _) => Ok(id),
        (None, 1, Some(id)) => Ok(id.clone()),
        (None, 0, _) | (None, _, None) => {
            let message = "no record names a session with this id or name";
            let error = WireError::new(ErrorCode::NotFound, message).reason("session");
            Err(Failure::new(attempt, error.with("remedy", "ostler list --all, or ostler ledger tail")))
        }
        (None, count, Some(_)) => {
            let ids: Vec<&str> = fits.iter().take(NAMED_MAX).map(String::as_str).collect();
            let more = if count > ids.len() { " and more" } else { "" };
            let message = format!("the ids of {count} sessions begin so ({}{more})", text::plain(&ids.join(", ")));
            Err(Failure::invalid(attempt, "ambiguous", message))
        }
    }
}

fn table(records: &[Record]) -> String {
    let line = |found: &Record| {
        let document = record::document(found);
        format!("{:>4}  {}  {}\n", document["sn"], text::plain(&found.header.at), text::plain(&story(&document)))
    };
    records.iter().map(line).collect()
}

/// What a record says, in a few words. A record of a kind that is not known here is named by its type.
fn story(record: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let kind = record["kind"].as_str().unwrap_or("?").trim_start_matches("session.").to_owned();
    let body = &record["body"];
    let episode = record["ep"].as_u64().map(|episode| format!("  episode {episode}")).unwrap_or_default();
    match record["t"].as_str().unwrap_or("?") {
        "accept" => match body["spawn"]["name"].as_str() {
            Some(name) => format!("{kind} asked for{episode}  name {name}"),
            None => format!("{kind} asked for{episode}"),
        },
        "finish" => match record["err"].as_str() {
            Some(code) => format!("{kind} {}: {code} {}", word(&record["st"]), word(&body["message"])),
            None => format!("{kind} {}", word(&record["st"])),
        },
        "host" if body == "unopened" => format!("not started; its start is issued again{episode}"),
        "host" if body["adopted"].is_object() => format!("adopted by a new broker{episode}"),
        "host" if body["started"].is_object() => {
            format!("started{episode}  pid {}", body["started"]["command"]["pid"])
        }
        "session" if body["ended"].is_object() => ended(&body["ended"]) + &episode,
        "session" => match body.as_str() {
            Some("aborted") => format!("the start was aborted{episode}"),
            Some("deleting") => "its removal began".to_owned(),
            Some("forgotten") => "forgotten: it left the list".to_owned(),
            Some("removed") => "deleted: its files are gone".to_owned(),
            Some(other) => other.to_owned(),
            None => "changed".to_owned(),
        },
        "fence" => match body["fence"]["reason"].as_str() {
            Some(reason) => format!("fenced: {reason}"),
            None => "the fence was lifted".to_owned(),
        },
        other => other.to_owned(),
    }
}

/// How an episode ended: the status it left, and code, signal or what was lost.
fn ended(body: &Value) -> String {
    let (status, exit) = (body["status"].as_str().unwrap_or("ended"), &body["exit"]);
    let how = match (exit["code"].as_u64(), exit["signal"].as_str(), &exit["error"]) {
        (Some(code), _, _) => format!("code {code}"),
        (None, Some(signal), _) => format!("signal {signal}"),
        (None, None, error) => {
            let phase = error["phase"].as_str().unwrap_or("?");
            format!("{phase}: {}", error["reason"].as_str().unwrap_or("not known"))
        }
    };
    // What only says the same again is left out.
    let reason = body["reason"].as_str().filter(|reason| !reason.contains(&how));
    let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("ended: {status}  {how}{reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_tell_a_story() {
        for (record, expected) in [
            (
                json!({"t": "accept", "kind": "session.spawn", "ep": 1, "body": {"spawn": {"name": "web"}}}),
                "spawn asked for  episode 1  name web",
            ),
            (json!({"t": "accept", "kind": "session.stop", "ep": 1, "body": {"end": {}}}), "stop asked for  episode 1"),
            (json!({"t": "finish", "kind": "session.stop", "st": "succeeded"}), "stop succeeded"),
            (
                json!({"t": "finish", "kind": "session.resume", "st": "aborted", "err": "spawn_failed", "body": {"message": "m"}}),
                "resume aborted: spawn_failed m",
            ),
            (json!({"t": "host", "ep": 2, "body": {"started": {"command": {"pid": 7}}}}), "started  episode 2  pid 7"),
            (json!({"t": "host", "ep": 2, "body": {"adopted": {}}}), "adopted by a new broker  episode 2"),
            (json!({"t": "host", "ep": 2, "body": "unopened"}), "not started; its start is issued again  episode 2"),
            (
                json!({"t": "session", "ep": 1, "body": {"ended": {"status": "exited", "exit": {"code": 0}}}}),
                "ended: exited  code 0  episode 1",
            ),
            (
                json!({"t": "session", "body": {"ended": {"status": "stopped", "exit": {"signal": "SIGTERM"}}}}),
                "ended: stopped  signal SIGTERM",
            ),
            (
                json!({"t": "session", "body": {"ended": {"status": "failed", "reason": "r", "exit": {"error": {"phase": "host", "reason": "its host died"}}}}}),
                "ended: failed  host: its host died (r)",
            ),
            (
                json!({"t": "session", "body": {"ended": {"status": "failed", "reason": "exit code 3", "exit": {"code": 3}}}}),
                "ended: failed  code 3",
            ),
            (json!({"t": "session", "body": "removed"}), "deleted: its files are gone"),
            (json!({"t": "fence", "body": {"fence": {"reason": "doubt"}}}), "fenced: doubt"),
            (json!({"t": "fence", "body": {"fence": null}}), "the fence was lifted"),
            (json!({"t": "later"}), "later"),
        ] {
            assert_eq!(story(&record), expected);
        }
    }
}
