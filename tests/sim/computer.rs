//! The simulated machine: its boots and clocks, session folders, hosts with their life locks and records, commands.
//! It outlives every broker. It also is the witness: it counts each execution of a command, and knows at once when one
//! ran that must not.

use super::letters::{Letter, Receipt};
use super::pulls::Desk;
use super::random::Random;
use super::trace::{Checked, claim};
use super::turns::{Effects, Turns};
use ostler::host::wire::{Exit, ExitRecord, FileIdentity, HostRecord, StartFailure};
use ostler::machine::{OperationId, Process, SessionId, Time};
use ostler::os::identity::{Liveness, ProcessIdentity};
use std::collections::{BTreeMap, BTreeSet};

/// One episode of one session.
pub(super) type Run = (SessionId, u32);

/// What a session's command is like. Stands for `spec.json`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    /// Whether it can be executed.
    pub(super) quality: Quality,
    /// It ignores TERM.
    pub(super) stubborn: bool,
    /// It ends soon, by itself.
    pub(super) brief: bool,
    /// Messages go to its standard input.
    pub(super) lines: bool,
    /// Its host sees by its prompt when a session turn ends.
    pub(super) prompt: bool,
    /// It ignores INT.
    pub(super) deaf: bool,
    /// Whether its output is to say that it is ready.
    pub(super) sign: Sign,
}

/// Whether a command says in its output that it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// Nobody looks for it.
    Unasked,
    /// It will.
    Given,
    /// It never will.
    Missing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quality {
    Good,
    /// Exec fails: the gate opens and nothing executes.
    NotFound,
    /// The host gives up before its record is written.
    NoFolder,
}

/// A session's folder. Durable: the broker syncs it before the accepting record.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) spec: Spec,
    pub(super) episodes: BTreeMap<u32, Episode>,
}

/// An episode's folder.
#[derive(Debug)]
pub(super) struct Episode {
    pub(super) folder: FileIdentity,
    /// `life.lock`, or that somebody removed it.
    pub(super) lock: Option<FileIdentity>,
    pub(super) holder: Option<Holder>,
    pub(super) record: Record,
    /// `exit.json`, once complete.
    pub(super) exit: Option<ExitRecord>,
    /// Attempts to deliver messages, by their tokens.
    pub(super) journal: BTreeMap<u64, Letter>,
    /// Somebody else laid hands on it: what it says may be anything.
    pub(super) tampered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// The broker's spawner, on its way to start a host.
    Broker,
    /// The host with this pid.
    Host(u32),
}

/// `host.json`.
#[derive(Clone, Debug)]
pub(super) enum Record {
    Absent,
    Damaged,
    Present(Box<HostRecord>),
}

/// Where a host stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It holds the life lock and has written nothing.
    Forked,
    /// `host.json` is durable; the gate is closed.
    Recorded,
    /// The gate is open; exec has not answered.
    Opened,
    /// The command executes.
    Running,
    /// `exit.json` is complete; the lock is held until output is drained.
    Ended,
}

/// A host process.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) run: Run,
    pub(super) identity: ProcessIdentity,
    pub(super) stage: Stage,
    /// Its command's pid, once it has one.
    pub(super) command: u32,
    /// What it wrote on the disk, as it knows it itself.
    pub(super) record: Option<Box<HostRecord>>,
    /// A broker asked it to end; boot clock.
    pub(super) stop: Option<u64>,
    /// The attempt of a message that it is at.
    pub(super) letter: Option<u64>,
    /// Its command's turns, if it sees them.
    pub(super) turns: Option<Turns>,
    /// For what it has signalled its command.
    pub(super) signalled: BTreeSet<OperationId>,
    /// What is looked for in its command's output.
    pub(super) sign: Sign,
    /// It was there.
    pub(super) is_ready: bool,
}

impl Host {
    /// Whether it has something to do by itself.
    pub(super) fn is_restless(&self) -> bool {
        let works = self.turns.as_ref().is_some_and(Turns::is_restless);
        let says = self.sign == Sign::Given && !self.is_ready;
        self.stage != Stage::Running || self.stop.is_some() || self.letter.is_some() || works || says
    }
}

/// What a host told its starter through the pipe. It stays readable when the host is gone.
#[derive(Clone, Debug)]
pub(super) enum Report {
    Started(Box<HostRecord>),
    Failed(StartFailure),
}

