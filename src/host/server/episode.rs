//! The running episode: what the host owns, and what it does when something happens. One thread, and it polls nothing.

use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;

use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;

use super::command::decode_failure;
use super::connection::{Connection, Role};
use super::delivery::Deliveries;
use super::ending::{Ending, Stage};
use super::endpoint::Endpoint;
use super::input::Input;
use super::limits::{BEAT_MS, FOLLOWER_WITHIN_MS, GRACE_MS, HELLO_WITHIN_MS, STRANGERS_MAX};
use super::output::Output;
use super::reap;
use super::start::Starting;
use crate::host::files::{self, Document, ExitFile, HOST_JSON};
use crate::host::prompt::Prompt;
use crate::host::sign::Sign;
use crate::host::spec::{Spec, Stdin};
use crate::host::wire::{
    EpisodeState, Exit, ExitRecord, HostRecord, Line, Push, Reply, Report, StartFailure, Status, Stopped, version,
};
use crate::os::clock;
use crate::os::fail::{Point, pass};

/// The episode's places and files.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) root: PathBuf,
    pub(super) runtime: PathBuf,
    pub(super) folder: PathBuf,
    pub(super) exit: ExitFile,
    /// Held by being open; the kernel lets go of it when this process ends.
    #[expect(dead_code, reason = "it is kept, not used")]
    pub(super) lock: File,
}

/// Everything that the host owns.
#[derive(Debug)]
pub(super) struct Episode {
    pub(super) record: HostRecord,
    pub(super) files: Files,
    pub(super) stdin: Stdin,
    pub(super) ending: Ending,
    pub(super) output: Output,
    pub(super) input: Input,
    pub(super) deliveries: Deliveries,
    pub(super) connections: Vec<Connection>,
    /// Highest generation seen.
    pub(super) generation: u64,
    pub(super) signals: Option<SignalFd>,
    pub(super) endpoint: Option<Endpoint>,
    pub(super) starting: Option<Starting>,
    spec: Option<Box<Spec>>,
    exit: Option<ExitRecord>,
    last_seen_us: u64,
    /// Progress that no beat has told yet, and when the last one was, boot microseconds.
    untold: bool,
    beat_us: u64,
    /// A follower was announced and has not come; since when the command waits for it, boot microseconds.
    pub(super) follower_awaited: bool,
    blocked_us: Option<u64>,
    pub(super) scratch: Vec<u8>,
}

impl Episode {
    pub(super) fn new(
        record: HostRecord,
        files: Files,
        spec: Spec,
        ending: Ending,
        output: Output,
        input: Input,
        deliveries: Deliveries,
    ) -> Self {
        let last_seen_us = record.started_us;
        // A resume has no announced follower: `run` follows its session's first episode.
        let follower_awaited = spec.follow && record.episode == 1;
        Self {
            record,
            files,
            stdin: spec.stdin,
            ending,
            output,
            input,
            deliveries,
            connections: Vec::new(),
            generation: 0,
            signals: None,
            endpoint: None,
            starting: None,
            spec: Some(Box::new(spec)),
            exit: None,
            last_seen_us,
            untold: false,
            beat_us: 0,
            follower_awaited,
            blocked_us: None,
            scratch: Vec::new(),
        }
    }

    /// The gate has opened.
    pub(super) fn begin(
        &mut self,
        signals: SignalFd,
        endpoint: Endpoint,
        status: std::io::PipeReader,
        report: File,
        generation: u64,
    ) {
        self.signals = Some(signals);
        self.endpoint = Some(endpoint);
        self.generation = generation;
        self.starting = self.spec.take().map(|spec| Starting { status, report, spec });
    }

    /// There was progress.
    pub(super) fn progress(&mut self) {
        self.last_seen_us = self.last_seen_us.max(clock::wall_us());
        self.untold = true;
    }

    /// Start of the oldest segment that a holding follower needs, if there is one or one was announced.
    pub(super) fn needed(&self) -> Option<u64> {
        let holding = self.connections.iter().filter_map(|connection| connection.follow.as_ref());
        let needed = holding.filter(|follow| follow.hold).map(|follow| follow.cursor.needed()).min();
        if self.follower_awaited { Some(0) } else { needed }
    }

    /// When something is due although nothing happens.
    pub(super) fn next_us(&self) -> Option<u64> {
        let hello = self.connections.iter().filter_map(|connection| match connection.role {
            Role::Unknown { until_us } => Some(until_us),
            Role::Reader | Role::Broker(_) => None,
        });
        let beat = (self.untold && self.has_broker()).then(|| self.beat_us + BEAT_MS * 1_000);
        let follower = self.blocked_us.map(|since_us| since_us + FOLLOWER_WITHIN_MS * 1_000);
        hello.chain(beat).chain(follower).chain(self.ending.next_us()).chain(self.output.retry_us()).min()
    }

    fn has_broker(&self) -> bool {
        self.connections.iter().any(|connection| matches!(connection.role, Role::Broker(_)))
    }

