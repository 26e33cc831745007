//! Footprints as text, for the state in the ledger's own records. A state may know millions of them, so they are packed: of each row
//! its fingerprint, and the rest as differences, in base64.
//!
//! ```text
//! row = fingerprint (8 bytes, lowest first), accepted from the row before, last from accepted, tie from accepted
//! ```
//! A difference is signed and takes 7 bits a byte, lowest first; that of `tie` is one more than it is, and 0 says none.
//! Promise: sorted rows come back equal, and what comes back is sorted; any other text is refused.

use super::footprint::Footprint;
use super::id::Malformed;
use data_encoding::BASE64_NOPAD;
use std::sync::Arc;

/// The text of sorted rows.
pub(super) fn text_of(rows: impl IntoIterator<Item = Footprint>) -> String {
    let rows = rows.into_iter();
    let mut bytes = Vec::with_capacity(rows.size_hint().0 * 16);
    let mut before = 0;
    for row in rows {
        let accepted = row.operation().0;
        bytes.extend(row.fingerprint().to_le_bytes());
        push(&mut bytes, difference(accepted, before));
        behind(&row).into_iter().for_each(|number| push(&mut bytes, number));
        before = accepted;
    }
    BASE64_NOPAD.encode(&bytes)
}

/// What [`text_of`] was made of: sorted, because rows are searched by halving.
pub(super) fn rows_of(text: &str) -> Result<Arc<[Footprint]>, Malformed> {
    const RULE: Malformed = Malformed("must be sorted footprints, packed, in base64");
    let bytes = BASE64_NOPAD.decode(text.as_bytes()).map_err(|_not_base64| RULE)?;
    let mut rest = bytes.as_slice();
    let mut rows = Vec::with_capacity(bytes.len() / 11);
    let mut before = 0;
    while !rest.is_empty() {
        let row = pull_row(&mut rest, before).ok_or(RULE)?;
        before = row.operation().0;
        rows.push(row);
    }
    if rows.is_sorted() { Ok(rows.into()) } else { Err(RULE) }
}

fn pull_row(rest: &mut &[u8], before: u64) -> Option<Footprint> {
    let (fingerprint, behind) = rest.split_first_chunk()?;
    *rest = behind;
    let accepted = beyond(before, pull(rest)?);
    Some(with_behind(u64::from_le_bytes(*fingerprint), accepted, [pull(rest)?, pull(rest)?]))
}

/// What stands behind the position at which one was accepted: how far from there its last record and its tie are.
pub(super) fn behind(row: &Footprint) -> [u64; 2] {
    let [_fingerprint, accepted, last, tie] = row.numbers();
    let tie = if tie == 0 { 0 } else { difference(tie, accepted) + 1 };
    [difference(marks_below(last), accepted << 2), tie]
}

/// What [`behind`] was told of.
pub(super) fn with_behind(fingerprint: u64, accepted: u64, [last, tie]: [u64; 2]) -> Footprint {
    let last = beyond(accepted << 2, last).rotate_right(2);
    let tie = tie.checked_sub(1).map_or(0, |from_accepted| beyond(accepted, from_accepted));
    Footprint::from_numbers([fingerprint, accepted, last, tie])
}

/// The marks of a last position stand above it. Below it they cost a quarter of a byte.
fn marks_below(last: u64) -> u64 {
    last.rotate_left(2)
}

/// From `from` to `to`, with the sign in the lowest bit, so that what is near is small.
fn difference(to: u64, from: u64) -> u64 {
    let ahead = to.wrapping_sub(from).cast_signed();
    (ahead << 1 ^ ahead >> 63).cast_unsigned()
}

/// Where one comes to from `from`.
fn beyond(from: u64, difference: u64) -> u64 {
    from.wrapping_add(difference >> 1 ^ (difference & 1).wrapping_neg())
}

fn push(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(0x80 | number.to_le_bytes()[0]);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

fn pull(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, behind) = rest.split_first()?;
        *rest = behind;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Footprint, rows_of, text_of};

    /// With every width that a number can have.
    pub(in super::super) fn rows() -> Vec<Footprint> {
        let ends = [0_u64, 1, 127, 128, 1 << 53, (1 << 62) - 1];
        let mut rows = Vec::new();
        for (accepted, last) in ends.into_iter().zip(ends.into_iter().rev()) {
            for marks in 0..4_u64 {
                for tie in [0, 1, accepted, 1 << 53] {
                    let fingerprint = accepted.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ tie << 8 ^ marks;
                    rows.push(Footprint::from_numbers([fingerprint, accepted, last | marks << 62, tie]));
                }
            }
        }
        rows.sort();
        rows.dedup();
        rows
    }

    #[test]
    fn rows_come_back_equal() {
        let rows = rows();
        assert_eq!(*rows_of(&text_of(rows.iter().copied())).unwrap(), *rows);
        assert_eq!((text_of([]), rows_of("").unwrap().len()), (String::new(), 0));
    }

    #[test]
    fn usual_rows_take_less_than_half_of_what_they_take_in_memory() {
        let number = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let row = |accepted| Footprint::from_numbers([number(accepted), accepted, accepted + 1, accepted / 50 * 50]);
        let mut rows: Vec<_> = (1_000_000..1_016_384).map(row).collect();
        rows.sort();
        assert!(text_of(rows.iter().copied()).len() < rows.len() * 20);
    }

    #[test]
    fn other_text_is_refused() {
        let rows = rows();
        let text = text_of(rows.iter().copied());
        let swapped = text_of([rows[1], rows[0]]);
        let endless = "////".repeat(8);
        for bad in [&text[..text.len() - 1], &text[..10], "=", "no text", swapped.as_str(), endless.as_str()] {
            assert!(rows_of(bad).is_err(), "{bad}");
        }
    }
}
