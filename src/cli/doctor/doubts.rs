//! Sessions and operations of which nobody knows what became of them, each with what to type; and hosts that no record knows. A broker is
//! asked; where none answers the ledger's records tell, which are read and not folded.

use std::collections::{BTreeMap, BTreeSet};

use ostler_ledger::Records;
use ostler_ledger::storage::Disk;
use serde_json::Value;

use super::Check;
use crate::cli::context::Context;
use crate::cli::frozen::{self, Frozen};
use crate::cli::{status, text};
use crate::host::client::gather;
use crate::host::files;
use crate::os::paths::StateRoot;
use crate::rpc::error::WireError;
use crate::rpc::method::Method;
use crate::rpc::wire::{
    BrokerStatusResult, ListParams, ListResult, OperationListParams, OperationListResult, OperationState, RunState,
};

/// Most of each kind that are named.
const NAMED_MAX: usize = 20;
/// Entries of a page.
const PAGE: u32 = 1_000;
/// Most folders of sessions that are looked into.
const FOLDERS_MAX: usize = 2_000;

/// What is known of the sessions.
#[derive(Debug, Default)]
struct Known {
    /// All of them.
    ids: BTreeSet<String>,
    /// The fenced ones, and why.
    fenced: BTreeMap<String, String>,
    /// Those whose host has not answered this broker.
    silent: BTreeSet<String>,
    /// Those of which a process is stopped.
    frozen: BTreeMap<String, Frozen>,
    /// How many messages to each are uncertain.
    mail: BTreeMap<String, u64>,
    /// The same by message and session, as records are read.
    doubted: BTreeSet<(String, String)>,
    /// Uncertain operations, with the session that each is about.
    uncertain: BTreeMap<String, Option<String>>,
}

pub(super) fn check(root: &StateRoot, status: Option<&BrokerStatusResult>, context: &Context) -> Vec<Check> {
    const CHECK: &str = "sessions";
    let is_running = status.is_some_and(|status| status.state == RunState::Running);
    let known = if is_running { asked(root, context).map_err(|error| error.message) } else { read(root) };
    match known {
        Ok(known) => {
            let mut checks = in_doubt(&known);
            checks.push(unknown_hosts(root, &known));
            checks
        }
        Err(why) => vec![Check::skip(CHECK, why)],
    }
}

fn in_doubt(known: &Known) -> Vec<Check> {
    const CHECK: &str = "sessions";
    let reconcile = |id: &str| format!("ostler reconcile {}", text::shell_str(id));
    let fenced = known.fenced.iter().map(|(id, why)| (format!("{id} is fenced: {why}"), reconcile(id)));
    let frozen = known.frozen.iter().map(|(id, frozen)| (format!("{id}: {}", frozen.says()), frozen.remedy()));
    let is_told = |id: &&String| known.fenced.contains_key(*id) || known.frozen.contains_key(*id);
    let silent = known.silent.iter().filter(|id| !is_told(id));
    let silent = silent.map(|id| (format!("{id}: its host has not answered this broker"), reconcile(id)));
    let uncertain = known.uncertain.iter().map(|(op, session)| match session {
        Some(id) if known.ids.contains(id) => (format!("{op} of {id} is uncertain"), reconcile(id)),
        Some(_) | None => {
            let remedy = format!("ostler operation resolve {op} succeeded|failed --reason TEXT");
            (format!("{op} is uncertain, and its session is gone"), remedy)
        }
    });
    let mail = known.mail.iter().map(|(id, count)| {
        let remedy = format!("ostler message list {id}, then ostler message resolve MSG retry|give-up");
        (format!("{id}: {count} messages are uncertain: nobody can tell whether it has them"), remedy)
    });
    let all: Vec<(String, String)> = frozen.chain(fenced).chain(silent).chain(uncertain).chain(mail).collect();
    if all.is_empty() {
        return vec![Check::ok(CHECK, format!("{} sessions, none in doubt", known.ids.len()))];
    }
    let more = all.len().saturating_sub(NAMED_MAX);
    let mut checks: Vec<Check> =
        all.into_iter().take(NAMED_MAX).map(|(evidence, remedy)| Check::warn(CHECK, evidence, remedy)).collect();
    if more > 0 {
        checks.push(Check::warn(CHECK, format!("and {more} more in doubt"), "settle these, then ostler doctor again"));
    }
    checks
}

