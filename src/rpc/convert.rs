//! What the system refused, in the words of the protocol.

use std::io;

use nix::errno::Errno;

use super::error::{ErrorCode, WireError};
use crate::os::paths::PathError;

impl From<&PathError> for WireError {
    fn from(error: &PathError) -> WireError {
        let (code, reason) = match error {
            PathError::NoPlace => (ErrorCode::InvalidInput, "no_root"),
            PathError::NotAFolder { .. } => (ErrorCode::InvalidInput, "not_a_folder"),
            PathError::NotOurs { .. } => (ErrorCode::Denied, "not_ours"),
            PathError::OpenToOthers { .. } => (ErrorCode::Denied, "open_to_others"),
            PathError::Network { .. } => (ErrorCode::BrokerBlocked, "network_file_system"),
            PathError::SocketPath { .. } => (ErrorCode::BrokerBlocked, "socket_path"),
            PathError::NotText { .. } => (ErrorCode::BrokerBlocked, "not_text"),
            PathError::Io { source, .. } => (storage_code(source), "system"),
        };
        let wire = WireError::new(code, error.to_string()).reason(reason);
        match error {
            PathError::Io { path, source, .. } => {
                let wire = wire.with("path", path.display().to_string());
                match source.raw_os_error().map(Errno::from_raw) {
                    Some(errno) => wire.with("errno", format!("{errno:?}")),
                    None => wire,
                }
            }
            PathError::NoPlace
            | PathError::NotAFolder { .. }
            | PathError::NotOurs { .. }
            | PathError::OpenToOthers { .. }
            | PathError::Network { .. }
            | PathError::SocketPath { .. }
            | PathError::NotText { .. } => wire,
        }
    }
}

impl From<PathError> for WireError {
    fn from(error: PathError) -> WireError {
        WireError::from(&error)
    }
}

/// The code for a file operation that the system refused.
pub fn storage_code(error: &io::Error) -> ErrorCode {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG) => ErrorCode::StorageFull,
        Some(Errno::EACCES | Errno::EPERM) => ErrorCode::Denied,
        _ => ErrorCode::StorageFailed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_speaks_with_path_and_errno() {
        let case = |errno: Errno| WireError::from(PathError::io("make", "/ro/root", io::Error::from(errno)));
        let read_only = case(Errno::EROFS);
        assert_eq!(read_only.code, ErrorCode::StorageFailed);
        assert_eq!((&read_only.data["path"], &read_only.data["errno"]), (&"/ro/root".into(), &"EROFS".into()));
        assert!(read_only.message.contains("/ro/root") && read_only.message.contains("read-only"));
        assert_eq!(case(Errno::ENOSPC).code, ErrorCode::StorageFull);
        assert_eq!(case(Errno::EACCES).code, ErrorCode::Denied);
    }
}
