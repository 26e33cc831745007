//! The broker's life after its beat: listen, prove that it answers, publish, serve, watch, leave.
//!
//! One runtime thread for connections and hosts, one plain thread for the turn, one that starts hosts. Idle, it wakes
//! once a second to see whether it is still the broker of its root.

use super::accept::Standing;
use super::bodies::Bodies;
use super::desk::{Desk, Ended, World};
use super::discovery;
use super::events::Events;
use super::front::{Door, Front, Leave};
use super::hosts::{BLOCKING_THREADS, Hosts};
use super::idle::Idle;
use super::inbox::{Inbox, Post};
use super::leaving::{leave_in_order, stop_all};
use super::managed;
use super::passed;
use super::published::{At, Published, keep_published};
use super::render::Renderer;
use super::report::{Reporter, Stage};
use super::segments::LedgerWatch;
use super::signals::Signals;
use super::snapshot::Snapshot;
use super::start::{self, Begun, DiskTurn, NotBegun};
use super::turn::Told;
use super::watch::{Verdict, Watch};
use crate::host::client::Spawner;
use crate::machine::{Effect, Family};
use crate::os::build::build;
use crate::os::clock;
use crate::os::deadline::Deadline;
use crate::os::fail::{Point, pass};
use crate::os::limits::descriptors_left;
use crate::os::priority;
use crate::os::supervisor::{self, News};
use crate::os::{memory, signal};
use crate::rpc::channel::{ChannelError, HelloError};
use crate::rpc::convert::{lack_or, no_process_or, storage_code};
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::listener::{Bound, Server, bind};
use crate::rpc::record::{RECORD_NAME, Record, SCHEMA};
use crate::rpc::wire::{Broker, ProtocolRange, RootId, Timestamp};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// How often the watch looks.
const WATCH: Duration = Duration::from_secs(1);
/// So long without a look is a machine that was suspended, or a process that was stopped.
const SLEPT_MS: u64 = 5_000;
/// What an event loop takes, and some more.
const LOOP_DESCRIPTORS: usize = 8;
/// What both ends of its own hello take, and some more.
const HELLO_DESCRIPTORS: usize = 4;
/// How long a thread for what blocks stays without work: as long as the broker. Where no new one can be had, it is what there is.
const KEPT: Duration = Duration::from_secs(100 * 365 * 86_400);
/// Between two checkpoints of last-seen times, microseconds.
const BEAT_US: u64 = 60_000_000;
/// How long the broker may take to answer its own hello.
const OWN_HELLO: Duration = Duration::from_secs(10);
/// How long a leaving broker waits for calls in flight.
const DRAIN: Duration = Duration::from_secs(5);

/// How a broker's life ended; the exit codes are the operator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It left in order, or another one was the broker already.
    Left,
    /// It could not start.
    NotStarted,
    /// It is no longer the broker of its root, and left everything as it was.
    Fenced,
    /// The ledger could not be synced: nothing may be acknowledged any more.
    Storage,
}

impl End {
    /// The exit code of the process.
    pub fn code(self) -> u8 {
        match self {
            Self::Left => 0,
            Self::NotStarted => 1,
            Self::Fenced => 5,
            Self::Storage => 70,
        }
    }
}

pub use crate::machine::limits::{FAMILY_DEPTH, LIVE_CHILDREN};

/// What the configuration says of a broker. It is read when the broker starts.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How long it stays without anything to do; none: for ever.
    pub idle_exit: Option<Duration>,
    /// Most children of one session with a process at one time.
    pub live_children: usize,
    /// Deepest place in a family tree of sessions.
    pub family_depth: u32,
}

