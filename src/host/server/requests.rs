//! What a connection may ask, and the answers.

use std::path::Path;

use data_encoding::BASE64;
use serde::Deserialize;

use super::connection::{Connection, Follow, Role};
use super::cursor::Cursor;
use super::delivery::Named;
use super::ending::Stage;
use super::episode::Episode;
use super::limits::{GRACE_MS_MAX, READ_BYTES_MAX, READERS_MAX};
use crate::host::spec::Stdin;
use crate::host::spool::frame::{HEADER_BYTES, Header, Kind, PAYLOAD_BYTES_MAX, position_frame};
use crate::host::spool::reader::{Piece, SpoolReader};
use crate::host::wire::{Hello, INPUT_BYTES_MAX, Line, RefusalCode, Reply, Request, RequestLine, Stopped};
use crate::os::fail::{Point, pass};

/// What this host can be asked, beyond `hello`.
const CAPABILITIES: [&str; 7] = ["deliver", "follow", "input", "interrupt", "read", "status", "stop"];

/// Why a request is refused.
pub(super) type Refused = (RefusalCode, String);

/// What happens after a request.
pub(super) enum Answer {
    /// This is the answer.
    Say(Reply),
    /// This is the answer, and frames follow it.
    SayWith(Reply, Vec<u8>),
    /// The answer comes later.
    Later,
}

impl Episode {
    /// Handles what a connection has sent.
    pub(super) fn serve(&mut self, index: usize, now_us: u64) {
        while let Some(line) = self.connections[index].next_line() {
            let (id, request) = match parse(&line) {
                Ok(RequestLine { id, request }) => (id, request),
                Err((id, (code, message))) => {
                    self.connections[index].refuse(id, code, message);
                    continue;
                }
            };
            let answer = self.answer(index, id, request, now_us);
            let connection = &mut self.connections[index];
            match answer {
                Ok(Answer::Say(reply)) => connection.say(&Line::Reply { id, reply }),
                Ok(Answer::SayWith(reply, frames)) => {
                    connection.say(&Line::Reply { id, reply });
                    connection.say_bytes(&frames);
                }
                Ok(Answer::Later) => {}
                Err((code, message)) => {
                    connection.refuse(Some(id), code, message);
                    if matches!(connection.role, Role::Unknown { .. }) {
                        connection.leave();
                    }
                }
            }
        }
    }

    fn answer(&mut self, index: usize, id: u64, request: Request, now_us: u64) -> Result<Answer, Refused> {
        let role = self.connections[index].role;
        if matches!(role, Role::Unknown { .. }) && !matches!(request, Request::Hello { .. }) {
            return Err((RefusalCode::Unauthenticated, "hello comes first".into()));
        }
        match request {
            Request::Hello { version, secret, generation } => self.hello(index, version, &secret, generation),
            Request::Status => Ok(Answer::Say(Reply::Status(self.status()))),
            Request::Stop { grace_ms } => self.stop(index, id, grace_ms, now_us),
            Request::Read { from, bytes_max } => self.read(from, bytes_max),
            Request::Follow { from, hold } => {
                let cursor = Cursor::new(&self.output.spool, from);
                let reply = Reply::Follow { from: cursor.wanted() };
                self.connections[index].follow = Some(Follow { cursor, hold });
                self.follower_awaited &= !hold;
                Ok(Answer::Say(reply))
            }
            Request::Input { b64, eof } => self.feed(index, id, &b64, eof),
            Request::Deliver { message, attempt, b64 } => self.deliver(index, id, Named { message, attempt }, &b64),
            Request::Interrupt { attempt, turn } => self.interrupt(index, attempt, turn),
        }
    }

