//! The ledger, looked at without a broker and while one writes.

use super::refused::refused;
use super::shape::assert_shape;
use super::text;
use crate::support::{Root, Running, finish};
use serde_json::{Value, json};
use std::fs;

#[test]
fn the_history_of_a_session_is_shown_with_and_without_a_broker() {
    let root = Root::new();
    assert_eq!(root.ostler(["--json", "ledger", "head"]).exits(3).error_code(), "not_found");
    let id = root.json(["spawn", "--", "true"])["session"]["id"].as_str().unwrap().to_owned();
    root.json(["wait", &id]);
    let check = || {
        let head = root.json(["ledger", "head"]);
        let verified = root.json(["ledger", "verify"]);
        assert_eq!((&verified["ok"], &verified["head"]["seq"]), (&true.into(), &head["seq"]));
        assert_eq!(verified["head"]["digest"], head["digest"]);
        let history = root.json(["ledger", "history", &id[..7]]);
        let records = history["records"].as_array().unwrap();
        assert_eq!(history["session_id"], *id);
        assert!(records.len() >= 3 && records.iter().all(|record| record["sid"] == *id), "{history}");
        let seq = records[0]["seq"].to_string();
        let shown = root.json(["ledger", "show", &seq]);
        assert_eq!(shown["record"], records[0]);
        assert_eq!(shown["record"]["digest"].as_str().unwrap().len(), 64);
        let tail = root.ostler(["--json", "ledger", "tail", "-n", "2"]).exits(0).json_lines();
        assert_eq!((tail.len(), &tail[1]["record"]["seq"]), (2, &head["seq"]));
        format!("{}:{}", head["seq"], head["digest"].as_str().unwrap())
    };
    check();
    root.ostler(["shutdown"]).exits(0);
    let head = check();
    assert_eq!(root.broker(), None, "looking starts nothing");
    assert_eq!(root.json(["ledger", "verify", "--since", &head])["ok"], true);
    root.json(["ensure"]);
    assert_eq!(root.json(["ledger", "verify", "--since", &head])["ok"], true, "the history goes on");
    assert_eq!(root.ostler(["--json", "ledger", "show", "999999"]).exits(3).error_code(), "not_found");
    assert_eq!(root.ostler(["--json", "ledger", "history", "zzz"]).exits(3).error_code(), "not_found");
    root.ostler(["ledger", "verify", "--since", "nonsense"]).exits(2);
}

#[test]
fn damage_is_found_and_exits_8() {
    let mut root = Root::new();
    root.json(["spawn", "--", "true"]);
    root.ostler(["shutdown"]).exits(0);
    let head = root.json(["ledger", "head"]);
    root.damages_the_ledger();
    let folder = root.path().join("ledger");
    let segment = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment.filter(|path| path.extension().is_some_and(|ext| ext == "jsonl")).min().unwrap();
    let sound = fs::read_to_string(&segment).unwrap();
    fs::write(&segment, sound.replacen("session.spawn", "session.spown", 1)).unwrap();
    let verified = root.ostler(["--json", "ledger", "verify"]).exits(8).json();
    assert_eq!(verified["ok"], false);
    assert_eq!(verified["problems"][0]["class"], "damage", "{verified}");
    assert!(root.ostler(["ledger", "verify"]).exits(8).text().contains("not ok"));
    let doctor = root.ostler(["--json", "doctor"]).exits(1).json();
    let check = doctor["checks"].as_array().unwrap().iter().find(|check| check["check"] == "ledger").unwrap();
    assert_eq!((&check["status"], &check["remedy"]), (&"fail".into(), &"ostler ledger verify".into()));
    // Rolled back to its first record, it verifies by itself but not against a head that was kept.
    let first = sound.lines().next().unwrap();
    fs::write(&segment, format!("{first}\n")).unwrap();
    let kept = format!("{}:{}", head["seq"], head["digest"].as_str().unwrap());
    let rolled_back = root.ostler(["--json", "ledger", "verify", "--since", &kept]).exits(8).json();
    assert_eq!(rolled_back["problems"].as_array().unwrap().last().unwrap()["class"], "loss", "{rolled_back}");
    fs::write(&segment, sound).unwrap();
    root.verify_ledger();
}

