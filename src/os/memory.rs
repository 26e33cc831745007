//! Memory that was needed for a moment goes back to the system: a burst of long lines must not stay with a process for the rest of its life.
#![cfg_attr(all(target_os = "linux", target_env = "gnu"), expect(unsafe_code, reason = "mallopt has no safe wrapper"))]

/// From here on each piece of this size or more is asked of the system by itself, and given back when it is let go. The allocator would learn from
/// the first one that is let go, and keep the next ones. To be called before there is a second thread.
pub fn give_back_large_pieces() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// Far above what an ordinary request takes, far below the longest line.
        const LARGE_BYTES: nix::libc::c_int = 256 * 1024;
        // SAFETY: takes numbers, and changes how the allocator gets memory, not what it has given out.
        let taken = unsafe { nix::libc::mallopt(nix::libc::M_MMAP_THRESHOLD, LARGE_BYTES) };
        if taken == 0 {
            tracing::debug!("the allocator goes by its own rule");
        }
    }
}
