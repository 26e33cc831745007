//! When `run` stops its session: on INT, TERM, HUP, when nobody reads its output any more, and at the deadline. The first wish asks the broker
//! to stop it with the configured grace. A stop that is under way is not hurried by another one, so the next wish ends the command itself, with
//! KILL and by its identity: its host sees that and ends the rest.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;

use nix::sys::signal::Signal;

use super::super::context::Context;
use super::super::failure::Failure;
use super::super::{duration, stop};
use crate::host::files::{self, Document, HOST_JSON};
use crate::host::wire::HostRecord;
use crate::os::deadline::Deadline;
use crate::os::interruption::Interruptions;
use crate::os::signal;
use crate::rpc::method::Method;
use crate::rpc::wire::{EndedResult, StopParams};

/// Where wishes to stop are told.
#[derive(Debug)]
pub(super) struct Wishes {
    sender: Sender<Wish>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Stop,
    /// The session has ended: nothing is left to stop.
    Over,
}

/// Whoever fulfils them.
#[derive(Debug)]
pub(super) struct Stopper {
    sender: Sender<Wish>,
    thread: JoinHandle<bool>,
}

/// What stops the session.
#[derive(Debug, Clone)]
struct Stop {
    session: String,
    /// Of the episode.
    folder: PathBuf,
    context: Context,
}

/// Begins to listen for wishes about the session.
///
/// # Errors
/// If no thread can be had.
pub(super) fn begin(
    session: &str,
    folder: &Path,
    interruptions: Interruptions,
    context: &Context,
) -> io::Result<(Wishes, Stopper)> {
    let (sender, wishes) = mpsc::channel();
    let deadline = context.globals.timeout.map(|_| context.unlimited());
    let stop = Stop { session: session.to_owned(), folder: folder.to_owned(), context: context.clone() };
    let thread = std::thread::Builder::new().name("stop".to_owned()).spawn(move || stop.fulfil(&wishes, deadline))?;
    let signals = sender.clone();
    // Let go of: it waits for signals as long as this process lives.
    drop(
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || while interruptions.next().is_ok() && signals.send(Wish::Stop).is_ok() {})?,
    );
    Ok((Wishes { sender: sender.clone() }, Stopper { sender, thread }))
}

impl Wishes {
    /// The session is to be stopped.
    pub(super) fn stop(&self) {
        // Nobody listens only when the session is over.
        let _ = self.sender.send(Wish::Stop);
    }
}

impl Stopper {
    /// The session has ended. Says whether that was in time.
    pub(super) fn end(self) -> bool {
        let _ = self.sender.send(Wish::Over);
        self.thread.join().unwrap_or(true)
    }
}

impl Stop {
    /// Listens until the session is over; says whether the deadline had not passed by then.
    fn fulfil(&self, wishes: &Receiver<Wish>, deadline: Option<Deadline>) -> bool {
        let mut asked = 0_u32;
        let mut deadline = deadline;
        let mut in_time = true;
        loop {
            let wish = match deadline {
                Some(at) => wishes.recv_timeout(at.remaining()),
                None => wishes.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match wish {
                Ok(Wish::Stop) => {}
                Ok(Wish::Over) | Err(RecvTimeoutError::Disconnected) => return in_time,
                Err(RecvTimeoutError::Timeout) => {
                    deadline = None;
                    in_time = false;
                }
            }
            asked += 1;
            if asked > 1 {
                self.kill();
                continue;
            }
            let stop = self.clone();
            // On a thread of its own, because the answer comes when the session has ended and the next wish may come first.
            if std::thread::Builder::new().name("stopping".to_owned()).spawn(move || stop.ask()).is_err() {
                self.ask();
            }
        }
    }

    fn ask(&self) {
        if let Err(Failure::Error(report)) = self.try_ask() {
            self.context.output.progress(report.render().trim_end());
        }
    }

    fn try_ask(&self) -> Result<(), Failure> {
        let grace = self.context.settings()?.stop_grace();
        let attempt = format!("stop {}", self.session);
        let mut broker = self.context.broker_until(attempt, Deadline::after(grace + stop::SLACK))?.about(&self.session);
        let (key, grace_ms) = (broker.fresh_key(), Some(duration::millis(grace)));
        let params = StopParams { key, session: self.session.clone(), grace_ms, reason: None };
        broker.change::<EndedResult>(Method::SessionStop, &params.key, &params).map(drop)
    }

    fn kill(&self) {
        let Document::Present(record) = files::read_json::<HostRecord>(&self.folder.join(HOST_JSON)) else { return };
        if let Err(error) = signal::send(&record.command, Signal::SIGKILL) {
            self.context.output.progress(&format!("ostler: the command cannot be killed: {error}"));
        }
    }
}
