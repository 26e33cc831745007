//! What is found after crashes, of hosts, machines and roots, and what is done about it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::sys::signal::Signal;
use ostler::host::client::{
    Launch, LaunchOutcome, Verdict, end_starting_host, finish_dead_host, gather, judge, judge_without_lock,
};
use ostler::host::files::{self, Document};
use ostler::host::wire::{Exit, HostRecord};
use ostler::os::durable::Point;
use ostler::os::signal;
use serde_json::{Value, json};

use super::bed::{Bed, SESSION, Talk, process};
use crate::support::{Process, SOON, wait_until};

#[test]
fn field_d05_a_killed_host_takes_its_command_with_it_and_the_rest_is_finished() {
    let bed =
        Bed::fixture(&["child", "setsid -- ignore-term -- say ready -- sleep", "--", "ignore-term", "--", "sleep"]);
    let record = bed.start();
    bed.line("ready");
    let (host, command, child) = (process(&record.host), process(&record.command), bed.child());
    host.kill_9();
    wait_until(SOON, "the command's end", || !command.alive());
    // No descriptor of the lock went to the command's family, or it would still be held.
    assert!(child.alive());
    let Verdict::HostDied(found) = bed.verdict() else { panic!("{:?}", bed.verdict()) };
    assert_eq!(*found, record);
    for _ in 0..2 {
        assert_eq!(finish_dead_host(&found).unwrap(), []);
        assert!(!child.alive());
    }
    let socket = record.endpoint.address.strip_prefix("unix:").unwrap();
    assert!(!Path::new(socket).exists());
}

#[test]
fn a_dead_hosts_command_that_lives_is_ended() {
    // The kernel ends the command with its host; what if it had not? Then a record names a living process.
    let bed = Bed::fixture(&["say", "up", "--", "sleep"]);
    let record = bed.start();
    bed.line("up");
    let command = process(&record.command);
    assert_eq!(finish_dead_host(&record).unwrap(), []);
    assert!(!command.alive());
    assert_eq!(bed.ended().exit, Exit::Signal("SIGKILL".into()));
}

#[test]
fn an_exit_that_nobody_saw_is_kept() {
    let bed = Bed::fixture(&["exit", "9"]);
    bed.start();
    assert_eq!(bed.ended().exit, Exit::Code(9));
    // Whatever becomes of the lock file, it ended.
    fs::remove_file(bed.episode().join("life.lock")).unwrap();
    assert_eq!(bed.verdict(), Verdict::MissingLock);
    assert!(matches!(judge_without_lock(&bed.evidence()), Verdict::Ended(_)));
}

#[test]
fn a_removed_life_lock_does_not_hide_a_living_host() {
    let bed = Bed::fixture(&["say", "up", "--", "sleep"]);
    assert!(!bed.has_host(), "nobody has started it");
    let record = bed.start();
    bed.line("up");
    assert!(bed.has_host());
    fs::remove_file(bed.episode().join("life.lock")).unwrap();
    assert!(bed.has_host());
    assert_eq!(bed.verdict(), Verdict::MissingLock);
    assert!(!bed.episode().join("life.lock").exists(), "looking makes no lock");
    assert_eq!(judge_without_lock(&bed.evidence()), Verdict::Alive(Box::new(record.clone())));
    // Nor does another file in its place, which nobody has ever locked.
    fs::write(bed.episode().join("life.lock"), "").unwrap();
    assert!(bed.has_host());
    assert_eq!(bed.verdict(), Verdict::MissingLock);
    // The host says which folder it writes to, and the rest is as ever.
    let hello = Talk::dial(&record).ask(json!({ "request": "hello", "version": 1, "secret": record.secret }));
    assert_eq!(hello["folder"], json!(files::identity_at(&bed.episode()).unwrap()));
    process(&record.host).kill_9();
    assert_eq!(judge_without_lock(&bed.evidence()), Verdict::HostDied(Box::new(record)));
    assert!(!bed.has_host());
}

#[test]
fn a_host_that_let_go_of_its_lock_is_at_work_no_more() {
    let bed = Bed::fixture(&["exit", "9"]);
    bed.start();
    bed.ended();
    assert!(!bed.has_host() && !bed.evidence().has_host());
}

