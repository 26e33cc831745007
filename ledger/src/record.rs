//! A record as it stands in a line, and the judgement of a line. Reading never re-serialises: R is hashed as stored.

use std::ops::Range;

use crate::digest::{Digest, Position};
use crate::entry::PREFIX_BYTES;
use crate::limits::{LINE_BYTES_MAX, VERSION};
use crate::slice::{Sliced, Text, slice};

/// A verified record: the stored bytes, their digest, and the members that the chains need, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// SHA-256 of the stored bytes, checked.
    pub digest: Digest,
    /// The parsed members.
    pub header: Header,
    pub(crate) r: Box<str>,
    pub(crate) act: Option<Range<usize>>,
    pub(crate) body: Option<Range<usize>>,
    pub(crate) res: Option<Range<usize>>,
}

/// The members of a record but for `act`, `body` and `res`. Names and meanings are the format's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Type.
    pub t: String,
    /// Global sequence number, from 1.
    pub seq: u64,
    /// Digest of the previous record; absent at 1.
    pub prev: Option<Digest>,
    /// Session id.
    pub sid: Option<String>,
    /// Episode of the session.
    pub ep: Option<u32>,
    /// The session's own sequence number, from 1.
    pub sn: Option<u64>,
    /// Digest of the session's previous record; absent at 1.
    pub sp: Option<Digest>,
    /// Broker generation.
    pub bg: u64,
    /// Highest sequence number known synced when the record was formed.
    pub dur: u64,
    /// Whether the turn ends here.
    pub end: bool,
    /// Whether the session's chain ends here.
    pub fin: bool,
    /// Operation id.
    pub op: Option<String>,
    /// Method.
    pub kind: Option<String>,
    /// Idempotency key.
    pub key: Option<String>,
    /// Request digest.
    pub req: Option<String>,
    /// Outcome.
    pub st: Option<String>,
    /// Error code.
    pub err: Option<String>,
    /// Wall time, RFC 3339 UTC with microseconds. Advisory.
    pub at: String,
    /// Boot-time clock in microseconds. Advisory.
    pub mono: u64,
}

impl Record {
    /// The record that a line without its LF holds; `None` if the line is not a sound record of this version. Says nothing of
    /// the chain.
    pub fn read(line: &[u8]) -> Option<Record> {
        match judge(line) {
            Judged::Record(sliced) => Some(Record::of(&sliced)),
            Judged::Newer(_) | Judged::Bad(_) => None,
        }
    }

    pub(crate) fn of(sliced: &Sliced<'_>) -> Record {
        let text = |text: Option<Text<'_>>| text.map(|text| sliced.plain(text).into_owned());
        let range = |value: Option<&[u8]>| {
            value.map(|value| {
                let start = value.as_ptr().addr() - sliced.r.as_ptr().addr();
                start..start + value.len()
            })
        };
        let header = Header {
            t: sliced.t.to_owned(),
            seq: sliced.seq,
            prev: sliced.prev,
            sid: text(sliced.sid),
            ep: sliced.ep,
            sn: sliced.sn,
            sp: sliced.sp,
            bg: sliced.bg,
            dur: sliced.dur,
            end: sliced.end,
            fin: sliced.fin,
            op: text(sliced.op),
            kind: text(sliced.kind),
            key: text(sliced.key),
            req: text(sliced.req),
            st: text(sliced.st),
            err: text(sliced.err),
            at: sliced.plain(sliced.at).into_owned(),
            mono: sliced.mono,
        };
        let r = std::str::from_utf8(sliced.r).expect("the pass has checked it").into();
        let (act, body, res) = (range(sliced.act), range(sliced.body), range(sliced.res));
        Record { digest: sliced.digest, header, r, act, body, res }
    }

    /// R, exactly as stored: one JSON object in RFC 8785 form.
    pub fn raw(&self) -> &str {
        &self.r
    }

