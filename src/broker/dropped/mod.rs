//! Requests whose callers go away: each is dropped after every number of steps that it takes, so at every place at which it waits and with everything
//! that can have happened by then. What it asked for has then happened whole or not at all, and nothing is held for it any more.
//!
//! Promise: the table has a case for every method of this version; one that is added breaks it.

mod bed;
mod cases;

use super::route::{Route, route};
use crate::rpc::method::{Class, Method};
use bed::{Answered, Ask, Bed};
use cases::{CASES, Case};
use serde_json::Value;
use std::collections::BTreeSet;

/// What a run came to.
#[derive(Debug)]
struct Run {
    steps: usize,
    records: Vec<String>,
    /// The answer to the same request, asked again.
    again: String,
}

/// How the request is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    /// Once nothing moves any more.
    AtRest,
    /// At once.
    Meanwhile,
}

/// The case with its caller gone after so many steps, if any; then the same is asked once more.
fn run(case: &Case, steps: Option<usize>, again: Again) -> Run {
    let mut bed = Bed::new();
    let nobody = bed.held();
    let ask = (case.scene)(&mut bed);
    let at = |what: &str| format!("{}, given up after {steps:?} steps and asked again {again:?}: {what}", case.name);
    bed.rest();
    let before = bed.front.view.head().seq;
    let (answer, taken) = bed.drive(&ask, steps, &case.cue);
    let mut accepted = None;
    if again == Again::AtRest {
        bed.rest();
        if answer.is_none() {
            (case.cue)(&mut bed);
            bed.rest();
        }
        // A connection that goes on keeps what it had asked for before.
        assert!(ask.connection.is_some() || bed.held() == nobody, "{}: {:?}", at("held for nobody"), bed.held());
        accepted = Some(operations(&bed, &ask));
    }
    let (again, _) = bed.drive(&ask, None, &case.cue);
    let again = again.expect("it was not given up");
    bed.rest();
    if ask.method.class() == Class::Mutates {
        let document = again.as_ref().unwrap_or_else(|error| panic!("{}: {error:?}", at("asked again")));
        assert_eq!(operations(&bed, &ask), 1, "{}", at("operations of its key"));
        let replayed = accepted.is_none_or(|accepted| document["operation"]["replayed"] == (accepted == 1));
        assert!(replayed, "{}: {document}", at("asked again"));
    }
    let records = bed.records(before).iter().map(told).collect();
    bed.let_go();
    assert_eq!(bed.held(), nobody, "{}", at("held for nobody"));
    let folders = bed.folders();
    let (seen, folded, kept) = bed.ends();
    assert!(seen == folded, "{}", at("the view is not the fold of the ledger"));
    let listed: BTreeSet<_> = folded.sessions.iter().map(|(id, _)| id.to_string()).collect();
    let leaves = case.leaves_folder && steps.is_some();
    assert!(folders == listed || leaves && folders.is_superset(&listed), "{}: {folders:?}", at("folders"));
    assert_eq!(kept, listed, "{}", at("folders, swept"));
    Run { steps: taken, records, again: outcome(&again) }
}

/// How many operations the request's key has come to.
fn operations(bed: &Bed, ask: &Ask) -> usize {
    let key = &ask.params["key"];
    let fits = |record: &&Value| record["t"] == "accept" && !key.is_null() && record["key"] == *key;
    bed.records(0).iter().filter(fits).count()
}

/// A record, without what differs from run to run.
fn told(record: &Value) -> String {
    format!("{} {} {}", record["t"], record["kind"], members(&record["body"]))
}

/// The names of all that is in a document.
fn members(document: &Value) -> String {
    let named = document.as_object().into_iter().flatten();
    named.map(|(name, value)| format!("{name}({})", members(value))).collect()
}

fn outcome(answer: &Answered) -> String {
    match answer {
        Ok(document) => document["operation"]["state"].to_string(),
        Err(error) => format!("{:?} {:?}", error.code, error.data.get("reason")),
    }
}

fn drop_everywhere(case: &Case) {
    let whole = run(case, None, Again::AtRest);
    for steps in 0..=whole.steps {
        for again in [Again::AtRest, Again::Meanwhile] {
            let dropped = run(case, Some(steps), again);
            let at = format!("{}, given up after {steps} of {} steps, again {again:?}", case.name, whole.steps);
            // What has no key may be done again, and may find that it was.
            let (again, records) = (dropped.again == whole.again, dropped.records == whole.records);
            let may_differ = case.method.class() == Class::Control && whole.records.starts_with(&dropped.records);
            assert!(may_differ || again && records, "{at}: {dropped:#?} and not {whole:#?}");
        }
    }
}

fn drop_cases(part: usize) {
    CASES.iter().skip(part).step_by(PARTS).for_each(drop_everywhere);
}

/// Tests that run beside each other.
const PARTS: usize = 2;

#[test]
fn a_request_that_is_given_up_anywhere_is_done_whole_or_not_at_all() {
    drop_cases(0);
}

#[test]
fn a_request_that_is_given_up_anywhere_is_done_whole_or_not_at_all_the_other_half() {
    drop_cases(1);
}

#[test]
fn every_method_has_a_case() {
    let known: BTreeSet<_> = CASES.iter().map(|case| case.method).collect();
    let built = Method::ALL.iter().filter(|method| !matches!(route(**method), Route::Hello | Route::Absent));
    assert_eq!(known, built.copied().collect());
}