/// A folder, a link (even to a file that is locked) or a pipe in its place is no lock, and tells as much as nothing there.
#[test]
fn what_stands_in_the_life_lock_s_place_does_not_hide_a_living_host() {
    let bed = Bed::fixture(&["say", "up", "--", "sleep"]);
    let record = bed.start();
    bed.line("up");
    let lock = bed.episode().join("life.lock");
    fs::rename(&lock, bed.episode().join("aside")).unwrap();
    let put: [(&str, &dyn Fn()); 3] = [
        ("folder", &|| fs::create_dir(&lock).unwrap()),
        ("link", &|| std::os::unix::fs::symlink("aside", &lock).unwrap()),
        ("pipe", &|| nix::unistd::mkfifo(&lock, nix::sys::stat::Mode::S_IRWXU).unwrap()),
    ];
    for (what, act) in put {
        act();
        assert_eq!(bed.verdict(), Verdict::MissingLock, "{what}");
        assert_eq!(judge_without_lock(&bed.evidence()), Verdict::Alive(Box::new(record.clone())), "{what}");
        assert!(bed.evidence().has_host() && bed.has_host(), "{what}");
        if what == "folder" { fs::remove_dir(&lock).unwrap() } else { fs::remove_file(&lock).unwrap() }
    }
    fs::create_dir(&lock).unwrap();
    process(&record.host).kill_9();
    assert_eq!(judge_without_lock(&bed.evidence()), Verdict::HostDied(Box::new(record)));
    assert!(!bed.evidence().has_host() && !bed.has_host());
}

#[test]
fn field_c_own_a_copied_root_is_foreign_alive_or_dead() {
    let bed = Bed::fixture(&["say", "up", "--", "sleep"]);
    let record = bed.start();
    bed.line("up");
    let copy = bed.folder().join("copy");
    copy_tree(&bed.state(), &copy);
    assert_eq!(judge(&gather(&copy, SESSION, 1).unwrap()), Verdict::Foreign);
    process(&record.host).kill_9();
    assert_eq!(judge(&gather(&copy, SESSION, 1).unwrap()), Verdict::Foreign);
    assert_eq!(bed.verdict(), Verdict::HostDied(Box::new(record.clone())));
    // A host that is shown alive beside a free lock is not the one that this record is about.
    let free = Bed::fixture(&["exit", "0"]);
    change_record(&free, &record, |changed| {
        changed["host"] = json!(ostler::os::identity::ProcessIdentity::current().unwrap());
        changed["lock"] = json!(files::identity_at(&free.episode().join("life.lock")).unwrap());
    });
    assert_eq!(free.verdict(), Verdict::Foreign);
}

#[test]
fn field_c_own_what_was_lost_with_the_machine_is_never_signalled() {
    let bed = Bed::fixture(&["say", "up", "--", "sleep"]);
    let record = bed.start();
    bed.line("up");
    let command = process(&record.command);
    // Another boot and another container, held and free.
    for (member, value) in [("boot", json!("00000000-0000-0000-0000-000000000000")), ("ns", json!(1))] {
        change_record(&bed, &record, |changed| changed["host"][member] = value.clone());
        assert_eq!(bed.verdict(), Verdict::Foreign);
        let other = Bed::fixture(&["exit", "0"]);
        change_record(&other, &record, |changed| changed["host"][member] = value.clone());
        assert_eq!(other.verdict(), Verdict::LostWithMachine);
    }
    assert!(command.alive());
    change_record(&bed, &record, |_| ());
    Talk::broker(&record, 1).stop(10_000);
    bed.ended();
}

#[test]
fn a_damaged_record_proves_nothing() {
    let bed = Bed::fixture(&["exit", "0"]);
    fs::write(bed.episode().join("host.json"), "{\"version\":1").unwrap();
    assert!(matches!(bed.verdict(), Verdict::Damaged(_)));
    assert!(matches!(judge_without_lock(&bed.evidence()), Verdict::Damaged(_)));
}

