//! Where contenders meet: a state root for brokers without sessions (`tools/contender`), and every process on it ended
//! at the end.
#![expect(clippy::disallowed_methods, reason = "starts contenders")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ostler::client::{ClientOptions, Program};
use ostler::os::deadline::Deadline;
use ostler::os::environment::Environment;
use ostler::os::folder::Folder;
use ostler::rpc::record::{self, Found, Record};
use tempfile::TempDir;

use crate::support::leftovers::leftovers;
use crate::support::{Output, Process, SOON, finish, wait_for};

/// Path of the contender.
const CONTENDER: &str = env!("CARGO_BIN_EXE_ostler-contender");

/// One state root and everything that runs on it.
pub(super) struct Arena {
    folder: TempDir,
}

impl Arena {
    pub(super) fn new() -> Arena {
        let folder = tempfile::Builder::new().prefix("a").tempdir_in("/tmp").expect("/tmp is writable");
        std::fs::create_dir(folder.path().join("tmp")).expect("the folder is ours");
        Arena { folder }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// A contender, ready to run in an environment of its own.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(CONTENDER);
        command.args(arguments).current_dir(self.folder()).stdin(Stdio::null()).env_clear();
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("TMPDIR", self.folder().join("tmp"));
        command
    }

    pub(super) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the contender starts")
    }

    pub(super) fn ensure(&self) -> Output {
        self.ensure_of(&self.root())
    }

    pub(super) fn ensure_of(&self, root: &Path) -> Output {
        finish(&mut self.command(&["ensure", root.to_str().expect("a path of a test")]), b"")
    }

    /// A client in this process, whose broker is a contender under these orders.
    pub(super) fn options(&self, orders: &[(&str, &str)], within: Duration) -> ClientOptions {
        let temporary = self.folder().join("tmp").into_os_string().into_string().expect("a path of a test");
        let variables = [("PATH", "/usr/bin:/bin"), ("TMPDIR", temporary.as_str())];
        ClientOptions {
            program: Program::File(CONTENDER.into()),
            environment: Environment::of(variables.iter().chain(orders).copied()),
            ensure_within: within,
            ..ClientOptions::new(self.root(), Deadline::after(within))
        }
    }

    pub(super) fn record(&self) -> Option<Record> {
        let folder = Folder::open(&self.root()).ok()?;
        record::read(&folder).ok().and_then(Found::record)
    }

    /// The broker that is published.
    pub(super) fn broker(&self) -> Process {
        let look = || self.record().and_then(|record| Process::of(record.broker.pid.into()));
        wait_for(SOON, "a published broker that lives", look)
    }

    /// All brokers that run.
    pub(super) fn brokers(&self) -> Vec<String> {
        let all = leftovers(self.folder()).into_iter().map(|process| process.to_string());
        all.filter(|line| line.contains(" broker --root")).collect()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for process in leftovers(self.folder()) {
            process.process.kill_9();
        }
    }
}
