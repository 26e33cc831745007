//! Effects in the world: starts, stops, judges and removes, and listens to living hosts. Each answer becomes mail for
//! the turn; nothing here decides anything. A host that does not answer is asked again for as long as it lives: silence
//! is not death (report I07).

use super::inbox::{Inbox, Post};
use super::looks::Found;
use super::passed;
use super::view::View;
use super::words::{exited, obstacle, phase, run_of};
use crate::host::client::{Launch, LaunchOutcome, Link, LinkError, Spawner, remove_session_files};
use crate::host::wire::{EpisodeState, Exit, HostRecord, Push, SessionTurn, Status};
use crate::machine::{self, Effect, Hand, Observation, SessionId, Word, limits};
use crate::os::clock;
use crate::os::fail::{Point, pass};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Starts under way at one time: more would only make all of them late (report B11).
const LAUNCHES: usize = 16;
/// Judgements and removals under way at one time.
const LOOKS: usize = 8;
/// Dead hosts whose leftovers are ended at one time. One whose command the kernel cannot end takes its seconds, and holds up neither the
/// judgement of others nor, with this many beside it, their end.
const FINISHES: usize = 8;
/// Threads that such work and the files of sessions may take at one time, so that neither waits for the other.
pub const BLOCKING_THREADS: usize = LOOKS + FINISHES + 8;
/// How long a host may take to answer hello.
const HELLO: Duration = Duration::from_secs(5);
/// Between two looks at a host that is coming up, going down or silent.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// The longest pause between two looks.
pub(super) const LOOK_AGAIN_MAX: Duration = Duration::from_secs(2);
/// How long a removal or a resume waits for the last host to let go of its lock: it drains output for a bounded time.
const RELEASE: Duration = Duration::from_secs(30);

/// The broker's hands.
#[derive(Debug)]
pub struct Hosts {
    pub(super) root: PathBuf,
    runtime: PathBuf,
    generation: u64,
    pub(super) view: Arc<View>,
    pub(super) inbox: Inbox,
    spawner: Spawner,
    handle: Handle,
    launches: Semaphore,
    pub(super) looks: Semaphore,
    pub(super) finishes: Semaphore,
    links: Mutex<HashMap<SessionId, Linked>>,
    next_link: AtomicU64,
    seen: Mutex<BTreeMap<SessionId, u64>>,
}

#[derive(Clone, Debug)]
struct Linked {
    /// Number of the link in this broker's life: an old one that ends must not take a new one with it.
    number: u64,
    episode: u32,
    link: Link,
    /// A stop is under way: its answer, with the survivors, stands for the exit.
    stopping: bool,
}

/// What came of dialling a host.
#[derive(Debug)]
pub(super) enum Dialled {
    /// It is listened to.
    Listening,
    /// Its command has ended, and it is still at what that left behind.
    Ended(Box<Word>),
}

impl Hosts {
    /// Hands for this generation.
    pub fn new(
        (root, runtime): (PathBuf, PathBuf),
        generation: u64,
        view: Arc<View>,
        inbox: Inbox,
        spawner: Spawner,
        handle: Handle,
    ) -> Arc<Self> {
        Arc::new(Self {
            root,
            runtime,
            generation,
            view,
            inbox,
            spawner,
            handle,
            launches: Semaphore::new(LAUNCHES),
            looks: Semaphore::new(LOOKS),
            finishes: Semaphore::new(FINISHES),
            links: Mutex::default(),
            next_link: AtomicU64::new(1),
            seen: Mutex::default(),
        })
    }

