//! `ostler ledger explain`: one operation in plain words, from its records: who asked for what, when and under which key, what happened, how
//! it ended, how long that took, and what the same request would get now. Also of a key that was used more than once (by other callers, or
//! after an abort): then each operation of it, oldest first. Of one that sent a message it tells as well what became of that.

mod steps;
mod story;
mod tell;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use self::story::{At, Story};
use super::super::context::Context;
use super::super::exit::Exit;
use super::super::failure::Failure;
use super::record;
use super::resolve::{self, Names};
use super::source::{Look, Source};
use super::words;
use crate::rpc::wire::Key;

/// What to explain.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The operation's id, a message's id, or the key it was asked for under
    #[arg(value_name = "OP|MSG|KEY")]
    operation: Key,
}

pub(super) fn run(args: &Args, source: &Source, context: &Context) -> Result<Exit, Failure> {
    let given = args.operation.as_str();
    let look = source.look(format!("explain {given}"), context)?;
    let stories = stories(given, &look)?;
    let told: Vec<Value> = stories.iter().map(Story::document).collect();
    context.output.either(&json!({ "operations": told }), |_| {
        let told: Vec<String> = stories.iter().map(|story| tell::page(story, &context.output)).collect();
        told.join("\n")
    })?;
    Ok(Exit::Done)
}

/// The stories of an operation, or of all that a key was used for.
fn stories(given: &str, look: &Look) -> Result<Vec<Story>, Failure> {
    // A message has the number of the operation that sent it.
    let sent = given.strip_prefix("msg-").map(|number| format!("op-{number}"));
    let operation = sent.as_deref().unwrap_or(given);
    let is_operation = super::filter::operation(operation).is_ok() && is_accepted(operation, sent.is_some(), look)?;
    let (operation, key) = if is_operation { (Some(operation), None) } else { (None, Some(given)) };
    let meant = resolve::resolve(Names { operation, key, session: None }, look)?;
    let meant = meant.operations.unwrap_or_default();
    let mut stories: Vec<Story> = Vec::new();
    // Only those whose session is asked about are kept, but whose it is stands behind the name.
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let sessions = sessions(meant.iter(), look)?;
    let mut boot = String::new();
    for found in look.records() {
        let found = found?;
        if found.header.t == "segment" {
            boot = record::document(&found)["body"]["boot"].as_str().unwrap_or_default().to_owned();
        }
        let sid = found.header.sid.as_ref();
        if let Some(sid) = sid.filter(|sid| sessions.contains(sid))
            && let Some(name) = record::spawned_name(&found)
        {
            names.insert(sid.clone(), name);
        }
        let begins = found.header.t == "accept" && found.header.op.as_ref().is_some_and(|op| meant.contains(op));
        if !begins && !stories.iter().any(|story| story.listens(&found.header)) {
            stories.iter_mut().for_each(|story| story.pass(&found.header));
            continue;
        }
        let document = record::document(&found);
        let at = At::of(&document, &boot);
        stories.iter_mut().for_each(|story| story.hear(&document, &at));
        if begins {
            let name = sid.and_then(|sid| names.get(sid)).cloned();
            stories.push(Story::begin(document, at, name));
        }
    }
    Ok(stories)
}

/// Whether a record accepts an operation of this id, one that sends a message if that is meant.
fn is_accepted(given: &str, sends: bool, look: &Look) -> Result<bool, Failure> {
    let seq = given.trim_start_matches("op-").parse().unwrap_or_default();
    Ok(look.record(seq)?.is_some_and(|found| {
        let is_it = found.header.t == "accept" && found.header.op.as_deref() == Some(given);
        is_it && (!sends || words::message_of(&record::document(&found)).is_some())
    }))
}

/// The sessions that these operations are about.
fn sessions<'a>(operations: impl Iterator<Item = &'a String>, look: &Look) -> Result<Vec<String>, Failure> {
    let mut sessions = Vec::new();
    for operation in operations {
        let seq = operation.trim_start_matches("op-").parse().unwrap_or_default();
        sessions.extend(look.record(seq)?.and_then(|found| found.header.sid));
    }
    Ok(sessions)
}
