//! Messages, with real brokers, hosts and programs: what a sender is told, what the program gets, and that the two agree whoever is killed in between.

mod account;
mod crash;
mod doubt;
mod field;
mod inbox;
mod interrupts;
mod lines;
mod load;
mod notices;
mod order;
mod post;
mod reports;
mod rights;
mod stops;
mod turns;
mod words;

use serde_json::Value;

use crate::support::scene::text;
use crate::support::{Output, Root, finish};

/// Sends a text and gives back the whole answer.
#[track_caller]
fn send(root: &Root, session: &Value, words: &str, options: &[&str]) -> Value {
    let mut arguments = vec!["send", text(session), words];
    arguments.extend(options);
    root.json(arguments)
}

/// The same, with the text on standard input.
#[track_caller]
fn send_input(root: &Root, session: &Value, words: &[u8], options: &[&str]) -> Value {
    let mut arguments = vec!["--json", "send", text(session), "-"];
    arguments.extend(options);
    input(root, &arguments, words).exits(0).json()
}

/// Runs the product with this on standard input.
#[track_caller]
fn input(root: &Root, arguments: &[&str], bytes: &[u8]) -> Output {
    finish(&mut root.command(arguments), bytes)
}

/// A message as the broker shows it.
#[track_caller]
fn message(root: &Root, id: &Value) -> Value {
    root.json(["message", "show", text(id)])["message"].clone()
}

/// What a session has written so far.
#[track_caller]
fn output(root: &Root, session: &Value) -> String {
    root.ostler(["logs", text(session), "--stream", "stdout"]).exits(0).text()
}
