//! `list --watch`: what changes is shown as it comes, also by the next broker, and nothing is asked meanwhile.

use crate::support::{Process, Root, Running, SOON, wait_until};
use std::fs;

/// How often a process went to sleep by itself.
fn sleeps(process: Process) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.pid)).expect("it lives");
    let count =
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).expect("the kernel says it");
    count.trim().parse().expect("a number")
}

/// Waits until the broker has looked after itself some times, once a second each, and this process has not woken meanwhile.
#[track_caller]
fn rests(root: &Root, watch: &Running) {
    let broker = root.broker().expect("it answers");
    wait_until(SOON, "the list to sleep while nothing changes", || {
        let (before, of_broker) = (sleeps(watch.process()), sleeps(broker));
        wait_until(SOON, "the broker's watch", || sleeps(broker) >= of_broker + 6);
        sleeps(watch.process()) == before
    });
}

#[test]
fn a_watched_list_shows_what_changes_and_asks_for_nothing_while_nothing_does() {
    let root = Root::new();
    root.ensure();
    let watch = Running::start(&mut root.command(["--json", "list", "--watch"]));
    wait_until(SOON, "the first list", || watch.text().lines().count() == 1);
    rests(&root, &watch);
    root.json(["spawn", "--name", "first", "--", "sleep", "1000"]);
    watch.says("\"name\":\"first\"");
    watch.says("\"status\":\"ready\"");
    rests(&root, &watch);
    root.broker().expect("it answers").kill_9();
    root.json(["spawn", "--name", "second", "--", "sleep", "1000"]);
    watch.says("\"name\":\"second\"");
    rests(&root, &watch);
    root.ostler(["stop", "first"]).exits(0);
    watch.says("\"status\":\"stopped\"");
}
