//! The client's end of a connection, blocking: dial, check who listens, send lines, receive lines, all under a deadline.

use std::io::{self, Read, Write};
use std::time::Duration;

use interprocess::ConnectWaitMode;
use interprocess::local_socket::prelude::*;
use interprocess::local_socket::{ConnectOptions, GenericFilePath, Stream};

use super::envelope::{self, Incoming};
use super::error::{ErrorCode, WireError};
use super::frame::{FRAME_BYTES_MAX, Lines};
use super::hello::{self, Mismatch};
use super::record::Record;
use super::wire::{ClientInfo, HelloParams, HelloResult, ProtocolRange, Role, encode_value};
use crate::os::deadline::{Deadline, Pauses};
use crate::os::socket::{PeerError, same_user};

/// A connection.
#[derive(Debug)]
pub struct Channel {
    stream: Stream,
    lines: Lines,
}

/// Why a connection is of no use (any more).
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The address is of a kind that this system does not have.
    #[error("`{0}` is not an address of this system")]
    Address(String),
    /// Nobody listens there, or the connection broke.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The other end closed it.
    #[error("the broker closed the connection")]
    Closed,
    /// Somebody else listens there.
    #[error(transparent)]
    Peer(PeerError),
    /// What came is not of this protocol.
    #[error("what answers there does not speak this protocol")]
    Foreign,
    /// Nothing came until the deadline.
    #[error("no answer in time")]
    Late,
}

/// Why a hello failed.
#[derive(Debug, thiserror::Error)]
pub enum HelloError {
    /// The connection.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The broker refused.
    #[error("{}", .0.message)]
    Refused(WireError),
    /// It is not the broker that was meant.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
}

/// Who says hello.
#[derive(Clone, Copy, Debug)]
pub struct Speaker<'a> {
    /// The program.
    pub client: &'a ClientInfo,
    /// Its token.
    pub token: &'a str,
    /// Its role.
    pub role: Role,
}

impl Channel {
    /// Connects to an endpoint's address, if the same user listens there.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub fn dial(address: &str, deadline: Deadline) -> Result<Channel, ChannelError> {
        let path = address.strip_prefix("unix:").ok_or_else(|| ChannelError::Address(address.to_owned()))?;
        let mut pauses = Pauses::new(Duration::from_millis(2), Duration::from_millis(100));
        loop {
            let name = path.to_fs_name::<GenericFilePath>()?;
            let wait = ConnectWaitMode::Timeout(deadline.remaining());
            let stream = ConnectOptions::new().name(name).wait_mode(wait).connect_sync()?;
            match same_user(&stream) {
                Ok(_) => return Ok(Channel { stream, lines: Lines::default() }),
                // The listener's queue is full; the system took that for a connection under way.
                Err(PeerError::Unknown(error)) if error.kind() == io::ErrorKind::ConnectionReset => {
                    if !pauses.pause(deadline) {
                        return Err(ChannelError::Late);
                    }
                }
                Err(error) => return Err(ChannelError::Peer(error)),
            }
        }
    }

    /// Says hello.
    ///
    /// # Errors
    /// As [`Channel::send`], but a connection that the broker closed is left to [`Channel::hear_hello`]: it says why.
    pub fn say_hello(&mut self, speaker: Speaker<'_>, deadline: Deadline) -> Result<(), ChannelError> {
        let params = HelloParams {
            protocol: ProtocolRange::of_build(),
            client: speaker.client.clone(),
            token: speaker.token.to_owned(),
            role: speaker.role,
        };
        match self.send(&envelope::request(0, "hello", &encode_value(&params)), deadline) {
            Err(ChannelError::Closed) => Ok(()),
            sent => sent,
        }
    }

    /// What the broker answers to hello, unchecked. After [`ChannelError::Late`] it may be asked again.
    ///
    /// # Errors
    /// [`HelloError`] but for a mismatch.
    pub fn hear_hello(&mut self, deadline: Deadline) -> Result<HelloResult, HelloError> {
        match self.receive(deadline)? {
            Incoming::Response { answer: Ok(result), .. } => {
                serde_json::from_value(result).map_err(|_| ChannelError::Foreign.into())
            }
            Incoming::Response { answer: Err(error), .. } => Err(HelloError::Refused(error)),
            Incoming::Notification { .. } => Err(ChannelError::Foreign.into()),
        }
    }

    /// Sends a whole line. On an error part of it may have been sent.
    ///
    /// # Errors
    /// [`ChannelError::Io`], [`ChannelError::Late`].
    pub fn send(&mut self, line: &[u8], deadline: Deadline) -> Result<(), ChannelError> {
        let mut rest = line;
        while !rest.is_empty() {
            self.stream.set_send_timeout(Some(timeout(deadline)?))?;
            match self.stream.write(rest) {
                Ok(0) => return Err(ChannelError::Closed),
                Ok(bytes) => rest = &rest[bytes..],
                Err(error) => retry_or_fail(error)?,
            }
        }
        Ok(())
    }

    /// The next thing the broker says.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub fn receive(&mut self, deadline: Deadline) -> Result<Incoming, ChannelError> {
        let line = self.receive_line(deadline)?;
        envelope::read_incoming(&line).ok_or(ChannelError::Foreign)
    }

    /// The next line the broker sends.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub fn receive_line(&mut self, deadline: Deadline) -> Result<Vec<u8>, ChannelError> {
        let mut buffer = [0; 16 * 1024];
        loop {
            if let Some(line) = self.lines.next_line(FRAME_BYTES_MAX).map_err(|_| ChannelError::Foreign)? {
                return Ok(line.to_vec());
            }
            self.stream.set_recv_timeout(Some(timeout(deadline)?))?;
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ChannelError::Closed),
                Ok(bytes) => self.lines.push(&buffer[..bytes]),
                Err(error) => retry_or_fail(error)?,
            }
        }
    }

    /// The stream, for a bridge that passes lines both ways.
    pub fn into_parts(self) -> (Stream, Lines) {
        (self.stream, self.lines)
    }
}

