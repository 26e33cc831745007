//! Reports, with real brokers: what a session posts is what its parent and the owner read, page by page, and goes with its session.

use serde_json::{Value, json};

use super::input;
use crate::support::scene::text;
use crate::support::{Output, Root, SOON, finish, wait_until};

fn within(root: &Root, session: &Value, arguments: &[&str], bytes: &[u8]) -> Output {
    let mut command = root.command(["--json"]);
    command.args(arguments);
    let credential = root.path().join("sessions").join(text(session)).join("credential");
    finish(command.env("OSTLER_CREDENTIAL", credential).env("OSTLER_SESSION", text(session)), bytes)
}

/// A parent, and its child.
fn family(root: &Root) -> (Value, Value) {
    let parent = root.spawn_fixture(&["--name", "parent"], "sleep")["id"].clone();
    let spawn = ["spawn", "--name", "child", "--", "sleep", "1000"];
    let child = within(root, &parent, &spawn, b"").exits(0).json()["session"]["id"].clone();
    (parent, child)
}

const POST: [&str; 6] = ["report", "post", "--status", "success", "--title", "it is done"];

#[test]
fn what_a_session_reports_is_what_its_parent_reads() {
    let root = Root::new();
    let (parent, child) = family(&root);
    root.json(["send", text(&child), "one more thing"]);
    let body = "first \u{e9}\u{1f600}\n".repeat(9_000);
    let short =
        ["--abstract", "in short", "--finding", "f1", "--finding", "f2", "--artifact", "a", "--validation", "v"];
    let arguments = [&POST[..], &short, &["--recommendation", "r", "--percent", "100", "--key", "k1", "-"]].concat();
    let posted = within(&root, &child, &arguments, format!("{body}\n").as_bytes()).exits(0).json();
    let report = &posted["report"];
    assert_eq!(
        (&report["session_id"], &report["origin"], &report["status"]),
        (&child, &json!("session"), &json!("success"))
    );
    assert_eq!(posted["unconsumed"].as_array().unwrap().len(), 1, "it may not know what it was told last");
    // The same key posts nothing twice and tells the same, also after a kill of the broker.
    root.json(["send", text(&child), "and one after it"]);
    root.kill_broker();
    let again = within(&root, &child, &arguments, format!("{body}\n").as_bytes()).exits(0).json();
    assert_eq!((&again["report"], &again["operation"]["replayed"]), (report, &json!(true)));
    assert_eq!(again["unconsumed"], posted["unconsumed"]);
    for reader in ["owner", "parent"] {
        let read = |offset: &str| {
            let page = ["report", "read", text(&report["id"]), "--offset", offset, "--max-bytes", "9999"];
            if reader == "owner" { root.json(page) } else { within(&root, &parent, &page, b"").exits(0).json() }
        };
        let (mut whole, mut next) = (String::new(), json!(0));
        while !next.is_null() {
            let page = read(&next.to_string());
            assert_eq!(page["report"]["abstract"], "in short");
            assert_eq!(page["findings"], json!(["f1", "f2"]));
            whole.push_str(text(&page["body"]));
            next = page["next"].clone();
        }
        assert!(whole == body, "{reader} reads {} of {} bytes", whole.len(), body.len());
    }
    // A person sees all of it at once, and no control character.
    let shown = root.ostler(["report", "read", "child"]).exits(0).text();
    assert!(shown.contains("it is done") && shown.ends_with(&format!("\n\n{body}\n")), "{}", &shown[..400]);
    let listed = root.json(["report", "list", "child"]);
    assert_eq!((&listed["reports"], &listed["next"]), (&json!([report]), &Value::Null));
}

#[test]
fn what_cannot_be_a_report_is_refused_and_nothing_is_kept() {
    let root = Root::new();
    let (parent, child) = family(&root);
    let long = "x".repeat(201);
    let head = "f".repeat(40_000);
    for (more, code, reason) in [
        (&["--title", "", "b"][..], 2, json!("title")),
        (&["--title", "a\nb", "b"][..], 2, json!("title")),
        (&["--title", &long, "b"][..], 2, json!("title")),
        (&["--title", "t", "--abstract", &"a".repeat(501), "b"][..], 2, json!("abstract")),
        (&["--title", "t", "--percent", "101", "b"][..], 2, json!("percent")),
        (&["--title", "t", "--finding", &head, "b"][..], 2, Value::Null),
        (&["--title", "t", "--supersedes", "rep-1", "b"][..], 3, Value::Null),
        (&["--title", "t", "--supersedes", "nonsense", "b"][..], 3, Value::Null),
    ] {
        let refused = within(&root, &child, &[&POST[..4], more].concat(), b"").exits(code);
        assert_eq!(refused.json()["error"]["data"]["reason"], reason, "{refused:?}");
    }
    let big = vec![b'x'; 1024 * 1024 + 1];
    let arguments = [&POST[..], &["-"]].concat();
    assert_eq!(within(&root, &child, &arguments, &big).exits(2).error_code(), "too_large");
    assert_eq!(within(&root, &child, &arguments, &big[1..]).exits(0).json()["report"]["bytes"], 1024 * 1024);
    assert_eq!(within(&root, &child, &arguments, b"\xff").exits(2).error_code(), "invalid_input");
    let owner = input(&root, &[&["--json"], &POST[..], &["b"]].concat(), b"").exits(7);
    assert_eq!(owner.json()["error"]["data"]["reason"], "session_only");
    assert_eq!(root.json(["report", "list", "child"])["reports"].as_array().unwrap().len(), 1);
    // Others are as unknown as nobody.
    let stranger = root.spawn_fixture(&[], "sleep")["id"].clone();
    let id = text(&root.json(["report", "read", "child"])["report"]["id"]).to_owned();
    for (asked, nobody) in [(id.as_str(), "rep-999"), (text(&child), "nobody")] {
        let said = |of: &str| {
            let refused = within(&root, &stranger, &["report", "read", of], b"").exits(3).json().to_string();
            refused.replace(of, "X")
        };
        assert_eq!(said(asked), said(nobody));
    }
    within(&root, &parent, &["report", "list", "child"], b"").exits(0);
}

