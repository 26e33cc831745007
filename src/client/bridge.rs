//! `ostler connect`: a bridge between standard input and output and the broker, so that any language that can start a
//! process has a client.
//!
//! The bridge finds or starts the broker and says hello itself. Its first line of output is the notification `hello` with
//! the broker's answer; from then on lines pass unchanged both ways. It ends in order once its input has ended and every
//! request was answered, and with an error if the broker goes first: a broker that comes after it is met by a new bridge,
//! and the keys of the program find out what became of its requests.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use interprocess::local_socket::Stream;
use interprocess::local_socket::traits::Stream as _;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Client, ClientOptions};
use crate::os::socket::hang_up;
use crate::rpc::envelope;
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::frame::{FRAME_BYTES_MAX, Lines};
use crate::rpc::wire::encode_value;

/// What both directions share.
struct Shared {
    stream: Stream,
    /// Requests without an answer.
    pending: AtomicU64,
    /// The program has said everything.
    input_ended: AtomicBool,
}

/// The members that tell an answer from what is told unasked.
#[derive(Deserialize)]
struct Head {
    method: Option<IgnoredAny>,
}

/// Runs the bridge to its end. `input` is read on a thread of its own that may outlive this call.
///
/// # Errors
/// Why no broker was met; `broker_unreachable` if it left first.
pub fn bridge(
    options: ClientOptions,
    input: impl Read + Send + 'static,
    mut output: impl Write,
) -> Result<(), WireError> {
    let client = Client::connect_or_start(options)?;
    let told = envelope::notification("hello", &encode_value(client.hello()));
    let Some(channel) = client.into_channel() else {
        return Err(gone("it was closed at once"));
    };
    let (stream, lines) = channel.into_parts();
    if stream.set_recv_timeout(None).and_then(|()| stream.set_send_timeout(None)).is_err() {
        return Err(gone("its socket is not usable"));
    }
    let shared = Arc::new(Shared { stream, pending: AtomicU64::new(0), input_ended: AtomicBool::new(false) });
    if write(&mut output, &told).is_err() {
        return Ok(());
    }
    let feeding = Arc::clone(&shared);
    let feeder = std::thread::Builder::new().name("ostler-bridge".to_owned()).spawn(move || feed(&feeding, input));
    if let Err(error) = feeder {
        return Err(WireError::new(ErrorCode::Internal, format!("no thread for the bridge: {error}")));
    }
    drain(&shared, lines, output)
}

/// Program to broker.
fn feed(shared: &Shared, mut input: impl Read) {
    let mut buffer = [0; 16 * 1024];
    let mut is_at_line_start = true;
    loop {
        let bytes = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => &buffer[..bytes],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        is_at_line_start = bytes.last() == Some(&b'\n');
        if !pass(shared, bytes) {
            return;
        }
    }
    if !is_at_line_start && !pass(shared, b"\n") {
        return;
    }
    shared.input_ended.store(true, Ordering::SeqCst);
    if shared.pending.load(Ordering::SeqCst) == 0 {
        hang_up(&shared.stream);
    }
}

/// Passes bytes on, counting the lines in them first: an answer cannot come before its request is counted.
fn pass(shared: &Shared, bytes: &[u8]) -> bool {
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
    shared.pending.fetch_add(u64::try_from(lines).unwrap_or(u64::MAX), Ordering::SeqCst);
    (&shared.stream).write_all(bytes).is_ok()
}

/// Broker to program.
fn drain(shared: &Shared, mut lines: Lines, mut output: impl Write) -> Result<(), WireError> {
    let mut buffer = [0; 16 * 1024];
    loop {
        loop {
            let line = match lines.next_line(FRAME_BYTES_MAX) {
                Ok(Some(line)) => [line, b"\n"].concat(),
                Ok(None) => break,
                Err(_) => return Err(gone("what it says is not of this protocol")),
            };
            // A program that does not listen any more needs no bridge.
            if write(&mut output, &line).is_err() {
                return Ok(());
            }
            let is_answer = serde_json::from_slice::<Head>(&line).is_ok_and(|head| head.method.is_none());
            if is_answer
                && shared.pending.fetch_sub(1, Ordering::SeqCst) == 1
                && shared.input_ended.load(Ordering::SeqCst)
            {
                hang_up(&shared.stream);
            }
        }
        match (&shared.stream).read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => lines.push(&buffer[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    let is_done = shared.input_ended.load(Ordering::SeqCst) && shared.pending.load(Ordering::SeqCst) == 0;
    if is_done { Ok(()) } else { Err(gone("it closed the connection")) }
}

fn write(output: &mut impl Write, line: &[u8]) -> io::Result<()> {
    output.write_all(line).and_then(|()| output.flush())
}

fn gone(why: &str) -> WireError {
    let message =
        format!("the broker left the bridge: {why}; start it again and repeat what was not answered by its keys");
    WireError::new(ErrorCode::BrokerUnreachable, message).reason("connection")
}
