//! The owner record: what a starter writes into `broker.lock` once it holds it. It explains and is evidence; it decides
//! nothing. Who holds the lock is the kernel's to say (law 10).

use serde::{Deserialize, Serialize};

use crate::os::identity::ProcessIdentity;
use crate::rpc::wire::{OwnerRecord, Timestamp};

/// Longest record that is looked at, bytes. Ours has a few hundred.
pub const RECORD_BYTES_MAX: u64 = 64 * 1024;

/// Version of the record written here. Readers take what they know of any version.
const VERSION: u32 = 1;

/// One owner of the lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Version of the record.
    pub v: u32,
    /// The process.
    pub identity: ProcessIdentity,
    /// 64 random hex digits, drawn for this one acquisition.
    pub nonce: String,
    /// Product version.
    pub version: String,
    /// When it got the lock.
    pub acquired_at: Timestamp,
    /// The clean-release mark: it left in order and owes nothing.
    pub released: bool,
    /// It is on its way out: it takes no new work, and soon nothing is published any more.
    #[serde(default, skip_serializing_if = "is_not")]
    pub leaving: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
fn is_not(mark: &bool) -> bool {
    !mark
}

/// What an owner left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing: the file is new.
    Nothing,
    /// A record with the clean-release mark.
    InOrder(Owner),
    /// A record without it: the owner died.
    Dead(Owner),
    /// Bytes that are no record: torn, filled with NUL, or not ours.
    Unreadable,
}

impl Owner {
    /// The record of a new owner.
    pub fn new(identity: ProcessIdentity, nonce: String, version: &str, acquired_at: Timestamp) -> Owner {
        Owner { v: VERSION, identity, nonce, version: version.to_owned(), acquired_at, released: false, leaving: false }
    }

    /// The record as stored: one line.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).expect("a record is plain data");
        bytes.push(b'\n');
        bytes
    }

    /// The record as `status` shows it.
    pub fn document(&self) -> OwnerRecord {
        OwnerRecord {
            pid: self.identity.pid,
            boot: self.identity.boot.clone(),
            ns: self.identity.ns,
            start: self.identity.start,
            version: self.version.clone(),
            acquired_at: self.acquired_at,
            released: self.released,
        }
    }
}

impl Left {
    /// Reads what stands in the lock file.
    pub fn read(bytes: &[u8]) -> Left {
        if bytes.is_empty() {
            return Left::Nothing;
        }
        match serde_json::from_slice::<Owner>(bytes) {
            Ok(owner) if owner.released => Left::InOrder(owner),
            Ok(owner) => Left::Dead(owner),
            Err(_) => Left::Unreadable,
        }
    }

    /// The record, where there is one.
    pub fn owner(&self) -> Option<&Owner> {
        match self {
            Left::InOrder(owner) | Left::Dead(owner) => Some(owner),
            Left::Nothing | Left::Unreadable => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        let identity = ProcessIdentity { boot: "b".into(), ns: 4_026_531_836, pid: 42, start: 7 };
        Owner::new(identity, "0a".repeat(32), "0.1.0", Timestamp::from_us(1))
    }

    #[test]
    fn the_stored_form_is_fixed() {
        let stored = format!(
            r#"{{"v":1,"identity":{{"boot":"b","ns":4026531836,"pid":42,"start":7}},"nonce":"{}","version":"0.1.0","acquired_at":"1970-01-01T00:00:00.000001Z","released":false}}{}"#,
            "0a".repeat(32),
            "\n"
        );
        assert_eq!(String::from_utf8(owner().to_bytes()).unwrap(), stored);
    }

    #[test]
    fn what_is_left_is_told_apart() {
        let bytes = owner().to_bytes();
        assert_eq!(Left::read(&bytes), Left::Dead(owner()));
        let released = Owner { released: true, ..owner() };
        assert_eq!(Left::read(&released.to_bytes()), Left::InOrder(released));
        assert_eq!(Left::read(b""), Left::Nothing);
        let leaving = Owner { leaving: true, ..owner() };
        assert_eq!(Left::read(&leaving.to_bytes()), Left::Dead(leaving));
        for torn in [&bytes[..bytes.len() / 2], &[0; 300], b"4711\n", b"{}", b"\n"] {
            assert_eq!(Left::read(torn), Left::Unreadable);
        }
        let mut later = serde_json::to_value(owner()).unwrap();
        later["v"] = 2.into();
        later["more"] = "said later".into();
        assert!(matches!(Left::read(later.to_string().as_bytes()), Left::Dead(owner) if owner.v == 2));
    }
}
