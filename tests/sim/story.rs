//! One seed, from an empty disk to rest: the story picks who takes the next step and what goes wrong, then lets
//! everything heal. Each step is small, so that a crash can fall between any two.

use super::broker::{Broker, Bugs, CROWD, Scene};
use super::clients::Clients;
use super::computer::Computer;
use super::history;
use super::host::{self, Weather};
use super::letters;
use super::oracle::Oracle;
use super::plan::Plan;
use super::promises;
use super::pulls;
use super::random::Random;
use super::trace::{Broken, Checked, Trace, claim};
use super::turns;
use ostler_ledger::storage::{Call, Crash, Fault, FaultKind, Folder, Name, SimulatedDisk, Stop};
use std::io::ErrorKind;

/// What can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Wish,
    Again,
    Turn,
    Hand,
    Host,
    Answer,
    Files,
    Tick,
    Beat,
    Echo,
    Start,
    KillHost,
    KillBroker,
    StopBroker,
    Reboot,
    Break,
    Fill,
    Free,
    Tamper,
    Leap,
    SetClock,
    Fence,
    Crowd,
    Container,
    Snapshot,
    Retire,
    Pull,
}

/// A life.
pub(super) struct Story<'a> {
    random: Random,
    trace: &'a Trace,
    plan: Plan,
    bugs: Bugs,
    disk: SimulatedDisk,
    computer: Computer,
    clients: Clients,
    oracle: Oracle,
    broker: Option<Broker>,
    armed: Option<Call>,
    stop_armed: bool,
    full: bool,
    calm: bool,
}

/// How many steps healing may take before something is stuck.
const HEALING_STEPS: u32 = 3_000;

/// Lives one seed. The trace holds what happened, also if a promise is broken.
pub(super) fn live(seed: u64, bugs: Bugs, trace: &Trace) -> Checked {
    let mut story = Story::new(seed, bugs, trace);
    for step in 0..story.plan.steps {
        trace.line(format!("{step} at {}", story.computer.now().boot_us));
        let Some(act) = story.choose() else { break };
        trace.mark(format!("step {act:?}"));
        story.act(act)?;
        let us = story.random.between(0, 30_000);
        story.computer.pass(us);
    }
    story.heal()
}

impl<'a> Story<'a> {
    fn new(seed: u64, bugs: Bugs, trace: &'a Trace) -> Self {
        let mut random = Random::new(seed);
        let plan = Plan::new(&mut random);
        trace.line(format!("{plan:?}"));
        let up_us = random.between(1_000_000, 1_000_000_000_000);
        Self {
            random,
            trace,
            bugs,
            disk: SimulatedDisk::new(),
            computer: Computer::new(up_us),
            clients: Clients::new(plan.habits),
            oracle: Oracle::default(),
            plan,
            broker: None,
            armed: None,
            stop_armed: false,
            full: false,
            calm: false,
        }
    }

