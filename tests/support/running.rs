//! A command that runs beside its test: what it says so far, signals to it, its end.

use super::output::Output;
use super::process::Process;
use super::wait::wait_for;
use super::{SOON, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// A started command. Dropping it kills it.
pub(crate) struct Running {
    child: Child,
    line: String,
    stdin: Option<ChildStdin>,
    stdout: Collected,
    stderr: Collected,
}

/// What came through a pipe so far.
#[derive(Clone, Default)]
struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Arc<Mutex<Option<JoinHandle<()>>>>,
}

/// Copies a program by another process: a child that this one makes for another test in the same moment would keep the new file open for writing, and what
/// is open for writing cannot be executed.
pub(crate) fn copy_program(from: impl AsRef<std::ffi::OsStr>, to: &std::path::Path) {
    let copied = Command::new("cp").arg(from).arg(to).status().expect("cp can be started");
    assert!(copied.success(), "no copy at {}", to.display());
}

impl Running {
    /// Starts it with pipes; its standard input stays open and silent until something is given to it.
    #[expect(clippy::disallowed_methods, reason = "a test starts what it tests")]
    pub(crate) fn start(command: &mut Command) -> Running {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{line}: {error}"));
        let stdin = child.stdin.take();
        let (stdout, stderr) = (Collected::of(child.stdout.take()), Collected::of(child.stderr.take()));
        Running { child, line, stdin, stdout, stderr }
    }

    /// The process.
    #[track_caller]
    pub(crate) fn process(&self) -> Process {
        Process::of(self.child.id().into()).unwrap_or_else(|| panic!("{} has ended", self.line))
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a pid fits");
        kill(Pid::from_raw(pid), signal).expect("a child that was not reaped can be signalled");
    }

    /// Gives it input.
    pub(crate) fn give(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("its input is still open");
        stdin.write_all(bytes).and_then(|()| stdin.flush()).expect("it reads");
    }

    /// Ends its input.
    pub(crate) fn end_input(&mut self) {
        self.stdin = None;
    }

    /// What it has written to standard output so far.
    pub(crate) fn text(&self) -> String {
        self.stdout.text()
    }

    /// Waits until its standard output holds `text`.
    #[track_caller]
    pub(crate) fn says(&self, text: &str) {
        wait_until(SOON, &format!("{} to say {text:?}", self.line), || self.text().contains(text));
    }

    /// Waits for its end and gives back all of it.
    #[track_caller]
    pub(crate) fn end(mut self) -> Output {
        self.stdin = None;
        let what = format!("the end of {}", self.line);
        let status = wait_for(SOON * 2, &what, || self.child.try_wait().expect("it is ours"));
        for pipe in [&self.stdout, &self.stderr] {
            wait_until(SOON, &format!("the end of the output of {}", self.line), || pipe.is_whole());
        }
        let (stdout, stderr) = (self.stdout.bytes(), self.stderr.bytes());
        Output { command: self.line.clone(), status, stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After its end both are errors that say so.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Collected {
    fn of(pipe: Option<impl Read + Send + 'static>) -> Collected {
        let collected = Collected::default();
        let bytes = Arc::clone(&collected.bytes);
        let mut pipe = pipe.expect("it was asked for");
        let reader = thread::spawn(move || {
            let mut buffer = [0; 64 * 1024];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                bytes.lock().unwrap_or_else(PoisonError::into_inner).extend(&buffer[..count]);
            }
        });
        *collected.reader.lock().unwrap_or_else(PoisonError::into_inner) = Some(reader);
        collected
    }

    fn is_whole(&self) -> bool {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::Running;
    use nix::sys::signal::Signal;
    use std::process::Command;

    #[test]
    fn input_output_signals_and_end() {
        let mut cat = Running::start(Command::new("sh").args(["-c", "cat; echo oops >&2; exit 3"]));
        cat.give(b"one ");
        cat.says("one");
        cat.give(b"two");
        cat.end_input();
        let output = cat.end().exits(3);
        assert_eq!((output.text().as_str(), output.error_text().as_str()), ("one two", "oops\n"));
        let sleeper = Running::start(Command::new("sleep").arg("1000"));
        let process = sleeper.process();
        sleeper.signal(Signal::SIGTERM);
        assert_eq!(sleeper.end().code(), None);
        assert!(!process.alive());
    }
}
