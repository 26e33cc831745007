//! The steps of an operation in whole sentences, what a retry gets, and what to type next.

use serde_json::Value;

use super::super::super::duration;
use super::super::super::text::shell_str;
use super::super::words::{self, counted, exit, verb};
use super::story::Story;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

fn millis(ms: u64) -> String {
    duration::show(std::time::Duration::from_millis(ms))
}

/// What was accepted.
pub(super) fn accepted(record: &Value) -> String {
    let (body, episode) = (&record["body"], &record["ep"]);
    let within = |plan: &Value| {
        let left = plan["deadline_boot_us"].as_u64().zip(record["mono"].as_u64());
        let left = left.map(|(deadline, now)| deadline.saturating_sub(now) / 1_000_000);
        left.map(|seconds| format!(", to be started within {seconds}s")).unwrap_or_default()
    };
    let plan = if let Some(plan) = body.get("spawn") {
        let name = plan["name"].as_str().map(|name| format!(" named {name}")).unwrap_or_default();
        let source = plan["source"].as_str().map(|source| format!(", a copy of {source}")).unwrap_or_default();
        format!("a new session{name}{source}, its episode {episode}{}", within(plan))
    } else if body.get("send").is_some() {
        words::letter(record)
    } else if let Some(plan) = body.get("launch") {
        format!("episode {episode}{}", within(plan))
    } else if let Some(plan) = body.get("end") {
        let then = if plan["delete"] == true { ", then its files are removed" } else { "" };
        let grace = millis(plan["grace_ms"].as_u64().unwrap_or_default());
        format!("TERM now, KILL after {grace}{then}{}", words::why(record))
    } else if body.get("join_for").is_some() {
        format!("what it asks for is under way already; it waits for that{}", words::why(record))
    } else if let Some(plan) = body.get("prune") {
        format!(
            "sessions that ended more than {} ago are forgotten",
            millis(plan["older_ms"].as_u64().unwrap_or_default())
        )
    } else {
        match body.as_str() {
            Some("join") => "what it asks for is under way already; it waits for that".to_owned(),
            Some("nothing") => "nothing is left to do".to_owned(),
            Some("remove") => "the session's files are removed".to_owned(),
            Some(other) => other.to_owned(),
            None => return "accepted".to_owned(),
        }
    };
    format!("accepted: {plan}")
}

/// What a later record adds to the story of `op`; the story so far was written by broker `generation`.
pub(super) fn words(record: &Value, op: &str, generation: u64) -> String {
    let body = &record["body"];
    match text(&record["t"]) {
        "finish" if record["op"] == op => finished(record),
        "accept" => format!("meanwhile: {}", words::words(record)),
        "finish" => format!("meanwhile: {}", words::words(record)),
        "host" if body["started"].is_object() => format!(
            "its host (pid {}) started the command (pid {})",
            body["started"]["host"]["pid"], body["started"]["command"]["pid"]
        ),
        "host" if body["adopted"].is_object() => {
            format!("its host (pid {}) was found alive by broker {}", body["adopted"]["host"]["pid"], record["bg"])
        }
        "host" if body == "unopened" => "nothing had run yet; the start was issued again".to_owned(),
        "session" if body["ended"].is_object() => {
            let (ended, reason) = (&body["ended"], &body["ended"]["reason"]);
            let how = exit(&ended["exit"]);
            let reason = reason.as_str().filter(|reason| !reason.contains(&how));
            let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
            format!("the process ended: {how}{reason}; the session is {}", text(&ended["status"]))
        }
        "session" if body == "aborted" => "the start was given up: nothing had run".to_owned(),
        "session" if body == "removed" => "the session's files are gone".to_owned(),
        "conflict" => format!(
            "refused: its key came with another request (digest {}...); nothing was done for that one",
            text(&body["given"]).chars().take(16).collect::<String>()
        ),
        "operator" => format!(
            "decided by uid {} (pid {}): it {}, because: {}",
            record["act"]["uid"],
            record["act"]["pid"],
            text(&body["outcome"]),
            text(&body["reason"])
        ),
        "fence" => match body["fence"]["reason"].as_str() {
            Some(reason) => format!("the session was fenced: {reason}"),
            None => "the fence was lifted: what became of the session is known again".to_owned(),
        },
        "generation" if record["bg"].as_u64().is_some_and(|new| new > generation) => {
            format!("broker {generation} was gone; {}", words::words(record))
        }
        _ => words::words(record),
    }
}

