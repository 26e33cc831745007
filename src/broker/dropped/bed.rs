//! A whole broker on one thread: the front, the desk and the ledger as they are, and hands that answer each effect at once. Nothing moves but by
//! [`Bed::step`], also what blocks: the one thread for it is held by a gate. So a test decides what happens between two looks at a request.

use super::super::bodies::Bodies;
use super::super::desk::{Desk, World, now};
use super::super::disk::{LedgerDisk, disk};
use super::super::events::Events;
use super::super::front::{Door, Front, Leave};
use super::super::hosts::Hosts;
use super::super::inbox::{Inbox, Post};
use super::super::render::Renderer;
use super::super::secret::Secret;
use super::super::snapshot::Snapshot;
use super::super::turn::{Told, Turn};
use super::super::view::View;
use crate::host::client::{Spawner, remove_session_files};
use crate::host::files::make_folder;
use crate::machine::limits::Retention;
use crate::machine::{
    Action, Body, Carried, Digest, Effect, Exit, Family, Generation, Name, Observation, Process, Run, SessionId, State,
    Word,
};
use crate::os::fail::Point;
use crate::rpc::error::WireError;
use crate::rpc::method::Method;
use crate::rpc::service::{Caller, Notices, Peer, Service};
use crate::rpc::wire::{Arg, Broker, Encoded, Identity, OwnerRecord, ProtocolRange, RootId, Timestamp};
use ostler_ledger::storage::Disk;
use ostler_ledger::{Options, Records};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc as plain};
use std::task::{Context, Poll, Wake, Waker};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot, watch};

/// Steps of the hands without anything that could follow from them, after which nothing moves any more.
const SILENT: usize = 8;

/// Effects that have left, and answers that have gone.
#[derive(Debug, Default)]
struct Hands(Arc<Mutex<VecDeque<Effect>>>);

impl World for Hands {
    type Ticket = oneshot::Sender<Told>;

    fn owns_root(&mut self) -> bool {
        true
    }

    fn perform(&mut self, effect: Effect) {
        self.0.lock().unwrap().push_back(effect);
    }

    fn store(&mut self, _: Snapshot) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    fn tell(&mut self, reply: oneshot::Sender<Told>, told: Told) {
        drop(reply.send(told));
    }
}

/// Counts how often a future was woken.
#[derive(Debug, Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What is asked, and by whom.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) who: Identity,
    pub(super) method: Method,
    pub(super) params: Value,
    /// Of a connection that goes on; else it ends with the call.
    pub(super) connection: Option<u64>,
}

/// The answer to a call.
pub(super) type Answered = Result<Value, WireError>;

/// Both ends of what a connection is told unasked.
type Telling = (Notices, mpsc::Receiver<Vec<u8>>);

/// What is held for somebody.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Held {
    fronts: usize,
    views: usize,
    drains: usize,
    texts: usize,
    tickets: usize,
    looks: usize,
    finishes: usize,
}

/// The broker.
pub(super) struct Bed {
    pub(super) front: Arc<Front>,
    desk: Desk<LedgerDisk, Hands>,
    mail: mpsc::Receiver<Post>,
    effects: Arc<Mutex<VecDeque<Effect>>>,
    /// What hosts say of messages.
    pub(super) carries: Carried,
    /// Hosts say nothing.
    pub(super) is_silent: bool,
    /// What they would have said something about.
    unanswered: Vec<Effect>,
    draining: watch::Sender<bool>,
    _leave: mpsc::Receiver<Leave>,
    /// Connections that go on.
    connections: BTreeMap<u64, Telling>,
    next_connection: u64,
    /// Closed, it lets what blocks go on.
    gate: Option<plain::Sender<()>>,
    runtime: Runtime,
    folder: TempDir,
}

/// So little is kept in full that repeated keys are read back from the ledger.
fn retention() -> Retention {
    Retention { recent: 2, of_session: 1, ..Retention::default() }
}

fn open(root: &Path) -> (Turn<LedgerDisk, oneshot::Sender<Told>>, ostler_ledger::Recovery) {
    Turn::open(|| disk(root), &Options::new("test", "boot"), retention()).unwrap()
}

fn process(pid: u32) -> Process {
    Process { boot: "boot".to_owned(), ns: 1, pid, start: 3 }
}