    /// The JSON text of `act`, who asked.
    pub fn act(&self) -> Option<&str> {
        self.act.clone().map(|range| &self.r[range])
    }

    /// The JSON text of `body`, the typed detail.
    pub fn body(&self) -> Option<&str> {
        self.body.clone().map(|range| &self.r[range])
    }

    /// The JSON text of `res`, the result.
    pub fn res(&self) -> Option<&str> {
        self.res.clone().map(|range| &self.r[range])
    }

    /// Where the record stands.
    pub fn position(&self) -> Position {
        Position { seq: self.header.seq, digest: self.digest }
    }

    /// The whole line, LF included, as it stands in its segment.
    pub fn line(&self) -> String {
        format!("{{\"d\":\"{}\",\"r\":{}}}\n", self.digest, self.r)
    }
}

/// What a line, LF included, turns out to be.
#[derive(Debug)]
pub(crate) enum Judged<R> {
    /// Sound in itself. Whether it belongs here is for the chain to say.
    Record(R),
    /// Sound, but of a version that this crate does not know.
    Newer(u64),
    /// Anything else.
    Bad(BadLine),
}

/// Why a line is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadLine {
    #[error("longer than a line may be")]
    Length,
    #[error("not of the form {{\"d\":...,\"r\":...}}")]
    Frame,
    #[error("the digest does not match")]
    Digest,
    #[error("the digest matches, but R is not a record in canonical form")]
    Record,
}

/// Judges a line without its LF.
pub(crate) fn judge(line: &[u8]) -> Judged<Sliced<'_>> {
    judge_by(line, slice)
}

/// Judges a line without its LF; `read` reads R once the digest is known to be right.
#[inline]
pub(crate) fn judge_by<'a, R>(line: &'a [u8], read: impl FnOnce(Digest, &'a [u8]) -> Option<R>) -> Judged<R> {
    if line.len() >= LINE_BYTES_MAX {
        return Judged::Bad(BadLine::Length);
    }
    let Some((digest, r)) = frame(line) else { return Judged::Bad(BadLine::Frame) };
    let version = claimed_version(r);
    let sound = |version| Digest::of_record(version, r) == digest;
    match version {
        Some(VERSION) if sound(VERSION) => read(digest, r).map_or(Judged::Bad(BadLine::Record), Judged::Record),
        // A later version hashes under its own name; it may also have kept this one's.
        Some(newer) if newer > VERSION && (sound(newer) || sound(VERSION)) => Judged::Newer(newer),
        Some(_) | None if sound(VERSION) => Judged::Bad(BadLine::Record),
        Some(_) | None => Judged::Bad(BadLine::Digest),
    }
}

/// The digest and R of a line, by offsets alone.
fn frame(line: &[u8]) -> Option<(Digest, &[u8])> {
    let frame = line.len() > PREFIX_BYTES + 2
        && line.starts_with(b"{\"d\":\"")
        && &line[70..PREFIX_BYTES] == b"\",\"r\":"
        && line.ends_with(b"}}");
    let digest = if frame { Digest::from_hex(&line[6..70])? } else { return None };
    Some((digest, &line[PREFIX_BYTES..line.len() - 1]))
}

/// R of a line that was judged sound.
pub(crate) fn r_of(line: &[u8]) -> &[u8] {
    &line[PREFIX_BYTES..line.len() - 1]
}