/// The machine.
#[derive(Debug)]
pub(super) struct Computer {
    /// Time that passed, whatever the clocks say; microseconds.
    pub(super) true_us: u64,
    wall_us: u64,
    boot_us: u64,
    boots: u32,
    /// The PID namespace that everything runs in.
    ns: u64,
    pub(super) folders: BTreeMap<SessionId, Folder>,
    /// Living hosts by pid.
    pub(super) hosts: BTreeMap<u32, Host>,
    /// Living commands by pid.
    pub(super) commands: BTreeMap<u32, Run>,
    pub(super) reports: BTreeMap<u32, Report>,
    /// Every execution of a command, and its pid: the effects that count.
    pub(super) executions: BTreeMap<Run, u32>,
    /// Those whose output said that they are ready.
    pub(super) ready: BTreeSet<Run>,
    /// Every message that a command has, in order, with each time that it came.
    pub(super) received: Vec<Receipt>,
    /// What reached commands, and in which turn.
    pub(super) effects: Effects,
    /// What commands have pulled, and said that they have.
    pub(super) desk: Desk,
    /// How commands ended whose host saw it.
    pub(super) ends: BTreeMap<Run, Exit>,
    last_pid: u32,
    last_inode: u64,
}

impl Computer {
    /// A machine that has been up for this long.
    pub(super) fn new(boot_us: u64) -> Self {
        Self {
            true_us: 0,
            wall_us: 1_700_000_000_000_000,
            boot_us,
            boots: 1,
            ns: 1,
            folders: BTreeMap::new(),
            hosts: BTreeMap::new(),
            commands: BTreeMap::new(),
            reports: BTreeMap::new(),
            executions: BTreeMap::new(),
            ready: BTreeSet::new(),
            received: Vec::new(),
            effects: Effects::default(),
            desk: Desk::default(),
            ends: BTreeMap::new(),
            last_pid: 100,
            last_inode: 0,
        }
    }

    pub(super) fn now(&self) -> Time {
        Time { wall_us: self.wall_us, boot_us: self.boot_us }
    }

    pub(super) fn boot(&self) -> String {
        format!("boot-{}", self.boots)
    }

    /// The broker's own identity.
    pub(super) fn broker(&self) -> Process {
        Process { boot: self.boot(), ns: self.ns, pid: 1, start: self.true_us / 10_000 }
    }

    pub(super) fn pass(&mut self, us: u64) {
        self.true_us += us;
        self.wall_us += us;
        self.boot_us += us;
    }

    /// Somebody sets the wall clock.
    pub(super) fn set_wall(&mut self, us: u64) {
        self.wall_us = us;
    }

    /// Everything ends; what was durable stays.
    pub(super) fn reboot(&mut self, down_us: u64, up_us: u64) {
        self.pass(down_us);
        self.boots += 1;
        self.boot_us = up_us;
        self.end_all();
    }

    /// The container is started anew: everything in it ends, the machine and its clock go on.
    pub(super) fn restart_container(&mut self, down_us: u64) {
        self.pass(down_us);
        self.ns += 1;
        self.end_all();
    }

    fn end_all(&mut self) {
        self.hosts.clear();
        self.commands.clear();
        self.reports.clear();
        self.desk.lost();
        let episodes = self.folders.values_mut().flat_map(|folder| folder.episodes.values_mut());
        episodes.for_each(|episode| episode.holder = None);
    }

    /// The broker's process is gone: its locks are free, nobody reads the reports of its hosts.
    pub(super) fn broker_gone(&mut self) {
        let episodes = self.folders.values_mut().flat_map(|folder| folder.episodes.values_mut());
        for episode in episodes.filter(|episode| episode.holder == Some(Holder::Broker)) {
            episode.holder = None;
        }
        self.reports.clear();
    }

    pub(super) fn episode(&self, run: &Run) -> Option<&Episode> {
        self.folders.get(&run.0)?.episodes.get(&run.1)
    }

    pub(super) fn episode_mut(&mut self, run: &Run) -> Option<&mut Episode> {
        self.folders.get_mut(&run.0)?.episodes.get_mut(&run.1)
    }

    /// Whether somebody else laid hands on any episode of this session.
    pub(super) fn tampered(&self, session: &SessionId) -> bool {
        let folder = self.folders.get(session);
        folder.is_some_and(|folder| folder.episodes.values().any(|episode| episode.tampered))
    }

    /// The host of an episode, if one lives.
    pub(super) fn host_of(&self, run: &Run) -> Option<u32> {
        self.hosts.iter().find(|(_, host)| host.run == *run).map(|(pid, _)| *pid)
    }

