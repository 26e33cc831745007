//! How a host comes up, in the order that recovery relies on: signals blocked; the life lock ours and close-on-exec; the
//! spec read; endpoint bound; `exit.json` at its full size; the command forked up to its gate; `host.json` durable; and
//! only then the gate opens. Whatever fails before that, nothing has happened.

#![expect(unsafe_code, reason = "takes over inherited descriptors")]

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl, open};
use nix::sys::prctl::{set_child_subreaper, set_name};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::{Mode, umask};
use nix::unistd::chdir;

use super::arguments::Arguments;
use super::command::{self, Plan, Waiting};
use super::delivery::Deliveries;
use super::ending::Ending;
use super::endpoint::Endpoint;
use super::episode::{Episode, Files};
use super::input::Input;
use super::output::Output;
use crate::host::client::load_spec;
use crate::host::files::{self, CREDENTIAL, ExitFile, HOST_JSON, LIFE_LOCK, OUTPUT};
use crate::host::incarnation;
use crate::host::journal::Journal;
use crate::host::marker;
use crate::host::prompt::Prompt;
use crate::host::sign::Sign;
use crate::host::spec::{Adapter, Spec, Stdin};
use crate::host::spool::writer::Spool;
use crate::host::wire::{self, Exit, ExitRecord, FileIdentity, HostRecord, StartFailure, StartPhase, version};
use crate::os::build::build;
use crate::os::fail::{Point, pass};
use crate::os::identity::ProcessIdentity;
use crate::os::{clock, entropy};

/// What was inherited, taken over first of all.
#[derive(Debug)]
pub(super) struct Inherited {
    lock: File,
    /// Where the start is reported.
    pub(super) report: File,
}

/// Takes over the two descriptors that the starter named, and closes all others but the first three.
///
/// # Errors
/// If they are not there.
pub(super) fn inherit(arguments: &Arguments) -> io::Result<Inherited> {
    SigSet::all().thread_set_mask()?;
    let lock = File::from(adopt(arguments.lock_fd)?);
    let report = File::from(adopt(arguments.report_fd)?);
    let mut keep = [arguments.lock_fd, arguments.report_fd];
    keep.sort_unstable();
    command::close_between(3, keep[0])?;
    command::close_between(keep[0] + 1, keep[1])?;
    command::close_between(keep[1] + 1, RawFd::MAX)?;
    Ok(Inherited { lock, report })
}

fn adopt(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 3 {
        return Err(io::Error::other("the first three descriptors are not for this"));
    }
    // SAFETY: the starter left this descriptor to us under this number, and this is the one place that takes it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    if fcntl(&fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).is_err() {
        // Not open: it must not be closed a second time, whoever has the number by then.
        std::mem::forget(fd);
        return Err(io::Error::other("an inherited descriptor is not open"));
    }
    Ok(fd)
}

/// Starts the command and returns the episode with its gate just opened.
///
/// # Errors
/// Why nothing was started, in phase host.
pub(super) fn start(arguments: Arguments, inherited: Inherited) -> Result<Episode, StartFailure> {
    let Inherited { lock, report } = inherited;
    let folder = files::episode_folder(&arguments.root, &arguments.session, arguments.episode);
    prepare_process(&arguments.root).map_err(failed("cannot prepare the host"))?;
    let lock_identity = check_lock(&lock, &folder.join(LIFE_LOCK)).map_err(failed("life.lock"))?;
    let (spec, digest) = load_spec(&arguments.root, &arguments.session).map_err(failed("cannot read the spec"))?;
    if digest != arguments.spec_digest {
        return Err(failed("spec.json")("it is not what the ledger names"));
    }
    let marker = marker::of(&arguments.session, arguments.episode, lock_identity);
    let signals = signal_source().map_err(failed("cannot take signals"))?;
    let endpoint =
        Endpoint::bind(&arguments.runtime, &arguments.root, &marker).map_err(failed("cannot bind the endpoint"))?;
    pass(Point::HostBound);
    let exit_file = ExitFile::prepare(&folder).map_err(failed("cannot prepare exit.json"))?;
    let takes_messages = spec.adapter == Adapter::Lines;
    let journal = takes_messages.then(|| Journal::create(&folder)).transpose();
    let journal = journal.map_err(failed("cannot prepare the journal"))?;
    let prompt = spec.prompt.as_deref().map(Prompt::new).transpose().map_err(failed("the prompt"))?;
    let sign = spec.sign.as_deref().map(Sign::new).transpose().map_err(failed("the sign of readiness"))?;
    let pipes = Pipes::new(takes_messages || spec.stdin == Stdin::Client).map_err(failed("cannot make pipes"))?;
    let environment = command::environment(&spec, own_variables(&arguments, &marker));
    let plan = Plan { spec: &spec, environment, stdio: pipes.commands };
    let Waiting { pid, mut gate, status } = command::fork_at_gate(plan).map_err(failed("cannot make a process"))?;
    set_nonblocking(&status).map_err(failed("cannot make pipes"))?;
    pass(Point::HostForked);

    let command = u32::try_from(pid.as_raw()).map_err(failed("pid"))?;
    let record = record(&arguments, &folder, lock_identity, &marker, command, &endpoint);
    let record = record.map_err(failed("cannot identify host and command"))?;
    let points = [Point::HostRecordContent, Point::HostRecordNamed];
    files::replace_json(&folder.join(HOST_JSON), &record, points).map_err(failed("cannot write host.json"))?;
    if let Err(error) = gate.write_all(&[1]) {
        // Killed at its gate. The record says that it may have run, so the exit says that it has not.
        let failure = failed("the command's process is gone")(error);
        let record = ExitRecord {
            version: version(),
            exit: Exit::Error(failure.clone()),
            ended_us: clock::wall_us(),
            was_ready: false,
        };
        drop(exit_file.complete(&record));
        return Err(failure);
    }
    pass(Point::HostGateOpened);

    let ending = Ending::new(pid, marker);
    let mut output = Output::new(pipes.stdout, pipes.stderr, Spool::new(folder.join(OUTPUT)));
    (output.prompt, output.sign) = (prompt, sign);
    let files = Files { root: arguments.root, runtime: arguments.runtime, folder, exit: exit_file, lock };
    let mut episode = Episode::new(record, files, spec, ending, output, pipes.input, Deliveries::new(journal));
    episode.begin(signals, endpoint, status, report, arguments.generation);
    Ok(episode)
}