/// `v` is the last member of R in every version, so it can be read without parsing the rest.
fn claimed_version(r: &[u8]) -> Option<u64> {
    if r.ends_with(b"\"v\":1}") {
        return Some(1);
    }
    let r = r.strip_suffix(b"}")?;
    let digits = r.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (before, version) = r.split_at(r.len() - digits);
    let named = before.ends_with(b"\"v\":") && digits <= 15;
    if named { std::str::from_utf8(version).ok()?.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(version: u64, r: &str) -> Vec<u8> {
        format!("{{\"d\":\"{}\",\"r\":{r}}}", Digest::of_record(version, r.as_bytes())).into_bytes()
    }

    const R: &str =
        "{\"at\":\"x\",\"bg\":1,\"body\":{\"a\":[1,2]},\"dur\":0,\"mono\":1,\"seq\":1,\"t\":\"mark\",\"v\":1}";

    #[test]
    fn a_sound_line_gives_its_members_as_stored() {
        let record = Record::read(&line(1, R)).expect("sound");
        assert_eq!((record.raw(), record.body(), record.act()), (R, Some("{\"a\":[1,2]}"), None));
        assert_eq!(record.line().trim_end().as_bytes(), line(1, R));
        assert_eq!((record.header.seq, record.header.end), (1, false));
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let sound = line(1, R);
        for at in 0..sound.len() * 8 {
            let mut flipped = sound.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            assert!(matches!(judge(&flipped), Judged::Bad(_)), "bit {at}");
        }
    }

    #[test]
    fn a_newer_version_is_known_by_its_own_digest_or_by_ours() {
        let newer = R.replace("\"v\":1", "\"future\":1,\"v\":2");
        assert!(matches!(judge(&line(2, &newer)), Judged::Newer(2)));
        assert!(matches!(judge(&line(1, &newer)), Judged::Newer(2)));
        assert!(matches!(judge(&line(3, &newer)), Judged::Bad(BadLine::Digest)));
    }

    #[test]
    fn a_right_digest_does_not_excuse_a_wrong_record() {
        for wrong in [
            R.replace("\"v\":1", "\"v\":0"),
            R.replace("\"v\":1", "\"v\":1.0"),
            R.replace("\"seq\":1", "\"seq\":2"),
            R.replace("\"seq\":1", "\"seq\":0"),
            R.replace("\"dur\":0", "\"dur\":1"),
            R.replace("\"mono\":1", "\"end\":false,\"mono\":1"),
            R.replace("\"mono\":1", "\"fin\":true,\"mono\":1"),
            R.replace("\"mono\":1", "\"fin\":false,\"mono\":1").replace("\"t\":", "\"sid\":\"a\",\"sn\":1,\"t\":"),
            R.replace("\"mono\":1", "\"mono\": 1"),
            R.replace("\"mono\":1", "\"mono\":1,\"mono\":1"),
            R.replace("\"t\":", "\"sn\":1,\"t\":"),
            R.replace("\"t\":", "\"sid\":\"a\",\"t\":"),
            R.replace("\"t\":", "\"sid\":\"a\",\"sn\":2,\"t\":"),
            R.replace("\"t\":", "\"zz\":1,\"t\":"),
            R.replace("\"t\":\"mark\",", ""),
            R.replace("\"mark\"", "\"Mark\""),
            R.replace("\"mark\"", "\"\""),
            R.replace("\"mark\"", &format!("\"{}\"", "m".repeat(33))),
            R.replace("\"mono\":1", "\"key\":null,\"mono\":1"),
            R.replace("\"mono\":1", "\"end\":null,\"mono\":1"),
            R.replace("\"t\":", "\"sid\":\"\",\"sn\":1,\"t\":"),
            R.replace("\"t\":", &format!("\"sid\":\"{}\",\"sn\":1,\"t\":", "s".repeat(65))),
        ] {
            assert!(matches!(judge(&line(1, &wrong)), Judged::Bad(BadLine::Record)), "{wrong}");
        }
        let not_utf8: Vec<u8> = R.bytes().map(|byte| if byte == b'x' { 0xff } else { byte }).collect();
        let digest = Digest::of_record(1, &not_utf8).to_string();
        let bytes = [b"{\"d\":\"", digest.as_bytes(), b"\",\"r\":", &not_utf8, b"}"].concat();
        assert!(matches!(judge(&bytes), Judged::Bad(BadLine::Record)));
    }
}
