//! Requests over the socket of a running broker, beside the append of the bytes that they put into the ledger.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ostler::machine::{Actor, Digest, Event, Gained, Key, Kind, OperationId, Outcome, Plan as Work};
use ostler::rpc::envelope;
use serde_json::{Value, json};

use crate::at;
use crate::broker::{Broker, Client, processor_times};
use crate::echo::{Echo, Sizes};
use crate::floor::Raw;
use crate::measure::{Contender, Plan, Series, in_turns};
use crate::parts::{Each, Parts};
use crate::report::{Goal, Row};

/// Clients of the row with many.
const CLIENTS: usize = 32;

/// No session is so old: nothing is pruned, and the request is one turn with one sync.
const OLDEST_MS: u64 = (1 << 53) - 1;

pub(crate) fn run(scratch: &Path, program: &Path, plan: &Plan) -> Result<Vec<Row>, String> {
    let root = scratch.join("root");
    let broker = Broker::start(&root, program)?;
    let mut keys = Keys::new();
    let mut rows = requests(scratch, &broker, plan, &mut keys)?;
    rows.extend(effects(scratch, &broker, plan, &mut keys)?);
    Ok(rows)
}

/// Requests of one turn, one after the other and from many clients at once; and some that write nothing.
fn requests(scratch: &Path, broker: &Broker, plan: &Plan, keys: &mut Keys) -> Result<Vec<Row>, String> {
    let before = broker.ledger_bytes()?;
    let mut client = broker.client()?;
    (0..16).try_for_each(|_| client.ask(&keys.prune()))?;
    let turn_bytes = usize::try_from((broker.ledger_bytes()? - before) / 16).unwrap_or(0);
    let mut raw = Raw::new(&scratch.join("raw-socket"))?;
    let known = keys.prune();
    client.ask(&known)?;
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| broker.client()).collect::<Result<_, _>>()?;
    let sizes = Sizes { appended: turn_bytes, answer: client.answer };
    let echo = std::cell::RefCell::new(Echo::start(scratch, CLIENTS, sizes)?);
    let work = Each { events: pruning(), answer: client.said()? };
    let mut parts = Parts::start(scratch, CLIENTS, &work)?;
    let keys = std::cell::RefCell::new(keys);
    let client = std::cell::RefCell::new(client);

    let mut one = |series: &mut Series| {
        timed(broker, series, plan.single, || keys.borrow_mut().prune(), |request| client.borrow_mut().ask(request))
    };
    let mut replayed = |series: &mut Series| {
        timed(broker, series, plan.single, || known.clone(), |request| client.borrow_mut().ask(request))
    };
    let mut floor =
        |series: &mut Series| (0..plan.single).try_for_each(|_| series.single(|| raw.append(&vec![b'x'; turn_bytes])));
    let mut many = |series: &mut Series| {
        let requests: Vec<Vec<u8>> = (0..plan.many).map(|_| keys.borrow_mut().prune()).collect();
        at_once(&mut clients, &requests, series, || broker.cpu())
    };
    let again: Vec<Vec<u8>> = (0..plan.many).map(|_| known.clone()).collect();
    let mut least = |series: &mut Series| {
        let Echo { clients, threads } = &mut *echo.borrow_mut();
        at_once(clients, &again, series, || Ok(processor_times(threads)))
    };
    let mut of_parts =
        |series: &mut Series| at_once(&mut parts.clients, &again, series, || Ok(processor_times(&parts.threads)));
    let mut alone = |series: &mut Series| {
        for _ in 0..plan.single {
            let mut echo = echo.borrow_mut();
            let (began, cpu) = (Instant::now(), processor_times(&echo.threads));
            echo.clients[0].ask(&known)?;
            let took = began.elapsed();
            series.add(1, took, processor_times(&echo.threads).saturating_sub(cpu));
        }
        Ok(())
    };
    let contenders: &mut [Contender<'_>] =
        &mut [&mut one, &mut replayed, &mut floor, &mut many, &mut least, &mut of_parts, &mut alone];
    let (series, pressure) = in_turns(plan.rounds, contenders)?;
    rows_of(&series, turn_bytes, pressure)
}

