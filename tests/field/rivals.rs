//! Groups A, B and C: starts that meet, owners that are slow, and requests that were meant for somebody else.
#![expect(clippy::disallowed_methods, reason = "starts strangers and brokers by hand")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::cli::wire::Wire;
use crate::support::scene::{at_once, text};
use crate::support::{OSTLER, Process, Root, Running, SOON, copy_program, finish, wait_for, wait_until};

const NOBODY: u32 = 65_534;

/// A process of another user, that ends at the first signal. It is ended with its test.
struct Stranger(Child);

impl Stranger {
    fn new() -> Stranger {
        Stranger(Command::new("sleep").arg("600").uid(NOBODY).gid(NOBODY).spawn().expect("a stranger"))
    }

    fn process(&self) -> Process {
        Process::of(self.0.id().into()).expect("nobody has signalled it")
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _gone = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// The start time that the system has for a process.
fn start_of(process: Process) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid)).expect("it lives");
    let (_, numbers) = stat.rsplit_once(") ").expect("its name is in parentheses");
    numbers.split(' ').nth(19).and_then(|number| number.parse().ok()).expect("it is a number")
}

/// Changes a record of the root.
fn rewrite(root: &Root, name: &str, change: impl Fn(&mut Value)) {
    let path = root.path().join(name);
    let mut record: Value = serde_json::from_slice(&fs::read(&path).expect("it was left")).expect("it is JSON");
    change(&mut record);
    fs::write(&path, record.to_string()).expect("the root is ours");
}

/// Report buck2#1426: the stale record named a process of somebody else, which could not be killed, so nothing ever started again.
#[test]
fn field_a15_a_record_of_another_users_process_is_set_aside_and_nobody_signalled() {
    let stranger = Stranger::new();
    let process = stranger.process();
    let root = Root::new();
    root.ensure();
    for start in [1, start_of(process)] {
        root.kill_broker();
        rewrite(&root, "broker.lock", |record| {
            record["identity"]["pid"] = json!(process.pid);
            record["identity"]["start"] = json!(start);
        });
        rewrite(&root, "broker.json", |record| record["broker"]["pid"] = json!(process.pid));
        root.ostler(["shutdown", "--force"]).exits(0);
        assert_eq!(root.json(["ensure", "--timeout", "20s"])["started"], true);
        assert_eq!(stranger.process(), process);
    }
}

/// Report oh-my-pi#12888: who lost the race for the start was told of a crash. Without the clients' guard every one of them starts a broker.
#[test]
fn field_b04_whoever_loses_the_race_is_served_by_the_winner() {
    let root = Root::new();
    root.ensure();
    root.kill_broker();
    let guard = root.path().join("start.lock");
    fs::remove_file(&guard).unwrap();
    fs::create_dir(&guard).unwrap();
    for round in 0..12 {
        let reports: Vec<Value> = at_once((0..4).map(|_| root.command(["ensure", "--json"])).collect())
            .into_iter()
            .map(|output| output.exits(0).json())
            .collect();
        let incarnation = &reports[0]["broker"]["incarnation"];
        assert!(reports.iter().all(|report| report["broker"]["incarnation"] == *incarnation), "{round}: {reports:#?}");
        let log = fs::read_to_string(root.path().join("broker.log")).unwrap();
        assert!(!log.contains("ERROR"), "{log}");
        root.kill_broker();
        wait_until(SOON, "the losers to be gone", || root.brokers().is_empty());
    }
}

/// How many connections to the broker there are, accepted or waiting to be.
fn connections(endpoint: &str) -> usize {
    let table = fs::read_to_string("/proc/net/unix").expect("the system tells");
    // One of the lines is of the socket that listens.
    table.lines().filter(|line| line.ends_with(endpoint)).count().saturating_sub(1)
}

