//! Records through the library to durable, beside the same bytes appended raw, and beside another store; and what of that no
//! ledger of this format can save.

use std::path::Path;

use ostler::broker::codec;
use ostler::machine::{Actor, Digest, Event, Key, Kind, OperationId, Plan as Work, SessionChange, SessionId};
use ostler_ledger::storage::Disk;
use ostler_ledger::{Entry, Ledger, Options, Stamp};

use crate::floor::{Filled, Raw, Tree, digests};
use crate::measure::{Contender, Plan, Series, in_turns};
use crate::report::{Goal, Row};
use crate::{OpenStore, Store, at};

pub(crate) const STAMP: Stamp = Stamp { at_us: 1_767_225_600_000_000, mono_us: 77_000_000, bg: 1 };

/// Times what SQLite takes for the same.
const SQLITE_AT_MOST: f64 = 0.7;

pub(crate) fn run(scratch: &Path, plan: &Plan, other: OpenStore<'_>) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    rows.extend(compare(scratch, plan, other, &accepted(), 1)?);
    for batch in [64, 512] {
        rows.extend(compare(scratch, plan, other, &changed(), batch)?);
    }
    Ok(rows)
}

/// One shape of record in one size of batch: the library, the same bytes raw, with their digests, and written over in a file
/// that was filled ahead; the other store.
fn compare(scratch: &Path, plan: &Plan, other: OpenStore<'_>, entry: &Entry, batch: usize) -> Result<Vec<Row>, String> {
    let folder = scratch.join(format!("append-{batch}"));
    let other_folder = folder.join("other");
    at("the folder", std::fs::create_dir_all(&other_folder))?;
    let disk = Disk::new(folder.join("ledger"), folder.join("quarantine"));
    let (mut ledger, _recovery) = at("the ledger", Ledger::open(disk, Options::new("bench", "boot")))?;
    let entries = vec![entry.clone(); batch];
    let positions = at("the ledger", ledger.append(&entries, &STAMP))?;
    at("the ledger", ledger.sync())?;
    let last = positions.last().map_or(0, |position| position.seq);
    let line = at("the ledger", ledger.record(last))?.ok_or("what was appended is not there")?.line();
    let (rows, bytes) = (vec![line.as_bytes(); batch], line.repeat(batch));

    let mut raw = Raw::new(&folder.join("raw"))?;
    let (mut bare, mut bare_tree) = (Raw::new(&folder.join("bare"))?, Tree::default());
    let (mut filled, mut filled_tree) = (Filled::new(&folder.join("filled"))?, Tree::default());
    let mut store = other(&other_folder)?;
    let count = u64::try_from(batch).unwrap_or(1);
    let times = (plan.single / if batch == 1 { 1 } else { 8 }).max(1);
    let mut ours = repeated(times, count, || {
        at("the ledger", ledger.append(&entries, &STAMP))?;
        at("the ledger", ledger.sync())
    });
    let mut floor = repeated(times, count, || raw.append(bytes.as_bytes()));
    let mut appended = repeated(times, count, || {
        digests(&mut bare_tree, &rows);
        bare.append(bytes.as_bytes())
    });
    let mut over = repeated(times, count, || {
        digests(&mut filled_tree, &rows);
        filled.overwrite(bytes.as_bytes())
    });
    let mut theirs = repeated(times, count, || store.insert(&rows));
    let contenders: &mut [Contender<'_>] = &mut [&mut ours, &mut floor, &mut appended, &mut over, &mut theirs];
    let (series, pressure) = in_turns(plan.rounds, contenders)?;
    let [ours, floor, appended, over, theirs] = series.as_slice() else { return Err("five contenders".to_owned()) };
    let records = if batch == 1 { "one record".to_owned() } else { format!("{batch} records at once, each") };
    let row_of = |series: &Series, name: &str, what: String, goal| {
        Row::new(&format!("append-{batch}{name}"), &what, goal, series, pressure)
    };
    let row = |name: &str, what: String, goal| row_of(ours, name, what, goal);
    let of_floor = if batch == 1 { Goal::AtMost(1.3) } else { Goal::None };
    let (length, sqlite) = (line.len(), "SQLite, WAL, synchronous=FULL");
    let reach = Goal::InReach(SQLITE_AT_MOST);
    Ok(vec![
        row("", format!("{records} through the library to durable ({length} bytes)"), of_floor)
            .against("the same bytes appended, fdatasync", floor),
        row("-sqlite", format!("the same beside SQLite ({records})"), Goal::AtMost(SQLITE_AT_MOST))
            .against(sqlite, theirs),
        row_of(appended, "-reach", "floor of that: these bytes and their digests alone, appended".to_owned(), reach)
            .against(sqlite, theirs),
        row_of(over, "-filled", "the same, written over in a file that was filled ahead".to_owned(), reach)
            .against(sqlite, theirs),
    ])
}

/// One round: the work so many times, each of `count` operations.
fn repeated<'a>(
    times: u64,
    count: u64,
    mut work: impl FnMut() -> Result<(), String> + 'a,
) -> impl FnMut(&mut Series) -> Result<(), String> + 'a {
    move |series| (0..times).try_for_each(|_| series.many(count, &mut work))
}

/// The record that most requests begin with.
fn accepted() -> Entry {
    let event = Event::Accept {
        sid: Some(session()),
        ep: Some(1),
        op: OperationId(1_000_000),
        kind: Kind::Stop,
        key: Key::parse("0198c2f0-7d3e-7000-8000-000000000001").expect("a key"),
        req: Digest([0x5f; 32]),
        act: Actor { uid: 1000, pid: 4711, sid: None },
        body: Work::End { grace_ms: 10_000, deadline_boot_us: 77_000_000, delete: false, reason: None },
    };
    codec::entry(&event).0
}

/// A short record of a session.
fn changed() -> Entry {
    codec::entry(&Event::Session { sid: session(), ep: 1, body: SessionChange::Deleting }).0
}

fn session() -> SessionId {
    SessionId::parse("k3x4q2m7w5ab").expect("an id")
}

/// A store that another program brings.
impl<S: Store + ?Sized> Store for Box<S> {
    fn insert(&mut self, rows: &[&[u8]]) -> Result<(), String> {
        (**self).insert(rows)
    }
}
