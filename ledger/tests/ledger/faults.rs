//! The fault table: every call of a writer fails once, in every way, at every place of a run; and what each kind of failure
//! comes to.
//!
//! Promises: a failed write refuses its turn and nothing else, and the same turn goes through once the cause is gone; a
//! failed sync ends the ledger, even if the next sync would succeed; whatever failed, what was acknowledged is there.

use std::io::ErrorKind;

use ostler_ledger::storage::{Call, Crash, Fault, FaultKind, SimulatedStorage};
use ostler_ledger::{AppendError, Entry, Ledger, SyncError};

use crate::crashes::{Machine, Model, new_machine};
use crate::support::*;

/// What the owner of the ledger sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// Nothing.
    Nothing,
    /// One turn is refused, and why; it goes through when it is asked for again.
    Full,
    Failed,
    /// The ledger is at its end.
    End,
}

const EIO: FaultKind = FaultKind::Error(ErrorKind::Other);
const ENOSPC: FaultKind = FaultKind::Error(ErrorKind::StorageFull);
const EDQUOT: FaultKind = FaultKind::Error(ErrorKind::QuotaExceeded);
const EFBIG: FaultKind = FaultKind::Error(ErrorKind::FileTooLarge);
const EINTR: FaultKind = FaultKind::Error(ErrorKind::Interrupted);
const ERRORS: &[FaultKind] = &[EIO, ENOSPC, EDQUOT, EFBIG, EINTR];

#[rustfmt::skip]
const TABLE: &[(Call, &[FaultKind], Seen)] = &[
    (Call::Write,      &[EINTR, FaultKind::Short(1), FaultKind::Short(4096)],                   Seen::Nothing),
    (Call::Write,      &[ENOSPC, EDQUOT, EFBIG, FaultKind::Partial(700, ErrorKind::StorageFull)], Seen::Full),
    (Call::Write,      &[EIO, FaultKind::Partial(1, ErrorKind::Other)],                         Seen::Failed),
    (Call::Create,     &[ENOSPC, EDQUOT],                                                       Seen::Full),
    (Call::Create,     &[EIO],                                                                  Seen::Failed),
    // Less is reserved then.
    (Call::Allocate,   ERRORS,                                                                  Seen::Nothing),
    // What a closed segment had reserved stays so.
    (Call::Truncate,   ERRORS,                                                                  Seen::Nothing),
    // The next opening makes it read-only.
    (Call::Seal,       ERRORS,                                                                  Seen::Nothing),
    (Call::SyncData,   ERRORS,                                                                  Seen::End),
    (Call::SyncFolder, ERRORS,                                                                  Seen::End),
];

/// A turn to a sync, over several segments.
fn turns() -> Vec<Vec<Entry>> {
    let big = "x".repeat(3000);
    let turn = |number: usize| match number % 3 {
        0 => vec![entry(Some("a"), &format!("{number}"))],
        1 => vec![entry(Some("b"), &format!("{number} {big}")), entry(None, &big)],
        _ => vec![entry(Some("a"), &format!("{number} {big}"))],
    };
    (0..9).map(turn).collect()
}

fn texts_of(batch: &[Entry]) -> Vec<String> {
    batch.iter().map(|entry| entry.members.get("body").unwrap()["text"].as_str().unwrap().to_owned()).collect()
}

/// Lives through all turns, or until the ledger is at its end.
fn live(ledger: &mut Ledger<SimulatedStorage>, model: &mut Model, context: &str) -> Seen {
    let mut seen = Seen::Nothing;
    for batch in turns() {
        let head = ledger.head();
        match ledger.append(&batch, &STAMP) {
            Ok(_positions) => {}
            Err(error) => {
                assert_eq!(ledger.head(), head, "{context}: a refused turn changes nothing");
                seen = match &error {
                    AppendError::StorageFull(_) => Seen::Full,
                    AppendError::StorageFailed(_) => Seen::Failed,
                    AppendError::Entry { .. }
                    | AppendError::BatchTooLarge { .. }
                    | AppendError::SyncFirst { .. }
                    | AppendError::Poisoned => panic!("{context}: {error}"),
                };
                let again = ledger.append(&batch, &STAMP);
                assert!(again.is_ok(), "{context}: refused once more: {again:?}");
            }
        }
        model.open.push(texts_of(&batch));
        match ledger.sync() {
            Ok(()) => model.synced(),
            Err(SyncError::Failed(_)) => {
                assert!(matches!(ledger.sync(), Err(SyncError::Poisoned)), "{context}");
                assert!(matches!(ledger.append(&batch, &STAMP), Err(AppendError::Poisoned)), "{context}");
                return Seen::End;
            }
            Err(SyncError::Poisoned) => panic!("{context}: no sync had failed"),
        }
    }
    seen
}

