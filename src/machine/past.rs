//! Operations that were let go, as footprints. They lie in batches by the order in which they were let go; a full batch
//! never changes and goes as a whole once the newest of it is out of the window. So nothing is moved to forget, and
//! what a turn has to share with the view or to undo is a handful of pointers.

use super::footprint::{Footprint, Runs, with};
use super::id::Malformed;
use super::limits::Retention;
use super::packed::{rows_of, text_of};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// All footprints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredPast", into = "StoredPast")]
pub struct Past {
    /// The batch that is being filled.
    open: Runs,
    /// Until when the newest of it counts; wall clock, microseconds.
    open_until_us: u64,
    /// Full batches, oldest first.
    full: Arc<Vec<Batch>>,
    rows: usize,
    expired_us: u64,
}

/// Footprints that go together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    /// Sorted.
    pub(super) rows: Arc<[Footprint]>,
    /// Until when the newest of it counts; wall clock, microseconds.
    pub(super) until_us: u64,
    /// How many keys had been settled when it was full.
    pub(super) settled: u64,
}

impl Past {
    /// How many footprints there are.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// A key that tells a time up to this one may have been forgotten; wall clock, microseconds.
    pub fn expired_us(&self) -> u64 {
        self.expired_us
    }

    pub(super) fn with(&self, fingerprint: u64) -> impl Iterator<Item = Footprint> {
        self.full.iter().flat_map(move |batch| with(&batch.rows, fingerprint)).chain(self.open.with(fingerprint))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Footprint> {
        self.full.iter().flat_map(|batch| batch.rows.iter().copied()).chain(self.open.iter())
    }

    /// Adds one that counts until `until_us`; `settled` keys were settled by now.
    pub(super) fn push(&mut self, row: Footprint, until_us: u64, settled: u64, retention: &Retention) {
        self.open.push(row);
        self.rows += 1;
        self.open_until_us = self.open_until_us.max(until_us);
        if let Some(rows) = self.open.take_full(retention.batch) {
            let batch = Batch { rows, until_us: self.open_until_us, settled };
            Arc::make_mut(&mut self.full).push(batch);
            self.open_until_us = 0;
        }
    }

    /// Whether the oldest batch is out of the window.
    pub(super) fn is_overdue(&self, now_us: u64, settled: u64, retention: &Retention) -> bool {
        self.full.first().is_some_and(|batch| {
            let old = batch.until_us < now_us.saturating_sub(retention.window_us);
            old && settled.saturating_sub(batch.settled) >= retention.settled
        })
    }

    /// Forgets the oldest batch; gives its rows.
    pub(super) fn forget(&mut self) -> Option<Arc<[Footprint]>> {
        let full = Arc::make_mut(&mut self.full);
        let batch = if full.is_empty() { None } else { Some(full.remove(0)) }?;
        self.rows -= batch.rows.len();
        self.expired_us = self.expired_us.max(batch.until_us);
        Some(batch.rows)
    }
}

/// The stored form of [`Past`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPast {
    expired_us: u64,
    full: Vec<StoredBatch>,
    open: Runs,
    open_until_us: u64,
}

/// The stored form of [`Batch`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredBatch {
    rows: String,
    settled: u64,
    until_us: u64,
}

impl From<Past> for StoredPast {
    fn from(past: Past) -> Self {
        let batch = |batch: &Batch| StoredBatch {
            rows: text_of(&batch.rows),
            settled: batch.settled,
            until_us: batch.until_us,
        };
        let full = past.full.iter().map(batch).collect();
        Self { expired_us: past.expired_us, full, open: past.open, open_until_us: past.open_until_us }
    }
}

impl TryFrom<StoredPast> for Past {
    type Error = Malformed;
    fn try_from(stored: StoredPast) -> Result<Self, Malformed> {
        let StoredPast { expired_us, full, open, open_until_us } = stored;
        let batch = |StoredBatch { rows, settled, until_us }: StoredBatch| {
            rows_of(&rows).map(|rows| Batch { rows, until_us, settled })
        };
        let full = full.into_iter().map(batch).collect::<Result<Vec<_>, _>>()?;
        let rows = full.iter().map(|batch| batch.rows.len()).sum::<usize>() + open.iter().count();
        Ok(Self { open, open_until_us, full: Arc::new(full), rows, expired_us })
    }
}
