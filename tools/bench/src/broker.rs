//! A broker of the release build on a root of its own, and plain clients of it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ostler::os::folder::Folder;
use ostler::rpc::envelope;
use ostler::rpc::record::{Record, read};
use serde_json::{Value, json};

use crate::at;

/// Longest wait for one answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// A running broker; it is shut down when this is dropped.
pub(crate) struct Broker {
    root: PathBuf,
    program: PathBuf,
    record: Record,
}

impl Broker {
    pub(crate) fn start(root: &Path, program: &Path) -> Result<Broker, String> {
        let started = command(program, root).arg("ensure").output();
        let started = at(&program.display().to_string(), started)?;
        if !started.status.success() {
            return Err(format!("no broker: {}", String::from_utf8_lossy(&started.stderr)));
        }
        let folder = at("the root", Folder::open(root))?;
        let record =
            at("the discovery record", read(&folder))?.record().ok_or("the broker left no discovery record")?;
        Ok(Broker { root: root.to_owned(), program: program.to_owned(), record })
    }

    pub(crate) fn client(&self) -> Result<Client, String> {
        let path = self.record.broker.endpoint.strip_prefix("unix:").ok_or("the endpoint is no Unix socket")?;
        let stream = at("connect", UnixStream::connect(path))?;
        at("connect", stream.set_read_timeout(Some(ANSWER_WITHIN)))?;
        let mut client = Client::new(stream);
        let hello = json!({
            "protocol": {"min": 1, "max": 1}, "client": {"name": "bench", "version": "0"},
            "token": self.record.token, "as": "owner",
        });
        client.ask(&envelope::request(0, "hello", &hello))?;
        Ok(client)
    }

    /// Bytes of its ledger.
    pub(crate) fn ledger_bytes(&self) -> Result<u64, String> {
        let entries = at("the ledger", std::fs::read_dir(self.root.join("ledger")))?;
        let segments = entries.filter_map(Result::ok).filter(|entry| entry.path().extension().is_some());
        at("the ledger", segments.map(|entry| entry.metadata().map(|meta| meta.len())).sum())
    }

    /// Processor time of all its threads so far.
    pub(crate) fn cpu(&self) -> Result<Duration, String> {
        let tasks = at("the broker", std::fs::read_dir(format!("/proc/{}/task", self.record.broker.pid)))?;
        Ok(tasks.filter_map(|task| processor_time(&task.ok()?.path())).sum())
    }

    /// Runs a command of the product on this root and returns its document.
    pub(crate) fn run(&self, words: &[&str]) -> Result<Value, String> {
        let output = at("the product", command(&self.program, &self.root).arg("--json").args(words).output())?;
        let said = serde_json::from_slice(&output.stdout);
        said.map_err(|_| format!("{words:?}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // If it does not leave, whoever removes its root finds out.
        drop(command(&self.program, &self.root).args(["shutdown", "--stop-sessions"]).output());
    }
}

/// What a thread, by its folder in `/proc`, has had of the processors; none if it has ended.
pub(crate) fn processor_time(task: &Path) -> Option<Duration> {
    let text = std::fs::read_to_string(task.join("schedstat")).ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// What so many threads have had of the processors together.
pub(crate) fn processor_times(tasks: &[PathBuf]) -> Duration {
    tasks.iter().filter_map(|task| processor_time(task)).sum()
}

fn command(program: &Path, root: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("OSTLER_ROOT", root).stdin(std::process::Stdio::null());
    command
}

/// A connection with one request in flight.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    buffer: Vec<u8>,
    filled: usize,
    /// Length of the last answer.
    pub(crate) answer: usize,
}

impl Client {
    pub(crate) fn new(stream: UnixStream) -> Client {
        Client { stream, buffer: vec![0; 64 * 1024], filled: 0, answer: 0 }
    }

    /// Sends a request's line and waits for its answer; an error of the broker is one.
    pub(crate) fn ask(&mut self, request: &[u8]) -> Result<(), String> {
        self.send(request)?;
        while !self.hear()? {}
        Ok(())
    }

    /// The last answer.
    pub(crate) fn said(&self) -> Result<Value, String> {
        serde_json::from_slice(&self.buffer[..self.answer]).map_err(|error| error.to_string())
    }

    pub(crate) fn send(&mut self, request: &[u8]) -> Result<(), String> {
        at("send", self.stream.write_all(request))
    }

    /// Reads once; true once the answer is whole.
    pub(crate) fn hear(&mut self) -> Result<bool, String> {
        let read = at("receive", self.stream.read(&mut self.buffer[self.filled..]))?;
        self.filled += read;
        let said = &self.buffer[..self.filled];
        if read == 0 {
            return Err("the broker closed the connection".to_owned());
        }
        if said.last() != Some(&b'\n') {
            return Ok(false);
        }
        (self.answer, self.filled) = (self.filled, 0);
        // An operation that came to its end says `"error":null`.
        let is_error = said.windows(9).any(|window| window == b"\"error\":{");
        if is_error { Err(String::from_utf8_lossy(said).into_owned()) } else { Ok(true) }
    }
}
