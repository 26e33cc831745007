//! `ostler upgrade`: the broker of this program takes the place of the one that runs, whatever its version. Sessions go on in their hosts, and clients
//! that come meanwhile wait for the next broker. Only a person's wish does this: no client replaces a broker because versions differ.
//!
//! ```text
//! read the ledger as this version would -- not understood --> nothing happens
//!    | hold back other starts
//! the broker that runs leaves in order -- it does not --> nothing changes
//!    | start this program's
//! it answers: done    -- it does not come up --> the program that ran before is started again
//! ```

use std::fs::File;
use std::time::Duration;

use serde::Serialize;

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::shutdown::{self, Wish};
use crate::broker::holder;
use crate::broker::rehearsal::rehearse;
use crate::client::takeover::Takeover;
use crate::client::{EnsureReport, Program};
use crate::os::deadline::Deadline;
use crate::os::identity::{Liveness, ProcessIdentity};
use crate::os::paths::{PathError, StateRoot};
use crate::os::process;
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::wire::Broker;

/// Let the broker of this program take over; sessions go on
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// End a broker that does not answer or does not leave, after checking that it is the owner of the lock
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct Document {
    /// The broker that has left; null where none ran or none answered.
    replaced: Option<Broker>,
    /// Whether its process was ended by force.
    forced: bool,
    /// The broker now.
    broker: Broker,
}

const ATTEMPT: &str = "upgrade the broker";
/// How long all of it may take.
const WITHIN: Duration = Duration::from_secs(60);

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let path = context.root_path(ATTEMPT)?;
    let deadline = context.bounded(WITHIN);
    let failed = |error: WireError| Failure::new(ATTEMPT, error);
    let refused = |error: PathError| failed(WireError::from(error));
    let document = match StateRoot::open(&path).map_err(refused)? {
        Some(root) => take_over(&root, args, context, deadline).map_err(failed)?,
        None => {
            let found = context.broker_until(ATTEMPT, deadline)?;
            Document { replaced: None, forced: false, broker: found.client.hello().broker.clone() }
        }
    };
    context.output.either(&document, |document| {
        let now = &document.broker;
        let now = format!("pid {}  generation {}  version {}", now.pid, now.generation, now.version);
        match &document.replaced {
            Some(before) => format!("{now}  in place of pid {}, version {}\n", before.pid, before.version),
            None => format!("{now}\n"),
        }
    })?;
    Ok(Exit::Done)
}

fn take_over(root: &StateRoot, args: &Args, context: &Context, deadline: Deadline) -> Result<Document, WireError> {
    rehearse(root).map_err(|error| error.with("changed", "nothing; the broker that runs goes on"))?;
    let options = context.options_of(root.path().to_owned(), deadline);
    let takeover = Takeover::begin(&options, root);
    let before = Before::of(root);
    // A part is kept for the start, and for the way back.
    let leave_by = deadline.at_most(deadline.remaining() / 2);
    let wish = Wish { stop_sessions: false, force: args.force };
    let left = shutdown::end(root, wish, context, leave_by)?;
    let (replaced, forced) = (left.broker, left.forced);
    match takeover.start(Program::Own, deadline.at_most(deadline.remaining() * 2 / 3)) {
        Ok(EnsureReport { started: true, broker }) => Ok(Document { replaced, forced, broker }),
        Ok(EnsureReport { broker, .. }) => Err(overtaken(&broker)),
        Err(error) => Err(back(error, before, &takeover, deadline)),
    }
}

/// Whoever started another broker by hand in that very moment was first.
fn overtaken(broker: &Broker) -> WireError {
    let message = format!("another broker was started meanwhile: pid {}, version {}", broker.pid, broker.version);
    let error = WireError::new(ErrorCode::Busy, message).reason("overtaken");
    error.with("changed", "the broker that ran before has left").with("remedy", "ostler upgrade")
}

/// The program of the broker that runs, kept open so that it can be started again even if its file is gone by then.
struct Before {
    image: File,
    version: String,
}

impl Before {
    fn of(root: &StateRoot) -> Option<Before> {
        let owner = holder::lock_state(root).ok()?.owner?;
        let identity = ProcessIdentity { boot: owner.boot, ns: owner.ns, pid: owner.pid, start: owner.start };
        let image = process::image(owner.pid).ok()?;
        // Looked at after it was opened: the number was not given to another process in between.
        (identity.liveness() == Liveness::Alive).then_some(Before { image, version: owner.version })
    }
}

/// This program's broker did not come up: the one that ran before runs again, if it can.
fn back(error: WireError, before: Option<Before>, takeover: &Takeover<'_>, deadline: Deadline) -> WireError {
    let Some(Before { image, version }) = before else {
        return error.with("changed", "the broker that ran before has left; any client starts the next one");
    };
    match takeover.start(Program::File(process::image_path(&image)), deadline) {
        Ok(EnsureReport { broker, .. }) => {
            let now = format!("version {} runs again: pid {}, generation {}", version, broker.pid, broker.generation);
            error.with("changed", now)
        }
        Err(second) => {
            let message =
                format!("{}; version {version} could not be started again either: {}", error.message, second.message);
            let error = WireError { message, ..error };
            error.with("changed", "no broker runs; any client starts the next one, and sessions go on")
        }
    }
}
