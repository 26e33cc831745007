//! What a host writes down and what it says: `host.json`, `exit.json`, its report to the starter, and the host wire.
//!
//! Older hosts speak this for weeks with newer brokers, so it has its own version number and golden transcripts: members
//! may be added, never changed. JSON lines both ways. A request is `{"id":n,"request":"...",...}`, its answer
//! `{"id":n,"ok":"...",...}` or `{"id":n,"error":{...}}`, and what nobody asked for is `{"push":"...",...}`.
//! Answers to `read` and `follow` are followed by frames (see `super::spool::frame`): `read` by exactly `bytes` of
//! them, `follow` by frames until the end of the connection.

use serde::{Deserialize, Serialize};

pub use super::cause::Cause;
pub use super::prompt::SessionTurn;
use crate::os::build::build;
use crate::os::identity::ProcessIdentity;

/// Version of the host wire and of the host's files.
pub fn version() -> u32 {
    build().host_wire
}

/// Longest request line before `hello`, in bytes.
pub const HELLO_BYTES_MAX: usize = 4 * 1024;
/// Longest request line afterwards, in bytes.
pub const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Longest request line of a broker: a `deliver` of [`DELIVER_BYTES_MAX`] in base64, and what stands around it.
pub const BROKER_REQUEST_BYTES_MAX: usize = 704 * 1024;
/// Most bytes of one `input` request, before base64.
pub const INPUT_BYTES_MAX: usize = 32 * 1024;
/// Most bytes of one `deliver` request, before base64.
pub const DELIVER_BYTES_MAX: usize = 512 * 1024;
/// Longest name of a message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 128;

/// A place that device and inode name: it stays the same under every path and differs in every copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

/// Where the host answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// `unix:/path`.
    pub address: String,
    /// The episode it serves.
    pub generation: u64,
    /// See [`super::incarnation`].
    pub incarnation: String,
}

/// `host.json`: written and synced before the gate opens, so the command has run only if this exists.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRecord {
    /// [`version()`].
    pub version: u32,
    /// Product version of the host's binary.
    pub product: String,
    /// Session id.
    pub session: String,
    /// Which run.
    pub episode: u32,
    /// The host.
    pub host: ProcessIdentity,
    /// The command; its pid is its process group too.
    pub command: ProcessIdentity,
    /// Where the host answers.
    pub endpoint: Endpoint,
    /// Makes the incarnation unique.
    pub nonce: String,
    /// What a reader shows.
    pub secret: String,
    /// The episode's `life.lock`.
    pub lock: FileIdentity,
    /// The episode's folder.
    pub folder: FileIdentity,
    /// What the environment of the episode's processes carries; see [`super::marker`].
    pub marker: String,
    /// When the host started, Unix microseconds.
    pub started_us: u64,
}

/// Shows everything but the secret, which must never reach a log.
impl std::fmt::Debug for HostRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostRecord")
            .field("session", &self.session)
            .field("episode", &self.episode)
            .field("host", &self.host)
            .field("command", &self.command)
            .field("endpoint", &self.endpoint)
            .field("lock", &self.lock)
            .finish_non_exhaustive()
    }
}

/// How an episode ended (EXIT of the contract).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// The command's exit code.
    Code(i32),
    /// The signal that ended it, by name.
    Signal(String),
    /// It never came up.
    Error(StartFailure),
}

/// Why a command never came up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartFailure {
    /// Where.
    pub phase: StartPhase,
    /// Why, for a human.
    pub reason: String,
    /// The system's error number, where it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
    /// What it means, where the host can tell. The number alone does not: a missing interpreter is `ENOENT` as well as a missing command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
}

/// Where a start failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartPhase {
    /// The command could not be executed.
    Exec,
    /// The working directory could not be entered.
    Cwd,
    /// A limit could not be set.
    Limit,
    /// The host failed.
    Host,
}

/// `exit.json`. Written at its full size before the command runs and completed in place, so a full disk cannot lose it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// [`version()`].
    pub version: u32,
    /// How it ended.
    pub exit: Exit,
    /// When the host saw it, Unix microseconds.
    pub ended_us: u64,
    /// Whether the output had shown that the command was ready.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_ready: bool,
}