/// The rows of these contenders, in the order in which they took turns.
fn rows_of(series: &[Series], turn_bytes: usize, pressure: f64) -> Result<Vec<Row>, String> {
    let [one, replayed, floor, many, least, of_parts, alone] = series else {
        return Err("seven contenders".to_owned());
    };
    let bytes = format!("{turn_bytes} bytes appended, fdatasync");
    let row = |name: &str, what: &str, goal, ours| Row::new(name, what, goal, ours, pressure);
    Ok(vec![
        row("socket-1", "a request over the socket: one turn, one sync (prune of nothing)", Goal::AtMost(1.7), one)
            .against(&bytes, floor),
        row(
            "socket-1-least",
            "floor of that: an echo with the same threads, bytes and syncs",
            Goal::InReach(1.7),
            alone,
        )
        .against(&bytes, floor),
        row("socket-0", "a request that writes nothing: a known key", Goal::None, replayed).against(&bytes, floor),
        row("socket-32", "32 clients with one request each, against one client", Goal::AtMost(0.2), many)
            .against("one client", one),
        row("socket-32-cpu", "the same: the broker's processor time of a request", Goal::CpuUs(15.0), many)
            .against("an echo with the same threads, bytes and syncs", least),
        row(
            "socket-32-parts",
            "floor of that: tokio, serde_json, the request's digest and the library alone, with two records for each request",
            Goal::CpuInReach(15.0),
            of_parts,
        )
        .against("an echo with the same threads, bytes and syncs", least),
    ])
}

/// A request with intent and outcome: a session that has ended is deleted, which takes two turns and removes its files.
fn effects(scratch: &Path, broker: &Broker, plan: &Plan, keys: &mut Keys) -> Result<Vec<Row>, String> {
    let each = (plan.sessions / (plan.rounds + 1)).max(1);
    let wanted = usize::try_from(each * (plan.rounds + 1)).unwrap_or(0);
    let mut sessions = (0..wanted).map(|_| ended_session(broker)).collect::<Result<Vec<_>, _>>()?;
    let (copies, more) = (scratch.join("copies"), scratch.join("more-copies"));
    let copied = |to: &Path| -> Result<Vec<PathBuf>, String> {
        let each = sessions.iter().map(|id| (scratch.join("root/sessions").join(id), to.join(id)));
        each.map(|(from, to)| at("a copy", copy(&from, &to)).map(|()| to)).collect()
    };
    let (mut trees, mut more_trees) = (copied(&copies)?, copied(&more)?);
    let before = broker.ledger_bytes()?;
    let mut client = broker.client()?;
    let mut delete = |series: &mut Series| {
        for _ in 0..each {
            let id = sessions.pop().ok_or("too few sessions")?;
            let request = keys.request("session.delete", json!({"session": id}));
            timed(broker, series, 1, || request.clone(), |request| client.ask(request))?;
        }
        Ok(())
    };
    let mut raw = Raw::new(&scratch.join("raw-effects"))?;
    let mut floor = |series: &mut Series| (0..plan.single).try_for_each(|_| series.single(|| raw.append(&[b'x'; 700])));
    let mut removal = |series: &mut Series| {
        for _ in 0..each {
            let tree = trees.pop().ok_or("too few copies")?;
            series.single(|| removed(&tree, &copies))?;
        }
        Ok(())
    };
    let mut around = Raw::new(&scratch.join("raw-around"))?;
    let mut least = |series: &mut Series| {
        for _ in 0..each {
            let tree = more_trees.pop().ok_or("too few copies")?;
            series.single(|| {
                around.append(&[b'x'; 600])?;
                removed(&tree, &more)?;
                around.append(&[b'x'; 1050])
            })?;
        }
        Ok(())
    };
    let (series, pressure) = in_turns(plan.rounds, &mut [&mut delete, &mut floor, &mut removal, &mut least])?;
    let [delete, floor, removal, least] = series.as_slice() else { return Err("four contenders".to_owned()) };
    let written = (broker.ledger_bytes()? - before) / u64::try_from(wanted).unwrap_or(1);
    let what = format!(
        "a request with intent, effect and outcome: delete of an ended session ({written} bytes, two syncs, its files removed)"
    );
    Ok(vec![
        Row::new("socket-2", &what, Goal::AtMost(3.2), delete, pressure)
            .against("700 bytes appended, fdatasync", floor),
        Row::new(
            "socket-2-least",
            "floor of that: the same removal between two records appended and synced, on one thread",
            Goal::InReach(3.2),
            least,
            pressure,
        )
        .against("700 bytes appended, fdatasync", floor),
        Row::new(
            "socket-2-files",
            "of it: removing such files, and syncing their folder",
            Goal::None,
            removal,
            pressure,
        )
        .against("700 bytes appended, fdatasync", floor),
    ])
}

