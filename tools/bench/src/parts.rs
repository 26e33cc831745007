//! What the parts cost that this design is made of, before anything of a broker is there: tokio carries the lines, serde_json reads requests and
//! writes answers, each request gets the keyed digest that its record holds, and the ledger's library forms, chains, appends and syncs two
//! records for each. Nothing is checked, decided, remembered or shown; keys, sessions and readers do not exist.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender as Thread, channel};

use hmac::{Hmac, KeyInit, Mac};
use ostler::broker::codec;
use ostler::machine::Event;
use ostler_ledger::storage::Disk;
use ostler_ledger::{Ledger, Options};
use serde_json::Value;
use sha2::Sha256;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};

use crate::append::STAMP;
use crate::at;
use crate::broker::Client;
use crate::echo::task;

const SECRET: [u8; 32] = [7; 32];
/// Requests that one append takes at most.
const BATCH: usize = 1024;

/// The parts at work. They end when the clients have gone.
pub(crate) struct Parts {
    pub(crate) clients: Vec<Client>,
    /// Its two threads in `/proc`.
    pub(crate) threads: Vec<PathBuf>,
}

/// What one request comes to.
#[derive(Clone)]
pub(crate) struct Each {
    /// Its records.
    pub(crate) events: Vec<Event>,
    /// Its answer.
    pub(crate) answer: Value,
}

impl Parts {
    pub(crate) fn start(folder: &Path, clients: usize, work: &Each) -> Result<Parts, String> {
        let path = folder.join("parts");
        let listener = at("the socket of the parts", std::os::unix::net::UnixListener::bind(&path))?;
        let clients: Vec<Client> = (0..clients)
            .map(|_| at("connect", UnixStream::connect(&path)).map(Client::new))
            .collect::<Result<_, _>>()?;
        let streams = clients.iter().map(|_| listener.accept().map(|(stream, _)| stream));
        let streams: Vec<UnixStream> = at("accept", streams.collect())?;
        let disk = Disk::new(folder.join("parts-ledger"), folder.join("parts-quarantine"));
        let (ledger, _recovery) = at("the ledger", Ledger::open(disk, Options::new("bench", "boot")))?;
        let (asked, inbox) = mpsc::channel(BATCH);
        let (started, tasks) = channel();
        let (also_started, events, answer) = (started.clone(), work.events.clone(), work.answer.clone());
        std::thread::spawn(move || append(ledger, inbox, &events, &also_started));
        std::thread::spawn(move || serve(streams, &asked, answer, &started));
        Ok(Parts { clients, threads: tasks.iter().take(2).collect() })
    }
}

type Asked = mpsc::Sender<oneshot::Sender<()>>;

/// A task for each connection. An error ends it, and its client sees that.
fn serve(streams: Vec<UnixStream>, asked: &Asked, answer: Value, started: &Thread<PathBuf>) -> Option<()> {
    started.send(task()).ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let answer = std::sync::Arc::new(answer);
    runtime.block_on(async {
        let mut connections = tokio::task::JoinSet::new();
        for stream in streams {
            stream.set_nonblocking(true).ok()?;
            let stream = tokio::net::UnixStream::from_std(stream).ok()?;
            connections.spawn(talk(stream, asked.clone(), std::sync::Arc::clone(&answer)));
        }
        while connections.join_next().await.is_some() {}
        Some(())
    })
}

async fn talk(stream: tokio::net::UnixStream, asked: Asked, answer: std::sync::Arc<Value>) -> Option<()> {
    let (reading, mut writing) = stream.into_split();
    let (mut reading, mut line) = (BufReader::new(reading), Vec::new());
    while reading.read_until(b'\n', &mut line).await.ok()? > 0 {
        let _request: Value = serde_json::from_slice(&line).ok()?;
        let mut digest = Hmac::<Sha256>::new_from_slice(&SECRET).ok()?;
        digest.update(&line);
        std::hint::black_box(digest.finalize());
        let (done, durable) = oneshot::channel();
        asked.send(done).await.ok()?;
        durable.await.ok()?;
        let mut said = serde_json::to_vec(&*answer).ok()?;
        said.push(b'\n');
        writing.write_all(&said).await.ok()?;
        line.clear();
    }
    Some(())
}

/// Appends and syncs what has come meanwhile, then tells.
fn append(
    mut ledger: Ledger<Disk>,
    mut inbox: mpsc::Receiver<oneshot::Sender<()>>,
    events: &[Event],
    started: &Thread<PathBuf>,
) -> Option<()> {
    started.send(task()).ok()?;
    let mut batch = Vec::new();
    while inbox.blocking_recv_many(&mut batch, BATCH) > 0 {
        let entries: Vec<_> = batch.iter().flat_map(|_| events).map(|event| codec::entry(event).0).collect();
        ledger.append(&entries, &STAMP).ok()?;
        ledger.sync().ok()?;
        // Whoever has gone meanwhile is told nothing.
        batch.drain(..).for_each(|done| {
            let _ = done.send(());
        });
    }
    Some(())
}
