//! Crashes: at every call of scripted runs, in recovery and in the recovery of a recovery, and at random by seeds.
//!
//! One oracle for all of them: what was synced is there and equal, then come whole turns that were appended and not
//! synced, in order; what was refused is not there; a crash is never taken for tampering; recovery is idempotent.

use std::io::ErrorKind;

use ostler_ledger::storage::{Call, Crash, Fault, FaultKind, Folder, Name, SimulatedDisk, SimulatedStorage, Stop};
use ostler_ledger::{AppendError, Entry, Ledger, OpenError, Options, Recovery, VerifyOptions, verify};

use crate::support::*;

/// What the outside knows of a ledger's content: the texts of its records, turn by turn.
#[derive(Clone, Default)]
pub(crate) struct Model {
    pub(crate) acknowledged: Vec<String>,
    /// Appended, or perhaps appended, and not known to be synced.
    pub(crate) open: Vec<Vec<String>>,
}

impl Model {
    /// Checks a recovered ledger, and takes what survived as acknowledged: recovery has synced it.
    pub(crate) fn accept(&mut self, found: &[String], context: &str) {
        let mut whole = vec![self.acknowledged.clone()];
        for turn in &self.open {
            let before = whole.last().expect("never empty").clone();
            whole.push([before, turn.clone()].concat());
        }
        assert!(whole.iter().any(|expected| expected == found), "{context}: {found:?} is none of {whole:?}");
        self.acknowledged = found.to_vec();
        self.open.clear();
    }

    pub(crate) fn synced(&mut self) {
        self.acknowledged.extend(std::mem::take(&mut self.open).concat());
    }
}

/// A machine with its disk, and the boot that it is in.
pub(crate) struct Machine {
    pub(crate) disk: SimulatedDisk,
    boot: u32,
    segment_bytes: u64,
}

impl Machine {
    pub(crate) fn open(&self) -> Result<(Ledger<SimulatedStorage>, Recovery), OpenError> {
        self.open_folding(&mut Texts::default())
    }

    pub(crate) fn open_folding(&self, fold: &mut Texts) -> Result<(Ledger<SimulatedStorage>, Recovery), OpenError> {
        let (segment_bytes, snapshot_tail_bytes) = (self.segment_bytes, 1);
        let reserve_bytes = 3_000;
        let options =
            Options { segment_bytes, snapshot_tail_bytes, reserve_bytes, ..options(&format!("boot {}", self.boot)) };
        Ledger::open_from(self.disk.storage(), options, fold)
    }

    pub(crate) fn crash(&mut self, crash: Crash, seed: u64) {
        self.disk.crash(crash, seed);
        self.boot += u32::from(crash == Crash::PowerLoss);
    }

    /// Opens without trouble, checks everything, writes what is owed, and checks that a second opening finds it so.
    pub(crate) fn recover(&self, model: &mut Model, context: &str) -> Ledger<SimulatedStorage> {
        let mut fold = Texts::default();
        let (mut ledger, recovery) = self.open_folding(&mut fold).unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(recovery.degraded, Vec::<String>::new(), "{context}");
        // Snapshots are whole or not there, and stand on what was synced: none is ever dropped after a crash.
        assert_eq!(recovery.dropped_snapshots, [], "{context}");
        assert!(!self.disk.names(Folder::Ledger).contains(&"snapshot.new".to_owned()), "{context}");
        assert_eq!(fold.texts, texts(&ledger), "{context}: the snapshot and the history differ");
        model.accept(&fold.texts, context);
        turn(&mut ledger, &[recovery.owed, vec![entry(None, "opened")]].concat());
        model.acknowledged.push("opened".to_owned());
        drop(ledger);
        let (ledger, again) = self.open().unwrap_or_else(|error| panic!("{context}, again: {error}"));
        assert_eq!((again.tail, again.owed.len(), again.degraded.len()), (None, 0, 0), "{context}");
        assert_eq!(texts(&ledger), model.acknowledged, "{context}");
        let report = verify(&self.disk.storage(), &VerifyOptions::default()).unwrap();
        assert!(report.ok() && report.tail.is_none(), "{context}: {report:?}");
        let mut files = self.disk.names(Folder::Ledger);
        files.retain(|file| file.ends_with(".jsonl"));
        let (last, closed) = files.split_last().expect("something was written");
        let sealed = |file: &String| self.disk.is_sealed(segment(file));
        assert!(closed.iter().all(sealed) && !sealed(last), "{context}: every segment but the last is sealed");
        ledger
    }
}

