//! Law 9 over time: what has been done costs nothing any more once it is out of the window.
//!
//! Operations without effects go through one root, in virtual time, over months. What grows with them is the ledger alone: the
//! state stays as large as the window, a start reads as little as after the first thousand, keys of the window are replayed, and
//! older ones are refused.

use ostler::broker::recall::recall;
use ostler::broker::turn::{Release, Told, Turn};
use ostler::machine::limits::Retention;
use ostler::machine::{
    Action, Actor, Digest, Family, Generation, Input, Key, OperationId, Process, Recalled, Refusal, Request, Scope,
    Time,
};
use ostler::os::clock;
use ostler_ledger::storage::{Access, Disk, Folder, LockError, Name, Seen, SimulatedDisk};
use ostler_ledger::{Options, Storage};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// Requests of one turn.
const AT_ONCE: u64 = 250;
const DAY_US: u64 = 86_400_000_000;
const BEGAN_US: u64 = 1_767_225_600_000_000;

/// How many operations there will be, in how much virtual time.
#[derive(Clone, Copy, Debug)]
struct Pace {
    total: u64,
    days: u64,
}

impl Pace {
    /// When this operation is asked for.
    fn time(self, number: u64) -> Time {
        let since_us = u128::from(self.days * DAY_US) * u128::from(number) / u128::from(self.total);
        let since_us = u64::try_from(since_us).expect("some months");
        Time { wall_us: BEGAN_US + since_us, boot_us: 1_000_000 + since_us }
    }

    /// A UUIDv7 of that time.
    fn key(self, number: u64) -> Key {
        let ms = self.time(number).wall_us / 1_000;
        Key::parse(&format!("{:08x}-{:04x}-7000-8000-{number:012x}", ms >> 16, ms & 0xffff)).expect("a key")
    }

    /// The first operation of a turn so many days before the end.
    fn ago(self, days: u64) -> u64 {
        (self.total - self.total * days / self.days).min(self.total - AT_ONCE) / AT_ONCE * AT_ONCE
    }
}

/// What a start found.
#[derive(Debug)]
struct Start {
    folded: u64,
    took_us: u64,
}

/// One root over months.
struct Months<'a, S: Storage> {
    storage: &'a dyn Fn() -> S,
    retention: Retention,
    turn: Turn<S, u64>,
    /// Operations so far.
    done: u64,
    pace: Pace,
    /// Some operations by their number: what their callers were told.
    told: BTreeMap<u64, (OperationId, Digest)>,
}

impl<'a, S: Storage> Months<'a, S> {
    fn new(storage: &'a dyn Fn() -> S, retention: Retention, pace: Pace) -> Self {
        let (turn, ..) = open(storage, retention, pace.time(0));
        Self { storage, retention, turn, done: 0, pace, told: BTreeMap::new() }
    }

    /// The next operations, up to this many in all.
    fn work(&mut self, until: u64) {
        while self.done < until {
            let numbers = self.done..(self.done + AT_ONCE).min(until);
            self.done = numbers.end;
            let now = self.pace.time(numbers.end);
            let inputs = numbers.map(|number| (self.request(number, Vec::new()), Some(number))).collect();
            let told = self.run(now, inputs);
            for (number, told) in told {
                let Told::Settled { operation, replayed: false, .. } = told else { panic!("{number}: {told:?}") };
                if number % AT_ONCE == 0 {
                    self.told.insert(number, (operation.id, operation.digest));
                }
            }
            if let Some(snapshot) = self.turn.snapshot(false) {
                let bytes = snapshot.write(&(self.storage)()).expect("a snapshot");
                self.turn.snapshot_has(bytes);
            }
        }
    }

    fn run(&mut self, now: Time, inputs: Vec<(Input, Option<u64>)>) -> Vec<(u64, Told)> {
        let mut told = Vec::new();
        let mut release = |release: Release<u64>| {
            if let Release::Answer(number, answer) = release {
                told.push((number, answer));
            }
        };
        self.turn.run(now, inputs, &mut release, &mut |failed| panic!("{failed:?}")).expect("it is synced");
        told
    }

