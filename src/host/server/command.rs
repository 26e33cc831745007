//! The command between fork and exec. The host has one thread, so its fork may run ordinary code.
//!
//! The child first lets go of the life lock and the endpoint, ties its life to the host's, and waits at the gate: one
//! byte opens it, end of file means that the host is gone or gave up, and then nothing has happened. What fails after
//! the gate is told through the status pipe, which exec closes.

#![expect(unsafe_code, reason = "fork, exec and the descriptor work between them")]

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use nix::errno::Errno;
use nix::libc;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{ForkResult, Pid, chdir, fork, getppid, setpgid};

use crate::host::cause::Cause;
use crate::host::spec::Spec;
use crate::host::wire::{StartFailure, StartPhase};
use crate::os::limits;
use crate::os::spawn::c_strings;

/// Where a command is looked up whose environment has no `PATH`.
const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// Everything that the child needs, made before the fork.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    /// What to run.
    pub(super) spec: &'a Spec,
    /// `NAME=value`, the whole environment.
    pub(super) environment: Vec<OsString>,
    /// Standard input, output and error, none of which is descriptor 0, 1 or 2.
    pub(super) stdio: [OwnedFd; 3],
}

/// A command that waits at the gate.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Its pid and process group.
    pub(super) pid: Pid,
    /// Written to, it opens; dropped, the child ends.
    pub(super) gate: PipeWriter,
    /// Empty at the end of file: executing. Otherwise a failure, see [`decode_failure`].
    pub(super) status: PipeReader,
}

/// Forks the command up to its gate.
///
/// # Errors
/// If there is no process or descriptor to be had.
pub(super) fn fork_at_gate(plan: Plan<'_>) -> io::Result<Waiting> {
    let (gate_reader, gate) = io::pipe()?;
    let (status, status_writer) = io::pipe()?;
    let arguments = c_strings(plan.spec.command.iter().cloned().map(OsString::from).collect())?;
    let environment = c_strings(plan.environment.clone())?;
    let host = Pid::this();
    // SAFETY: this process has one thread, so the child finds every lock of the allocator and of std free.
    match unsafe { fork() }? {
        ForkResult::Child => {
            let mut child = Child { gate: gate_reader, status: status_writer };
            let failure = child.run(&plan, host, &arguments, &environment);
            if let Some((phase, errno)) = failure {
                // Nobody is left to tell if this fails.
                drop(child.status.write_all(&encode_failure(phase, errno)));
            }
            // SAFETY: ends the process at once, without running what belongs to the host.
            unsafe { libc::_exit(127) }
        }
        ForkResult::Parent { child } => {
            // Both sides do it, so that it is done before either goes on. It fails only once the child is gone.
            let _ = setpgid(child, child);
            Ok(Waiting { pid: child, gate, status })
        }
    }
}

struct Child {
    gate: PipeReader,
    status: PipeWriter,
}

impl Child {
    /// Returns only if it may not go on (`None`) or cannot.
    fn run(
        &mut self,
        plan: &Plan<'_>,
        host: Pid,
        arguments: &[CString],
        environment: &[CString],
    ) -> Option<(StartPhase, Errno)> {
        let host_failed = |errno| Some((StartPhase::Host, errno));
        // Armed first, then checked: a host that died before would never send the signal.
        if let Err(errno) = set_pdeathsig(Signal::SIGKILL) {
            return host_failed(errno);
        }
        if getppid() != host {
            return None;
        }
        if let Err(errno) = self.take_stdio(plan) {
            return host_failed(errno);
        }
        if !matches!(self.gate.read(&mut [0]), Ok(1)) {
            return None;
        }
        if let Err(failure) = self.enter(plan) {
            return Some(failure);
        }
        reset_signals();
        Some((StartPhase::Exec, execute(arguments, environment)))
    }

