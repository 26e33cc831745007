//! Messages that interrupt, with real programs: what they overtake, that the signal comes once, and what becomes of who does not heed it.

use std::fs;

use ostler::rpc::error::ErrorCode;
use ostler::rpc::method::Method;
use serde_json::{Value, json};

use super::post::{client, insist, letter};
use super::turns::{begun, endless, python, status};
use super::{message, output, send};
use crate::cli::refused::refused;
use crate::support::scene::text;
use crate::support::{Root, SOON, wait_until};

/// Where a program notes what it got.
const GOT: &str = "got";

fn errors(root: &Root, session: &Value) -> String {
    root.ostler(["logs", text(session), "--stream", "stderr"]).exits(0).text()
}

/// A shell that notes lines and interrupts, and at the line `work` goes on only once it was interrupted.
fn working(root: &Root) -> Value {
    let got = root.folder().join(GOT).display().to_string();
    let script = "trap 'echo INT >> \"$0\"' INT; printf '>'; while read -r line; do echo \"$line\" >> \"$0\"; \
                  if [ \"$line\" = work ]; then until grep -q INT \"$0\"; do sleep 0.01; done; fi; printf '>'; done";
    let session = root.spawn(&["--adapter", "lines", "--prompt", ">", "--name", "web"], &["sh", "-c", script, &got]);
    session["id"].clone()
}

/// The program of the issue: from its first expression over an interrupt to its next life.
#[test]
fn a_real_program_answers_in_order_is_interrupted_and_resumed() {
    let root = Root::new();
    let session = python(&root);
    for number in 1..=5 {
        send(&root, &session, &format!("print({number} * 11)"), &[]);
    }
    root.json(["wait", "py", "--for", "idle"]);
    assert_eq!(output(&root, &session), "11\n22\n33\n44\n55\n");
    send(&root, &session, &endless(&root), &[]);
    begun(&root, &session);
    send(&root, &session, "print('queued')", &[]);
    let sent = send(&root, &session, "print('now')", &["--mode", "interrupt"]);
    assert_eq!((&sent["message"]["mode"], &sent["position"]), (&json!("interrupt"), &json!(1)));
    root.json(["wait", "py", "--for", "idle"]);
    assert!(output(&root, &session).ends_with("begun\nnow\nqueued\n"), "{}", output(&root, &session));
    assert_eq!(errors(&root, &session).matches("KeyboardInterrupt").count(), 1);
    // Nothing runs: it goes at once, and nothing is interrupted.
    let idle = send(&root, &session, "print('idle')", &["--mode", "interrupt", "--wait-for", "delivered"]);
    assert_eq!(idle["delivery"], "immediate");
    root.json(["wait", "py", "--for", "idle"]);
    assert_eq!(errors(&root, &session).matches("KeyboardInterrupt").count(), 1);
    root.json(["stop", "py"]);
    for mode in ["queue", "interrupt"] {
        let error = refused(&root, &["send", "py", "print(1)", "--mode", mode], 4, "session_terminal");
        assert_eq!(error["data"]["status"], "stopped");
    }
    let again =
        send(&root, &session, "print('again')", &["--resume", "--mode", "interrupt", "--wait-for", "delivered"]);
    assert_eq!(again["message"]["state"], "delivered");
    root.json(["wait", "py", "--for", "idle"]);
    assert_eq!((output(&root, &session).as_str(), root.session(&session)["episode"].as_u64()), ("again\n", Some(2)));
}

/// Its time is over while another broker is there than the one that was asked.
#[test]
fn who_does_not_heed_it_is_stopped_and_what_waits_is_cancelled() {
    let mut root = Root::new();
    root.tell("OSTLER_TEST_INTERRUPT_MS", "1500");
    let script = "trap '' INT; printf '>'; read -r line; echo begun; while :; do sleep 0.1; done";
    let spawned = root.spawn(&["--adapter", "lines", "--prompt", ">", "--name", "deaf"], &["sh", "-c", script]);
    let session = spawned["id"].clone();
    send(&root, &session, "work", &[]);
    wait_until(SOON, "it to begin", || output(&root, &session).ends_with("begun\n"));
    let waits = send(&root, &session, "waits", &[]);
    let sent = send(&root, &session, "now", &["--mode", "interrupt"]);
    root.kill_broker();
    root.ensure();
    let ended = root.json(["wait", "deaf"])["session"].clone();
    assert_eq!((&ended["status"], &ended["reason"]), (&json!("stopped"), &json!("interrupt_timeout")));
    for (sent, reason) in [(&sent, "interrupt_timeout"), (&waits, "session_ended")] {
        let ended = message(&root, &sent["message"]["id"]);
        assert_eq!((&ended["state"], &ended["reason"]), (&json!("cancelled"), &json!(reason)));
    }
}

#[test]
fn whose_turns_nobody_sees_is_told_so_and_nothing_is_recorded() {
    let root = Root::new();
    let lines = root.spawn(&["--adapter", "lines"], &["cat"]);
    let inbox = root.spawn_fixture(&[], "sleep");
    let head = || root.json(["ledger", "head"])["seq"].clone();
    let before = head();
    for session in [&lines, &inbox] {
        let error =
            refused(&root, &["send", text(&session["id"]), "x", "--mode", "interrupt"], 4, "capability_missing");
        assert!(text(&error["message"]).contains("--prompt"), "{error}");
    }
    assert_eq!(head(), before);
}

/// Whoever dies between two steps of it: one signal, each message once, and the one that interrupts before the one that waits.
#[test]
fn a_broker_that_dies_in_between_sends_no_second_signal_and_loses_none() {
    for at in [
        "record.send=kill@3",
        "effect.interrupt=kill@1",
        "word.interrupted=kill@1",
        "record.interrupt_sent=kill@1",
        "word.turn=kill@2",
        "record.turn_ended=kill@2",
        "effect.deliver=kill@2",
        "record.turn_ended=kill@3",
    ] {
        eprintln!("--- {at}");
        let mut root = Root::new();
        let counts = root.folder().join("points");
        fs::create_dir(&counts).expect("the folder is ours");
        root.tell("OSTLER_TEST_POINTS", counts.to_str().expect("a temp folder is text"));
        root.tell("OSTLER_TEST_FAIL", at);
        let session = working(&root);
        insist(&root, Method::MessageSend, &letter(&session, "work", "work"));
        wait_until(SOON, "it to work", || root.lines(GOT) == ["work"]);
        insist(&root, Method::MessageSend, &letter(&session, "queued", "queued"));
        let mut ours = letter(&session, "now", "now");
        ours["mode"] = json!("interrupt");
        // Who asks anew of a broker that does not know yet what runs is told to ask again.
        wait_until(SOON, "it to be taken", || match client(&root).call(Method::MessageSend, ours.clone()) {
            Ok(_) => true,
            Err(error) if error.code == ErrorCode::SessionBusy => false,
            Err(error) => panic!("{at}: {error:?}"),
        });
        wait_until(SOON, "all of it", || {
            root.ensure();
            root.lines(GOT).len() >= 4
        });
        root.json(["wait", "web", "--for", "idle"]);
        assert_eq!(root.lines(GOT), ["work", "INT", "now", "queued"], "{at}");
        assert_eq!(status(&root, &session), "ready");
    }
}
