//! The simulated clients: what they want, under which keys, and what they know of each wish. They keep a key over lost
//! answers, ask twice at once, reuse keys for other requests and names for other sessions.

use super::computer::{Quality, Sign, Spec};
use super::random::Random;
use ostler::machine::{
    Digest, Key, Kind, MessageId, MessageState, Name, OperationId, Outcome, Scope, SessionId, State, Status, limits,
};
use std::collections::BTreeMap;

/// One wish, under one key. Asked again, it is the same request.
#[derive(Clone, Debug)]
pub(super) struct Intent {
    pub(super) scope: Scope,
    pub(super) key: Key,
    /// Of the request: differs from wish to wish.
    pub(super) digest: Digest,
    pub(super) wish: Wish,
    /// What a spawned session's command is like.
    pub(super) spec: Spec,
    /// Calls that wait for their answer.
    pub(super) open: u32,
    /// Some answer was lost, so that the client does not know whether it was done.
    pub(super) lost: bool,
    /// Some answer said that it has an operation.
    pub(super) accepted: bool,
    /// The last answer lost or not asked for yet: it will be asked again.
    pub(super) unsure: bool,
}

/// What is wanted.
#[derive(Clone, Debug)]
pub(super) enum Wish {
    Spawn { name: Option<Name>, labels: BTreeMap<String, String> },
    Resume { target: Aim },
    Stop { target: Aim, grace_ms: u64 },
    Delete { target: Aim, stop: bool, grace_ms: u64 },
    Prune { older_ms: u64 },
    Reconcile { target: Aim },
    Resolve { operation: OperationId, succeeded: bool },
    Send { target: Aim, expires_in_ms: Option<u64>, resume: bool, interrupt: Option<u64> },
    Cancel { message: MessageId },
    ResolveMessage { message: MessageId, again: bool },
    Interrupt { target: Aim },
    Acknowledge { messages: Vec<MessageId> },
}

/// How a session is named.
#[derive(Clone, Debug)]
pub(super) enum Aim {
    Id(SessionId),
    Name(Name),
}

/// How this seed's clients are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// How often of a thousand a key is used for another request.
    pub(super) reused_keys: usize,
    /// How often a key is a UUIDv7.
    pub(super) timed_keys: usize,
    /// How often a spawn carries many labels, so that its record is long.
    pub(super) long_records: usize,
    /// How often a session asks, not the owner.
    pub(super) sessions_ask: usize,
    /// How often a wish is about messages.
    pub(super) messages: usize,
    /// How often a command has a prompt, by which its session turns are seen.
    pub(super) prompts: usize,
}

/// All clients.
#[derive(Debug)]
pub(super) struct Clients {
    pub(super) intents: Vec<Intent>,
    /// The wall clock, from which keys are made.
    pub(super) now_us: u64,
    habits: Habits,
    keys: u64,
}

const NAMES: [&str; 4] = ["alpha", "beta", "gamma", "delta"];

impl Wish {
    /// In words, without long labels.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Spawn { name, labels } => format!("spawn {name:?} with {} labels", labels.len()),
            Self::Resume { .. }
            | Self::Stop { .. }
            | Self::Delete { .. }
            | Self::Prune { .. }
            | Self::Reconcile { .. }
            | Self::Resolve { .. }
            | Self::Send { .. }
            | Self::Cancel { .. }
            | Self::ResolveMessage { .. }
            | Self::Interrupt { .. }
            | Self::Acknowledge { .. } => format!("{self:?}"),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Spawn { .. } => Kind::Spawn,
            Self::Resume { .. } => Kind::Resume,
            Self::Stop { .. } => Kind::Stop,
            Self::Delete { .. } => Kind::Delete,
            Self::Prune { .. } => Kind::Prune,
            Self::Reconcile { .. } => Kind::Reconcile,
            Self::Resolve { .. } => Kind::Resolve,
            Self::Send { .. } => Kind::Send,
            Self::Cancel { .. } => Kind::Cancel,
            Self::ResolveMessage { .. } => Kind::ResolveMessage,
            Self::Interrupt { .. } => Kind::Interrupt,
            Self::Acknowledge { .. } => Kind::Acknowledge,
        }
    }
}

impl Clients {
    pub(super) fn new(habits: Habits) -> Self {
        Self { intents: Vec::new(), now_us: 0, habits, keys: 0 }
    }

    /// A new wish, made with a look at the sessions; its number.
    pub(super) fn wish(&mut self, state: &State, random: &mut Random) -> usize {
        let sessions: Vec<SessionId> = state.sessions.iter().map(|(id, _)| id.clone()).collect();
        let wish = self.wanted(state, &sessions, random);
        self.add(wish, &sessions, random)
    }