impl Bed {
    pub(super) fn new() -> Bed {
        // Nothing here is about the disk, and there are some hundred of these.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let root = folder.path().to_owned();
        for name in ["ledger", "quarantine", "sessions"] {
            make_folder(&root.join(name), Point::StartFolder).unwrap();
        }
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().max_blocking_threads(1).build().unwrap();
        let (mut turn, recovery) = open(&root);
        let secret = Secret::open(&root, turn.view().head().seq + 1).unwrap();
        let generation = Generation {
            number: 1,
            process: process(2),
            incarnation: Digest([1; 32]),
            version: "0.1.0".to_owned(),
            lock_inode: 4,
            reclaimed: None,
        };
        turn.begin(now(), &recovery, generation).unwrap();
        let (inbox, mail) = Inbox::new();
        let (draining, draining_seen) = watch::channel(false);
        let (leave, left) = mpsc::channel(1);
        let front = front(&root, turn.view(), secret, inbox, (draining_seen, leave), &runtime);
        let effects = Arc::default();
        let desk = Desk::new(turn, Hands(Arc::clone(&effects)), watch::channel(None).0, watch::channel(None).0);
        let mut bed = Bed {
            front,
            desk,
            mail,
            effects,
            carries: Carried::Taken { at_us: 1 },
            is_silent: false,
            unanswered: Vec::new(),
            draining,
            _leave: left,
            connections: BTreeMap::new(),
            next_connection: 1_000,
            gate: None,
            runtime,
            folder,
        };
        bed.desk.begin(now()).unwrap();
        bed.pass_gate();
        bed
    }

    /// Lets everything run that blocks and waits to run.
    fn pass_gate(&mut self) {
        let (entered, has_entered) = plain::channel();
        let (gate, closed) = plain::channel::<()>();
        drop(self.runtime.spawn_blocking(move || {
            entered.send(()).unwrap();
            let _ = closed.recv();
        }));
        drop(self.gate.replace(gate));
        has_entered.recv().unwrap();
    }

    fn run_tasks(&self) {
        self.runtime.block_on(async {
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
        });
    }

    /// The next thing happens: a turn, or answers of hosts, or what blocks and what tasks make of it. Tells whether any of the first two did or can
    /// now.
    fn step(&mut self) -> bool {
        let mut posts: Vec<_> = std::iter::from_fn(|| self.mail.try_recv().ok()).collect();
        if !posts.is_empty() {
            posts.iter().for_each(|post| self.texts_stay(post));
            self.desk.round(now(), &mut posts).unwrap();
            return true;
        }
        let effects = std::mem::take(&mut *self.effects.lock().unwrap());
        if !effects.is_empty() {
            effects.into_iter().for_each(|effect| self.answer(effect));
            return true;
        }
        self.run_tasks();
        self.pass_gate();
        self.run_tasks();
        self.connections.values_mut().for_each(|(_, told)| while told.try_recv().is_ok() {});
        !self.mail.is_empty()
    }

    /// A text that the turn is about to record is held by somebody until it has.
    fn texts_stay(&self, post: &Post) {
        let Post::Request(request, _) = post else { return };
        let mut bodies: Vec<&Body> = Vec::new();
        if let Action::Send(parcel) = &request.action {
            bodies.extend(&parcel.body);
        } else if let Action::Report(post) = &request.action {
            bodies.extend(post.bodies.iter().flat_map(|(head, text)| [head, text]));
        }
        assert!(bodies.len() <= self.front.bodies.held(), "nobody holds the text that is to be recorded");
    }

    /// Until nothing moves.
    pub(super) fn rest(&mut self) {
        let mut silent = 0;
        while silent < SILENT {
            silent = if self.step() { 0 } else { silent + 1 };
        }
    }

    /// Hosts say what they have not said yet.
    pub(super) fn speak(&mut self) {
        self.is_silent = false;
        std::mem::take(&mut self.unanswered).into_iter().for_each(|effect| self.answer(effect));
        self.rest();
    }

