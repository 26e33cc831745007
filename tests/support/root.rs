//! A throwaway state root with everything that a command of the product needs, and a strict clean-up at its end.
#![expect(clippy::disallowed_methods, reason = "starts the product as its users do")]

use super::leftovers::{Leftover, leftovers};
use super::wait::poll;
use super::{FIXTURE, OSTLER, Output, Process, SOON};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use std::{env, fs, thread};
use tempfile::TempDir;

/// Socket paths are short (108 bytes on Linux), so the folder must be as well.
const FOLDER_LENGTH_MAX: usize = 40;

/// How long a process may take from its last act to its end.
const LAST_STEPS: Duration = Duration::from_secs(2);

/// A state root of one test. Dropping it shuts the broker down, stops its sessions, and fails the test if a process is left
/// or the ledger does not verify.
pub(crate) struct Root {
    folder: TempDir,
    /// The product, or a script that stands in for it in the tests of this file.
    program: Vec<OsString>,
    damaged: bool,
}

impl Root {
    /// A new, empty root.
    pub(crate) fn new() -> Root {
        Root::of_program(&[OSTLER])
    }

    /// The same, with a broker that keeps less and begins segments sooner: `segment_bytes:20000,recent:2`.
    pub(crate) fn with_limits(limits: &str) -> Root {
        Root::with_variable("OSTLER_TEST_LIMITS", limits)
    }

    /// The same, with this variable in the environment of every command.
    pub(crate) fn with_variable(name: &str, value: &str) -> Root {
        Root::of_program(&["env", &format!("{name}={value}"), OSTLER])
    }

    /// The same, on a machine whose wall clock this test sets ([`Root::set_clock`]).
    pub(crate) fn with_clock() -> Root {
        let mut root = Root::new();
        let wall = format!("OSTLER_TEST_WALL={}", root.folder().join("wall").display());
        root.program = ["env", &wall, OSTLER].map(OsString::from).into();
        root
    }

    /// Sets the wall clock of everything in here to so many seconds after the true time, or before it.
    pub(crate) fn set_clock(&self, seconds: i64) {
        let (new, wall) = (self.folder().join("wall-new"), self.folder().join("wall"));
        fs::write(&new, seconds.to_string()).and_then(|()| fs::rename(&new, &wall)).expect("the folder is ours");
    }

    fn of_program(program: &[&str]) -> Root {
        let usual = env::temp_dir();
        let parent = if usual.as_os_str().len() > FOLDER_LENGTH_MAX { Path::new("/tmp") } else { usual.as_path() };
        let folder = tempfile::Builder::new().prefix("o").tempdir_in(parent).expect("the temp folder is writable");
        for name in ["home", "run", "tmp"] {
            let inner = folder.path().join(name);
            fs::create_dir(&inner).expect("the folder is new and ours");
            fs::set_permissions(&inner, fs::Permissions::from_mode(0o700)).expect("the folder is ours");
        }
        Root { folder, program: program.iter().map(OsString::from).collect(), damaged: false }
    }

    /// The test's folder: a place for its files. Every process of this test carries its path.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The state root. It does not exist until the product makes it.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// Gives every command of this root, and what it starts, a variable.
    pub(crate) fn tell(&mut self, name: &str, value: &str) {
        let has_variables = self.program.first().is_some_and(|first| first == "env");
        let words = if has_variables { vec![] } else { vec!["env".into()] };
        self.program.splice(0..0, words);
        // Behind those of before: the last one of a name counts.
        let place = self.program.iter().position(|word| word == OSTLER).unwrap_or(self.program.len());
        self.program.insert(place, format!("{name}={value}").into());
    }

    /// Says that this test damages the ledger on purpose, so that it need not verify at the end.
    pub(crate) fn damages_the_ledger(&mut self) {
        self.damaged = true;
    }

