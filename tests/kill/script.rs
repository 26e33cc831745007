//! What is done in a run: short lives of a root that between them pass every point. The cheapest comes first.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use ostler::host::client::{Link, LinkError};
use ostler::host::files::{Document, HOST_JSON, JOURNAL, episode_folder, read_json};
use ostler::host::wire::HostRecord;
use serde_json::Value;

use super::run::Run;
use super::run::{GOT, MARKS};
use crate::support::{OSTLER, Process, Root, SOON, wait_until};

/// A life of a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Script {
    /// A broker starts, leaves in order, and another one starts.
    Start,
    /// Three brokers leave in order, each with a snapshot; the oldest of these goes.
    Leave,
    /// A session is started, stopped and deleted; another never comes up.
    Spawn,
    /// A session becomes ready by its output; another does not in its time.
    Ready,
    /// A session ends by itself, is resumed, ends again, and is pruned.
    Resume,
    /// A broker is killed and somebody protects its ledger; the next one adopts its session, whose socket is gone; then its host is killed.
    Adopt,
    /// A broker is killed; in its place somebody hands its session messages, takes the journal of these away, and interrupts it.
    Deliver,
    /// Messages are sent and taken, pulled, left in a queue, and on their way to a host that is killed.
    Mail,
    /// A broker is killed; behind its ledger's end is what was never acknowledged, in place of its record a folder.
    Mend,
    /// The oldest segments are retired.
    Retire,
}

impl Script {
    /// All of them, the cheapest first.
    pub(super) const ALL: [Script; 10] = [
        Script::Start,
        Script::Leave,
        Script::Spawn,
        Script::Ready,
        Script::Resume,
        Script::Adopt,
        Script::Deliver,
        Script::Mail,
        Script::Mend,
        Script::Retire,
    ];

    /// Small enough that segments and snapshots come and go. Where a script depends on neither, no snapshot is due: one is written when there
    /// is time, and a run must not depend on that.
    pub(super) fn limits(self) -> &'static str {
        match self {
            Script::Start | Script::Leave => "segment_bytes:1500,snapshot_tail_bytes:1",
            Script::Spawn | Script::Ready => "segment_bytes:3000",
            Script::Resume => "segment_bytes:2000",
            Script::Adopt | Script::Deliver | Script::Mail => "segment_bytes:100000",
            Script::Mend => "segment_bytes:900",
            Script::Retire => {
                "segment_bytes:2500,snapshot_tail_bytes:1,recent:2,of_session:1,batch:4,settled:4,window_us:1"
            }
        }
    }

    /// Lives it.
    pub(super) fn play(self, run: &mut Run) {
        match self {
            Script::Start => start(run),
            Script::Leave => leave(run),
            Script::Spawn => spawn(run),
            Script::Ready => ready(run),
            Script::Resume => resume(run),
            Script::Adopt => adopt(run),
            Script::Deliver => deliver(run),
            Script::Mail => mail(run),
            Script::Mend => mend(run),
            Script::Retire => retire(run),
        }
    }
}

fn start(run: &mut Run) {
    run.does("ensure");
    run.does("shutdown");
    run.does("ensure");
}

fn leave(run: &mut Run) {
    for _ in 0..3 {
        run.does("ensure");
        run.does("shutdown");
    }
}

fn spawn(run: &mut Run) {
    run.spawns("spawn", "web", "exec sleep 1000");
    run.asks("bad", ["spawn", "--name", "bad", "--", "/nowhere/at/all"].map(str::to_owned).to_vec());
    if run.host_may_die && run.answers.last().is_some_and(|bad| bad.state == "failed") {
        // Its host died behind the gate: nobody knows that nothing ran, so it is listed.
        run.changes("delete-bad", "delete bad");
    }
    run.changes("stop", "stop web");
    run.changes("delete", "delete web");
}

fn ready(run: &mut Run) {
    run.spawns_with("spawn", "spawn --name web --ready output:up", "echo up; exec sleep 1000");
    run.asks("late", words("spawn --name late --ready output:up --ready-within 300ms -- sleep 1000"));
    for (key, name) in [("delete-late", "late"), ("delete", "web")] {
        if is_listed(run, name) {
            run.changes(key, &format!("delete {name} --stop"));
        }
    }
}

fn resume(run: &mut Run) {
    if run.spawns("spawn", "web", "exit 3").is_some() {
        run.insist(&["wait", "web", "--json"].map(str::to_owned));
    }
    if run.changes("resume", "resume web").is_some() {
        run.insist(&["wait", "web", "--json"].map(str::to_owned));
    }
    run.changes("prune", "prune --older 0s");
}

