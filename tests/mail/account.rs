//! The account of a load: what the ledger says became of each message, beside what the programs wrote down themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::sync::PoisonError;

use ostler::rpc::method::Method;
use serde_json::{Value, json};

use super::load::{Load, Sent, notes};
use super::post::client;
use crate::support::scene::text;
use crate::support::{Root, SOON, wait_until};

/// The reason with which a message may be cancelled here: its session's host was killed, or the start for it came to nothing.
const ENDED: &str = "session_ended";

/// What became of messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) delivered: usize,
    /// Of those, in the pipe of a program that was killed with its host before it read them.
    unread: usize,
    cancelled: usize,
    failed: usize,
    uncertain: usize,
    /// Of those, what a program did get.
    uncertain_read: usize,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        self.delivered += other.delivered;
        self.unread += other.unread;
        self.cancelled += other.cancelled;
        self.failed += other.failed;
        self.uncertain += other.uncertain;
        self.uncertain_read += other.uncertain_read;
    }

    pub(super) fn total(&self) -> usize {
        self.delivered + self.cancelled + self.failed + self.uncertain
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { delivered, unread, cancelled, failed, uncertain, uncertain_read } = self;
        write!(
            f,
            "{} messages: {delivered} delivered ({unread} to a program that was killed before it read them), ",
            self.total()
        )?;
        write!(f, "{cancelled} cancelled, {failed} failed, {uncertain} uncertain ({uncertain_read} of them read)")
    }
}

/// Waits until nothing is on its way any more, and compares.
pub(super) fn settle(load: &Load, sent: &[Sent], from: u64) -> Tally {
    load.root.ensure();
    let receipts = receipts(load);
    let runs = runs(&load.root, from);
    let marked = load.marked.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let hit = |of: &Sent| {
        let run = runs.get(&of.id).copied();
        run.is_some_and(|episode| marked.contains(&(load.sessions[of.session].clone(), episode)))
    };
    let unhit = |of: &&Sent| !hit(of) && receipts.get(&of.id).is_some_and(|of| of["state"] == "delivered");
    // A program that lives reads all that it was given.
    wait_until(SOON * 2, "the programs to have read everything", || {
        let got = all(load);
        sent.iter().filter(unhit).all(|of| got[of.session].contains(&of.words))
    });
    let got = once_and_in_order(load);
    let mut tally = Tally::default();
    for of in sent {
        let receipt = receipts.get(&of.id).unwrap_or_else(|| panic!("{} was acknowledged and is unknown", of.id));
        let (state, reason, read) = (text(&receipt["state"]), &receipt["reason"], got[of.session].contains(&of.words));
        let ended = marked.iter().any(|(session, _)| *session == load.sessions[of.session]);
        let told = || format!("{}: {receipt}, read: {read}, its host was killed: {}", of.words, hit(of));
        match state {
            "delivered" => {
                assert!(read || hit(of), "delivered and never read by a program that lives: {}", told());
                tally.delivered += 1;
                tally.unread += usize::from(!read);
            }
            "uncertain" => {
                assert!(reason.is_string() && hit(of), "{}", told());
                tally.uncertain += 1;
                tally.uncertain_read += usize::from(read);
            }
            "cancelled" | "failed" => {
                assert!(reason.is_string() && ended && !read, "{}", told());
                assert!(state == "failed" || reason == ENDED, "{}", told());
                tally.cancelled += usize::from(state == "cancelled");
                tally.failed += usize::from(state == "failed");
            }
            _ => panic!("it has no end: {}", told()),
        }
    }
    tally
}

/// The receipts of all sessions, by message, once none is on its way.
fn receipts(load: &Load) -> BTreeMap<String, Value> {
    let mut client = client(&load.root);
    let mut receipts = BTreeMap::new();
    for session in &load.sessions {
        let mut rows = Vec::new();
        wait_until(SOON * 2, &format!("the messages of {session} to be settled"), || {
            rows.clear();
            let mut cursor = Value::Null;
            loop {
                let page =
                    client.call(Method::MessageList, json!({"session": session, "limit": 1000, "cursor": cursor}));
                let page = page.unwrap_or_else(|error| panic!("{session}: {error:?}"));
                rows.extend(page["messages"].as_array().expect("a page").iter().cloned());
                cursor = page["next"].clone();
                if cursor.is_null() {
                    break;
                }
            }
            rows.iter().all(|of| of["state"] != "queued" && of["state"] != "sending")
        });
        receipts.extend(rows.into_iter().map(|of| (text(&of["id"]).to_owned(), of)));
    }
    receipts
}

/// What each program noted.
fn all(load: &Load) -> Vec<BTreeSet<String>> {
    (0..load.sessions.len()).map(|session| load.root.lines(&notes(session)).into_iter().collect()).collect()
}

/// The same, checked: no line twice, and each sender's in its order.
fn once_and_in_order(load: &Load) -> Vec<BTreeSet<String>> {
    for session in 0..load.sessions.len() {
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        for line in load.root.lines(&notes(session)) {
            let words = line.split_once(' ').and_then(|(from, of)| Some((from.parse().ok()?, of.parse().ok()?)));
            let (sender, number) = words.unwrap_or_else(|| panic!("session {session} got {line:?}"));
            let before = last.insert(sender, number);
            assert!(before < Some(number), "session {session} got {line:?} after number {before:?} of that sender");
        }
    }
    all(load)
}

/// The position of the latest record in a segment's name: what comes later is in this segment or a later one.
pub(super) fn position(root: &Root) -> u64 {
    segments(root).last().map_or(0, |(first, _)| *first)
}

fn segments(root: &Root) -> Vec<(u64, String)> {
    let names = root.names("ledger").into_iter();
    names.filter_map(|name| Some((name.strip_suffix(".jsonl")?.parse().ok()?, name))).collect()
}

/// The episode that each message last went to, from the records since there.
fn runs(root: &Root, from: u64) -> BTreeMap<String, u32> {
    let mut runs = BTreeMap::new();
    for (_, name) in segments(root).into_iter().filter(|(first, _)| *first >= from) {
        let segment = fs::read_to_string(root.path().join("ledger").join(name)).expect("it is there");
        for line in segment.lines() {
            let record = serde_json::from_str::<Value>(line).map_or(Value::Null, |line| line["r"].clone());
            if record["t"] == "message" && record["body"]["change"] == "sending" {
                let episode = record["ep"].as_u64().and_then(|ep| ep.try_into().ok()).expect("an episode");
                runs.insert(text(&record["body"]["message"]).to_owned(), episode);
            }
        }
    }
    runs
}