    /// What can happen now, and how likely.
    fn choose(&mut self) -> Option<Act> {
        let plan = &self.plan;
        let wild = |weight: usize| if self.calm { 0 } else { weight };
        let hosts = self.computer.hosts.len();
        let mut acts = vec![(self.computer.restless_hosts().min(5) * 9 + hosts.min(4), Act::Host)];
        let whole = self.armed.is_none() && !self.full && !self.stop_armed;
        if let Some(broker) = &self.broker {
            let unsure = self.clients.unsure().len();
            let state = broker.view();
            let has_sessions = !state.read().sessions.is_empty();
            acts.extend([
                (wild(12), Act::Wish),
                (if self.calm { unsure * 20 } else { unsure * 3 + usize::from(has_sessions) }, Act::Again),
                (if broker.has_mail() { 30 } else { 0 }, Act::Turn),
                (broker.hands.tasks().min(6) * 9 + broker.hands.links().min(4) * 2, Act::Hand),
                (broker.hands.telling(&self.computer).len().min(3) * 9, Act::Hand),
                (broker.front.replies.len().min(4) * 6, Act::Answer),
                (broker.front.preparing() * 8, Act::Files),
                (if broker.is_due(self.computer.now().boot_us) && !broker.has_mail() { 10 } else { 0 }, Act::Tick),
                (usize::from(broker.has_snapshot()) * 5, Act::Snapshot),
                (wild(pulls::waiting(&state.read(), &self.computer).min(2) * 8), Act::Pull),
                (wild(1), Act::Beat),
                (wild(plan.retirements), Act::Retire),
                (wild(usize::from(plan.crowd) * 2), Act::Crowd),
                (wild(2 + broker.late_mail().len().min(2) * 20), Act::Echo),
                (wild(usize::from(plan.kills > 0)), Act::Fence),
                (wild(plan.kills), Act::KillBroker),
                (wild(if whole { plan.stops } else { 0 }), Act::StopBroker),
                (wild(if whole { plan.faults } else { 0 }), Act::Break),
                (wild(if whole { plan.faults / 2 } else { 0 }), Act::Fill),
            ]);
        } else {
            acts.push((40, Act::Start));
            acts.push((wild(if whole { plan.stops / 2 } else { 0 }), Act::StopBroker));
            acts.push((wild(if whole { plan.faults / 2 } else { 0 }), Act::Break));
        }
        acts.extend([
            (if self.full { 6 } else { 0 }, Act::Free),
            (wild(plan.reboots), Act::Reboot),
            (wild(plan.reboots.min(1)), Act::Container),
            (wild(if hosts > 0 { plan.host_kills } else { 0 }), Act::KillHost),
            (wild(plan.tampering), Act::Tamper),
            (wild(plan.leaps), Act::Leap),
            (wild(1), Act::SetClock),
        ]);
        self.random.weighted(&acts)
    }

    fn act(&mut self, act: Act) -> Checked {
        self.trace.line(format!(" {act:?}"));
        match act {
            Act::Start => self.start()?,
            Act::Turn => self.turn()?,
            Act::KillBroker => self.broker_ends("it was killed", Crash::Kill),
            Act::Reboot => self.reboot(),
            Act::Container => {
                self.broker_ends("its container is started anew", Crash::Kill);
                let down_us = self.random.between(1_000_000, 60_000_000);
                self.computer.restart_container(down_us);
            }
            Act::StopBroker => {
                let calls = self.random.between(0, if self.broker.is_some() { 5 } else { 40 });
                let stop = if self.random.chance(500) { Stop::Before(calls) } else { Stop::After(calls) };
                self.trace.line(format!("  {stop:?}"));
                self.disk.stop_at(stop);
                self.stop_armed = true;
            }
            Act::Break => self.break_storage(),
            Act::Fill => {
                let room = self.used() + self.random.below(3_000);
                self.disk.set_capacity(u64::try_from(room).ok());
                self.full = true;
            }
            Act::Free => {
                self.disk.set_capacity(None);
                self.full = false;
            }
            Act::Host => self.host()?,
            Act::KillHost => self.kill_host(),
            Act::Tamper => self.computer.tamper(&mut self.random),
            Act::Leap => {
                let us = self.random.between(1_000_000, 50_000_000);
                self.computer.pass(us);
            }
            Act::SetClock => {
                let us = self.random.between(1_600_000_000_000_000, 1_800_000_000_000_000);
                self.computer.set_wall(us);
            }
            Act::Wish
            | Act::Again
            | Act::Hand
            | Act::Answer
            | Act::Files
            | Act::Tick
            | Act::Beat
            | Act::Echo
            | Act::Fence
            | Act::Snapshot
            | Act::Retire
            | Act::Pull
            | Act::Crowd => {
                if act == Act::Retire {
                    self.break_archive();
                }
                self.plan.crowd &= act != Act::Crowd;
                self.with_broker(act)?;
            }
        }
        if self.disk.is_stopped() {
            let crash = if self.random.chance(250) { Crash::PowerLoss } else { Crash::Kill };
            if crash == Crash::PowerLoss { self.reboot() } else { self.broker_ends("it was stopped", crash) }
        }
        Ok(())
    }