    /// Begins an effect; its answer comes as mail.
    pub fn perform(self: &Arc<Self>, effect: Effect) {
        let hosts = Arc::clone(self);
        match effect {
            Effect::Judge { session, episode } => drop(self.handle.spawn(async move {
                let word = hosts.look(&session, episode).await;
                hosts.answer(session, episode, word).await;
            })),
            Effect::Launch { session, episode, deadline_boot_us } => drop(self.handle.spawn(async move {
                hosts.launch(session, episode, deadline_boot_us).await;
            })),
            Effect::Stop { session, episode, deadline_boot_us } => drop(self.handle.spawn(async move {
                hosts.stop(session, episode, deadline_boot_us).await;
            })),
            // Nothing in it waits for the runtime: its thread is spared both ways.
            Effect::Remove { session } => drop(self.handle.spawn_blocking(move || hosts.remove(session))),
            Effect::Deliver { session, episode, message, attempt } => {
                drop(self.handle.spawn(hosts.deliver(session, episode, (message, attempt))));
            }
            Effect::Interrupt { session, episode, operation, turn } => {
                drop(self.handle.spawn(hosts.interrupt(session, episode, (operation, turn))));
            }
            Effect::Probe { session, episode, message, attempt } => {
                drop(self.handle.spawn(hosts.probe(session, episode, (message, attempt))));
            }
        }
    }

    /// What hosts said since the last call: last-seen times by session.
    pub fn take_seen(&self) -> BTreeMap<SessionId, u64> {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What a session's host said since the last beat.
    pub fn seen(&self, session: &SessionId) -> Option<u64> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(session).copied()
    }

