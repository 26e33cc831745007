//! Retirement on simulated storage: what goes, what stays known, and what any crash between leaves.

use super::carry;
use super::fold::{self, FoldError};
use super::recall::recall;
use super::retiring::{HeldBy, Order, Retirement};
use super::turn::Turn;
use super::turn_tests::*;
use crate::machine::limits::Retention;
use crate::machine::*;
use ostler_ledger::storage::{Call, Crash, Fault, FaultKind, Folder, Name, SimulatedDisk, Stop};
use ostler_ledger::{Entry, Ledger, Options, Recovery, RetireError, Stamp};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

const RETENTION: Retention = Retention {
    recent: 2,
    of_session: 1,
    batch: 4,
    window_us: 1_000_000,
    settled: 6,
    free_form: 1_000,
    known: 100_000,
};

fn options() -> Options {
    Options { segment_bytes: 6_000, snapshot_tail_bytes: u64::MAX, ..Options::new("test", "boot") }
}

fn opened(disk: &SimulatedDisk) -> (Sut, Recovery) {
    Turn::open(|| disk.storage(), &options(), RETENTION).unwrap()
}

fn opens(disk: &SimulatedDisk) -> Sut {
    let (mut turn, recovery) = opened(disk);
    begin(&mut turn, &recovery);
    turn
}

/// The number is in the key, and in the time at which it is asked: a second later each.
fn pass(turn: &mut Sut, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let now = Time { wall_us: now().wall_us + number * 1_000_000, boot_us: 1 };
        let prune = Action::Prune { older_ms: 1 << 50 };
        run_at(turn, now, vec![(request(&format!("key-{number}"), 1, prune), None)]).unwrap();
    }
}

/// A ledger of some segments, of which the window leaves only the last ones needed.
fn sample(disk: &SimulatedDisk) -> Sut {
    let mut turn = opens(disk);
    pass(&mut turn, 0..60);
    turn
}

fn order(dry_run: bool) -> Order {
    Order { keep: true, dry_run, act: json!({"uid": 7}) }
}

fn retire(turn: &mut Sut) -> Result<Retirement, RetireError> {
    turn.retire(now(), &order(false)).unwrap()
}

fn files(disk: &SimulatedDisk, folder: Folder) -> BTreeMap<String, Vec<u8>> {
    let content = |file: String| {
        let bytes = disk.contents(Name { folder, file: &file }).unwrap();
        (file, bytes)
    };
    let names = disk.names(folder).into_iter().filter(|file| file.ends_with(".jsonl"));
    names.map(content).collect()
}

/// As if the archive had been put back.
fn whole(disk: &SimulatedDisk) -> SimulatedDisk {
    disk_of(files(disk, Folder::Archive).into_iter().chain(files(disk, Folder::Ledger)))
}

fn disk_of(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    let each = files.into_iter();
    each.for_each(|(file, bytes)| disk.tamper(Name { folder: Folder::Ledger, file: &file }, &bytes));
    disk
}

/// How many of the first keys are forgotten; the others get their outcome from the records.
fn forgotten(turn: &Sut, disk: &SimulatedDisk, keys: u64) -> u64 {
    let view = turn.view();
    let state = view.read();
    let known = |number: u64| match state.known(&Scope::Owner, &Key::parse(&format!("key-{number}")).unwrap()) {
        Known::Here(_) => true,
        Known::Nowhere => false,
        Known::Perhaps(rows) => rows.iter().any(|row| match recall(&disk.storage(), row) {
            Recalled::Read(operation) => operation.key.as_str() == format!("key-{number}"),
            Recalled::Unreadable(id) => panic!("{id} cannot be read back"),
        }),
    };
    let first = (0..keys).find(|number| known(*number)).unwrap();
    assert!((first..keys).all(known), "from {first} on");
    first
}

