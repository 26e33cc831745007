//! What a caller hands in, and how it becomes a line: `{"d":"<64 hex>","r":{...}}` and LF.
//!
//! R's members are written in sorted order, so R is in RFC 8785 form by construction and no canonicaliser runs on the
//! hot path. A line that would break a limit is refused here, before anything has changed.

use serde::Serialize;

use crate::canonical::{ValueFault, digit, write_integer, write_string};
use crate::digest::{Digest, Position};
use crate::limits::{BATCH_BYTES_MAX, INTEGER_MAX, LINE_BYTES_MAX, SESSION_ID_BYTES_MAX, TYPE_BYTES_MAX, VERSION};
use crate::members::{Given, Members, Place, entry_of};

/// One record to be: what the caller says; sequence, chains, clocks and `dur` are the ledger's part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// The record's type: lower-case ASCII letters and `_`. `segment` is the ledger's own.
    pub t: String,
    /// The session that the record belongs to, if any.
    pub sid: Option<String>,
    /// The session's episode; only with `sid`.
    pub ep: Option<u32>,
    /// Ends the session's chain: no later record may carry this `sid`, and the ledger forgets the session.
    pub fin: bool,
    /// What else it says.
    pub members: Members,
}

/// Time and generation, taken once per turn by whoever owns the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Wall clock, microseconds since 1970 UTC. Advisory: order is `seq` only.
    pub at_us: u64,
    /// Boot-time clock, microseconds. Advisory.
    pub mono_us: u64,
    /// The broker's generation.
    pub bg: u64,
}

/// Why an entry cannot become a record. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryFault {
    /// Not 1 to [`TYPE_BYTES_MAX`] lower-case letters and `_`, or the ledger's own type.
    #[error("\"{0}\" is not a type that a caller may write")]
    Type(String),
    /// Empty or longer than [`SESSION_ID_BYTES_MAX`], or an episode or `fin` without a session.
    #[error("the session id is empty or too long, or an episode or the end of a chain stands without one")]
    Session,
    /// A record before it in the same batch ended the session's chain.
    #[error("the chain of session \"{0}\" has ended")]
    Finished(String),
    /// A member that the format does not have.
    #[error("the format has no member \"{0}\" for callers")]
    UnknownMember(String),
    /// `op`, `kind`, `key`, `req`, `st` and `err` are strings.
    #[error("member \"{0}\" is not a string")]
    NotAString(&'static str),
    /// A value that the format cannot hold.
    #[error("member \"{member}\": {fault}")]
    Value {
        /// The member.
        member: &'static str,
        /// What is wrong with its value.
        fault: ValueFault,
    },
    /// [`Entry::of`] was given what is no object, or holds something that the format cannot.
    #[error("no record can be made of it: {0}")]
    Unwritable(String),
    /// Longer than [`LINE_BYTES_MAX`].
    #[error("the line would have {bytes} bytes, {LINE_BYTES_MAX} are allowed")]
    LineTooLong {
        /// The length it would have had, in bytes.
        bytes: usize,
    },
    /// Year 10,000 or later, or a clock or generation of 2^53 or more.
    #[error("the stamp's clocks or generation are out of range")]
    Stamp,
}

/// What the ledger adds to an entry.
#[derive(Debug)]
pub(crate) struct Link<'a> {
    /// The record before, or [`Position::START`].
    pub(crate) previous: Position,
    /// The session's own count and last digest, or 0 and zeros.
    pub(crate) session: Position,
    /// Highest sequence number known synced.
    pub(crate) durable: u64,
    /// Whether the turn ends with this record.
    pub(crate) end: bool,
    pub(crate) stamp: &'a Stamp,
    /// The stamp's wall time, if [`rfc3339`] has a text for it.
    pub(crate) at: Option<&'a [u8; 27]>,
}

/// Length of what precedes R in a line; the digest's digits stand at 6..70.
pub(crate) const PREFIX_BYTES: usize = 76;

const PREFIX: &[u8; PREFIX_BYTES] =
    b"{\"d\":\"0000000000000000000000000000000000000000000000000000000000000000\",\"r\":";

/// Appends the entry's line and returns the record's position. On an error `out` is as it was.
pub(crate) fn write_line(out: &mut Vec<u8>, entry: &Entry, link: &Link<'_>) -> Result<Position, EntryFault> {
    let start = out.len();
    let written = check_shape(entry).and_then(|given| {
        out.extend_from_slice(PREFIX);
        write_record(out, entry, &given, link)
    });
    let bytes = out.len() + 2 - start;
    let fits = if bytes > LINE_BYTES_MAX { Err(EntryFault::LineTooLong { bytes }) } else { Ok(()) };
    let written = written.and(fits);
    if let Err(fault) = written {
        out.truncate(start);
        return Err(fault);
    }
    let digest = Digest::of_record(VERSION, &out[start + PREFIX_BYTES..]);
    out[start + 6..start + 70].copy_from_slice(&digest.hex());
    out.extend_from_slice(b"}\n");
    Ok(Position { seq: link.previous.seq + 1, digest })
}

