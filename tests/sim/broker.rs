//! One life of a broker: the product's desk with its turn, outbox and ledger, and mail, hands and front of the
//! simulation. It ends when the story says so, or when its desk does.

use super::clients::{Clients, Wish};
use super::computer::Computer;
use super::front::{Answer, Front, Reply, Ticket};
use super::hands::Hands;
use super::history;
use super::oracle::Oracle;
use super::promises;
use super::pulls::{self, Page};
use super::random::Random;
use super::start::{Sut, start};
use super::trace::{Checked, Trace, claim};
use super::turns;
use super::words::{lasts, word};
use ostler::broker::desk::{Desk, World};
use ostler::broker::inbox::{Post, TURN_INPUTS};
use ostler::broker::recall::recall;
use ostler::broker::retiring::{Order, Retirement};
use ostler::broker::snapshot::Snapshot;
use ostler::broker::turn::{Planted, Told};
use ostler::broker::view::View;
use ostler::machine::limits::Retention;
use ostler::machine::{Effect, MessageState, Observation, Outcome, Word};
use ostler_ledger::RetireError;
use ostler_ledger::storage::{Call, SimulatedDisk, SimulatedStorage};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{oneshot, watch};

/// So many of the longest records do not fit one append.
pub(super) const CROWD: usize = 26;

/// Faults of ours, planted on purpose.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bugs {
    pub(super) turn: Planted,
    pub(super) accept_half_turn: bool,
}

/// What a broker works on, lent to it for one step.
pub(super) struct Scene<'a> {
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
    /// What the broker keeps.
    pub(super) retention: Retention,
    /// How much of ledger lies between two snapshots.
    pub(super) snapshot_tail_bytes: u64,
}

/// A broker that runs.
#[derive(Debug)]
pub(super) struct Broker {
    desk: Desk<SimulatedStorage, Outward>,
    outward: Outward,
    view: Arc<View>,
    deadline: watch::Receiver<Option<u64>>,
    degraded: watch::Receiver<Option<String>>,
    pub(super) hands: Hands,
    pub(super) front: Front,
    mail: VecDeque<Post<Ticket>>,
    /// What programs pull.
    pulls: BTreeMap<Ticket, Page>,
    /// Words that stay true, to be heard again.
    echoes: Vec<Observation>,
    /// Who waits for what came of a retirement.
    orders: Vec<(bool, oneshot::Receiver<Result<Retirement, RetireError>>)>,
}

/// Why there is no broker after a start or a turn.
#[derive(Debug)]
pub(super) struct Ended(pub(super) String);

/// What left the desk, in order.
#[derive(Debug, Default)]
struct Left {
    told: Vec<(Ticket, Told)>,
    effects: Vec<Effect>,
    /// A snapshot that is to be written.
    snapshot: Option<Snapshot>,
    /// Another broker owns the root.
    fenced: bool,
}

/// The desk's way out. A process that was stopped says nothing any more.
#[derive(Clone, Debug)]
struct Outward {
    disk: SimulatedDisk,
    left: Rc<RefCell<Left>>,
}

impl World for Outward {
    type Ticket = Ticket;

    fn owns_root(&mut self) -> bool {
        !self.left.borrow().fenced
    }

    fn perform(&mut self, effect: Effect) {
        self.left.borrow_mut().effects.push(effect);
    }

    fn store(&mut self, snapshot: Snapshot) -> std::io::Result<()> {
        let other = self.left.borrow_mut().snapshot.replace(snapshot);
        assert!(other.is_none(), "two snapshots are written at once");
        Ok(())
    }

    fn tell(&mut self, ticket: Ticket, told: Told) {
        if !self.disk.is_stopped() {
            self.left.borrow_mut().told.push((ticket, told));
        }
    }
}

