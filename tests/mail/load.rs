//! Many senders, many sessions, and brokers and hosts that are killed between any two messages: each message that was acknowledged comes to an
//! end, the programs got those that were delivered once and in each sender's order, and nothing else.
//!
//! A session whose host was killed has failed; the next message starts it again (`resume`), and its program goes on with the same notes.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use ostler::client::Client;
use ostler::os::clock;
use ostler::os::deadline::Deadline;
use ostler::os::environment::Environment;
use ostler::rpc::error::{ErrorCode, Retry};
use ostler::rpc::method::Method;
use serde_json::{Value, json};

use super::account;
use super::post::client;
use crate::sim::random::Random;
use crate::soak::fire::run_of;
use crate::support::leftovers::leftovers;
use crate::support::scene::text;
use crate::support::{Process, Root, SOON, poll};

const SENDERS: usize = 20;
const SESSIONS: usize = 50;
/// Messages of one round, by all senders.
const ROUND: usize = 5_000;
/// Rounds of the job `messages`, unless it is told otherwise.
const LONG_ROUNDS: usize = 20;
/// Messages that are acknowledged between two kills of a broker, on average; and of a host.
const BROKER_LIVES: u64 = 400;
const HOST_LIVES: u64 = 200;

/// What all who take part share.
pub(super) struct Load {
    pub(super) root: Root,
    /// Ids of the sessions.
    pub(super) sessions: Vec<String>,
    /// Runs whose host was killed, each marked before.
    pub(super) marked: Mutex<BTreeSet<(String, u32)>>,
    acknowledged: AtomicUsize,
    brokers: AtomicUsize,
    hosts: AtomicUsize,
}

/// A message that was acknowledged to its sender.
pub(super) struct Sent {
    pub(super) id: String,
    pub(super) session: usize,
    /// Its text: the sender, and a number that grows with each message of that sender.
    pub(super) words: String,
    params: Value,
}

/// Where a session's program notes what it gets.
pub(super) fn notes(session: usize) -> String {
    format!("got-{session}")
}

impl Load {
    fn new() -> Load {
        let root = Root::new();
        let spawned = |number: usize| {
            let script = format!("exec cat >> {}", root.folder().join(notes(number)).display());
            let session = root.spawn(&["--adapter", "lines"], &["sh", "-c", &script]);
            text(&session["id"]).to_owned()
        };
        let sessions = (0..SESSIONS).map(spawned).collect();
        let (acknowledged, brokers, hosts) = Default::default();
        Load { root, sessions, marked: Mutex::default(), acknowledged, brokers, hosts }
    }

    /// One sender's messages, each to a session that is drawn.
    fn sends(&self, sender: usize, numbers: std::ops::Range<usize>, mut random: Random) -> Vec<Sent> {
        let mut client = client(&self.root);
        let mut sends = |number: usize| {
            let (session, words) = (random.below(SESSIONS), format!("{sender} {number}"));
            let (to, key) = (&self.sessions[session], client.new_key());
            let params = json!({"session": to, "key": key, "text": words, "resume": true});
            let answer = insist(&mut client, &params);
            self.acknowledged.fetch_add(1, Ordering::Relaxed);
            Sent { id: text(&answer["message"]["id"]).to_owned(), session, words, params }
        };
        numbers.map(&mut sends).collect()
    }

    /// Waits until so many more were acknowledged; true if it is over by then.
    fn waits(&self, more: u64, over: &AtomicBool) -> bool {
        let until = self.acknowledged.load(Ordering::Relaxed) + usize::try_from(more).expect("few");
        let come = || self.acknowledged.load(Ordering::Relaxed) >= until || over.load(Ordering::Relaxed);
        assert!(poll(SOON * 4, || come().then_some(())).is_some(), "nothing is acknowledged any more");
        over.load(Ordering::Relaxed)
    }

    /// Kills brokers until it is over, each fourth time the one that starts in its place as well.
    fn kills_brokers(&self, over: &AtomicBool, mut random: Random) {
        while !self.waits(random.between(1, 2 * BROKER_LIVES), over) {
            let mut last = None;
            for _ in 0..=usize::from(random.chance(250)) {
                let next = || self.root.lock_owner().filter(|owner| Some(*owner) != last);
                last = poll(SOON, next).inspect(|owner| owner.kill_9());
                self.brokers.fetch_add(usize::from(last.is_some()), Ordering::Relaxed);
            }
        }
    }

