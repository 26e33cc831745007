//! Changes that know the shape of JSON lines: a value replaced, moved, doubled or taken away, a line swapped, and all of it
//! written well-formed again, so that what stands behind a parser is reached, too.

use crate::mutate::Numbers;
use serde_json::{Map, Value, json};

/// Lines longer than this are left to the plain changes.
const LINE_BYTES_MAX: usize = 128 * 1024;

/// One change of one line, or of the order of lines. Does nothing where there is nothing to change.
pub(crate) fn reshape(bytes: &mut Vec<u8>, other: &[u8], numbers: &mut Numbers) {
    let ended = bytes.last() == Some(&b'\n');
    let mut lines: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    if ended {
        lines.pop();
    }
    let at = numbers.below(lines.len());
    let foreign: Vec<&[u8]> = other.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    match numbers.below(8) {
        0 if lines.len() > 1 => drop(lines.remove(at)),
        1 if lines.len() > 1 => {
            let second = numbers.below(lines.len());
            lines.swap(at, second);
        }
        2 => {
            let line = lines.get(at).cloned().unwrap_or_default();
            lines.insert(numbers.below(lines.len() + 1), line);
        }
        3 if !foreign.is_empty() => lines.insert(at, foreign[numbers.below(foreign.len())].to_vec()),
        _ => {
            let foreign = foreign.get(numbers.below(foreign.len())).and_then(|line| serde_json::from_slice(line).ok());
            if let Some(line) = lines.get_mut(at).filter(|line| line.len() <= LINE_BYTES_MAX)
                && let Ok(mut value) = serde_json::from_slice::<Value>(line)
            {
                change(&mut value, &foreign.unwrap_or(Value::Null), numbers);
                *line = serde_json::to_vec(&value).unwrap_or_default();
            }
        }
    }
    *bytes = lines.join(&b'\n');
    if ended {
        bytes.push(b'\n');
    }
}

/// Changes one value somewhere inside.
fn change(value: &mut Value, foreign: &Value, numbers: &mut Numbers) {
    let inside = count(value) - 1;
    if inside == 0 || numbers.below(8) == 0 {
        *value = replacement(value, foreign, numbers);
        return;
    }
    // Down to the parent of the chosen value.
    let mut parent = value;
    let mut left = numbers.below(inside);
    loop {
        let Some((index, rest)) = child_with(parent, left) else { return };
        match rest {
            None => return change_child(parent, index, foreign, numbers),
            Some(rest) => match child(parent, index) {
                Some(next) => (parent, left) = (next, rest),
                None => return,
            },
        }
    }
}

/// The child that is, or holds, the value number `left` in the order in which they are written; and the number inside it.
fn child_with(parent: &Value, mut left: usize) -> Option<(usize, Option<usize>)> {
    for (index, child) in children(parent).into_iter().enumerate() {
        let inside = count(child);
        if left == 0 {
            return Some((index, None));
        }
        if left < inside {
            return Some((index, Some(left - 1)));
        }
        left -= inside;
    }
    None
}

fn change_child(parent: &mut Value, index: usize, foreign: &Value, numbers: &mut Numbers) {
    let kind = numbers.below(6);
    match (kind, parent) {
        (0, Value::Array(items)) => drop(items.remove(index)),
        (0, Value::Object(members)) => {
            if let Some(name) = members.keys().nth(index).cloned() {
                members.remove(&name);
            }
        }
        (1, Value::Array(items)) => {
            let item = items[index].clone();
            items.insert(index, item);
        }
        (1, Value::Object(members)) => {
            // Under the name of something else, here or elsewhere.
            let value = members.values().nth(index).cloned().unwrap_or_default();
            let names: Vec<String> = names(foreign).into_iter().chain(members.keys().cloned()).collect();
            if let Some(name) = names.get(numbers.below(names.len())) {
                members.insert(name.clone(), value);
            }
        }
        (2, parent) => {
            let second = numbers.below(children(parent).len());
            let value = child(parent, second).map(std::mem::take).unwrap_or_default();
            if let Some(first) = child(parent, index) {
                let before = std::mem::replace(first, value);
                if let Some(second) = child(parent, second).filter(|_| second != index) {
                    *second = before;
                }
            }
        }
        (_, parent) => {
            if let Some(child) = child(parent, index) {
                *child = replacement(child, foreign, numbers);
            }
        }
    }
}

