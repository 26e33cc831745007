//! The turn: one pass of the single writer (laws 1, 3, 5, 6). Decide and apply each input on the working state, write
//! all records with one append and one sync, publish to the view, and only then let answers and effects go.
//!
//! ```text
//! inputs -> decide, apply (working state) -> append, sync (ledger) -> publish (view) -> answers, owed effects
//!                                     \-- write failed: undo, refuse --/
//! ```
//! A failed write changes nothing and is answered as such. A failed sync ends the broker: nothing may leave any more,
//! and the callers' keys settle their operations with the next broker.

use super::codec::{self, session_of, touched};
use super::fold::{self, FoldError, Folded};
#[cfg(feature = "testing")]
pub use super::planted::Planted;
use super::reserve::Need;
use super::snapshot::{FOLD, Snapshot};
pub use super::told::{Release, Told};
use super::view::{Head, View};
use crate::machine::limits::Retention;
use crate::machine::{
    Answer, At, Decision, Digest, Effect, Event, Generation, Hand, Input, Observation, OperationId, Outcome, Scope,
    Session, SessionChange, SessionId, State, Time, Word, apply, decide, follow, news, outstanding, owed,
};
use ostler_ledger::{AppendError, Entry, Ledger, Options, Recovery, Stamp, Storage, SyncError, turns_of};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Records of one append stay below this many bytes; more inputs wait for the next append of the same turn.
pub const BATCH_BYTES: usize = 192 * 1024;
/// Conflict records that wait for a turn that syncs anyway. Of more than that there is no record.
const CONFLICTS_KEPT: usize = 64;

/// Why a broker cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Fatal {
    /// What was written may not be on disk; nothing may be acknowledged any more.
    #[error("the ledger could not be synced: {0}")]
    Sync(#[from] SyncError),
}

/// Why a generation could not begin.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// Its record could not be written.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// Its record could not be synced.
    #[error(transparent)]
    Sync(#[from] SyncError),
}

impl From<Fatal> for BeginError {
    fn from(fatal: Fatal) -> Self {
        let Fatal::Sync(error) = fatal;
        Self::Sync(error)
    }
}

/// The single writer.
#[derive(Debug)]
pub struct Turn<S: Storage, T> {
    pub(super) ledger: Ledger<S>,
    pub(super) state: State,
    pub(super) view: Arc<View>,
    waiting: HashMap<OperationId, Vec<(T, bool)>>,
    conflicts: Vec<Event>,
    /// Sessions whose records are damaged: fenced when the generation begins.
    pub(super) doubtful: BTreeSet<SessionId>,
    /// The start is over.
    pub(super) serving: bool,
    /// Why what was begun may not all be brought to its end on this disk, if so.
    pub(super) short: Option<String>,
    /// The length of the last snapshot.
    snapshot_bytes: u64,
    #[cfg(feature = "testing")]
    pub(super) planted: Planted,
}

/// A write that changed nothing.
#[derive(Debug)]
pub struct Failed {
    /// Why.
    pub error: AppendError,
    /// Whether words of the world were in it, which must not be lost.
    pub words: bool,
}

/// An input, whose it is, and what is to be answered.
pub(super) type Asked<T> = (Input, Option<T>, Answer);

/// What one append will hold, and whom it concerns.
pub(super) struct Batch<T> {
    entries: Vec<Entry>,
    events: Vec<Event>,
    bytes: usize,
    /// What was asked, by whom, and what is to be answered.
    pub(super) inputs: Vec<Asked<T>>,
    pub(super) need: Need,
    pub(super) gone: HashMap<SessionId, Arc<Session>>,
    pub(super) first_seq: u64,
}