/// For `map_err`: a failure of the host itself.
fn failed<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> StartFailure {
    move |error| StartFailure { phase: StartPhase::Host, reason: format!("{what}: {error}"), errno: None, cause: None }
}

fn prepare_process(root: &std::path::Path) -> io::Result<()> {
    // For eyes: started from /proc/self/exe, the process would be named "exe".
    set_name(c"ostler-host")?;
    umask(Mode::from_bits_truncate(0o077));
    chdir(root)?;
    #[cfg(target_os = "linux")]
    set_child_subreaper(true)?;
    Ok(())
}

/// The descriptor must lead to this episode's `life.lock`, and hold its lock.
fn check_lock(lock: &File, path: &std::path::Path) -> io::Result<FileIdentity> {
    let held = files::identity_of(&lock.metadata()?);
    if files::identity_at(path)? != held {
        return Err(io::Error::other("the inherited descriptor leads elsewhere"));
    }
    // Has it through this very description, or takes it: both is ours alone.
    match lock.try_lock() {
        Ok(()) => Ok(held),
        Err(error) => Err(error.into()),
    }
}

fn signal_source() -> io::Result<SignalFd> {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGCHLD, Signal::SIGUSR1, Signal::SIGTERM] {
        set.add(signal);
    }
    Ok(SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}

/// Both ends of the command's three descriptors.
struct Pipes {
    commands: [OwnedFd; 3],
    input: Input,
    stdout: PipeReader,
    stderr: PipeReader,
}

impl Pipes {
    fn new(takes_input: bool) -> io::Result<Self> {
        let (command_in, input) = if takes_input {
            let (reader, writer): (PipeReader, PipeWriter) = io::pipe()?;
            set_nonblocking(&writer)?;
            (OwnedFd::from(reader), Input::piped(writer))
        } else {
            (open("/dev/null", OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?, Input::default())
        };
        let (stdout, command_out) = io::pipe()?;
        let (stderr, command_err) = io::pipe()?;
        set_nonblocking(&stdout)?;
        set_nonblocking(&stderr)?;
        let commands = [command_in, OwnedFd::from(command_out), OwnedFd::from(command_err)];
        if commands.iter().any(|fd| fd.as_raw_fd() < 3) {
            return Err(io::Error::other("the host was started without its first three descriptors"));
        }
        Ok(Self { commands, input, stdout, stderr })
    }
}

fn set_nonblocking(fd: &impl AsFd) -> io::Result<()> {
    fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(())
}

/// What the command gets from us (contract section 3), and the marker that finds it again.
fn own_variables(arguments: &Arguments, marker: &str) -> Vec<(&'static str, OsString)> {
    let credential: PathBuf = files::session_folder(&arguments.root, &arguments.session).join(CREDENTIAL);
    vec![
        ("OSTLER_ROOT", arguments.root.clone().into()),
        ("OSTLER_SESSION", arguments.session.clone().into()),
        ("OSTLER_EPISODE", arguments.episode.to_string().into()),
        ("OSTLER_CREDENTIAL", credential.into()),
        (marker::COMMAND_VARIABLE, marker.into()),
    ]
}

fn record(
    arguments: &Arguments,
    folder: &std::path::Path,
    lock: FileIdentity,
    marker: &str,
    command: u32,
    endpoint: &Endpoint,
) -> io::Result<HostRecord> {
    let host = ProcessIdentity::current()?;
    let command = ProcessIdentity::of(command)?.ok_or_else(|| io::Error::other("the command's process is gone"))?;
    let nonce = entropy::hex::<16>();
    let incarnation = incarnation::of(&arguments.session, arguments.episode, &host, &nonce);
    Ok(HostRecord {
        version: version(),
        product: build().version.into(),
        session: arguments.session.clone(),
        episode: arguments.episode,
        host,
        command,
        endpoint: wire::Endpoint { address: endpoint.address(), generation: u64::from(arguments.episode), incarnation },
        nonce,
        secret: entropy::hex::<32>(),
        lock,
        folder: files::identity_at(folder)?,
        marker: marker.to_owned(),
        started_us: clock::wall_us(),
    })
}

/// The spec is needed for the words of a failed exec only.
#[derive(Debug)]
pub(super) struct Starting {
    pub(super) status: PipeReader,
    pub(super) report: File,
    pub(super) spec: Box<Spec>,
}