    /// Three descriptors, the gate and the status pipe; every other one is closed, the life lock and endpoint with them.
    fn take_stdio(&self, plan: &Plan<'_>) -> Result<(), Errno> {
        for (target, fd) in (0..).zip(&plan.stdio) {
            // SAFETY: both numbers are descriptors of this process; 0 to 2 belong to nobody here.
            Errno::result(unsafe { libc::dup2(fd.as_raw_fd(), target) })?;
        }
        let mut keep = [self.gate.as_raw_fd(), self.status.as_raw_fd()];
        keep.sort_unstable();
        close_between(3, keep[0])?;
        close_between(keep[0] + 1, keep[1])?;
        close_between(keep[1] + 1, RawFd::MAX)
    }

    /// Group, mask, place and limits.
    fn enter(&self, plan: &Plan<'_>) -> Result<(), (StartPhase, Errno)> {
        let host = |errno| (StartPhase::Host, errno);
        setpgid(Pid::from_raw(0), Pid::from_raw(0)).map_err(host)?;
        umask(Mode::from_bits_truncate(plan.spec.umask));
        chdir(plan.spec.cwd.as_os_str()).map_err(|errno| (StartPhase::Cwd, errno))?;
        for limit in &plan.spec.limits {
            let set = limits::set_soft(&limit.resource, limit.value);
            set.map_err(|error| (StartPhase::Limit, Errno::from_raw(error.raw_os_error().unwrap_or(libc::EINVAL))))?;
        }
        Ok(())
    }
}

/// Closes the descriptors from `first` up to but not including `end`.
pub(super) fn close_between(first: RawFd, end: RawFd) -> Result<(), Errno> {
    let (Ok(first), Ok(last)) = (u32::try_from(first), u32::try_from(end - 1)) else {
        return Ok(());
    };
    if first > last {
        return Ok(());
    }
    // SAFETY: plain integers; what is closed is used by nobody in this forked process.
    Errno::result(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0_u32) })?;
    Ok(())
}

/// Every signal back to what it does by itself, and none blocked.
fn reset_signals() {
    // The kernel's own structure, all zero: default action, no flags, empty mask. Not through libc, which keeps two
    // signals for itself, leaves them ignored in whom it spawns, and refuses to set them.
    let default = [0_u64; 4];
    for signal in 1..=64 {
        // SAFETY: the structure is as large as any architecture's; no handler is set. What cannot be set is refused.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), 0_usize, 8_usize) };
    }
    // Cannot fail for a set that is in memory.
    let _ = SigSet::empty().thread_set_mask();
}

/// What exec says of a folder of `PATH` that does not have the command.
const NOT_HERE: [Errno; 6] =
    [Errno::ENOENT, Errno::ENOTDIR, Errno::ESTALE, Errno::ENODEV, Errno::ETIMEDOUT, Errno::ENAMETOOLONG];

/// Looks the command up in its own `PATH` and executes it; returns why that failed. A file without a known format is an
/// error and not given to a shell.
fn execute(arguments: &[CString], environment: &[CString]) -> Errno {
    let Some(name) = arguments.first() else {
        return Errno::ENOENT;
    };
    if name.as_bytes().contains(&b'/') {
        return exec(name, arguments, environment);
    }
    let path = environment.iter().find_map(|entry| entry.to_bytes().strip_prefix(b"PATH="));
    let mut refused = None;
    for folder in path.unwrap_or(DEFAULT_PATH).split(|byte| *byte == b':') {
        let Ok(file) = CString::new(candidate(folder, name)) else {
            continue;
        };
        let errno = exec(&file, arguments, environment);
        if errno == Errno::EACCES {
            refused = Some(errno);
        } else if !NOT_HERE.contains(&errno) {
            return errno;
        }
    }
    refused.unwrap_or(Errno::ENOENT)
}

/// An empty entry of `PATH` is the working directory.
fn candidate(folder: &[u8], name: &CStr) -> Vec<u8> {
    let folder = if folder.is_empty() { b".".as_slice() } else { folder };
    [folder, b"/", name.to_bytes()].concat()
}

