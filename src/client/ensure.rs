//! Find or start the broker: the one implementation of it (docs/ARCHITECTURE.md, "The order of a start").
//!
//! ```text
//! connect --answers--> done
//!    | does not
//! start.lock (a herd guard, not an authority: after half the time go on without it), connecting all the while
//!    |
//! connect again, else start a broker and follow its report
//!    ready -> connect, done      lost -> connect until the deadline      failed -> its error
//!    died  -> connect, start again, three times at most                  late   -> say how far it is
//! ```
//!
//! Promises: one deadline for all of it; a time-out is never taken for a death, since a started broker takes over only
//! what the kernel gives it; a starter and an owner are never signalled; who allows less time than hello may take is told `timeout`, and never
//! that the broker is silent.

use std::fs::File;
use std::time::Duration;

use super::start::{self, Told};
use super::{Client, ClientOptions, Credential, HELLO_WITHIN, is_hurried};
use crate::os::deadline::{Deadline, Pauses};
use crate::os::detach;
use crate::os::fail::{Point, pass};
use crate::os::locks::lock_holder;
use crate::os::paths::{LOCK_NAME, StateRoot};
use crate::rpc::channel::{Channel, ChannelError, HelloError, Speaker};
use crate::rpc::convert::storage_code;
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::hello;
use crate::rpc::record::{self, Found, Record};
use crate::rpc::report::Stage;
use crate::rpc::wire::{Broker, HelloResult, Role, RootId};

/// Name of the herd guard in the state root.
pub(super) const GUARD_NAME: &str = "start.lock";
/// Starts that may die before that is the answer.
const STARTS_MAX: u32 = 3;
/// Longest credential file, bytes.
const CREDENTIAL_BYTES_MAX: u64 = 4096;

/// The broker, and whether this call started it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnsureReport {
    /// Whether this call started it.
    pub started: bool,
    /// Where it is.
    pub broker: Broker,
}

/// Finds or starts the broker of a state root.
///
/// # Errors
/// What stands in the way, with what to type.
pub fn ensure(options: ClientOptions) -> Result<EnsureReport, WireError> {
    let client = Client::connect_or_start(options)?;
    Ok(EnsureReport { started: client.started(), broker: client.hello().broker.clone() })
}

/// A broker that was met.
#[derive(Debug)]
pub(super) struct Met {
    pub(super) channel: Channel,
    pub(super) hello: HelloResult,
    pub(super) started: bool,
}

/// Why no broker was met, where trying again may help.
#[derive(Debug)]
enum Absence {
    NoRecord,
    DamagedRecord(String),
    /// The record was published in another root, of which this one is a copy.
    ForeignRecord,
    NoAnswer(HelloError),
}

/// Why no broker was met.
enum Missed {
    Absent(Absence),
    /// Trying again does not help.
    Refused(WireError),
}

/// Connects to the broker that is there.
pub(super) fn connect(options: &ClientOptions) -> Result<Met, WireError> {
    let deadline = options.deadline.at_most(options.ensure_within);
    let Some(root) = StateRoot::open(&options.root)? else {
        let message = format!("there is no state root at {}, so no broker runs for it", options.root.display());
        return Err(WireError::new(ErrorCode::BrokerUnreachable, message).reason("no_root"));
    };
    let search = Search::new(options, &root, deadline);
    search.try_until(deadline, &mut quick()).map_err(|missed| search.unreachable(missed))
}

/// Connects to the broker, starting it if there is none.
pub(super) fn connect_or_start(options: &ClientOptions) -> Result<Met, WireError> {
    // A broker that starts, and everything it starts while it does, never starts another one.
    if options.no_start || detach::is_started() {
        return connect(options);
    }
    let deadline = options.deadline.at_most(options.ensure_within);
    let root = StateRoot::open_or_create(&options.root)?;
    let search = Search::new(options, &root, deadline);
    let (mut pauses, mut full) = (quick(), None);
    loop {
        let absence = match search.try_once(search.share(4)) {
            Ok(met) => return Ok(met),
            Err(Missed::Refused(error)) => return Err(error),
            Err(Missed::Absent(absence)) => absence.after(full),
        };
        // It lives and answers: another start cannot help, a free place can.
        if !absence.is_full() {
            break;
        }
        if !pauses.pause(deadline) {
            return Err(search.unreachable(Missed::Absent(absence)));
        }
        full = Some(absence);
    }
    let _guard = match search.guard()? {
        Guard::Met(met) => return Ok(*met),
        Guard::Had(file) => Some(file),
        Guard::None => None,
    };
    pass(Point::EnsureGuarded);
    search.start()
}

