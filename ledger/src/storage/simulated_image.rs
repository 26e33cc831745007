//! The images of a simulated disk: what a file or folder shows, what the disk has, and the changes between the two.

use std::collections::BTreeMap;

use super::Folder;

#[derive(Default)]
pub(super) struct Inode {
    pub(super) visible: Vec<u8>,
    pub(super) durable: Vec<u8>,
    /// What the durable image lacks, in order. A failed sync drops it from here, never from `visible`.
    pub(super) unsynced: Vec<Change>,
    /// Up to here blocks are reserved, and how much of that the disk knows.
    pub(super) reserved: usize,
    pub(super) reserved_durable: usize,
    /// Durable as soon as it is set.
    pub(super) sealed: bool,
}

#[derive(Clone)]
pub(super) enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

#[derive(Clone)]
pub(super) enum NameChange {
    Create(String, usize),
    Rename(String, String),
    Unlink(String),
}

pub(super) struct InFlight {
    pub(super) inode: usize,
    pub(super) offset: usize,
    pub(super) len: usize,
    /// What was visible from `offset` on.
    pub(super) before: Vec<u8>,
}

impl Inode {
    /// What it takes up of the disk.
    pub(super) fn len(&self) -> usize {
        self.visible.len().max(self.reserved)
    }
}

impl Change {
    pub(super) fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Change::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if image.len() < end {
                    image.resize(end, 0);
                }
                image[*offset..end].copy_from_slice(bytes);
            }
            Change::Truncate(len) => image.resize(*len, 0),
        }
    }
}

impl NameChange {
    pub(super) fn apply(&self, folder: Folder, names: &mut BTreeMap<(Folder, String), usize>) {
        match self {
            NameChange::Create(name, inode) => {
                names.insert((folder, name.clone()), *inode);
            }
            NameChange::Rename(from, to) => {
                if let Some(inode) = names.remove(&(folder, from.clone())) {
                    names.insert((folder, to.clone()), inode);
                }
            }
            NameChange::Unlink(name) => {
                names.remove(&(folder, name.clone()));
            }
        }
    }
}