impl Entry {
    /// A record of no session.
    pub fn new(t: impl Into<String>, members: impl Into<Members>) -> Entry {
        Entry { t: t.into(), members: members.into(), ..Entry::default() }
    }

    /// An entry of a caller's own type: it serialises as an object with `t`, perhaps `sid` and `ep`, and any of the [`Members`]. Much cheaper
    /// than by way of values.
    ///
    /// # Errors
    /// [`EntryFault::UnknownMember`], [`EntryFault::NotAString`], [`EntryFault::Unwritable`].
    pub fn of(object: &impl Serialize) -> Result<Entry, EntryFault> {
        entry_of(object)
    }
}

/// Splits entries that need not stand in one turn into batches that [`Ledger::append`](crate::Ledger::append) takes.
pub fn turns_of(entries: &[Entry]) -> Vec<&[Entry]> {
    let mut turns = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (index, entry) in entries.iter().enumerate() {
        let more = line_bytes_at_most(entry);
        if bytes + more > BATCH_BYTES_MAX && index > start {
            turns.push(&entries[start..index]);
            (start, bytes) = (index, 0);
        }
        bytes += more;
    }
    turns.extend((start < entries.len()).then(|| &entries[start..]));
    turns
}

/// The length of the entry's line, or a little more.
fn line_bytes_at_most(entry: &Entry) -> usize {
    let mut out = Vec::new();
    let furthest = Position { seq: INTEGER_MAX - 1, digest: Position::START.digest };
    let stamp = Stamp { at_us: 0, mono_us: INTEGER_MAX, bg: INTEGER_MAX };
    let (at, stamp) = (rfc3339(stamp.at_us), &stamp);
    let (session, durable, end, at) = (furthest, INTEGER_MAX, true, at.as_ref());
    let link = Link { previous: furthest, session, durable, end, stamp, at };
    match write_line(&mut out, entry, &link) {
        Ok(_position) => out.len(),
        // It is refused when it is appended; alone, so that nothing else is.
        Err(_fault) => BATCH_BYTES_MAX,
    }
}

/// Whether a text can be a record's type.
pub(crate) fn is_type(text: &str) -> bool {
    let lower = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    (1..=TYPE_BYTES_MAX).contains(&text.len()) && text.bytes().all(lower)
}

/// Whether a text can be a session's id.
pub(crate) fn is_session_id(text: &str) -> bool {
    is_session_id_length(text.len())
}

/// Whether a session's id can have so many bytes.
pub(crate) fn is_session_id_length(bytes: usize) -> bool {
    (1..=SESSION_ID_BYTES_MAX).contains(&bytes)
}

fn check_shape(entry: &Entry) -> Result<Given<'_>, EntryFault> {
    if !is_type(&entry.t) {
        return Err(EntryFault::Type(entry.t.clone()));
    }
    match &entry.sid {
        Some(sid) if !is_session_id(sid) => return Err(EntryFault::Session),
        None if entry.ep.is_some() || entry.fin => return Err(EntryFault::Session),
        Some(_) | None => {}
    }
    entry.members.given()
}

/// Writes R, member by member in the order in which RFC 8785 sorts their names.
fn write_record(out: &mut Vec<u8>, entry: &Entry, given: &Given<'_>, link: &Link<'_>) -> Result<(), EntryFault> {
    let mut writer = Writer { out };
    let at = link.at.ok_or(EntryFault::Stamp)?;
    writer.out.push(b'{');
    given.write(writer.out, Place::ACT, b"\"act\":")?;
    writer.plain(b"\"at\":\"", at);
    writer.integer(b"\"bg\":", link.stamp.bg)?;
    given.write(writer.out, Place::BODY, b"\"body\":")?;
    writer.integer(b"\"dur\":", link.durable)?;
    writer.flag(b"\"end\":true,", link.end);
    if let Some(ep) = entry.ep {
        writer.integer(b"\"ep\":", u64::from(ep))?;
    }
    given.write(writer.out, Place::ERR, b"\"err\":")?;
    writer.flag(b"\"fin\":true,", entry.fin);
    given.write(writer.out, Place::KEY, b"\"key\":")?;
    given.write(writer.out, Place::KIND, b"\"kind\":")?;
    writer.integer(b"\"mono\":", link.stamp.mono_us)?;
    given.write(writer.out, Place::OP, b"\"op\":")?;
    if link.previous.seq > 0 {
        writer.plain(b"\"prev\":\"", &link.previous.digest.hex());
    }
    given.write(writer.out, Place::REQ, b"\"req\":")?;
    given.write(writer.out, Place::RES, b"\"res\":")?;
    writer.integer(b"\"seq\":", link.previous.seq + 1)?;
    if let Some(sid) = &entry.sid {
        writer.text(b"\"sid\":", sid);
        writer.integer(b"\"sn\":", link.session.seq + 1)?;
        if link.session.seq > 0 {
            writer.plain(b"\"sp\":\"", &link.session.digest.hex());
        }
    }
    given.write(writer.out, Place::ST, b"\"st\":")?;
    writer.plain(b"\"t\":\"", entry.t.as_bytes());
    writer.out.extend_from_slice(b"\"v\":");
    write_integer(writer.out, VERSION).map_err(|_too_large| EntryFault::Stamp)?;
    writer.out.push(b'}');
    Ok(())
}