    /// A session's program has read these.
    pub(super) fn acknowledge(&mut self, session: SessionId, messages: Vec<MessageId>, random: &mut Random) -> usize {
        let number = self.add(Wish::Acknowledge { messages }, &[], random);
        let scope = Scope::Session(session);
        let key = self.key(&scope, random);
        let intent = &mut self.intents[number];
        (intent.scope, intent.key) = (scope, key);
        number
    }

    /// A wish for a session whose record is as long as one can be.
    pub(super) fn long_wish(&mut self, random: &mut Random) -> usize {
        let labels = (0..limits::LABELS).map(|label| (format!("label-{label}"), "x".repeat(limits::LABEL_VALUE_BYTES)));
        self.add(Wish::Spawn { name: None, labels: labels.collect() }, &[], random)
    }

    fn add(&mut self, wish: Wish, sessions: &[SessionId], random: &mut Random) -> usize {
        let scope = match random.pick(sessions) {
            Some(session) if random.chance(self.habits.sessions_ask) => Scope::Session(session),
            Some(_) | None => Scope::Owner,
        };
        let key = self.key(&scope, random);
        let number = self.intents.len();
        let mut digest = [0xd1; 32];
        digest[..8].copy_from_slice(&u64::try_from(number).unwrap_or(0).to_le_bytes());
        let spec = Spec {
            quality: random
                .weighted(&[(17, Quality::Good), (2, Quality::NotFound), (1, Quality::NoFolder)])
                .unwrap_or(Quality::Good),
            stubborn: random.chance(250),
            lines: random.chance(600),
            prompt: random.chance(self.habits.prompts),
            deaf: random.chance(300),
            brief: random.chance(450),
            // Not drawn: what else happens to a seed stays as it is.
            sign: match number % 8 {
                3 | 5 => Sign::Given,
                7 => Sign::Missing,
                _ => Sign::Unasked,
            },
        };
        let spec = Spec { brief: spec.brief && (!spec.prompt || random.chance(300)), ..spec };
        let digest = Digest(digest);
        let (open, lost, accepted, unsure) = (0, false, false, false);
        self.intents.push(Intent { scope, key, digest, wish, spec, open, lost, accepted, unsure });
        number
    }

    fn key(&mut self, scope: &Scope, random: &mut Random) -> Key {
        let used: Vec<Key> = self.intents.iter().filter(|i| i.scope == *scope).map(|i| i.key.clone()).collect();
        match random.pick(&used) {
            Some(key) if random.chance(self.habits.reused_keys) => key,
            // Another scope's key is another key, so some have the same text.
            Some(_) | None if *scope != Scope::Owner && random.chance(500) => {
                Key::parse(&format!("key-{}", random.below(8))).expect("a key")
            }
            Some(_) | None => {
                self.keys += 1;
                let timed = random.chance(self.habits.timed_keys);
                let text = if timed { self.timed_key(random) } else { format!("key-{}", self.keys) };
                Key::parse(&text).expect("a key")
            }
        }
    }

    /// A UUIDv7 of now, mostly; some clients' clocks are wrong.
    fn timed_key(&self, random: &mut Random) -> String {
        let wrong_us = random.weighted(&[(30, 0), (1, -700_000_000_000), (1, 40_000_000_000), (1, 300_000_000_000)]);
        let made_ms = self.now_us.saturating_add_signed(wrong_us.unwrap_or(0)) / 1_000;
        format!("{:08x}-{:04x}-7000-8000-{:012x}", made_ms >> 16, made_ms & 0xffff, self.keys)
    }

    fn wanted(&self, state: &State, sessions: &[SessionId], random: &mut Random) -> Wish {
        let aim = |random: &mut Random| match random.pick(sessions) {
            Some(id) if !random.chance(150) => Aim::Id(id),
            Some(_) | None => Aim::Name(name(random)),
        };
        let uncertain: Vec<OperationId> = state
            .operations
            .iter()
            .filter(|(_, operation)| operation.state == Outcome::Uncertain)
            .map(|(id, _)| *id)
            .collect();
        if let Some(operation) = random.pick(&uncertain)
            && random.chance(400)
        {
            return Wish::Resolve { operation, succeeded: random.chance(500) };
        }
        let fenced = state.sessions.values().filter(|session| session.fence.is_some());
        let fenced: Vec<SessionId> = fenced.map(|session| session.id.clone()).collect();
        if let Some(session) = random.pick(&fenced)
            && random.chance(450)
        {
            return Wish::Reconcile { target: Aim::Id(session) };
        }
        if random.chance(self.habits.messages)
            && let Some(wish) = letter(state, &aim, random)
        {
            return wish;
        }
        let spawns = if sessions.len() < 3 { 60 } else { 12 };
        let grace_ms = random.pick(&[0, 50, 2_000, 10_000]).unwrap_or(0);
        let what = random.weighted(&[(spawns, 0), (18, 1), (16, 2), (7, 3), (9, 4), (3, 5), (1, 6), (2, 7)]);
        match what.unwrap_or(0) {
            0 => Wish::Spawn { name: random.chance(500).then(|| name(random)), labels: self.labels(random) },
            1 => Wish::Resume { target: aim(random) },
            2 => Wish::Stop { target: aim(random), grace_ms },
            3 => Wish::Delete { target: aim(random), stop: false, grace_ms },
            4 => Wish::Delete { target: aim(random), stop: true, grace_ms },
            5 => Wish::Prune { older_ms: random.pick(&[0, 1_000, 60_000]).unwrap_or(0) },
            7 => Wish::Reconcile { target: aim(random) },
            _ => Wish::Resolve { operation: OperationId(random.between(1, 60)), succeeded: true },
        }
    }

