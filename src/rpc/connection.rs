//! One connection: hello within its time, then requests, many at once, answered in the order in which they are done.
//!
//! ```text
//! accepted --hello within 5 s, 4 KiB--> open --line--> call --done--> queue --> written
//!     | late, wrong, too long             | end of file, half a line for 30 s, line too long, queue full, stop
//!     +-> told why, closed                +-> closed; calls that only wait are dropped, work that was accepted goes on
//! ```
//!
//! Promises: who does not read its answers is cut off, never waited for; who reads nothing but what it is told unasked may take its time,
//! and costs a bounded piece of memory meanwhile; end of file in either direction ends the connection; a limit that is reached is told with
//! its own error.

use std::future::poll_fn;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use interprocess::local_socket::tokio::Stream;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf, ReadHalf, WriteHalf, split};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::calls::{Call, Calls};
use super::envelope::{self, Rejected, Request};
use super::error::{ErrorCode, WireError};
use super::frame::{FRAME_BYTES_MAX, HELLO_FRAME_BYTES_MAX, Lines};
use super::hello;
use super::listener::Silent;
use super::method::{Class, Method};
use super::service::{Caller, Peer, Service};
use super::wire::Identity;
use crate::os::fail::{Point, pass};

/// Time from the first byte of a line to its last.
pub const LINE_WITHIN: Duration = Duration::from_secs(30);
/// Requests in flight on one connection.
pub const IN_FLIGHT_MAX: usize = 64;
/// Answers that wait to be written, bytes.
pub const OUT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Answers that wait to be written.
pub const OUT_LINES_MAX: usize = 4096;
/// What a connection is told unasked is taken while fewer bytes than this wait to be written.
const NOTICES_BELOW_BYTES: usize = 64 * 1024;
/// Time without progress after which a reader counts as gone that has answers to take.
pub const WRITE_WITHIN: Duration = Duration::from_secs(10);
/// Time for what is queued when a connection ends in order.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);
/// Time for what is in flight when the broker stops.
const STOP_WITHIN: Duration = Duration::from_secs(5);
const READ_BYTES: usize = 8 * 1024;

/// A connection that was let in.
#[derive(Debug)]
pub(super) struct Admitted<S> {
    pub(super) stream: Stream,
    pub(super) peer: Peer,
    pub(super) connection: u64,
    pub(super) service: Arc<S>,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) silent: Arc<Silent>,
    pub(super) make_room: Arc<Notify>,
}

/// Lines on their way out.
struct Outbox {
    lines: mpsc::Sender<Line>,
    queued: Arc<Queued>,
}

/// One answer, or lines that nobody asked for.
enum Line {
    Answer(Vec<u8>),
    Notice(Vec<u8>),
}

/// What waits to be written.
#[derive(Default)]
struct Queued {
    bytes: AtomicUsize,
    answers: AtomicUsize,
    /// Told with each line that is written.
    fewer: Notify,
}

/// The reader is too slow: the connection is over.
struct TooSlow;

impl Outbox {
    fn push(&self, line: Vec<u8>) -> Result<(), TooSlow> {
        let before = self.queued.bytes.fetch_add(line.len(), Ordering::Relaxed);
        self.queued.answers.fetch_add(1, Ordering::Relaxed);
        // One answer always fits; a queue behind an unread one does not grow without end.
        if before > 0 && before + line.len() > OUT_BYTES_MAX {
            return Err(TooSlow);
        }
        self.lines.try_send(Line::Answer(line)).map_err(|_| TooSlow)
    }

    fn tell(&self, lines: Vec<u8>) -> Result<(), TooSlow> {
        self.queued.bytes.fetch_add(lines.len(), Ordering::Relaxed);
        self.lines.try_send(Line::Notice(lines)).map_err(|_| TooSlow)
    }
}

/// The next notice, once there is room for it. May be dropped at any point and asked again.
async fn noticed(notices: &mut mpsc::Receiver<Vec<u8>>, queued: &Queued) -> Option<Vec<u8>> {
    while queued.bytes.load(Ordering::Relaxed) >= NOTICES_BELOW_BYTES {
        queued.fewer.notified().await;
    }
    notices.recv().await
}

/// Serves one connection to its end.
pub(super) async fn serve<S: Service>(admitted: Admitted<S>) {
    let queued = Arc::new(Queued::default());
    let (lines, queue) = mpsc::channel(OUT_LINES_MAX);
    let outbox = Outbox { lines, queued: Arc::clone(&queued) };
    let (incoming, outgoing) = split(admitted.stream);
    let connection = Connection {
        stream: incoming,
        peer: admitted.peer,
        connection: admitted.connection,
        service: admitted.service,
        stop: admitted.stop,
        lines: Lines::default(),
        outbox,
    };
    let mut writer = std::pin::pin!(write(outgoing, queue, &queued));
    let end = tokio::select! {
        biased;
        () = &mut writer => End::Cut,
        end = connection.run(&admitted.silent, &admitted.make_room) => end,
    };
    admitted.silent.leave(admitted.connection);
    match end {
        End::Cut => tracing::debug!(connection = admitted.connection, "connection cut off"),
        // The queue's other end is dropped: the writer ends with the last line.
        End::InOrder => drop(timeout(FLUSH_WITHIN, writer).await),
    }
}

