//! Session turns on the simulated machine: when a command works and when its prompt is there, what its host tells of that, the signals that really
//! reached it, and what was promised about all this (docs/MESSAGES.md, "Session turns" and "Messages that interrupt").

use super::computer::{Computer, Run, Stage};
use super::history;
use super::random::Random;
use super::trace::{Broken, Checked, Trace, claim};
use ostler::machine::{Message, MessageId, MessageState, OperationId, Session, State, Status, Word};
use ostler_ledger::Records;
use ostler_ledger::storage::SimulatedDisk;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a host knows of its command's turns. It dies with the host.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    /// The one that runs, or ran last.
    number: u64,
    runs: bool,
    /// It does not end by itself.
    endless: bool,
    /// Those that ended, in the order in which the host tells them.
    ended: Vec<u64>,
}

/// What really happened to commands, whatever was recorded.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// INT that reached a command: for which operation, and in which turn.
    signals: Vec<(Run, OperationId, Option<u64>)>,
    /// First bytes of a message that a command got, and the turn that ran then.
    handed: Vec<(Run, MessageId, Option<u64>)>,
}

impl Turns {
    /// Whether it will come to its prompt by itself.
    pub(super) fn is_restless(&self) -> bool {
        self.runs && !self.endless
    }

    fn running(&self) -> Option<u64> {
        self.runs.then_some(self.number)
    }

    /// How many ends there are to tell.
    pub(super) fn told(&self) -> usize {
        self.ended.len()
    }

    /// Word of one of them.
    pub(super) fn end(&self, at: usize) -> Option<Word> {
        self.ended.get(at).map(|number| Word::Turn { number: *number, runs: false })
    }

    /// What a host says to whom it is new.
    pub(super) fn hello(&self) -> Word {
        Word::Turn { number: self.number, runs: self.runs }
    }
}

/// The command executes, and works until its prompt is there first.
pub(super) fn start(computer: &mut Computer, pid: u32, random: &mut Random) {
    let Some(host) = computer.hosts.get_mut(&pid) else { return };
    if computer.folders.get(&host.run.0).is_some_and(|folder| folder.spec.lines && folder.spec.prompt) {
        host.turns = Some(Turns { runs: true, endless: random.chance(60), ..Turns::default() });
    }
}

/// The command has got all of a message.
pub(super) fn begin(computer: &mut Computer, pid: u32, token: u64, random: &mut Random) {
    let turns = computer.hosts.get_mut(&pid).and_then(|host| host.turns.as_mut());
    if let Some(turns) = turns {
        (turns.number, turns.runs, turns.endless) = (token, true, random.chance(400));
    }
}

/// The command gets the first bytes of a message.
pub(super) fn handed(computer: &mut Computer, pid: u32, message: MessageId) {
    let Some(host) = computer.hosts.get(&pid) else { return };
    let running = host.turns.as_ref().and_then(Turns::running);
    computer.effects.handed.push((host.run.clone(), message, running));
}

/// The command comes to its prompt, at times.
pub(super) fn step(computer: &mut Computer, pid: u32, random: &mut Random) -> Option<&'static str> {
    let host = computer.hosts.get_mut(&pid).filter(|host| host.letter.is_none())?;
    let turns = host.turns.as_mut().filter(|turns| turns.is_restless() && random.chance(600))?;
    turns.runs = false;
    turns.ended.push(turns.number);
    Some("shows its prompt")
}

/// The broker asks for INT, only in one turn if it names one. As in the product: once for one operation, while the host lives.
pub(super) fn interrupt(computer: &mut Computer, pid: u32, operation: OperationId, turn: Option<u64>) -> bool {
    let Some(host) = computer.hosts.get_mut(&pid) else { return false };
    if host.signalled.contains(&operation) {
        return true;
    }
    let running = host.turns.as_ref().and_then(Turns::running);
    if turn.is_some() && turn != running || host.stage != Stage::Running {
        return false;
    }
    host.signalled.insert(operation);
    let deaf = computer.folders.get(&host.run.0).is_some_and(|folder| folder.spec.deaf);
    if let Some(turns) = host.turns.as_mut().filter(|turns| turns.runs) {
        turns.endless = deaf;
    }
    computer.effects.signals.push((host.run.clone(), operation, running));
    true
}

