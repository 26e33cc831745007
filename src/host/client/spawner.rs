//! Starts hosts, on one thread of its own: only there does this process fork, so that no fork of another thread can
//! carry a life lock on its way to an exec (design 3.1, lock hygiene). A start holds nobody up: the thread starts the
//! host and then waits for all reports, deadlines and ends at once.
//!
//! The lock is taken before the host exists and closed here once the host has it, so there is no instant at which the
//! host runs and the lock is free. It is never unlocked, because an unlock here would be one there.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::host::files::{self, LIFE_LOCK};
use crate::host::marker;
use crate::host::server::arguments::Arguments;
use crate::host::wire::{HostRecord, Report, StartFailure, StartPhase};
use crate::os::clock;
use crate::os::fail::{Point, pass};
use crate::os::signal::pidfd_of_child;
use crate::os::spawn::{Detached, OWN_IMAGE, detached};

/// Longest report line.
const REPORT_BYTES_MAX: usize = 64 * 1024;

/// Which host to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The state root, absolute.
    pub root: PathBuf,
    /// Where the endpoint's socket goes.
    pub runtime: PathBuf,
    /// Session id.
    pub session: String,
    /// Which run; its folder is prepared.
    pub episode: u32,
    /// The broker's generation: the host refuses lower ones from its first instant.
    pub generation: u64,
    /// What the ledger says about the spec; the host refuses to run another.
    pub spec_digest: String,
    /// How long the start may take.
    pub within_ms: u64,
}

/// What became of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchOutcome {
    /// The command executes.
    Started(Box<HostRecord>),
    /// It never will; nothing happened.
    Failed(StartFailure),
    /// No word in time or from a host that is gone. The evidence will tell: [`super::gather`], [`super::judge`].
    Unclear(String),
}

/// Called once, on the spawner's thread: it must not block.
pub type Callback = Box<dyn FnOnce(LaunchOutcome) + Send>;

/// The thread. Dropping it lets all hosts be.
#[derive(Debug)]
pub struct Spawner {
    requests: mpsc::Sender<(Launch, Callback)>,
    /// Dropped to end the thread, written to wake it.
    wake: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Spawner {
    /// Starts the thread.
    ///
    /// # Errors
    /// If there are no descriptors or threads to be had.
    pub fn new() -> io::Result<Self> {
        Self::with_image(OWN_IMAGE.into())
    }

    /// With another program than our own, for tests.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_image(image: PathBuf) -> io::Result<Self> {
        let (wake_reader, wake) = io::pipe()?;
        set_nonblocking(&wake)?;
        let (requests, inbox) = mpsc::channel();
        let mut work = Work::new(image, wake_reader, inbox)?;
        let thread = std::thread::Builder::new().name("spawner".into()).spawn(move || work.run())?;
        Ok(Self { requests, wake: Some(wake), thread: Some(thread) })
    }

    /// Starts a host. The callback gets the outcome, always and once.
    pub fn launch(&self, launch: Launch, callback: Callback) {
        if let Err(mpsc::SendError((_, callback))) = self.requests.send((launch, callback)) {
            callback(LaunchOutcome::Failed(host_failure("the spawner has stopped".into(), None)));
            return;
        }
        // A full pipe is a wake-up already; a closed one means that the thread is gone and its inbox with it.
        drop(self.wake.as_ref().map(|mut wake| wake.write(&[1])));
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            // A panic in there was reported by its own hook.
            drop(thread.join());
        }
    }
}

/// A host that has not reported yet.
struct Waiting {
    report: PipeReader,
    line: Vec<u8>,
    deadline_us: u64,
    callback: Callback,
}

/// What the thread owns.
struct Work {
    image: PathBuf,
    wake: PipeReader,
    inbox: mpsc::Receiver<(Launch, Callback)>,
    epoll: Epoll,
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
    /// Hosts to reap, by the same number: their end is ours to collect as long as this process is their parent.
    children: BTreeMap<u64, (u32, OwnedFd)>,
}

const WAKE: u64 = 0;
const REPORT: u64 = 1;
const CHILD: u64 = 2;
const KINDS: u64 = 3;

