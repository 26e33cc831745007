//! A connection that mends itself, and calls over it.
//!
//! Promises: a mutating call has a key before its first byte leaves and keeps it over every reconnect, so that it has at
//! most one effect; what became of a call that got no answer is said as it is, with the key that finds out.
//! `uncertain` is not for that: it is the word for what evidence cannot decide.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ClientOptions;
use super::ensure::{self, Met};
use crate::os::deadline::{Deadline, Pauses};
use crate::os::fail::{Point, pass};
use crate::os::{clock, entropy};
use crate::rpc::channel::{Channel, ChannelError};
use crate::rpc::envelope::{self, Incoming};
use crate::rpc::error::{ErrorCode, Retry, WireError};
use crate::rpc::method::{Class, Method};
use crate::rpc::wire::{HelloResult, Timestamp};

/// A client of one broker, or of the one that comes after it.
#[derive(Debug)]
pub struct Client {
    options: ClientOptions,
    channel: Option<Channel>,
    /// The last try to connect came to nothing.
    channel_failed: bool,
    hello: HelloResult,
    /// Boot time at which `hello` came, microseconds.
    hello_us: u64,
    started: bool,
    next_id: u64,
    told: Told,
}

/// What the broker has told unasked since it was last asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// An event of some subscription.
    pub event: bool,
    /// A subscription has ended, or the connection with all of them.
    pub ended: bool,
}

impl Told {
    fn take_in(&mut self, incoming: &Incoming) {
        if let Incoming::Notification { params, .. } = incoming {
            self.event = true;
            self.ended |= params["type"] == "end";
        }
    }
}

impl Client {
    /// Connects to the broker that is there.
    ///
    /// # Errors
    /// `broker_unreachable` if there is none, and what else stands in the way.
    pub fn connect(options: ClientOptions) -> Result<Client, WireError> {
        let options = ClientOptions { no_start: true, ..options };
        let met = ensure::connect(&options)?;
        Ok(Client::of(options, met))
    }

    /// Connects to the broker, starting it if there is none and the options allow it.
    ///
    /// # Errors
    /// What stands in the way, with what to type.
    pub fn connect_or_start(options: ClientOptions) -> Result<Client, WireError> {
        let met = ensure::connect_or_start(&options)?;
        Ok(Client::of(options, met))
    }

    fn of(options: ClientOptions, met: Met) -> Client {
        let Met { channel, hello, started } = met;
        Client {
            options,
            channel: Some(channel),
            channel_failed: false,
            hello,
            hello_us: clock::boot_us(),
            started,
            next_id: 1,
            told: Told::default(),
        }
    }

    /// What the broker said of itself, at the last connect.
    pub fn hello(&self) -> &HelloResult {
        &self.hello
    }

    /// Whether this client started the broker.
    pub fn started(&self) -> bool {
        self.started
    }

    /// From now on calls have this deadline.
    pub fn set_deadline(&mut self, deadline: Deadline) {
        self.options.deadline = deadline;
    }

    /// Waits until the broker has told something unasked, and forgets it; what came while a call was answered counts. None is told until the deadline.
    /// After the end of the connection nothing is told any more: what is asked next goes over another one, on which nothing is subscribed.
    pub fn told(&mut self, deadline: Deadline) -> Told {
        while self.told == Told::default() {
            let heard = self.channel.as_mut().map(|channel| channel.receive(deadline));
            match heard {
                Some(Ok(incoming)) => self.told.take_in(&incoming),
                Some(Err(ChannelError::Late)) => break,
                Some(Err(_)) | None => self.lose(),
            }
        }
        std::mem::take(&mut self.told)
    }

    /// Gives the connection away, for a bridge.
    pub(super) fn into_channel(self) -> Option<Channel> {
        self.channel
    }

