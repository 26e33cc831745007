//! Whether the segment that is written to is still the file of its name. Somebody may remove, replace or cut it under its writer,
//! whose writes succeed all the same, and nobody would ever find what they wrote.
//!
//! Promise: the moment before a batch is written, its file stood under its name with everything that was written to it. This is a look,
//! not a lock: what happens to the file in the next moment shows at the next look.

use std::io;

use super::{Active, AppendError, Ledger};
use crate::storage::Storage;

impl<S: Storage> Ledger<S> {
    /// Looks. Asked before each batch, and by whoever wants to know sooner. Everything is as before: a file that comes back is
    /// gone on with.
    ///
    /// # Errors
    /// [`AppendError::StorageFailed`] if what would be written now, or was before, could not be found under its name.
    pub fn stands(&self) -> Result<(), AppendError> {
        let (Some(active), Some(segment)) = (&self.active, self.past.segments.last()) else {
            return Ok(());
        };
        let file = segment.file();
        match active.standing(&self.storage, &file) {
            Standing::Whole => Ok(()),
            Standing::Elsewhere => Err(estranged(&format!("{file} was removed or replaced"))),
            Standing::Cut(len) => Err(estranged(&format!("{file} was cut to {len} of its {} bytes", active.end))),
        }
    }
}

/// How the open file stands to its name.
enum Standing {
    Whole,
    /// The name leads to another file or to none.
    Elsewhere,
    /// It is shorter than what was written to it.
    Cut(u64),
}

impl<F> Active<F> {
    fn standing<S: Storage<File = F>>(&self, storage: &S, file: &str) -> Standing {
        match storage.length_at(crate::segment::in_ledger(file), &self.file) {
            Ok(None) => Standing::Elsewhere,
            Ok(Some(len)) if len < self.end => Standing::Cut(len),
            // Bytes behind the end are nobody's, and whoever cannot look has seen nothing.
            Ok(Some(_)) | Err(_) => Standing::Whole,
        }
    }
}

fn estranged(what: &str) -> AppendError {
    let text = format!("{what} by somebody while it was written to; it goes on once that very file is back, whole");
    AppendError::StorageFailed(io::Error::other(text))
}
