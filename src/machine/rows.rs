//! Sorted footprints as bytes that are looked into as they are. A full batch is in memory what it is in a snapshot, so that a
//! start has nothing to make of it, however many keys are known.
//!
//! ```text
//! row = fingerprint (8 bytes), accepted from the least of all, last from accepted, tie from accepted
//! ```
//! Numbers have their lowest byte first. Each of the last three has as many bytes in every row as its largest needs.
//!
//! Promises: sorted rows come back equal, and equal rows have equal bytes. Bytes of the right length always are rows, so none is refused
//! or fails later than at its first sight; whether they are the ones that were written is for the sum of the snapshot to say.

use super::footprint::{Footprint, first_from};
use super::id::Malformed;
use super::packed::{behind, with_behind};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const FINGERPRINT: usize = 8;

/// Sorted footprints.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Rows {
    shape: Shape,
    bytes: Arc<[u8]>,
}

/// What has to be known of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shape {
    /// How many rows.
    rows: usize,
    /// The least position at which one was accepted.
    least: u64,
    /// How many bytes the numbers behind the fingerprint have.
    widths: [usize; 3],
}

impl Shape {
    fn row_bytes(self) -> usize {
        FINGERPRINT + self.widths.iter().sum::<usize>()
    }

    fn numbers_of(self, row: &Footprint) -> [u64; 3] {
        let [last, tie] = behind(row);
        [row.operation().0.wrapping_sub(self.least), last, tie]
    }
}

impl Rows {
    /// Of sorted footprints.
    pub(super) fn of(rows: &[Footprint]) -> Self {
        let least = rows.iter().map(|row| row.operation().0).min().unwrap_or(0);
        let mut shape = Shape { rows: rows.len(), least, widths: [0; 3] };
        let mut bits = [0; 3];
        for row in rows {
            bits.iter_mut().zip(shape.numbers_of(row)).for_each(|(bits, number)| *bits |= number);
        }
        shape.widths = bits.map(width_of);
        let mut bytes = vec![0; shape.rows * shape.row_bytes()];
        for (row, to) in rows.iter().zip(bytes.chunks_exact_mut(shape.row_bytes())) {
            let (fingerprint, mut rest) = to.split_at_mut(FINGERPRINT);
            fingerprint.copy_from_slice(&row.fingerprint().to_le_bytes());
            for (width, number) in shape.widths.into_iter().zip(shape.numbers_of(row)) {
                let (here, behind) = rest.split_at_mut(width);
                here.iter_mut().zip(number.to_le_bytes()).for_each(|(to, byte)| *to = byte);
                rest = behind;
            }
        }
        Self { shape, bytes: bytes.into() }
    }

    /// The next ones that were written to `bytes`, and what stands behind them.
    pub(super) fn read(shape: Shape, bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        const RULE: Malformed = Malformed("must be as many bytes as there are footprints");
        let is_sound = shape.widths.iter().all(|width| *width <= 8);
        let len = if is_sound { shape.rows.checked_mul(shape.row_bytes()) } else { None };
        let (rows, behind) = len.and_then(|len| bytes.split_at_checked(len)).ok_or(RULE)?;
        Ok((Self { shape, bytes: rows.into() }, behind))
    }

    /// What [`Rows::read`] has to know of them, and their bytes.
    pub(super) fn written(&self) -> (Shape, &[u8]) {
        (self.shape, &self.bytes)
    }

    pub(super) fn len(&self) -> usize {
        self.shape.rows
    }

    /// The rows that have this fingerprint.
    pub(super) fn with(&self, fingerprint: u64) -> impl Iterator<Item = Footprint> {
        let from = first_from(self.len(), |at| self.fingerprint(at), fingerprint);
        let rows = (from..self.len()).take_while(move |at| self.fingerprint(*at) == fingerprint);
        rows.map(|at| self.row(at))
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = Footprint> {
        (0..self.len()).map(|at| self.row(at))
    }

    fn fingerprint(&self, at: usize) -> u64 {
        let row = &self.bytes[at * self.shape.row_bytes()..];
        row.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
    }

    /// One of those that there are.
    pub(super) fn row(&self, at: usize) -> Footprint {
        let row = &self.bytes[at * self.shape.row_bytes()..][..self.shape.row_bytes()];
        let [accepted, last, _tie] = self.shape.widths;
        let (accepted, rest) = row[FINGERPRINT..].split_at(accepted);
        let (last, tie) = rest.split_at(last);
        let accepted = self.shape.least.wrapping_add(number(accepted));
        with_behind(self.fingerprint(at), accepted, [number(last), number(tie)])
    }
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

fn width_of(number: u64) -> usize {
    8 - number.to_be_bytes().iter().take_while(|byte| **byte == 0).count()
}

/// Of at most eight bytes, the lowest first. Few they are, so a copy of them all at once would take longer.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::super::packed::tests::rows;
    use super::*;

    #[test]
    fn rows_come_back_equal_and_each_is_found() {
        let rows = rows();
        for some in [&rows[..], &rows[..1], &[]] {
            let stored = Rows::of(some);
            assert_eq!((stored.len(), stored.iter().collect::<Vec<_>>()), (some.len(), some.to_vec()));
            let (shape, bytes) = stored.written();
            let both = [bytes, b"behind"].concat();
            let (read, behind) = Rows::read(shape, &both).unwrap();
            assert_eq!((read, behind), (stored.clone(), b"behind".as_slice()));
            for row in some {
                let same = some.iter().filter(|other| other.fingerprint() == row.fingerprint());
                assert!(stored.with(row.fingerprint()).eq(same.copied()), "{row:?}");
            }
            assert_eq!(stored.with(5).count(), 0);
        }
    }

    #[test]
    fn usual_rows_take_a_third_of_what_they_take_as_numbers() {
        let number = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let row = |accepted| Footprint::from_numbers([number(accepted), accepted, accepted + 1, 0]);
        let mut rows: Vec<_> = (1_000_000..1_032_768).step_by(2).map(row).collect();
        rows.sort();
        assert_eq!(Rows::of(&rows).bytes.len(), rows.len() * 11);
    }

    #[test]
    fn any_bytes_of_the_right_length_are_rows_and_no_others() {
        let stored = Rows::of(&rows());
        let (shape, bytes) = stored.written();
        assert!(Rows::read(shape, &bytes[1..]).is_err());
        assert!(Rows::read(Shape { rows: usize::MAX, ..shape }, bytes).is_err());
        assert!(Rows::read(Shape { widths: [0, 9, 0], ..shape }, bytes).is_err());
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            let bytes = vec![byte; bytes.len()];
            let (read, _behind) = Rows::read(Shape { least: u64::MAX, ..shape }, &bytes).unwrap();
            assert_eq!(read.iter().count(), shape.rows);
            for fingerprint in [0, 1, u64::from_le_bytes([byte; 8]), u64::MAX] {
                assert!(read.with(fingerprint).count() <= shape.rows);
            }
        }
    }
}