    /// The product with `arguments`, ready to run in this root's environment and nothing else.
    pub(crate) fn command<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, arguments: I) -> Command {
        self.command_of(OSTLER, arguments)
    }

    /// The same with the product as another build.
    pub(crate) fn command_of<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, build: &str, arguments: I) -> Command {
        let mut words = self.program.iter().map(|word| if word == OSTLER { OsStr::new(build) } else { word });
        let mut command = Command::new(words.next().expect("a root is made with a program"));
        command.args(words).args(arguments).current_dir(self.folder()).stdin(Stdio::null());
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LANG", "C.UTF-8");
        command.env("OSTLER_ROOT", self.path());
        for (name, inner) in [("HOME", "home"), ("XDG_RUNTIME_DIR", "run"), ("TMPDIR", "tmp")] {
            command.env(name, self.folder().join(inner));
        }
        command
    }

    /// What `outer` becomes when it carries the product's command `inner`: that one's words behind its own, in that one's environment and folder.
    pub(crate) fn carried(mut outer: Command, inner: &Command) -> Command {
        outer.arg(inner.get_program()).args(inner.get_args()).env_clear();
        outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(folder) = inner.get_current_dir() {
            outer.current_dir(folder);
        }
        outer
    }

    /// What `inner` becomes on a system that answers this call with this error.
    pub(crate) fn denied(inner: &Command, call: &str, error: &str) -> Command {
        let mut outer = Command::new(FIXTURE);
        outer.args(["deny", call, error, "--", "exec"]);
        Root::carried(outer, inner)
    }

    /// Runs the product with `arguments` to its end.
    #[track_caller]
    pub(crate) fn ostler<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, arguments: I) -> Output {
        finish(&mut self.command(arguments), b"")
    }

    /// Runs the product, which must succeed, and gives back its one JSON document.
    #[track_caller]
    pub(crate) fn json<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, arguments: I) -> Value {
        let mut command = self.command(["--json"]);
        command.args(arguments);
        finish(&mut command, b"").exits(0).json()
    }

    /// The broker that answers now; `None` if none does.
    #[track_caller]
    pub(crate) fn broker(&self) -> Option<Process> {
        Process::of(self.json(["status"])["broker"]["pid"].as_i64()?)
    }

    /// Checks the whole ledger and gives back the answer, which must be good.
    #[track_caller]
    pub(crate) fn verify_ledger(&self) -> Value {
        let output = finish(&mut self.command(["ledger", "verify", "--json"]), b"");
        let answer = output.clone().exits(0).json();
        assert!(answer["ok"] == true, "the ledger does not verify\n{output:?}");
        answer
    }

    /// Asks the broker to stop its sessions and itself. A broker that was killed left its hosts: the next one adopts and stops them.
    fn shut_down(&self) {
        let status = try_finish(&mut self.command(["status", "--json"]), b"");
        let broker = status.ok().map(|output| output.stdout).unwrap_or_default();
        let broker = serde_json::from_slice::<Value>(&broker).map(|document| document["broker"].is_object());
        if matches!(broker, Ok(false)) && !leftovers(self.folder()).is_empty() {
            drop(try_finish(&mut self.command(["ensure", "--timeout", "60s"]), b""));
        }
        drop(try_finish(&mut self.command(["shutdown", "--stop-sessions", "--timeout", "60s"]), b""));
        poll(SOON, || leftovers(self.folder()).is_empty().then_some(()));
    }

    /// Ends what is left, the hard way, until nothing appears any more.
    fn end_leftovers(&self) {
        let gone = poll(SOON, || {
            let left = leftovers(self.folder());
            left.iter().for_each(|leftover| leftover.process.kill_9());
            left.is_empty().then_some(())
        });
        if gone.is_none() {
            eprintln!("processes of {} keep appearing", self.folder().display());
        }
    }

    fn print_log(&self) {
        let log = fs::read_to_string(self.path().join("broker.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(40)..).unwrap_or(&[]);
        eprintln!("--- end of broker.log\n{}", tail.join("\n"));
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        if thread::panicking() {
            self.print_log();
            self.end_leftovers();
            return;
        }
        if self.path().exists() {
            self.shut_down();
        }
        let left = leftovers(self.folder());
        // Who is on the last steps out is not left behind.
        let all_gone = poll(LAST_STEPS, || left.iter().all(|of| !of.process.alive()).then_some(()));
        let left: Vec<String> =
            if all_gone.is_some() { Vec::new() } else { left.iter().map(Leftover::to_string).collect() };
        self.end_leftovers();
        if !left.is_empty() {
            self.print_log();
            panic!("the test left processes behind: {}", left.join(", "));
        }
        // A start that was ended early may leave the folder and nothing in it.
        let segments = fs::read_dir(self.path().join("ledger")).into_iter().flatten().flatten();
        let mut segments = segments.filter(|entry| entry.path().extension().is_some_and(|end| end == "jsonl"));
        if segments.next().is_some() && !self.damaged {
            self.verify_ledger();
        }
    }
}

/// Runs `command` with `input` on its standard input to its end; fails the test if that does not come.
#[track_caller]
pub(crate) fn finish(command: &mut Command, input: &[u8]) -> Output {
    match try_finish(command, input) {
        Ok(output) => output,
        Err(reason) => panic!("{reason}"),
    }
}

fn try_finish(command: &mut Command, input: &[u8]) -> Result<Output, String> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    if !input.is_empty() {
        command.stdin(Stdio::piped());
    }
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|e| format!("{line}: {e}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        let input = input.to_vec();
        // A command that ends without reading closes the pipe; that is its right.
        thread::spawn(move || stdin.write_all(&input));
    }
    let stdout = read_all(child.stdout.take());
    let stderr = read_all(child.stderr.take());
    let status = wait_or_kill(&mut child).ok_or_else(|| format!("{line}: did not end"))?;
    let held = |_| format!("{line}: ended, but something still holds its output open");
    let (stdout, stderr) = (stdout.recv_timeout(SOON).map_err(held)?, stderr.recv_timeout(SOON).map_err(held)?);
    Ok(Output { command: line, status, stdout, stderr })
}