/// Runs a broker for this root until it leaves.
pub fn run(root: &Path, config: Config) -> End {
    let mut reporter = Reporter::of_process();
    if let Err(error) = signal::outlive_size_limit() {
        tracing::warn!(%error, "a limit on the size of files would end this broker");
    }
    memory::give_back_large_pieces();
    let begun = match start::begin(root, &mut reporter) {
        Ok(begun) => begun,
        Err(NotBegun::Lost(winner)) => {
            managed::superfluous(&winner);
            reporter.lost(&winner);
            return End::Left;
        }
        Err(NotBegun::Failed(error)) => {
            tracing::error!(stage = reporter.current().name(), %error, "the start failed");
            reporter.failed(&error);
            return End::NotStarted;
        }
    };
    let runtime = match event_loop() {
        Ok(runtime) => runtime,
        Err(error) => {
            let code = no_process_or(&error, ErrorCode::Internal);
            reporter.failed(&WireError::new(code, format!("no event loop can be had: {error}")));
            return End::NotStarted;
        }
    };
    let end = runtime.block_on(live(begun, reporter, config));
    // What still runs in there belongs to calls that nobody waits for any more.
    runtime.shutdown_background();
    end
}

/// The event loop, with a first thread for what blocks. The library panics where it cannot have the descriptors of its signals, or a thread while
/// it has none; as long as it has one, work waits for that. So one is had here, and what was had is kept.
fn event_loop() -> std::io::Result<tokio::runtime::Runtime> {
    descriptors_left(LOOP_DESCRIPTORS)?;
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let builder = builder.enable_all().max_blocking_threads(BLOCKING_THREADS).thread_keep_alive(KEPT);
    let runtime = builder.build()?;
    // The library does not say in words that there is none.
    drop(std::thread::Builder::new().spawn(|| ())?.join());
    drop(runtime.spawn_blocking(|| ()));
    Ok(runtime)
}

/// The world as the turn's thread reaches it.
struct Hands {
    hosts: Arc<Hosts>,
    published: Arc<Published>,
    posts: Inbox,
}

impl World for Hands {
    type Ticket = oneshot::Sender<Told>;

    fn owns_root(&mut self) -> bool {
        !matches!(self.published.check(), Verdict::Fence(_))
    }

    fn perform(&mut self, effect: Effect) {
        passed::effect(&effect);
        self.hosts.perform(effect);
    }

    fn store(&mut self, snapshot: Snapshot) -> std::io::Result<()> {
        let (root, posts) = (self.published.root.path().to_owned(), self.posts.clone());
        priority::behind("snapshot", move || {
            pass(Point::SnapshotBegin);
            let stored = snapshot.write(&super::disk::disk(&root));
            pass(Point::SnapshotEnd);
            posts.post_blocking(Post::Stored(stored));
        })
    }

    fn tell(&mut self, reply: oneshot::Sender<Told>, told: Told) {
        pass(Point::ReplyBegin);
        drop(reply.send(told));
        pass(Point::ReplyEnd);
    }
}