impl<S: Storage, T> Turn<S, T> {
    /// Opens the ledger and folds it, beginning with a snapshot if there is one. The view is complete when this returns.
    /// `storage` gives a door to the ledger.
    ///
    /// # Errors
    /// As [`fold::open`].
    pub fn open(
        storage: impl Fn() -> S,
        options: &Options,
        retention: Retention,
    ) -> Result<(Self, Recovery), FoldError> {
        let (ledger, recovery, folded) = fold::open(storage, options, retention)?;
        let Folded { mut state, doubtful, snapshot_bytes, unlike: _ } = folded;
        let view = Arc::new(View::default());
        view.publish(&mut state, head_of(&ledger));
        let mut turn = Self {
            ledger,
            state,
            view,
            waiting: HashMap::new(),
            conflicts: Vec::new(),
            doubtful,
            serving: false,
            short: None,
            snapshot_bytes,
            #[cfg(feature = "testing")]
            planted: Planted::default(),
        };
        turn.keep_room();
        Ok((turn, recovery))
    }

    /// A snapshot of now, if one is due; as the last one if nothing will be written any more. Called between two turns.
    pub fn snapshot(&mut self, last: bool) -> Option<Snapshot> {
        // Half as much behind it as it is long: all of them together are no longer than the ledger twice, however long each is, and what a
        // start after a crash folds is bounded by the state.
        if !last && self.ledger.behind_snapshot() < self.snapshot_bytes / 2 {
            return None;
        }
        let draft = self.ledger.draft_snapshot(&FOLD).ok()?;
        let state = self.state.clone();
        #[cfg(feature = "testing")]
        let state = self.planted.stored(state);
        Some(Snapshot { draft, state, doubtful: self.doubtful.clone() })
    }

    /// The last snapshot has, or would have had, so many bytes.
    pub fn snapshot_has(&mut self, bytes: u64) {
        self.snapshot_bytes = bytes;
    }

    /// Plants faults of ours.
    #[cfg(feature = "testing")]
    pub fn plant(&mut self, planted: Planted) {
        self.planted = planted;
    }

