//! The ledger read by a stranger: plain JSON, no type of the machine. What it says must fit what really ran.

use super::clients::Intent;
use super::computer::{Computer, Run};
use super::forgetting::{Shelf, may_be_forgotten};
use super::trace::{Broken, Checked, claim};
use ostler::machine::limits::Retention;
use ostler::machine::{OperationId, Scope, SessionId};
use ostler_ledger::storage::{Folder, Name, SimulatedDisk};
use ostler_ledger::{Records, VerifyOptions, verify};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// An operation, as the ledger tells it.
#[derive(Debug)]
struct Story {
    key: (Option<String>, String),
    digest: String,
    kind: String,
    /// The episode that it was to start.
    starts: Option<Run>,
    /// The episode that its message wakes.
    wakes: Option<Run>,
    outcomes: Vec<String>,
}

/// A second disk with what any reader sees of the first: looking at it disturbs no process and counts as no call.
pub(super) fn copy(disk: &SimulatedDisk) -> SimulatedDisk {
    let copy = SimulatedDisk::new();
    for folder in [Folder::Ledger, Folder::Quarantine] {
        for file in disk.names(folder) {
            let name = Name { folder, file: &file };
            copy.tamper(name, &disk.contents(name).unwrap_or_default());
        }
    }
    copy
}

/// The same with the archive put back: the whole history, as if nothing had ever been retired.
pub(super) fn whole(disk: &SimulatedDisk) -> SimulatedDisk {
    let whole = SimulatedDisk::new();
    for folder in [Folder::Archive, Folder::Ledger] {
        for file in disk.names(folder).into_iter().filter(|file| file.ends_with(".jsonl")) {
            let bytes = disk.contents(Name { folder, file: &file }).unwrap_or_default();
            whole.tamper(Name { folder: Folder::Ledger, file: &file }, &bytes);
        }
    }
    whole
}

/// Right after a recovery nothing but whole turns is there, and the verifier agrees with the recovery.
pub(super) fn verified(disk: &SimulatedDisk, boot: String, head: u64) -> Checked {
    let options = VerifyOptions { boot: Some(boot), since: None };
    let report = verify(&copy(disk).storage(), &options).map_err(|error| Broken(format!("verify: {error}")))?;
    claim(report.ok(), || format!("verify: {:?}", report.problems))?;
    claim(report.tail.is_none(), || format!("law 6: half a turn was left: {:?}", report.tail))?;
    claim(report.head.seq == head, || {
        format!("law 6: the recovery ends at {head}, the last whole turn at {}", report.head.seq)
    })
}

/// The whole ledger against everything that ran.
pub(super) fn told(disk: &SimulatedDisk, intents: &[Intent], computer: &Computer, retention: Retention) -> Checked {
    let stories = stories(disk)?;
    chains(disk)?;
    let ran = |run: &Run| computer.executions.contains_key(run);
    let mut started: BTreeSet<&Run> = BTreeSet::new();
    let mut effects: BTreeMap<&(Option<String>, String), Vec<OperationId>> = BTreeMap::new();
    for (op, story) in &stories {
        let settled: Vec<&String> = story.outcomes.iter().filter(|outcome| *outcome != "uncertain").collect();
        claim(settled.len() <= 1, || format!("law 5: {op} has the outcomes {:?}", story.outcomes))?;
        let Some(run) = story.starts.as_ref().or(story.wakes.as_ref()) else { continue };
        claim(started.insert(run), || format!("law 5: {run:?} is started by two operations"))?;
        if ran(run) {
            let op = OperationId::parse(op).map_err(|error| Broken(format!("{op}: {error}")))?;
            effects.entry(&story.key).or_default().push(op);
        }
        match settled.first().map(|outcome| outcome.as_str()) {
            Some("succeeded") if story.starts.is_some() && !story.outcomes.contains(&"uncertain".to_owned()) => {
                claim(ran(run), || format!("law 7: {op} succeeded and {run:?} never ran"))?;
            }
            Some("aborted") => claim(!ran(run), || format!("law 7: {op} is aborted and {run:?} ran"))?,
            Some(_) | None => {}
        }
    }
    for (key, mut effects) in effects {
        effects.sort_unstable();
        effects.windows(2).try_for_each(|pair| anew(key, (pair[0], pair[1]), disk, retention))?;
    }
    let unknown = computer.executions.keys().find(|run| !started.contains(run));
    claim(unknown.is_none(), || format!("law 6: {unknown:?} ran and no record accepted it"))?;
    refusals(&stories, intents)
}