async fn live(begun: Begun, mut reporter: Reporter, config: Config) -> End {
    let idle = Idle::new(config.idle_exit);
    let (posts, mail) = Inbox::new();
    let opened = match open(&begun, &posts, &mut reporter, config).await {
        Ok(opened) => opened,
        Err(error) => {
            tracing::error!(stage = reporter.current().name(), %error, "the start failed");
            reporter.failed(&error);
            return End::NotStarted;
        }
    };
    let Opened { front, server, published, degraded, scrubbed, draining, mut leave } = opened;
    let Begun { mut lock, turn, scrub, .. } = begun;
    let (deadline, deadlines) = watch::channel(None);
    let hands = Hands { hosts: Arc::clone(&front.hosts), published: Arc::clone(&published), posts: posts.clone() };
    let (ended, mut turn_ended) = oneshot::channel();
    let desk = Desk::new(turn, hands, deadline, degraded);
    // The runtime may have gone first.
    let work = move || drop(ended.send(desk.work(mail)));
    if let Err(error) = std::thread::Builder::new().name("turn".to_owned()).spawn(work) {
        let code = no_process_or(&error, ErrorCode::Internal);
        reporter.failed(&WireError::new(code, format!("no thread can be had: {error}")));
        return End::NotStarted;
    }
    tracing::info!(generation = front.broker.generation, endpoint = front.broker.endpoint, "ready");
    pass(Point::StartReport);
    reporter.ready(&front.broker);
    supervisor::tell(&News::Serving);
    pass(Point::StartReported);
    drop(tokio::spawn(ticks(deadlines, posts.clone())));
    let ledger = LedgerWatch::new(scrub.0, scrub.1, scrubbed);
    let serving = serve(&front, &server, &published, ledger, idle);
    let stop_sessions = tokio::select! {
        wish = serving => match wish {
            Ok(stop_sessions) => stop_sessions,
            Err(end) => return end,
        },
        wish = leave.recv() => wish.unwrap_or(false),
        end = &mut turn_ended => return ended_early(end),
    };
    // From here to the end of listening nothing else runs: nobody is let in between the two.
    pass(Point::ShutdownStop);
    draining.send_replace(true);
    supervisor::tell(&News::Leaving);
    pass(Point::ShutdownAsked);
    if let Err(error) = lock.leaving_mark() {
        tracing::warn!(%error, "who looks from outside cannot tell that this broker is leaving");
    }
    if stop_sessions {
        stop_all(&front).await;
    }
    server.stop();
    if tokio::time::timeout(DRAIN, server.ended()).await.is_err() {
        tracing::warn!(connections = server.connections(), "left with calls in flight; their keys settle them");
    }
    pass(Point::ShutdownDrained);
    last_beat(&front).await;
    posts.post(Post::Close).await;
    match turn_ended.await {
        Ok(Ok(turn)) => leave_in_order(&published, turn, &mut lock),
        end => ended_early(end),
    }
}

/// Looks every second whether this is the broker still and has something to do, until it is time to leave by itself, or the system says so.
async fn serve(
    front: &Front,
    server: &Server<Door>,
    published: &Arc<Published>,
    mut ledger: LedgerWatch,
    mut idle: Idle,
) -> Result<Leave, End> {
    let mut beaten_us = clock::boot_us();
    let mut looked_us = beaten_us;
    let mut second = tokio::time::interval(WATCH);
    second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut signals = Signals::new().map_err(|error| {
        tracing::error!(%error, "signals cannot be handled");
        End::NotStarted
    })?;
    loop {
        tokio::select! {
            _ = second.tick() => {
                if !keep_published(published, server) {
                    return Err(fenced());
                }
                note_sleep(&mut looked_us);
                ledger.look(front);
                tend(front, &mut beaten_us).await;
                if idle.is_over(front, server) {
                    tracing::info!("nothing to do for a while; leaving");
                    return Ok(false);
                }
            }
            () = signals.leave() => return Ok(false),
        }
    }
}

fn fenced() -> End {
    tracing::error!("this is no longer the broker of its root; leaving everything as it is");
    End::Fenced
}

fn ended_early(end: Result<Result<DiskTurn, Ended>, oneshot::error::RecvError>) -> End {
    match end {
        Ok(Err(Ended::Fenced)) => fenced(),
        Ok(Err(Ended::Fatal(error))) => {
            tracing::error!(%error, "nothing may be acknowledged any more; ending");
            End::Storage
        }
        Ok(Ok(_)) | Err(_) => {
            tracing::error!("the turn ended without being asked to");
            End::Storage
        }
    }
}

/// What serves.
struct Opened {
    front: Arc<Front>,
    server: Server<Door>,
    published: Arc<Published>,
    degraded: watch::Sender<Option<String>>,
    scrubbed: watch::Sender<Vec<Standing>>,
    draining: watch::Sender<bool>,
    leave: mpsc::Receiver<Leave>,
}

