//! The broker's connection to a living host: says hello with the broker's generation, checks that the host is the one
//! that was meant, carries requests and hands on what the host says unasked. When the host goes, requests fail with
//! `LinkError::Closed` and the pushes end; the evidence then tells why.

use std::collections::BTreeMap;
use std::time::Duration;

use data_encoding::BASE64;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};

use crate::host::files;
use crate::host::wire::{
    Delivery, Hello, HostRecord, Line, Push, Refusal, RefusalCode, Reply, Request, RequestLine, Status, Stopped,
    version,
};

/// Pushes that may wait for the broker; beyond it the host waits.
const PUSHES_MAX: usize = 64;
/// Requests under way on one link.
const REQUESTS_MAX: usize = 16;
/// Longest line of a host.
const LINE_BYTES_MAX: u64 = 256 * 1024;

/// Why a host could not be spoken to.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Nobody answers at its address: gone, or its socket was removed.
    #[error("the host's endpoint does not answer: {0}")]
    Unreachable(std::io::Error),
    /// Somebody answers, but it is another host than the record names.
    #[error("another host answers at that address")]
    Foreign,
    /// The host said no.
    #[error("the host refused: {}", .0.message)]
    Refused(Refusal),
    /// The connection ended.
    #[error("the host closed the connection")]
    Closed,
    /// It took too long.
    #[error("the host did not answer in time")]
    Late,
    /// What it said makes no sense.
    #[error("the host said something unexpected: {0}")]
    Protocol(String),
}

/// A connection to a host. Clones share it; it closes with the last one.
#[derive(Clone, Debug)]
pub struct Link {
    requests: mpsc::Sender<Call>,
    /// Whether the host knows `deliver`; to one that does not its line would be too long.
    delivers: bool,
}

struct Call {
    request: Request,
    answer: oneshot::Sender<Result<Answer, LinkError>>,
}

/// An answer, with the frames that follow it (only `read` has any).
#[derive(Debug)]
pub struct Answer {
    /// What the host says.
    pub reply: Reply,
    /// Frames of output.
    pub frames: Vec<u8>,
}

impl Link {
    /// Connects and says hello. The receiver gets what the host says unasked, and ends with the connection.
    ///
    /// # Errors
    /// [`LinkError`]; within the given time.
    pub async fn dial(
        record: &HostRecord,
        generation: u64,
        within: Duration,
    ) -> Result<(Self, Hello, mpsc::Receiver<Push>), LinkError> {
        tokio::time::timeout(within, Self::connect(record, generation)).await.unwrap_or(Err(LinkError::Late))
    }

    async fn connect(record: &HostRecord, generation: u64) -> Result<(Self, Hello, mpsc::Receiver<Push>), LinkError> {
        let path = record.endpoint.address.strip_prefix("unix:");
        let path = path.ok_or_else(|| LinkError::Protocol(format!("address {}", record.endpoint.address)))?;
        let stream = UnixStream::connect(path).await.map_err(LinkError::Unreachable)?;
        let (reader, writer) = stream.into_split();
        let (requests, calls) = mpsc::channel(REQUESTS_MAX);
        let (push, pushes) = mpsc::channel(PUSHES_MAX);
        tokio::spawn(carry(reader, writer, calls, push));
        let mut link = Self { requests, delivers: false };
        // Each is spoken to in its own version: a host outlives many brokers, older and newer ones.
        let version = record.version.min(version());
        let hello = Request::Hello { version, secret: record.secret.clone(), generation: Some(generation) };
        let Reply::Hello(hello) = link.request(hello).await? else {
            return Err(LinkError::Protocol("another answer than hello".into()));
        };
        link.delivers = hello.capabilities.iter().any(|known| known == "deliver");
        let same = hello.incarnation == record.endpoint.incarnation
            && hello.lock == record.lock
            && hello.folder == record.folder
            && hello.host == record.host;
        if same { Ok((link, *hello, pushes)) } else { Err(LinkError::Foreign) }
    }

    /// Asks the host for an answer without frames.
    ///
    /// # Errors
    /// [`LinkError`]. It waits as long as the connection lives; a caller with a deadline sets it around this.
    pub async fn request(&self, request: Request) -> Result<Reply, LinkError> {
        Ok(self.ask(request).await?.reply)
    }

