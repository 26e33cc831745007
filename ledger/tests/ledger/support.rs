//! What the tests share: entries, stamps, and opening a ledger on a simulated disk.

use data_encoding::HEXLOWER;
use ostler_ledger::storage::{Folder, Name, SimulatedDisk, SimulatedStorage};
use ostler_ledger::{Entry, Fold, Ledger, Options, Position, Record, Recovery, Stamp};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

pub(crate) const STAMP: Stamp = Stamp { at_us: 1_769_862_896_000_001, mono_us: 77_000_000, bg: 1 };
pub(crate) const BOOT: &str = "boot-a";
pub(crate) const OTHER_BOOT: &str = "boot-b";

pub(crate) fn members(value: Value) -> Map<String, Value> {
    let Value::Object(members) = value else { panic!("an object") };
    members
}

/// A record of a session; `None` names none.
pub(crate) fn entry(sid: Option<&str>, text: &str) -> Entry {
    Entry { sid: sid.map(str::to_owned), ..Entry::new("note", members(json!({"body": {"text": text}}))) }
}

/// The last record of a session.
pub(crate) fn last_entry(sid: &str, text: &str) -> Entry {
    Entry { fin: true, ..entry(Some(sid), text) }
}

pub(crate) fn options(boot: &str) -> Options {
    Options::new("test-ledger", boot)
}

pub(crate) fn open(disk: &SimulatedDisk) -> (Ledger<SimulatedStorage>, Recovery) {
    Ledger::open(disk.storage(), options(BOOT)).expect("opens")
}

pub(crate) fn turn(ledger: &mut Ledger<SimulatedStorage>, batch: &[Entry]) -> Vec<Position> {
    let positions = ledger.append(batch, &STAMP).expect("appends");
    ledger.sync().expect("syncs");
    positions
}

pub(crate) fn records(ledger: &Ledger<SimulatedStorage>) -> Vec<Record> {
    ledger.records().map(|record| record.expect("reads")).collect()
}

/// The `body.text` of every record that has one.
pub(crate) fn texts(ledger: &Ledger<SimulatedStorage>) -> Vec<String> {
    records(ledger).iter().filter_map(text).collect()
}

pub(crate) fn text(record: &Record) -> Option<String> {
    let body: Value = serde_json::from_str(record.body()?).expect("a body is JSON");
    body["text"].as_str().map(str::to_owned)
}

/// The name of [`Texts`] and its stored form.
pub(crate) const FOLD: &str = "texts 1";

/// A fold whose state is the texts of all records, in order.
pub(crate) struct Texts {
    pub(crate) texts: Vec<String>,
    pub(crate) name: String,
    /// How many payloads it refuses before it takes one.
    pub(crate) refuse: u32,
}

impl Default for Texts {
    fn default() -> Texts {
        Texts { texts: Vec::new(), name: FOLD.to_owned(), refuse: 0 }
    }
}

impl Texts {
    pub(crate) fn payload(&self) -> Vec<u8> {
        self.texts.join("\n").into_bytes()
    }

    pub(crate) fn add(&mut self, record: &Record) {
        self.texts.extend(text(record));
    }
}

impl Fold for Texts {
    type State = Vec<String>;

    fn name(&self) -> &str {
        &self.name
    }

    fn read(&mut self, payload: &[u8]) -> Result<Vec<String>, String> {
        if self.refuse > 0 {
            self.refuse -= 1;
            return Err("refused".to_owned());
        }
        let text = String::from_utf8(payload.to_vec()).map_err(|error| error.to_string())?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    fn restore(&mut self, texts: Vec<String>) {
        self.texts = texts;
    }

    fn record(&mut self, record: Record) {
        self.add(&record);
    }
}

/// A record with its right digest, as only somebody who forges can make it: the members of `like` with these changed,
/// `null` for left out.
pub(crate) fn forged(like: &Record, changes: Value) -> String {
    let mut r: Value = serde_json::from_str(like.raw()).expect("a record is JSON");
    r.as_object_mut().expect("an object").extend(members(changes));
    r.as_object_mut().expect("an object").retain(|_name, value| !value.is_null());
    // `Map` sorts, and names are ASCII, so this is the canonical form.
    let r = r.to_string();
    let digest = Sha256::new().chain_update("ledger-record-v1\n").chain_update(&r).finalize();
    format!("{{\"d\":\"{}\",\"r\":{r}}}\n", HEXLOWER.encode(&digest))
}

/// The digest of a line.
pub(crate) fn digest_of(line: &str) -> &str {
    &line[6..70]
}

pub(crate) fn segment(file: &str) -> Name<'_> {
    Name { folder: Folder::Ledger, file }
}

/// The segments of a disk with their bytes, in order.
pub(crate) fn segments(disk: &SimulatedDisk) -> Vec<(String, Vec<u8>)> {
    let files = disk.names(Folder::Ledger);
    files.into_iter().map(|file| (file.clone(), disk.contents(segment(&file)).expect("is there"))).collect()
}

/// A new disk with these segments.
pub(crate) fn disk_of(files: &[(String, Vec<u8>)]) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    for (file, bytes) in files {
        disk.tamper(segment(file), bytes);
    }
    disk
}

/// Where each line begins, and the end.
pub(crate) fn line_starts(bytes: &[u8]) -> Vec<usize> {
    let ends = bytes.iter().enumerate().filter(|(_at, byte)| **byte == b'\n').map(|(at, _byte)| at + 1);
    std::iter::once(0).chain(ends).collect()
}

/// Numbers from a seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// An index below `len`.
    pub(crate) fn pick(&mut self, len: usize) -> usize {
        usize::try_from(self.below(u64::try_from(len).unwrap())).unwrap()
    }
}