    fn answer(&mut self, effect: Effect) {
        if self.is_silent {
            return self.unanswered.push(effect);
        }
        let id = effect.session().clone();
        let (episode, word) = match effect {
            Effect::Judge { episode, .. } => (episode, Word::NeverOpened),
            Effect::Launch { episode, .. } => (episode, Word::Started(run())),
            Effect::Stop { episode, .. } => (episode, ended()),
            Effect::Remove { .. } => {
                remove_session_files(self.folder.path(), id.as_str()).unwrap();
                let state = self.front.view.read();
                let episode = state.sessions.get(&id).map(|of| of.episode);
                (episode.or_else(|| state.removals.get(&id).copied()).unwrap_or(0), Word::Removed)
            }
            Effect::Deliver { episode, message, attempt, .. } => {
                (episode, Word::Mail { message, attempt, carried: self.carries.clone() })
            }
            Effect::Interrupt { episode, operation, .. } => (episode, Word::Interrupted { operation, sent: true }),
            Effect::Probe { episode, message, attempt, .. } => {
                (episode, Word::Mail { message, attempt, carried: Carried::NotTaken })
            }
        };
        self.post(Observation { session: id, episode, word }, true);
    }

    fn post(&mut self, observation: Observation, answers: bool) {
        self.front.inbox.post_if_room(Post::Word { observation, answers });
    }

    /// A host says something by itself.
    pub(super) fn word(&mut self, name: &str, word: Word) {
        let id = SessionId::parse(&self.id(name)).unwrap();
        let episode = self.front.view.read().sessions.get(&id).map_or(1, |of| of.episode);
        self.post(Observation { session: id, episode, word }, false);
        self.rest();
    }

    /// Goes on with a request until it is answered. With `steps` its caller goes away after so many. `cue` is what happens when all wait.
    pub(super) fn drive(
        &mut self,
        ask: &Ask,
        steps: Option<usize>,
        cue: &dyn Fn(&mut Bed),
    ) -> (Option<Answered>, usize) {
        let (caller, _told) = self.caller(ask);
        let door = Door(Arc::clone(&self.front));
        let (method, params) = (ask.method, ask.params.clone());
        let mut call = Box::pin(async move { door.call(caller, method, params).await });
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let (mut heard, mut silent, mut cues) = (None, 0, 0);
        for step in 0.. {
            if steps == Some(step) {
                let _context = self.runtime.enter();
                drop(call);
                return (None, step);
            }
            let wakes = woken.0.load(Ordering::Relaxed);
            if heard != Some(wakes) {
                (heard, silent) = (Some(wakes), 0);
                let _context = self.runtime.enter();
                if let Poll::Ready(answer) = call.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return (Some(answer.map(|document: Encoded| serde_json::from_str(document.get()).unwrap())), step);
                }
            } else if self.step() {
                silent = 0;
            } else if silent < SILENT {
                silent += 1;
            } else {
                assert!(cues < 10, "{} is never answered", ask.method);
                (silent, cues) = (0, cues + 1);
                cue(self);
            }
        }
        unreachable!("it counts on");
    }

    fn caller(&mut self, ask: &Ask) -> (Caller, Option<mpsc::Receiver<Vec<u8>>>) {
        let peer = Peer { uid: 0, pid: Some(1) };
        let (connection, notices, told) = match ask.connection {
            Some(connection) => {
                let (notices, _) = self.connections.entry(connection).or_insert_with(|| mpsc::channel(1));
                (connection, notices.clone(), None)
            }
            None => {
                self.next_connection += 1;
                let (notices, told) = mpsc::channel(1);
                (self.next_connection, notices, Some(told))
            }
        };
        (Caller { identity: ask.who.clone(), peer, connection, notices }, told)
    }

    /// Asks for what waits, and goes away without the answer.
    pub(super) fn begins(&mut self, method: Method, params: Value) {
        let ask = Ask { who: Identity::Owner, method, params, connection: None };
        self.drive(&ask, Some(4 * SILENT), &|_| {});
        self.rest();
    }

    /// The id of the session with this name.
    pub(super) fn id(&self, name: &str) -> String {
        let name = Name::parse(name).unwrap();
        self.front.view.read().names.get(&name).expect("the scene made it").to_string()
    }

    /// Asks and waits for the answer.
    pub(super) fn asked(&mut self, who: &Identity, method: Method, params: Value) -> Answered {
        let ask = Ask { who: who.clone(), method, params, connection: None };
        let (answer, _) = self.drive(&ask, None, &|_| {});
        self.rest();
        answer.expect("it was not given up")
    }

    /// Asks for what succeeds.
    #[track_caller]
    pub(super) fn gets(&mut self, method: Method, params: Value) -> Value {
        self.asked(&Identity::Owner, method, params).unwrap_or_else(|error| panic!("{method}: {error:?}"))
    }

    /// Ends the connections that went on.
    pub(super) fn let_go(&mut self) {
        self.connections.clear();
        self.rest();
    }

    /// All that is held.
    pub(super) fn held(&self) -> Held {
        Held {
            fronts: Arc::strong_count(&self.front),
            views: self.front.view.watchers(),
            drains: self.draining.receiver_count(),
            texts: self.front.bodies.held(),
            // Who waits for a host that says nothing waits rightly.
            tickets: if self.unanswered.is_empty() { self.desk.tickets() } else { 0 },
            looks: self.front.hosts.looks.available_permits(),
            finishes: self.front.hosts.finishes.available_permits(),
        }
    }

    /// The ledger's records behind a position.
    pub(super) fn records(&self, after: u64) -> Vec<Value> {
        let ledger = Disk::reading(self.folder.path().join("ledger"));
        let records = Records::new(&ledger).map(Result::unwrap).filter(|record| record.header.seq > after);
        records.map(|record| serde_json::from_str(record.raw()).unwrap()).collect()
    }

    /// The folders of sessions.
    pub(super) fn folders(&self) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.folder.path().join("sessions")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Ends the broker and opens its ledger as the next one does. The state as readers had it, the one that is folded, and the folders that stay.
    pub(super) fn ends(self) -> (State, State, BTreeSet<String>) {
        let Bed { front, desk, folder, gate, runtime, .. } = self;
        drop((gate, runtime));
        let seen = front.view.read().clone();
        drop((desk, front));
        let (turn, _) = open(folder.path());
        let folded = turn.view().read().clone();
        let lost = super::super::files::sweep(folder.path(), &folded);
        assert_eq!(lost, None);
        let entries = std::fs::read_dir(folder.path().join("sessions")).unwrap();
        let folders = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        (seen, folded, folders)
    }
}

