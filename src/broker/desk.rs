//! The turn's thread: takes what waits, runs one turn, hands out what leaves. Plain and synchronous; it wakes only for
//! mail. A round takes its time as a value and reaches the world through the `World` alone, so that the simulation runs
//! this very code.

use super::inbox::{Post, TURN_INPUTS, Written};
use super::outbox::Outbox;
use super::retiring::{Order, Retirement};
use super::snapshot::Snapshot;
use super::turn::{Fatal, Release, Told, Turn};
use super::view::View;
use crate::machine::{Effect, Hand, Input, SessionId, Time, Word, next_deadline};
use crate::os::clock;
use ostler_ledger::{Entry, RetireError, SnapshotError, Storage};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};

/// After a failed write, how long until what must not be lost is written again, in milliseconds.
const REWRITE_MS: u64 = 1_000;

/// Who wants to know what came of a retirement.
type Retiring = oneshot::Sender<Result<Retirement, RetireError>>;

/// What the turn hands to the world.
pub trait World {
    /// Where the answer to a request goes.
    type Ticket;
    /// Whether this broker still owns its root. Asked before effects leave (design 3.1).
    fn owns_root(&mut self) -> bool;
    /// Starts an effect; its answer comes back as mail.
    fn perform(&mut self, effect: Effect);
    /// Begins to write a snapshot, on another thread; what came of it comes back as mail.
    ///
    /// # Errors
    /// There is no thread for it.
    fn store(&mut self, snapshot: Snapshot) -> io::Result<()>;
    /// Hands an answer on. Whoever has gone away finds its outcome by its key.
    fn tell(&mut self, ticket: Self::Ticket, told: Told);
}

/// Why the turn ended before it was closed.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The ledger cannot be trusted any more.
    #[error(transparent)]
    Fatal(#[from] Fatal),
    /// Another broker owns the root, or its lock was replaced: this one may touch nothing any more.
    #[error("the root's lock or its discovery record belongs to another broker")]
    Fenced,
}

/// Reading both clocks, once a turn.
pub fn now() -> Time {
    Time { wall_us: clock::wall_us(), boot_us: clock::boot_us() }
}

/// The desk: the turn, its mail, and what is under way.
#[derive(Debug)]
pub struct Desk<S: Storage, W: World> {
    turn: Turn<S, W::Ticket>,
    view: Arc<View>,
    outbox: Outbox,
    world: W,
    deadline: watch::Sender<Option<u64>>,
    degraded: watch::Sender<Option<String>>,
    /// Words of the world that the disk would not take. The world does not repeat itself, so they are kept.
    unwritten: Vec<Input>,
    /// Sessions whose effect was answered by such words.
    answered: Vec<(SessionId, Hand)>,
    /// A snapshot is being written.
    storing: bool,
}

/// One round's mail.
struct Taken<T> {
    inputs: Vec<(Input, Option<T>)>,
    /// Who wants to know when the beats in it are durable.
    beats: Vec<oneshot::Sender<()>>,
    /// Records of the ledger's own.
    own: Vec<(Vec<Entry>, Written)>,
    /// What is to be retired.
    orders: Vec<(Order, Retiring)>,
    /// Sessions whose effect was answered.
    answered: Vec<(SessionId, Hand)>,
    /// Whether the ledger's file is to be looked at.
    looks: bool,
    /// Nothing comes after it.
    last: bool,
}

impl<S: Storage, W: World> Desk<S, W> {
    /// A desk for this turn.
    pub fn new(
        turn: Turn<S, W::Ticket>,
        world: W,
        deadline: watch::Sender<Option<u64>>,
        degraded: watch::Sender<Option<String>>,
    ) -> Self {
        let view = turn.view();
        Self {
            turn,
            view,
            outbox: Outbox::default(),
            world,
            deadline,
            degraded,
            unwritten: Vec::new(),
            answered: Vec::new(),
            storing: false,
        }
    }

    /// As [`Turn::tickets`].
    #[cfg(test)]
    pub(super) fn tickets(&self) -> usize {
        self.turn.tickets()
    }