/// As the broker has it.
fn asked(root: &StateRoot, context: &Context) -> Result<Known, WireError> {
    let deadline = context.bounded(status::ANSWER_WITHIN);
    let mut known = Known::default();
    let mut cursor = None;
    loop {
        let params = ListParams { all: true, limit: Some(PAGE), cursor, ..ListParams::default() };
        let page: ListResult = context.ask(root, Method::SessionList, &params, deadline)?;
        for session in page.sessions {
            if session.reason.as_deref() == Some("liveness unknown") {
                known.silent.insert(session.id.clone());
            }
            known.frozen.extend(frozen::of(root.path(), &session).map(|frozen| (session.id.clone(), frozen)));
            if session.queue.uncertain > 0 {
                known.mail.insert(session.id.clone(), session.queue.uncertain);
            }
            known.fenced.extend(session.fence.map(|fence| (session.id.clone(), fence.reason)));
            known.ids.insert(session.id);
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    loop {
        let params = OperationListParams { limit: Some(PAGE), cursor, session: None };
        let page: OperationListResult = context.ask(root, Method::OperationList, &params, deadline)?;
        let uncertain = page.operations.into_iter().filter(|one| one.state == OperationState::Uncertain);
        known.uncertain.extend(uncertain.map(|one| (one.id, one.session_id)));
        cursor = page.next;
        if cursor.is_none() {
            return Ok(known);
        }
    }
}

/// As the records say. They are read one by one, whatever became of what stands between them.
fn read(root: &StateRoot) -> Result<Known, String> {
    let folder = root.path().join("ledger");
    if !folder.is_dir() {
        return Ok(Known::default());
    }
    let storage = Disk::reading(&folder);
    let mut known = Known::default();
    for (index, record) in Records::new(&storage).enumerate() {
        let record = record.map_err(|error| format!("the ledger cannot be read: {error}"))?;
        if index == 0 && record.header.seq != 1 {
            return Err("the ledger's beginning was retired: only a broker knows all sessions".to_owned());
        }
        if let Ok(record) = serde_json::from_str(record.raw()) {
            known.hear(&record);
        }
    }
    for id in known.ids.iter().take(FOLDERS_MAX) {
        let last = episodes(root, id).into_iter().max();
        let frozen = last.and_then(|episode| frozen::of_episode(root.path(), id, episode));
        known.frozen.extend(frozen.map(|frozen| (id.clone(), frozen)));
    }
    for (_, session) in &known.doubted {
        *known.mail.entry(session.clone()).or_default() += 1;
    }
    Ok(known)
}

impl Known {
    fn hear(&mut self, record: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (session, operation, body) = (text(&record["sid"]), text(&record["op"]), &record["body"]);
        match record["t"].as_str().unwrap_or_default() {
            "accept" if body["spawn"].is_object() => {
                self.ids.insert(session);
            }
            "finish" if record["st"] == "uncertain" => {
                self.uncertain.insert(operation, (!session.is_empty()).then_some(session));
            }
            "finish" => {
                self.uncertain.remove(&operation);
            }
            "operator" => {
                self.uncertain.remove(&text(&body["operation"]));
            }
            "fence" if body["fence"].is_object() => {
                self.fenced.insert(session, text(&body["fence"]["reason"]));
            }
            "fence" => {
                self.fenced.remove(&session);
            }
            "session" if *body == "removed" => {
                self.ids.remove(&session);
                self.fenced.remove(&session);
                self.doubted.retain(|(_, of)| *of != session);
            }
            "message" if body["change"]["uncertain"].is_object() => {
                self.doubted.insert((text(&body["message"]), session));
            }
            "message" => {
                self.doubted.remove(&(text(&body["message"]), session));
            }
            _ => {}
        }
    }
}

/// Hosts at work in folders that no record knows: records were lost, and what runs there runs unmanaged.
fn unknown_hosts(root: &StateRoot, known: &Known) -> Check {
    const CHECK: &str = "hosts";
    let folders = match root.folder().look("sessions") {
        Ok(None) => Ok(Vec::new()),
        Ok(Some(_)) => root.folder().open_folder("sessions").and_then(|sessions| sessions.names()),
        Err(error) => Err(error),
    };
    let folders = match folders {
        Ok(folders) => folders,
        Err(error) => return Check::skip(CHECK, error.to_string()),
    };
    let is_unknown = |id: &&String| files::is_session_id(id) && !known.ids.contains(*id);
    let unknown: Vec<&String> = folders.iter().filter(is_unknown).take(FOLDERS_MAX).collect();
    let hosts: Vec<&str> = unknown.into_iter().map(String::as_str).filter(|id| has_host(root, id)).collect();
    if hosts.is_empty() {
        return Check::ok(CHECK, "every host that runs here is of a session that is known");
    }
    let named = hosts.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    let remedy = "put the ledger back, or end them by hand: the pid stands in sessions/ID/EPISODE/host.json";
    Check::fail(CHECK, format!("{} hosts run of sessions that no record knows: {named}", hosts.len()), remedy)
}

fn has_host(root: &StateRoot, session: &str) -> bool {
    let mut episodes = episodes(root, session).into_iter();
    episodes.any(|episode| gather(root.path(), session, episode).is_ok_and(|evidence| evidence.has_host()))
}

/// The episodes of which there are folders.
fn episodes(root: &StateRoot, session: &str) -> Vec<u32> {
    let episodes = root.folder().open_folder("sessions").and_then(|sessions| sessions.open_folder(session));
    let names = episodes.and_then(|folder| folder.names()).unwrap_or_default();
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_records_tell_who_is_in_doubt() {
        let mut known = Known::default();
        for record in [
            json!({"t": "accept", "sid": "a", "op": "op-2", "body": {"spawn": {}}}),
            json!({"t": "accept", "sid": "b", "op": "op-3", "body": {"spawn": {}}}),
            json!({"t": "fence", "sid": "a", "body": {"fence": {"reason": "in doubt"}}}),
            json!({"t": "finish", "sid": "a", "op": "op-2", "st": "uncertain"}),
            json!({"t": "fence", "sid": "b", "body": {"fence": {"reason": "in doubt"}}}),
            json!({"t": "finish", "sid": "b", "op": "op-3", "st": "uncertain"}),
            json!({"t": "finish", "op": "op-4", "st": "uncertain"}),
        ] {
            known.hear(&record);
        }
        let told = |known: &Known| -> Vec<String> {
            in_doubt(known).into_iter().map(|check| check.remedy.unwrap_or(check.evidence)).collect()
        };
        assert_eq!(
            told(&known),
            [
                "ostler reconcile a",
                "ostler reconcile b",
                "ostler reconcile a",
                "ostler reconcile b",
                "ostler operation resolve op-4 succeeded|failed --reason TEXT"
            ]
        );
        for record in [
            json!({"t": "fence", "sid": "a", "body": {"fence": null}}),
            json!({"t": "finish", "sid": "a", "op": "op-2", "st": "succeeded"}),
            json!({"t": "session", "sid": "b", "body": "removed"}),
            json!({"t": "operator", "body": {"operation": "op-3"}}),
            json!({"t": "operator", "body": {"operation": "op-4"}}),
        ] {
            known.hear(&record);
        }
        assert_eq!(told(&known), ["1 sessions, none in doubt"]);
    }

    #[test]
    fn only_so_many_are_named() {
        let fenced = (0..25).map(|n| (format!("s{n:02}"), "in doubt".to_owned())).collect();
        let checks = in_doubt(&Known { fenced, ..Known::default() });
        assert_eq!(checks.len(), NAMED_MAX + 1);
        assert_eq!(checks.last().unwrap().evidence, "and 5 more in doubt");
    }
}
