//! Messages for the command's standard input, where the adapter is `lines`: one at a time, each named by its message and
//! attempt, written down before its first byte and behind its last one. A pipe without room makes the delivery wait and
//! nobody else. Asked again, the host joins what is under way or says how it ended; it never writes the same again.

use std::collections::VecDeque;

use data_encoding::BASE64;

use super::connection::Role;
use super::ending::Stage;
use super::episode::Episode;
use super::limits::DELIVERY_WAITERS_MAX;
use super::requests::{Answer, Refused};
use crate::host::journal::{Journal, KEPT};
use crate::host::prompt::{Prompt, SessionTurn};
use crate::host::wire::{DELIVER_BYTES_MAX, Delivery, Line, MESSAGE_BYTES_MAX, RefusalCode, Reply};
use crate::os::clock;
use crate::os::fail::{Point, pass};

/// An attempt of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) message: String,
    pub(super) attempt: u64,
}

/// Bytes on their way into the pipe.
#[derive(Debug)]
struct UnderWay {
    named: Named,
    /// Bytes that the pipe had taken before, ever.
    before: u64,
    /// Bytes of this one.
    total: u64,
}

/// What was delivered and what is being delivered.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    /// None where the adapter takes nothing from us.
    journal: Option<Journal>,
    under_way: Option<UnderWay>,
    /// The latest attempts for which the command was signalled.
    interrupted: VecDeque<u64>,
    /// The latest session turn for which it was.
    interrupted_turn: Option<u64>,
}

impl Deliveries {
    pub(super) fn new(journal: Option<Journal>) -> Self {
        Self { journal, ..Self::default() }
    }

    /// Whether the command's standard input is for messages.
    pub(super) fn are_taken(&self) -> bool {
        self.journal.is_some()
    }
}

impl Episode {
    /// A message for the command.
    pub(super) fn deliver(&mut self, index: usize, id: u64, named: Named, b64: &str) -> Result<Answer, Refused> {
        if !matches!(self.connections[index].role, Role::Broker(_)) {
            return Err((RefusalCode::Denied, "only the broker delivers messages".into()));
        }
        let bytes = check(&named, b64)?;
        let Some(journal) = &self.deliveries.journal else {
            return Ok(refused("the command's standard input takes no messages, by its spec"));
        };
        if let Some(delivery) = journal.ended(&named.message, named.attempt) {
            return Ok(Answer::Say(Reply::Deliver { delivery: delivery.clone() }));
        }
        match &self.deliveries.under_way {
            Some(under_way) if under_way.named != named => {
                return Err((RefusalCode::Unavailable, "another message is under way; nothing was written".into()));
            }
            Some(_) => self.wait_for_delivery(index, id)?,
            None if self.starting.is_some() => {
                return Err((RefusalCode::Unavailable, "the command does not execute yet; nothing was written".into()));
            }
            None if self.ending.stage() != Stage::Running => return Ok(refused("the command has ended")),
            None if !self.input.is_open() => return Ok(refused("the command has closed its standard input")),
            None => {
                // A prompt that was shown before the message is none that follows it.
                self.output.catch_up(self.needed());
                self.tell_what_was_seen();
                self.begin_delivery(named, bytes.len())?;
                self.wait_for_delivery(index, id)?;
                self.input.give(bytes, false);
                self.progress();
                self.settle_delivery();
            }
        }
        Ok(Answer::Later)
    }

    fn wait_for_delivery(&mut self, index: usize, id: u64) -> Result<(), Refused> {
        let waiters = &mut self.connections[index].deliveries;
        if waiters.len() >= DELIVERY_WAITERS_MAX {
            let message = format!("{DELIVERY_WAITERS_MAX} requests of this connection wait for it");
            return Err((RefusalCode::Unavailable, message));
        }
        waiters.push(id);
        Ok(())
    }

    /// Writes down that it begins.
    fn begin_delivery(&mut self, named: Named, bytes: usize) -> Result<(), Refused> {
        let Some(journal) = &mut self.deliveries.journal else {
            return Err((RefusalCode::Unavailable, "there is no journal; nothing was written".into()));
        };
        pass(Point::HostDeliver);
        let total = u64::try_from(bytes).expect("a length in memory fits 64 bits");
        let begun = journal.begin(&named.message, named.attempt, total);
        begun.map_err(|error| (RefusalCode::Unavailable, format!("nothing was written: {error}")))?;
        self.deliveries.under_way = Some(UnderWay { named, before: self.input.total(), total });
        Ok(())
    }