    /// Works until the mail is closed. Returns the turn, so that its ledger can be closed.
    ///
    /// # Errors
    /// [`Ended`]: nothing may leave any more.
    pub fn work(mut self, mut mail: mpsc::Receiver<Post<W::Ticket>>) -> Result<Turn<S, W::Ticket>, Ended> {
        self.begin(now())?;
        // Kept from round to round: it would be a large allocation in each.
        let mut posts = Vec::new();
        while mail.blocking_recv_many(&mut posts, TURN_INPUTS) > 0 && !self.round(now(), &mut posts)? {}
        self.wait_stored(&mut mail);
        let last = self.turn.snapshot(true);
        self.store(last);
        self.wait_stored(&mut mail);
        Ok(self.turn)
    }

    /// Two snapshots are never written at once, and none while another process may own the ledger.
    fn wait_stored(&mut self, mail: &mut mpsc::Receiver<Post<W::Ticket>>) {
        while self.storing
            && let Some(post) = mail.blocking_recv()
        {
            if let Post::Stored(stored) = post {
                self.stored(stored);
            }
        }
    }

    fn store(&mut self, snapshot: Option<Snapshot>) {
        let Some(snapshot) = snapshot else { return };
        match self.world.store(snapshot) {
            Ok(()) => self.storing = true,
            Err(error) => tracing::warn!(%error, "no snapshot is taken"),
        }
    }

    fn stored(&mut self, stored: Result<u64, SnapshotError>) {
        self.storing = false;
        match stored {
            Ok(bytes) => {
                tracing::info!(bytes, "a snapshot was taken");
                self.turn.snapshot_has(bytes);
            }
            Err(error) => {
                tracing::warn!(%error, "no snapshot was taken");
                if let SnapshotError::TooLong { bytes } = error {
                    self.turn.snapshot_has(bytes);
                }
            }
        }
    }

    /// Releases what is owed from before this generation.
    ///
    /// # Errors
    /// [`Ended::Fenced`]: nothing may leave.
    pub fn begin(&mut self, now: Time) -> Result<(), Ended> {
        self.turn.serve();
        let owed = self.turn.outstanding().into_iter();
        let owed = owed.map(|effect| (effect.session().clone(), effect.hand(), Some(effect))).collect();
        self.release(owed)?;
        self.announce(now);
        Ok(())
    }

    /// One turn, which takes all of `posts`. Tells whether it was the last.
    ///
    /// # Errors
    /// [`Ended`]: nothing may leave any more.
    pub fn round(&mut self, now: Time, posts: &mut Vec<Post<W::Ticket>>) -> Result<bool, Ended> {
        let Taken { inputs, beats, own, orders, answered, looks, last } = self.take(posts);
        let words: Vec<_> = inputs.iter().filter(|(input, _)| matches!(input, Input::Observation(_))).collect();
        let words: Vec<_> = words.into_iter().map(|(input, _)| input.clone()).collect();
        let mut owed = Vec::new();
        let (mut failure, mut lost) = (None, false);
        let world = &mut self.world;
        let head_seq = self.view.head().seq;
        self.turn.run(
            now,
            inputs,
            &mut |release| match release {
                Release::Answer(ticket, told) => world.tell(ticket, told),
                Release::Owed(session, hand, effect) => owed.push((session, hand, effect)),
            },
            &mut |failed| {
                lost |= failed.words;
                failure = Some(failed.error.to_string());
            },
        )?;
        if lost {
            self.unwritten = words;
            self.answered.clone_from(&answered);
        } else {
            answered.iter().for_each(|(session, hand)| self.outbox.written(session, *hand));
        }
        if failure.is_none() {
            // Whoever waited for the beat may have given up.
            beats.into_iter().for_each(|done| {
                let _ = done.send(());
            });
        }
        self.record(now, own)?;
        self.retire(now, orders)?;
        // A turn without records says nothing of the disk.
        if failure.is_some() || self.view.head().seq != head_seq {
            self.degrade(failure.or_else(|| self.turn.short()));
        }
        if looks && let Err(error) = self.turn.stands() {
            self.degrade(Some(error.to_string()));
        }
        owed.extend(answered.into_iter().map(|(session, hand)| {
            let effect = self.turn.owed(&session, hand);
            (session, hand, effect)
        }));
        if !last {
            self.release(owed)?;
            if !self.storing {
                let snapshot = self.turn.snapshot(false);
                self.store(snapshot);
            }
        }
        self.announce(now);
        Ok(last)
    }