#[test]
fn an_amendment_takes_the_place_of_the_last_of_its_line() {
    let root = Root::new();
    let (_, child) = family(&root);
    let post = |more: &[&str]| within(&root, &child, &[&POST[..], more].concat(), b"");
    let first = post(&["one"]).exits(0).json()["report"]["id"].clone();
    let second = post(&["--supersedes", text(&first), "two"]).exits(0).json()["report"]["id"].clone();
    let late = post(&["--supersedes", text(&first), "three"]).exits(4).json()["error"].clone();
    assert_eq!(
        (&late["code"], &late["data"]["reason"], &late["data"]["head"]),
        (&json!("too_late"), &json!("report_superseded"), &second)
    );
    let read = root.json(["report", "read", text(&first)]);
    assert_eq!((&read["report"]["superseded_by"], &read["body"]), (&second, &json!("one")));
    assert_eq!(root.json(["report", "read", text(&child)])["report"]["supersedes"], first);
    // Where a list of one session goes on is not where another's does.
    let page = root.json(["report", "list", "child", "--limit", "1"]);
    let elsewhere = root.ostler(["--json", "report", "list", "parent", "--cursor", text(&page["next"])]).exits(2);
    assert_eq!(elsewhere.error_code(), "invalid_input");
    let rest = root.json(["report", "list", "child", "--cursor", text(&page["next"])]);
    assert_eq!(rest["reports"][0]["id"], first);
}

#[test]
fn a_report_that_was_damaged_is_told_as_lost() {
    let root = Root::new();
    let (parent, child) = family(&root);
    let post = |body: &str| within(&root, &child, &[&POST[..], &[body]].concat(), b"").exits(0).json();
    post("the text");
    let path = root.path().join("sessions").join(text(&child)).join("bodies-1");
    let damaged = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).contains("the text");
    assert!(damaged, "it lies there in the clear, for its owner alone");
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let read = root.json(["report", "read", text(&child)]);
    assert_eq!((&read["report"]["title"], &read["body"]), (&json!("it is done"), &json!("")));
    assert!(text(&read["report"]["lost"]).contains("damaged"), "{read}");
    let behind = root.json(["report", "read", text(&child), "--offset", "3"]);
    assert_eq!(behind["report"]["lost"], read["report"]["lost"], "where a reader goes on");
    let told = within(&root, &parent, &["inbox", "read"], b"").exits(0).json();
    let envelope = &told["messages"][0]["notice"]["report"];
    assert_eq!((&envelope["complete"], &envelope["lost"]), (&json!(false), &read["report"]["lost"]));
}

#[test]
fn reports_go_with_their_session_and_the_ledger_holds_none_of_them() {
    let root = Root::new();
    let (_, child) = family(&root);
    within(&root, &child, &[&POST[..], &["a secret word"]].concat(), b"").exits(0);
    root.json(["delete", "--stop", "child"]);
    root.ostler(["report", "list", text(&child)]).exits(3);
    wait_until(SOON, "its files to go", || !root.path().join("sessions").join(text(&child)).exists());
    assert_eq!(root.json(["ledger", "verify"])["ok"], true);
    let ledger = std::fs::read_dir(root.path().join("ledger")).unwrap();
    for file in ledger.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
        assert!(!text.contains("it is done") && !text.contains("secret word"), "{}", file.display());
    }
}

#[test]
fn a_child_that_says_nothing_gets_a_report_of_the_broker_s() {
    let root = Root::new();
    let (parent, _) = family(&root);
    let child = within(&root, &parent, &["spawn", "--", "false"], b"").exits(0).json()["session"]["id"].clone();
    root.ostler(["wait", text(&child)]).exits(0);
    let read = within(&root, &parent, &["report", "read", text(&child)], b"").exits(0).json();
    assert_eq!((&read["report"]["origin"], &read["report"]["status"]), (&json!("broker"), &json!("failure")));
    assert!(text(&read["body"]).contains("exit code 1"), "{read}");
}
