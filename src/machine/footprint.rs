//! Where a settled operation's records stand: all that is kept of one that was let go, 32 bytes, and about 12 once its batch is full (goal:
//! at most 96 for a key that is known). A fingerprint finds it and never decides: whoever asks gets the records read back and compared.

use super::id::{Key, Malformed, OperationId, Scope};
use super::operation::{Operation, Outcome};
use super::packed::{rows_of, text_of};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// Its key is free again: proven that nothing happened.
const ABORTED: u64 = 1 << 63;
/// Its key tells no time of its own.
const FREE_FORM: u64 = 1 << 62;
/// Positions stay below 2^53, so that both marks fit above one.
const POSITION: u64 = FREE_FORM - 1;

/// The footprint of one operation that was let go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Footprint {
    fingerprint: u64,
    accepted: u64,
    /// Position of the last record, with the marks above it.
    last: u64,
    /// Position at which the session was created that keeps it known; 0 for none.
    tie: u64,
}

impl Footprint {
    /// Of a settled operation. `tie`: where the session that keeps it known was created, or 0.
    pub(super) fn of(operation: &Operation, tie: u64) -> Self {
        let aborted = if operation.state == Outcome::Aborted { ABORTED } else { 0 };
        let free_form = if operation.is_free_form() { FREE_FORM } else { 0 };
        Self {
            fingerprint: fingerprint(&operation.scope, &operation.key),
            accepted: operation.id.0,
            last: operation.seq & POSITION | aborted | free_form,
            tie,
        }
    }

    /// The operation, which is the position of its first record.
    pub fn operation(&self) -> OperationId {
        OperationId(self.accepted)
    }

    /// The position of its last record.
    pub fn last(&self) -> u64 {
        self.last & POSITION
    }

    /// Whether its key still belongs to it.
    pub fn binds(&self) -> bool {
        self.last & ABORTED == 0
    }

    /// Whether it counts among the free-form keys that are known.
    pub(super) fn is_counted(&self) -> bool {
        self.last & FREE_FORM != 0 && self.binds()
    }

    pub(super) fn tie(&self) -> Option<u64> {
        (self.tie != 0).then_some(self.tie)
    }

    pub(super) fn untied(self) -> Self {
        Self { tie: 0, ..self }
    }

    pub(super) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// As it is stored: fingerprint, first position, last position with its marks, tie.
    pub(super) fn numbers(self) -> [u64; 4] {
        [self.fingerprint, self.accepted, self.last, self.tie]
    }

    /// What [`Footprint::numbers`] gave.
    pub(super) fn from_numbers([fingerprint, accepted, last, tie]: [u64; 4]) -> Self {
        Self { fingerprint, accepted, last, tie }
    }
}

impl std::fmt::Debug for Footprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (free, tie) = if self.is_counted() { (" free-form", self.tie) } else { ("", self.tie) };
        let aborted = if self.binds() { "" } else { " aborted" };
        write!(f, "{}..{}{aborted}{free} tie {tie}", self.operation(), self.last())
    }
}

/// 64 bits of a key in its scope.
pub(super) fn fingerprint(scope: &Scope, key: &Key) -> u64 {
    let mut hash = Sha256::new();
    if let Scope::Session(id) = scope {
        hash.update(id.as_str());
    }
    // Neither an id nor a key holds a NUL, so no two pairs are one text.
    hash.update([0]);
    hash.update(key.as_str());
    let digest: [u8; 32] = hash.finalize().into();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    u64::from_le_bytes(first)
}

/// Footprints in sorted runs that never change, each at least twice as long as the next, so that state and view share
/// them, a push costs little, and a search looks into few.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Runs(Vec<Arc<[Footprint]>>);

impl Runs {
    /// Adds one. Runs of equal length become one, and then perhaps with the one before: all that do so are merged at once.
    pub(super) fn push(&mut self, row: Footprint) {
        let (mut len, mut from) = (1, self.0.len());
        while from > 0 && self.0[from - 1].len() == len {
            (len, from) = (2 * len, from - 1);
        }
        let mut run = Vec::with_capacity(len);
        self.0.drain(from..).for_each(|before| run.extend_from_slice(&before));
        run.push(row);
        run.sort();
        self.0.push(run.into());
    }

    /// Takes the longest run, if it has so many rows.
    pub(super) fn take_full(&mut self, rows: usize) -> Option<Arc<[Footprint]>> {
        self.0.first().is_some_and(|run| run.len() >= rows).then(|| self.0.remove(0))
    }

    pub(super) fn with(&self, fingerprint: u64) -> impl Iterator<Item = Footprint> {
        self.0.iter().flat_map(move |run| with(run, fingerprint))
    }

    /// The runs, the longest first.
    pub(super) fn each(&self) -> impl Iterator<Item = &[Footprint]> {
        self.0.iter().map(AsRef::as_ref)
    }

    /// All of them, run by run.
    pub fn iter(&self) -> impl Iterator<Item = Footprint> {
        self.0.iter().flat_map(|run| run.iter().copied())
    }
}

/// Of sorted runs, each by itself.
impl FromIterator<Arc<[Footprint]>> for Runs {
    fn from_iter<I: IntoIterator<Item = Arc<[Footprint]>>>(runs: I) -> Self {
        Self(runs.into_iter().collect())
    }
}

