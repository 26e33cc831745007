//! One session with its hosts, without a broker: what the tests of this folder stand on.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use ostler::host::client::evidence::HostFile;
use ostler::host::client::{
    Evidence, Launch, LaunchOutcome, Spawner, Verdict, gather, has_host, judge, prepare_episode, prepare_session,
};
use ostler::host::files::{self, episode_folder};
use ostler::host::read::{Follower, Piece, read_spool};
use ostler::host::spec::{Adapter, EnvVar, Frame, Spec, Stdin};
use ostler::host::wire::{ExitRecord, HostRecord, StartFailure};
use ostler::os::arg::Arg;
use ostler::os::identity::Liveness;
use serde_json::{Value, json};

use crate::support::{FIXTURE, OSTLER, Process, Root, SOON, wait_for, wait_until};

pub(super) const SESSION: &str = "abcdefgh2345";
/// Far above what a test needs, far below what a stuck one should take.
const LAUNCH_MS: u64 = 60_000;

/// A state root with one session.
pub(super) struct Bed {
    root: Root,
    spawner: Spawner,
    spec_digest: String,
}

impl Bed {
    /// A session that runs the fixture with these steps.
    pub(super) fn fixture<S: AsRef<OsStr>>(steps: &[S]) -> Bed {
        Bed::with(|spec| spec.command.extend(steps.iter().map(|step| Arg::from(step.as_ref()))))
    }

    /// A session that runs the fixture with these steps and takes messages.
    pub(super) fn taking(steps: &[&str]) -> Bed {
        Bed::with(|spec| {
            spec.command.extend(steps.iter().map(|step| Arg::from(*step)));
            spec.adapter = Adapter::Lines;
        })
    }

    /// A session that runs a shell script.
    pub(super) fn shell(script: &str) -> Bed {
        Bed::with(|spec| spec.command = ["sh", "-c", script].map(Arg::from).to_vec())
    }

    /// A session with a spec of one's own; it starts as the bare fixture.
    pub(super) fn with(change: impl FnOnce(&mut Spec)) -> Bed {
        Bed::with_image(Path::new(OSTLER), change)
    }

    /// The same with another program in place of the host.
    pub(super) fn with_image(image: &Path, change: impl FnOnce(&mut Spec)) -> Bed {
        let root = Root::new();
        let spawner = Spawner::with_image(image.to_path_buf()).unwrap();
        let mut bed = Bed { root, spawner, spec_digest: String::new() };
        std::fs::create_dir(bed.state()).unwrap();
        let mut spec = Spec {
            command: vec![FIXTURE.into()],
            cwd: bed.folder().into(),
            env: vec![EnvVar { name: "PATH".into(), value: "/usr/bin:/bin".into() }],
            umask: 0o22,
            limits: Vec::new(),
            adapter: Adapter::Inbox,
            frame: Frame::Line,
            prompt: None,
            sign: None,
            stdin: Stdin::Empty,
            follow: false,
        };
        change(&mut spec);
        bed.prepare(&spec, 1);
        bed
    }

    /// Makes what must be there before a start.
    pub(super) fn prepare(&mut self, spec: &Spec, episode: u32) {
        self.spec_digest = prepare_session(&self.state(), SESSION, spec).unwrap().spec_digest;
        prepare_episode(&self.state(), SESSION, episode).unwrap();
    }

    /// The test's folder.
    pub(super) fn folder(&self) -> &Path {
        self.root.folder()
    }

    /// The state root. Not the one that the clean-up of [`Root`] knows, because no broker ever guards it.
    pub(super) fn state(&self) -> PathBuf {
        self.folder().join("state")
    }

    /// The episode's folder.
    pub(super) fn episode(&self) -> PathBuf {
        episode_folder(&self.state(), SESSION, 1)
    }

    pub(super) fn launch_order(&self) -> Launch {
        Launch {
            root: self.state(),
            runtime: self.folder().join("run"),
            session: SESSION.into(),
            episode: 1,
            generation: 1,
            spec_digest: self.spec_digest.clone(),
            within_ms: LAUNCH_MS,
        }
    }

    /// Starts a host and waits for its report.
    pub(super) fn launch_with(&self, launch: Launch) -> LaunchOutcome {
        let (sender, outcome) = mpsc::channel();
        self.spawner.launch(launch, Box::new(move |outcome| sender.send(outcome).unwrap()));
        outcome.recv_timeout(SOON * 3).expect("every launch has an outcome")
    }

    pub(super) fn launch(&self) -> LaunchOutcome {
        self.launch_with(self.launch_order())
    }

    /// Starts a host, which must succeed.
    #[track_caller]
    pub(super) fn start(&self) -> HostRecord {
        match self.launch() {
            LaunchOutcome::Started(record) => *record,
            other @ (LaunchOutcome::Failed(_) | LaunchOutcome::Unclear(_)) => panic!("not started: {other:?}"),
        }
    }

    /// Starts a host, which must refuse.
    #[track_caller]
    pub(super) fn fail(&self) -> StartFailure {
        match self.launch() {
            LaunchOutcome::Failed(failure) => failure,
            other @ (LaunchOutcome::Started(_) | LaunchOutcome::Unclear(_)) => panic!("no failure: {other:?}"),
        }
    }