#[test]
fn a_host_that_never_comes_up_is_ended_by_its_marker() {
    let image = tempfile::Builder::new().prefix("o").tempdir().unwrap();
    let script = image.path().join("stuck");
    fs::write(&script, "#!/bin/sh\nexec sleep 1000\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
    let bed = Bed::with_image(&script, |_| ());
    let outcome = bed.launch_with(Launch { within_ms: 100, ..bed.launch_order() });
    assert_eq!(outcome, LaunchOutcome::Unclear("the host did not report in time".into()));
    assert_eq!(bed.verdict(), Verdict::StillStarting);
    assert_eq!(end_starting_host(&bed.state(), SESSION, 1).unwrap(), []);
    wait_until(SOON, "the lock is free", || bed.verdict() == Verdict::NeverOpened);
}

#[test]
fn a_host_that_is_gone_before_it_reports_is_unclear_and_nothing_happened() {
    let bed = Bed::with_image(Path::new("/bin/true"), |_| ());
    assert_eq!(bed.launch(), LaunchOutcome::Unclear("the host ended before it reported".into()));
    wait_until(SOON, "the lock is free", || bed.verdict() == Verdict::NeverOpened);
    let bed = Bed::with_image(Path::new("/nowhere/ostler"), |_| ());
    assert!(bed.fail().reason.contains("cannot start a host"));
}

#[test]
fn a_vanished_socket_is_bound_again_in_its_folder_or_in_the_root() {
    let bed = Bed::fixture(&["say", "up", "--", "sleep"]);
    let record = bed.start();
    bed.line("up");
    let runtime = bed.folder().join("run");
    let mut before = Talk::broker(&record, 1);
    let bound = |what: &str, place: &Path, change: &dyn Fn()| {
        change();
        signal::send(&record.host, Signal::SIGUSR1).unwrap();
        let place = format!("unix:{}/", place.display());
        wait_until(SOON, what, || address(&bed).starts_with(&place) && Path::new(&address(&bed)[5..]).exists());
        let found = HostRecord { endpoint: bed_record(&bed).endpoint, ..record.clone() };
        assert_eq!(Talk::reader(&found).ask(json!({ "request": "status" }))["state"], "running");
    };
    bound("bound again", &runtime, &|| fs::remove_dir_all(&runtime).unwrap());
    bound("bound in the root", &bed.state().join("run"), &|| {
        fs::remove_dir_all(&runtime).unwrap();
        fs::write(&runtime, "in the way").unwrap();
    });
    assert_eq!(before.ask(json!({ "request": "status" }))["state"], "running", "old connections go on");
    before.stop(10_000);
    bed.ended();
    fs::remove_file(&runtime).unwrap();
    assert_eq!(fs::read_dir(bed.state().join("run")).unwrap().count(), 0, "a host clears up its socket");
}

#[test]
fn episodes_of_one_session_come_one_after_another() {
    let mut bed = Bed::fixture(&["count", "starts", "--", "exit", "1"]);
    bed.start();
    bed.ended();
    let (spec, _) = ostler::host::client::load_spec(&bed.state(), SESSION).unwrap();
    bed.prepare(&spec, 2);
    let outcome = bed.launch_with(Launch { episode: 2, ..bed.launch_order() });
    let LaunchOutcome::Started(record) = outcome else { panic!("{outcome:?}") };
    assert_eq!((record.episode, record.endpoint.generation), (2, 2));
    wait_until(SOON, "the second end", || {
        matches!(judge(&gather(&bed.state(), SESSION, 2).unwrap()), Verdict::Ended(_))
    });
    assert_eq!(fs::read_to_string(bed.folder().join("starts")).unwrap().lines().count(), 2);
    assert!(Process::of(record.host.pid.into()).is_none_or(|host| !host.alive()));
}

fn bed_record(bed: &Bed) -> HostRecord {
    match files::read_json(&bed.episode().join("host.json")) {
        Document::Present(record) => record,
        Document::Absent => panic!("host.json is absent"),
        Document::Damaged(reason) => panic!("{reason}"),
    }
}

fn address(bed: &Bed) -> String {
    bed_record(bed).endpoint.address
}

/// Writes a changed `host.json`.
fn change_record(bed: &Bed, record: &HostRecord, change: impl FnOnce(&mut Value)) {
    let mut changed = json!(record);
    change(&mut changed);
    let points = [Point::HostRecordContent, Point::HostRecordNamed];
    files::replace_json(&bed.episode().join("host.json"), &changed, points).unwrap();
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
