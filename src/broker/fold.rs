//! The fold: the state as the ledger tells it (law 1). Turn by turn, as they were written, because a turn ends with what is
//! let go and forgotten. In the one pass over the ledger that its recovery makes, from the newest snapshot on.

use super::carry::{Block, Carrying};
use super::codec::{self, Unreadable, session_of, touched};
use super::snapshot::{FOLD, decode};
use crate::machine::limits::Retention;
use crate::machine::{At, Digest, Event, Illegal, Plan, SessionId, State, apply, chain_ended};
use ostler_ledger::{Fold, Ledger, OpenError, Options, Record, Recovery, Storage};
use std::collections::BTreeSet;

/// Why the ledger could not be folded.
#[derive(Debug, thiserror::Error)]
pub enum FoldError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A record is of a kind that this build does not know.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// A record says the impossible.
    #[error("record {seq} cannot follow what stands before it: {}", .why.0)]
    Illegal {
        /// Its ledger position.
        seq: u64,
        /// The rule it breaks.
        why: Illegal,
    },
    /// The beginning was retired, and this version cannot read what states it again.
    #[error("record {seq} ends what states again what was retired, and this version cannot read it: {why}")]
    Uncarried {
        /// Its ledger position.
        seq: u64,
        /// What is wrong with it.
        why: String,
    },
    /// The beginning was retired, and nothing states again what it told.
    #[error("the records before {first} were retired, and no whole block of carry records says what they told")]
    NotCarried {
        /// The first record that is there.
        first: u64,
    },
}

/// What a fold comes to.
#[derive(Debug)]
pub struct Folded {
    /// The state.
    pub state: State,
    /// Sessions whose records are damaged or missing.
    pub doubtful: BTreeSet<SessionId>,
    /// The length of the snapshot that it began with.
    pub snapshot_bytes: u64,
    /// A block of carry records, by the position of its last, that states another state again than the records before it come
    /// to: never, unless an earlier version folded otherwise.
    pub unlike: Option<u64>,
}

/// Opens a ledger and folds it. `storage` gives a door to it: a snapshot that turns out wrong needs a second one.
///
/// # Errors
/// [`FoldError`] when the ledger cannot be opened, or a record cannot be read or believed.
pub fn open<S: Storage>(
    storage: impl Fn() -> S,
    options: &Options,
    retention: Retention,
) -> Result<(Ledger<S>, Recovery, Folded), FoldError> {
    let mut folding = Folding::new(retention);
    let (ledger, recovery) = Ledger::open_from(storage(), options.clone(), &mut folding)?;
    match folding.end(&recovery) {
        Ok(folded) => return Ok((ledger, recovery, folded)),
        Err(error) if recovery.snapshot.is_none() => return Err(error),
        Err(error) => tracing::error!(%error, "the snapshot is wrong; the whole history is replayed"),
    }
    drop(ledger);
    let mut folding = Folding::new(retention);
    let options = Options { replay: true, ..options.clone() };
    let (ledger, recovery) = Ledger::open_from(storage(), options, &mut folding)?;
    let folded = folding.end(&recovery)?;
    Ok((ledger, recovery, folded))
}

/// The session about which this record ends all doubt that lies before it.
pub(super) fn settled(event: &Event) -> Option<&SessionId> {
    let Event::Accept { sid, body: Plan::Settle, .. } = event else { return None };
    sid.as_ref()
}

/// A fold under way.
///
/// A ledger that begins late tells the state first with a whole block of carry records. What stands before it are leavings: it
/// is folded into nothing, so that what comes of it counts only where there is no such block.
#[derive(Debug)]
struct Folding {
    folded: Folded,
    begins: Begins,
    carrying: Carrying,
    /// The last block in a ledger that begins late could not be read.
    uncarried: Option<FoldError>,
    /// A record retires what is missing before the first.
    retired: bool,
    /// Of the last event of a turn that has not ended.
    turn: Option<At>,
    /// The first record that could not follow.
    illegal: Option<FoldError>,
    /// The first record that could not be read; nothing is folded behind it.
    unreadable: Option<Unreadable>,
}

/// Where a fold begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    /// No record has come.
    Nowhere,
    /// With a state that nothing is missing of: the first record, a snapshot, or a block of carry records.
    Whole,
    /// With this record, which is not the first.
    Late(u64),
}

impl Folding {
    fn new(retention: Retention) -> Self {
        let folded =
            Folded { state: State::keeping(retention), doubtful: BTreeSet::new(), snapshot_bytes: 0, unlike: None };
        Self {
            folded,
            begins: Begins::Nowhere,
            carrying: Carrying::default(),
            uncarried: None,
            retired: false,
            turn: None,
            illegal: None,
            unreadable: None,
        }
    }