    /// Does what is due by the clock. False when the host can go.
    pub(super) fn advance(&mut self, now_us: u64) -> bool {
        if self.ending.advance(now_us) {
            self.ended();
        }
        self.output.retry(self.needed(), now_us);
        self.await_follower(now_us);
        if self.untold && self.has_broker() && self.beat_us + BEAT_MS * 1_000 <= now_us {
            (self.untold, self.beat_us) = (false, now_us);
            self.push(&Push::Beat { last_seen_us: self.last_seen_us });
        }
        if self.ending.stage() == Stage::Flush {
            self.end_followers();
        }
        for connection in &mut self.connections {
            if matches!(connection.role, Role::Unknown { until_us } if until_us <= now_us) {
                connection.cut();
            }
        }
        let feeder_left = self.connections.iter().any(|connection| connection.feeds && connection.is_over());
        if feeder_left {
            // As at the end of a shell's pipeline: who fed it is gone.
            self.input.give(Vec::new(), true);
        }
        self.connections.retain(|connection| !connection.is_over());
        let nothing_to_say = |connection: &Connection| {
            connection.follow.as_ref().is_none_or(|follow| follow.cursor.is_done())
                && !connection.writes(&self.output.spool)
        };
        if self.connections.iter().all(nothing_to_say) {
            self.ending.flushed();
        }
        self.ending.stage() != Stage::Over
    }

    /// An announced follower that does not come must not stop the command for ever.
    fn await_follower(&mut self, now_us: u64) {
        if !self.follower_awaited || !self.output.is_blocked(Some(0)) {
            self.blocked_us = None;
            return;
        }
        let since_us = *self.blocked_us.get_or_insert(now_us);
        if since_us + FOLLOWER_WITHIN_MS * 1_000 <= now_us {
            self.follower_awaited = false;
            self.blocked_us = None;
        }
    }

