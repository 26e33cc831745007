//! What a broker can find out before it asks another one for its place: whether this version reads what stands in the ledger.
//!
//! Promise: it takes no lock and changes nothing, so it may be done while the other one works.

use super::codec;
use super::fold::FoldError;
use super::start::{of_ledger, unreadable};
use crate::os::paths::StateRoot;
use crate::rpc::error::{ErrorCode, WireError};
use ostler_ledger::Records;
use ostler_ledger::storage::Disk;

/// Reads every record as a start of this version would.
///
/// # Errors
/// `integrity`, with the first record that this version does not understand. What is damaged is no reason: a start lives with that.
pub fn rehearse(root: &StateRoot) -> Result<(), WireError> {
    let storage = Disk::reading(root.path().join("ledger"));
    for found in Records::new(&storage) {
        let record = found.map_err(|error| of_ledger(root, WireError::new(ErrorCode::Integrity, error.to_string())))?;
        if let Err(why) = codec::event(&record) {
            return Err(of_ledger(root, unreadable(&FoldError::from(why))));
        }
    }
    Ok(())
}