    /// The broker's wall time, as far as it is known from the last hello.
    pub fn time(&self) -> Timestamp {
        let since_hello_us = clock::boot_us().saturating_sub(self.hello_us);
        Timestamp::from_us(self.hello.time.us().saturating_add(since_hello_us))
    }

    /// A new key: a UUIDv7 of the broker's time, so that the broker can tell how old it is.
    pub fn new_key(&self) -> String {
        let now_ms = self.time().us() / 1000;
        uuid::Builder::from_unix_timestamp_millis(now_ms, &entropy::bytes::<10>()).into_uuid().to_string()
    }

    /// Calls with typed parameters and result.
    ///
    /// # Errors
    /// As [`Client::call`], and `protocol_mismatch` for a result that is not of the type.
    pub fn call_as<P: Serialize, R: DeserializeOwned>(&mut self, method: Method, params: &P) -> Result<R, WireError> {
        let params = serde_json::to_value(params)
            .map_err(|error| WireError::new(ErrorCode::InvalidInput, error.to_string()).reason("parameters"))?;
        typed(method, self.call(method, params)?)
    }

    /// Asks the broker that is there, and only that one, and only once: a broker that leaves or dies meanwhile is not replaced and its
    /// successor not waited for. For whoever wants to know that it went. Only for methods that change nothing.
    ///
    /// # Errors
    /// What the broker answers (`draining` if it leaves first); `broker_unreachable` or `timeout` if it does not.
    pub fn ask_here<P: Serialize, R: DeserializeOwned>(&mut self, method: Method, params: &P) -> Result<R, WireError> {
        let params = serde_json::to_value(params)
            .map_err(|error| WireError::new(ErrorCode::InvalidInput, error.to_string()).reason("parameters"))?;
        let no_start = std::mem::replace(&mut self.options.no_start, true);
        let answer = self.attempt(method, &params, &mut false);
        self.options.no_start = no_start;
        if answer.is_err() {
            self.lose();
        }
        typed(method, answer??)
    }

    /// Calls. A mutating call without a key gets one. Whatever breaks on the way, the call is repeated under its key
    /// until it is answered or the deadline has passed.
    ///
    /// # Errors
    /// What the broker answers; `timeout` or `broker_unreachable` if it does not, with the retry advice `same_key` and, if
    /// the request was sent, a text that says so. Errors of mutating calls carry the key as `data.key`.
    pub fn call(&mut self, method: Method, mut params: Value) -> Result<Value, WireError> {
        let key = self.keyed(method, &mut params);
        let with_key = |error: WireError| match &key {
            Some(key) if !error.data.contains_key("key") => error.with("key", key.as_str()),
            Some(_) | None => error,
        };
        let mut pauses = Pauses::new(Duration::from_millis(10), Duration::from_secs(1));
        let mut was_sent = false;
        loop {
            let error = match self.attempt(method, &params, &mut was_sent) {
                Ok(Ok(result)) => return Ok(result),
                // It did nothing, or did not see the end of it, and is leaving: the next broker does it, or knows.
                Ok(Err(error)) if error.code == ErrorCode::Draining && method.class() != Class::Control => {
                    self.lose();
                    error
                }
                Ok(Err(error)) => return Err(with_key(error)),
                Err(error) => {
                    self.lose();
                    error
                }
            };
            // Finding and starting has its own tries: where it failed, only somebody else's start can help. What is
            // asked of a broker itself is meant for this one, not for the next.
            let is_final = error.retry == Retry::Never
                || method.class() == Class::Control
                || (self.channel_failed && !self.options.no_start);
            if is_final || !pauses.pause(self.options.deadline) {
                return Err(with_key(unanswered(method, error, was_sent)));
            }
        }
    }