    fn hello(&mut self, index: usize, version: u32, secret: &str, generation: Option<u64>) -> Result<Answer, Refused> {
        if !matches!(self.connections[index].role, Role::Unknown { .. }) {
            return Err((RefusalCode::InvalidInput, "hello was said".into()));
        }
        if version == 0 {
            return Err((RefusalCode::ProtocolMismatch, format!("this host speaks version {}", self.record.version)));
        }
        if !same(secret, &self.record.secret) {
            return Err((RefusalCode::Unauthenticated, "this is not the episode's secret".into()));
        }
        let readers = self.connections.iter().filter(|connection| connection.role == Role::Reader).count();
        self.connections[index].role = match generation {
            None if readers >= READERS_MAX => {
                return Err((RefusalCode::Unavailable, format!("{READERS_MAX} readers are connected")));
            }
            None => Role::Reader,
            Some(generation) if generation < self.generation => {
                let message = format!("generation {} has been here", self.generation);
                return Err((RefusalCode::StaleGeneration, message));
            }
            Some(generation) => {
                self.generation = generation;
                Role::Broker(generation)
            }
        };
        self.fence_older();
        if generation.is_some() {
            self.told();
        }
        Ok(Answer::Say(Reply::Hello(Box::new(Hello {
            version: self.record.version,
            product: self.record.product.clone(),
            session: self.record.session.clone(),
            episode: self.record.episode,
            incarnation: self.record.endpoint.incarnation.clone(),
            host: self.record.host.clone(),
            command: self.record.command.clone(),
            lock: self.record.lock,
            folder: self.record.folder,
            generation: self.generation,
            capabilities: CAPABILITIES.map(String::from).to_vec(),
            status: self.status(),
        }))))
    }

    /// A newer broker is here: the connections of older ones end.
    fn fence_older(&mut self) {
        let newest = self.generation;
        let is_older = |connection: &&mut Connection| matches!(connection.role, Role::Broker(held) if held < newest);
        self.connections.iter_mut().filter(is_older).for_each(Connection::cut);
    }

    fn stop(&mut self, index: usize, id: u64, grace_ms: u64, now_us: u64) -> Result<Answer, Refused> {
        if !matches!(self.connections[index].role, Role::Broker(_)) {
            return Err((RefusalCode::Denied, "only the broker ends an episode".into()));
        }
        if grace_ms > GRACE_MS_MAX {
            return Err((RefusalCode::InvalidInput, format!("the grace is at most {GRACE_MS_MAX} ms")));
        }
        match self.ending.stage() {
            Stage::Running | Stage::Group | Stage::Sweep => {
                pass(Point::HostStop);
                self.ending.stop(now_us, grace_ms);
                pass(Point::HostStopping);
                self.connections[index].stops.push(id);
                Ok(Answer::Later)
            }
            Stage::Flush | Stage::Over => {
                let status = self.status();
                let survivors = self.ending.survivors().to_vec();
                Ok(Answer::Say(Reply::Stop(Stopped { exit: status.exit, ended_us: status.ended_us, survivors })))
            }
        }
    }

    fn read(&self, from: u64, bytes_max: u32) -> Result<Answer, Refused> {
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX).min(READ_BYTES_MAX);
        if bytes_max < HEADER_BYTES + PAYLOAD_BYTES_MAX {
            let least = HEADER_BYTES + PAYLOAD_BYTES_MAX;
            return Err((RefusalCode::InvalidInput, format!("bytes_max is at least {least}, a whole frame")));
        }
        let (start, lost, next, frames) = collect(self.output.spool.folder(), from, bytes_max)
            .map_err(|error| (RefusalCode::Unavailable, format!("the output cannot be read: {error}")))?;
        let bytes = u32::try_from(frames.len()).expect("limited above");
        Ok(Answer::SayWith(Reply::Read { from: start, bytes, next, lost }, frames))
    }

    fn feed(&mut self, index: usize, id: u64, b64: &str, eof: bool) -> Result<Answer, Refused> {
        if self.deliveries.are_taken() {
            return Err((RefusalCode::Denied, "the command's standard input takes messages only, by its spec".into()));
        }
        if self.stdin != Stdin::Client {
            return Err((RefusalCode::Denied, "the command's standard input is empty by its spec".into()));
        }
        if self.connections.iter().enumerate().any(|(other, connection)| connection.feeds && other != index) {
            return Err((RefusalCode::Unavailable, "another connection feeds the command".into()));
        }
        if !self.input.is_open() {
            return Err((RefusalCode::Unavailable, "the command's standard input is closed".into()));
        }
        let bytes =
            BASE64.decode(b64.as_bytes()).map_err(|_| (RefusalCode::InvalidInput, "b64 is not base64".into()))?;
        if bytes.len() > INPUT_BYTES_MAX {
            return Err((RefusalCode::TooLarge, format!("at most {INPUT_BYTES_MAX} bytes at once")));
        }
        self.connections[index].feeds = true;
        self.connections[index].input = Some(id);
        self.input.give(bytes, eof);
        self.progress();
        self.answer_feeder();
        Ok(Answer::Later)
    }

    /// There is room in the command's standard input, or its end is closed.
    pub(super) fn feed_on(&mut self) {
        self.input.push();
        self.answer_feeder();
        self.settle_delivery();
    }

    fn answer_feeder(&mut self) {
        if !self.input.is_idle() {
            return;
        }
        let total = self.input.total();
        for connection in &mut self.connections {
            if let Some(id) = connection.input.take() {
                connection.say(&Line::Reply { id, reply: Reply::Input { total } });
            }
        }
    }
}