    fn fold(&mut self, record: &Record) -> Result<(), Unreadable> {
        let Folded { state, doubtful, .. } = &mut self.folded;
        if let Some((event, at)) = codec::event(record)? {
            match apply(state, &event, at) {
                Ok(()) => {
                    settled(&event).into_iter().for_each(|session| drop(doubtful.take(session)));
                    state.stamp(&event, Digest(record.digest.0));
                }
                Err(why) => {
                    doubtful.extend(touched(std::slice::from_ref(&event)));
                    self.illegal.get_or_insert(FoldError::Illegal { seq: at.seq, why });
                }
            }
            // Of a record that could follow, nothing is left to do.
            if record.header.fin
                && let Some(session) = session_of(&event)
                && chain_ended(state, session, at)
            {
                doubtful.remove(session);
            }
            self.turn = Some(at);
        }
        // A turn of the ledger's own records ends nothing here.
        if record.header.end
            && let Some(at) = self.turn.take()
        {
            state.close(at.time);
        }
        Ok(())
    }

    /// What a record says of the beginning.
    fn begin(&mut self, record: &Record) {
        if self.begins == Begins::Nowhere {
            let first = record.header.seq;
            self.begins = if first == 1 { Begins::Whole } else { Begins::Late(first) };
        }
        if let Begins::Late(first) = self.begins
            && record.header.t == "retire"
            && let Some(body) = record.body().and_then(|body| serde_json::from_str::<serde_json::Value>(body).ok())
        {
            self.retired |= body["last"].as_u64().is_some_and(|last| last + 1 >= first);
        }
    }

    /// The state is stated again.
    fn carried(&mut self, block: &Block, seq: u64) {
        match self.begins {
            Begins::Late(_) => match block.state(self.folded.state.retention) {
                Ok((state, doubtful)) => {
                    (self.folded.state, self.folded.doubtful) = (state, doubtful);
                    (self.turn, self.illegal, self.unreadable, self.uncarried) = (None, None, None, None);
                    self.begins = Begins::Whole;
                }
                Err(why) => self.uncarried = Some(FoldError::Uncarried { seq, why }),
            },
            // Nothing depends on it: the records themselves are there.
            Begins::Nowhere | Begins::Whole => {
                let sound = self.illegal.is_none() && self.unreadable.is_none();
                if sound && block.differs(&self.folded.state) {
                    tracing::warn!(seq, "the state that is stated again is not what the records before it come to");
                    self.folded.unlike = Some(seq);
                }
            }
        }
    }

    /// Beside a hole a record may meet a state that lacks its cause: its session is in doubt, no other. Elsewhere nobody may
    /// believe it.
    fn end(self, recovery: &Recovery) -> Result<Folded, FoldError> {
        let Self { mut folded, begins, uncarried, retired, illegal, unreadable, .. } = self;
        if let Begins::Late(first) = begins {
            // What is lost beyond that the recovery tells, and so does who asks for it.
            if let Some(error) = uncarried.or(retired.then_some(FoldError::NotCarried { first })) {
                return Err(error);
            }
        }
        if let Some(unreadable) = unreadable {
            return Err(unreadable.into());
        }
        if let Some(illegal) = illegal.filter(|_| recovery.problems.is_empty() && recovery.accepted.is_empty()) {
            return Err(illegal);
        }
        for problem in recovery.problems.iter().chain(&recovery.accepted) {
            folded.doubtful.extend(problem.sessions.iter().filter_map(|id| SessionId::parse(id).ok()).filter(|id| {
                // Evidence has ended the doubt that lies before it.
                let settled_seq = folded.state.sessions.get(id).map_or(0, |session| session.settled_seq);
                problem.seq.is_none_or(|seq| seq > settled_seq)
            }));
        }
        Ok(folded)
    }
}

impl Fold for Folding {
    type State = Folded;

    fn name(&self) -> &str {
        &FOLD
    }

    fn read(&mut self, payload: &[u8]) -> Result<Folded, String> {
        let (state, doubtful) = decode(payload, self.folded.state.retention)?;
        let snapshot_bytes = u64::try_from(payload.len()).unwrap_or(u64::MAX);
        Ok(Folded { state, doubtful, snapshot_bytes, unlike: None })
    }

    fn restore(&mut self, folded: Folded) {
        (self.folded, self.begins) = (folded, Begins::Whole);
    }

    fn record(&mut self, record: Record) {
        self.begin(&record);
        if let Some(block) = self.carrying.take(&record) {
            self.carried(&block, record.header.seq);
        }
        if self.unreadable.is_none() {
            self.unreadable = self.fold(&record).err();
        }
    }
}
