//! Programs of several versions at one root: nobody replaces anybody unasked, and the calls to look and to leave work between all of them.

use serde_json::json;

use super::arena::Arena;
use crate::support::scene::text;
use crate::support::{NEXT, OSTLER, Output, Root, finish};

/// Report opencode#35448.
#[test]
fn field_h01_no_version_replaces_another_one_unasked() {
    let root = Root::new();
    let first = root.ensure();
    for _ in 0..20 {
        for build in [NEXT, OSTLER] {
            let found = finish(&mut root.command_of(build, ["ensure", "--json"]), b"").exits(0).json();
            assert_eq!((&found["started"], &found["broker"]), (&json!(false), &first));
            finish(&mut root.command_of(build, ["list"]), b"").exits(0);
        }
    }
    let asked = finish(&mut root.command_of(NEXT, ["upgrade", "--json"]), b"").exits(0).json()["broker"].clone();
    assert_eq!(asked["version"], "0.2.0");
    for build in [OSTLER, NEXT] {
        let found = finish(&mut root.command_of(build, ["ensure", "--json"]), b"").exits(0).json();
        assert_eq!(found["broker"], asked, "older clients use the newer broker");
    }
}

/// Report sshpilot#1174: what would cure a mismatch works across it.
#[test]
fn field_h05_a_broker_of_a_foreign_protocol_is_shown_replaced_and_shut_down() {
    let mut root = Root::new();
    root.tell("OSTLER_TEST_PROTOCOL", "3-3");
    let foreign = finish(&mut root.command_of(NEXT, ["ensure", "--json"]), b"").exits(0).json()["broker"].clone();
    let status = root.json(["status"]);
    assert_eq!((&status["state"], &status["broker"]["pid"]), (&json!("running"), &foreign["pid"]));
    assert!(text(&status["degraded"][0]).contains("protocol 3 to 3"), "{status}");
    let refused = root.ostler(["list", "--json"]);
    assert_eq!((refused.code(), refused.error_code().as_str()), (Some(10), "protocol_mismatch"));
    let ours = root.json(["upgrade"]);
    assert_eq!(
        (&ours["replaced"]["pid"], &ours["broker"]["version"]),
        (&foreign["pid"], &json!(env!("CARGO_PKG_VERSION")))
    );
    assert_eq!(ours["forced"], false);
    let again = finish(&mut root.command_of(NEXT, ["upgrade", "--json"]), b"").exits(0).json();
    assert_eq!(again["replaced"], ours["broker"], "and the other way round");
    assert_eq!(root.json(["shutdown"])["broker"]["pid"], again["broker"]["pid"]);
    assert_eq!(root.brokers(), []);
}

/// A broker that answers hello and knows no method, with the state root of its tests.
fn ancient(order: &str) -> Arena {
    let arena = Arena::new();
    let start = arena.command(&["ensure", arena.root().to_str().unwrap()]).env("OSTLER_TEST_CONTENDER", order).output();
    assert!(start.unwrap().status.success());
    arena
}

fn ostler(arena: &Arena, arguments: &[&str]) -> Output {
    let mut command = std::process::Command::new(OSTLER);
    command.args(["--json", "--root", arena.root().to_str().unwrap()]).args(arguments).env_clear();
    finish(command.env("PATH", "/usr/bin:/bin").env("TMPDIR", arena.folder().join("tmp")), b"")
}

/// Report gajae-code#3450: where the call is not known, TERM says the same.
#[test]
fn field_h03_a_broker_that_does_not_know_the_call_to_leave_is_shut_down_and_replaced() {
    let arena = ancient("know-nothing");
    let ancient = arena.broker();
    let status = ostler(&arena, &["status"]).exits(0).json();
    assert_eq!((&status["state"], &status["broker"]["pid"]), (&json!("running"), &json!(ancient.pid)));
    assert_eq!(ostler(&arena, &["list"]).error_code(), "unknown_method");
    let next = ostler(&arena, &["upgrade"]).exits(0).json();
    assert_eq!((&next["replaced"]["pid"], &next["forced"]), (&json!(ancient.pid), &json!(false)));
    assert!(!ancient.alive());
    ostler(&arena, &["list"]).exits(0);
    ostler(&arena, &["shutdown"]).exits(0);
}

/// Report warp#10726: one that does not leave is one error within the time, and nothing else happens; `--force` ends it.
#[test]
fn field_h10_a_broker_that_does_not_leave_is_one_error_in_time() {
    let arena = ancient("stay");
    let stays = arena.broker();
    let failed = ostler(&arena, &["upgrade", "--timeout", "20s"]);
    assert_eq!((failed.code(), failed.error_code().as_str()), (Some(6), "timeout"), "{failed:?}");
    assert!(failed.text().contains("--force"), "{failed:?}");
    assert_eq!((arena.broker(), arena.brokers().len()), (stays, 1), "and nobody was started beside it");
    let next = ostler(&arena, &["upgrade", "--force", "--timeout", "20s"]).exits(0).json();
    assert_eq!(next["forced"], true);
    assert!(!stays.alive());
    ostler(&arena, &["shutdown"]).exits(0);
}

/// A host of either build is driven by brokers of both: it goes on, is read, written to and stopped.
#[test]
fn hosts_of_either_build_are_driven_by_both() {
    let root = Root::new();
    let steps = ["--adapter", "lines", "--", crate::support::FIXTURE, "copy"];
    for (build, other) in [(OSTLER, NEXT), (NEXT, OSTLER)] {
        let run = |build: &str, arguments: &[&str]| {
            finish(root.command_of(build, ["--json"]).args(arguments), b"").exits(0).json()
        };
        run(build, &["upgrade"]);
        let session = run(build, &[&["spawn"], &steps[..]].concat())["session"].clone();
        let (id, wire) = (text(&session["id"]), if build == NEXT { 2 } else { 1 });
        let record = std::fs::read(root.path().join(format!("sessions/{id}/1/host.json"))).unwrap();
        let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
        assert_eq!(record["version"], wire);
        run(other, &["upgrade"]);
        run(other, &["send", id, "hello", "--wait-for", "delivered"]);
        crate::support::wait_until(crate::support::SOON, "its answer", || {
            root.ostler(["logs", id]).text().contains("hello")
        });
        assert_eq!(run(other, &["stop", id])["session"]["status"], "stopped");
        assert_eq!(run(other, &["resume", id])["session"]["status"], "ready", "its files are of the other build too");
        run(other, &["delete", id, "--stop"]);
    }
}
