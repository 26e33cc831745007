//! The fire: brokers and hosts are killed at random moments, also while they start. A run whose host was chosen is marked before
//! the signal leaves, so that whoever sees the effect can see the mark.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ostler::os::clock;

use super::witness::Run;
use crate::sim::random::Random;
use crate::support::leftovers::leftovers;
use crate::support::{Root, poll};

/// The shortest time between two kills of a broker: it cannot have finished its start.
const BROKER_LIVES_MS_MIN: u64 = 30;
/// The longest.
const BROKER_LIVES_MS_MAX: u64 = 60_000;
/// The longest time between two kills of a host.
const HOST_KILLS_MS_MAX: u64 = 10_000;

/// What was killed so far.
pub(super) struct Fire {
    /// Longest times between two kills, of brokers and of hosts.
    longest_ms: (u64, u64),
    marked: Mutex<BTreeSet<Run>>,
    brokers: AtomicU64,
    hosts: AtomicU64,
}

impl Fire {
    /// For so many seconds of work: in a short one it burns as often.
    pub(super) fn new(seconds: u64) -> Fire {
        let at_most = |ms: u64, times: u64| ms.min(seconds * 1_000 / times);
        let longest_ms = (at_most(BROKER_LIVES_MS_MAX, 5), at_most(HOST_KILLS_MS_MAX, 5));
        Fire { longest_ms, marked: Mutex::default(), brokers: AtomicU64::new(0), hosts: AtomicU64::new(0) }
    }

    /// Whether this run's host was killed, or is about to be.
    pub(super) fn has_marked(&self, run: &Run) -> bool {
        self.marked.lock().unwrap_or_else(PoisonError::into_inner).contains(run)
    }

    /// Brokers and hosts that were killed.
    pub(super) fn kills(&self) -> (u64, u64) {
        (self.brokers.load(Ordering::Relaxed), self.hosts.load(Ordering::Relaxed))
    }

    /// Kills brokers until that time on the boot clock. Each order of magnitude of a broker's life comes as often.
    pub(super) fn at_brokers(&self, root: &Root, over: &AtomicBool, until_us: u64, mut random: Random) {
        let doublings = (self.longest_ms.0 / BROKER_LIVES_MS_MIN).ilog2();
        while clock::boot_us() < until_us {
            let longest = BROKER_LIVES_MS_MIN << random.between(1, u64::from(doublings));
            if pause(random.between(longest / 2, longest), over) {
                return;
            }
            if let Some(owner) = root.lock_owner() {
                owner.kill_9();
                self.brokers.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Kills hosts until it is over.
    pub(super) fn at_hosts(&self, root: &Root, over: &AtomicBool, mut random: Random) {
        loop {
            if pause(random.between(self.longest_ms.1 / 10, self.longest_ms.1), over) {
                return;
            }
            let hosts =
                leftovers(root.folder()).into_iter().filter_map(|found| Some((run_of(found.command())?, found)));
            let Some((run, host)) = random.pick(&hosts.collect::<Vec<_>>()) else { continue };
            self.marked.lock().unwrap_or_else(PoisonError::into_inner).insert(run);
            host.process.kill_9();
            self.hosts.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The run that a host's command line names.
pub(crate) fn run_of(command: &str) -> Option<(String, u32)> {
    let (_, named) = command.split_once(" host --session ")?;
    let mut words = named.split(' ');
    let session = words.next()?.to_owned();
    let episode = words.next().filter(|word| *word == "--episode").and(words.next())?.parse().ok()?;
    Some((session, episode))
}

/// Lets some time pass; true if all is over meanwhile.
fn pause(ms: u64, over: &AtomicBool) -> bool {
    poll(Duration::from_millis(ms), || over.load(Ordering::Relaxed).then_some(())).is_some()
}
