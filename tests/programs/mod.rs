//! Programs of everyday life as sessions: what people run, and what misbehaves, through the command line alone.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod groups;
mod ready;
mod run;
mod run_alone;
mod run_output;
mod run_signals;
mod server;
mod terminal;

use crate::support::{Root, wait_for};
use crate::support::{SOON, leftovers::leftovers};
use serde_json::Value;

/// Starts a session and gives back its document.
#[track_caller]
fn spawn<'a>(root: &Root, arguments: impl IntoIterator<Item = &'a str>) -> Value {
    let mut command = root.command(["--json", "spawn"]);
    command.args(arguments);
    crate::support::finish(&mut command, b"").exits(0).json()["session"].clone()
}

/// The session as it is now.
#[track_caller]
fn session(root: &Root, id: &Value) -> Value {
    root.json(["show", text(id)])["session"].clone()
}

/// Waits for the end of a session's command and gives the session back.
#[track_caller]
fn ended(root: &Root, id: &Value) -> Value {
    root.json(["wait", text(id), "--timeout", "60s"])["session"].clone()
}

/// A text in a document.
#[track_caller]
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

/// Waits until the session's standard output holds a line that starts so, and gives back the rest of that line.
#[track_caller]
fn line_of(root: &Root, id: &Value, start: &str) -> String {
    wait_for(SOON, &format!("a line {start:?}"), || {
        let output = root.ostler(["logs", text(id), "--stream", "stdout"]).exits(0).text();
        let whole = output.rfind('\n').map_or("", |end| &output[..end]);
        whole.lines().find_map(|line| Some(line.strip_prefix(start)?.trim().to_owned()))
    })
}

/// Ends every process of the test whose command line holds `word`, and says how many there were.
fn end_strays(root: &Root, word: &str) -> usize {
    let strays: Vec<_> =
        leftovers(root.folder()).into_iter().filter(|stray| stray.to_string().contains(word)).collect();
    strays.iter().for_each(|stray| stray.process.kill_9());
    strays.len()
}