/// One key, several effects: only a free-form key may be used anew, once the broker was allowed to forget it.
fn anew(
    key: &(Option<String>, String),
    (first, second): (OperationId, OperationId),
    disk: &SimulatedDisk,
    retention: Retention,
) -> Checked {
    let shelf = Shelf::of(disk)?;
    let known = shelf.operation(first);
    let known = known.ok_or_else(|| Broken(format!("law 5: {key:?} has {second}, and {first} is not settled")))?;
    claim(known.is_free_form(), || format!("law 5: {key:?} has two effects, {first} and {second}"))?;
    may_be_forgotten(&known, &shelf, retention, second.0)
}

/// A request whose every call was refused is nowhere; what is there was requested.
fn refusals(stories: &BTreeMap<String, Story>, intents: &[Intent]) -> Checked {
    for (op, story) in stories {
        let asked = intents.iter().find(|intent| {
            let scope = match &intent.scope {
                Scope::Owner => None,
                Scope::Session(id) => Some(id.as_str()),
            };
            story.digest == intent.digest.to_string()
                && story.key.1 == intent.key.as_str()
                && story.key.0.as_deref() == scope
        });
        let asked = asked.ok_or_else(|| Broken(format!("law 5: nobody asked for {op}")))?;
        claim(story.kind == asked.wish.kind().word(), || format!("law 5: {op} is a {}", story.kind))?;
        claim(asked.accepted || asked.lost || asked.open > 0, || format!("law 7: {op} was refused and is recorded"))?;
    }
    Ok(())
}

/// The chain of a session ends with the turn in which it is removed, and not before; nothing names it again.
fn chains(disk: &SimulatedDisk) -> Checked {
    let (mut ended, mut removed) = (BTreeSet::new(), BTreeSet::new());
    let copy = whole(disk).storage();
    for record in Records::new(&copy) {
        let record = record.map_err(|error| Broken(format!("the ledger cannot be read: {error}")))?;
        let header = &record.header;
        if let Some(sid) = &header.sid {
            claim(!ended.contains(sid), || format!("record {} stands behind the end of {sid}", header.seq))?;
            if header.t == "session" && record.body() == Some("\"removed\"") {
                removed.insert(sid.clone());
            }
            if header.fin {
                ended.insert(sid.clone());
            }
        }
        claim(!header.end || ended == removed, || {
            format!("at record {} removed are {removed:?} and ended {ended:?}", header.seq)
        })?;
    }
    Ok(())
}

fn stories(disk: &SimulatedDisk) -> Checked<BTreeMap<String, Story>> {
    let mut stories: BTreeMap<String, Story> = BTreeMap::new();
    let (mut generation, mut sent) = (0, String::new());
    let copy = whole(disk).storage();
    for record in Records::new(&copy) {
        let record = record.map_err(|error| Broken(format!("the ledger cannot be read: {error}")))?;
        let value: Value =
            serde_json::from_str(record.raw()).map_err(|error| Broken(format!("a record is no JSON: {error}")))?;
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        match record.header.t.as_str() {
            "generation" => {
                let next = value["body"]["number"].as_u64().unwrap_or(0);
                claim(next > generation, || format!("generation {next} follows {generation}"))?;
                generation = next;
            }
            "accept" => {
                let starts = value["body"]["spawn"].is_object() || value["body"]["launch"].is_object();
                let run = SessionId::parse(&text("sid")).ok().zip(record.header.ep).filter(|_| starts);
                let scope = value["act"]["sid"].as_str().map(str::to_owned);
                let outcomes = Vec::new();
                let (kind, digest) = (text("kind"), text("req"));
                let key = (scope, text("key"));
                sent = text("op");
                let story = Story { key, digest, kind, starts: run, wakes: None, outcomes };
                let again = stories.insert(text("op"), story);
                claim(again.is_none(), || format!("{} is accepted twice", text("op")))?;
            }
            "session" if value["body"]["woken"].is_object() => {
                // It stands behind the record of the message in whose turn it is.
                let story = stories.get_mut(&sent).ok_or_else(|| Broken("a session wakes by itself".to_owned()))?;
                story.wakes = SessionId::parse(&text("sid")).ok().zip(record.header.ep);
            }
            "finish" => add(&mut stories, &text("op"), text("st"))?,
            "operator" => {
                let body = &value["body"];
                let word = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
                add(&mut stories, &word("operation"), word("outcome"))?;
            }
            _ => {}
        }
    }
    Ok(stories)
}

fn add(stories: &mut BTreeMap<String, Story>, op: &str, outcome: String) -> Checked {
    let story = stories.get_mut(op).ok_or_else(|| Broken(format!("{op} has an outcome and was never accepted")))?;
    story.outcomes.push(outcome);
    Ok(())
}
