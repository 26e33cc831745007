//! Messages on the simulated machine: what hosts write down of them, what commands really receive, and what was promised
//! about that (docs/MESSAGES.md). The order of a host is the product's: attempt in the journal, bytes, end in the journal.

use super::computer::{Computer, Run, Stage};
use super::history;
use super::random::Random;
use super::trace::{Broken, Checked, Trace, claim};
use super::turns;
use ostler::machine::{Carried, Lane, Message, MessageId, MessageState, Session, SessionId, State, Status};
use ostler_ledger::Records;
use ostler_ledger::storage::SimulatedDisk;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// An attempt, in the journal of its episode's host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Letter {
    message: MessageId,
    stage: Posted,
}

/// How far an attempt came. The first and the last two are on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Posted {
    /// Nothing of it is written.
    Begun,
    /// The command has a part of it.
    Half,
    /// The command has all of it.
    Written,
    Accepted(u64),
    Refused,
    /// The command's input was closed on the way.
    Cut,
}

/// A message that a command has, whole. The effect that counts.
#[derive(Clone, Debug)]
pub(super) struct Receipt {
    session: SessionId,
    message: MessageId,
}

/// The broker asks a host to deliver. None: not yet.
pub(super) fn hand_over(computer: &mut Computer, run: &Run, (message, token): (MessageId, u64)) -> Option<Carried> {
    let pid = computer.host_of(run)?;
    let stage = computer.hosts.get(&pid)?.stage;
    let busy = computer.hosts.get(&pid)?.letter.is_some();
    let journal = &mut computer.episode_mut(run)?.journal;
    match journal.get(&token).map(|letter| letter.stage) {
        Some(Posted::Accepted(at_us)) => Some(Carried::Taken { at_us }),
        Some(Posted::Refused) => Some(Carried::Refused { reason: "it is closed".to_owned() }),
        Some(Posted::Cut) => Some(Carried::Unknown { reason: "it was closed on the way".to_owned() }),
        Some(Posted::Begun | Posted::Half | Posted::Written) => None,
        None if stage == Stage::Running && !busy => {
            journal.insert(token, Letter { message, stage: Posted::Begun });
            computer.hosts.get_mut(&pid)?.letter = Some(token);
            None
        }
        None if stage == Stage::Ended => Some(Carried::Refused { reason: "the command has ended".to_owned() }),
        None => None,
    }
}

/// A host brings what it has one step further.
pub(super) fn step(computer: &mut Computer, pid: u32, random: &mut Random) -> Option<&'static str> {
    let host = computer.hosts.get(&pid)?;
    let (run, token) = (host.run.clone(), host.letter?);
    let now_us = computer.now().wall_us;
    let letter = computer.episode_mut(&run)?.journal.get_mut(&token)?;
    let (next, told) = match letter.stage {
        Posted::Begun if random.chance(400) => (Posted::Half, "writes a part of a message"),
        Posted::Begun | Posted::Half => (Posted::Written, "writes a message"),
        Posted::Written => (Posted::Accepted(now_us), "notes that it wrote a message"),
        Posted::Accepted(_) | Posted::Refused | Posted::Cut => return None,
    };
    let is_first = std::mem::replace(&mut letter.stage, next) == Posted::Begun;
    let message = letter.message;
    if is_first {
        turns::handed(computer, pid, message);
    }
    match next {
        Posted::Written => {
            computer.received.push(Receipt { session: run.0, message });
            turns::begin(computer, pid, token, random);
        }
        Posted::Accepted(_) => computer.hosts.get_mut(&pid)?.letter = None,
        Posted::Begun | Posted::Half | Posted::Refused | Posted::Cut => {}
    }
    Some(told)
}

/// The command has ended: what its host has goes no further.
pub(super) fn close(computer: &mut Computer, pid: u32) {
    let now_us = computer.now().wall_us;
    let Some(host) = computer.hosts.get_mut(&pid) else { return };
    let (Some(token), run) = (host.letter.take(), host.run.clone()) else { return };
    let letter = computer.episode_mut(&run).and_then(|episode| episode.journal.get_mut(&token));
    if let Some(letter) = letter {
        letter.stage = match letter.stage {
            Posted::Begun => Posted::Refused,
            Posted::Half => Posted::Cut,
            Posted::Written => Posted::Accepted(now_us),
            done @ (Posted::Accepted(_) | Posted::Refused | Posted::Cut) => done,
        };
    }
}

