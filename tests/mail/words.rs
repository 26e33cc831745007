//! What people read of messages: in the ledger, in the tables, and where something was refused.

use serde_json::json;

use super::{input, message, output, send, send_input};
use crate::support::scene::text;
use crate::support::{FIXTURE, OSTLER, Process, Root, SOON, wait_until};

/// More than a pipe takes.
const LARGE: usize = 200 * 1024;

/// As a shell's $(...) does.
#[test]
fn one_line_feed_at_the_end_of_standard_input_is_no_part_of_the_text() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s", "--adapter", "lines"], "copy");
    assert_eq!(
        send_input(&root, &session["id"], b"x\n", &["--wait-for", "delivered"])["message"]["state"],
        "delivered"
    );
    wait_until(SOON, "the output", || output(&root, &session["id"]) == "x\n");
    let refused = input(&root, &["send", "s", "-"], b"x\n\n").exits(2).error_text();
    assert!(refused.contains("next: one line of text"), "{refused}");
    root.ostler(["send", "s", "x\n"]).exits(2);
}

#[test]
fn the_ledger_tells_a_message_s_story_in_plain_words() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s", "--adapter", "lines"], "copy");
    let sent = send(&root, &session["id"], "hello", &["--wait-for", "delivered", "--key", "k"]);
    let (id, of) = (text(&sent["message"]["id"]), text(&session["id"]));
    wait_until(SOON, "it to be delivered", || message(&root, &sent["message"]["id"])["state"] == "delivered");
    let letter = format!("{id} from owner to {of}, 5 bytes, mode queue");
    for told in [root.ostler(["ledger", "history", "s"]), root.ostler(["ledger", "tail", "-n", "20"])] {
        let told = told.exits(0).text();
        assert!(told.contains(&letter) && told.contains(&format!("{id} is on its way")), "{told}");
        assert!(told.contains(&format!("{id} was delivered")), "{told}");
    }
    for name in [id, "k"] {
        let told = root.ostler(["ledger", "explain", name]).exits(0).text();
        for part in [
            format!(": send to s (session {of}), succeeded"),
            letter.clone(),
            format!("message    {id} was delivered\n"),
            format!("{id} is on its way"),
        ] {
            assert!(told.contains(&part), "{part}: {told}");
        }
    }
    let missing = root.ostler(["ledger", "explain", "msg-1"]).exits(3);
    assert!(missing.error_text().contains("msg-1"), "{missing:?}");
}

/// Uncertain ones show wherever somebody looks, with what to type, until somebody decides.
#[test]
fn an_uncertain_message_shows_everywhere_and_says_what_to_type() {
    let root = Root::new();
    let session = root.spawn_fixture(&["--name", "s", "--adapter", "lines"], "sleep");
    let journal = root.path().join("sessions").join(text(&session["id"])).join("1/journal");
    let written = || std::fs::metadata(&journal).map_or(0, |of| of.len());
    let before = written();
    let sent = send_input(&root, &session["id"], &[b'x'; LARGE], &[]);
    let id = text(&sent["message"]["id"]);
    // Killed before its beginning is written down it is proven not to have been taken.
    wait_until(SOON, "it to be begun", || written() > before);
    Process::of_value(&session["host_pid"]).kill_9();
    wait_until(SOON, "it to be settled", || message(&root, &sent["message"]["id"])["state"] == "uncertain");
    assert_eq!(root.session(&session["id"])["queue"], json!({"messages": 0, "bytes": 0, "uncertain": 1}));
    let doctor = |root: &Root| root.json(["doctor"])["checks"].to_string();
    let told = |root: &Root| {
        let shown = [&["list"][..], &["show", "s"]].map(|verb| root.ostler(verb).exits(0).text());
        shown.iter().all(|text| text.contains("1 uncertain")) && doctor(root).contains("ostler message resolve")
    };
    assert!(told(&root), "{}", doctor(&root));
    let explained = root.ostler(["ledger", "explain", id]).exits(0).text();
    assert!(explained.contains(&format!("next: ostler message resolve {id} retry|give-up")), "{explained}");
    let refused = root.ostler(["message", "resolve", id, "retry"]).exits(4).error_text();
    assert!(refused.contains(&format!("next: ostler resume {}, then", text(&session["id"]))), "{refused}");
    let refused = root.ostler(["send", "s", "x"]).exits(4).error_text();
    assert!(refused.contains("next: the same command with --resume"), "{refused}");
    // Without a broker the records tell.
    root.kill_broker();
    assert!(doctor(&root).contains("ostler message resolve"), "{}", doctor(&root));
    root.json(["message", "resolve", id, "give-up"]);
    assert!(!told(&root) && !doctor(&root).contains("ostler message resolve"));
    let settled = root.ostler(["message", "resolve", id, "retry"]).exits(4).error_text();
    assert!(settled.contains(&format!("next: ostler message show {id}")), "{settled}");
    let missing = root.ostler(["message", "show", "msg-1"]).exits(3).error_text();
    assert!(missing.contains("next: ostler message list"), "{missing}");
}

#[test]
fn a_session_that_writes_to_itself_is_told_so() {
    let root = Root::new();
    let script = format!("{OSTLER} send me x 2>&1; {OSTLER} send $OSTLER_SESSION x 2>&1; {FIXTURE} sleep");
    let session = root.spawn(&["--name", "me"], &["sh", "-c", &script]);
    wait_until(SOON, "both to be refused", || output(&root, &session["id"]).matches("(denied)").count() == 2);
    let said = output(&root, &session["id"]);
    assert_eq!(said.matches("may not write to itself").count(), 2, "{said}");
    let outside = root.ostler(["inbox", "read"]).exits(7).error_text();
    assert!(outside.contains("next: the same command inside the session"), "{outside}");
}