fn finished(record: &Value) -> String {
    let (gained, error) = (&record["res"], &record["body"]);
    let why = || format!("{} ({})", text(&error["message"]), text(&record["err"]));
    match text(&record["st"]) {
        "succeeded" => {
            let mut said = vec!["succeeded".to_owned()];
            match verb(record).as_str() {
                "spawn" | "resume" if gained["pid"].is_u64() => {
                    said.push(format!("episode {} runs as pid {}", gained["episode"], gained["pid"]));
                }
                "stop" | "delete" if gained["exit"].is_object() => {
                    said.push(format!("it ended with {}", exit(&gained["exit"])))
                }
                "prune" => {
                    let pruned = gained["pruned"].as_array().map_or(0, Vec::len);
                    said.push(format!("{} forgotten", counted(pruned, "session")));
                }
                _ => {}
            }
            let survivors = gained["survivors"].as_array().into_iter().flatten();
            said.extend(survivors.map(|left| format!("pid {} ({}) outlived it", left["pid"], text(&left["command"]))));
            said.join("; ")
        }
        "failed" => format!("failed: {}", why()),
        "aborted" => format!("aborted, proven to have had no effect: {}", why()),
        "uncertain" => format!("uncertain: {}", why()),
        other => other.to_owned(),
    }
}

/// What the same request gets under the same key now.
pub(super) fn replay(story: &Story) -> &'static str {
    let is_start = matches!(story.text("kind"), "session.spawn" | "session.fork" | "session.resume");
    match story.state.as_str() {
        "succeeded" if is_start => {
            "the same request under this key gets this outcome as long as its episode runs, then endpoint_stale; it starts nothing \
             again. Retries leave no record"
        }
        "succeeded" if story.mail.is_some() => {
            "the same request under this key gets this message, with what became of it, and sends nothing again. Retries leave no record"
        }
        "succeeded" => {
            "the same request under this key gets this outcome and does nothing again. Retries leave no record"
        }
        "failed" => "the same request under this key gets the same error and does nothing; a new key is a new attempt",
        "aborted" => "the key is free: the same request under it is a new attempt",
        "uncertain" => "the same request under this key is answered as uncertain and does nothing until it is settled",
        _ => "the same request under this key waits for its outcome and does nothing again",
    }
}

/// What to type next, where something is left to do.
pub(super) fn next(story: &Story) -> Option<String> {
    let op = story.text("op");
    if let Some(message) = story.mail.as_ref().filter(|mail| mail.is_uncertain).map(|mail| mail.id.as_str()) {
        return Some(format!("ostler message resolve {message} retry|give-up"));
    }
    match story.state.as_str() {
        "uncertain" => Some(format!(
            "ostler reconcile {}; if that cannot tell and you know what happened: ostler operation resolve {op} succeeded|failed --reason TEXT",
            shell_str(story.text("sid"))
        )),
        "accepted" => {
            Some(format!("ostler operation show {op}: a broker settles it, and is started by that if none runs"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plans_are_told_in_sentences() {
        let of = |body: Value| accepted(&json!({"ep": 2, "mono": 1_000_000, "body": body}));
        assert_eq!(
            of(json!({"spawn": {"name": "web", "deadline_boot_us": 31_000_000}})),
            "accepted: a new session named web, its episode 2, to be started within 30s"
        );
        assert_eq!(
            of(json!({"launch": {"deadline_boot_us": 31_000_000}})),
            "accepted: episode 2, to be started within 30s"
        );
        assert_eq!(of(json!({"end": {"grace_ms": 10_000, "delete": false}})), "accepted: TERM now, KILL after 10s");
        assert!(of(json!({"end": {"grace_ms": 1, "delete": true}})).ends_with("then its files are removed"));
        assert!(of(json!({"end": {"grace_ms": 1, "delete": false, "reason": "r"}})).ends_with("KILL after 1ms (r)"));
        assert!(of(json!({"join_for": {"reason": "r"}})).ends_with("it waits for that (r)"));
        assert_eq!(
            of(json!({"prune": {"older_ms": 3_600_000}})),
            "accepted: sessions that ended more than 1h ago are forgotten"
        );
        assert!(of(json!("join")).contains("under way already"));
        assert!(of(json!("nothing")).contains("nothing is left"));
        assert_eq!(of(Value::Null), "accepted");
    }

    #[test]
    fn outcomes_are_told_with_what_they_gained() {
        let of = |kind: &str, st: &str, res: Value, body: Value| {
            let err = body["code"].clone();
            words(
                &json!({"t": "finish", "op": "op-1", "kind": kind, "st": st, "res": res, "body": body, "err": err}),
                "op-1",
                1,
            )
        };
        assert_eq!(
            of("session.spawn", "succeeded", json!({"episode": 1, "pid": 7}), Value::Null),
            "succeeded; episode 1 runs as pid 7"
        );
        assert_eq!(
            of(
                "session.stop",
                "succeeded",
                json!({"exit": {"code": 3}, "survivors": [{"pid": 9, "command": "x"}]}),
                Value::Null
            ),
            "succeeded; it ended with code 3; pid 9 (x) outlived it"
        );
        assert_eq!(
            of("session.prune", "succeeded", json!({"pruned": ["a"]}), Value::Null),
            "succeeded; 1 session forgotten"
        );
        let error = json!({"code": "spawn_failed", "message": "m"});
        assert_eq!(of("session.spawn", "failed", json!({}), error.clone()), "failed: m (spawn_failed)");
        assert_eq!(
            of("session.spawn", "aborted", json!({}), error),
            "aborted, proven to have had no effect: m (spawn_failed)"
        );
    }
}
