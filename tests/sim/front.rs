//! The broker's front: calls on their way to the turn and answers on their way back. As in the product it prepares a
//! session's files before the turn is asked and removes what was not needed; all of it dies with the broker.

use super::clients::{Aim, Intent, Wish};
use super::computer::{Computer, Sign};
use super::hands::Hands;
use super::random::Random;
use ostler::broker::turn::Told;
use ostler::machine::{
    self, Action, Actor, Adapter, Body, Digest, Evidence, Family, Known, MessageId, Mode, Operation, OperationId,
    Parcel, PreparedSession, Readiness, Recalled, Refusal, Request, Scope, SessionId, State, Target, limits,
};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) type Ticket = u64;

/// How long a command may take to say that it is ready.
const READY_WITHIN_MS: u64 = 5_000;

/// How often one call prepares files anew before it gives up.
const PREPARATIONS: u32 = 8;

/// Open calls, and answers that have left the turn and not arrived.
#[derive(Debug, Default)]
pub(super) struct Front {
    calls: BTreeMap<Ticket, Call>,
    pub(super) replies: BTreeMap<Ticket, Reply>,
    last: Ticket,
}

#[derive(Clone, Debug)]
struct Call {
    intent: usize,
    /// The session that was prepared for it and that no record names yet.
    made: Option<SessionId>,
    /// Waits until the last host of this session has let go, to prepare this episode.
    preparing: Option<(SessionId, u32)>,
    preparations: u32,
    /// The episode that was prepared for it.
    prepared: Option<u32>,
    known: Option<OperationId>,
    recalled: Vec<Recalled>,
    /// Waits until somebody has looked at this session.
    looking: Option<SessionId>,
    /// What was seen of it.
    evidence: Option<Evidence>,
    /// Its text is on disk.
    stored: bool,
}

/// An answer on its way.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) intent: usize,
    pub(super) answer: Answer,
    /// The operation that the client knew to be bound by its key when it asked.
    pub(super) known: Option<OperationId>,
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// It has an operation, with this outcome.
    Settled { operation: Arc<Operation>, replayed: bool },
    /// Nothing was done.
    Refused(Refusal),
    /// The disk would not take it; nothing was done.
    Storage,
    /// Others were faster each time; nothing was done.
    Busy,
}

impl Answer {
    /// The situation that it stands for.
    pub(super) fn mark(&self) -> String {
        match self {
            Self::Settled { operation, .. } => format!("{} {}", operation.kind.word(), operation.state.word()),
            Self::Refused(refusal) => {
                let text = format!("{refusal:?}");
                format!("refused {}", text.split([' ', '{']).next().unwrap_or_default())
            }
            Self::Storage => "refused by the disk".to_owned(),
            Self::Busy => "busy".to_owned(),
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::Settled { operation, replayed } => {
                let (state, digest) = (operation.state.word(), operation.digest.to_string());
                format!("{} {state} at {} {} replayed {replayed}", operation.id, operation.seq, &digest[..8])
            }
            Self::Refused(refusal) => format!("refused {refusal:?}"),
            Self::Storage => "storage".to_owned(),
            Self::Busy => "busy".to_owned(),
        }
    }
}

impl Front {
    /// A ticket for what is no call of a client.
    pub(super) fn ticket(&mut self) -> Ticket {
        self.last += 1;
        self.last
    }

    /// Begins a call. `known`: what the client knows to be bound by its key.
    pub(super) fn call(
        &mut self,
        (number, intent): (usize, &Intent),
        known: Option<OperationId>,
        view: &State,
        computer: &mut Computer,
        random: &mut Random,
    ) -> (Ticket, Request) {
        self.last += 1;
        let recalled = Vec::new();
        let mut call = Call {
            intent: number,
            made: None,
            preparing: None,
            preparations: 0,
            prepared: None,
            known,
            recalled,
            looking: None,
            evidence: None,
            stored: false,
        };
        if view.known(&intent.scope, &intent.key) == Known::Nowhere {
            call.made = make(intent, computer, random);
        }
        let request = request(intent, &call, None, view);
        self.calls.insert(self.last, call);
        (self.last, request)
    }

    /// The operations that may have a call's key were read back; asks again.
    pub(super) fn recalled(
        &mut self,
        ticket: Ticket,
        recalled: Vec<Recalled>,
        intents: &[Intent],
        view: &State,
    ) -> Option<(Ticket, Request)> {
        let call = self.calls.get_mut(&ticket)?;
        call.recalled = recalled;
        Some((ticket, request(&intents[call.intent], call, None, view)))
    }

