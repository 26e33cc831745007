//! What one broker leaves for the next, and for its clients: the owner record in the lock, the discovery record, the report of a start.

use crate::round_trip;
use ostler::broker::owner::Left;
use ostler::rpc::record::Record;
use ostler::rpc::report::Line;

/// The owner record. Whatever stands in the lock file is one of four things, and never stops a start.
pub fn owner_record(bytes: &[u8]) -> bool {
    let left = Left::read(bytes);
    if let Some(owner) = left.owner() {
        assert_eq!(Left::read(&owner.to_bytes()), left, "what is written is read the same");
    }
    left.owner().is_some()
}

/// The discovery record. Its token is in no debug output.
pub fn discovery_record(bytes: &[u8]) -> bool {
    let Some(record) = round_trip::<Record>(bytes) else { return false };
    let without = Record { token: String::new(), ..record.clone() };
    assert_eq!(format!("{record:?}"), format!("{without:?}"), "the token is shown");
    true
}

/// A line of the report pipe.
pub fn start_report(bytes: &[u8]) -> bool {
    let Some(line) = Line::read(bytes) else { return false };
    assert_eq!(Line::read(&line.to_bytes()), Some(line));
    true
}