fn adopt(run: &mut Run) {
    run.spawns("spawn", "web", "exec sleep 1000");
    kill_broker(&run.root);
    fs::set_permissions(newest_segment(&run.root), fs::Permissions::from_mode(0o400)).expect("it is ours");
    // A cleaned runtime folder: the host is asked to bind again.
    for socket in sockets(&run.root, "h-") {
        fs::remove_file(socket).expect("it is there");
    }
    run.does("ensure");
    let session = adopted(run);
    // Its host dies under it, and the command with it.
    if let Some(host) = session["host_pid"].as_i64().and_then(Process::of) {
        host.kill_9();
    }
    run.insist(&["wait", "web", "--json"].map(str::to_owned));
    run.changes("delete", "delete web");
}

/// Waits until it is known what became of the session.
fn adopted(run: &Run) -> Value {
    let mut session = Value::Null;
    wait_until(SOON, "the session to be adopted", || {
        session = run.does("show web")["session"].clone();
        session["reason"].is_null() || session["ended_at"].is_string()
    });
    session
}

fn deliver(run: &mut Run) {
    let spawned = run.spawns_with("spawn", "spawn --name web --adapter lines", "exec cat > /dev/null");
    kill_broker(&run.root);
    if let Some(document) = spawned {
        let session = document["session"]["id"].as_str().expect("a session has an id");
        // Its host may be told to die at any step of it.
        let handed = hand_over(&run.root, session);
        assert!(handed.is_ok() || run.host_may_die, "{handed:?}");
    }
    run.does("ensure");
    run.insist(&words("wait web --json"));
    run.changes("delete", "delete web");
}

/// Two messages and an interrupt, as the broker that was just here would hand them over.
fn hand_over(root: &Root, session: &str) -> Result<(), LinkError> {
    let folder = episode_folder(&root.path(), session, 1);
    let Document::Present(record) = read_json::<HostRecord>(&folder.join(HOST_JSON)) else {
        return Err(LinkError::Closed);
    };
    let published = fs::read(root.path().join("broker.json")).expect("a killed broker leaves its record");
    let published: Value = serde_json::from_slice(&published).expect("it is whole");
    let generation = published["broker"]["generation"].as_u64().expect("it has a generation");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (link, ..) = Link::dial(&record, generation, SOON).await?;
        link.deliver("first", 1, b"hello\n").await?;
        drop(fs::remove_file(folder.join(JOURNAL)));
        link.deliver("second", 1, b"hello\n").await?;
        link.interrupt(0, None).await.map(drop)
    })
}

/// A message that interrupts: the program goes on with it once it has got its signal.
fn interrupted(run: &mut Run) {
    let [got, int] = [GOT, "int"].map(|name| run.root.folder().join(name).display().to_string());
    let works = format!(
        "trap 'touch {int}' INT; printf '>'; while read -r line; do echo $line >> {got}; \
         if [ $line = work ]; then until [ -e {int} ]; do sleep 0.01; done; fi; printf '>'; done"
    );
    if run.spawns_with("spawn-busy", "spawn --name busy --adapter lines --prompt >", &works).is_none() {
        return;
    }
    run.changes("work", "send busy work --wait-for delivered");
    run.changes("now", "send busy now --mode interrupt");
    let arrived = || run.root.lines(GOT).contains(&"now".to_owned()) || ended(run, "busy");
    wait_until(SOON, "it to be read", arrived);
}

