//! Processes of live sessions that are stopped (SIGSTOP, a debugger, Ctrl-Z in a terminal). They hold their locks and look alive, and do nothing
//! until somebody lets them go on. Told by the process table of this machine, and only for whoever may read the host's record.

use std::path::Path;

use super::sessions;
use crate::host::files::{self, Document, HOST_JSON};
use crate::host::wire::HostRecord;
use crate::rpc::wire::Session;

/// A process that is stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frozen {
    what: &'static str,
    pid: u32,
}

/// The host of a session that lives, or else its command, if it is stopped.
pub(crate) fn of(root: &Path, session: &Session) -> Option<Frozen> {
    if sessions::is_live(session.status) { of_episode(root, &session.id, session.episode) } else { None }
}

/// The same of an episode whose session nobody has asked about. What has ended is not stopped.
pub(crate) fn of_episode(root: &Path, session: &str, episode: u32) -> Option<Frozen> {
    if !files::is_session_id(session) {
        return None;
    }
    let folder = files::episode_folder(root, session, episode);
    let Document::Present(record) = files::read_json::<HostRecord>(&folder.join(HOST_JSON)) else { return None };
    let processes = [("its host", &record.host), ("its command", &record.command)];
    let stopped = processes.into_iter().find(|(_, identity)| identity.is_stopped());
    stopped.map(|(what, identity)| Frozen { what, pid: identity.pid })
}

impl Frozen {
    /// What is so.
    pub(crate) fn says(&self) -> String {
        format!("{} (pid {}) is stopped and does nothing", self.what, self.pid)
    }

    /// What to type.
    pub(crate) fn remedy(&self) -> String {
        format!("kill -CONT {}", self.pid)
    }

    /// Both, for eyes.
    pub(crate) fn told(&self) -> String {
        format!("{} ({} lets it go on)", self.says(), self.remedy())
    }
}
