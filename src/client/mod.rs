//! The Rust client: finds or starts the broker, speaks its protocol, keeps keys over reconnects.
//!
//! Blocking, and light at its start: no runtime, no thread until a broker was started by it.

/// A bridge between standard input and output and the broker.
pub mod bridge;
/// A connection that mends itself, and calls over it.
mod call;
/// Find or start the broker.
mod ensure;
/// Starting a broker and following its report.
mod start;
/// One broker in place of another.
pub mod takeover;

use std::path::PathBuf;
use std::time::Duration;

use crate::os::build::build;
use crate::os::deadline::Deadline;
use crate::os::environment::Environment;
use crate::rpc::wire::ClientInfo;

pub use call::{Client, Told};
pub use ensure::{EnsureReport, ensure};

/// How long finding or starting a broker may take (contract section 4). A test build is more patient: its disk is busy with
/// compilers and with the other tests, and a single sync can take longer than this.
pub const ENSURE_WITHIN: Duration = Duration::from_secs(if cfg!(feature = "testing") { 60 } else { 10 });

/// How long a broker may take over hello (contract section 4). Who waits less learns nothing from its silence.
pub const HELLO_WITHIN: Duration = crate::rpc::hello::WITHIN;

/// Whether a caller who allows so much in all, and has until the deadline, is in too much of a hurry to tell a silent broker from a busy
/// one. The deadline itself is compared with a margin: some of its time has passed before anybody is asked.
pub fn is_hurried(allowed: Duration, deadline: Deadline) -> bool {
    allowed < HELLO_WITHIN || deadline.remaining() < HELLO_WITHIN * 3 / 4
}

/// Whom a client meets, and how.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The state root, in any spelling; see [`crate::os::paths::root_path`].
    pub root: PathBuf,
    /// Never start a broker.
    pub no_start: bool,
    /// The one deadline of the command.
    pub deadline: Deadline,
    /// How long finding or starting a broker may take, within the deadline.
    pub ensure_within: Duration,
    /// Who calls.
    pub credential: Credential,
    /// The calling program, for the broker's records.
    pub client: ClientInfo,
    /// The program that is started as a broker, with `broker --root ROOT`.
    pub program: Program,
    /// The environment, of which a started broker gets the allow list.
    pub environment: Environment,
}

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// The owner, with the token of the discovery record.
    Owner,
    /// A session, with the token in this file.
    Session(PathBuf),
}

/// Which program is started as a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// The one that is running, whatever has become of its file.
    Own,
    /// The one in this file.
    File(PathBuf),
}

impl ClientOptions {
    /// The owner's options with every default.
    pub fn new(root: PathBuf, deadline: Deadline) -> ClientOptions {
        ClientOptions {
            root,
            no_start: false,
            deadline,
            ensure_within: ENSURE_WITHIN,
            credential: Credential::Owner,
            client: ClientInfo { name: "ostler".to_owned(), version: build().version.to_owned() },
            program: Program::Own,
            environment: Environment::process().clone(),
        }
    }
}