/// What time runs for: a message that waits for the end of a turn, a session that has to become ready.
pub(super) fn waiting(state: &State) -> Option<String> {
    let unready = state.sessions.values().find(|of| of.status == Status::Unready && of.fence.is_none());
    if let Some(session) = unready {
        return Some(format!("{} has to become ready", session.id));
    }
    let mut all = state.messages.values();
    let waits = all.find(|of| of.state == MessageState::Queued && of.interrupts.is_some());
    waits.map(|of| format!("{} interrupts a turn that is not over", of.id))
}

/// Whether a message may wait at rest: for a turn that really runs, and that ends neither by itself nor for this message.
pub(super) fn may_wait(message: &Message, session: &Session, computer: &Computer) -> bool {
    let host = computer.host_of(&(session.id.clone(), session.episode)).and_then(|pid| computer.hosts.get(&pid));
    let endless = host.and_then(|host| host.turns.as_ref()).filter(|turns| turns.endless);
    let runs = endless.and_then(Turns::running);
    session.status == Status::Running
        && message.interrupts.is_none()
        && runs.is_some()
        && runs == session.turn.map(|turn| turn.number)
}

/// Everything has come to rest: each session is at the turn that its command is at.
pub(super) fn rested(state: &State, computer: &Computer) -> Checked {
    let lives = |of: &&Arc<Session>| of.fence.is_none() && of.adapter.has_turns() && of.status.is_live();
    for session in state.sessions.values().filter(lives) {
        let host = computer.host_of(&(session.id.clone(), session.episode)).and_then(|pid| computer.hosts.get(&pid));
        let runs = host.and_then(|host| host.turns.as_ref()).and_then(Turns::running);
        let (known, status) = (session.turn.map(|turn| turn.number), session.status);
        claim(known == runs && runs.is_some() == (status == Status::Running), || {
            format!("liveness: turn {runs:?} of {} runs, and it is {status:?} in {known:?}", session.id)
        })?;
    }
    Ok(())
}

/// An episode of a session whose turns are seen, as the ledger tells it.
#[derive(Debug, Default)]
struct Episode {
    /// The last turn that is over.
    over: Option<u64>,
    /// The last turn that began.
    began: u64,
}

/// The turn that a message interrupts.
#[derive(Debug)]
struct Named {
    of: (String, u32),
    turn: u64,
    /// When it has to be over.
    deadline_us: u64,
}

/// The ledger as plain JSON.
#[derive(Debug, Default)]
struct Ledger {
    /// Sessions whose turns are seen.
    prompted: BTreeSet<String>,
    episodes: BTreeMap<(String, u32), Episode>,
    sends: BTreeSet<u64>,
    /// Which turn a message interrupts.
    named: BTreeMap<u64, Named>,
    /// Tokens of what is on its way, and to which episode.
    tokens: BTreeMap<u64, ((String, u32), u64)>,
    /// The record before: it gave up a message of this session.
    gave_up: Option<String>,
}

/// The ledger and what really happened tell the same of turns.
pub(super) fn told(disk: &SimulatedDisk, computer: &Computer, trace: &Trace) -> Checked {
    let mut ledger = Ledger::default();
    let whole = history::whole(disk).storage();
    for record in Records::new(&whole) {
        let record = record.map_err(|error| Broken(format!("the ledger cannot be read: {error}")))?;
        let body: Value = record.body().map_or(Value::Null, |body| serde_json::from_str(body).unwrap_or_default());
        let (seq, sid) = (record.header.seq, record.header.sid.clone().unwrap_or_default());
        let of = (sid, record.header.ep.unwrap_or(0));
        let gave_up = ledger.gave_up.take();
        claim(gave_up.is_none() || body["overdue"].is_object(), || format!("turns: {gave_up:?} gives up and goes on"))?;
        match record.header.t.as_str() {
            "accept" => ledger.accepted(seq, of, &body),
            "message" => ledger.message((seq, record.header.mono), of, &body, trace)?,
            "session" => ledger.session(&of, &body, gave_up.as_ref())?,
            _ => {}
        }
    }
    ledger.happened(&computer.effects, trace)
}