/// The numbers of the newest so many records that `tail` prints for these flags.
#[track_caller]
fn newest(root: &Root, lines: &str, flags: &[&str]) -> Vec<u64> {
    let mut arguments = vec!["--json", "ledger", "tail", "-n", lines];
    arguments.extend(flags);
    let lines = root.ostler(&arguments).exits(0).json_lines();
    lines.iter().map(|line| line["record"]["seq"].as_u64().unwrap()).collect()
}

#[test]
fn filters_say_which_records_are_meant() {
    let root = Root::new();
    root.json(["spawn", "--name", "web", "--key", "first", "--", "sleep", "1000"]);
    root.json(["stop", "web"]);
    root.json(["delete", "web"]);
    // The name is given again; the newest is meant, the older one can still be named by its id.
    let newer = root.json(["spawn", "--name", "web", "--key", "second", "--", "true"]);
    root.json(["wait", "web"]);
    root.ostler(["spawn", "--key", "first", "--", "false"]).exits(4);
    root.json(["prune", "--older", "0s"]);
    root.ostler(["shutdown"]).exits(0);
    let all = root.ostler(["--json", "ledger", "tail", "-n", "1000"]).exits(0).json_lines();
    let all: Vec<Value> = all.into_iter().map(|line| line["record"].clone()).collect();
    let these = |is_meant: &dyn Fn(&Value) -> bool| -> Vec<u64> {
        all.iter().filter(|record| is_meant(record)).map(|record| record["seq"].as_u64().unwrap()).collect()
    };
    let expected = |flags: &[&str], is_meant: &dyn Fn(&Value) -> bool| {
        let expected = these(is_meant);
        assert!(!expected.is_empty() && expected.len() < all.len(), "{flags:?} tells nothing: {expected:?}");
        assert_eq!(newest(&root, "1000", flags), expected, "{flags:?}");
    };
    let first = all.iter().find(|record| record["key"] == "first").unwrap();
    let (old_id, op) = (text(&first["sid"]), text(&first["op"]));
    let new_id = text(&newer["session"]["id"]);
    assert_ne!(old_id, new_id);
    expected(&["--session", "web"], &|record| record["sid"] == *new_id);
    expected(&["--session", old_id], &|record| record["sid"] == *old_id);
    expected(&["--session", &old_id[..5]], &|record| record["sid"] == *old_id);
    let speaks = |record: &Value| record["op"] == *op || record["body"]["operation"] == *op;
    expected(&["--operation", op], &speaks);
    expected(&["--key", "first"], &speaks);
    assert!(all.iter().any(|record| record["t"] == "conflict" && speaks(record)), "the refused request is among them");
    expected(&["--type", "accept", "--type", "finish"], &|record| record["t"] == "accept" || record["t"] == "finish");
    let (from, to) = (first["seq"].as_u64().unwrap(), first["seq"].as_u64().unwrap() + 2);
    let seq = |record: &Value| record["seq"].as_u64().unwrap();
    expected(&["--from", &from.to_string()], &|record| seq(record) >= from);
    expected(&["--from", &from.to_string(), "--to", &to.to_string()], &|record| (from..=to).contains(&seq(record)));
    let at = text(&newer["session"]["created_at"]);
    expected(&["--since", at], &|record| text(&record["at"]) >= at);
    expected(&["--until", at], &|record| text(&record["at"]) < at);
    assert_eq!(newest(&root, "1000", &["--since", "1h"]).len(), all.len());
    assert_eq!(newest(&root, "1000", &["--until", "1h"]), [0; 0]);
    expected(&["--session", "web", "--type", "finish"], &|record| record["sid"] == *new_id && record["t"] == "finish");
    // The newest of those that are meant, not those that are meant of the newest.
    let accepts = these(&|record| record["t"] == "accept");
    assert_eq!(newest(&root, "2", &["--type", "accept"]), accepts[accepts.len() - 2..]);
    assert_eq!(newest(&root, "0", &[]), [0; 0]);
    let history = root.json(["ledger", "history", old_id, "--type", "finish"]);
    assert_shape(&history, "{schema:1,session_id:text,records:[RECORD],missing:int}");
    let told = history["records"].as_array().unwrap();
    assert_eq!((told.len(), &told[0]["op"], &history["missing"]), (3, &json!(op), &json!(0)));
    for (wrong, exit, code) in [
        (&["--session", "nobody"][..], 3, "not_found"),
        (&["--session", &old_id[..2]], 3, "not_found"),
        (&["--operation", "op-99999"], 3, "not_found"),
        (&["--operation", "9"], 2, "invalid_input"),
        (&["--key", "third"], 3, "not_found"),
        (&["--since", "yesterday"], 2, "invalid_input"),
        (&["--from", "3", "--to", "2"], 2, "invalid_input"),
        (&["--since", "2026-01-02", "--until", "2026-01-02"], 2, "invalid_input"),
    ] {
        refused(&root, &[&["ledger", "tail"], wrong].concat(), exit, code);
    }
}