    /// Asks the host.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub async fn ask(&self, request: Request) -> Result<Answer, LinkError> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(Call { request, answer }).await.map_err(|_| LinkError::Closed)?;
        answered.await.unwrap_or(Err(LinkError::Closed))
    }

    /// How the episode goes.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub async fn status(&self) -> Result<Status, LinkError> {
        let reply = self.request(Request::Status).await?;
        if let Reply::Status(status) = reply { Ok(status) } else { Err(unexpected(&reply)) }
    }

    /// Ends the episode and returns when it has ended.
    ///
    /// # Errors
    /// As [`Self::request`]; [`LinkError::Closed`] leaves open whether it has, and the evidence tells.
    pub async fn stop(&self, grace_ms: u64) -> Result<Stopped, LinkError> {
        let reply = self.request(Request::Stop { grace_ms }).await?;
        if let Reply::Stop(stopped) = reply { Ok(stopped) } else { Err(unexpected(&reply)) }
    }

    /// Hands bytes to a command whose adapter is `lines`, exactly as they are, and returns when its pipe has all of them or
    /// never will have. Asked again with the same message and attempt, over this link or another, it writes nothing again and gives the same
    /// answer, as long as it is one of the latest ([`crate::host::journal::KEPT`]).
    ///
    /// # Errors
    /// As [`Self::request`]. Where the host refused nothing was written; with [`RefusalCode::Unavailable`] it may help to
    /// ask again. Anything else, [`LinkError::Closed`] above all, leaves open what was written: ask again over another link, or
    /// [`super::probe()`] the journal of a host that is dead.
    pub async fn deliver(&self, message: &str, attempt: u64, bytes: &[u8]) -> Result<Delivery, LinkError> {
        if !self.delivers {
            let message = "this host is of a version that takes no messages".to_owned();
            return Err(LinkError::Refused(Refusal { code: RefusalCode::CapabilityMissing, message }));
        }
        let request = Request::Deliver { message: message.to_owned(), attempt, b64: BASE64.encode(bytes) };
        let reply = self.request(request).await?;
        if let Reply::Deliver { delivery } = reply { Ok(delivery) } else { Err(unexpected(&reply)) }
    }

    /// Sends INT to the command's process group, once for an attempt, and only while that session turn runs if one is named; false: the
    /// command, or the turn, has ended.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub async fn interrupt(&self, attempt: u64, turn: Option<u64>) -> Result<bool, LinkError> {
        let reply = self.request(Request::Interrupt { attempt, turn }).await?;
        if let Reply::Interrupt { sent } = reply { Ok(sent) } else { Err(unexpected(&reply)) }
    }
}

fn unexpected(reply: &Reply) -> LinkError {
    LinkError::Protocol(format!("{reply:?}"))
}

type Pending = BTreeMap<u64, oneshot::Sender<Result<Answer, LinkError>>>;

/// Owns the connection until either side lets go of it. Whoever still waits is told by the drop of his sender.
async fn carry(
    reader: OwnedReadHalf,
    mut writer: OwnedWriteHalf,
    mut calls: mpsc::Receiver<Call>,
    push: mpsc::Sender<Push>,
) {
    // Reading happens on its own task, because a half-read line must not be lost when a call comes in.
    let (heard, mut hears) = mpsc::channel(1);
    let listener = tokio::spawn(listen(reader, heard));
    let mut pending = Pending::new();
    let mut next = 0_u64;
    loop {
        tokio::select! {
            call = calls.recv() => {
                let Some(call) = call else { break };
                next += 1;
                pending.insert(next, call.answer);
                if writer.write_all(&files::to_line(&RequestLine { id: next, request: call.request })).await.is_err() {
                    break;
                }
            }
            said = hears.recv() => {
                let Some(said) = said else { break };
                // A broker that has let go of the pushes still gets its answers.
                match said {
                    Ok((Line::Push(said), _)) => drop(push.send(said).await),
                    Ok((Line::Reply { id, reply }, frames)) => answer(&mut pending, Some(id), Ok(Answer { reply, frames })),
                    Ok((Line::Refused { id, error }, _)) => answer(&mut pending, id, Err(LinkError::Refused(error))),
                    Err(error) => {
                        if let Some((_, waits)) = pending.pop_first() {
                            drop(waits.send(Err(error)));
                        }
                        break;
                    }
                }
            }
        }
    }
    listener.abort();
}

fn answer(pending: &mut Pending, id: Option<u64>, with: Result<Answer, LinkError>) {
    // A refusal without id is about a line that could not be read; ours can, so it is the oldest request's.
    let waits = match id {
        Some(id) => pending.remove(&id),
        None => pending.pop_first().map(|(_, waits)| waits),
    };
    if let Some(waits) = waits {
        // Whoever asked may have given up.
        drop(waits.send(with));
    }
}

type Heard = Result<(Line, Vec<u8>), LinkError>;

async fn listen(reader: OwnedReadHalf, heard: mpsc::Sender<Heard>) {
    let mut reader = BufReader::new(reader);
    while let Some(line) = next_line(&mut reader).await {
        let failed = line.is_err();
        if heard.send(line).await.is_err() || failed {
            return;
        }
    }
}

/// The next line with its frames, or `None` at the end.
async fn next_line(reader: &mut BufReader<OwnedReadHalf>) -> Option<Heard> {
    let mut bytes = Vec::new();
    match (&mut *reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes).await {
        Ok(_) if bytes.ends_with(b"\n") => {}
        Ok(_) if bytes.is_empty() => return None,
        Ok(_) => return Some(Err(LinkError::Protocol("a line without end".into()))),
        Err(_) => return None,
    }
    let line = match serde_json::from_slice(&bytes) {
        Ok(line) => line,
        Err(error) => return Some(Err(LinkError::Protocol(error.to_string()))),
    };
    let mut frames = Vec::new();
    if let Line::Reply { reply: Reply::Read { bytes, .. }, .. } = &line {
        frames.resize(usize::try_from(*bytes).unwrap_or(usize::MAX), 0);
        reader.read_exact(&mut frames).await.ok()?;
    }
    Some(Ok((line, frames)))
}