impl Work {
    fn new(image: PathBuf, wake: PipeReader, inbox: mpsc::Receiver<(Launch, Callback)>) -> io::Result<Self> {
        set_nonblocking(&wake)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&wake, EpollEvent::new(EpollFlags::EPOLLIN, WAKE))?;
        let (waiting, children) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { image, wake, inbox, epoll, next: 0, waiting, children })
    }

    fn run(&mut self) {
        loop {
            let mut events = [EpollEvent::empty(); 64];
            let count = match self.epoll.wait(&mut events, self.timeout()) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                // The descriptors are ours and open; if the kernel refuses them, no launch can be watched any more.
                Err(error) => return self.give_up(&error.to_string()),
            };
            for event in events.iter().take(count) {
                let (number, kind) = (event.data() / KINDS, event.data() % KINDS);
                match kind {
                    WAKE if !self.woken() => return self.give_up("the broker stops"),
                    WAKE => {}
                    REPORT => self.read_report(number),
                    _ => self.reap(number),
                }
            }
            self.expire();
        }
    }

    fn timeout(&self) -> EpollTimeout {
        let Some(first_us) = self.waiting.values().map(|waiting| waiting.deadline_us).min() else {
            return EpollTimeout::NONE;
        };
        let left_ms = first_us.saturating_sub(clock::boot_us()).div_ceil(1_000);
        EpollTimeout::try_from(left_ms).unwrap_or(EpollTimeout::MAX)
    }

    /// Takes what is asked; false once nobody can ask any more.
    fn woken(&mut self) -> bool {
        let mut marks = [0; 512];
        let open = !matches!(self.wake.read(&mut marks), Ok(0));
        while let Ok((launch, callback)) = self.inbox.try_recv() {
            self.start(&launch, callback);
        }
        open
    }

    fn start(&mut self, launch: &Launch, callback: Callback) {
        let (pid, report) = match start_host(&self.image, launch) {
            Ok(started) => started,
            Err(outcome) => return callback(outcome),
        };
        self.next += 1;
        let number = self.next;
        if let Ok(pidfd) = pidfd_of_child(pid)
            && self.epoll.add(&pidfd, EpollEvent::new(EpollFlags::EPOLLIN, number * KINDS + CHILD)).is_ok()
        {
            self.children.insert(number, (pid, pidfd));
        }
        let watched = set_nonblocking(&report).and_then(|()| {
            Ok(self.epoll.add(&report, EpollEvent::new(EpollFlags::EPOLLIN, number * KINDS + REPORT))?)
        });
        if let Err(error) = watched {
            return callback(LaunchOutcome::Unclear(format!("the host's report cannot be watched: {error}")));
        }
        let deadline_us = clock::boot_us().saturating_add(launch.within_ms.saturating_mul(1_000));
        self.waiting.insert(number, Waiting { report, line: Vec::new(), deadline_us, callback });
    }

    fn read_report(&mut self, number: u64) {
        let Some(waiting) = self.waiting.get_mut(&number) else {
            return;
        };
        let mut buffer = [0; 4096];
        let outcome = match waiting.report.read(&mut buffer) {
            Ok(0) => LaunchOutcome::Unclear("the host ended before it reported".into()),
            Ok(count) => {
                waiting.line.extend_from_slice(&buffer[..count]);
                match outcome_of(&waiting.line) {
                    Some(outcome) => outcome,
                    None => return,
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => return,
            Err(error) => LaunchOutcome::Unclear(format!("the host's report cannot be read: {error}")),
        };
        self.finish(number, outcome);
    }

    fn expire(&mut self) {
        let now_us = clock::boot_us();
        let late = self.waiting.iter().filter(|(_, waiting)| waiting.deadline_us <= now_us);
        let late: Vec<u64> = late.map(|(number, _)| *number).collect();
        for number in late {
            self.finish(number, LaunchOutcome::Unclear("the host did not report in time".into()));
        }
    }

    fn finish(&mut self, number: u64, outcome: LaunchOutcome) {
        // Closing the pipe takes it out of the poll set too.
        if let Some(waiting) = self.waiting.remove(&number) {
            (waiting.callback)(outcome);
        }
    }

    fn reap(&mut self, number: u64) {
        if let Some((pid, _pidfd)) = self.children.remove(&number)
            && let Ok(pid) = i32::try_from(pid)
        {
            // Nobody else waits for this pid, and its end was seen.
            let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
        }
    }

    fn give_up(&mut self, why: &str) {
        while let Ok((_, callback)) = self.inbox.try_recv() {
            callback(LaunchOutcome::Failed(host_failure(format!("not started: {why}"), None)));
        }
        for (_, waiting) in std::mem::take(&mut self.waiting) {
            (waiting.callback)(LaunchOutcome::Unclear(why.to_owned()));
        }
    }
}

/// Takes the lock and starts the process. The copies of lock and report pipe close on return.
fn start_host(image: &Path, launch: &Launch) -> Result<(u32, PipeReader), LaunchOutcome> {
    let failed = |what: &str, error: &io::Error| {
        LaunchOutcome::Failed(host_failure(format!("{what}: {error}"), error.raw_os_error()))
    };
    let lock = take_life_lock(launch)?;
    pass(Point::LaunchLocked);
    let metadata = lock.metadata().map_err(|error| failed("cannot look at life.lock", &error))?;
    let (reader, writer) = io::pipe().map_err(|error| failed("cannot make a pipe", &error))?;
    let marker = marker::of(&launch.session, launch.episode, files::identity_of(&metadata));
    let arguments = Arguments {
        root: launch.root.clone(),
        runtime: launch.runtime.clone(),
        session: launch.session.clone(),
        episode: launch.episode,
        generation: launch.generation,
        spec_digest: launch.spec_digest.clone(),
        lock_fd: lock.as_raw_fd(),
        report_fd: writer.as_raw_fd(),
    };
    let what = Detached {
        program: image,
        arguments: arguments.to_command_line(),
        environment: environment(&marker),
        keep: vec![lock.as_fd(), writer.as_fd()],
    };
    let pid = detached(what).map_err(|error| failed("cannot start a host", &error))?;
    pass(Point::LaunchForked);
    Ok((pid, reader))
}

/// The mark by which it is found again, and nothing else but what a test build was told.
fn environment(marker: &str) -> Vec<OsString> {
    let mark = OsString::from(format!("{}={marker}", marker::HOST_VARIABLE));
    let told = std::iter::empty();
    #[cfg(feature = "testing")]
    let told = told.chain(crate::os::fail::inherited());
    std::iter::once(mark).chain(told).collect()
}

fn take_life_lock(launch: &Launch) -> Result<File, LaunchOutcome> {
    let path = files::episode_folder(&launch.root, &launch.session, launch.episode).join(LIFE_LOCK);
    let failed = |error: &io::Error| {
        LaunchOutcome::Failed(host_failure(format!("cannot lock {}: {error}", path.display()), error.raw_os_error()))
    };
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let lock =
        OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path).map_err(|error| failed(&error))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        // A host of this episode lives, or somebody tests it this instant: the evidence tells.
        Err(TryLockError::WouldBlock) => Err(LaunchOutcome::Unclear("life.lock is held".into())),
        Err(TryLockError::Error(error)) => Err(failed(&error)),
    }
}

/// The outcome, once the line is whole.
fn outcome_of(line: &[u8]) -> Option<LaunchOutcome> {
    let Some(end) = line.iter().position(|byte| *byte == b'\n') else {
        let too_long = line.len() > REPORT_BYTES_MAX;
        return too_long.then(|| LaunchOutcome::Unclear("the host's report has no end".into()));
    };
    Some(match serde_json::from_slice(&line[..end]) {
        Ok(Report::Started { host }) => LaunchOutcome::Started(host),
        Ok(Report::Failed { failure }) => LaunchOutcome::Failed(failure),
        Err(error) => LaunchOutcome::Unclear(format!("the host's report is not readable: {error}")),
    })
}

fn host_failure(reason: String, errno: Option<i32>) -> StartFailure {
    StartFailure { phase: StartPhase::Host, reason, errno, cause: None }
}

fn set_nonblocking(pipe: &impl AsFd) -> io::Result<()> {
    fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(())
}
