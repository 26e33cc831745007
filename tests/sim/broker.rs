//! One life of a broker: the product's ledger, turn and outbox, driven as the product's desk drives them, with mail,
//! hands and front of the simulation. It ends when the story says so, or when its ledger does.

use super::clients::Clients;
use super::computer::Computer;
use super::front::{Answer, Front, Reply, Ticket};
use super::hands::{Hands, News};
use super::history;
use super::oracle::Oracle;
use super::promises;
use super::random::Random;
use super::trace::{Checked, Trace, claim};
use ostler::broker::outbox::Outbox;
use ostler::broker::turn::{Planted, Release, Told, Turn};
use ostler::broker::view::View;
use ostler::machine::{
    Digest, Effect, Generation, Input, Observation, Process, Request, SessionId, Word, next_deadline,
};
use ostler_ledger::storage::{Call, SimulatedDisk, SimulatedStorage};
use ostler_ledger::{Ledger, Options};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Faults of ours, planted on purpose.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bugs {
    pub(super) turn: Planted,
    pub(super) accept_half_turn: bool,
}

/// What a broker works on, lent to it for one step.
pub(super) struct Desk<'a> {
    pub(super) computer: &'a mut Computer,
    pub(super) clients: &'a mut Clients,
    pub(super) oracle: &'a mut Oracle,
    pub(super) random: &'a mut Random,
    pub(super) disk: &'a SimulatedDisk,
    pub(super) trace: &'a Trace,
    /// The call of the storage that was made to fail.
    pub(super) armed: Option<Call>,
    /// The disk may be full.
    pub(super) full: bool,
}

/// Mail for the turn.
#[derive(Debug)]
enum Post {
    Request(Ticket, Request),
    News(News),
    Beat(BTreeMap<SessionId, u64>),
    Tick,
}

/// A broker that runs.
#[derive(Debug)]
pub(super) struct Broker {
    turn: Turn<SimulatedStorage, Ticket>,
    view: Arc<View>,
    outbox: Outbox,
    pub(super) hands: Hands,
    pub(super) front: Front,
    mail: VecDeque<Post>,
    /// Words that the disk would not take.
    unwritten: Vec<Input>,
    /// Sessions whose effect was answered by such words.
    answered: Vec<SessionId>,
    /// Words that stay true, to be heard again.
    echoes: Vec<Observation>,
}

/// Why there is no broker after a start or a turn.
#[derive(Debug)]
pub(super) struct Ended(pub(super) String);

