//! The kernel's process table, read only: who runs, whose child it is, in which group, with which environment.
//! It looks and never signals; a process that ends while being looked at is simply not there.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;

use nix::errno::Errno;

/// Whether a process still executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs, sleeps or is stopped.
    Runs,
    /// It ended and waits to be reaped, or is being taken down.
    Ended,
}

/// One row of the process table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Process id.
    pub pid: u32,
    /// Whether it executes.
    pub state: State,
    /// It was stopped, and does nothing until somebody lets it go on.
    pub stopped: bool,
    /// Parent, or the process that adopted it.
    pub parent: u32,
    /// Process group.
    pub group: u32,
    /// Start time in clock ticks since boot.
    pub start_ticks: u64,
}

/// The row of one process, or `None` if no such process is shown.
///
/// # Errors
/// If `/proc` refuses or its format is not the documented one.
pub fn stat(pid: u32) -> io::Result<Option<Stat>> {
    let Some(bytes) = read_entry(&format!("/proc/{pid}/stat"))? else {
        return Ok(None);
    };
    match parse_stat(&bytes) {
        Some(stat) => Ok(Some(stat)),
        // A process in its very last instant can show an empty file.
        None if bytes.is_empty() => Ok(None),
        None => Err(io::Error::other(format!("/proc/{pid}/stat has an unknown format"))),
    }
}

/// Whether a process of this number is stopped, as far as the table shows it.
#[must_use]
pub fn is_stopped(pid: u32) -> bool {
    matches!(stat(pid), Ok(Some(row)) if row.stopped)
}

/// The program that a process executes, also where its file was replaced or removed. As long as this is open it can be started again, from
/// [`image_path`].
///
/// # Errors
/// If it has ended, or is somebody else's.
pub fn image(pid: u32) -> io::Result<fs::File> {
    fs::File::open(format!("/proc/{pid}/exe"))
}

/// Where the program of [`image`] can be started from, by this process or a child of it.
pub fn image_path(image: &fs::File) -> std::path::PathBuf {
    use std::os::fd::AsRawFd;
    format!("/proc/{}/fd/{}", std::process::id(), image.as_raw_fd()).into()
}

/// Every process that is shown to us.
///
/// # Errors
/// If `/proc` cannot be listed. A process that ends meanwhile is left out.
pub fn all() -> io::Result<Vec<Stat>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Ok(Some(row)) = stat(pid) {
            found.push(row);
        }
    }
    Ok(found)
}

/// The environment that a process was started with, or `None` if it is not ours to read or gone.
#[must_use]
pub fn environment(pid: u32) -> Option<Vec<OsString>> {
    Some(strings(&read_entry(&format!("/proc/{pid}/environ")).ok()??))
}

/// The command line of a process, or `None` if it is gone. Empty for kernel threads and unreaped processes.
#[must_use]
pub fn command_line(pid: u32) -> Option<Vec<OsString>> {
    Some(strings(&read_entry(&format!("/proc/{pid}/cmdline")).ok()??))
}

/// The kernel's id of this boot.
///
/// # Errors
/// If `/proc` is not there.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Inode of our PID namespace.
///
/// # Errors
/// If `/proc` is not there.
pub fn pid_namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

/// The file's content, or `None` if its process is gone. Read through a small buffer: `/proc` files have no size.
fn read_entry(path: &str) -> io::Result<Option<Vec<u8>>> {
    let gone =
        |error: &io::Error| error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ESRCH);
    let mut bytes = Vec::new();
    match fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some(bytes)),
        Err(error) if gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The documented layout: `pid (comm) state ppid pgrp session ... starttime`, where `comm` may hold any byte.
fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    let open = bytes.iter().position(|byte| *byte == b'(')?;
    let close = bytes.iter().rposition(|byte| *byte == b')')?;
    let pid = std::str::from_utf8(bytes.get(..open)?).ok()?.trim().parse().ok()?;
    let rest = std::str::from_utf8(bytes.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let (state, stopped) = match fields.next()? {
        "Z" | "X" | "x" => (State::Ended, false),
        letter => (State::Runs, letter == "T" || letter == "t"),
    };
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    // Field 22 of the file; `group` was field 5.
    let start_ticks = fields.nth(16)?.parse().ok()?;
    Some(Stat { pid, state, stopped, parent, group, start_ticks })
}

fn strings(bytes: &[u8]) -> Vec<OsString> {
    let parts = bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    parts.map(|part| OsString::from_vec(part.to_vec())).collect()
}

/// Direct children of this process, unreaped ones included. Complete only for a process of one thread, because the
/// kernel lists them by the thread that has them.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn own_children() -> io::Result<Vec<u32>> {
    let me = std::process::id();
    match fs::read_to_string(format!("/proc/{me}/task/{me}/children")) {
        Ok(list) => Ok(list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()),
        // Kernels built without that file: walk the whole table.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(all()?.into_iter().filter(|row| row.parent == me).map(|row| row.pid).collect())
        }
        Err(error) => Err(error),
    }
}

/// The errno of an I/O error, where the system gave one.
#[must_use]
pub fn errno(error: &io::Error) -> Option<Errno> {
    error.raw_os_error().map(Errno::from_raw)
}

#[cfg(test)]
mod tests {
    use super::{Stat, State, own_children, parse_stat, stat};

    #[test]
    fn a_name_may_hold_anything() {
        let line = b"42 (a) R ) S 7 9 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 12345 99";
        let want = Stat { pid: 42, state: State::Runs, stopped: false, parent: 7, group: 9, start_ticks: 12345 };
        assert_eq!(parse_stat(line), Some(want));
        let stopped = b"42 (a) R ) T 7 9 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 12345 99";
        assert_eq!(parse_stat(stopped), Some(Stat { stopped: true, ..want }));
        assert_eq!(parse_stat(b"42 (zombie"), None);
    }

    #[test]
    fn the_table_shows_us() {
        let me = stat(std::process::id()).unwrap().unwrap();
        assert_eq!(me.pid, std::process::id());
        assert!(super::all().unwrap().contains(&me));
        assert!(!super::command_line(me.pid).unwrap().is_empty());
        assert!(own_children().is_ok());
    }
}
