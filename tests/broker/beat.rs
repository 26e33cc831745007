//! The beat: last-seen times are on disk before anybody is told that there is a broker, however long that takes.

use std::fs;

use serde_json::Value;

use crate::support::scene::text;
use crate::support::{Process, Root, SOON, finish, wait_until};

const FAIL: &str = "OSTLER_TEST_FAIL";
const PAUSE_US: u64 = 5_000_000;

/// The records of the last generation, in order.
fn of_last_generation(root: &Root) -> Vec<Value> {
    let ledger = root.path().join("ledger");
    let text: String = root
        .names("ledger")
        .iter()
        .filter(|name| name.ends_with(".jsonl"))
        .map(|name| fs::read_to_string(ledger.join(name)).unwrap_or_default())
        .collect();
    // The last line may be on its way.
    let records: Vec<Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .map(|line| line["r"].clone())
        .collect();
    let start = records.iter().rposition(|record| record["t"] == "generation").unwrap_or(0);
    records.get(start..).unwrap_or_default().to_vec()
}

/// Whether a socket of a broker is bound.
fn is_bound(root: &Root) -> bool {
    let folders = fs::read_dir(root.folder().join("run/ostler")).into_iter().flatten().flatten();
    let mut sockets = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten());
    sockets.any(|socket| socket.file_name().as_encoded_bytes().starts_with(b"b-"))
}

fn is_published(root: &Root) -> bool {
    root.path().join("broker.json").exists()
}

#[test]
fn nothing_is_published_before_the_beat_is_on_disk() {
    let root = Root::new();
    let session = root.spawn_fixture(&[], "sleep");
    let seen = text(&root.session(&session["id"])["last_seen_at"]).to_owned();
    root.json(["shutdown"]);
    assert!(!is_published(&root));
    std::thread::scope(|scope| {
        let late = scope.spawn(|| {
            let mut ensure = root.command(["ensure", "--json", "--timeout", "60s"]);
            finish(ensure.env(FAIL, format!("start.beat=pause:{}", PAUSE_US / 1000)), b"").exits(0).json()
        });
        let starting = || root.json(["status"])["state"] == "starting";
        wait_until(SOON, "the broker to start", starting);
        // At each look: a broker that is published has its beat on disk. Its own look comes second.
        wait_until(SOON, "the broker to be published", || {
            let (published, bound) = (is_published(&root), is_bound(&root));
            let beaten = of_last_generation(&root).iter().any(|record| record["t"] == "beat");
            assert!(beaten || !published, "published without a beat");
            assert!(beaten || !bound, "reachable without a beat");
            published
        });
        assert_eq!(late.join().unwrap()["started"], true);
    });
    let records = of_last_generation(&root);
    let of =
        |kind: &str| records.iter().find(|record| record["t"] == kind).unwrap_or_else(|| panic!("no {kind}")).clone();
    // By the boot clock of the records: the time of a file is that of the kernel's last tick, some milliseconds ago. That the
    // publication comes behind the beat is what each look asked above.
    let mono = |kind| of(kind)["mono"].as_u64().expect("a record has a boot time");
    assert!(mono("beat") >= mono("generation") + PAUSE_US, "the pause lay between");
    let found = root.session(&session["id"]);
    assert!(text(&found["last_seen_at"]) >= seen.as_str());
    assert_eq!(found["pid"], session["pid"]);
}

/// With the dead owner's record still lying there, and without one.
#[test]
fn a_beat_that_fails_leaves_no_discovery_record_and_is_named() {
    for dead_owner in [false, true] {
        let root = Root::new();
        let session = root.spawn_fixture(&[], "sleep");
        if dead_owner {
            root.kill_broker();
        } else {
            root.json(["shutdown"]);
        }
        let mut ensure = root.command(["ensure", "--json"]);
        let failed = finish(ensure.env(FAIL, "start.beat=error"), b"");
        let error = failed.clone().exits(1).json()["error"].clone();
        assert_eq!((&error["code"], &error["data"]["stage"]), (&"storage_failed".into(), &"beat".into()), "{failed:?}");
        assert!(text(&error["message"]).contains("`beat`"));
        assert!(!is_published(&root), "dead owner: {dead_owner}");
        wait_until(SOON, "the starter to be gone", || root.brokers().is_empty());
        let ended = root.json(["status"]);
        assert_eq!(ended["state"], "absent");
        // Nothing of it stands in the way of the next.
        assert!(Process::of_value(&session["pid"]).alive());
        root.ensure();
        assert_eq!(root.session_becomes(&session["id"], "ready")["pid"], session["pid"]);
    }
}

/// A broker that died leaves it to its successor to look; a host that is gone cannot be asked again.
#[test]
fn last_seen_times_survive_broker_and_host() {
    let root = Root::new();
    let noisy = root.spawn_fixture(&[], "until go -- say here -- sleep");
    let (id, seen_at) = (noisy["id"].clone(), |session: &Value| text(&session["last_seen_at"]).to_owned());
    root.kill_broker();
    fs::write(root.folder().join("go"), "").unwrap();
    let spoken = || root.ostler(["--no-start", "logs", text(&id)]).stdout == b"here\n";
    root.ensure();
    wait_until(SOON, "it to speak", spoken);
    root.kill_broker();
    // Nobody listened, but its output has a time.
    root.ensure();
    let seen = seen_at(&root.session(&id));
    assert!(seen > seen_at(&noisy));
    Process::of_value(&noisy["host_pid"]).kill_9();
    let lost = root.session_becomes(&id, "failed");
    assert!(seen_at(&lost) >= seen, "{} is before {seen}", seen_at(&lost));
    root.json(["shutdown"]);
    root.ensure();
    assert_eq!(seen_at(&root.session(&id)), seen_at(&lost));
}
