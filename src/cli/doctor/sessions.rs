//! Stray processes: such as carry the mark of an episode of this root whose host is gone. A broker ends them when it finds the host dead, so
//! they are left only where none has run since, or where they cannot be ended.

use std::ffi::OsStr;
use std::path::Path;

use super::Check;
use crate::host::{files, marker};
use crate::os::folder::Folder;
use crate::os::locks::lock_holder;
use crate::os::paths::StateRoot;
use crate::os::process::{self, State};

/// Most strays that are named.
const NAMED_MAX: usize = 5;

pub(super) fn strays(root: &StateRoot) -> Check {
    const CHECK: &str = "strays";
    let table = match process::all() {
        Ok(table) => table,
        Err(error) => return Check::skip(CHECK, format!("the process table cannot be read: {error}")),
    };
    let running = table.iter().filter(|row| row.state == State::Runs);
    let strays: Vec<u32> = running.map(|row| row.pid).filter(|pid| is_stray(*pid, root.path())).collect();
    if strays.is_empty() {
        return Check::ok(CHECK, "no process is left of an ended session");
    }
    let named: Vec<String> = strays.iter().take(NAMED_MAX).map(u32::to_string).collect();
    let evidence = format!("{} processes of ended sessions run on: pid {}", strays.len(), named.join(", "));
    Check::warn(CHECK, evidence, "ostler ensure: a broker ends what its dead hosts left; else end them by hand")
}

fn is_stray(pid: u32, root: &Path) -> bool {
    let prefix = format!("{}=", marker::COMMAND_VARIABLE);
    let mark = process::environment(pid).into_iter().flatten().find_map(|variable| {
        let variable = variable.into_string().ok()?;
        Some(variable.strip_prefix(&prefix)?.to_owned())
    });
    mark.is_some_and(|mark| !marker::is_ostler(pid) && is_of_dead_host(&mark, root))
}

/// Whether the mark names an episode of this root and nobody holds that episode's life lock.
fn is_of_dead_host(mark: &str, root: &Path) -> bool {
    let mut parts = mark.split('.');
    let (Some(session), Some(Ok(episode))) = (parts.next(), parts.next().map(str::parse)) else { return false };
    if !files::is_session_id(session) {
        return false;
    }
    let folder = files::episode_folder(root, session, episode);
    let ours = files::identity_at(&folder.join(files::LIFE_LOCK)).map(|lock| marker::of(session, episode, lock));
    if ours.ok().as_deref().map(OsStr::new) != Some(OsStr::new(mark)) {
        return false;
    }
    let holder = Folder::open(&folder).and_then(|folder| lock_holder(&folder, files::LIFE_LOCK));
    matches!(holder, Ok(Some(holder)) if !holder.is_held)
}
