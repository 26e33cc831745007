//! Starts a program detached: a session of its own, clean signals, an explicit environment, no descriptor but its three
//! (all `/dev/null`) and those that are named.
//!
//! Between fork and exec a child holds copies of all locks of its parent (design 3.1, lock hygiene), so nothing but
//! descriptor work happens there: this is `posix_spawn`, on Linux without even a copy of the address space.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use nix::fcntl::OFlag;
use nix::libc;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::SigSet;
use nix::sys::stat::Mode;

/// What to start.
#[derive(Debug)]
pub struct Detached<'a> {
    /// The program's file; see [`OWN_IMAGE`].
    pub program: &'a Path,
    /// Its arguments, the name first.
    pub arguments: Vec<OsString>,
    /// Its whole environment as `NAME=value`.
    pub environment: Vec<OsString>,
    /// Descriptors that it inherits under their own numbers. All others are close-on-exec in our process.
    pub keep: Vec<BorrowedFd<'a>>,
}

/// The executable that this process runs, whatever has become of the file on disk.
pub const OWN_IMAGE: &str = "/proc/self/exe";

/// Starts it and returns its pid, which stays its own until the caller reaps it.
///
/// # Errors
/// If there is no such program, no process to be had, or an argument holds a NUL byte.
pub fn detached(what: Detached<'_>) -> io::Result<u32> {
    let mut actions = PosixSpawnFileActions::init()?;
    actions.add_open(0, "/dev/null", OFlag::O_RDWR, Mode::empty())?;
    actions.add_dup2(0, 1)?;
    actions.add_dup2(0, 2)?;
    for fd in &what.keep {
        // Onto itself: that takes the close-on-exec mark away in the child only.
        actions.add_dup2(fd.as_raw_fd(), fd.as_raw_fd())?;
    }
    let mut attributes = PosixSpawnAttr::init()?;
    let set_sid = PosixSpawnFlags::from_bits_retain(libc::c_int::from(libc::POSIX_SPAWN_SETSID));
    attributes.set_flags(set_sid | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF)?;
    attributes.set_sigmask(&SigSet::empty())?;
    attributes.set_sigdefault(&SigSet::all())?;
    let arguments = c_strings(what.arguments)?;
    let environment = c_strings(what.environment)?;
    let pid = posix_spawn(what.program, &actions, &attributes, &arguments, &environment)?;
    u32::try_from(pid.as_raw()).map_err(io::Error::other)
}

/// As the kernel takes them.
///
/// # Errors
/// `InvalidInput` if one holds a NUL byte.
pub fn c_strings(strings: Vec<OsString>) -> io::Result<Vec<CString>> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
    strings.into_iter().map(|string| CString::new(string.into_vec()).map_err(invalid)).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::path::Path;

    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::Pid;

    use super::{Detached, detached};

    #[test]
    fn it_leads_a_session_and_inherits_only_what_is_named() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let other = std::fs::File::open("/").unwrap();
        let script = format!("ls /proc/self/fd; echo $A; ps -o sid= -p $$ | tr -d ' '; echo $$ >&{0}", fd(&writer));
        let script = format!("{{ {script}; }} >&{}", fd(&writer));
        let what = Detached {
            program: Path::new("/bin/sh"),
            arguments: vec!["sh".into(), "-c".into(), script.into()],
            environment: vec!["A=b c".into(), "PATH=/usr/bin:/bin".into()],
            keep: vec![writer.as_fd()],
        };
        let pid = detached(what).unwrap();
        drop(writer);
        let mut said = String::new();
        reader.read_to_string(&mut said).unwrap();
        let status = waitpid(Pid::from_raw(i32::try_from(pid).unwrap()), None).unwrap();
        assert!(matches!(status, WaitStatus::Exited(_, 0)), "{status:?}");
        let lines: Vec<&str> = said.lines().collect();
        assert!(!lines.contains(&fd(&other).to_string().as_str()), "{said}");
        assert!(lines.ends_with(&["b c", &pid.to_string(), &pid.to_string()]), "{said}");
    }

    fn fd(of: &impl AsFd) -> i32 {
        std::os::fd::AsRawFd::as_raw_fd(&of.as_fd())
    }

    #[test]
    fn a_missing_program_and_a_nul_byte_are_errors() {
        let what = |program, argument: &str| Detached {
            program: Path::new(program),
            arguments: vec![argument.into()],
            environment: Vec::new(),
            keep: Vec::new(),
        };
        let missing = detached(what("/nowhere/at/all", "x")).unwrap_err();
        assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
        assert_eq!(detached(what("/bin/true", "a\0b")).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    }
}