/// One step of a script.
#[derive(Clone)]
enum Step {
    Append(Vec<Entry>),
    Sync,
    Snapshot,
}

fn script() -> Vec<Step> {
    let big = "x".repeat(3000);
    vec![
        Step::Append(vec![entry(Some("a"), "1")]),
        Step::Sync,
        Step::Append(vec![entry(Some("a"), "2"), entry(Some("b"), &big), entry(None, &big)]),
        Step::Append(vec![entry(Some("b"), &big)]),
        Step::Sync,
        Step::Snapshot,
        // The first segment is full by now.
        Step::Append(vec![entry(Some("a"), "3"), entry(None, &big), entry(Some("b"), &big)]),
        Step::Sync,
        Step::Snapshot,
        Step::Append(vec![entry(None, "short")]),
        Step::Sync,
        Step::Snapshot,
        Step::Append(vec![entry(Some("b"), "4"), entry(Some("b"), "5")]),
        Step::Sync,
    ]
}

/// Runs the script until its end or until the process stops.
fn run(ledger: &mut Ledger<SimulatedStorage>, model: &mut Model) {
    for step in script() {
        match step {
            Step::Append(batch) => {
                let texts = batch
                    .iter()
                    .map(|entry| entry.members.get("body").unwrap()["text"].as_str().unwrap().to_owned())
                    .collect();
                model.open.push(texts);
                if ledger.append(&batch, &STAMP).is_err() {
                    return;
                }
            }
            Step::Sync if ledger.sync().is_ok() => model.synced(),
            Step::Sync => return,
            Step::Snapshot => {
                let fold = Texts { texts: model.acknowledged.clone(), ..Texts::default() };
                if ledger.snapshot(&fold.payload(), FOLD).is_err() {
                    return;
                }
            }
        }
    }
}

pub(crate) fn new_machine() -> Machine {
    Machine { disk: SimulatedDisk::new(), boot: 0, segment_bytes: 8000 }
}

/// Calls that the script makes, opening included.
fn calls_of_script() -> u64 {
    let machine = new_machine();
    let (mut ledger, _recovery) = machine.open().unwrap();
    run(&mut ledger, &mut Model::default());
    machine.disk.calls()
}

#[test]
fn a_crash_at_every_call_loses_nothing_that_was_acknowledged() {
    for call in 0..calls_of_script() {
        for stop in [Stop::Before(call), Stop::After(call)] {
            for (crash, seeds) in [(Crash::Kill, 6), (Crash::PowerLoss, 24)] {
                for seed in 0..seeds {
                    let mut machine = new_machine();
                    machine.disk.stop_at(stop);
                    let mut model = Model::default();
                    if let Ok((mut ledger, _recovery)) = machine.open() {
                        run(&mut ledger, &mut model);
                    }
                    machine.crash(crash, seed);
                    machine.recover(&mut model, &format!("{stop:?} {crash:?} seed {seed}"));
                }
            }
        }
    }
}

/// The opening itself crashes, and the opening after it, and the one after that.
#[test]
fn field_f08_a_crash_in_recovery_and_in_the_recovery_of_it_changes_nothing() {
    let calls = calls_of_script();
    for seed in 0..400 {
        let mut random = Random(seed);
        let mut machine = new_machine();
        machine.disk.stop_at(Stop::After(calls / 3 + random.below(calls - calls / 3)));
        let mut model = Model::default();
        if let Ok((mut ledger, _recovery)) = machine.open() {
            run(&mut ledger, &mut model);
        }
        let kinds = [Crash::Kill, Crash::PowerLoss];
        machine.crash(kinds[usize::from(random.below(2) == 1)], random.next());
        let mut floor = model.acknowledged.len();
        for _depth in 0..3 {
            let stop = random.below(24);
            machine.disk.stop_at(if random.below(2) == 0 { Stop::Before(stop) } else { Stop::After(stop) });
            let opened = machine.open();
            if let Ok((ledger, _recovery)) = &opened {
                // It came through before the stop, so what it shows is durable from here on.
                if let Some(read) =
                    ledger.records().collect::<Result<Vec<_>, _>>().ok().filter(|_| !machine.disk.is_stopped())
                {
                    let shown: Vec<String> = read.iter().filter_map(text).collect();
                    model.accept(&shown, &format!("seed {seed}"));
                    floor = shown.len();
                }
            }
            drop(opened);
            machine.crash(kinds[usize::from(random.below(2) == 1)], random.next());
        }
        machine.recover(&mut model, &format!("seed {seed}"));
        assert!(model.acknowledged.len() > floor);
    }
}