/// Listens, answers its own hello through the real endpoint, publishes.
async fn open(begun: &Begun, posts: &Inbox, reporter: &mut Reporter, config: Config) -> Result<Opened, WireError> {
    reporter.stage(Stage::Listen);
    let runtime = start::runtime(&begun.root)?;
    let name = format!("b-{}-{}", &begun.incarnation[..12], begun.generation);
    let bound = bind(&runtime, &name).map_err(WireError::from)?;
    let record = record(begun, &bound);
    let watching = Watch {
        lock: *begun.lock.standing(),
        incarnation: begun.incarnation.clone(),
        socket_folder: runtime.path().to_owned(),
        socket_name: bound.name.clone(),
        socket: bound.standing,
    };
    let spawner = Spawner::new().map_err(|error| {
        WireError::new(no_process_or(&error, ErrorCode::Internal), format!("hosts cannot be started: {error}"))
    })?;
    let places = (begun.root.path().to_owned(), runtime.path().to_owned());
    let (view, handle) = (begun.turn.view(), tokio::runtime::Handle::current());
    let hosts = Hosts::new(places, begun.generation, view, posts.clone(), spawner, handle);
    let (degraded, degraded_seen) = watch::channel(None);
    let (hidden, hidden_seen) = watch::channel(None);
    let (scrubbed, scrubbed_seen) = watch::channel(Vec::new());
    let (draining, draining_seen) = watch::channel(false);
    let (wishes, leave) = mpsc::channel(1);
    let front = Arc::new(Front {
        broker: record.broker.clone(),
        root: begun.root.path().to_owned(),
        root_id: record.root_id.clone(),
        owner: begun.lock.owner().document(),
        token: record.token.clone(),
        secret: begun.secret,
        family: Family { children: config.live_children, depth: config.family_depth },
        view: begun.turn.view(),
        inbox: posts.clone(),
        hosts,
        bodies: Arc::new(Bodies::new(begun.root.path().to_owned())),
        renderer: Renderer::new(begun.root.path().to_owned()),
        cursors: Mutex::default(),
        degraded: degraded_seen,
        hidden: hidden_seen,
        standing: begun.degraded.clone(),
        scrubbed: scrubbed_seen,
        events: Events::new(begun.root.path().join("ledger")),
        accepted: Mutex::default(),
        retired: AtomicU64::default(),
        draining: draining_seen,
        leave: wishes,
    });
    let server = Server::new(Arc::new(Door(Arc::clone(&front))));
    drop(tokio::spawn(server.clone().accept(bound)));
    managed::serve_knocks(&server);
    pass(Point::StartListening);
    reporter.stage(Stage::Hello);
    own_hello(record.clone()).await?;
    pass(Point::StartAnswered);
    reporter.stage(Stage::Publish);
    start::point(Point::StartPublish)?;
    let published = discovery::publish(&begun.root, &record);
    published.map_err(|error| {
        let path = begun.root.path().join(RECORD_NAME);
        WireError::new(storage_code(&error), format!("cannot publish {}: {error}", path.display()))
    })?;
    // Sockets of dead generations are nobody's; the owner of the lock may clear them. Those of hosts are theirs for as long as they listen.
    if let Err(error) = runtime.clear_sockets("b-", &name).and_then(|()| runtime.clear_deserted("h-")) {
        tracing::info!(%error, "old sockets stay");
    }
    pass(Point::StartCleared);
    let at = Mutex::new(At { runtime, record, watch: watching });
    let published = Arc::new(Published { root: Arc::clone(&begun.root), at, hidden });
    Ok(Opened { front, server, published, degraded, scrubbed, draining, leave })
}

