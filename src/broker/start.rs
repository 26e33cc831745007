//! The start, in the order of the design (3.2): lock; ledger and fold; generation; a look at the life locks; the beat,
//! synced; listen; our own hello; publish; ready. What is not on disk by then is not published, however long it takes.

use super::accept::Standing;
use super::desk::now;
use super::discovery;
use super::disk::{LedgerDisk, disk};
use super::files;
use super::fold::FoldError;
use super::lock::{self, Acquired, Outcome};
use super::owner::Owner;
use super::report::{Reporter, Stage};
use super::scrub::Scrub;
use super::secret::{self, Secret};
use super::turn::{BeginError, Told, Turn};
use crate::machine::limits::{self, Retention};
use crate::machine::{Digest, Generation, Input, Process, Reclaimed, SessionId};
use crate::os::build::build;
use crate::os::deadline::Deadline;
use crate::os::detach::start_budget;
use crate::os::entropy;
use crate::os::environment::Environment;
use crate::os::fail::{self, Point};
use crate::os::identity::ProcessIdentity;
use crate::os::paths::StateRoot;
use crate::rpc::convert::storage_code;
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::wire::Broker;
use ostler_ledger::storage::{LockError as WriterLockError, try_writer_lock};
use ostler_ledger::{DroppedSnapshot, Ledger, OpenError, Options, Recovery};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a starter tries for the lock before it says that somebody holds it, if nobody gave it a budget.
const LOCK_WITHIN: Duration = Duration::from_secs(10);
/// How long a holder may take to answer hello, each time it is asked.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);

/// The turn on disk.
pub type DiskTurn = Turn<LedgerDisk, oneshot::Sender<Told>>;

/// A broker that owns its root and whose ledger is open, begun and beaten.
#[derive(Debug)]
pub struct Begun {
    /// The lock.
    pub lock: Acquired,
    /// The root.
    pub root: Arc<StateRoot>,
    /// The turn, ready for work.
    pub turn: DiskTurn,
    /// The generation.
    pub generation: u64,
    /// The broker incarnation.
    pub incarnation: String,
    /// Under which requests are digested.
    pub secret: Secret,
    /// What stays degraded.
    pub degraded: Vec<Standing>,
    /// The look at the whole ledger, and whether it has to be taken because the history was not read.
    pub scrub: (Scrub, bool),
}

/// How a start ended before it served.
#[derive(Debug)]
pub enum NotBegun {
    /// Another one is the broker, and answers.
    Lost(Box<Broker>),
    /// It failed, at the stage that the reporter knows.
    Failed(WireError),
}

impl From<WireError> for NotBegun {
    fn from(error: WireError) -> Self {
        Self::Failed(error)
    }
}

/// Everything up to the synced beat.
///
/// # Errors
/// [`NotBegun`]. A broker that has not begun leaves no trace but what its recovery has repaired.
pub fn begin(root: &Path, reporter: &mut Reporter) -> Result<Begun, NotBegun> {
    reporter.stage(Stage::Root);
    let root = Arc::new(StateRoot::open_or_create(root).map_err(WireError::from)?);
    reporter.stage(Stage::Lock);
    let lock = take_lock(&root)?;
    super::log::Log::begin(Arc::clone(&root)).install();
    if let Err(error) = discovery::withdraw(&root) {
        tracing::warn!(%error, "the discovery record of the last broker stays until ours replaces it");
    }
    note_lock(&lock);
    reporter.stage(Stage::Ledger);
    let boot = boot()?;
    let (mut turn, recovery) = open_ledger(&root, &boot)?;
    note(&recovery);
    let incarnation = lock::incarnation(turn.ledger_id(), lock.owner());
    let next = turn.view().head().seq + 1;
    let secret = Secret::open(root.path(), next);
    let secret =
        secret.map_err(|error| stored(&format!("read {}", root.path().join(secret::FILE_NAME).display()), &error))?;
    let incomparable = secret.notice(&turn.view().read());
    incomparable.iter().for_each(|notice| tracing::error!(notice, "the secret of the request digests was lost"));
    reporter.stage(Stage::Generation);
    let generation = generation(&lock, turn.last_generation() + 1, &incarnation);
    let number = generation.number;
    point(Point::StartGeneration)?;
    turn.begin(now(), &recovery, generation).map_err(|error| of_ledger(&root, unbegun(&error)))?;
    reporter.stage(Stage::Hosts);
    let seen = look(&root, &turn);
    let lost = files::sweep(root.path(), &turn.view().read());
    fail::pass(Point::StartSwept);
    reporter.stage(Stage::Beat);
    point(Point::StartBeat)?;
    beat(&mut turn, seen).map_err(|error| of_ledger(&root, error))?;
    let others = incomparable.into_iter().chain(lost).map(Standing::of);
    let degraded = Standing::found(&recovery).chain(others).collect();
    let known = recovery.problems;
    let scrub = Scrub { ledger: root.path().join("ledger"), boot, known, working: Arc::default() };
    let scrub = (scrub, recovery.snapshot.is_some());
    Ok(Begun { lock, root, turn, generation: number, incarnation, secret, degraded, scrub })
}

