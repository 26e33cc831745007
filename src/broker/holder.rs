//! The broker lock as seen from outside. Looking never takes the lock, not for an instant: a prober that held it would
//! make a starter lose.

use std::io;

use crate::os::identity::Liveness;
use crate::os::locks::lock_holder;
use crate::os::paths::StateRoot;
use crate::rpc::wire::LockState;

use super::lock::LOCK_NAME;
use super::owner::{Left, RECORD_BYTES_MAX};

/// What can be said about the lock without taking it.
///
/// # Errors
/// If the state root cannot be looked into.
pub fn lock_state(root: &StateRoot) -> io::Result<LockState> {
    look(root).map(|(lock, _)| lock)
}

/// The same, and whether the owner of the lock lives and has said that it is on its way out.
///
/// # Errors
/// As [`lock_state`].
pub fn look(root: &StateRoot) -> io::Result<(LockState, bool)> {
    let folder = root.folder();
    let held = lock_holder(folder, LOCK_NAME)?.map(|holder| holder.is_held);
    let record = folder.read(LOCK_NAME, RECORD_BYTES_MAX);
    let left = record.map_or(Left::Unreadable, |bytes| Left::read(&bytes.unwrap_or_default()));
    let owner_lives = left.owner().and_then(|owner| match owner.identity.liveness() {
        Liveness::Alive => Some(true),
        Liveness::Dead => Some(false),
        // Another boot, another namespace, or hidden: its pid means nothing here.
        Liveness::Foreign | Liveness::Unknown => None,
    });
    let is_leaving = owner_lives == Some(true) && left.owner().is_some_and(|owner| owner.leaving && !owner.released);
    Ok((LockState { held, owner: left.owner().map(|owner| owner.document()), owner_lives }, is_leaving))
}