    fn request(&self, number: u64, recalled: Vec<Recalled>) -> Input {
        Input::Request(Request {
            scope: Scope::Owner,
            actor: Actor { uid: 0, pid: 1, sid: None },
            key: self.pace.key(number),
            digest: Digest([1; 32]),
            digests_since: 0,
            family: Family::default(),
            action: Action::Prune { older_ms: 1 << 50 },
            recalled,
        })
    }

    /// The same request once more, now.
    fn again(&mut self, number: u64) -> Told {
        let now = self.pace.time(self.done);
        let ask = |months: &mut Self, recalled| -> Told {
            let request = months.request(number, recalled);
            months.run(now, vec![(request, Some(number))]).pop().expect("an answer").1
        };
        match ask(self, Vec::new()) {
            Told::Recall(rows) => {
                let storage = (self.storage)();
                let recalled = rows.iter().map(|row| recall(&storage, row)).collect();
                ask(self, recalled)
            }
            told @ (Told::Settled { .. }
            | Told::Refused(_)
            | Told::Prepare { .. }
            | Told::Look { .. }
            | Told::Store { .. }
            | Told::Pulled
            | Told::Storage { .. }) => told,
        }
    }

    /// Ends the broker and starts the next one.
    fn restart(self) -> (Self, Start) {
        let Self { storage, retention, turn, done, pace, told } = self;
        let before = turn.view();
        let state = before.read().clone();
        drop(turn);
        let (turn, start, found) = open(storage, retention, pace.time(done));
        assert!(found == state, "law 1: the state is the fold of the ledger");
        (Self { storage, retention, turn, done, pace, told }, start)
    }

    /// The same a few times over: what was folded at the first, and the least that one took, because others use the machine, too.
    fn restarts(self) -> (Self, Start) {
        let (mut months, mut start) = self.restart();
        for _ in 0..4 {
            let (next, again) = months.restart();
            (months, start.took_us) = (next, start.took_us.min(again.took_us));
        }
        (months, start)
    }

    /// How many operations are known.
    fn known(&self) -> usize {
        self.turn.view().read().known_operations()
    }
}

fn open<S: Storage>(
    storage: &dyn Fn() -> S,
    retention: Retention,
    now: Time,
) -> (Turn<S, u64>, Start, ostler::machine::State) {
    let began_us = clock::boot_us();
    let (mut turn, recovery) = Turn::open(storage, &Options::new("long", "boot"), retention).expect("it opens");
    let start = Start { folded: recovery.folded, took_us: clock::boot_us() - began_us };
    let found = turn.view().read().clone();
    let process = Process { boot: "boot".to_owned(), ns: 1, pid: 2, start: 3 };
    let number = turn.last_generation() + 1;
    let incarnation = Digest([2; 32]);
    let version = "0.1.0".to_owned();
    let generation = Generation { number, process, incarnation, version, lock_inode: 4, reclaimed: None };
    turn.begin(now, &recovery, generation).expect("it begins");
    (turn, start, found)
}

/// What this process has in memory, in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel says");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// So many operations: what is known and what a start reads is bounded by the window, and both sides of it answer. Gives what
/// the process had in memory at half, and at the end, in KiB.
fn check<S: Storage>(storage: &dyn Fn() -> S, retention: Retention, pace: Pace) -> (u64, u64) {
    let Pace { total, days } = pace;
    let mut months = Months::new(storage, retention, pace);
    months.work(1_000);
    let (mut months, early) = months.restarts();
    months.work(total / 2);
    let (half, resident_at_half) = (months.known(), resident_kib());
    months.work(total);
    let resident = resident_kib();
    let (mut months, late) = months.restarts();
    let known = months.known();
    let took = |start: &Start| format!("{} records folded, {} us", start.folded, start.took_us);
    eprintln!("the start after 1,000: {}; after {total}: {}", took(&early), took(&late));
    eprintln!("operations known: {half} at half, {known} at the end");
    eprintln!("memory: {resident_at_half} KiB at half, {resident} KiB at the end");
    // In the window, or among the last; the latest in full; a batch that is being filled, and one that is not all out.
    let window = usize::try_from((total * 7 / days).max(retention.settled)).expect("some");
    let most = window + retention.recent + 2 * retention.batch;
    assert!(known <= most && half <= most, "{half} and {known} operations are known, at most {most} need be");
    // Of 1 MiB of ledger, and of the turn with which it became so much.
    assert!(late.folded <= early.folded.max(2_000) + 2 * AT_ONCE, "{late:?} after {early:?}");
    for ago in [0, 1, 3, 6] {
        let asked = pace.ago(ago);
        let told = months.again(asked);
        let Told::Settled { operation, replayed: true, .. } = &told else { panic!("{ago} days ago: {told:?}") };
        assert_eq!((operation.id, operation.digest), months.told[&asked], "{ago} days ago");
    }
    for ago in [days / 2, days * 3 / 4, days] {
        let told = months.again(pace.ago(ago));
        assert!(matches!(told, Told::Refused(Refusal::KeyExpired { .. })), "{ago} days ago: {told:?}");
    }
    (resident_at_half, resident)
}

