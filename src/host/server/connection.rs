//! One connection to the host: its role, what it sent, what is for it. Nothing here blocks, and nobody is waited for: a
//! peer that does not take its answers is cut off.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use super::cursor::Cursor;
use super::limits::TO_SEND_BYTES_MAX;
use crate::host::files;
use crate::host::spool::writer::Spool;
use crate::host::wire::{BROKER_REQUEST_BYTES_MAX, HELLO_BYTES_MAX, Line, REQUEST_BYTES_MAX, Refusal, RefusalCode};

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Nobody yet; closed at this boot time in microseconds.
    Unknown {
        /// When.
        until_us: u64,
    },
    /// Somebody with the episode's secret.
    Reader,
    /// A broker of this generation.
    Broker(u64),
}

/// A follower of the output.
#[derive(Debug)]
pub(super) struct Follow {
    /// Where it is.
    pub(super) cursor: Cursor,
    /// Whether the command waits for it.
    pub(super) hold: bool,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: UnixStream,
    pub(super) role: Role,
    pub(super) follow: Option<Follow>,
    /// Requests that wait for the end of the episode.
    pub(super) stops: Vec<u64>,
    /// Requests that wait for the end of the delivery under way.
    pub(super) deliveries: Vec<u64>,
    /// A request whose bytes wait for room in the command's standard input.
    pub(super) input: Option<u64>,
    /// Whether it feeds standard input.
    pub(super) feeds: bool,
    received: Vec<u8>,
    to_send: Vec<u8>,
    /// The peer will send no more.
    read_closed: bool,
    /// Closed once everything is sent.
    leaving: bool,
    broken: bool,
}

impl Connection {
    pub(super) fn new(stream: UnixStream, until_us: u64) -> Self {
        Self {
            stream,
            role: Role::Unknown { until_us },
            follow: None,
            stops: Vec::new(),
            deliveries: Vec::new(),
            input: None,
            feeds: false,
            received: Vec::new(),
            to_send: Vec::new(),
            read_closed: false,
            leaving: false,
            broken: false,
        }
    }

    /// Whether it is to be closed now.
    pub(super) fn is_over(&self) -> bool {
        let done = self.to_send.is_empty() && self.follow.as_ref().is_none_or(|follow| follow.cursor.is_done());
        let asks_nothing = self.stops.is_empty() && self.deliveries.is_empty() && self.input.is_none();
        self.broken || (done && (self.leaving || (self.read_closed && asks_nothing)))
    }

    /// Whether it may send.
    pub(super) fn reads(&self) -> bool {
        !self.read_closed && !self.leaving && self.input.is_none()
    }

    /// Whether something is for it.
    pub(super) fn writes(&self, spool: &Spool) -> bool {
        !self.to_send.is_empty() || self.follow.as_ref().is_some_and(|follow| follow.cursor.has_more(spool))
    }

    /// Closes it once everything is sent.
    pub(super) fn leave(&mut self) {
        self.leaving = true;
    }

    /// Closes it now.
    pub(super) fn cut(&mut self) {
        self.broken = true;
    }

    /// Takes what the peer sent, up to the longest line.
    pub(super) fn receive(&mut self) {
        let mut chunk = [0; 4096];
        while self.received.len() <= self.line_bytes_max() {
            match self.stream.read(&mut chunk) {
                Ok(0) => {
                    self.read_closed = true;
                    // A follower says nothing more, so its end of file is its leave.
                    self.broken |= self.follow.is_some();
                    return;
                }
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.cut(),
            }
        }
    }

    /// The next line, without its end.
    pub(super) fn next_line(&mut self) -> Option<Vec<u8>> {
        if self.input.is_some() || self.leaving || self.follow.is_some() {
            return None;
        }
        if let Some(end) = self.received.iter().position(|byte| *byte == b'\n')
            && end < self.line_bytes_max()
        {
            let rest = self.received.split_off(end + 1);
            let mut line = std::mem::replace(&mut self.received, rest);
            line.pop();
            return Some(line);
        }
        if self.received.len() >= self.line_bytes_max() {
            let message = format!("a line of more than {} bytes", self.line_bytes_max());
            self.refuse(None, RefusalCode::TooLarge, message);
            self.leave();
        }
        None
    }

    fn line_bytes_max(&self) -> usize {
        match self.role {
            Role::Unknown { .. } => HELLO_BYTES_MAX,
            Role::Reader => REQUEST_BYTES_MAX,
            Role::Broker(_) => BROKER_REQUEST_BYTES_MAX,
        }
    }

    /// A line for the peer.
    pub(super) fn say(&mut self, line: &Line) {
        self.say_bytes(&files::to_line(line));
    }

    /// Bytes for the peer.
    pub(super) fn say_bytes(&mut self, bytes: &[u8]) {
        if self.to_send.len() + bytes.len() > TO_SEND_BYTES_MAX {
            return self.cut();
        }
        self.to_send.extend_from_slice(bytes);
    }

    /// A refusal for the peer.
    pub(super) fn refuse(&mut self, id: Option<u64>, code: RefusalCode, message: impl Into<String>) {
        self.say(&Line::Refused { id, error: Refusal { code, message: message.into() } });
    }

    /// Sends what the peer takes now: lines first, then the output it follows.
    pub(super) fn send(&mut self, spool: &Spool, scratch: &mut [u8]) {
        while !self.to_send.is_empty() {
            match self.stream.write(&self.to_send) {
                Ok(count) => drop(self.to_send.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.cut(),
            }
        }
        self.to_send.shrink_to(4096);
        let Some(follow) = &mut self.follow else {
            return;
        };
        loop {
            let count = match follow.cursor.peek(spool, scratch) {
                Ok(0) => return,
                Ok(count) => count,
                Err(_) => break,
            };
            match self.stream.write(&scratch[..count]) {
                Ok(count) => follow.cursor.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.cut();
    }
}