#[test]
fn a_copy_is_looked_at_like_the_ledger_itself() {
    let root = Root::new();
    root.json(["spawn", "--name", "web", "--", "true"]);
    root.json(["wait", "web"]);
    let copy = root.folder().join("copy");
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(root.path().join("ledger")).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    let at_copy = copy.to_str().unwrap();
    let looks: [&[&str]; 4] =
        [&["ledger", "head"], &["ledger", "show", "2"], &["ledger", "history", "web"], &["ledger", "tail", "-n", "3"]];
    for look in looks {
        let own = root.ostler([&["--json"], look].concat()).exits(0).json_lines();
        let of_copy = root.ostler([&["--root", "/nowhere", "--json"], look, &["--ledger", at_copy]].concat()).exits(0);
        assert_eq!(of_copy.json_lines(), own, "{look:?}");
    }
    assert_eq!(root.json(["ledger", "verify", "--ledger", at_copy])["head"], root.json(["ledger", "verify"])["head"]);
    // What is looked at is the copy and nothing else.
    root.json(["delete", "web"]);
    assert_ne!(root.json(["ledger", "head", "--ledger", at_copy]), root.json(["ledger", "head"]));
    refused(&root, &["ledger", "verify", "--ledger", "nowhere"], 3, "not_found");
}

#[test]
fn lines_for_eyes_say_what_happened() {
    let root = Root::new();
    root.json(["spawn", "--name", "web", "--", "sh", "-c", "exit 7"]);
    root.json(["wait", "web"]);
    let tail = root.ostler(["ledger", "tail", "-n", "1000"]).exits(0).text();
    for told in
        ["segment 1 begins", "broker 1: pid ", "spawn asked for  episode 1  name web  op-", "ended: failed  code 7"]
    {
        assert!(tail.contains(told), "{told}: {tail}");
    }
    let line = tail.lines().find(|line| line.contains("spawn asked for")).unwrap();
    let seq = line.split_whitespace().next().unwrap();
    let shown = root.ostler(["ledger", "show", seq]).exits(0).text();
    assert!(
        shown.starts_with(&format!("record {seq}: spawn asked for")) && shown.contains("\nkind   session.spawn\n"),
        "{shown}"
    );
    // Whoever stops reading ends it quietly.
    let mut piped = std::process::Command::new("sh");
    let product = root.command(["ledger", "tail", "-n", "1000", "-f"]);
    piped.args(["-c", "\"$@\" | head -n 1", "sh"]).arg(product.get_program()).args(product.get_args()).env_clear();
    piped.envs(product.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let writer = Running::start(&mut piped);
    writer.says("segment 1 begins");
    for _ in 0..2 {
        root.json(["prune", "--older", "0s"]);
    }
    assert_eq!(writer.end().exits(0).error_text(), "");
}

/// The stored lines of the ledger, in order.
fn stored(root: &Root) -> Vec<String> {
    let folder = root.path().join("ledger");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ext| ext == "jsonl"));
    files.sort();
    let content: String = files.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    content.lines().filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect()
}