#[test]
fn law_09_operations_out_of_the_window_cost_nothing() {
    let disk = SimulatedDisk::new();
    let retention = Retention { settled: 500, batch: 256, recent: 100, ..Retention::default() };
    let _with_its_disk = check(&|| disk.storage(), retention, Pace { total: 20_000, days: 120 });
}

/// A disk that is never waited for: nothing here loses power.
struct Unsynced(Disk);

impl Storage for Unsynced {
    type File = <Disk as Storage>::File;
    type Lock = <Disk as Storage>::Lock;

    fn lock(&self, wait: Duration) -> Result<Self::Lock, LockError> {
        self.0.lock(wait)
    }

    fn create(&self, name: Name<'_>) -> io::Result<Self::File> {
        self.0.create(name)
    }

    fn open(&self, name: Name<'_>, access: Access) -> io::Result<Self::File> {
        self.0.open(name, access)
    }

    fn len(&self, file: &Self::File) -> io::Result<u64> {
        self.0.len(file)
    }

    fn read_at(&self, file: &Self::File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(file, offset, buffer)
    }

    fn write_at(&self, file: &Self::File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_at(file, offset, bytes)
    }

    fn allocate(&self, file: &Self::File, offset: u64, len: u64) -> io::Result<bool> {
        self.0.allocate(file, offset, len)
    }

    fn truncate(&self, file: &Self::File, len: u64) -> io::Result<()> {
        self.0.truncate(file, len)
    }

    fn sync_data(&self, _file: &Self::File) -> io::Result<()> {
        Ok(())
    }

    fn sync_folder(&self, _folder: Folder) -> io::Result<()> {
        Ok(())
    }

    fn seal(&self, name: Name<'_>) -> io::Result<()> {
        self.0.seal(name)
    }

    fn unseal(&self, name: Name<'_>) -> io::Result<()> {
        self.0.unseal(name)
    }

    fn is_sealed(&self, file: &Self::File) -> io::Result<bool> {
        self.0.is_sealed(file)
    }

    fn look(&self, name: Name<'_>) -> io::Result<Seen> {
        self.0.look(name)
    }

    fn rename(&self, folder: Folder, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(folder, from, to)
    }

    fn link(&self, file: &str, from: Folder, to: Folder) -> io::Result<()> {
        self.0.link(file, from, to)
    }
    fn unlink(&self, name: Name<'_>) -> io::Result<()> {
        self.0.unlink(name)
    }

    fn list(&self, folder: Folder) -> io::Result<Vec<String>> {
        self.0.list(folder)
    }
}

/// A hundred thousand operations in five weeks, twenty times over unless `--rounds` says otherwise. Fewer than five times are all
/// among the last that are known.
#[test]
#[ignore = "two million operations, some minutes and 3 GB of disk"]
#[expect(clippy::disallowed_methods, reason = "how much to do is the caller's choice")]
fn long_operations_out_of_the_window_cost_nothing() {
    let rounds = std::env::var("OSTLER_TEST_ROUNDS").map_or(20, |text| text.parse().expect("a number"));
    let folder = tempfile::tempdir().expect("a folder");
    let disk = || Unsynced(Disk::new(folder.path().join("ledger"), folder.path().join("quarantine")));
    let pace = Pace { total: 100_000 * rounds, days: 36 * rounds };
    let (half, end) = check(&disk, Retention::default(), pace);
    // At half of less than this the window is not full yet.
    if pace.total >= 500_000 {
        assert!(end <= half + half / 4, "memory grows: {half} KiB at half, {end} KiB at the end");
    }
}