    /// How many calls wait for files.
    pub(super) fn preparing(&self) -> usize {
        self.calls.values().filter(|call| call.preparing.is_some() || call.looking.is_some()).count()
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty() || !self.replies.is_empty()
    }

    /// Lets one call that waits for files look again.
    pub(super) fn step(
        &mut self,
        intents: &[Intent],
        view: &State,
        hands: &mut Hands,
        computer: &mut Computer,
        random: &mut Random,
    ) -> Option<(Ticket, Request)> {
        let waits = |call: &Call| call.preparing.is_some() || call.looking.is_some();
        let waiting: Vec<Ticket> =
            self.calls.iter().filter(|(_, call)| waits(call)).map(|(ticket, _)| *ticket).collect();
        let ticket = random.pick(&waiting)?;
        let call = self.calls.get_mut(&ticket)?;
        if let Some(session) = call.looking.take() {
            call.evidence = view.sessions.get(&session).map(|of| hands.evidence(of, computer));
            return Some((ticket, request(&intents[call.intent], call, None, view)));
        }
        let run = call.preparing.clone().filter(|(session, episode)| !computer.held_before(session, *episode))?;
        call.preparing = None;
        call.prepared = Some(run.1);
        let intent = &intents[call.intent];
        // Its session may have been removed meanwhile; then the turn will say so.
        if let Some(spec) = computer.folders.get(&run.0).map(|folder| folder.spec) {
            computer.prepare(&run, spec);
        }
        Some((ticket, request(intent, call, Some(run.1), view)))
    }

    /// The turn answered a call; what is to be asked again, if anything.
    pub(super) fn told(
        &mut self,
        ticket: Ticket,
        told: &Told,
        intents: &[Intent],
        view: &State,
        computer: &mut Computer,
        random: &mut Random,
    ) -> Option<(Ticket, Request)> {
        let mut call = self.calls.remove(&ticket)?;
        let intent = &intents[call.intent];
        if let Told::Prepare { session, episode } = told {
            call.preparations += 1;
            if call.preparations > PREPARATIONS {
                unmake(call.made.take(), computer);
                self.reply(ticket, &call, Answer::Busy);
                return None;
            }
            let again = match session {
                Some(session) => {
                    call.preparing = Some((session.clone(), *episode));
                    None
                }
                None => {
                    unmake(call.made.take(), computer);
                    call.made = make(intent, computer, random);
                    Some((ticket, request(intent, &call, None, view)))
                }
            };
            self.calls.insert(ticket, call);
            return again;
        }
        if matches!(told, Told::Store { .. }) && !call.stored {
            call.stored = true;
            let again = request(intent, &call, call.prepared, view);
            self.calls.insert(ticket, call);
            return Some((ticket, again));
        }
        if let Told::Look { session } = told {
            call.preparations += 1;
            if call.preparations > PREPARATIONS {
                self.reply(ticket, &call, Answer::Busy);
                return None;
            }
            call.looking = Some(session.clone());
            self.calls.insert(ticket, call);
            return None;
        }
        let answer = answer(told)?;
        if !matches!(answer, Answer::Settled { replayed: false, .. }) {
            unmake(call.made.take(), computer);
        }
        self.reply(ticket, &call, answer);
        None
    }

    /// The answer of a broker that died in the same instant.
    pub(super) fn last_word(&self, ticket: Ticket, told: &Told) -> Option<Reply> {
        let call = self.calls.get(&ticket)?;
        let answer = answer(told)?;
        Some(Reply { intent: call.intent, answer, known: call.known })
    }

    fn reply(&mut self, ticket: Ticket, call: &Call, answer: Answer) {
        self.replies.insert(ticket, Reply { intent: call.intent, answer, known: call.known });
    }
}

fn answer(told: &Told) -> Option<Answer> {
    match told {
        Told::Settled { operation, replayed, .. } => {
            Some(Answer::Settled { operation: Arc::clone(operation), replayed: *replayed })
        }
        Told::Refused(refusal) => Some(Answer::Refused(refusal.clone())),
        Told::Storage { .. } => Some(Answer::Storage),
        Told::Prepare { .. } | Told::Recall(_) | Told::Look { .. } | Told::Store { .. } | Told::Pulled => None,
    }
}

