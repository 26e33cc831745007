//! Lines that were handed out verify alone: by their session's chain or by the global one, and no change of them passes.

use std::io::{BufRead, Cursor, Read};

use ostler_ledger::limits::LINE_BYTES_MAX;
use ostler_ledger::storage::SimulatedDisk;
use ostler_ledger::{Class, Entry, ExcerptReport, Ledger, Options, Position, Record, Stamp, verify_excerpt};

/// Two sessions that take turns; the first one's chain ends.
fn records() -> Vec<Record> {
    let disk = SimulatedDisk::new();
    let (mut ledger, recovery) = Ledger::open(disk.storage(), Options::new("id", "boot")).unwrap();
    let entry = |sid: Option<&str>, fin: bool| {
        let members = serde_json::json!({"body": "x"}).as_object().unwrap().clone();
        Entry { t: "note".into(), sid: sid.map(str::to_owned), ep: None, fin, members: members.into() }
    };
    let mut entries = recovery.owed;
    entries.extend((0..4).flat_map(|_| [entry(Some("one"), false), entry(Some("two"), false), entry(None, false)]));
    entries.push(entry(Some("one"), true));
    ledger.append(&entries, &Stamp { at_us: 1, mono_us: 1, bg: 1 }).unwrap();
    ledger.sync().unwrap();
    ledger.records().map(Result::unwrap).collect()
}

fn of(records: &[Record], is_meant: impl Fn(&Record) -> bool) -> Vec<String> {
    records.iter().filter(|record| is_meant(record)).map(Record::line).collect()
}

fn of_session(records: &[Record], sid: &str) -> Vec<String> {
    of(records, |record| record.header.sid.as_deref() == Some(sid))
}

fn judge(lines: &[String]) -> ExcerptReport {
    verify_excerpt(lines.concat().as_bytes(), "lines", None).unwrap()
}

#[test]
fn a_session_s_lines_verify_by_their_own_chain() {
    let records = records();
    let lines = of_session(&records, "one");
    let report = judge(&lines);
    assert!(report.ok(), "{report:?}");
    let own = report.own.unwrap();
    assert_eq!((report.session.as_deref(), report.records, own.first, own.last), (Some("one"), 5, 1, 5));
    assert!(report.ended, "nothing can be missing behind it");
    let ends: Vec<Position> =
        records.iter().filter(|record| record.header.sid.as_deref() == Some("one")).map(Record::position).collect();
    assert_eq!((report.first, report.last), (ends.first().copied(), ends.last().copied()));
    let other = judge(&of_session(&records, "two"));
    assert!(other.ok() && !other.ended && other.session.as_deref() == Some("two"));
    // A part of it verifies as such, and says that it is one.
    let part = judge(&lines[2..4]);
    assert!(part.ok() && !part.ended && part.own.unwrap().first == 3);
}

#[test]
fn a_stretch_of_the_ledger_verifies_by_the_global_chain() {
    let records = records();
    let all = of(&records, |_| true);
    for lines in [&all[..], &all[3..9]] {
        let report = judge(lines);
        assert!(report.ok() && report.session.is_none() && report.own.is_none(), "{report:?}");
        assert_eq!(report.records, u64::try_from(lines.len()).unwrap());
    }
    // Records of several sessions that are not all records of a stretch prove nothing of their order.
    let mixed = judge(&of(&records, |record| record.header.sid.is_some()));
    assert_eq!(mixed.problems[0].class, Class::ChainBroken);
    let none = judge(&[]);
    assert_eq!((none.ok(), none.records, none.first), (true, 0, None));
    assert!(judge(&["\n".to_owned(), all[0].clone(), "\n".to_owned()]).ok(), "line feeds alone are fill");
}

#[test]
fn no_change_passes() {
    let records = records();
    for lines in [of_session(&records, "one"), of(&records, |_| true)] {
        let sound = lines.concat().into_bytes();
        for at in 0..sound.len() {
            let mut flipped = sound.clone();
            flipped[at] ^= 1;
            let report = verify_excerpt(flipped.as_slice(), "lines", None).unwrap();
            assert!(!report.ok(), "byte {at}");
        }
        for index in 0..lines.len() {
            let doubled = [&lines[..index], &lines[index..=index], &lines[index..]].concat();
            assert!(!judge(&doubled).ok(), "line {index} twice");
            if (1..lines.len() - 1).contains(&index) {
                let without = [&lines[..index], &lines[index + 1..]].concat();
                assert_eq!(judge(&without).problems[0].class, Class::ChainBroken, "without line {index}");
                let mut swapped = lines.clone();
                swapped.swap(index, index + 1);
                assert!(!judge(&swapped).ok(), "lines {index} and the next swapped");
            }
        }
        let cut = verify_excerpt(&sound[..sound.len() - 1], "lines", None).unwrap();
        assert_eq!((cut.problems[0].class, cut.problems[0].detail.as_str()), (Class::Damage, "a line without its end"));
    }
}

#[test]
fn a_record_kept_elsewhere_has_to_be_among_them() {
    let records = records();
    let lines = of_session(&records, "two").concat();
    let kept = records.iter().rfind(|record| record.header.sid.as_deref() == Some("two")).unwrap().position();
    let judge = |since: Position| verify_excerpt(lines.as_bytes(), "lines", Some(since)).unwrap();
    assert!(judge(kept).ok());
    let other = records.iter().find(|record| record.header.sid.is_none()).unwrap().position();
    assert_eq!(judge(other).problems[0].class, Class::Loss);
    let forged = Position { seq: kept.seq, digest: other.digest };
    assert_eq!(judge(forged).problems[0].class, Class::ChainBroken);
}

#[test]
fn a_line_without_end_is_read_in_bounded_memory() {
    let records = records();
    let line = of_session(&records, "one").remove(0);
    let long = std::io::repeat(b'x').take(u64::try_from(64 * LINE_BYTES_MAX).unwrap());
    let lines = Cursor::new(line.clone()).chain(long).chain(Cursor::new(format!("\n{line}")));
    let report = verify_excerpt(std::io::BufReader::with_capacity(100, lines), "lines", None).unwrap();
    let problems: Vec<(Class, u64)> = report.problems.iter().map(|problem| (problem.class, problem.offset)).collect();
    let length = |text: &str| u64::try_from(text.len()).unwrap();
    let behind = length(&line) + u64::try_from(64 * LINE_BYTES_MAX).unwrap() + 1;
    assert_eq!(problems, [(Class::Damage, length(&line)), (Class::ChainBroken, behind)]);
    assert_eq!(report.records, 2);
}

#[test]
fn what_cannot_be_read_is_an_error() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("broken"))
        }
    }
    impl BufRead for Broken {
        fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
            Err(std::io::Error::other("broken"))
        }
        fn consume(&mut self, _: usize) {}
    }
    assert_eq!(verify_excerpt(Broken, "lines", None).unwrap_err().to_string(), "broken");
}