/// A named point of the start where a test build can pause, fail or abort.
pub(super) fn point(at: Point) -> Result<(), WireError> {
    fail::point(at).map_err(|error| stored("pass the start", &error))
}

fn take_lock(root: &Arc<StateRoot>) -> Result<Acquired, NotBegun> {
    let ledger = root.path().join("ledger");
    let writer_lock = || {
        crate::host::files::make_folder(&ledger, Point::StartFolder).map_err(|error| error.source)?;
        try_writer_lock(&ledger)
    };
    let within = Deadline::after(start_budget().unwrap_or(LOCK_WITHIN));
    match lock::acquire(root, within, writer_lock, || discovery::answering(root, within.at_most(ANSWER_WITHIN))) {
        Ok(Outcome::Acquired(acquired)) => Ok(*acquired),
        Ok(Outcome::Lost(winner)) => Err(NotBegun::Lost(Box::new(winner))),
        Ok(Outcome::Held) => Err(lock::held(root).into()),
        Err(error) => Err(WireError::from(&error).into()),
    }
}

pub(super) fn boot() -> Result<String, WireError> {
    ProcessIdentity::current().map(|this| this.boot).map_err(|error| stored("read the boot id", &error))
}

/// The ledger alone, recovered; what it says is not folded.
pub(super) fn bare_ledger(root: &StateRoot) -> Result<(Ledger<LedgerDisk>, Recovery), WireError> {
    let opened = Ledger::open(disk(root.path()), Options::new(entropy::hex::<16>(), boot()?));
    opened.map_err(|error| of_ledger(root, unopened(&error)))
}

/// The ledger, recovered and folded, ready for a generation to begin.
pub(super) fn open_ledger(root: &StateRoot, boot: &str) -> Result<(DiskTurn, Recovery), WireError> {
    for folder in ["ledger", "quarantine", "sessions"] {
        let path = root.path().join(folder);
        let made = crate::host::files::make_folder(&path, Point::StartFolder);
        made.map_err(|error| stored(&format!("make the folder {}", path.display()), &error.source))?;
    }
    #[cfg_attr(not(feature = "testing"), expect(unused_mut, reason = "only a test build has other limits"))]
    let (mut options, mut retention) = (Options::new(entropy::hex::<16>(), boot), Retention::default());
    #[cfg(feature = "testing")]
    super::planted::little(&mut options, &mut retention);
    let opened = Turn::open(|| disk(root.path()), &options, retention);
    opened.map_err(|error| {
        let error = match &error {
            FoldError::Open(error) => unopened(error),
            FoldError::Unreadable(_)
            | FoldError::Illegal { .. }
            | FoldError::Uncarried { .. }
            | FoldError::NotCarried { .. } => unreadable(&error),
        };
        of_ledger(root, error)
    })
}

fn unopened(error: &OpenError) -> WireError {
    match error {
        OpenError::Lock(WriterLockError::Held) => {
            let message = "another process writes this ledger; nothing was changed. `ostler doctor` tells more";
            WireError::new(ErrorCode::BrokerBlocked, message).reason("ledger_lock")
        }
        OpenError::TooNew { .. } => WireError::new(ErrorCode::Integrity, error.to_string()).reason("newer_version"),
        OpenError::Unexplained { .. } => WireError::new(ErrorCode::Integrity, error.to_string()).reason("unexplained"),
        OpenError::Exhausted { .. } => WireError::new(ErrorCode::Integrity, error.to_string()).reason("exhausted"),
        OpenError::Misnamed { .. } => WireError::new(ErrorCode::Integrity, error.to_string()).reason("misnamed"),
        OpenError::Repair(source)
        | OpenError::Sync(source)
        | OpenError::Read(source)
        | OpenError::Lock(WriterLockError::Io(source)) => WireError::new(storage_code(source), error.to_string()),
    }
}

/// The error, with the ledger that it is about.
pub(super) fn of_ledger(root: &StateRoot, error: WireError) -> WireError {
    let path = root.path().join("ledger").display().to_string();
    WireError { message: format!("{path}: {}", error.message), ..error }.with("path", path)
}

/// What taking the lock left to tell: the owner that died with it, and what the retention did; one line each.
fn note_lock(lock: &Acquired) {
    if let Some(dead) = &lock.reclaimed {
        let pid = dead.record.as_ref().map(|owner| owner.identity.pid);
        tracing::warn!(pid, liveness = ?dead.liveness, set_aside_as = dead.set_aside_as, "the last owner did not leave in order");
    }
    match &lock.swept {
        Ok(swept) if swept.removed + swept.stuck > 0 => {
            tracing::info!(
                kept = swept.kept,
                removed = swept.removed,
                stuck = swept.stuck,
                "set-aside lock records swept"
            );
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "set-aside lock records cannot be swept"),
    }
}