/// Random turns, faults and crashes; the seed is the whole run.
fn random_run(seed: u64) -> (Vec<String>, u64) {
    let mut random = Random(seed);
    let mut machine = new_machine();
    machine.segment_bytes = 2_000 + random.below(30_000);
    let mut model = Model::default();
    let mut ledger = machine.recover(&mut model, "new");
    let mut count = 0;
    for step in 0..30 {
        let context = format!("seed {seed} step {step}");
        if random.below(6) == 0 {
            machine.disk.inject(random.fault());
        }
        let ended = match random.below(8) {
            0..4 => {
                count += 1;
                let batch = random.batch(count);
                let texts = batch
                    .iter()
                    .map(|entry| entry.members.get("body").unwrap()["text"].as_str().unwrap().to_owned())
                    .collect();
                match ledger.append(&batch, &STAMP) {
                    Ok(_positions) => {
                        model.open.push(texts);
                        false
                    }
                    Err(
                        AppendError::StorageFull(_) | AppendError::StorageFailed(_) | AppendError::SyncFirst { .. },
                    ) => false,
                    Err(other) => panic!("{context}: {other}"),
                }
            }
            4..7 => match ledger.sync() {
                Ok(()) => {
                    model.synced();
                    if random.below(3) == 0 && ledger.snapshot_due() {
                        let fold = Texts { texts: model.acknowledged.clone(), ..Texts::default() };
                        // A fault costs the snapshot and nothing else.
                        let _taken = ledger.snapshot(&fold.payload(), FOLD);
                    }
                    false
                }
                Err(_failed) => true,
            },
            _ => true,
        };
        if ended {
            drop(ledger);
            let crash = if random.below(2) == 0 { Crash::Kill } else { Crash::PowerLoss };
            machine.crash(crash, random.next());
            ledger = machine.recover(&mut model, &context);
        }
    }
    (model.acknowledged, machine.disk.calls())
}

