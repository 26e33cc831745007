//! The one pass against the plain reading: the same bytes are a record for both, the same one, or for neither.

use super::*;
use crate::record::Record;
use crate::strict;
use serde_json::Value;

const DIGEST: Digest = Digest([7; 32]);

/// Every member, every kind of value, every escape, and letters from one to four bytes long.
fn full() -> String {
    let hex = "0123456789abcdef".repeat(4);
    format!(
        "{{\"act\":{{\"pid\":1,\"uid\":0}},\"at\":\"x\",\"bg\":9007199254740991,\"body\":{{\"\":[],\"\\u0000\\n\":[-1,0,[[{{}}]]],\
         \"a\":\"\\\"\\\\\\b\\t\\n\\f\\r\\u001f\u{7f}/\",\"b\":[true,false,null],\"\u{e9}\":\"\u{20ac}\",\"\u{1f600}\":0,\"\u{fb33}\":1}},\
         \"dur\":6,\"end\":true,\"ep\":4294967295,\"err\":\"e\",\"fin\":true,\"key\":\"k\\\"\",\"kind\":\"spawn\",\"mono\":0,\"op\":\"12\",\
         \"prev\":\"{hex}\",\"req\":\"\u{e9}\",\"res\":null,\"seq\":7,\"sid\":\"s\\\\\u{e9}\",\"sn\":2,\"sp\":\"{hex}\",\
         \"st\":\"\",\"t\":\"accept_it\",\"v\":1}}"
    )
}

fn is_record(r: &[u8]) -> bool {
    let fast = slice(DIGEST, r).map(|sliced| Record::of(&sliced));
    assert_eq!(fast, strict::parse(DIGEST, r), "{}", r.escape_ascii());
    fast.is_some()
}

#[test]
fn every_member_is_cut_as_the_plain_reading_has_it() {
    let full = full();
    assert!(is_record(full.as_bytes()));
    let sliced = slice(DIGEST, full.as_bytes()).unwrap();
    let value: Value = serde_json::from_str(&full).unwrap();
    assert_eq!((sliced.session().unwrap(), sliced.t), ((Cow::from("s\\\u{e9}"), 2), "accept_it"));
    assert_eq!(serde_json::from_slice::<Value>(sliced.body.unwrap()).unwrap(), value["body"]);
    assert_eq!((sliced.res, sliced.act), (Some(&b"null"[..]), Some(&b"{\"pid\":1,\"uid\":0}"[..])));
}

/// Each byte of the full record changed, taken away, doubled, and with every token before it.
#[test]
fn no_change_of_a_record_is_read_in_two_ways() {
    let full = full().into_bytes();
    let bytes = *b"\0\x1f\n \"\\/{}[]:,-+.0129abefnrtuvz_AF\x7f\x80\xbf\xc3\xe9\xed\xf0\xff";
    let tokens: [&[u8]; 12] = [
        b"null",
        b"true,",
        b"-0",
        b"00",
        b"1e1",
        b"\\u0041",
        b"\\u000a",
        b"\\/",
        b"\"zz\":1,",
        b"9007199254740992",
        b"\xed\xa0\x80",
        b"[[[[[[[[[[[[[[",
    ];
    let (mut kept, mut tried) = (0, 0);
    let mut read = |r: &[u8]| {
        kept += usize::from(is_record(r));
        tried += 1;
    };
    for at in 0..full.len() {
        let (before, behind) = full.split_at(at);
        for byte in bytes {
            read(&[before, &[byte], &behind[1..]].concat());
        }
        for token in tokens.into_iter().chain([&behind[..1], &b""[..]]) {
            read(&[before, token, behind].concat());
        }
        read(&[before, &behind[1..]].concat());
        read(before);
    }
    assert!(kept > 1_000 && kept < tried / 2, "{kept} of {tried}");
}

/// Members that are swapped, missing or there twice.
#[test]
fn members_stand_in_one_order_only() {
    let full = full();
    let value: Value = serde_json::from_str(&full).unwrap();
    let names: Vec<&String> = value.as_object().unwrap().keys().collect();
    let text = |name: &str| {
        let from = full.find(&format!("\"{name}\":")).unwrap();
        let next = names.iter().skip_while(|other| **other != name).nth(1);
        let to = next.map_or(full.len() - 1, |next| full.find(&format!(",\"{next}\":")).unwrap());
        full[from..to].to_owned()
    };
    let members: Vec<String> = names.iter().map(|name| text(name)).collect();
    let is_object = |members: &[String]| is_record(format!("{{{}}}", members.join(",")).as_bytes());
    assert!(is_object(&members));
    for first in 0..members.len() {
        for second in 0..members.len() {
            let mut changed = members.clone();
            changed.swap(first, second);
            assert_eq!(is_object(&changed), first == second);
            let mut changed = members.clone();
            changed.insert(second, members[first].clone());
            assert!(!is_object(&changed));
            let mut changed = members.clone();
            changed.remove(first);
            changed.retain(|member| first == second || *member != members[second]);
            is_object(&changed);
        }
    }
}

#[test]
fn long_strings_are_searched_to_their_end() {
    for len in 0..40 {
        for special in ["", "\\n", "\n", "\u{1f}", "\u{e9}", "\\x"] {
            for behind in 0..12 {
                let text = "y".repeat(len) + special + &"z".repeat(behind);
                is_record(full().replace("\"at\":\"x\"", &format!("\"at\":\"{text}\"")).as_bytes());
            }
        }
    }
}

/// The length that counts is that of what the text stands for.
#[test]
fn a_session_id_is_measured_without_its_escapes() {
    let mut sound = 0;
    for len in 0..70 {
        for escape in ["", "\\n", "\\u0000", "\u{e9}", "\\\\\u{e9}"] {
            let sid = "s".repeat(len) + escape;
            let full = full().replace("\"sid\":\"s\\\\\u{e9}\"", &format!("\"sid\":\"{sid}\""));
            sound += usize::from(is_record(full.as_bytes()));
            // Without another escape anywhere.
            let short = format!(
                "{{\"at\":\"x\",\"bg\":1,\"dur\":0,\"mono\":1,\"seq\":1,\"sid\":\"{sid}\",\"sn\":1,\"t\":\"mark\",\"v\":1}}"
            );
            sound += usize::from(is_record(short.as_bytes()));
        }
    }
    // Lengths 1 to 64, less what the escape stands for: none, one byte, one, two, three.
    assert_eq!(sound, 2 * (64 + 64 + 64 + 63 + 62));
}