/// One run with a fault. `None` once there are not so many such calls.
fn suffer(fault: Fault, context: &str) -> Option<Seen> {
    let mut machine: Machine = new_machine();
    let (mut ledger, _recovery) = machine.open().unwrap();
    let mut model = Model::default();
    machine.disk.inject(fault);
    let seen = live(&mut ledger, &mut model, context);
    drop(ledger);
    if machine.disk.faults_left() > 0 {
        return None;
    }
    if seen != Seen::End {
        assert!(model.open.is_empty(), "{context}");
    }
    let crash = if fault.after.is_multiple_of(2) { Crash::Kill } else { Crash::PowerLoss };
    machine.crash(crash, fault.after);
    machine.recover(&mut model, context);
    Some(seen)
}

#[test]
fn every_failure_of_every_call_comes_to_what_the_table_says() {
    for (call, kinds, expected) in TABLE {
        for kind in *kinds {
            let mut places = 0;
            for after in 0.. {
                let context = format!("{call:?} {after} fails with {kind:?}");
                let Some(seen) = suffer(Fault { call: *call, after, kind: *kind }, &context) else { break };
                assert_eq!(seen, *expected, "{context}");
                places += 1;
            }
            assert!(places > 1, "{call:?} {kind:?} failed at {places} places");
        }
    }
}

/// A failed sync forgets what it should have made durable; the opening after it makes that durable again, and that can
/// fail as well, in every call that it makes. Once an opening succeeds, no loss of power takes back what was acknowledged.
#[test]
fn what_failed_syncs_forgot_is_durable_once_an_opening_succeeds() {
    let fault = |call, after| Fault { call, after, kind: EIO };
    let syncs = || [Call::SyncData, Call::SyncFolder].into_iter().flat_map(move |call| (0..4).map(move |n| (call, n)));
    let calls = [Call::Create, Call::Write, Call::Truncate, Call::Rename];
    let others = || calls.into_iter().flat_map(move |call| (0..2).map(move |n| (call, n)));
    let mut thrice = 0;
    for (first, second) in syncs().flat_map(|first| syncs().map(move |second| (first, second))) {
        for third in others() {
            let context = format!("{first:?}, {second:?}, {third:?}");
            let mut machine = new_machine();
            let mut model = Model::default();
            let mut ledger = machine.recover(&mut model, &context);
            live(&mut ledger, &mut model, &context);
            drop(ledger);
            machine.crash(Crash::PowerLoss, third.1);
            let mut failed = 0;
            for (call, after) in [first, second, third] {
                machine.disk.inject(fault(call, after));
                failed += u32::from(!attempt(&machine, &mut model, &context));
                machine.disk.withdraw_faults();
            }
            thrice += u32::from(failed == 3);
            assert!(attempt(&machine, &mut model, &context), "{context}: nothing fails any more");
            machine.crash(Crash::PowerLoss, third.1 + 1);
            drop(machine.recover(&mut model, &context));
        }
    }
    assert!(thrice > 20, "three attempts failed in {thrice} runs");
}

/// Opens and writes a turn. Returns whether it was acknowledged.
fn attempt(machine: &Machine, model: &mut Model, context: &str) -> bool {
    let mut fold = Texts::default();
    let Ok((mut ledger, recovery)) = machine.open_folding(&mut fold) else { return false };
    model.accept(&fold.texts, context);
    let batch = [recovery.owed, vec![entry(None, "attempted")]].concat();
    if ledger.append(&batch, &STAMP).is_err() {
        return false;
    }
    model.open.push(vec!["attempted".to_owned()]);
    let synced = ledger.sync().is_ok();
    if synced {
        model.synced();
    }
    synced
}
