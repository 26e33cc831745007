//! Makes hostile bytes out of good ones, the same ones for the same seed: cut, doubled, swapped, spliced, with the
//! tokens put in that parsers stumble over, and with changes that know JSON lines.
#![cfg_attr(not(test), expect(dead_code, reason = "libFuzzer brings mutations of its own"))]

use crate::structure::reshape;

/// Bytes that mean something to the formats under test.
const TOKENS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b":",
    b",",
    b"\\",
    b"\n",
    b"\0",
    b"null",
    b"true",
    b"-1",
    b"0",
    b"1e400",
    b"0.5",
    b"9007199254740993",
    b"18446744073709551615",
    b"18446744073709551616",
    b"4294967296",
    b"\\u0000",
    b"\\ud800",
    b"\xff",
    b"\xc3\x28",
    b"\xef\xbb\xbf",
    b"../",
    b"\"b64\":\"",
    b"\"id\":",
    b"\"sid\":\"",
    b"\"t\":\"",
    b"aaaaaaaaaaaa",
    b"{\"b64\":\"/w==\"}",
    b"[[[[[[[[[[[[[[[[",
    b"e",
    b"-",
    b" ",
];

/// Longest result, bytes: enough for every limit of a line, little enough to be fast.
const BYTES_MAX: usize = 256 * 1024;

/// A stream of numbers from a seed (splitmix64). Good enough to choose with, and the same everywhere.
#[derive(Debug)]
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn from_seed(seed: u64) -> Numbers {
        Numbers(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`; 0 for an empty range.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % limit).unwrap_or(0)
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.next() % 256).unwrap_or(0)
    }
}

/// One hostile variant of `seeds`, which must not be empty.
pub(crate) fn mutation(seeds: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = choose(seeds, numbers).cloned().unwrap_or_default();
    let shaped = numbers.below(2) == 0;
    for _ in 0..=numbers.below(6) {
        if shaped {
            let other = choose(seeds, numbers).map_or(&[][..], Vec::as_slice);
            reshape(&mut bytes, other, numbers);
        } else {
            change(&mut bytes, seeds, numbers);
        }
        bytes.truncate(BYTES_MAX);
    }
    bytes
}

fn choose<'a, T>(from: &'a [T], numbers: &mut Numbers) -> Option<&'a T> {
    from.get(numbers.below(from.len()))
}

fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], numbers: &mut Numbers) {
    let at = numbers.below(bytes.len() + 1);
    let end = at + numbers.below(bytes.len() + 1 - at);
    let new = numbers.byte();
    match numbers.below(9) {
        0 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (new % 8)),
        1 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = new),
        2 => bytes.insert(at, new),
        3 => drop(bytes.drain(at..end)),
        4 => bytes.truncate(at),
        5 => insert(bytes, at, choose(TOKENS, numbers).copied().unwrap_or(b"")),
        6 => {
            let token = choose(TOKENS, numbers).copied().unwrap_or(b"");
            drop(bytes.splice(at..end.min(at + token.len()), token.iter().copied()));
        }
        7 => {
            let doubled = bytes.get(at..end).unwrap_or(&[]).to_vec();
            insert(bytes, end, &doubled);
        }
        _ => {
            let other = choose(seeds, numbers).map_or(&[][..], Vec::as_slice);
            let from = numbers.below(other.len() + 1);
            bytes.truncate(at);
            bytes.extend_from_slice(other.get(from..).unwrap_or(&[]));
        }
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, new: &[u8]) {
    drop(bytes.splice(at..at, new.iter().copied()));
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, Numbers, mutation};
    use std::collections::BTreeSet;

    fn some(seed: u64) -> Vec<Vec<u8>> {
        let seeds = [b"{\"a\":1}".to_vec(), b"[2]".to_vec(), Vec::new()];
        let mut numbers = Numbers::from_seed(seed);
        (0..500).map(|_| mutation(&seeds, &mut numbers)).collect()
    }

    #[test]
    fn one_seed_gives_one_run_and_runs_differ() {
        assert_eq!(some(1), some(1));
        assert_ne!(some(1), some(2));
        let distinct: BTreeSet<_> = some(1).into_iter().collect();
        assert!(distinct.len() > 300, "{} distinct of 500", distinct.len());
        assert!(distinct.iter().any(|bytes| serde_json::from_slice::<serde_json::Value>(bytes).is_ok()));
    }

    #[test]
    fn doubling_stays_bounded() {
        let seeds = [vec![b'x'; BYTES_MAX]];
        let mut numbers = Numbers::from_seed(3);
        assert!((0..50).all(|_| mutation(&seeds, &mut numbers).len() <= BYTES_MAX));
    }
}