fn wait_or_kill(child: &mut Child) -> Option<std::process::ExitStatus> {
    let ended = poll(SOON * 4, || child.try_wait().expect("the child is ours and not yet reaped"));
    if ended.is_none() {
        drop(child.kill());
        drop(child.wait());
    }
    ended
}

fn read_all(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            drop(pipe.read_to_end(&mut bytes));
        }
        // Nobody waits any more if the test has failed meanwhile.
        drop(sender.send(bytes));
    });
    receiver
}

#[cfg(test)]
mod tests {
    use crate::support::leftovers::leftovers;
    use crate::support::{FIXTURE, Process, Root, SOON, finish, wait_until};
    use serde_json::json;
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::{fs, panic};

    /// A root whose product is a shell script; its arguments are `$1` and so on.
    fn stand_in(script: &str) -> Root {
        Root::of_program(&["sh", "-c", script, "ostler"])
    }

    #[test]
    fn the_product_and_the_fixture_are_built() {
        let root = Root::new();
        root.ostler(["--version"]).exits(0);
        assert!(Path::new(FIXTURE).is_file());
    }

    #[test]
    fn a_root_ends_what_was_started_in_it_even_if_its_broker_was_killed() {
        for kill_broker in [false, true] {
            let root = Root::new();
            let session = root.json(["spawn", "--", "sleep", "1000"])["session"].clone();
            let (command, host) = (Process::of_value(&session["pid"]), Process::of_value(&session["host_pid"]));
            let broker = root.broker().expect("spawn starts one");
            assert!(host.children().contains(&command) && broker.alive());
            if kill_broker {
                broker.kill_9();
            }
            assert!(command.alive() && host.alive());
            drop(root);
            assert!(!command.alive() && !host.alive() && !broker.alive());
        }
    }

    #[test]
    fn the_environment_is_the_roots_own() {
        let root = stand_in("env; pwd");
        let text = root.ostler(["x"]).exits(0).text();
        let folder = root.folder().display().to_string();
        let usual = |line: &str| ["PATH=", "LANG=", "_="].iter().any(|start| line.starts_with(start));
        let foreign: Vec<&str> = text.lines().filter(|line| !line.contains(&folder) && !usual(line)).collect();
        assert!(foreign.is_empty(), "{foreign:?}");
        assert!(text.contains(&format!("OSTLER_ROOT={folder}/root\n")) && !root.path().exists());
    }

    #[test]
    fn input_reaches_the_command_and_its_answers_come_back() {
        let root = stand_in("cat; echo oops >&2; exit 7");
        let output = finish(&mut root.command(["x"]), b"hello").exits(7);
        assert_eq!((output.text().as_str(), output.error_text().as_str()), ("hello", "oops\n"));
    }

    #[test]
    fn answers_of_status_and_verify_are_understood() {
        let me = json!(std::process::id());
        let root =
            stand_in(&format!("[ $1 = ledger ] && echo '{{\"ok\":true}}' || echo '{{\"broker\":{{\"pid\":{me}}}}}'"));
        assert_eq!(root.broker(), Some(Process::of_value(&me)));
        assert_eq!(root.verify_ledger()["ok"], true);
    }

    #[test]
    fn a_ledger_that_does_not_verify_fails_the_test() {
        let bad = || {
            let root = stand_in("echo '{\"ok\":false}'");
            fs::create_dir_all(root.path().join("ledger")).unwrap();
            fs::write(root.path().join("ledger/00000000000000000001.jsonl"), "").unwrap();
            root
        };
        let root = bad();
        let failure = panic::catch_unwind(move || drop(root)).unwrap_err();
        assert!(failure.downcast_ref::<String>().unwrap().contains("the ledger does not verify"));
        let mut root = bad();
        root.damages_the_ledger();
    }

    #[test]
    fn a_process_left_behind_fails_the_test_and_is_ended() {
        let root = stand_in("exit 0");
        let mut stray = Command::new("sleep");
        stray.arg("1000").env("ANY_NAME", root.folder()).stdin(Stdio::null());
        let mut child = stray.spawn().unwrap();
        let process = Process::of(child.id().into()).unwrap();
        wait_until(SOON, "the stray is seen", || leftovers(root.folder()).len() == 1);
        let failure = panic::catch_unwind(move || drop(root)).unwrap_err();
        let message = failure.downcast_ref::<String>().unwrap();
        assert!(message.contains(&format!("{} (sleep 1000)", child.id())), "{message}");
        assert!(!process.alive());
        child.wait().unwrap();
    }
}
