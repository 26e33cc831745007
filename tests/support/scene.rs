//! What tests of whole brokers do again and again: find the broker, start sessions, look at them, act all at once.

use super::leftovers::leftovers;
use super::{FIXTURE, OSTLER, Output, Process, Root, SOON, finish, wait_until};
use ostler::client::{ClientOptions, Program};
use ostler::os::deadline::Deadline;
use ostler::os::environment::Environment;
use serde_json::Value;
use std::ffi::OsStr;
use std::process::Command;
use std::sync::Barrier;
use std::{fs, thread};

/// Runs all of them in the same instant, each to its end.
pub(crate) fn at_once(commands: Vec<Command>) -> Vec<Output> {
    let line = Barrier::new(commands.len());
    thread::scope(|scope| {
        let run = |mut command: Command| {
            let line = &line;
            scope.spawn(move || {
                line.wait();
                finish(&mut command, b"")
            })
        };
        let threads: Vec<_> = commands.into_iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("a failure of a command fails its test")).collect()
    })
}

impl Root {
    /// Finds or starts the broker; its document.
    #[track_caller]
    pub(crate) fn ensure(&self) -> Value {
        self.json(["ensure"])["broker"].clone()
    }

    /// Ends the broker as the kernel's out-of-memory killer would, and gives back what it was.
    #[track_caller]
    pub(crate) fn kill_broker(&self) -> Process {
        let broker = self.broker().expect("a broker answers");
        broker.kill_9();
        broker
    }

    /// Every broker process of this root, whether it is published or not.
    pub(crate) fn brokers(&self) -> Vec<Process> {
        let all = leftovers(self.folder()).into_iter();
        all.filter(|found| found.command().contains(" broker --root ")).map(|found| found.process).collect()
    }

    /// The process in the lock's record, where that can be read just now: the broker, also while it still starts.
    pub(crate) fn lock_owner(&self) -> Option<Process> {
        let record: Value = serde_json::from_slice(&fs::read(self.path().join("broker.lock")).ok()?).ok()?;
        Process::of(record["identity"]["pid"].as_i64()?)
    }

    /// A client in this process, for those who ask too much to start a command for each request.
    pub(crate) fn client_options(&self, deadline: Deadline) -> ClientOptions {
        let variables = self.command([""; 0]);
        let variables = variables.get_envs().filter_map(|(name, value)| Some((name, value?)));
        ClientOptions {
            program: Program::File(OSTLER.into()),
            environment: Environment::of(variables),
            ..ClientOptions::new(self.path(), deadline)
        }
    }

    /// Starts a session with these options and this command; its document.
    #[track_caller]
    pub(crate) fn spawn<S: AsRef<OsStr>>(&self, options: &[&str], command: &[S]) -> Value {
        self.json(spawning(options, command))["session"].clone()
    }

    /// Starts a session that runs the fixture with these steps, told as text.
    #[track_caller]
    pub(crate) fn spawn_fixture(&self, options: &[&str], steps: &str) -> Value {
        let words: Vec<&str> = std::iter::once(FIXTURE).chain(steps.split_whitespace()).collect();
        self.spawn(options, &words)
    }

    /// The session as the broker shows it.
    #[track_caller]
    pub(crate) fn session(&self, id: &Value) -> Value {
        self.json(["show", text(id)])["session"].clone()
    }

    /// Waits until the session has this status; its document then.
    #[track_caller]
    pub(crate) fn session_becomes(&self, id: &Value, status: &str) -> Value {
        let mut last = Value::Null;
        wait_until(SOON, &format!("session {id} to be {status}"), || {
            last = self.session(id);
            last["status"] == status
        });
        last
    }

    /// The names in a folder of the state root, sorted; none if it is not there.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path().join(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The names of the sockets in the runtime folder, wherever it is below this test's folders.
    pub(crate) fn sockets(&self) -> Vec<String> {
        let shown = self.json(["status"])["broker"]["endpoint"].as_str().map(str::to_owned);
        let endpoint = shown.expect("a broker answers");
        let folder = std::path::Path::new(endpoint.trim_start_matches("unix:")).parent().expect("it is in a folder");
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The lines of a file in the test's folder; none if it is not there.
    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.folder().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// The arguments of a spawn.
pub(crate) fn spawning<S: AsRef<OsStr>>(options: &[&str], command: &[S]) -> Vec<std::ffi::OsString> {
    let mut arguments: Vec<std::ffi::OsString> = vec!["spawn".into()];
    arguments.extend(options.iter().map(std::convert::Into::into));
    arguments.push("--".into());
    arguments.extend(command.iter().map(|word| word.as_ref().to_owned()));
    arguments
}

/// The text of a JSON value that is one.
#[track_caller]
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}