/// A process that was left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivor {
    /// Its process id.
    pub pid: u32,
    /// Its command line, shortened.
    pub command: String,
}

/// What the host tells its starter, one line through the inherited pipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum Report {
    /// The command is executing.
    Started {
        /// `host.json`.
        host: Box<HostRecord>,
    },
    /// It never will.
    Failed {
        /// Why.
        #[serde(flatten)]
        failure: StartFailure,
    },
}

/// One line to the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestLine {
    /// Comes back in the answer.
    pub id: u64,
    /// What is asked.
    #[serde(flatten)]
    pub request: Request,
}

/// What can be asked.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// The first request of every connection.
    Hello {
        /// [`version()`] of the asker.
        version: u32,
        /// The episode's secret.
        secret: String,
        /// Set by a broker only: its generation. One lower than the highest seen is refused, a higher one ends the connections of lower ones.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        generation: Option<u64>,
    },
    /// How it goes.
    Status,
    /// End the episode; the broker's alone. Answered when it has ended.
    Stop {
        /// Time between TERM and KILL in milliseconds.
        grace_ms: u64,
    },
    /// Output from a position, as much as there is.
    Read {
        /// Byte offset in the episode's output.
        from: u64,
        /// At most this many bytes of frames.
        bytes_max: u32,
    },
    /// Output from a position on and as it comes; the connection carries nothing else afterwards.
    Follow {
        /// Byte offset in the episode's output.
        from: u64,
        /// Rather let the command wait than lose bytes.
        hold: bool,
    },
    /// Bytes for the command's standard input. The first connection to send some owns it; when it goes, input ends.
    Input {
        /// The bytes, base64; empty or absent with `eof`.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        b64: String,
        /// Close it afterwards.
        #[serde(default)]
        eof: bool,
    },
    /// A message for a command whose adapter is `lines`; the broker's alone, and one at a time. Answered when the pipe has all of it, or
    /// never will have. The same message and attempt again is not written again: it gets the same answer.
    Deliver {
        /// Its name: 1 to [`MESSAGE_BYTES_MAX`] printable ASCII characters without a space.
        message: String,
        /// Which attempt.
        attempt: u64,
        /// The bytes, base64, as they are to be written.
        b64: String,
    },
    /// INT to the command's process group; the broker's alone. The same attempt again is not signalled again, nor is the same turn.
    Interrupt {
        /// Which attempt; 0 is none, and is signalled each time.
        #[serde(default)]
        attempt: u64,
        /// Only while this session turn runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<u64>,
    },
}

/// Shows everything but secret and input.
impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Hello { version, generation, .. } => {
                write!(f, "Hello {{ version: {version}, generation: {generation:?} }}")
            }
            Self::Status => f.write_str("Status"),
            Self::Stop { grace_ms } => write!(f, "Stop {{ grace_ms: {grace_ms} }}"),
            Self::Read { from, bytes_max } => write!(f, "Read {{ from: {from}, bytes_max: {bytes_max} }}"),
            Self::Follow { from, hold } => write!(f, "Follow {{ from: {from}, hold: {hold} }}"),
            Self::Input { b64, eof } => write!(f, "Input {{ b64: {} characters, eof: {eof} }}", b64.len()),
            Self::Deliver { message, attempt, b64 } => {
                write!(f, "Deliver {{ message: {message:?}, attempt: {attempt}, b64: {} characters }}", b64.len())
            }
            Self::Interrupt { attempt, turn } => write!(f, "Interrupt {{ attempt: {attempt}, turn: {turn:?} }}"),
        }
    }
}

/// One line from the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Line {
    /// An answer.
    Reply {
        /// Of the request.
        id: u64,
        /// What it says.
        #[serde(flatten)]
        reply: Reply,
    },
    /// A refusal.
    Refused {
        /// Of the request; absent if it could not be read.
        id: Option<u64>,
        /// Why.
        error: Refusal,
    },
    /// Nobody asked.
    Push(Push),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ok", rename_all = "snake_case")]