/// How a connection came to its end.
enum End {
    /// What is queued may still be written.
    InOrder,
    /// The reader is gone or too slow.
    Cut,
}

struct Connection<S> {
    stream: ReadHalf<Stream>,
    peer: Peer,
    connection: u64,
    service: Arc<S>,
    stop: watch::Receiver<bool>,
    lines: Lines,
    outbox: Outbox,
}

/// What a connection wakes up for.
enum Next {
    /// The broker stops.
    Stop,
    /// A call is done.
    Done(Call),
    /// Something to be told unasked.
    Notice(Vec<u8>),
    /// Bytes came, or the end.
    Read { is_open: bool },
    /// A line was begun and not ended in time.
    Late,
}

/// How the wait for hello ended.
enum Greeted {
    Done(Result<Identity, End>),
    Refused(ErrorCode, &'static str, &'static str),
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // The sender lives as long as the server, and the server as long as this connection.
    drop(stop.wait_for(|stop| *stop).await);
}

impl<S: Service> Connection<S> {
    async fn run(mut self, silent: &Silent, make_room: &Notify) -> End {
        let mut stop = self.stop.clone();
        let greeted = tokio::select! {
            biased;
            greeted = self.greet() => Greeted::Done(greeted),
            () = tokio::time::sleep(hello::WITHIN) => Greeted::Refused(ErrorCode::Timeout, "hello", "no hello within 5 s"),
            () = make_room.notified() => {
                Greeted::Refused(ErrorCode::Capacity, "connections", "others need this connection, which has said nothing")
            }
            () = stopped(&mut stop) => Greeted::Refused(ErrorCode::Draining, "stopping", "the broker is leaving"),
        };
        silent.leave(self.connection);
        let greeted = match greeted {
            Greeted::Done(greeted) => greeted,
            Greeted::Refused(code, reason, message) => {
                Err(self.refuse(Value::Null, &WireError::new(code, message).reason(reason)))
            }
        };
        match greeted {
            Ok(identity) => self.talk(identity).await,
            Err(end) => end,
        }
    }

    /// Reads hello and answers it.
    async fn greet(&mut self) -> Result<Identity, End> {
        let line = loop {
            match self.lines.next_line(HELLO_FRAME_BYTES_MAX) {
                Ok(Some(line)) => break line.to_vec(),
                Ok(None) => {}
                Err(_) => return Err(self.refuse_long(HELLO_FRAME_BYTES_MAX)),
            }
            if !self.read().await {
                return Err(End::InOrder);
            }
        };
        let request = envelope::read_request(&line).map_err(|rejected| self.reject(&rejected))?;
        if request.method != Method::Hello.name() {
            let error = WireError::new(ErrorCode::Unauthenticated, "the first call of a connection is `hello`");
            return Err(self.refuse(request.id, &error.reason("hello_first")));
        }
        match hello::answer(&*self.service, request.params) {
            Ok((result, identity)) => {
                self.push(envelope::response(&request.id, &Ok(result)))?;
                Ok(identity)
            }
            Err(error) => Err(self.refuse(request.id, &error)),
        }
    }

    async fn talk(mut self, identity: Identity) -> End {
        // Its end is what tells those who tell that the connection has ended.
        let (notices, mut told) = mpsc::channel(1);
        let caller = Caller { identity, peer: self.peer, connection: self.connection, notices };
        let mut calls = Calls::default();
        let mut partial_until = None;
        loop {
            match self.take_lines(&caller, &mut calls) {
                Ok(()) => {}
                Err(end) => return end,
            }
            partial_until = match partial_until {
                _ if !self.lines.has_partial() => None,
                Some(until) => Some(until),
                None => Some(Instant::now() + LINE_WITHIN),
            };
            let next = tokio::select! {
                biased;
                () = stopped(&mut self.stop) => Next::Stop,
                Some(done) = calls.next() => Next::Done(done),
                is_open = read_into(&mut self.stream, &mut self.lines) => Next::Read { is_open },
                // Behind what is done: an answer goes before what is told because of it.
                Some(lines) = noticed(&mut told, &self.outbox.queued) => Next::Notice(lines),
                () = sleep_until(partial_until.unwrap_or_else(Instant::now)), if partial_until.is_some() => Next::Late,
            };
            match next {
                Next::Stop => return self.finish(calls).await,
                Next::Done(done) => {
                    if let Err(end) = self.answer(&done) {
                        return end;
                    }
                }
                Next::Notice(lines) => {
                    if self.outbox.tell(lines).is_err() {
                        return End::Cut;
                    }
                }
                Next::Read { is_open: true } => {}
                Next::Read { is_open: false } => return End::InOrder,
                Next::Late => {
                    let error = WireError::new(ErrorCode::InvalidInput, "half a line and then nothing for 30 s");
                    return self.refuse(Value::Null, &error.reason("incomplete_line"));
                }
            }
        }
    }

