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
    let depth = deeper(depth)?;
    let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
    sorted.sort_by(|(left, _), (right, _)| name_order(left, right));
    out.push(b'{');
    for (index, (name, value)) in sorted.into_iter().enumerate() {
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
    out.extend_from_slice(integer.to_string().as_bytes());
    Ok(())
}

pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for &byte in text.as_bytes() {
        match short_escape(byte) {
            Some(letter) => out.extend_from_slice(&[b'\\', letter]),
            None if byte < 0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            None => out.push(byte),
        }
    }
    out.push(b'"');
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
