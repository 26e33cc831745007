//! What the system refused, in the words of the protocol.

use std::io;

use super::error::{ErrorCode, WireError};
use crate::os::errors;
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
        let mut wire = WireError::new(code, error.to_string()).reason(reason);
        if let Some(remedy) = error.remedy() {
            wire = wire.with("remedy", remedy);
        }
        match error {
            PathError::Io { path, source, .. } => {
                let wire = wire.with("path", path.display().to_string());
                match errors::name(source) {
                    Some(name) => wire.with("errno", name),
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
    let kind = error.kind();
    if matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge) {
        return ErrorCode::StorageFull;
    }
    if errors::is_exhausted(error) {
        return ErrorCode::Capacity;
    }
    if kind == io::ErrorKind::PermissionDenied { ErrorCode::Denied } else { ErrorCode::StorageFailed }
}

/// The code for something else that the system refused: a lack of space, descriptors or memory has a code of its own everywhere.
pub fn lack_or(error: &io::Error, otherwise: ErrorCode) -> ErrorCode {
    let code = storage_code(error);
    if matches!(code, ErrorCode::StorageFull | ErrorCode::Capacity) { code } else { otherwise }
}

/// As [`lack_or`], for a process or a thread that the system did not give. Of those it says EAGAIN where there are too many.
pub fn no_process_or(error: &io::Error, otherwise: ErrorCode) -> ErrorCode {
    if error.kind() == io::ErrorKind::WouldBlock { ErrorCode::Capacity } else { lack_or(error, otherwise) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;

    #[test]
    fn the_system_speaks_with_path_and_errno() {
        let case = |errno: Errno| WireError::from(PathError::io("make", "/ro/root", io::Error::from(errno)));
        let read_only = case(Errno::EROFS);
        assert_eq!(read_only.code, ErrorCode::StorageFailed);
        assert_eq!((&read_only.data["path"], &read_only.data["errno"]), (&"/ro/root".into(), &"EROFS".into()));
        assert!(read_only.message.contains("/ro/root") && read_only.message.contains("read-only"));
        for full in [Errno::ENOSPC, Errno::EDQUOT, Errno::EFBIG] {
            assert_eq!(case(full).code, ErrorCode::StorageFull);
        }
        for lack in [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM] {
            assert_eq!(case(lack).code, ErrorCode::Capacity);
            assert_eq!(lack_or(&lack.into(), ErrorCode::BrokerBlocked), ErrorCode::Capacity);
        }
        assert_eq!(lack_or(&Errno::ENOSPC.into(), ErrorCode::BrokerBlocked), ErrorCode::StorageFull);
        assert_eq!(lack_or(&Errno::ENOLCK.into(), ErrorCode::BrokerBlocked), ErrorCode::BrokerBlocked);
        for lack in [Errno::EAGAIN, Errno::ENOMEM] {
            assert_eq!(no_process_or(&lack.into(), ErrorCode::Internal), ErrorCode::Capacity);
        }
        assert_eq!(no_process_or(&Errno::ENOENT.into(), ErrorCode::Internal), ErrorCode::Internal);
        assert_eq!(case(Errno::EPERM).code, ErrorCode::Denied);
        assert_eq!(case(Errno::EACCES).code, ErrorCode::Denied);
    }
}