/// A key is the text that is sent under it, so that the laws can compare what was told with what arrived.
fn mail(run: &mut Run) {
    let got = run.root.folder().join(GOT);
    let reads = format!("printf '>'; while read -r line; do echo $line >> {}; printf '>'; done", got.display());
    let reader = run.spawns_with("spawn", "spawn --name web --adapter lines --prompt >", &reads);
    run.changes("one", "send web one");
    let taken = run.changes("two", "send web two --wait-for delivered");
    if taken.is_some_and(|answer| answer["message"]["state"] == "delivered") && reader.is_some() {
        let arrived = || run.root.lines(GOT).contains(&"two".to_owned()) || ended(run, "web");
        wait_until(SOON, "it to be read", arrived);
    }
    // Whoever dies while it pulls is followed by the next.
    let pulls = format!(
        "{}; until {OSTLER} inbox read --wait 20s --json | grep -q three; do :; done; exec sleep 1000",
        child(run)
    );
    if run.spawns_with("spawn-box", "spawn --name box", &pulls).is_some() {
        run.changes("three", "send box three --wait-for delivered");
        run.changes("four", "send box four");
        wait_until(SOON, "its child to end", || !is_listed(run, "kid") || ended(run, "kid"));
    }
    if run.spawns_with("spawn-deaf", "spawn --name deaf --adapter lines", "exec sleep 1000").is_some() {
        // More than a pipe takes.
        let long = "x".repeat(100_000);
        if let Some(sent) = run.changes("long", &format!("send deaf {long}")) {
            let shown = format!("message show {}", sent["message"]["id"].as_str().expect("it has an id"));
            wait_until(SOON, "it to be on its way", || run.does(&shown)["message"]["state"] != "queued");
        }
        if let Some(host) = run.does("show deaf")["session"]["host_pid"].as_i64().and_then(Process::of) {
            host.kill_9();
        }
        run.insist(&words("wait deaf --json"));
    }
    interrupted(run);
    // A shell that waits for a line ends by it.
    run.asks("interrupt", words("interrupt web"));
    let names = [
        ("delete-kid", "kid"),
        ("delete-busy", "busy"),
        ("delete-deaf", "deaf"),
        ("delete-box", "box"),
        ("delete", "web"),
    ];
    for (key, name) in names {
        if is_listed(run, name) {
            run.changes(key, &format!("delete {name} --stop"));
        }
    }
}

/// Inside a session: starts a child, which posts a report and ends, and of which the session is told both.
fn child(run: &Run) -> String {
    let marks = run.root.folder().join(MARKS);
    let post = format!("{OSTLER} report post --key said --status success --title done text");
    let kid = format!("echo $OSTLER_SESSION $OSTLER_EPISODE >> {}; {post} || {post}", marks.display());
    let spawn = format!("{OSTLER} spawn --key kid --name kid -- sh -c '{kid}'");
    format!("{spawn} || {spawn}")
}

fn is_listed(run: &Run, name: &str) -> bool {
    run.does("list --all")["sessions"].as_array().is_some_and(|all| all.iter().any(|of| of["name"] == name))
}

fn ended(run: &Run, name: &str) -> bool {
    run.does(&format!("show {name}"))["session"]["ended_at"].is_string()
}

fn mend(run: &mut Run) {
    run.spawns("spawn", "web", "exec sleep 1000");
    kill_broker(&run.root);
    let last = OpenOptions::new().append(true).open(newest_segment(&run.root));
    last.and_then(|mut file| file.write_all(b"{\"d\":\"0")).expect("it is ours");
    let record = run.root.path().join("broker.json");
    drop(fs::remove_file(&record));
    fs::create_dir(&record).expect("nothing stands there");
    run.does("ensure");
    run.changes("delete", "delete web --stop");
    let published = || record.is_file() && sockets(&run.root, "b-").len() == 1;
    wait_until(SOON, "it to be published", || run.insist(&words("status --json")).code() == Some(0) && published());
    sockets(&run.root, "b-").into_iter().for_each(|socket| drop(fs::remove_file(socket)));
    // Whoever dies while it publishes again is replaced by whom the next caller starts.
    wait_until(SOON, "it to be published again", || {
        published() || (run.root.brokers().is_empty() && run.does("ensure").is_object())
    });
    run.does("ledger export -o export");
    run.does("shutdown");
    run.insist(&words("doctor --fix quarantine --json"));
}

fn retire(run: &mut Run) {
    run.forgets = true;
    run.spawns("spawn", "web", "exit 3");
    run.insist(&words("wait web --json"));
    run.changes("delete", "delete web");
    for number in 0..12 {
        run.changes(&format!("prune-{number}"), "prune");
    }
    run.does("ledger retire --yes");
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// Ends the brokers of this root, as the kernel's out-of-memory killer would.
pub(super) fn kill_broker(root: &Root) {
    root.brokers().into_iter().for_each(Process::kill_9);
}

fn sockets(root: &Root, prefix: &str) -> Vec<PathBuf> {
    let folders = fs::read_dir(root.folder().join("run/ostler")).into_iter().flatten().flatten();
    let entries = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten());
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix)).map(|entry| entry.path()).collect()
}

fn newest_segment(root: &Root) -> PathBuf {
    let names = root.names("ledger").into_iter().filter(|name| name.ends_with(".jsonl"));
    root.path().join("ledger").join(names.max().expect("a ledger has a segment"))
}