/// Starts a broker whether or not one is published, and meets whoever is the broker then.
pub(super) fn start(options: &ClientOptions, root: &StateRoot) -> Result<Met, WireError> {
    let deadline = options.deadline.at_most(options.ensure_within);
    Search::new(options, root, deadline).start()
}

/// Pauses between two looks at the record.
pub(super) fn quick() -> Pauses {
    Pauses::new(Duration::from_millis(5), Duration::from_millis(100))
}

/// How the herd guard was passed.
enum Guard {
    /// Somebody else's start has succeeded meanwhile.
    Met(Box<Met>),
    /// It is ours until the file is closed.
    Had(File),
    /// It cannot be had in time, or at all.
    None,
}

struct Search<'a> {
    options: &'a ClientOptions,
    root: &'a StateRoot,
    deadline: Deadline,
    /// Silence proves nothing: there was less time than hello may take.
    hurried: bool,
}

impl<'a> Search<'a> {
    fn new(options: &'a ClientOptions, root: &'a StateRoot, deadline: Deadline) -> Search<'a> {
        Search { options, root, deadline, hurried: is_hurried(options.ensure_within, deadline) }
    }

    /// The point by which one part in `parts` of what is left has passed.
    fn share(&self, parts: u32) -> Deadline {
        self.deadline.at_most(self.deadline.remaining() / parts)
    }

    fn try_once(&self, deadline: Deadline) -> Result<Met, Missed> {
        let found = record::read(self.root.folder()).map_err(|error| {
            let message = format!("{} cannot be read: {error}", self.root.path().display());
            Missed::Refused(WireError::new(storage_code(&error), message))
        })?;
        let record = match found {
            Found::Record(record) => record,
            Found::Absent => return Err(Missed::Absent(Absence::NoRecord)),
            Found::Damaged(why) => return Err(Missed::Absent(Absence::DamagedRecord(why))),
        };
        if record.root_id != RootId::new(self.root.device(), self.root.inode()) {
            return Err(Missed::Absent(Absence::ForeignRecord));
        }
        let (token, role) = self.credential(&record)?;
        let speaker = Speaker { client: &self.options.client, token: &token, role };
        match self.meet(&record, speaker, deadline) {
            Ok((channel, hello)) => {
                pass(Point::EnsureMet);
                Ok(Met { channel, hello, started: false })
            }
            // The owner's token changes with the broker; a session's credential that is not valid stays so.
            Err(HelloError::Refused(error)) if role == Role::Session && error.code == ErrorCode::Unauthenticated => {
                Err(Missed::Refused(error))
            }
            Err(error) if error.is_passing() => Err(Missed::Absent(Absence::NoAnswer(error))),
            Err(error) => Err(Missed::Refused(final_error(error))),
        }
    }

    /// Connects and says hello. Where the lock is held no start could succeed, so a slow holder is waited for; of what is
    /// left, a part is kept for the record of another one.
    fn meet(
        &self,
        record: &Record,
        speaker: Speaker<'_>,
        deadline: Deadline,
    ) -> Result<(Channel, HelloResult), HelloError> {
        let mut channel = Channel::dial(&record.broker.endpoint, deadline)?;
        channel.say_hello(speaker, deadline)?;
        let hello = match channel.hear_hello(deadline) {
            Err(HelloError::Channel(ChannelError::Late)) if self.is_lock_held() => {
                channel.hear_hello(self.deadline.at_most(self.deadline.remaining() * 3 / 4))?
            }
            heard => heard?,
        };
        hello::check(&hello, record)?;
        Ok((channel, hello))
    }

    fn is_lock_held(&self) -> bool {
        lock_holder(self.root.folder(), LOCK_NAME).ok().flatten().is_some_and(|holder| holder.is_held)
    }

    fn credential(&self, record: &Record) -> Result<(String, Role), Missed> {
        let path = match &self.options.credential {
            Credential::Owner => return Ok((record.token.clone(), Role::Owner)),
            Credential::Session(path) => path,
        };
        let refused = |why: String| {
            let message = format!("the session's credential {} cannot be read: {why}", path.display());
            Missed::Refused(WireError::new(ErrorCode::Unauthenticated, message).reason("credential"))
        };
        let found = std::fs::metadata(path).map_err(|error| refused(error.to_string()))?;
        if !found.is_file() || found.len() > CREDENTIAL_BYTES_MAX {
            return Err(refused("it is no small file".to_owned()));
        }
        let token = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
        Ok((token.trim_end().to_owned(), Role::Session))
    }

    /// Tries until it is met, or not to be met, or the deadline has passed.
    fn try_until(&self, deadline: Deadline, pauses: &mut Pauses) -> Result<Met, Missed> {
        let mut full = None;
        loop {
            let absence = match self.try_once(deadline) {
                Err(Missed::Absent(absence)) => absence.after(full),
                done => return done,
            };
            if absence.is_certain() || !pauses.pause(deadline) {
                return Err(Missed::Absent(absence));
            }
            full = absence.is_full().then_some(absence);
        }
    }

    /// Waits for the herd guard, half of what is left at most, and connects all the while.
    fn guard(&self) -> Result<Guard, WireError> {
        // A guard that cannot be opened guards nothing; the lock of the broker decides anyway.
        let Ok(file) = self.root.folder().open_or_create(GUARD_NAME) else {
            return Ok(Guard::None);
        };
        let (until, mut pauses) = (self.share(2), quick());
        loop {
            let had = fs4::FileExt::try_lock(&file).is_ok();
            // Also right after it was had: whoever had it before may have started the broker.
            match self.try_once(self.share(4)) {
                Ok(met) => return Ok(Guard::Met(Box::new(met))),
                Err(Missed::Refused(error)) => return Err(error),
                Err(Missed::Absent(_)) if had => return Ok(Guard::Had(file)),
                Err(Missed::Absent(_)) => {}
            }
            if !pauses.pause(until) {
                return Ok(Guard::None);
            }
        }
    }

    /// Starts brokers until one is met.
    fn start(&self) -> Result<Met, WireError> {
        let mut pauses = Pauses::new(Duration::from_millis(20), Duration::from_millis(500));
        let mut died = 0;
        loop {
            let told = start::start(self.options, self.root, self.deadline)?;
            let (met, why) = match told {
                Told::Ready(broker) => {
                    pass(Point::EnsureReady);
                    let met = self.try_until(self.deadline, &mut quick());
                    let ours = |met: Met| Met { started: met.hello.broker.incarnation == broker.incarnation, ..met };
                    (met.map(ours), None)
                }
                Told::Lost => (self.try_until(self.deadline, &mut quick()), None),
                Told::Failed(failure) if failure.error.code == ErrorCode::Draining => {
                    (self.try_once(self.share(2)), Some(start::failed(self.root, *failure)))
                }
                // It had a part of that time only, and says of the holder what its starter may not say either.
                Told::Failed(failure) if self.hurried && failure.stage == Stage::Lock => {
                    return Err(self.too_soon("the broker did not answer"));
                }
                Told::Failed(failure) => return Err(start::failed(self.root, *failure)),
                // It waits for the lock as well: what is late is its holder.
                Told::Late(None | Some(Stage::Root | Stage::Lock)) if self.is_lock_held() => {
                    return Err(self.unreachable(Missed::Absent(Absence::NoAnswer(ChannelError::Late.into()))));
                }
                Told::Late(stage) => return Err(start::late(self.root, stage)),
                Told::Died(status, stage) => {
                    died += 1;
                    (self.try_once(self.share(2)), Some(start::died(self.root, status, stage)))
                }
            };
            match met {
                Ok(met) => return Ok(met),
                Err(Missed::Refused(error)) => return Err(error),
                Err(missed @ Missed::Absent(_)) if died >= STARTS_MAX || !pauses.pause(self.deadline) => {
                    return Err(why.unwrap_or_else(|| self.unreachable(missed)));
                }
                Err(Missed::Absent(_)) => {}
            }
        }
    }

    fn unreachable(&self, missed: Missed) -> WireError {
        let absence = match missed {
            Missed::Refused(error) => return error,
            Missed::Absent(absence) => absence,
        };
        let root = self.root.path().display();
        let (reason, why) = match absence {
            Absence::NoRecord => ("no_record", format!("no broker is published in {root}")),
            Absence::DamagedRecord(why) => {
                ("damaged_record", format!("the record of the broker in {root} is damaged: {why}"))
            }
            Absence::ForeignRecord => {
                ("foreign_record", format!("the record of the broker in {root} was copied with it from another place"))
            }
            Absence::NoAnswer(HelloError::Refused(error)) => return error,
            Absence::NoAnswer(error) => ("no_answer", format!("the broker of {root} does not answer: {error}")),
        };
        if self.hurried && self.is_lock_held() {
            return self.too_soon(&why);
        }
        // Somebody has it: starting another one would not help.
        let (reason, remedy) = if self.is_lock_held() {
            ("unresponsive", "its lock is held; `ostler status` shows by whom, `ostler shutdown --force` ends that one")
        } else {
            (reason, "`ostler ensure` starts one")
        };
        WireError::new(ErrorCode::BrokerUnreachable, format!("{why}; {remedy}")).reason(reason)
    }
}