impl Broker {
    /// Opens the ledger, checks what was found, begins a generation and releases what is owed.
    pub(super) fn start(desk: &mut Desk<'_>, bugs: Bugs, segment_bytes: u64) -> Checked<Result<Self, Ended>> {
        let mut options = Options::new("simulated", desk.computer.boot());
        options.segment_bytes = segment_bytes;
        options.accept_half_turn = bugs.accept_half_turn;
        let ended = |error: &dyn std::fmt::Display| Ok(Err(Ended(error.to_string())));
        let (ledger, recovery) = match Ledger::open(desk.disk.storage(), options) {
            Ok(opened) => opened,
            Err(error) => return ended(&error),
        };
        let trouble = desk.full || desk.armed.is_some() || desk.disk.is_stopped();
        let found = recovery.problems.is_empty() && (trouble || recovery.degraded.is_empty());
        claim(found, || format!("recovery: {:?} {:?}", recovery.problems, recovery.degraded))?;
        // It costs as much as a start, so not every one.
        if desk.random.chance(300) {
            history::verified(desk.disk, desk.computer.boot(), ledger.head().seq)?;
        }
        let mut turn = match Turn::open(ledger, &recovery) {
            Ok(turn) => turn,
            Err(error) => return ended(&error),
        };
        turn.plant(bugs.turn);
        let view = turn.view();
        promises::recovered(desk.oracle, &view, &desk.clients.intents, desk.computer)?;
        desk.oracle.published = Some(Arc::clone(&view));
        sweep(desk, &view)?;
        let number = turn.last_generation() + 1;
        let generation = Generation {
            number,
            process: Process { boot: desk.computer.boot(), ns: 1, pid: 1, start: desk.computer.true_us },
            incarnation: Digest([7; 32]),
            version: "0.1.0".to_owned(),
            lock_inode: 1,
            reclaimed: None,
        };
        if let Err(error) = turn.begin(desk.computer.now(), &recovery, generation) {
            return ended(&error);
        }
        let now = desk.computer.now();
        let seen = view.read().sessions.iter().map(|(id, _)| (id.clone(), now.wall_us)).collect();
        let mut refused = None;
        let beat = vec![(Input::Beat { seen, whole: true }, None)];
        if let Err(error) = turn.run(now, beat, &mut |_| {}, &mut |error| refused = Some(error)) {
            return ended(&error);
        }
        if let Some(error) = refused {
            return ended(&error);
        }
        desk.trace.line(format!("    generation {number} from record {}", view.head().seq));
        let mut broker = Self {
            turn,
            view,
            outbox: Outbox::default(),
            hands: Hands::default(),
            front: Front::default(),
            mail: VecDeque::new(),
            unwritten: Vec::new(),
            answered: Vec::new(),
            echoes: Vec::new(),
        };
        let owed = broker.turn.outstanding().into_iter();
        let owed = owed.map(|effect| (effect.session().clone(), Some(effect))).collect();
        broker.release(owed, desk)?;
        Ok(Ok(broker))
    }

