//! What an error of the system means, where its kind in the standard library does not say enough.

use std::io;

use nix::errno::Errno;

use super::process::errno;

/// The error's own name (`EROFS`), where it has one.
pub fn name(error: &io::Error) -> Option<String> {
    errno(error).map(|errno| format!("{errno:?}"))
}

/// Whether the process or the machine is out of descriptors or memory: no evidence about what was asked for.
pub fn is_exhausted(error: &io::Error) -> bool {
    is_out_of_descriptors(error) || matches!(errno(error), Some(Errno::ENOBUFS | Errno::ENOMEM))
}

/// Whether the process or the machine is out of descriptors.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(errno(error), Some(Errno::EMFILE | Errno::ENFILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart() {
        let error = |errno: Errno| io::Error::from(errno);
        assert_eq!(name(&error(Errno::EROFS)).as_deref(), Some("EROFS"));
        assert_eq!(name(&io::Error::other("ours")), None);
        assert!(is_out_of_descriptors(&error(Errno::EMFILE)) && is_exhausted(&error(Errno::ENFILE)));
        assert!(is_exhausted(&error(Errno::ENOMEM)) && !is_out_of_descriptors(&error(Errno::ENOMEM)));
        assert!(!is_exhausted(&error(Errno::ECONNABORTED)));
    }
}
