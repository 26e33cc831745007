//! How messages are to reach a session's program: what is accepted, kept and refused.

use super::wire::Wire;
use crate::support::Root;
use ostler::host::client::load_spec;
use ostler::host::spec::{Adapter, Frame};
use serde_json::json;

#[test]
fn a_session_for_messages_keeps_what_was_asked_for_and_gets_a_pipe() {
    let root = Root::new();
    let kept = |session: &str| {
        let (spec, _) = load_spec(&root.path(), session).unwrap();
        (spec.adapter, spec.frame)
    };
    let look = ["--", "sh", "-c", "readlink /proc/self/fd/0; exec sleep 1000"];
    for (options, want, stdin) in [
        (&["--adapter", "lines", "--frame", "json"][..], (Adapter::Lines, Frame::Json), "pipe:"),
        (&["--adapter", "lines"], (Adapter::Lines, Frame::Line), "pipe:"),
        (&["--adapter", "inbox"], (Adapter::Inbox, Frame::Line), "/dev/null"),
        (&[], (Adapter::Inbox, Frame::Line), "/dev/null"),
    ] {
        let spawned = root.json([&["spawn"], options, &look].concat());
        let session = spawned["session"]["id"].as_str().unwrap();
        assert_eq!(kept(session), want, "{options:?}");
        crate::support::wait_until(crate::support::SOON, "what its input is", || {
            root.ostler(["logs", session]).exits(0).text().starts_with(stdin)
        });
        root.json(["delete", "--stop", session]);
    }
}

#[test]
fn what_cannot_be_meant_or_done_is_refused_and_nothing_is_started() {
    let root = Root::new();
    let refused = |code: i32, line: &str| {
        let output = root.ostler(line.split(' ')).exits(code);
        assert_eq!(output.error_code(), "invalid_input", "{line}");
        output.json()["error"]["message"].as_str().unwrap().to_owned()
    };
    assert!(refused(2, "spawn --json --frame json -- true").contains("adapter lines"));
    assert!(refused(2, "spawn --json --frame line -- true").contains("adapter lines"));
    assert!(refused(125, "run --json -i --adapter lines -- true").contains("no client can feed it"));
    assert!(refused(2, "spawn --json --adapter acp -- true").contains("acp"));
    let mut wire = Wire::hello(&root);
    let params = json!({"key": "k", "command": ["true"], "cwd": "/", "adapter": "acp"});
    let answer = wire.ask("session.spawn", params);
    assert_eq!(answer["error"]["data"]["code"], "capability_missing", "{answer}");
    assert_eq!(root.json(["list", "--all"])["sessions"], json!([]));
}
