//! What nobody can do without: the disk's part of an append, and the blocks of SHA-256 that the format demands. A row that
//! misses its goal is held against these, in the same run, to tell what was left undone from what cannot be done.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ostler_ledger::limits::SEGMENT_BYTES;
use sha2::block_api::compress256;
use sha2::{Digest as _, Sha256};

use crate::at;

/// A file that grows as a segment does: to 8 MiB, then a new one, and the folder is synced.
pub(crate) struct Raw {
    folder: PathBuf,
    file: File,
    number: u32,
    end: u64,
}

impl Raw {
    pub(crate) fn new(folder: &Path) -> Result<Raw, String> {
        at("the floor's folder", std::fs::create_dir_all(folder))?;
        let file = at("the floor's file", File::create(folder.join("0")))?;
        Ok(Raw { folder: folder.to_owned(), file, number: 0, end: 0 })
    }

    /// Appends and returns once it is durable.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), String> {
        let begins = self.end >= SEGMENT_BYTES;
        if begins {
            self.number += 1;
            self.file = at("the floor's file", File::create(self.folder.join(self.number.to_string())))?;
            self.end = 0;
        }
        at("the floor's write", self.file.write_all_at(bytes, self.end))?;
        self.end += u64::try_from(bytes.len()).unwrap_or(0);
        at("the floor's sync", self.file.sync_data())?;
        if begins {
            at("the floor's folder", File::open(&self.folder).and_then(|folder| folder.sync_all()))?;
        }
        Ok(())
    }
}

/// A file that was filled and synced ahead, and is written over from its beginning again and again: its blocks and its length
/// never change, so the file system's journal has nothing to do.
pub(crate) struct Filled {
    file: File,
    end: u64,
}

impl Filled {
    pub(crate) fn new(path: &Path) -> Result<Filled, String> {
        let file = at("the filled file", File::create(path))?;
        let line_feeds = vec![b'\n'; usize::try_from(SEGMENT_BYTES).unwrap_or(0)];
        at("the filled file", file.write_all_at(&line_feeds, 0).and_then(|()| file.sync_all()))?;
        Ok(Filled { file, end: 0 })
    }

    /// Writes behind what was written last, and returns once it is durable.
    pub(crate) fn overwrite(&mut self, bytes: &[u8]) -> Result<(), String> {
        let length = u64::try_from(bytes.len()).unwrap_or(0);
        if self.end + length > SEGMENT_BYTES {
            self.end = 0;
        }
        at("the filled file's write", self.file.write_all_at(bytes, self.end))?;
        self.end += length;
        at("the filled file's sync", self.file.sync_data())
    }
}

/// The digest of the record in a line without its LF, as the format defines it.
pub(crate) fn record_digest(line: &[u8]) -> [u8; 32] {
    let r = line.get(76..line.len().saturating_sub(1)).unwrap_or(line);
    Sha256::new().chain_update(b"ledger-record-v1\n").chain_update(r).finalize().into()
}

/// The tree over the digests of a segment: a block for each leaf and two for each node, and nothing that could be saved.
#[derive(Default)]
pub(crate) struct Tree {
    count: u64,
    peaks: Vec<[u8; 32]>,
}

impl Tree {
    pub(crate) fn push(&mut self, digest: &[u8; 32]) {
        let mut root = leaf(digest);
        for _level in 0..self.count.trailing_ones() {
            root = node(&self.peaks.pop().unwrap_or_default(), &root);
        }
        self.peaks.push(root);
        self.count += 1;
    }

    /// So that nothing of it is left out as unused.
    pub(crate) fn mixed(&self) -> u8 {
        self.peaks.iter().fold(0, |mixed, peak| mixed ^ peak[0])
    }
}

/// Hashes what a batch of lines demands.
pub(crate) fn digests(tree: &mut Tree, lines: &[&[u8]]) -> u8 {
    lines.iter().for_each(|line| tree.push(&record_digest(&line[..line.len() - 1])));
    std::hint::black_box(tree.mixed())
}

/// What SHA-256 begins with.
const START: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

fn leaf(digest: &[u8; 32]) -> [u8; 32] {
    let mut block = [0; 64];
    block[1..33].copy_from_slice(digest);
    finish(START, block, 33, 33)
}

fn node(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    let (mut state, mut block, mut rest) = (START, [0; 64], [0; 64]);
    block[0] = 1;
    block[1..33].copy_from_slice(left);
    block[33..].copy_from_slice(&right[..31]);
    compress256(&mut state, &[block]);
    rest[0] = right[31];
    finish(state, rest, 1, 65)
}

/// The last block, which holds `filled` bytes of a message of `length`.
fn finish(mut state: [u32; 8], mut block: [u8; 64], filled: usize, length: u64) -> [u8; 32] {
    block[filled] = 0x80;
    block[56..].copy_from_slice(&(length * 8).to_be_bytes());
    compress256(&mut state, &[block]);
    let mut digest = [0; 32];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::{Tree, leaf, node};
    use sha2::{Digest as _, Sha256};

    fn plain(parts: &[&[u8]]) -> [u8; 32] {
        Sha256::digest(parts.concat()).into()
    }

    #[test]
    fn the_floor_hashes_what_the_format_demands() {
        let digests: [[u8; 32]; 3] = [[1; 32], [2; 32], [3; 32]];
        let [a, b, c] = digests.map(|digest| leaf(&digest));
        assert_eq!(a, plain(&[&[0], &digests[0]]));
        assert_eq!(node(&a, &b), plain(&[&[1], &a, &b]));
        let mut tree = Tree::default();
        digests.iter().for_each(|digest| tree.push(digest));
        assert_eq!(tree.peaks, [node(&a, &b), c]);
    }
}