/// Report happy#1654: an answer after 4.8 seconds was taken for death, by children of that very broker.
#[test]
fn field_b09_a_slow_broker_is_waited_for_and_not_replaced() {
    let root = Root::new();
    let session = root.spawn_fixture(&[], "sleep");
    let credential = root.path().join("sessions").join(text(&session["id"])).join("credential");
    let before = root.ensure();
    let lock = || fs::metadata(root.path().join("broker.lock")).unwrap().ino();
    let (broker, inode) = (Process::of_value(&before["pid"]), lock());
    let endpoint = text(&before["endpoint"]).trim_start_matches("unix:").to_owned();
    kill(Pid::from_raw(broker.pid), Signal::SIGSTOP).unwrap();
    let clients: Vec<Running> = (0..20)
        .map(|number| {
            let mut client = root.command([["ensure", "list"][number % 2], "--json", "--timeout", "60s"]);
            if number >= 10 {
                client.env("OSTLER_SESSION", text(&session["id"])).env("OSTLER_CREDENTIAL", &credential);
            }
            Running::start(&mut client)
        })
        .collect();
    wait_until(SOON, "all of them to knock", || connections(&endpoint) >= clients.len());
    let began = fs::read_to_string("/proc/uptime").unwrap();
    let uptime = |text: &str| text.split(' ').next().and_then(|first| first.parse::<f64>().ok()).unwrap();
    wait_until(Duration::from_secs(60), "longer than hello may take to pass", || {
        uptime(&fs::read_to_string("/proc/uptime").unwrap()) >= uptime(&began) + 6.0
    });
    assert_eq!(root.brokers(), [broker], "nobody begins beside it");
    kill(Pid::from_raw(broker.pid), Signal::SIGCONT).unwrap();
    for client in clients {
        client.end().exits(0);
    }
    assert_eq!((&root.ensure()["incarnation"], lock()), (&before["incarnation"], inode));
}

/// Report gajae-code#5312: two starts in one second, and the second missed its readiness.
#[test]
fn field_b11_starts_that_crowd_each_other_out_are_all_done() {
    let root = Root::new();
    root.ensure();
    let busy = ["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exec sleep 1000"];
    let spawns = (0..12).map(|_| {
        let mut spawn = root.command(["spawn", "--json", "--"]);
        spawn.args(busy);
        spawn
    });
    for output in at_once(spawns.collect()) {
        let done = output.exits(0).json();
        assert_eq!(
            (&done["operation"]["state"], &done["session"]["status"]),
            (&json!("succeeded"), &json!("ready")),
            "{done:#}"
        );
    }
}

/// A broker that nobody coordinates.
fn by_hand(root: &Root) -> Child {
    let mut broker = root.command(["broker"]);
    broker.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the product is there")
}

/// Report khive#645: the clean-up of the old one, or of a start that lost, removed the files of the new one.
#[test]
fn field_b19_whoever_leaves_or_loses_removes_nothing_of_the_broker() {
    let root = Root::new();
    let session = root.spawn_fixture(&[], "sleep");
    let unharmed = |broker: &Value| {
        assert_eq!(root.ensure()["incarnation"], broker["incarnation"]);
        assert!(fs::metadata(text(&broker["endpoint"]).trim_start_matches("unix:")).is_ok());
        assert_eq!(root.session(&session["id"])["pid"], session["pid"]);
    };
    let mut broker = root.ensure();
    for _ in 0..5 {
        // One that is told to leave while it tries.
        let mut rival = by_hand(&root);
        let process = Process::of(rival.id().into());
        wait_until(SOON, "it to be at it", || {
            process.is_none() || root.brokers().len() == 2 || !process.unwrap().alive()
        });
        let _gone = kill(Pid::from_raw(i32::try_from(rival.id()).unwrap()), Signal::SIGTERM);
        rival.wait().unwrap();
        unharmed(&broker);
        // One that waits for an old one which is slow to go.
        root.json(["shutdown"]);
        finish(root.command(["ensure"]).env("OSTLER_TEST_FAIL", "shutdown.leave=pause:700"), b"").exits(0);
        let (old, leaving) = (root.broker().unwrap(), Running::start(&mut root.command(["shutdown"])));
        wait_until(SOON, "its record to be taken back", || !root.path().join("broker.json").exists());
        broker = root.json(["ensure"])["broker"].clone();
        leaving.end().exits(0);
        wait_until(SOON, "the old one to be gone", || !old.alive());
        unharmed(&broker);
    }
}

