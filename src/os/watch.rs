//! Word that something in a folder has changed, for whoever follows what another process writes there.
//!
//! Promises: no change is missed for longer than two seconds, also where the system tells nothing (another system than Linux, a file
//! system that does not report, no watch to be had); no wait outlasts its deadline.

use std::path::Path;
use std::time::Duration;

use super::deadline::Deadline;

/// How long nothing is heard before a look is due anyway.
pub const LOOK_ANYWAY: Duration = Duration::from_secs(2);
#[cfg(not(target_os = "linux"))]
const POLL_EVERY: Duration = Duration::from_millis(500);

/// A folder that is watched.
#[derive(Debug)]
pub struct FolderWatch {
    #[cfg(target_os = "linux")]
    inotify: Option<nix::sys::inotify::Inotify>,
}

#[cfg(target_os = "linux")]
impl FolderWatch {
    /// Watches the folder from here on. What changes before the first wait is not lost.
    pub fn of(folder: &Path) -> FolderWatch {
        use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
        let changes = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
        let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
        let inotify = Inotify::init(flags).and_then(|inotify| inotify.add_watch(folder, changes).map(|_| inotify));
        // Watches of a user are limited; without one it is looked every so often.
        FolderWatch { inotify: inotify.ok() }
    }

    /// Waits until something has changed, or a look is due anyway; says whether there is time for it.
    pub fn wait(&self, deadline: Deadline) -> bool {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        use std::os::fd::AsFd;
        // The system waits whole milliseconds; less than the last one would not wait at all.
        let wait = deadline.remaining().min(LOOK_ANYWAY) + Duration::from_millis(1);
        let wait = PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX);
        let mut fds: Vec<PollFd<'_>> =
            self.inotify.iter().map(|inotify| PollFd::new(inotify.as_fd(), PollFlags::POLLIN)).collect();
        match poll(&mut fds, wait) {
            // A signal is a reason to look, too.
            Ok(_) | Err(_) => {}
        }
        while self.inotify.as_ref().is_some_and(|inotify| inotify.read_events().is_ok_and(|events| !events.is_empty()))
        {
        }
        !deadline.has_passed()
    }
}

#[cfg(not(target_os = "linux"))]
impl FolderWatch {
    /// Here nothing tells.
    pub fn of(_: &Path) -> FolderWatch {
        FolderWatch {}
    }

    /// Waits until a look is due; says whether there is time for it.
    pub fn wait(&self, deadline: Deadline) -> bool {
        super::deadline::Pauses::new(POLL_EVERY, POLL_EVERY).pause(deadline)
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn a_change_ends_the_wait() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("a");
        std::fs::write(&file, "1").unwrap();
        let watch = FolderWatch::of(home.path());
        let inotify = watch.inotify.as_ref().unwrap();
        let is_told = || inotify.read_events().is_ok_and(|events| !events.is_empty());
        assert!(!is_told());
        std::fs::write(&file, "2").unwrap();
        assert!(watch.wait(Deadline::after(Duration::from_secs(60))) && !is_told(), "the wait takes the word with it");
        std::fs::write(home.path().join("b"), "").unwrap();
        assert!(is_told());
        assert!(!watch.wait(Deadline::after(Duration::ZERO)));
    }

    #[test]
    fn without_a_watch_it_is_looked_anyway() {
        let watch = FolderWatch::of(Path::new("/no/such/folder"));
        assert!(watch.inotify.is_none());
        assert!(!watch.wait(Deadline::after(Duration::from_millis(1))));
    }
}