fn exec(file: &CStr, arguments: &[CString], environment: &[CString]) -> Errno {
    match nix::unistd::execve(file, arguments, environment) {
        Ok(never) => match never {},
        Err(errno) => errno,
    }
}

fn encode_failure(phase: StartPhase, errno: Errno) -> [u8; 5] {
    let phase = match phase {
        StartPhase::Exec => 1,
        StartPhase::Cwd => 2,
        StartPhase::Limit => 3,
        StartPhase::Host => 4,
    };
    let [a, b, c, d] = errno_number(errno).to_le_bytes();
    [phase, a, b, c, d]
}

#[expect(clippy::as_conversions, reason = "the enum is the kernel's numbering and has no other conversion")]
fn errno_number(errno: Errno) -> i32 {
    errno as i32
}

/// What a child that could not execute has told, in words for who asked for the command.
pub(super) fn decode_failure(bytes: &[u8], spec: &Spec) -> StartFailure {
    let &[phase, a, b, c, d] = bytes else {
        let reason = "the command's process ended on its way to exec".into();
        return StartFailure { phase: StartPhase::Host, reason, errno: None, cause: None };
    };
    let errno = Errno::from_raw(i32::from_le_bytes([a, b, c, d]));
    let name = spec.command.first().cloned().unwrap_or_default();
    let cause = Cause::of(errno);
    let (phase, reason) = match phase {
        // Only where the file is there is what was not found something else than the command.
        1 if errno == Errno::ENOENT && is_there(name.as_bytes(), spec) => {
            let reason = format!("cannot execute {}: its interpreter was not found", name.display());
            return StartFailure {
                phase: StartPhase::Exec,
                reason,
                errno: Some(errno_number(errno)),
                cause: Some(Cause::Other),
            };
        }
        1 => (StartPhase::Exec, exec_reason(&name.display(), name.as_bytes(), errno, spec)),
        2 => (StartPhase::Cwd, format!("cannot enter the working directory {}: {}", spec.cwd.display(), errno.desc())),
        3 => (StartPhase::Limit, format!("cannot set the resource limits: {}", errno.desc())),
        _ => (StartPhase::Host, format!("cannot prepare the command's process: {}", errno.desc())),
    };
    StartFailure { phase, reason, errno: Some(errno_number(errno)), cause: Some(cause) }
}

/// Whether the command is named by its path and a file stands there.
fn is_there(name: &[u8], spec: &Spec) -> bool {
    name.contains(&b'/') && file_of(name, spec).exists()
}

fn file_of(name: &[u8], spec: &Spec) -> PathBuf {
    spec.cwd.as_path().join(OsStr::from_bytes(name))
}

fn exec_reason(name: &str, bytes: &[u8], errno: Errno, spec: &Spec) -> String {
    let is_path = bytes.contains(&b'/');
    if errno == Errno::ENOENT && is_path {
        return format!("command not found: there is no file {name}");
    }
    if errno == Errno::ENOENT {
        return format!("command not found: {name} is in no folder of the session's PATH");
    }
    let why = if errno == Errno::ENOEXEC {
        "neither a program nor a script that names its interpreter"
    } else if errno == Errno::E2BIG {
        "command line and environment are too long for this system"
    } else if errno == Errno::EACCES && is_path && file_of(bytes, spec).is_dir() {
        "it is a directory"
    } else {
        errno.desc()
    };
    format!("cannot execute {name}: {why}")
}

/// The command's environment: the spec's, then ours; a later entry of a name wins and each name stands once.
pub(super) fn environment(spec: &Spec, ours: Vec<(&str, OsString)>) -> Vec<OsString> {
    let named = spec.env.iter().map(|var| (var.name.as_os_str().to_owned(), var.value.as_os_str().to_owned()));
    let ours = ours.into_iter().map(|(name, value)| (OsString::from(name), value));
    let mut entries: Vec<(OsString, OsString)> = Vec::new();
    let mut places = std::collections::BTreeMap::new();
    for (name, value) in named.chain(ours) {
        match places.get(&name) {
            Some(place) => {
                let entry: &mut (OsString, OsString) = &mut entries[*place];
                entry.1 = value;
            }
            None => {
                places.insert(name.clone(), entries.len());
                entries.push((name, value));
            }
        }
    }
    let join = |(name, value): (OsString, OsString)| [name.as_bytes(), b"=", value.as_bytes()].concat();
    entries.into_iter().map(|entry| OsString::from_vec(join(entry))).collect()
}