fn note(recovery: &Recovery) {
    tracing::info!(
        records = recovery.records,
        folded = recovery.folded,
        snapshot = recovery.snapshot.map(|snapshot| snapshot.seq),
        rewritten_bytes = recovery.rewritten_bytes,
        tail = recovery.tail.as_ref().map(|tail| tail.detail.as_str()),
        "ledger recovered"
    );
    for DroppedSnapshot { file, why } in &recovery.dropped_snapshots {
        tracing::warn!(file, why, "snapshot dropped");
    }
    for problem in &recovery.problems {
        tracing::error!(
            class = problem.class.name(),
            segment = problem.segment,
            detail = problem.detail,
            "ledger problem"
        );
    }
}

fn generation(lock: &Acquired, number: u64, incarnation: &str) -> Generation {
    let process = |owner: &Owner| Process {
        boot: owner.identity.boot.clone(),
        ns: owner.identity.ns,
        pid: owner.identity.pid,
        start: owner.identity.start,
    };
    let reclaimed = lock
        .reclaimed
        .as_ref()
        .map(|dead| Reclaimed { record: dead.set_aside_as.clone(), process: dead.record.as_ref().map(process) });
    Generation {
        number,
        process: process(lock.owner()),
        incarnation: Digest::parse(incarnation).expect("an incarnation is 64 hex digits"),
        version: build().version.to_owned(),
        lock_inode: lock.standing().inode,
        reclaimed,
    }
}

/// The last signs of life of live sessions, from their folders: no conversation, so it is bounded by their number.
fn look(root: &StateRoot, turn: &DiskTurn) -> BTreeMap<SessionId, u64> {
    let view = turn.view();
    let live: Vec<_> = {
        let state = view.read();
        let each = state.sessions.values().filter(|session| session.status.is_live());
        each.map(|session| (session.id.clone(), session.episode, session.last_seen_us)).collect()
    };
    let seen = live.into_iter().map(|(id, episode, known_us)| {
        let sign_us = files::last_sign(root.path(), id.as_str(), episode).unwrap_or(0);
        (id, sign_us.max(known_us))
    });
    seen.collect()
}

/// Last-seen times in parts that fit one append each; one empty part if there are none.
pub(super) fn parts(seen: BTreeMap<SessionId, u64>) -> impl Iterator<Item = BTreeMap<SessionId, u64>> {
    let mut rest = Some(seen);
    std::iter::from_fn(move || {
        let mut part = rest.take()?;
        if let Some(key) = part.keys().nth(limits::BEAT_INPUT).cloned() {
            rest = Some(part.split_off(&key));
        }
        Some(part)
    })
}

fn beat(turn: &mut DiskTurn, seen: BTreeMap<SessionId, u64>) -> Result<(), WireError> {
    let mut refused = None;
    let inputs = parts(seen).map(|seen| (Input::Beat { seen, whole: true }, None)).collect();
    let beaten = turn.run(now(), inputs, &mut |_| {}, &mut |failed| refused = Some(failed.error));
    beaten.map_err(|error| WireError::new(ErrorCode::StorageFailed, error.to_string()))?;
    match refused {
        None => Ok(()),
        Some(error) => Err(unbegun(&BeginError::Append(error))),
    }
}

pub(super) fn unreadable(error: &FoldError) -> WireError {
    let (reason, remedy) = match error {
        FoldError::Uncarried { .. } => ("newer_version", "start the version that wrote it, or a later one"),
        FoldError::NotCarried { .. } => {
            ("not_carried", "put the files of ledger/archive back into ledger, if they were kept")
        }
        FoldError::Open(_) | FoldError::Unreadable(_) | FoldError::Illegal { .. } => {
            ("unreadable", "`ostler ledger verify` tells more")
        }
    };
    let message = format!("{error}; the ledger was not changed. {remedy}");
    WireError::new(ErrorCode::Integrity, message).reason(reason)
}

fn unbegun(error: &BeginError) -> WireError {
    let full = matches!(error, BeginError::Append(ostler_ledger::AppendError::StorageFull(_)));
    let code = if full { ErrorCode::StorageFull } else { ErrorCode::StorageFailed };
    WireError::new(code, format!("the start could not be recorded: {error}; nothing was published"))
}

fn stored(what: &str, error: &io::Error) -> WireError {
    WireError::new(storage_code(error), format!("cannot {what}: {error}; nothing was published"))
}

/// Where sockets go.
pub(super) fn runtime(root: &StateRoot) -> Result<crate::os::runtime::RuntimeFolder, WireError> {
    crate::os::runtime::RuntimeFolder::open_or_create(root, Environment::process()).map_err(WireError::from)
}
