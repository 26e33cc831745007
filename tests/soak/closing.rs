//! The end of a soak: everything that was acknowledged is asked again and is the same, the list is what the clients know, the
//! commands' own account fits, and nothing is left over: not a process, a file, a descriptor, or memory.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use ostler::broker::quarantine::{KEPT_MAX, is_quarantined};
use ostler::rpc::method::Method;
use serde_json::{Value, json};

use super::asked::insist;
use super::life::{Kind, Life, Lived};
use super::witness::Run;
use super::{LATEST_KIB, Soak};
use crate::support::leftovers::leftovers;
use crate::support::usage::growth_kib;
use crate::support::{SOON, Usage, wait_until};

/// What the end found.
#[derive(Debug)]
pub(super) struct Found {
    /// Acknowledged keys, each asked again.
    pub(super) same: usize,
    /// Sessions at the end of the work.
    pub(super) listed: usize,
    /// Commands that wrote down their start.
    pub(super) started: usize,
    /// Records of the ledger, verified.
    pub(super) records: u64,
    pub(super) usage: Usage,
}

/// Goes through all of it. `before`: how many operations of each kind the ledger counted when the work began.
pub(super) fn close(soak: &Soak, mut lives: Vec<Life<'_>>, before: &Value, base: Usage) -> (Vec<Lived>, Found) {
    each(&mut lives, come_to_rest);
    let listed = all_are_listed(&mut lives);
    each(&mut lives, ask_again);
    each(&mut lives, |life| (0..life.owned.len()).rev().for_each(|at| life.delete(at, true)));
    assert_eq!(lives[0].listed(), BTreeMap::new(), "all are deleted");
    // With a life its connections go.
    let lives: Vec<Lived> = lives.into_iter().map(|life| life.lived).collect();
    let started = witnessed(soak, &lives);
    let same = lives.iter().map(|life| life.acknowledged.len()).sum();
    let usage = nothing_is_left(soak, base, LATEST_KIB + growth_kib(same));
    let verified = soak.root.verify_ledger();
    assert_eq!(verified["problems"], json!([]));
    counted(soak, &lives, before);
    (lives, Found { same, listed, started, records: verified["records"].as_u64().expect("a number"), usage })
}

fn each(lives: &mut [Life<'_>], work: impl Fn(&mut Life<'_>) + Sync) {
    thread::scope(|scope| {
        let work = &work;
        lives.iter_mut().for_each(|life| drop(scope.spawn(move || work(life))));
    });
}

/// What ends by itself has ended, and who lost his host is known to have.
fn come_to_rest(life: &mut Life<'_>) {
    for at in 0..life.owned.len() {
        let owned = &life.owned[at];
        if matches!(owned.kind, Kind::Brief(_)) || life.is_marked(&owned.run()) {
            life.wait(at);
        }
    }
}

/// The list holds the sessions of all clients, as they must be, and no other.
fn all_are_listed(lives: &mut [Life<'_>]) -> usize {
    let mut listed = lives[0].listed();
    let all = listed.len();
    for life in lives {
        for at in 0..life.owned.len() {
            let mut owned = life.owned[at].clone();
            let document = listed.remove(&owned.id).unwrap_or_default();
            life.is_as_it_must_be(&mut owned, &document);
        }
    }
    assert!(listed.is_empty(), "nobody's sessions: {listed:#?}");
    all
}

/// Every acknowledged key, with the same request: the same operation, the same outcome, nothing done.
fn ask_again(life: &mut Life<'_>) {
    for at in 0..life.lived.acknowledged.len() {
        let (ask, told) = life.lived.acknowledged[at].clone();
        let again = insist(&mut life.client, &ask, &mut life.lived.troubles);
        let same = again.as_ref().is_ok_and(|again| again.agrees(&told) && again.replayed);
        life.claim(same, || format!("{ask:?} was {told:?} and is {again:?}"));
    }
}

/// What the commands wrote down is what the clients were told: every start once, and none besides.
fn witnessed(soak: &Soak, lives: &[Lived]) -> usize {
    let proven: BTreeSet<&Run> = lives.iter().flat_map(|life| &life.proven).collect();
    let unproven: BTreeSet<&Run> = lives.iter().flat_map(|life| &life.unproven).collect();
    let wrote = soak.witness.all();
    for (run, pids) in &wrote {
        assert!(proven.contains(run) || unproven.contains(run), "nobody was told of {run:?}, which ran as {pids:?}");
        assert_eq!(pids.len(), 1, "{run:?} ran more than once: {pids:?}");
    }
    let silent = proven.iter().filter(|run| !wrote.contains_key(**run) && !soak.fire.has_marked(run));
    let silent: Vec<_> = silent.collect();
    assert!(silent.is_empty(), "acknowledged and never run: {silent:?}");
    assert_eq!(soak.witness.overlaps(), "", "two runs of one session at the same time");
    wrote.len()
}

/// One broker, as it was at the beginning, and nothing else: no process, no socket, no file of a session.
fn nothing_is_left(soak: &Soak, base: Usage, growth_kib: u64) -> Usage {
    let root = &soak.root;
    wait_until(SOON, "one broker and nobody else", || {
        let left = leftovers(root.folder());
        left.len() == 1 && left[0].command().contains(" broker --root ")
    });
    wait_until(SOON, "the last folder to go", || root.names("sessions").is_empty());
    let sockets = root.sockets();
    assert!(sockets.len() == 1 && sockets[0].starts_with("b-"), "{sockets:?}");
    assert_eq!(root.names("quarantine"), [""; 0], "what was never acknowledged and is kept");
    let aside = root.names("").into_iter().filter(|name| is_quarantined(name)).count();
    assert!(aside <= KEPT_MAX, "{aside} records of dead owners");
    let broker = root.broker().expect("it answers");
    wait_until(SOON * 2, "descriptors and threads as at the beginning", || Usage::of(broker).is_within(base));
    let usage = Usage::of(broker);
    let grown = usage.own_kib.saturating_sub(base.own_kib);
    assert!(grown <= growth_kib, "memory grew by {grown} KiB: {base}, now {usage}");
    usage
}

/// How many operations of each kind the ledger counts with each outcome.
pub(super) fn operations(soak: &Soak) -> Value {
    soak.root.json(["ledger", "stats"])["operations"].clone()
}

/// The ledger settled as many operations as clients were told of.
fn counted(soak: &Soak, lives: &[Lived], before: &Value) {
    let mut told: BTreeMap<(Method, &str), BTreeSet<&str>> = BTreeMap::new();
    for (ask, told_of) in lives.iter().flat_map(|life| &life.acknowledged) {
        told.entry((ask.method, &told_of.state)).or_default().insert(&told_of.operation);
    }
    let after = operations(soak);
    for method in [Method::SessionSpawn, Method::SessionResume, Method::SessionStop, Method::SessionDelete] {
        for state in ["succeeded", "failed", "uncertain"] {
            let count = |counts: &Value| counts[method.name()][state].as_u64().unwrap_or(0);
            let known = told.get(&(method, state)).map_or(0, BTreeSet::len);
            let in_ledger = count(&after) - count(before);
            // One that was uncertain counts there, too, when it is settled.
            let fits = if state == "uncertain" { true } else { usize::try_from(in_ledger) == Ok(known) };
            assert!(fits, "{method}: {in_ledger} {state} in the ledger, {known} told");
        }
    }
}