impl Ledger {
    fn accepted(&mut self, seq: u64, of: (String, u32), body: &Value) {
        if body["spawn"]["adapter"] == "prompted_json_lines" {
            self.prompted.insert(of.0);
        } else if body["send"].is_object() {
            self.sends.insert(seq);
            if let Some(turn) = body["send"]["interrupts"]["turn"].as_u64() {
                let deadline_us = body["send"]["interrupts"]["deadline_boot_us"].as_u64().unwrap_or(u64::MAX);
                self.named.insert(seq, Named { of, turn, deadline_us });
            }
        }
    }

    fn message(&mut self, (seq, now_us): (u64, u64), of: (String, u32), body: &Value, trace: &Trace) -> Checked {
        let Some(id) = body["message"].as_str().and_then(|text| MessageId::parse(text).ok()).map(|id| id.0) else {
            return Err(Broken(format!("turns: a change of nothing: {body}")));
        };
        let change = &body["change"];
        let at = self.episodes.entry(of.clone()).or_default();
        if change == "interrupt_sent" {
            return Ok(());
        }
        let token = self.tokens.remove(&id);
        if change == "sending" && self.prompted.contains(&of.0) {
            let is_boundary = at.over.is_some_and(|over| over >= at.began);
            claim(is_boundary, || format!("turns: msg-{id} goes to {of:?} with no boundary of its own: {at:?}"))?;
            self.tokens.insert(id, (of, seq));
        } else if change["delivered"].is_object() || change == "delivered" {
            // It may be heard of when the next episode runs.
            if let Some((of, token)) = token {
                let at = self.episodes.entry(of).or_default();
                at.began = at.began.max(token);
            }
        } else if change["cancelled"]["reason"] == "interrupt_timeout" {
            trace.mark("a turn was not over in time".to_owned());
            trace.line(format!("msg-{id} of {of:?} ran out of time"));
            let named = self.named.get(&id);
            let is_due = |named: &Named| named.of == of && at.over < Some(named.turn) && now_us >= named.deadline_us;
            let is_of_it = named.is_some_and(is_due);
            claim(is_of_it, || format!("turns: msg-{id} of {of:?} runs out of time for {named:?} at {at:?}"))?;
            self.gave_up = Some(of.0);
        }
        Ok(())
    }

    fn session(&mut self, of: &(String, u32), body: &Value, gave_up: Option<&String>) -> Checked {
        if body["overdue"].is_object() {
            claim(gave_up == Some(&of.0), || format!("turns: {of:?} is stopped for a turn and no message gave it up"))?;
        }
        if let Some(turn) = body["turn_ended"]["turn"].as_u64() {
            let at = self.episodes.entry(of.clone()).or_default();
            claim(at.over < Some(turn), || format!("turns: turn {turn} of {of:?} ends after {:?}", at.over))?;
            at.over = Some(turn);
        }
        Ok(())
    }

    fn happened(&self, effects: &Effects, trace: &Trace) -> Checked {
        for (run, message, during) in &effects.handed {
            claim(during.is_none(), || format!("turns: {message} is handed to {run:?} while {during:?} runs"))?;
        }
        let mut signalled = BTreeSet::new();
        for (run, operation, during) in effects.signals.iter().filter(|(_, of, _)| self.sends.contains(&of.0)) {
            trace.mark("a message interrupted".to_owned());
            claim(signalled.insert(operation), || format!("turns: {run:?} is interrupted twice for {operation}"))?;
            let named = self.named.get(&operation.0);
            let of = (run.0.to_string(), run.1);
            let is_of_it = named.is_some_and(|named| named.of == of && Some(named.turn) == *during);
            claim(is_of_it, || format!("turns: {operation} names {named:?} and interrupts {during:?} of {run:?}"))?;
        }
        Ok(())
    }
}
