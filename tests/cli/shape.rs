//! The shapes of the contract's documents, in the contract's own notation, and a check of a document against one.
//!
//! `{a:T,b:T}` an object with at least these members (additions are welcome), `[T]` a list, `T|U` one of several, `"x"` this
//! text, `1` this number; `text int bool time hex64 null any map` as named; a word in capitals is a shape of the table below.

use serde_json::Value;

/// Documents by name; contract.md section 1.
const NAMED: [(&str, &str); 14] = [
    (
        "BROKER",
        "{pid:int,generation:int,incarnation:hex64,version:text,protocol:{min:int,max:int},endpoint:text,root:ARG,started_at:time}",
    ),
    ("ENDPOINT", "{address:text,generation:int,incarnation:hex64}"),
    (
        "OPERATION",
        "{id:text,key:text,kind:text,session_id:text|null,state:\"accepted\"|\"succeeded\"|\"failed\"|\"aborted\"|\"uncertain\",seq:int,\
         digest:hex64,replayed:bool,request_digest:hex64,by:text,asked_at:time,reason:text|null,error:ERROR|null}",
    ),
    ("ERROR", "{code:text,message:text,retry:\"never\"|\"same_key\"|\"later\",data:map}"),
    ("EXIT", "{code:int}|{signal:text}|{error:{phase:\"exec\"|\"cwd\"|\"limit\"|\"host\"|\"ready\",reason:text}}"),
    (
        "SESSION",
        "{id:text,name:text|null,status:STATUS,reason:text|null,episode:int,pid:int|null,host_pid:int|null,command:[ARG],cwd:ARG,labels:map,\
         parent:text|null,adapter:text,created_at:time,started_at:time|null,ended_at:time|null,last_seen_at:time|null,exit:EXIT|null,\
         endpoint:ENDPOINT|null,queue:{messages:int,bytes:int,uncertain:int},fence:{operation:any,reason:text}|null,\
         stop:STOP|null}",
    ),
    ("STOP", "{operation:text|null,by:text,reason:text|null,asked_at:time,grace_ms:int,deadline:time,turn:int|null}"),
    (
        "STATUS",
        "\"starting\"|\"ready\"|\"running\"|\"interrupted\"|\"idle\"|\"stopping\"|\"stopped\"|\"exited\"|\"failed\"|\"deleted\"",
    ),
    (
        "MESSAGE",
        "{id:text,session_id:text,from:text,mode:\"queue\"|\"interrupt\",state:text,reason:text|null,key:text,requested_at:time,\
         accepted_at:time|null,turn:int|null,redeliveries:int}",
    ),
    ("ARG", "text|{b64:text}"),
    ("HEAD", "{seq:int,digest:hex64}"),
    ("SURVIVOR", "{pid:int,command:text}"),
    ("PROBLEM", "{class:text,segment:text,seq:int|null,offset:int,sessions:[text],detail:text}"),
    ("RECORD", "{v:int,t:text,seq:int,at:time,mono:int,bg:int,digest:hex64}"),
];

/// Fails the test unless the document has this shape and says that it is of version 1.
#[track_caller]
pub(crate) fn assert_shape(document: &Value, shape: &str) {
    assert_eq!(document["schema"], 1, "{document}");
    if let Err(why) = fits("", document, shape) {
        panic!("{why}\nin {document:#}");
    }
}

/// Whether a value has a shape, and if not, where and why not.
fn fits(path: &str, value: &Value, shape: &str) -> Result<(), String> {
    let alternatives = split(shape, '|');
    if alternatives.len() == 1 {
        return fits_one(path, value, alternatives[0]);
    }
    let misfits: Vec<String> = alternatives.iter().filter_map(|shape| fits_one(path, value, shape).err()).collect();
    if misfits.len() < alternatives.len() { Ok(()) } else { Err(misfits.join("; ")) }
}