/// Asks it as any client would. What it lacks to answer is told as a lack.
async fn own_hello(record: Record) -> Result<(), WireError> {
    let unanswered = |code, why: String| WireError::new(code, format!("it does not answer its own hello: {why}"));
    // With one alone it would connect and wait for an end that cannot be accepted.
    descriptors_left(HELLO_DESCRIPTORS)
        .map_err(|error| unanswered(lack_or(&error, ErrorCode::Internal), error.to_string()))?;
    match tokio::task::spawn_blocking(move || discovery::hello(&record, Deadline::after(OWN_HELLO))).await {
        Ok(Ok(_broker)) => Ok(()),
        Ok(Err(error)) => {
            let code = match &error {
                HelloError::Channel(ChannelError::Io(source)) => lack_or(source, ErrorCode::Internal),
                HelloError::Refused(refused) => refused.code,
                HelloError::Channel(_) | HelloError::Mismatch(_) => ErrorCode::Internal,
            };
            Err(unanswered(code, error.to_string()))
        }
        Err(error) => Err(unanswered(ErrorCode::Internal, error.to_string())),
    }
}

fn record(begun: &Begun, bound: &Bound) -> Record {
    let broker = Broker {
        pid: std::process::id(),
        generation: begun.generation,
        incarnation: begun.incarnation.clone(),
        version: build().version.to_owned(),
        protocol: ProtocolRange::of_build(),
        endpoint: bound.address.clone(),
        root: begun.root.path().to_owned().into_os_string().into(),
        started_at: Timestamp::from_us(clock::wall_us()),
    };
    let root_id = RootId::new(begun.root.device(), begun.root.inode());
    Record { schema: SCHEMA, broker, root_id, token: crate::os::entropy::hex::<32>() }
}

/// Says it once when the machine or this process slept. Nothing follows from it: whoever holds the lock still is the broker still.
fn note_sleep(looked_us: &mut u64) {
    let now_us = clock::boot_us();
    let gap_ms = now_us.saturating_sub(*looked_us) / 1_000;
    *looked_us = now_us;
    if gap_ms >= SLEPT_MS {
        tracing::warn!(gap_ms, "slept, and is the broker still");
    }
}

/// What is due once a second: a look whether the disk takes records again, if it did not, and at times a checkpoint.
async fn tend(front: &Front, beaten_us: &mut u64) {
    if front.degraded.borrow().is_some() {
        // Only a write that succeeds shows that writes succeed again.
        front.inbox.post(Post::Probe).await;
    }
    if clock::boot_us().saturating_sub(*beaten_us) >= BEAT_US {
        *beaten_us = clock::boot_us();
        beat(front, None).await;
    }
}

/// Checkpoints what hosts said since the last time.
async fn beat(front: &Front, mut done: Option<oneshot::Sender<()>>) {
    let seen = front.hosts.take_seen();
    if seen.is_empty() && done.is_none() {
        return;
    }
    let parts: Vec<_> = start::parts(seen).collect();
    let last = parts.len();
    for (number, part) in (1..).zip(parts) {
        let told = if number == last { done.take() } else { None };
        front.inbox.post(Post::Beat(part, told)).await;
    }
}

/// A disk that does not take it does not keep a broker.
async fn last_beat(front: &Front) {
    let (done, beaten) = oneshot::channel();
    beat(front, Some(done)).await;
    let _ = tokio::time::timeout(DRAIN, beaten).await;
    pass(Point::ShutdownBeaten);
}

/// Wakes the turn when a deadline of the state has passed. Sleeps otherwise.
async fn ticks(mut deadlines: watch::Receiver<Option<u64>>, posts: Inbox) {
    loop {
        let due = *deadlines.borrow_and_update();
        let Some(due_us) = due else {
            if deadlines.changed().await.is_err() {
                return;
            }
            continue;
        };
        let left = Duration::from_micros(due_us.saturating_sub(clock::boot_us()));
        let changed = tokio::time::timeout(left, deadlines.changed()).await;
        match changed {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_) => {
                posts.post(Post::Tick).await;
                // The turn announces the next deadline, if there is one.
                if tokio::time::timeout(WATCH, deadlines.changed()).await.is_ok_and(|changed| changed.is_err()) {
                    return;
                }
            }
        }
    }
}
