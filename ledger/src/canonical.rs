//! RFC 8785 form: a writer that emits it by construction, bounded by [`DEPTH_MAX`] and [`INTEGER_MAX`].
//!
//! One value has one text, so duplicate names, white space, floats, needless escapes and unsorted members cannot hide
//! in a record whose digest is right. Readers that accept nothing else: [`slice`](mod@crate::slice) and
//! [`strict`](crate::strict).

use std::cmp::Ordering;

use serde_json::{Map, Value};

use crate::limits::{DEPTH_MAX, INTEGER_MAX};

/// Why a value cannot stand in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueFault {
    /// Floats have no place in a ledger.
    #[error("a number is not an integer")]
    Float,
    /// At 2^53 and beyond some JSON readers lose digits.
    #[error("an integer is 2^53 or more")]
    Integer,
    /// Deeper than [`DEPTH_MAX`].
    #[error("nested deeper than {DEPTH_MAX} levels")]
    Depth,
}

/// Appends the value's only text. `depth` is the level of the object that holds it.
pub(crate) fn write_value(out: &mut Vec<u8>, value: &Value, depth: usize) -> Result<(), ValueFault> {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(integer), _) => write_integer(out, integer)?,
            (None, Some(negative)) => {
                out.push(b'-');
                write_integer(out, negative.unsigned_abs())?;
            }
            (None, None) => return Err(ValueFault::Float),
        },
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            let depth = deeper(depth)?;
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_value(out, item, depth)?;
            }
            out.push(b']');
        }
        Value::Object(members) => write_object(out, members, depth)?,
    }
    Ok(())
}

fn write_object(out: &mut Vec<u8>, members: &Map<String, Value>, depth: usize) -> Result<(), ValueFault> {
    // The map's own order, by bytes, is the right one but for a few names far outside ASCII.
    if members.keys().is_sorted_by(|left, right| name_order(left, right) == Ordering::Less) {
        return write_members(out, members.iter(), depth);
    }
    let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
    sorted.sort_by(|(left, _), (right, _)| name_order(left, right));
    write_members(out, sorted.into_iter(), depth)
}

fn write_members<'a>(
    out: &mut Vec<u8>,
    members: impl Iterator<Item = (&'a String, &'a Value)>,
    depth: usize,
) -> Result<(), ValueFault> {
    let depth = deeper(depth)?;
    out.push(b'{');
    for (index, (name, value)) in members.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_string(out, name);
        out.push(b':');
        write_value(out, value, depth)?;
    }
    out.push(b'}');
    Ok(())
}

pub(crate) fn write_integer(out: &mut Vec<u8>, integer: u64) -> Result<(), ValueFault> {
    if integer > INTEGER_MAX {
        return Err(ValueFault::Integer);
    }
    // 2^53 has 16 digits.
    let (mut digits, mut left, mut at) = ([b'0'; 16], integer, 16);
    while left > 0 {
        at -= 1;
        digits[at] = digit(left);
        left /= 10;
    }
    out.extend_from_slice(&digits[at.min(15)..]);
    Ok(())
}

/// The last decimal digit of a number.
pub(crate) fn digit(number: u64) -> u8 {
    u8::try_from(number % 10).map_or(b'0', |value| b'0' + value)
}

pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let (plain, Some((byte, behind))) = split_special(rest) {
        out.extend_from_slice(plain);
        match short_escape(byte) {
            Some(letter) => out.extend_from_slice(&[b'\\', letter]),
            None => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        rest = behind;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// What stands before the first quote, backslash or control character; that one, and what stands behind it.
fn split_special(bytes: &[u8]) -> (&[u8], Option<(u8, &[u8])>) {
    let (words, _rest) = bytes.as_chunks::<8>();
    let plain = words.iter().position(|word| specials(u64::from_le_bytes(*word)) != 0).unwrap_or(words.len()) * 8;
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    match bytes[plain..].iter().position(special) {
        None => (bytes, None),
        Some(more) => {
            (&bytes[..plain + more], bytes[plain + more..].split_first().map(|(byte, behind)| (*byte, behind)))
        }
    }
}

const ONES: u64 = 0x0101_0101_0101_0101;
/// The highest bit of each byte: set outside ASCII.
pub(crate) const HIGH: u64 = 0x8080_8080_8080_8080;

/// Marks the bytes of a word that are a quote, a backslash or below 0x20; exact up to and with the lowest mark. What borrows
/// when 1 or 0x20 is taken from it was too small, unless it was outside ASCII.
pub(crate) const fn specials(word: u64) -> u64 {
    let (quotes, backslashes) = (word ^ (ONES * 0x22), word ^ (ONES * 0x5c));
    let borrowed = quotes.wrapping_sub(ONES) | backslashes.wrapping_sub(ONES) | word.wrapping_sub(ONES * 0x20);
    borrowed & !word & HIGH
}

pub(crate) fn short_escape(byte: u8) -> Option<u8> {
    match byte {
        b'"' | b'\\' => Some(byte),
        0x08 => Some(b'b'),
        0x09 => Some(b't'),
        0x0a => Some(b'n'),
        0x0c => Some(b'f'),
        0x0d => Some(b'r'),
        _ => None,
    }
}

/// RFC 8785 sorts names by their UTF-16 code units, which differs from byte order above U+FFFF.
pub(crate) fn name_order(left: &str, right: &str) -> Ordering {
    if left.is_ascii() && right.is_ascii() { left.cmp(right) } else { left.encode_utf16().cmp(right.encode_utf16()) }
}

pub(crate) fn deeper(depth: usize) -> Result<usize, ValueFault> {
    if depth >= DEPTH_MAX { Err(ValueFault::Depth) } else { Ok(depth + 1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strict::is_canonical_object;
    use serde_json::json;

    fn text_of(value: &Value) -> Result<String, ValueFault> {
        let mut out = Vec::new();
        write_value(&mut out, value, 0)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn the_writer_emits_the_form_that_the_recogniser_accepts() {
        let value = json!({
            "numbers": [0, -1, INTEGER_MAX, -9_007_199_254_740_991_i64],
            "escapes": "\u{0}\u{1f}\u{8}\t\n\u{c}\r\"\\/\u{7f}\u{2028}é😀",
            "empty": {"a": [], "o": {}, "s": ""},
            "literals": [true, false, null],
        });
        let text = text_of(&value).unwrap();
        assert_eq!(
            text,
            "{\"empty\":{\"a\":[],\"o\":{},\"s\":\"\"},\
             \"escapes\":\"\\u0000\\u001f\\b\\t\\n\\f\\r\\\"\\\\/\u{7f}\u{2028}é😀\",\
             \"literals\":[true,false,null],\
             \"numbers\":[0,-1,9007199254740991,-9007199254740991]}"
        );
        assert!(is_canonical_object(&text, 0));
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn what_is_escaped_is_found_wherever_it_stands() {
        for len in 0..20 {
            for special in ['"', '\\', '\n', '\0', '\u{1f}', ' ', '\u{7f}', '\u{80}', '\u{1f600}'] {
                let text = format!("{}{special}{}", "a".repeat(len), "z".repeat(20 - len));
                let written = text_of(&json!(text)).unwrap();
                assert_eq!(written, serde_json::to_string(&text).unwrap());
                let twice = text_of(&json!(format!("{text}{text}"))).unwrap();
                assert_eq!(twice, format!("{}{}", written.trim_end_matches('"'), &written[1..]), "{len} {special:?}");
            }
        }
    }

    #[test]
    fn integers_have_all_their_digits() {
        for power in 0..16 {
            for integer in [10_u64.pow(power) - 1, 10_u64.pow(power), 10_u64.pow(power) + 1] {
                let expected = if integer > INTEGER_MAX { Err(ValueFault::Integer) } else { Ok(integer.to_string()) };
                assert_eq!(text_of(&json!(integer)), expected);
            }
        }
    }

    /// The sorting example of RFC 8785 section 3.2.3.
    #[test]
    fn names_sort_by_utf16_code_units() {
        let value = json!({"\u{20ac}": 1, "\r": 2, "\u{fb33}": 3, "1": 4, "\u{1f600}": 5, "\u{80}": 6, "\u{f6}": 7});
        let text = text_of(&value).unwrap();
        let order: String = text.chars().filter(|character| ('1'..='7').contains(character)).collect();
        // "\r", then the name "1" with its value 4, and so on up to the surrogate pair, before U+FB33.
        assert_eq!(order, "2146715".to_owned() + "3");
        assert!(is_canonical_object(&text, 0));
    }

    #[test]
    fn what_the_form_forbids_is_refused_by_both() {
        assert_eq!(text_of(&json!(1.5)), Err(ValueFault::Float));
        assert_eq!(text_of(&json!(INTEGER_MAX + 1)), Err(ValueFault::Integer));
        assert_eq!(text_of(&json!(-9_007_199_254_740_992_i64)), Err(ValueFault::Integer));
        for wrong in [
            "",
            "{",
            "[]",
            "{} ",
            " {}",
            "{\"a\": 1}",
            "{\"a\":1,}",
            "{\"a\":1.0}",
            "{\"a\":1e3}",
            "{\"a\":-0}",
            "{\"a\":01}",
            "{\"a\":-}",
            "{\"a\":9007199254740992}",
            "{\"b\":1,\"a\":2}",
            "{\"a\":1,\"a\":2}",
            "{\"a\":\"\\/\"}",
            "{\"a\":\"\\u0041\"}",
            "{\"a\":\"\\u000a\"}",
            "{\"a\":\"\\u001F\"}",
            "{\"a\":\"\t\"}",
            "{\"a\":\"\\ud800\"}",
            "{\"a\":tru}",
            "{\"a\":[1 ]}",
            "{\"a\"}",
            "{\"a\":1}{}",
            "{\"a\":\"\\",
        ] {
            assert!(!is_canonical_object(wrong, 0), "{wrong}");
        }
    }

    #[test]
    fn depth_is_bounded_alike_when_writing_and_reading() {
        let nested = |levels: usize| (1..levels).fold(json!({}), |inner, _level| json!({"a": inner}));
        assert!(is_canonical_object(&text_of(&nested(DEPTH_MAX)).unwrap(), 0));
        assert_eq!(text_of(&nested(DEPTH_MAX + 1)), Err(ValueFault::Depth));
        let raw = "{\"a\":".repeat(DEPTH_MAX) + "{}" + &"}".repeat(DEPTH_MAX);
        assert!(!is_canonical_object(&raw, 0));
    }
}
