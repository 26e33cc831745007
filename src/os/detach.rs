//! Starting a process that outlives its starter and owes it nothing: own session, no descriptor but three, default
//! signals, private umask, sane limits, an environment reduced to an allow list. And that process's side of it.
//!
//! Standard input is empty, standard output is the report pipe until `take_report`, standard error is a log file.
#![expect(unsafe_code, reason = "what happens between fork and exec is not in std")]

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction, sigprocmask};
use nix::sys::stat::Mode;

use super::deadline::Deadline;
use super::environment::Environment;
use super::spawn::OWN_IMAGE;

/// Tells a started process that its standard output is a report pipe and how many milliseconds it has, and every part of
/// it that it must not start another one.
pub const STARTED_VARIABLE: &str = "OSTLER_BROKER_START";

/// What is kept of the starter's environment: where things are and how text looks, nothing that could be a secret.
const KEPT_VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "XDG_CONFIG_HOME",
    "OSTLER_CONFIG",
    "OSTLER_IDLE_EXIT",
    "OSTLER_LIVE_CHILDREN",
    "OSTLER_FAMILY_DEPTH",
    "RUST_BACKTRACE",
];

/// Prefixes of variables that are kept too.
const KEPT_PREFIXES: &[&str] = &[
    "LC_",
    // Fail points and planted bugs; a release build has none.
    #[cfg(feature = "testing")]
    "OSTLER_TEST_",
];

/// A process to be started.
#[derive(Debug)]
pub struct Detached<'a> {
    /// The program, a path.
    pub program: &'a Path,
    /// Its arguments.
    pub args: &'a [OsString],
    /// Its working directory.
    pub cwd: &'a Path,
    /// Where its standard error goes; none: nowhere.
    pub stderr: Option<File>,
    /// The starter's environment, of which the allow list is kept.
    pub environment: &'a Environment,
    /// How long it may take until its last report; it learns it from [`start_budget`].
    pub budget: Duration,
}

/// A process that was started, and the reading end of its report pipe.
#[derive(Debug)]
pub struct Started {
    child: Child,
    report: PipeReader,
}

/// What came out of the report pipe.
#[derive(Debug, PartialEq, Eq)]
pub enum Reading {
    /// Bytes, this many.
    Bytes(usize),
    /// The process closed it, or died.
    End,
    /// Nothing until the deadline.
    Late,
}

impl Detached<'_> {
    /// Starts it. Returns once the program is executing, or cannot be.
    ///
    /// # Errors
    /// What the system answers to fork and exec.
    #[expect(clippy::disallowed_methods, reason = "os starts processes")]
    pub fn start(self) -> io::Result<Started> {
        let (report, write) = io::pipe()?;
        let mut command = Command::new(self.program);
        command.args(self.args).current_dir(self.cwd).env_clear().envs(kept(self.environment));
        command.env(STARTED_VARIABLE, self.budget.as_millis().to_string());
        command.stdin(Stdio::null()).stdout(write).stderr(self.stderr.map_or_else(Stdio::null, Stdio::from));
        // SAFETY: `before_exec` only makes system calls that are safe between fork and exec: it allocates nothing,
        // takes no lock and touches no memory but its own stack.
        unsafe { command.pre_exec(before_exec) };
        Ok(Started { child: command.spawn()?, report })
    }
}

impl Started {
    /// Reads from the report pipe.
    ///
    /// # Errors
    /// What the system answers.
    pub fn read(&mut self, buffer: &mut [u8], deadline: Deadline) -> io::Result<Reading> {
        if !wait_readable(&self.report, deadline)? {
            return Ok(Reading::Late);
        }
        match self.report.read(buffer)? {
            0 => Ok(Reading::End),
            bytes => Ok(Reading::Bytes(bytes)),
        }
    }

