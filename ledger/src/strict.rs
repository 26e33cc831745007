//! The plain reading of a line: first whether R is in RFC 8785 form, then what serde makes of it.
//!
//! It is the reference. The product reads by `slice.rs`, one pass that is several times as fast; tests and a
//! fuzz target hold the two against each other, so a line is a record for both or for neither.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::canonical::{deeper, name_order, short_escape};
use crate::digest::Digest;
use crate::entry::{is_session_id, is_type};
use crate::limits::{INTEGER_MAX, VERSION};
use crate::record::{Header, Judged, Record, judge_by};

/// The record that a line without its LF holds, if it is one of this version. Slow: for comparison only.
pub fn record(line: &[u8]) -> Option<Record> {
    match judge_strictly(line) {
        Judged::Record(record) => Some(record),
        Judged::Newer(_) | Judged::Bad(_) => None,
    }
}

/// Judges a line without its LF.
pub(crate) fn judge_strictly(line: &[u8]) -> Judged<Record> {
    judge_by(line, parse)
}

/// A member that is there, whatever its value: serde takes `null` for one that is absent, the format does not.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    act: Option<&'a RawValue>,
    at: String,
    bg: u64,
    #[serde(borrow, default, deserialize_with = "present")]
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
    #[serde(default, deserialize_with = "present")]
    prev: Option<Digest>,
    #[serde(default, deserialize_with = "present")]
    req: Option<String>,
    #[serde(borrow, default, deserialize_with = "present")]
    res: Option<&'a RawValue>,
    seq: u64,
    #[serde(default, deserialize_with = "present")]
    sid: Option<String>,
    #[serde(default, deserialize_with = "present")]
    sn: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    sp: Option<Digest>,
    #[serde(default, deserialize_with = "present")]
    st: Option<String>,
    t: String,
    v: u64,
}

pub(crate) fn parse(digest: Digest, r: &[u8]) -> Option<Record> {
    let text = std::str::from_utf8(r).ok()?;
    // R stands inside the line's own object, the first level.
    if !is_canonical_object(text, 1) {
        return None;
    }
    let stored: Stored<'_> = serde_json::from_str(text).ok()?;
    let range = |raw: Option<&RawValue>| {
        raw.map(|raw| {
            let start = raw.get().as_ptr().addr() - text.as_ptr().addr();
            start..start + raw.get().len()
        })
    };
    let (act, body, res) = (range(stored.act), range(stored.body), range(stored.res));
    let header = Header {
        t: stored.t,
        seq: stored.seq,
        prev: stored.prev,
        sid: stored.sid,
        ep: stored.ep,
        sn: stored.sn,
        sp: stored.sp,
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
    let whole = stored.v == VERSION && flags && members_agree(&header);
    whole.then(|| Record { digest, header, r: text.into(), act, body, res })
}

/// The rules for and between members that hold for every record by itself.
fn members_agree(header: &Header) -> bool {
    let sid = header.sid.as_ref().is_none_or(|sid| is_session_id(sid));
    let global = header.seq >= 1 && (header.seq == 1) == header.prev.is_none() && header.dur < header.seq;
    let session = match header.sn {
        Some(sn) => header.sid.is_some() && sn >= 1 && (sn == 1) == header.sp.is_none(),
        None => header.sid.is_none() && header.sp.is_none() && header.ep.is_none() && !header.fin,
    };
    is_type(&header.t) && sid && global && session
}

/// Whether the whole text is one object in RFC 8785 form within the limits. `depth` is the level of what holds it.
pub(crate) fn is_canonical_object(text: &str, depth: usize) -> bool {
    let mut reader = Reader { text, bytes: text.as_bytes(), at: 0 };
    reader.peek() == Some(b'{') && reader.value(depth).is_some() && reader.at == reader.bytes.len()
}

/// A cursor over UTF-8 text; every method returns `None` at the first byte that the form does not allow.
struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn eat(&mut self, token: &[u8]) -> Option<()> {
        self.bytes[self.at..].starts_with(token).then(|| self.at += token.len())
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        match self.peek()? {
            b'{' => self.object(deeper(depth).ok()?),
            b'[' => self.array(deeper(depth).ok()?),
            b'"' => self.string().map(|_text| ()),
            b't' => self.eat(b"true"),
            b'f' => self.eat(b"false"),
            b'n' => self.eat(b"null"),
            _ => self.integer(),
        }
    }

    fn object(&mut self, depth: usize) -> Option<()> {
        self.eat(b"{")?;
        if self.peek() == Some(b'}') {
            return self.eat(b"}");
        }
        let mut previous: Option<Cow<'a, str>> = None;
        loop {
            let name = unescape(self.string()?);
            if previous.is_some_and(|previous| name_order(&previous, &name) != Ordering::Less) {
                return None;
            }
            previous = Some(name);
            self.eat(b":")?;
            self.value(depth)?;
            match self.peek()? {
                b',' => self.eat(b",")?,
                _ => return self.eat(b"}"),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<()> {
        self.eat(b"[")?;
        if self.peek() == Some(b']') {
            return self.eat(b"]");
        }
        loop {
            self.value(depth)?;
            match self.peek()? {
                b',' => self.eat(b",")?,
                _ => return self.eat(b"]"),
            }
        }
    }

    /// A string, as it stands between its quotes. Only the escapes that the writer emits are accepted.
    fn string(&mut self) -> Option<&'a str> {
        self.eat(b"\"")?;
        let start = self.at;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => self.at += escape(&self.bytes[self.at..])?.1,
                byte if byte < 0x20 => return None,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(&self.text[start..self.at - 1])
    }

    fn integer(&mut self) -> Option<()> {
        let negative = self.eat(b"-").is_some();
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        let digits = std::str::from_utf8(&self.bytes[start..self.at]).ok()?;
        let minimal = digits == "0" && !negative || !digits.starts_with('0');
        let value: u64 = digits.parse().ok()?;
        (minimal && value <= INTEGER_MAX).then_some(())
    }
}

/// The byte that an escape at the beginning stands for, and the length of the escape, if the writer would emit it.
fn escape(bytes: &[u8]) -> Option<(u8, usize)> {
    let letter = bytes.get(1).copied()?;
    if letter == b'u' {
        let digits = bytes.get(2..6)?;
        let byte = (0..0x20u8).find(|byte| format!("{byte:04x}").as_bytes() == digits)?;
        return short_escape(byte).is_none().then_some((byte, 6));
    }
    let byte = (0..0x80u8).find(|byte| short_escape(*byte) == Some(letter))?;
    Some((byte, 2))
}

/// The text of a string that was read as canonical.
fn unescape(raw: &str) -> Cow<'_, str> {
    let mut text = String::new();
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        let (byte, len) = escape(&rest.as_bytes()[at..]).expect("the reader accepts no other escape");
        text.push_str(&rest[..at]);
        text.push(char::from(byte));
        rest = &rest[at + len..];
    }
    if text.is_empty() { Cow::Borrowed(rest) } else { Cow::Owned(text + rest) }
}
