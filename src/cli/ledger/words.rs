//! What a record says, in a few words. Only those of the record itself: what follows from several is told by `explain`. A record of a kind
//! that is not known here is named by its type, so that a newer ledger can be looked at, too.

use serde_json::Value;

/// Of a record in the form of the contract.
pub(super) fn words(record: &Value) -> String {
    let body = &record["body"];
    match text(&record["t"]) {
        "accept" => accepted(record),
        "finish" => finished(record),
        "host" => host(record),
        "session" if body["ended"].is_object() => ended(&body["ended"]) + &episode(record),
        "session" => changed(record),
        "fence" => fence(body),
        "message" => mail(body),
        "queue" => format!("what waited was cancelled ({})", spoken(&body["closed"]["reason"])),
        "notice" => notice(record),
        "generation" => generation(body),
        "beat" => {
            format!("last seen: {}", counted(body["seen"].as_object().map_or(0, serde_json::Map::len), "session"))
        }
        "conflict" => format!(
            "refused: the key {} came with another request than that of {}",
            text(&body["key"]),
            text(&body["operation"])
        ),
        "operator" => format!(
            "an operator decided that {} {}: {}",
            text(&body["operation"]),
            text(&body["outcome"]),
            text(&body["reason"])
        ),
        "segment" => format!("segment {} begins", body["number"]),
        "gap" => format!("{} missing from record {} on ({})", body["missing"], body["first"], text(&body["class"])),
        "recovered" => {
            format!("{} bytes behind the last whole turn were set aside ({})", body["bytes"], text(&body["class"]))
        }
        "accepted" => {
            let count = counted(body["problems"].as_array().map_or(0, Vec::len), "finding");
            format!("an operator accepted {count} of verify: {}", text(&body["reason"]))
        }
        "seal" => format!("segment {} is sealed", body["number"]),
        "carry" if body.is_null() => "its chain goes on: earlier records are to be retired".to_owned(),
        "carry" => format!("what is known, stated again: part {} of {}", body["part"], body["of"]),
        "retire" => {
            let place = if body["kept"] == true { "to the archive" } else { "removed" };
            format!("records {} to {} were retired, {place}", body["first"], body["last"])
        }
        other => other.to_owned(),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// `1 session`, `2 sessions`.
pub(super) fn counted(count: usize, of: &str) -> String {
    if count == 1 { format!("1 {of}") } else { format!("{count} {of}s") }
}

fn episode(record: &Value) -> String {
    record["ep"].as_u64().map(|episode| format!("  episode {episode}")).unwrap_or_default()
}

/// A method's name without what it is about; of what is about messages, with it.
pub(super) fn verb(record: &Value) -> String {
    match text(&record["kind"]).trim_start_matches("session.") {
        "message.send" => "send".to_owned(),
        other => other.replace('.', " "),
    }
}

/// The id of the message that a request to send makes.
pub(super) fn message_of(record: &Value) -> Option<String> {
    let number = record["op"].as_str()?.strip_prefix("op-")?;
    (record["kind"] == "message.send").then(|| format!("msg-{number}"))
}

/// Who sent it: the word that a session reads as `from`.
pub(super) fn sender(accept: &Value) -> &str {
    accept["act"]["sid"].as_str().unwrap_or("owner")
}

/// A message as it was accepted: who wrote to whom, how long it is, and where in the queue it goes.
pub(super) fn letter(accept: &Value) -> String {
    let send = &accept["body"]["send"];
    let mode = send["mode"].as_str().unwrap_or("queue");
    let id = message_of(accept).unwrap_or_else(|| "a message".to_owned());
    format!("{id} from {} to {}, {} bytes, mode {mode}", sender(accept), text(&accept["sid"]), send["body"]["bytes"])
}

/// A word of the ledger as people write it.
fn spoken(word: &Value) -> String {
    text(word).replace('_', " ")
}

/// What became of a message.
fn mail(body: &Value) -> String {
    let (id, change) = (text(&body["message"]), &body["change"]);
    let (word, reason) = match (change.as_str(), change.as_object().and_then(|one| one.iter().next())) {
        (Some(word), _) => (word, None),
        (None, Some((word, detail))) => (word.as_str(), detail["reason"].as_str().map(|why| why.replace('_', " "))),
        (None, None) => ("changed", None),
    };
    let told = match word {
        "sending" => "is on its way to the program",
        "delivered" => "was delivered",
        "pulled" => "was delivered: its session pulled it",
        "acknowledged" => "was acknowledged by its session",
        "interrupt_sent" => "waits for the end of a session turn, which was interrupted for it",
        "returned" => "waits again",
        "uncertain" => "is uncertain: it may have been delivered, and nobody can tell",
        "cancelled" => "was cancelled",
        "expired" => "expired while it waited",
        "failed" => "failed",
        other => other,
    };
    let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{id} {told}{reason}")
}

/// What the broker tells a session.
fn notice(record: &Value) -> String {
    let body = &record["body"];
    let (kind, detail) =
        body.as_object().and_then(|one| one.iter().next()).map_or(("?", &Value::Null), |(k, v)| (k, v));
    let about = text(&detail["session"]);
    let told = match kind {
        "ended" => format!("session {about} ended ({}), episode {}", text(&detail["status"]), detail["episode"]),
        "reported" => format!("session {about} posted {}", text(&detail["report"])),
        "message" => format!("{} to {about} is {}", text(&detail["message"]), text(&detail["state"])),
        "queue" => format!("{} messages to {about} are not delivered", detail["count"]),
        other => other.to_owned(),
    };
    format!("msg-{} from the broker to {}: {told}", record["seq"], text(&record["sid"]))
}

fn operation(record: &Value) -> String {
    record["op"].as_str().map(|op| format!("  {op}")).unwrap_or_default()
}

fn accepted(record: &Value) -> String {
    if record["body"]["send"].is_object() {
        return format!("{}{}", letter(record), operation(record));
    }
    let name = record["body"]["spawn"]["name"].as_str().map(|name| format!("  name {name}")).unwrap_or_default();
    format!("{} asked for{}{name}{}{}", verb(record), episode(record), operation(record), why(record))
}

/// Why a stop was asked for, where somebody said so.
pub(super) fn why(record: &Value) -> String {
    let body = &record["body"];
    let reason = body["end"]["reason"].as_str().or(body["join_for"]["reason"].as_str());
    reason.map(|reason| format!(" ({reason})")).unwrap_or_default()
}

fn finished(record: &Value) -> String {
    let why = match record["err"].as_str() {
        Some(code) => format!(": {code} {}", text(&record["body"]["message"])),
        None => String::new(),
    };
    format!("{} {}{why}{}", verb(record), text(&record["st"]), operation(record))
}

fn host(record: &Value) -> String {
    let (body, episode) = (&record["body"], episode(record));
    if body["started"].is_object() {
        return format!("started{episode}  pid {}", body["started"]["command"]["pid"]);
    }
    if body["adopted"].is_object() {
        return format!("adopted by a new broker{episode}");
    }
    match body.as_str() {
        Some("unopened") => format!("not started; its start is issued again{episode}"),
        Some(other) => format!("{other}{episode}"),
        None => format!("word of its host{episode}"),
    }
}

/// How an episode ended: the status it left, and code, signal or what was lost.
fn ended(body: &Value) -> String {
    let how = exit(&body["exit"]);
    // What only says the same again is left out.
    let reason = body["reason"].as_str().filter(|reason| !reason.contains(&how));
    let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("ended: {}  {how}{reason}", body["status"].as_str().unwrap_or("ended"))
}

/// Code, signal, or the step that failed.
pub(super) fn exit(exit: &Value) -> String {
    match (exit["code"].as_u64(), exit["signal"].as_str(), &exit["error"]) {
        (Some(code), _, _) => format!("code {code}"),
        (None, Some(signal), _) => format!("signal {signal}"),
        (None, None, error) => {
            format!("{}: {}", text(&error["phase"]), error["reason"].as_str().unwrap_or("not known"))
        }
    }
}

fn changed(record: &Value) -> String {
    match record["body"].as_str() {
        Some("aborted") => format!("the start was aborted{}", episode(record)),
        Some("deleting") => "its removal began".to_owned(),
        Some("forgotten") => "forgotten: it left the list".to_owned(),
        Some("removed") => "deleted: its files are gone".to_owned(),
        Some("ready") => format!("it is ready{}", episode(record)),
        Some(other) => other.to_owned(),
        None => turned(record),
    }
}

/// A session turn that began or ended, a session that is to end because its turn did not or because it was not ready in time, or one that starts for a message.
fn turned(record: &Value) -> String {
    let body = &record["body"];
    let number = |turn: &Value| turn["turn"].as_u64().map(|number| format!("session turn {number}"));
    match (number(&body["turn_began"]), number(&body["turn_ended"])) {
        (Some(turn), _) => format!("{turn} runs{}", episode(record)),
        (None, Some(turn)) => format!("{turn} is over{}", episode(record)),
        (None, None) if body["overdue"].is_object() => {
            format!("it is stopped: its turn did not end when it was interrupted{}", episode(record))
        }
        (None, None) if body["unready"].is_object() => {
            format!("it is stopped: it was not ready in its time{}", episode(record))
        }
        (None, None) if body["woken"].is_object() => format!("started for a message{}", episode(record)),
        (None, None) => "changed".to_owned(),
    }
}

fn fence(body: &Value) -> String {
    match body["fence"]["reason"].as_str() {
        Some(reason) => format!("fenced: {reason}"),
        None => "the fence was lifted".to_owned(),
    }
}

fn generation(body: &Value) -> String {
    let dead = match (body["reclaimed"].is_object(), body["reclaimed"]["process"]["pid"].as_u64()) {
        (false, _) => String::new(),
        (true, None) => ", after one that did not leave in order".to_owned(),
        (true, Some(pid)) => format!(", after pid {pid}, which did not leave in order"),
    };
    format!("broker {}: pid {}, version {}{dead}", body["number"], body["process"]["pid"], text(&body["version"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stop_says_why() {
        for body in [json!({"end": {"reason": "too slow"}}), json!({"join_for": {"reason": "too slow"}})] {
            let record = json!({"t": "accept", "kind": "session.stop", "ep": 1, "body": body});
            assert_eq!(words(&record), "stop asked for  episode 1 (too slow)");
        }
    }

    #[test]
    fn records_say_what_they_are() {
        let process = json!({"pid": 7});
        for (record, expected) in [
            (
                json!({"t": "accept", "kind": "session.spawn", "ep": 1, "op": "op-4", "body": {"spawn": {"name": "web"}}}),
                "spawn asked for  episode 1  name web  op-4",
            ),
            (json!({"t": "accept", "kind": "session.stop", "ep": 1, "body": {"end": {}}}), "stop asked for  episode 1"),
            (json!({"t": "finish", "kind": "session.stop", "op": "op-5", "st": "succeeded"}), "stop succeeded  op-5"),
            (
                json!({"t": "finish", "kind": "session.resume", "st": "aborted", "err": "spawn_failed", "body": {"message": "m"}}),
                "resume aborted: spawn_failed m",
            ),
            (json!({"t": "host", "ep": 2, "body": {"started": {"command": process}}}), "started  episode 2  pid 7"),
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
            (
                json!({"t": "generation", "body": {"number": 2, "process": process, "version": "1.0"}}),
                "broker 2: pid 7, version 1.0",
            ),
            (
                json!({"t": "generation", "body": {"number": 2, "process": process, "version": "1.0", "reclaimed": {"record": "x", "process": {"pid": 5}}}}),
                "broker 2: pid 7, version 1.0, after pid 5, which did not leave in order",
            ),
            (
                json!({"t": "generation", "body": {"number": 2, "process": process, "version": "1.0", "reclaimed": {"record": "x"}}}),
                "broker 2: pid 7, version 1.0, after one that did not leave in order",
            ),
            (json!({"t": "beat", "body": {"seen": {"a": 1}}}), "last seen: 1 session"),
            (
                json!({"t": "conflict", "body": {"key": "k", "operation": "op-4"}}),
                "refused: the key k came with another request than that of op-4",
            ),
            (
                json!({"t": "operator", "body": {"operation": "op-4", "outcome": "failed", "reason": "seen dead"}}),
                "an operator decided that op-4 failed: seen dead",
            ),
            (json!({"t": "segment", "body": {"number": 3}}), "segment 3 begins"),
            (
                json!({"t": "gap", "body": {"missing": 2, "first": 9, "class": "damage"}}),
                "2 missing from record 9 on (damage)",
            ),
            (
                json!({"t": "recovered", "body": {"bytes": 40, "class": "torn_tail"}}),
                "40 bytes behind the last whole turn were set aside (torn_tail)",
            ),
            (json!({"t": "later"}), "later"),
            (json!({}), "?"),
        ] {
            assert_eq!(words(&record), expected);
        }
    }

    #[test]
    fn records_of_messages_say_who_wrote_to_whom_and_what_became_of_it() {
        let change =
            |change: serde_json::Value| json!({"t": "message", "body": {"message": "msg-7", "change": change}});
        let session = |body: serde_json::Value| json!({"t": "session", "ep": 2, "body": body});
        let send = json!({
            "t": "accept", "kind": "message.send", "sid": "s2", "op": "op-7", "act": {"sid": "s1"}, "body": {"send": {"body": {"bytes": 5}}}
        });
        for (record, expected) in [
            (send, "msg-7 from s1 to s2, 5 bytes, mode queue  op-7"),
            (
                json!({"t": "notice", "seq": 9, "sid": "s1", "body": {"ended": {"session": "s2", "status": "failed", "episode": 1}}}),
                "msg-9 from the broker to s1: session s2 ended (failed), episode 1",
            ),
            (
                json!({"t": "notice", "seq": 9, "sid": "s1", "body": {"queue": {"session": "s2", "reason": "r", "count": 3}}}),
                "msg-9 from the broker to s1: 3 messages to s2 are not delivered",
            ),
            (
                json!({"t": "accept", "kind": "message.send", "sid": "s2", "op": "op-7", "body": {"send": {"mode": "interrupt", "body": {"bytes": 1}}}}),
                "msg-7 from owner to s2, 1 bytes, mode interrupt  op-7",
            ),
            (json!({"t": "finish", "kind": "message.send", "op": "op-7", "st": "succeeded"}), "send succeeded  op-7"),
            (json!({"t": "accept", "kind": "message.cancel", "op": "op-8"}), "message cancel asked for  op-8"),
            (change(json!("sending")), "msg-7 is on its way to the program"),
            (change(json!({"delivered": {"at_us": 1}})), "msg-7 was delivered"),
            (change(json!("pulled")), "msg-7 was delivered: its session pulled it"),
            (change(json!("acknowledged")), "msg-7 was acknowledged by its session"),
            (change(json!({"returned": {"reason": "not_taken"}})), "msg-7 waits again (not taken)"),
            (
                change(json!({"uncertain": {"reason": "host_died"}})),
                "msg-7 is uncertain: it may have been delivered, and nobody can tell (host died)",
            ),
            (change(json!({"cancelled": {"reason": "withdrawn"}})), "msg-7 was cancelled (withdrawn)"),
            (change(json!("expired")), "msg-7 expired while it waited"),
            (
                change(json!("interrupt_sent")),
                "msg-7 waits for the end of a session turn, which was interrupted for it",
            ),
            (session(json!({"turn_began": {"turn": 8}})), "session turn 8 runs  episode 2"),
            (session(json!({"turn_ended": {"turn": 8}})), "session turn 8 is over  episode 2"),
            (
                session(json!({"overdue": {"grace_ms": 1, "deadline_boot_us": 1}})),
                "it is stopped: its turn did not end when it was interrupted  episode 2",
            ),
            (session(json!({"woken": {"deadline_boot_us": 1}})), "started for a message  episode 2"),
            (session(json!("ready")), "it is ready  episode 2"),
            (
                session(json!({"unready": {"grace_ms": 1, "deadline_boot_us": 1}})),
                "it is stopped: it was not ready in its time  episode 2",
            ),
            (change(json!({"failed": {"reason": "given_up"}})), "msg-7 failed (given up)"),
            (json!({"t": "queue", "body": {"closed": {"reason": "ended"}}}), "what waited was cancelled (ended)"),
        ] {
            assert_eq!(words(&record), expected);
        }
    }

    #[test]
    fn records_of_the_ledger_s_own_say_what_they_are() {
        for (record, expected) in [
            (
                json!({"t": "accepted", "body": {"problems": [{}], "reason": "a new disk"}}),
                "an operator accepted 1 finding of verify: a new disk",
            ),
            (json!({"t": "seal", "body": {"number": 3}}), "segment 3 is sealed"),
        ] {
            assert_eq!(words(&record), expected);
        }
    }
}