#[test]
fn what_nothing_known_leads_to_goes_and_the_rest_stays_known() {
    let disk = SimulatedDisk::new();
    let mut turn = sample(&disk);
    let before = files(&disk, Folder::Ledger);
    let state = turn.view().read().clone();
    let gone = forgotten(&turn, &disk, 60);
    assert!((20..58).contains(&gone), "{gone}");
    let told = turn.retire(now(), &order(true)).unwrap().unwrap();
    assert_eq!(files(&disk, Folder::Ledger), before, "it is only told");
    let done = retire(&mut turn).unwrap();
    assert_eq!((&done.segments, &done.held, done.left), (&told.segments, &told.held, None));
    let needed = state.oldest_needed().unwrap().0;
    let last = done.segments.last().unwrap().last;
    let held = done.held.unwrap();
    assert!(last < needed && held.seq == needed && held.by == HeldBy::Key(RETENTION), "{last} {needed} {held:?}");
    assert_eq!(files(&disk, Folder::Archive).len(), done.segments.len());
    assert_eq!(*turn.view().read(), state, "it changes nothing that is known");
    assert_eq!(forgotten(&turn, &disk, 60), gone);
    assert!(retire(&mut turn).unwrap().segments.is_empty(), "once is enough");
    // What comes now is folded behind what was stated again.
    pass(&mut turn, 60..70);
    let published = turn.view();
    drop(turn);
    let (turn, recovery) = opened(&disk);
    assert_eq!((recovery.problems.len(), recovery.loss, recovery.snapshot), (0, false, None));
    assert!(*turn.view().read() == *published.read(), "law 1");
    forgotten(&turn, &disk, 70);
    drop(turn);
    let (_ledger, _recovery, folded) = fold::open(|| whole(&disk).storage(), &options(), RETENTION).unwrap();
    assert!(folded.state == *published.read(), "law 1: the archive put back tells the same");
    assert_eq!(folded.unlike, None);
}

#[test]
fn what_is_listed_or_open_holds_its_records() {
    let disk = SimulatedDisk::new();
    let mut turn = opens(&disk);
    run(&mut turn, vec![(request("spawn", 1, spawn("a")), None)]).unwrap();
    run(&mut turn, vec![(started("a"), None)]).unwrap();
    pass(&mut turn, 0..60);
    let listed = retire(&mut turn).unwrap();
    assert_eq!((listed.segments.len(), listed.held.unwrap().by), (0, HeldBy::Session(session("a"))));
    // It leaves the list, and its files are still owed a removal: its chain is open, and goes on.
    let exited = Word::Exited { run: None, exit: Exit::Code(0), at_us: 5, survivors: Vec::new() };
    let word = |word| Input::Observation(Observation { session: session("a"), episode: 1, word });
    run(&mut turn, vec![(word(exited), None)]).unwrap();
    let prune = Action::Prune { older_ms: 0 };
    run_at(&mut turn, Time { wall_us: u64::MAX >> 12, boot_us: 1 }, vec![(request("prune", 1, prune), None)]).unwrap();
    assert!(turn.view().read().sessions.is_empty() && turn.view().read().removals.get(&session("a")).is_some());
    let later = (u64::MAX >> 12) / 1_000_000;
    pass(&mut turn, later..later + 60);
    let done = retire(&mut turn).unwrap();
    assert!(done.segments.len() > 3, "{done:?}");
    drop(turn);
    let mut turn = opens(&disk);
    run(&mut turn, vec![(word(Word::Removed), None)]).unwrap();
    drop(turn);
    let (turn, recovery) = opened(&disk);
    assert_eq!(recovery.problems, []);
    assert!(turn.view().read().removals.is_empty());
}