/// Compares without telling by its time how much was right.
fn same(given: &str, secret: &str) -> bool {
    let differences = given.bytes().zip(secret.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    given.len() == secret.len() && differences == 0
}

/// Output as frames: position of the first, bytes lost before it, position after the last, the frames.
fn collect(folder: &Path, from: u64, bytes_max: usize) -> std::io::Result<(u64, u64, u64, Vec<u8>)> {
    let mut reader = SpoolReader::new(folder, from);
    let (mut start, mut lost, mut next, mut frames) = (from, 0, from, Vec::new());
    while let Some(piece) = reader.next_piece()? {
        match piece {
            Piece::Gap { from, to } if frames.is_empty() => {
                lost += to - from;
                (start, next) = (to, to);
            }
            Piece::Gap { to, .. } => {
                frames.extend(position_frame(Kind::Gap, to, 0));
                next = to;
            }
            Piece::Output { position, stream, at_us, bytes } => {
                if frames.len() + HEADER_BYTES + bytes.len() > bytes_max {
                    break;
                }
                let length = u32::try_from(bytes.len()).map_err(std::io::Error::other)?;
                frames.extend(Header { kind: Kind::Output(stream), length, at_us }.encode());
                frames.extend(&bytes);
                next = position + u64::from(length);
            }
        }
    }
    Ok((start, lost, next, frames))
}

/// Reads a request; a refusal names its id if there was one.
fn parse(line: &[u8]) -> Result<RequestLine, (Option<u64>, Refused)> {
    #[derive(Deserialize)]
    struct Head {
        id: u64,
        request: String,
    }
    let error = match serde_json::from_slice(line) {
        Ok(request) => return Ok(request),
        Err(error) => error,
    };
    match serde_json::from_slice::<Head>(line) {
        Ok(Head { id, request }) if request != "hello" && !CAPABILITIES.contains(&request.as_str()) => {
            Err((Some(id), (RefusalCode::CapabilityMissing, format!("this host cannot {request:?}"))))
        }
        Ok(Head { id, .. }) => Err((Some(id), (RefusalCode::InvalidInput, error.to_string()))),
        Err(_) => Err((None, (RefusalCode::InvalidInput, error.to_string()))),
    }
}

#[cfg(test)]
mod tests {
    use super::{RefusalCode, parse, same};

    fn check(line: &str, id: Option<u64>, code: RefusalCode) {
        let (got_id, (got_code, _)) = parse(line.as_bytes()).unwrap_err();
        assert_eq!((got_id, got_code), (id, code), "{line}");
    }

    #[test]
    fn what_cannot_be_read_and_what_cannot_be_done_are_told_apart() {
        check("", None, RefusalCode::InvalidInput);
        check("[]", None, RefusalCode::InvalidInput);
        check(r#"{"request":"status"}"#, None, RefusalCode::InvalidInput);
        check(r#"{"id":1}"#, None, RefusalCode::InvalidInput);
        check(r#"{"id":4,"request":"probe","message":"x"}"#, Some(4), RefusalCode::CapabilityMissing);
        check(r#"{"id":4,"request":"deliver","message":"x"}"#, Some(4), RefusalCode::InvalidInput);
        check(r#"{"id":5,"request":"stop"}"#, Some(5), RefusalCode::InvalidInput);
        check(r#"{"id":5,"request":"stop","grace_ms":-1}"#, Some(5), RefusalCode::InvalidInput);
        assert!(parse(br#"{"id":6,"request":"status","new_member":1}"#).is_ok());
    }

    #[test]
    fn secrets_are_compared_whole() {
        assert!(same("abc", "abc"));
        for other in ["", "ab", "abd", "abcd"] {
            assert!(!same(other, "abc"));
        }
    }
}
