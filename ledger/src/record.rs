//! A record as it stands in a line, and the judgement of a line. Reading never re-serialises: R is hashed as stored.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::canonical::is_canonical_object;
use crate::digest::{Digest, Position};
use crate::entry::{PREFIX_BYTES, is_session_id, is_type};
use crate::limits::{LINE_BYTES_MAX, VERSION};

/// A verified record: the stored bytes, their digest, and the members that the chains need, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// SHA-256 of the stored bytes, checked.
    pub digest: Digest,
    /// The parsed members.
    pub header: Header,
    r: Box<str>,
    act: Option<Range<usize>>,
    body: Option<Range<usize>>,
    res: Option<Range<usize>>,
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
pub(crate) enum Judged {
    /// Sound in itself. Whether it belongs here is for the chain to say.
    Record(Box<Record>),
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
pub(crate) fn judge(line: &[u8]) -> Judged {
    if line.len() >= LINE_BYTES_MAX {
        return Judged::Bad(BadLine::Length);
    }
    let Some((digest, r)) = slice(line) else { return Judged::Bad(BadLine::Frame) };
    let version = claimed_version(r);
    let sound = |version| Digest::of_record(version, r) == digest;
    match version {
        Some(VERSION) if sound(VERSION) => match parse(digest, r) {
            Some(record) => Judged::Record(Box::new(record)),
            None => Judged::Bad(BadLine::Record),
        },
        // A later version hashes under its own name; it may also have kept this one's.
        Some(newer) if newer > VERSION && (sound(newer) || sound(VERSION)) => Judged::Newer(newer),
        Some(_) | None if sound(VERSION) => Judged::Bad(BadLine::Record),
        Some(_) | None => Judged::Bad(BadLine::Digest),
    }
}

/// The digest and R of a line, by offsets alone.
fn slice(line: &[u8]) -> Option<(Digest, &[u8])> {
    let frame = line.len() > PREFIX_BYTES + 2
        && line.starts_with(b"{\"d\":\"")
        && &line[70..PREFIX_BYTES] == b"\",\"r\":"
        && line.ends_with(b"}}");
    let digest = if frame { Digest::from_hex(&line[6..70])? } else { return None };
    Some((digest, &line[PREFIX_BYTES..line.len() - 1]))
}

/// `v` is the last member of R in every version, so it can be read without parsing the rest.
fn claimed_version(r: &[u8]) -> Option<u64> {
    let r = r.strip_suffix(b"}")?;
    let digits = r.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (before, version) = r.split_at(r.len() - digits);
    let named = before.ends_with(b"\"v\":") && digits <= 15;
    if named { std::str::from_utf8(version).ok()?.parse().ok() } else { None }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored<'a> {
    #[serde(borrow, default)]
    act: Option<&'a RawValue>,
    at: String,
    bg: u64,
    #[serde(borrow, default)]
    body: Option<&'a RawValue>,
    dur: u64,
    #[serde(default, deserialize_with = "present")]
    end: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    ep: Option<u32>,
    #[serde(default, deserialize_with = "present")]
    err: Option<String>,
    #[serde(default, deserialize_with = "present")]
    fin: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    kind: Option<String>,
    mono: u64,
    #[serde(default, deserialize_with = "present")]
    op: Option<String>,
    #[serde(borrow, default, deserialize_with = "present")]
    prev: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "present")]
    req: Option<String>,
    #[serde(borrow, default)]
    res: Option<&'a RawValue>,
    seq: u64,
    #[serde(default, deserialize_with = "present")]
    sid: Option<String>,
    #[serde(default, deserialize_with = "present")]
    sn: Option<u64>,
    #[serde(borrow, default, deserialize_with = "present")]
    sp: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "present")]
    st: Option<String>,
    t: String,
    v: u64,
}

/// A member that stands there has its type: `null` is not the same as absent.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

fn parse(digest: Digest, r: &[u8]) -> Option<Record> {
    let text = std::str::from_utf8(r).ok()?;
    // R stands inside the line's own object, the first level.
    if !is_canonical_object(text, 1) {
        return None;
    }
    let stored: Stored<'_> = serde_json::from_str(text).ok()?;
    let link = |hex: Option<Cow<'_, str>>| match hex {
        None => Some(None),
        Some(hex) => Digest::from_hex(hex.as_bytes()).map(Some),
    };
    let range = |raw: Option<&RawValue>| {
        raw.map(|raw| {
            let start = raw.get().as_ptr().addr() - text.as_ptr().addr();
            start..start + raw.get().len()
        })
    };
    let (prev, sp) = (link(stored.prev)?, link(stored.sp)?);
    let (act, body, res) = (range(stored.act), range(stored.body), range(stored.res));
    let header = Header {
        t: stored.t,
        seq: stored.seq,
        prev,
        sid: stored.sid,
        ep: stored.ep,
        sn: stored.sn,
        sp,
        bg: stored.bg,
        dur: stored.dur,
        end: stored.end == Some(true),
        fin: stored.fin == Some(true),
        op: stored.op,
        kind: stored.kind,
        key: stored.key,
        req: stored.req,
        st: stored.st,
        err: stored.err,
        at: stored.at,
        mono: stored.mono,
    };
    let flags = stored.end != Some(false) && stored.fin != Some(false);
    let whole = stored.v == VERSION && flags && links_are_whole(&header);
    whole.then(|| Record { digest, header, r: text.into(), act, body, res })
}

/// The rules between members that hold for every record by itself.
fn links_are_whole(header: &Header) -> bool {
    let global = header.seq >= 1 && (header.seq == 1) == header.prev.is_none() && header.dur < header.seq;
    let session = match header.sn {
        Some(sn) => {
            header.sid.as_ref().is_some_and(|sid| is_session_id(sid)) && sn >= 1 && (sn == 1) == header.sp.is_none()
        }
        None => header.sid.is_none() && header.sp.is_none() && header.ep.is_none() && !header.fin,
    };
    global && session && is_type(&header.t)
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
        let Judged::Record(record) = judge(&line(1, R)) else { panic!("sound") };
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
