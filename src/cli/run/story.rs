//! Who ended an episode, and how it ended, as the ledger tells: it knows also where no broker answers and where the session is deleted.

use std::path::Path;

use ostler_ledger::Records;
use ostler_ledger::storage::Disk;
use serde_json::Value;

use super::super::ledger::record;
use crate::broker::asked::shutdown_key;
use crate::rpc::wire::{Exit, Session};

/// What the records say of one episode.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Story {
    /// The first request to end it.
    end: Option<Asked>,
    /// The first request to delete the session.
    removal: Option<Asked>,
    /// How it ended.
    pub(super) exit: Option<Exit>,
}

/// Who asked for something.
#[derive(Debug, PartialEq)]
struct Asked {
    operation: String,
    pid: u64,
    uid: u64,
    session: Option<String>,
    /// It is part of a shutdown of the broker.
    shutdown: bool,
}

/// Reads it. None if the ledger cannot be read: it is evidence beside the host's, and its absence takes nothing from that.
pub(super) fn read(root: &Path, session: &Session) -> Option<Story> {
    let storage = Disk::reading(root.join("ledger"));
    let mut story = Story::default();
    for found in Records::new(&storage) {
        let found = found.ok()?;
        if found.header.sid.as_deref() == Some(&*session.id) {
            story.hear(&record::document(&found), session.episode);
        }
    }
    Some(story)
}

impl Story {
    fn hear(&mut self, record: &Value, episode: u32) {
        let (kind, body) = (record["kind"].as_str().unwrap_or_default(), &record["body"]);
        let is_ours = record["ep"] == episode;
        match record["t"].as_str() {
            Some("accept") if body["end"].is_object() && is_ours => {
                let asked = || Asked::of(record);
                self.end.get_or_insert_with(asked);
                if body["end"]["delete"] == true {
                    self.removal.get_or_insert_with(asked);
                }
            }
            Some("accept") if kind == "session.delete" => {
                self.removal.get_or_insert_with(|| Asked::of(record));
            }
            Some("session") if body["ended"].is_object() && is_ours => {
                self.exit = serde_json::from_value(body["ended"]["exit"].clone()).ok();
            }
            _ => {}
        }
    }

    /// What somebody else than process `own` did, as the rest of "it was ...".
    pub(super) fn by_another(&self, own: u32) -> Option<String> {
        let by_other = |asked: &&Asked| asked.pid != u64::from(own);
        let (end, removal) = (self.end.as_ref().filter(by_other), self.removal.as_ref().filter(by_other));
        match (end, removal) {
            (Some(end), Some(removal)) if end == removal => Some(format!("stopped and deleted by {}", end.who())),
            (Some(end), Some(removal)) => Some(format!("stopped by {} and deleted by {}", end.who(), removal.who())),
            (Some(end), None) => Some(format!("stopped by {}", end.who())),
            (None, Some(removal)) => Some(format!("deleted by {}", removal.who())),
            (None, None) => None,
        }
    }
}

impl Asked {
    fn of(record: &Value) -> Asked {
        let number = |member: &str| record["act"][member].as_u64().unwrap_or_default();
        let by_shutdown =
            shutdown_key(record["bg"].as_u64().unwrap_or_default(), record["sid"].as_str().unwrap_or("?"));
        Asked {
            operation: record["op"].as_str().unwrap_or("?").to_owned(),
            pid: number("pid"),
            uid: number("uid"),
            session: record["act"]["sid"].as_str().map(str::to_owned),
            shutdown: record["key"] == by_shutdown,
        }
    }

    fn who(&self) -> String {
        let Asked { operation, pid, uid, .. } = self;
        match &self.session {
            Some(session) => format!("session {session} (process {pid}, {operation})"),
            None if self.shutdown => {
                format!("the broker (process {pid}, {operation}): it was shut down with its sessions")
            }
            None => format!("process {pid} of uid {uid} ({operation})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(records: &[Value], episode: u32) -> Story {
        let mut story = Story::default();
        records.iter().for_each(|record| story.hear(record, episode));
        story
    }

    fn accept(op: u64, episode: u32, kind: &str, body: Value) -> Value {
        json!({"t": "accept", "sid": "abc", "ep": episode, "op": format!("op-{op}"), "kind": kind, "bg": 3, "key": "k",
               "act": {"uid": 1, "pid": 40 + op}, "body": body})
    }

    #[test]
    fn the_first_who_asked_for_the_end_of_this_episode_is_named() {
        let end = |delete: bool| json!({"end": {"grace_ms": 1, "delete": delete}});
        let spawn = accept(1, 1, "session.spawn", json!({"spawn": {}}));
        let said = |records: &[Value]| told(records, 1).by_another(1).unwrap_or_default();
        assert_eq!(said(std::slice::from_ref(&spawn)), "");
        let stop = accept(2, 1, "session.stop", end(false));
        assert_eq!(said(&[spawn.clone(), stop.clone()]), "stopped by process 42 of uid 1 (op-2)");
        assert_eq!(
            said(&[stop.clone(), accept(3, 1, "session.stop", json!("join"))]),
            said(std::slice::from_ref(&stop))
        );
        let remove = accept(4, 1, "session.delete", json!("remove"));
        assert!(said(&[stop.clone(), remove.clone()]).ends_with("deleted by process 44 of uid 1 (op-4)"));
        assert_eq!(said(&[remove]), "deleted by process 44 of uid 1 (op-4)");
        let both = accept(5, 1, "session.delete", end(true));
        assert_eq!(said(&[both]), "stopped and deleted by process 45 of uid 1 (op-5)");
        // What `run` asked for itself needs no telling; what concerns another episode is another story.
        assert_eq!(told(std::slice::from_ref(&stop), 1).by_another(42), None);
        assert_eq!(told(&[stop], 2), Story::default());
    }

    #[test]
    fn a_shutdown_and_a_session_are_named_as_such_and_the_exit_is_read() {
        let mut stop = accept(2, 1, "session.stop", json!({"end": {"grace_ms": 1, "delete": false}}));
        stop["key"] = json!("shutdown-3-abc");
        assert!(told(&[stop.clone()], 1).by_another(1).unwrap().contains("shut down with its sessions"));
        stop["act"]["sid"] = json!("parent");
        assert!(told(&[stop], 1).by_another(1).unwrap().contains("by session parent"));
        let ended =
            json!({"t": "session", "ep": 1, "body": {"ended": {"status": "stopped", "exit": {"signal": "SIGTERM"}}}});
        assert_eq!(told(&[ended], 1).exit, Some(Exit::Signal("SIGTERM".to_owned())));
    }
}
