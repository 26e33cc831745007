//! Snapshots of the state: their stored form, and one on its way to the disk.
//!
//! A snapshot is a cache (law 1): a start that cannot use one replays the history and comes to the same. The form has a name with a
//! version; under another name it is not read. So a broker of another version replays once.
//!
//! The payload is a JSON text and then, right behind it, the footprints as bytes, which are not looked at before a key is asked for. That
//! they are those that this version wrote, the payload's sum and the name of the form say.

use crate::machine::limits::Retention;
use crate::machine::{Counted, SessionId, State, Stored};
use crate::os::build::build;
use ostler_ledger::{SnapshotDraft, SnapshotError, Storage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Name and version of the fold: the number changes with the stored form, the rest with what records may mean.
pub static FOLD: LazyLock<String> = LazyLock::new(|| format!("ostler-state-8/{}", build().version));

/// A state, and what goes with it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Payload<S> {
    /// Sessions whose records are damaged or missing.
    pub(super) doubtful: BTreeSet<SessionId>,
    pub(super) state: S,
}

/// The state as of a durable turn, to be written by whoever has the time.
#[derive(Debug)]
pub struct Snapshot {
    pub(super) draft: SnapshotDraft,
    pub(super) state: State,
    pub(super) doubtful: BTreeSet<SessionId>,
}

impl Snapshot {
    /// Writes it through a door of its own to the ledger's folders. Returns how many bytes it has.
    ///
    /// # Errors
    /// [`SnapshotError`]: the snapshots of before stay.
    pub fn write<S: Storage>(self, storage: &S) -> Result<u64, SnapshotError> {
        let payload = encode(&self.state, self.doubtful);
        self.draft.write(storage, &payload)?;
        Ok(u64::try_from(payload.len()).unwrap_or(u64::MAX))
    }
}

fn encode(state: &State, doubtful: BTreeSet<SessionId>) -> Vec<u8> {
    let mut footprints = Vec::new();
    let payload = Payload { doubtful, state: state.stored_apart(&mut footprints) };
    let mut bytes = serde_json::to_vec(&payload).expect("a state has string keys and no floats");
    bytes.append(&mut footprints);
    bytes
}

/// The state and the doubtful sessions that were encoded.
pub(super) fn decode(payload: &[u8], retention: Retention) -> Result<(State, BTreeSet<SessionId>), String> {
    let mut text = serde_json::Deserializer::from_slice(payload).into_iter::<Payload<Stored<Counted>>>();
    let Payload { doubtful, state } = text.next().ok_or("it is empty")?.map_err(|error| error.to_string())?;
    let state = state.state(retention, &payload[text.byte_offset()..]).map_err(|rule| rule.to_string())?;
    let state = state.ok_or("other limits of what is kept held when it was taken")?;
    Ok((state, doubtful))
}
