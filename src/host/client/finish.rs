//! Ends what a host left that died before its command, or a host that never finished its start. Signals go only to
//! processes whose identity is proved or that carry the episode's marker.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use nix::sys::signal::Signal;
use nix::unistd::geteuid;

use crate::host::files::{self, Document, HOST_JSON, LIFE_LOCK};
use crate::host::marker;
use crate::host::wire::{HostRecord, Survivor};
use crate::os::fail::{Point, pass};
use crate::os::signal::{Handle, Opened};

/// How long the kernel gets to take down what was killed.
const END_WITHIN_MS: u64 = 5_000;

/// After [`super::Verdict::HostDied`]: ends the command if its identity still lives, then its marked processes, and
/// removes the dead endpoint. Returns who is left. Blocks up to ten seconds; can be repeated.
///
/// # Errors
/// If the process table cannot be read, or the command lives and cannot be signalled.
pub fn finish_dead_host(record: &HostRecord) -> io::Result<Vec<Survivor>> {
    let mut survivors = Vec::new();
    pass(Point::FinishBegin);
    match Handle::open(&record.command)? {
        Opened::Process(command) => {
            command.send(Signal::SIGKILL)?;
            if !command.wait_end(END_WITHIN_MS)? {
                survivors.push(marker::survivor(record.command.pid));
            }
        }
        Opened::Gone | Opened::Foreign => {}
    }
    pass(Point::FinishKilled);
    let left = marker::end_all(|| marker::commands(&record.marker), END_WITHIN_MS)?;
    let left = left.iter().filter(|left| left.pid != record.command.pid);
    survivors.extend(left.map(|left| marker::survivor(left.pid)));
    remove_endpoint(record);
    pass(Point::FinishEnd);
    Ok(survivors)
}

/// After [`super::Verdict::StillStarting`] has lasted too long: ends the host found by its marker. Its fork on the way
/// to the command ends with it. Judge again afterwards.
///
/// # Errors
/// If `life.lock` cannot be looked at or the process table cannot be read.
pub fn end_starting_host(root: &Path, session: &str, episode: u32) -> io::Result<Vec<Survivor>> {
    let lock = files::identity_at(&files::episode_folder(root, session, episode).join(LIFE_LOCK))?;
    let mark = marker::of(session, episode, lock);
    let left = marker::end_all(|| marker::hosts(&mark), END_WITHIN_MS)?;
    Ok(left.iter().map(|left| marker::survivor(left.pid)).collect())
}

/// Removes the sockets that dead hosts of a session have left. One that is killed after its command has ended leaves its socket, and nobody asks
/// after it any more.
pub(super) fn remove_endpoints(root: &Path, session: &str) {
    let entries = fs::read_dir(files::session_folder(root, session)).into_iter().flatten().flatten();
    for entry in entries {
        let record: Document<HostRecord> = files::read_json(&entry.path().join(HOST_JSON));
        if let Document::Present(record) = record
            && record.session == session
        {
            remove_endpoint(&record);
        }
    }
}

/// Removes the socket of a host that is dead; its name is the episode's alone.
fn remove_endpoint(record: &HostRecord) {
    let Some(path) = record.endpoint.address.strip_prefix("unix:").map(Path::new) else {
        return;
    };
    let is_ours = |metadata: fs::Metadata| metadata.file_type().is_socket() && metadata.uid() == geteuid().as_raw();
    if fs::symlink_metadata(path).is_ok_and(is_ours) {
        // Debris, bounded by the number of episodes; the next host of that name removes it too.
        drop(fs::remove_file(path));
    }
}
