//! How a simulated machine crashes. A kill leaves the page cache and tears at most the write in flight, on a page of the
//! file. A power loss leaves the durable image and any part of what was not synced: prefixes, sectors, size without data.

use super::Folder;
use super::simulated::SimulatedDisk;
use super::simulated_image::{Change, InFlight, Inode};
use super::simulated_world::World;

/// The kind of a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// `kill -9`: same boot. Only the last call, if it was a write, can be torn.
    Kill,
    /// The machine lost power: give the next opening another boot id.
    PowerLoss,
}

const PAGE_BYTES: usize = 4096;
const SECTOR_BYTES: usize = 512;

impl SimulatedDisk {
    /// Ends every process and decides, by the seed alone, what the next one finds.
    pub fn crash(&self, crash: Crash, seed: u64) {
        let mut world = self.world();
        let mut random = Random(seed);
        match crash {
            Crash::Kill => world.tear_in_flight(&mut random),
            Crash::PowerLoss => world.lose_power(&mut random),
        }
        world.end_process();
    }
}

impl World {
    fn tear_in_flight(&mut self, random: &mut Random) {
        let Some(InFlight { inode, offset, len, before }) = self.in_flight.take() else { return };
        let end = offset + len;
        let pages = (offset / PAGE_BYTES + 1..=end / PAGE_BYTES).map(|page| page * PAGE_BYTES);
        let cuts: Vec<usize> = std::iter::once(offset).chain(pages).chain(std::iter::once(end)).collect();
        let cut = cuts[random.below(cuts.len())];
        let inode = &mut self.inodes[inode];
        // Bytes from the cut on are as they were before the write; a write that grew the file has not grown it so far.
        let kept = cut - offset;
        inode.visible.truncate(offset + before.len().max(kept));
        if let Some(old) = before.get(kept..) {
            inode.visible.truncate(cut);
            inode.visible.extend_from_slice(old);
        }
        if let Some(Change::Write { bytes, .. }) = inode.unsynced.last_mut() {
            bytes.truncate(kept);
        }
    }

    fn lose_power(&mut self, random: &mut Random) {
        for inode in &mut self.inodes {
            inode.lose_power(random);
        }
        // Folders are journaled: their changes reach the disk in order, each folder's by itself.
        for folder in [Folder::Ledger, Folder::Quarantine, Folder::Archive] {
            let changes = self.unsynced_names.iter().filter(|(of, _change)| *of == folder);
            let kept = random.below(changes.clone().count() + 1);
            for (_of, change) in changes.take(kept) {
                change.apply(folder, &mut self.durable_names);
            }
        }
        self.unsynced_names.clear();
        self.visible_names = self.durable_names.clone();
    }
}

impl Inode {
    fn lose_power(&mut self, random: &mut Random) {
        let unsynced = std::mem::take(&mut self.unsynced);
        let synced_len = self.durable.len();
        match random.below(6) {
            0 => {}
            1 => unsynced.iter().for_each(|change| change.apply(&mut self.durable)),
            2 => self.keep_prefix(&unsynced, random),
            3 => self.keep_sectors(&unsynced, random),
            4 => {
                // Size without data: what lies beyond the old end reads as zeros.
                unsynced.iter().for_each(|change| change.apply(&mut self.durable));
                self.durable.iter_mut().skip(synced_len).for_each(|byte| *byte = 0);
            }
            _ => {
                // Data without size.
                unsynced.iter().for_each(|change| change.apply(&mut self.durable));
                self.durable.truncate(synced_len);
            }
        }
        self.visible = self.durable.clone();
        self.reserved = self.reserved_durable;
    }

    fn keep_prefix(&mut self, unsynced: &[Change], random: &mut Random) {
        let whole = random.below(unsynced.len() + 1);
        unsynced[..whole].iter().for_each(|change| change.apply(&mut self.durable));
        if let Some(Change::Write { offset, bytes }) = unsynced.get(whole) {
            let kept = random.below(bytes.len() + 1);
            Change::Write { offset: *offset, bytes: bytes[..kept].to_vec() }.apply(&mut self.durable);
        }
    }

    /// Each 512-byte sector of the file that was touched is kept or not; lengths are.
    fn keep_sectors(&mut self, unsynced: &[Change], random: &mut Random) {
        let mut full = self.durable.clone();
        unsynced.iter().for_each(|change| change.apply(&mut full));
        self.durable.resize(full.len(), 0);
        for (old, new) in self.durable.chunks_mut(SECTOR_BYTES).zip(full.chunks(SECTOR_BYTES)) {
            if random.below(2) == 0 {
                old.copy_from_slice(new);
            }
        }
    }
}

/// SplitMix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    /// A number below `bound`, which is above 0.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let bound = u64::try_from(bound).expect("a small bound");
        usize::try_from(mixed % bound).expect("below a usize")
    }
}
