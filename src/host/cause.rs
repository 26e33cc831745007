//! What kept a command from coming up, in three kinds that a caller can act on: name another one, change its mode, or read the reason.

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

/// The kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// There is none of that name.
    NotFound,
    /// It may not be executed, or entered.
    Denied,
    /// Anything else.
    Other,
}

impl Cause {
    /// What an error of the system means for what was named.
    #[must_use]
    pub fn of(errno: Errno) -> Cause {
        let is_missing = matches!(errno, Errno::ENOENT | Errno::ENOTDIR);
        let is_denied = matches!(errno, Errno::EACCES | Errno::EPERM);
        match (is_missing, is_denied) {
            (true, _) => Cause::NotFound,
            (false, true) => Cause::Denied,
            (false, false) => Cause::Other,
        }
    }
}
