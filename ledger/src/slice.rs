//! One strict pass over R: it checks the RFC 8785 form and cuts out the members at once, and makes nothing.
//!
//! R's members have one possible order, so the pass is the grammar written down: each name is expected where its sorting
//! puts it, and whatever else stands there ends the pass. Accepts exactly what [`strict`](crate::strict) accepts, the
//! plain reading that says the same in another way; tests and a fuzz target compare the two on the same bytes.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::canonical::{HIGH, deeper, name_order, short_escape, specials};
use crate::digest::{Digest, Position};
use crate::entry::{is_session_id, is_session_id_length, is_type};
use crate::limits::{INTEGER_MAX, VERSION};

/// The members of a sound record, as they stand in its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sliced<'a> {
    /// As the line says; checked by whoever cut it.
    pub(crate) digest: Digest,
    /// R itself: UTF-8.
    pub(crate) r: &'a [u8],
    /// Whether an escape stands in any of its strings.
    escapes: bool,
    pub(crate) act: Option<&'a [u8]>,
    pub(crate) at: Text<'a>,
    pub(crate) bg: u64,
    pub(crate) body: Option<&'a [u8]>,
    pub(crate) dur: u64,
    pub(crate) end: bool,
    pub(crate) ep: Option<u32>,
    pub(crate) err: Option<Text<'a>>,
    pub(crate) fin: bool,
    pub(crate) key: Option<Text<'a>>,
    pub(crate) kind: Option<Text<'a>>,
    pub(crate) mono: u64,
    pub(crate) op: Option<Text<'a>>,
    pub(crate) prev: Option<Digest>,
    pub(crate) req: Option<Text<'a>>,
    pub(crate) res: Option<&'a [u8]>,
    pub(crate) seq: u64,
    pub(crate) sid: Option<Text<'a>>,
    pub(crate) sn: Option<u64>,
    pub(crate) sp: Option<Digest>,
    pub(crate) st: Option<Text<'a>>,
    /// Letters and `_` only.
    pub(crate) t: &'a str,
}

/// A canonical string as it stands between its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    /// The text that it stands for; `escapes` says whether it can hold any.
    fn plain(self, escapes: bool) -> Cow<'a, str> {
        let raw = std::str::from_utf8(self.0).expect("the pass has checked it");
        if escapes { Cow::Owned(unescape(raw)) } else { Cow::Borrowed(raw) }
    }

    fn is_session_id(self, escapes: bool) -> bool {
        // Without escapes its length is that of what it stands for.
        if escapes { is_session_id(&self.plain(true)) } else { is_session_id_length(self.0.len()) }
    }
}

/// Cuts R, the bytes of one record; `None` if it is no record of this version in canonical form. The digest is not looked at.
#[inline]
pub(crate) fn slice(digest: Digest, r: &[u8]) -> Option<Sliced<'_>> {
    let mut pass = Pass { rest: r, high: 0, escapes: false };
    pass.eat(b"{")?;
    let act = pass.value_of(b"\"act\":")?;
    let at = pass.text_of(b"\"at\":\"")??;
    let bg = pass.integer_of(b"\"bg\":")??;
    let body = pass.value_of(b"\"body\":")?;
    let dur = pass.integer_of(b"\"dur\":")??;
    let end = pass.eat(b"\"end\":true,").is_some();
    let ep = pass.integer_of(b"\"ep\":")?;
    let err = pass.text_of(b"\"err\":\"")?;
    let fin = pass.eat(b"\"fin\":true,").is_some();
    let key = pass.text_of(b"\"key\":\"")?;
    let kind = pass.text_of(b"\"kind\":\"")?;
    let mono = pass.integer_of(b"\"mono\":")??;
    let op = pass.text_of(b"\"op\":\"")?;
    let prev = pass.digest_of(b"\"prev\":\"")?;
    let req = pass.text_of(b"\"req\":\"")?;
    let res = pass.value_of(b"\"res\":")?;
    let seq = pass.integer_of(b"\"seq\":")??;
    let sid = pass.text_of(b"\"sid\":\"")?;
    let sn = pass.integer_of(b"\"sn\":")?;
    let sp = pass.digest_of(b"\"sp\":\"")?;
    let st = pass.text_of(b"\"st\":\"")?;
    let t = pass.text_of(b"\"t\":\"")??;
    let v = pass.last_integer_of(b"\"v\":")?;
    let t = std::str::from_utf8(t.0).ok().filter(|t| is_type(t))?;
    let utf8 = pass.high & HIGH == 0 || std::str::from_utf8(r).is_ok();
    let ep = ep.map(u32::try_from).transpose().ok()?;
    if v != VERSION || !utf8 {
        return None;
    }
    // The rules between members that hold for every record by itself.
    let global = seq >= 1 && (seq == 1) == prev.is_none() && dur < seq;
    let session = match (sn, sid) {
        (Some(sn), Some(sid)) => sid.is_session_id(pass.escapes) && sn >= 1 && (sn == 1) == sp.is_none(),
        (None, None) => sp.is_none() && ep.is_none() && !fin,
        (Some(_), None) | (None, Some(_)) => false,
    };
    if !global || !session {
        return None;
    }
    Some(Sliced {
        digest,
        r,
        escapes: pass.escapes,
        act,
        at,
        bg,
        body,
        dur,
        end,
        ep,
        err,
        fin,
        key,
        kind,
        mono,
        op,
        prev,
        req,
        res,
        seq,
        sid,
        sn,
        sp,
        st,
        t,
    })
}