#[test]
fn what_is_exported_is_what_is_stored() {
    let root = Root::new();
    let id = root.json(["spawn", "--name", "web", "--", "true"])["session"]["id"].as_str().unwrap().to_owned();
    root.json(["wait", "web"]);
    root.json(["delete", "web"]);
    root.ostler(["shutdown"]).exits(0);
    let all = stored(&root);
    assert_eq!(root.ostler(["ledger", "export"]).exits(0).text(), all.concat());
    let of_session: String = all.iter().filter(|line| line.contains(&format!("\"sid\":\"{id}\""))).cloned().collect();
    assert!(of_session.lines().count() >= 5);
    assert_eq!(root.ostler(["ledger", "export", "--session", &id]).exits(0).text(), of_session);
    let documents = root.ostler(["--json", "ledger", "export", "--session", "web"]).exits(0).json_lines();
    documents.iter().for_each(|document| assert_shape(document, "{schema:1,record:RECORD}"));
    assert_eq!(documents.len(), of_session.lines().count());
    let file = root.folder().join("web.jsonl");
    let path = file.to_str().unwrap();
    fs::write(&file, "what stood there").unwrap();
    // What cannot be written leaves what stood there.
    refused(&root, &["ledger", "export", "--session", "nobody", "--output", path], 3, "not_found");
    refused(&root, &["ledger", "export", "--output", "/no/such/folder/x"], 2, "invalid_input");
    refused(&root, &["ledger", "export", "--output", root.folder().join("home").to_str().unwrap()], 2, "invalid_input");
    assert_eq!(fs::read_to_string(&file).unwrap(), "what stood there");
    for exported in [
        &["ledger", "export", "--session", "web", "--output", path][..],
        &["ledger", "history", "web", "--export", path],
    ] {
        let written = root.json(exported);
        assert_shape(&written, "{schema:1,output:ARG,records:int,bytes:int,first:HEAD|null,last:HEAD|null}");
        assert_eq!(fs::read_to_string(&file).unwrap(), of_session);
        assert_eq!((&written["bytes"], &written["records"]), (&json!(of_session.len()), &json!(documents.len())));
        assert_eq!(written["last"]["digest"], documents.last().unwrap()["record"]["digest"]);
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        fs::remove_file(&file).unwrap();
    }
    assert!(root.ostler(["ledger", "export", "-o", path]).exits(0).text().contains(" records, "));
    assert_eq!(fs::read_to_string(&file).unwrap(), all.concat());
    let left: Vec<_> = fs::read_dir(root.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_str().unwrap().contains("tmp-")), "{left:?}");
    refused(&root, &["ledger", "history", "web", "--export", path, "--type", "finish"], 2, "invalid_input");
}

#[test]
fn stats_count_what_is_there() {
    let root = Root::new();
    root.json(["spawn", "--name", "web", "--", "true"]);
    root.json(["wait", "web"]);
    root.json(["resume", "web"]);
    root.json(["wait", "web"]);
    root.json(["spawn", "--name", "other", "--", "true"]);
    root.json(["wait", "other"]);
    root.json(["delete", "other"]);
    root.ostler(["spawn", "--", "no-such-command"]).exits(1);
    root.ostler(["shutdown"]).exits(0);
    let lines = stored(&root);
    let records: Vec<Value> =
        lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap()["r"].clone()).collect();
    let number = |is_meant: &dyn Fn(&Value) -> bool| records.iter().filter(|record| is_meant(record)).count();
    let stats = root.json(["ledger", "stats", "--top", "1"]);
    assert_shape(
        &stats,
        "{schema:1,records:int,bytes:int,turns:int,segments:int,sealed:int,segment_bytes:int,first:{seq:int,at:time}|null,\
         last:{seq:int,at:time}|null,span_ms:int,generations:int,boots:int,types:map,operations:map,sessions:int,\
         top_sessions:[{session_id:text,records:int,bytes:int}]}",
    );
    let bytes: usize = lines.iter().map(String::len).sum();
    for (member, expected) in [
        ("records", records.len()),
        ("bytes", bytes),
        ("turns", number(&|record| record["end"] == true)),
        ("generations", 1),
        ("boots", 1),
        ("segments", 1),
        ("sessions", 3),
    ] {
        assert_eq!(stats[member], expected, "{member}: {stats}");
    }
    assert_eq!(stats["types"]["accept"]["records"], number(&|record| record["t"] == "accept"));
    let spawns = &stats["operations"]["session.spawn"];
    assert_eq!(*spawns, json!({"accepted": 3, "succeeded": 2, "aborted": 1}));
    let web = records.iter().find(|record| record["body"]["spawn"]["name"] == "web").unwrap()["sid"].clone();
    let busiest = &stats["top_sessions"][0];
    assert_eq!((&busiest["session_id"], &busiest["records"]), (&web, &json!(number(&|record| record["sid"] == web))));
    assert_eq!(stats["top_sessions"].as_array().unwrap().len(), 1);
    // Sessions whose chains have ended are counted as well.
    let three = root.json(["ledger", "stats", "--top", "3"])["top_sessions"].clone();
    for busy in three.as_array().unwrap() {
        assert_eq!(busy["records"], number(&|record| record["sid"] == busy["session_id"]), "{busy}");
    }
    assert_eq!(three.as_array().unwrap().len(), 3);
    let of_web = root.json(["ledger", "stats", "--session", "web"]);
    assert_eq!((&of_web["records"], &of_web["sessions"]), (&busiest["records"], &json!(1)));
    let shown = root.ostler(["ledger", "stats", "--top", "1"]).exits(0).text();
    assert!(shown.contains("session.spawn") && shown.contains("and 2 sessions with fewer"), "{shown}");
}