    /// One attempt. The outer error is that of a connection, the inner one the broker's answer.
    fn attempt(
        &mut self,
        method: Method,
        params: &Value,
        was_sent: &mut bool,
    ) -> Result<Result<Value, WireError>, WireError> {
        let id = self.next_id;
        self.next_id += 1;
        let deadline = self.options.deadline;
        let (channel, told) = self.connected()?;
        let line = envelope::request(id, method.name(), params);
        // Half a line does nothing; but whether all of it went cannot be told from an error.
        *was_sent = true;
        pass(Point::CallSend);
        if let Err(error) = channel.send(&line, deadline) {
            // What was said before the end may say why.
            return channel.receive(deadline).ok().and_then(|said| answer_to(said, id)).ok_or_else(|| broken(&error));
        }
        pass(Point::CallSent);
        loop {
            let incoming = channel.receive(deadline).map_err(|error| broken(&error))?;
            told.take_in(&incoming);
            if let Some(answer) = answer_to(incoming, id) {
                pass(Point::CallAnswered);
                return Ok(answer);
            }
        }
    }

    /// The connection, and what is told on it.
    fn connected(&mut self) -> Result<(&mut Channel, &mut Told), WireError> {
        let channel = match self.channel.take() {
            Some(channel) => channel,
            None => {
                self.channel_failed = true;
                let met = ensure::connect_or_start(&self.options)?;
                self.channel_failed = false;
                self.hello = met.hello;
                self.hello_us = clock::boot_us();
                met.channel
            }
        };
        Ok((self.channel.insert(channel), &mut self.told))
    }

    fn lose(&mut self) {
        self.channel = None;
        self.told.ended = true;
    }

    fn keyed(&self, method: Method, params: &mut Value) -> Option<String> {
        let Value::Object(params) = params else {
            return None;
        };
        if method.class() != Class::Mutates {
            return None;
        }
        let key = params.entry("key").or_insert_with(|| self.new_key().into());
        key.as_str().map(str::to_owned)
    }
}

fn typed<R: DeserializeOwned>(method: Method, result: Value) -> Result<R, WireError> {
    serde_json::from_value(result).map_err(|error| {
        let message = format!("the broker's answer to `{method}` is not of this protocol: {error}");
        WireError::new(ErrorCode::ProtocolMismatch, message)
    })
}

/// The answer to request `id`, if this is it. An answer without an id is to the one request in flight.
fn answer_to(incoming: Incoming, id: u64) -> Option<Result<Value, WireError>> {
    match incoming {
        Incoming::Response { id: said, answer } if said.as_u64() == Some(id) || said.is_null() => Some(answer),
        Incoming::Response { .. } | Incoming::Notification { .. } => None,
    }
}

fn broken(error: &ChannelError) -> WireError {
    let unreachable = |reason| WireError::new(ErrorCode::BrokerUnreachable, error.to_string()).reason(reason);
    match error {
        ChannelError::Late => WireError::new(ErrorCode::Timeout, error.to_string()).reason("no_answer"),
        ChannelError::Foreign => WireError::new(ErrorCode::ProtocolMismatch, error.to_string()).reason("foreign"),
        ChannelError::Peer(_) => WireError::new(ErrorCode::Denied, error.to_string()).reason("peer"),
        ChannelError::Address(_) | ChannelError::Io(_) | ChannelError::Closed => unreachable("connection"),
    }
}

/// What is known of a call that got no answer.
fn unanswered(method: Method, error: WireError, was_sent: bool) -> WireError {
    if method.class() != Class::Mutates || !was_sent {
        return error;
    }
    let message = format!(
        "`{method}` was sent and not answered ({}); whether it took effect is not known: repeat it with the same key, or \
         `ostler operation show KEY`",
        error.message
    );
    let reason = error.data.get("reason").cloned().unwrap_or_else(|| error.code.name().into());
    // Whatever else keeps the client from the next broker: the first one may have done it.
    let is_late = matches!(error.code, ErrorCode::Timeout | ErrorCode::Draining);
    let code = if is_late { ErrorCode::Timeout } else { ErrorCode::BrokerUnreachable };
    WireError::new(code, message).with("reason", reason)
}