    pub(super) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view)
    }

    pub(super) fn has_mail(&self) -> bool {
        !self.mail.is_empty()
    }

    /// What waits, is under way or is unanswered.
    pub(super) fn restless(&self, computer: &Computer) -> Option<String> {
        let waits = |holds: bool, what: String| holds.then_some(what);
        waits(!self.mail.is_empty(), "mail waits".to_owned())
            .or_else(|| waits(!self.unwritten.is_empty(), "words are not written".to_owned()))
            .or_else(|| self.hands.under_way(computer).map(|task| format!("under way: {task}")))
            .or_else(|| waits(self.front.has_calls(), format!("unanswered: {:?}", self.front)))
    }

    /// Whether a timer of the broker would go off now.
    pub(super) fn is_due(&self, now_us: u64) -> bool {
        let due = next_deadline(&self.view.read()).is_some_and(|due| due <= now_us);
        due || !self.unwritten.is_empty()
    }

    pub(super) fn tick(&mut self) {
        self.mail.push_back(Post::Tick);
    }

    /// Hosts said when they were last seen.
    pub(super) fn beat(&mut self, at_us: u64) {
        let state = self.view.read();
        let seen = state.sessions.iter().map(|(id, _)| (id.clone(), at_us)).collect();
        self.mail.push_back(Post::Beat(seen));
    }

    /// A client calls.
    pub(super) fn call(&mut self, number: usize, desk: &mut Desk<'_>) {
        let view = Arc::clone(&self.view);
        let state = view.read();
        let intent = &desk.clients.intents[number];
        let known = desk.oracle.bound(intent);
        let (ticket, request) = self.front.call((number, intent), known, &state, desk.computer, desk.random);
        desk.trace.line(format!("  call {ticket}: wish {number} {} {}", intent.wish.text(), intent.key));
        let intent = &mut desk.clients.intents[number];
        intent.open += 1;
        intent.unsure = false;
        self.mail.push_back(Post::Request(ticket, request));
    }

    /// One step of the hands.
    pub(super) fn hand(&mut self, desk: &mut Desk<'_>) {
        let view = Arc::clone(&self.view);
        let (told, news) = self.hands.step(desk.computer, desk.random, &view.read());
        desk.trace.line(format!("  {told}"));
        for news in news {
            self.remember(&news);
            self.mail.push_back(Post::News(news));
        }
    }

    fn remember(&mut self, news: &News) {
        let News::Word { observation, .. } = news else { return };
        // Of these it is certain that they will still hold when they are heard late or twice.
        let lasting = match &observation.word {
            Word::Started(_) | Word::Exited { .. } | Word::HostLost | Word::MachineLost | Word::Removed => true,
            Word::LaunchFailed { .. } | Word::NeverOpened | Word::Adopted(_) | Word::Foreign { .. } => false,
        };
        if lasting {
            self.echoes.push(Observation::clone(observation));
        }
    }

    /// The same word once more, late.
    pub(super) fn echo(&mut self, random: &mut Random) {
        if let Some(observation) = random.pick(&self.echoes).map(Box::new) {
            self.mail.push_back(Post::News(News::Word { observation, answers: false }));
        }
    }

    /// A call that waits for files looks again.
    pub(super) fn front_step(&mut self, desk: &mut Desk<'_>) {
        let view = Arc::clone(&self.view);
        let asked = self.front.step(&desk.clients.intents, &view.read(), desk.computer, desk.random);
        self.mail.extend(asked.map(|(ticket, request)| Post::Request(ticket, request)));
    }

    /// An answer arrives at its client.
    pub(super) fn deliver(&mut self, desk: &mut Desk<'_>) -> Checked {
        let tickets: Vec<Ticket> = self.front.replies.keys().copied().collect();
        let reply = desk.random.pick(&tickets).and_then(|ticket| self.front.replies.remove_entry(&ticket));
        let Some((ticket, reply)) = reply else { return Ok(()) };
        arrive(ticket, &reply, desk)
    }

    fn release(&mut self, owed: Vec<(SessionId, Option<Effect>)>, desk: &mut Desk<'_>) -> Checked {
        for (session, effect) in owed {
            let Some(effect) = self.outbox.owed(&session, effect) else { continue };
            desk.trace.line(format!("    owes {effect:?}"));
            desk.oracle.released(&effect, desk.computer)?;
            self.hands.perform(effect, desk.computer);
        }
        Ok(())
    }

    /// One turn, as the desk runs it. An error of the ledger ends this broker.
    pub(super) fn round(&mut self, desk: &mut Desk<'_>) -> Checked<Result<(), Ended>> {
        let count = if desk.random.chance(500) { self.mail.len() } else { desk.random.below(self.mail.len()) + 1 };
        let mut inputs: Vec<(Input, Option<Ticket>)> =
            std::mem::take(&mut self.unwritten).into_iter().map(|input| (input, None)).collect();
        let mut answered = std::mem::take(&mut self.answered);
        for post in self.mail.drain(..count) {
            match post {
                Post::Request(ticket, request) => {
                    desk.oracle.asked(&request, desk.computer.true_us);
                    inputs.push((Input::Request(request), Some(ticket)));
                }
                Post::News(News::Word { observation, answers }) => {
                    if answers {
                        self.outbox.answered(&observation.session);
                        answered.push(observation.session.clone());
                    }
                    inputs.push((Input::Observation(*observation), None));
                }
                Post::News(News::Again(session)) => {
                    self.outbox.again(&session);
                    answered.push(session);
                }
                Post::Beat(seen) => inputs.push((Input::Beat { seen, whole: false }, None)),
                Post::Tick => inputs.push((Input::Tick, None)),
            }
        }
        let words = inputs.iter().filter(|(input, _)| matches!(input, Input::Observation(_)));
        let words: Vec<Input> = words.map(|(input, _)| input.clone()).collect();
        desk.trace.line(format!("  turn of {}", inputs.len()));
        let luck = desk.random.next();
        let (mut left, mut owed, mut failure) = (Vec::new(), Vec::new(), None);
        let disk = desk.disk;
        let faults = disk.faults_left();
        let run = self.turn.run(
            desk.computer.now(),
            inputs,
            &mut |release| match release {
                // A process that was stopped says nothing any more.
                Release::Answer(..) if disk.is_stopped() => {}
                Release::Answer(ticket, told) => left.push((ticket, told)),
                Release::Owed(session, effect) => owed.push((session, effect)),
            },
            &mut |error| failure = Some(error.to_string()),
        );
        let struck = faults > disk.faults_left();
        if disk.is_stopped() || run.is_err() {
            self.last_words(&left, luck, desk)?;
            let why = run.err().map_or("it was stopped in a turn".to_owned(), |fatal| fatal.to_string());
            return Ok(Err(Ended(why)));
        }
        let sync = matches!(desk.armed, Some(Call::SyncData | Call::SyncFolder));
        claim(!(struck && sync), || "law 6: a sync failed and the broker goes on".to_owned())?;
        if let Some(failure) = failure {
            claim(struck || desk.full, || format!("a write fails for no reason: {failure}"))?;
            desk.trace.line(format!("    not written: {failure}"));
            self.unwritten = words;
            self.answered.clone_from(&answered);
        } else {
            answered.iter().for_each(|session| self.outbox.written(session));
        }
        self.turned(left, luck, desk)?;
        owed.extend(answered.into_iter().map(|session| {
            let effect = self.turn.owed(&session);
            (session, effect)
        }));
        self.release(owed, desk)?;
        promises::turned(&self.view.read(), desk.computer).map(Ok)
    }

    /// What left the turn before its process ended; some of it arrived.
    fn last_words(&mut self, left: &[(Ticket, Told)], luck: u64, desk: &mut Desk<'_>) -> Checked {
        for (index, (ticket, told)) in left.iter().enumerate() {
            if is_fast(luck, index)
                && let Some(reply) = self.front.last_word(*ticket, told)
            {
                arrive(*ticket, &reply, desk)?;
            }
        }
        Ok(())
    }

    fn turned(&mut self, left: Vec<(Ticket, Told)>, luck: u64, desk: &mut Desk<'_>) -> Checked {
        let view = Arc::clone(&self.view);
        for (index, (ticket, told)) in left.into_iter().enumerate() {
            let state = view.read();
            let intents = &desk.clients.intents;
            let again = self.front.told(ticket, &told, intents, &state, desk.computer, desk.random);
            self.mail.extend(again.map(|(ticket, request)| Post::Request(ticket, request)));
            drop(state);
            if is_fast(luck, index)
                && let Some(reply) = self.front.replies.remove(&ticket)
            {
                arrive(ticket, &reply, desk)?;
            }
        }
        Ok(())
    }
}

/// Whether an answer arrives in the same instant in which it leaves.
fn is_fast(luck: u64, index: usize) -> bool {
    luck >> (index % 64) & 1 == 1
}

fn arrive(ticket: Ticket, reply: &Reply, desk: &mut Desk<'_>) -> Checked {
    desk.trace.line(format!("  answer {ticket}: {}", reply.answer.text()));
    let intent = &mut desk.clients.intents[reply.intent];
    intent.open -= 1;
    intent.accepted |= matches!(reply.answer, Answer::Settled { .. });
    desk.oracle.answered(reply, &desk.clients.intents, desk.computer)
}

/// Removes folders that no record names: what a crash left between the files and the record.
fn sweep(desk: &mut Desk<'_>, view: &View) -> Checked {
    let state = view.read();
    let known = |id: &SessionId| state.sessions.get(id).is_some() || state.removals.get(id).is_some();
    let stray: Vec<SessionId> = desk.computer.folders.keys().filter(|id| !known(id)).cloned().collect();
    for id in stray {
        let runs = desk.computer.hosts.values().any(|host| host.run.0 == id);
        claim(!runs, || format!("law 6: {id} has a host and no record names it"))?;
        desk.computer.folders.remove(&id);
    }
    Ok(())
}