    pub(super) fn evidence(&self) -> Evidence {
        gather(&self.state(), SESSION, 1).unwrap()
    }

    pub(super) fn has_host(&self) -> bool {
        has_host(&self.state(), SESSION, 1).unwrap()
    }

    /// The command of the host that has started.
    pub(super) fn evidence_command(&self) -> ostler::os::identity::ProcessIdentity {
        let Verdict::Alive(record) = self.verdict() else { panic!("{:?}", self.verdict()) };
        record.command
    }

    pub(super) fn verdict(&self) -> Verdict {
        judge(&self.evidence())
    }

    /// Waits for the exit record.
    pub(super) fn exit(&self) -> ExitRecord {
        wait_for(SOON, "the exit record", || files::read_exit(&self.episode()).unwrap())
    }

    /// Waits until the host has let go of its lock, and gives back the exit.
    #[track_caller]
    pub(super) fn ended(&self) -> ExitRecord {
        let verdict = wait_for(SOON, "the end of the host", || {
            let verdict = self.verdict();
            (!matches!(verdict, Verdict::Alive(_))).then_some(verdict)
        });
        let Verdict::Ended(exit) = verdict else { panic!("not ended: {verdict:?}") };
        // The lock is free an instant before the process is gone.
        if let HostFile::Present { record, .. } = self.evidence().host {
            wait_until(SOON, "the host is gone", || record.host.liveness() == Liveness::Dead);
        }
        exit
    }

    /// All output so far, both streams together.
    pub(super) fn output(&self) -> String {
        let mut reader = read_spool(&self.episode(), 0);
        let mut all = Vec::new();
        while let Some(piece) = reader.next_piece().unwrap() {
            match piece {
                Piece::Output { bytes, .. } => all.extend(bytes),
                Piece::Gap { from, to } => all.extend(format!("[{from}..{to}]").bytes()),
            }
        }
        String::from_utf8_lossy(&all).into_owned()
    }

    /// Waits for a whole line of output that starts so, and gives back the rest of it.
    #[track_caller]
    pub(super) fn line(&self, start: &str) -> String {
        wait_for(SOON, &format!("a line {start:?}"), || {
            let output = self.output();
            let whole = output.rfind('\n').map_or("", |end| &output[..end]);
            whole.lines().find_map(|line| Some(line.strip_prefix(start)?.trim().to_owned()))
        })
    }

    /// Waits for the children that the fixture has told of.
    #[track_caller]
    pub(super) fn child(&self) -> Process {
        Process::of(self.line("child ").parse().unwrap()).expect("it lives")
    }

    /// Follows the output from its beginning.
    pub(super) fn follow(&self, hold: bool) -> Follower {
        Follower::open(&self.episode(), 0, hold).unwrap()
    }
}

/// The process that an identity names.
pub(super) fn process(identity: &ostler::os::identity::ProcessIdentity) -> Process {
    Process::of(identity.pid.into()).expect("it lives")
}

/// A conversation with a host in its own words.
pub(super) struct Talk {
    stream: BufReader<UnixStream>,
    id: u64,
}

impl Talk {
    /// Connects, and says nothing yet.
    pub(super) fn dial(record: &HostRecord) -> Talk {
        let stream = UnixStream::connect(record.endpoint.address.strip_prefix("unix:").unwrap()).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        Talk { stream: BufReader::new(stream), id: 0 }
    }

    /// Connects as the broker of a generation.
    pub(super) fn broker(record: &HostRecord, generation: u64) -> Talk {
        let mut talk = Talk::dial(record);
        let answer = talk.ask(json!({
            "request": "hello", "version": 1, "secret": record.secret, "generation": generation
        }));
        assert_eq!(answer["ok"], "hello", "{answer}");
        talk
    }

    /// Connects as a reader.
    pub(super) fn reader(record: &HostRecord) -> Talk {
        let mut talk = Talk::dial(record);
        let answer = talk.ask(json!({ "request": "hello", "version": 1, "secret": record.secret }));
        assert_eq!(answer["ok"], "hello", "{answer}");
        talk
    }

    /// Sends a request and gives back its answer; pushes before it are dropped.
    #[track_caller]
    pub(super) fn ask(&mut self, request: Value) -> Value {
        self.send(request);
        loop {
            let line = self.hear().expect("an answer");
            if line.get("push").is_none() {
                return line;
            }
        }
    }

    /// Sends a request.
    pub(super) fn send(&mut self, mut request: Value) {
        self.id += 1;
        request["id"] = json!(self.id);
        self.send_line(&request.to_string());
    }

    /// Sends a line, whatever it is.
    pub(super) fn send_line(&mut self, line: &str) {
        self.stream.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// The next line, or `None` at the end.
    pub(super) fn hear(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap()),
            // A host that cuts us off resets what we still had to say.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Bytes that follow an answer.
    pub(super) fn bytes(&mut self, count: u64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(count).unwrap()];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Ends the episode and gives back the answer.
    pub(super) fn stop(&mut self, grace_ms: u64) -> Value {
        self.ask(json!({ "request": "stop", "grace_ms": grace_ms }))
    }
}