impl Broker {
    /// Starts, checks what was found, and releases what is owed.
    pub(super) fn start(scene: &mut Scene<'_>, bugs: Bugs, segment_bytes: u64) -> Checked<Result<Self, Ended>> {
        let turn: Sut = match start(scene, bugs, segment_bytes)? {
            Ok(turn) => turn,
            Err(ended) => return Ok(Err(ended)),
        };
        let view = turn.view();
        let ((deadlines, deadline), (states, degraded)) = (watch::channel(None), watch::channel(None));
        let outward = Outward { disk: scene.disk.clone(), left: Rc::default() };
        let mut broker = Self {
            desk: Desk::new(turn, outward.clone(), deadlines, states),
            outward,
            view,
            deadline,
            degraded,
            hands: Hands::default(),
            front: Front::default(),
            mail: VecDeque::new(),
            pulls: BTreeMap::new(),
            echoes: Vec::new(),
            orders: Vec::new(),
        };
        if let Err(error) = broker.desk.begin(scene.computer.now()) {
            return Ok(Err(Ended(error.to_string())));
        }
        broker.release(scene)?;
        Ok(Ok(broker))
    }

    pub(super) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view)
    }

    pub(super) fn has_mail(&self) -> bool {
        !self.mail.is_empty()
    }

    pub(super) fn has_snapshot(&self) -> bool {
        self.outward.left.borrow().snapshot.is_some()
    }

    /// The thread that writes snapshots does its work.
    pub(super) fn snapshot(&mut self, scene: &mut Scene<'_>) {
        let Some(snapshot) = self.outward.left.borrow_mut().snapshot.take() else { return };
        let stored = snapshot.write(&scene.disk.storage());
        scene.trace.line(format!("  {stored:?}"));
        scene.trace.mark(if stored.is_ok() { "a snapshot" } else { "no snapshot" }.to_owned());
        self.mail.push_back(Post::Stored(stored));
    }

    /// What waits, is under way or is unanswered.
    pub(super) fn restless(&self, computer: &Computer) -> Option<String> {
        let waits = |holds: bool, what: String| holds.then_some(what);
        waits(!self.mail.is_empty(), "mail waits".to_owned())
            .or_else(|| waits(self.degraded.borrow().is_some(), "words are not written".to_owned()))
            .or_else(|| self.hands.under_way(computer).map(|task| format!("under way: {task}")))
            .or_else(|| waits(self.front.has_calls(), format!("unanswered: {:?}", self.front)))
            .or_else(|| turns::waiting(&self.view.read()))
    }

    /// Whether the timer of the broker would go off now, or its watch would try whether the disk takes records again.
    pub(super) fn is_due(&self, now_us: u64) -> bool {
        self.deadline.borrow().is_some_and(|due| due <= now_us) || self.degraded.borrow().is_some()
    }

    pub(super) fn tick(&mut self) {
        self.mail.push_back(Post::Tick);
        self.mail.extend(self.degraded.borrow().is_some().then_some(Post::Probe));
    }

    /// Somebody wants the oldest segments retired. The archive or the folder may fail just then.
    pub(super) fn retire(&mut self, scene: &mut Scene<'_>) {
        let (done, retired) = oneshot::channel();
        let dry_run = scene.random.chance(50);
        let order = Order { keep: true, dry_run, act: serde_json::json!({"uid": 0}) };
        self.mail.push_back(Post::Retire(order, done));
        self.orders.push((dry_run, retired));
    }

    pub(super) fn has_orders(&self) -> bool {
        !self.orders.is_empty()
    }

    /// What came of retirements: nothing fails without a reason. Whether files stay that are retired.
    fn retired(&mut self, trouble: bool, scene: &Scene<'_>) -> Checked<bool> {
        let mut stays = false;
        for (dry_run, mut order) in std::mem::take(&mut self.orders) {
            match order.try_recv() {
                Ok(Ok(done)) => {
                    let count = done.segments.len();
                    scene.trace.line(format!("    retires {count}, held {:?}, left {:?}", done.held, done.left));
                    let mark = if count == 0 {
                        "nothing to retire"
                    } else if dry_run {
                        "could be retired"
                    } else {
                        "retired"
                    };
                    scene.trace.mark(mark.to_owned());
                    stays |= done.left.is_some();
                    let left = done.left.filter(|_| !trouble);
                    claim(left.is_none(), || format!("what is retired stays for no reason: {left:?}"))?;
                }
                Ok(Err(error)) => {
                    scene.trace.line(format!("    not retired: {error}"));
                    scene.trace.mark("not retired".to_owned());
                    // What an earlier one left could not be archived, and stays. A sync of the ledger's own ends the broker.
                    stays |= matches!(error, RetireError::Storage(_));
                    claim(trouble, || format!("nothing is retired for no reason: {error}"))?;
                }
                Err(oneshot::error::TryRecvError::Empty) => self.orders.push((dry_run, order)),
                Err(oneshot::error::TryRecvError::Closed) => {}
            }
        }
        Ok(stays)
    }

    /// Hosts said when they were last seen.
    pub(super) fn beat(&mut self, at_us: u64) {
        let state = self.view.read();
        let seen = state.sessions.iter().map(|(id, _)| (id.clone(), at_us)).collect();
        self.mail.push_back(Post::Beat(seen, None));
    }

    /// Another broker owns the root from here on, and this one has not noticed yet.
    pub(super) fn fence(&mut self) {
        self.outward.left.borrow_mut().fenced = true;
    }

    pub(super) fn is_fenced(&self) -> bool {
        self.outward.left.borrow().fenced
    }

    /// A client calls.
    pub(super) fn call(&mut self, number: usize, scene: &mut Scene<'_>) {
        let view = Arc::clone(&self.view);
        let state = view.read();
        let intent = &scene.clients.intents[number];
        let known = scene.oracle.bound(intent);
        let (ticket, request) = self.front.call((number, intent), known, &state, scene.computer, scene.random);
        scene.trace.line(format!("  call {ticket}: wish {number} {} {}", intent.wish.text(), intent.key));
        let intent = &mut scene.clients.intents[number];
        if intent.open > 0 {
            scene.trace.mark("asked twice at once".to_owned());
        } else if intent.unsure {
            scene.trace.mark("asked again after a lost answer".to_owned());
        }
        intent.open += 1;
        intent.unsure = false;
        self.mail.push_back(Post::Request(request, ticket));
    }

    /// A program pulls what it can read, or says that it has it.
    pub(super) fn pull(&mut self, scene: &mut Scene<'_>) {
        let acknowledges = scene.random.chance(350);
        let read = scene.computer.desk.to_acknowledge(scene.computer, scene.random).filter(|_| acknowledges);
        if let Some((session, messages)) = read {
            let number = scene.clients.acknowledge(session, messages, scene.random);
            return self.call(number, scene);
        }
        let view = Arc::clone(&self.view);
        let Some(page) = pulls::ask(&view.read(), scene.computer, scene.random) else { return };
        let ticket = self.front.ticket();
        scene.trace.line(format!("  pull {ticket}: {page:?}"));
        self.mail.push_back(Post::Pull(page.0.0.clone(), page.1.clone(), ticket));
        self.pulls.insert(ticket, page);
    }

    /// What was pulled comes to its program, unless one of the two is gone meanwhile.
    fn pulled(&mut self, ticket: Ticket, told: &Told, luck: bool, scene: &mut Scene<'_>) -> Checked {
        let Some(page) = self.pulls.remove(&ticket) else { return Ok(()) };
        if luck && matches!(told, Told::Pulled) && scene.computer.command_lives(&page.0) {
            let again = scene.computer.desk.read(&self.view.read(), &page)?;
            scene.trace.mark(if again { "a message read again" } else { "a message read" }.to_owned());
        }
        Ok(())
    }

    /// One step of the hands.
    pub(super) fn hand(&mut self, scene: &mut Scene<'_>) {
        let view = Arc::clone(&self.view);
        let (told, posts) = self.hands.step(scene.computer, scene.random, &view.read());
        scene.trace.line(format!("  {told}"));
        for post in posts {
            if let Post::Word { observation, .. } = &post {
                let probed = if told.starts_with("probe") { " by a journal" } else { "" };
                scene.trace.mark(format!("word {}{probed}", word(&observation.word)));
                self.echoes.extend(lasts(&observation.word).then(|| observation.clone()));
            }
            self.mail.push_back(post);
        }
    }

    /// What was said of attempts of messages that are at another one now: hearing it again must change nothing.
    pub(super) fn late_mail(&self) -> Vec<Observation> {
        let state = self.view.read();
        let is_late = |echo: &&Observation| {
            let Word::Mail { message, attempt, .. } = &echo.word else { return false };
            let message = state.messages.get(message);
            message.is_some_and(|message| message.state == MessageState::Sending && message.attempt != *attempt)
        };
        self.echoes.iter().filter(is_late).cloned().collect()
    }

    /// The same word once more, late.
    pub(super) fn echo(&mut self, random: &mut Random) {
        let late = self.late_mail();
        let observation = random.pick(&late).filter(|_| random.chance(800));
        if let Some(observation) = observation.or_else(|| random.pick(&self.echoes)) {
            self.mail.push_back(Post::Word { observation, answers: false });
        }
    }

    /// A call that waits for files looks again.
    pub(super) fn front_step(&mut self, scene: &mut Scene<'_>) {
        let view = Arc::clone(&self.view);
        let asked =
            self.front.step(&scene.clients.intents, &view.read(), &mut self.hands, scene.computer, scene.random);
        self.mail.append(&mut self.hands.hellos);
        self.mail.extend(asked.map(|(ticket, request)| Post::Request(request, ticket)));
    }

    /// An answer arrives at its client.
    pub(super) fn deliver(&mut self, scene: &mut Scene<'_>) -> Checked {
        let tickets: Vec<Ticket> = self.front.replies.keys().copied().collect();
        let reply = scene.random.pick(&tickets).and_then(|ticket| self.front.replies.remove_entry(&ticket));
        let Some((ticket, reply)) = reply else { return Ok(()) };
        arrive(ticket, &reply, scene)?;
        // It may have been on its way so long that what it tells is forgotten.
        scene.oracle.forget(&self.view.read(), scene.disk, scene.trace)
    }

    /// Takes up the effects that left the desk.
    fn release(&mut self, scene: &mut Scene<'_>) -> Checked {
        for effect in std::mem::take(&mut self.outward.left.borrow_mut().effects) {
            scene.trace.line(format!("    owes {effect:?}"));
            scene.oracle.released(&effect, scene.computer)?;
            self.hands.perform(effect, scene.computer);
        }
        Ok(())
    }

    /// A request overtakes what came before it, for each has a way of its own to the turn; a retry, too, may go before the first call.
    fn overtake(&mut self, scene: &mut Scene<'_>) {
        let requests = self.mail.iter().enumerate().filter(|(_, post)| matches!(post, Post::Request(..)));
        let requests: Vec<usize> = requests.map(|(at, _)| at).collect();
        if requests.len() < 2 || !scene.random.chance(300) {
            return;
        }
        let Some(from) = scene.random.pick(&requests) else { return };
        let to = scene.random.below(from + 1);
        let Some(post) = self.mail.remove(from) else { return };
        let same = |other: &&Post<Ticket>| match (&post, other) {
            (Post::Request(mine, _), Post::Request(other, _)) => mine.digest == other.digest,
            _ => false,
        };
        if self.mail.range(to..from).any(|other| same(&other)) {
            scene.trace.mark("a retry went first".to_owned());
        }
        self.mail.insert(to, post);
    }

    /// One turn. An error of the desk ends this broker.
    pub(super) fn round(&mut self, scene: &mut Scene<'_>) -> Checked<Result<(), Ended>> {
        self.overtake(scene);
        let all = self.mail.len().min(TURN_INPUTS);
        let count = if scene.random.chance(500) { all } else { scene.random.below(all) + 1 };
        let mut posts: Vec<Post<Ticket>> = self.mail.drain(..count).collect();
        for post in &posts {
            if let Post::Request(request, _) = post {
                scene.oracle.asked(request, scene.computer.true_us);
            }
        }
        scene.trace.line(format!("  turn of {count}"));
        let luck = scene.random.next();
        let (faults, calls) = (scene.disk.faults_left(), scene.disk.calls());
        let run = self.desk.round(scene.computer.now(), &mut posts);
        let told = std::mem::take(&mut self.outward.left.borrow_mut().told);
        let struck = faults > scene.disk.faults_left();
        if scene.disk.is_stopped() || run.is_err() {
            self.last_words(&told, luck, scene)?;
            let why = run.err().map_or("it was stopped in a turn".to_owned(), |ended| ended.to_string());
            return Ok(Err(Ended(why)));
        }
        // That of the archive is none of the ledger's: its files stay until it succeeds.
        let left = self.retired(struck || scene.full, scene)?;
        let sync = matches!(scene.armed, Some(Call::SyncData | Call::SyncFolder)) && !left;
        claim(!(struck && sync), || "law 6: a sync failed and the broker goes on".to_owned())?;
        // What an earlier turn could not write stays said until a turn writes again.
        let news = self.degraded.has_changed().unwrap_or(false);
        if let Some(failure) = self.degraded.borrow_and_update().as_ref().filter(|_| news) {
            claim(struck || scene.full, || format!("a write fails for no reason: {failure}"))?;
            scene.trace.line(format!("    not written: {failure}"));
        }
        if count >= CROWD && scene.disk.calls() - calls >= 4 {
            scene.trace.mark("a turn of several appends".to_owned());
        }
        self.turned(told, luck, scene)?;
        self.release(scene)?;
        promises::turned(&self.view.read(), scene.computer).map(Ok)
    }

    /// What left the desk before its process ended; some of it arrived.
    fn last_words(&mut self, told: &[(Ticket, Told)], luck: u64, scene: &mut Scene<'_>) -> Checked {
        scene.oracle.forget(&self.view.read(), scene.disk, scene.trace)?;
        for (index, (ticket, told)) in told.iter().enumerate() {
            if is_fast(luck, index)
                && let Some(reply) = self.front.last_word(*ticket, told)
            {
                scene.trace.mark("answered in the last instant".to_owned());
                arrive(*ticket, &reply, scene)?;
            }
        }
        Ok(())
    }

    fn turned(&mut self, told: Vec<(Ticket, Told)>, luck: u64, scene: &mut Scene<'_>) -> Checked {
        let view = Arc::clone(&self.view);
        scene.oracle.forget(&view.read(), scene.disk, scene.trace)?;
        for (index, (ticket, told)) in told.into_iter().enumerate() {
            if self.pulls.contains_key(&ticket) {
                self.pulled(ticket, &told, is_fast(luck, index), scene)?;
                continue;
            }
            let state = view.read();
            let intents = &scene.clients.intents;
            let again = if let Told::Recall(rows) = &told {
                scene.trace.line(format!("    recall for {ticket}: {rows:?}"));
                let ledger = history::copy(scene.disk).storage();
                let recalled = rows.iter().map(|row| recall(&ledger, row)).collect();
                self.front.recalled(ticket, recalled, intents, &state)
            } else {
                self.front.told(ticket, &told, intents, &state, scene.computer, scene.random)
            };
            self.mail.extend(again.map(|(ticket, request)| Post::Request(request, ticket)));
            drop(state);
            self.front.replies.get(&ticket).into_iter().for_each(|reply| scene.oracle.leaves(reply));
            if is_fast(luck, index)
                && let Some(reply) = self.front.replies.remove(&ticket)
            {
                arrive(ticket, &reply, scene)?;
            }
        }
        Ok(())
    }
}

/// Whether an answer arrives in the same instant in which it leaves.
fn is_fast(luck: u64, index: usize) -> bool {
    luck >> (index % 64) & 1 == 1
}

fn arrive(ticket: Ticket, reply: &Reply, scene: &mut Scene<'_>) -> Checked {
    scene.trace.line(format!("  answer {ticket}: {}", reply.answer.text()));
    scene.trace.mark(reply.answer.mark());
    if let Answer::Settled { operation, replayed: true } = &reply.answer
        && scene.oracle.is_let_go(operation.id)
    {
        scene.trace.mark("replayed what was let go".to_owned());
    }
    let intent = &mut scene.clients.intents[reply.intent];
    intent.open -= 1;
    intent.accepted |= matches!(reply.answer, Answer::Settled { .. });
    if let (Answer::Settled { operation, .. }, Wish::Acknowledge { messages }) = (&reply.answer, &intent.wish)
        && operation.state == Outcome::Succeeded
        && operation.request == intent.digest
    {
        scene.computer.desk.acknowledged(messages);
    }
    scene.oracle.answered(reply, &scene.clients.intents, scene.computer)
}