    /// How it ended, if it has by the deadline.
    pub fn ended(&mut self, deadline: Deadline) -> Option<ExitStatus> {
        let mut pauses = super::deadline::Pauses::new(Duration::from_millis(1), Duration::from_millis(20));
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if !pauses.pause(deadline) {
                return None;
            }
        }
    }

    /// Lets go of it. It lives on; a thread waits for its end, so that a long-lived starter keeps no zombie.
    pub fn let_go(self) {
        let mut child = self.child;
        let reaper = std::thread::Builder::new().name("ostler-reap".to_owned());
        // Without a thread for it the zombie stays until the starter ends: no reason to fail.
        drop(reaper.stack_size(64 * 1024).spawn(move || child.wait()));
    }
}

/// The executable that is running. Its path reads better in a process list; once the file was replaced the path leads to
/// another program, and the running image is reached through the kernel.
///
/// # Errors
/// If the system does not say.
pub fn own_image() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    let image = Path::new(OWN_IMAGE);
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let is_same = identity(image).is_none_or(|running| identity(&path) == Some(running));
    Ok(if is_same { path } else { image.to_owned() })
}

/// Waits until there is something to read; says whether there is.
fn wait_readable(source: &impl AsFd, deadline: Deadline) -> io::Result<bool> {
    loop {
        let left = deadline.remaining();
        let timeout =
            PollTimeout::try_from(left.saturating_add(Duration::from_micros(999))).unwrap_or(PollTimeout::MAX);
        let mut polled = [PollFd::new(source.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, timeout) {
            Ok(0) if deadline.has_passed() => return Ok(false),
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) => return Ok(true),
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn kept(environment: &Environment) -> Vec<(OsString, OsString)> {
    let is_kept = |name: &OsStr| {
        let name = name.to_string_lossy();
        KEPT_VARIABLES.contains(&name.as_ref()) || KEPT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let kept = environment.iter().filter(|(name, _)| is_kept(name));
    kept.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// In the child, before exec.
fn before_exec() -> io::Result<()> {
    nix::unistd::setsid()?;
    nix::sys::stat::umask(Mode::from_bits_truncate(0o077));
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    for signal in Signal::iterator() {
        if !matches!(signal, Signal::SIGKILL | Signal::SIGSTOP) {
            // SAFETY: the default disposition runs no code of ours.
            unsafe { sigaction(signal, &default) }?;
        }
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
    for resource in [Resource::RLIMIT_NOFILE, Resource::RLIMIT_CPU, Resource::RLIMIT_FSIZE, Resource::RLIMIT_DATA] {
        raise(resource)?;
    }
    close_on_exec_from(3)
}

/// Raises a soft limit to its hard one: the limits of whoever came first are no reason for the broker to die.
fn raise(resource: Resource) -> nix::Result<(rlim_t, rlim_t)> {
    let (soft, hard) = getrlimit(resource)?;
    setrlimit(resource, hard, hard)?;
    Ok((soft, hard))
}

/// Marks every descriptor from `first` on close-on-exec. Marking, not closing: std's own pipe, over which a failed exec
/// is told, is one of them.
fn close_on_exec_from(first: libc::c_uint) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: close_range takes three integers and, with this flag, closes nothing.
        let done = unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        if done == 0 {
            return Ok(());
        }
    }
    // An older kernel: one at a time, up to the limit that was in force when they were opened.
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let last = libc::c_int::try_from(hard.min(65_536)).unwrap_or(65_536);
    for descriptor in libc::c_int::try_from(first).unwrap_or(3)..last {
        // SAFETY: setting a flag on a descriptor that is not open fails and changes nothing.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}

/// Whether this process was started by [`Detached::start`]: then it starts no other one.
pub fn is_started() -> bool {
    Environment::process().get(STARTED_VARIABLE).is_some()
}

/// In the started process: how long its start may take. None if this process was not started by [`Detached::start`].
pub fn start_budget() -> Option<Duration> {
    let value = Environment::process().get(STARTED_VARIABLE)?;
    value.to_str()?.parse().ok().map(Duration::from_millis)
}

/// In the started process: takes the report pipe over from standard output, which is nowhere from then on. None if this
/// process was not started by [`Detached::start`].
pub fn take_report() -> Option<File> {
    if !is_started() {
        return None;
    }
    let pipe = io::stdout().as_fd().try_clone_to_owned().ok()?;
    let nowhere = File::options().write(true).open("/dev/null").ok()?;
    nix::unistd::dup2_stdout(&nowhere).ok()?;
    Some(pipe.into())
}

/// Sends this process's standard error to `file`.
///
/// # Errors
/// What the system answers.
pub fn redirect_stderr(file: &File) -> io::Result<()> {
    Ok(nix::unistd::dup2_stderr(file)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(started: &mut Started) -> String {
        let deadline = Deadline::after(Duration::from_secs(30));
        let mut text = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match started.read(&mut buffer, deadline).unwrap() {
                Reading::Bytes(bytes) => text.extend_from_slice(&buffer[..bytes]),
                Reading::End => return String::from_utf8(text).unwrap(),
                Reading::Late => panic!("no end of file"),
            }
        }
    }

    fn shell(script: &str, environment: &Environment) -> Started {
        let args = ["-c".into(), script.into()];
        let program = Path::new("/bin/sh");
        let budget = Duration::from_millis(1234);
        Detached { program, args: &args, cwd: Path::new("/"), stderr: None, environment, budget }.start().unwrap()
    }

    #[test]
    fn it_holds_nothing_of_its_starter() {
        // A descriptor that is not close-on-exec, as any other code of the starter may hold one.
        let (leaked, _other_end) = nix::unistd::pipe().unwrap();
        let environment =
            Environment::of([("PATH", "/usr/bin:/bin"), ("SECRET_A", "1"), ("LC_ALL", "C"), ("TMPDIR", "")]);
        let script = "umask; pwd; ulimit -Sn; ulimit -Hn; ls -m /proc/$$/fd; \
                      grep -E 'Sig(Blk|Ign)' /proc/$$/status | tr -d ' \\t\\n'; echo; ps -o sid= -p $$ | tr -d ' '; \
                      echo $$; env | sort";
        let mut started = shell(script, &environment);
        let text = read_all(&mut started);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["0077", "/"]);
        assert_eq!(lines[2], lines[3], "the soft limit of open files is the hard one");
        assert_eq!(lines[4].trim(), "0, 1, 2");
        // Signals above 31 are the C library's own and real-time ones.
        let (blocked, ignored) = lines[5].strip_prefix("SigBlk:").unwrap().split_once("SigIgn:").unwrap();
        assert_eq!(u64::from_str_radix(blocked, 16), Ok(0));
        assert_eq!(u64::from_str_radix(ignored, 16).unwrap() & 0x7fff_ffff, 0);
        assert_eq!(lines[6], lines[7], "it leads its own session");
        let variables: Vec<&str> = lines[8..].to_vec();
        assert!(variables.contains(&"OSTLER_BROKER_START=1234") && variables.contains(&"LC_ALL=C"), "{variables:?}");
        assert!(!text.contains("SECRET_A"));
        assert!(started.ended(Deadline::after(Duration::from_secs(30))).unwrap().success());
        drop(leaked);
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error_at_once() {
        let environment = Environment::default();
        let program = Path::new("/nonexistent/ostler");
        let (cwd, budget) = (Path::new("/"), Duration::ZERO);
        let refused = Detached { program, args: &[], cwd, stderr: None, environment: &environment, budget };
        assert_eq!(refused.start().unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_silent_one_is_late_and_a_dead_one_is_at_its_end() {
        let environment = Environment::of([("PATH", "/usr/bin:/bin")]);
        let mut started = shell("echo x; exec sleep 1000", &environment);
        let mut buffer = [0; 16];
        let soon = || Deadline::after(Duration::from_secs(30));
        assert_eq!(started.read(&mut buffer, soon()).unwrap(), Reading::Bytes(2));
        assert_eq!(started.read(&mut buffer, Deadline::after(Duration::ZERO)).unwrap(), Reading::Late);
        assert_eq!(started.ended(Deadline::after(Duration::ZERO)), None);
        started.child.kill().unwrap();
        assert_eq!(started.read(&mut buffer, soon()).unwrap(), Reading::End);
        assert!(!started.ended(soon()).unwrap().success());
    }
}