/// Something else in place of a value: near it, of another kind, from elsewhere.
fn replacement(value: &Value, foreign: &Value, numbers: &mut Numbers) -> Value {
    match (numbers.below(5), value) {
        (0 | 1, Value::Number(number)) => near(number.as_u64().unwrap_or(0), numbers),
        (0 | 1, Value::String(text)) => Value::String(other_text(text, numbers)),
        (0 | 1, Value::Bool(is)) => Value::Bool(!is),
        (2, value) => match numbers.below(3) {
            0 => json!([value]),
            1 => json!({"a": value}),
            _ => Value::Array(vec![value.clone(); numbers.below(40)]),
        },
        (3, _) => {
            let all = children(foreign);
            all.get(numbers.below(all.len())).map_or_else(|| foreign.clone(), |value| (*value).clone())
        }
        _ => [
            Value::Null,
            json!(true),
            json!(0),
            json!(-1),
            json!(0.5),
            json!((1_u64 << 53) - 1),
            json!(1_u64 << 53),
            json!(u64::MAX),
            json!(""),
            json!("0".repeat(64)),
            json!("x".repeat(300)),
            json!({}),
            json!([]),
        ][numbers.below(13)]
        .clone(),
    }
}

fn near(number: u64, numbers: &mut Numbers) -> Value {
    let choices = [
        number.wrapping_add(1),
        number.wrapping_sub(1),
        number.saturating_mul(2),
        number / 2,
        number ^ (1 << numbers.below(64)),
        number.wrapping_neg(),
    ];
    Value::from(choices[numbers.below(choices.len())])
}

fn other_text(text: &str, numbers: &mut Numbers) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    let at = numbers.below(characters.len() + 1);
    let new = ['a', 'f', '0', '9', '_', '.', '/', '\\', '"', '\n', '\0', '\u{7f}', '\u{e9}', '\u{1f600}', 'A']
        [numbers.below(15)];
    match numbers.below(4) {
        0 => characters.insert(at, new),
        1 => characters.truncate(at),
        2 => characters.iter_mut().skip(at).take(1).for_each(|character| *character = new),
        _ => characters.extend_from_within(at..),
    }
    characters.into_iter().take(LINE_BYTES_MAX / 8).collect()
}

/// How many values there are, with the outermost.
fn count(value: &Value) -> usize {
    1 + children(value).into_iter().map(count).sum::<usize>()
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(members) => members.values().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

fn child(value: &mut Value, index: usize) -> Option<&mut Value> {
    match value {
        Value::Array(items) => items.get_mut(index),
        Value::Object(members) => members.values_mut().nth(index),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// The names in the outermost object, and in the object inside that a line wraps.
fn names(value: &Value) -> Vec<String> {
    let of = |members: &Map<String, Value>| members.keys().cloned().collect::<Vec<String>>();
    let outer = value.as_object().map(of).unwrap_or_default();
    outer.into_iter().chain(children(value).into_iter().filter_map(Value::as_object).flat_map(of)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Value, json, reshape};
    use crate::mutate::Numbers;
    use std::collections::BTreeSet;

    #[test]
    fn lines_stay_json_and_every_value_is_reached() {
        let seed = b"{\"a\":{\"b\":[1,{\"c\":\"deep\"}]},\"d\":true}\n{\"e\":2}\n".to_vec();
        let mut numbers = Numbers::from_seed(1);
        let (mut seen, mut deep) = (BTreeSet::new(), 0);
        for _ in 0..2_000 {
            let mut bytes = seed.clone();
            reshape(&mut bytes, b"{\"f\":{\"g\":null}}", &mut numbers);
            let lines: Vec<Value> =
                bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
            assert!(bytes.is_empty() || bytes.last() == Some(&b'\n'));
            assert_eq!(lines.len(), bytes.iter().filter(|byte| **byte == b'\n').count(), "{}", bytes.escape_ascii());
            let first = lines.first().cloned().unwrap_or_default();
            deep += usize::from(first["a"]["b"][0] == json!(1) && first["a"]["b"][1]["c"] != json!("deep"));
            seen.insert(bytes);
        }
        assert!(seen.len() > 150 && deep > 20, "{} {deep}", seen.len());
    }

    #[test]
    fn what_is_no_json_does_no_harm() {
        let mut numbers = Numbers::from_seed(2);
        for seed in [&b""[..], b"\n", b"\n\n\n", b"x", b"\xff\n[", b"1"] {
            for _ in 0..200 {
                reshape(&mut seed.to_vec(), seed, &mut numbers);
            }
        }
    }
}