    /// Begins every request that has arrived whole.
    fn take_lines(&mut self, caller: &Caller, calls: &mut Calls) -> Result<(), End> {
        loop {
            let request = match self.lines.next_line(FRAME_BYTES_MAX) {
                Ok(Some(line)) => envelope::read_request(line),
                Ok(None) => break,
                Err(_) => return Err(self.refuse_long(FRAME_BYTES_MAX)),
            };
            match request.map_err(|rejected| rejected.to_bytes()).and_then(|request| admit(request, calls.len())) {
                Ok((id, method, params)) => {
                    let (service, caller) = (Arc::clone(&self.service), caller.clone());
                    let changes = method.class() == Class::Mutates;
                    calls.add(changes, async move { (id, service.call(caller, method, params).await) });
                }
                Err(refusal) => self.push(refusal)?,
            }
        }
        self.lines.relax();
        Ok(())
    }

    fn answer(&self, (id, answer): &Call) -> Result<(), End> {
        self.push(envelope::response(id, answer))
    }

    /// The broker stops: what is in flight is answered, bounded.
    async fn finish(self, mut calls: Calls) -> End {
        let all = async {
            while let Some(done) = calls.next().await {
                if self.answer(&done).is_err() {
                    return;
                }
            }
        };
        drop(timeout(STOP_WITHIN, all).await);
        End::InOrder
    }

    async fn read(&mut self) -> bool {
        read_into(&mut self.stream, &mut self.lines).await
    }

    fn push(&self, line: Vec<u8>) -> Result<(), End> {
        self.outbox.push(line).map_err(|TooSlow| End::Cut)
    }

    fn refuse(&self, id: Value, error: &WireError) -> End {
        self.push(envelope::response(&id, &Err(error.clone()))).map_or_else(|end| end, |()| End::InOrder)
    }

    fn reject(&self, rejected: &Rejected) -> End {
        self.push(rejected.to_bytes()).map_or_else(|end| end, |()| End::InOrder)
    }

    fn refuse_long(&self, bytes_max: usize) -> End {
        let error = WireError::new(ErrorCode::TooLarge, format!("a line is at most {bytes_max} bytes long"));
        self.refuse(Value::Null, &error.reason("line").with("bytes_max", u64::try_from(bytes_max).unwrap_or(u64::MAX)))
    }
}

/// Whether a request is to be called, or the line that refuses it.
fn admit(request: Request, in_flight: usize) -> Result<(Value, Method, Value), Vec<u8>> {
    let Request { id, method, params } = request;
    let refused = |error: WireError| Err(envelope::response(&id, &Err(error)));
    let Some(method) = Method::from_name(&method) else {
        return refused(WireError::new(ErrorCode::UnknownMethod, format!("there is no method `{method}`")));
    };
    if method == Method::Hello {
        return refused(WireError::new(ErrorCode::InvalidInput, "hello was said").reason("hello_twice"));
    }
    if in_flight >= IN_FLIGHT_MAX {
        let message = format!("{IN_FLIGHT_MAX} requests are in flight on this connection");
        return refused(WireError::new(ErrorCode::Busy, message).reason("in_flight"));
    }
    Ok((id, method, params))
}

/// Reads what there is; false at the end.
async fn read_into(stream: &mut ReadHalf<Stream>, lines: &mut Lines) -> bool {
    let mut space = [MaybeUninit::uninit(); READ_BYTES];
    let mut buffer = ReadBuf::uninit(&mut space);
    let read = poll_fn(|context| Pin::new(&mut *stream).poll_read(context, &mut buffer)).await;
    lines.push(buffer.filled());
    read.is_ok() && !buffer.filled().is_empty()
}

/// Writes what is queued, in order, until the queue's other end is dropped or the reader is gone.
async fn write(mut stream: WriteHalf<Stream>, mut queue: mpsc::Receiver<Line>, queued: &Queued) {
    while let Some(line) = queue.recv().await {
        let (bytes, is_answer) = match line {
            Line::Answer(bytes) => (bytes, true),
            Line::Notice(bytes) => (bytes, false),
        };
        if !write_all(&mut stream, &bytes, queued).await {
            return;
        }
        queued.bytes.fetch_sub(bytes.len(), Ordering::Relaxed);
        queued.fewer.notify_one();
        if is_answer {
            queued.answers.fetch_sub(1, Ordering::Relaxed);
            pass(Point::ReplySent);
        }
    }
}

/// Writes one line, or lines; false if the reader is gone. Where no answer waits it is waited for: what it is told unasked is not kept for it.
async fn write_all(stream: &mut WriteHalf<Stream>, mut rest: &[u8], queued: &Queued) -> bool {
    while !rest.is_empty() {
        let answer_waits = queued.answers.load(Ordering::Relaxed) > 0;
        match timeout(WRITE_WITHIN, stream.write(rest)).await {
            Ok(Ok(bytes)) if bytes > 0 => rest = &rest[bytes..],
            Ok(Ok(_) | Err(_)) => return false,
            Err(_) if answer_waits => return false,
            Err(_) => {}
        }
    }
    true
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