#[test]
fn random_runs_keep_what_they_acknowledged() {
    for seed in 0..600 {
        random_run(seed);
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..20 {
        assert_eq!(random_run(seed), random_run(seed));
    }
}

/// The harness bites: a recovery that takes half a turn for a turn does not get past the oracle.
#[cfg(feature = "testing")]
#[test]
fn half_a_turn_accepted_is_caught() {
    let mut caught = false;
    for call in 0..calls_of_script() {
        for seed in 0..6 {
            let mut machine = new_machine();
            machine.disk.stop_at(Stop::After(call));
            let mut model = Model::default();
            if let Ok((mut ledger, _recovery)) = machine.open() {
                run(&mut ledger, &mut model);
            }
            machine.crash(Crash::Kill, seed);
            let options = Options { accept_half_turn: true, segment_bytes: 8000, ..options("boot 0") };
            let (ledger, _recovery) = Ledger::open(machine.disk.storage(), options).unwrap();
            let found = texts(&ledger);
            drop(ledger);
            let (ledger, _recovery) = machine.open().unwrap();
            caught |= texts(&ledger) != found;
            let honest = std::panic::catch_unwind(move || model.accept(&found, "planted"));
            caught |= honest.is_err();
        }
    }
    assert!(caught);
}

impl Random {
    fn batch(&mut self, count: u64) -> Vec<Entry> {
        let sessions = [None, Some("a"), Some("b"), Some("c")];
        (0..1 + self.below(5))
            .map(|index| {
                let padding = "p".repeat(usize::try_from(self.below(3) * self.below(6_000)).unwrap());
                let sid = sessions[usize::try_from(self.below(4)).unwrap()];
                entry(sid, &format!("{count}.{index} {padding}"))
            })
            .collect()
    }

    fn fault(&mut self) -> Fault {
        let errors = [ErrorKind::StorageFull, ErrorKind::Other, ErrorKind::QuotaExceeded, ErrorKind::Interrupted];
        let error = errors[usize::try_from(self.below(4)).unwrap()];
        let bytes = usize::try_from(self.below(400)).unwrap();
        let (call, kind) = match self.below(9) {
            0 => (Call::Write, FaultKind::Error(error)),
            1 => (Call::Write, FaultKind::Short(bytes + 1)),
            2 => (Call::Write, FaultKind::Partial(bytes, ErrorKind::Other)),
            3 => (Call::SyncData, FaultKind::Error(error)),
            4 => (Call::SyncFolder, FaultKind::Error(error)),
            5 => (Call::Allocate, FaultKind::Error(error)),
            6 => (Call::Truncate, FaultKind::Error(error)),
            7 => (Call::Seal, FaultKind::Error(error)),
            _ => (Call::Create, FaultKind::Error(error)),
        };
        Fault { call, after: self.below(2), kind }
    }
}

/// A quarantine that cannot be written degrades and does not stop.
#[test]
fn a_full_quarantine_degrades_and_does_not_stop() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    turn(&mut ledger, &[entry(None, "kept")]);
    drop(ledger);
    let (file, bytes) = segments(&disk).remove(0);
    let disk = disk_of(&[(file, [bytes.as_slice(), b"{\"d\":\"torn"].concat())]);
    disk.inject(Fault { call: Call::Create, after: 0, kind: FaultKind::Error(ErrorKind::StorageFull) });
    let (mut ledger, recovery) = open(&disk);
    assert_eq!((recovery.degraded.len(), recovery.owed.len(), disk.names(Folder::Quarantine).len()), (1, 1, 0));
    turn(&mut ledger, &recovery.owed);
    drop(ledger);
    assert!(open(&disk).1.degraded.is_empty());
}

/// After a crash in the first turn of a segment its file is replaced by a new one; a full disk does not hinder that.
#[test]
fn a_full_disk_does_not_keep_a_ledger_from_opening() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    turn(&mut ledger, &[entry(None, "kept")]);
    drop(ledger);
    disk.crash(Crash::Kill, 0);
    disk.set_capacity(Some(0));
    let (mut ledger, recovery) = open(&disk);
    assert_eq!((texts(&ledger), recovery.degraded.len()), (vec!["kept".to_owned()], 0));
    assert_eq!(disk.names(Folder::Ledger).len(), 1);
    assert!(matches!(ledger.append(&[entry(None, "no")], &STAMP), Err(AppendError::StorageFull(_))));
    disk.set_capacity(None);
    turn(&mut ledger, &[entry(None, "again")]);
}

/// The ring: the oldest tails age out, the newest is kept whole.
#[test]
fn field_f07_the_quarantine_is_a_ring() {
    let disk = SimulatedDisk::new();
    let (mut ledger, _recovery) = open(&disk);
    turn(&mut ledger, &[entry(None, "kept")]);
    drop(ledger);
    let (file, bytes) = segments(&disk).remove(0);
    let torn = vec![b'x'; 5000];
    let disk = disk_of(&[(file, [bytes.as_slice(), &torn].concat())]);
    let old = |number: u64| format!("ledger-tail-{:020}-{number:012}-torn_tail-0123456789abcdef", 1);
    for number in 0..16 {
        let name = Name { folder: Folder::Quarantine, file: &old(number) };
        disk.tamper(name, &vec![b'o'; 1 << 20]);
    }
    disk.tamper(Name { folder: Folder::Quarantine, file: "of somebody else" }, b"stays");
    let (_ledger, recovery) = open(&disk);
    let left = disk.names(Folder::Quarantine);
    assert!(!left.contains(&old(0)) && left.contains(&old(1)) && left.contains(&"of somebody else".to_owned()));
    assert_eq!(left.len(), 17);
    assert_eq!((recovery.degraded.len(), recovery.owed.len()), (0, 16));
    let newest =
        left.iter().find(|file| disk.contents(Name { folder: Folder::Quarantine, file }) == Some(torn.clone()));
    assert!(newest.is_some());
}
