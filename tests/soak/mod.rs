//! The soak: clients with keys of their own do everyday work on one root, at a steady rate, while brokers and hosts are killed at
//! random. Each client knows what it asked and was told; the commands write down for themselves when they start. In the end no
//! operation was lost and none done twice, and nothing is left over. The seed decides what is asked and who is killed when; how
//! that falls together is the machine's.

mod asked;
mod closing;
pub(crate) mod fire;
mod found;
mod life;
mod witness;

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ostler::client::Client;
use ostler::os::deadline::Deadline;
use ostler::os::environment::Environment;
use ostler::os::{clock, entropy};
use serde_json::Value;

use self::asked::Tally;
use self::closing::Found;
use self::fire::Fire;
use self::life::{Life, Lived};
use self::witness::Witness;
use crate::sim::random::Random;
use crate::support::{FIXTURE, Root, SOON, Usage, poll, wait_until};

/// Clients at the same time.
const CLIENTS: u64 = 8;
/// Operations of all of them together.
const A_SECOND: u64 = 20;
/// How long the job `soak` works, unless it is told otherwise.
const LONG_SECONDS: u64 = 3_600;
/// How long the same works in every run of the tests, so that the driver stays whole.
const SHORT_SECONDS: u64 = 10;
/// What the latest 250 operations may take, which a broker keeps in full and a fresh one has not: 2 KiB each.
const LATEST_KIB: u64 = 512;

/// What all who take part share.
struct Soak {
    root: Root,
    fire: Fire,
    witness: Witness,
    over: AtomicBool,
}

impl Soak {
    fn client(&self) -> Client {
        let options = self.root.client_options(Deadline::after(SOON * 4));
        Client::connect_or_start(options).unwrap_or_else(|error| panic!("no broker: {error:?}"))
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// Ends the work for all when one of them fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a fresh broker holds when it has done everything once and rests.
fn base(soak: &Soak) -> Usage {
    let broker = soak.root.broker().expect("it answers");
    let fresh = Usage::of(broker);
    let session = soak.root.spawn(&[], &[FIXTURE, "sleep"]);
    soak.root.json(["stop", crate::support::scene::text(&session["id"])]);
    soak.root.json(["delete", crate::support::scene::text(&session["id"])]);
    wait_until(SOON, "a rest after the first session", || Usage::of(broker).is_within(fresh));
    Usage::of(broker)
}

fn soak(seconds: u64, seed: u64) {
    eprintln!("soak: seed {seed}, {seconds} s");
    let root = Root::new();
    let first = root.ensure();
    let witness = Witness::new(root.folder().join("witness"));
    let soak = Soak { root, fire: Fire::new(seconds), witness, over: AtomicBool::new(false) };
    let base = base(&soak);
    let before = closing::operations(&soak);
    let began_us = clock::boot_us();
    let mut random = Random::new(seed);
    let mut lives: Vec<Life<'_>> =
        (0..CLIENTS).map(|number| Life::new(&soak, usize::try_from(number).expect("few"), draw(&mut random))).collect();
    work(&soak, &mut lives, seconds, &mut random);
    let worked_us = clock::boot_us() - began_us;
    let mut operations = Tally::default();
    lives.iter().for_each(|life| operations.merge(&life.lived.operations));
    let (lives, found) = closing::close(&soak, lives, &before, base);
    let last = soak.root.ensure();
    let generations = |broker: &Value| broker["generation"].as_u64().expect("a number");
    let ran = Ran { seconds, seed, worked_us, operations, base, takeovers: generations(&last) - generations(&first) };
    let text = report(&ran, &soak, &lives, &found);
    eprintln!("{text}");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("soak-report.txt");
    fs::write(&path, text).expect("the folder of the build is ours");
    eprintln!("the report is in {}", path.display());
    let (brokers, hosts) = soak.fire.kills();
    assert!(brokers >= 3 && hosts >= 3, "{brokers} and {hosts} kills are no fire");
}

fn draw(random: &mut Random) -> Random {
    Random::new(random.next())
}

/// All work until the time is over; brokers are left alone in the last part, so that what one of them gathers shows in the end.
fn work(soak: &Soak, lives: &mut [Life<'_>], seconds: u64, random: &mut Random) {
    let until_us = clock::boot_us() + seconds * 1_000_000 / 12 * 11;
    thread::scope(|scope| {
        let (brokers, hosts) = (draw(random), draw(random));
        scope.spawn(move || soak.fire.at_brokers(&soak.root, &soak.over, until_us, brokers));
        scope.spawn(move || soak.fire.at_hosts(&soak.root, &soak.over, hosts));
        for life in lives {
            scope.spawn(move || {
                let _over = Over(&soak.over);
                life.live(CLIENTS * 1_000_000 / A_SECOND);
            });
        }
        poll(Duration::from_secs(seconds), || soak.is_over().then_some(()));
        soak.over.store(true, Ordering::Relaxed);
    });
}

/// What is known of a run beside what its end found.
struct Ran {
    seconds: u64,
    seed: u64,
    worked_us: u64,
    operations: Tally,
    base: Usage,
    takeovers: u64,
}

fn report(ran: &Ran, soak: &Soak, lives: &[Lived], found: &Found) -> String {
    let mut troubles = Tally::default();
    lives.iter().for_each(|life| troubles.merge(&life.troubles));
    let Ran { seconds, seed, worked_us, operations, base, takeovers } = ran;
    let Found { same, listed, started, records, usage } = found;
    let (brokers, hosts) = soak.fire.kills();
    let (total, worked_s) = (operations.total(), worked_us / 1_000_000);
    let mut text = String::new();
    let mut line = |name: &str, value: String| writeln!(text, "{name:<16} {value}").expect("it is memory");
    line("seed", format!("{seed}"));
    line("time", format!("{worked_s} s of work ({seconds} s asked for)"));
    line(
        "operations",
        format!("{total} by {CLIENTS} clients, {} in ten seconds: {operations}", total * 10 / worked_s.max(1)),
    );
    line("killed", format!("{brokers} brokers, {hosts} hosts; {takeovers} takeovers"));
    line("not plain", troubles.to_string());
    line("asked again", format!("{same} acknowledged keys, each the same again"));
    line("starts", format!("{started} that the commands wrote down, each once, no two of one session at a time"));
    line(
        "sessions",
        format!("{listed} listed at the end of the work, as the clients knew them; none after their deletion"),
    );
    line("ledger", format!("{records} records, verified"));
    line("broker, first", base.to_string());
    line("broker, last", usage.to_string());
    text
}

#[test]
fn law_05_everyday_work_under_fire_in_short() {
    soak(SHORT_SECONDS, 1);
}

#[test]
#[ignore = "takes an hour: the same for as long as it is told"]
fn long_soak() {
    let number = |name: &str| Environment::process().get(name)?.to_str()?.parse().ok();
    let seed = number("OSTLER_TEST_SEED").unwrap_or_else(|| u64::from_le_bytes(entropy::bytes::<8>()) >> 16);
    soak(number("OSTLER_TEST_SECONDS").unwrap_or(LONG_SECONDS), seed);
}