    /// Takes down why the ledger does not take records, or that it does.
    fn degrade(&self, failure: Option<String>) {
        self.degraded.send_if_modified(|known| {
            let changed = *known != failure;
            match &failure {
                Some(why) if changed => {
                    tracing::error!(why, "the ledger does not take records; tried again every second")
                }
                None if changed => tracing::info!("the ledger takes records again"),
                Some(_) | None => {}
            }
            *known = failure;
            changed
        });
    }

    fn record(&mut self, now: Time, own: Vec<(Vec<Entry>, Written)>) -> Result<(), Ended> {
        for (entries, done) in own {
            let written = self.turn.record(now, &entries)?;
            // Whoever waited for it may have given up.
            drop(done.send(written));
        }
        Ok(())
    }

    fn retire(&mut self, now: Time, orders: Vec<(Order, Retiring)>) -> Result<(), Ended> {
        for (order, done) in orders {
            let retired = self.turn.retire(now, &order)?;
            drop(done.send(retired));
        }
        Ok(())
    }

    /// What the mail asks of the turn, after what could not be written before.
    fn take(&mut self, posts: &mut Vec<Post<W::Ticket>>) -> Taken<W::Ticket> {
        let kept = std::mem::take(&mut self.unwritten);
        let mut inputs = Vec::with_capacity(kept.len() + posts.len());
        inputs.extend(kept.into_iter().map(|input| (input, None)));
        let (mut beats, mut own, mut orders) = (Vec::new(), Vec::new(), Vec::new());
        let mut answered = std::mem::take(&mut self.answered);
        let (mut looks, mut last) = (false, false);
        for post in posts.drain(..) {
            match post {
                Post::Request(request, reply) => inputs.push((Input::Request(request), Some(reply))),
                Post::Word { observation, answers } => {
                    if answers {
                        let hand = hand_of(&observation.word);
                        self.outbox.answered(&observation.session, hand);
                        answered.push((observation.session.clone(), hand));
                    }
                    inputs.push((Input::Observation(observation), None));
                }
                Post::Pull(session, messages, reply) => inputs.push((Input::Pull { session, messages }, Some(reply))),
                Post::Again(session, hand) => {
                    self.outbox.again(&session, hand);
                    answered.push((session, hand));
                }
                Post::Beat(seen, done) => {
                    inputs.push((Input::Beat { seen, whole: false }, None));
                    beats.extend(done);
                }
                Post::Own(entries, done) => own.push((entries, done)),
                Post::Retire(order, done) => orders.push((order, done)),
                Post::Probe => inputs.push((Input::Beat { seen: BTreeMap::new(), whole: true }, None)),
                Post::Look => looks = true,
                Post::Stored(stored) => self.stored(stored),
                Post::Tick => inputs.push((Input::Tick, None)),
                Post::Close => last = true,
            }
        }
        Taken { inputs, beats, own, orders, answered, looks, last }
    }

    fn release(&mut self, owed: Vec<(SessionId, Hand, Option<Effect>)>) -> Result<(), Ended> {
        for (session, hand, effect) in owed {
            if let Some(effect) = self.outbox.owed(&session, hand, effect) {
                if !self.world.owns_root() {
                    return Err(Ended::Fenced);
                }
                self.world.perform(effect);
            }
        }
        Ok(())
    }

    fn announce(&self, now: Time) {
        let again = (!self.unwritten.is_empty()).then(|| now.boot_after_ms(REWRITE_MS));
        let next = again.or_else(|| next_deadline(&self.view.read(), now));
        self.deadline.send_if_modified(|known| {
            let changed = *known != next;
            *known = next;
            changed
        });
    }
}

/// To which kind of work a word is the answer.
fn hand_of(word: &Word) -> Hand {
    match word {
        Word::Mail { .. } => Hand::Mail,
        Word::Interrupted { .. } => Hand::Signal,
        Word::Started(_)
        | Word::LaunchFailed { .. }
        | Word::NeverOpened
        | Word::Exited { .. }
        | Word::HostLost
        | Word::MachineLost
        | Word::Adopted(_)
        | Word::Foreign { .. }
        // It answers nothing that was owed.
        | Word::Turn { .. }
        | Word::Ready
        | Word::Removed => Hand::Life,
    }
}