    fn labels(&self, random: &mut Random) -> BTreeMap<String, String> {
        if !random.chance(self.habits.long_records) {
            return BTreeMap::new();
        }
        let count = random.between(4, 30);
        (0..count).map(|label| (format!("label-{label}"), "x".repeat(200))).collect()
    }

    /// A wish to ask once more: sooner one whose answer was lost, sometimes any.
    pub(super) fn again(&self, random: &mut Random) -> Option<usize> {
        let unsure = self.unsure();
        if !unsure.is_empty() && !random.chance(200) {
            return random.pick(&unsure);
        }
        let any: Vec<usize> = (0..self.intents.len()).collect();
        random.pick(&any)
    }

    /// The wishes whose last answer is not known and is not under way.
    pub(super) fn unsure(&self) -> Vec<usize> {
        let known = self.intents.iter().enumerate();
        known.filter(|(_, intent)| intent.unsure && intent.open == 0).map(|(number, _)| number).collect()
    }

    /// The broker is gone and every open call with it.
    pub(super) fn lose_all(&mut self) {
        for intent in self.intents.iter_mut().filter(|intent| intent.open > 0) {
            intent.open = 0;
            intent.lost = true;
            intent.unsure = true;
        }
    }
}

/// A wish about messages: to sessions that have messages read to them, mostly.
fn letter(state: &State, aim: &impl Fn(&mut Random) -> Aim, random: &mut Random) -> Option<Wish> {
    let in_state = |wanted: MessageState| {
        let rows = state.messages.values().filter(move |message| message.state == wanted);
        rows.map(|message| message.id).collect::<Vec<_>>()
    };
    if let Some(message) = random.pick(&in_state(MessageState::Uncertain)).filter(|_| random.chance(850)) {
        let session = state.messages.get(&message).and_then(|message| state.sessions.get(&message.session))?;
        let again = random.chance(850);
        if again && !session.status.is_live() && random.chance(600) {
            return Some(Wish::Resume { target: Aim::Id(session.id.clone()) });
        }
        return Some(Wish::ResolveMessage { message, again });
    }
    let waiting = state.messages.values().next_back().map(|message| message.id);
    if let Some(message) = random.pick(&in_state(MessageState::Queued)).or(waiting).filter(|_| random.chance(80)) {
        return Some(Wish::Cancel { message });
    }
    let lost = state.sessions.values().filter(|session| session.status == Status::Interrupted);
    let lost: Vec<SessionId> = lost.map(|session| session.id.clone()).collect();
    if let Some(session) = random.pick(&lost).filter(|_| random.chance(700)) {
        return Some(Wish::Resume { target: Aim::Id(session) });
    }
    let expires_in_ms = random.pick(&[None, None, Some(40), Some(2_000)]).flatten();
    let within_ms = random.pick(&[20, 200, 2_000, limits::INTERRUPT_WITHIN_MS]);
    let prompted = state.sessions.values().filter(|session| session.adapter.has_turns() && session.status.is_live());
    let (working, idle): (Vec<_>, Vec<_>) = prompted.partition(|of| of.turn.is_some_and(|turn| turn.number > 0));
    let picked = random.pick(&working).or_else(|| random.pick(&idle)).filter(|_| random.chance(600));
    if let Some(session) = picked {
        let interrupt = within_ms.filter(|_| random.chance(if session.turn.is_some() { 700 } else { 200 }));
        let target = Aim::Id(session.id.clone());
        return Some(Wish::Send { target, expires_in_ms, resume: false, interrupt });
    }
    let pushes = !random.chance(350);
    let those = state.sessions.values().filter(|session| session.adapter.pushes() == pushes);
    let those: Vec<SessionId> = those.map(|session| session.id.clone()).collect();
    let target = match random.pick(&those) {
        Some(session) if !random.chance(100) => Aim::Id(session),
        Some(_) | None => aim(random),
    };
    if random.chance(60) {
        return Some(Wish::Interrupt { target });
    }
    let interrupt = within_ms.filter(|_| random.chance(150));
    Some(Wish::Send { target, expires_in_ms, resume: random.chance(250), interrupt })
}

fn name(random: &mut Random) -> Name {
    Name::parse(NAMES[random.below(NAMES.len())]).expect("a name")
}