#[cfg(test)]
mod tests {
    use super::{Cause, Errno, StartPhase, candidate, decode_failure, encode_failure, environment};
    use crate::host::spec::{Adapter, EnvVar, Frame, Spec, Stdin};

    fn spec(command: &str, cwd: &str) -> Spec {
        Spec {
            command: vec![command.into()],
            cwd: cwd.into(),
            env: [("A", "1"), ("B", "2"), ("A", "3")]
                .map(|(name, value)| EnvVar { name: name.into(), value: value.into() })
                .to_vec(),
            umask: 0o22,
            limits: Vec::new(),
            adapter: Adapter::Inbox,
            frame: Frame::Line,
            prompt: None,
            sign: None,
            stdin: Stdin::Empty,
            follow: false,
        }
    }

    fn check(phase: StartPhase, errno: Errno, command: &str, want: &str) {
        let failure = decode_failure(&encode_failure(phase, errno), &spec(command, "/usr"));
        assert_eq!((failure.phase, failure.reason.as_str()), (phase, want));
        assert_eq!(failure.errno, Some(super::errno_number(errno)));
    }

    #[test]
    fn each_failure_says_what_was_wrong() {
        let exec = StartPhase::Exec;
        check(exec, Errno::ENOENT, "nix", "command not found: nix is in no folder of the session's PATH");
        check(exec, Errno::ENOENT, "./nowhere", "command not found: there is no file ./nowhere");
        check(exec, Errno::ENOENT, "./bin", "cannot execute ./bin: its interpreter was not found");
        check(exec, Errno::EACCES, "x", "cannot execute x: Permission denied");
        check(exec, Errno::EACCES, "./bin", "cannot execute ./bin: it is a directory");
        check(
            StartPhase::Cwd,
            Errno::ENOENT,
            "x",
            "cannot enter the working directory /usr: No such file or directory",
        );
        check(StartPhase::Limit, Errno::EPERM, "x", "cannot set the resource limits: Operation not permitted");
        assert_eq!(decode_failure(b"", &spec("x", "/")).phase, StartPhase::Host);
    }

    /// Report of a missing command and of a missing interpreter: one errno, two causes.
    #[test]
    fn each_failure_says_what_kind_it_is() {
        let cause = |errno, command: &str| {
            decode_failure(&encode_failure(StartPhase::Exec, errno), &spec(command, "/usr")).cause.unwrap()
        };
        assert_eq!(cause(Errno::ENOENT, "nix"), Cause::NotFound);
        assert_eq!(cause(Errno::ENOENT, "./nowhere"), Cause::NotFound);
        assert_eq!(cause(Errno::ENOENT, "./bin"), Cause::Other);
        assert_eq!(cause(Errno::ENOTDIR, "./x/y"), Cause::NotFound);
        assert_eq!(cause(Errno::EACCES, "x"), Cause::Denied);
        assert_eq!(cause(Errno::ENOEXEC, "./bin"), Cause::Other);
    }

    #[test]
    fn the_last_of_a_name_wins_and_ours_are_last() {
        let got = environment(&spec("x", "/"), vec![("OSTLER_ROOT", "/r".into()), ("B", "4".into())]);
        assert_eq!(got, ["A=3", "B=4", "OSTLER_ROOT=/r"]);
    }

    #[test]
    fn an_empty_entry_of_path_is_here() {
        assert_eq!(candidate(b"", c"x"), b"./x");
        assert_eq!(candidate(b"/bin", c"x"), b"/bin/x");
    }
}
