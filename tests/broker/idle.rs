//! An idle broker wakes once a second to see whether it still is the broker, and for nothing else; an idle host not at all.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use crate::support::{Process, Root, SOON, wait_until};

/// How long is looked at.
const SECONDS: f64 = 5.0;

/// Seconds since boot.
fn uptime() -> f64 {
    let text = fs::read_to_string("/proc/uptime").unwrap();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap()
}

/// How often each thread of a process went to sleep by itself, by thread id and name.
fn sleeps(process: Process) -> BTreeMap<(String, String), u64> {
    let tasks = fs::read_dir(format!("/proc/{}/task", process.pid)).unwrap().flatten();
    let of = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()));
        let id = task.file_name().to_string_lossy().into_owned();
        Some(((id, field("Name:")?), field("voluntary_ctxt_switches:")?.parse().ok()?))
    };
    tasks.filter_map(of).collect()
}

#[test]
fn field_j01_an_idle_broker_wakes_for_its_watch_only_and_its_hosts_not_at_all() {
    let root = Root::new();
    let sessions: Vec<_> = (0..3).map(|_| root.spawn_fixture(&[], "sleep")).collect();
    let broker = root.broker().unwrap();
    let hosts: Vec<Process> = sessions.iter().map(|session| Process::of_value(&session["host_pid"])).collect();
    // Helper threads of the work before leave after some idle seconds; what stays is what an idle broker is.
    let mut threads = sleeps(broker).len();
    let calm = uptime();
    wait_until(SOON, "the helpers to leave", || {
        threads = threads.min(sleeps(broker).len());
        threads <= 3 || uptime() > calm + 15.0
    });
    let (before, hosts_before, began) =
        (sleeps(broker), hosts.iter().map(|host| sleeps(*host)).collect::<Vec<_>>(), uptime());
    wait_until(Duration::from_secs(60), "some seconds to pass", || uptime() >= began + SECONDS);
    let (after, hosts_after, ended) =
        (sleeps(broker), hosts.iter().map(|host| sleeps(*host)).collect::<Vec<_>>(), uptime());
    assert_eq!(before.len(), after.len(), "threads come or go: {before:?} {after:?}");
    let mut awake = 0;
    for (thread, count) in &after {
        let more = count - before.get(thread).copied().unwrap_or(0);
        let is_main = thread.0 == broker.pid.to_string();
        assert!(is_main || more == 0, "{thread:?} woke {more} times");
        awake += more;
    }
    // The watch sleeps once a look; a look may wait for the disk.
    let looks = (ended - began).ceil() + 1.0;
    assert!(f64::from(u32::try_from(awake).unwrap()) <= looks * 4.0, "{awake} times in {looks} looks");
    assert_eq!(hosts_before, hosts_after, "a host woke while nothing happened");
}