pub enum Reply {
    /// To `hello`.
    Hello(Box<Hello>),
    /// To `status`.
    Status(Status),
    /// To `stop`: the episode has ended.
    Stop(Stopped),
    /// To `read`: frames follow.
    Read {
        /// Position of the first frame.
        from: u64,
        /// Bytes of frames that follow this line.
        bytes: u32,
        /// Position to read on at.
        next: u64,
        /// Bytes between the position asked for and `from` that have aged out.
        lost: u64,
    },
    /// To `follow`: frames follow until the end.
    Follow {
        /// Position of the first frame, a gap if older bytes have aged out.
        from: u64,
    },
    /// To `input`: handed to the pipe.
    Input {
        /// Bytes taken, ever.
        total: u64,
    },
    /// To `deliver`.
    Deliver {
        /// What became of it.
        delivery: Delivery,
    },
    /// To `interrupt`.
    Interrupt {
        /// Whether it was sent; if not, the command, or the turn that was named, has ended.
        sent: bool,
    },
}

/// What became of a message for the command's standard input. It never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// The pipe has all of its bytes; whether the command reads them is the command's.
    Accepted {
        /// When, Unix microseconds.
        at_us: u64,
    },
    /// Not one byte of it was written, and none ever will be.
    Refused {
        /// Why, for a human.
        reason: String,
    },
    /// The command closed its standard input, or ended, when a part was written.
    Cut {
        /// Bytes that the pipe took.
        written: u64,
        /// Bytes that there were.
        total: u64,
    },
}

/// The host introduces itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`version()`] of the host.
    pub version: u32,
    /// Product version of the host.
    pub product: String,
    /// Session id.
    pub session: String,
    /// Which run.
    pub episode: u32,
    /// See [`super::incarnation`].
    pub incarnation: String,
    /// The host.
    pub host: ProcessIdentity,
    /// The command.
    pub command: ProcessIdentity,
    /// The `life.lock` that it holds.
    pub lock: FileIdentity,
    /// The folder that it writes to.
    pub folder: FileIdentity,
    /// Highest generation seen, this one included; 0 if none.
    pub generation: u64,
    /// What this host can be asked.
    pub capabilities: Vec<String>,
    /// How it goes.
    pub status: Status,
}

/// Where an episode stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EpisodeState {
    /// The gate is open, exec has not answered yet.
    Starting,
    /// The command executes.
    Running,
    /// It was asked to end.
    Stopping,
    /// The command has ended; what it left behind is being ended.
    Ending,
    /// Nothing is left to do.
    Ended,
}

/// How an episode goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Where it stands.
    pub state: EpisodeState,
    /// Last progress (start, output, input, end), Unix microseconds.
    pub last_seen_us: u64,
    /// Oldest position kept of the output.
    pub output_from: u64,
    /// Position after the last byte of output.
    pub output_to: u64,
    /// How the command ended, once it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// When, Unix microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_us: Option<u64>,
    /// The session turn, where they are seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<SessionTurn>,
    /// Whether the output has shown that the command is ready, where that is looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
}

/// The episode has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// How; absent only if the command cannot be ended (it is then among the survivors).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// When, Unix microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_us: Option<u64>,
    /// What is left and not the host's to end.
    pub survivors: Vec<Survivor>,
}

/// What the host says without being asked, to every connection that said hello.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "push", rename_all = "snake_case")]
pub enum Push {
    /// The exec answered well (sent only to who was connected before).
    Started,
    /// The command has ended and `exit.json` says so durably.
    Exited {
        /// How.
        exit: Exit,
        /// When, Unix microseconds.
        ended_us: u64,
    },
    /// There was progress; on change only, at most once a minute.
    Beat {
        /// Last progress, Unix microseconds.
        last_seen_us: u64,
    },
    /// A session turn is over.
    Turn(SessionTurn),
    /// The output has shown that the command is ready.
    Ready,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Which kind.
    pub code: RefusalCode,
    /// For a human.
    pub message: String,
}

/// Kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// Not a request of this version.
    InvalidInput,
    /// A line beyond its limit.
    TooLarge,
    /// Wrong secret, or no `hello`.
    Unauthenticated,
    /// Not for this role.
    Denied,
    /// A newer broker has been here.
    StaleGeneration,
    /// This host cannot do that.
    CapabilityMissing,
    /// Somebody else has it, or it is over.
    Unavailable,
    /// Versions do not meet.
    ProtocolMismatch,
}