/// Appends members, each with the comma behind it: `v` is always there and the last.
struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

impl Writer<'_> {
    fn text(&mut self, named: &[u8], text: &str) {
        self.out.extend_from_slice(named);
        write_string(self.out, text);
        self.out.push(b',');
    }

    /// A text in which nothing is escaped; `named` holds its opening quote.
    fn plain(&mut self, named: &[u8], text: &[u8]) {
        self.out.extend_from_slice(named);
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\",");
    }

    fn integer(&mut self, named: &[u8], integer: u64) -> Result<(), EntryFault> {
        self.out.extend_from_slice(named);
        write_integer(self.out, integer).map_err(|_too_large| EntryFault::Stamp)?;
        self.out.push(b',');
        Ok(())
    }

    fn flag(&mut self, whole: &[u8], is_set: bool) {
        if is_set {
            self.out.extend_from_slice(whole);
        }
    }
}

/// `2026-01-31T12:34:56.000001Z`; `None` from the year 10,000 on.
pub(crate) fn rfc3339(at_us: u64) -> Option<[u8; 27]> {
    let (seconds, micros) = (at_us / 1_000_000, at_us % 1_000_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days since 0000-03-01, so that the leap day is the last of its year (the usual civil calendar algorithm).
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let mut text = *b"0000-00-00T00:00:00.000000Z";
    for (place, number) in [
        (0..4, year),
        (5..7, month),
        (8..10, day),
        (11..13, hour),
        (14..16, minute),
        (17..19, second),
        (20..26, micros),
    ] {
        text[place].iter_mut().rev().fold(number, |left, byte| {
            *byte = digit(left);
            left / 10
        });
    }
    (year <= 9_999).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::DEPTH_MAX;
    use crate::strict::is_canonical_object;
    use serde_json::{Value, json};

    fn entry(members: Value) -> Entry {
        let Value::Object(members) = members else { panic!("an object") };
        Entry { sid: Some("s".to_owned()), ep: Some(1), ..Entry::new("accept", members) }
    }

    /// The same entry by way of its text.
    fn by_text(entry: &Entry, members: Value) -> Entry {
        let Value::Object(mut object) = members else { panic!("an object") };
        object.extend([
            ("t".to_owned(), json!(entry.t)),
            ("sid".to_owned(), json!(entry.sid)),
            ("ep".to_owned(), json!(entry.ep)),
        ]);
        Entry::of(&object).unwrap()
    }

    fn write(entry: &Entry) -> Result<String, EntryFault> {
        let stamp = Stamp { at_us: 1_769_862_896_000_001, mono_us: 5, bg: 2 };
        let one = Position { seq: 1, digest: Digest([0xab; 32]) };
        let at = rfc3339(stamp.at_us);
        let link = Link { previous: one, session: one, durable: 1, end: true, stamp: &stamp, at: at.as_ref() };
        let mut out = b"before".to_vec();
        let written = write_line(&mut out, entry, &link);
        assert!(written.is_ok() || out == b"before", "an error leaves nothing behind");
        written.map(|_position| String::from_utf8(out.split_off(6)).unwrap())
    }

    #[test]
    fn a_line_holds_the_digest_and_r_in_canonical_form() {
        let members = json!({
            "act": {"uid": 0}, "body": {"z": "é😀", "a": [1]}, "err": "e", "key": "k", "kind": "spawn", "op": "o",
            "req": "q", "res": {"x": null}, "st": "succeeded",
        });
        let full = entry(members.clone());
        let line = write(&full).unwrap();
        assert_eq!(write(&by_text(&full, members)).unwrap(), line);
        let r = &line[76..line.len() - 2];
        assert_eq!(&line[..6], "{\"d\":\"");
        assert_eq!(line[6..70], Digest::of_record(1, r.as_bytes()).to_string());
        assert_eq!(&line[70..76], "\",\"r\":");
        assert!(line.ends_with("}\n"));
        assert!(is_canonical_object(r, 1));
        let ab = "ab".repeat(32);
        assert_eq!(
            r,
            "{\"act\":{\"uid\":0},\"at\":\"2026-01-31T12:34:56.000001Z\",\"bg\":2,\"body\":{\"a\":[1],\"z\":\"é😀\"},\
             \"dur\":1,\"end\":true,\"ep\":1,\"err\":\"e\",\"key\":\"k\",\"kind\":\"spawn\",\"mono\":5,\"op\":\"o\",\
             \"prev\":\""
                .to_owned()
                + &ab
                + "\",\"req\":\"q\",\"res\":{\"x\":null},\"seq\":2,\"sid\":\"s\",\"sn\":2,\"sp\":\""
                + &ab
                + "\",\"st\":\"succeeded\",\"t\":\"accept\",\"v\":1}"
        );
    }

    #[test]
    fn what_breaks_a_limit_is_refused() {
        let value = |fault| EntryFault::Value { member: "body", fault };
        let deep = |levels: usize| (0..levels).fold(json!(1), |inner, _level| json!([inner]));
        let cases = [
            (entry(json!({"body": 1.5})), value(ValueFault::Float)),
            (entry(json!({"body": 1_u64 << 53})), value(ValueFault::Integer)),
            (entry(json!({"body": deep(DEPTH_MAX - 1)})), value(ValueFault::Depth)),
            (entry(json!({"seq": 1})), EntryFault::UnknownMember("seq".to_owned())),
            (entry(json!({"key": 1})), EntryFault::NotAString("key")),
            (Entry { t: "Accept".to_owned(), ..entry(json!({})) }, EntryFault::Type("Accept".to_owned())),
            (Entry { t: String::new(), ..entry(json!({})) }, EntryFault::Type(String::new())),
            (Entry { sid: Some(String::new()), ..entry(json!({})) }, EntryFault::Session),
            (Entry { sid: None, ..entry(json!({})) }, EntryFault::Session),
            (Entry { sid: None, ep: None, fin: true, ..entry(json!({})) }, EntryFault::Session),
        ];
        for (entry, fault) in cases {
            assert_eq!(write(&entry), Err(fault));
        }
        assert!(write(&entry(json!({"body": deep(DEPTH_MAX - 2)}))).is_ok());
    }

    #[test]
    fn the_longest_line_fits_exactly() {
        let padded = |bytes: usize| entry(json!({"body": "x".repeat(bytes)}));
        let overhead = write(&padded(0)).unwrap().len();
        assert_eq!(write(&padded(LINE_BYTES_MAX - overhead)).unwrap().len(), LINE_BYTES_MAX);
        let one_more = write(&padded(LINE_BYTES_MAX - overhead + 1));
        assert_eq!(one_more, Err(EntryFault::LineTooLong { bytes: LINE_BYTES_MAX + 1 }));
    }

    #[test]
    fn what_is_too_much_for_one_turn_is_split_in_order() {
        let entries: Vec<Entry> = (0..40).map(|number| entry(json!({"body": "x".repeat(number * 1000)}))).collect();
        let turns = turns_of(&entries);
        assert_eq!(turns.concat(), entries);
        let lengths = |turn: &[Entry]| turn.iter().map(|entry| write(entry).unwrap().len()).sum::<usize>();
        assert!(turns.len() > 1 && turns.iter().all(|turn| lengths(turn) <= BATCH_BYTES_MAX));
        assert_eq!(turns_of(&[]).len(), 0);
    }

    #[test]
    fn the_calendar_is_right_at_its_corners() {
        let text = |seconds: u64| rfc3339(seconds * 1_000_000).map(|text| String::from_utf8(text.to_vec()).unwrap());
        assert_eq!(text(0).as_deref(), Some("1970-01-01T00:00:00.000000Z"));
        assert_eq!(text(951_782_400).as_deref(), Some("2000-02-29T00:00:00.000000Z"));
        assert_eq!(text(951_868_800).as_deref(), Some("2000-03-01T00:00:00.000000Z"));
        assert_eq!(text(4_107_542_400).as_deref(), Some("2100-03-01T00:00:00.000000Z"));
        assert_eq!(text(253_402_300_799).as_deref(), Some("9999-12-31T23:59:59.000000Z"));
        assert_eq!(text(253_402_300_800), None);
    }
}