/// What the journal of a host that is no more says.
pub(super) fn probe(computer: &Computer, run: &Run, token: u64) -> Carried {
    let unknown = |why: &str| Carried::Unknown { reason: why.to_owned() };
    let Some(episode) = computer.episode(run) else { return unknown("its episode is gone") };
    match episode.journal.get(&token).map(|letter| letter.stage) {
        Some(Posted::Accepted(at_us)) => Carried::Taken { at_us },
        None | Some(Posted::Refused) => Carried::NotTaken,
        Some(Posted::Begun | Posted::Half | Posted::Written | Posted::Cut) => unknown("its host ended on the way"),
    }
}

/// What the ledger says became of a message.
#[derive(Debug, Default)]
struct Fate {
    /// It overtakes those that wait in the usual way.
    interrupts: bool,
    /// How often somebody decided to send it again.
    again: usize,
    /// The last word about it.
    last: String,
    reason: String,
}

/// Everything that was sent against everything that was received, the ledger read as plain JSON.
pub(super) fn told(disk: &SimulatedDisk, computer: &Computer, trace: &Trace) -> Checked {
    let fates = fates(disk)?;
    let mut received: BTreeMap<MessageId, usize> = BTreeMap::new();
    let mut latest: BTreeMap<(&SessionId, bool), MessageId> = BTreeMap::new();
    for receipt in &computer.received {
        let id = receipt.message;
        let times = received.entry(id).or_default();
        *times += 1;
        let fate = fates.get(&id.0).ok_or_else(|| Broken(format!("mail: {id} was received and never sent")))?;
        claim(*times <= 1 + fate.again, || format!("mail: {id} is received {times} times: {fate:?}"))?;
        let before = latest.insert((&receipt.session, fate.interrupts), id);
        claim(fate.again > 0 || before.is_none_or(|before| before < id || is_again(&fates, before)), || {
            format!("mail: {id} is received after {before:?}")
        })?;
    }
    for (id, fate) in &fates {
        trace.mark(format!("a message {}", fate.last));
        if fate.again > 0 {
            trace.mark("a message sent again".to_owned());
        }
        computer.desk.told(*id, &fate.last)?;
        let times = received.get(&MessageId(*id)).copied().unwrap_or(0);
        match fate.last.as_str() {
            "delivered" => claim(times > 0, || format!("mail: msg-{id} is delivered and nobody has it"))?,
            "cancelled" | "expired" | "closed" => {
                claim(times <= fate.again, || format!("mail: msg-{id} is received and {}: {fate:?}", fate.last))?;
            }
            "failed" if fate.reason != "given_up" => {
                claim(times <= fate.again, || format!("mail: msg-{id} is received and failed: {}", fate.reason))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_again(fates: &BTreeMap<u64, Fate>, id: MessageId) -> bool {
    fates.get(&id.0).is_some_and(|fate| fate.again > 0)
}

fn fates(disk: &SimulatedDisk) -> Checked<BTreeMap<u64, Fate>> {
    let mut fates: BTreeMap<u64, Fate> = BTreeMap::new();
    let mut waiting: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut stopping: BTreeSet<String> = BTreeSet::new();
    let mut ends: BTreeSet<String> = BTreeSet::new();
    let whole = history::whole(disk).storage();
    for record in Records::new(&whole) {
        let record = record.map_err(|error| Broken(format!("the ledger cannot be read: {error}")))?;
        let body: Value = record.body().map_or(Value::Null, |body| serde_json::from_str(body).unwrap_or_default());
        let sid = record.header.sid.clone().unwrap_or_default();
        match record.header.t.as_str() {
            "accept" if body["send"].is_object() => {
                let interrupts = body["send"]["mode"] == "interrupt";
                fates.insert(record.header.seq, Fate { interrupts, ..Fate::default() });
                waiting.entry(sid).or_default().push(record.header.seq);
            }
            "accept" if body["end"].is_object() => drop(stopping.insert(sid)),
            "session" => drop(stopping.remove(&sid)),
            // The broker's own word to a session is a message as any other.
            "notice" => {
                let ended = &body["ended"];
                let episode = format!("{} {}", ended["session"], ended["episode"]);
                let is_first = ended.is_null() || ends.insert(episode);
                claim(is_first, || format!("mail: {sid} is told twice of {ended}"))?;
                fates.insert(record.header.seq, Fate::default());
                waiting.entry(sid).or_default().push(record.header.seq);
            }
            "message" if body["change"] == "interrupt_sent" => {}
            "message" => {
                claim(body["change"] != "pulled" || !stopping.contains(&sid), || {
                    format!("mail: {body} while its session is being stopped")
                })?;
                let id = body["message"].as_str().and_then(|text| MessageId::parse(text).ok());
                let fate = id.and_then(|id| fates.get_mut(&id.0));
                let (fate, id) = fate.zip(id).ok_or_else(|| Broken(format!("mail: a change of nothing: {body}")))?;
                let (word, rest) = match &body["change"] {
                    Value::String(word) => (word.clone(), Value::Null),
                    Value::Object(change) => {
                        change.iter().next().map(|(word, rest)| (word.clone(), rest.clone())).unwrap_or_default()
                    }
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => continue,
                };
                fate.reason = rest["reason"].as_str().unwrap_or_default().to_owned();
                fate.again += usize::from(word == "returned" && fate.reason == "sent_again");
                let waits = waiting.entry(sid).or_default();
                waits.retain(|waits| *waits != id.0);
                if word == "returned" {
                    waits.push(id.0);
                }
                fate.last = word;
            }
            "queue" => {
                for id in waiting.remove(&sid).unwrap_or_default() {
                    if let Some(fate) = fates.get_mut(&id) {
                        "closed".clone_into(&mut fate.last);
                    }
                }
            }
            _ => {}
        }
    }
    Ok(fates)
}

/// A turn is over: nobody gave up what a host is still at.
pub(super) fn turned(state: &State, computer: &Computer) -> Checked {
    for message in state.messages.values().filter(|message| message.state == MessageState::Uncertain) {
        let host = computer.host_of(&(message.session.clone(), message.episode));
        let at = host.and_then(|pid| computer.hosts.get(&pid)).and_then(|host| host.letter);
        claim(at != Some(message.attempt), || format!("mail: {} is uncertain and on its way", message.id))?;
    }
    Ok(())
}

/// Everything has come to rest: no message is stuck.
pub(super) fn rested(state: &State, computer: &Computer) -> Checked {
    for (sid, lane) in state.lanes.iter() {
        let session = state.sessions.get(sid).ok_or_else(|| Broken(format!("mail: {sid} has a lane and is gone")))?;
        let stuck = open(state, lane).find(|message| is_stuck(message, session, computer));
        let status = session.status;
        claim(stuck.is_none(), || {
            format!("liveness: {:?} for {status:?}", stuck.map(|stuck| (stuck.id, stuck.state)))
        })?;
    }
    Ok(())
}

fn open<'a>(state: &'a State, lane: &'a Lane) -> impl Iterator<Item = &'a Message> {
    lane.open.iter().filter_map(|id| state.messages.get(id)).map(|message| &**message)
}

/// Whether somebody should have taken this message, or told what became of it.
fn is_stuck(message: &Message, session: &Session, computer: &Computer) -> bool {
    match message.state {
        MessageState::Sending => session.fence.is_none(),
        MessageState::Queued if session.fence.is_some() || session.status == Status::Interrupted => false,
        MessageState::Queued if session.adapter.has_turns() => !turns::may_wait(message, session, computer),
        MessageState::Queued => session.adapter.pushes() || !session.status.is_live(),
        MessageState::Uncertain
        | MessageState::Delivered
        | MessageState::Acknowledged
        | MessageState::Cancelled
        | MessageState::Failed
        | MessageState::Expired => false,
    }
}