/// The snapshots go with the segments that they list; so that a start stays cheap, the next one is due at once.
#[test]
fn a_snapshot_is_due_behind_a_retirement() {
    let disk = SimulatedDisk::new();
    let options = Options { snapshot_tail_bytes: 10_000, ..options() };
    let (mut turn, recovery) = Sut::open(|| disk.storage(), &options, RETENTION).unwrap();
    begin(&mut turn, &recovery);
    pass(&mut turn, 0..60);
    turn.snapshot(false).expect("it is due").write(&disk.storage()).unwrap();
    assert!(turn.snapshot(false).is_none());
    assert!(!retire(&mut turn).unwrap().segments.is_empty());
    assert!(!disk.names(Folder::Ledger).iter().any(|file| file.starts_with("snapshot-")));
    turn.snapshot(false).expect("it is due").write(&disk.storage()).unwrap();
    let published = turn.view();
    drop(turn);
    let (turn, recovery) = Sut::open(|| disk.storage(), &options, RETENTION).unwrap();
    assert!(recovery.snapshot.is_some() && recovery.folded == 0, "{recovery:?}");
    assert!(*turn.view().read() == *published.read(), "law 1");
}

/// The process or the machine stops before and after every call of it: nothing known changes, and it can be done again.
#[test]
fn a_crash_at_any_call_leaves_the_same_state() {
    let sample_disk = SimulatedDisk::new();
    drop(sample(&sample_disk));
    let sample = files(&sample_disk, Folder::Ledger);
    let mut finished = 0;
    for (before, crash) in
        [(true, Crash::Kill), (false, Crash::Kill), (true, Crash::PowerLoss), (false, Crash::PowerLoss)]
    {
        for call in 0.. {
            let disk = disk_of(sample.clone());
            let (mut turn, _recovery) = opened(&disk);
            let published = turn.view();
            disk.stop_at(if before { Stop::Before(call) } else { Stop::After(call) });
            let done = turn.retire(now(), &order(false)).is_ok_and(|done| done.is_ok_and(|done| done.left.is_none()));
            drop(turn);
            disk.crash(crash, call);
            let options = Options { boot: "next".to_owned(), ..options() };
            let context = format!("{before} {crash:?} {call}");
            for again in 0..2 {
                let (mut turn, recovery) = Sut::open(|| disk.storage(), &options, RETENTION).unwrap();
                assert_eq!(recovery.problems, [], "{context}");
                assert!(*turn.view().read() == *published.read(), "{context}: law 1");
                forgotten(&turn, &disk, 60);
                finished +=
                    usize::from(again == 0 && turn.retire(now(), &order(true)).unwrap().unwrap().segments.is_empty());
            }
            let (_ledger, _recovery, folded) = fold::open(|| whole(&disk).storage(), &options, RETENTION).unwrap();
            assert!(folded.state == *published.read() && folded.unlike.is_none(), "{context}: the archive put back");
            let (mut turn, _) = Sut::open(|| disk.storage(), &options, RETENTION).unwrap();
            retire(&mut turn).unwrap();
            drop(turn);
            let (turn, _) = Sut::open(|| disk.storage(), &options, RETENTION).unwrap();
            assert!(*turn.view().read() == *published.read(), "{context}: law 1, again");
            if done {
                break;
            }
        }
    }
    assert!(finished > 10, "{finished}");
}

#[test]
fn what_fails_retires_nothing_and_can_be_asked_again() {
    let disk = SimulatedDisk::new();
    let mut turn = sample(&disk);
    let state = turn.view().read().clone();
    let first = files(&disk, Folder::Ledger).into_keys().next();
    let lacks = |error: Result<Retirement, RetireError>, what: &str| {
        let error = error.unwrap_err();
        assert!(format!("{error:?}").starts_with(what), "{error:?}");
    };
    disk.inject(Fault { call: Call::Link, after: 0, kind: FaultKind::Error(ErrorKind::CrossesDevices) });
    lacks(retire(&mut turn), "Archive");
    for after in 0..2 {
        disk.inject(Fault { call: Call::Write, after, kind: FaultKind::Error(ErrorKind::StorageFull) });
        lacks(retire(&mut turn), "Append(StorageFull");
        assert_eq!(disk.faults_left(), 0);
    }
    assert_eq!(files(&disk, Folder::Ledger).into_keys().next(), first);
    disk.inject(Fault { call: Call::Unlink, after: 1, kind: FaultKind::Error(ErrorKind::Other) });
    assert!(retire(&mut turn).unwrap().left.is_some());
    drop(turn);
    let turn = opens(&disk);
    assert_ne!(files(&disk, Folder::Ledger).into_keys().next(), first, "the next start takes the rest away");
    assert_eq!(turn.view().read().past, state.past);
    drop(turn);
    // Of a sync nobody knows what it did.
    let disk = SimulatedDisk::new();
    let mut turn = sample(&disk);
    disk.inject(Fault { call: Call::SyncData, after: 0, kind: FaultKind::Error(ErrorKind::Other) });
    assert!(turn.retire(now(), &order(false)).is_err());
}