    fn saw(&self, session: &SessionId, at_us: u64) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(session.clone(), at_us);
    }

    async fn answer(&self, session: SessionId, episode: u32, word: Word) {
        passed::word(&word);
        let observation = Observation { session, episode, word };
        self.inbox.post(Post::Word { observation, answers: true }).await;
    }

    async fn launch(self: &Arc<Self>, session: SessionId, episode: u32, deadline_boot_us: u64) {
        let _permit = self.launches.acquire().await.expect("the semaphore is never closed");
        let spec = self.view.read().sessions.get(&session).map(|session| session.spec.to_string());
        let Some(spec_digest) = spec else { return self.inbox.post(Post::Again(session, Hand::Life)).await };
        let left_us = deadline_boot_us.saturating_sub(clock::boot_us());
        let launch = Launch {
            root: self.root.clone(),
            runtime: self.runtime.clone(),
            session: session.to_string(),
            episode,
            generation: self.generation,
            spec_digest,
            within_ms: (left_us / 1_000).clamp(1_000, limits::START_WITHIN_MS),
        };
        let (done, outcome) = oneshot::channel();
        self.spawner.launch(launch, Box::new(move |outcome| drop(done.send(outcome))));
        match outcome.await.unwrap_or_else(|_| LaunchOutcome::Unclear("the spawner gave no answer".to_owned())) {
            LaunchOutcome::Started(record) => {
                let Some(run) = run_of(&record) else { return self.unreadable(session, episode).await };
                self.answer(session.clone(), episode, Word::Started(run)).await;
                match self.attach(&session, episode, &record).await {
                    Ok(Dialled::Listening) => {}
                    Ok(Dialled::Ended(word)) => self.heard(session, episode, *word).await,
                    Err(_) => self.rejudge(session, episode).await,
                }
            }
            LaunchOutcome::Failed(failure) => {
                let obstacle = obstacle(&failure);
                let word = Word::LaunchFailed { phase: phase(failure.phase), reason: failure.reason, obstacle };
                self.answer(session, episode, word).await;
            }
            LaunchOutcome::Unclear(why) => {
                tracing::warn!(session = session.as_str(), episode, why, "a start is unclear; asking the evidence");
                let word = self.look(&session, episode).await;
                if word == Word::NeverOpened {
                    // It is issued again until its deadline; a host that cannot live is not started in a tight loop.
                    tokio::time::sleep(LOOK_AGAIN_MAX).await;
                }
                self.answer(session, episode, word).await;
            }
        }
    }

    async fn unreadable(&self, session: SessionId, episode: u32) {
        let reason = "its host's record has no readable incarnation".to_owned();
        self.answer(session, episode, Word::Foreign { reason }).await;
    }

    async fn stop(self: &Arc<Self>, session: SessionId, episode: u32, deadline_boot_us: u64) {
        loop {
            let Some((number, link)) = self.link_for_stop(&session, episode) else {
                match self.find(&session, episode).await {
                    Found::Linked(_) => continue,
                    Found::Word(word) => return self.answer(session, episode, word).await,
                }
            };
            let grace_ms = deadline_boot_us.saturating_sub(clock::boot_us()) / 1_000;
            match link.stop(grace_ms).await {
                Ok(stopped) if stopped.exit.is_some() => {
                    let word = exited(None, stopped.exit, stopped.ended_us, &stopped.survivors);
                    return self.answer(session, episode, word).await;
                }
                Ok(_) => tracing::warn!(session = session.as_str(), episode, "its host stopped without an exit"),
                Err(error) => {
                    tracing::info!(session = session.as_str(), episode, %error, "its host left during a stop")
                }
            }
            drop(self.unlink(&session, number));
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    fn link_for_stop(&self, session: &SessionId, episode: u32) -> Option<(u64, Link)> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let linked = links.get_mut(session).filter(|linked| linked.episode == episode)?;
        linked.stopping = true;
        Some((linked.number, linked.link.clone()))
    }

    /// The connection to this episode's host, if it is listened to.
    pub(super) fn link(&self, session: &SessionId, episode: u32) -> Option<Link> {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.get(session).filter(|linked| linked.episode == episode).map(|linked| linked.link.clone())
    }

    fn is_stopping(&self, session: &SessionId) -> bool {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.get(session).is_some_and(|linked| linked.stopping)
    }

    fn unlink(&self, session: &SessionId, number: u64) -> Option<Linked> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if links.get(session).is_some_and(|linked| linked.number == number) { links.remove(session) } else { None }
    }

    /// Removes a session's files and says so. Blocking.
    fn remove(self: Arc<Self>, session: SessionId) {
        if super::files::held(&self.root, session.as_str(), u32::MAX) {
            drop(self.handle.clone().spawn(self.remove_once_released(session)));
            return;
        }
        match remove_session_files(&self.root, session.as_str()) {
            Ok(()) => {
                passed::word(&Word::Removed);
                let episode = self.episode_of(&session);
                let observation = Observation { session, episode, word: Word::Removed };
                self.inbox.post_blocking(Post::Word { observation, answers: true });
            }
            Err(error) => {
                tracing::warn!(session = session.as_str(), %error, "its files cannot be removed; trying again");
                drop(self.handle.clone().spawn(async move {
                    tokio::time::sleep(LOOK_AGAIN_MAX).await;
                    self.inbox.post(Post::Again(session, Hand::Life)).await;
                }));
            }
        }
    }

    /// Nothing is removed under a host. The removal stays owed and leaves again.
    async fn remove_once_released(self: Arc<Self>, session: SessionId) {
        released(&self.root, &session, u32::MAX).await;
        self.inbox.post(Post::Again(session, Hand::Life)).await;
    }

    fn episode_of(&self, session: &SessionId) -> u32 {
        let state = self.view.read();
        let listed = state.sessions.get(session).map(|session| session.episode);
        listed.or_else(|| state.removals.get(session).copied()).unwrap_or(0)
    }

    /// Dials a host, and from then on listens to it. One whose command has ended says so at once: what that left behind has its grace, and
    /// nobody who waits for the end needs to wait for it. A stop does, because it names what survives.
    pub(super) async fn attach(
        self: &Arc<Self>,
        session: &SessionId,
        episode: u32,
        record: &HostRecord,
    ) -> Result<Dialled, LinkError> {
        pass(Point::AdoptDial);
        let (link, hello, pushes) = Link::dial(record, self.generation, HELLO).await?;
        pass(Point::AdoptDialled);
        let Status { exit, ended_us, .. } = hello.status;
        // What it said while nobody listened goes before what is said of it next: that it lives, or has ended.
        if hello.status.ready == Some(true) {
            self.heard(session.clone(), episode, Word::Ready).await;
        }
        match exit {
            Some(exit @ (Exit::Code(_) | Exit::Signal(_))) if !self.is_asked_to_stop(session) => {
                return Ok(Dialled::Ended(Box::new(exited(run_of(record), Some(exit), ended_us, &[]))));
            }
            None if hello.status.state != EpisodeState::Ended => {}
            Some(_) | None => return Err(LinkError::Closed),
        }
        if hello.status.state == EpisodeState::Starting {
            // The gate is open and exec has not answered: nobody knows yet whether the command ever runs.
            return Err(LinkError::Late);
        }
        self.saw(session, hello.status.last_seen_us);
        let number = self.next_link.fetch_add(1, Ordering::Relaxed);
        let linked = Linked { number, episode, link, stopping: false };
        self.links.lock().unwrap_or_else(PoisonError::into_inner).insert(session.clone(), linked);
        drop(self.handle.spawn(Arc::clone(self).listening(session.clone(), (episode, number), pushes)));
        // What it said while nobody listened.
        if let Some(turn) = hello.status.turn {
            self.turn(session, episode, turn).await;
        }
        Ok(Dialled::Listening)
    }

    /// Boxed, because listening may lead to a new look, and that to new listening.
    fn listening(
        self: Arc<Self>,
        session: SessionId,
        of: (u32, u64),
        pushes: mpsc::Receiver<Push>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.listen(session, of, pushes))
    }

    /// Listens until the host is gone, then asks the evidence if it went without a word.
    async fn listen(self: Arc<Self>, session: SessionId, of: (u32, u64), mut pushes: mpsc::Receiver<Push>) {
        let (episode, number) = of;
        let mut ended = false;
        while let Some(push) = pushes.recv().await {
            match push {
                Push::Started => {}
                Push::Beat { last_seen_us } => self.saw(&session, last_seen_us),
                Push::Turn(turn) => self.turn(&session, episode, turn).await,
                Push::Ready => self.heard(session.clone(), episode, Word::Ready).await,
                Push::Exited { exit, ended_us } => {
                    ended = true;
                    if !self.is_stopping(&session) {
                        let word = exited(None, Some(exit), Some(ended_us), &[]);
                        self.heard(session.clone(), episode, word).await;
                    }
                }
            }
        }
        let left = self.unlink(&session, number);
        if !ended && left.is_some_and(|linked| !linked.stopping) {
            self.rejudge(session, episode).await;
        }
    }

    /// The host's word of a session turn. It stays true whenever it comes.
    async fn turn(&self, session: &SessionId, episode: u32, turn: SessionTurn) {
        let word = Word::Turn { number: turn.number, runs: turn.runs };
        self.heard(session.clone(), episode, word).await;
    }

    /// A host is gone, or never answered: the evidence says what became of it.
    async fn rejudge(self: &Arc<Self>, session: SessionId, episode: u32) {
        let word = self.look(&session, episode).await;
        self.heard(session, episode, word).await;
    }

    /// Word that answers no effect.
    pub(super) async fn heard(&self, session: SessionId, episode: u32, word: Word) {
        passed::word(&word);
        let observation = Observation { session, episode, word };
        self.inbox.post(Post::Word { observation, answers: false }).await;
    }

    fn is_asked_to_stop(&self, session: &SessionId) -> bool {
        self.view.read().sessions.get(session).is_some_and(|of| of.status == machine::Status::Stopping)
    }
}

/// Waits, bounded, until no host holds the lock of an episode before this one. False: one still does. The episode itself
/// may be up already, by a request that was faster.
pub(super) async fn released(root: &Path, session: &SessionId, before: u32) -> bool {
    let waited = tokio::time::timeout(RELEASE, async {
        loop {
            let (root, id) = (root.to_owned(), session.to_string());
            let held = tokio::task::spawn_blocking(move || super::files::held(&root, &id, before)).await;
            if !held.unwrap_or(true) {
                break;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    });
    let released = waited.await.is_ok();
    if !released {
        tracing::warn!(session = session.as_str(), "its last host does not let go of its lock");
    }
    released
}
