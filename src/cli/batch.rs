//! Commands over several sessions: each is its own operation with its own outcome and its own document; a failure of one hinders no other;
//! the exit code is that of the worst. Several run at a time, because each may wait for a grace to pass; they are shown in the order in which
//! they were named.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};

use serde::Serialize;

use super::args::{self, Selection};
use super::context::{Broker, Context};
use super::exit::Exit;
use super::failure::Failure;
use super::list;
use crate::rpc::wire::{Key, ListParams, Session};

/// How many are under way at a time, each on its own connection.
const WORKERS: usize = 8;

/// The sessions of a selection, as names for the broker. By label only those that `wanted` lets through.
///
/// # Errors
/// What the list answers.
pub(crate) fn select(
    broker: &mut Broker,
    selection: &Selection,
    wanted: impl Fn(&Session) -> bool,
) -> Result<Vec<String>, Failure> {
    if selection.labels.is_empty() {
        return Ok(selection.sessions.clone());
    }
    let labels = args::label_map(&selection.labels).map_err(|error| broker.failure(error))?;
    let found = list::whole(broker, &ListParams { all: true, labels, ..ListParams::default() })?;
    Ok(found.into_iter().filter(|session| wanted(session)).map(|session| session.id).collect())
}

/// What is done with each session of a batch.
pub(crate) struct Batch<'a, D, S> {
    pub(crate) context: &'a Context,
    /// What is tried, for failures of the batch as a whole.
    pub(crate) attempt: &'a str,
    pub(crate) sessions: &'a [String],
    /// The key that the caller gave.
    pub(crate) key: Option<&'a Key>,
    /// Does it for one session.
    pub(crate) one: D,
    /// Its outcome as text.
    pub(crate) show: S,
}

impl<D, R, S> Batch<'_, D, S>
where
    D: Fn(&mut Broker, &str, Key) -> Result<R, Failure> + Sync,
    R: Serialize + Send,
    S: Fn(&R) -> String + Sync,
{
    /// Does it for each session, shows each outcome, and says how the worst ended.
    ///
    /// # Errors
    /// One key for several sessions is refused before anything is done; a reader that has gone ends the batch.
    pub(crate) fn run(&self, broker: Broker) -> Result<Exit, Failure> {
        if self.key.is_some() && self.sessions.len() > 1 {
            let message = "one key names one operation on one session; leave --key out, or name one session";
            return Err(Failure::invalid(self.attempt, "key", message));
        }
        if self.sessions.is_empty() {
            self.context.output.progress("ostler: no session has these labels; nothing was done");
        }
        let next = AtomicUsize::new(0);
        let first = Mutex::new(Some(broker));
        let (results, outcomes) = mpsc::channel();
        std::thread::scope(|scope| {
            let begun = (0..WORKERS.min(self.sessions.len())).take_while(|_| {
                let results = results.clone();
                let worker = std::thread::Builder::new();
                worker.spawn_scoped(scope, || self.work(&next, &first, results)).is_ok()
            });
            // Where the system has no thread left, ending sessions is what helps: then they are taken one by one here.
            if begun.count() == 0 {
                self.work(&next, &first, results.clone());
            }
            drop(results);
            let shown = self.show_all(outcomes);
            // Nobody reads any more: what has not begun does not begin.
            next.store(usize::MAX / 2, Ordering::Relaxed);
            shown
        })
    }

    fn work(
        &self,
        next: &AtomicUsize,
        first: &Mutex<Option<Broker>>,
        results: mpsc::Sender<(usize, Result<R, Failure>)>,
    ) {
        let mut broker = first.lock().unwrap_or_else(PoisonError::into_inner).take();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(session) = self.sessions.get(index) else { return };
            let outcome = self.with(&mut broker, session);
            if results.send((index, outcome)).is_err() {
                return;
            }
        }
    }

    fn with(&self, broker: &mut Option<Broker>, session: &str) -> Result<R, Failure> {
        let broker = match broker {
            Some(broker) => broker,
            None => broker.insert(self.context.broker(self.attempt)?),
        };
        let key = self.key.cloned().unwrap_or_else(|| broker.fresh_key());
        (self.one)(broker, session, key)
    }

    /// Shows the outcomes in the order of the sessions, each as soon as all before it are shown.
    fn show_all(&self, outcomes: mpsc::Receiver<(usize, Result<R, Failure>)>) -> Result<Exit, Failure> {
        let mut worst = Exit::Done;
        let mut early = BTreeMap::new();
        let mut shown = 0;
        for (index, outcome) in outcomes {
            early.insert(index, outcome);
            while let Some(outcome) = early.remove(&shown) {
                shown += 1;
                match outcome {
                    Ok(result) => self.context.output.either(&result, &self.show)?,
                    Err(Failure::Error(report)) => {
                        worst = worst.max(report.exit());
                        self.context.output.error(&report)?;
                    }
                    Err(closed @ Failure::OutputClosed) => return Err(closed),
                }
            }
        }
        Ok(worst)
    }
}