pub(super) fn ended() -> Word {
    Word::Exited { run: None, exit: Exit::Code(0), at_us: 5, survivors: Vec::new() }
}

fn run() -> Run {
    let (address, incarnation) = ("unix:/nowhere".to_owned(), Digest([9; 32]));
    Run { host: process(10), command: process(11), address, incarnation, started_us: 1 }
}

fn front(
    root: &Path,
    view: Arc<View>,
    secret: Secret,
    inbox: Inbox,
    (draining, leave): (watch::Receiver<bool>, mpsc::Sender<Leave>),
    runtime: &Runtime,
) -> Arc<Front> {
    let path = |path: PathBuf| Arg::from(path.into_os_string());
    let broker = Broker {
        pid: 2,
        generation: 1,
        incarnation: "01".repeat(32),
        version: "0.1.0".to_owned(),
        protocol: ProtocolRange::of_build(),
        endpoint: "unix:/nowhere".to_owned(),
        root: path(root.to_owned()),
        started_at: Timestamp::from_us(0),
    };
    let owner = OwnerRecord {
        pid: 2,
        boot: "boot".to_owned(),
        ns: 1,
        start: 3,
        version: "0.1.0".to_owned(),
        acquired_at: Timestamp::from_us(0),
        released: false,
    };
    let places = (root.to_owned(), root.to_owned());
    let handle = runtime.handle().clone();
    let hosts = Hosts::new(places, 1, Arc::clone(&view), inbox.clone(), Spawner::new().unwrap(), handle);
    Arc::new(Front {
        broker,
        root: root.to_owned(),
        root_id: RootId::new(1, 1),
        owner,
        token: String::new(),
        secret,
        family: Family::default(),
        view,
        inbox,
        hosts,
        bodies: Arc::new(Bodies::new(root.to_owned())),
        renderer: Renderer::new(root.to_owned()),
        cursors: Mutex::default(),
        degraded: watch::channel(None).1,
        hidden: watch::channel(None).1,
        standing: Vec::new(),
        scrubbed: watch::channel(Vec::new()).1,
        events: Events::new(root.join("ledger")),
        accepted: Mutex::default(),
        retired: AtomicU64::default(),
        draining,
        leave,
    })
}
