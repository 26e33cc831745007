//! A long history, as the product would have written it: sessions are spawned, run, end and are removed.
//!
//! The product's own machine decides every record; only the world is made up. So it can be folded again.

use std::path::Path;

use ostler::broker::codec;
use ostler::machine::{
    Action, Actor, Adapter, At, Digest, Exit, Family, Input, Key, Observation, PreparedSession, Process, Request, Run,
    Scope, SessionId, State, Time, Word, apply, decide,
};
use ostler_ledger::storage::Disk;
use ostler_ledger::{Entry, Ledger, Options, Stamp};

use crate::at;

/// Records of one append.
const BATCH: usize = 200;
/// Sessions that are there at the same time.
const SESSIONS: u64 = 64;

const BEGAN_US: u64 = 1_767_225_600_000_000;
const ACTOR: Actor = Actor { uid: 1000, pid: 4711, sid: None };

/// Writes at least so many records into a new ledger. Returns how many there are.
pub(crate) fn write(folder: &Path, quarantine: &Path, records: u64) -> Result<u64, String> {
    let disk = Disk::new(folder, quarantine);
    let (mut ledger, _recovery) = at("the history", Ledger::open(disk, Options::new("bench", "boot")))?;
    let mut world = World { state: State::default(), now_us: BEGAN_US, batch: Vec::new(), next: ledger.next_seq() };
    let mut number = 0;
    while ledger.head().seq < records {
        world.life(number);
        number += 1;
        if world.batch.len() >= BATCH {
            let stamp = Stamp { at_us: world.now_us, mono_us: world.now_us - BEGAN_US, bg: 1 };
            at("the history", ledger.append(&world.batch, &stamp))?;
            at("the history", ledger.sync())?;
            world.state.close(Time { wall_us: world.now_us, boot_us: world.now_us - BEGAN_US });
            world.batch.clear();
            world.next = ledger.next_seq();
        }
    }
    Ok(ledger.head().seq)
}

struct World {
    state: State,
    now_us: u64,
    batch: Vec<Entry>,
    /// The sequence number that the batch begins with.
    next: u64,
}

impl World {
    /// A session is spawned, and the one that was spawned long before ends and is removed.
    fn life(&mut self, number: u64) {
        let id = session(number);
        let prepared = PreparedSession { id: id.clone(), spec: digest(number) };
        let labels = [("task".to_owned(), format!("job {number}"))].into_iter().collect();
        self.ask(
            2 * number,
            Action::Spawn {
                prepared: Some(prepared),
                name: None,
                labels,
                adapter: Adapter::Inbox,
                readiness: None,
                source: None,
            },
        );
        self.word(&id, Word::Started(process(number)));
        if let Some(old) = number.checked_sub(SESSIONS) {
            let id = session(old);
            let exit = Exit::Code(u32::from(old % 5 == 0));
            self.word(&id, Word::Exited { run: None, exit, at_us: self.now_us, survivors: Vec::new() });
            self.ask(2 * old + 1, Action::Delete { target: Ok(id.clone()), stop: false, grace_ms: 0, reason: None });
            self.word(&id, Word::Removed);
        }
    }

    fn ask(&mut self, number: u64, action: Action) {
        let made_ms = self.now_us / 1_000;
        let key = format!("{:08x}-{:04x}-7000-8000-{number:012x}", made_ms >> 16, made_ms & 0xffff);
        let key = Key::parse(&key).expect("a key");
        let digest = digest(number);
        self.decide(&Input::Request(Request {
            scope: Scope::Owner,
            actor: ACTOR,
            key,
            digest,
            digests_since: 0,
            family: Family::default(),
            recalled: Vec::new(),
            action,
        }));
    }

    fn word(&mut self, session: &SessionId, word: Word) {
        self.decide(&Input::Observation(Observation { session: session.clone(), episode: 1, word }));
    }

    fn decide(&mut self, input: &Input) {
        self.now_us += 1_117;
        let time = Time { wall_us: self.now_us, boot_us: self.now_us - BEGAN_US };
        let seq = |world: &World| world.next + u64::try_from(world.batch.len()).unwrap_or(0);
        for event in decide(&self.state, time, seq(self), input).events {
            let at = At { seq: seq(self), time };
            apply(&mut self.state, &event, at).expect("the machine takes what it decides");
            self.batch.push(codec::entry(&event).0);
        }
    }
}

fn session(number: u64) -> SessionId {
    let digits: String =
        (0..12).rev().map(|place| LETTERS[usize::try_from(number >> (5 * place) & 31).unwrap_or(0)]).collect();
    SessionId::parse(&digits).expect("an id")
}

const LETTERS: [char; 32] = [
    'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', 'p', 'q', 'r', 's', 't', 'u', 'v', 'w',
    'x', 'y', 'z', '2', '3', '4', '5', '6', '7',
];

fn digest(number: u64) -> Digest {
    let mut bytes = [0; 32];
    for (byte, part) in
        bytes.iter_mut().zip(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().into_iter().cycle())
    {
        *byte = part;
    }
    Digest(bytes)
}

fn process(number: u64) -> Run {
    let pid = u32::try_from(1_000 + number % 30_000).unwrap_or(1);
    let process = |pid| Process { boot: "boot".to_owned(), ns: 4_026_531_836, pid, start: 1_000_000 + number };
    Run {
        host: process(pid),
        command: process(pid + 1),
        address: format!("unix:/run/user/1000/ostler/h-{number:012x}"),
        incarnation: digest(number),
        started_us: BEGAN_US + number,
    }
}