#[test]
fn damage_stays_and_what_lies_before_it_can_go() {
    let disk = SimulatedDisk::new();
    drop(sample(&disk));
    let (file, mut bytes) = files(&disk, Folder::Ledger).into_iter().nth(1).unwrap();
    bytes[900] ^= 1;
    disk.tamper(Name { folder: Folder::Ledger, file: &file }, &bytes);
    let mut turn = opens(&disk);
    let told = retire(&mut turn).unwrap();
    assert_eq!(told.segments.len(), 1);
    assert_eq!(told.held.unwrap().by, HeldBy::Damage(file.clone()));
    let told = retire(&mut turn).unwrap();
    assert_eq!((told.segments.len(), told.held.unwrap().by), (0, HeldBy::Damage(file)));
}

/// A ledger that begins late, with these records behind it.
fn late(carried: &[Entry]) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    drop(sample(&disk));
    let (mut ledger, _recovery) = Ledger::open(disk.storage(), options()).unwrap();
    let stamp = Stamp { at_us: now().wall_us, mono_us: 1, bg: 1 };
    ledger.retire(2, carried, None, &stamp, false).unwrap();
    disk
}

fn error_of(disk: &SimulatedDisk) -> FoldError {
    Sut::open(|| disk.storage(), &options(), RETENTION).unwrap_err()
}

/// Nothing begins empty because it could not read what there was.
#[test]
fn a_state_that_cannot_be_read_is_refused() {
    let piece = |fold: &str, of: u64, part: u64, state: &str| {
        let body = json!({"fold": fold, "of": of, "part": part, "state": state});
        Entry::new("carry", [("body".to_owned(), body)])
    };
    let cases: [(&[Entry], &str); 6] = [
        (&[], "NotCarried"),
        (&[piece("ostler-state-2", 1, 1, "anything")], "Uncarried"),
        (&[piece(carry::FORM, 1, 1, "{}")], "Uncarried"),
        (&[piece(carry::FORM, 2, 1, "{")], "NotCarried"),
        (&[piece(carry::FORM, 2, 2, "{}")], "NotCarried"),
        (&[Entry::new("carry", serde_json::Map::new())], "NotCarried"),
    ];
    for (entries, expected) in cases {
        let error = error_of(&late(entries));
        assert!(format!("{error:?}").starts_with(expected), "{entries:?}: {error:?}");
    }
}

#[test]
fn what_stands_before_the_state_counts_for_nothing() {
    let mut state = State::keeping(RETENTION);
    state.generation = 41;
    let block = carry::entries(&state, &BTreeSet::from([session("d")]));
    let unreadable = Entry { t: "of_a_later_version".to_owned(), ..Entry::default() };
    let disk = late(&[std::slice::from_ref(&unreadable), &block[..]].concat());
    let (_ledger, _recovery, folded) = fold::open(|| disk.storage(), &options(), RETENTION).unwrap();
    assert!(folded.state == state, "what stands before it is folded into nothing");
    assert_eq!(folded.doubtful, BTreeSet::from([session("d")]));
    // Behind it everything counts.
    let error = error_of(&late(&[&block[..], &[unreadable]].concat()));
    assert!(matches!(error, FoldError::Unreadable(_)), "{error:?}");
}