    /// The exec has answered, or the child is gone.
    pub(super) fn exec_answered(&mut self, now_us: u64) {
        let Some(starting) = &mut self.starting else {
            return;
        };
        let mut bytes = Vec::new();
        match starting.status.read_to_end(&mut bytes) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && bytes.is_empty() => return,
            Ok(_) | Err(_) => {}
        }
        let Some(Starting { report, spec, .. }) = self.starting.take() else {
            return;
        };
        if bytes.is_empty() {
            tell(report, &Report::Started { host: Box::new(self.record.clone()) });
            self.push(&Push::Started);
            self.progress();
        } else {
            let failure = decode_failure(&bytes, &spec);
            self.failed_to_start(&failure, now_us);
            tell(report, &Report::Failed { failure });
        }
    }

    fn failed_to_start(&mut self, failure: &StartFailure, now_us: u64) {
        self.record_exit(Exit::Error(failure.clone()));
        self.ending.never_started(now_us);
    }

    /// Children ended, ours among them or adopted ones.
    pub(super) fn children_ended(&mut self, now_us: u64) {
        let leader = Pid::from_raw(i32::try_from(self.record.command.pid).expect("the kernel gave it as such"));
        if self.ending.stage() == Stage::Running
            && let Ok(Some(exit)) = reap::peek(leader)
        {
            // What the child told before it ended stands in the pipe by now.
            self.exec_answered(now_us);
            if self.ending.stage() == Stage::Running {
                // And what the command wrote before it ended: it may have been ready.
                self.output.catch_up(self.needed());
                self.tell_what_was_seen();
                self.record_exit(exit);
                self.ending.leader_ended(now_us);
            }
        }
        reap::reap_adopted(leader);
        self.ending.child_ended(now_us);
    }

    /// From here the episode's command has ended, durably.
    fn record_exit(&mut self, exit: Exit) {
        self.progress();
        let was_ready = self.output.sign.as_ref().is_some_and(Sign::is_there);
        let record = ExitRecord { version: version(), exit, ended_us: self.last_seen_us, was_ready };
        // If the disk fails in place, the push still tells; whoever asks later gets "host died", which is then true.
        pass(Point::HostExitSeen);
        drop(self.files.exit.complete(&record));
        self.push(&Push::Exited { exit: record.exit.clone(), ended_us: record.ended_us });
        pass(Point::HostExitPushed);
        self.exit = Some(record);
    }

    /// Nothing that could be ended is left: the last output, and answers for those who asked for the end.
    fn ended(&mut self) {
        pass(Point::HostEnded);
        if self.ending.stage() != Stage::Running {
            self.output.drain(self.needed());
            self.input.close();
        }
        self.settle_delivery();
        let stopped = Stopped {
            exit: self.exit.as_ref().map(|record| record.exit.clone()),
            ended_us: self.exit.as_ref().map(|record| record.ended_us),
            survivors: self.ending.survivors().to_vec(),
        };
        for connection in &mut self.connections {
            for id in std::mem::take(&mut connection.stops) {
                connection.say(&Line::Reply { id, reply: Reply::Stop(stopped.clone()) });
            }
        }
    }

    fn end_followers(&mut self) {
        let at_us = self.last_seen_us;
        for connection in &mut self.connections {
            if let Some(follow) = &mut connection.follow {
                follow.cursor.end(&self.output.spool, at_us);
                connection.leave();
            }
        }
    }

    /// Ends the episode as a system that shuts down asks for it.
    pub(super) fn terminated(&mut self, now_us: u64) {
        self.ending.stop(now_us, GRACE_MS);
    }

    /// Somebody says that the socket vanished: bind it again, and write down where.
    pub(super) fn bind_again(&mut self) {
        if self.endpoint.as_ref().is_some_and(Endpoint::stands) {
            return self.state_again();
        }
        // Without a place to bind, connections that are there go on, and the next signal tries again.
        if let Ok(endpoint) = Endpoint::bind(&self.files.runtime, &self.files.root, &self.record.marker) {
            self.record.endpoint.address = endpoint.address();
            self.endpoint = Some(endpoint);
            self.write_record();
            pass(Point::HostBoundAgain);
        }
    }

    /// Writes the host's record anew if it is not what stands there: somebody has damaged or removed it.
    fn state_again(&self) {
        let path = self.files.folder.join(HOST_JSON);
        if files::read_json(&path) != Document::Present(self.record.clone()) {
            self.write_record();
        }
    }

    /// What cannot be written now is asked for again.
    fn write_record(&self) {
        let points = [Point::HostRecordContent, Point::HostRecordNamed];
        drop(files::replace_json(&self.files.folder.join(HOST_JSON), &self.record, points));
    }

    /// Somebody connects.
    pub(super) fn accept(&mut self, now_us: u64) {
        let Some(endpoint) = &self.endpoint else {
            return;
        };
        // Nobody there after all, or no descriptor to be had: it waits, or comes again.
        let Ok((stream, _)) = endpoint.listener.accept() else {
            return;
        };
        let uid = crate::host::server::peer_uid(&stream);
        if stream.set_nonblocking(true).is_ok() && uid == Some(nix::unistd::geteuid().as_raw()) {
            self.make_room_for_a_stranger();
            self.connections.push(Connection::new(stream, now_us + HELLO_WITHIN_MS * 1_000));
        }
    }

    /// Who has been silent for longest goes first: if newcomers waited for those, anybody who can connect and says nothing
    /// would keep the next broker out.
    fn make_room_for_a_stranger(&mut self) {
        let is_stranger = |one: &&mut Connection| matches!(one.role, Role::Unknown { .. });
        let mut strangers: Vec<&mut Connection> = self.connections.iter_mut().filter(is_stranger).collect();
        let over = (strangers.len() + 1).saturating_sub(STRANGERS_MAX);
        strangers.iter_mut().take(over).for_each(|oldest| oldest.cut());
    }

    /// A broker has just been told how it goes.
    pub(super) fn told(&mut self) {
        (self.untold, self.beat_us) = (false, clock::boot_us());
    }

    /// How it goes.
    pub(super) fn status(&self) -> Status {
        let state = match (self.ending.stage(), self.ending.is_stopping()) {
            (Stage::Running, true) => EpisodeState::Stopping,
            (Stage::Running, false) if self.starting.is_some() => EpisodeState::Starting,
            (Stage::Running, false) => EpisodeState::Running,
            (Stage::Group | Stage::Sweep, _) => EpisodeState::Ending,
            (Stage::Flush | Stage::Over, _) => EpisodeState::Ended,
        };
        Status {
            state,
            last_seen_us: self.last_seen_us,
            output_from: self.output.spool.first(),
            output_to: self.output.spool.position(),
            exit: self.exit.as_ref().map(|record| record.exit.clone()),
            ended_us: self.exit.as_ref().map(|record| record.ended_us),
            turn: self.output.prompt.as_ref().map(Prompt::turn),
            ready: self.output.sign.as_ref().map(Sign::is_there),
        }
    }

    /// The command has shown its prompt, or that it is ready. Neither stands in a journal: this host knows it as long as it matters.
    pub(super) fn tell_what_was_seen(&mut self) {
        if self.output.take_ready() {
            pass(Point::HostReady);
            self.push(&Push::Ready);
        }
        if let Some(turn) = self.output.take_turn_ended() {
            pass(Point::HostTurnEnded);
            self.push(&Push::Turn(turn));
        }
    }

    /// Says something to everybody who said hello and does not only take output.
    fn push(&mut self, push: &Push) {
        for connection in &mut self.connections {
            let known = !matches!(connection.role, Role::Unknown { .. });
            if known && connection.follow.is_none() {
                connection.say(&Line::Push(push.clone()));
            }
        }
    }
}

/// Tells the starter, who may be gone.
fn tell(mut report: File, what: &Report) {
    pass(Point::HostReport);
    drop(report.write_all(&files::to_line(what)));
    pass(Point::HostReported);
}