    /// Where the pipe has everything, or is closed: says so, first on disk.
    pub(super) fn settle_delivery(&mut self) {
        if !self.input.is_idle() {
            return;
        }
        let (Some(journal), Some(under_way)) = (&mut self.deliveries.journal, self.deliveries.under_way.take()) else {
            return;
        };
        pass(Point::HostDelivered);
        let UnderWay { named, before, total } = under_way;
        let delivery = match self.input.total() - before {
            written if written == total => Delivery::Accepted { at_us: clock::wall_us() },
            0 => Delivery::Refused { reason: "the command has closed its standard input".into() },
            written => Delivery::Cut { written, total },
        };
        if let (Delivery::Accepted { .. }, Some(prompt)) = (&delivery, &mut self.output.prompt) {
            prompt.begin(named.attempt);
        }
        journal.end(&named.message, named.attempt, delivery.clone());
        self.progress();
        for connection in &mut self.connections {
            for id in std::mem::take(&mut connection.deliveries) {
                connection.say(&Line::Reply { id, reply: Reply::Deliver { delivery: delivery.clone() } });
            }
        }
    }

    /// INT to the command's group, while its leader's number is nobody else's.
    pub(super) fn interrupt(&mut self, index: usize, attempt: u64, turn: Option<u64>) -> Result<Answer, Refused> {
        if !matches!(self.connections[index].role, Role::Broker(_)) {
            return Err((RefusalCode::Denied, "only the broker interrupts a command".into()));
        }
        if self.starting.is_some() {
            return Err((RefusalCode::Unavailable, "the command does not execute yet".into()));
        }
        if self.deliveries.interrupted.contains(&attempt) {
            return Ok(Answer::Say(Reply::Interrupt { sent: true }));
        }
        if let Some(number) = turn {
            // What is over must not be interrupted: the signal would meet what comes after it.
            self.output.catch_up(self.needed());
            self.tell_what_was_seen();
            if self.output.prompt.as_ref().map(Prompt::turn) != Some(SessionTurn { number, runs: true }) {
                return Ok(Answer::Say(Reply::Interrupt { sent: false }));
            }
            // Whoever asked for it before may have been withdrawn before it was known that the signal was sent.
            if self.deliveries.interrupted_turn == turn {
                return Ok(Answer::Say(Reply::Interrupt { sent: true }));
            }
        }
        pass(Point::HostInterrupt);
        let sent = self.ending.interrupt();
        if sent && turn.is_some() {
            self.deliveries.interrupted_turn = turn;
        }
        if sent && attempt > 0 {
            self.deliveries.interrupted.truncate(KEPT - 1);
            self.deliveries.interrupted.push_front(attempt);
        }
        pass(Point::HostInterrupted);
        Ok(Answer::Say(Reply::Interrupt { sent }))
    }
}

fn refused(reason: &str) -> Answer {
    Answer::Say(Reply::Deliver { delivery: Delivery::Refused { reason: reason.into() } })
}

/// A request that makes sense, and its bytes.
fn check(named: &Named, b64: &str) -> Result<Vec<u8>, Refused> {
    let is_name = (1..=MESSAGE_BYTES_MAX).contains(&named.message.len());
    if !is_name || !named.message.bytes().all(|byte| byte.is_ascii_graphic()) {
        let rule = format!("a message's name is 1 to {MESSAGE_BYTES_MAX} printable ASCII characters without a space");
        return Err((RefusalCode::InvalidInput, rule));
    }
    let bytes = BASE64.decode(b64.as_bytes()).map_err(|_| (RefusalCode::InvalidInput, "b64 is not base64".into()))?;
    if bytes.is_empty() {
        return Err((RefusalCode::InvalidInput, "there is nothing to deliver".into()));
    }
    if bytes.len() > DELIVER_BYTES_MAX {
        return Err((RefusalCode::TooLarge, format!("at most {DELIVER_BYTES_MAX} bytes at once")));
    }
    Ok(bytes)
}