    /// Hosts that have something to do by themselves.
    pub(super) fn restless_hosts(&self) -> usize {
        self.hosts.values().filter(|host| host.is_restless()).count()
    }

    /// The hosts that are at a message.
    pub(super) fn posting(&self) -> Vec<u32> {
        let hosts = self.hosts.iter().filter(|(_, host)| host.letter.is_some());
        hosts.map(|(pid, _)| *pid).collect()
    }

    /// Whether the command of this episode lives.
    pub(super) fn command_lives(&self, run: &Run) -> bool {
        self.commands.values().any(|of| of == run)
    }

    /// Whether a host holds the lock of an episode of this session before this one.
    pub(super) fn held_before(&self, session: &SessionId, episode: u32) -> bool {
        let folder = self.folders.get(session);
        folder.is_some_and(|folder| {
            let mut before = folder.episodes.range(..episode).map(|(_, episode)| episode);
            before.any(|episode| episode.lock.is_some() && episode.holder.is_some())
        })
    }

    /// Makes an episode's folder and its lock; repeating it changes nothing.
    pub(super) fn prepare(&mut self, run: &Run, spec: Spec) {
        let (folder, lock) = (self.inode(), self.inode());
        let session = self.folders.entry(run.0.clone()).or_insert(Folder { spec, episodes: BTreeMap::new() });
        session.episodes.entry(run.1).or_insert(Episode {
            folder,
            lock: Some(lock),
            holder: None,
            record: Record::Absent,
            exit: None,
            journal: BTreeMap::new(),
            tampered: false,
        });
    }

    /// Somebody else lays hands on an episode's files.
    pub(super) fn tamper(&mut self, random: &mut Random) {
        let identity = self.inode();
        let mut episodes: Vec<_> = self.folders.values_mut().flat_map(|folder| folder.episodes.values_mut()).collect();
        if episodes.is_empty() {
            return;
        }
        let at = random.below(episodes.len());
        let episode = &mut episodes[at];
        episode.tampered = true;
        match random.below(4) {
            0 => episode.lock = None,
            1 => episode.record = Record::Damaged,
            // As in a copy of the root.
            _ => {
                episode.lock = episode.lock.map(|_| identity);
                episode.folder = identity;
            }
        }
    }

    pub(super) fn inode(&mut self) -> FileIdentity {
        self.last_inode += 1;
        FileIdentity { device: 1, inode: self.last_inode }
    }

    pub(super) fn process(&mut self) -> ProcessIdentity {
        self.last_pid += 1;
        let (boot, ns, start) = (self.boot(), self.ns, self.true_us / 10_000);
        ProcessIdentity { boot, ns, pid: self.last_pid, start }
    }

    pub(super) fn liveness(&self, identity: &ProcessIdentity) -> Liveness {
        if identity.boot != self.boot() || identity.ns != self.ns {
            return Liveness::Foreign;
        }
        match self.hosts.get(&identity.pid) {
            Some(host) if host.identity == *identity => Liveness::Alive,
            Some(_) | None => Liveness::Dead,
        }
    }

    /// The same of a host or a command.
    pub(super) fn life(&self, identity: &ProcessIdentity) -> Liveness {
        match self.liveness(identity) {
            Liveness::Dead if self.commands.contains_key(&identity.pid) => Liveness::Alive,
            liveness @ (Liveness::Alive | Liveness::Dead | Liveness::Foreign | Liveness::Unknown) => liveness,
        }
    }

    /// A command executes. The laws that nobody may break, whatever they recorded: once an episode, one at a time.
    pub(super) fn execute(&mut self, run: &Run, pid: u32) -> Checked {
        let (session, episode) = run;
        claim(!self.executions.contains_key(run), || format!("law 5: {session}/{episode} is executed twice"))?;
        let other = self.commands.values().find(|(of, _)| of == session);
        claim(other.is_none(), || format!("law 5: {session} runs twice at the same time: {other:?} and {episode}"))?;
        self.executions.insert(run.clone(), pid);
        self.commands.insert(pid, run.clone());
        Ok(())
    }

    /// A host is gone, with its lock.
    pub(super) fn host_gone(&mut self, pid: u32) {
        let Some(host) = self.hosts.remove(&pid) else { return };
        if let Some(episode) = self.episode_mut(&host.run)
            && episode.holder == Some(Holder::Host(pid))
        {
            episode.holder = None;
        }
    }

    /// Ends every command of an episode, as who finishes a dead host does.
    pub(super) fn end_commands(&mut self, run: &Run) {
        self.commands.retain(|_, of| of != run);
    }
}