/// Report paseo#5128: a lock file from another host, whose number lives here as somebody else.
#[test]
fn field_c04_a_lock_from_another_boot_or_host_is_stale_if_nobody_holds_it() {
    let stranger = Stranger::new();
    let root = Root::new();
    root.ensure();
    for (member, value) in [("boot", json!("00000000-0000-0000-0000-000000000000")), ("ns", json!(7))] {
        root.kill_broker();
        rewrite(&root, "broker.lock", |record| {
            record["identity"]["pid"] = json!(stranger.process().pid);
            record["identity"]["start"] = json!(start_of(stranger.process()));
            record["identity"][member] = value.clone();
        });
        let status = root.json(["status"]);
        assert_eq!((&status["state"], &status["lock"]["held"]), (&json!("absent"), &json!(false)), "{status}");
        assert_eq!(status["lock"]["owner_lives"], Value::Null, "its number means nothing here: {status}");
        root.ostler(["shutdown", "--force"]).exits(0);
        assert_eq!(root.json(["ensure", "--timeout", "20s"])["started"], true);
        stranger.process();
    }
}

/// Report gajae-code#5245: what was meant for a stale broker hit its successor.
#[test]
fn field_c08_a_shutdown_that_was_meant_for_the_predecessor_is_refused() {
    let root = Root::new();
    let old = root.ensure();
    root.kill_broker();
    let new = root.ensure();
    let mut wire = Wire::hello(&root);
    let answer = wire.ask("broker.shutdown", json!({"stop_sessions": true, "incarnation": old["incarnation"]}));
    let data = &answer["error"]["data"];
    assert_eq!((&data["code"], &data["reason"]), (&json!("endpoint_stale"), &json!("replaced")), "{answer}");
    wire.works();
    assert_eq!(root.ensure()["incarnation"], new["incarnation"]);
    let answer = wire.ask("broker.shutdown", json!({"incarnation": new["incarnation"]}));
    assert_eq!(answer["result"]["broker"]["incarnation"], new["incarnation"], "{answer}");
    wait_until(SOON, "it to leave", || root.brokers().is_empty());
}

/// Report gajae-code#4910: a live broker whose record lacked a stamp blocked everybody. It states its record again.
#[test]
fn field_h02_a_record_without_its_version_is_stated_again_by_who_lives() {
    let root = Root::new();
    let broker = root.ensure();
    let spoils: [&dyn Fn(&mut Value); 3] = [
        &|record| drop(record["broker"].as_object_mut().and_then(|broker| broker.remove("version"))),
        &|record| record["broker"]["version"] = Value::Null,
        &|record| record["broker"]["protocol"] = json!("unknown"),
    ];
    for spoil in spoils {
        rewrite(&root, "broker.json", spoil);
        assert_eq!(root.ensure()["incarnation"], broker["incarnation"]);
        root.json(["list"]);
    }
    assert_eq!(root.brokers().len(), 1);
}

/// Report claude-code#60634: the folder of the program was removed under a daemon, which then could start nothing and tried for ever.
#[test]
fn field_h07_a_broker_whose_program_was_removed_serves_on() {
    let root = Root::new();
    let place = root.folder().join("bin");
    fs::create_dir(&place).unwrap();
    let program = place.join("ostler");
    copy_program(OSTLER, &program);
    let usual = root.command(["ensure"]);
    let mut command = Command::new(&program);
    command.args(["spawn", "--json", "--", "sleep", "1000"]).current_dir(root.folder()).env_clear();
    command.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let first = finish(&mut command, b"").exits(0).json()["session"].clone();
    let broker = root.ensure();
    fs::remove_dir_all(&place).unwrap();
    let second = root.spawn_fixture(&[], "sleep");
    assert!(Process::of_value(&first["pid"]).alive() && Process::of_value(&second["pid"]).alive());
    root.json(["stop", text(&first["id"])]);
    assert_eq!(root.json(["resume", text(&first["id"])])["session"]["episode"], 2);
    assert_eq!(root.ensure()["incarnation"], broker["incarnation"]);
    assert_eq!(wait_for(SOON, "one broker", || Some(root.brokers().len())), 1);
}
