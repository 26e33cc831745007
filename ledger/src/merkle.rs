//! The Merkle tree over the digests of a segment's records, as RFC 6962 builds it: leaf = SHA-256(0x00 || digest),
//! node = SHA-256(0x01 || left || right), and a tree of more than one leaf splits at the largest power of two below its
//! count. One root stands for all records; a path of at most 64 digests shows that one of them is among them.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::digest::Digest;

/// A tree that grows leaf by leaf. It keeps the roots of the whole subtrees alone, so its size is that of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tree {
    count: u64,
    /// Roots of the whole subtrees, the largest first: one for each bit that is set in `count`.
    peaks: Vec<Digest>,
}

impl Tree {
    pub(crate) fn push(&mut self, digest: &Digest) {
        let mut root = leaf(digest);
        let merged = self.count.trailing_ones();
        for _level in 0..merged {
            let left = self.peaks.pop().expect("a subtree for every bit of the count");
            root = node(&left, &root);
        }
        self.peaks.push(root);
        self.count += 1;
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// `None` without leaves.
    pub(crate) fn root(&self) -> Option<Digest> {
        self.peaks.iter().rev().copied().reduce(|right, left| node(&left, &right))
    }
}

fn leaf(digest: &Digest) -> Digest {
    Digest(Sha256::new().chain_update([0]).chain_update(digest.0).finalize().into())
}

fn node(left: &Digest, right: &Digest) -> Digest {
    Digest(Sha256::new().chain_update([1]).chain_update(left.0).chain_update(right.0).finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(count: u8) -> Vec<Digest> {
        (0..count).map(|number| Digest([number; 32])).collect()
    }

    fn root(digests: &[Digest]) -> Option<Digest> {
        let mut tree = Tree::default();
        digests.iter().for_each(|digest| tree.push(digest));
        tree.root()
    }

    /// The definition of RFC 6962, section 2.1, word for word.
    fn defined(digests: &[Digest]) -> Digest {
        match digests {
            [only] => leaf(only),
            several => {
                let split = (1..several.len()).rev().find(|split| split.is_power_of_two()).unwrap();
                node(&defined(&several[..split]), &defined(&several[split..]))
            }
        }
    }

    #[test]
    fn the_growing_tree_has_the_root_that_the_definition_gives() {
        assert_eq!(root(&[]), None);
        for count in 1..=70 {
            let digests = digests(count);
            assert_eq!(root(&digests), Some(defined(&digests)), "{count} leaves");
        }
    }

    /// Made with `printf` and `sha256sum`: two leaves of 32 zero bytes and 32 bytes 0x01.
    #[test]
    fn the_hashes_are_those_of_stock_tools() {
        let expected = Digest::from_hex(b"28fb81e496897e0ce886f08602392e9239b65c659041e5202163e58ad898f444").unwrap();
        assert_eq!(root(&digests(2)), Some(expected));
    }
}
