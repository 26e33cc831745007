//! The Merkle tree over the digests of a segment's records, as RFC 6962 builds it: leaf = SHA-256(0x00 || digest),
//! node = SHA-256(0x01 || left || right), and a tree of more than one leaf splits at the largest power of two below its
//! count. One root stands for all records; a path of at most 64 digests shows that one of them is among them.

use serde::{Deserialize, Serialize};

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

/// The digests beside the way from a leaf to the root, the nearest to the leaf first: the audit path of RFC 6962,
/// section 2.1.1. `None` if there is no such leaf.
pub(crate) fn path(leaves: &[Digest], index: usize) -> Option<Vec<Digest>> {
    if index >= leaves.len() {
        return None;
    }
    let (mut path, mut leaves, mut index) = (Vec::new(), leaves, index);
    while leaves.len() > 1 {
        let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
        let (own, beside, at) =
            if index < left.len() { (left, right, index) } else { (right, left, index - left.len()) };
        path.push(root_of(beside)?);
        (leaves, index) = (own, at);
    }
    path.reverse();
    Some(path)
}

fn root_of(leaves: &[Digest]) -> Option<Digest> {
    let mut tree = Tree::default();
    leaves.iter().for_each(|digest| tree.push(digest));
    tree.root()
}

/// The root of the tree of `count` leaves in which this digest is leaf `index`, if the path says so: the counterpart of
/// [`path`], as RFC 9162 writes it down in section 2.1.3.2. `None` if the path is not as long as it has to be.
pub(crate) fn root_by(digest: &Digest, index: u64, count: u64, path: &[Digest]) -> Option<Digest> {
    if index >= count {
        return None;
    }
    let (mut at, mut last, mut root) = (index, count - 1, leaf(digest));
    for beside in path {
        if last == 0 {
            return None;
        }
        if at % 2 == 1 || at == last {
            root = node(beside, &root);
            // The last node of a level goes up alone until it is a right one.
            while at.is_multiple_of(2) && at != 0 {
                (at, last) = (at / 2, last / 2);
            }
        } else {
            root = node(&root, beside);
        }
        (at, last) = (at / 2, last / 2);
    }
    (last == 0).then_some(root)
}

fn leaf(digest: &Digest) -> Digest {
    Digest::of_parts(&[0], &digest.0)
}

fn node(left: &Digest, right: &Digest) -> Digest {
    let mut children = [0; 64];
    children[..32].copy_from_slice(&left.0);
    children[32..].copy_from_slice(&right.0);
    Digest::of_parts(&[1], &children)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(count: u8) -> Vec<Digest> {
        (0..count).map(|number| Digest([number; 32])).collect()
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
        assert_eq!(root_of(&[]), None);
        for count in 1..=70 {
            let digests = digests(count);
            assert_eq!(root_of(&digests), Some(defined(&digests)), "{count} leaves");
        }
    }

    #[test]
    fn every_path_leads_to_the_root_and_nowhere_else() {
        for count in 1..=40_u8 {
            let digests = digests(count);
            let root = root_of(&digests);
            for (index, at) in (0..count).map(|index| (usize::from(index), u64::from(index))) {
                let path = path(&digests, index).unwrap();
                let by = |digest: &Digest, at, count, path: &[Digest]| root_by(digest, at, count, path);
                assert_eq!(by(&digests[index], at, count.into(), &path), root, "leaf {index} of {count}");
                for (wrong, wrong_index) in digests.iter().zip(0_u64..).filter(|(_, wrong)| *wrong != at) {
                    assert_ne!(by(wrong, at, count.into(), &path), root, "another leaf");
                    assert_ne!(by(&digests[index], wrong_index, count.into(), &path), root, "another place");
                }
                for flipped in 0..path.len() {
                    let mut wrong = path.clone();
                    wrong[flipped].0[7] ^= 1;
                    assert_ne!(by(&digests[index], at, count.into(), &wrong), root, "step {flipped}");
                }
                let longer = [path.as_slice(), &[Digest([9; 32])]].concat();
                assert_eq!(by(&digests[index], at, count.into(), &longer), None);
                assert_eq!(
                    path.split_last().and_then(|(_, shorter)| by(&digests[index], at, count.into(), shorter)),
                    None
                );
            }
            assert_eq!(
                (path(&digests, count.into()), root_by(&digests[0], count.into(), count.into(), &[])),
                (None, None)
            );
        }
    }

    /// Made with `printf` and `sha256sum`: two leaves of 32 zero bytes and 32 bytes 0x01.
    #[test]
    fn the_hashes_are_those_of_stock_tools() {
        let expected = Digest::from_hex(b"28fb81e496897e0ce886f08602392e9239b65c659041e5202163e58ad898f444").unwrap();
        assert_eq!(root_of(&digests(2)), Some(expected));
    }
}
