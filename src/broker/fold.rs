//! The fold: the state as the ledger tells it (law 1). Turn by turn, as they were written, because a turn ends with what is
//! let go and forgotten. In the one pass over the ledger that its recovery makes, from the newest snapshot on.

use super::codec::{self, Unreadable, touched};
use super::snapshot::{FOLD, decode};
use crate::machine::limits::Retention;
use crate::machine::{At, Digest, Illegal, SessionId, State, apply};
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

/// A fold under way.
#[derive(Debug)]
struct Folding {
    folded: Folded,
    /// Of the last event of a turn that has not ended.
    turn: Option<At>,
    /// The first record that could not follow.
    illegal: Option<FoldError>,
    /// The first record that could not be read; nothing is folded behind it.
    unreadable: Option<Unreadable>,
}

impl Folding {
    fn new(retention: Retention) -> Self {
        let folded = Folded { state: State::keeping(retention), doubtful: BTreeSet::new(), snapshot_bytes: 0 };
        Self { folded, turn: None, illegal: None, unreadable: None }
    }

    fn fold(&mut self, record: &Record) -> Result<(), Unreadable> {
        let Folded { state, doubtful, .. } = &mut self.folded;
        if let Some((event, at)) = codec::event(record)? {
            match apply(state, &event, at) {
                Ok(()) => state.stamp(&event, Digest(record.digest.0)),
                Err(why) => {
                    doubtful.extend(touched(std::slice::from_ref(&event)));
                    self.illegal.get_or_insert(FoldError::Illegal { seq: at.seq, why });
                }
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

    /// Beside a hole a record may meet a state that lacks its cause: its session is in doubt, no other. Elsewhere nobody may
    /// believe it.
    fn end(self, recovery: &Recovery) -> Result<Folded, FoldError> {
        let Self { mut folded, illegal, unreadable, .. } = self;
        if let Some(unreadable) = unreadable {
            return Err(unreadable.into());
        }
        if let Some(illegal) = illegal.filter(|_| recovery.problems.is_empty() && recovery.accepted.is_empty()) {
            return Err(illegal);
        }
        let named = recovery.damaged_sessions.iter().filter_map(|id| SessionId::parse(id).ok());
        folded.doubtful.extend(named);
        Ok(folded)
    }
}

impl Fold for Folding {
    fn name(&self) -> &str {
        FOLD
    }

    fn restore(&mut self, payload: &[u8]) -> Result<(), String> {
        let (state, doubtful) = decode(payload, self.folded.state.retention)?;
        self.folded = Folded { state, doubtful, snapshot_bytes: u64::try_from(payload.len()).unwrap_or(u64::MAX) };
        Ok(())
    }

    fn record(&mut self, record: Record) {
        if self.unreadable.is_none() {
            self.unreadable = self.fold(&record).err();
        }
    }
}
