//! Output: byte for byte, whole and in part, of a live session and of one that has ended.

use crate::support::{FIXTURE, Root, SOON, wait_until};

#[test]
fn output_is_what_the_command_wrote() {
    let root = Root::new();
    root.json(["spawn", "--name", "x", "--", "sh", "-c", "printf 'a\\377\\000b'"]);
    root.json(["wait", "x"]);
    assert_eq!(root.ostler(["logs", "x"]).exits(0).stdout, b"a\xff\0b");
    let chunk = root.ostler(["--json", "logs", "x"]).exits(0).json();
    assert_eq!(
        (&chunk["schema"], &chunk["position"], &chunk["stream"], &chunk["b64"]),
        (&1.into(), &0.into(), &"stdout".into(), &"Yf8AYg==".into())
    );
    assert!(root.json(["show", "x"])["output_tail"].as_str().unwrap().starts_with('a'));
}

#[test]
fn a_tail_and_a_stream_can_be_chosen() {
    let root = Root::new();
    let steps = ["say", "1", "--", "complain", "x", "--", "say", "2", "--", "complain", "y", "--", "say", "3"];
    root.json(["spawn", "--name", "x", "--", FIXTURE].iter().chain(&steps));
    root.json(["wait", "x"]);
    let logs = |arguments: &[&str]| root.ostler(["logs", "x"].iter().chain(arguments)).exits(0).text();
    assert_eq!(logs(&["--stream", "stdout"]), "1\n2\n3\n");
    assert_eq!(logs(&["--stream", "stderr"]), "x\ny\n");
    assert_eq!(logs(&["--tail", "1", "--stream", "stdout"]), "3\n");
    assert_eq!(logs(&["--tail", "1", "--stream", "stderr", "-f"]), "y\n");
    assert_eq!(logs(&["--tail", "0"]), "");
    assert_eq!(logs(&["-f"]).len(), 10);
    assert_eq!(root.ostler(["--json", "logs", "x", "--episode", "2"]).exits(3).error_code(), "not_found");
    assert_eq!(root.ostler(["--json", "logs", "x", "--episode", "0"]).exits(3).error_code(), "not_found");
}

#[test]
fn each_episode_has_its_own() {
    let root = Root::new();
    root.json(["spawn", "--name", "x", "--", "sh", "-c", "echo $OSTLER_EPISODE"]);
    root.json(["wait", "x"]);
    root.json(["resume", "x"]);
    root.json(["wait", "x"]);
    let logs = |arguments: &[&str]| root.ostler(["logs", "x"].iter().chain(arguments)).exits(0).text();
    assert_eq!((logs(&[]), logs(&["--episode", "1"]), logs(&["-f"])), ("2\n".into(), "1\n".into(), "2\n".into()));
}

#[test]
fn a_follower_ends_with_the_output_or_with_its_deadline() {
    let root = Root::new();
    let go = root.folder().join("go");
    let go = go.to_str().unwrap();
    root.json(["spawn", "--name", "x", "--", FIXTURE, "say", "one", "--", "until", go, "--", "say", "two"]);
    wait_until(SOON, "the first line", || root.ostler(["logs", "x"]).text() == "one\n");
    let late = root.ostler(["logs", "x", "-f", "--timeout", "200ms"]).exits(6);
    assert_eq!(late.text(), "one\n");
    std::fs::write(go, "").unwrap();
    assert_eq!(root.ostler(["logs", "x", "-f"]).exits(0).text(), "one\ntwo\n");
}