impl TryFrom<Vec<String>> for Runs {
    type Error = Malformed;
    fn try_from(texts: Vec<String>) -> Result<Self, Malformed> {
        texts.iter().map(|text| rows_of(text)).collect::<Result<_, _>>().map(Self)
    }
}

impl From<Runs> for Vec<String> {
    fn from(runs: Runs) -> Self {
        runs.each().map(|run| text_of(run.iter().copied())).collect()
    }
}

/// The rows of a sorted run that have this fingerprint.
fn with(run: &[Footprint], fingerprint: u64) -> impl Iterator<Item = Footprint> {
    let from = first_from(run.len(), |at| run[at].fingerprint, fingerprint);
    run[from..].iter().copied().take_while(move |row| row.fingerprint == fingerprint)
}

/// Where among so many sorted rows those with this fingerprint, or a greater one, begin; `of` is the fingerprint of one. Fingerprints are
/// spread evenly, so the value tells about where to look, and what is found there tells it better; few rows are touched, because each is
/// likely to be in no cache. Where they are not spread evenly, doubling steps from there still find the place.
pub(super) fn first_from(len: usize, of: impl Fn(usize) -> u64, fingerprint: u64) -> usize {
    const LOOKS: usize = 3;
    let rows = |distance: u64| {
        let rows = (u128::from(distance) * u128::try_from(len).unwrap_or(0)) >> 64;
        usize::try_from(rows).unwrap_or(0)
    };
    let mut at = rows(fingerprint);
    for _ in 0..LOOKS {
        let there = if at < len { of(at) } else { u64::MAX };
        at = if there < fingerprint {
            len.min(at + rows(fingerprint - there))
        } else {
            at.saturating_sub(rows(there - fingerprint))
        };
    }
    let (mut low, mut high, mut step) = (at, at, 1);
    while low > 0 && of(low - 1) >= fingerprint {
        (low, step) = (low.saturating_sub(step), step * 2);
    }
    while high < len && of(high) < fingerprint {
        (high, step) = (len.min(high + step), step * 2);
    }
    while low < high {
        let middle = low.midpoint(high);
        if of(middle) < fingerprint { low = middle + 1 } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: u64) -> Footprint {
        Footprint { fingerprint: number.wrapping_mul(0x9e37_79b9_7f4a_7c15), accepted: number, last: number, tie: 0 }
    }

    #[test]
    fn runs_find_each_row_and_stay_few() {
        let mut runs = Runs::default();
        for number in 1..=1_000 {
            runs.push(row(number));
            let lengths: Vec<_> = runs.0.iter().map(|run| run.len()).collect();
            assert!(lengths.windows(2).all(|pair| pair[0] > pair[1]), "{lengths:?}");
        }
        assert_eq!(runs.iter().count(), 1_000);
        assert!(runs.0.len() <= 10 && runs.0.iter().all(|run| run.is_sorted()));
        for number in 1..=1_000 {
            assert_eq!(runs.with(row(number).fingerprint).collect::<Vec<_>>(), [row(number)]);
        }
        assert_eq!(runs.with(row(1_001).fingerprint).count(), 0);
    }

    #[test]
    fn a_place_is_found_wherever_the_guess_falls() {
        let of = |fingerprint| Footprint { fingerprint, accepted: 1, last: 1, tie: 0 };
        let even: Vec<_> = (0..500_u64).map(|number| number << 55).collect();
        let crowded: Vec<_> = (0..500_u64).map(|number| number / 7).collect();
        let high: Vec<_> = (0..500_u64).map(|number| u64::MAX - 500 + number / 3).collect();
        for values in [even, crowded, high, vec![], vec![0], vec![u64::MAX]] {
            let run: Vec<_> = values.iter().copied().map(of).collect();
            let around = values.iter().flat_map(|value| [value.saturating_sub(1), *value, value.saturating_add(1)]);
            for sought in around.chain([0, 1, 1 << 63, u64::MAX]) {
                assert_eq!(
                    first_from(run.len(), |at| run[at].fingerprint, sought),
                    values.partition_point(|value| *value < sought),
                    "{sought}"
                );
            }
        }
    }

    #[test]
    fn a_footprint_is_what_its_bytes_say() {
        let row = Footprint { fingerprint: u64::MAX, accepted: 7, last: 9 | ABORTED | FREE_FORM, tie: 3 };
        assert_eq!(Footprint::from_numbers(row.numbers()), row);
        assert_eq!((row.operation(), row.last(), row.binds(), row.is_counted()), (OperationId(7), 9, false, false));
    }

    #[test]
    fn a_fingerprint_tells_scopes_and_keys_apart() {
        use super::super::id::SessionId;
        let key = |text| Key::parse(text).unwrap();
        let session = Scope::Session(SessionId::parse("aaaaaaaaaaaa").unwrap());
        assert_ne!(fingerprint(&Scope::Owner, &key("k")), fingerprint(&session, &key("k")));
        assert_ne!(fingerprint(&Scope::Owner, &key("aaaaaaaaaaaak")), fingerprint(&session, &key("k")));
    }
}
