//! What machine this is, and how busy it was.

use std::path::Path;
use std::time::Instant;

/// How long something has waited for a processor, as the kernel counts it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pressure {
    waited_us: Option<f64>,
    at: Instant,
}

impl Pressure {
    pub(crate) fn now() -> Pressure {
        let text = std::fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
        let total = text.lines().next().and_then(|some| some.rsplit_once("total=")).map(|(_, total)| total);
        Pressure { waited_us: total.and_then(|total| total.trim().parse().ok()), at: Instant::now() }
    }

    /// The part of the time since then in which something waited for a processor; not a number where the kernel does not say.
    pub(crate) fn share_since(self) -> f64 {
        let now = Pressure::now();
        let waited = now.waited_us.zip(self.waited_us).map_or(f64::NAN, |(now, before)| now - before);
        waited / (now.at.duration_since(self.at).as_secs_f64() * 1e6)
    }
}

/// Processors, file system and kernel, in one line. Nothing in it tells one machine from another of its kind.
pub(crate) fn kind(folder: &Path) -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel: String = kernel.trim().split('.').take(2).collect::<Vec<_>>().join(".");
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    let holding = mounts.filter(|(mounted, _)| folder.starts_with(mounted)).max_by_key(|(mounted, _)| mounted.len());
    let file_system = holding.map_or("unknown", |(_, name)| name);
    format!("{cores} virtual cores, {file_system}, Linux {kernel}")
}