    /// Lends everything to the broker for one step.
    fn lend<T>(&mut self, step: impl FnOnce(&mut Broker, &mut Scene<'_>) -> T) -> Option<T> {
        let broker = self.broker.as_mut()?;
        let mut scene = Scene {
            computer: &mut self.computer,
            clients: &mut self.clients,
            oracle: &mut self.oracle,
            random: &mut self.random,
            disk: &self.disk,
            trace: self.trace,
            armed: self.armed,
            full: self.full,
            retention: self.plan.retention,
            snapshot_tail_bytes: self.plan.snapshot_tail_bytes,
        };
        Some(step(broker, &mut scene))
    }

    fn with_broker(&mut self, act: Act) -> Checked {
        let done = self.lend(|broker, scene| {
            scene.clients.now_us = scene.computer.now().wall_us;
            match act {
                Act::Wish => {
                    let view = broker.view();
                    let number = scene.clients.wish(&view.read(), scene.random);
                    broker.call(number, scene);
                }
                Act::Again => {
                    if let Some(number) = scene.clients.again(scene.random) {
                        broker.call(number, scene);
                    }
                }
                Act::Hand => broker.hand(scene),
                Act::Answer => broker.deliver(scene)?,
                Act::Files => broker.front_step(scene),
                Act::Tick => broker.tick(),
                Act::Beat => broker.beat(scene.computer.now().wall_us),
                Act::Echo => broker.echo(scene.random),
                Act::Fence => broker.fence(),
                Act::Snapshot => broker.snapshot(scene),
                Act::Retire => broker.retire(scene),
                Act::Pull => broker.pull(scene),
                Act::Crowd => {
                    for _ in 0..CROWD {
                        let number = scene.clients.long_wish(scene.random);
                        broker.call(number, scene);
                    }
                }
                Act::Turn
                | Act::Host
                | Act::Start
                | Act::KillHost
                | Act::KillBroker
                | Act::StopBroker
                | Act::Reboot
                | Act::Container
                | Act::Break
                | Act::Fill
                | Act::Free
                | Act::Tamper
                | Act::Leap
                | Act::SetClock => {}
            }
            Ok(())
        });
        done.unwrap_or(Ok(()))
    }

    fn start(&mut self) -> Checked {
        let (bugs, segment_bytes) = (self.bugs, self.plan.segment_bytes);
        let mut scene = Scene {
            computer: &mut self.computer,
            clients: &mut self.clients,
            oracle: &mut self.oracle,
            random: &mut self.random,
            disk: &self.disk,
            trace: self.trace,
            armed: self.armed,
            full: self.full,
            retention: self.plan.retention,
            snapshot_tail_bytes: self.plan.snapshot_tail_bytes,
        };
        let faults = self.disk.faults_left();
        match Broker::start(&mut scene, bugs, segment_bytes)? {
            Ok(broker) => self.broker = Some(broker),
            Err(ended) => {
                let reason = self.disk.is_stopped() || self.full || self.disk.faults_left() < faults;
                claim(reason, || format!("a start fails for no reason: {}", ended.0))?;
                self.broker_ends(&ended.0, Crash::Kill);
            }
        }
        Ok(())
    }

    fn turn(&mut self) -> Checked {
        let struck = self.disk.faults_left();
        let ordered = self.broker.as_ref().is_some_and(Broker::has_orders);
        let fenced = self.broker.as_ref().is_some_and(Broker::is_fenced);
        if let Some(Err(ended)) = self.lend(Broker::round).transpose()? {
            let reason = fenced || self.disk.is_stopped() || self.disk.faults_left() < struck;
            claim(reason, || format!("a broker ends for no reason: {}", ended.0))?;
            if !self.disk.is_stopped() {
                self.trace.mark(if fenced { "lost its root" } else { "a sync failed" }.to_owned());
                self.broker_ends(&ended.0, Crash::Kill);
            }
        }
        if ordered && matches!(self.armed, Some(Call::Link | Call::Unlink)) && !self.disk.is_stopped() {
            self.disk.withdraw_faults();
            self.armed = None;
        }
        Ok(())
    }

    fn host(&mut self) -> Checked {
        let pids: Vec<u32> = self.computer.hosts.keys().copied().collect();
        let Some(pid) = self.random.pick(&pids) else { return Ok(()) };
        let weather = Weather { calm: self.calm };
        let what = host::step(&mut self.computer, pid, &mut self.random, weather)?;
        self.trace.line(format!("  host {pid} {what}"));
        Ok(())
    }

    fn kill_host(&mut self) {
        let pids: Vec<u32> = self.computer.hosts.keys().copied().collect();
        let posting = self.random.pick(&self.computer.posting()).filter(|_| self.random.chance(850));
        if let Some(pid) = posting.or_else(|| self.random.pick(&pids)) {
            self.trace.line(format!("  host {pid}"));
            host::kill(&mut self.computer, pid, &mut self.random);
        }
    }

    /// The broker's process is gone, if there was one, and the next one finds what the disk kept.
    fn broker_ends(&mut self, why: &str, crash: Crash) {
        self.trace.line(format!("  no broker: {why}"));
        if let Some(broker) = self.broker.take() {
            self.oracle.published = Some(broker.view());
        }
        self.oracle.lives += 1;
        self.disk.crash(crash, self.random.next());
        self.clients.lose_all();
        self.computer.broker_gone();
        (self.armed, self.stop_armed) = (None, false);
    }

    fn reboot(&mut self) {
        self.broker_ends("the machine goes down", Crash::PowerLoss);
        let down_us = self.random.pick(&[1_000_000, 60_000_000, 86_400_000_000]).unwrap_or(1_000_000);
        let up_us = self.random.between(1_000_000, 60_000_000);
        self.computer.reboot(down_us, up_us);
    }

    fn used(&self) -> usize {
        let of = |folder: Folder| {
            let names = self.disk.names(folder);
            let lengths = names.iter().filter_map(|file| self.disk.contents(Name { folder, file }));
            lengths.map(|bytes| bytes.len()).sum::<usize>()
        };
        of(Folder::Ledger) + of(Folder::Quarantine)
    }

    /// Makes a call of the storage fail, soon.
    fn break_storage(&mut self) {
        let kind = self.random.pick(&[ErrorKind::Other, ErrorKind::StorageFull]).unwrap_or(ErrorKind::Other);
        let bytes = self.random.below(5_000);
        let running = self.broker.is_some();
        let (call, kind) = self
            .random
            .weighted(&[
                (4, (Call::Write, FaultKind::Error(kind))),
                (4, (Call::Write, FaultKind::Partial(bytes, kind))),
                (2, (Call::Write, FaultKind::Short(bytes + 1))),
                (4, (Call::SyncData, FaultKind::Error(ErrorKind::Other))),
                (1, (Call::SyncFolder, FaultKind::Error(ErrorKind::Other))),
                (1, (Call::Create, FaultKind::Error(kind))),
                (usize::from(!running) * 3, (Call::Read, FaultKind::Error(ErrorKind::Other))),
                (usize::from(!running), (Call::Read, FaultKind::Short(bytes + 1))),
                (usize::from(!running), (Call::Truncate, FaultKind::Error(ErrorKind::Other))),
                (usize::from(!running), (Call::List, FaultKind::Error(ErrorKind::Other))),
            ])
            .expect("there are weights");
        let after = self.random.between(0, 3);
        self.trace.line(format!("  {call:?} {kind:?} after {after}"));
        self.disk.inject(Fault { call, after, kind });
        if call == Call::Write && self.random.chance(250) {
            // The clean-up after the failed write fails, too.
            self.disk.inject(Fault { call: Call::Truncate, after: 0, kind: FaultKind::Error(ErrorKind::Other) });
        }
        self.armed = Some(call);
    }

    /// Makes a step of the next retirement fail, at times.
    fn break_archive(&mut self) {
        let whole = self.armed.is_none() && !self.full && !self.stop_armed;
        if whole && self.random.chance(150) {
            let call = self.random.pick(&[Call::Link, Call::Unlink]).unwrap_or(Call::Link);
            let after = self.random.between(0, 2);
            self.trace.line(format!("  {call:?} after {after}"));
            self.disk.inject(Fault { call, after, kind: FaultKind::Error(ErrorKind::Other) });
            self.armed = Some(call);
        }
    }

    /// From here nothing fails. Everything that was begun must come to an end.
    fn heal(&mut self) -> Checked {
        self.trace.line("healing".to_owned());
        self.calm = true;
        self.disk.set_capacity(None);
        self.full = false;
        if self.armed.is_some() || self.stop_armed || self.broker.as_ref().is_some_and(Broker::is_fenced) {
            self.broker_ends("healing begins", Crash::Kill);
        }
        let mut restless = None;
        for step in 0..HEALING_STEPS {
            restless = self.restless();
            if restless.is_none() {
                return self.rested();
            }
            self.trace.line(format!("healing {step} at {}", self.computer.now().boot_us));
            if let Some(act) = self.choose() {
                self.act(act)?;
            }
            let us = self.random.between(10_000, 400_000);
            self.computer.pass(us);
        }
        Err(Broken(format!("liveness: it never comes to rest: {}", restless.unwrap_or_default())))
    }

    /// What keeps everything from being at rest, if anything.
    fn restless(&self) -> Option<String> {
        let mut hosts = self.computer.hosts.iter();
        if let Some((pid, host)) = hosts.find(|(_, host)| host.is_restless()) {
            return Some(format!("host {pid} is {:?}", host.stage));
        }
        let Some(broker) = &self.broker else { return Some("there is no broker".to_owned()) };
        if broker.is_due(self.computer.now().boot_us) {
            return Some("a deadline is due".to_owned());
        }
        broker.restless(&self.computer).or_else(|| {
            let unsure = self.clients.unsure();
            (!unsure.is_empty()).then(|| format!("nobody answers the wishes {unsure:?}"))
        })
    }

    fn rested(&mut self) -> Checked {
        let broker = self.broker.take().ok_or_else(|| Broken("liveness: no broker".to_owned()))?;
        let view = broker.view();
        // The last answers may tell what was forgotten while they were under way.
        self.oracle.forget(&view.read(), &self.disk, self.trace)?;
        promises::healed(&self.oracle, &view.read(), &self.clients.intents, &self.computer, &self.disk)?;
        let files = self.disk.names(Folder::Ledger);
        let segments = files.iter().filter(|file| file.ends_with(".jsonl")).count();
        self.trace.mark(if segments > 1 { "several segments" } else { "one segment" }.to_owned());
        history::told(&self.disk, &self.clients.intents, &self.computer, self.plan.retention)?;
        turns::told(&self.disk, &self.computer, self.trace)?;
        turns::rested(&view.read(), &self.computer)?;
        letters::rested(&view.read(), &self.computer)?;
        letters::told(&self.disk, &self.computer, self.trace)?;
        drop(broker);
        // The view equals the fold: open it once more and compare.
        self.oracle.published = Some(view);
        self.broker_ends("the end", Crash::Kill);
        self.start()?;
        claim(self.broker.is_some(), || "liveness: the last start fails".to_owned())
    }
}
