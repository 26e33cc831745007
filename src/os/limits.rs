//! What a command takes from the process that asked for it, besides its environment: the file mode mask and the soft
//! resource limits, the latter by the names that they have on the wire and in `spec.json`.

use std::fs::File;
use std::io;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask as set_umask};

/// The limits that travel. A name stays what it is: specs on disk hold it.
pub const LIMITS: [(&str, Resource); 9] = [
    ("as", Resource::RLIMIT_AS),
    ("core", Resource::RLIMIT_CORE),
    ("cpu", Resource::RLIMIT_CPU),
    ("data", Resource::RLIMIT_DATA),
    ("fsize", Resource::RLIMIT_FSIZE),
    ("memlock", Resource::RLIMIT_MEMLOCK),
    ("nofile", Resource::RLIMIT_NOFILE),
    ("nproc", Resource::RLIMIT_NPROC),
    ("stack", Resource::RLIMIT_STACK),
];

/// The limit of this name.
#[must_use]
pub fn find(name: &str) -> Option<Resource> {
    LIMITS.iter().find(|(known, _)| *known == name).map(|(_, resource)| *resource)
}

/// This process's soft limits, by name; `None` where there is no limit. What the system does not tell is left out.
#[must_use]
pub fn soft() -> Vec<(&'static str, Option<u64>)> {
    let known = LIMITS.iter().filter_map(|(name, resource)| Some((*name, getrlimit(*resource).ok()?.0)));
    known.map(|(name, value)| (name, (value != RLIM_INFINITY).then_some(value))).collect()
}

/// How many descriptors a process of this user has, and how many it may have at the most.
///
/// # Errors
/// If the system does not show them.
#[cfg(target_os = "linux")]
pub fn descriptors(pid: u32) -> io::Result<(u64, u64)> {
    let used = std::fs::read_dir(format!("/proc/{pid}/fd"))?.count();
    let table = std::fs::read_to_string(format!("/proc/{pid}/limits"))?;
    let row = table.lines().find_map(|line| line.strip_prefix("Max open files"));
    let limit = row.and_then(|row| row.split_ascii_whitespace().next()).ok_or(io::ErrorKind::InvalidData)?;
    let limit = if limit == "unlimited" { u64::MAX } else { limit.parse().map_err(io::Error::other)? };
    Ok((u64::try_from(used).unwrap_or(u64::MAX), limit))
}

/// How many descriptors a process of this user has, and how many it may have at the most.
///
/// # Errors
/// Always: here the system does not show them.
#[cfg(not(target_os = "linux"))]
pub fn descriptors(_: u32) -> io::Result<(u64, u64)> {
    Err(io::ErrorKind::Unsupported.into())
}

/// How many descriptors a process that this one starts can have: the hard limit.
///
/// # Errors
/// What the system answers.
pub fn descriptors_max() -> io::Result<u64> {
    Ok(getrlimit(Resource::RLIMIT_NOFILE)?.1)
}

/// Sets a soft limit of this process, as far up as the hard limit lets it; `None` asks for no limit. The hard limit stays.
///
/// # Errors
/// `InvalidInput` for a name that is none, otherwise what the system says.
pub fn set_soft(name: &str, value: Option<u64>) -> io::Result<()> {
    let Some(resource) = find(name) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("there is no limit `{name}`")));
    };
    let (_, hard) = getrlimit(resource)?;
    Ok(setrlimit(resource, value.unwrap_or(RLIM_INFINITY).min(hard), hard)?)
}

/// This process's file mode mask. The system can only be asked by setting it: call this while there is one thread.
#[must_use]
pub fn umask() -> u32 {
    let mask = set_umask(Mode::from_bits_truncate(0o077));
    set_umask(mask);
    mask.bits()
}

/// Whether so many more files can be open now: for a library that ends the process where it has none.
///
/// # Errors
/// What the system answers to the first that cannot.
pub fn descriptors_left(count: usize) -> io::Result<()> {
    let open: io::Result<Vec<File>> = (0..count).map(|_| File::open("/dev/null")).collect();
    open.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_sorted() {
        assert!(LIMITS.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(find("nofile"), Some(Resource::RLIMIT_NOFILE));
        assert_eq!(find("files"), None);
    }

    #[test]
    fn a_soft_limit_moves_and_stops_at_the_hard_one() {
        let (before, hard) = getrlimit(Resource::RLIMIT_CORE).unwrap();
        set_soft("core", Some(0)).unwrap();
        assert!(soft().contains(&("core", Some(0))));
        set_soft("core", None).unwrap();
        assert_eq!(getrlimit(Resource::RLIMIT_CORE).unwrap(), (hard, hard));
        set_soft("core", (before != RLIM_INFINITY).then_some(before)).unwrap();
        assert_eq!(set_soft("files", Some(1)).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn asking_for_the_mask_leaves_it() {
        assert_eq!(umask(), umask());
        assert!(umask() <= 0o777);
    }
}