/// The records of a request that prunes nothing.
fn pruning() -> Vec<Event> {
    let op = OperationId(1_000_000);
    let key = Key::parse("0198c2f0-7d3e-7000-8000-000000000001").expect("a key");
    let act = Actor { uid: 1000, pid: 4711, sid: None };
    let (kind, body) = (Kind::Prune, Work::Prune { older_ms: OLDEST_MS });
    let accept = Event::Accept { sid: None, ep: None, op, kind, key, req: Digest([0x5f; 32]), act, body };
    let finish =
        Event::Finish { sid: None, op, kind, st: Outcome::Succeeded, err: None, res: Gained::default(), body: None };
    vec![accept, finish]
}

/// A session that has ended; its id.
fn ended_session(broker: &Broker) -> Result<String, String> {
    let said = broker.run(&["spawn", "--", "true"])?;
    let id = said["session"]["id"].as_str().ok_or_else(|| format!("no session: {said}"))?;
    broker.run(&["wait", id])?;
    Ok(id.to_owned())
}

/// Removes a session's files as the broker must: durably.
fn removed(tree: &Path, folder: &Path) -> Result<(), String> {
    at("a removal", std::fs::remove_dir_all(tree))?;
    at("a removal", std::fs::File::open(folder).and_then(|folder| folder.sync_all()))
}

/// So many requests, one after the other, each timed; the processor time is the broker's.
pub(crate) fn timed(
    broker: &Broker,
    series: &mut Series,
    count: u64,
    mut request: impl FnMut() -> Vec<u8>,
    mut ask: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let cpu = broker.cpu()?;
    let mut walls = Vec::new();
    for _ in 0..count {
        let request = request();
        let began = Instant::now();
        ask(&request)?;
        walls.push(began.elapsed());
    }
    let cpu = broker.cpu()?.saturating_sub(cpu) / u32::try_from(count).unwrap_or(1);
    walls.into_iter().for_each(|wall| series.add(1, wall, cpu));
    Ok(())
}

/// Requests of many clients, timed as one; the processor time is what `cpu` says.
pub(crate) fn at_once(
    clients: &mut [Client],
    requests: &[Vec<u8>],
    series: &mut Series,
    cpu: impl Fn() -> Result<Duration, String>,
) -> Result<(), String> {
    let (began, before) = (Instant::now(), cpu()?);
    all_at_once(clients, requests)?;
    let took = began.elapsed();
    series.add(u64::try_from(requests.len()).unwrap_or(1), took, cpu()?.saturating_sub(before));
    Ok(())
}

/// Every client has one request in flight until all are answered.
fn all_at_once(clients: &mut [Client], requests: &[Vec<u8>]) -> Result<(), String> {
    let mut next = requests.iter();
    let mut in_flight = 0_usize;
    for (client, request) in clients.iter_mut().zip(&mut next) {
        client.send(request)?;
        in_flight += 1;
    }
    while in_flight > 0 {
        let ready: Vec<bool> = {
            let mut waiting: Vec<PollFd<'_>> =
                clients.iter().map(|client| PollFd::new(client.stream.as_fd(), PollFlags::POLLIN)).collect();
            at("poll", poll(&mut waiting, PollTimeout::from(60_000_u16)))?;
            waiting.iter().map(|of| of.revents().is_some_and(|events| !events.is_empty())).collect()
        };
        if !ready.contains(&true) {
            return Err("no answer within a minute".to_owned());
        }
        for (client, _) in clients.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            if client.hear()? {
                match next.next() {
                    Some(request) => client.send(request)?,
                    None => in_flight -= 1,
                }
            }
        }
    }
    Ok(())
}

/// A new key for every request, in the form in which the product's clients make them.
pub(crate) struct Keys(u64);

impl Keys {
    pub(crate) fn new() -> Keys {
        Keys(0)
    }

    fn prune(&mut self) -> Vec<u8> {
        self.request("session.prune", json!({"older_ms": OLDEST_MS}))
    }

    pub(crate) fn request(&mut self, method: &str, mut params: Value) -> Vec<u8> {
        self.0 += 1;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_millis();
        let key = format!("{:08x}-{:04x}-7000-8000-{:012x}", now >> 16, now & 0xffff, self.0);
        params["key"] = Value::from(key);
        envelope::request(self.0, method, &params)
    }
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