#[test]
fn a_session_s_history_is_verified_without_the_ledger() {
    let mut root = Root::new();
    root.json(["spawn", "--name", "web", "--", "true"]);
    root.json(["wait", "web"]);
    root.json(["spawn", "--name", "other", "--", "true"]);
    let exported = |name: &str| {
        let path = root.folder().join(format!("{name}.jsonl"));
        root.json(["ledger", "history", name, "--export", path.to_str().unwrap()]);
        path.to_str().unwrap().to_owned()
    };
    let (web, other) = (exported("web"), exported("other"));
    let deleted = root.json(["delete", "web"])["operation"].clone();
    let whole = exported("web");
    assert_eq!(whole, web, "it is replaced");
    root.ostler(["shutdown"]).exits(0);
    fs::rename(root.path(), root.folder().join("gone")).unwrap();
    let verify = |path: &str| root.json(["ledger", "verify", "--history", path]);
    let verified = verify(&whole);
    assert_shape(
        &verified,
        "{schema:1,ok:bool,records:int,session_id:text|null,first:HEAD|null,last:HEAD|null,own:{first:int,last:int}|null,ended:bool,\
         problems:[PROBLEM],elapsed_ms:int}",
    );
    let lines = fs::read_to_string(&whole).unwrap();
    assert_eq!(
        (&verified["ok"], &verified["records"], &verified["ended"]),
        (&json!(true), &json!(lines.lines().count()), &json!(true))
    );
    assert_eq!(verified["session_id"], deleted["session_id"]);
    assert_eq!((&verify(&other)["ended"], &verify(&other)["ok"]), (&json!(false), &json!(true)), "it may go on");
    // The receipt of an operation is one of its records.
    let receipt = format!("{}:{}", deleted["seq"], text(&deleted["digest"]));
    root.json(["ledger", "verify", "--history", &whole, "--since", &receipt]);
    let strange = root.ostler(["--json", "ledger", "verify", "--history", &other, "--since", &receipt]).exits(8).json();
    assert_eq!(strange["problems"][0]["class"], "loss");
    // From a pipe as well; a line that is missing, or changed, is found.
    let piped = finish(&mut root.command(["ledger", "verify", "--history", "-"]), lines.as_bytes()).exits(0).text();
    assert!(piped.starts_with("ok  ") && piped.contains("the last one is its end"), "{piped}");
    let second = lines.lines().nth(1).unwrap();
    for wrong in [lines.replacen(&format!("{second}\n"), "", 1), lines.replacen("session.spawn", "session.spown", 1)] {
        let found = finish(&mut root.command(["ledger", "verify", "--history", "-"]), wrong.as_bytes()).exits(8).text();
        assert!(found.contains("not ok") && found.contains("record "), "{found}");
    }
    refused(&root, &["ledger", "verify", "--history", "/no/such/file"], 3, "not_found");
    refused(&root, &["ledger", "verify", "--history", &whole, "--ledger", "."], 2, "invalid_input");
    root.damages_the_ledger();
    fs::rename(root.folder().join("gone"), root.path()).unwrap();
}

#[test]
fn progress_is_told_to_whoever_asks_for_it() {
    let root = Root::new();
    root.json(["spawn", "--", "true"]);
    root.ostler(["shutdown"]).exits(0);
    let quiet = root.ostler(["--json", "ledger", "verify"]).exits(0);
    assert_eq!(quiet.error_text(), "", "no terminal, no progress");
    let told = root.ostler(["--json", "ledger", "verify", "--progress"]).exits(0);
    assert!(told.error_text().ends_with("(100%)\n"), "{told:?}");
    assert_eq!(told.json()["head"], quiet.json()["head"]);
}