    /// The readers' side.
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.view)
    }

    /// The generation of the last broker; the next one's number is larger by one.
    pub fn last_generation(&self) -> u64 {
        self.state.generation
    }

    /// The ledger's id.
    pub fn ledger_id(&self) -> &str {
        self.ledger.id()
    }

    /// Whether what is written could be found under its name.
    ///
    /// # Errors
    /// As [`Ledger::stands`].
    pub fn stands(&self) -> Result<(), AppendError> {
        self.ledger.stands()
    }

    /// How many answers are owed to somebody who waits for an outcome.
    #[cfg(test)]
    pub(super) fn tickets(&self) -> usize {
        self.waiting.values().map(Vec::len).sum()
    }

    /// How often the ledger has synced.
    pub fn syncs(&self) -> u64 {
        self.ledger.sync_count()
    }

    /// The ledger itself, to close it.
    pub fn into_ledger(self) -> Ledger<S> {
        self.ledger
    }

    /// Begins a generation: what the recovery owes, the generation's record, fences for sessions whose records are
    /// damaged; synced.
    ///
    /// # Errors
    /// What the ledger says. Nothing has been released.
    pub fn begin(&mut self, now: Time, recovery: &Recovery, generation: Generation) -> Result<(), BeginError> {
        let stamp = Stamp { at_us: now.wall_us, mono_us: now.boot_us, bg: generation.number };
        for owed in turns_of(&recovery.owed) {
            self.ledger.append_keeping(owed, &stamp, Need::Ends.leaves(&self.state))?;
            self.ledger.sync()?;
        }
        let fences = self.doubtful.iter().cloned().filter_map(|session| {
            let episode = self.state.sessions.get(&session)?.episode;
            let word = Word::Foreign { reason: "its records in the ledger are damaged".to_owned() };
            Some((Input::Observation(Observation { session, episode, word }), None))
        });
        let mut inputs = vec![(Input::Generation(generation), None)];
        inputs.extend(fences);
        let mut refused = None;
        self.run(now, inputs, &mut |_| {}, &mut |failed| refused = Some(failed))?;
        refused.map_or(Ok(()), |failed: Failed| Err(failed.error.into()))
    }

    /// Everything owed now, for the start of a generation.
    pub fn outstanding(&self) -> Vec<Effect> {
        #[cfg(feature = "testing")]
        if self.planted.forget_owed {
            return Vec::new();
        }
        outstanding(&self.state).into_iter().map(|effect| self.unasked(effect)).collect()
    }

    /// One turn. `release` gets what may leave, in order; `failed` learns of a write that changed nothing. On a full disk what
    /// ends something is written without what begins something.
    ///
    /// # Errors
    /// [`Fatal`]: nothing may leave any more and the process must end.
    pub fn run(
        &mut self,
        now: Time,
        inputs: Vec<(Input, Option<T>)>,
        release: &mut dyn FnMut(Release<T>),
        failed: &mut dyn FnMut(Failed),
    ) -> Result<(), Fatal> {
        let mut batch = self.batch(inputs.len());
        for (input, ticket) in inputs {
            #[cfg(feature = "testing")]
            let input = self.planted.input(&self.state, input);
            #[cfg(feature = "testing")]
            self.planted.before(&mut self.state, &input);
            let seq = batch.first_seq + u64::try_from(batch.events.len()).unwrap_or(u64::MAX);
            let Decision { events, answer } = decide(&self.state, now, seq, &input);
            if events.iter().all(|event| matches!(event, Event::Conflict { .. })) {
                self.conflicts.extend(events);
                self.conflicts.truncate(CONFLICTS_KEPT);
            } else {
                batch.need = batch.need.max(Need::of(&input, self.serving));
                self.work_through(&mut batch, events, asked_by(&input), now);
            }
            batch.inputs.push((input, ticket, answer));
            if batch.bytes > BATCH_BYTES {
                let full = std::mem::replace(&mut batch, self.batch(0));
                self.commit(now, full, release, failed)?;
                batch.first_seq = self.ledger.next_seq();
            }
        }
        self.commit(now, batch, release, failed)
    }

    /// Writes records of the ledger's own, which change nothing in the state; synced. What the ledger refuses is not written.
    ///
    /// # Errors
    /// [`Fatal`]: nothing may leave any more and the process must end.
    pub fn record(
        &mut self,
        now: Time,
        entries: &[Entry],
    ) -> Result<Result<ostler_ledger::Position, AppendError>, Fatal> {
        let stamp = Stamp { at_us: now.wall_us, mono_us: now.boot_us, bg: self.state.generation };
        for turn in turns_of(entries) {
            if let Err(error) = self.ledger.append(turn, &stamp) {
                return Ok(Err(error));
            }
            self.ledger.sync()?;
            self.view.publish(&mut self.state, head_of(&self.ledger));
        }
        Ok(Ok(self.ledger.head()))
    }

    fn batch(&self, inputs: usize) -> Batch<T> {
        // Most requests come to two records.
        Batch {
            entries: Vec::with_capacity(2 * inputs),
            events: Vec::with_capacity(2 * inputs),
            bytes: 0,
            inputs: Vec::with_capacity(inputs),
            need: Need::default(),
            gone: HashMap::new(),
            first_seq: self.ledger.next_seq(),
        }
    }

    /// Works events, and what follows from them: what others are told of them, and what becomes of the messages of all who are concerned.
    fn work_through(&mut self, batch: &mut Batch<T>, events: Vec<Event>, by: Option<&Scope>, now: Time) {
        let mut from = batch.events.len();
        let news = self.work(batch, events, by, now);
        self.work(batch, news, None, now);
        if self.state.lanes.is_empty() {
            return;
        }
        let mut concerned = touched(&batch.events[from..]);
        while let Some(session) = concerned.pop_first() {
            from = batch.events.len();
            let events = follow(&self.state, now, &session);
            let news = self.work(batch, events, None, now);
            self.work(batch, news, None, now);
            concerned.extend(touched(&batch.events[from..]));
        }
    }

    /// Applies events to the working state and adds them to the batch. Gives back what others are to be told of them.
    fn work(&mut self, batch: &mut Batch<T>, events: Vec<Event>, by: Option<&Scope>, now: Time) -> Vec<Event> {
        let mut told = Vec::new();
        for event in events {
            told.extend(news(&self.state, &event, by));
            if let Event::Session { sid, body, .. } = &event
                && matches!(body, SessionChange::Removed | SessionChange::Forgotten | SessionChange::Aborted)
                && let Some(session) = self.state.sessions.get(sid)
            {
                batch.gone.insert(sid.clone(), Arc::clone(session));
            }
            let seq = batch.first_seq + u64::try_from(batch.events.len()).unwrap_or(u64::MAX);
            let applied = apply(&mut self.state, &event, At { seq, time: now });
            assert_eq!(applied, Ok(()), "decide emits only what apply takes: {event:?}");
            let (entry, bytes) = codec::entry(&event);
            batch.bytes += bytes;
            batch.entries.push(entry);
            batch.events.push(event);
        }
        told
    }

    /// Marks the last record of every session that is gone with its files: the ledger may forget its chain. Nothing
    /// names such a session again.
    fn end_chains(&self, batch: &mut Batch<T>) {
        let mut ended = BTreeSet::new();
        for (event, entry) in batch.events.iter().zip(&mut batch.entries).rev() {
            let Some(sid) = session_of(event) else { continue };
            let gone = self.state.sessions.get(sid).is_none() && self.state.removals.get(sid).is_none();
            entry.fin = gone && ended.insert(sid);
        }
    }

    fn commit(
        &mut self,
        now: Time,
        mut batch: Batch<T>,
        release: &mut dyn FnMut(Release<T>),
        failed: &mut dyn FnMut(Failed),
    ) -> Result<(), Fatal> {
        if batch.events.is_empty() {
            let told = self.answers(std::mem::take(&mut batch.inputs), &batch);
            told.into_iter().for_each(|(ticket, told)| release(Release::Answer(ticket, told)));
            return Ok(());
        }
        let conflicts = std::mem::take(&mut self.conflicts);
        self.work(&mut batch, conflicts, None, now);
        self.end_chains(&mut batch);
        #[cfg(feature = "testing")]
        if self.planted.reply_before_sync {
            let told = self.told(&mut batch);
            self.let_out(told, &batch, release);
        }
        let stamp = Stamp { at_us: now.wall_us, mono_us: now.boot_us, bg: self.state.generation };
        let keep = batch.need.leaves(&self.state);
        let positions = match self.ledger.append_keeping(&batch.entries, &stamp, keep) {
            Ok(positions) => positions,
            Err(error) => return self.undone(now, batch, error, release, failed),
        };
        self.ledger.sync()?;
        super::passed::recorded(&batch.events);
        for ((seq, event), position) in (batch.first_seq..).zip(&batch.events).zip(&positions) {
            assert_eq!(seq, position.seq, "the ledger gives the positions it announced");
            self.state.stamp(event, Digest(position.digest.0));
            fold::settled(event).into_iter().for_each(|session| drop(self.doubtful.take(session)));
        }
        #[cfg(feature = "testing")]
        self.planted.recorded(&mut self.state, &batch.events);
        // Whoever is told gets the operation as it is now: closing the turn may let it go.
        let told = self.told(&mut batch);
        self.state.close(now);
        self.view.publish(&mut self.state, head_of(&self.ledger));
        self.let_out(told, &batch, release);
        self.keep_room();
        Ok(())
    }

    /// What this batch tells: to its own callers, and to those whose operation it settled.
    fn told(&mut self, batch: &mut Batch<T>) -> Vec<(T, Told)> {
        let mut told = self.answers(std::mem::take(&mut batch.inputs), batch);
        for event in &batch.events {
            let id = match event {
                Event::Finish { op, .. } => *op,
                Event::Operator { body, .. } => body.operation,
                Event::Generation { .. }
                | Event::Accept { .. }
                | Event::Host { .. }
                | Event::Session { .. }
                | Event::Fence { .. }
                | Event::Message { .. }
                | Event::Queue { .. }
                | Event::Notice { .. }
                | Event::Beat { .. }
                | Event::Conflict { .. } => continue,
            };
            let waiting = self.waiting.remove(&id).unwrap_or_default();
            told.extend(waiting.into_iter().filter_map(|(ticket, replayed)| {
                let settled = self.settled(id, replayed, &batch.gone)?;
                Some((ticket, settled))
            }));
        }
        told
    }

    /// What can be answered at once; the rest waits for its operation.
    pub(super) fn answers(&mut self, inputs: Vec<Asked<T>>, batch: &Batch<T>) -> Vec<(T, Told)> {
        let mut told = Vec::new();
        for (_, ticket, answer) in inputs {
            let Some(ticket) = ticket else { continue };
            let answer = match answer {
                Answer::Nothing => continue,
                Answer::Refused(refusal) => Told::Refused(refusal),
                Answer::Prepare { session, episode } => Told::Prepare { session, episode },
                Answer::Recall(footprints) => Told::Recall(footprints),
                Answer::Look { session } => Told::Look { session },
                Answer::Store { session } => Told::Store { session },
                Answer::Pulled => Told::Pulled,
                Answer::Recalled(operation) => Told::Settled { operation, replayed: true, gone: None },
                Answer::Operation { id, replayed } => match self.settled(id, replayed, &batch.gone) {
                    Some(settled) => settled,
                    None => {
                        self.waiting.entry(id).or_default().push((ticket, replayed));
                        continue;
                    }
                },
            };
            told.push((ticket, answer));
        }
        told
    }

    /// The outcome of an operation, if it has one.
    fn settled(&self, id: OperationId, replayed: bool, gone: &HashMap<SessionId, Arc<Session>>) -> Option<Told> {
        let operation = self.state.operations.get(&id).filter(|operation| operation.state != Outcome::Accepted)?;
        let gone = operation.session.as_ref().and_then(|id| gone.get(id).cloned());
        Some(Told::Settled { operation: Arc::clone(operation), replayed, gone })
    }

    /// Lets answers go, and derives what the sessions of this batch owe.
    fn let_out(&self, told: Vec<(T, Told)>, batch: &Batch<T>, release: &mut dyn FnMut(Release<T>)) {
        told.into_iter().for_each(|(ticket, told)| release(Release::Answer(ticket, told)));
        for session in touched(&batch.events) {
            for hand in Hand::ALL {
                let effect = self.owed(&session, hand);
                release(Release::Owed(session.clone(), hand, effect));
            }
        }
    }

    /// What this session owes now, of this kind; asked when an effect has been answered without a change of the state.
    pub fn owed(&self, session: &SessionId, hand: Hand) -> Option<Effect> {
        owed(&self.state, session, hand).map(|effect| self.unasked(effect))
    }

    fn unasked(&self, effect: Effect) -> Effect {
        #[cfg(feature = "testing")]
        let effect = self.planted.effect(&self.state, effect);
        effect
    }
}

/// Who asked for what follows from an input, if anybody did.
fn asked_by(input: &Input) -> Option<&Scope> {
    match input {
        Input::Request(request) => Some(&request.scope),
        Input::Observation(_) | Input::Pull { .. } | Input::Beat { .. } | Input::Tick | Input::Generation(_) => None,
    }
}

pub(super) fn head_of<S: Storage>(ledger: &Ledger<S>) -> Head {
    let head = ledger.head();
    Head { seq: head.seq, digest: Digest(head.digest.0) }
}