    fn kills_hosts(&self, over: &AtomicBool, mut random: Random) {
        while !self.waits(random.between(1, 2 * HOST_LIVES), over) {
            let found = leftovers(self.root.folder()).into_iter();
            let hosts: Vec<((String, u32), Process)> =
                found.filter_map(|found| Some((run_of(found.command())?, found.process))).collect();
            let Some((run, host)) = random.pick(&hosts) else { continue };
            self.marked.lock().unwrap_or_else(PoisonError::into_inner).insert(run);
            host.kill_9();
            self.hosts.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All senders at once under fire; everything that was acknowledged.
    fn round(&self, numbers: &std::ops::Range<usize>, random: &mut Random) -> Vec<Sent> {
        let over = AtomicBool::new(false);
        let mut draw = || Random::new(random.next());
        thread::scope(|scope| {
            let (for_brokers, for_hosts) = (draw(), draw());
            let over = &over;
            scope.spawn(move || self.kills_brokers(over, for_brokers));
            scope.spawn(move || self.kills_hosts(over, for_hosts));
            let start = |sender| {
                let (numbers, own) = (numbers.clone(), draw());
                scope.spawn(move || self.sends(sender, numbers, own))
            };
            let senders: Vec<_> = (0..SENDERS).map(start).collect();
            let sent: Vec<_> = senders.into_iter().map(thread::ScopedJoinHandle::join).collect();
            over.store(true, Ordering::Relaxed);
            sent.into_iter().flat_map(|sent| sent.expect("a failure of a sender fails its test")).collect()
        })
    }

    /// Asked again under its key, each is the message that it was: some of them, drawn.
    fn asks_again(&self, sent: &[Sent], mut random: Random) {
        let mut client = client(&self.root);
        for of in sent.iter().filter(|_| random.chance(200)) {
            let again = insist(&mut client, &of.params);
            assert_eq!((&again["message"]["id"], &again["replayed"]), (&json!(of.id), &json!(true)), "{again}");
        }
    }
}

/// Sends until it is answered, under its key, as any caller does who wants to know.
fn insist(client: &mut Client, params: &Value) -> Value {
    let mut last = None;
    let answer = poll(SOON * 6, || {
        client.set_deadline(Deadline::after(SOON * 2));
        let error = match client.call(Method::MessageSend, params.clone()) {
            Ok(answer) => return Some(answer),
            Err(error) => error,
        };
        assert_ne!(error.retry, Retry::Never, "{params}: {error:?}");
        if error.code == ErrorCode::SessionFenced {
            drop(client.call(Method::SessionReconcile, json!({"session": params["session"]})));
        }
        last = Some(error);
        None
    });
    answer.unwrap_or_else(|| panic!("no answer to {params}; the last: {last:?}"))
}

fn load(rounds: usize, seed: u64) {
    let began_us = clock::boot_us();
    let load = Load::new();
    let mut random = Random::new(seed);
    let mut tally = account::Tally::default();
    for round in 0..rounds {
        let each = ROUND / SENDERS;
        let from = account::position(&load.root);
        let sent = load.round(&(round * each..(round + 1) * each), &mut random);
        tally.add(&account::settle(&load, &sent, from));
        load.asks_again(&sent, Random::new(random.next()));
    }
    let (brokers, hosts) = (load.brokers.load(Ordering::Relaxed), load.hosts.load(Ordering::Relaxed));
    let seconds = (clock::boot_us() - began_us) / 1_000_000;
    // Past the capture of tests that pass: what was tried is worth a line.
    let told = format!("messages: seed {seed}, {brokers} brokers and {hosts} hosts killed, {seconds} s: {tally}");
    drop(writeln!(io::stderr(), "{told}"));
    assert!(brokers >= 5 * rounds && hosts >= 5 * rounds, "that is no fire: {told}");
    assert!(tally.delivered > tally.total() / 2, "{told}");
}

#[test]
fn five_thousand_messages_arrive_once_and_in_order_or_say_why_not() {
    load(1, 1);
}

#[test]
#[ignore = "takes many minutes: a hundred thousand messages"]
fn long_messages_arrive_once_and_in_order_or_say_why_not() {
    let number = |name: &str| Environment::process().get(name).and_then(|told| told.to_str()?.parse().ok());
    let seed = number("OSTLER_TEST_SEED").unwrap_or_else(clock::wall_us);
    let rounds = number("OSTLER_TEST_ROUNDS").map_or(LONG_ROUNDS, |rounds: u64| usize::try_from(rounds).expect("few"));
    load(rounds, seed);
}
