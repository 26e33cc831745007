//! One broker in place of another, on the wish of a person: what `ostler upgrade` needs of find-or-start.
//!
//! Promises: while a takeover is held, clients that find no broker wait for the one that it starts, and start none themselves before half of their
//! time has passed; the lock decides all the same, so there is one broker whoever comes first.

use std::fs::File;

use super::ensure::{self, EnsureReport, GUARD_NAME};
use super::{ClientOptions, Program};
use crate::os::deadline::Deadline;
use crate::os::paths::StateRoot;
use crate::rpc::error::WireError;

/// The right to start the next broker, as far as clients heed it.
#[derive(Debug)]
pub struct Takeover<'a> {
    options: &'a ClientOptions,
    root: &'a StateRoot,
    /// None where it could not be had in time: then somebody else is starting a broker, or is stuck doing so.
    _guard: Option<File>,
}

impl<'a> Takeover<'a> {
    /// Waits for the guard, half of what is left at the most, and goes on without it then.
    pub fn begin(options: &'a ClientOptions, root: &'a StateRoot) -> Takeover<'a> {
        let until = options.deadline.at_most(options.deadline.remaining() / 2);
        Takeover { options, root, _guard: guard(root, until) }
    }

    /// Starts this program as the next broker and meets whoever is the broker then. `started` says whether it is the one that was started here.
    ///
    /// # Errors
    /// Why it did not come up.
    pub fn start(&self, program: Program, deadline: Deadline) -> Result<EnsureReport, WireError> {
        let options = ClientOptions { program, deadline, no_start: false, ..self.options.clone() };
        let met = ensure::start(&options, self.root)?;
        Ok(EnsureReport { started: met.started, broker: met.hello.broker })
    }
}

fn guard(root: &StateRoot, until: Deadline) -> Option<File> {
    let file = root.folder().open_or_create(GUARD_NAME).ok()?;
    let mut pauses = ensure::quick();
    loop {
        if fs4::FileExt::try_lock(&file).is_ok() {
            return Some(file);
        }
        if !pauses.pause(until) {
            return None;
        }
    }
}