fn fits_one(path: &str, value: &Value, shape: &str) -> Result<(), String> {
    let misfit = || Err(format!("{path} is no {shape}: {value}"));
    if let Some(members) = inside(shape, '{', '}') {
        let Some(object) = value.as_object() else { return misfit() };
        for member in split(members, ',') {
            let (name, shape) = member.split_once(':').expect("a member has a shape");
            let path = format!("{path}.{name}");
            let Some(value) = object.get(name) else { return Err(format!("{path} is missing")) };
            fits(&path, value, shape)?;
        }
        return Ok(());
    }
    if let Some(shape) = inside(shape, '[', ']') {
        let Some(list) = value.as_array() else { return misfit() };
        return list.iter().enumerate().try_for_each(|(index, value)| fits(&format!("{path}[{index}]"), value, shape));
    }
    if let Some(text) = inside(shape, '"', '"') {
        return if value == text { Ok(()) } else { misfit() };
    }
    if let Ok(number) = shape.parse::<u64>() {
        return if *value == number { Ok(()) } else { misfit() };
    }
    if let Some((_, shape)) = NAMED.iter().find(|(name, _)| *name == shape) {
        return fits(path, value, shape);
    }
    let is_so = match shape {
        "any" => true,
        "null" => value.is_null(),
        "text" => value.is_string(),
        "bool" => value.is_boolean(),
        "int" => value.is_i64() || value.is_u64(),
        "map" => value.is_object(),
        "time" => value.as_str().is_some_and(is_time),
        "hex64" => value
            .as_str()
            .is_some_and(|text| text.len() == 64 && text.bytes().all(|byte| b"0123456789abcdef".contains(&byte))),
        unknown => panic!("no such shape: {unknown}"),
    };
    if is_so { Ok(()) } else { misfit() }
}

/// RFC 3339, UTC, microseconds.
fn is_time(text: &str) -> bool {
    let pattern = "dddd-dd-ddTdd:dd:dd.ddddddZ";
    text.len() == pattern.len()
        && text
            .chars()
            .zip(pattern.chars())
            .all(|(is, want)| if want == 'd' { is.is_ascii_digit() } else { is == want })
}

fn inside(shape: &str, open: char, close: char) -> Option<&str> {
    shape.strip_prefix(open)?.strip_suffix(close)
}

/// The parts of a shape between separators that stand in no bracket.
fn split(shape: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0, 0);
    for (index, letter) in shape.char_indices() {
        match letter {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ if letter == separator && depth == 0 => {
                parts.push(&shape[from..index]);
                from = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&shape[from..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::{NAMED, fits};
    use serde_json::{Value, json};

    fn check(value: Value, shape: &str, expected: Option<&str>) {
        assert_eq!(fits("", &value, shape).err().as_deref(), expected, "{shape}");
    }

    #[test]
    fn shapes_are_understood() {
        check(json!({"a": 1, "b": null, "more": 2}), "{a:int,b:text|null}", None);
        check(json!({"a": "x"}), "{a:int}", Some(".a is no int: \"x\""));
        check(json!({}), "{a:any}", Some(".a is missing"));
        check(json!([{"a": 1}, {"a": true}]), "[{a:int|bool}]", None);
        check(json!([1, "x"]), "[int]", Some("[1] is no int: \"x\""));
        check(json!("b"), "\"a\"|\"b\"", None);
        check(json!("c"), "\"a\"|\"b\"", Some(" is no \"a\": \"c\";  is no \"b\": \"c\""));
        check(json!({"signal": "SIGKILL"}), "EXIT", None);
        check(json!("2026-11-29T18:21:27.115668Z"), "time", None);
        check(json!("2026-11-29T18:21:27Z"), "time", Some(" is no time: \"2026-11-29T18:21:27Z\""));
        check(json!({"b64": "/w=="}), "ARG", None);
        check(json!(2), "1", Some(" is no 1: 2"));
    }

    #[test]
    fn every_named_shape_is_well_formed() {
        for (name, shape) in NAMED {
            // Nothing fits null everywhere, but a misspelt shape would panic.
            assert!(fits("", &Value::Null, shape).is_err(), "{name}");
            let brackets = |open, close| shape.matches(open).count() == shape.matches(close).count();
            assert!(brackets('{', '}') && brackets('[', ']'), "{name}");
        }
    }
}