/// Connects to the broker that a record names and says hello; what answers has to be what the record says.
///
/// # Errors
/// [`HelloError`].
pub fn meet(record: &Record, speaker: Speaker<'_>, deadline: Deadline) -> Result<(Channel, HelloResult), HelloError> {
    let mut channel = Channel::dial(&record.broker.endpoint, deadline)?;
    channel.say_hello(speaker, deadline)?;
    let hello = channel.hear_hello(deadline)?;
    hello::check(&hello, record)?;
    Ok((channel, hello))
}

impl HelloError {
    /// Whether trying again can help while a broker starts, dies or is replaced.
    pub fn is_passing(&self) -> bool {
        match self {
            HelloError::Channel(ChannelError::Io(_) | ChannelError::Closed | ChannelError::Late)
            | HelloError::Mismatch(Mismatch::Incarnation | Mismatch::Root) => true,
            HelloError::Channel(ChannelError::Address(_) | ChannelError::Peer(_) | ChannelError::Foreign)
            | HelloError::Mismatch(Mismatch::Protocol) => false,
            // A new broker has a new token; the record that leads to it is on its way.
            HelloError::Refused(error) => {
                matches!(
                    error.code,
                    ErrorCode::Unauthenticated | ErrorCode::Capacity | ErrorCode::Busy | ErrorCode::Draining
                )
            }
        }
    }
}

/// What is left, as the system takes it: never zero, which would mean for ever.
fn timeout(deadline: Deadline) -> Result<Duration, ChannelError> {
    let left = deadline.remaining();
    if left.is_zero() { Err(ChannelError::Late) } else { Ok(left.max(Duration::from_millis(1))) }
}

/// A time-out or an interruption is looked at again by whoever asked; anything else is the end.
fn retry_or_fail(error: io::Error) -> Result<(), ChannelError> {
    let kind = error.kind();
    if matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted) {
        return Ok(());
    }
    let is_end = matches!(kind, io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe);
    Err(if is_end { ChannelError::Closed } else { ChannelError::Io(error) })
}
