//! Group B: starting, finding, being found.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::Value;

use crate::support::scene::{at_once, text};
use crate::support::{Root, SOON, finish, wait_until};

/// Report sccache#340: parallel first use gave "address in use" and failed starts.
#[test]
fn field_b03_sixty_four_first_users_at_once_are_all_served() {
    let root = Root::new();
    let commands: Vec<Command> =
        (0..64).map(|n| root.command(if n % 2 == 0 { ["list", "--json"] } else { ["ensure", "--json"] })).collect();
    at_once(commands).into_iter().for_each(|output| drop(output.exits(0)));
    for _ in 0..2 {
        let again = root.json(["ensure"]);
        assert_eq!(again["started"], false, "to start what runs is no failure");
    }
    wait_until(SOON, "losers to leave", || root.brokers().len() == 1);
}

/// Report agenc-core#2612: a left-over socket counted as ready.
#[test]
fn field_b07_a_left_over_socket_is_not_a_broker() {
    let root = Root::new();
    let mut broker = root.ensure();
    for _ in 0..3 {
        root.kill_broker();
        let socket = text(&broker["endpoint"]).trim_start_matches("unix:").to_owned();
        assert!(fs::symlink_metadata(&socket).is_ok() && root.path().join("broker.json").exists());
        let report = root.json(["ensure"]);
        assert_eq!(report["started"], true);
        assert!(fs::symlink_metadata(&socket).is_err(), "it is cleared away");
        broker = report["broker"].clone();
    }
}

/// Report harness-anything#1183: another TMPDIR or another folder, another socket.
#[test]
fn field_b17_the_callers_folders_do_not_decide_where_the_broker_is() {
    let root = Root::new();
    let other = root.folder().join("other");
    fs::create_dir(&other).unwrap();
    let broker = root.ensure();
    let session = root.spawn_fixture(&["--name", "s"], "say here -- sleep");
    let from_elsewhere = |arguments: &[&str]| {
        let mut command = root.command(arguments);
        command.env("TMPDIR", &other).env_remove("XDG_RUNTIME_DIR").env_remove("HOME").current_dir(&other);
        finish(&mut command, b"").exits(0)
    };
    let found = from_elsewhere(&["ensure", "--json"]).json();
    assert_eq!((&found["broker"], &found["started"]), (&broker, &Value::from(false)));
    assert_eq!(from_elsewhere(&["list", "--json"]).json()["sessions"][0]["pid"], session["pid"]);
    assert_eq!(from_elsewhere(&["logs", "s"]).text(), "here\n");
    // A broker that starts from elsewhere adopts hosts whose sockets lie where the last one put them.
    root.kill_broker();
    assert_eq!(from_elsewhere(&["ensure", "--json"]).json()["started"], true);
    wait_until(SOON, "the host to have answered", || root.session(&session["id"])["reason"].is_null());
    assert_eq!(root.json(["stop", "s"])["session"]["status"], "stopped");
    assert!(fs::read_dir(&other).unwrap().next().is_none(), "nothing was put where it does not belong");
}

/// Report oh-my-openagent#8448: one root in two spellings had two brokers.
#[test]
fn field_b18_every_spelling_of_a_root_is_the_same_root() {
    let root = Root::new();
    let broker = root.ensure();
    let session = root.spawn_fixture(&[], "sleep");
    symlink(root.path(), root.folder().join("link")).unwrap();
    symlink(root.folder(), root.folder().join("loop")).unwrap();
    let base = root.folder().to_str().unwrap().to_owned();
    let spellings = ["root", "link", "./root/", "loop/loop/root", "tmp/../root"].map(str::to_owned);
    let absolute = [format!("{base}//root"), format!("{base}/link/"), format!("/{base}/root/.")];
    let of = |spelling: &str, verb: &str| {
        let mut command = root.command(["--json", "--root", spelling, verb]);
        finish(command.env_remove("OSTLER_ROOT"), b"").exits(0).json()
    };
    for spelling in spellings.iter().chain(&absolute) {
        let report = of(spelling, "ensure");
        assert_eq!((&report["started"], &report["broker"]), (&Value::from(false), &broker), "{spelling}");
        assert_eq!(of(spelling, "list")["sessions"][0]["pid"], session["pid"], "{spelling}");
    }
    assert_eq!(of("link", "shutdown")["broker"]["pid"], broker["pid"]);
    assert_eq!(root.json(["status"])["state"], "absent");
    // Started through a link, it is the same root, and adopts.
    assert_eq!(of("loop/link", "ensure")["broker"]["root"], broker["root"]);
    assert_eq!(root.session_becomes(&session["id"], "ready")["pid"], session["pid"]);
}