/// Prepares the files of a new session under an id drawn from entropy.
fn make(intent: &Intent, computer: &mut Computer, random: &mut Random) -> Option<SessionId> {
    if !matches!(intent.wish, Wish::Spawn { .. }) {
        return None;
    }
    let letters = b"abcdefghijklmnopqrstuvwxyz234567";
    let text: String = (0..12).map(|_| char::from(letters[random.below(letters.len())])).collect();
    let id = SessionId::parse(&text).expect("base32 is a session id");
    computer.prepare(&(id.clone(), 1), intent.spec);
    Some(id)
}

fn unmake(made: Option<SessionId>, computer: &mut Computer) {
    if let Some(id) = made {
        computer.folders.remove(&id);
    }
}

fn letter(message: MessageId, view: &State) -> Result<MessageId, Refusal> {
    let found = view.messages.get(&message).map(|found| found.id);
    found.ok_or_else(|| Refusal::NoMessage { given: message.to_string() })
}

fn request(intent: &Intent, call: &Call, episode: Option<u32>, view: &State) -> Request {
    let find = |aim: &Aim| -> Target {
        let found = match aim {
            Aim::Id(id) => view.sessions.get(id).map(|session| session.id.clone()),
            Aim::Name(name) => view.names.get(name).cloned(),
        };
        found.ok_or_else(|| Refusal::NoSession { given: format!("{aim:?}") })
    };
    let action = match &intent.wish {
        Wish::Spawn { name, labels } => Action::Spawn {
            prepared: call.made.as_ref().map(|id| PreparedSession { id: id.clone(), spec: Digest([0x5e; 32]) }),
            name: name.clone(),
            labels: labels.clone(),
            // Those that take plain lines are told no notices.
            readiness: (intent.spec.sign != Sign::Unasked)
                .then_some(Readiness { sign: machine::Sign::Output, within_ms: READY_WITHIN_MS }),
            source: None,
            adapter: match (intent.spec.lines, intent.spec.prompt) {
                (true, true) => Adapter::PromptedJsonLines,
                (true, false) => Adapter::JsonLines,
                (false, _) => Adapter::Inbox,
            },
        },
        Wish::Resume { target } => Action::Resume { target: find(target), prepared: episode },
        Wish::Stop { target, grace_ms } => Action::Stop { target: find(target), grace_ms: *grace_ms, reason: None },
        Wish::Delete { target, stop, grace_ms } => {
            Action::Delete { target: find(target), stop: *stop, grace_ms: *grace_ms, reason: None }
        }
        Wish::Prune { older_ms } => Action::Prune { older_ms: *older_ms },
        Wish::Reconcile { target } => {
            Action::Reconcile { target: find(target), evidence: call.evidence.clone().map(Box::new) }
        }
        Wish::Resolve { operation, succeeded } => {
            let found = view.operations.get(operation).map(|found| found.id);
            let operation = found.ok_or_else(|| Refusal::NoOperation { given: operation.to_string() });
            Action::Resolve { operation, succeeded: *succeeded, reason: "seen".to_owned() }
        }
        Wish::Send { target, expires_in_ms, resume, interrupt } => Action::Send(Box::new(Parcel {
            target: find(target),
            mode: if interrupt.is_some() { Mode::Interrupt } else { Mode::Queue },
            body: call.stored.then_some(Body { file: 1, offset: 0, bytes: 1, digest: Digest([0xb0; 32]) }),
            bytes: 1,
            is_long: false,
            expires_in_ms: *expires_in_ms,
            resume: *resume,
            prepared: episode,
            interrupt_within_ms: interrupt.unwrap_or(limits::INTERRUPT_WITHIN_MS),
        })),
        Wish::Cancel { message } => Action::Cancel { message: letter(*message, view) },
        Wish::ResolveMessage { message, again } => {
            Action::ResolveMessage { message: letter(*message, view), again: *again }
        }
        Wish::Interrupt { target } => Action::Interrupt { target: find(target) },
        Wish::Acknowledge { messages } => Action::Acknowledge { messages: messages.clone() },
    };
    let sid = match &intent.scope {
        Scope::Owner => None,
        Scope::Session(id) => Some(id.clone()),
    };
    let actor = Actor { uid: 1_000, pid: 7, sid };
    Request {
        scope: intent.scope.clone(),
        actor,
        key: intent.key.clone(),
        digest: intent.digest,
        digests_since: 0,
        family: Family::default(),
        action,
        recalled: call.recalled.clone(),
    }
}
