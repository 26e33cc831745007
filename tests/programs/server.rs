//! A server as a session: it answers while it lives, and a stop ends it.

use super::{line_of, session, spawn, text};
use crate::support::{Process, Root, SOON, wait_for, wait_until};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Asks for a page; `None` while nobody listens.
fn page(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(b"GET /hello.txt HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Starts the server of Python's library on a port of its own choice.
fn serve(root: &Root) -> (Value, u16) {
    std::fs::write(root.folder().join("hello.txt"), "hello from a session\n").unwrap();
    let session =
        spawn(root, ["--name", "web", "--", "python3", "-u", "-m", "http.server", "--bind", "127.0.0.1", "0"]);
    let line = line_of(root, &session["id"], "Serving HTTP on 127.0.0.1 port ");
    (session, line.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn a_web_server_answers_until_it_is_stopped() {
    let root = Root::new();
    let (started, port) = serve(&root);
    let answer = wait_for(SOON, "an answer", || page(port));
    assert!(answer.starts_with("HTTP/1.0 200") && answer.ends_with("hello from a session\n"), "{answer}");
    // Its log is the session's output.
    wait_until(SOON, "the request to be logged", || {
        root.ostler(["logs", "web", "--stream", "stderr"]).exits(0).text().contains("GET /hello.txt")
    });
    // It outlives the broker, and is the same process for the next one.
    root.broker().unwrap().kill_9();
    assert!(page(port).is_some());
    let adopted = session(&root, &json!("web"));
    assert_eq!((&adopted["pid"], &adopted["status"]), (&started["pid"], &json!("ready")));
    let command = Process::of_value(&started["pid"]);
    let stopped = root.json(["stop", "web"]);
    assert_eq!((&stopped["session"]["status"], &stopped["survivors"]), (&json!("stopped"), &json!([])));
    assert!(!command.alive());
    assert_eq!(page(port), None);
}

#[test]
fn a_resumed_server_is_the_next_episode_of_the_same_session() {
    let root = Root::new();
    let (first, _) = serve(&root);
    root.ostler(["stop", "web"]).exits(0);
    let resumed = root.json(["resume", "web"])["session"].clone();
    assert_eq!((&resumed["id"], &resumed["episode"], &resumed["status"]), (&first["id"], &json!(2), &json!("ready")));
    assert_ne!(resumed["pid"], first["pid"]);
    assert_ne!(resumed["endpoint"]["incarnation"], first["endpoint"]["incarnation"]);
    let line = line_of(&root, &json!("web"), "Serving HTTP on 127.0.0.1 port ");
    let port = line.split(' ').next().unwrap().parse().unwrap();
    assert!(wait_for(SOON, "an answer", || page(port)).starts_with("HTTP/1.0 200"));
    // A second resume of what lives gives it back and starts nothing.
    let again = root.json(["resume", "web"])["session"].clone();
    assert_eq!((&again["pid"], &again["episode"]), (&resumed["pid"], &json!(2)));
    // The output of the first episode is still there.
    let old = root.ostler(["logs", text(&first["id"]), "--episode", "1"]).exits(0);
    assert!(old.text().contains("Serving HTTP"));
    root.ostler(["stop", "web"]).exits(0);
}