/// Other limits come with a later version.
#[test]
fn a_state_goes_on_under_other_limits() {
    let disk = SimulatedDisk::new();
    let mut turn = sample(&disk);
    retire(&mut turn).unwrap();
    let published = turn.view();
    drop(turn);
    for retention in [Retention { recent: 1, batch: 2, settled: 2, ..RETENTION }, Retention::default()] {
        let (turn, recovery) = Sut::open(|| disk.storage(), &options(), retention).unwrap();
        let (view, before) = (turn.view(), published.read());
        let state = view.read();
        assert_eq!((recovery.problems.len(), state.retention, violations(&state)), (0, retention, Vec::new()));
        assert_eq!((state.settled, state.generation), (before.settled, before.generation));
        assert!(state.operations.iter().count() <= 2);
    }
}

#[test]
fn every_piece_fits_a_line_whatever_is_in_it() {
    let disk = SimulatedDisk::new();
    let mut turn = opens(&disk);
    let label = |number: usize| (format!("label-{number}"), "\"\\\u{1}ü😀".repeat(18));
    for letter in "abcdefghijklmnop".chars() {
        let prepared = Some(PreparedSession { id: session(&letter.to_string()), spec: Digest([7; 32]) });
        let action = Action::Spawn {
            prepared,
            name: None,
            labels: (0..32).map(label).collect(),
            adapter: crate::machine::Adapter::Inbox,
            readiness: None,
            source: None,
        };
        run(&mut turn, vec![(request(&format!("key-{letter}"), 1, action), None)]).unwrap();
    }
    let state = turn.view().read().clone();
    let entries = carry::entries(&state, &BTreeSet::new());
    assert!(entries.len() > 5, "{}", entries.len());
    drop(turn);
    let (mut ledger, _recovery) = Ledger::open(disk.storage(), options()).unwrap();
    for turn in ostler_ledger::turns_of(&entries) {
        ledger.append(turn, &Stamp { at_us: 5, mono_us: 5, bg: 1 }).unwrap();
        ledger.sync().unwrap();
    }
    drop(ledger);
    let (ledger, _recovery, folded) = fold::open(|| disk.storage(), &options(), RETENTION).unwrap();
    assert!(folded.state == state && folded.unlike.is_none());
    drop(ledger);
    // And what says something else is noticed.
    let (mut ledger, _recovery) = Ledger::open(disk.storage(), options()).unwrap();
    let mut other = state;
    other.generation = 99;
    let other = carry::entries(&other, &BTreeSet::new());
    for turn in ostler_ledger::turns_of(&other) {
        ledger.append(turn, &Stamp { at_us: 5, mono_us: 5, bg: 1 }).unwrap();
        ledger.sync().unwrap();
    }
    let head = ledger.head().seq;
    drop(ledger);
    let (_ledger, _recovery, folded) = fold::open(|| disk.storage(), &options(), RETENTION).unwrap();
    assert_eq!(folded.unlike, Some(head));
}

/// Ledgers that were retired by this version are read by every later one: this file never changes.
#[test]
fn the_first_form_is_read_for_ever() {
    let text = include_str!("golden/ostler-state-1.json").trim_end();
    let body = json!({"fold": "ostler-state-1", "of": 1, "part": 1, "state": text});
    let disk = late(&[Entry::new("carry", [("body".to_owned(), body)])]);
    let (_ledger, _recovery, folded) = fold::open(|| disk.storage(), &options(), Retention::default()).unwrap();
    let state = folded.state;
    assert_eq!((state.generation, state.sessions.len(), state.known_operations()), (1, 2, 8));
    assert_eq!(violations(&state), Vec::<String>::new());
    let stored: Value = serde_json::to_value(state.stored()).unwrap();
    let golden: Value = serde_json::from_str(text).unwrap();
    for member in ["boot", "generation", "removals", "settled"] {
        assert_eq!(stored[member], golden["state"][member], "{member}");
    }
}
