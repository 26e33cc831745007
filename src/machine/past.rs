//! Operations that were let go, as footprints. They lie in batches by the order in which they were let go; a full batch
//! never changes and goes as a whole once the newest of it is out of the window. So nothing is moved to forget, and
//! what a turn has to share with the view or to undo is a handful of pointers.
//!
//! There are two stored forms: one text, in the ledger's own records, and one whose rows stand apart as bytes, in a snapshot.

use super::footprint::{Footprint, Runs};
use super::id::Malformed;
use super::limits::Retention;
use super::packed::{rows_of, text_of};
use super::rows::{Rows, Shape};
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
struct Batch {
    rows: Rows,
    /// Until when the newest of it counts; wall clock, microseconds.
    until_us: u64,
    /// How many keys had been settled when it was full.
    settled: u64,
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
        self.full.iter().flat_map(move |batch| batch.rows.with(fingerprint)).chain(self.open.with(fingerprint))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Footprint> {
        self.full.iter().flat_map(|batch| batch.rows.iter()).chain(self.open.iter())
    }

    /// Adds one that counts until `until_us`; `settled` keys were settled by now.
    pub(super) fn push(&mut self, row: Footprint, until_us: u64, settled: u64, retention: &Retention) {
        self.open.push(row);
        self.rows += 1;
        self.open_until_us = self.open_until_us.max(until_us);
        if let Some(rows) = self.open.take_full(retention.batch) {
            let batch = Batch { rows: Rows::of(&rows), until_us: self.open_until_us, settled };
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
    pub(super) fn forget(&mut self) -> Option<impl Iterator<Item = Footprint> + use<>> {
        let full = Arc::make_mut(&mut self.full);
        let batch = if full.is_empty() { None } else { Some(full.remove(0)) }?;
        self.rows -= batch.rows.len();
        self.expired_us = self.expired_us.max(batch.until_us);
        let rows = batch.rows;
        Some((0..rows.len()).map(move |at| rows.row(at)))
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
            rows: text_of(batch.rows.iter()),
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
            rows_of(&rows).map(|rows| Batch { rows: Rows::of(&rows), until_us, settled })
        };
        let full = full.into_iter().map(batch).collect::<Result<Vec<_>, _>>()?;
        let rows = full.iter().map(|batch| batch.rows.len()).sum::<usize>() + open.iter().count();
        Ok(Self { open, open_until_us, full: Arc::new(full), rows, expired_us })
    }
}

/// The stored form of [`Past`] whose rows stand apart: first those of the open batch, run by run, then those of the full ones.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Apart {
    expired_us: u64,
    full: Vec<BatchApart>,
    open: Vec<Shape>,
    open_until_us: u64,
}

/// The stored form of [`Batch`] whose rows stand apart.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchApart {
    rows: Shape,
    settled: u64,
    until_us: u64,
}

impl Past {
    /// Itself, and its rows behind what stands in `bytes`.
    pub(super) fn apart(&self, bytes: &mut Vec<u8>) -> Apart {
        let mut put = |rows: &Rows| {
            let (shape, written) = rows.written();
            bytes.extend_from_slice(written);
            shape
        };
        let open = self.open.each().map(|run| put(&Rows::of(run))).collect();
        let full = self.full.iter().map(|batch| BatchApart {
            rows: put(&batch.rows),
            settled: batch.settled,
            until_us: batch.until_us,
        });
        Apart { expired_us: self.expired_us, full: full.collect(), open, open_until_us: self.open_until_us }
    }
}

impl Apart {
    /// The same with these rows. None of a full batch is looked at.
    pub(super) fn with(self, bytes: &[u8]) -> Result<Past, Malformed> {
        let mut rest = bytes;
        let mut take = |shape| {
            let (rows, behind) = Rows::read(shape, rest)?;
            rest = behind;
            Ok(rows)
        };
        let open = self.open.into_iter().map(|shape| Ok(take(shape)?.iter().collect::<Arc<[Footprint]>>()));
        let open = open.collect::<Result<Runs, Malformed>>()?;
        let full = self
            .full
            .into_iter()
            .map(|BatchApart { rows, settled, until_us }| Ok(Batch { rows: take(rows)?, until_us, settled }));
        let full = full.collect::<Result<Vec<_>, Malformed>>()?;
        if !rest.is_empty() {
            return Err(Malformed("must be no more bytes than there are footprints"));
        }
        let rows = full.iter().map(|batch| batch.rows.len()).sum::<usize>() + open.iter().count();
        let (open_until_us, expired_us) = (self.open_until_us, self.expired_us);
        Ok(Past { open, open_until_us, full: Arc::new(full), rows, expired_us })
    }
}