impl<'a> Sliced<'a> {
    /// Where the record stands.
    pub(crate) fn position(&self) -> Position {
        Position { seq: self.seq, digest: self.digest }
    }

    /// The text that one of its members stands for.
    pub(crate) fn plain(&self, text: Text<'a>) -> Cow<'a, str> {
        text.plain(self.escapes)
    }

    /// The session, and the record's number in it.
    pub(crate) fn session(&self) -> Option<(Cow<'a, str>, u64)> {
        Some((self.plain(self.sid?), self.sn?))
    }
}

/// The bytes not yet passed. Every method returns `None` at the first byte that the form does not allow.
struct Pass<'a> {
    rest: &'a [u8],
    /// All bytes of all strings, laid over one another: tells whether any was outside ASCII.
    high: u64,
    /// Whether an escape was passed.
    escapes: bool,
}

impl<'a> Pass<'a> {
    #[inline(always)]
    fn eat<const N: usize>(&mut self, token: &[u8; N]) -> Option<()> {
        let (first, rest) = self.rest.split_first_chunk::<N>()?;
        (first == token).then(|| self.rest = rest)
    }

    /// An optional member with any value, and the comma behind it. The outer `None` is a fault.
    fn value_of<const N: usize>(&mut self, name: &[u8; N]) -> Option<Option<&'a [u8]>> {
        if self.eat(name).is_none() {
            return Some(None);
        }
        let from = self.rest;
        // R is the second level, the line's own object the first.
        self.value(2)?;
        let value = &from[..from.len() - self.rest.len()];
        self.eat(b",")?;
        Some(Some(value))
    }

    fn text_of<const N: usize>(&mut self, name_and_quote: &[u8; N]) -> Option<Option<Text<'a>>> {
        if self.eat(name_and_quote).is_none() {
            return Some(None);
        }
        let text = self.string_rest()?;
        self.eat(b",")?;
        Some(Some(Text(text)))
    }

    fn digest_of<const N: usize>(&mut self, name_and_quote: &[u8; N]) -> Option<Option<Digest>> {
        if self.eat(name_and_quote).is_none() {
            return Some(None);
        }
        let (hex, rest) = self.rest.split_first_chunk::<64>()?;
        self.rest = rest;
        let digest = Digest::from_hex(hex)?;
        self.eat(b"\",")?;
        Some(Some(digest))
    }

    fn integer_of<const N: usize>(&mut self, name: &[u8; N]) -> Option<Option<u64>> {
        if self.eat(name).is_none() {
            return Some(None);
        }
        let integer = self.digits()?;
        self.eat(b",")?;
        Some(Some(integer))
    }

    /// The member that ends R.
    fn last_integer_of<const N: usize>(&mut self, name: &[u8; N]) -> Option<u64> {
        self.eat(name)?;
        let integer = self.digits()?;
        self.eat(b"}")?;
        self.rest.is_empty().then_some(integer)
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        match *self.rest.first()? {
            b'{' => self.object(deeper(depth).ok()?),
            b'[' => self.array(deeper(depth).ok()?),
            b'"' => {
                self.eat(b"\"")?;
                self.string_rest().map(|_text| ())
            }
            b't' => self.eat(b"true"),
            b'f' => self.eat(b"false"),
            b'n' => self.eat(b"null"),
            b'-' => {
                self.eat(b"-")?;
                (self.digits()? != 0).then_some(())
            }
            _ => self.digits().map(|_integer| ()),
        }
    }

    fn object(&mut self, depth: usize) -> Option<()> {
        self.eat(b"{")?;
        if self.eat(b"}").is_some() {
            return Some(());
        }
        let (mut previous, mut plain): (Option<&'a [u8]>, bool) = (None, true);
        loop {
            self.eat(b"\"")?;
            let (high, escapes) = (std::mem::take(&mut self.high), std::mem::take(&mut self.escapes));
            let name = self.string_rest()?;
            // In names of ASCII without escapes bytes sort as RFC 8785 does.
            plain &= self.high & HIGH == 0 && !self.escapes;
            (self.high, self.escapes) = (self.high | high, self.escapes | escapes);
            let sorted = |previous| if plain { is_below(previous, name) } else { is_sorted(previous, name) };
            if previous.is_some_and(|previous| !sorted(previous)) {
                return None;
            }
            previous = Some(name);
            self.eat(b":")?;
            self.value(depth)?;
            if self.eat(b",").is_none() {
                return self.eat(b"}");
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<()> {
        self.eat(b"[")?;
        if self.eat(b"]").is_some() {
            return Some(());
        }
        loop {
            self.value(depth)?;
            if self.eat(b",").is_none() {
                return self.eat(b"]");
            }
        }
    }

    /// A string behind its opening quote, up to and with the closing one. Only the escapes that the writer emits.
    fn string_rest(&mut self) -> Option<&'a [u8]> {
        let from = self.rest;
        let mut at = 0;
        loop {
            at += self.ordinary(&from[at..]);
            match *from.get(at)? {
                b'"' => {
                    self.rest = &from[at + 1..];
                    return Some(&from[..at]);
                }
                b'\\' => {
                    self.escapes = true;
                    at += escape(&from[at..])?.1;
                }
                _ => return None,
            }
        }
    }

    /// How many bytes stand before the first quote, backslash or control character: eight at a time.
    #[inline(always)]
    fn ordinary(&mut self, bytes: &[u8]) -> usize {
        let (chunks, rest) = bytes.as_chunks::<8>();
        for (index, chunk) in chunks.iter().enumerate() {
            let word = u64::from_le_bytes(*chunk);
            // Bytes of strings, or of what comes behind one: too much of it only has the whole checked as UTF-8.
            self.high |= word;
            let special = specials(word);
            if special != 0 {
                // Only the lowest mark is exact, and it is the one that counts.
                return index * 8 + usize::try_from(special.trailing_zeros() / 8).unwrap_or(0);
            }
        }
        let ends = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
        let more = rest.iter().position(ends).unwrap_or(rest.len());
        rest[..more].iter().for_each(|byte| self.high |= u64::from(*byte));
        bytes.len() - rest.len() + more
    }

    /// A whole number below 2^53 in its only form.
    fn digits(&mut self) -> Option<u64> {
        let (first, mut rest) = self.rest.split_first()?;
        let mut value = u64::from(first.wrapping_sub(b'0'));
        if value > 9 {
            return None;
        }
        while let Some((digit, more)) = rest.split_first()
            && digit.is_ascii_digit()
        {
            if value == 0 || value > INTEGER_MAX {
                return None;
            }
            value = value * 10 + u64::from(digit - b'0');
            rest = more;
        }
        self.rest = rest;
        (value <= INTEGER_MAX).then_some(value)
    }
}

/// Whether one name sorts before the other by its bytes. Most differ in the first.
fn is_below(previous: &[u8], name: &[u8]) -> bool {
    match (previous.first(), name.first()) {
        (Some(before), Some(here)) if before != here => before < here,
        _ => previous < name,
    }
}

/// Whether one name, as it stands between its quotes, sorts before the other.
fn is_sorted(previous: &[u8], name: &[u8]) -> bool {
    // Not yet known to be UTF-8 as a whole: what is not has no order, and is refused.
    let (Ok(previous), Ok(name)) = (std::str::from_utf8(previous), std::str::from_utf8(name)) else { return false };
    name_order(&unescape(previous), &unescape(name)) == Ordering::Less
}

/// The byte that an escape at the beginning stands for, and the length of the escape, if the writer would emit it.
fn escape(bytes: &[u8]) -> Option<(u8, usize)> {
    let byte = match *bytes.get(1)? {
        b'"' => b'"',
        b'\\' => b'\\',
        b'b' => 0x08,
        b't' => 0x09,
        b'n' => 0x0a,
        b'f' => 0x0c,
        b'r' => 0x0d,
        b'u' => {
            let [b'0', b'0', high @ (b'0' | b'1'), low] = *bytes.get(2..6)?.first_chunk::<4>()? else { return None };
            let low = match low {
                b'0'..=b'9' => low - b'0',
                b'a'..=b'f' => low - b'a' + 10,
                _ => return None,
            };
            let byte = (high - b'0') * 16 + low;
            return short_escape(byte).is_none().then_some((byte, 6));
        }
        _ => return None,
    };
    Some((byte, 2))
}

/// The text of a string that the pass has accepted.
fn unescape(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        let (byte, len) = escape(&rest.as_bytes()[at..]).expect("the pass accepts no other escape");
        text.push_str(&rest[..at]);
        text.push(char::from(byte));
        rest = &rest[at + len..];
    }
    text + rest
}

#[cfg(test)]
#[path = "slice_tests.rs"]
mod tests;