impl Search<'_> {
    /// The caller's own deadline came before the broker's time was up.
    fn too_soon(&self, why: &str) -> WireError {
        let hello_s = HELLO_WITHIN.as_secs();
        let message = format!("{why}; that was less time than hello may take ({hello_s} s), so it may only be busy");
        let error = WireError::new(ErrorCode::Timeout, message).reason("hurried");
        error.with("remedy", "the same command with a longer --timeout")
    }
}

impl Absence {
    /// What there is to tell after an earlier answer that the broker is full: the last try is cut short by the deadline, and its silence says
    /// less than that answer.
    fn after(self, full: Option<Absence>) -> Absence {
        match (self, full) {
            (Absence::NoAnswer(HelloError::Channel(ChannelError::Late)), Some(full)) => full,
            (absence, _) => absence,
        }
    }

    /// Whether a broker answered that it has no place for this connection now.
    fn is_full(&self) -> bool {
        match self {
            Absence::NoAnswer(HelloError::Refused(error)) => {
                matches!(error.code, ErrorCode::Capacity | ErrorCode::Busy)
            }
            Absence::NoRecord | Absence::DamagedRecord(_) | Absence::ForeignRecord | Absence::NoAnswer(_) => false,
        }
    }

    /// Whether nothing is on its way: nobody is published, or who was is dead. Waiting would not change it.
    fn is_certain(&self) -> bool {
        match self {
            Absence::NoRecord | Absence::DamagedRecord(_) | Absence::ForeignRecord => true,
            Absence::NoAnswer(HelloError::Channel(ChannelError::Io(error))) => {
                use std::io::ErrorKind;
                matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound)
            }
            Absence::NoAnswer(_) => false,
        }
    }
}

fn final_error(error: HelloError) -> WireError {
    let message = error.to_string();
    match error {
        HelloError::Refused(error) => error,
        HelloError::Channel(ChannelError::Peer(_)) => WireError::new(ErrorCode::Denied, message).reason("peer"),
        HelloError::Channel(_) | HelloError::Mismatch(_) => {
            WireError::new(ErrorCode::ProtocolMismatch, message).reason("foreign")
        }
    }
}
