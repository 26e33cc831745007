//! The discovery record, `broker.json`: where the broker of a state root answers, and the owner's token.
//!
//! Promise to readers: it is replaced at once, so it is the old one, the new one or absent. A reader still takes nothing
//! in it on trust: it connects, says hello and compares.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

use super::wire::{Broker, RootId};
use crate::os::folder::{Folder, Kind};

/// Name of the record in the state root.
pub const RECORD_NAME: &str = "broker.json";
/// Longest record that is read, bytes.
const RECORD_BYTES_MAX: u64 = 64 * 1024;
/// Version of the record.
pub const SCHEMA: u32 = 1;

/// The discovery record.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Version of the record.
    pub schema: u32,
    /// The broker that published it.
    pub broker: Broker,
    /// Device and inode of the state root it was published in: a copied root is another one.
    pub root_id: RootId,
    /// The owner's bearer token.
    pub token: String,
}

/// The token stays out of logs.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("broker", &self.broker).field("root_id", &self.root_id).finish_non_exhaustive()
    }
}

/// What stands at the record's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Absent,
    /// Something that is no record of ours; why.
    Damaged(String),
    /// A record.
    Record(Box<Record>),
}

impl Record {
    /// The record as stored: one line.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).expect("a record is plain data");
        bytes.push(b'\n');
        bytes
    }
}

impl Found {
    /// The record, if it is one.
    pub fn record(self) -> Option<Record> {
        match self {
            Found::Record(record) => Some(*record),
            Found::Absent | Found::Damaged(_) => None,
        }
    }
}

/// Reads the record of the state root held by `root`.
///
/// # Errors
/// What keeps this process from reading at all; a bad record is [`Found::Damaged`].
pub fn read(root: &Folder) -> io::Result<Found> {
    let damaged = |why: &str| Ok(Found::Damaged(why.to_owned()));
    match root.look(RECORD_NAME)? {
        None => return Ok(Found::Absent),
        Some(there) if there.kind != Kind::File => return damaged("it is no file"),
        Some(there) if !there.is_private() => {
            return damaged(&format!("it belongs to uid {} and has mode {:04o}", there.uid, there.mode));
        }
        Some(_) => {}
    }
    let bytes = match root.read(RECORD_NAME, RECORD_BYTES_MAX) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(Found::Absent),
        // What it is, it is for everybody. An error of this process (no descriptor left) says nothing of the record.
        Err(error) if matches!(error.kind(), io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput) => {
            return damaged(&error.to_string());
        }
        Err(error) => return Err(error),
    };
    match serde_json::from_slice::<Record>(&bytes) {
        Ok(record) => Ok(Found::Record(Box::new(record))),
        Err(error) => damaged(&error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_no_record_is_said_and_never_trusted() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::open(home.path()).unwrap();
        let path = home.path().join(RECORD_NAME);
        assert_eq!(read(&folder).unwrap(), Found::Absent);
        for (bytes, reason) in [("", "EOF"), ("{\"schema\":1,\"bro", "EOF"), ("[]", "expected"), ("\0\0", "expected")] {
            let mut file = folder.create_file(RECORD_NAME).unwrap();
            file.write_all(bytes.as_bytes()).unwrap();
            assert!(matches!(read(&folder).unwrap(), Found::Damaged(why) if why.contains(reason)), "{bytes}");
            folder.remove_file(RECORD_NAME).unwrap();
        }
        std::fs::write(&path, "{}").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(read(&folder).unwrap(), Found::Damaged(why) if why.contains("mode 0644")));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(matches!(read(&folder).unwrap(), Found::Damaged(why) if why.contains("no file")));
    }
}
